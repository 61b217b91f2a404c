"""From an encoder's own parameter names to the canonical ones.

A convention is a table from the names that a family uses to the canonical paths below
a layer or the stack. Adding a family is adding a table. A mapping is linear, so that it
carries gradients as well as weights.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from encoder_spec.equation import equations

TORCH_NN = {
    "self_attn.in_proj_weight": "W_Q W_K W_V",
    "self_attn.in_proj_bias": "b_Q b_K b_V",
    "self_attn.q_proj_weight": "W_Q",
    "self_attn.k_proj_weight": "W_K",
    "self_attn.v_proj_weight": "W_V",
    "self_attn.out_proj.weight": "W_O",
    "self_attn.out_proj.bias": "b_O",
    "linear1.weight": "W_1",
    "linear1.bias": "b_1",
    "linear2.weight": "W_2",
    "linear2.bias": "b_2",
    "norm1.weight": "norm_1.gamma",
    "norm1.bias": "norm_1.beta",
    "norm2.weight": "norm_2.gamma",
    "norm2.bias": "norm_2.beta",
    "norm.weight": "norm_final.gamma",
    "norm.bias": "norm_final.beta",
}
"""The torch.nn family: maps are stored output × input, Q, K and V packed along the output."""

LAYER = re.compile(r"^(?:.*\.)?layers\.(\d+)\.(.+)$")


@dataclass(frozen=True)
class Source:
    """Where a canonical parameter comes from: which of ``parts`` equal parts of which weight."""

    name: str
    part: int = 0
    parts: int = 1
    transposed: bool = False

    def take(self, weights: Mapping[str, Tensor]) -> Tensor:
        """The canonical array (or its gradient) among the subject's own."""
        array = weights[self.name].chunk(self.parts)[self.part]
        return array.mT if self.transposed and array.ndim == 2 else array


@dataclass(frozen=True)
class ParameterMapping:
    """The source of every canonical parameter found, and the names that none was found for."""

    sources: Mapping[str, Source]
    unmapped: tuple[str, ...]
    convention: str

    def canonical(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The subject's weights, or their gradients, by canonical path."""
        return {path: source.take(weights) for path, source in self.sources.items()}

    def names_of(self, *letters: str) -> set[str]:
        """The subject's names for these canonical letters, in every layer."""
        return {s.name for path, s in self.sources.items() if path.rpartition(".")[2] in letters}


def map_parameters(weights: Mapping[str, Tensor]) -> ParameterMapping:
    """Map an encoder's weights by the convention that explains most of them."""
    return min(canonical_names(weights), by_table(weights, TORCH_NN, "torch.nn"), key=lambda m: len(m.unmapped))


def canonical_names(weights: Mapping[str, Tensor]) -> ParameterMapping:
    """Map weights that carry the specification's own paths, such as ``layers.0.norm_1.gamma``."""
    letters = {letter for e in equations().values() for letter in e.parameters}
    path = re.compile(rf"^(layers\.\d+\.)?(norm_\w+\.)?({'|'.join(letters)})$")
    return ParameterMapping(
        {name: Source(name) for name in weights if path.match(name)},
        tuple(name for name in weights if not path.match(name)),
        "canonical",
    )


def by_table(weights: Mapping[str, Tensor], table: Mapping[str, str], convention: str) -> ParameterMapping:
    """Map weights by a family's table; maps stored output × input are turned around."""
    sources: dict[str, Source] = {}
    unmapped = []
    layered = any(LAYER.match(name) for name in weights)
    for name in weights:
        found = LAYER.match(name)
        prefix, suffix = (f"layers.{found[1]}.", found[2]) if found else ("", name)
        if not found and not layered and not suffix.startswith("norm."):
            prefix = "layers.0."
        if not found and layered:
            suffix = ".".join(name.split(".")[-2:])
        paths = table.get(suffix, "").split()
        if not paths or ("norm_final" in paths[0]) == bool(prefix):
            unmapped.append(name)
        for part, path in enumerate(paths if name not in unmapped else ()):
            sources[prefix + path] = Source(name, part, len(paths), transposed=True)
    return ParameterMapping(sources, tuple(unmapped), convention)

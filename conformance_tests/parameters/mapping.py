"""From an encoder's own parameters to the canonical ones.

Names, shapes and neighbours say which part an array belongs to (``assignment``); shapes say how it is stored
(``storage``). What they leave open, such as the order in which Q, K and V are packed, is left to experiment:
``questions`` lists it. A mapping is affine, so that it carries gradients as well as weights; but for weights that the
encoder computes from several others, which have no gradient there.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor

from conformance_tests.parameters.assignment import Array, Part, assigned
from conformance_tests.parameters.evidence import IN_LAYER
from conformance_tests.parameters.names import common_owner
from conformance_tests.parameters.storage import Storage, Take, places
from encoder_spec.equation import STACKS, equations
from encoder_spec.equation import places as places_of_slots

OTHER_END = {"norm_final": "norm_embedding", "norm_embedding": "norm_final"}
"""The norms outside of the layers, each with the other one."""


@dataclass(frozen=True)
class Source:
    """The origin of a canonical parameter: weights, what to take of them, by what to multiply it, and what to add.

    Without any weight it is a constant of the encoder, such as γ = 1 of a norm without parameters. ``kept`` takes the
    entries that the encoder has, where zeros stand beside them. Where one layer is narrower than another, all of
    them count, and ``width`` is its own. If it ``is_computed`` from several weights, the encoder has no gradient by it.
    """

    names: tuple[str, ...]
    take: Callable[..., Tensor]
    times: float = 1.0
    plus: float = 0.0
    kept: Callable[..., Tensor] | None = None
    width: int | None = None
    is_computed: bool = False

    def made_of(self, stored: Tensor) -> Tensor:
        """Return the parameter that what is taken of the weights stands for."""
        scaled = stored if self.times == 1 else stored * self.times
        return scaled + self.plus if self.plus else scaled


@dataclass(frozen=True)
class ParameterMapping:
    """The source of every canonical parameter found, and the names that none was found for.

    ``guessed`` are the names whose part neither a name nor a shape tells; ``packing`` is how Q, K and V
    are stored together, if they are; ``heads`` is their number, where arrays tell it; ``spare`` are the names among
    those without a path that have no part in the output. ``tied`` has the paths of what stands at another path, too,
    each with that one.
    """

    sources: Mapping[str, Source]
    unmapped: tuple[str, ...]
    guessed: tuple[str, ...] = ()
    packing: str = ""
    heads: int = 0
    spare: tuple[str, ...] = ()
    tied: Mapping[str, str] = field(default_factory=dict)

    def canonical(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the subject's weights by canonical path."""
        return {path: self.at(path, weights) for path in self.sources}

    def at(self, path: str, weights: Mapping[str, Tensor]) -> Tensor:
        """Return the subject's weight at a canonical path."""
        source = self.sources[path]
        return source.made_of(source.take(*(weights[name] for name in source.names)))

    def with_gradients(self) -> dict[str, Source]:
        """Return the sources whose gradients the encoder has, by path: neither constants nor what is computed.

        If something else is computed of the same array, its gradient is the sum of both, and is left out too.
        """
        computed = {name for source in self.sources.values() if source.is_computed for name in source.names}
        return {p: s for p, s in self.sources.items() if s.names and computed.isdisjoint(s.names)}

    def stated(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the parameters that the encoder has, by canonical path, as it keeps them."""
        partly = {path: s.kept(*map(weights.__getitem__, s.names)) for path, s in self.sources.items() if s.kept}
        return {path: w for path, w in (self.canonical(weights) | partly).items() if not self.is_absent(path)}

    def with_constants(self, constants: Mapping[str, Tensor]) -> "ParameterMapping":
        """Return this mapping with these numbers of the encoder where no parameter was found."""
        added = {path: Source((), partial(torch.clone, value)) for path, value in constants.items()}
        return replace(self, sources=added | dict(self.sources))

    def with_one_segment(self) -> "ParameterMapping":
        """Return this mapping with the first row alone of its table of segments."""
        found = {path: replace(s, take=first_row(s.take)) for path, s in self.sources.items() if path == "E_seg"}
        return replace(self, sources=dict(self.sources) | found)

    def restricted(self, paths: Collection[str]) -> "ParameterMapping":
        """Return this mapping with these canonical paths alone; the others count as unmapped."""
        kept = {path: source for path, source in self.sources.items() if path in paths}
        used = {name for s in kept.values() for name in s.names}
        left = {name for s in self.sources.values() for name in s.names} - used
        return replace(self, sources=kept, unmapped=(*self.unmapped, *sorted(left)))

    def is_absent(self, path: str) -> bool:
        """Return whether the encoder has no such map, so that the identity stands in its place."""
        source = self.sources.get(path)
        if not path.endswith((".W_O", ".W_2")) or source is None or source.names:
            return False
        constant = source.take()
        return torch.equal(constant, torch.eye(len(constant), dtype=constant.dtype))

    def conventions(self) -> dict[str, str]:
        """Return how the parameters are stored, in words, where it is not as the equations write them."""
        found = {"Q, K, V": self.packing} if self.packing else {}
        gammas = {path.split(".")[-2]: s for path, s in self.sources.items() if path.endswith("gamma")}
        for place, source in gammas.items():
            if source.plus:
                found[place] = "γ is stored as γ − 1"
            if not source.names and bool((source.take() == 1).all()):
                found[place] = "no parameters: γ = 1"
        networks = {path.split(".")[1]: s for path, s in self.sources.items() if path.endswith(".W_1")}
        widths = {layer: source.width for layer, source in networks.items() if source.width}
        if widths:
            found["d_ff"] = ", ".join(f"{width} in layer {layer}" for layer, width in widths.items())
        for path, source in self.sources.items():
            if source.is_computed:
                found[path.rpartition(".")[2]] = "computed of several parameters, whose gradients are not compared"
        multiplied: dict[float, dict[str, None]] = {}
        for path, source in self.sources.items():
            if source.times != 1:
                multiplied.setdefault(source.times, {})[path.rpartition(".")[2]] = None
        return found | {", ".join(letters): f"multiplied by {n:.6g} where used" for n, letters in multiplied.items()}

    def names_of(self, *letters: str) -> set[str]:
        """Return the subject's names for these canonical letters, in every layer."""
        return {name for path, s in self.sources.items() if path.rpartition(".")[2] in letters for name in s.names}

    def names_at(self, *places: str) -> set[str]:
        """Return the subject's names for everything at places such as ``norm_1``, in every layer."""
        return {
            name for path, s in self.sources.items() if path.rpartition(".")[0].endswith(places) for name in s.names
        }


def canonical_names(weights: Mapping[str, Tensor], owner: str = "") -> ParameterMapping:
    """Map weights that carry the specification's paths, such as ``layers.0.norm_1.gamma``, behind an owner's name."""
    letters = {letter for e in equations().values() for letter in e.parameters}
    parts, stacks = "|".join(sorted(places_of_slots())), "|".join(STACKS)
    path = re.compile(rf"^{re.escape(owner)}((?:(?:{stacks})\.\d+\.)?(?:(?:{parts})\.)?(?:{'|'.join(letters)}))$")
    found = {name: path.match(name) for name in weights}
    return ParameterMapping(
        {match[1]: Source((name,), torch.Tensor.contiguous) for name, match in found.items() if match},
        tuple(name for name, match in found.items() if not match),
    )


def reading(
    weights: Mapping[str, Tensor], storage: Storage | None = None, stated: Mapping[str, str] | None = None
) -> ParameterMapping:
    """Map weights by what their author says, and by what names, shapes and neighbours speak for.

    Args:
        weights: the arrays by the subject's names.
        storage: what neither says.
        stated: canonical letter → the subject's name, with ``{l}`` for the layer; ``.T`` behind it if it is
            stored output × input.
    """
    owners = common_owner(weights)
    for end in range(len(owners) + 1):
        canonical = canonical_names(weights, "".join(f"{owner}." for owner in owners[:end]))
        if not canonical.unmapped:
            return canonical
    storage = storage or Storage()
    parts, width = assigned(weights, storage, stated or {})
    sources: dict[str, Source] = {}
    guesses: list[str] = []
    for part in parts:
        name = OTHER_END.get(part.part, part.part) if storage.outer_norm == "the other" else part.part
        for arrays, is_bias in ((part.arrays, False), (part.biases, True)):
            found = sources_of(name, arrays, is_bias, width, storage) if arrays else {}
            sources |= {path: source for path, source in found.items() if fits(source, weights)}
        guesses += [a.name for a in part.arrays if part.guessed]
    used = {name for source in sources.values() for name in source.names}
    packed = any(part.part == "QKV" for part in parts)
    mapping = ParameterMapping(
        sources,
        tuple(name for name in weights if name not in used),
        tuple(dict.fromkeys(guesses)),
        packing(storage) if packed else "",
        heads_told(parts, width),
    )
    return mapping.with_constants(norms_without_parameters(mapping, width))


def fits(source: Source, weights: Mapping[str, Tensor]) -> bool:
    """Return whether a parameter can be taken of its arrays: names may promise what shapes do not keep."""
    try:
        source.take(*(weights[name] for name in source.names))
    except (IndexError, RuntimeError):
        return False
    return True


def sources_of(part: str, arrays: Sequence[Array], is_bias: bool, width: int, storage: Storage) -> dict[str, Source]:
    """Return where canonical parameters come from: those that an array holds, or the arrays of all heads."""
    first = arrays[0]
    layer = f"layers.{first.layer}." if part in IN_LAYER else ""
    found = {}
    for letter, take in places(part, "bias" if is_bias else first.kind, first.shape, width, storage):
        plus = storage.plus if letter.endswith("gamma") else 0.0
        axis = 0 if is_bias or part == "O" else 1
        takes = [partial(taken, take, a.take) for a in arrays]
        whole = takes[0] if len(takes) == 1 else partial(side_by_side, takes, axis)
        found[layer + letter] = Source(tuple(a.name for a in arrays), whole, plus=plus)
    return found


def taken(take: Take, own: Take, array: Tensor) -> Tensor:
    """Take a canonical parameter of the array of a layer."""
    return take(own(array))


def side_by_side(takes: Sequence[Take], axis: int, *heads: Tensor) -> Tensor:
    """Take the same from the array of every head, and put the results side by side."""
    return torch.cat([take(w) for take, w in zip(takes, heads, strict=True)], dim=axis)


def heads_told(parts: Sequence[Part], width: int) -> int:
    """Return the number of heads, if the queries have an array or an index for each; else 0."""
    arrays = next((part.arrays for part in parts if part.part == "Q" and part.arrays), ())
    shape = arrays[0].shape if arrays else ()
    if len(arrays) == 1:
        return (shape[1] if shape[0] == width else shape[0]) if len(shape) == 3 and shape[-1] > 1 else 0
    return len(arrays)


def packing(storage: Storage) -> str:
    """Return how Q, K and V are stored together, in words."""
    return "packed head by head" if storage.by_head else f"packed in the order {', '.join(storage.order)}"


def first_row(take: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a function that takes the first row of what another one takes, as a table."""
    return lambda *held: take(*held)[:1]


def norms_without_parameters(mapping: ParameterMapping, width: int) -> dict[str, Tensor]:
    """Return γ = 1 for the norms of layers that have no parameters of any norm."""
    layers = {".".join(path.split(".")[:2]) for path in mapping.sources if path.startswith("layers.")}
    normed = {".".join(path.split(".")[:2]) for path in mapping.sources if ".norm_" in path}
    gamma = torch.ones(width, dtype=torch.float64)
    return {f"{layer}.{norm}.gamma": gamma for layer in sorted(layers - normed) for norm in ("norm_1", "norm_2")}


def absent_outputs(mapping: ParameterMapping, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return W_O = I for the layers that have W_V and no W_O, so that their computation is still understood."""
    values = {path.rpartition(".")[0]: path for path in mapping.sources if path.endswith(".W_V")}
    absent = {layer: path for layer, path in values.items() if f"{layer}.W_O" not in mapping.sources}
    found = {layer: mapping.sources[path] for layer, path in absent.items()}
    maps = {layer: source.take(*(weights[name] for name in source.names)) for layer, source in found.items()}
    return {
        f"{layer}.W_O": torch.eye(len(W_V), dtype=W_V.dtype)
        for layer, W_V in maps.items()
        if W_V.shape[0] == W_V.shape[1]
    }

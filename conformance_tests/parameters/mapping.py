"""From an encoder's own parameters to the canonical ones.

Names say which part an array belongs to (``parts``); shapes say how it is stored (``storage``).
What neither says, such as the order in which Q, K and V are packed, is left to experiment:
``questions`` lists it. A mapping is affine, so that it carries gradients as well as weights.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from conformance_tests.parameters.arrays import Piece, as_map, pieces, plain_statement, put_together
from conformance_tests.parameters.parts import Named, heads_told, packing, parts_of, survey
from conformance_tests.parameters.plain_names import shared_owner
from conformance_tests.parameters.shapes import hidden_width
from conformance_tests.parameters.storage import Storage, Take, places
from encoder_spec.equation import equations

OTHER_END = {"norm_final": "norm_embedding", "norm_embedding": "norm_final"}
"""The norms outside of the layers, each with the other one."""


@dataclass(frozen=True)
class Source:
    """Where a canonical parameter comes from: weights, what to take of them, and what to add.

    Without any weight it is a constant of the encoder, such as γ = 1 of a norm without parameters.
    """

    names: tuple[str, ...]
    take: Callable[..., Tensor]
    plus: float = 0.0


@dataclass(frozen=True)
class ParameterMapping:
    """The source of every canonical parameter found, and the names that none was found for.

    ``guessed`` are the names whose part neither a name nor a shape tells; ``packing`` is how Q, K and V
    are stored together, if they are; ``heads`` is their number, where arrays tell it; ``spare`` are the names among
    those without a path that have no part in the output.
    """

    sources: Mapping[str, Source]
    unmapped: tuple[str, ...]
    guessed: tuple[str, ...] = ()
    packing: str = ""
    heads: int = 0
    spare: tuple[str, ...] = ()

    def canonical(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The subject's weights by canonical path."""
        found = {path: s.take(*(weights[name] for name in s.names)) for path, s in self.sources.items()}
        return {path: w + self.sources[path].plus if self.sources[path].plus else w for path, w in found.items()}

    def gradients(self, by_name: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The subject's gradients by canonical path; constants have none."""
        learned = {path: s for path, s in self.sources.items() if s.names}
        return {path: s.take(*(by_name[name] for name in s.names)) for path, s in learned.items()}

    def with_constants(self, constants: Mapping[str, Tensor]) -> "ParameterMapping":
        """The same with these numbers of the encoder where no parameter was found."""
        added = {path: Source((), partial(torch.clone, value)) for path, value in constants.items()}
        return replace(self, sources=added | dict(self.sources))

    def with_one_segment(self) -> "ParameterMapping":
        """The same with a table of segments that has its first row alone."""
        found = {path: replace(s, take=first_row(s.take)) for path, s in self.sources.items() if path == "E_seg"}
        return replace(self, sources=dict(self.sources) | found)

    def restricted(self, paths: Collection[str]) -> "ParameterMapping":
        """The same with these canonical paths alone; the others count as unmapped."""
        kept = {path: source for path, source in self.sources.items() if path in paths}
        used = {name for s in kept.values() for name in s.names}
        left = {name for s in self.sources.values() for name in s.names} - used
        return replace(self, sources=kept, unmapped=(*self.unmapped, *sorted(left)))

    def held_in(self, found: Mapping[str, Piece]) -> "ParameterMapping":
        """The same by the names of the weights of which these are the pieces."""
        sources = {}
        for path, source in self.sources.items():
            names, take = put_together(source.names, source.take, found)
            sources[path] = replace(source, names=names, take=take)
        unmapped, guessed = (
            tuple(dict.fromkeys(found[name].name for name in names)) for names in (self.unmapped, self.guessed)
        )
        return replace(self, sources=sources, unmapped=unmapped, guessed=guessed)

    def is_absent(self, path: str) -> bool:
        """Whether the encoder has no such map, so that the identity stands in its place."""
        return path.endswith(".W_O") and path in self.sources and not self.sources[path].names

    def conventions(self) -> dict[str, str]:
        """How the parameters are stored, in words, where it is not as the equations write them."""
        found = {"Q, K, V": self.packing} if self.packing else {}
        gammas = {path.split(".")[-2]: s for path, s in self.sources.items() if path.endswith("gamma")}
        for place, source in gammas.items():
            if source.plus:
                found[place] = "γ is stored less 1"
            if not source.names:
                found[place] = "no parameters: γ = 1"
        return found

    def names_of(self, *letters: str) -> set[str]:
        """The subject's names for these canonical letters, in every layer."""
        return {name for path, s in self.sources.items() if path.rpartition(".")[2] in letters for name in s.names}

    def names_at(self, *places: str) -> set[str]:
        """The subject's names for everything at places such as ``norm_1``, in every layer."""
        return {
            name for path, s in self.sources.items() if path.rpartition(".")[0].endswith(places) for name in s.names
        }


def canonical_names(weights: Mapping[str, Tensor]) -> ParameterMapping:
    """Map weights that carry the specification's own paths, such as ``layers.0.norm_1.gamma``."""
    letters = {letter for e in equations().values() for letter in e.parameters}
    path = re.compile(rf"^(layers\.\d+\.)?(norm_\w+\.)?({'|'.join(letters)})$")
    return ParameterMapping(
        {name: Source((name,), torch.Tensor.contiguous) for name in weights if path.match(name)},
        tuple(name for name in weights if not path.match(name)),
    )


def reading(
    weights: Mapping[str, Tensor], storage: Storage | None = None, stated: Mapping[str, str] | None = None
) -> ParameterMapping:
    """Map weights by what their author says, by what their names say, and by shape where names say nothing.

    Args:
        weights: the arrays by the subject's names.
        storage: what neither says.
        stated: canonical letter → the subject's name, with ``{l}`` for the layer; ``.T`` behind it if it is
            stored output × input.
    """
    wrapper = shared_owner(weights)
    own = {name.removeprefix(wrapper): Piece(name, as_map) for name in weights}
    canonical = canonical_names({plain: weights[piece.name] for plain, piece in own.items()})
    if not canonical.unmapped:
        return canonical.held_in(own)
    found = pieces(weights)
    arrays = {plain: piece.take(weights[piece.name]) for plain, piece in found.items()}
    return _reading(arrays, storage or Storage(), plain_statement(stated or {}, weights)).held_in(found)


def _reading(weights: Mapping[str, Tensor], storage: Storage, stated: Mapping[str, str]) -> ParameterMapping:
    """The same for arrays of which each layer has its own."""
    width = hidden_width(weights)
    named = survey(weights, stated)
    parts, guessed = parts_of(named, weights, width, storage)
    if storage.outer_norm == "the other":
        parts = {key: OTHER_END.get(part, part) for key, part in parts.items()}
    sources: dict[str, Source] = {}
    unmapped: list[str] = []
    for n in named:
        found = sources_of(n, parts[n.layer, n.stem], weights[n.names[0]], width, storage)
        if not found or found.keys() & sources.keys():
            unmapped.extend(n.names)
        else:
            sources |= found
    guesses = [name for n in named if (n.layer, n.stem) in guessed and not n.is_bias for name in n.names]
    mapping = ParameterMapping(
        sources,
        tuple(unmapped),
        tuple(guesses),
        packing(set(parts.values()), storage),
        heads_told(named, parts, weights, width),
    )
    return mapping.with_constants(norms_without_parameters(mapping, width))


def sources_of(n: Named, part: str, array: Tensor, width: int, storage: Storage) -> dict[str, Source]:
    """The canonical paths that a weight, or the weights of all heads, hold."""
    found = {}
    for letter, take in places(part, n.kind, array, width, storage):
        plus = storage.plus if letter.endswith("gamma") else 0.0
        axis = 0 if n.is_bias or part == "O" else 1
        whole = side_by_side(take, axis) if len(n.names) > 1 else take
        found[n.layer + letter] = Source(n.names, whole, plus)
    return found


def first_row(take: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Of the same the first row, as a table."""
    return lambda *held: take(*held)[:1]


def side_by_side(take: Take, axis: int) -> Callable[..., Tensor]:
    """Take the same of the array of every head, and put them beside each other."""
    return lambda *heads: torch.cat([take(w) for w in heads], dim=axis)


def norms_without_parameters(mapping: ParameterMapping, width: int) -> dict[str, Tensor]:
    """γ = 1 for the norms of layers that have no parameters of any norm."""
    layers = {".".join(path.split(".")[:2]) for path in mapping.sources if path.startswith("layers.")}
    normed = {".".join(path.split(".")[:2]) for path in mapping.sources if ".norm_" in path}
    gamma = torch.ones(width, dtype=torch.float64)
    return {f"{layer}.{norm}.gamma": gamma for layer in sorted(layers - normed) for norm in ("norm_1", "norm_2")}


def absent_outputs(mapping: ParameterMapping, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """W_O = I for the layers that have W_V and no W_O: what the encoder computes is then still understood."""
    values = {path.rpartition(".")[0]: path for path in mapping.sources if path.endswith(".W_V")}
    absent = {layer: path for layer, path in values.items() if f"{layer}.W_O" not in mapping.sources}
    found = {layer: mapping.sources[path] for layer, path in absent.items()}
    maps = {layer: source.take(*(weights[name] for name in source.names)) for layer, source in found.items()}
    return {
        f"{layer}.W_O": torch.eye(len(W_V), dtype=W_V.dtype)
        for layer, W_V in maps.items()
        if W_V.shape[0] == W_V.shape[1]
    }

"""The weights with which a subject is judged.

As given, weights hide defects: γ = 1, β = 0, equal layers, biases of zero. So an encoder
is judged with perturbed weights too; with faint sublayers, whose small variances show
where ε stands; with a large offset in the sublayers' biases, or in their last maps where there
are none, which a norm takes out again if it computes its variance with care; with queries and
keys so large that scores run into the thousands, where fills of masks that are merely large are
beaten and exponentials overflow; with inner features of the feed-forward network as large as
dozens, where an activation that is cut off shows it; and with sublayers that add nothing, where
the rest shows by itself.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from math import nan
from typing import NamedTuple

import torch
from torch import Tensor

from conformance_tests.errors import Unsupported
from conformance_tests.numerics.noise import Noise, first_names, moderate
from conformance_tests.parameters.mapping import ParameterMapping
from conformance_tests.subjects.subject import Subject

PERTURBED, FAINT, OFFSET, LOUD, GIVEN = "perturbed", "faint", "offset", "loud", "given"
KEEN, SHARP, SHARPEST = "keen", "sharp", "sharpest"
SHARPNESS = {KEEN: 8, SHARP: 24, SHARPEST: 40}
"""How many times larger queries and keys are made.

With the last, the scores of normed vectors reach 5000; with the others, those without a scale or of larger vectors.
"""

LAST_MAPS = {"multihead": ("W_O", "b_O"), "ffn": ("W_2", "b_2")}
"""The arrays of the map that each sublayer ends with: where they are zero, nothing inside of it shows."""

SILENT, NO_ATTENTION, NO_FFN = "silent", "no attention", "no feed-forward network"
SILENCED = {SILENT: ("multihead", "ffn"), NO_ATTENTION: ("multihead",), NO_FFN: ("ffn",)}
"""The sublayers that end with zeros."""

FAINT_LETTERS = (
    *("W_O", "b_O", "W_2", "b_2", "E", "P", "E_seg", "W_patch", "b_patch", "b_feature", "x_cls", "X_reg", "b_e"),
)
"""The arrays that are made small so that the inputs of the norms are small too."""

FAINT_PLACES = ("norm_1", "norm_attention", "norm_ffn", "norm_embedding", "norm_token", "norm_feature")
"""The norms that are made small for the same reason: what they give is read by the next norm."""


ROOM = 2**21
"""Sets of an encoder with at most so many weights are kept: a dozen take 200 MB."""

Adopted = Callable[[str], Mapping[str, Tensor]]
"""Returns the arrays of a set."""


class Recipe(NamedTuple):
    """The making of an array of a set: the numbers as given or as drawn, times a factor, plus an offset."""

    is_drawn: bool
    times: float = 1.0
    plus: float = 0.0


AS_GIVEN, AS_DRAWN = Recipe(is_drawn=False), Recipe(is_drawn=True)
UNKNOWN = Recipe(is_drawn=True, times=nan)


class WeightSets(Mapping[str, Mapping[str, Tensor]]):
    """The subject's weights as given and as the suite changes them, by the subject's own names.

    There is one array for each weight, and a set is what these arrays hold while it is in use. Of a small encoder each
    set that has been in use is kept. A large one has no room for several: there the arrays are its own, wherever they
    can be written into, and asking for another set changes them.
    """

    def __init__(self, subject: Subject, mapping: ParameterMapping, seed: int, fixed: Collection[str] = ()) -> None:
        self.subject = subject
        self.mapping = mapping
        self.seed = seed
        self.fixed = {name for path in fixed for name in mapping.sources[path].names}
        # What is not to be learned and has no place among the parameters is a constant, such as a scale.
        self.fixed |= subject.fixed() & set(mapping.unmapped)
        self.given = subject.given()
        self.has_room = sum(w.numel() for w in subject.held().values()) <= ROOM
        self.held = subject.weights() if self.has_room else subject.held()
        self.changes = 0
        """How often the arrays have changed."""
        self._in_use = GIVEN
        self._made: dict[str, Recipe] = {}
        self._kept: dict[str, Mapping[str, Tensor]] = {}
        self._adopted: Adopted | None = None

    @cached_property
    def _first_names(self) -> dict[str, str]:
        """The first name of the array that each name stands for."""
        return first_names(self.held)

    @cached_property
    def _noise(self) -> Noise:
        return Noise(self.seed, {name: self.held[name].shape for name in dict.fromkeys(self._first_names.values())})

    @cached_property
    def _sets(self) -> Mapping[str, Mapping[str, Recipe]]:
        """The recipe of each array, by set and by the first name of the array."""
        names = list(dict.fromkeys(self._first_names.values()))
        given = dict.fromkeys(names, AS_GIVEN)
        try:
            self.subject.set_weights(self.held)
        except Unsupported:
            return {GIVEN: given}
        fixed = {self._first_names[name] for name in self.fixed}
        drawn = {name: AS_GIVEN if name in fixed else AS_DRAWN for name in names}
        places = self.mapping.names_of(*FAINT_LETTERS) | self.mapping.names_at(*FAINT_PLACES)
        moved = self.mapping.names_of("b_O", "b_2") or self.mapping.names_of("W_O", "W_2")
        # Where queries and keys are normed, their size is that of the factors of these norms.
        sharpened = self.mapping.names_of("W_Q", "W_K", "b_Q", "b_K", "gamma_q", "gamma_k")
        sharpened |= self.mapping.names_at("norm_q", "norm_k")
        # Where one array holds the maps of a parallel layer, loud activations would have scores 900 times as large.
        loud = self.mapping.names_of("W_1", "b_1") - self.mapping.names_of("W_Q", "W_K", "b_Q", "b_K")

        def changed(own: Iterable[str], change: Callable[[str, Recipe], Recipe]) -> dict[str, Recipe]:
            changing = {self._first_names[name] for name in own}
            return {name: change(name, how) if name in changing else how for name, how in drawn.items()}

        def multiplied(own: Iterable[str], by: float) -> dict[str, Recipe]:
            return changed(own, lambda _, how: how._replace(times=by))

        return {
            GIVEN: given,
            PERTURBED: drawn,
            FAINT: multiplied(places - self.fixed, 1e-4),
            OFFSET: changed(moved, lambda name, how: how._replace(plus=self._offset(name))),
            **{sharp: multiplied(sharpened, times) for sharp, times in SHARPNESS.items()},
            LOUD: multiplied(loud, 30),
            **{name: multiplied(self._last_maps(parts) - self.fixed, 0) for name, parts in SILENCED.items()},
        }

    def _last_maps(self, sublayers: Collection[str]) -> set[str]:
        return self.mapping.names_of(*(letter for sublayer in sublayers for letter in LAST_MAPS[sublayer]))

    @cached_property
    def _reads(self) -> dict[str, int]:
        """The number of entries that each map of the layers reads, by the first name of its array."""
        maps = {p: s for p, s in self.mapping.sources.items() if ".W_" in p}
        reads = {name: len(self.mapping.at(p, self.held)) for p, s in maps.items() for name in s.names}
        return {self._first_names[name]: size for name, size in reads.items()}

    def _offset(self, name: str) -> float:
        """Return the offset of a bias, or of a map: a sum of n random entries is about as large as √n."""
        return 1e4 if name not in self._reads else 5e3 / self._reads[name] ** 0.5

    def is_fixed(self, path: str) -> bool:
        """Return whether what is at a canonical path is left as it is: a constant, or what is not learned."""
        names = self.mapping.sources[path].names
        return not names or any(name in self.fixed for name in names)

    def is_one(self, path: str, other: str) -> bool:
        """Return whether the subject keeps the same arrays at two canonical paths."""
        return self.kept_at(path) == self.kept_at(other)

    def kept_at(self, path: str) -> Hashable:
        """Return a key of the arrays that the subject keeps at a canonical path; what it has of them is one with it.

        Layers that one array holds have different entries of it, and layers that share an array have the same ones.
        Only a view shows which: other entries of an array of several layers count as those of this layer alone.
        """
        source = self.mapping.sources.get(path)
        names = tuple(self._first_names[name] for name in source.names) if source else ()
        if source is None or not names:
            return names
        whole, *others = (self.held[name] for name in names)
        taken = source.take(whole, *others)
        if not others and taken.untyped_storage()._cdata == whole.untyped_storage()._cdata:
            return names, tuple(taken.shape), taken.stride(), taken.storage_offset()
        return path if source.names in self._stacked else names

    @cached_property
    def _stacked(self) -> set[tuple[str, ...]]:
        """The names of arrays that hold one letter of several layers."""
        sources = self.mapping.sources.items()
        uses = Counter(
            (path.split(".", 2)[2], s.names) for path, s in sources if path.startswith("layers.") and s.names
        )
        return {names for (_, names), layers in uses.items() if layers > 1}

    def adopt(self, names: Iterable[str], weights: Adopted) -> None:
        """Judge with other weights than those that the seed makes.

        Args:
            names: the sets that there are.
            weights: returns the arrays of a set, by the subject's own names; it may have more.
        """
        self._sets = {name: {} for name in names}
        self._adopted, self._kept, self._in_use = weights, {}, ""

    def use(self, name: str) -> None:
        """Give the subject the weights of this name."""
        if name == self._in_use:
            return
        if not self.has_room:
            self._make(name)
        self._in_use = name
        self.subject.set_weights(self[name])

    def __getitem__(self, name: str) -> Mapping[str, Tensor]:
        if not self.has_room:
            self.use(name)
            return self.held
        if name not in self._kept:
            self._make(name)
            self._kept[name] = self._copied()
        return self._kept[name]

    def _make(self, name: str) -> None:
        """Let the arrays hold this set: each is written that is not what it should be."""
        self.changes += 1
        if self._adopted is not None:
            of_set = self._adopted(name)
            for own in self._first_names.values():
                self.held[own].copy_(of_set[own])
            return
        recipes = self._sets[name]
        written = [own for own, how in recipes.items() if self._made.get(own, AS_GIVEN) != how]
        for own in written:
            self._write(own, recipes[own], self.held[own])
        self._made |= {own: recipes[own] for own in written}
        rounded = self.subject.rounded(self.held)
        for own in written:
            if rounded[own] is not self.held[own]:
                self.held[own].copy_(rounded[own])

    def _write(self, own: str, recipe: Recipe, into: Tensor) -> None:
        """Write an array as a recipe says.

        What is drawn is for maps a standard deviation of 0.8/√(what they read), so that attention is far from uniform;
        vectors are moved by 0.3 from what they were, and from 0 where training gives no such number.
        """
        if not recipe.is_drawn:
            into.copy_(self.given[own])
        else:
            self._noise.write(own, into)
            if into.ndim < 2:
                into.mul_(0.3).add_(moderate(self.given[own]))
            else:
                into.mul_(0.8 / max(self._reads.get(own, into.shape[-1]), 1) ** 0.5)
        if recipe.times != 1:
            into.mul_(recipe.times)
        if recipe.plus:
            into.add_(recipe.plus)

    @contextmanager
    def in_use(self, name: str) -> Iterator[None]:
        """Let the subject be called once with the weights of this name.

        If it writes into its arrays in the call, and they are those held here, these are held in other memory from then
        on: the specification would read what the subject has written.
        """
        self.use(name)
        before = None if self.has_room else self._marks()
        try:
            yield
        finally:
            if before is not None and self._marks() != before:
                self.held = self._copied()
                self._made = dict.fromkeys(self._first_names.values(), UNKNOWN)
                self._in_use = ""

    def _marks(self) -> list[tuple[int, list[int]]]:
        """Return a mark of each array, which changes where somebody writes into it.

        Torch counts what is written into a parameter, but not through its ``data``. There a few entries tell: what
        is written so changes all of an array, or its first row, which is that of padding.
        """
        arrays = [self.held[own] for own in dict.fromkeys(self._first_names.values())]
        return [(0 if w.is_inference() else w._version, bits(some_entries(w))) for w in arrays]

    def _copied(self) -> dict[str, Tensor]:
        copies = {own: self.held[own].clone() for own in self._first_names.values()}
        return {own: copies[first] for own, first in self._first_names.items()}

    def parameters(self, name: str, mapping: ParameterMapping) -> Mapping[str, Tensor]:
        """Return the weights of a set by canonical path, as a mapping reads them; it need not be that of the sets."""
        return mapping.canonical(self[name]) if self.has_room else CanonicalWeights(self, name, mapping)

    def __contains__(self, name: object) -> bool:
        return name in self._sets  # to make it would take long

    def __iter__(self) -> Iterator[str]:
        return iter(self._sets)

    def __len__(self) -> int:
        return len(self._sets)


class CanonicalWeights(Mapping[str, Tensor]):
    """The weights of a set by canonical path, as a mapping reads them: in use from when one is asked for.

    What is returned is the encoder's own memory, where that holds it so; another set changes it.
    """

    def __init__(self, sets: WeightSets, name: str, mapping: ParameterMapping) -> None:
        self.sets = sets
        self.name = name
        self.mapping = mapping
        self._taken: tuple[int, Mapping[str, Tensor]] = (-1, {})

    def __getitem__(self, path: str) -> Tensor:
        weights = self.sets[self.name]
        if self._taken[0] != self.sets.changes:
            self._taken = self.sets.changes, self.mapping.canonical(weights)
        return self._taken[1][path]

    def __contains__(self, path: object) -> bool:
        return path in self.mapping.sources

    def __iter__(self) -> Iterator[str]:
        return iter(self.mapping.sources)

    def __len__(self) -> int:
        return len(self.mapping.sources)


def some_entries(w: Tensor) -> Tensor:
    """Return at most sixteen entries of an array, the first among them."""
    for axis, size in enumerate(w.shape[-2:], max(w.ndim - 2, 0)):
        w = w[(slice(None),) * axis + (slice(None, None, max(size // 4, 1)),)]
    return w.reshape(-1)[:16]


def bits(w: Tensor) -> list[int]:
    """Return the bytes of an array: unlike its numbers, these equal themselves where one is not a number."""
    return w.detach().contiguous().view(torch.uint8).tolist()

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
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from functools import cached_property, partial

import torch
from torch import Tensor

from conformance_tests.errors import Unsupported
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

FAINT_LETTERS = ("W_O", "b_O", "W_2", "b_2", "E", "P", "E_seg", "W_patch", "b_patch", "b_feature", "x_cls", "b_e")
"""The arrays that are made small so that the inputs of the norms are small too."""

FAINT_PLACES = ("norm_1", "norm_embedding", "norm_token", "norm_feature")
"""The norms that are made small for the same reason: what they give is read by the next norm."""


Change = Callable[[str, Tensor], Tensor]
"""Makes weights of a perturbed array and its name."""


def multiplied(_: str, w: Tensor, by: float) -> Tensor:
    """Return a multiple of an array."""
    return by * w


class WeightSets(Mapping[str, Mapping[str, Tensor]]):
    """The subject's weights as given and as the suite changes them, by the subject's own names."""

    def __init__(self, subject: Subject, mapping: ParameterMapping, seed: int, fixed: Collection[str] = ()) -> None:
        self.subject = subject
        self.mapping = mapping
        self.seed = seed
        self.fixed = {name for path in fixed for name in mapping.sources[path].names}
        # What is not to be learned and has no place among the parameters is a constant, such as a scale.
        self.fixed |= subject.fixed() & set(mapping.unmapped)
        self.given = subject.weights()
        self._in_use = GIVEN
        self._latest: tuple[str, Mapping[str, Tensor]] | None = None

    @cached_property
    def _sets(self) -> Mapping[str, Callable[[], Mapping[str, Tensor]]]:
        """Functions that make the sets: a large encoder has no room for all of them at once."""
        try:
            self.subject.set_weights(self.given)
        except Unsupported:
            return {GIVEN: lambda: self.given}
        perturbed = self.perturbed()
        places = self.mapping.names_of(*FAINT_LETTERS) | self.mapping.names_at(*FAINT_PLACES)
        small = self._with_equals(places) - self.fixed
        sharpened = self._with_equals(self.mapping.names_of("W_Q", "W_K", "b_Q", "b_K"))
        loud = self._with_equals(self.mapping.names_of("W_1", "b_1"))
        moved = self._with_equals(self.mapping.names_of("b_O", "b_2") or self.mapping.names_of("W_O", "W_2"))
        changes: dict[str, tuple[Collection[str], Change]] = {
            PERTURBED: ((), lambda _, w: w),
            FAINT: (small, lambda _, w: 1e-4 * w),
            OFFSET: (moved, lambda name, w: w + self._offset(name)),
            **{sharp: (sharpened, partial(multiplied, by=times)) for sharp, times in SHARPNESS.items()},
            LOUD: (loud, partial(multiplied, by=30)),
            **{name: (self._last_maps(sublayers), partial(multiplied, by=0.0)) for name, sublayers in SILENCED.items()},
        }
        return {GIVEN: lambda: self.given} | {
            name: partial(self._changed, perturbed, *c) for name, c in changes.items()
        }

    def _changed(self, weights: Mapping[str, Tensor], names: Collection[str], change: "Change") -> Mapping[str, Tensor]:
        """Return weights of which some are changed, as the subject can hold them."""
        return self.subject.rounded({n: change(n, w) if n in names else w for n, w in weights.items()})

    def _last_maps(self, sublayers: Collection[str]) -> set[str]:
        last = self.mapping.names_of(*(letter for sublayer in sublayers for letter in LAST_MAPS[sublayer]))
        return self._with_equals(last) - self.fixed

    def _with_equals(self, names: Collection[str]) -> set[str]:
        """Return these names and those that share memory with one of them, which must stay equal to it."""
        memory = {id(self.given[name]) for name in names}
        return {name for name, w in self.given.items() if id(w) in memory}

    def perturbed(self) -> dict[str, Tensor]:
        """Draw maps anew with standard deviation 0.8/√(what they read), so that attention is far from uniform.

        Vectors are moved by 0.3 from what they were, and from 0 where they held no number. Weights that share memory
        stay equal.
        """
        generator = torch.Generator().manual_seed(self.seed)
        drawn: dict[int, Tensor] = {}
        for name, w in self.given.items():
            if id(w) not in drawn:
                noise = torch.randn(w.shape, generator=generator, dtype=torch.float64)
                reads = self._reads.get(name, w.shape[-1] if w.ndim else 1)
                drawn[id(w)] = finite(w) + 0.3 * noise if w.ndim < 2 else 0.8 / max(reads, 1) ** 0.5 * noise
        return {name: w if name in self.fixed else drawn[id(w)] for name, w in self.given.items()}

    @cached_property
    def _reads(self) -> dict[str, int]:
        """The number of entries that each map of the layers reads, by the subject's own names."""
        maps = self.mapping.canonical(self.given)
        return {name: len(maps[p]) for p, s in self.mapping.sources.items() if ".W_" in p for name in s.names}

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

        An array that holds several layers counts as another one in each.
        """
        names = self.mapping.sources[path].names if path in self.mapping.sources else ()
        return path if names in self._stacked else tuple(id(self.given[name]) for name in names)

    @cached_property
    def _stacked(self) -> set[tuple[str, ...]]:
        """The names of arrays that hold one letter of several layers."""
        sources = self.mapping.sources.items()
        uses = Counter(
            (path.split(".", 2)[2], s.names) for path, s in sources if path.startswith("layers.") and s.names
        )
        return {names for (_, names), layers in uses.items() if layers > 1}

    def adopt(self, sets: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Judge with these weights, by the subject's own names, instead of those that the seed makes."""
        own = {name: {own: weights[own] for own in self.given} for name, weights in sets.items()}
        self._sets = {name: partial(own.__getitem__, name) for name in own}
        self._latest = None

    def use(self, name: str) -> None:
        """Give the subject the weights of this name."""
        if name != self._in_use:
            self.subject.set_weights(self[name])
            self._in_use = name

    def __getitem__(self, name: str) -> Mapping[str, Tensor]:
        if self._latest is None or self._latest[0] != name:
            self._latest = None  # before another takes its room
            self._latest = name, self._sets[name]()
        return self._latest[1]

    def __iter__(self) -> Iterator[str]:
        return iter(self._sets)

    def __len__(self) -> int:
        return len(self._sets)


def finite(w: Tensor) -> Tensor:
    """Return weights with 0 in the place of NaN and infinity: they would hide all that is computed with them."""
    return w.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)

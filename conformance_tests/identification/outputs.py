"""The search among choices of equations by outputs alone, one part of the encoder after the other.

Where the map that a sublayer ends with is zero, nothing inside of it shows. So the subject is called with silent
sublayers first, where the choices outside of them are tried alone; then with either sublayer, and with both. What is
searched is a sum of few choices in the place of their product, and an encoder that is wrong in one sublayer is still
recognised in all others.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from conformance_tests.identification.experiment import Experiment
from conformance_tests.identification.search import Axes, agrees, candidates, with_eps
from encoder_spec.assembly import Encoder

MOST_TRIED = 1000
"""After so many choices the search gives up; a handful of variants in six slots are fewer."""

MOST_OF_A_SMALL_ONE = 4000
"""This limit where a choice takes a millisecond to try, which is so below ``SMALL`` parameters."""

SMALL = 100_000

MOST_SOLVED = 12
"""For so many choices ε is solved for by outputs alone."""

NEAR = 1e-2
"""Outputs of order 1 whose median is nearer than that differ in ε alone, or in nearly nothing."""

NEARER = 0.5
"""More changes are believed only if they bring the outputs so much nearer: beside something wrong little counts."""

INSIDE: Mapping[str, tuple[str, ...]] = {"multihead": ("h", "scores"), "ffn": ("activation",)}
"""The open choices inside of each sublayer."""


@dataclass(frozen=True)
class Stage:
    """Calls that show a part of the choices.

    Attributes:
        silent: the sublayers in which nothing shows.
        experiments: the calls in which these are silent, then those in which more is.
        axes: the choices that show here, and in no stage before.
    """

    silent: frozenset[str]
    experiments: list[Experiment]
    axes: Axes


def stages(axes: Axes, experiments: Sequence[Experiment]) -> list[Stage]:
    """Return the stages of a search: most sublayers are silent in the first, and none in the last."""
    found: list[Stage] = []
    for silent in sorted({e.silent for e in experiments}, key=lambda sublayers: (-len(sublayers), sorted(sublayers))):
        here = [e for e in experiments if e.silent == silent] + [e for e in experiments if e.silent > silent]
        hidden = {axis for sublayer in silent for axis in INSIDE[sublayer]} | {a for s in found for a in s.axes}
        found.append(Stage(silent, here, {axis: values for axis, values in axes.items() if axis not in hidden}))
    return found


@dataclass
class Search:
    """A search for the choices that reproduce a subject's outputs.

    ε is left out of it, and solved for in whatever comes near without.

    Attributes:
        start: where it begins.
        axes: the open choices.
        experiments: calls of the subject.
        most: up to so many choices of a stage differ from where it begins; None: any number.
        stages: those of the search, which ``agreed`` and ``departing`` number.
        most_tried: after so many choices it gives up.
        best: the encoder that agrees in most stages, and then comes nearest.
        agreed: the stages in which it agrees, by their number.
        tried: how many choices were tried.
    """

    start: Encoder
    axes: Axes
    experiments: Sequence[Experiment]
    most: int | None = None
    best: Encoder = field(init=False)
    agreed: frozenset[int] = field(init=False, default=frozenset())
    tried: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.best = self.start
        self.stages = stages(self.axes, self.experiments)
        self.most_tried = most_tried(self.experiments[0])
        self._least = float("inf")
        self._solved_for = Counter[int]()

    @property
    def is_settled(self) -> bool:
        """True if the best encoder agrees in all stages."""
        return len(self.agreed) == len(self.stages)

    @property
    def departing(self) -> int:
        """The first stage in which the best encoder does not agree, by its number."""
        return min(set(range(len(self.stages))) - self.agreed)

    def goes_on(self, start: Encoder, at: int = 0, agreed: frozenset[int] = frozenset()) -> bool:
        """Return whether some choice agrees in this stage, in those behind it, and in all before.

        What agrees in a stage is where the next one starts; if nothing agrees there, the search comes back. Where
        nothing agrees at all, stages in which other sublayers are silent are still tried.

        Args:
            start: an encoder that agrees in some stages.
            at: the number of the stage.
            agreed: the numbers of the stages that it agrees in.
        """
        if len(agreed) > len(self.agreed):
            self.best, self.agreed, self._least = start, agreed, float("inf")
        if at == len(self.stages):
            return len(agreed) == len(self.stages)
        stage, some_agree = self.stages[at], False
        # What departs where more is silent departs here too.
        asked = all(i in agreed for i, before in enumerate(self.stages[:at]) if before.silent > stage.silent)
        for encoder in candidates(start, without_eps(stage.axes), self.most) if asked else ():
            if self.tried >= self.most_tried:
                return False
            self.tried += 1
            distance = stage.experiments[0].distance(encoder)
            if agreed == self.agreed and distance < NEARER * self._least:
                self.best, self._least = encoder, distance
            if distance < NEAR:
                solved = self._with_eps(encoder, at)
                if agrees(solved, stage.experiments):
                    some_agree = True
                    if self.goes_on(solved, at + 1, agreed | {at}):
                        return True
        return bool(at) and not some_agree and self.goes_on(start, at + 1, agreed)

    def _with_eps(self, encoder: Encoder, at: int) -> Encoder:
        experiments = self.stages[at].experiments
        if self._solved_for[at] == MOST_SOLVED or agrees(encoder, experiments):
            return encoder
        self._solved_for[at] += 1
        return with_eps(encoder, self.axes, experiments)


def nearest(start: Encoder, axes: Axes, experiments: Sequence[Experiment], most: int | None = None) -> Search:
    """Return the search for the choice whose outputs come nearest to the subject's, when it has ended."""
    search = Search(start, axes, experiments, most)
    search.goes_on(start)
    return search


def without_eps(axes: Axes) -> Axes:
    """Return the choices among equations and sizes."""
    return {axis: values for axis, values in axes.items() if not axis.endswith("eps")}


def most_tried(experiment: Experiment) -> int:
    """Return after how many choices a search by outputs gives up."""
    return MOST_OF_A_SMALL_ONE if sum(w.numel() for w in experiment.parameters.values()) < SMALL else MOST_TRIED

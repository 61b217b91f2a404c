"""Identification: which equation stands in each slot?

Parameters settle what they can: a slot holds the variant whose parameters are there.
What they leave open is searched, nearest to the encoder's own hints first, and judged
by agreement of the outputs and nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from conformance_tests.harness.intermediates import Recorded
from conformance_tests.identification.epsilon import EPSILONS, OUTER_NORMS
from conformance_tests.identification.experiment import Experiment
from conformance_tests.identification.outputs import Search, nearest
from conformance_tests.identification.search import Axes, agrees, candidates, guided, projections
from conformance_tests.identification.structure import admissible
from conformance_tests.subjects.hints import Hints
from encoder_spec.assembly import Encoder
from encoder_spec.equation import variants
from encoder_spec.profiles import PROFILES, Profile

OPEN_SLOTS = ("layer", "norm", "activation", "scores", "embedding_scale", "position", "residual")
"""The slots whose variants differ without differing in parameters."""


NOTHING_ADDED = ("none", "in-attention")
"""Variants of the position that add nothing to the tokens."""


@dataclass(frozen=True)
class Identification:
    """The choice found, whether it agrees with the subject, how many were tried, and how much it explains.

    ``given_up`` says that there are more choices, and nothing told which of them to try; ``behind_something_wrong``
    that the choices are those that show behind a wrong input, or beside a deviation; ``search`` is the search by
    outputs, where they alone decide.
    """

    encoder: Encoder
    agrees: bool
    tried: int
    explained: int = 0
    given_up: bool = False
    behind_something_wrong: bool = False
    search: Search | None = None

    @property
    def stages_agreed(self) -> int:
        """In how many stages of the search by outputs the encoder agrees."""
        return len(self.search.agreed) if self.search is not None else 0


def open_axes(start: Encoder, hints: Hints) -> Axes:
    """Return the choices that parameters and hints leave open, each with its possible values."""
    shapes = start.symbolic_shapes()
    letters = {path.rpartition(".")[2] for path in shapes if not path.startswith(tuple(OUTER_NORMS))}
    used = {e.slot for e in start.equations()}
    axes: Axes = {slot: list(admissible(slot, letters)) for slot in OPEN_SLOTS if slot in used}
    alike = [n for n in axes["layer"] if start.replace(layer=n).symbolic_shapes().keys() == shapes.keys()]
    axes["layer"] = alike
    if "R" in letters:
        told = admissible("bias", letters)
        axes["bias"] = [n for n in told if "rows" not in variants("bias")[n].constants or "W_patch" in letters]
    if "D" in letters:
        axes["scores"] = [start.profile["scores"].variant]
    for slot in ("layer", "scores"):
        begin = start.profile[slot].variant
        mistaken = {n for n, e in variants(slot).items() if e.is_mistake_beside(start.profile.choices())}
        axes[slot] = [n for n in axes[slot] if n == begin or n not in mistaken]
    # The depth of a decoder has no end, so that no search can begin with it.
    begin = start.profile["residual"].variant
    endless = {n for n, e in variants("residual").items() if "M" in e.constants}
    axes["residual"] = [n for n in axes["residual"] if n == begin or n not in endless]
    if "position" in used:
        # Outputs do not tell a set from a sentence whose positions were forgotten: where the search begins says which.
        begin = start.profile["position"].variant
        axes["position"] = (
            [begin] if begin in NOTHING_ADDED else [n for n in axes["position"] if n not in NOTHING_ADDED]
        )
    axes["eps"] = list(dict.fromkeys([start.profile.constants["eps"], *EPSILONS]))
    if start.profile["final_norm"].slots:
        axes["final_norm"] = ["norm", "none"]
        axes["norm_final.eps"] = axes["eps"]
        of_final = {path.rpartition(".")[2] for path in shapes if path.startswith("norm_final.")}
        axes["norm_final"] = list(admissible("norm", of_final))
    if "position" in used and any("offset" in variants("position")[str(p)].constants for p in axes["position"]):
        axes["position_offset"] = [0, 2, 1]
    if "N" not in hints.sizes and start.dimensions.N == 1:
        axes["N"] = list(range(1, 13))
    if "h" not in hints.sizes:
        width, value_width = (start.dimensions.h * d for d in (start.dimensions.d_k, start.dimensions.d_v))
        axes["h"] = [h for h in range(1, width + 1) if width % h == value_width % h == 0]
    return axes


def identify(
    experiments: list[Experiment], start: Encoder, axes: Axes, recorded: Recorded | None = None
) -> Identification:
    """Find the choice of equations that reproduces the experiments.

    With intermediates, that is ``start`` and what differs from it in one choice, and then the choice that they point
    to; without, the search by outputs decides. Without agreement the answer is the choice that explains most.

    Args:
        experiments: calls of the subject; the first is the one that was recorded.
        start: what parameters and hints state.
        axes: the choices to search, each with its values.
        recorded: the subject's intermediates in the first experiment.
    """
    if not recorded:
        search = nearest(start, axes, experiments)
        given_up = search.tried >= search.most_tried
        return Identification(search.best, search.is_settled, search.tried, given_up=given_up, search=search)
    tried = 0
    for encoder in candidates(start, axes, most=1):
        tried += 1
        if agrees(encoder, experiments):
            return Identification(encoder, True, tried)
    closest, found = guided(start, axes, experiments[0], recorded)
    # What the intermediates tell needs no search; they leave open few choices, and the last digits of ε.
    search = nearest(closest, axes, experiments, most=2)
    if not search.is_settled and not any(map(recorded.has, projections(closest, experiments[0]))):
        # Where each sequence is computed by itself, say, they tell nothing: the outputs decide as if none were shown.
        tried += search.tried
        search = nearest(start, axes, experiments)
    best = search.best if search.is_settled else closest
    return Identification(best, search.is_settled, tried + search.tried, found)


def differences(encoder: Encoder, profile: Profile) -> dict[str, tuple[str | float, str | float]]:
    """Return where an encoder chooses otherwise than a profile: name → (its choice, the profile's)."""
    return differing(chosen(encoder), profile)


def chosen(encoder: Encoder) -> dict[str, str | float]:
    """Return what an encoder chooses of what profiles choose, by name."""
    named = encoder.profile.choices()
    return {name: choice for name, choice in encoder.choices().items() if name in named}


def differing(mine: Mapping[str, str | float], profile: Profile) -> dict[str, tuple[str | float, str | float]]:
    """Return where choices are others than those of a profile."""
    theirs = profile.choices()
    # A place or a constant of a place, norm_final or norm_final.eps, is compared with its slot or constant.
    wanted = {k: theirs.get(k, theirs.get(k.rpartition(".")[2], theirs.get(k.partition("_")[0], ""))) for k in mine}
    return {k: (v, wanted[k]) for k, v in mine.items() if v != wanted[k]}


def nearest_profile(encoder: Encoder) -> tuple[Profile, dict[str, tuple[str | float, str | float]]]:
    """Return the published profile with the fewest differences, and these differences."""
    mine = chosen(encoder)
    ranked = {name: differing(mine, profile) for name, profile in PROFILES.items()}
    best = min(ranked, key=lambda name: (len(ranked[name]), "input" in ranked[name]))
    return PROFILES[best], ranked[best]

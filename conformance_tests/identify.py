"""Identification: which equation stands in each slot?

Parameters settle what they can: a slot holds the variant whose parameters are there.
What they leave open is searched, nearest to the encoder's own hints first, and judged
by agreement of the outputs and nothing else.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import isqrt
from typing import Any

from torch import Tensor

from conformance_tests.compare import Disagreement, demand_equal
from conformance_tests.hints import Hints
from conformance_tests.intermediates import Recorded, values_of
from encoder_spec.assembly import Encoder, Intermediate
from encoder_spec.dimensions import Dimensions
from encoder_spec.equation import variants
from encoder_spec.notation import SpecificationError
from encoder_spec.profiles import CONSTANTS, PROFILES, VASWANI_2017, Profile

OPEN_SLOTS = ("layer", "norm", "activation", "scores", "embedding_scale", "position")
"""The slots whose variants differ without differing in parameters."""

EPSILONS = (1e-5, 1e-12, 1e-6, 1e-3, 1e-8)
"""Values of ε in use: torch, BERT, ViT and the original code, Keras, others."""

MOST_TRIED = 1000
"""After so many choices the search gives up; a handful of variants in six slots are fewer."""

Axes = dict[str, list[str | float]]


@dataclass(frozen=True)
class Experiment:
    """One call of the subject: its inputs, the weights it had, and what it returned."""

    parameters: Mapping[str, Tensor]
    inputs: tuple[Tensor, ...]
    output: Tensor

    def residual(self, encoder: Encoder) -> float:
        """The largest difference to the specification in units of the budget: ≤ 1 agrees."""
        try:
            want = encoder(self.parameters, *self.inputs)
            found = demand_equal(self.output, want, "output")
        except Disagreement as disagreement:
            if disagreement.error is None or disagreement.budget is None:
                return float("inf")
            return disagreement.error / disagreement.budget
        except SpecificationError:
            return float("inf")
        return found.error / found.budget


@dataclass(frozen=True)
class Identification:
    """The choice found, whether it agrees with the subject, how many were tried, and how much it explains."""

    encoder: Encoder
    agrees: bool
    tried: int
    explained: int = 0


def structure(parameters: Mapping[str, Tensor], hints: Hints) -> Encoder:
    """The encoder that the parameters alone determine; open slots as hinted, or as in Vaswani 2017.

    Raises:
        SpecificationError: if the shapes are those of no encoder.
    """
    letters = {path.rpartition(".")[2] for path in parameters}
    layers = {path.split(".")[1] for path in parameters if path.startswith("layers.")}
    if not {"W_Q", "W_1"} <= letters:
        raise SpecificationError("there are no attention projections and feed-forward maps among the parameters")
    choices: dict[str, Any] = {
        slot: fitting[0]
        for slot in ("embedding", "cls", "position", "segment", "projections", "output", "norm", "ffn", "head")
        if (fitting := admissible(slot, letters))
    }
    of_layers = {path.rpartition(".")[2] for path in parameters if ".norm_1." in path}
    for place in ("norm_final", "norm_embedding"):
        here = {path.rpartition(".")[2] for path in parameters if path.startswith(f"{place}.")}
        if here and of_layers and here != of_layers:
            choices[place] = admissible("norm", here)[0]
    choices["norm"] = admissible("norm", of_layers)[0]
    choices["input"] = "embedded" if {"E", "W_patch"} & letters else "given"
    choices["embedding_norm"] = "norm" if "norm_embedding.gamma" in parameters else "none"
    choices["final_norm"] = "norm" if "norm_final.gamma" in parameters else "none"
    N = hints.sizes.get("N", len(layers))
    choices["sharing"] = "all" if N > 1 and is_shared(parameters, layers) else "none"
    if str(choices.get("embedding")).startswith("patches") or choices["segment"] == "added":
        choices["embedding_scale"] = "none"
    stated = {
        k: v for k, v in hints.choices.items() if k.rpartition(".")[2] in CONSTANTS or v in admissible(k, letters)
    }
    return Encoder(VASWANI_2017.replace(**({"eps": EPSILONS[0]} | choices | stated)), sizes(parameters, hints, N))


def admissible(slot: str, letters: set[str]) -> list[str]:
    """The variants of a slot whose parameters are all there, those that use most of them."""
    fits = {name: len(e.parameters) for name, e in variants(slot).items() if set(e.parameters) <= letters}
    most = max(fits.values(), default=0)
    return [name for name, used in fits.items() if used == most]


def is_shared(parameters: Mapping[str, Tensor], layers: set[str]) -> bool:
    """Whether all layers use one set of arrays: a single set, or the same memory in each."""
    memory = {parameters[f"layers.{l}.W_1"].data_ptr() for l in layers}
    return len(memory) == 1


def sizes(parameters: Mapping[str, Tensor], hints: Hints, N: int) -> Dimensions:
    """The sizes that the shapes of the parameters tell."""
    found = {"N": N, "h": hints.sizes.get("h", 1)}
    for path, axes in {
        "layers.0.W_Q": ("d_model", "hd_k"),
        "layers.0.W_V": ("d_model", "hd_v"),
        "layers.0.W_1": ("d_model", "d_ff"),
        "E": ("V", "d_model"),
        "P": ("max_len", "d_model"),
        "E_seg": ("segments", "d_model"),
        "W_cls": ("d_model", "classes"),
    }.items():
        if path in parameters:
            found |= dict(zip(axes, parameters[path].shape, strict=True))
    hd_k, hd_v = found.pop("hd_k"), found.pop("hd_v")
    if hd_k % found["h"]:
        raise SpecificationError(f"{found['h']} heads do not divide the {hd_k} columns of W_Q")
    stated = {k: v for k, v in hints.sizes.items() if k in ("patch", "channels", "classes")}
    if "W_patch" in parameters:
        entries = len(parameters["W_patch"])
        sides = {entries // c: c for c in (3, 1, 4, 2) if entries % c == 0 and isqrt(entries // c) ** 2 == entries // c}
        area = stated.get("patch", isqrt(next(iter(sides), entries))) ** 2
        stated |= {"patch": isqrt(area), "channels": max(1, entries // area)}
    return Dimensions(**(found | stated | {"d_k": hd_k // found["h"], "d_v": hd_v // found["h"]}))


def open_axes(start: Encoder, hints: Hints) -> Axes:
    """The choices that parameters and hints leave open, each with its possible values."""
    shapes = start.symbolic_shapes()
    letters = {path.rpartition(".")[2] for path in shapes if not path.startswith(("norm_final", "norm_embedding"))}
    used = {e.slot for e in start.equations()}
    axes: Axes = {slot: list(admissible(slot, letters)) for slot in OPEN_SLOTS if slot in used}
    axes["eps"] = list(dict.fromkeys([start.profile.constants["eps"], *EPSILONS]))
    if start.profile["final_norm"].slots:
        axes["final_norm"] = ["norm", "none"]
        axes["norm_final.eps"] = axes["eps"]
    if "position" in used and "learned-offset" in admissible("position", letters):
        axes["position_offset"] = [0, 2, 1]
    if "N" not in hints.sizes and start.dimensions.N == 1:
        axes["N"] = list(range(1, 13))
    if "h" not in hints.sizes:
        width, value_width = (start.dimensions.h * d for d in (start.dimensions.d_k, start.dimensions.d_v))
        axes["h"] = [h for h in range(1, width + 1) if width % h == value_width % h == 0]
    return axes


def candidates(start: Encoder, axes: Axes, most: int | None = None) -> Iterator[Encoder]:
    """Every choice along the axes, the fewest changes to ``start`` first, up to ``most`` changes."""
    sizes = start.dimensions
    now = start.profile.choices() | {"h": sizes.h, "N": sizes.N}
    others = {axis: [v for v in values if v != now.get(axis, now.get("eps"))] for axis, values in axes.items()}
    for changes in range(len(axes) + 1 if most is None else most + 1):
        for changed in combinations(axes, changes):
            for values in product(*(others[axis] for axis in changed)):
                choice: dict[str, Any] = dict(zip(changed, values, strict=True))
                h = int(choice.pop("h", sizes.h))
                N = int(choice.pop("N", sizes.N))
                resized = sizes.replace(h=h, d_k=sizes.d_k * sizes.h // h, d_v=sizes.d_v * sizes.h // h, N=N)
                if N != sizes.N:
                    choice["sharing"] = "all" if N > 1 else "none"
                yield Encoder(start.profile.replace(**choice), resized)


GUIDED = (
    ("h", "scores"),
    ("layer", "norm", "eps"),
    ("embedding_scale", "position", "position_offset"),
    ("activation",),
    ("N",),
    ("final_norm", "norm_final.eps"),
)
"""Open choices that must be right together before any of them shows among the intermediates."""


def evidence(intermediate: Intermediate, d_k: int) -> list[Tensor]:
    """The values whose presence speaks for a choice.

    Every encoder forms QKᵀ on its way to scaled scores, and most form it for unscaled ones:
    it tells the heads apart, but not the scale. That shows in the weights.
    """
    slot = intermediate.equation.slot
    if slot == "scores" and intermediate.equation.variant == "scaled":
        return [intermediate.value * d_k**0.5]
    return [] if slot == "mask" else values_of(intermediate)


def explained(encoder: Encoder, experiment: Experiment, recorded: Recorded) -> int:
    """How many of a choice's intermediates stand among the subject's."""
    try:
        trace = encoder.trace(experiment.parameters, *experiment.inputs)
    except SpecificationError:
        return -1
    return sum(recorded.has(value) for i in trace for value in evidence(i, encoder.dimensions.d_k))


def guided(start: Encoder, axes: Axes, experiment: Experiment, recorded: Recorded) -> Encoder:
    """The choice whose intermediates stand among the subject's in the greatest number.

    One group of choices after the other takes its best values, twice; where nothing tells
    values apart, ``start`` stays. This needs no agreement at the end, so that an encoder
    which is wrong in one place is still recognised in all others.
    """

    def found(encoder: Encoder) -> int:
        return explained(encoder, experiment, recorded)

    best, most = start, found(start)
    for group in GUIDED * 2:
        within = {axis: values for axis, values in axes.items() if axis in group}
        for encoder in candidates(best, within):
            count = found(encoder)
            if count > most:
                best, most = encoder, count
    return best


def agrees(encoder: Encoder, experiments: Sequence[Experiment]) -> bool:
    """Whether a choice reproduces every experiment; the first one that it does not settles it."""
    return all(e.residual(encoder) <= 1 for e in experiments)


def identify(
    experiments: list[Experiment], start: Encoder, axes: Axes, recorded: Recorded | None = None
) -> Identification:
    """Find the choice of equations that reproduces the experiments.

    First ``start`` and what differs from it in one choice; then the choice that the
    subject's intermediates point to, if it shows them; then everything else. Without
    agreement the answer is the one that explains most.

    Args:
        experiments: calls of the subject; the first is the one that was recorded.
        start: what parameters and hints state.
        axes: the choices to search, each with its values.
        recorded: the subject's intermediates in the first experiment.
    """
    tried = 0
    for encoder in candidates(start, axes, most=1):
        tried += 1
        if agrees(encoder, experiments):
            return Identification(encoder, True, tried)
    closest = guided(start, axes, experiments[0], recorded) if recorded else start
    least = float("inf")
    # What the intermediates tell needs no search; they leave open what differs in few choices.
    for encoder in candidates(closest, axes, most=2 if recorded else None):
        tried += 1
        if agrees(encoder, experiments):
            return Identification(encoder, True, tried)
        residual = float("inf") if recorded else experiments[0].residual(encoder)
        if residual < least:
            closest, least = encoder, residual
        if tried >= MOST_TRIED:
            break
    return Identification(closest, False, tried, explained(closest, experiments[0], recorded) if recorded else 0)


def nearest_profile(encoder: Encoder) -> tuple[Profile, dict[str, tuple[str | float, str | float]]]:
    """The published profile with the fewest differences: name → (the encoder's choice, the profile's)."""
    mine = {k: v for k, v in encoder.choices().items() if k in encoder.profile.choices()}

    def differences(profile: Profile) -> dict[str, tuple[str | float, str | float]]:
        theirs = profile.choices()
        # A place or a constant of a place, norm_final or norm_final.eps, is compared with its slot or constant.
        published = {
            k: theirs.get(k, theirs.get(k.rpartition(".")[2], theirs.get(k.partition("_")[0], ""))) for k in mine
        }
        return {k: (v, published[k]) for k, v in mine.items() if v != published[k]}

    best = min(PROFILES.values(), key=lambda p: (len(differences(p)), "input" in differences(p)))
    return best, differences(best)

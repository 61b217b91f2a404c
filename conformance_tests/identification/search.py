"""The search among choices of equations: by what stands among the intermediates."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import wraps
from itertools import combinations, product
from typing import Any

from torch import Tensor

from conformance_tests.harness.intermediates import Recorded, values_of
from conformance_tests.identification.epsilon import PLACES, fitted, settled
from conformance_tests.identification.experiment import Experiment
from conformance_tests.numerics.probes import is_slow
from encoder_spec.assembly import Encoder, Intermediate
from encoder_spec.equation import Equation
from encoder_spec.notation import SpecificationError

Axes = dict[str, list[str | float]]


def candidates(start: Encoder, axes: Axes, most: int | None = None) -> Iterator[Encoder]:
    """Yield every choice along the axes, the fewest changes to ``start`` first, up to ``most`` changes."""
    sizes = start.dimensions
    now = start.profile.choices() | {"h": sizes.h, "N": sizes.N}
    others = {axis: [v for v in values if v != now.get(axis, now.get("eps"))] for axis, values in axes.items()}
    is_given = start.profile["residual"].is_mistake_beside(start.profile.choices())  # as its owner declares it
    for changes in range(len(axes) + 1 if most is None else most + 1):
        for changed in combinations(axes, changes):
            for values in product(*(others[axis] for axis in changed)):
                choice: dict[str, Any] = dict(zip(changed, values, strict=True))
                h = int(choice.pop("h", sizes.h))
                N = int(choice.pop("N", sizes.N))
                resized = sizes.replace(h=h, d_k=sizes.d_k * sizes.h // h, d_v=sizes.d_v * sizes.h // h, N=N)
                if N != sizes.N:
                    choice["sharing"] = "all" if N > 1 else "none"
                chosen = start.profile.replace(**choice)
                if "position_offset" in choice and "offset" not in chosen["position"].constants:
                    continue  # it would be the same choice again
                residual = chosen["residual"]  # few are ever mistakes, and the choices of thousands take long to name
                if not is_given and residual.to_be_declared and residual.is_mistake_beside(chosen.choices()):
                    continue
                yield Encoder(chosen, resized)


GUIDED = (
    ("embedding_scale", "position", "position_offset"),
    ("h", "scores"),
    ("layer", "norm", "residual"),
    ("activation",),
    ("N",),
    ("final_norm", "norm_final"),
)
"""Open choices that must be right together before any of them shows among the intermediates.

With the variant of a norm goes its ε, which is solved for.
"""

FITTED = {"norm": "eps", "norm_final": "norm_final.eps"}


def evidence_of(intermediate: Intermediate, d_k: int) -> list[Tensor]:
    """Return the values whose presence speaks for a choice.

    Every encoder forms QKᵀ on its way to scaled scores, and most form it for unscaled ones:
    it tells the heads apart, but not the scale. That shows in the weights.
    """
    slot = intermediate.equation.slot
    if slot == "scores" and intermediate.equation.variant == "scaled":
        return [intermediate.value * d_k**0.5]
    return [] if slot in ("bias", "reach", "mask") else values_of(intermediate)


def explained(trace: Sequence[Intermediate], encoder: Encoder, recorded: Recorded) -> int:
    """Return how many of a choice's intermediates stand among the subject's; −1 if it cannot be evaluated."""
    speaking = (value for i in trace for value in evidence_of(i, encoder.dimensions.d_k))
    return sum(map(recorded.has, speaking)) if trace else -1


def guided(start: Encoder, axes: Axes, experiment: Experiment, recorded: Recorded) -> tuple[Encoder, int]:
    """Return the choice whose intermediates stand among the subject's in the greatest number, and that number.

    One group of choices after the other takes its best values, until nothing changes. Where nothing else tells
    values apart, the number of heads is one whose scores have the size of some array, or ``start`` stays. This
    needs no agreement at the end, so that an encoder which is wrong in one place is still recognised in all others.
    """

    def fit_of(encoder: Encoder) -> tuple[int, bool]:
        trace = traced(encoder, experiment)
        scores = next((i.value for i in trace if i.equation.slot == "scores"), None)
        room = scores is not None and len(recorded.of_size(scores.numel())) > 0
        return explained(trace, encoder, recorded), room

    best, most = start, fit_of(start)
    before = None
    while best is not before:
        before = best
        for group in GUIDED:
            within = {axis: values for axis, values in axes.items() if axis in group}
            constants = [constant for axis, constant in FITTED.items() if axis in group and constant in axes]
            for encoder in candidates(best, within) if within else ():
                for constant in constants:
                    encoder = fitted(encoder, constant, experiment, recorded)
                count = fit_of(encoder)
                if count > most:
                    best, most = encoder, count
    return best, most[0]


def first_layer(start: Encoder) -> Encoder:
    """Return the first layer alone: what it has shows there as in a deep stack, and at a fraction of the cost.

    What depends on the number of layers is as in the whole stack.
    """
    N, profile = start.dimensions.N, start.profile
    of_stack: dict[str, Any] = {
        key: [as_in_stack(e, N) for e in profile.choice(key) if isinstance(e, Equation)]
        for key, equation in profile.equations.items()
        if "N" in equation.constants
    }
    alone = profile.replace(**of_stack | {"final_norm": "none", "head": "none"})
    return Encoder(alone, start.dimensions.replace(N=1))


def as_in_stack(equation: Equation, N: int) -> Equation:
    """Return an equation as it is in a stack of N layers, however many are evaluated."""
    if "N" not in equation.constants:
        return equation

    @wraps(equation.function)
    def function(*flowing: Any, **supplied: Any) -> Any:
        return equation.function(*flowing, **(supplied | {"N": N}))

    return replace(equation, function=function)


def first_layer_is_found(encoder: Encoder, experiment: Experiment, recorded: Recorded) -> bool:
    """Return whether all that the first layer of a choice computes stands among the subject's intermediates."""
    layer = first_layer(encoder)
    trace = traced(layer, experiment)
    values = sum(len(evidence_of(i, layer.dimensions.d_k)) for i in trace)
    return explained(trace, layer, recorded) == values


def attention_is_found(encoder: Encoder, experiment: Experiment, recorded: Recorded) -> bool:
    """Return whether the first layer's attention, added to what it read, is among the subject's intermediates."""
    trace = traced(first_layer(encoder), experiment)
    residual = next((i for i in trace if i.equation.slot == "residual"), None)
    return residual is not None and recorded.has(residual.value)


def with_eps(encoder: Encoder, axes: Axes, experiments: Sequence[Experiment]) -> Encoder:
    """Return the encoder with the constants of its norms solved for, as far as its outputs show them.

    The search takes hundreds of evaluations, which a large encoder is spared.
    """
    for constant in PLACES if not is_slow(encoder) else ():
        if constant in axes and not agrees(encoder, experiments):
            encoder = settled(encoder, constant, experiments)
    return encoder


def agrees(encoder: Encoder, experiments: Iterable[Experiment]) -> bool:
    """Return whether a choice reproduces every experiment; the first one that it does not settles it."""
    return all(e.residual(encoder) <= 1 for e in experiments)


def traced(encoder: Encoder, experiment: Experiment) -> list[Intermediate]:
    """Return what an encoder computes in an experiment; nothing if parameters of a declared profile are missing."""
    try:
        return encoder.trace(experiment.parameters, *experiment.inputs)
    except SpecificationError:
        return []


def projections(encoder: Encoder, experiment: Experiment) -> tuple[Tensor, ...]:
    """Return Q, K and V of the first layer; nothing if the encoder cannot be evaluated."""
    return next((i.value for i in traced(encoder, experiment) if i.equation.slot == "projections"), ())


def forms(slot: str, encoder: Encoder, experiment: Experiment, recorded: Recorded) -> bool:
    """Return whether a value of a slot in the first layer is among the subject's intermediates."""
    of_slot = (i for i in traced(encoder, experiment) if i.equation.slot == slot and i.path.startswith("layers.0"))
    return any(recorded.has(i.value) for i in of_slot)

"""Is an equation wrong, or only read from the wrong place?

Where a subject departs from the specification its equation may be right all the same, at
another input than the one that it should have: in a Pre-LN layer the projections are right,
but for the normed input. Then what is wrong is the equation that hands the input on.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from conformance_tests.compare import Disagreement
from conformance_tests.epsilon import slot_of
from conformance_tests.intermediates import Recorded, departure
from conformance_tests.run import Case, Run
from encoder_spec.assembly import Intermediate

PARTS = ("multihead", "ffn", "norm", "residual")
"""The slots that a layer uses itself."""


def misplaced_in_layer(run: Run, case: Case) -> Intermediate | None:
    """The part of a layer that is right at another input, where the subject departs inside a layer.

    None if it departs elsewhere, if the part itself is wrong, or if the whole layer is right at another
    input: then the stack hands it on wrongly.
    """
    aligned = run.aligned(case)
    place = departure(aligned)
    if place == len(aligned) or not aligned[place].spec.path.startswith("layers."):
        return None
    trace = [a.spec for a in aligned if a.part == 0]
    first = sum(a.part == 0 for a in aligned[: place + 1]) - 1
    part = next(i for i, step in enumerate(trace) if i >= first and step.equation.slot in PARTS)
    layer = next(i for i, step in enumerate(trace) if i >= part and step.equation.slot == "layer")
    recorded = arrays_of(run, case)
    if holds(run, case, trace, part, recorded) and not holds(run, case, trace, layer, recorded):
        return trace[part]
    return None


def arrays_of(run: Run, case: Case) -> Recorded:
    """Everything that the subject computes in a case."""
    probe = run.probes[case.probe]
    run.weight_sets.use(case.weights)
    return Recorded(run.subject.record(probe.inputs, probe.keep))


def holds(run: Run, case: Case, trace: Sequence[Intermediate], place: int, recorded: Recorded) -> bool:
    """Whether an equation of the specification leads from some array of the subject to another one."""
    step = trace[place]
    apply = at(run, case, trace, place)
    return any(recorded.has(apply(x)) for x in hidden_states(step.value, recorded))


def at(run: Run, case: Case, trace: Sequence[Intermediate], place: int) -> Callable[[Tensor], Tensor]:
    """The equation at a place of the trace as a function of its input alone."""
    path, slot = trace[place].path, trace[place].equation.slot
    if slot == "residual":
        return lambda x: x + trace[place - 1].value
    slot = slot_of(run.encoder, path) if slot == "norm" else slot
    function: Callable[..., Any] = run.encoder.bind(run.parameters(case.weights), path=path, slot=slot)
    everything = torch.ones(1, 1, 1, dtype=torch.bool)
    return (lambda x: function(x, everything)) if slot in ("multihead", "layer") else function


def hidden_states(like: Tensor, recorded: Recorded) -> Iterator[Tensor]:
    """The subject's arrays that may be hidden states (B, n, d), stored so or with the sequence first."""
    B, n, d = like.shape
    for flat in recorded.of_size(like.numel()):
        yield flat.reshape(B, n, d)
        yield flat.reshape(n, B, d).transpose(0, 1)


def demand_order(run: Run, case: Case) -> None:
    """Go on only if no part of a layer is right at another input than its layer must give it.

    Raises:
        Disagreement: if one is.
        Unsupported: if the subject shows no intermediates.
    """
    part = None if run.agrees(case) else misplaced_in_layer(run, case)
    if part is not None:
        layer = run.encoder.profile["layer"].id
        what = f"{layer}: {part.equation.id} ({part.path}) reads another input than the layer must give it"
        raise Disagreement(f"{what} [{run.context(case)}]")

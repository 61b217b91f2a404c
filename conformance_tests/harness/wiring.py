"""Is an equation wrong, or only read from the wrong place?

Where a subject departs from the specification its equation may be right all the same, at
another input than the one that it should have: in a Pre-LN layer the projections are right,
but for the normed input. Then what is wrong is the equation that hands the input on.
"""

from collections.abc import Iterable, Iterator
from itertools import permutations
from typing import NamedTuple

import torch
from torch import Tensor

from conformance_tests.errors import Disagreement, Unsupported
from conformance_tests.harness.changed_inputs import Departure, giver_to_input, giver_within, is_multiple
from conformance_tests.harness.computed import Case, Computed
from conformance_tests.harness.intermediates import Recorded, departure
from encoder_spec.assembly import Intermediate
from encoder_spec.equation import Equation

PARTS = ("multihead", "ffn", "norm", "residual")
"""The slots of the parts of a layer, of which some stand within these, too."""


SUBLAYERS = {"norm_1": ("W_Q", "W_K", "W_V", "W_O"), "norm_2": ("W_1", "W_2")}
"""The maps of the sublayer that a norm stands before in Pre-LN layers."""


class Misread(NamedTuple):
    """An equation that is right at another input, and the one that should have given it its own."""

    reader: Intermediate
    giver: Equation


def misread(run: Computed, case: Case) -> Misread | None:
    """Return what is right at another input, where the subject departs: the input's sum, scores, a part, or the layer.

    Return None if it departs elsewhere, or if the part itself is wrong.
    """
    aligned = run.aligned(case)
    place = departure(aligned)
    if place == len(aligned):
        return None
    trace = [a.spec for a in aligned if a.part == 0]
    first = sum(a.part == 0 for a in aligned[: place + 1]) - 1
    there = Departure(run, case, trace, first, run.recorded(case))
    if not there.step.path.startswith("layers."):
        giver = giver_to_input(there)
        return Misread(there.step, giver) if giver else None
    if there.step.equation.slot == "scores" and are_of_other_heads(there):
        return Misread(there.step, there.profile["split"])
    giver = giver_within(there) or omits(there)
    if giver is not None:
        return Misread(there.step, giver)
    layer = there.next_place(first, "layer")
    part = next(i for i in range(first, layer) if is_part(trace[i], trace[layer]))
    # Where all layers are one, that something holds once may be said of any of them.
    alike = run.encoder.dimensions.N if there.profile["sharing"].variant == "all" else 1
    if there.recorded.has(trace[part].value):
        return None  # what the part gives is so nearly right that nothing found by sums tells right from wrong
    if not holds(there, part, times=1 if trace[part].equation.slot == "residual" else alike):
        return None
    if not holds(there, layer, times=alike):
        return Misread(trace[part], trace[layer].equation)
    return Misread(trace[layer], giver_to_layer(there, layer))


def is_part(step: Intermediate, layer: Intermediate) -> bool:
    """Return whether a layer uses an equation itself: a sublayer, its norm or sum, and not a norm within one."""
    argument = step.path.removeprefix(layer.path).removeprefix(".") or step.equation.slot
    return step.equation.slot in PARTS and argument in layer.equation.slots


def omits(there: Departure) -> Equation | None:
    """Return what leaves out the part that begins with the norm at this place; None if something is computed of it.

    The maps of a part that is left out influence nothing, and those of other layers do. A layer leaves out a
    sublayer, the stack a layer.
    """
    layer, _, norm = there.step.path.rpartition(".")
    if norm not in SUBLAYERS:
        return None
    try:
        gradients = there.run.gradients(there.case).by_path
    except (Disagreement, Unsupported):
        return None
    felt = {path for path, gradient in gradients.items() if gradient.any()}

    def idle(letters: Iterable[str]) -> bool:
        return all(there.run.encoder.home(f"{layer}.{letter}") not in felt for letter in letters)

    if not idle(SUBLAYERS[norm]) or not any(path.endswith(".W_O") for path in felt):
        return None
    return there.profile["stack" if all(map(idle, SUBLAYERS.values())) else "layer"]


def giver_to_layer(there: Departure, layer: int) -> Equation:
    """Return what should have given a layer its input: the stack, or the last equation before the first layer.

    What is given is always among the arrays of the subject, and a sum is formed before it is normed. That
    they are found does not vouch for what the first layer reads.
    """
    layers = [place for place, step in enumerate(there.trace) if step.equation.slot == "layer"]
    X = next(step.value for step in there.trace if step.equation.slot == "input")
    another_reads_it = any(there.recorded.has(there.equation_at(other)(X)) for other in layers[1:])
    if layer != layers[0] or another_reads_it or there.recorded.has_reordered(X):
        return there.profile["stack"]
    return there.profile["embedding_norm" if there.profile["input"].variant == "embedded" else "input"]


def are_of_other_heads(there: Departure) -> bool:
    """Return whether scores are right for queries and keys whose entries go to the heads in another order of axes."""
    Q, K, _ = next(s.value for s in reversed(there.trace[: there.place]) if s.equation.slot == "projections")
    scores, h = there.equation_at(there.place), there.run.encoder.dimensions.h
    g = h * K.shape[-1] // Q.shape[-1]  # heads of keys, which several of queries may share
    split = zip(splits(Q, h), splits(K, g), strict=True)
    return any(there.recorded.has(scores(q, k[:, torch.arange(h) * g // h])) for q, k in split)


def splits(x: Tensor, h: int) -> Iterator[Tensor]:
    """Yield the heads (B, h, n, d) that result from reading the memory of (B, n, h·d) in another order of axes."""
    B, n, width = x.shape
    sizes = (B, h, n, width // h)
    for order in set(permutations(range(4))) - {(0, 2, 1, 3)}:
        yield x.reshape([sizes[axis] for axis in order]).permute([order.index(axis) for axis in range(4)])


def holds(there: Departure, place: int, times: int = 1) -> bool:
    """Return whether the equation at a place leads from arrays of the subject to so many other ones."""
    step, apply = there.trace[place], there.equation_at(place)
    others: Iterator[tuple[int, Tensor]] = hidden_states(step.value, there.recorded)
    if step.equation.slot == "residual":
        # A multiple of a right summand is this summand, with another weight.
        given = there.trace[place - 1].value
        right = step.value - given
        others = ((i, x) for i, x in others if x.equal(right) or not (is_multiple(x, right) or is_multiple(x, given)))
    led_to: set[float] = set()
    for i, x in others:
        value = apply(x)
        if there.recorded.has(value, after=i):
            led_to.add(round(float(value.abs().sum()), 6))
        if len(led_to) == times:
            return True
    return False


def hidden_states(like: Tensor, recorded: Recorded) -> Iterator[tuple[int, Tensor]]:
    """Yield the subject's arrays that may be hidden states (B, n, d), stored so or with the sequence first.

    Each comes with its place in the order of computation.
    """
    if like.ndim != 3:
        return  # queries or keys, which are normed in their heads
    B, n, d = like.shape
    for place, flat in enumerate(recorded.of_size(like.numel())):
        yield place, flat.reshape(B, n, d)
        yield place, flat.reshape(n, B, d).transpose(0, 1)

"""Identification behind something wrong: what the rest of an encoder chooses shows only if that is in its place.

An encoder that forgets its positions departs before its first layer, and nothing behind is among its
intermediates. With the deviation of its input in the slot, the rest of it is identified as ever. Of one that shows
no intermediates nothing else is known than its outputs: the deviation may be in any slot. The activation alone needs
nothing before it to be right: it reads one array and gives another of the same size.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from math import prod

import torch
from torch import Tensor

from conformance_tests.deviations import NOT_DEFINED, Deviation, deviations, with_deviations
from conformance_tests.harness.intermediates import Recorded
from conformance_tests.identification.epsilon import fitted
from conformance_tests.identification.experiment import Experiment
from conformance_tests.identification.outputs import NEARER, Search, without_eps
from conformance_tests.identification.search import (
    Axes,
    agrees,
    attention_is_found,
    candidates,
    first_layer,
    guided,
    projections,
    traced,
)
from encoder_spec.assembly import Encoder, Intermediate
from encoder_spec.equation import variants

INPUT_SLOTS = ("embedding", "embedding_scale", "position", "segment", "cls", "embedded", "input")


def behind_wrong_input(encoder: Encoder, axes: Axes, experiment: Experiment, recorded: Recorded) -> Encoder | None:
    """Return the encoder with its layers' choices as they show behind a wrong input; None if none explains them.

    Args:
        encoder: what the subject comes closest to, in vain.
        axes: the open choices.
        experiment: the call of the subject that was recorded.
        recorded: its intermediates.
    """
    inside = {axis: values for axis, values in axes.items() if axis.partition("_")[0] not in INPUT_SLOTS}
    orders = {axis: values for axis, values in inside.items() if axis in ("layer", "norm")}
    for wrong in wrong_inputs(encoder):
        for candidate in candidates(with_deviations(encoder, (wrong,)), orders):
            if reads_what_the_subject_reads(candidate, experiment, recorded):
                best, _ = guided(candidate, inside, experiment, recorded)
                right = {
                    slot: encoder.profile.choice(slot) for slot in wrong.replaces if slot in encoder.profile.equations
                }
                return best.replace(**right)
    return behind_any_array(encoder, inside, orders, experiment, recorded)


def behind_one_deviation(search: Search) -> Encoder | None:
    """Return the choice nearest to where a search by outputs ended with which some deviation gives the outputs.

    ε stays as it is in the stage that the deviation shows in: another ε is a deviation too. The limit is that of the
    search without a deviation. Return None if no deviation gives the outputs.
    """
    at = search.departing
    stage = search.stages[at]
    wrong = (
        (candidate, d)
        for candidate in candidates(search.best if search.agreed else search.start, without_eps(stage.axes), most=1)
        for d in deviations().values()
        if d.applies(candidate.profile) and not d.is_variant
    )
    with torch.random.fork_rng(devices=[]):
        for candidate, d in islice(wrong, search.most_tried):
            with suppress(*NOT_DEFINED):
                encoder = with_deviations(candidate, (d,))
                behind = Search(encoder, search.axes, search.experiments)
                if agrees(encoder, stage.experiments) and behind.goes_on(encoder, at + 1, frozenset(range(at + 1))):
                    right = {
                        slot: candidate.profile.choice(slot)
                        for slot in d.replaces
                        if slot in candidate.profile.equations
                    }
                    return behind.best.replace(**right)
    return None


def behind_any_array(
    encoder: Encoder, inside: Axes, orders: Axes, experiment: Experiment, recorded: Recorded
) -> Encoder | None:
    """Return what ``behind_wrong_input`` does, where the first layer reads any of the subject's arrays.

    Layers in the wrong order do so.
    """
    width = encoder.dimensions.d_model
    given = encoder.replace(input="given")
    shape = (*experiment.inputs[0].shape[:2], width)
    for flat in recorded.of_size(prod(shape)):
        there = replace(experiment, inputs=(flat.reshape(shape),))
        for candidate in candidates(given, orders):
            if reads_what_the_subject_reads(candidate, there, recorded):
                best, _ = guided(candidate, inside, there, recorded)
                # Behind a wrong norm Q, K and V are those of the other order of norms, and the sum behind them is not.
                if attention_is_found(best, there, recorded):
                    own = {
                        slot: encoder.profile.choice(slot) for slot in INPUT_SLOTS if slot in encoder.profile.equations
                    }
                    return best.replace(**own)
    return None


def wrong_inputs(encoder: Encoder) -> Iterator[Deviation]:
    """Yield the deviations of what the first layer reads."""
    used = {e.id for e in encoder.equations()}
    for d in deviations().values():
        if d.slot in INPUT_SLOTS and used & set(d.of) and not d.is_variant and d.applies(encoder.profile):
            yield d


def reads_what_the_subject_reads(encoder: Encoder, experiment: Experiment, recorded: Recorded) -> bool:
    """Return whether Q, K and V of the first layer are among the subject's intermediates."""
    try:
        values = projections(fitted(encoder, "eps", experiment, recorded), experiment)
    except NOT_DEFINED:
        return False
    return bool(values) and all(map(recorded.has, values))


def with_its_activation(
    encoder: Encoder, axes: Axes, experiment: Experiment, recorded: Recorded, *, stated: bool
) -> Encoder:
    """Return the encoder with the activation that gives the subject's arrays.

    If none does, the activation is as stated, or the nearest one.

    Args:
        encoder: what the subject comes closest to, in vain.
        axes: the open choices.
        experiment: the call of the subject that was recorded.
        recorded: its intermediates.
        stated: whether the subject says which activation it has.
    """
    trace = traced(first_layer(encoder), experiment)
    own = next((i for i in trace if i.equation.slot == "activation"), None)
    if own is None or recorded.has(own.value):
        return encoder
    names = sorted(map(str, axes.get("activation", ())), key=lambda name: name != own.equation.variant)
    arrays = recorded.of_size(own.value.numel())
    found = {name: sum(gives_another(name, array, recorded) for array in arrays) for name in names}
    best = max(found, key=found.__getitem__, default="")
    if best and found[best]:
        return encoder.replace(activation=best)
    near = {} if stated else {name: far_from_any(name, own, experiment, recorded) for name in names}
    best = min(near, key=near.__getitem__, default="")
    return encoder.replace(activation=best) if best and near[best] < NEARER else encoder


def gives_another(activation: str, array: Tensor, recorded: Recorded) -> bool:
    """Return whether an array, activated, is another one of the subject's.

    It must not be the array itself: ReLU leaves what is not negative as it is.
    """
    value = variants("activation")[activation].function(array)
    return bool(value.any()) and not torch.equal(value, array) and recorded.has(value)


def far_from_any(activation: str, own: Intermediate, experiment: Experiment, recorded: Recorded) -> float:
    """Return the distance of an activation's value from the nearest of the subject's arrays.

    The unit is what the activation changes. The activation reads what the first map gives of any array.
    """
    W_1, b_1 = (experiment.parameters.get(f"layers.0.{letter}") for letter in ("W_1", "b_1"))
    assert W_1 is not None
    arrays = recorded.of_size(own.value.numel())
    least = float("inf")
    for flat in recorded.of_size(own.value.numel() // W_1.shape[1] * W_1.shape[0]):
        inner = flat.reshape(-1, W_1.shape[0]) @ W_1 + (0.0 if b_1 is None else b_1)
        if recorded.has(inner):
            value = variants("activation")[activation].function(inner).flatten()
            distance = (arrays - value).norm(dim=1).min() / (value - inner.flatten()).norm()
            least = min(least, float(distance))
    return least

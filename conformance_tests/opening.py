"""From an encoder to a run: adapt it, map its weights, identify its variant."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from conformance_tests.compare import Disagreement, Unsupported
from conformance_tests.computed import Case
from conformance_tests.identify import (
    Experiment,
    Identification,
    identify,
    open_axes,
    structure,
)
from conformance_tests.intermediates import Recorded
from conformance_tests.mapping import ParameterMapping, mappings
from conformance_tests.probes import Probes
from conformance_tests.run import Run
from conformance_tests.subject import AdaptedSubject, ArraySubject, Subject, Undetermined
from conformance_tests.tables import stored_sinusoids
from conformance_tests.targets import SubjectError, one_line
from conformance_tests.torch_subject import TorchSubject
from conformance_tests.weights import FAINT, GIVEN, PERTURBED, WeightSets
from encoder_spec.assembly import Encoder
from encoder_spec.notation import SpecificationError
from encoder_spec.profiles import Profile


def adapt(thing: Any) -> Subject:
    """The subject for an object.

    Raises:
        SubjectError: if it is nothing that the suite can call.
    """
    if isinstance(thing, Subject):
        return thing
    if isinstance(thing, torch.nn.Module):
        return TorchSubject(thing)
    if isinstance(thing, ArraySubject):
        return AdaptedSubject(thing)
    raise SubjectError(
        f"{type(thing).__name__} is no encoder: give a torch.nn.Module, "
        "or an object with `weights` and `encode(x, mask)`"
    )


@contextmanager
def single_thread() -> Iterator[None]:
    """Compute on one thread: probes are small, and the order of sums is then always the same."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def opened(thing: Any, seed: int, declared: Profile | None = None) -> Iterator[Run]:
    """Make a run for an encoder: map its weights and identify its variant.

    Raises:
        Undetermined: if its parameters are those of no encoder, or include unknown ones that matter.
    """
    subject = adapt(thing)
    with single_thread(), subject.borrowed():
        weights = subject.weights()
        readings = list(mappings(weights, subject.hints.sizes.get("h")))
        stored = stored_sinusoids(readings[0], weights, subject.fixed())
        sets = WeightSets(subject, readings[0], seed, stored)
        try:
            mapping, found = settle(subject, readings, sets, seed, declared)
            if declared is None:
                mapping = mapping.restricted(found.encoder.parameter_shapes())
            yield Run(subject, found.encoder, mapping, sets, seed, found.agrees, stored)
        finally:
            if GIVEN in sets:
                sets.use(GIVEN)


def settle(
    subject: Subject, readings: list[ParameterMapping], sets: WeightSets, seed: int, declared: Profile | None
) -> tuple[ParameterMapping, Identification]:
    """How to read the parameters, and the encoder to judge against: the declared profile, or what is identified."""
    start = start_of(readings[0], sets, subject)
    probes = Probes(start, seed)
    subject.learn(probes)
    cases = [case for case in (Case(PERTURBED), Case(FAINT, "faint"), Case(GIVEN)) if case.weights in sets]
    experiments = [experiment(subject, readings[0], sets, probes, case) for case in cases]
    recorded = recording(subject, sets, cases[0], experiments[0])

    def judged(mapping: ParameterMapping) -> tuple[ParameterMapping, Identification]:
        read = [
            replace(e, parameters=mapping.canonical(sets[case.weights]))
            for e, case in zip(experiments, cases, strict=True)
        ]
        begin = start_of(mapping, sets, subject)
        axes = open_axes(begin, subject.hints)
        if declared is not None:
            begin = Encoder(with_input_of(declared, begin), begin.dimensions)
            axes = {axis: values for axis, values in axes.items() if axis == "h"}
        return mapping, identify(read, begin, axes, recorded)

    mapping, found = judged(readings[0])
    if (
        not found.agrees
        and recorded
        and not forms_projections(found.encoder, readings[0], sets, cases[0], probes, recorded)
    ):
        # The order of packed maps and the orientation of square ones show in the intermediates alone.
        others = [judged(reading) for reading in readings[1:]]
        mapping, found = max([(mapping, found), *others], key=lambda pair: (pair[1].agrees, pair[1].explained))
    if mapping.unmapped and not found.agrees and declared is None:
        raise Undetermined(
            "no choice of equations reproduces its outputs, and no slot of the specification has the parameters "
            + ", ".join(mapping.unmapped[:6])
        )
    return mapping, found


def forms_projections(
    encoder: Encoder, mapping: ParameterMapping, sets: WeightSets, case: Case, probes: Probes, recorded: Recorded
) -> bool:
    """Whether Q, K and V of the first layer are among the subject's intermediates: then their maps are read rightly."""
    parameters = mapping.canonical(sets[case.weights])
    try:
        trace = encoder.trace(parameters, *probes[case.probe].inputs)
    except SpecificationError:
        return False
    first = next(i for i in trace if i.equation.slot == "projections")
    return all(recorded.has(value) for value in first.value)


def start_of(mapping: ParameterMapping, sets: WeightSets, subject: Subject) -> Encoder:
    """The encoder that parameters and hints state.

    Raises:
        Undetermined: if the parameters are those of no encoder.
    """
    try:
        return structure(mapping.canonical(sets.given), subject.hints)
    except SpecificationError as reason:
        names = ", ".join(mapping.unmapped[:6]) + (", …" if len(mapping.unmapped) > 6 else "")
        raise Undetermined(f"{reason}; parameters that no slot has: {names or 'none'}") from None


def recording(subject: Subject, sets: WeightSets, first: Case, experiment: Experiment) -> Recorded | None:
    """The subject's intermediates in an experiment, if it shows them."""
    sets.use(first.weights)
    try:
        return Recorded(subject.record(experiment.inputs, None))
    except Unsupported:
        return None


def with_input_of(declared: Profile, start: Encoder) -> Profile:
    """The declared profile; a subject that starts from given embeddings is judged from there on."""
    return declared.replace(input="given") if start.profile["input"].variant == "given" else declared


def experiment(subject: Subject, mapping: ParameterMapping, sets: WeightSets, probes: Probes, case: Case) -> Experiment:
    """Call the subject once, for identification.

    Raises:
        SubjectError: if it cannot be called, or returns nothing like hidden states.
    """
    probe = probes[case.probe]
    sets.use(case.weights)
    try:
        output = subject.encode(probe.inputs, None).detach()
    except (Disagreement, Undetermined):
        raise
    except Exception as fault:
        shape = tuple(probe.inputs[0].shape)
        raise SubjectError(
            f"calling the encoder on {shape} {probe.inputs[0].dtype} raised {one_line(fault)}"
        ) from fault
    return Experiment(mapping.canonical(sets[case.weights]), probe.inputs, output)

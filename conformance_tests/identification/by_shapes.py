"""An encoder read by names and shapes alone: nothing of it runs, and what no shape tells stays open.

Two choices with the same parameters look the same here: Post-LN and Pre-LN, one activation and another, any ε. What the
encoder states of them is taken as a statement, and what it does not state is left open.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from conformance_tests.errors import Undetermined
from conformance_tests.harness.question import Question
from conformance_tests.harness.run import Run
from conformance_tests.harness.weight_sets import WeightSets
from conformance_tests.identification.epsilon import OUTER_NORMS
from conformance_tests.identification.foreign_parts import listed, parts_outside
from conformance_tests.identification.trial import Reading, otherwise_placed, with_input_of
from conformance_tests.parameters.evidence import said
from conformance_tests.parameters.mapping import OTHER_END, ParameterMapping, reading
from conformance_tests.parameters.names import words
from conformance_tests.subjects.shapes import ShapesSubject
from conformance_tests.subjects.subject import Subject
from encoder_spec.assembly import Encoder
from encoder_spec.equation import places, variants
from encoder_spec.notation import SYMBOLS, SpecificationError
from encoder_spec.profiles import CONSTANTS, PROFILES

TABLE = "P"
"""The table of positions: in a file, it may be learned, or hold sinusoids that are kept."""

CLEARLY = 1.0
"""So much more must the words of a norm's name speak for its place than for the other: a plain name says nothing."""

HEADS, LAYERS = SYMBOLS["h"].word, SYMBOLS["N"].word


def read_by_shapes(subject: Subject, question: Question) -> Run:
    """Return a run for the checks of the level ``static``; of a declared profile it holds what has parameters.

    Raises:
        Undetermined: if the parameters are those of no encoder.
        SubjectError: if they have no shapes.
    """
    shapes = ShapesSubject.of(subject)
    try:
        mapping = reading(shapes.weights(), stated=shapes.hints.parameters)
    except SpecificationError as reason:
        raise Undetermined(str(reason)) from None
    encoder, _ = Reading(mapping, shapes.weights(), shapes.hints, question.declared).open()
    repeated = repetitions(mapping, encoder, shapes)
    stored = [path for path, source in mapping.sources.items() if source.names]
    if question.declared is None and any(encoder.home(path) not in (path, repeated.get(path)) for path in stored):
        encoder, repeated = encoder.replace(sharing="none"), {}  # some arrays of a layer are its own
    kept = {TABLE} if not shapes.tells_constants() and TABLE not in encoder.parameter_shapes() else set()
    known, mapping = mapping, mapping.restricted(mapping.sources.keys() - repeated.keys() - kept)
    if question.declared is None:
        known = mapping = mapping.restricted(encoder.parameter_shapes())
    used = {id(shapes.weights()[name]) for source in known.sources.values() for name in source.names}
    outside = [part for part in parts_outside(mapping, shapes.hints) if id(shapes.weights().get(part)) not in used]
    if outside:
        shapes.left_over = f"no slot of the specification has {listed(outside)}: whether it matters, only a call tells"
    return Run(shapes, encoder, mapping, WeightSets(shapes, mapping, question.seed), question, identified=False)


def repetitions(mapping: ParameterMapping, encoder: Encoder, subject: Subject) -> dict[str, str]:
    """Return the paths at which a layer has the arrays of another one under further names, each with their home."""
    weights = subject.weights()
    found: dict[str, str] = {}
    for path, here in mapping.sources.items():
        home = mapping.sources.get(encoder.home(path))
        if home is not None and here.names != home.names:
            is_one = [id(weights[name]) for name in here.names] == [id(weights[name]) for name in home.names]
            found |= {path: encoder.home(path)} if is_one else {}
    return found


@dataclass(frozen=True)
class Shown:
    """Choices that names and shapes show of an encoder, and those that they leave open.

    Attributes:
        choices: the variants, constants and sizes that shapes show, or that the encoder states.
        stated: the names of those that it states alone.
        open: the names of the others, each with the variants that have the same parameters; none for a number.
        profiles: the published profiles that have these parameters, and contradict no statement.
    """

    choices: Mapping[str, str | float]
    stated: tuple[str, ...]
    open: Mapping[str, list[str]]
    profiles: tuple[str, ...]


def shown_by_shapes(run: Run) -> Shown:
    """Return what names and shapes show of the encoder of a run, and what they leave open."""
    hints, encoder = run.subject.hints, run.encoder
    kept = not run.subject.tells_constants()
    chosen, alike = encoder.choices(), look_alikes(encoder, kept=kept) | open_norms(run)
    numbers = [name for name in chosen if name.rpartition(".")[2] in CONSTANTS]
    numbers += [HEADS] if not run.mapping.heads else []
    numbers += [LAYERS] if "sharing" in alike else []
    untold = alike | {name: [] for name in numbers}
    given = dict(hints.choices) | {word: hints.sizes[size] for size, word in SAID.items() if size in hints.sizes}
    # A declared profile is held to what shapes show, whatever else is stated.
    stated = tuple(n for n in untold if n in given and chosen[n] == given[n] and run.question.declared is None)
    left = {name: fitting for name, fitting in untold.items() if name not in stated}
    profiles = fitting_profiles(encoder, {name: chosen[name] for name in stated}, kept=kept)
    return Shown({n: choice for n, choice in chosen.items() if n not in left}, stated, left, tuple(profiles))


SAID = {"h": HEADS, "N": LAYERS}
"""The sizes that no shape may show, each with its name among choices."""


def look_alikes(encoder: Encoder, *, kept: bool) -> dict[str, list[str]]:
    """Return the slots of which another variant has the very same parameters, each with the variants that have.

    Args:
        encoder: what was read.
        kept: whether its table of positions may be a constant.
    """
    small = with_few_layers(encoder)
    two_layers = replace(small, dimensions=small.dimensions.replace(N=2))
    alike = possible_shapes(small, kept=kept)
    found: dict[str, list[str]] = {}
    for name, choice in small.choices().items():
        slot = name.partition("_")[0] if name in places() else name
        if isinstance(choice, str):
            others = [v for v in variants(slot) if v == choice or shapes_of(small, name, v) in alike]
            # One that changes nothing, such as what is shared of a table that there is not, leaves nothing open.
            fitting = [v for v in others if v == choice or two_layers.replace(**{name: v}).whole != two_layers.whole]
            found |= {name: fitting} if len(fitting) > 1 else {}
    if any(shapes_of(other) in alike for other in otherwise_placed(small)):
        found["input"] = ["given", "embedded"]  # positions may be added to vectors
    return found


def open_norms(run: Run) -> dict[str, list[str]]:
    """Return the slots of norms outside of the layers that shapes leave open, each with its variants.

    A norm without parameters has no shape. The only one with parameters stands behind the layers or before them, unless
    its name says where.
    """
    chosen = run.encoder.choices()
    found = {slot for slot in OUTER_NORMS.values() if chosen.get(slot) == "none"}
    known = [place for place in OTHER_END if f"{place}.gamma" in run.mapping.sources]
    if len(known) == 1 and chosen["input"] != "given":
        spoken = said(words(run.mapping.sources[f"{known[0]}.gamma"].names[0]))
        here, there = spoken.get(known[0], 0.0), spoken.get(OTHER_END[known[0]], 0.0)
        found |= {OUTER_NORMS[place] for place in OTHER_END} if here - there < CLEARLY else set()
    return {slot: list(variants(slot)) for slot in sorted(found)}


def fitting_profiles(encoder: Encoder, stated: Mapping[str, str | float], *, kept: bool) -> Collection[str]:
    """Return the published profiles that have the parameters of an encoder, and make the choices that it states."""
    small = with_few_layers(encoder)
    alike = possible_shapes(small, kept=kept)
    sizes = SAID.values()
    return [
        name
        for name, profile in PROFILES.items()
        if shapes_of(Encoder(with_input_of(profile, small), small.dimensions)) in alike
        and all(profile.choices().get(slot) == choice for slot, choice in stated.items() if slot not in sizes)
    ]


def possible_shapes(encoder: Encoder, *, kept: bool) -> list[Mapping[str, tuple[int, ...]]]:
    """Return the shapes of parameters that another choice may have to look like an encoder."""
    have = encoder.parameter_shapes()
    return [have, {path: shape for path, shape in have.items() if path != TABLE}] if kept else [have]


def with_few_layers(encoder: Encoder) -> Encoder:
    """Return an encoder with at most two layers: which choices look alike does not depend on their number."""
    return Encoder(encoder.profile, encoder.dimensions.replace(N=min(encoder.dimensions.N, 2)))


def shapes_of(encoder: Encoder, slot: str = "", variant: str = "") -> Mapping[str, tuple[int, ...]]:
    """Return the shape of each parameter, with another variant in a slot if one is given; nothing if that fits none."""
    with suppress(SpecificationError, KeyError):
        return (encoder.replace(**{slot: variant}) if slot else encoder).parameter_shapes()
    return {}

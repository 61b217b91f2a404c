"""Notes beside the verdict of a report: the variant, and what is worth knowing of an encoder though not a fault."""

from collections.abc import Sequence

import torch

from conformance_tests.computation.constants import WITH_CONSTANT
from conformance_tests.deviations.resolution import on_file, unresolved
from conformance_tests.harness.rare_ids import USUAL_PADDING
from conformance_tests.harness.run import Run
from conformance_tests.identification.by_shapes import shown_by_shapes
from conformance_tests.identification.identify import nearest_profile
from conformance_tests.numerics.noise import IMMODERATE
from conformance_tests.numerics.probes import sizes_in_words
from conformance_tests.parameters.names import is_beside
from conformance_tests.reports.report import TargetReport
from conformance_tests.subjects.segments import FIRST_ALONE

MOST_NAMES = 3
"""So many parameters are named; a module that lost its numbers has lost them in all."""


def describe(run: Run, report: TargetReport) -> None:
    """Write the variant into the report; if no profile of it is published, also the nearest one."""
    chosen, declared = (run.with_head or run).encoder.choices(), run.question.declared
    conventions = run.subject.conventions() | run.mapping.conventions()
    if run.encoder.profile["segment"].variant == "added" and not run.subject.takes_segments():
        conventions["segments"] = FIRST_ALONE
    report.notes.extend(run.subject.remarks())
    for path, layout in run.stored.items():
        chosen["position"] = layout
        report.notes.append(f"keeps its {layout} positions as a table ({path}): compared as stored")
        if unmoved := run.subject.unmoved():
            names = ", ".join(sorted(unmoved))
            report.notes.append(f"a plain attribute, which does not move with the encoder: {names}")
    for slot, number in run.facts.kept.items():
        constant = WITH_CONSTANT[str(chosen[slot])].constant
        first = number[0] if isinstance(number, list) else number
        report.notes.append(f"keeps {constant} {in_few_digits(first)} ({slot}): judged with it")
    padding = run.facts.unlearned.get("E", USUAL_PADDING)
    if padding in run.subject.special_ids and not run.subject.takes_mask:
        report.notes.append(f"compares its ids with {padding}, as with an id of padding, and hides no position by it")
    if run.sizes:
        why = "its positions are made for them" if run.sizes.image else "others are refused"
        report.notes.append(f"judged with {sizes_in_words(run.sizes)} alone: {why}")
    elif run.longest.refusal:
        report.notes.append(
            f"judged with at most {run.longest.positions} tokens: more are refused: {run.longest.refusal}"
        )
    if unusable := run.without_value:
        names = ", ".join(unusable[:MOST_NAMES]) + (" …" if len(unusable) > MOST_NAMES else "")
        report.notes.append(f"its own weights hold {IMMODERATE} ({names}): judged with others")
    if spare := run.mapping.spare:
        report.notes.append(f"without a part in the hidden states: {named(spare)}")
    if are_copies(run):
        report.notes.append("all layers start with the same weights: they are copies of one layer")
    if declared is not None:
        report.profile = {"name": declared.name, "choices": chosen, "conventions": conventions}
        if declared["input"] is not run.encoder.profile["input"]:
            report.notes.append("starts from given embeddings: the profile's input equations are not judged")
        return
    nearest, differences = nearest_profile(run.encoder)
    report.profile = {"name": nearest.name if not differences else "unpublished", "choices": chosen}
    report.profile["conventions"] = conventions
    report.profile["identified"] = run.identified
    if not run.identified:
        report.notes.append(
            "its outputs agree with no choice of equations; judged against what it states or comes closest to"
            + ("; the number of heads is a guess" if guesses_heads(run) else "")
        )
    for slot, variant in dict.fromkeys((f.slot, f.variant) for f in run.facts.findings if f.variant):
        report.notes.append(right_where_declared(slot, variant))
    if differences:
        differ = ", ".join(f"{slot} {mine} (there {theirs})" for slot, (mine, theirs) in differences.items())
        report.notes.append(f"no published profile; the nearest is {nearest.name}, which differs in {differ}")


def right_where_declared(slot: str, variant: str) -> str:
    """Return how to declare a choice that is taken for a mistake otherwise, in a sentence."""
    return f'{slot} {variant} is right where it is declared: `{slot} = "{variant}"` in a profile file'


def describe_shapes(run: Run, report: TargetReport) -> None:
    """Write into the report what names and shapes tell of the variant, and what they leave open."""
    found, declared = shown_by_shapes(run), run.question.declared
    name = declared.name if declared is not None else "open" if found.profiles else "unpublished"
    report.profile = {"name": name, "choices": dict(found.choices), "open": dict(found.open)}
    arrays = {id(w): w for w in run.subject.shapes().values()}
    number = sum(w.numel() for w in arrays.values())
    report.notes.append(f"{number:,} parameters in {len(arrays):,} arrays, by names and shapes alone: nothing was run")
    if spare := [name for name in run.mapping.unmapped if is_beside(name)]:
        report.notes.append(f"beside the hidden states: {named(spare)}")
    if declared is None:
        report.profile["identified"] = False
        report.notes.append(f"published profiles that fit: {', '.join(found.profiles) or 'none'}")
    if found.stated:
        said = ", ".join(f"{name} {found.choices[name]}" for name in found.stated)
        report.notes.append(f"stated, and shown by no shape: {said}")
    report.notes.append(f"open, since no shape shows it: {', '.join(found.open)}")


def in_few_digits(number: float | torch.Tensor) -> str:
    """Return a constant as it is kept, to stand in a sentence; of several, that they are rounded."""
    return "in fewer digits than float64 has" if isinstance(number, torch.Tensor) else f"as {number:.9g}"


def named(names: Sequence[str]) -> str:
    """Return the first of some names, and how many more there are."""
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{', '.join(names[:MOST_NAMES])}{more}"


def elsewhere(device: str) -> list[str]:
    """Return where an encoder was judged, in a sentence; an empty list if that was on the CPU."""
    kind = torch.device(device).type
    if kind == "cuda":
        return [f"judged on {device} ({torch.cuda.get_device_name(device)}), with TF32 off"]
    return [] if kind == "cpu" else [f"judged on {device}"]


def guesses_heads(run: Run) -> bool:
    """Return whether the single head is only where the search began: nothing states or shows how many there are."""
    is_stated = run.mapping.heads or run.subject.hints.heads or "h" in run.subject.hints.sizes
    return not is_stated and run.encoder.dimensions.h == 1


def are_copies(run: Run) -> bool:
    """Return whether each layer has separate parameters, but with the values of the first layer."""
    given, N = run.stated_parameters(), run.encoder.dimensions.N
    maps = [path.split(".", 2)[2] for path in given if path.startswith("layers.0.W_")]
    others = [(l, name) for l in range(1, N) for name in maps]
    return (
        bool(others)
        and run.encoder.profile["sharing"].variant == "none"
        and all(f"layers.{l}.{name}" in given for l, name in others)
        and all(torch.equal(given[f"layers.{l}.{name}"], given[f"layers.0.{name}"]) for l, name in others)
    )


def below_resolution(dtype: str) -> list[str]:
    """Say what a verdict in a precision below float64 leaves open; return no sentence if that is nothing."""
    if dtype == "float64":
        return []
    below = len(unresolved(on_file(), dtype))
    return [f"{below} of the known deviations are not decidable in {dtype}: nothing is said of them"] if below else []

"""A report in the order in which people read it, whether in a terminal, in Markdown or as a page."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from conformance_tests.reports.report import Level, Report, Result, TargetReport
from conformance_tests.reports.site import Place, of_diagnosis

WORST = ("error", "fail", "xpass", "blocked", "unsupported", "xfail", "pass")
TELLING = (
    "layer",
    "norm",
    "eps",
    "norm_final.eps",
    "activation",
    "final_norm",
    "projections",
    "scores",
    "position",
    "sharing",
)
AT_RANDOM = "Diagnosis: two equal calls give different outputs, so no deviation can reproduce them."
NONE_FITS = "Diagnosis: no deviation in the catalogue, and no pair of them, reproduces what it computes."
MOST_DIAGNOSES = 3
"""Number of explanations that are shown; the JSON report has all of them."""

SIZES = ("num_layers", "num_heads", "d_model", "d_ff")


@dataclass(frozen=True)
class Topic:
    """The results of one topic, such as ``attention``."""

    name: str
    results: list[Result]

    @property
    def worst(self) -> str:
        """The outcome that matters most."""
        return min((r.outcome for r in self.results), key=WORST.index)

    @property
    def met(self) -> int:
        """Number of requirements that passed."""
        return sum(r.outcome == "pass" for r in self.results)

    @property
    def level(self) -> Level | None:
        """The strongest evidence among what passed."""
        return max((Level.named(r.level) for r in self.results if r.outcome == "pass"), default=None)


def by_topic(target: TargetReport) -> list[Topic]:
    """Return the results in the order of the specification."""
    from encoder_spec.equation import TOPICS

    def place(result: Result) -> int:
        return TOPICS.index(topic_of(result))

    ordered = sorted(target.requirements, key=place)
    return [Topic(name, sorted(group, key=id_key)) for name, group in groupby(ordered, key=topic_of)]


def topic_of(result: Result) -> str:
    """Return the topic of a result's equation."""
    return result.equation.partition(".")[0]


def id_key(result: Result) -> tuple[str, int]:
    """Return a key that sorts ids by their numbers."""
    prefix, _, number = result.id.partition("-")
    return prefix, int(number)


def chosen(target: TargetReport, names: Sequence[str]) -> str:
    """Return these choices of the profile, in one line."""
    choices = target.profile.get("choices", {})
    return " · ".join(f"{name} {choices[name]}" for name in names if name in choices)


def conventions(target: TargetReport) -> str:
    """Return in one line how the encoder is called and how it stores its arrays, as far as the suite worked it out."""
    places: dict[str, list[str]] = {}
    for what, said in target.profile.get("conventions", {}).items():
        # An argument with the word in its name needs no label beside it.
        argument, called_so, _ = said.partition(":")
        places.setdefault(said, []).extend([] if called_so and what in argument else [what])
    return " · ".join(" ".join(filter(None, (", ".join(what), said))) for said, what in places.items())


def extent(target: TargetReport) -> str:
    """Return in one line how far an encoder was looked at; no text if it answered no call."""
    seen = target.extent
    if not seen or not seen["positions"]:
        return ""
    sizes = (between(seen[axis], axis) for axis in ("positions", "sequences"))
    weights = f"{' and '.join(seen['weights'])} weights"
    return " · ".join([", ".join(sizes), ", ".join(seen["dtypes"]), ", ".join(seen["modes"]), weights])


def between(sizes: Sequence[int], of: str) -> str:
    """Return the smallest and the largest of some sizes, in words."""
    return f"{sizes[0]} {of}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} {of}"


def closeness(results: Iterable[Result]) -> str:
    """Return the largest error among results that compared numbers, beside the allowed one."""
    measured = [(r.error, r.budget) for r in results if r.error is not None and r.budget]
    if not measured:
        return ""
    error, budget = max(measured, key=lambda pair: pair[0] / pair[1])
    return f"{error:.1e} {'≤' if error <= budget else '>'} {budget:.0e}"


def failures(target: TargetReport) -> list[Result]:
    """Return everything that counts against the encoder, beginning where it departs from the specification."""
    return sorted((r for r in target.requirements if r.counts_against), key=lambda r: r.equation != target.departs_at)


def headings(target: TargetReport) -> list[str]:
    """Return the lines that say most of a subject that failed: where it departs, on which input, and why."""
    lines = [f"Departs from the specification at {target.departs_at}"] if target.departs_at else []
    lines += [f"The smallest input with a wrong output: {tuple(target.smallest)}"] if target.smallest else []
    for said in diagnoses(target):
        lines += [said.sentence, *([f"Explained: {said.place}"] if said.place else [])]
    return lines


@dataclass(frozen=True)
class Diagnosis:
    """A defect in one sentence, and where it is explained: nowhere, if none in the catalogue fits."""

    sentence: str
    place: Place | None = None


def diagnoses(target: TargetReport) -> list[Diagnosis]:
    """Return the defects known of a subject that failed.

    What its computation shows holds all at once, and a deviation beside it says the same in other words. Deviations
    alone are alternatives, the likeliest first.
    """
    places = {d["says"]: of_diagnosis(d) for d in reversed(target.diagnosis)}
    shown = list(dict.fromkeys(d["says"] for d in target.diagnosis if not d.get("deviation")))
    matching = list(dict.fromkeys(d["says"] for d in target.diagnosis if d.get("deviation")))[:MOST_DIAGNOSES]
    said = [*(("And", says) for says in shown), *(("In other words" if shown else "Or", says) for says in matching)]
    if not said and "DROP-1" in {r.id for r in target.of("fail")}:
        return [Diagnosis(AT_RANDOM)]
    if not said and target.of("fail") and target.explained:
        return [Diagnosis(NONE_FITS)]
    return [
        Diagnosis(f"{lead if number else 'Diagnosis'}: {sentence}.", places[sentence])
        for number, (lead, sentence) in enumerate(said)
    ]


def undecided(target: TargetReport) -> dict[tuple[str, str], list[str]]:
    """Return the requirements without an answer, by outcome and reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for result in [*target.of("blocked"), *target.of("unsupported")]:
        reasons.setdefault((result.outcome, result.message), []).append(result.id)
    return reasons


def summary(report: Report) -> str:
    """Return the verdict over all targets, in a few words."""
    if len(report.targets) == 1:
        return report.verdict
    conformant = sum(t.verdict == "conformant" for t in report.targets)
    return f"{conformant} of {len(report.targets)} conformant"

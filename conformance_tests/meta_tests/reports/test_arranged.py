"""The order in which a report is read, and the sentences that it says."""

from typing import Any

import pytest

from conformance_tests.reports.arranged import (
    SIZES,
    TELLING,
    WORST,
    Topic,
    by_topic,
    chosen,
    closeness,
    conventions,
    diagnoses,
    extent,
    failures,
    headings,
    id_key,
    summary,
    undecided,
)
from conformance_tests.reports.report import OUTCOMES, Level, Report, Result, TargetReport
from encoder_spec.equation import places, slots
from encoder_spec.notation import SYMBOLS
from encoder_spec.profiles import CONSTANTS


def result(
    id: str, outcome: str = "pass", equation: str = "attention.scores", level: str = "trace", **more: Any
) -> Result:
    return Result(id, equation, "test", level, outcome, **more)


def test_topics_stand_in_the_order_of_the_specification_and_ids_in_that_of_their_numbers() -> None:
    """Embedding before attention before norm; ATT-9 before ATT-10; MASK behind ATT."""
    given = [
        result("NORM-1", equation="norm.statistics"),
        result("MASK-2", equation="attention.mask"),
        result("ATT-10"),
        result("EMB-1", equation="embedding"),
        result("ATT-9", equation="attention"),
    ]
    topics = by_topic(TargetReport("x", requirements=given))
    assert [(t.name, [r.id for r in t.results]) for t in topics] == [
        ("embedding", ["EMB-1"]),
        ("attention", ["ATT-9", "ATT-10", "MASK-2"]),
        ("norm", ["NORM-1"]),
    ]
    assert id_key(given[2]) == ("ATT", 10)


@pytest.mark.parametrize(("place", "outcome"), [*enumerate(WORST)])
def test_the_worst_outcome_of_a_topic_counts(place: int, outcome: str) -> None:
    """Beside all that are less bad, from error and fail to pass; each outcome has its place."""
    assert set(WORST) == set(OUTCOMES)
    others = [result("ATT-1", milder) for milder in WORST[place:]]
    assert Topic("attention", [*reversed(others)]).worst == outcome


def test_a_topic_counts_what_passed_and_the_strongest_evidence_of_that() -> None:
    """Two passes, the stronger one black-box; the failure at level gradient is no evidence."""
    results = [
        result("ATT-1", level="static"),
        result("ATT-3", "fail", level="gradient"),
        result("ATT-4", level="black-box"),
    ]
    topic = Topic("attention", results)
    assert (topic.met, topic.level) == (2, Level.BLACK_BOX)
    assert Topic("attention", results[1:2]).level is None
    assert Topic("attention", results[1:2]).met == 0


def test_what_is_shown_of_a_profile_are_choices_and_sizes_that_there_are() -> None:
    """Slots, places of slots and constants, and a constant of one place; no two alike."""
    names = {*slots(), *places(), *CONSTANTS}
    assert [name for name in TELLING if name.rpartition(".")[2] not in names] == []
    assert [name.partition(".")[0] for name in TELLING if "." in name] == ["norm_final"]
    assert {"layer", "norm", "eps", "activation", "position"} <= set(TELLING)
    assert set(SIZES) <= {symbol.word for symbol in SYMBOLS.values()}
    assert (len(set(TELLING)), len(set(SIZES))) == (len(TELLING), len(SIZES)) == (10, 4)


def test_choices_are_shown_in_the_order_asked_for() -> None:
    """What the profile does not say is left out; without a profile nothing is said."""
    target = TargetReport("x", profile={"choices": {"eps": 1e-5, "norm": "rms", "layer": "pre-ln"}})
    assert chosen(target, ("layer", "absent", "eps")) == "layer pre-ln · eps 1e-05"
    assert chosen(TargetReport("x"), ("layer",)) == ""


def test_conventions_are_said_once_each() -> None:
    """Equal ones together, by all their names; an argument that is called mask needs no other word for it."""
    said = {
        "mask": "attention_mask: (B, n)",
        "W_Q": "output × input",
        "W_K": "output × input",
        "input": "(n, B, d_model)",
    }
    assert conventions(TargetReport("x", profile={"conventions": said})) == (
        "attention_mask: (B, n) · W_Q, W_K output × input · input (n, B, d_model)"
    )
    assert conventions(TargetReport("x", profile={"conventions": {"mask": "keep: (B, n)"}})) == "mask keep: (B, n)"
    assert conventions(TargetReport("x", profile={"conventions": {"mask": "mask"}})) == "mask mask"
    assert conventions(TargetReport("x")) == ""


@pytest.mark.parametrize(
    ("measured", "said"),
    [
        ([], ""),
        ([(None, None)], ""),
        ([(0.5, None), (0.5, 0.0), (None, 0.5)], ""),
        ([(0.25, 0.5)], "2.5e-01 ≤ 5e-01"),
        ([(0.5, 0.5)], "5.0e-01 ≤ 5e-01"),
        ([(0.5, 0.25)], "5.0e-01 > 2e-01"),
        ([(0.5, 1.0), (0.03, 0.01)], "3.0e-02 > 1e-02"),
        ([(0.0, 0.5)], "0.0e+00 ≤ 5e-01"),
    ],
)
def test_closeness_is_the_error_nearest_to_its_budget(measured: list[tuple[Any, Any]], said: str) -> None:
    """0.03 of 0.01 is nearer than 0.5 of 1; what was not measured, or had no budget, says nothing."""
    assert closeness(result("ATT-1", error=e, budget=b) for e, b in measured) == said


def test_failures_begin_where_the_encoder_departs() -> None:
    """The others keep their order; passes and expected failures are none."""
    given = [
        result("ATT-1", "error"),
        result("ATT-2"),
        result("ATT-3", "xfail"),
        result("MASK-1", "fail", equation="attention.mask"),
        result("ATT-4", "xpass"),
    ]
    target = TargetReport("x", requirements=given, departs_at="attention.mask")
    assert [r.id for r in failures(target)] == ["MASK-1", "ATT-1", "ATT-4"]


def sentences(target: TargetReport) -> list[str]:
    return [said.sentence for said in diagnoses(target)]


def test_a_diagnosis_leads_to_its_deviation_or_its_equation() -> None:
    """A diagnosis that no page explains has no link: masks that are not in the catalogue, or no match at all."""
    pages = {
        "wrong-attention.html#scores-not-scaled": "deviations scores-not-scaled",
        "attention.html#attention.scores": "equations attention.scores",
        "": None,
    }
    said = [{"deviation": "some", "says": page, "page": page} for page in pages]
    target = TargetReport("x", requirements=[result("ATT-3", "fail")], diagnosis=said)
    places = [told.place for told in diagnoses(target)]
    assert [place and place.command for place in places] == [*pages.values()]
    assert [place and place.page for place in places] == [page or None for page in pages]
    assert headings(target)[1].startswith("Explained: encoder-spec deviations scores-not-scaled (on the site: wrong-")


def test_three_diagnoses_are_shown_each_once() -> None:
    """The likeliest first, then alternatives."""
    said = [{"deviation": "some", "says": word} for word in ("one", "two", "one", "three", "four")]
    target = TargetReport("x", requirements=[result("ATT-3", "fail")], diagnosis=said)
    assert sentences(target) == ["Diagnosis: one.", "Or: two.", "Or: three."]


def test_what_a_computation_shows_comes_first_and_in_full() -> None:
    """Each of it holds; the deviation that reproduces it is named behind it."""
    shown = [{"deviation": "", "says": word} for word in ("one", "two", "three", "four", "two")]
    said = [*shown, {"deviation": "some", "says": "five"}]
    target = TargetReport("x", requirements=[result("ATT-3", "fail")], diagnosis=said)
    assert sentences(target) == ["Diagnosis: one.", "And: two.", "And: three.", "And: four.", "In other words: five."]


NONE_FITS = "Diagnosis: no deviation in the catalogue, and no pair of them, reproduces what it computes."
AT_RANDOM = "Diagnosis: two equal calls give different outputs, so no deviation can reproduce them."


@pytest.mark.parametrize(
    ("results", "said"),
    [
        ([result("ATT-3", "fail")], [NONE_FITS]),
        ([result("DROP-1", "fail"), result("ATT-3", "fail")], [AT_RANDOM]),
        ([result("DROP-1"), result("ATT-3", "fail")], [NONE_FITS]),
        ([result("DROP-1", "fail")], [AT_RANDOM]),
        ([result("ATT-3"), result("ATT-4", "error")], []),
        ([], []),
    ],
)
def test_a_failure_without_a_diagnosis_is_said_to_have_none(results: list[Result], said: list[str]) -> None:
    """Where equal calls differ, that is the reason; where nothing failed, nothing is to be explained."""
    assert sentences(TargetReport("x", requirements=results)) == said
    told = [{"says": "known"}] if results else []
    assert sentences(TargetReport("x", requirements=results, diagnosis=told)) == ["Diagnosis: known."] * len(told)


def test_what_could_not_be_decided_stands_together_by_outcome_and_reason() -> None:
    """Blocked ones first; the same reason under another outcome is another entry."""
    given = [
        result("ATT-1", "unsupported", message="no mask"),
        result("ATT-3", "blocked", message="wrong before"),
        result("ATT-4", "unsupported", message="no mask"),
        result("ATT-5", "unsupported", message="wrong before"),
        result("ATT-6", "fail", message="no mask"),
    ]
    assert list(undecided(TargetReport("x", requirements=given)).items()) == [
        (("blocked", "wrong before"), ["ATT-3"]),
        (("unsupported", "no mask"), ["ATT-1", "ATT-4"]),
        (("unsupported", "wrong before"), ["ATT-5"]),
    ]


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        (["undetermined"], "undetermined"),
        (["conformant", "error", "conformant"], "2 of 3 conformant"),
        ([], "0 of 0 conformant"),
    ],
)
def test_the_summary_is_a_verdict_or_a_count(verdicts: list[str], said: str) -> None:
    assert summary(Report(0, [TargetReport("x", v) for v in verdicts])) == said


SEEN: dict[str, list[Any]] = {
    "positions": [1, 7, 257],
    "sequences": [3],
    "dtypes": ["float64", "float32"],
    "modes": ["with gradients", "as its owner uses it"],
    "weights": ["its own", "drawn"],
}


def test_the_extent_is_said_from_the_smallest_to_the_largest() -> None:
    """One size is said alone; where nothing was answered, nothing is said."""
    assert extent(TargetReport("x", extent=SEEN)) == (
        "1 to 257 positions, 3 sequences · float64, float32 · with gradients, as its owner uses it"
        " · its own and drawn weights"
    )
    assert extent(TargetReport("x")) == ""
    assert extent(TargetReport("x", extent={kind: [] for kind in SEEN})) == ""

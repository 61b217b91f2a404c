"""The suite can fail: every deviation of the catalogue is noticed, by a requirement of its own equation."""

import re
from dataclasses import replace
from typing import Any

import pytest

from conformance_tests.deviations import deviation, deviations, resolution
from conformance_tests.diagnosis.explanations import Explanation
from conformance_tests.diagnosis.locating import located
from conformance_tests.quality import kills, pairs
from conformance_tests.quality.fingerprint import code_of, fingerprint, is_stale
from conformance_tests.quality.kill_matrix import AUTO, FILE, SMALL, Row, cases, computed, faults, on_file
from conformance_tests.reports.report import Result
from encoder_spec.assembly import Encoder
from encoder_spec.equation import TOPICS, equations, requirements
from encoder_spec.profiles import PROFILES

THREAD = re.compile(r"^[\w.-]+/[\w.-]+#\d+$")


def test_catalogue_is_large_and_covers_every_topic() -> None:
    """The build must show at least 120; each topic has some."""
    assert len(deviations()) >= 120
    assert {equations()[d.of[0]].topic for d in deviations().values()} == set(TOPICS)


@pytest.mark.parametrize("id", deviations())
def test_deviation_is_described_and_names_what_exists(id: str) -> None:
    """One line that ends in a full stop; equations of one slot; requirements that a check decides; threads."""
    d = deviations()[id]
    assert re.fullmatch(r"[^\n]{12,110}\.", d.definition), d.definition
    assert {equations()[of].slot for of in d.of} == {d.slot}
    assert d.noticed_by
    assert set(d.noticed_by) <= set(requirements())
    assert [e for e in d.evidence if not (THREAD.match(e) or e == "commonly seen")] == []


def test_deviation_cannot_be_defined_twice() -> None:
    """A second one of the same name would take the place of the first in the matrix."""
    with pytest.raises(ValueError, match="scores-not-scaled is defined twice"):
        deviation("scores-not-scaled", "attention.scores", "ATT-3")(lambda Q, K: Q @ K.mT)


# The matrix on file ------------------------------------------------------------------------


def test_matrix_on_file_is_of_this_code() -> None:
    """Equations, checks and deviations are those that it was computed from; `make matrix` computes it anew."""
    assert not is_stale(FILE)


def test_matrix_on_file_has_every_case() -> None:
    """A deviation that was added, renamed or taken away has its rows added, renamed or taken away."""
    assert [(r.deviation, r.within, r.judged_as) for r in on_file()] == cases()


def test_matrix_on_file_shows_no_fault() -> None:
    """Nothing survives, nothing is noticed by neighbours alone or mistaken, no requirement kills nothing."""
    assert list(faults(on_file())) == []


def test_right_deviation_is_diagnosed_first() -> None:
    """Of 95 in 100; what comes out first of the others fills the same slot, or reproduces the same numbers."""
    declared = [r for r in on_file() if r.judged_as != AUTO]
    assert len([r for r in declared if r.diagnosis[:1] == (r.deviation,)]) >= 0.95 * len(declared)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"verdict": "conformant"}, "scores-not-scaled in vaswani-2017 is conformant: no requirement fails"),
        ({"killed_by": ("ENC-2",)}, "scores-not-scaled in vaswani-2017 is noticed by ENC-2 alone"),
        ({"departs_at": "ffn", "diagnosis": ("ffn-halved",)}, "scores-not-scaled in vaswani-2017 is taken for ffn"),
    ],
)
def test_fault_in_one_row_is_found(change: dict[str, Any], fault: str) -> None:
    """A survivor, a row that only neighbours notice, and one that is taken for another equation."""
    rows = [
        replace(r, **change) if (r.deviation, r.judged_as) == ("scores-not-scaled", "vaswani-2017") else r
        for r in on_file()
    ]
    assert [found for found in faults(rows) if found.startswith(fault)]


def test_requirement_that_kills_nothing_is_found() -> None:
    """Without the deviations of the scores nothing needs ATT-3."""
    rows = [r for r in on_file() if deviations()[r.deviation].slot != "scores" and "ATT-3" not in r.killed_by]
    assert "ATT-3 kills nothing: its check is too weak, or it is not needed" in faults(rows)


def test_survivor_is_found_when_judged_freely() -> None:
    """A capped activation is the choice of no encoder: with `auto` it must fail as well."""
    rows = [r for r in on_file() if r.deviation == "activation-capped-at-6"]
    acquitted = [replace(r, verdict="conformant") for r in rows if r.judged_as == AUTO]
    assert next(faults(acquitted)).startswith("activation-capped-at-6 survives without a declared profile")


# Every published profile -----------------------------------------------------------------------


def test_every_published_profile_is_on_file() -> None:
    """Of this code, with each deviation in each published profile to which it applies."""
    assert not is_stale(kills.FILE)
    assert [(id, within) for id, of in kills.on_file().items() for within in of] == kills.cases()


def test_nothing_survives_in_any_published_profile() -> None:
    """A requirement of its own notices each deviation wherever it is put."""
    assert list(kills.faults(kills.on_file())) == []


def test_what_is_decided_alone_fails_as_it_does_among_all_checks() -> None:
    """Of what fails in the matrix, here are the deviation's own requirements, of which one fails there."""
    everywhere = kills.on_file()
    both = [r for r in on_file() if r.within == r.judged_as and r.within in everywhere.get(r.deviation, ())]
    assert len(both) >= len(deviations()) / 2
    own = {r: set(r.killed_by) & set(deviations()[r.deviation].noticed_by) for r in both}
    assert [r for r in both if set(everywhere[r.deviation][r.within]) != own[r]] == []


def test_survivor_in_one_profile_is_found() -> None:
    """Where nothing fails, or something else happens; what cannot be built or called does not survive."""
    of = {"bert": (), "vit": ("ValueError: no",), "pre-ln": ("ATT-3",), "deit": (kills.RAISES,)}
    assert list(kills.faults({"scores-not-scaled": of})) == [
        "scores-not-scaled in bert is noticed by nothing, and not by ATT-3",
        "scores-not-scaled in vit is noticed by ValueError: no, and not by ATT-3",
    ]
    shared = {"layers-reversed": {"albert": (), "universal": ("ATT-3",)}}
    assert list(kills.faults(shared)) == ["layers-reversed in universal is noticed by ATT-3, and not by ENC-2"]


def test_what_is_said_of_single_profiles_is_still_so() -> None:
    """Nothing fails where a deviation is said to compute what the specification computes."""
    found = kills.on_file()
    said = [(id, within) for id, (profiles, _) in kills.NOTHING_TO_SEE.items() for within in profiles.split()]
    assert [(id, within) for id, within in said if found[id][within]] == []


def test_what_each_precision_tells_is_on_file_for_every_case() -> None:
    """`make resolution` computes it anew."""
    known = {(one.deviation, one.within) for one in resolution.on_file()}
    assert known == {(deviation, within) for deviation, within, _ in cases()}


# A sample, judged anew -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def sample() -> list[Row]:
    """A row of each slot; which one, turns with every change of the code."""
    by_slot: dict[str, list[Row]] = {}
    for r in on_file():
        if r.judged_as != AUTO:
            by_slot.setdefault(deviations()[r.deviation].slot, []).append(r)
    turn = int(fingerprint(), 16)
    return [rows[turn % len(rows)] for rows in by_slot.values()]


@pytest.mark.thorough
def test_sample_is_judged_as_on_file(sample: list[Row]) -> None:
    """Verdict, failing requirements, place of departure and diagnosis, whatever the order of equal explanations."""
    wanted = [(r.deviation, r.within, r.judged_as) for r in sample]
    anew = computed(wanted)
    assert [unordered(r) for r in anew] == [unordered(r) for r in sample]


def unordered(row: Row) -> Row:
    """A row with its diagnosis in alphabetical order."""
    return replace(row, diagnosis=tuple(sorted(row.diagnosis)))


# What is said of an encoder ------------------------------------------------------------------


def explained(*ids: str, residual: float | None = 1e-14) -> Explanation:
    """An explanation by these deviations."""
    return Explanation(tuple(deviations()[id] for id in ids), residual)


def test_a_defect_is_told_from_another_choice_that_comes_with_it() -> None:
    """The defect stands first, whatever the order; choices alone are what is wrong, and an article is no letter."""
    assert str(explained("activation-gelu", "layers-reversed")) == (
        "your encoder agrees to 1e-14 with the specification in which the layers are run in reverse order; "
        "as is right in other encoders, the activation is GELU with the error function"
    )
    assert str(explained("norm-eps-1e-05", "activation-gelu")).endswith(
        "in which the ε of the norms is 1e-05, and the activation is GELU with the error function"
    )
    assert str(explained("output-drifts-from-call-to-call", residual=None)) == (
        "your encoder fails the same requirements as the specification in which a factor grows with the number of calls"
    )


@pytest.mark.parametrize(
    ("profile", "by_value", "wrong", "where"),
    [
        ("vit", "embedding.cls", ["patches-in-column-order"], "embedding.patches"),
        ("bert", "attention.projections", ["last-layer-not-run"], "encoder"),
        ("bert", "attention.projections", ["activation-relu", "layers-reversed"], "encoder"),
        ("bert", "attention.projections", ["heads-interleaved"], "multihead.split"),
        ("bert", "norm.layer_norm", ["embedding-norm-unused"], "embedding.norm"),
        ("bert", None, ["softmax-without-shift"], "attention.weights"),
        # What is seen within the layer, or of the whole norm, is no contradiction.
        ("bert", "residual", ["post-ln-ffn-residual-missing"], "residual"),
        ("bert", "norm.layer_norm", ["norm-unbiased-variance"], "norm.layer_norm"),
    ],
)
def test_the_place_named_is_one_that_the_diagnosis_speaks_of(
    profile: str, by_value: str | None, wrong: list[str], where: str
) -> None:
    """Where a value is first missing, unless the diagnosis that reproduces all outputs says otherwise."""
    encoder = Encoder(PROFILES[profile], SMALL)
    assert located(by_value, [explained(*wrong)], [], encoder) == where
    assert located(by_value, [explained(*wrong, residual=None)], [], encoder) == by_value


def test_what_no_value_shows_is_laid_at_the_first_requirement_that_fails() -> None:
    """In the order of the specification; but a mask seems to leak where samples are mixed."""
    encoder = Encoder(PROFILES["bert"], SMALL)

    def failing(*ids: str) -> list[Result]:
        return [Result(id, requirements()[id].equation, "", "agreement", "fail") for id in ids]

    assert located(None, [], failing("ENC-4", "MASK-3"), encoder) == "attention.mask"
    assert located(None, [], failing("MASK-2", "ENC-5"), encoder) == "encoder"
    assert located(None, [], [], encoder) is None


# The fingerprint -----------------------------------------------------------------------------


def test_only_code_counts_for_the_fingerprint() -> None:
    """Comments, docstrings, empty lines and moves of our own modules change no outcome; a number does."""
    plain = "def f(x):\n    return 2 * x\n"
    told = '"""Text."""\n\n\ndef f(x):\n    """More."""\n    # Why.\n    return 2 * x\n'
    assert list(code_of(plain)) == list(code_of(told)) == plain.splitlines()
    assert list(code_of(plain.replace("2", "3"))) != list(code_of(plain))
    moved = "from encoder_spec.ffn import (\n    relu,\n)\n"
    assert list(code_of(moved + plain)) == plain.splitlines()
    assert list(code_of("from math import pi\n" + plain)) != plain.splitlines()


# Two at once ---------------------------------------------------------------------------------


def test_both_equations_are_named_for_most_pairs() -> None:
    """A sample of random pairs, on file: `python -m conformance_tests.quality.pairs` judges it anew."""
    rows = pairs.on_file()
    assert [(*r.deviations, r.within) for r in rows] == list(pairs.drawn(len(rows)))
    assert [r for r in rows if r.verdict != "nonconformant"] == []
    assert len([r for r in rows if r.names_both]) > len(rows) / 2

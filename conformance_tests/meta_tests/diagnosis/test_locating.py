"""The equation at which an encoder departs: from its values, from what reproduces it, and from what fails."""

import pytest

from conformance_tests.deviations import deviations
from conformance_tests.diagnosis.explanations import Explanation
from conformance_tests.diagnosis.locating import is_seen_at, located, parts
from conformance_tests.quality.kill_matrix import SMALL
from conformance_tests.reports.report import Result
from encoder_spec.assembly import Encoder
from encoder_spec.equation import earliest
from encoder_spec.profiles import PROFILES

ENCODER = Encoder(PROFILES["torch-post-ln"], SMALL)


def failure(id: str, equation: str) -> Result:
    return Result(id, equation, "test_x::test_y", "agreement", "fail")


def explanation(id: str, residual: float | None = 0.0) -> Explanation:
    return Explanation((deviations()[id],), residual)


def test_the_first_of_some_equations_is_the_one_that_is_evaluated_first() -> None:
    """Scores before their softmax, attention before the norm; of no equations there is no first."""
    assert earliest(["norm.layer_norm", "attention.weights", "attention.scores"]) == "attention.scores"
    assert earliest(["attention.scores", "norm.layer_norm"]) == "attention.scores"
    assert earliest([]) is None


def test_a_slot_holds_its_equation_and_what_that_uses() -> None:
    """Scores use nothing; the layer uses the scores of its heads."""
    assert parts("scores", ENCODER) == {"attention.scores"}
    assert {"attention.scores", ENCODER.profile["layer"].id} < parts("layer", ENCODER)


@pytest.mark.parametrize(
    ("by_value", "slot", "seen"),
    [
        ("attention.scores", "scores", True),
        ("attention.scores", "layer", True),
        ("attention.scores", "stack", False),
        ("attention.scores", "norm", False),
        ("norm.layer_norm", "scores", False),
    ],
)
def test_a_deviation_is_seen_at_its_equation_or_at_a_part_of_it(by_value: str, slot: str, seen: bool) -> None:
    """The stack holds everything: that something in it is wrong says nothing about the stack."""
    assert is_seen_at(by_value, slot, ENCODER) is seen


def test_a_wrong_part_is_seen_at_the_equation_that_uses_it() -> None:
    """Wrong scores are first seen in the output of a layer that shows nothing inside."""
    assert is_seen_at(ENCODER.profile["layer"].id, "scores", ENCODER)


SCALE = "scores-scaled-by-d-model"


@pytest.mark.parametrize(
    ("by_value", "explanations", "failed", "equation"),
    [
        (None, [], [], None),
        ("attention.weights", [], [failure("ATT-3", "attention.scores")], "attention.weights"),
        (None, [], [failure("NORM-1", "norm.layer_norm"), failure("ATT-3", "attention.scores")], "attention.scores"),
        (None, [explanation(SCALE)], [failure("NORM-1", "norm.layer_norm")], "attention.scores"),
        ("norm.layer_norm", [explanation(SCALE)], [], "attention.scores"),
        ("norm.layer_norm", [explanation(SCALE, None)], [], "norm.layer_norm"),
        ("attention.scores", [explanation(SCALE)], [failure("NORM-1", "norm.layer_norm")], "attention.scores"),
        (None, [], [failure("ATT-3", "attention.scores"), failure("ENC-5", "encoder")], "encoder"),
        (None, [], [failure("ATT-3", "attention.scores"), failure("DROP-1", "dropout.identity")], "dropout.identity"),
    ],
)
def test_an_exact_diagnosis_outweighs_a_value_elsewhere_and_a_value_outweighs_failures(
    by_value: str | None, explanations: list[Explanation], failed: list[Result], equation: str | None
) -> None:
    """A diagnosis without numbers does not; mixed samples and random outputs are the causes of other failures."""
    assert located(by_value, explanations, failed, ENCODER) == equation


def test_a_value_inside_the_equation_that_is_wrong_is_the_nearer_sign() -> None:
    """Whatever else reproduces the subject, what is seen first at a part of the wrong equation is seen there."""
    wrong_layer = next(
        d for d in deviations().values() if d.slot == "layer" and d.applies(ENCODER.profile) and not d.is_variant
    )
    value = next(id for id in sorted(parts("layer", ENCODER)) if id != ENCODER.profile["layer"].id)
    assert located(value, [Explanation((wrong_layer,), 0.0)], [], ENCODER) == value


def test_a_sublayer_that_outputs_tell_outweighs_failures_and_nothing_else() -> None:
    """A missing value, an exact diagnosis and a cause of other failures count for more."""
    output, mixed = failure("ENC-2", "encoder"), failure("ENC-5", "encoder")
    assert located(None, [], [output], ENCODER, "multihead") == "multihead"
    assert located("attention.scores", [], [output], ENCODER, "multihead") == "attention.scores"
    assert located(None, [explanation(SCALE)], [output], ENCODER, "ffn") == "attention.scores"
    assert located(None, [], [output, mixed], ENCODER, "multihead") == "encoder"
    assert located(None, [], [], ENCODER, "multihead") is None

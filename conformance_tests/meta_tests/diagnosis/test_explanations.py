"""What a diagnosis says: defects apart from choices that are right elsewhere, and how closely they agree."""

import pytest

from conformance_tests.deviations import Deviation, deviations
from conformance_tests.diagnosis.explanations import Explanation, chosen_instead, lowered, undeclared
from conformance_tests.harness.question import Question
from encoder_spec.profiles import PROFILES

DEFECT = deviations()["scores-scaled-by-d-model"]
CHOICE = Deviation("eps=1e-06", "Epsilon is 1e-06.", ("norm.layer_norm",), (), {"eps": 1e-6})


@pytest.mark.parametrize(
    ("sentence", "part"),
    [
        ("Scores are divided by two.", "scores are divided by two"),
        ("A head is left out.", "a head is left out"),
        ("ReLU is missing.", "ReLU is missing"),
        ("Q and K are exchanged.", "Q and K are exchanged"),
        ("GELU stands there.", "GELU stands there"),
    ],
)
def test_a_sentence_within_another_begins_small_unless_it_begins_with_a_name(sentence: str, part: str) -> None:
    assert lowered(sentence) == part


def test_a_choice_that_is_right_elsewhere_is_no_defect_beside_one() -> None:
    """Alone it is what is wrong: another one was declared."""
    assert (DEFECT.is_variant, CHOICE.is_variant) == (False, True)
    assert Explanation((CHOICE, DEFECT), 0.0).defects == (DEFECT,)
    assert Explanation((CHOICE,), 0.0).defects == (CHOICE,)


@pytest.mark.parametrize(
    ("wrong", "residual", "says"),
    [
        ((DEFECT,), 0.0, f"your encoder is exactly the specification in which {lowered(DEFECT.definition)}"),
        ((CHOICE,), 3e-15, "your encoder agrees to 3e-15 with the specification in which epsilon is 1e-06"),
        (
            (CHOICE,),
            None,
            "your encoder fails the same requirements as the specification in which epsilon is 1e-06",
        ),
        (
            (CHOICE, DEFECT),
            0.0,
            f"your encoder is exactly the specification in which {lowered(DEFECT.definition)};"
            " as is right in other encoders, epsilon is 1e-06",
        ),
        (
            (DEFECT, DEFECT),
            0.0,
            f"your encoder is exactly the specification in which {lowered(DEFECT.definition)},"
            f" and {lowered(DEFECT.definition)}",
        ),
    ],
)
def test_an_explanation_is_a_sentence(wrong: tuple[Deviation, ...], residual: float | None, says: str) -> None:
    """Without a residual nothing is claimed but that the same requirements fail."""
    assert str(Explanation(wrong, residual)) == says


def test_the_question_is_asked_anew_without_a_profile_and_with_the_same_seed() -> None:
    """In the best precision, whatever was asked for before: there rounding hides the least."""
    assert undeclared(Question("bert", seed=7, dtype="float32")) == Question(seed=7)


def test_another_equation_is_a_deviation_in_its_slot() -> None:
    """The definition names both; the equation that belongs there is the declared one."""
    wanted, chosen = PROFILES["torch-post-ln"], PROFILES["bert"]
    mine, theirs = chosen["activation"].variant, wanted["activation"].variant
    wrong = chosen_instead(wanted, chosen, "activation", mine, theirs)
    assert (wrong.id, wrong.slot) == (f"activation={mine}", "activation")
    assert wrong.definition == f"activation is {mine} (the profile has {theirs})"
    assert wrong.of == (wanted["activation"].id,)
    assert wrong.replaces == {"activation": chosen["activation"]}
    assert wrong.is_variant


def test_another_constant_is_a_deviation_of_the_norm() -> None:
    """ε belongs to it; what was read as a word is a number again."""
    wanted = PROFILES["torch-post-ln"]
    wrong = chosen_instead(wanted, wanted, "eps", "0.001", 1e-5)
    assert (wrong.id, wrong.of, wrong.replaces) == ("eps=0.001", (wanted["norm"].id,), {"eps": 0.001})

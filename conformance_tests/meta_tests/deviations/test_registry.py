"""How a wrong equation comes into the catalogue, and what it does to a profile."""

import pytest
import torch
from torch import Tensor

from conformance_tests import deviations as catalogue
from conformance_tests.deviations import (
    Deviation,
    deviation,
    deviation_named,
    deviations,
    enter,
    tuple_of,
    with_deviations,
    wrong_constants,
)
from encoder_spec.assembly import Encoder
from encoder_spec.attention import scores_unscaled
from encoder_spec.dimensions import Dimensions
from encoder_spec.equation import Equation, equations
from encoder_spec.notation import SpecificationError
from encoder_spec.profiles import BERT, PRE_LN, VASWANI_2017


@pytest.fixture
def entered(monkeypatch: pytest.MonkeyPatch) -> dict[str, Deviation]:
    """An empty catalogue in the place of the real one."""
    empty: dict[str, Deviation] = {}
    monkeypatch.setattr(catalogue, "DEVIATIONS", empty)
    return empty


def wrong(Q: Tensor, K: Tensor) -> Tensor:
    """Scores are three times as large.

    A second paragraph.
    """
    return 3 * Q @ K.mT


def test_a_wrong_function_becomes_an_equation_of_the_slot(entered: dict[str, Deviation]) -> None:
    """Its definition is the first line of its docstring; the function itself stays what it is."""
    returned = deviation("tripled", "attention.scores", "ATT-3", "owner/repo#5")(wrong)
    assert returned is wrong
    assert list(entered) == ["tripled"]
    found = entered["tripled"]
    assert (found.id, found.definition) == ("tripled", "Scores are three times as large.")
    assert (found.of, found.noticed_by, found.evidence) == (("attention.scores",), ("ATT-3",), ("owner/repo#5",))
    assert found.slot == "scores"
    (equation,) = found.replaces.values()
    assert isinstance(equation, Equation)
    assert (list(found.replaces), equation.id, equation.slot) == (["scores"], "deviation.tripled", "scores")
    assert (equation.variant, equation.function) == ("tripled", wrong)
    assert not found.is_variant


def test_a_deviation_may_be_of_several_equations_at_one_place_with_words_of_its_own(
    entered: dict[str, Deviation],
) -> None:
    """The place takes the equation, whose slot is that of the first; without evidence there is none."""
    known = ("norm.layer_norm", "norm.rms")
    deviation("odd", known, ("NORM-1", "NORM-2"), place="norm_2", definition="Said otherwise.")(wrong)
    found = entered["odd"]
    assert (found.definition, found.of, found.slot) == ("Said otherwise.", known, "norm")
    assert (found.noticed_by, found.evidence) == (("NORM-1", "NORM-2"), ())
    assert list(found.replaces) == ["norm_2"]


def test_a_legitimate_variant_stands_in_the_catalogue_as_itself(entered: dict[str, Deviation]) -> None:
    """The function of ``attention.scores_unscaled`` is that equation, and right elsewhere."""
    deviation("not-scaled", "attention.scores", "ATT-3")(scores_unscaled)
    found = entered["not-scaled"]
    assert found.replaces == {"scores": equations()["attention.scores_unscaled"]}
    assert found.is_variant


def test_wrong_constants_are_a_deviation(entered: dict[str, Deviation]) -> None:
    wrong_constants("large-eps", "ε is large.", "norm.layer_norm", "NORM-5", "commonly seen", eps=1e-3)
    found = entered["large-eps"]
    assert (found.definition, found.of, found.noticed_by) == ("ε is large.", ("norm.layer_norm",), ("NORM-5",))
    assert (found.replaces, found.evidence) == ({"eps": 1e-3}, ("commonly seen",))
    assert found.is_variant


def test_a_deviation_is_entered_once_and_with_a_definition(entered: dict[str, Deviation]) -> None:
    """A refused entry leaves the one that is there."""
    first = Deviation("x", "One.", ("attention.scores",), ("ATT-3",), {})
    enter(first)
    for refused in (Deviation("x", "Two.", ("attention.scores",), ("ATT-3",), {}), Deviation("y", "", (), (), {})):
        with pytest.raises(ValueError, match=f"^deviation {refused.id} is defined twice, or not described$"):
            enter(refused)
    assert entered == {"x": first}

    def silent(Q: Tensor, K: Tensor) -> Tensor:
        return Q @ K.mT

    with pytest.raises(ValueError, match="not described"):
        deviation("silent", "attention.scores", "ATT-3")(silent)


@pytest.mark.parametrize(("given", "expected"), [("ab", ("ab",)), (("a", "b"), ("a", "b")), ((), ())])
def test_one_id_may_be_written_without_a_tuple(given: str | tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert tuple_of(given) == expected


TRIPLED = Deviation(
    "tripled", "Tripled.", ("attention.scores",), ("ATT-3",), {"scores": Equation("d", "scores", "tripled", wrong)}
)
PRE = Deviation("pre", "Pre-LN.", ("layer.post_ln",), ("LAY-1",), {"layer": equations()["layer.pre_ln"]})
EPS = Deviation("eps", "ε = 10⁻⁵.", ("norm.layer_norm",), ("NORM-5",), {"eps": 1e-5})
RMS = Deviation("rms", "RMS at one place.", (BERT["norm"].id,), ("NORM-1",), {"norm_2": BERT["norm"]})
MIXED = Deviation("mixed", "Both.", ("attention.scores",), ("ATT-3",), {**TRIPLED.replaces, **PRE.replaces})


@pytest.mark.parametrize(
    ("one", "is_variant"),
    [(TRIPLED, False), (PRE, True), (EPS, True), (MIXED, False)],
    ids=lambda x: getattr(x, "id", ""),
)
def test_a_deviation_is_a_variant_if_all_that_it_puts_in_is_right_elsewhere(one: Deviation, is_variant: bool) -> None:
    """Equations of the specification and numbers are; one wrong equation among them is enough."""
    assert one.is_variant == is_variant


def test_a_deviation_says_which_of_its_equations_have_to_be_declared() -> None:
    """DeepNorm's weight of the stream, and no wrong equation, which is right nowhere."""
    weighed = catalogue.deviation_named("residual-weighed-by-depth")
    assert weighed.to_be_declared == (equations()["residual.deepnorm"],)
    assert catalogue.deviation_named("residual-missing").to_be_declared == ()


def test_a_deviation_changes_its_own_slots_of_a_profile_alone() -> None:
    """BERT with tripled scores differs from BERT in the scores; BERT itself stays."""
    before = BERT.choices()
    assert {k: v for k, v in TRIPLED.within(BERT).choices().items() if v != before[k]} == {"scores": "tripled"}
    assert {k: v for k, v in EPS.within(BERT).choices().items() if v != before[k]} == {"eps": 1e-5}
    assert BERT.choices() == before
    assert TRIPLED.within(BERT).name == "bert"


@pytest.mark.parametrize(
    ("one", "profile", "applies"),
    [
        (TRIPLED, BERT, True),
        (TRIPLED, BERT.replace(scores="unscaled"), False),
        (Deviation("same", "", ("attention.scores",), (), {"scores": equations()["attention.scores"]}), BERT, False),
        (Deviation("eps", "", (BERT["norm"].id,), (), {"eps": 1e-5}), BERT, True),
        (Deviation("eps", "", (BERT["norm"].id,), (), {"eps": 1e-12}), BERT, False),
        (Deviation("pre", "", (BERT["layer"].id,), (), {"layer": PRE_LN["layer"]}), BERT, True),
        (Deviation("pre", "", (BERT["layer"].id,), (), {"layer": PRE_LN["layer"]}), PRE_LN, False),
        (Deviation("two", "", (PRE_LN["layer"].id, BERT["layer"].id), (), {"layer": BERT["layer"]}), PRE_LN, True),
        (RMS, BERT, True),
    ],
)
def test_a_deviation_applies_where_its_equation_stands_and_it_changes_something(
    one: Deviation, profile: catalogue.Profile, applies: bool
) -> None:
    """Another variant in the slot is not what it gets wrong; the same choice again is no deviation."""
    assert one.applies(profile) == applies


def test_several_deviations_stand_in_one_encoder() -> None:
    """The later one wins in a slot; sizes and encoder stay what they were."""
    encoder = Encoder(VASWANI_2017, Dimensions(d_model=6, h=3, d_ff=5, N=1))
    both = with_deviations(encoder, [TRIPLED, EPS])
    assert both.dimensions is encoder.dimensions
    assert (both.profile["scores"].variant, both.profile.constants["eps"]) == ("tripled", 1e-5)
    assert encoder.profile is VASWANI_2017
    other = Deviation("eps", "", (), (), {"eps": 1e-3})
    assert with_deviations(encoder, [EPS, other]).profile.constants["eps"] == 1e-3
    assert with_deviations(encoder, [other, EPS]).profile.constants["eps"] == 1e-5
    assert with_deviations(encoder, []) == encoder
    Q = torch.tensor([[2.0]])
    assert both.profile["scores"].function(Q, Q).tolist() == [[12]]


def test_the_catalogue_is_the_same_each_time_and_named_by_id() -> None:
    """The first topic is that of embeddings; an id that is not there is a mistake of the user."""
    assert deviations() is deviations()
    assert all(id == d.id for id, d in deviations().items())
    assert next(iter(deviations().values())).replaces
    assert deviation_named("scores-not-scaled") is deviations()["scores-not-scaled"]
    with pytest.raises(
        SpecificationError, match=r"^there is no deviation 'odd'; `encoder-spec deviations` lists them$"
    ):
        deviation_named("odd")

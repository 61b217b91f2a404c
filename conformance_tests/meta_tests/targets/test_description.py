"""What an author may state of an encoder, and what is refused."""

import re
from typing import Any

import pytest
from torch import Tensor, nn

from conformance_tests.errors import SubjectError
from conformance_tests.subjects.hints import Hints
from conformance_tests.subjects.subject import Subject
from conformance_tests.targets.description import demand_letter, described
from encoder_spec.notation import SpecificationError


class Mine(Subject):
    """A subject that says something itself."""

    def __init__(self) -> None:
        self.hints = Hints({"layer": "pre-ln", "eps": 1e-5}, {"h": 3, "N": 2}, heads=7, parts=("rope",))

    def weights(self) -> dict[str, Tensor]:
        return {}


def test_what_is_stated_goes_before_what_the_encoder_says() -> None:
    """Choices and sizes by name; what is not stated stays; what was guessed of names is gone."""
    subject = described(
        Mine(),
        heads=5,
        parameters={"W_Q": "blocks.{l}.alpha", "norm_1.gamma": "n.{l}"},
        mask=("m", "keep"),
        choices={"layer": "post-ln", "activation": "gelu"},
    )
    assert subject.hints == Hints(
        choices={"layer": "post-ln", "eps": 1e-5, "activation": "gelu"},
        sizes={"h": 5, "N": 2},
        heads=7,
        parameters={"W_Q": "blocks.{l}.alpha", "norm_1.gamma": "n.{l}"},
        mask=("m", "keep"),
        stated={"layer": "post-ln", "activation": "gelu", "num_heads": 5},
        parts=("rope",),
    )


def test_nothing_stated_changes_nothing() -> None:
    mine = Mine()
    before = mine.hints
    assert described(mine) is mine
    assert mine.hints == before


def test_the_number_of_heads_alone_may_be_stated() -> None:
    hints = described(Mine(), heads=2).hints
    assert (hints.sizes, hints.stated, hints.choices) == ({"h": 2, "N": 2}, {"num_heads": 2}, Mine().hints.choices)


def test_an_encoder_is_made_and_adapted_as_by_check() -> None:
    """A class of torch modules; something else is refused as there."""
    assert described(nn.Identity).hints.stated == {}
    with pytest.raises(SubjectError, match="int is not an encoder"):
        described(5)


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"heads": 0}, "described: heads must be a positive integer, but is 0"),
        ({"heads": 2.0}, "described: heads must be a positive integer, but is 2.0"),
        ({"heads": "2"}, "described: heads must be a positive integer, but is '2'"),
        (
            {"mask": ("m", "hide")},
            "described: a mask is an argument and one of keep, ignore, additive, lengths, in a pair, "
            "but not ('m', 'hide')",
        ),
        (
            {"mask": "mask"},
            "described: a mask is an argument and one of keep, ignore, additive, lengths, in a pair, but not 'mask'",
        ),
        ({"choices": {"layr": "pre-ln"}}, "there is no slot or constant named 'layr'"),
        ({"choices": {"norm_fnal.eps": 1e-3}}, "unknown place 'norm_fnal' for eps: choose among "),
        ({"choices": {"layer": "mid-ln"}}, "slot layer has no variant 'mid-ln'"),
        ({"choices": {"eps": -1}}, "eps must be a non-negative number, but is -1"),
        ({"parameters": {"W_X": "x"}}, "described: there is no parameter 'W_X' in the equations; there are "),
        ({"parameters": {"W_Q": "q", "gamma": "x"}}, "described: there is no parameter 'gamma'"),
    ],
)
def test_a_statement_that_means_nothing_is_refused_before_the_encoder_is_made(stated: Any, said: str) -> None:
    with pytest.raises(SpecificationError, match=f"^{re.escape(said)}"):
        described(lambda: pytest.fail("it was made"), **stated)


@pytest.mark.parametrize("values", ["keep", "ignore", "additive", "lengths"])
@pytest.mark.parametrize("heads", [None, 1])
def test_each_meaning_of_a_mask_may_be_stated(values: str, heads: int | None) -> None:
    assert described(Mine(), heads=heads, mask=("m", values)).hints.mask == ("m", values)


@pytest.mark.parametrize(
    "letter",
    ["W_Q", "b_O", "W_1", "b_2", "W_QKV", "b_QKV", "W_KV", "b_KV", "norm_1.gamma", "norm_2.beta", "norm_final.gamma"]
    + ["norm_embedding.beta"],
)
def test_a_letter_of_the_equations_is_accepted(letter: str) -> None:
    """Packed maps, and the norms by their places, too."""
    assert demand_letter(letter) is None  # type: ignore[func-returns-value]


@pytest.mark.parametrize(
    "letter", ["", "gamma", "beta", "norm_1", "norm_3.gamma", "norm_1.W_Q", "layers.0.W_Q", "W_QK", "w_q", ".gamma"]
)
def test_any_other_letter_is_answered_with_those_that_there_are(letter: str) -> None:
    """γ and β without the place of their norm are not among them."""
    with pytest.raises(SpecificationError) as caught:
        demand_letter(letter)
    said = str(caught.value)
    assert said.startswith(f"described: there is no parameter {letter!r} in the equations; there are ")
    assert said.endswith(
        ", norm_1.gamma, norm_1.beta (norm_2, norm_final, norm_embedding, norm_token, norm_feature likewise) and W_QKV"
    )
    known = said.partition("there are ")[2].partition(", norm_1.gamma")[0].split(", ")
    assert known == sorted(known)
    assert {"W_Q", "b_1"} <= set(known)
    assert {"gamma", "beta"} & set(known) == set()


class Called(nn.Module):
    def forward(self, x: Tensor, task: str) -> Tensor:
        return x


def test_sizes_and_arguments_of_a_call_may_be_stated() -> None:
    hints = described(Called, batch=4, length=9, arguments={"task": "mlm"}).hints
    assert (hints.batch, hints.length, hints.arguments) == (4, 9, {"task": "mlm"})


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"batch": 0}, "described: batch must be a positive integer, but is 0"),
        ({"length": "9"}, "described: length must be a positive integer, but is '9'"),
        ({"arguments": {"tusk": 0}}, "described: the encoder has no further argument 'tusk'; it takes x, task"),
        ({"arguments": {"x": 0}}, "described: the encoder has no further argument 'x'; it takes x, task"),
    ],
)
def test_a_call_that_does_not_exist_is_refused(stated: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecificationError) as caught:
        described(Called, **stated)
    assert str(caught.value) == said


def test_arguments_are_stated_of_torch_modules_alone() -> None:
    with pytest.raises(SpecificationError, match="of torch modules alone: wrap any other in a function"):
        described(Mine(), arguments={"task": 0})

"""Masks in every form, the arguments that may take one, and the experiment that finds the form."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from conformance_tests.errors import Unsupported
from conformance_tests.subjects.calling import REQUIRED
from conformance_tests.subjects.masks import (
    AXES,
    LENGTHS,
    MEANINGS,
    OF_SAMPLES,
    PADDING_ID,
    SHARES,
    STATEMENTS,
    TAKEN_OUT,
    MaskForm,
    ends_in_padding,
    forms_of_samples,
    is_same,
    length_forms,
    mask_arguments,
    mask_forms,
    says_that_true_hides,
    stated_forms,
    telling_nothing,
    tells_of_a_mask,
    tried_masks,
    unforeseen_arguments,
    unforeseen_forms,
)

T, F, OFF = True, False, -math.inf
KEEP = torch.tensor([[T, F, T], [F, T, T]])


@pytest.mark.parametrize(
    ("axes", "expected"),
    [
        ("B n", [[T, F, T], [F, T, T]]),
        ("B 1 n", [[[T, F, T]], [[F, T, T]]]),
        ("B 1 1 n", [[[[T, F, T]]], [[[F, T, T]]]]),
        ("B n n", [[[T, F, T]] * 3, [[F, T, T]] * 3]),
        ("B 1 n n", [[[[T, F, T]] * 3], [[[F, T, T]] * 3]]),
        ("n B", [[T, F], [F, T], [T, T]]),
    ],
)
def test_a_mask_has_its_axes(axes: str, expected: Any) -> None:
    """Per query the last axis is that of the keys: each row is the mask of the sequence."""
    assert axes in AXES
    assert MaskForm("m", "keep", axes).render(KEEP).tolist() == expected


def test_a_mask_of_samples_keeps_what_the_positions_read_that_are_kept() -> None:
    """The first position reads 5 samples, and each further one begins 2 later: two of them read 7, of 10 for three."""
    form = MaskForm("m", "keep 0/1", OF_SAMPLES, samples=(5, 2))
    keep = torch.tensor([[T, T, T], [T, T, F], [T, F, F]])
    assert form.render(keep, 10).tolist() == [[1] * 10, [1] * 7 + [0] * 3, [1] * 5 + [0] * 5]
    assert replace(form, values="ignore").render(keep[1:2], 10).tolist() == [[F] * 7 + [T] * 3]
    assert (str(form), form.is_at_the_end) == ("m: (B, samples), 0/1, 1 = keep", True)


@pytest.mark.parametrize("keep", [[T, F, T], [F, T, T], [F, F, F]])
def test_a_mask_of_samples_hides_the_end_of_a_sound_alone(keep: list[bool]) -> None:
    """A mask of samples cannot hide the beginning of a sound, nor all of it."""
    with pytest.raises(Unsupported, match="a mask of samples can hide only the end of a sound"):
        MaskForm("m", "keep", OF_SAMPLES, samples=(5, 2)).render(torch.tensor([keep]), 10)


def test_masks_of_samples_are_tried_in_three_meanings() -> None:
    forms = list(forms_of_samples({"x": REQUIRED, "attention_mask": None}, 9, 4))
    assert [form.values for form in forms] == ["keep 0/1", "keep", "ignore"]
    assert {(form.argument, form.axes, form.samples) for form in forms} == {("attention_mask", OF_SAMPLES, (9, 4))}


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        ("keep", torch.bool, [[T, F, T], [F, T, T]]),
        ("ignore", torch.bool, [[F, T, F], [T, F, F]]),
        ("keep 0/1", torch.int64, [[1, 0, 1], [0, 1, 1]]),
        ("keep 0.0/1.0", torch.float64, [[1, 0, 1], [0, 1, 1]]),
        ("ignore 0/1", torch.int64, [[0, 1, 0], [1, 0, 0]]),
        ("ignore 0.0/1.0", torch.float64, [[0, 1, 0], [1, 0, 0]]),
        ("additive", torch.float64, [[0, OFF, 0], [OFF, 0, 0]]),
    ],
)
def test_a_mask_has_its_values(values: str, dtype: torch.dtype, expected: Any) -> None:
    rendered = MaskForm("m", values, "B n").render(KEEP)
    assert rendered.dtype is dtype
    assert rendered.tolist() == expected


@pytest.mark.parametrize("axes", AXES)
def test_a_mask_is_in_memory_of_its_own(axes: str) -> None:
    """An encoder that writes into it writes into nothing else, neither the mask nor another row of it."""
    keep = KEEP.clone()
    rendered = MaskForm("m", "keep", axes).render(keep)
    rendered.logical_not_()
    assert torch.equal(keep, KEEP)
    assert torch.equal(~rendered, MaskForm("m", "keep", axes).render(keep))


def test_lengths_say_the_number_of_valid_positions() -> None:
    keep = torch.tensor([[T, T, F], [T, F, F], [T, T, T], [F, F, F]])
    assert MaskForm("m", LENGTHS, "B").render(keep).tolist() == [2, 1, 3, 0]
    with pytest.raises(Unsupported, match=r"^lengths can hide only the end of a sequence$"):
        MaskForm("m", LENGTHS, "B").render(KEEP)


def test_shares_say_which_part_of_the_positions_is_valid() -> None:
    keep = torch.tensor([[T, T, F, F], [T, F, F, F], [T, T, T, T]])
    assert MaskForm("m", SHARES, "B").render(keep).tolist() == [0.5, 0.25, 1]
    with pytest.raises(Unsupported, match=r"^lengths can hide only the end of a sequence$"):
        MaskForm("m", SHARES, "B").render(KEEP)


@pytest.mark.parametrize(
    ("keep", "at_the_end"),
    [
        ([T, T, T], T),
        ([T, T, F], T),
        ([F, F, F], T),
        ([F, T, T], F),
        ([T, F, T], F),
        ([T], T),
        ([F, F, T], F),
        ([T, T, F, F, F], T),
    ],
)
def test_padding_at_the_end_is_followed_by_nothing_valid(keep: list[bool], at_the_end: bool) -> None:
    """In every sequence of a batch."""
    assert ends_in_padding(torch.tensor([keep])) == at_the_end
    assert ends_in_padding(torch.tensor([[T] * len(keep), keep])) == at_the_end


@pytest.mark.parametrize(
    ("argument", "tells"),
    [
        ("mask", T),
        ("src_mask", T),
        ("attention_mask", T),
        ("key_padding_mask", T),
        ("pad", T),
        ("keep", T),
        ("valid_positions", T),
        ("head_mask", F),
        ("encoder_attention_mask", F),
        ("cross_attn_mask", F),
        ("decoder_mask", F),
        ("bool_masked_pos", F),
        ("mask_time_indices", F),
        ("is_causal", F),
        ("x", F),
        ("lengths", F),
    ],
)
def test_a_mask_is_told_by_its_argument_unless_it_is_of_another_thing(argument: str, tells: bool) -> None:
    assert tells_of_a_mask(argument) == tells


@pytest.mark.parametrize(
    ("arguments", "may_be"),
    [
        ({"x": REQUIRED, "mask": None, "key_padding_mask": None}, ["key_padding_mask", "mask"]),
        ({"x": REQUIRED, "valid": None, "mask": REQUIRED, "attention_mask": None}, ["attention_mask", "mask", "valid"]),
        ({"mask": REQUIRED, "x": None}, []),
        ({"x": REQUIRED, "mask": False, "pad": 0, "return_mask": True}, []),
        ({"x": REQUIRED, "b": REQUIRED}, ["b"]),
        ({"x": REQUIRED, "b": REQUIRED, "mask": None}, ["mask", "b"]),
        ({"x": REQUIRED, "mask": REQUIRED}, ["mask"]),
        ({"x": REQUIRED, "b": REQUIRED, "c": REQUIRED}, []),
        ({"x": REQUIRED, "b": REQUIRED, "mask": REQUIRED}, ["mask"]),
        ({"x": REQUIRED, "head_mask": None}, []),
    ],
)
def test_arguments_that_may_take_a_mask_come_with_the_likeliest_first(
    arguments: dict[str, Any], may_be: list[str]
) -> None:
    """Not the input, and none with a number or flag as its default; an only required one whatever it is called."""
    assert mask_arguments(arguments) == may_be


@pytest.mark.parametrize(
    ("argument", "values"),
    [
        ("mask", ["keep", "keep 0/1", "ignore"]),
        ("src_pad_mask", ["ignore", "keep", "keep 0/1"]),
        ("key_padding_mask", ["ignore", "keep", "keep 0/1"]),
        ("attention_mask", ["keep 0/1", "keep", "ignore"]),
        ("notepad", ["keep", "keep 0/1", "ignore"]),
    ],
)
def test_each_form_of_a_mask_is_tried_the_likeliest_first(argument: str, values: list[str]) -> None:
    """For one order of axes after the other; padding masks are true at padding, attention masks are 0/1."""
    forms = list(mask_forms({"x": REQUIRED, argument: None}))
    further = ["additive", "keep 0.0/1.0", "ignore 0/1", "ignore 0.0/1.0"]
    assert forms == [MaskForm(argument, value, axes) for axes in AXES for value in (*values, *further)]


def test_one_argument_is_tried_after_the_other_first_of_all_with_masks_of_each_sequence() -> None:
    forms = list(mask_forms({"x": REQUIRED, "mask": None, "padding": None}))
    further = 7 * (len(AXES) - 1)
    assert [f.argument for f in forms] == [*["padding"] * 7, *["mask"] * 7, *["padding"] * further, *["mask"] * further]
    assert {f.axes for f in forms[:14]} == {"B n"}


UNFORESEEN = {"x": REQUIRED, "a": None, "position_ids": None, "b": None, "seg": None, "mask": None, "flag": False}


def test_arguments_that_tell_nothing_are_neither_masks_nor_segments_nor_anything_else() -> None:
    """And may be left out; the input is none, nor is one that must be given."""
    assert telling_nothing(UNFORESEEN | {"must": REQUIRED, "past": None, "c": None, "cross": None}) == ["a", "b", "c"]
    assert telling_nothing({"x": None}) == []


def test_four_unforeseen_arguments_are_tried_in_four_orders_of_axes() -> None:
    """A larger number would take too long; additive ones come last of the values."""
    many = {"x": REQUIRED} | dict.fromkeys("abcde")
    assert unforeseen_arguments(many) == ["a", "b", "c", "d"]
    forms = list(unforeseen_forms(UNFORESEEN))
    values = ("keep", "keep 0/1", "ignore", "additive")
    axes = ("B n", "B 1 1 n", "B 1 n", "n B")
    assert forms == [MaskForm(argument, v, a) for argument in "ab" for a in axes for v in values]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"x": REQUIRED, "lengths": None, "mask": None}, ["lengths"]),
        ({"x": REQUIRED, "a": None, "src_len_mask": None}, ["a", "src_len_mask"]),
        ({"x": REQUIRED, "b": REQUIRED}, ["b"]),
        ({"x": REQUIRED, "lengths": REQUIRED, "causal": REQUIRED}, ["lengths"]),
        ({"x": REQUIRED, "mask": None}, []),
    ],
)
def test_lengths_are_tried_where_no_name_tells_of_a_mask_alone(arguments: dict[str, Any], told: list[str]) -> None:
    shares = [MaskForm(argument, SHARES, "B") for argument in told if "len" in argument]
    assert list(length_forms(arguments)) == [*(MaskForm(argument, LENGTHS, "B") for argument in told), *shares]


def test_an_authors_word_leaves_the_axes_open_and_of_kept_positions_the_kind_of_number() -> None:
    for said in ("keep", "ignore"):
        meant = [MaskForm("m", v, a) for a in AXES for v in (said, f"{said} 0/1", f"{said} 0.0/1.0")]
        assert list(stated_forms("m", said)) == meant
    assert list(stated_forms("m", "additive")) == [MaskForm("m", "additive", a) for a in AXES]
    assert list(stated_forms("m", LENGTHS)) == [MaskForm("m", LENGTHS, "B"), MaskForm("m", SHARES, "B")]
    assert {value for values in STATEMENTS.values() for value in values} == set(MEANINGS) - {PADDING_ID, TAKEN_OUT}


@pytest.mark.parametrize(
    ("form", "said"),
    [
        (MaskForm("m", "keep", "B n"), "m: (B, n), boolean, True = keep"),
        (MaskForm("m", "additive", "B 1 1 n"), "m: (B, 1, 1, n), added: 0 = keep, −∞ = ignore"),
        (MaskForm("l", LENGTHS, "B"), "l: (B,), the number of valid positions, which come first"),
    ],
)
def test_a_form_is_said_in_words(form: MaskForm, said: str) -> None:
    assert str(form) == said


HIDES_TRUE = "attention_mask hides where it is true, the opposite of what that name means elsewhere"
HIDES_FALSE = "key_padding_mask hides where it is false, the opposite of what that name means elsewhere"


@pytest.mark.parametrize(
    ("argument", "values", "said"),
    [
        ("attention_mask", "ignore", HIDES_TRUE),
        ("attention_mask", "keep", ""),
        ("attention_mask", "keep 0/1", ""),
        ("attention_mask", "additive", ""),
        ("key_padding_mask", "keep", HIDES_FALSE),
        ("key_padding_mask", "keep 0.0/1.0", HIDES_FALSE),
        ("key_padding_mask", "ignore", ""),
        ("key_padding_mask", "additive", ""),
        ("mask", "ignore", ""),
        ("mask", "keep", ""),
    ],
)
def test_a_mask_that_means_the_opposite_of_its_name_is_said_to(argument: str, values: str, said: str) -> None:
    """Only names with an established meaning have an opposite, and an additive mask has neither."""
    assert MaskForm(argument, values, "B n").against_its_name() == said


@pytest.mark.parametrize(
    ("argument", "values", "named"),
    [
        ("attention_mask", "ignore", "keep"),
        ("attention_mask", "ignore 0/1", "keep 0/1"),
        ("key_padding_mask", "keep 0.0/1.0", "ignore 0.0/1.0"),
        ("attention_mask", "keep 0/1", "keep 0/1"),
    ],
)
def test_the_form_of_callers_has_the_kind_of_values_that_is_taken(argument: str, values: str, named: str) -> None:
    """An exported graph reads numbers alone."""
    assert MaskForm(argument, values, "B n").as_named().values == named


@pytest.mark.parametrize(
    ("form", "tells"),
    [
        (MaskForm("lengths", LENGTHS, "B"), T),
        (MaskForm("seq_len", LENGTHS, "B"), T),
        (MaskForm("n", LENGTHS, "B"), F),
        (MaskForm("len", "keep", "B n"), F),
    ],
)
def test_lengths_are_told_by_a_name_with_len(form: MaskForm, tells: bool) -> None:
    assert form.tells_lengths() == tells


# The experiment: an encoder that adds up what it sees -------------------------------------

X = torch.tensor([[2.0, 3.0, 5.0], [7.0, 11.0, 13.0]], dtype=torch.float64)
EVERYTHING = torch.ones(2, 3, dtype=torch.bool)

Sees = Callable[[MaskForm, Tensor], Tensor | None]
"""From a form and the mask in that form to what the encoder sees; None where it refuses."""


def adding(sees: Sees, unmasked: bool = True, changes: bool = True) -> Callable[[MaskForm | None, str], Tensor | None]:
    """Calls of an encoder that adds to each position all that it sees.

    Args:
        sees: what a mask lets it see.
        unmasked: whether it can be called without a mask.
        changes: whether padding has content that can be exchanged.
    """

    def call(form: MaskForm | None, variation: str) -> Tensor | None:
        if variation == "other padding" and not changes:
            return None
        x = torch.where(KEEP, X, 100.0) if variation == "other padding" else X
        if form is None:
            seen = EVERYTHING if unmasked else None
        else:
            seen = sees(form, EVERYTHING if variation == "everything kept" else KEEP)
        return None if seen is None else (x + (x * seen).sum(1, keepdim=True))[..., None]

    return call


MASK = {"x": REQUIRED, "mask": None}


def keeps_true(form: MaskForm, keep: Tensor) -> Tensor | None:
    """The mask (B, n) is true, or 1, where the encoder looks; other axes are refused."""
    return form.render(keep) == 1 if form.axes == "B n" else None


def keeps_false(form: MaskForm, keep: Tensor) -> Tensor | None:
    """The other polarity."""
    seen = keeps_true(form, keep)
    return None if seen is None else ~seen


def sees_all(form: MaskForm, keep: Tensor) -> Tensor | None:
    """A mask that is taken and ignored."""
    return EVERYTHING


def refuses(form: MaskForm, keep: Tensor) -> Tensor | None:
    return None


def only(values: str, axes: str, sees: Sees = keeps_true) -> Sees:
    """Refuses every other form."""
    return lambda form, keep: (
        (form.render(keep) == 1).reshape(2, 3) if (form.values, form.axes) == (values, axes) else None
    )


def hides_too_little(form: MaskForm, keep: Tensor) -> Tensor | None:
    """Padding is hidden in the second sequence alone, whatever the mask says of the first."""
    seen = keeps_true(form, keep)
    if seen is not None:
        seen[0] = True
    return seen


@pytest.mark.parametrize(("unmasked", "changes"), [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize(
    ("sees", "found"),
    [
        (keeps_true, MaskForm("mask", "keep", "B n")),
        (keeps_false, MaskForm("mask", "ignore", "B n")),
        (only("keep 0/1", "B 1 1 n"), MaskForm("mask", "keep 0/1", "B 1 1 n")),
        (only("keep 0.0/1.0", "B n"), MaskForm("mask", "keep 0.0/1.0", "B n")),
        (refuses, None),
    ],
)
def test_the_form_that_hides_padding_is_found(
    sees: Sees, found: MaskForm | None, unmasked: bool, changes: bool
) -> None:
    """Of several the likeliest; by other padding, by a mask that keeps everything, or by both."""
    assert tried_masks(MASK, adding(sees, unmasked, changes), KEEP)[0] == found


def test_where_nothing_tells_the_polarity_the_likeliest_is_taken() -> None:
    """An image, whose padding has no content, of an encoder that must be given a mask."""
    assert tried_masks(MASK, adding(keeps_false, unmasked=False, changes=False), KEEP)[0] == MaskForm(
        "mask", "keep", "B n"
    )


def test_a_mask_that_is_ignored_is_the_likeliest_that_is_accepted() -> None:
    """It hides nothing and changes nothing, and is judged as the mask that its name makes it."""
    assert tried_masks(MASK, adding(sees_all), KEEP)[0] == MaskForm("mask", "keep", "B n")


def test_a_mask_that_hides_too_little_goes_before_one_that_does_nothing() -> None:
    """``attention_mask`` is accepted and ignored; ``mask`` acts as masks do, though padding gets through."""

    def sees(form: MaskForm, keep: Tensor) -> Tensor | None:
        return sees_all(form, keep) if form.argument == "attention_mask" else hides_too_little(form, keep)

    arguments = {"x": REQUIRED, "attention_mask": None, "mask": None}
    assert tried_masks(arguments, adding(sees), KEEP)[0] == MaskForm("mask", "keep", "B n")


def test_what_changes_the_output_even_where_all_is_kept_does_not_act_as_a_mask() -> None:
    """Everything is doubled whenever a mask is given: with one that keeps everything as well."""

    def call(form: MaskForm | None, variation: str) -> Tensor | None:
        plain = adding(hides_too_little)(form, variation)
        return plain if form is None or plain is None else plain * 2

    assert tried_masks({"x": REQUIRED, "b": None}, call, KEEP, [MaskForm("b", "keep", "B n")])[0] is None
    assert tried_masks(MASK, call, KEEP)[0] == MaskForm("mask", "keep", "B n")


def test_without_a_call_for_no_mask_nothing_acts_that_does_not_hide() -> None:
    """What keeps everything would have to be compared with no mask at all."""
    forms = [MaskForm("b", "keep", "B n")]
    assert tried_masks({"x": REQUIRED, "b": REQUIRED}, adding(hides_too_little, unmasked=False), KEEP, forms)[0] is None


@pytest.mark.parametrize("unmasked", [True, False])
def test_a_mask_that_hides_rows_of_queries_acts(unmasked: bool) -> None:
    """Hidden positions see nothing and are seen: the output changes there alone, whatever the argument is called."""

    def call(form: MaskForm | None, variation: str) -> Tensor | None:
        seeing = adding(sees_all, unmasked)(form, variation)
        hides = form is not None and variation != "everything kept"
        return torch.where(KEEP[..., None], seeing, X[..., None]) if hides and seeing is not None else seeing

    b = MaskForm("b", "keep", "B n")
    assert tried_masks({"x": REQUIRED, "b": REQUIRED}, call, KEEP, [b]) == (b, False)


@pytest.mark.parametrize(
    ("form", "accepted"),
    [
        (MaskForm("b", "keep", "B n"), False),
        (MaskForm("pad", "keep", "B n"), True),
        (MaskForm("lengths", LENGTHS, "B"), True),
        (MaskForm("n", LENGTHS, "B"), False),
    ],
)
def test_only_what_is_called_a_mask_or_lengths_is_accepted_without_any_effect(form: MaskForm, accepted: bool) -> None:
    assert tried_masks({"x": REQUIRED}, adding(sees_all), KEEP, [form])[0] == (form if accepted else None)


def test_only_the_forms_given_are_tried() -> None:
    """A stated polarity is tried alone; one that does hide padding is found under any name."""
    assert tried_masks(MASK, adding(keeps_false), KEEP, [MaskForm("mask", "keep", "B n")])[0] == MaskForm(
        "mask", "keep", "B n"
    )
    unforeseen = [MaskForm("b", "keep", "B n"), MaskForm("b", "ignore", "B n")]
    assert tried_masks({"x": REQUIRED}, adding(keeps_false), KEEP, unforeseen)[0] == unforeseen[1]


def test_a_documented_meaning_is_not_put_to_the_test() -> None:
    """Torch says what ``src_key_padding_mask`` means: true at padding. Forms that are given are tried all the same."""
    arguments = {"x": REQUIRED, "src_key_padding_mask": None, "mask": None}

    def called(form: MaskForm | None, variation: str) -> Tensor | None:
        pytest.fail("it was called")

    assert tried_masks(arguments, called, KEEP)[0] == MaskForm("src_key_padding_mask", "ignore", "B n")
    forms = [MaskForm("mask", "keep", "B n")]
    assert tried_masks(arguments, adding(keeps_true), KEEP, forms)[0] == forms[0]


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_a_mask_with_which_the_output_is_no_number_hides_nothing(wrong: float) -> None:
    """Masked with 0/1 the output is a number; that is the form."""

    def call(form: MaskForm | None, variation: str) -> Tensor | None:
        plain = adding(keeps_true)(form, variation)
        return plain * wrong if form and form.values == "keep" and plain is not None else plain

    assert tried_masks(MASK, call, KEEP)[0] == MaskForm("mask", "keep 0/1", "B n")


@pytest.mark.parametrize(("effect", "acts"), [(1e-10, False), (3e-9, True)])
def test_a_mask_changes_something_beyond_rounding(effect: float, acts: bool) -> None:
    """An effect of 10⁻¹⁰ on kept positions is none, and one of 3 · 10⁻⁹ is one: nothing else shows a mask."""

    def call(form: MaskForm | None, variation: str) -> Tensor | None:
        acting = form is not None and variation != "everything kept"
        return torch.full((2, 3, 1), effect if acting else 0.0, dtype=torch.float64)

    form = MaskForm("b", "keep", "B n")
    assert tried_masks({"x": REQUIRED}, call, KEEP, [form])[0] == (form if acts else None)


def test_outputs_of_another_shape_are_not_compared() -> None:
    """With a boolean mask the batch is dropped, or that of the call with all kept."""
    for variation_of in ({"padded", "other padding", "everything kept"}, {"everything kept"}, {"other padding"}):

        def call(form: MaskForm | None, variation: str, of: set[str] = variation_of) -> Tensor | None:
            plain = adding(keeps_true)(form, variation)
            return plain[:1] if form and form.values == "keep" and variation in of and plain is not None else plain

        assert tried_masks(MASK, call, KEEP)[0] == MaskForm("mask", "keep 0/1", "B n")


@pytest.mark.parametrize(("leak", "hidden"), [(1e-10, True), (1e-8, False)])
def test_padding_is_hidden_up_to_rounding(leak: float, hidden: bool) -> None:
    """What gets through from other padding may be 10⁻¹⁰ and not 10⁻⁸; then another form is accepted as acting."""

    def call(form: MaskForm | None, variation: str) -> Tensor | None:
        plain = adding(keeps_true)(form, variation)
        boolean = form is not None and form.values == "keep"
        return plain + leak if boolean and variation == "other padding" and plain is not None else plain

    found = MaskForm("mask", "keep" if hidden else "keep 0/1", "B n")
    assert tried_masks(MASK, call, KEEP)[0] == found


CUSTOMARY = MaskForm("mask", "keep", "B n")


def only_wide(form: MaskForm, keep: Tensor) -> Tensor | None:
    """Hide too little by an array (B, n), and what it should by one (B, 1, 1, n)."""
    return hides_too_little(form, keep) if form.axes == "B n" else only("keep", "B 1 1 n")(form, keep)


def test_a_mask_that_misbehaves_in_the_customary_form_is_not_asked_for_another() -> None:
    """If the sizes of the probe say that an array (B, n) is taken for what it is; else the form that hides padding."""
    assert tried_masks(MASK, adding(only_wide), KEEP, is_customary=True) == (CUSTOMARY, False)
    form, hides = tried_masks(MASK, adding(only_wide), KEEP)
    assert hides
    assert form is not None
    assert form.axes == "B 1 1 n"


def test_a_documented_mask_is_taken_at_its_word_if_it_changes_anything() -> None:
    """Inverted, it is wrong; ignored, or refused, another form may be meant."""
    said = {"mask": ("keep",)}
    assert tried_masks(MASK, adding(keeps_false), KEEP, documented=said) == (CUSTOMARY, True)
    assert tried_masks(MASK, adding(sees_all), KEEP, documented=said) == (CUSTOMARY, False)
    wide = only("keep 0/1", "B 1 1 n")
    assert tried_masks(MASK, adding(wide), KEEP, documented=said)[0] == MaskForm("mask", "keep 0/1", "B 1 1 n")


@pytest.mark.parametrize(
    ("axes", "shape"),
    [("1 n B", (1, 3, 2)), ("n n B", (3, 3, 2)), ("B h n n", (2, 4, 3, 3)), ("n B", (3, 2)), ("B n 1", (2, 3, 1))],
)
def test_the_batch_and_the_keys_may_be_any_axes(axes: str, shape: tuple[int, ...]) -> None:
    """The keys are the last axis of positions: along the others the mask repeats."""
    found = MaskForm("mask", "keep", axes, heads=4).render(KEEP)
    assert found.shape == shape
    letters = axes.split()
    key = max(i for i, letter in enumerate(letters) if letter == "n")
    first = found[tuple(slice(None) if letter == "B" or i == key else 0 for i, letter in enumerate(letters))]
    assert torch.equal(first if letters.index("B") < key else first.T, KEEP)


def test_a_mask_without_a_batch_hides_the_same_in_all_sequences() -> None:
    same = KEEP[:1].expand(2, 3)
    assert torch.equal(MaskForm("mask", "ignore", "n n").render(same), ~same[0].expand(3, 3))
    with pytest.raises(Unsupported, match="the same positions in all sequences"):
        MaskForm("mask", "keep", "n n").render(KEEP)


@pytest.mark.parametrize(
    ("dtype", "apart", "same"),
    [
        (torch.float64, 9e-10, T),
        (torch.float64, 2e-9, F),
        (torch.float32, 1e-4, T),
        (torch.float32, 2e-4, F),
    ],
)
def test_rounding_is_that_of_the_precision(dtype: torch.dtype, apart: float, same: bool) -> None:
    """1000 units of float32 are 1.2e-4; of float64 they are less than 1e-9, which is allowed there."""
    zero = torch.zeros(2, dtype=dtype)
    assert is_same(zero, zero + apart) is same


def test_an_id_of_padding_is_named() -> None:
    """The form says which id stands where nothing is."""
    form = MaskForm("ids", PADDING_ID, "B n", id=2)
    assert str(form) == "ids: (B, n), padded where the id is 2"
    assert form.is_at_the_end
    assert not MaskForm("m", "keep", "B n").is_at_the_end


@pytest.mark.parametrize(
    ("documentation", "says_so"),
    [
        ("attention_mask (Tensor): Boolean mask ``(B, N)`` where ``True`` marks PAD tokens.", True),
        ("attention_mask: (B, n), 1 = ignored, 0 = kept", True),
        ("attention_mask: 1 for tokens that are not masked, 0 for padding", False),
        ("attention_mask: 1 for non-padding tokens\n    other: true for padding", False),
        ("attention_mask: 1 where there are tokens; 0 is padding", False),
        ("key_mask: True = padding", False),
        ("", False),
    ],
)
def test_documentation_may_say_that_true_hides(documentation: str, says_so: bool) -> None:
    """Then callers hand a mask over so, whatever its name means elsewhere."""
    assert says_that_true_hides(documentation, "attention_mask") == says_so

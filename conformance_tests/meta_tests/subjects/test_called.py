"""What is learned of a call, with functions in the place of encoders."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from conformance_tests.computation.shown import Finding
from conformance_tests.errors import Undetermined, Unsupported
from conformance_tests.numerics.probes import Probes, Sizes
from conformance_tests.subjects.called import (
    LONGEST_SEARCH,
    CalledSubject,
    given_arguments,
    read_positions,
)
from conformance_tests.subjects.calling import BATCH_FIRST, FEATURES_FIRST, SEQUENCE_FIRST, Arguments, arguments_of
from conformance_tests.subjects.first_call import Filling, Plain
from conformance_tests.subjects.hints import Hints
from conformance_tests.subjects.masks import LENGTHS, MaskForm
from encoder_spec.assembly import Encoder
from encoder_spec.dimensions import Dimensions
from encoder_spec.profiles import BERT, TORCH_POST_LN, VIT, Profile


class Fake(CalledSubject):
    """A function as an encoder of a framework without anything of its own."""

    def __init__(self, function: Callable[..., Any], order: bool | None = None, mask: tuple[str, str] | None = None):
        super().__init__()
        self.function = function
        self.order = order
        self.hints = Hints(mask=mask)
        self.gradients_asked: list[bool] = []

    def arguments(self) -> Arguments:
        return arguments_of(self.function)

    def call(self, positional: Sequence[Tensor], named: Mapping[str, Tensor | None], gradients: bool) -> Any:
        self.gradients_asked.append(gradients)
        return self.function(*positional, **named)

    def stated_order(self) -> bool | None:
        return self.order


def probes(profile: Profile = TORCH_POST_LN) -> Probes:
    """For three sequences of seven positions of width 4; an image has nine patches behind one token."""
    return Probes(Encoder(profile, Dimensions(d_model=4, h=2, d_ff=8, N=2, V=41, max_len=10, patch=2)), 0)


def learned(function: Callable[..., Any], profile: Profile = TORCH_POST_LN, **said: Any) -> Fake:
    """The subject when it has learned how to call a function."""
    subject = Fake(function, **said)
    subject.learn(probes(profile))
    return subject


def adding(x: Tensor, keep: Tensor | None = None) -> Tensor:
    """Add to each position all that are kept."""
    seen = x if keep is None else x * keep[..., None]
    return x + seen.sum(1, keepdim=True)


def plain(x: Tensor) -> Tensor:
    return adding(x)


def keeps(x: Tensor, mask: Tensor | None = None) -> Tensor:
    return adding(x, mask)


def ignores_padding(x: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
    return adding(x, None if key_padding_mask is None else ~key_padding_mask)


def per_key(x: Tensor, attention_mask: Tensor | None = None) -> Tensor:
    return adding(x, None if attention_mask is None else attention_mask[:, 0, 0] == 1)


def positions_first(x: Tensor, mask: Tensor | None = None) -> Tensor:
    return adding(x.transpose(0, 1), mask).transpose(0, 1)


def must_be_masked(x: Tensor, mask: Tensor) -> Tensor:
    return adding(x, mask)


def must_be_masked_without_a_name(x: Tensor, b: Tensor) -> Tensor:
    return adding(x, b)


def must_be_told(x: Tensor, mask: Tensor | None) -> Tensor:
    return adding(x, mask)


def takes_lengths(x: Tensor, lengths: Tensor | None = None) -> Tensor:
    return adding(x, None if lengths is None else torch.arange(x.shape[1]) < lengths[:, None])


def oddly_named(x: Tensor, m: Tensor | None = None) -> Tensor:
    return adding(x, None if m is None else ~m)


def refuses_masks(x: Tensor, mask: Tensor | None = None) -> Tensor:
    if mask is not None:
        raise ValueError("bad\nmask")
    return adding(x)


def takes_another_thing(x: Tensor, other: Tensor | None = None) -> Tensor:
    return adding(x) if other is None else adding(x) * 2


def contradicts_its_name(x: Tensor, attention_mask: Tensor | None = None) -> Tensor:
    return adding(x, None if attention_mask is None else ~(attention_mask == 1))


@pytest.mark.parametrize(
    ("function", "form", "conventions"),
    [
        (keeps, MaskForm("mask", "keep", "B n"), {"mask": "mask: (B, n), boolean, True = keep"}),
        (
            ignores_padding,
            MaskForm("key_padding_mask", "ignore", "B n"),
            {"mask": "key_padding_mask: (B, n), boolean, True = ignore"},
        ),
        (
            per_key,
            MaskForm("attention_mask", "keep 0/1", "B 1 1 n"),
            {"mask": "attention_mask: (B, 1, 1, n), 0/1, 1 = keep"},
        ),
        (
            positions_first,
            MaskForm("mask", "keep", "B n"),
            {"input": "(n, B, d_model)", "mask": "mask: (B, n), boolean, True = keep"},
        ),
        (must_be_masked, MaskForm("mask", "keep", "B n"), {"mask": "mask: (B, n), boolean, True = keep"}),
        (must_be_told, MaskForm("mask", "keep", "B n"), {"mask": "mask: (B, n), boolean, True = keep"}),
        (
            must_be_masked_without_a_name,
            MaskForm("b", "keep", "B n"),
            {"mask": "b: (B, n), boolean, True = keep"},
        ),
        (oddly_named, MaskForm("m", "ignore", "B n"), {"mask": "m: (B, n), boolean, True = ignore"}),
        (
            takes_lengths,
            MaskForm("lengths", LENGTHS, "B"),
            {"mask": "lengths: (B,), the number of valid positions, which come first"},
        ),
        (plain, None, {}),
        (takes_another_thing, None, {}),
    ],
)
def test_the_order_of_axes_and_the_form_of_the_mask_are_learned(
    function: Callable[..., Any], form: MaskForm | None, conventions: dict[str, str]
) -> None:
    """From there on it is called with the batch first, and a mask (B, n) that is true at what is kept."""
    subject = learned(function)
    assert subject.mask_form == form
    assert subject.takes_mask == (form is not None)
    assert subject.conventions() == conventions
    assert subject.unknown() == ""
    x = torch.arange(24, dtype=torch.float64).reshape(2, 3, 4)
    keep = torch.tensor([[True, True, False], [True, False, False]])
    assert torch.equal(subject.encode((x,), None), adding(x))
    if form is not None:
        assert torch.equal(subject.encode((x,), keep), adding(x, keep))


def test_what_encodes_records_gradients_unless_told_otherwise() -> None:
    """Experiments record them under a mask alone, since torch's fast path takes masks of shapes that it cannot use."""
    assert not any(learned(plain).gradients_asked)
    subject = learned(keeps)
    assert {True, False} == set(subject.gradients_asked)
    subject.encode((torch.zeros(2, 3, 4),), None)
    subject.encode((torch.zeros(2, 3, 4),), None, gradients=False)
    assert subject.gradients_asked[-2:] == [True, False]


@pytest.mark.parametrize(("order", "axes"), [(None, BATCH_FIRST), (True, BATCH_FIRST), (False, SEQUENCE_FIRST)])
def test_where_both_orders_work_the_stated_one_is_kept(order: bool | None, axes: str) -> None:
    """A function of each position by itself works either way."""
    assert learned(lambda x: x * 2, order=order).axes == axes


@pytest.mark.parametrize("order", [None, True, False])
def test_the_order_that_works_goes_before_the_one_that_is_stated(order: bool | None) -> None:
    assert learned(positions_first, order=order).axes == SEQUENCE_FIRST
    assert learned(plain, order=order).axes == BATCH_FIRST


def test_token_ids_with_segments_and_images_have_their_batch_first() -> None:
    """There is no other order to be tried: of an image the second axis is that of colours."""

    def image(x: Tensor) -> Tensor:
        return torch.ones(x.shape[0], 10, 4) * x.sum((1, 2, 3))[:, None, None]

    def two(ids: Tensor, segment_ids: Tensor | None = None) -> Tensor:
        return adding((ids + (0 if segment_ids is None else segment_ids))[..., None].double())

    for function, profile in ((image, VIT), (two, BERT)):
        assert learned(function, profile, order=False).axes == BATCH_FIRST


@pytest.mark.parametrize("returned", [FEATURES_FIRST, BATCH_FIRST])
def test_vectors_may_be_taken_with_their_features_first(returned: str) -> None:
    """As convolutions read them: (B, d_model, n); some give hidden states with their features last."""

    def convolved(x: Tensor) -> Tensor:
        if x.shape[1] != 4:
            raise RuntimeError("expected 4 channels")
        mixed = x + x.mean(dim=2, keepdim=True)
        return mixed if returned == FEATURES_FIRST else mixed.transpose(1, 2)

    subject = learned(convolved)
    assert (subject.axes, subject.conventions()) == (FEATURES_FIRST, {"input": "(B, d_model, n)"})
    x = torch.randn(2, 5, 4)
    assert torch.allclose(subject.encode((x,), None), x + x.mean(dim=1, keepdim=True))


def must_be_masked_keys(x: Tensor, mask: Tensor) -> Tensor:
    return adding(x, mask[:, 0, 0])


@pytest.mark.parametrize(
    ("function", "neutral"),
    [
        (keeps, {}),
        (must_be_told, {"mask": Plain("nothing")}),
        (must_be_masked, {"mask": Plain("nothing")}),
        (must_be_masked_keys, {"mask": MaskForm("mask", "keep", "B 1 1 n")}),
    ],
)
def test_a_mask_that_must_be_given_is_none_or_one_that_keeps_everything(
    function: Callable[..., Any], neutral: dict[str, Filling]
) -> None:
    """Where None will not do, the form that hides padding."""
    subject = learned(function)
    assert subject.neutral == neutral
    x = torch.arange(24, dtype=torch.float64).reshape(2, 3, 4)
    assert torch.equal(subject.encode((x,), None), adding(x))


@pytest.mark.parametrize(
    ("mask", "form"),
    [
        (("mask", "keep"), MaskForm("mask", "keep", "B n")),
        (("other", "ignore"), MaskForm("other", "ignore", "B n")),
        (("lengths", "lengths"), MaskForm("lengths", LENGTHS, "B")),
    ],
)
def test_a_stated_mask_is_tried_alone(mask: tuple[str, str], form: MaskForm) -> None:
    """Its argument and its meaning, in any order of axes."""

    def three(x: Tensor, mask: Any = None, other: Any = None, lengths: Any = None) -> Tensor:
        hidden = adding(x, mask)
        hidden = hidden if other is None else adding(x, ~other)
        return hidden if lengths is None else takes_lengths(x, lengths)

    assert learned(three, mask=mask).mask_form == form


def test_a_stated_mask_that_does_not_exist_is_said() -> None:
    said = r"^described: the encoder has no argument 'keep'; it takes x, mask$"
    with pytest.raises(Undetermined, match=said):
        learned(keeps, mask=("keep", "keep"))


def test_a_stated_mask_that_is_refused_keeps_the_verdict_open() -> None:
    subject = learned(refuses_masks, mask=("mask", "additive"))
    assert subject.unknown() == "described: the encoder takes no mask in the form stated of 'mask'"
    with pytest.raises(Unsupported, match=r"^described: the encoder takes no mask in the form stated of 'mask'$"):
        subject.encode((torch.zeros(2, 3, 4),), torch.ones(2, 3, dtype=torch.bool))


def test_a_mask_that_is_always_refused_is_named_with_the_last_refusal() -> None:
    """And with what its author can do."""
    said = learned(refuses_masks).unknown()
    assert said.startswith("the encoder accepts no form of padding mask: its argument 'mask' refused boolean, 0/1 and ")
    assert said.endswith("with ValueError: bad. Name a function that makes an encoder with a mask (B, n), True = keep")


@pytest.mark.parametrize("fault", [MemoryError, RecursionError])
def test_an_encoder_that_has_no_room_is_not_called_with_every_form(fault: type[Exception]) -> None:
    """No other order of axes and no other mask would help, and each such call takes its time."""
    calls = 0

    def exhausted(x: Tensor, mask: Tensor | None = None) -> Tensor:
        nonlocal calls
        calls += 1
        raise fault

    with pytest.raises(fault):
        learned(exhausted)
    assert calls == 1


def test_without_a_mask_padding_cannot_be_said() -> None:
    with pytest.raises(Unsupported, match=r"^the subject takes no mask$"):
        learned(plain).encode((torch.zeros(2, 3, 4),), torch.ones(2, 3, dtype=torch.bool))


def asks_for_two(x: Tensor, memory: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
    return adding(x + memory.reshape(2, 3) + target, mask)


def asks_for_memory(x: Tensor, memory: Tensor) -> Tensor:
    return adding(x + memory.reshape(2, 3))


@pytest.mark.parametrize(("function", "asked"), [(asks_for_two, "memory, target"), (asks_for_memory, "memory")])
def test_what_an_encoder_asks_for_beside_its_input_is_named(function: Callable[..., Any], asked: str) -> None:
    """With the lines that give it; an only required argument is first tried for a mask."""
    with pytest.raises(Undetermined) as caught:
        learned(function)
    said = str(caught.value)
    assert said.startswith(f"the encoder asks for {asked} beside its input, which the suite cannot invent: ")
    assert said.endswith(given_arguments(asked.split(", ")))


def uses_neither(x: Tensor, memory: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
    return adding(x, mask)


def test_what_is_asked_for_and_given_the_same_in_every_call_is_named() -> None:
    """Whether it is used is not known: the report says what it got. It is handed over beside the mask too."""
    subject = learned(uses_neither)
    assert subject.mask_form == MaskForm("mask", "keep", "B n")
    assert subject.remarks() == ("given in every call, with nothing hidden: memory: None; target: None",)


def switched(x: Tensor, causal: bool, mask: Tensor | None = None) -> Tensor:
    assert causal in (False, True)
    return adding(x, mask).cumsum(1) if causal else adding(x, mask)


def test_what_must_be_said_is_switched_off() -> None:
    """Even though it matters, and a number of positions would count as true."""
    subject = learned(switched)
    assert subject.mask_form == MaskForm("mask", "keep", "B n")
    assert subject.remarks() == ("given in every call, with nothing hidden: causal: False",)


def beside_a_length(x: Tensor, length: Tensor, mask: Tensor | None = None) -> Tensor:
    return adding(x * (length == x.shape[1])[:, None, None], mask)


def test_a_required_argument_is_given_beside_the_mask_too() -> None:
    subject = learned(beside_a_length)
    assert subject.mask_form == MaskForm("mask", "keep", "B n")
    keep = torch.tensor([[True, False, True]])
    x = torch.arange(12.0).reshape(1, 3, 4).double()
    assert torch.equal(subject.encode((x,), keep), adding(x, keep))


def shifts_one_form(x: Tensor, mask: Tensor | None = None) -> Tensor:
    if mask is None:
        return adding(x)
    return adding(x, mask.roll(1, 1) if mask.ndim == 2 else mask[:, 0, 0])


def test_a_mask_that_misbehaves_in_the_customary_form_has_that_form() -> None:
    """Another form hides padding, but callers hand over the customary one."""
    assert learned(shifts_one_form).mask_form == MaskForm("mask", "keep", "B n")


def batch_last(x: Tensor, mask: Tensor | None = None) -> Tensor:
    return adding(x, None if mask is None else mask.permute(2, 0, 1)[:, 0])


def one_for_all(x: Tensor, mask: Tensor | None = None) -> Tensor:
    if mask is not None and mask.shape != (x.shape[1], x.shape[1]):
        raise ValueError(mask.shape)
    return adding(x, None if mask is None else mask[0].expand(len(x), -1))


def test_a_mask_may_have_its_axes_in_another_order_or_none_for_the_batch() -> None:
    assert learned(batch_last).mask_form == MaskForm("mask", "keep", "1 n B")
    subject = learned(one_for_all)
    assert subject.mask_form == MaskForm("mask", "keep", "n n")
    same, other = torch.tensor([[True, False], [True, False]]), torch.tensor([[True, False], [True, True]])
    assert (subject.can_hide(same), subject.can_hide(other)) == (True, False)


def test_the_lines_that_give_arguments_run_as_they_stand() -> None:
    """They bind each argument to the forward method; an ellipsis stands for its value."""
    lines = given_arguments(["memory", "target"])
    assert "functools.partial(encoder.forward, memory=…, target=…)" in lines
    compile(lines.replace("\n    ", "\n").replace("…", "..."), "lines", "exec")


@pytest.mark.parametrize(
    ("function", "remarks"),
    [
        (keeps, ()),
        (plain, ()),
        (
            takes_another_thing,
            ("left at the default, and not judged: other, in which no mask was found",),
        ),
        # The encoder inverts its mask bit by bit, and −2 and −1 both count as true.
        (oddly_named, ("m takes 0 and 1 too, which do not do what false and true do",)),
    ],
)
def test_arguments_that_were_never_given_are_named(function: Callable[..., Any], remarks: tuple[str, ...]) -> None:
    """The one that was found to be the mask is none of them."""
    assert learned(function).remarks() == remarks


def test_of_two_arguments_that_hide_padding_the_one_that_takes_the_customary_mask_is_judged() -> None:
    """Nothing is said of what was found in the other one: nobody looked."""

    def both(x: Tensor, attn_mask: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        if attn_mask is not None and attn_mask.ndim != 4:
            raise ValueError("it has four axes")
        return adding(x, attn_mask[:, 0, 0] if attn_mask is not None else mask)

    found = learned(both)
    assert found.mask_form == MaskForm("mask", "keep", "B n")
    assert not any("no mask was found" in remark for remark in found.remarks())


def test_a_mask_against_its_name_departs_unless_its_author_describes_it() -> None:
    """Callers hand it what its name means elsewhere; with a statement of its author they hand it that."""

    def both(x: Tensor, attention_mask: Tensor | None = None, other: Tensor | None = None) -> Tensor:
        return contradicts_its_name(x, attention_mask)

    says = "attention_mask hides where it is true, the opposite of what that name means elsewhere"
    left = "left at the default, and not judged: other"
    found = learned(both)
    turned = MaskForm("attention_mask", "keep", "B n", is_turned=True)
    assert (found.mask_form, found.departures()) == (turned, (Finding("mask", says),))
    assert found.remarks() == (left,)
    described = learned(both, mask=("attention_mask", "ignore"))
    assert (described.departures(), described.remarks()) == ((), (says, left))


def test_an_argument_of_an_image_that_changes_nothing_is_no_mask() -> None:
    """An image need not be padded: there an ignored mask is none, but of tokens it is the likeliest one."""

    def image(x: Tensor, mask: Tensor | None = None) -> Tensor:
        return torch.ones(x.shape[0], 10, 4) * x.sum((1, 2, 3))[:, None, None]

    def tokens(x: Tensor, mask: Tensor | None = None) -> Tensor:
        return adding(x)

    assert learned(image, VIT).mask_form is None
    assert learned(tokens).mask_form == MaskForm("mask", "keep", "B n")


def test_a_mask_over_patches_is_found() -> None:
    """Ten positions, of which the first stands before the patches."""

    def image(x: Tensor, mask: Tensor | None = None) -> Tensor:
        patches = x.unfold(2, 2, 2).unfold(3, 2, 2).flatten(2, 3).sum((1, 3, 4))
        states = torch.cat([torch.ones(len(x), 1), patches], dim=1)[..., None].expand(-1, -1, 4).double()
        return adding(states, mask)

    subject = learned(image, VIT)
    assert subject.mask_form == MaskForm("mask", "keep", "B n")


def with_segments(ids: Tensor, mask: Tensor | None = None, segment_ids: Tensor | None = None) -> Tensor:
    states = ids + (0 if segment_ids is None else 100 * segment_ids)
    return adding(states[..., None].expand(-1, -1, 4).double(), mask)


def all_in_one(*inputs: Tensor, mask: Tensor | None = None) -> Tensor:
    return with_segments(inputs[0], mask, inputs[1])


def without_place(ids: Tensor, mask: Tensor | None = None) -> Tensor:
    return with_segments(ids, mask)


@pytest.mark.parametrize(
    ("function", "argument"), [(with_segments, "segment_ids"), (all_in_one, "*inputs"), (without_place, None)]
)
def test_segments_are_given_to_their_own_argument(function: Callable[..., Any], argument: str | None) -> None:
    """By name, or behind the ids; without a place for them they are left out."""
    subject = learned(function, BERT)
    assert subject.segments == argument
    assert subject.takes_segments() == (argument is not None)
    assert subject.mask_form == MaskForm("mask", "keep", "B n")
    ids, segments = torch.tensor([[2, 3, 5]]), torch.tensor([[0, 1, 1]])
    expected = with_segments(ids, None, segments if argument else None)
    assert torch.equal(subject.encode((ids, segments), None), expected)


def boxes_first(
    ids: Tensor, boxes: Tensor | None = None, mask: Tensor | None = None, kinds: Tensor | None = None
) -> Any:
    return ids, boxes, mask, kinds


@pytest.mark.parametrize(
    ("function", "arguments"),
    [(with_segments, ("segment_ids",)), (boxes_first, ("boxes", "kinds")), (all_in_one, ()), (without_place, ())],
)
def test_an_argument_may_number_segments_unless_it_tells_of_something_else(
    function: Callable[..., Any], arguments: tuple[str, ...]
) -> None:
    """Neither a mask nor all inputs together: the second behind the input, then those whose names tell nothing."""
    assert Fake(function).may_number_segments() == arguments


def test_an_encoder_of_embeddings_has_no_segments() -> None:
    """A second argument of which nothing is told would be taken for them only beside ids."""
    assert learned(takes_another_thing).segments is None


@pytest.mark.parametrize(
    ("function", "keep", "can"),
    [
        (takes_lengths, [[True, True, False], [True, True, True]], True),
        (takes_lengths, [[True, True, False]], False),
        (takes_lengths, [[False, True, True]], False),
        (keeps, [[False, True, True]], True),
        (plain, [[False, True, True]], True),
    ],
)
def test_lengths_hide_the_end_of_all_but_the_longest(
    function: Callable[..., Any], keep: list[list[bool]], can: bool
) -> None:
    """A batch is as long as its longest sequence."""
    assert learned(function).can_hide(torch.tensor(keep)) == can


def test_a_mask_that_the_encoder_writes_into_tells_the_caller() -> None:
    """It has a copy of its own; that it has changed it shows by the caller's mask turned round."""

    def writing(x: Tensor, mask: Tensor | None = None) -> Tensor:
        hidden = adding(x, mask)
        if mask is not None:
            mask[0, 0] = not mask[0, 0]
        return hidden

    keep = torch.tensor([[True, True, False]])
    for function, expected in ((writing, [[False, False, True]]), (keeps, [[True, True, False]])):
        given = keep.clone()
        learned(function).encode((torch.zeros(1, 3, 4),), given)
        assert given.tolist() == expected


def test_hidden_states_are_found_by_the_width_of_the_encoder() -> None:
    """Of a pair the one of width 4, in the order of axes that it was given."""

    def pair(x: Tensor) -> Any:
        return torch.zeros(7, 3, 5), positions_first(x)

    x = torch.arange(24, dtype=torch.float64).reshape(2, 3, 4)
    assert torch.equal(learned(pair).encode((x,), None), adding(x))


@pytest.mark.parametrize(("shape", "positions"), [((2, 3), 3), ((2, 3, 4), 3), ((2, 3, 4, 4), 0)])
def test_an_image_has_no_positions_of_its_own(shape: tuple[int, ...], positions: int) -> None:
    assert read_positions(torch.zeros(shape)) == positions


def test_a_framework_must_supply_arguments_and_call() -> None:
    with pytest.raises(NotImplementedError):
        CalledSubject().arguments()
    with pytest.raises(NotImplementedError):
        CalledSubject().call([], {}, True)
    assert CalledSubject().stated_order() is None


def test_a_slow_call_leaves_time_to_the_ways_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """One call of a batch takes longer than a whole search should, and a sequence alone would be taken."""
    clock = [0.0]
    monkeypatch.setattr("conformance_tests.subjects.called.process_time", lambda: clock[0])
    alone: list[bool] = []

    def call(x: Tensor, named: Mapping[str, Any]) -> Tensor:
        alone.append(subject.one_by_one)
        if not subject.one_by_one:
            clock[0] += 2 * LONGEST_SEARCH
            raise ValueError("no batches")
        return x

    subject = Fake(plain)
    monkeypatch.setattr(subject, "weights", lambda: {"W": torch.zeros(6, 6)})
    subject.first_call(call, Sizes(1, 5))
    assert alone[0] is False
    assert True in alone

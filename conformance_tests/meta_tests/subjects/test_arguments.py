"""What a signature says of a call, and where the hidden states are in what comes back."""

import io
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from conformance_tests.errors import Disagreement, SubjectError
from conformance_tests.subjects.calling import (
    BATCH_FIRST,
    REQUIRED,
    SEGMENTS,
    SEQUENCE_FIRST,
    arguments_of,
    entrance,
    hands_on,
    hidden_states,
    input_by_name,
    order_of_axes,
    required,
    tensors_in,
)
from conformance_tests.subjects.handed_on import documentation


def usual(x, mask=None, flag=False): ...
def several(*inputs, keep=None): ...
def positional(x, y, /, z, w=2): ...
def all_kinds(x, /, a, *rest, b, c=3, **others): ...
def by_name(*, input_ids, attention_mask=None): ...
def by_name_without_default(*, input_ids=None): ...
def nothing(): ...
def handing_on(*args, **kwargs): ...
def handing_on_more(x, *args, **kwargs): ...
def any_names(**kwargs): ...


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (usual, {"x": REQUIRED, "mask": None, "flag": False}),
        (several, {"*inputs": REQUIRED, "keep": None}),
        (positional, {"x": REQUIRED, "z": REQUIRED, "w": 2}),
        (all_kinds, {"x": REQUIRED, "a": REQUIRED, "b": REQUIRED, "c": 3}),
        (by_name, {"input_ids": REQUIRED, "attention_mask": None}),
        (partial(usual, flag=True), {"x": REQUIRED, "mask": None, "flag": True}),
        (nothing, {}),
    ],
)
def test_arguments_are_the_first_and_those_that_can_be_given_by_name(
    function: Callable[..., Any], expected: dict[str, Any]
) -> None:
    """In their order, with defaults; the first has an asterisk if it takes several."""
    assert list(arguments_of(function).items()) == list(expected.items())


@pytest.mark.parametrize(
    ("function", "asked"),
    [(usual, []), (positional, ["z"]), (all_kinds, ["a", "b"]), (by_name, []), (nothing, []), (several, [])],
)
def test_the_input_itself_is_not_among_what_must_be_given_beside_it(
    function: Callable[..., Any], asked: list[str]
) -> None:
    assert required(arguments_of(function)) == asked


@pytest.mark.parametrize(
    ("function", "handed_on", "named"),
    [
        (usual, False, False),
        (several, False, False),
        (by_name, False, True),
        (by_name_without_default, False, True),
        (handing_on, True, False),
        (handing_on_more, False, False),
        (any_names, False, False),
        (nothing, False, False),
    ],
)
def test_a_signature_says_whether_it_hands_on_and_whether_the_input_goes_by_name(
    function: Callable[..., Any], handed_on: bool, named: bool
) -> None:
    assert hands_on(function) == handed_on
    assert input_by_name(function) == named


def adds(x, mask, shift=0):
    """A mask is 1 where it ignores."""
    return x + mask + shift


class PassesOn:
    """Takes anything by name, and passes it on to its method."""

    def __call__(self, x, **others):
        return self.added(x, **others)

    def added(self, x, **others):
        return adds(x, shift=1, **others)


class PassesOnBehindOptions(nn.Module):
    """Its input is among what it passes on, and its own argument an option."""

    def forward(self, twice=False, **others):
        """Documents nothing."""
        hidden = self.hidden(**others)
        return 2 * hidden if twice else hidden

    def hidden(self, ids, mask=None):
        """Documents its mask: true at padding."""
        return ids + mask


class PassesOnToItsBase(PassesOnBehindOptions):
    """The base states the argument."""

    def forward(self, **others):
        return super().forward(**others)


class Wrapper:
    """Binds a function to an object in a class that has no name for it, as libraries of JAX do."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.bound = function, self

    def __call__(self, *args, **others):
        return self.function(self.bound, *args, **others)


class KeepsToItself:
    """Takes anything by name, and passes nothing on."""

    def __call__(self, x, mask=None, **others):
        return self.encode(x, others)

    def encode(self, texts, options): ...


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    """Nothing tells what stands inside but the call of it."""

    def called(*args, **others):
        return function(*args, **others)

    return called


class Decorated(nn.Module):
    @decorated
    def forward(self, ids, mask=None): ...


class Around(nn.Module):
    """Takes anything, and passes it on to its part."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part

    def forward(self, *args, **others):
        return self.part(*args, **others)


class AroundAMethod(Around):
    def forward(self, *args, **others):
        return self.part.hidden(*args, **others)


class AsksForNothing(nn.Module):
    """Any of its arguments may be left out, and so may those that its part states."""

    def __init__(self) -> None:
        super().__init__()
        self.part = LeavesOut()

    def forward(self, ids=None, mask=None, **others):
        return self.part(ids, mask, **others)


class LeavesOut(nn.Module):
    def forward(self, ids=None, mask=None, earlier=None): ...


def calls_itself(x, **others):
    return calls_itself(x, **others)


@pytest.mark.parametrize(
    ("thing", "arguments", "named"),
    [
        (PassesOn(), ["x", "mask"], False),
        (PassesOnBehindOptions().forward, ["ids", "mask", "twice"], True),
        (partial(PassesOnBehindOptions().forward, mask=1), ["ids", "twice"], True),
        (PassesOnToItsBase().forward, ["ids", "twice", "mask"], True),
        (Wrapper(PassesOn.added), ["x", "mask"], False),
        (KeepsToItself(), ["x", "mask"], False),
        (Decorated().forward, ["ids", "mask"], False),
        (Around(AroundAMethod(PassesOnBehindOptions())).forward, ["ids", "mask"], False),
        (AsksForNothing().forward, ["ids", "mask", "earlier"], False),
        (Around(LeavesOut()).forward, ["ids", "mask", "earlier"], False),
        (calls_itself, ["x"], False),
    ],
)
def test_what_is_handed_on_is_read_where_it_is_stated(
    thing: Callable[..., Any], arguments: list[str], named: bool
) -> None:
    """But for what is set on the way."""
    assert list(arguments_of(thing)) == arguments
    assert input_by_name(thing) == named


def differences(x, y=2, z=3, w=4):
    return x, x - y, x - z, x - w


def of_three(*given):
    """More it does not take."""
    assert len(given) <= 3
    return differences(*given)


def test_what_is_handed_on_by_place_alone_is_taken_by_name_too() -> None:
    """No more is given than must be; a function that states what it takes, or does not hand it on, stays as it is."""
    called = entrance(of_three)
    assert list(arguments_of(called)) == ["x", "y", "z", "w"]
    assert called(5, z=1) == (5, 3, 4, 1)
    with pytest.raises(TypeError):
        of_three(5, z=1)
    for function in (usual, several, handing_on, differences):
        assert entrance(function) is function


def test_what_arguments_are_handed_on_to_documents_them() -> None:
    assert documentation(PassesOn()) == "A mask is 1 where it ignores."
    assert "Documents its mask" in documentation(PassesOnBehindOptions().forward)


class OneMethod:
    """Nothing calls it but its only method."""

    def transformed(self, x): ...
    def describe(self): ...


class TwoMethods(OneMethod):
    """Either of two methods may be meant."""

    def inverted(self, x): ...


def test_an_object_with_one_method_is_called_by_it() -> None:
    thing = OneMethod()
    assert entrance(thing) == thing.transformed
    with pytest.raises(SubjectError, match="nothing calls it"):
        entrance(TwoMethods())


class Scripted(nn.Module):
    def forward(self, x: Tensor, mask: Tensor | None = None, times: int = 2) -> Tensor:
        return x * times


def test_a_scripted_module_says_the_same_by_its_schema() -> None:
    """Loaded from a file, its forward method has no Python signature but one of any arguments."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.script(Scripted()), file)
        file.seek(0)
        forward = torch.jit.load(file).forward
    assert arguments_of(forward) == {"x": REQUIRED, "mask": None, "times": 2}
    assert hands_on(forward) is False
    assert input_by_name(forward) is False


@pytest.mark.parametrize(
    ("name", "is_segments"),
    [
        ("segment_ids", True),
        ("seg", True),
        ("token_type_ids", True),
        ("tokentype", True),
        ("type_ids", True),
        ("sentence", True),
        ("sent_ids", True),
        ("tokens", False),
        ("sender", False),
        ("type", False),
    ],
)
def test_segments_are_told_by_name(name: str, is_segments: bool) -> None:
    assert bool(SEGMENTS.search(name)) == is_segments


X = torch.tensor([[2.0, 3.0, 5.0], [7.0, 11.0, 13.0]])[..., None]


def mixing(axis: int, found: list[str] | None = None) -> Callable[[Tensor, str], Tensor]:
    """A call of an encoder that mixes what it is handed along an axis: its positions, if that is the second one."""

    def call(x: Tensor, order: str) -> Tensor:
        if found is not None:
            found.append(order)
        handed = (x if order == BATCH_FIRST else x.transpose(0, 1)).double()
        out = handed + handed.sum(axis, keepdim=True)
        return out if order == BATCH_FIRST else out.transpose(0, 1)

    return call


@pytest.mark.parametrize("orders", [(BATCH_FIRST, SEQUENCE_FIRST), (SEQUENCE_FIRST, BATCH_FIRST)])
@pytest.mark.parametrize("x", [X, X.squeeze(-1).long()], ids=["embeddings", "ids"])
def test_the_batch_is_the_axis_along_which_nothing_is_mixed(x: Tensor, orders: Sequence[str]) -> None:
    """Whatever is tried first: of two samples only the changed one changes."""
    assert order_of_axes(mixing(1), x, orders) == BATCH_FIRST
    assert order_of_axes(mixing(0), x, orders) == SEQUENCE_FIRST


def test_ids_are_changed_among_themselves_and_numbers_to_others() -> None:
    """An embedding has no row for an id that is one larger; of a single position the reverse is the same."""

    def looking_up(ids: Tensor, order: str) -> Tensor | None:
        return mixing(0)(ids, order) if int(ids.max()) <= 13 else None

    ids = torch.tensor([[13, 3, 5], [7, 11, 2]])
    assert order_of_axes(looking_up, ids, (BATCH_FIRST, SEQUENCE_FIRST)) == SEQUENCE_FIRST
    assert order_of_axes(mixing(1), X[:, :1], (SEQUENCE_FIRST, BATCH_FIRST)) == BATCH_FIRST


def test_the_likelier_order_is_tried_first_and_suffices() -> None:
    """Two calls with the batch first, and none with the batch second."""
    tried: list[str] = []
    order_of_axes(mixing(1, tried), X, (BATCH_FIRST, SEQUENCE_FIRST))
    assert tried == [BATCH_FIRST, BATCH_FIRST]


@pytest.mark.parametrize(
    "call",
    [
        lambda x, order: None,
        lambda x, order: torch.ones(2, 3, 5),
        lambda x, order: x.sum((1, 2)),
        lambda x, order: torch.cat([x, x]),
        lambda x, order: x + x.sum(),
        lambda x, order: None if x[0, 0, 0] != 2 else x,
        lambda x, order: x if x[0, 0, 0] == 2 else None,
    ],
    ids=["refusing", "constant", "a number each", "another batch", "mixing all", "first alone", "changed refused"],
)
@pytest.mark.parametrize("orders", [(BATCH_FIRST, SEQUENCE_FIRST), (SEQUENCE_FIRST, BATCH_FIRST)])
def test_where_no_order_is_independent_the_likelier_one_is_kept(call: Any, orders: Sequence[str]) -> None:
    """Refusals, outputs that depend on nothing, or have another batch, tell nothing."""
    assert order_of_axes(call, X, orders) == orders[0]


def test_a_change_of_a_billionth_is_rounding() -> None:
    """10⁻¹⁰ in the other sample is none, 10⁻⁸ is one; and 10⁻¹⁰ in the changed sample shows no influence."""

    def call(leak: float, own: float = 1.0) -> Callable[[Tensor, str], Tensor]:
        def called(x: Tensor, order: str) -> Tensor:
            changed = float(x[0, 0, 0] != 2)
            out = torch.zeros(2, 3, 1, dtype=torch.float64)
            out[0] += own * changed
            out[1] += leak * changed
            return out if order == BATCH_FIRST else out * float("nan")

        return called

    for leak, own, expected in (
        (1e-10, 1, BATCH_FIRST),
        (1e-8, 1, SEQUENCE_FIRST),
        (0, 1e-10, SEQUENCE_FIRST),
        (0, 1e-8, BATCH_FIRST),
    ):
        assert order_of_axes(call(leak, own), X, (SEQUENCE_FIRST, BATCH_FIRST)) == expected


WIDTH = 5
STATES, OTHER, POOLED = torch.zeros(2, 3, WIDTH), torch.ones(2, 3, WIDTH), torch.zeros(2, WIDTH)
WIDER = torch.zeros(2, 3, 7)


@dataclass
class Output:
    pooled: Tensor
    states: Tensor


@dataclass
class Named:
    last_hidden_state: Any
    other: Tensor


@dataclass(init=False)
class Both(dict[str, Any]):
    """A mapping that is a dataclass too, as models of transformers return: its fields may be empty."""

    states: Tensor | None = None


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (STATES, STATES),
        (POOLED, POOLED),
        ({"x": OTHER, "last_hidden_state": STATES}, STATES),
        (Named(STATES, OTHER), STATES),
        (Named(None, OTHER), OTHER),
        (Named([STATES], OTHER), STATES),
        (Named(WIDER, OTHER), WIDER),
        ((POOLED, STATES), STATES),
        ((WIDER, STATES, OTHER), STATES),
        ([STATES, WIDER, OTHER], OTHER),
        ([OTHER, STATES, POOLED], STATES),
        (Output(POOLED, STATES), STATES),
        (Both(a=POOLED, b=STATES), STATES),
        ({"a": {"b": (3, STATES)}}, STATES),
        ((POOLED, WIDER), POOLED),
        ([POOLED, WIDER], POOLED),
        ((torch.zeros(2, 3, WIDTH, dtype=torch.long), STATES), STATES),
    ],
)
def test_hidden_states_are_what_is_called_so_or_has_their_shape(output: Any, expected: Tensor) -> None:
    """A list collects what layers return: its last; else the first; where no shape fits, the first of all."""
    assert hidden_states(output, WIDTH) is expected


def test_nested_hidden_states_are_filled_with_zeros() -> None:
    """Sequences of one and of three positions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nested = torch.nested.nested_tensor([torch.ones(1, 2), torch.ones(3, 2)])
    assert hidden_states(nested, 2).sum(-1).tolist() == [[2, 0, 0], [2, 2, 2]]
    assert tensors_in((nested, POOLED)) == [POOLED]


@pytest.mark.parametrize(
    ("output", "kind"),
    [
        ({"length": 3}, "dict"),
        (5, "int"),
        (None, "NoneType"),
        ((), "tuple"),
        ([torch.zeros(2, dtype=torch.long)], "list"),
    ],
)
def test_an_output_without_floating_numbers_is_named(output: Any, kind: str) -> None:
    said = rf"^the encoder returned {kind}, but hidden states are a tensor \(B, n, d_model\)$"
    with pytest.raises(Disagreement, match=said):
        hidden_states(output, WIDTH)


def test_tensors_are_found_however_deep_in_their_order() -> None:
    """In dataclasses, mappings, lists and tuples; whole numbers and texts are passed over."""
    deep = [POOLED, {"a": (STATES, 3), "b": Output(OTHER, WIDER)}, torch.tensor(3), "text", {STATES}]
    assert [id(t) for t in tensors_in(deep)] == [id(t) for t in (POOLED, STATES, OTHER, WIDER)]

"""Another framework's encoder as one operation of torch's graph; a framework of two functions stands in for one."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from conformance_tests.computation.shown import Ending
from conformance_tests.subjects.bridged import BridgedSubject, Pullback

WEIGHT, X, IDS = torch.tensor([2.0, 3.0]), torch.tensor([5.0, 7.0]), torch.tensor([0, 1])


class Product(BridgedSubject):
    """Gives w · x, and the ids as they are, in a dictionary; it keeps which way it was asked."""

    def __init__(self) -> None:
        self.at_hand = {"w": WEIGHT}
        self.asked: list[str] = []

    def value(self, weights: Mapping[str, Tensor], positional: Sequence[Tensor], named: Mapping[str, Any]) -> Any:
        self.asked.append("value")
        return {"y": weights["w"] * positional[0], "ids": positional[1], **named}

    def value_and_pullback(
        self, weights: Mapping[str, Tensor], positional: Sequence[Tensor], named: Mapping[str, Any]
    ) -> tuple[list[Tensor], Callable[[Sequence[Tensor]], Any], Pullback]:
        self.asked.append("pullback")
        w, x, ids = weights["w"].detach(), positional[0].detach(), positional[1]

        def pullback(cotangents: Sequence[Tensor]) -> list[Tensor]:
            return [cotangents[0] * x, cotangents[0] * w]

        return [w * x, ids.clone()], lambda arrays: {"y": arrays[0], "ids": arrays[1], **named}, pullback


Product.__abstractmethods__ = frozenset()


@pytest.mark.parametrize(
    ("gradients", "by_weight", "by_input", "asked"),
    [
        (True, True, False, "pullback"),
        (True, False, True, "pullback"),
        (True, False, False, "value"),
        (False, True, True, "value"),
    ],
)
def test_the_pullback_is_asked_for_where_something_needs_its_gradient(
    gradients: bool, by_weight: bool, by_input: bool, asked: str
) -> None:
    """And where gradients are recorded at all: it may take longer than the value, which is the same."""
    subject: Any = Product()
    subject.at_hand = {"w": WEIGHT.clone().requires_grad_(by_weight)}
    returned = subject.call([X.clone().requires_grad_(by_input), IDS], {"mask": None}, gradients)
    assert subject.asked == [asked]
    assert returned["y"].tolist() == [10.0, 21.0]
    assert (returned["ids"].tolist(), returned["mask"]) == ([0, 1], None)


def test_gradients_go_through_to_weights_and_floating_inputs() -> None:
    """Of Σ c · w · x they are c · x and c · w; ids have none."""
    subject: Any = Product()
    w, x = WEIGHT.clone().requires_grad_(), X.clone().requires_grad_()
    subject.at_hand = {"w": w}
    returned = subject.call([x, IDS], {}, True)
    assert not returned["ids"].requires_grad
    (returned["y"] * torch.tensor([1.0, 10.0])).sum().backward()
    assert w.grad is not None
    assert x.grad is not None
    assert (w.grad.tolist(), x.grad.tolist()) == ([5.0, 70.0], [2.0, 30.0])


def test_what_stands_behind_the_end_of_the_encoder_has_influence() -> None:
    """No call up to there computes with it, and so none is asked."""
    subject: Any = Product()
    subject.ending = Ending("part", frozenset({"w"}))
    assert subject.influences_anything("w", (X,))
    assert subject.asked == []

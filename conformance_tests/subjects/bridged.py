"""Subjects of other frameworks inside torch's autograd: a call is one operation with a pullback.

The suite hands tensors over, turns axes and differentiates as it does for torch. A framework
supplies the value of a call for given weights, and its pullback.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from conformance_tests.subjects.called import CalledSubject
from conformance_tests.subjects.calling import tensors_in
from conformance_tests.subjects.hints import Hints

Pullback = Callable[[Sequence[Tensor]], Sequence[Tensor]]
"""Map from the cotangents of the results to those of the weights and the floating inputs, in their order."""


class WithWeights(CalledSubject):
    """An encoder that is a function of its weights, which are kept here and passed to each call."""

    def __init__(self, weights: Mapping[str, Tensor], hints: Hints) -> None:
        super().__init__()
        self.hints = hints
        self.at_hand = dict(weights)

    def weights(self) -> dict[str, Tensor]:
        """See ``Subject``."""
        return {name: w.detach().clone() for name, w in self.at_hand.items()}

    def set_weights(self, values: Mapping[str, Tensor]) -> None:
        """See ``Subject``."""
        self.at_hand = {name: values[name] for name in self.at_hand}

    def influences_anything(self, name: str, inputs: tuple[Tensor, ...]) -> bool:
        """See ``Subject``: what stands behind the end of the encoder was seen to."""
        if self.ending is not None and name in self.ending.behind:
            return True
        with self._differentiable() as leaves:
            returned = tensors_in(self.returned(inputs, None, gradients=True))
            sum((t.sum() for t in returned), torch.zeros(())).backward()
        gradient = leaves[name].grad
        return gradient is not None and bool(gradient.any())

    def gradients(
        self, inputs: tuple[Tensor, ...], keep: Tensor | None, cotangent: Tensor, each: Callable[[str, Tensor], None]
    ) -> Tensor | None:
        """See ``Subject``."""
        given = tuple(x.detach().clone().requires_grad_(x.is_floating_point()) for x in inputs)
        with self._differentiable() as leaves:
            (self.encode(given, keep) * cotangent).sum().backward()
        for name, w in leaves.items():
            if w.grad is not None:
                each(name, w.grad)
        return given[0].grad

    @contextmanager
    def _differentiable(self) -> Iterator[dict[str, Tensor]]:
        """Provide the weights as leaves of torch's graph."""
        kept = self.at_hand
        self.at_hand = {name: w.detach().clone().requires_grad_() for name, w in kept.items()}
        try:
            yield self.at_hand
        finally:
            self.at_hand = kept


class BridgedSubject(WithWeights):
    """An encoder of another framework."""

    @abstractmethod
    def value(self, weights: Mapping[str, Tensor], positional: Sequence[Tensor], named: Mapping[str, Any]) -> Any:
        """Return what the encoder returns, with tensors for its arrays."""

    @abstractmethod
    def value_and_pullback(
        self, weights: Mapping[str, Tensor], positional: Sequence[Tensor], named: Mapping[str, Any]
    ) -> tuple[list[Tensor], Callable[[Sequence[Tensor]], Any], Pullback]:
        """Return the arrays that the encoder returns, a function that puts others in their place, and the pullback."""

    def call(self, positional: Sequence[Tensor], named: Mapping[str, Tensor | None], gradients: bool) -> Any:
        """See ``CalledSubject``."""
        if not (gradients and any(a.requires_grad for a in (*self.at_hand.values(), *positional))):
            return self.value(self.at_hand, positional, named)
        inside: list[Callable[[Sequence[Tensor]], Any]] = []

        def forward(*arrays: Tensor) -> tuple[list[Tensor], Pullback]:
            weights = dict(zip(self.at_hand, arrays, strict=False))
            returned, whole, pullback = self.value_and_pullback(weights, arrays[len(weights) :], named)
            inside.append(whole)
            return returned, pullback

        arrays = Bridge.apply(forward, *self.at_hand.values(), *positional)  # type: ignore[no-untyped-call]
        return inside[0](arrays)


class Bridge(torch.autograd.Function):
    """One operation of torch's graph: a call of another framework, and its pullback."""

    @staticmethod
    def forward(ctx: Any, call: Callable[..., tuple[list[Tensor], Pullback]], *arrays: Tensor) -> tuple[Tensor, ...]:
        """Call the function, and keep the pullback."""
        returned, ctx.pullback = call(*arrays)
        ctx.mark_non_differentiable(*(t for t in returned if not t.is_floating_point()))
        ctx.floating = [a.is_floating_point() for a in arrays]
        return tuple(returned)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> Any:
        """Pull the cotangents back; token ids have none."""
        found = iter(ctx.pullback(cotangents))
        return (None, *(next(found) if floating else None for floating in ctx.floating))

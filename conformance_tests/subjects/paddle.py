"""Paddle layers as subjects: a copy of them runs, in float64 and in evaluation mode."""

import copy
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import paddle
import torch
from torch import Tensor

from conformance_tests.subjects.bridged import BridgedSubject, Pullback
from conformance_tests.subjects.calling import Arguments, arguments_of
from conformance_tests.subjects.stated import stated_by

OPERATORS = ("add", "radd", "sub", "rsub", "mul", "rmul", "matmul", "truediv", "rtruediv", "pow", "neg")
"""The operators of tensors, which call no function of Paddle's modules."""


class PaddleSubject(BridgedSubject):
    """A layer of Paddle. The suite judges a copy, so that the layer does not change.

    Paddle hands ε to its kernels in float32, whatever they compute in.
    """

    def __init__(self, layer: paddle.nn.Layer) -> None:
        with quiet(), kept_random_state():
            self.layer = copy.deepcopy(layer)
            self.layer.to(dtype="float64")
        self.layer.eval()
        names = names_of(self.layer)
        self._frozen = {names[path] for path, p in layer.named_parameters() if p.stop_gradient}
        self._parameters = {names[path]: p for path, p in self.layer.named_parameters()}
        for p in self._parameters.values():
            p.stop_gradient = False
        weights = {name: as_tensor(p) for name, p in self._parameters.items()}
        parts = dict(self.layer.named_sublayers(include_self=True))
        super().__init__(weights, stated_by(parts, stored=self.as_kept))
        self._in_use: dict[str, Tensor] = {}

    @contextmanager
    def borrowed(self) -> Iterator[None]:
        """See ``Subject``: whatever Paddle makes in a call is in float64 too."""
        default = paddle.get_default_dtype()
        paddle.set_default_dtype("float64")
        try:
            with quiet(), kept_random_state():
                yield
        finally:
            paddle.set_default_dtype(default)

    def as_kept(self, constant: float) -> float:
        """See ``Subject``: ε reaches the kernels in float32."""
        return float(np.float32(constant))

    def fixed(self) -> set[str]:
        """See ``Subject``: what is not trainable."""
        return self._frozen

    def tables(self) -> dict[str, Tensor]:
        """See ``Subject``: its buffers."""
        return {name: as_tensor(b) for name, b in self.layer.named_buffers() if b.is_floating_point()}

    def arguments(self) -> Arguments:
        """See ``CalledSubject``: those of the forward method."""
        return arguments_of(self.layer.forward)

    def value(self, weights: Mapping[str, Tensor], positional: Sequence[Tensor], named: Mapping[str, Any]) -> Any:
        """See ``BridgedSubject``."""
        self._use(weights)
        with paddle.no_grad():
            return mapped(as_tensor, self.layer(*map(as_paddle, positional), **mapped(as_paddle, named)))

    def value_and_pullback(
        self, weights: Mapping[str, Tensor], positional: Sequence[Tensor], named: Mapping[str, Any]
    ) -> tuple[list[Tensor], Callable[[Sequence[Tensor]], Any], Pullback]:
        """See ``BridgedSubject``."""
        self._use(weights)
        given = [as_paddle(x) for x in positional]
        floating = [x for x in given if x.is_floating_point()]
        for x in floating:
            x.stop_gradient = False
        result = self.layer(*given, **mapped(as_paddle, named))
        returned = leaves_of(result)

        def whole(tensors: Sequence[Tensor]) -> Any:
            left = iter(tensors)
            return mapped(lambda _: next(left), result)

        def pullback(cotangents: Sequence[Tensor]) -> list[Tensor]:
            pairs = [(r, as_paddle(c)) for r, c in zip(returned, cotangents, strict=True) if not r.stop_gradient]
            by = [*(self._parameters[name] for name in weights), *floating]
            outputs, given_cotangents = ([pair[side] for pair in pairs] for side in (0, 1))
            found = paddle.grad(outputs, by, given_cotangents, retain_graph=True, allow_unused=True)
            return [as_tensor(paddle.zeros_like(v) if g is None else g) for v, g in zip(by, found, strict=True)]

        return [as_tensor(r) for r in returned], whole, pullback

    def record_call(self, inputs: tuple[Tensor, ...], keep: Tensor | None) -> list[Tensor]:
        """See ``CalledSubject``: its floating inputs, and the result of every operation."""
        with recorded() as found:
            self.encode(inputs, keep, gradients=False)
        return [x for x in inputs if x.is_floating_point()] + found

    def _use(self, weights: Mapping[str, Tensor]) -> None:
        """Give the copy these weights, those that it does not have yet."""
        for name, w in weights.items():
            if self._in_use.get(name) is not w:
                self._parameters[name].set_value(w.detach().numpy())
                self._in_use[name] = w


def names_of(layer: paddle.nn.Layer) -> dict[str, str]:
    """Return a telling name for each parameter: the weight of a linear layer is a kernel, stored input × output."""
    linear = {path for path, part in layer.named_sublayers() if isinstance(part, paddle.nn.Linear)}

    def telling(path: str) -> str:
        owner, _, kind = path.rpartition(".")
        return f"{owner}.kernel" if owner in linear and kind == "weight" else path

    return {path: telling(path) for path, _ in layer.named_parameters()}


@contextmanager
def quiet() -> Iterator[None]:
    """Let nothing warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def kept_random_state() -> Iterator[None]:
    """Put Paddle's random numbers back."""
    state = paddle.get_rng_state()
    try:
        yield
    finally:
        paddle.set_rng_state(state)


@contextmanager
def recorded() -> Iterator[list[Tensor]]:
    """Keep a copy of every floating tensor that one of Paddle's operations returns."""
    found: list[Tensor] = []

    def keeping(operation: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            result = operation(*args, **kwargs)
            arrays = [t for t in leaves_of(result) if t.is_floating_point() and t.size > 1]
            found.extend(map(as_tensor, arrays))
            return result

        return called

    operations = paddle._C_ops
    places = [(operations, name) for name, f in vars(operations).items() if isinstance(f, types.BuiltinFunctionType)]
    places += [(paddle.Tensor, f"__{name}__") for name in OPERATORS if hasattr(paddle.Tensor, f"__{name}__")]
    originals = [(owner, name, getattr(owner, name)) for owner, name in places]
    try:
        for owner, name, operation in originals:
            setattr(owner, name, keeping(operation))
        yield found
    finally:
        for owner, name, operation in originals:
            setattr(owner, name, operation)


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """Apply a function to the tensors of a structure."""
    if isinstance(tree, paddle.Tensor | Tensor):
        return function(tree)
    if isinstance(tree, Mapping):
        return {key: mapped(function, value) for key, value in tree.items()}
    if isinstance(tree, tuple | list):
        values = [mapped(function, value) for value in tree]
        return values if isinstance(tree, list) else tuple(values)
    return tree


def leaves_of(tree: Any) -> list[Any]:
    """Return the tensors of a structure, in order."""
    found: list[Any] = []
    mapped(found.append, tree)
    return found


def as_paddle(x: Tensor) -> Any:
    """Copy numbers to a tensor of Paddle."""
    return paddle.to_tensor(x.detach().numpy())


def as_tensor(x: Any) -> Tensor:
    """Copy a tensor of Paddle; the shorter floating types become float32."""
    short = x.is_floating_point() and x.dtype not in (paddle.float32, paddle.float64)
    return torch.from_numpy((x.astype("float32") if short else x).numpy().copy())

"""Encoders without a name that means anything: of their parameters, modules and arguments."""

from collections.abc import Callable, Iterator
from inspect import Parameter, Signature, signature
from random import Random
from typing import Any

from torch import nn
from torch.func import functional_call


class Nameless(nn.Module):
    """A module whose parameters and buffers lie in one heap, in their order, with the module itself out of sight.

    All names in the heap, and those of the arguments, are drawn at random.
    """

    def __init__(self, module: nn.Module, seed: int = 0) -> None:
        super().__init__()
        names = invented(Random(seed))
        self.held: dict[str, str] = {}
        for kind, register in (
            (dict(module.named_parameters()), self.register_parameter),
            (dict(module.named_buffers()), self.register_buffer),
        ):
            for name in kind:
                self.held[name] = next(names)
                register(self.held[name], kind[name])
        self.hidden = [module.eval()]
        stated = signature(module.forward).parameters
        self.called = {next(names): name for name in stated}
        self.forward = with_arguments(self.handed_on, dict(zip(self.called, stated.values(), strict=True)))

    def handed_on(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module with its own names."""
        tensors = dict(self.named_parameters()) | dict(self.named_buffers())
        state = {name: tensors[own] for name, own in self.held.items()}
        named = {self.called[name]: value for name, value in kwargs.items()}
        return functional_call(self.hidden[0], state, args, named)


def invented(draw: Random) -> Iterator[str]:
    """Yield names that mean nothing, each once."""
    used: set[str] = set()
    while True:
        name = "".join(draw.choices("bcdfgjkvwxyz", k=6))
        if name not in used:
            used.add(name)
            yield name


def with_arguments(function: Callable[..., Any], arguments: dict[str, Parameter]) -> Callable[..., Any]:
    """Return a function with the arguments of another one, by other names."""

    def called(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    called.__signature__ = Signature([p.replace(name=name) for name, p in arguments.items()])  # type: ignore[attr-defined]
    return called

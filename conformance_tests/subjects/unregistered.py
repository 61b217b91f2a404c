"""Parts that a torch module holds where torch does not look for them: modules in a plain list, tensors as attributes.

They compute all the same, but are neither moved nor cast with the module, and modules are neither trained nor saved.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

from torch import Tensor, nn

TORCHS_OWN = frozenset(vars(nn.Module()))
"""What every module has, where torch keeps the parts that it knows."""

Parts = nn.ModuleList | nn.ModuleDict | nn.ParameterList


@contextmanager
def registered(module: nn.Module) -> Iterator[dict[str, str]]:
    """Let torch know of every plain list of modules in a module; afterwards it does not, as before.

    Yields:
        What each should have been, ``nn.ModuleList`` or its like, by the list's name.
    """
    added: list[tuple[nn.Module, str]] = []
    found: dict[str, str] = {}
    try:
        while hidden := list(unregistered(module)):
            for path, owner, name, parts in hidden:
                # The attribute stays what it is: an instance's own come before the modules.
                owner._modules[name] = parts
                added.append((owner, name))
                found[path] = f"nn.{type(parts).__name__}"
        yield found
    finally:
        for owner, name in reversed(added):
            del owner._modules[name]


def unregistered(module: nn.Module) -> Iterator[tuple[str, nn.Module, str, Parts]]:
    """Every plain list with parameters of which torch knows nothing: path, owner, attribute, what it should be."""
    known = {id(thing) for thing in chain(module.modules(), module.parameters())}
    for path, owner in module.named_modules():
        for name, held in vars(owner).items():
            parts = as_parts(held) if name not in TORCHS_OWN else None
            # A list that hides what torch is not to see, such as the model around it, holds what it knows already.
            inside = [] if parts is None else [*list(parts.modules())[1:], *parts.parameters()]
            if parts is not None and [*parts.parameters()] and not known & {id(thing) for thing in inside}:
                yield f"{path}.{name}" if path else name, owner, name, parts


def as_parts(held: Any) -> Parts | None:
    """What a plain list, tuple or dictionary of modules or parameters should have been; None if it is no such thing."""
    if isinstance(held, dict):
        named = all(isinstance(key, str) and key and "." not in key and not hasattr(nn.ModuleDict, key) for key in held)
        return nn.ModuleDict(held) if held and named and all(isinstance(p, nn.Module) for p in held.values()) else None
    if not isinstance(held, list | tuple) or not held:
        return None
    if all(isinstance(part, nn.Module) for part in held):
        return nn.ModuleList(held)
    return nn.ParameterList(held) if all(isinstance(part, nn.Parameter) for part in held) else None


def plain_tensors(module: nn.Module) -> dict[str, Tensor]:
    """The floating tensors with more than one entry that are plain attributes, by name."""
    return {
        f"{path}.{name}" if path else name: held
        for path, owner in module.named_modules()
        for name, held in vars(owner).items()
        if isinstance(held, Tensor) and held.is_floating_point() and held.numel() > 1 and held.is_leaf
    }

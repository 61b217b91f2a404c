"""Parts of a torch module that torch does not know: modules in a plain list, tensors as attributes.

They compute, but are neither moved nor cast with the module, and the modules are neither trained nor saved.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

from torch import Tensor, nn

TORCHS_OWN = frozenset(vars(nn.Module()))
"""Attributes of all modules, in which torch keeps the parts that it knows."""

Parts = nn.ModuleList | nn.ModuleDict | nn.ParameterList


@contextmanager
def registered(module: nn.Module) -> Iterator[dict[str, str]]:
    """Let torch know of plain lists of modules in a module; afterwards it no longer does.

    Yields:
        The class that each should have had, such as ``nn.ModuleList``, by the list's name.
    """
    added: list[tuple[nn.Module, str]] = []
    found: dict[str, str] = {}
    try:
        while hidden := list(unregistered(module)):
            for path, owner, name, parts in hidden:
                # The attribute stays as it is: those of an instance come before its modules.
                owner._modules[name] = parts
                added.append((owner, name))
                found[path] = f"nn.{type(parts).__name__}"
        yield found
    finally:
        for owner, name in reversed(added):
            del owner._modules[name]


def unregistered(module: nn.Module) -> Iterator[tuple[str, nn.Module, str, Parts]]:
    """Yield each plain list with parameters that torch does not know: path, owner, attribute, what it should be."""
    known = {id(thing) for thing in chain(module.modules(), module.parameters())}
    for path, owner in module.named_modules():
        for name, held in vars(owner).items():
            parts = as_parts(held) if name not in TORCHS_OWN else None
            # A module without numbers (on the device meta) is a template, which is called with those of others.
            if parts is None or all(p.is_meta for p in parts.parameters()):
                continue
            # A list that hides something from torch, such as the model around it, holds parts that torch knows already.
            inside = [*list(parts.modules())[1:], *parts.parameters()]
            if not known & {id(thing) for thing in inside}:
                yield f"{path}.{name}" if path else name, owner, name, parts


def as_parts(held: Any) -> Parts | None:
    """Return what a plain collection of modules or parameters should have been; None if it is not one."""
    if isinstance(held, dict):
        named = all(isinstance(key, str) and key and "." not in key and not hasattr(nn.ModuleDict, key) for key in held)
        return nn.ModuleDict(held) if held and named and all(isinstance(p, nn.Module) for p in held.values()) else None
    if not isinstance(held, list | tuple) or not held:
        return None
    if all(isinstance(part, nn.Module) for part in held):
        return nn.ModuleList(held)
    return nn.ParameterList(held) if all(isinstance(part, nn.Parameter) for part in held) else None


def plain_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Return the floating tensors with more than one entry that are plain attributes, by name."""
    return {
        f"{path}.{name}" if path else name: held
        for path, owner in module.named_modules()
        for name, held in vars(owner).items()
        if isinstance(held, Tensor) and held.is_floating_point() and held.numel() > 1 and held.is_leaf
    }


@contextmanager
def tensors_kept(module: nn.Module) -> Iterator[None]:
    """Let each attribute that is a tensor be afterwards the one that it was: a call may put another in its place.

    Positions that are cast to the type of the input are lost for good where that is one of ids.
    """
    held = [vars(owner) for owner in module.modules()]
    before = [{name: value for name, value in each.items() if isinstance(value, Tensor)} for each in held]
    try:
        yield
    finally:
        for each, tensors in zip(held, before, strict=True):
            each.update(tensors)

"""Parts of a torch module: those that torch knows, and those that it does not.

The latter are modules and parameters in plain collections, and tensors as attributes. They compute, but are neither
moved nor cast with the module, and the modules are neither trained nor saved.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Any

from torch import Tensor, nn

TORCHS_OWN = frozenset(vars(nn.Module()))
"""Attributes of all modules, in which torch keeps the parts that it knows."""


def named_parameters(module: nn.Module, *, by_every_name: bool = False) -> list[tuple[str, nn.Parameter]]:
    """Return the parameters that torch knows of, whatever the module answers when it is asked for them."""
    return list(nn.Module.named_parameters(module, remove_duplicate=not by_every_name))


def parameters_in(module: nn.Module) -> list[nn.Parameter]:
    """Return these parameters without their names."""
    return [p for _, p in named_parameters(module)]


@contextmanager
def registered(module: nn.Module) -> Iterator[dict[str, str]]:
    """Let torch know of the parts of a module in plain collections; afterwards it no longer does.

    Yields:
        What each should have been, such as an ``nn.ModuleList``, by the attribute's name.
    """
    added: list[tuple[nn.Module, str]] = []
    found: dict[str, str] = {}
    try:
        while hidden := list(unregistered(module)):
            for path, owner, name, parts in hidden:
                found[path] = as_it_should_be(vars(owner)[name], parts)
                # The attribute stays as it is: those of an instance come before its modules.
                owner._modules[name] = parts
                added.append((owner, name))
        yield found
    finally:
        for owner, name in reversed(added):
            del owner._modules[name]


def unregistered(module: nn.Module) -> Iterator[tuple[str, nn.Module, str, nn.Module]]:
    """Yield each plain attribute with parameters that torch does not know: path, owner, name, its parts as a module."""
    parameters = parameters_in(module)
    known = {id(thing) for thing in chain(module.modules(), parameters)}
    is_meta = bool(parameters) and all(p.is_meta for p in parameters)
    for path, owner in module.named_modules():
        for name, held in vars(owner).items():
            parts = parts_in(held) if name not in TORCHS_OWN else None
            # A module without numbers (on the device meta) is a template, which is called with those of others, but not
            # in an encoder without any.
            if parts is None or (not is_meta and all(p.is_meta for p in parameters_in(parts))):
                continue
            # What hides something from torch, such as the model around it, holds parts that torch knows already.
            if not known & {id(thing) for thing in chain(parts.modules(), parameters_in(parts))}:
                yield f"{path}.{name}" if path else name, owner, name, parts


def parts_in(held: Any, around: frozenset[int] = frozenset()) -> nn.Module | None:
    """Return a module of the modules and parameters in a collection, however nested; None if there are none.

    Args:
        held: the collection; or a module, which was set in a way that torch does not notice.
        around: the ids of the collections that it lies in, of which it may hold one.
    """
    if isinstance(held, nn.Module):
        return held
    whole = nn.Module()
    for name, part in entries(held) if id(held) not in around else ():
        if isinstance(part, nn.Parameter):
            whole._parameters[name] = part
        elif (inner := parts_in(part, around | {id(held)})) is not None:
            whole._modules[name] = inner
    return whole if whole._modules or whole._parameters else None


def entries(held: Any) -> Iterable[tuple[str, Any]]:
    """Return the entries of a plain collection, with names as torch has them."""
    if isinstance(held, Mapping):
        return [(str(key).replace(".", "_"), value) for key, value in held.items()]
    return [(str(place), value) for place, value in enumerate(held)] if isinstance(held, list | tuple) else ()


def as_it_should_be(held: Any, parts: nn.Module) -> str:
    """Return in words how an attribute should have been set, for torch to know of its parts."""
    if isinstance(held, nn.Module):
        return "an attribute set in the usual way"
    kind = "Module" if any(parts.children()) else "Parameter"
    return f"an nn.{kind}{'Dict' if isinstance(held, Mapping) else 'List'}"


def plain_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Return the floating tensors with more than one entry that are plain attributes, by name."""
    return {
        f"{path}.{name}" if path else name: held
        for path, owner in module.named_modules()
        for name, held in vars(owner).items()
        if isinstance(held, Tensor) and held.is_floating_point() and held.numel() > 1 and held.is_leaf
    }


@contextmanager
def attributes_kept(module: nn.Module) -> Iterator[None]:
    """Let each plain attribute be afterwards what it was: a call may put something else in its place.

    Positions that are cast to the type of the input are lost for good where that is one of ids; and a table that an
    encoder makes as long as its input fits the length that it notes beside it.
    """
    held = [vars(owner) for owner in module.modules()]
    before = [{name: value for name, value in each.items() if name not in TORCHS_OWN} for each in held]
    try:
        yield
    finally:
        for each, attributes in zip(held, before, strict=True):
            each.update(attributes)

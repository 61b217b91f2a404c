"""Parts of objects, however deep: attributes, entries, what a function is given and what it was defined beside."""

from collections.abc import Mapping
from dis import get_instructions
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any


def held(thing: Any, kind: Any) -> dict[str, Any]:
    """Return what of a kind an object holds, however deep, by dotted names."""
    found: dict[str, Any] = {}
    seen: set[int] = set()
    waiting = [("", thing)]
    while waiting:
        path, here = waiting.pop()
        if isinstance(here, kind):
            found[path.removeprefix(".")] = here
            continue
        if id(here) in seen or isinstance(here, type | ModuleType | str | bytes):
            continue
        seen.add(id(here))
        waiting += [(f"{path}.{name}" if name != "" else path, value) for name, value in reversed(parts_of(here))]
    return found


def parts_of(thing: Any) -> list[tuple[Any, Any]]:
    """Return what an object holds, by name or place; what it stands for has its name."""
    if isinstance(thing, Mapping):
        return list(thing.items())
    if isinstance(thing, list | tuple):
        return list(enumerate(thing))
    if isinstance(thing, partial):
        return [("", thing.func), *enumerate(thing.args), *thing.keywords.items()]
    if isinstance(thing, MethodType):
        return [("", thing.__self__)]
    if isinstance(thing, FunctionType):
        return beside(thing)
    return list(getattr(thing, "__dict__", {}).items())


def beside(function: FunctionType) -> list[tuple[str, Any]]:
    """Return what a function has, and what it reads beside its arguments: variables around it, and global objects."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    around = [(name, cell.cell_contents) for name, cell in cells if is_filled(cell)]
    return [*vars(function).items(), *around, *objects_read(function).items()]


def objects_read(function: FunctionType) -> dict[str, Any]:
    """Return the global objects that a function reads, other than functions, by name."""
    # An attribute may have the name of a global variable, so that ``co_names`` would not tell the two apart.
    names = dict.fromkeys(i.argval for i in get_instructions(function) if i.opname == "LOAD_GLOBAL")
    named = {name: function.__globals__.get(name) for name in names}
    return {name: v for name, v in named.items() if not isinstance(v, FunctionType | BuiltinFunctionType | None)}


def is_filled(cell: Any) -> bool:
    """Return whether a variable around a function has a value yet."""
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True

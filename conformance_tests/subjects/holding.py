"""Parts of objects, however deep: attributes, entries, what a function is given and what it was defined beside."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dis import get_instructions
from functools import partial
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType
from typing import Any

from conformance_tests.subjects.attributes import attribute


def held(thing: Any, kind: Any) -> dict[str, Any]:
    """Return what of a kind an object holds, however deep, by dotted names."""
    found: dict[str, Any] = {}
    for path, here in walked(thing, kind):
        if isinstance(here, kind):
            found[path.removeprefix(".")] = here
    return found


def whole_numbers(parts: Iterable[Any]) -> list[int]:
    """Return the whole numbers among the attributes of some parts, and in tuples there."""
    held_by_parts = (value for part in parts for value in vars(part).values())
    numbers = (n for value in held_by_parts for n in (value if isinstance(value, tuple) else (value,)))
    return list(dict.fromkeys(n for n in numbers if type(n) is int))


def how_often_stated(thing: Any) -> Counter[int]:
    """Return how often an object states each whole number, however deep, but for what its authors call private."""
    parts = (part for _, here in walked(thing) for part in parts_of(here))
    return Counter(value for name, value in parts if type(value) is int and not str(name).startswith("_"))


def whole_numbers_in(thing: Any, end: Any = ()) -> list[int]:
    """Return the whole numbers that an object holds, however deep, but for what is of the kind ``end``."""
    return list(dict.fromkeys(here for _, here in walked(thing, end) if type(here) is int))


def functions_in(thing: Any) -> list[FunctionType]:
    """Return the functions that an object holds, and those that such functions read, each once."""
    return [here for _, here in walked(thing) if isinstance(here, FunctionType)]


def walked(thing: Any, end: Any = ()) -> Iterator[tuple[str, Any]]:
    """Yield an object and what it holds, however deep, with dotted names; nothing of what is of the kind ``end``.

    What is of that kind comes as often as it is held, anything else once.
    """
    seen: set[int] = set()
    waiting = [("", thing)]
    while waiting:
        path, here = waiting.pop()
        if isinstance(here, end):
            yield path, here
            continue
        if id(here) in seen or isinstance(here, type | ModuleType | str | bytes):
            continue
        seen.add(id(here))
        yield path, here
        waiting += [(f"{path}.{name}" if name != "" else path, value) for name, value in reversed(parts_of(here))]


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
    return [*in_slots(thing), *getattr(thing, "__dict__", {}).items()]


def in_slots(thing: Any) -> list[tuple[str, Any]]:
    """Return the attributes that a class reserves places for, by the order of its bases; None for an empty one."""
    declared = (vars(kind).get("__slots__", ()) for kind in reversed(type(thing).__mro__))
    names = (name for each in declared for name in ((each,) if isinstance(each, str) else each))
    return [(name, attribute(thing, name)) for name in names if not name.startswith("__")]


def beside(function: FunctionType) -> list[tuple[str, Any]]:
    """Return what a function has, and what it reads beside its arguments: variables around it, and global objects."""
    return [*vars(function).items(), *around(function).items(), *objects_read(function).items()]


def around(function: FunctionType) -> dict[str, Any]:
    """Return the variables around a function that it reads, by name."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {name: cell.cell_contents for name, cell in cells if is_filled(cell)}


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


DEFAULTS, KEYWORDS = "__defaults__", "__kwdefaults__"


class Apart:
    """A copy of a function, in whose surroundings other objects can be put.

    Attributes:
        function: the copy.
        reads: what the function reads: variables around it, global objects, and defaults, by name.
    """

    def __init__(self, function: FunctionType) -> None:
        cells = [CellType(cell.cell_contents) if is_filled(cell) else cell for cell in function.__closure__ or ()]
        names = dict(function.__globals__)
        self.function = FunctionType(
            function.__code__, names, function.__name__, function.__defaults__, tuple(cells) or None
        )
        self.function.__kwdefaults__ = function.__kwdefaults__
        defaults = {DEFAULTS: function.__defaults__, KEYWORDS: function.__kwdefaults__}
        self.reads = around(function) | objects_read(function) | {k: v for k, v in defaults.items() if v is not None}

    def put(self, name: str, value: Any) -> None:
        """Let the copy read another object under a name."""
        if name in (DEFAULTS, KEYWORDS):
            setattr(self.function, name, value)
        elif name in self.function.__code__.co_freevars:
            assert self.function.__closure__ is not None
            self.function.__closure__[self.function.__code__.co_freevars.index(name)].cell_contents = value
        else:
            self.function.__globals__[name] = value

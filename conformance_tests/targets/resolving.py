"""Resolving: from a target as a person writes it to the function that loads it."""

import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from conformance_tests.errors import SubjectError, TargetError, one_line
from conformance_tests.subjects.attributes import attribute, parameters_of
from conformance_tests.subjects.source_lines import with_line
from conformance_tests.targets.builtin import BUILTIN


def resolve(target: str, *, by_shapes: bool = False) -> Callable[[], Any]:
    """Find what a target names, without making anything yet.

    Args:
        target: a built-in name, ``package.module:attribute``, ``path/to/file.py:attribute``, a file alone with one
            encoder in it, an ONNX file, or a folder with ``config.json`` and ``safetensors``; by shapes also one of
            these alone.
        by_shapes: whether names and shapes of a stored encoder are enough, and its numbers are not to be loaded.

    Returns:
        A function that gives the object named.

    Raises:
        TargetError: if there is no such built-in, module, file or attribute.
    """
    target = str(Path(target).expanduser()) if target.startswith("~") else target
    if "://" in target:
        raise TargetError(f"{target!r} is an address, and nothing is fetched: name a file or a module that is here")
    if ":" not in target:
        if target in BUILTIN:
            return BUILTIN[target].make
        if (stored := Path(target)).suffix in STORED or (target and stored.is_dir()):
            return in_files(stored, by_shapes=by_shapes)
        if stored.suffix == ".py":
            demand_file(stored)
            return lambda: the_only_one(load_file(stored), target)
        raise TargetError(unknown(target))
    place, _, attribute = target.rpartition(":")
    if not place or not attribute:
        raise TargetError(f"{target!r} must have the form package.module:attribute or path/to/file.py:attribute")
    if place.endswith(".py"):
        demand_file(Path(place))
    elif meant := in_a_file(target):
        raise TargetError(f"{target!r} must have the form path/to/file.py:attribute: write {meant}")
    elif not module_exists(place):
        raise TargetError(f"there is no module {place!r}; a file is written with its .py: path/to/file.py:{attribute}")

    def load() -> Any:
        found: Any = load_file(Path(place)) if place.endswith(".py") else load_module(place)
        for part in attribute.split("."):
            if not hasattr(found, part):
                raise TargetError(f"{place} has no attribute {attribute!r}{instead(found, part)}")
            found = getattr(found, part)
        return found

    return load


def demand_file(path: Path) -> None:
    """Go on only with a file that is there.

    Raises:
        TargetError: if it is not.
    """
    if not path.is_file():
        raise TargetError(f"there is no file {path}")


def instead(holder: Any, missing: str) -> str:
    """Return what a module, a class or an object has in the place of a missing attribute, for a message."""
    own = public(holder) if isinstance(holder, ModuleType) else [n for n in dir(holder) if not n.startswith("_")]
    near = get_close_matches(missing, own, n=1) or get_close_matches(missing, dir(holder), n=1)
    if near:
        return f". Did you mean {near[0]}?"
    return f"; it has {', '.join(own[:MOST_NAMES])}" if own else ""


def public(module: ModuleType) -> list[str]:
    """Return the names of what a module itself defines, but for private ones."""
    own = module.__name__
    return [n for n, v in vars(module).items() if getattr(v, "__module__", "") == own and not n.startswith("_")]


def the_only_one(module: ModuleType, place: str) -> Any:
    """Return the only encoder in a file, or the only thing that makes one without arguments.

    Raises:
        TargetError: if there are several, or none.
    """
    held = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    ready = [name for name, value in held.items() if is_encoder(value)]
    making = [name for name in public(module) if name not in ready and makes_encoders(held[name])]
    found = ready if len(ready) == 1 else [*ready, *making]
    if len(found) == 1:
        return held[found[0]]
    if not found:
        raise TargetError(
            f"{place} has neither an encoder nor a function or class without required arguments that may make one"
        )
    raise TargetError(f"{place} has {len(found)} things that may be meant: name one of {place}:{{{','.join(found)}}}")


def is_encoder(value: Any) -> bool:
    """Return whether a value is an encoder, and not a class of encoders: a module of torch, or what can encode."""
    if inspect.isclass(value) or isinstance(value, str):  # a text can be encoded, too
        return False
    torch = sys.modules.get("torch")
    return (torch is not None and isinstance(value, torch.nn.Module)) or callable(attribute(value, "encode"))


def makes_encoders(value: Any) -> bool:
    """Return whether a function or class may make an encoder: it needs no arguments; of classes, those of modules."""
    if not inspect.isclass(value):
        return inspect.isfunction(value) and not required_by(value)
    torch = sys.modules.get("torch")
    is_module = torch is not None and issubclass(value, torch.nn.Module)
    return (is_module or callable(attribute(value, "encode"))) and not required_by(value)


def required_by(function: Callable[..., Any]) -> list[str]:
    """Return the names of the arguments without which a function or class cannot be called."""
    by_name_or_place = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    with suppress(TypeError, ValueError):
        parameters = parameters_of(function).values()
        return [p.name for p in parameters if p.default is p.empty and p.kind not in by_name_or_place]
    return []


MOST_NAMES = 8
"""So many names of a module are listed."""

STORED = (".onnx", ".safetensors", ".json")
"""Endings of files with a stored encoder, or a part of one."""

ALONE = {
    ".safetensors": "holds only weights: name its folder, with a config.json that describes the encoder",
    ".json": "only describes an encoder: name its folder, with *.safetensors that hold its weights",
}
"""Why a part of a stored encoder is not enough to call it, by the ending of its file."""


def unknown(target: str) -> str:
    """Return a message on a name that is not a target, with the nearest built-in name if one is near."""
    if meant := in_a_file(target):
        return f"Unknown target {target!r}. Did you mean {meant}?"
    if Path(target).is_file():
        return f"{target} is neither a file of Python (.py) nor an ONNX file; a stored model is named by its folder"
    # Only the package: to look for a module in it would import it, before a target has its own process.
    first, _, rest = target.partition(".")
    if rest and module_exists(first):
        spec = importlib.util.find_spec(first)
        is_package = spec is not None and spec.submodule_search_locations is not None
        if not is_package:
            return f"{target!r} must have the form module:attribute: write {first}:{rest}"
        place, _, last = target.rpartition(".")
        return f"{target!r} lacks the name of what is in the module: write {target}:attribute, or {place}:{last}"
    near = get_close_matches(target, BUILTIN, n=1)
    if near:
        return f"Unknown target {target!r}. Did you mean {near[0]}? Run `encoder-spec encoders` for the list"
    return (
        f"Unknown target {target!r}. Write package.module:attribute, path/to/file.py:attribute, the path of an ONNX "
        "file or of a model's folder, or a built-in name: run `encoder-spec encoders` for the list"
    )


def in_a_file(target: str) -> str:
    """Return a target in the form that is meant, if a name begins with a file of Python that is there; else no text."""
    file, ending, attribute = target.partition(".py")
    words = re.findall(r"\w+", attribute)
    return f"{file}{ending}:{words[0]}" if words and Path(f"{file}{ending}").is_file() else ""


def in_files(path: Path, *, by_shapes: bool = False) -> Callable[[], Any]:
    """Find an encoder that is stored as a file or a folder.

    Raises:
        TargetError: if there is none, or, when it is loaded, if it is only a part of one.
    """
    if not path.exists():
        raise TargetError(f"there is no file {path}")

    def load() -> Any:
        if not by_shapes and not path.is_dir() and path.suffix in ALONE:
            raise TargetError(f"{path} {ALONE[path.suffix]}; --level static needs no more than this file")
        if path.is_dir() or path.suffix in ALONE:
            from conformance_tests.subjects import checkpoint

            return checkpoint.by_shapes(path) if by_shapes else checkpoint.load(path)
        try:
            from conformance_tests.subjects.onnx import OnnxSubject, shapes_in
        except ImportError as fault:
            raise SubjectError(f"{path} is run by ONNX Runtime: pip install onnx onnxruntime") from fault
        return shapes_in(path) if by_shapes else OnnxSubject(path)

    return load


def module_exists(name: str) -> bool:
    """Return whether a module of this name can be imported from here."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError as fault:
        # A package that lacks another one is there: importing it says what it lacks.
        return fault.name is not None and not f"{name}.".startswith(f"{fault.name}.")
    except (ImportError, ValueError, AttributeError):
        return False


def load_module(name: str) -> ModuleType:
    """Import a module; whatever it raises is the subject's fault."""
    with as_program(name):
        return importlib.import_module(name)


def load_file(path: Path) -> ModuleType:
    """Import a file, as a part of its package if it lies in one, else as a separate module.

    Its folder is searched for what it imports.
    """
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    with as_program(str(path)):
        faults: list[Exception] = []
        try:
            return in_package(path.resolve(), faults) or alone(path)
        except ImportError as fault:
            if "relative import" not in str(fault):
                raise
            if faults:
                raise faults[0] from None
            return in_folders(path.resolve(), fault)


MOST_FOLDERS = 4
"""So many folders above a file may be packages without an ``__init__.py``: each one tried imports the file again."""


def in_folders(path: Path, refusal: ImportError) -> ModuleType:
    """Import a file as a part of the folders that it lies in, as a package without an ``__init__.py``.

    Raises:
        ImportError: as it was refused alone, if no number of folders is the package that it imports from.
    """
    parts, folder = [path.stem], path.parent
    for _ in range(MOST_FOLDERS):
        parts.insert(0, folder.name)
        folder = folder.parent
        if not all(part.isidentifier() for part in parts):
            break
        with suppress(ImportError), searched(folder):
            return importlib.import_module(".".join(parts))
    raise refusal


@contextmanager
def searched(folder: Path) -> Iterator[None]:
    """Search a folder for modules; not any more if that was of no use."""
    sys.path.insert(0, str(folder))
    try:
        yield
    except ImportError:
        sys.path.remove(str(folder))
        raise


def in_package(path: Path, faults: list[Exception]) -> ModuleType | None:
    """Import a file as a part of the package that it lies in; return None if it lies in none that can be imported.

    Args:
        path: the file.
        faults: takes what the package raises.
    """
    parts, folder = [path.stem], path.parent
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    if len(parts) == 1 or not all(part.isidentifier() for part in parts):
        return None
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    package = ".".join(parts[:-1])
    try:
        found = importlib.import_module(package)
    except Exception as fault:
        faults.append(fault)
        return None  # a package whose beginning needs what is not installed may hold files that do not
    if [Path(place).resolve() for place in found.__path__] != [path.parent]:
        return None
    return importlib.import_module(package if path.stem == "__init__" else f"{package}.{path.stem}")


@dataclass(frozen=True)
class Elsewhere:
    """Finds outside of its folder what has a file's name: a file does not hide the package that it is named after."""

    name: str
    folder: Path

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        """Return where a module is; None if it is another one, or nowhere else."""
        if name != self.name or path is not None:
            return None
        return PathFinder.find_spec(name, [place for place in sys.path if Path(place).resolve() != self.folder], target)


def alone(path: Path) -> ModuleType:
    """Import a file as a separate module."""
    elsewhere = Elsewhere(path.stem, path.resolve().parent)
    if elsewhere not in sys.meta_path:
        sys.meta_path.insert(0, elsewhere)
    spec = importlib.util.spec_from_file_location(f"_subject_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Overheard:
    """A stream that is what it was, while what is written to it is remembered."""

    def __init__(self, stream: Any, said: list[str]) -> None:
        self._stream = stream
        self._said = said

    def write(self, text: str) -> int:
        """Write and remember."""
        self._said.append(text)
        return self._stream.write(text)  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def as_program(name: str) -> Iterator[None]:
    """Import as if ``name`` were run without arguments; what it prints before it gives up is part of the message.

    Raises:
        SubjectError: if the import raises.
    """
    arguments, sys.argv = sys.argv, [name]
    printed: list[str] = []
    streams = sys.stdout, sys.stderr
    overheard = tuple(Overheard(stream, printed) for stream in streams)
    sys.stdout, sys.stderr = overheard
    try:
        yield
    except (Exception, SystemExit) as fault:
        said = "".join(printed).strip().splitlines()
        last = f"; the last line that it printed: {said[-1]}" if said and isinstance(fault, SystemExit) else ""
        raise SubjectError(f"importing {name} raised {with_line(fault)}{last}") from fault
    finally:
        sys.argv = arguments
        # A stream that the target has put there stays: the guard remembers it, and puts back ours.
        sys.stdout, sys.stderr = (
            before if now is heard else now
            for before, heard, now in zip(streams, overheard, (sys.stdout, sys.stderr), strict=True)
        )


def make(found: Any) -> Any:
    """Return the encoder that an attribute is or makes.

    Raises:
        SubjectError: if it is a function or class that cannot be called without arguments, or raises.
    """
    import torch

    from conformance_tests.subjects.ready_made import framework_of, module_call_of
    from conformance_tests.targets.adapting import is_encoder_itself, is_program

    made = isinstance(found, torch.nn.Module) or not callable(found) or attribute(found, "encode") is not None
    made = made or is_program(found) or framework_of(module_call_of(found).thing) is not None
    if made and not inspect.isclass(found):
        return found
    name = attribute(found, "__name__", type(found).__name__)
    required = required_by(found)
    if required and is_encoder_itself(found):
        return found  # it is called with its input, and makes nothing
    if required:
        raise SubjectError(
            f"{name} needs the arguments {', '.join(required)}: name a function without required arguments, "
            f"such as `def make(): return {name}(...)`"
        )
    try:
        return found()
    except (Exception, SystemExit) as fault:
        raise SubjectError(f"{name}() raised {one_line(fault)}") from fault

"""Resolving: from a target as a person writes it to the function that loads it."""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from conformance_tests.errors import SubjectError, TargetError, one_line
from conformance_tests.targets.builtin import BUILTIN


def resolve(target: str) -> Callable[[], Any]:
    """Find what a target names, without making anything yet.

    Args:
        target: a built-in name, ``package.module:attribute``, ``path/to/file.py:attribute``, an ONNX file,
            or a folder with ``config.json`` and ``safetensors``.

    Returns:
        A function that gives the object named.

    Raises:
        TargetError: if there is no such built-in, module, file or attribute.
    """
    if ":" not in target:
        if target in BUILTIN:
            return BUILTIN[target].make
        if (stored := Path(target)).suffix in STORED or stored.is_dir():
            return in_files(stored)
        raise TargetError(unknown(target))
    place, _, attribute = target.rpartition(":")
    if not place or not attribute:
        raise TargetError(f"{target!r} must have the form package.module:attribute or path/to/file.py:attribute")
    if place.endswith(".py") and not Path(place).is_file():
        raise TargetError(f"there is no file {place}")
    if not place.endswith(".py") and not module_exists(place):
        raise TargetError(f"there is no module {place!r}; a file is written with its .py: path/to/file.py:{attribute}")

    def load() -> Any:
        module = load_file(Path(place)) if place.endswith(".py") else load_module(place)
        found = module
        for part in attribute.split("."):
            if not hasattr(found, part):
                own = getattr(module, "__name__", "")
                public = [n for n, v in vars(module).items() if getattr(v, "__module__", "") == own and n[0] != "_"]
                has = f"; it has {', '.join(public[:8])}" if public else ""
                raise TargetError(f"{place} has no attribute {attribute!r}{has}")
            found = getattr(found, part)
        return found

    return load


STORED = (".onnx", ".safetensors")
"""Endings of files with a stored encoder."""


def unknown(target: str) -> str:
    """Return a message on a name that is not a target, with the nearest built-in name if one is near."""
    near = get_close_matches(target, BUILTIN, n=1)
    if near:
        return f"Unknown target {target!r}. Did you mean {near[0]}? Run `encoder-spec encoders` for the list"
    return (
        f"Unknown target {target!r}. Write package.module:attribute, path/to/file.py:attribute, the path of an ONNX "
        "file or of a model's folder, or a built-in name: run `encoder-spec encoders` for the list"
    )


def in_files(path: Path) -> Callable[[], Any]:
    """Find an encoder that is stored as a file or a folder.

    Raises:
        TargetError: if there is none.
    """
    if not path.exists():
        raise TargetError(f"there is no file {path}")
    if path.suffix == ".safetensors":
        raise TargetError(f"{path} holds only weights: name its folder, with a config.json that describes the encoder")

    def load() -> Any:
        if path.is_dir():
            from conformance_tests.subjects import checkpoint

            return checkpoint.load(path)
        try:
            from conformance_tests.subjects.onnx import OnnxSubject
        except ImportError as fault:
            raise SubjectError(f"{path} is run by ONNX Runtime: pip install 'encoder-spec[onnx]'") from fault
        return OnnxSubject(path)

    return load


def module_exists(name: str) -> bool:
    """Return whether a module of this name can be imported from here."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError, AttributeError):
        return False


def load_module(name: str) -> Any:
    """Import a module; whatever it raises is the subject's fault."""
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as fault:
        raise SubjectError(f"importing {name} raised {one_line(fault)}") from fault


def load_file(path: Path) -> Any:
    """Import a file as a separate module; its folder is searched for what it imports."""
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(f"_subject_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as fault:
        raise SubjectError(f"importing {path} raised {one_line(fault)}") from fault
    return module


def make(found: Any) -> Any:
    """Return the encoder that an attribute is or makes.

    Raises:
        SubjectError: if it is a function or class that cannot be called without arguments, or raises.
    """
    import torch

    from conformance_tests.subjects.ready_made import framework_of
    from conformance_tests.targets.adapting import holding_arrays

    made = isinstance(found, torch.nn.Module) or not callable(found) or hasattr(found, "encode")
    made = made or framework_of(found) is not None
    if made and not inspect.isclass(found):
        return found
    name = getattr(found, "__name__", type(found).__name__)
    try:
        required = [
            p.name
            for p in inspect.signature(found).parameters.values()
            if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
        ]
    except (TypeError, ValueError):
        required = []
    if required and holding_arrays(found) is not None:
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

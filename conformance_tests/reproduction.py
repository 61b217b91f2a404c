"""How to judge a target once more: lines that run as they are pasted."""

import inspect
import os
import shlex
from pathlib import Path
from typing import Any

from encoder_spec.profiles import Profile


def again(target: Any, profile: str | Profile, seed: int, expected: object = None) -> str:
    """The command that repeats a run, or the call for what no command can name."""
    name = target if isinstance(target, str) else importable(target)
    file = str(expected) if isinstance(expected, str | Path) else ""
    if name and isinstance(profile, str):
        words = ["encoder-spec", "check", name, *(["--profile", profile] if profile != "auto" else [])]
        return shlex.join([*words, *(["--expected", file] if file else []), "--seed", str(seed)])
    named = getattr(target, "__name__", type(target).__name__)
    called = profile if isinstance(profile, str) else profile.name
    more = f", expected={file!r}" if file else ""
    return (
        "from conformance_tests import check\n"
        f"print(check({named}, profile={called!r}, seed={seed}{more}).to_json())  # {named}: the object that was judged"
    )


def importable(target: Any) -> str:
    """``module:attribute`` of a function or class that can be imported; empty for anything else."""
    if not (inspect.isroutine(target) or inspect.isclass(target)):
        return ""
    module, name = inspect.getmodule(target), target.__qualname__
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if module is None or found is not target:
        return ""
    if module.__package__:
        return f"{module.__name__}:{name}"
    # The folder of a lone file is on the path now, but need not be when the line is pasted.
    file = getattr(module, "__file__", None)
    return f"{os.path.relpath(file)}:{name}" if file else ""

"""How to judge a target once more: lines that run as they are pasted."""

import inspect
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from encoder_spec.profiles import Profile


def again(
    target: Any,
    profile: str | Profile,
    seed: int,
    expected: object = None,
    dtype: str | None = None,
    device: str = "cpu",
) -> str:
    """The command that repeats a run, or the call for what no command can say.

    Args:
        target: as ``check`` takes it.
        profile: as ``check`` takes it; one that is no published profile is given by its name only.
        seed: of probes and weights.
        expected: as ``check`` takes it.
        dtype: as ``check`` takes it.
        device: as ``check`` takes it.
    """
    precision = ({"dtype": dtype} if dtype else {}) | ({"device": device} if device != "cpu" else {})
    name = target if isinstance(target, str) else importable(target)
    if name and isinstance(profile, str) and (expected is None or isinstance(expected, str | Path)):
        words = ["encoder-spec", "check", name]
        words += ["--profile", profile] if profile != "auto" else []
        words += ["--expected", str(expected)] if expected is not None else []
        words += [word for option, value in precision.items() for word in (f"--{option}", value)]
        return shlex.join([*words, "--seed", str(seed)])
    options: dict[str, Any] = {
        "profile": profile if isinstance(profile, str) else profile.name,
        "seed": seed,
    } | precision
    if isinstance(expected, Mapping):
        options["expected"] = dict(expected)
    given = repr(name) if name else "encoder"
    called = ", ".join([given, *(f"{option}={value!r}" for option, value in options.items())])
    lines = ["from conformance_tests import check", f"print(check({called}).to_json())"]
    return "\n".join([*lines, *([] if name else [f"# {given} is the object that was judged"])])


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

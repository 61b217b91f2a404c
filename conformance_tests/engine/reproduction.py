"""Lines that judge a target once more, and run as they are pasted."""

import inspect
import os
import shlex
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from conformance_tests.harness.question import Question

IN_COMMANDS = ("profile", "level", "expected", "dtype", "device")
"""The parts of a question that a command repeats where they are not the default, in this order; the seed always."""

IN_CALLS = ("level", "dtype", "device")
"""The parts that a call repeats where they are not the default, beside profile, seed and expected failures."""


def again(target: Any, question: Question) -> str:
    """Return the command that repeats a run, or the call where no command can.

    Args:
        target: as ``check`` takes it.
        question: what was asked.
    """
    asked = {f.name: value for f in fields(question) if (value := getattr(question, f.name)) != f.default}
    name = target if isinstance(target, str) else importable(target)
    fits_a_command = isinstance(question.profile, str) and isinstance(question.expected, str | Path | None)
    if name and fits_a_command:
        options = [word for option in IN_COMMANDS if option in asked for word in (f"--{option}", str(asked[option]))]
        return shlex.join(["encoder-spec", "check", name, *options, "--seed", str(question.seed)])
    profile, is_published = question.profile, True
    if not isinstance(profile, str):
        from encoder_spec.profiles import PROFILES

        is_published, profile = PROFILES.get(profile.name) is profile, profile.name
    arguments = {"profile": profile, "seed": question.seed} | {o: asked[o] for o in IN_CALLS if o in asked}
    if isinstance(question.expected, Mapping):
        arguments["expected"] = dict(question.expected)
    elif isinstance(question.expected, str | Path):
        arguments["expected"] = str(question.expected)
    judged = repr(name) if name else "encoder"
    written = {option: repr(value) for option, value in arguments.items()}
    written |= {} if is_published else {"profile": "profile"}
    called = ", ".join([judged, *(f"{option}={value}" for option, value in written.items())])
    lines = ["from conformance_tests import check", f"print(check({called}).to_json())"]
    lines += [] if name else [f"# {judged} is the object that was judged"]
    return "\n".join([*lines, *([] if is_published else ["# profile is the one that was asked for"])])


def importable(target: Any) -> str:
    """Return ``module:attribute`` of a function or class that can be imported; empty for anything else."""
    if not (inspect.isroutine(target) or inspect.isclass(target)):
        return ""
    module, name = inspect.getmodule(target), target.__qualname__
    attribute: Any = module
    for part in name.split("."):
        attribute = getattr(attribute, part, None)
    if module is None or attribute is not target:
        return ""
    if module.__package__:
        return f"{module.__name__}:{name}"
    # The folder of a lone file is on the path now, but need not be when the line is pasted.
    file = getattr(module, "__file__", None)
    return f"{os.path.relpath(file)}:{name}" if file and Path(file).is_file() else ""

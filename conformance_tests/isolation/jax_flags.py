"""Flags with which JAX compiles quickly: a judgement calls few functions often, and compiling them takes longest.

They are read when JAX compiles for the first time, so they are set before a target is loaded.
"""

import mmap
from collections.abc import MutableMapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

FLAGS = {
    "xla_backend_optimization_level": "0",
    "xla_llvm_disable_expensive_passes": "true",
    "xla_cpu_use_fusion_emitters": "false",
}
"""Flags of XLA with their values: code that is not optimised, and for that not fused."""

VARIABLE = "XLA_FLAGS"


def compile_quickly(environment: MutableMapping[str, str]) -> None:
    """Set the flags in an environment; those that it sets already come later, and win.

    A flag that a release of XLA does not know ends the process, so each is looked for in its library.
    """
    spec = find_spec("jaxlib")
    if spec is None or spec.origin is None:
        return
    known: list[str] = []
    for library in Path(spec.origin).parent.glob("libjax_common.*"):
        with (
            suppress(OSError, ValueError),
            library.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as held,
        ):
            known = [f"--{flag}={value}" for flag, value in FLAGS.items() if held.find(flag.encode()) >= 0]
    if known:
        environment[VARIABLE] = " ".join(filter(None, (*known, environment.get(VARIABLE, ""))))

"""Chapter 14: where the sources err, each mistake computed beside the right statement.

An encoder is a choice of one equation per slot, and most mistakes are a wrong equation in
one slot. A demonstration puts it there with ``Encoder.replace``, runs or counts the result,
and does the same with the right one.
"""

import importlib

from encoder_spec.errata.erratum import ERRATA, Erratum, Finding

__all__ = ["Erratum", "Finding", "errata"]


def errata() -> list[Erratum]:
    """Every erratum of the sources, by number."""
    for module in ("attention", "cost", "heads", "norm", "stack", "sublayers"):
        importlib.import_module(f"encoder_spec.errata.{module}")
    return sorted(ERRATA.values(), key=lambda e: int(e.id.removeprefix("ERR-")))

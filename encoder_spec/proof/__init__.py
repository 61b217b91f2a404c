"""SymPy proofs of the algebraic requirements, one module per topic.

A proof is a function that derives its statement with SymPy, for symbols and not
for numbers, and asserts it. ``PROOFS`` lists them by requirement.
"""

import importlib
import pkgutil
from collections.abc import Callable

PROOFS: dict[str, Callable[[], None]] = {}


def proves(requirement: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Register a function as the proof of the requirement with this id."""

    def register(proof: Callable[[], None]) -> Callable[[], None]:
        if requirement in PROOFS:
            raise ValueError(f"{requirement} is proved twice")
        PROOFS[requirement] = proof
        return proof

    return register


def proofs() -> dict[str, Callable[[], None]]:
    """Every proof by the id of the requirement that it proves."""
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        importlib.import_module(module.name)
    return PROOFS

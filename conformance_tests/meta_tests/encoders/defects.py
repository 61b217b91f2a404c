"""What the suite's own tests know about a broken encoder: where it departs and what it breaks.

Each defect is one class, decorated with the verdict that it must get:
``@breaks("attention.scores", "ATT-3")``. Reading the classes is reading the table.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import nn

from conformance_tests.meta_tests.encoders.subjects import Attention, Encoder, Layer, Norm

C = TypeVar("C", bound=type)


@dataclass(frozen=True)
class Defect:
    """A broken encoder and what must be found.

    ``departs_at`` is the equation that is named as wrong; ``fails`` are requirements that must be
    among the failing ones; ``profile`` is what it is judged against. ``located_by_catalogue`` says that values and the
    computation alone name another equation, or none nearer than the encoder.
    """

    name: str
    make: Callable[[], nn.Module]
    departs_at: str
    fails: tuple[str, ...]
    profile: str
    located_by_catalogue: bool


DEFECTS: dict[str, Defect] = {}


def breaks(departs_at: str, *fails: str, profile: str = "auto", located_by_catalogue: bool = False) -> Callable[[C], C]:
    """Register a broken attention, norm, layer or encoder with what the suite must say of it."""

    def register(broken: C) -> C:
        name = broken.__name__
        assert name not in DEFECTS, f"{name} is defined twice"
        DEFECTS[name] = Defect(name, encoder_with(broken), departs_at, fails, profile, located_by_catalogue)
        return broken

    return register


def encoder_with(part: Any) -> Callable[[], nn.Module]:
    """A function that makes the sound encoder with one part replaced."""
    if issubclass(part, Attention):
        part = type("BrokenLayer", (Layer,), {"attention": part})
    elif issubclass(part, Norm):
        part = type("BrokenLayer", (Layer,), {"norm": part})
    if issubclass(part, Layer):
        part = type("BrokenEncoder", (Encoder,), {"layer": part})
    return part  # type: ignore[no-any-return]

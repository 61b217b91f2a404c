"""What an erratum is, the registry of all of them, and what their demonstrations share."""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from zlib import crc32

import torch
from torch import Tensor

from encoder_spec.assembly import Encoder
from encoder_spec.cost import shapes_within
from encoder_spec.dimensions import Dimensions
from encoder_spec.profiles import TORCH_POST_LN


@dataclass(frozen=True)
class Finding:
    """One quantity, as it comes out of the source's statement and out of the right one."""

    label: str
    said: int | float | str
    right: int | float | str


Findings = tuple[Finding, ...]


@dataclass(frozen=True)
class Erratum:
    """One mistake of a source, its correction, and the computation that shows both.

    ``said`` and ``right`` are the two statements; ``equations`` are the ids of what they
    are about; ``demonstrate`` computes the findings anew at each call.
    """

    id: str
    title: str
    source: str
    said: str
    right: str
    equations: tuple[str, ...]
    demonstrate: Callable[[], Findings]


ERRATA: dict[str, Erratum] = {}


def erratum(
    id: str, title: str, *, source: str, said: str, right: str, equations: tuple[str, ...]
) -> Callable[[Callable[[], Findings]], Callable[[], Findings]]:
    """Register a function as the demonstration of an erratum."""

    def register(demonstrate: Callable[[], Findings]) -> Callable[[], Findings]:
        if id in ERRATA:
            raise ValueError(f"erratum {id} is stated twice")
        ERRATA[id] = Erratum(id, title, source, said, right, equations, demonstrate)
        return demonstrate

    return register


SMALL = Encoder(TORCH_POST_LN, Dimensions(d_model=15, h=3, d_ff=17, N=2, V=19, max_len=13))
"""The stack alone, reading embeddings, small enough to print: d_k = d_v = 5."""

BATCH, LENGTH = 2, 7


def numbers(*shape: int, start: int = 1) -> Tensor:
    """An array without pattern, the same on every machine: sin of successive squares."""
    k = torch.arange(start, start + torch.Size(shape).numel(), dtype=torch.float64)
    return torch.sin(k.square()).reshape(shape)


def parameters(encoder: Encoder) -> dict[str, Tensor]:
    """Parameters for an encoder: γ = 1, β = 0, everything else without pattern, maps near unit gain.

    Their values follow from their paths, so that encoders share what is called the same.
    """
    filled = {}
    for path, shape in encoder.parameter_shapes().items():
        name = path.rpartition(".")[2]
        if name in ("gamma", "beta"):
            filled[path] = torch.full(shape, float(name == "gamma"), dtype=torch.float64)
        else:
            gain = (2 / shape[0]) ** 0.5 if name.startswith("W_") else 1.0
            filled[path] = gain * numbers(*shape, start=crc32(path.encode()) % 9973)
    return filled


def embeddings(encoder: Encoder = SMALL, length: int = LENGTH) -> Tensor:
    """Embeddings (B, length, d_model) for an encoder that reads them as given."""
    return numbers(BATCH, length, encoder.dimensions.d_model, start=31)


def distance(a: Tensor, b: Tensor) -> float:
    """The largest absolute difference of two arrays."""
    return float((a - b).abs().max())


def entries(encoder: Encoder, slot: str, *, owner: str = "") -> int:
    """The parameters of what stands in ``slot`` and of all that it uses, or of those in slot ``owner`` alone."""
    shapes = shapes_within(encoder, slot, owner=owner).values()
    return sum(prod(encoder.dimensions.shape(axes)) for axes in shapes)

"""What a deviation does, computed: its slot's result beside the right one, and how far the outputs move.

Right and wrong equation run in the same small encoder with random weights, which reads a few
sequences with padding in several places.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest

import torch
from torch import Tensor

from conformance_tests.deviations import Deviation
from conformance_tests.kill_matrix import SMALL, settings
from conformance_tests.probes import Probe, Probes
from encoder_spec.assembly import Encoder, Trace
from encoder_spec.notation import SpecificationError

NOTHING = 1e-9
"""A change below this, in units of the size of an output, is one of rounding."""


@dataclass(frozen=True)
class Effect:
    """What a deviation changes.

    Attributes:
        right: what the slot gives for one sequence, (rows, columns).
        wrong: what it gives with the deviation.
        change: of the output, (B, n), in units of its size; NaN where positions are padded, and empty where
            the outputs have different shapes.
    """

    right: Tensor
    wrong: Tensor
    change: Tensor


def effect(d: Deviation, within: str) -> Effect | None:
    """What a deviation changes in a profile; None where nothing can be compared."""
    profile = settings()[within]
    right, wrong = Encoder(profile, SMALL), Encoder(d.within(profile), SMALL)
    shapes, others = right.parameter_shapes(), wrong.parameter_shapes()
    if any(shapes.get(path, shape) != shape for path, shape in others.items()):
        return None  # other weights, and nothing alike
    probe = probe_of(within)
    with torch.no_grad():
        want = right.trace(numbers(shapes), *probe.copy().inputs, keep=probe.keep)
        try:
            got = wrong.trace(numbers(others), *probe.copy().inputs, keep=probe.keep)
        except (SpecificationError, TypeError):
            return None  # it reads other inputs
    pairs = [*compared(want, got, d.slot), (want[-1].value, got[-1].value)]
    a, b = next((pair for pair in pairs if differ(*pair)), pairs[0])
    sample = farthest(a, b)
    return Effect(flat(a, sample), flat(b, sample), moved(want[-1].value, got[-1].value, probe.keep))


@cache
def probe_of(within: str) -> Probe:
    """Sequences with padding in the middle, on the left and on the right."""
    return Probes(Encoder(settings()[within], SMALL), seed=0)["scattered"]


def numbers(shapes: dict[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """Random weights, each a matter of its own name: what two encoders have in common is equal in both."""
    drawn = {}
    for path, shape in shapes.items():
        generator = torch.Generator().manual_seed(zlib.crc32(path.encode()))
        values = torch.randn(shape, generator=generator, dtype=torch.float64)
        spread = 1.5 / shape[0] ** 0.5 if len(shape) > 1 else 0.3
        drawn[path] = values * spread + path.endswith("gamma")
    return drawn


def compared(want: Trace, got: Trace, slot: str) -> Iterator[tuple[Tensor, Tensor]]:
    """The arrays of a slot, right and wrong, in the order in which they are computed."""

    def of(trace: Trace) -> list[Tensor]:
        values = [i.value for i in trace if i.equation.slot == slot]
        return [x for value in values for x in (value if isinstance(value, tuple) else (value,))]

    for a, b in zip_longest(of(want), of(got)):
        if isinstance(a, Tensor) and isinstance(b, Tensor) and a.shape == b.shape and 2 <= a.dim() <= 4:
            yield a.double(), b.double()


def differ(a: Tensor, b: Tensor) -> bool:
    """Whether two arrays are alike in shape and not in numbers."""
    return a.shape == b.shape and not torch.allclose(a, b, rtol=0, atol=NOTHING, equal_nan=True)


def farthest(a: Tensor, b: Tensor) -> int:
    """The sequence in which two arrays differ most; without a batch, the first."""
    if a.dim() < 3:
        return 0
    return int((a - b).nan_to_num(0.0, 0.0, 0.0).abs().flatten(1).sum(1).argmax())


def flat(x: Tensor, sample: int) -> Tensor:
    """The matrix of one sequence, and of its first head."""
    while x.dim() > 2:
        x, sample = x[sample], 0
    return x


def moved(want: Tensor, got: Tensor, keep: Tensor | None) -> Tensor:
    """How far each position's output lies from the right one, in units of the size of an output."""
    assert keep is not None
    if not isinstance(got, Tensor) or got.shape != want.shape or want.dim() != 3:
        return torch.empty(0)
    size = want[keep].square().mean().sqrt()
    change = ((got - want).square().mean(-1).sqrt() / size).nan_to_num(float("inf"), float("inf"))
    return change.masked_fill(~keep, float("nan"))


def told(change: Tensor) -> str:
    """The change of the output in words."""
    valid = change[~change.isnan()]
    if not len(valid):
        return "The output has another shape."
    places = int((valid > NOTHING).sum())
    if not places:
        return "Here the output stays the same."
    where = "every position" if places == len(valid) else f"{places} of {len(valid)} positions"
    if valid.max() == float("inf"):
        return f"The output moves at {where}; some of it is no number."
    return f"The output moves at {where}, by up to {percent(float(valid.max()))} of its size."


def percent(share: float) -> str:
    """A share with two digits, however small it is."""
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.1g} %".replace("e-0", "e-")

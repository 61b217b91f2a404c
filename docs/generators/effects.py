"""What a deviation does, computed: its slot's result beside the right one, and how far the outputs move.

Right and wrong equation run in the same small encoder with random weights, which reads a few
sequences with padding in several places.
"""

import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest

import torch
from torch import Tensor

from conformance_tests.deviations import Deviation
from conformance_tests.numerics.probes import Probe, Probes
from conformance_tests.quality.kill_matrix import settings, sizes_of
from encoder_spec.assembly import Encoder, Trace
from encoder_spec.notation import SpecificationError

NOTHING = 1e-9
"""A change below this, in units of the size of an output, is one of rounding."""

NO_CHANGE = "Here the output stays the same."
WRITES = "What the caller handed in is changed."


@dataclass(frozen=True)
class Effect:
    """What a deviation changes.

    Attributes:
        of: what is shown: a slot, or the gradient by a parameter.
        right: its value for one sequence and head, (rows, columns).
        wrong: its value with the deviation.
        says: what becomes of the output, in words.
    """

    of: str
    right: Tensor
    wrong: Tensor
    says: str

    @property
    def shows(self) -> bool:
        """Whether right and wrong differ in anything that can be drawn."""
        return not torch.equal(self.right.nan_to_num(), self.wrong.nan_to_num())


@dataclass(frozen=True)
class Circumstance:
    """Where a deviation may show: a probe, weights that are moved or scaled, gradients recorded, an order in memory."""

    says: str = ""
    probe: str = "scattered"
    letters: tuple[str, ...] = ()
    times: float = 1.0
    plus: float = 0.0
    gradients: bool = False
    strided: bool = False


CIRCUMSTANCES = (
    Circumstance(),
    Circumstance("One sequence is nothing but padding.", "one-all-padded"),
    Circumstance("Every sequence ends in padding.", "all-end-padded"),
    Circumstance("There is a single token.", "single"),
    Circumstance("There are many tokens.", "many"),
    Circumstance("The inner features are 30 times larger.", letters=("W_1", "b_1"), times=30.0),
    Circumstance("Queries and keys are 30 times larger.", letters=("W_Q", "W_K", "b_Q", "b_K"), times=30.0),
    Circumstance("The biases of the sublayers are larger by 10⁶.", letters=("b_O", "b_2"), plus=1e6),
    Circumstance("The input lies in memory in another order.", strided=True),
    Circumstance("Gradients are recorded.", gradients=True),
)
"""The usual one first; the others are looked at where a deviation changes nothing there."""


def effect_of(d: Deviation, within: str) -> Effect | None:
    """What a deviation changes in a profile; None where it is put into none in which it has a value."""
    profile = settings()[within]
    sizes = sizes_of(profile)
    right, wrong = Encoder(profile, sizes), Encoder(d.within(profile), sizes)
    found: list[Effect] = []
    for here in CIRCUMSTANCES:
        effect = effect_under(here, right, wrong, d.slot)
        if effect is not None and (NO_CHANGE not in effect.says or WRITES in effect.says):
            return effect
        found += [] if effect is None else [effect]
    in_slot = next((effect for effect in found if effect.shows), None)
    return in_slot or by_gradient(right, wrong) or next(iter(found), None)


def effect_under(here: Circumstance, right: Encoder, wrong: Encoder, slot: str) -> Effect | None:
    """What changes under a circumstance; None where the deviation has no value."""
    parameters = moved_by(here, numbers(right.parameter_shapes()))
    probe, own = probe_of(right, here), probe_of(wrong, here)
    with torch.set_grad_enabled(here.gradients):
        want = right.trace(parameters, *probe.inputs, keep=probe.keep)
        got = None
        for read in (probe_of(right, here), own):  # it may read other inputs
            with suppress(SpecificationError, TypeError):
                got = wrong.trace(fitted(wrong, parameters), *read.inputs, keep=read.keep)
                break
    if got is None:
        return None
    a, b = want[-1].value, got[-1].value
    is_kept = read is own or read.equals(probe)
    says = (here.says, told(moved(a, b, probe.keep)), "" if is_kept else WRITES)
    a, b = next((pair for pair in (*compared(want, got, slot), (a, b)) if differ(*pair)), (a, a))
    place = farthest(a, b)
    return Effect(slot, a[place].detach(), b[place].detach(), " ".join(filter(None, says)))


def by_gradient(right: Encoder, wrong: Encoder) -> Effect | None:
    """The gradient by the parameter for which it changes most; None if it changes for none."""
    by_right, by_wrong = gradients(right), gradients(wrong)
    change = {path: float((by_wrong[path] - g).norm() / g.norm()) for path, g in by_right.items() if g.norm() > NOTHING}
    path = max(change, key=change.__getitem__)
    if change[path] <= NOTHING:
        return None
    a, b = (g[path].reshape(-1, g[path].shape[-1]) for g in (by_right, by_wrong))
    words = f"Its gradient does not: that by <code>{path}</code> changes by {percent(change[path])}."
    return Effect(f"gradient by {path}", a, b, f"{NO_CHANGE} {words}")


def gradients(encoder: Encoder) -> dict[str, Tensor]:
    """The gradients of a random sum over the outputs at valid positions, by every parameter."""
    probe = probe_of(encoder, CIRCUMSTANCES[0])
    parameters = {path: x.requires_grad_() for path, x in numbers(encoder.parameter_shapes()).items()}
    output = encoder(parameters, *probe.inputs, keep=probe.keep)
    weights = torch.randn(output.shape, generator=torch.Generator().manual_seed(0), dtype=output.dtype)
    valid = (output * weights)[probe.keep if output.dim() == 3 else ...]
    if valid.requires_grad:
        valid.sum().backward()
    return {path: torch.zeros_like(x) if x.grad is None else x.grad for path, x in parameters.items()}


def probe_of(encoder: Encoder, here: Circumstance) -> Probe:
    """The probe of a circumstance for an encoder, made anew: some deviations write into it."""
    probe = Probes(encoder, seed=0)[here.probe]
    return probe.strided() if here.strided and probe.by_position else probe


def moved_by(here: Circumstance, parameters: dict[str, Tensor]) -> dict[str, Tensor]:
    """The parameters as a circumstance has them."""
    moved = {path for path in parameters if path.rpartition(".")[2] in here.letters}
    return {path: here.times * x + here.plus if path in moved else x for path, x in parameters.items()}


def fitted(encoder: Encoder, parameters: dict[str, Tensor]) -> dict[str, Tensor]:
    """The parameters that an encoder needs: the first entries where it needs fewer, its own where there are none."""
    shapes = encoder.parameter_shapes()
    cut = {
        path: parameters[path][tuple(map(slice, shape))]
        for path, shape in shapes.items()
        if path in parameters and all(m <= n for m, n in zip(shape, parameters[path].shape, strict=False))
    }
    return numbers(shapes) | {path: x for path, x in cut.items() if tuple(x.shape) == shapes[path]}


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


def farthest(a: Tensor, b: Tensor) -> tuple[int, ...]:
    """The sequence, and the head if there are some, in which two arrays differ most."""
    difference = (a - b).abs().masked_fill(a == b, 0).nan_to_num(1.0, 1.0, 1.0)
    amounts = difference.flatten(-2).sum(-1)
    return tuple(int(i) for i in torch.unravel_index(amounts.argmax(), amounts.shape)) if amounts.dim() else ()


def moved(want: Tensor, got: Tensor, keep: Tensor | None) -> Tensor:
    """How far each position's output lies from the right one, in units of the size of an output."""
    if not isinstance(got, Tensor) or got.shape != want.shape or want.dim() != 3:
        return torch.empty(0)
    keep = torch.ones(want.shape[:2], dtype=torch.bool) if keep is None else keep
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
        return NO_CHANGE
    where = "every position" if places == len(valid) else f"{places} of {len(valid)} positions"
    if valid.max() == float("inf"):
        return f"The output moves at {where}; some of it is not a number."
    return f"The output moves at {where}, by up to {percent(float(valid.max()))} of its size."


def percent(share: float) -> str:
    """A share with two digits, however small it is."""
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.1g} %".replace("e-0", "e-")

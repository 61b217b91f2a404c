"""Rotary positions as people write them: read the same, whatever the operations are."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from conformance_tests.engine.judging import check
from conformance_tests.meta_tests.encoders.plain import Plain, PlainAttention, PlainLayer, PlainPreNorm
from conformance_tests.reports.report import TargetReport

Turn = Callable[[Tensor, Tensor], Tensor]
"""Turns vectors (B, h, n, d) by angles (n, d/2)."""


def with_rotated_half(x: Tensor, phi: Tensor) -> Tensor:
    twice = torch.cat([phi, phi], -1)
    one, other = x.chunk(2, -1)
    return x * twice.cos() + torch.cat([-other, one], -1) * twice.sin()


def half_by_half(x: Tensor, phi: Tensor) -> Tensor:
    one, other = x.chunk(2, -1)
    return torch.cat([one * phi.cos() - other * phi.sin(), one * phi.sin() + other * phi.cos()], -1)


def with_neighbours_exchanged(x: Tensor, phi: Tensor) -> Tensor:
    twice = phi.repeat_interleave(2, -1)
    exchanged = torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)
    return twice.cos() * x + twice.sin() * exchanged


def as_complex_numbers(x: Tensor, phi: Tensor) -> Tensor:
    numbers = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(numbers * torch.polar(torch.ones_like(phi), phi)).flatten(-2)


def before_the_heads(x: Tensor, phi: Tensor) -> Tensor:
    x, twice = x.transpose(1, 2), torch.cat([phi, phi], -1)[:, None]
    one, other = x.tensor_split(2, -1)
    return (x * twice.cos() + torch.cat((other.neg(), one), -1) * twice.sin()).transpose(1, 2)


def the_other_way_round(x: Tensor, phi: Tensor) -> Tensor:
    return half_by_half(x, -phi)


def of_outer_and_inner(x: Tensor, phi: Tensor) -> Tensor:
    """Feature i with feature d - 1 - i."""
    one, other = x.chunk(2, -1)
    turned = half_by_half(torch.cat([one, other.flip(-1)], -1), phi)
    return torch.cat([turned.chunk(2, -1)[0], turned.chunk(2, -1)[1].flip(-1)], -1)


class Turning(PlainAttention):
    """Turns its parts: queries, keys or values, the keys perhaps by other angles."""

    def __init__(self, turn: Turn, base: float = 10000.0, parts: str = "qk", of: float = 1.0) -> None:
        super().__init__(32, 4)
        self.turn, self.base, self.parts, self.of = turn, base, parts, of

    def turned(self, x: Tensor, base: float) -> Tensor:
        pairs = int(self.of * x.shape[-1]) // 2
        phi = torch.arange(x.shape[-2], dtype=x.dtype)[:, None] * base ** (-torch.arange(pairs).to(x) / pairs)
        return torch.cat([self.turn(x[..., : 2 * pairs], phi), x[..., 2 * pairs :]], -1)

    def split(self, x: Tensor) -> list[Tensor]:
        bases = {"q": self.base, "k": self.base, "K": 2 * self.base, "v": self.base}
        letters = ("q", "K" if "K" in self.parts else "k", "v")
        vectors = zip(letters, super().split(x), strict=True)
        return [self.turned(each, bases[letter]) if letter in self.parts else each for letter, each in vectors]


def encoder(*attentions: PlainAttention, kind: type[PlainLayer] = PlainLayer) -> nn.Module:
    layers: list[nn.Module] = [kind(32, 4, 37) for _ in attentions]
    for layer, attention in zip(layers, attentions, strict=True):
        layer.attention = attention
    return Plain(layers, None if kind is PlainLayer else nn.LayerNorm(32))


def judged(make: Callable[[], nn.Module]) -> TargetReport:
    return check(make).targets[0]


@pytest.mark.parametrize(
    ("turn", "variant"),
    [
        (with_rotated_half, "halves"),
        (half_by_half, "halves"),
        (before_the_heads, "halves"),
        (with_neighbours_exchanged, "pairs"),
        (as_complex_numbers, "pairs"),
    ],
)
@pytest.mark.parametrize(("base", "of"), [(10000.0, 1.0), (500.0, 0.5)])
def test_the_convention_the_base_and_the_share_are_read_and_confirmed(
    turn: Turn, variant: str, base: float, of: float
) -> None:
    report = judged(lambda: encoder(*(Turning(turn, base, of=of) for _ in range(2)), kind=PlainPreNorm))
    assert report.verdict == "conformant", report.notes
    chosen = report.profile["choices"]
    assert (chosen["rotation"], chosen["rotary_base"], chosen["rotary_fraction"]) == (variant, base, of)
    assert {r.id for r in report.of("pass")} >= {"ROT-1", "ROT-2" if variant == "halves" else "ROT-5", "ATT-3"}


def test_angles_of_rounded_frequencies_are_those_of_the_base() -> None:
    """Kept in float32, as a buffer mostly is: the report says so, and float64 decides with them."""

    class Rounded(Turning):
        def turned(self, x: Tensor, base: float) -> Tensor:
            omega = base ** (-torch.arange(4, dtype=torch.float32) / 4)
            return half_by_half(x, torch.arange(x.shape[-2]).to(x)[:, None] * omega.to(x))

    report = judged(lambda: encoder(Rounded(half_by_half), Rounded(half_by_half)))
    assert (report.verdict, report.level) == ("conformant", "gradient"), report.notes
    assert any("in fewer digits" in note for note in report.notes)


def test_tables_in_float32_are_judged_in_float32() -> None:
    """Cosines and sines that are rounded by themselves lie beside the circle."""

    class Tables(Turning):
        def turned(self, x: Tensor, base: float) -> Tensor:
            phi = torch.arange(x.shape[-2])[:, None] * base ** (-torch.arange(4) / 4)
            twice = torch.cat([phi, phi], -1)
            one, other = x.chunk(2, -1)
            return x * twice.cos().to(x) + torch.cat([-other, one], -1) * twice.sin().to(x)

    report = judged(lambda: encoder(Tables(half_by_half), Tables(half_by_half)))
    assert (report.verdict, report.profile["choices"]["rotation"]) == ("conformant", "halves"), report.notes
    assert any("judged in float32" in note for note in report.notes)


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ("k", "its keys are turned by their positions, and its queries are not"),
        ("q", "its queries are turned by their positions, and its keys are not"),
        ("qkv", "its queries and keys and values are turned by their positions"),
        ("qK", "its queries are turned by other angles than its keys"),
    ],
)
def test_what_is_turned_wrongly_is_said(parts: str, says: str) -> None:
    report = judged(lambda: encoder(*(Turning(half_by_half, parts=parts) for _ in range(2))))
    assert (report.verdict, report.departs_at) == ("nonconformant", "rotation.halves"), report.notes
    assert says in report.diagnosis[0]["says"]


@pytest.mark.parametrize(
    ("attentions", "says"),
    [
        (lambda: [Turning(the_other_way_round)] * 2, "but it turns the other way round"),
        (lambda: [Turning(of_outer_and_inner)] * 2, "neither neighbours nor one of each half"),
    ],
)
def test_what_no_equation_turns_so_is_left_open(attentions: Callable[[], list[PlainAttention]], says: str) -> None:
    """It may be right, and the report names it."""
    report = judged(lambda: encoder(*attentions()))
    assert report.verdict == "undetermined"
    assert says in str(report.notes)


@pytest.mark.parametrize(
    ("attentions", "chosen"),
    [
        (
            lambda: [Turning(half_by_half), Turning(half_by_half, 160000.0)],
            {"rotation": "halves", "rotary_base": "10000, 160000, repeated"},
        ),
        (lambda: [Turning(half_by_half), PlainAttention(32, 4)], {"rotation": "halves, none, repeated"}),
    ],
    ids=["another base", "not at all"],
)
def test_layers_may_turn_in_turn(attentions: Callable[[], list[PlainAttention]], chosen: dict[str, str]) -> None:
    """With another base in some layers, as ModernBERT does, or in some of them not at all."""
    report = judged(lambda: encoder(*attentions()))
    assert report.verdict == "conformant", report.notes
    assert {name: report.profile["choices"][name] for name in chosen} == chosen


def test_neither_a_gate_nor_a_mask_is_a_rotation() -> None:
    """Sums of two products with numbers that are no cosine and sine of one angle, and a scale, turn nothing."""

    class Mixing(Turning):
        def turned(self, x: Tensor, base: float) -> Tensor:
            return 0.6 * x + 0.8 * x.roll(1, -1)

    report = judged(lambda: encoder(Mixing(half_by_half), Mixing(half_by_half)))
    assert report.profile.get("choices", {}).get("rotation", "none") == "none"
    assert report.verdict != "conformant"

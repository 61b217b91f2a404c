"""Rotary positions as people write them: read the same, whatever the operations are."""

from collections.abc import Callable
from functools import partial
from itertools import product

import pytest
import torch
from torch import Tensor, nn

from conformance_tests.computation.rotation import SHARES, in_a_grid, stretching, wavelengths, within_a_turn
from conformance_tests.computation.rotation import Turning as Turned
from conformance_tests.engine.judging import check
from conformance_tests.meta_tests.encoders.plain import Plain, PlainAttention, PlainLayer, PlainPreNorm
from conformance_tests.reports.report import TargetReport
from encoder_spec.equation import variants
from encoder_spec.profiles import TORCH_POST_LN
from encoder_spec.rotation import axial, centred, columns_first, counted, rows_first, stretched

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


def by_angles_of_neighbours(x: Tensor, phi: Tensor) -> Tensor:
    """Halves are exchanged, and each angle is repeated for neighbours: both conventions at once."""
    twice = phi.repeat_interleave(2, -1)
    one, other = x.chunk(2, -1)
    return x * twice.cos() + torch.cat([-other, one], -1) * twice.sin()


def with_a_sign_lost(x: Tensor, phi: Tensor) -> Tensor:
    """A reflection: products of two know the distance, with the sign of the other way round."""
    one, other = x.chunk(2, -1)
    return torch.cat([one * phi.cos() + other * phi.sin(), one * phi.sin() - other * phi.cos()], -1)


def with_halves_exchanged(x: Tensor, phi: Tensor) -> Tensor:
    """Queries and keys exchange their halves alike, which no product shows."""
    return half_by_half(x, phi).roll(x.shape[-1] // 2, -1)


def with_cosines_from_the_end(x: Tensor, phi: Tensor) -> Tensor:
    twice = torch.cat([phi, phi], -1)
    one, other = x.chunk(2, -1)
    return x * twice.cos().flip(0) + torch.cat([-other, one], -1) * twice.sin()


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


class Decaying(Turning):
    """Beside that, queries grow with the position as keys shrink, each pair at its own pace (xPos)."""

    def split(self, x: Tensor) -> list[Tensor]:
        q, k, v = super().split(x)
        pace = 1 + torch.arange(4).to(x).repeat(2) / 10
        grown = pace ** torch.arange(q.shape[-2]).to(x)[:, None]
        return [q * grown, k / grown, v]


class OneKey(Turning):
    """One key (B, n, d_k) and one value serve all heads; the largest score is taken away before the softmax."""

    def __init__(self) -> None:
        super().__init__(with_rotated_half)
        self.key, self.value = nn.Linear(32, 8), nn.Linear(32, 8)

    def split(self, x: Tensor) -> list[Tensor]:
        q = self.query(x).unflatten(-1, (4, 8)).transpose(1, 2)
        return [self.turned(q, self.base), self.turned(self.key(x), self.base), self.value(x)]

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        q, k, v = self.split(x)
        scores = torch.einsum("bhid,bjd->bhij", q / self.scale, k)
        if hidden is not None:
            scores = scores.masked_fill(hidden, -1e9)
        weights = (scores - scores.amax(-1, keepdim=True).detach()).softmax(-1)
        return self.out(self.merge(torch.einsum("bhij,bjd->bhid", weights, v)))


class ByHead(Turning):
    """Takes the axis of the heads for that of the positions."""

    def turned(self, x: Tensor, base: float) -> Tensor:
        return super().turned(x.transpose(1, 2), base).transpose(1, 2)


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


def test_what_queries_and_keys_exchange_alike_does_not_matter() -> None:
    report = judged(lambda: encoder(*(Turning(with_halves_exchanged) for _ in range(2))))
    assert report.verdict == "conformant", report.notes
    assert report.profile["choices"]["rotation"] == "halves"


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
    ("turn", "says"),
    [
        (the_other_way_round, "turned the other way round"),
        (with_a_sign_lost, "turned the other way round"),
        (by_angles_of_neighbours, "do not depend on the distance alone"),
        (with_cosines_from_the_end, "do not depend on the distance alone"),
    ],
)
def test_what_tells_no_distances_is_wrong(turn: Turn, says: str) -> None:
    """The product of a query and a key has to know how far they lie apart, and nothing else of where they are."""
    report = judged(lambda: encoder(*(Turning(turn) for _ in range(2))))
    assert (report.verdict, report.departs_at) == ("nonconformant", "rotation.halves"), report.notes
    assert says in report.diagnosis[0]["says"]


@pytest.mark.parametrize(("base", "verdict"), [(10.0, "nonconformant"), (11.0, "conformant")])
def test_an_exponent_over_the_width_of_the_model_is_no_base_of_an_author(base: float, verdict: str) -> None:
    """With four heads 10000^(-2i/d_model) is 10^(-2i/d_k), and nobody writes 10."""
    report = judged(lambda: encoder(*(Turning(half_by_half, base) for _ in range(2))))
    assert report.verdict == verdict, report.notes
    says = "the exponents of its wavelengths are divided by d_model = 32, where d_k = 8 belongs"
    assert (verdict == "nonconformant") == (says in str(report.diagnosis))
    assert report.departs_at in (None, "rotation.angles")


def test_one_key_that_serves_all_heads_is_turned_as_their_queries_are() -> None:
    """It has an axis less, and the same lines turn it. That the scores lose their largest one changes nothing."""
    report = judged(lambda: encoder(OneKey(), OneKey()))
    assert report.verdict == "conformant", [*report.notes, *report.of("fail")]
    chosen = report.profile["choices"]
    assert (chosen["multihead"], chosen["rotation"], chosen["num_key_value_heads"]) == ("grouped-query", "halves", 1)


def test_heads_that_are_turned_in_the_place_of_positions_are_wrong() -> None:
    report = judged(lambda: encoder(*(ByHead(half_by_half) for _ in range(2))))
    assert (report.verdict, report.departs_at) == ("nonconformant", "rotation.halves"), report.notes
    assert "mixed by their heads, and not by their positions" in report.diagnosis[0]["says"]


@pytest.mark.parametrize(
    ("attentions", "says"),
    [
        (lambda: [Turning(of_outer_and_inner)] * 2, "neither neighbours nor one of each half"),
        (lambda: [Decaying(half_by_half)] * 2, "mixed by their positions"),
    ],
)
def test_what_no_equation_turns_so_is_left_open(attentions: Callable[[], list[PlainAttention]], says: str) -> None:
    """It may be right, and the report names it."""
    report = judged(lambda: encoder(*attentions()))
    assert report.verdict == "undetermined"
    assert says in str(report.notes)


def test_layers_may_turn_by_angles_in_turn() -> None:
    """With another base in some layers, as ModernBERT does."""
    report = judged(lambda: encoder(Turning(half_by_half), Turning(half_by_half, 160000.0)))
    assert report.verdict == "conformant", report.notes
    assert report.profile["choices"]["rotation"] == "halves"
    assert report.profile["choices"]["rotary_base"] == "10000, 160000, repeated"


class Near(Turning):
    """Attends to the nearest positions."""

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        place = torch.arange(x.shape[1])
        far = (place - place[:, None]).abs() > 2
        q, k, v = self.split(x)
        scores = self.score(q, k).masked_fill(far if hidden is None else hidden | far, -1e9)
        return self.out(self.merge(scores.softmax(-1) @ v))


def test_a_layer_that_forgets_its_positions_is_wrong_unless_it_sees_further() -> None:
    """In published encoders the layers without rotation see all positions, and those with it a few."""
    in_turn = "halves, none, repeated"
    forgetful = encoder(Turning(half_by_half), PlainAttention(32, 4))
    report = judged(lambda: forgetful)
    assert (report.verdict, report.departs_at) == ("nonconformant", "rotation.halves"), report.notes
    assert "positions turn no queries and keys in layer 1" in report.diagnosis[0]["says"]
    assert f'`rotation = "{in_turn}"`' in str(report.notes)
    declared = TORCH_POST_LN.replace(rotation=in_turn)
    assert check(forgetful, declared).verdict == "conformant"
    seeing = judged(lambda: encoder(Near(half_by_half), PlainAttention(32, 4)))
    assert seeing.verdict == "conformant", seeing.notes
    assert seeing.profile["choices"]["rotation"] == in_turn


def test_neither_a_gate_nor_a_mask_is_a_rotation() -> None:
    """Sums of two products with numbers that are no cosine and sine of one angle, and a scale, turn nothing."""

    class Mixing(Turning):
        def turned(self, x: Tensor, base: float) -> Tensor:
            return 0.6 * x + 0.8 * x.roll(1, -1)

    report = judged(lambda: encoder(Mixing(half_by_half), Mixing(half_by_half)))
    assert report.profile.get("choices", {}).get("rotation", "none") == "none"
    assert report.verdict != "conformant"


# Images ------------------------------------------------------------------------------

UNITS = {
    "counted": partial(counted, origin=0.0),
    "counted from 1": partial(counted, origin=1.0),
    "counted from 1/2": partial(counted, origin=0.5),
    "stretched": partial(stretched, origin=0.0, reference=16.0),
    "stretched from 1": partial(stretched, origin=1.0, reference=24.0),
    "centred": centred,
}
CHOSEN = {
    "counted": {"coordinates": "counted", "grid_origin": 0.0},
    "counted from 1": {"coordinates": "counted", "grid_origin": 1.0},
    "counted from 1/2": {"coordinates": "counted", "grid_origin": 0.5},
    "stretched": {"coordinates": "stretched", "grid_origin": 0.0, "grid_reference": 16.0},
    "stretched from 1": {"coordinates": "stretched", "grid_origin": 1.0, "grid_reference": 24.0},
    "centred": {"coordinates": "centred"},
}
ORDERS = {"rows-first": rows_first, "columns-first": columns_first}


def turned(phi: Tensor, *, in_halves: bool = True) -> Turned:
    """Return vectors that are turned by these angles (n, pairs)."""
    number = phi.shape[1]
    pairs = [(i, number + i) if in_halves else (2 * i, 2 * i + 1) for i in range(number)]
    return Turned(torch.empty(0), within_a_turn(phi), tuple(pairs), 1.0, False)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("grid", [(2, 2), (3, 5), (7, 2)], ids=str)
def test_angles_on_an_image_tell_pairs_axes_coordinates_and_base(unit: str, grid: tuple[int, int]) -> None:
    """Behind two tokens that are not turned: every share of the pairs, in either order, for narrow and wide heads."""
    rows, columns = grid
    for name, order, (d_k, base) in product(SHARES, ORDERS, ((12, 100.0), (64, 10000.0))):
        q = torch.zeros(1, 1, 2 + rows * columns, d_k, dtype=torch.float64)
        coordinates = partial(UNITS[unit], rows=rows, columns=columns)
        by = variants("angles")[name].function
        phi = by(q, coordinates=coordinates, axes=ORDERS[order], theta=base, fraction=1.0)
        read = wavelengths(turned(phi), d_k, grid)
        want = {"rotation": "halves", "angles": name, "axes": order, "rotary_base": base, "rotary_fraction": 1.0}
        assert read.choices == want | CHOSEN[unit], (read, want)
        assert (read.is_kept, read.is_rounded) == (False, False)


def test_one_pair_for_each_axis_is_read() -> None:
    """Of a single pair all shares are one but that in which both axes share wavelengths: there the base shows."""
    q = torch.zeros(1, 1, 6, 4, dtype=torch.float64)
    coordinates = partial(counted, rows=2, columns=3, origin=0.0)
    for name, base in (("axial", 10000.0), ("axial-alternating", 100.0)):
        function = variants("angles")[name].function
        phi = function(q, coordinates=coordinates, axes=rows_first, theta=100.0, fraction=1.0)
        choices = wavelengths(turned(phi, in_halves=False), 4, (2, 3)).choices
        assert (choices["rotation"], choices["angles"], choices["rotary_base"]) == ("pairs", name, base)


def test_a_share_of_the_features_may_tell_rows_and_columns() -> None:
    """Of 16 features 8 are turned."""
    q = torch.zeros(1, 1, 6, 16, dtype=torch.float64)
    coordinates = partial(counted, rows=2, columns=3, origin=0.0)
    phi = axial(q, coordinates=coordinates, axes=rows_first, theta=100.0, fraction=0.5)
    assert wavelengths(turned(phi), 16, (2, 3)).choices["rotary_fraction"] == 0.5


def test_frequencies_in_float32_are_kept_and_angles_in_float32_are_rounded() -> None:
    """If rounded frequencies give the angles exactly, the encoder is judged with these; otherwise in float32."""
    q = torch.zeros(1, 1, 12, 16, dtype=torch.float64)
    places = counted(q, rows=3, columns=4, origin=0.0)
    omega = 100 ** (-torch.arange(4, dtype=torch.float32) / 4)
    exact = (places[:, :, None] * omega.double()).flatten(1)
    read = wavelengths(turned(exact), 16, (3, 4))
    assert (read.is_kept, read.is_rounded) == (True, False)
    assert read.omega is not None
    torch.testing.assert_close(read.omega, omega.double().expand(2, -1), rtol=1e-14, atol=0)
    rounded = (places[:, :, None].float() * 1.1 * omega).flatten(1).double() / 1.1
    read = wavelengths(turned(rounded), 16, (3, 4))
    assert (read.is_kept, read.is_rounded, read.choices["rotary_base"]) == (False, True, 100.0)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (lambda phi: phi + 1, "what stands beside the patches of the image is turned"),
        (lambda phi: phi.roll(-1, 0), "what stands beside the patches of the image is turned"),
        (lambda phi: -phi, "not multiples of row and column"),
        (lambda phi: phi + phi.flip(1), "not multiples of row and column"),
        (lambda phi: phi.square(), "not multiples of row and column"),
        (lambda phi: phi[:, :3], "do not grow evenly"),
        (lambda phi: phi[2:], "do not grow evenly"),
    ],
)
def test_other_angles_on_an_image_are_said_to_be_none(changed: Callable[[Tensor], Tensor], says: str) -> None:
    """Turned tokens, a token behind the patches, the other way round, both axes in one pair, odd numbers of them."""
    q = torch.zeros(1, 1, 13, 8, dtype=torch.float64)
    coordinates = partial(counted, rows=3, columns=4, origin=1.0)
    phi = axial(q, coordinates=coordinates, axes=rows_first, theta=100.0, fraction=1.0)
    assert says in in_a_grid(within_a_turn(changed(phi)), (3, 4)).odd


def test_whole_turns_from_patch_to_patch_are_found_where_few_pairs_leave_them_open() -> None:
    """16 patches on 2: the first pair turns by 8, the second by 8/√100 = 0.8. Of 8 + 2π w only w = 0 makes 16 whole."""
    steps = within_a_turn(torch.tensor([8.0, 0.8], dtype=torch.float64))
    assert stretching(steps, torch.tensor([0.0, 0.5], dtype=torch.float64), 2) == (100.0, 16.0)


def of_image(rows: int, columns: int, pairs: int, x: Tensor) -> Tensor:
    """Return angles of which the first half tells columns and the second half rows, counted from 0."""
    omega = 100.0 ** (-torch.arange(pairs // 2).to(x) / (pairs // 2))
    row, column = (place.flatten().to(x) for place in torch.meshgrid(torch.arange(rows), torch.arange(columns)))
    return torch.cat([column[:, None] * omega, row[:, None] * omega], -1)


def behind_the_class_token(turn: Turn, x: Tensor, phi: Tensor) -> Tensor:
    first = x.shape[-2] - len(phi)
    return torch.cat([x[..., :first, :], turn(x[..., first:, :], phi)], -2)


def with_it_at_angle_0(turn: Turn, x: Tensor, phi: Tensor) -> Tensor:
    return turn(x, torch.cat([phi.new_zeros(x.shape[-2] - len(phi), phi.shape[1]), phi]))


def in_the_sequence(turn: Turn, x: Tensor, phi: Tensor) -> Tensor:
    """The class token is taken for the first patch."""
    return turn(x, torch.cat([phi, 2 * phi[-1:] - phi[-2:-1]])[: x.shape[-2]])


class OfImages(PlainAttention):
    """Turns queries and keys by the rows and columns of patches, of which the images say how many there are."""

    def __init__(self, turn: Turn, placed: Callable[[Turn, Tensor, Tensor], Tensor]) -> None:
        super().__init__(32, 4)
        self.turn, self.placed, self.grid = turn, placed, (0, 0)

    def split(self, x: Tensor) -> list[Tensor]:
        q, k, v = super().split(x)
        phi = of_image(*self.grid, q.shape[-1] // 2, x)
        return [self.placed(self.turn, each, phi) for each in (q, k)] + [v]


class Images(nn.Module):
    """Patches behind a class token, of images of any size."""

    def __init__(self, attentions: list[OfImages]) -> None:
        super().__init__()
        self.project = nn.Conv2d(3, 32, 2, 2)
        self.token = nn.Parameter(torch.randn(32))
        self.inner = encoder(*attentions, kind=PlainPreNorm)

    def forward(self, image: Tensor) -> Tensor:
        patches = self.project(image)
        for layer in self.inner.layers:
            layer.attention.grid = tuple(patches.shape[-2:])
        tokens = patches.flatten(2).mT
        hidden: Tensor = self.inner(torch.cat([self.token.expand(len(tokens), 1, -1), tokens], 1))
        return hidden


@pytest.mark.parametrize(
    ("turn", "placed", "variant"),
    [
        (with_rotated_half, behind_the_class_token, "halves"),
        (with_neighbours_exchanged, with_it_at_angle_0, "pairs"),
        (as_complex_numbers, behind_the_class_token, "pairs"),
    ],
)
def test_rows_and_columns_are_read_and_confirmed(turn: Turn, placed: Callable[..., Tensor], variant: str) -> None:
    """The class token may be left out or be turned by 0; the turning may be written in several ways."""
    report = judged(lambda: Images([OfImages(turn, placed) for _ in range(2)]))
    assert report.verdict == "conformant", report.notes
    want = {"rotation": variant, "angles": "axial", "axes": "columns-first", "coordinates": "counted"}
    chosen = report.profile["choices"]
    assert {name: chosen[name] for name in want} == want
    assert (chosen["rotary_base"], chosen["position"], chosen["cls"]) == (100.0, "in-attention", "cls")


def test_a_class_token_that_is_taken_for_a_patch_is_left_open() -> None:
    """No equation has it so, and the report says that it is not as patches are."""
    report = judged(lambda: Images([OfImages(half_by_half, in_the_sequence) for _ in range(2)]))
    assert report.verdict == "undetermined"
    assert "turned by their positions, but" in str(report.notes)


def test_an_image_as_large_as_that_to_which_coordinates_are_stretched_leaves_nothing_open() -> None:
    """There they are just counted; images of other sizes show it."""

    class Stretched(OfImages):
        def split(self, x: Tensor) -> list[Tensor]:
            rows, columns = self.grid
            q, k, v = PlainAttention.split(self, x)
            of_rows, of_columns = of_image(rows, columns, 4, x).chunk(2, -1)
            phi = torch.cat([of_rows * 4 / columns, of_columns * 4 / rows], -1)
            return [behind_the_class_token(self.turn, each, phi) for each in (q, k)] + [v]

    def make() -> Images:
        made = Images([Stretched(half_by_half, behind_the_class_token) for _ in range(2)])
        made.image_size = 8  # 4 × 4 patches
        return made

    report = judged(make)
    assert report.verdict == "conformant", report.notes
    chosen = report.profile["choices"]
    assert (chosen["coordinates"], chosen["grid_reference"]) == ("stretched", 4.0)

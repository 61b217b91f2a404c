"""Parallel sublayers, normed results and registers: read off the computation, right and wrong."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from conformance_tests.engine.judging import check
from conformance_tests.meta_tests.encoders.plain import Plain, PlainLayer, PlainPreNorm, plain_layers
from conformance_tests.reports.report import TargetReport
from encoder_spec.profiles import TORCH_PRE_LN


class Parallel(PlainLayer):
    """Both sublayers read the layer's input through one norm."""

    def __init__(self, width: int, count: int, inner: int, norm: Callable[[int], nn.Module] = nn.LayerNorm) -> None:
        super().__init__(width, count, inner, norm)
        del self.norm2

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        y = self.norm1(x)
        return self.summed(x, self.attention(y, hidden), self.feed_forward(y))

    def summed(self, x: Tensor, attended: Tensor, transformed: Tensor) -> Tensor:
        return x + attended + transformed


class NetworkFirst(Parallel):
    """The output of the network is added before that of the attention."""

    def summed(self, x: Tensor, attended: Tensor, transformed: Tensor) -> Tensor:
        return (transformed + x) + attended


class ResultsFirst(Parallel):
    """The two outputs are summed, and their sum is added to the stream."""

    def summed(self, x: Tensor, attended: Tensor, transformed: Tensor) -> Tensor:
        return x + (attended + transformed)


class ScaledResults(Parallel):
    """The sum of the two outputs has one learned factor for each feature."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.factors = nn.Parameter(torch.full((28,), 0.1))

    def summed(self, x: Tensor, attended: Tensor, transformed: Tensor) -> Tensor:
        return (attended + transformed) * self.factors + x


class TwoNorms(PlainLayer):
    """Both sublayers read the layer's input, each through its norm."""

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        return x + self.attention(self.norm1(x), hidden) + self.feed_forward(self.norm2(x))


class Sandwich(PlainLayer):
    """Four norms: of the input of each sublayer, and of its output."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.norm3, self.norm4 = nn.LayerNorm(28), nn.LayerNorm(28)

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        x = x + self.norm2(self.attention(self.norm1(x), hidden))
        return x + self.norm4(self.feed_forward(self.norm3(x)))


class ScaledSandwich(Sandwich):
    """The normed output of each sublayer has a learned factor for each feature."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.factors = nn.Parameter(torch.full((2, 28), 0.1))

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        x = x + self.factors[0] * self.norm2(self.attention(self.norm1(x), hidden))
        return x + self.factors[1] * self.norm4(self.feed_forward(self.norm3(x)))


class NormedResults(PlainLayer):
    """Only the output of each sublayer is normed."""

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        x = x + self.norm1(self.attention(x, hidden))
        return x + self.norm2(self.feed_forward(x))


def judged(layer: type[PlainLayer], **asked: object) -> TargetReport:
    made = Plain([layer(28, 4, 37) for _ in range(2)], nn.LayerNorm(28))
    return check(made, **asked).targets[0]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (Parallel, {"layer": "parallel"}),
        (NetworkFirst, {"layer": "parallel"}),
        (ResultsFirst, {"layer": "parallel"}),
        (ScaledResults, {"layer": "parallel", "residual": "scaled"}),
        (TwoNorms, {"layer": "parallel-two-norms"}),
        (Sandwich, {"layer": "sandwich-ln"}),
        (ScaledSandwich, {"layer": "sandwich-ln", "residual": "scaled"}),
    ],
)
def test_further_orders_of_a_layer_are_variants(layer: type[PlainLayer], expected: dict[str, str]) -> None:
    report = judged(layer)
    assert (report.verdict, report.level) == ("conformant", "gradient"), report.notes
    assert {slot: report.profile["choices"][slot] for slot in expected} == expected


def test_normed_results_are_a_variant_where_it_is_declared() -> None:
    """Undeclared they are a mistake that many make who mean Post-LN; the report says which layer would be right."""
    report = judged(NormedResults)
    assert report.verdict == "nonconformant"
    assert {d["slot"] for d in report.diagnosis} == {"layer"}
    assert "what the attention gives is normed before it is added" in str(report.diagnosis)
    assert """`layer = "res-post-ln"` in a profile file""" in str(report.notes)
    declared = judged(NormedResults, profile=TORCH_PRE_LN.replace(layer="res-post-ln"))
    assert (declared.verdict, declared.level) == ("conformant", "gradient"), declared.notes


class OneNormMissing(Sandwich):
    """The output of the network is added without a norm."""

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        x = x + self.norm2(self.attention(self.norm1(x), hidden))
        return x + self.feed_forward(self.norm3(x))


class StreamUnnormed(Parallel):
    """The network reads the layer's input without its norm."""

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        return x + self.attention(self.norm1(x), hidden) + self.feed_forward(x)


class FromNormed(Parallel):
    """The normed input is added, and not the input."""

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        y = self.norm1(x)
        return y + self.attention(y, hidden) + self.feed_forward(y)


@pytest.mark.parametrize("layer", [OneNormMissing, StreamUnnormed, FromNormed])
def test_half_of_an_order_is_none(layer: type[PlainLayer]) -> None:
    assert judged(layer).verdict == "nonconformant"


class WithoutItsStream(PlainLayer):
    """The averages of the heads take the place of the stream."""

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        q, k, v = self.attention.split(x)
        scores = self.attention.score(q, k)
        if hidden is not None:
            scores = scores.masked_fill(hidden, -torch.inf)
        x = self.attention.merge(scores.softmax(-1) @ v)
        x = self.norm1(x + self.attention.out(x))
        return self.norm2(x + self.feed_forward(x))


class ActivatedBehind(PlainLayer):
    """The activation stands behind the second map, and the first one has no bias."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.fc1.register_parameter("bias", None)

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.fc1(x)).relu()


class NormedInPlace(PlainLayer):
    """The attention's norm stands before it, and the stream goes on from there."""

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        x = self.norm1(x)
        x = x + self.attention(x, hidden)
        return self.norm2(x + self.feed_forward(x))


@pytest.mark.parametrize(
    "stack", [lambda layers: Plain(layers), lambda layers: nn.Sequential(nn.LayerNorm(28), Plain(layers))]
)
def test_a_stream_that_goes_on_from_a_norm_is_placed_at_the_residual(
    stack: Callable[[list[nn.Module]], nn.Module],
) -> None:
    """With a norm of what enters, or without one."""
    report = check(lambda: stack(plain_layers(NormedInPlace))).targets[0]
    assert (report.verdict, report.departs_at) == ("nonconformant", "residual"), report.notes
    assert "the residual connection starts from the normed value" in str(report.diagnosis)


class NormedInEach(Plain):
    """The final norm stands behind each layer."""

    def run(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        assert self.final_norm is not None
        for layer in self.layers:
            x = self.final_norm(layer(x, hidden))
        return x


def test_a_final_norm_behind_each_layer_is_said() -> None:
    report = check(lambda: NormedInEach(plain_layers(PlainPreNorm), nn.LayerNorm(28))).targets[0]
    assert (report.verdict, report.departs_at) == ("nonconformant", "encoder.final_norm"), report.notes
    assert "the norm behind the last layer stands behind layer 0, too" in str(report.diagnosis)


@pytest.mark.parametrize(
    ("layer", "place", "says"),
    [
        (WithoutItsStream, "residual", "what its heads average is added to what the attention gives"),
        (ActivatedBehind, "ffn.relu", "what the feed-forward network gives passes through relu before it is added"),
    ],
)
def test_a_slip_of_one_name_or_one_bracket_is_placed(layer: type[PlainLayer], place: str, says: str) -> None:
    report = judged(layer)
    assert (report.verdict, report.departs_at) == ("nonconformant", place), report.notes
    assert says in str(report.diagnosis)


class Looking(nn.Module):
    """Sixteen patches of an image, a class token and three registers."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 28, 4, 4)
        self.class_token = nn.Parameter(torch.randn(1, 1, 28))
        self.registers = nn.Parameter(torch.randn(1, 3, 28))
        self.table = nn.Parameter(torch.randn(1, 17, 28))
        self.encoder = Plain(plain_layers(), nn.LayerNorm(28))

    def forward(self, image: Tensor) -> Tensor:
        patches = self.patches(image).flatten(2).mT
        first, registers = (x.expand(len(image), -1, -1) for x in (self.class_token, self.registers))
        return self.encoder(self.joined(first, registers, patches))

    def joined(self, first: Tensor, registers: Tensor, patches: Tensor) -> Tensor:
        x = torch.cat([first, patches], 1) + self.table
        return torch.cat([x[:, :1], registers, x[:, 1:]], 1)


class PlacedApart(Looking):
    """Class token and patches get their positions apart."""

    def joined(self, first: Tensor, registers: Tensor, patches: Tensor) -> Tensor:
        return torch.cat([first + self.table[:, :1], registers, patches + self.table[:, 1:]], 1)


class RegistersAlone(Looking):
    """Registers and patches alone, without a class token."""

    def joined(self, first: Tensor, registers: Tensor, patches: Tensor) -> Tensor:
        return torch.cat([registers, patches + self.table[:, :16]], 1)


class NothingBeforeHasPositions(Looking):
    """Neither class token nor registers have positions: nothing tells which is which."""

    def joined(self, first: Tensor, registers: Tensor, patches: Tensor) -> Tensor:
        return torch.cat([first, registers, patches + self.table[:, :16]], 1)


class BareClassToken(Looking):
    """A class token without a position, as in DeiT III."""

    def joined(self, first: Tensor, registers: Tensor, patches: Tensor) -> Tensor:
        return torch.cat([first, patches + self.table[:, :16]], 1)


class RegistersFirst(Looking):
    """The registers stand before the class token."""

    def joined(self, first: Tensor, registers: Tensor, patches: Tensor) -> Tensor:
        return torch.cat([registers, torch.cat([first, patches], 1) + self.table], 1)


class RegistersLast(Looking):
    """The registers stand behind the patches."""

    def joined(self, first: Tensor, registers: Tensor, patches: Tensor) -> Tensor:
        return torch.cat([torch.cat([first, patches], 1) + self.table, registers], 1)


class RegistersWithPositions(Looking):
    """The table has a row for each register, too."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(1, 20, 28))

    def joined(self, first: Tensor, registers: Tensor, patches: Tensor) -> Tensor:
        return torch.cat([first, registers, patches], 1) + self.table


class OnBothSides(RegistersWithPositions):
    """The class token stands before the patches and the registers behind them, and all have positions."""

    def joined(self, first: Tensor, registers: Tensor, patches: Tensor) -> Tensor:
        return torch.cat([first, patches, registers], 1) + self.table


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Looking, {"cls": "cls", "registers": "registers", "num_registers": 3}),
        (PlacedApart, {"cls": "cls", "registers": "registers", "num_registers": 3}),
        (RegistersAlone, {"cls": "none", "registers": "registers", "num_registers": 3}),
        (NothingBeforeHasPositions, {"cls": "none", "registers": "registers", "num_registers": 4}),
        (BareClassToken, {"cls": "none", "registers": "registers", "num_registers": 1}),
        (RegistersLast, {"cls": "cls", "registers": "registers-behind", "num_registers": 3}),
        (RegistersWithPositions, {"cls": "cls", "registers": "registers", "num_registers": 3}),
        (OnBothSides, {"cls": "cls", "registers": "registers-behind", "num_registers": 3}),
    ],
)
def test_registers_are_a_variant(kind: type[Looking], expected: dict[str, str | int]) -> None:
    report = check(kind).targets[0]
    assert (report.verdict, report.level) == ("conformant", "gradient"), report.notes
    chosen = report.profile["choices"]
    assert {name: chosen.get(name) for name in expected} == expected


class UnreadRow(Looking):
    """The class token gets no position, though the table has a row for it."""

    def joined(self, first: Tensor, registers: Tensor, patches: Tensor) -> Tensor:
        return torch.cat([first, patches + self.table[:, 1:]], 1)


def test_a_row_that_nothing_reads_was_meant_for_the_class_token() -> None:
    report = check(UnreadRow).targets[0]
    assert (report.verdict, report.departs_at) == ("nonconformant", "position.learned_offset"), report.notes
    assert "is read from row 1 on, and nothing reads row 0" in report.diagnosis[0]["says"]


def test_registers_before_the_class_token_are_found() -> None:
    report = check(RegistersFirst).targets[0]
    assert report.verdict == "nonconformant"
    says = "the registers stand before the class token"
    assert ("registers", True) in {(d["slot"], says in d["says"]) for d in report.diagnosis}


class PreNormStated(Sandwich):
    """An attribute says that norms stand before the sublayers, which is true of a sandwich, too."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.norm_first = True


def test_a_statement_that_norms_stand_first_fits_every_such_order() -> None:
    report = judged(PreNormStated)
    assert report.verdict == "conformant", [r.message for r in report.of("fail")]
    assert report.profile["choices"]["layer"] == "sandwich-ln"

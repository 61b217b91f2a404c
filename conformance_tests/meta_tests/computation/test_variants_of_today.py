"""LayerScale, and norms of queries and keys: read off the computation, and confirmed."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from conformance_tests.engine.judging import check
from conformance_tests.meta_tests.encoders.plain import Plain, PlainAttention, PlainPreNorm, layers_with, plain_layers
from conformance_tests.reports.report import TargetReport


class Scaled(PlainPreNorm):
    """Each sublayer's output is multiplied by learned factors."""

    where = "output"

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.factors = nn.ParameterList(torch.full((28,), 1e-5) for _ in range(2))

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        for factors, sublayer in zip(
            self.factors,
            (lambda x: self.attention(self.norm1(x), hidden), lambda x: self.feed_forward(self.norm2(x))),
            strict=True,
        ):
            x = self.added(x, sublayer(x), factors)
        return x

    def added(self, x: Tensor, sublayer: Tensor, factors: Tensor) -> Tensor:
        return x + factors * sublayer


class ScaledStream(Scaled):
    """The factors stand on the wrong side of the sum."""

    def added(self, x: Tensor, sublayer: Tensor, factors: Tensor) -> Tensor:
        return factors * x + sublayer


def judged(make: Callable[[], nn.Module]) -> TargetReport:
    return check(make).targets[0]


def test_learned_factors_of_the_sublayers_are_a_variant() -> None:
    report = judged(lambda: Plain(plain_layers(Scaled), nn.LayerNorm(28)))
    assert (report.verdict, report.level) == ("conformant", "gradient"), report.notes
    assert report.profile["choices"]["residual"] == "scaled"
    assert "RES-3" in {r.id for r in report.of("pass")}


def test_learned_factors_of_the_stream_are_none() -> None:
    report = judged(lambda: Plain(plain_layers(ScaledStream), nn.LayerNorm(28)))
    assert report.verdict != "conformant"


class RootMeanSquare(nn.Module):
    """Scales each vector of a head to its width."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight


def normed(norm: Callable[[int], nn.Module], *, keys: bool = True) -> type[PlainAttention]:
    """Return an attention that norms its queries, and its keys unless told otherwise."""

    class Normed(PlainAttention):
        def __init__(self, width: int, count: int) -> None:
            super().__init__(width, count)
            self.of_queries, self.of_keys = norm(7), norm(7) if keys else nn.Identity()

        def score(self, q: Tensor, k: Tensor) -> Tensor:
            return super().score(self.of_queries(q), self.of_keys(k))

    return Normed


@pytest.mark.parametrize(
    ("norm", "expected"),
    [
        (nn.LayerNorm, {}),
        (lambda width: nn.LayerNorm(width, eps=1e-3), {"norm_q.eps": 1e-3, "norm_k.eps": 1e-3}),
        (RootMeanSquare, {"norm_q": "rms", "norm_k": "rms", "norm_q.eps": 1e-6}),
    ],
    ids=["as the layers", "another epsilon", "another form"],
)
def test_norms_of_queries_and_keys_are_a_variant(
    norm: Callable[[int], nn.Module], expected: dict[str, str | float]
) -> None:
    report = judged(lambda: Plain(layers_with(normed(norm))))
    assert (report.verdict, report.level) == ("conformant", "gradient"), report.notes
    chosen = report.profile["choices"]
    assert {name: chosen.get(name) for name in expected} == expected
    assert (chosen["attention"], chosen["norm"]) == ("normed", "layer-norm")


def test_a_norm_of_the_queries_alone_is_left_open() -> None:
    report = judged(lambda: Plain(layers_with(normed(nn.LayerNorm, keys=False))))
    assert report.verdict == "undetermined"
    assert "its queries are normed in each head, and its keys are not" in str(report.notes)

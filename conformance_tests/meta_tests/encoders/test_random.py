"""Random numbers that enter an encoder in evaluation are named with their line, whatever draws them."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from conformance_tests.meta_tests.encoders.plain import PlainAttention, PlainLayer
from conformance_tests.meta_tests.judgements import Judgements

DRAWS: dict[str, Callable[[Tensor], Tensor]] = {
    "the function of dropout": lambda x: functional.dropout(x, 0.2),
    "torch's dropout": lambda x: torch.dropout(x, 0.2, train=True),
    "native dropout": lambda x: torch.native_dropout(x, 0.2, True)[0],
    "dropout that keeps moments": lambda x: functional.alpha_dropout(x, 0.2, training=True),
    "a comparison with uniform numbers": lambda x: x * (torch.rand_like(x) > 0.2) / 0.8,
    "uniform numbers in place": lambda x: x * torch.empty_like(x).uniform_(0.5, 1.5),
    "bernoulli numbers": lambda x: x * torch.bernoulli(torch.full_like(x, 0.8)),
    "bernoulli numbers in place": lambda x: x * torch.empty_like(x).bernoulli_(0.8).div_(0.8),
    "normal numbers": lambda x: x + 0.1 * torch.randn_like(x),
    "normal numbers in place": lambda x: x * torch.empty_like(x).normal_(1.0, 0.1),
}


class Drawing(PlainAttention):
    """Draws where the weights of the attention are dropped in training."""

    draw: Callable[[Tensor], Tensor] = staticmethod(lambda x: x)

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        q, k, v = self.split(x)
        scores = self.score(q, k)
        if hidden is not None:
            scores = scores.masked_fill(hidden, -torch.inf)
        return self.out(self.merge(self.draw(scores.softmax(-1)) @ v))


class DrawingEncoder(nn.Module):
    def __init__(self, draw: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(PlainLayer(28, 4, 37) for _ in range(2))
        for layer in self.layers:
            layer.attention = Drawing(28, 4)
            layer.attention.draw = draw

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        for layer in self.layers:
            x = layer(x, None if mask is None else ~mask[:, None, None])
        return x


@pytest.mark.parametrize("draws", DRAWS)
def test_random_numbers_in_evaluation_are_named_with_their_line(draws: str, judged: Judgements) -> None:
    """How it is called is found out all the same: in that each call draws the same numbers."""
    report = judged(lambda: DrawingEncoder(DRAWS[draws]), known_as="")
    assert (report.verdict, report.departs_at) == ("nonconformant", "dropout.identity"), report.notes
    says = [d["says"] for d in report.diagnosis if not d["deviation"]]
    assert len(says) == 1, says
    assert "random numbers enter the output in evaluation (test_random.py:" in says[0]
    assert report.profile["conventions"] == {"mask": "mask: (B, n), boolean, True = keep"}
    assert {r.id for r in report.of("fail")} >= {"DROP-1", "DROP-6"}


def test_dropout_that_is_off_is_no_random_number(judged: Judgements) -> None:
    """A rate of 0, or no training, and what is drawn beside the output, are none."""

    def beside(x: Tensor) -> Tensor:
        torch.rand_like(x).sum()
        return functional.dropout(torch.native_dropout(x, 0.0, True)[0], 0.2, training=False)

    report = judged(lambda: DrawingEncoder(beside), known_as="")
    assert report.verdict == "conformant", [r.message for r in report.of("fail")] + report.notes

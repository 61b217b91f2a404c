"""The smallest input with a wrong output, for defects that show from a certain size on."""

import pytest
import torch
from torch import Tensor, nn

from conformance_tests import check
from conformance_tests.meta_tests.encoders.plain import Plain, PlainLayer, plain_layers


class WrongScale(Plain):
    def __init__(self) -> None:
        super().__init__(plain_layers())
        for layer in self.layers:
            layer.attention.scale = 28.0


class WrongActivation(PlainLayer):
    def feed_forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.fc1(x).sin())


class MixesSamples(Plain):
    """Nothing is added to the only sample of a batch."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().forward(x, mask) + x - x.mean(dim=0)


class LayerForBatches(Plain):
    """The last layer runs only where there are several samples."""

    def run(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        for layer in self.layers if len(x) > 1 else self.layers[:-1]:
            x = layer(x, hidden)
        return x


class DeafToPadding(Plain):
    """The mask is taken, and hides the first position alone."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is not None:
            mask = torch.cat([mask[:, :1], torch.ones_like(mask[:, 1:])], dim=1)
        return super().forward(x, mask)


class Windowed(Plain):
    """Positions more than 64 away are not read, which few inputs are long enough to show."""

    def run(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        at = torch.arange(x.shape[1])
        far = ((at[:, None] - at).abs() > 64)[None, None]
        return super().run(x, far if hidden is None else far | hidden)


class EncodesInPieces(Plain):
    """Of more than 32 sequences those behind the last full piece are left as they are."""

    def run(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        full = len(x) // 32 * 32 or len(x)
        encoded = super().run(x[:full], None if hidden is None else hidden[:full])
        return torch.cat([encoded, x[full:]])


@pytest.mark.parametrize(
    ("encoder", "profile", "smallest"),
    [
        # One key has weight 1 whatever its score is; between two the scale matters.
        (WrongScale(), "auto", [1, 2, 28]),
        (Plain(plain_layers(WrongActivation)), "auto", [1, 1, 28]),
        # One sample is its batch's mean; two are not, already of one position.
        (MixesSamples(plain_layers()), "torch-post-ln", [2, 1, 28]),
        # A whole batch is right; its first sample is not, in a call of its own.
        (LayerForBatches(plain_layers()), "torch-post-ln", [1, 1, 28]),
        # In the first sample positions 5 and 6 of eleven are padding: the first six hold one of them.
        (DeafToPadding(plain_layers()), "torch-post-ln", [1, 6, 28]),
        # The first and the last of 66 positions are 65 apart; one sequence behind 32 is left out.
        (Windowed(plain_layers()), "torch-post-ln", [1, 66, 28]),
        (EncodesInPieces(plain_layers()), "torch-post-ln", [33, 11, 28]),
    ],
    ids=["scale", "activation", "samples mixed", "one sample", "padding", "window", "pieces"],
)
def test_the_smallest_input_is_as_small_as_the_defect_allows(
    encoder: nn.Module, profile: str, smallest: list[int]
) -> None:
    """By hand, beside each; every failure carries it. What the diagnosis says is no matter here, and takes its time."""
    report = check(encoder, profile=profile, explain=False).targets[0]
    assert report.verdict == "nonconformant", report.notes
    assert {tuple(r.smallest or ()) for r in report.of("fail")} == {tuple(smallest)}
    assert not any(r.smallest for r in report.of("pass"))

"""Encoders whose norms, feed-forward network or sublayer order are broken."""

from torch import Tensor, nn

from conformance_tests.meta_tests.encoders.defects import breaks
from conformance_tests.meta_tests.encoders.subjects import Layer, Norm, PreNorm


@breaks("norm.layer_norm", "NORM-3", profile="torch-post-ln")
class EpsilonOutsideTheRoot(Norm):
    """ε is added to the standard deviation: S0's norm, which the declared profile does not use."""

    def deviation(self, x: Tensor, centred: Tensor) -> Tensor:
        return centred.pow(2).mean(-1, keepdim=True).sqrt() + 1e-5


@breaks("norm.layer_norm", "NORM-3", profile="torch-post-ln")
class AnotherEpsilon(Norm):
    """ε = 10⁻³ where the declared profile has 10⁻⁵."""

    def deviation(self, x: Tensor, centred: Tensor) -> Tensor:
        return (centred.pow(2).mean(-1, keepdim=True) + 1e-3).sqrt()


@breaks("norm.layer_norm", "NORM-3")
class UnbiasedUnderTheRoot(Norm):
    """n − 1 together with ε under the root: none of the published norms."""

    def deviation(self, x: Tensor, centred: Tensor) -> Tensor:
        return (centred.pow(2).sum(-1, keepdim=True) / (centred.shape[-1] - 1) + 1e-5).sqrt()


@breaks("norm.layer_norm", "NORM-3")
class VarianceNotRooted(Norm):
    """Division by the variance instead of its root."""

    def deviation(self, x: Tensor, centred: Tensor) -> Tensor:
        return super().deviation(x, centred).square()


@breaks("norm.statistics", "NORM-1", "NORM-3")
class BatchStatistics(Norm):
    """The variance is averaged over the batch, so that samples influence one another."""

    def deviation(self, x: Tensor, centred: Tensor) -> Tensor:
        return (centred.pow(2).mean((0, -1), keepdim=True) + 1e-5).sqrt()


@breaks("norm.statistics", "NORM-1")
class StatisticsOverPositions(Norm):
    """Mean and variance run over the sequence."""

    def centre(self, x: Tensor) -> Tensor:
        return x - x.mean(1, keepdim=True)

    def deviation(self, x: Tensor, centred: Tensor) -> Tensor:
        return (centred.pow(2).mean(1, keepdim=True) + 1e-5).sqrt()


@breaks("norm.statistics", "NORM-6")
class VarianceByDifference(Norm):
    """E[x²] − μ²: equal on paper, without a digit left where the offset is large."""

    def deviation(self, x: Tensor, centred: Tensor) -> Tensor:
        variance = x.pow(2).mean(-1, keepdim=True) - x.mean(-1, keepdim=True).pow(2)
        return (variance.clamp(min=0) + 1e-5).sqrt()


@breaks("norm.layer_norm", "NORM-3", "ENC-8")
class ScaleForgotten(Norm):
    """γ exists and is never multiplied."""

    def forward(self, x: Tensor) -> Tensor:
        centred = self.centre(x)
        return centred / self.deviation(x, centred) + self.bias


@breaks("residual", "RES-1")
class FirstResidualDropped(Layer):
    """Attention's output is normed without what it was computed from."""

    def forward(self, x: Tensor, pad: Tensor | None) -> Tensor:
        x = self.norm1(self.self_attn(x, pad))
        return self.norm2(x + self.feed_forward(x))


@breaks("residual", "RES-1")
class SecondResidualDropped(Layer):
    """The feed-forward network's output is normed without its input."""

    def forward(self, x: Tensor, pad: Tensor | None) -> Tensor:
        x = self.norm1(x + self.self_attn(x, pad))
        return self.norm2(self.feed_forward(x))


@breaks("residual", "RES-1")
class AttentionNotUsed(Layer):
    """The attention is computed, and its output is never added."""

    def forward(self, x: Tensor, pad: Tensor | None) -> Tensor:
        self.self_attn(x, pad)
        x = self.norm1(x)
        return self.norm2(x + self.feed_forward(x))


@breaks("ffn.without_bias", "FFN-10", "ENC-8")
class FeedForwardNotUsed(Layer):
    """The feed-forward network is computed, and its output is never added."""

    def forward(self, x: Tensor, pad: Tensor | None) -> Tensor:
        x = self.norm1(x + self.self_attn(x, pad))
        self.feed_forward(x)
        return self.norm2(x)


@breaks("ffn.without_bias", "FFN-10")
class FeedForwardMissing(Layer):
    """Attention alone, layer by layer."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__(width, heads, inner)
        del self.linear1, self.linear2, self.norm2

    def forward(self, x: Tensor, pad: Tensor | None) -> Tensor:
        return self.norm1(x + self.self_attn(x, pad))


@breaks("residual", "RES-1")
class FeedForwardTakenAway(PreNorm):
    """Pre-LN, in which the feed-forward network's output is subtracted."""

    def forward(self, x: Tensor, pad: Tensor | None) -> Tensor:
        x = x + self.self_attn(self.norm1(x), pad)
        return x - self.feed_forward(self.norm2(x))


@breaks("layer.post_ln", "RES-1")
class ResidualOfTheLayersInput(Layer):
    """The second sum adds the layer's input instead of the sublayer's."""

    def forward(self, x: Tensor, pad: Tensor | None) -> Tensor:
        y = self.norm1(x + self.self_attn(x, pad))
        return self.norm2(x + self.feed_forward(y))


@breaks("residual", "RES-1")
class ResidualOfTheNormedInput(PreNorm):
    """Pre-LN, but the residual path is normed too."""

    def forward(self, x: Tensor, pad: Tensor | None) -> Tensor:
        x = self.norm1(x)
        x = x + self.self_attn(x, pad)
        x = self.norm2(x)
        return x + self.feed_forward(x)


@breaks("layer.post_ln", "RES-1", "LAYER-1")
class NormBeforeTheSum(Layer):
    """x + LN(f(x)): neither Post-LN nor Pre-LN."""

    def forward(self, x: Tensor, pad: Tensor | None) -> Tensor:
        x = x + self.norm1(self.self_attn(x, pad))
        return x + self.norm2(self.feed_forward(x))


@breaks("layer.post_ln", "ENC-2", profile="torch-post-ln")
class PreNormWherePostNormIsDeclared(PreNorm):
    """A legitimate order in the wrong place: the first sublayer reads what it should not."""


@breaks("norm.statistics", "NORM-1", "ENC-8")
class SecondNormForgotten(Layer):
    """The second sum leaves the layer as it is, and nobody takes its mean; norm2 exists for nothing."""

    def forward(self, x: Tensor, pad: Tensor | None) -> Tensor:
        x = self.norm1(x + self.self_attn(x, pad))
        return x + self.feed_forward(x)


@breaks("norm.layer_norm", "NORM-3", "ENC-8")
class FirstNormUsedTwice(Layer):
    """Both sublayers use norm1; norm2 exists for nothing."""

    def forward(self, x: Tensor, pad: Tensor | None) -> Tensor:
        x = self.norm1(x + self.self_attn(x, pad))
        return self.norm1(x + self.feed_forward(x))


@breaks("norm.layer_norm", "NORM-3")
class OneNormUnderTwoNames(Layer):
    """norm1 and norm2 are one object: outputs cannot tell, what training does with it can."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__(width, heads, inner)
        self.norm2 = self.norm1


@breaks("ffn.relu", "FFN-1")
class ActivationForgotten(Layer):
    """Two maps with nothing between them."""

    def activate(self, x: Tensor) -> Tensor:
        return x


@breaks("ffn.relu", "FFN-1")
class LeakyActivation(Layer):
    """A hundredth of what is negative passes."""

    def activate(self, x: Tensor) -> Tensor:
        return nn.functional.leaky_relu(x)


@breaks("ffn.gelu", "FFN-2", profile="torch-post-ln-gelu.toml")
class TanhGeluWhereGeluIsDeclared(Layer):
    """A legitimate approximation in the wrong place."""

    def activate(self, x: Tensor) -> Tensor:
        return nn.functional.gelu(x, approximate="tanh")


@breaks("ffn", "FFN-6")
class ActivationAfterBothMaps(Layer):
    """σ stands after the second map as well, and it is no longer the network's output that is added."""

    def feed_forward(self, x: Tensor) -> Tensor:
        return super().feed_forward(x).relu()


@breaks("ffn", "FFN-6", "ENC-8")
class SecondBiasForgotten(Layer):
    """b₂ exists and is never added."""

    def feed_forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(self.linear1(x).relu(), self.linear2.weight)


@breaks("ffn.relu", "FFN-1")
class FeedForwardAcrossPositions(Layer):
    """What enters the activation is centred over the sequence: the network is not position-wise."""

    def activate(self, x: Tensor) -> Tensor:
        return (x - x.mean(1, keepdim=True)).relu()

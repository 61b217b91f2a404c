"""Tutorial styles whose attributes say something of them: rightly, or of something else."""

from torch import Tensor, nn
from torch.nn import functional

from conformance_tests.meta_tests.encoders.plain import PLAIN, Plain, PlainAttention, PlainLayer, plain_layers
from conformance_tests.meta_tests.encoders.tutorials import every, tutorial


class Fused(PlainAttention):
    """A kernel that shows neither scores nor weights."""

    causal = False

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        q, k, v = self.split(x)
        keep = None if hidden is None else ~hidden
        causal = self.causal and keep is None
        return self.out(self.merge(functional.scaled_dot_product_attention(q, k, v, attn_mask=keep, is_causal=causal)))


class FusedLayer(PlainLayer):
    def __init__(self, width: int, count: int, inner: int, norm: type[nn.Module]) -> None:
        super().__init__(width, count, inner, norm)
        self.attention = Fused(width, count)
        self.attention.nhead = count


@tutorial(every(Fused, causal=True), "attention.global_reach", **PLAIN)
def heads_told_by_an_attribute() -> nn.Module:
    return Plain(plain_layers(FusedLayer))


class Misleading(Plain):
    """Its ``heads`` are those of something else."""

    heads = 7


@tutorial(every(PlainAttention, scale=1.7), "attention.scores", **PLAIN)
def heads_of_something_else() -> nn.Module:
    return Misleading(plain_layers())

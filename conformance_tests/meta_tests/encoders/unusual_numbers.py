"""Correct encoders with numbers of their own: positions that are given, precisions of parts, small and large ε."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from conformance_tests.meta_tests.encoders.plain import Plain, PlainAttention, PlainLayer, layers_with, plain_layers
from conformance_tests.meta_tests.encoders.unusual_calls import Calls, Tokens, excused, unusual


@unusual
class PositionsGiven(Tokens):
    """The call gives kinds of tokens and the numbers of positions, which look tables up."""

    times = 1

    def __init__(self) -> None:
        super().__init__()
        self.kinds = nn.Embedding(3, 28)

    def forward(self, ids: Tensor, kinds: Tensor, position: Tensor) -> Tensor:  # type: ignore[override]
        return self.run(self.token_table(ids) + self.kinds(kinds) + self.placed(position), None)

    def placed(self, position: Tensor) -> Tensor:
        return self.position_table(position)


@excused("position.learned", "the same positions are added more than once")
class PositionsGivenTwice(PositionsGiven):
    """They are added twice."""

    def placed(self, position: Tensor) -> Tensor:
        return super().placed(position) + super().placed(position)


class MaskedInSinglePrecision(PlainAttention):
    """Scores are hidden in float32, whatever they are given in; without a mask nothing is cast."""

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        q, k, v = self.split(x)
        scores = self.score(q, k)
        if hidden is not None:
            scores = scores.float().masked_fill(hidden, -1e9).type_as(scores)
        return self.out(self.merge(scores.softmax(-1) @ v))


@unusual
def masked_in_single_precision() -> nn.Module:
    """Rounds under a mask alone."""
    return Plain(layers_with(MaskedInSinglePrecision))


@unusual
def with_the_smallest_epsilon() -> nn.Module:
    """Norms with torch's default, the machine's ε: another number in float32 than in float64."""
    encoder = Plain(plain_layers(norm=nn.RMSNorm))
    with torch.no_grad():
        for norm in (part for part in encoder.modules() if isinstance(part, nn.RMSNorm)):
            norm.weight.mul_(1e-3)  # what a layer adds is small beside ε then
    return encoder


class FixedPositions(Calls):
    """Adds numbers to its tokens that are neither learned nor sinusoids."""

    def __init__(self, kind: type[PlainLayer]) -> None:
        super().__init__(kind)
        self.token_table = nn.Embedding(31, 28)
        self.register_buffer("steps", torch.arange(300 * 28).reshape(300, 28) % 11 / 11)

    def forward(self, ids: Tensor) -> Tensor:  # type: ignore[override]
        return self.run(self.token_table(ids) + self.get_buffer("steps")[: ids.shape[1]], None)


class LinearNetwork(PlainLayer):
    """Nothing stands between the two maps."""

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.fc1(x))


@excused("ffn.relu", "the activation is none of the specification's: none at all")
def no_activation_behind_fixed_positions() -> nn.Module:
    """That no slot has its positions does not excuse its layers."""
    return FixedPositions(LinearNetwork)


class OverAllPositions(PlainLayer):
    """Norms over positions and features, with γ and β for each."""

    def __init__(self, width: int, count: int, inner: int, norm: Callable[[int], nn.Module]) -> None:
        super().__init__(width, count, inner, lambda features: norm((9, features)))  # type: ignore[arg-type]


@excused("norm.statistics", "9 × 28 entries, where 28 features belong")
def norms_over_all_positions() -> nn.Module:
    """Takes nine positions and no other number, which its refusals tell; no path has the shape of its γ."""
    return Plain(plain_layers(OverAllPositions))


class NormWithOne(nn.Module):
    """ε is 1."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma, self.beta = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return self.gamma * centred / (centred.square().mean(-1, keepdim=True) + 1).sqrt() + self.beta


@unusual
def an_epsilon_of_one() -> nn.Module:
    return Plain(plain_layers(norm=NormWithOne))

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


@unusual
class WavesTimesALearnedNumber(Tokens):
    """Sinusoids, of which some are 0 at the first position, times a number that is learned."""

    def __init__(self) -> None:
        super().__init__()
        self.loudness = nn.Parameter(torch.tensor(0.7))
        angles = torch.arange(300)[:, None] / 10000 ** (torch.arange(14) / 14)
        self.register_buffer("waves", torch.stack([angles.sin(), angles.cos()], -1).flatten(1))

    def embedded(self, ids: Tensor) -> Tensor:
        return self.token_table(ids) + self.loudness * self.get_buffer("waves")[: ids.shape[1]]

    def forward(self, ids: Tensor) -> Tensor:  # type: ignore[override]
        return self.run(self.embedded(ids), None)


@excused("position.learned", "of what is learned of positions nothing arrives in feature 20")
class PositionsInSomeFeatures(WavesTimesALearnedNumber):
    """The last eight features of a table of positions are multiplied by 0."""

    def embedded(self, ids: Tensor) -> Tensor:
        kept = torch.arange(28) < 20
        return self.token_table(ids) + self.position_table.weight[: ids.shape[1]] * kept


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


class WithARoundedRoot(PlainLayer):
    """GELU with a root of six digits."""

    root = 1.41421

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.activated(self.fc1(x)))

    def activated(self, h: Tensor) -> Tensor:
        return h * 0.5 * (1 + torch.erf(h / self.root))


class WithARoundedRootOfTwoOverPi(WithARoundedRoot):
    """The approximation of GELU as fused code has it."""

    def activated(self, h: Tensor) -> Tensor:
        return 0.5 * h * (1 + torch.tanh(0.79788456 * h * (1 + 0.044715 * h * h)))


class WithARootOfFiveDigits(WithARoundedRoot):
    """Five digits are too few."""

    root = 1.4142


class GatedWithARoundedRoot(PlainLayer):
    """One half of what the first map gives is the gate of the other."""

    def __init__(self, width: int, count: int, inner: int, norm: Callable[[int], nn.Module]) -> None:
        super().__init__(width, count, inner, norm)
        self.fc1 = nn.Linear(width, 2 * inner)

    def feed_forward(self, x: Tensor) -> Tensor:
        h, gate = self.fc1(x).chunk(2, dim=-1)
        return self.fc2(gate * h / 2 * (1 + torch.erf(h * 0.70710678)))


@unusual
def a_root_of_six_digits() -> nn.Module:
    return Plain(plain_layers(WithARoundedRoot))


@unusual
def a_root_as_fused_code_has_it() -> nn.Module:
    return Plain(plain_layers(WithARoundedRootOfTwoOverPi))


@unusual
def a_rounded_root_beside_a_gate() -> nn.Module:
    return Plain(plain_layers(GatedWithARoundedRoot))


@excused("ffn.gelu", "the activation is none of the specification's")
def a_root_of_five_digits() -> nn.Module:
    return Plain(plain_layers(WithARootOfFiveDigits))


@excused("ffn.gelu", "the layers have several activations: gelu, relu")
def a_rounded_root_in_one_layer() -> nn.Module:
    """The other layer's activation is ReLU."""
    return Plain([*plain_layers(WithARoundedRoot, depth=1), *plain_layers(depth=1)])


class Guards(PlainLayer):
    """Keeps its stream from numbers that none of it is, or that do not fit into half precision."""

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        most = torch.finfo(torch.float16).max
        return super().forward(x.nan_to_num(), hidden).clamp(-most, most)


@unusual
def guards_its_stream() -> nn.Module:
    return Plain(plain_layers(Guards))


class Clips(PlainLayer):
    """Holds its stream between bounds that hidden states reach."""

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        return super().forward(x, hidden).clamp(-2, 2)


@excused("layer.post_ln", "passes through clamp")
def clips_its_stream() -> nn.Module:
    return Plain(plain_layers(Clips))

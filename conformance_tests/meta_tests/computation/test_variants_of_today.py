"""LayerScale, DeepNorm, gates, normed queries and keys, windows, tables, groups: read off the computation."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from conformance_tests.engine.judging import check
from conformance_tests.meta_tests.encoders.plain import (
    Plain,
    PlainAttention,
    PlainLayer,
    PlainPreNorm,
    layers_with,
    plain_layers,
)
from conformance_tests.reports.report import TargetReport
from encoder_spec.profiles import TORCH_PRE_LN


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


class ScaledSum(Scaled):
    """The factors stand behind the sum."""

    def added(self, x: Tensor, sublayer: Tensor, factors: Tensor) -> Tensor:
        return factors * (x + sublayer)


@pytest.mark.parametrize("layer", [ScaledStream, ScaledSum])
def test_learned_factors_of_the_stream_are_none(layer: type[Scaled]) -> None:
    report = judged(lambda: Plain(plain_layers(layer), nn.LayerNorm(28)))
    assert report.verdict != "conformant"
    assert "the stream is multiplied by layers." in str(report.notes)


# The weight of the stream ----------------------------------------------------------------


class Weighed(PlainLayer):
    """Post-LN in one function for both sublayers, with a weight of the stream that is somebody else's business."""

    first: float
    second: float

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        x = self.norm1(self.residual_connection(self.attention(x, hidden), x, self.first))
        return self.norm2(self.residual_connection(self.feed_forward(x), x, self.second))

    def residual_connection(self, x: Tensor, residual: Tensor, alpha: float) -> Tensor:
        return residual * alpha + x


class Fused(Weighed):
    """The factor stands in the operation of the sum."""

    def residual_connection(self, x: Tensor, residual: Tensor, alpha: float) -> Tensor:
        return torch.add(x, residual, alpha=alpha)


class InPlace(Weighed):
    """The stream is multiplied, and then changed in place."""

    def residual_connection(self, x: Tensor, residual: Tensor, alpha: float) -> Tensor:
        weighed = residual.mul(alpha)
        weighed += x
        return weighed


class FromABuffer(Weighed):
    """The weight is a number of float32 that the layer keeps."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.register_buffer("alpha", torch.tensor(6**0.25))

    def residual_connection(self, x: Tensor, residual: Tensor, alpha: float) -> Tensor:
        return self.alpha * residual + x


class WeighedBeforeNorm(Weighed):
    """Pre-LN with a weight, which nothing takes back."""

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        x = self.residual_connection(self.attention(self.norm1(x), hidden), x, self.first)
        return self.residual_connection(self.feed_forward(self.norm2(x)), x, self.second)


class FromTokens(Plain):
    """Tokens and positions are added, and the first sublayer reads the sum as it is."""

    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__(layers)
        self.tokens, self.places = nn.Embedding(31, 28), nn.Embedding(64, 28)

    def run(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        return super().run(self.tokens(x) + self.places(torch.arange(x.shape[1])), hidden)


def weighing(
    first: float,
    second: float | None = None,
    depth: int = 3,
    kind: type[Weighed] = Weighed,
    stack: Callable[[list[nn.Module]], nn.Module] = Plain,
) -> nn.Module:
    """Return an encoder whose layers weigh the stream before both sublayers, by one number unless told otherwise."""
    layers = plain_layers(kind, depth=depth)
    for layer in layers:
        layer.first, layer.second = first, first if second is None else second  # type: ignore[assignment]
    return stack(layers)


ALPHA = 6**0.25


@pytest.mark.parametrize("kind", [Weighed, Fused, InPlace, FromABuffer])
@pytest.mark.parametrize("stack", [Plain, FromTokens])
def test_the_weight_of_deepnorm_is_a_variant_however_it_is_written(
    kind: type[Weighed], stack: Callable[[list[nn.Module]], nn.Module]
) -> None:
    """Three layers have six sublayers."""
    report = judged(lambda: weighing(ALPHA, kind=kind, stack=stack))
    assert (report.verdict, report.level) == ("conformant", "gradient"), report.notes
    assert report.profile["choices"]["residual"] == "deepnorm"
    assert "RES-4" in {r.id for r in report.of("pass")}
    assert ("keeps (2N)^¼" in str(report.notes)) is (kind is FromABuffer)


@pytest.mark.parametrize("depth", [1, 8])
def test_the_weight_goes_with_the_depth(depth: int) -> None:
    """Of one layer it is 2^¼, and of eight 2: there the input is not doubled by mistake."""
    report = judged(lambda: weighing((2 * depth) ** 0.25, depth=depth))
    assert (report.verdict, report.profile["choices"]["residual"]) == ("conformant", "deepnorm"), report.notes


def test_a_decoder_shows_in_the_weight() -> None:
    """0.81 (3⁴ · 5)^(1/16): the output is read by a decoder of five layers."""
    report = judged(lambda: weighing(0.81 * (3**4 * 5) ** (1 / 16)))
    assert report.verdict == "conformant", report.notes
    chosen = report.profile["choices"]
    assert (chosen["residual"], chosen["decoder_layers"]) == ("deepnorm-with-decoder", 5)
    assert "RES-6" in {r.id for r in report.of("pass")}


@pytest.mark.parametrize(
    ("first", "second", "at", "says"),
    [
        (24**0.25, None, "residual.deepnorm", "multiplied by 2.21336 before the attention's result is added"),
        (3**0.25, None, "residual.deepnorm", "multiplied by 1.31607 before the attention's result is added"),
        (6**0.5, None, "residual.deepnorm", "multiplied by 2.44949 before the attention's result is added"),
        (1.56, None, "residual.deepnorm", "multiplied by 1.56 before the attention's result is added"),
        (ALPHA, 1.0, "residual.deepnorm", "not multiplied before the feed-forward network's result is added"),
        (1.0, ALPHA, "residual.deepnorm", "not multiplied before the attention's result is added"),
        (2.0, None, "residual", "multiplied by 2 before the attention's result is added"),
        (1.3, None, "residual", "multiplied by 1.3 before the attention's result is added"),
    ],
    ids=["of 12 layers", "of layers", "square root", "two digits", "forgotten", "forgotten first", "twice", "another"],
)
def test_another_weight_is_named(first: float, second: float | None, at: str, says: str) -> None:
    """Where it is DeepNorm's in another depth, under another root or in one sublayer, the right one is named beside."""
    report = judged(lambda: weighing(first, second))
    assert (report.verdict, report.departs_at) == ("nonconformant", at), report.notes
    failed = str([r.message for r in report.of("fail")])
    assert f"the stream is {says}" in failed
    assert ("where (2N)^¼ = 1.56508 belongs to 3 layers" in failed) is (at == "residual.deepnorm")


def test_the_weight_of_deepnorm_beside_pre_ln_is_a_mistake_unless_it_is_declared() -> None:
    """It was published with a norm behind each sum."""

    def make() -> nn.Module:
        return weighing(ALPHA, kind=WeighedBeforeNorm)

    report = judged(make)
    assert (report.verdict, report.departs_at) == ("nonconformant", "residual"), report.notes
    assert 'residual = "deepnorm"' in str(report.notes)
    declared = TORCH_PRE_LN.replace(name="weighed", final_norm="none", residual="deepnorm")
    assert check(make, profile=declared).verdict == "conformant"


# Gates with and without biases -----------------------------------------------------------


class Gate(PlainLayer):
    """One map gives gate and value; the last one may have a bias, and so may the first."""

    inner, outer = False, True

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.fc1, self.fc2 = nn.Linear(28, 2 * 37, bias=self.inner), nn.Linear(37, 28, bias=self.outer)

    def feed_forward(self, x: Tensor) -> Tensor:
        gate, value = self.fc1(x).chunk(2, -1)
        features: Tensor = self.fc2(nn.functional.gelu(gate) * value)
        return features


def with_biases_of_zero(layer: type[Gate]) -> nn.Module:
    """Return an encoder whose biases exist and are 0, as they begin in many."""
    encoder = Plain(plain_layers(layer))
    for name, parameter in encoder.named_parameters():
        if name.endswith("bias") and "norm" not in name:
            nn.init.zeros_(parameter)
    return encoder


@pytest.mark.parametrize(
    ("inner", "outer", "variant"),
    [(False, True, "gated-output-bias"), (True, True, "gated-affine"), (False, False, "gated")],
)
def test_a_gate_is_told_by_the_biases_that_it_has(*, inner: bool, outer: bool, variant: str) -> None:
    """A bias that exists is one, though it is 0; one that does not exist is none."""
    layer = type("Own", (Gate,), {"inner": inner, "outer": outer})
    report = judged(lambda: with_biases_of_zero(layer))
    assert (report.verdict, report.level) == ("conformant", "gradient"), report.notes
    assert report.profile["choices"]["ffn"] == variant
    assert ("FFN-15" in {r.id for r in report.of("pass")}) is (variant == "gated-output-bias")


class BiasInside(Gate):
    """The last bias is added before the map, and not behind it."""

    def feed_forward(self, x: Tensor) -> Tensor:
        gate, value = self.fc1(x + self.fc2.bias).chunk(2, -1)
        return (nn.functional.gelu(gate) * value) @ self.fc2.weight.mT


class BiasForgotten(Gate):
    """The last bias is never added."""

    def feed_forward(self, x: Tensor) -> Tensor:
        gate, value = self.fc1(x).chunk(2, -1)
        return (nn.functional.gelu(gate) * value) @ self.fc2.weight.mT


def test_a_bias_behind_the_gate_that_is_never_added_is_missed() -> None:
    report = judged(lambda: Plain(plain_layers(BiasForgotten)))
    assert report.verdict == "nonconformant"
    assert "fc2.bias" in str([r.message for r in report.of("fail")])


def test_a_bias_in_front_of_the_gate_is_none_behind_it() -> None:
    assert judged(lambda: Plain(plain_layers(BiasInside))).verdict != "conformant"


class Sloped(PlainAttention):
    """The scores of twelve heads fall with the distance, as a table of float32 says."""

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        place = torch.arange(q.shape[-2])
        slopes = torch.tensor([2 ** -(i + 1) for i in range(8)] + [2 ** -(0.5 + i) for i in range(4)])
        table = slopes[:, None, None] * -(place - place[:, None]).abs()
        return super().score(q, k) + table


def test_slopes_of_float32_are_those_of_float64_in_float32() -> None:
    """Those of twelve heads are irrational, and their multiples are rounded each by itself: MosaicBERT keeps such."""
    layers = [PlainLayer(36, 12, 37) for _ in range(2)]
    for layer in layers:
        layer.attention = Sloped(36, 12)
    report = judged(lambda: Plain(list(layers)))
    assert report.verdict == "conformant", [r.message for r in report.of("fail")]
    assert report.profile["choices"]["bias"] == "alibi"
    assert "judged in float32" in str(report.notes)


class ByDifference(PlainAttention):
    """Takes the place of the key less that of the query for the distance."""

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        place = torch.arange(q.shape[-2])
        return super().score(q, k) + 2.0 ** -torch.arange(2, 10, 2)[:, None, None] * (place - place[:, None])


class ByDistance(PlainAttention):
    """The scores of four heads fall with the distance."""

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        place = torch.arange(q.shape[-2])
        return super().score(q, k) - 2.0 ** -torch.arange(2, 10, 2)[:, None, None] * (place - place[:, None]).abs()


def in_the_first_layer_alone() -> list[nn.Module]:
    layers = plain_layers()
    layers[0].attention = ByDistance(28, 4)
    return layers


@pytest.mark.parametrize(
    ("layers", "says"),
    [
        (lambda: layers_with(ByDifference), "the scores fall towards one side and grow towards the other"),
        (in_the_first_layer_alone, "the scores fall with the distance in 1 of the 2 layers alone"),
    ],
)
def test_slopes_are_of_distances_and_in_all_layers(layers: Callable[[], list[nn.Module]], says: str) -> None:
    report = judged(lambda: Plain(layers()))
    assert (report.verdict, report.departs_at) == ("nonconformant", "attention.alibi"), report.notes
    assert says in report.diagnosis[0]["says"]


# Norms in the heads ----------------------------------------------------------------------


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


class NormedBefore(PlainAttention):
    """Norms queries and keys over the features of all heads, as ESM C does."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__(width, count)
        self.of_queries, self.of_keys = nn.LayerNorm(width, bias=False), RootMeanSquare(width)

    def split(self, x: Tensor) -> list[Tensor]:
        mapped = self.of_queries(self.query(x)), self.of_keys(self.key(x)), self.value(x)
        return [m.unflatten(-1, (self.count, -1)).transpose(1, 2) for m in mapped]


class NormedByPosition(NormedBefore):
    """Norms keys as they are split: over the features of all heads still, and before the heads are brought in front."""

    def split(self, x: Tensor) -> list[Tensor]:
        mapped = self.of_queries(self.query(x)), self.of_keys(self.key(x)), self.value(x)
        return [m.reshape(*m.shape[:2], self.count, -1).permute(0, 2, 1, 3) for m in mapped]


@pytest.mark.parametrize("attention", [NormedBefore, NormedByPosition])
def test_queries_and_keys_may_be_normed_over_the_features_of_all_heads(attention: type[PlainAttention]) -> None:
    """The norm of the queries may have another form than that of the keys."""
    report = judged(lambda: Plain(layers_with(attention)))
    assert (report.verdict, report.level) == ("conformant", "gradient"), report.notes
    chosen = report.profile["choices"]
    assert chosen["attention"] == "normed-across-heads"
    assert (chosen["norm_q"], chosen["norm_k"]) == ("layer-norm-without-bias", "rms")
    assert "ATT-26" in {r.id for r in report.of("pass")}


class NormedInPairs(PlainAttention):
    """Norms the features of two heads at once."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__(width, count)
        self.of_queries, self.of_keys = nn.LayerNorm(width // 2), nn.LayerNorm(width // 2)

    def split(self, x: Tensor) -> list[Tensor]:
        queries, keys = (m(x).unflatten(-1, (2, -1)) for m in (self.query, self.key))
        mapped = self.of_queries(queries).flatten(2), self.of_keys(keys).flatten(2), self.value(x)
        return [m.unflatten(-1, (self.count, -1)).transpose(1, 2) for m in mapped]


class NormedAcrossAlone(NormedBefore):
    """Norms the queries over the features of all heads, and the keys in each head."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__(width, count)
        self.of_keys = nn.LayerNorm(width // count)

    def split(self, x: Tensor) -> list[Tensor]:
        mapped = self.of_queries(self.query(x)), self.key(x), self.value(x)
        queries, keys, values = (m.unflatten(-1, (self.count, -1)).transpose(1, 2) for m in mapped)
        return [queries, self.of_keys(keys), values]


@pytest.mark.parametrize("attention", [NormedInPairs, NormedAcrossAlone])
def test_norms_over_other_features_are_named(attention: type[PlainAttention]) -> None:
    """No slot norms a pair of heads, or queries and keys over other features."""
    report = judged(lambda: Plain(layers_with(attention)))
    assert report.verdict == "undetermined"
    assert "are normed over other features than those of each head, or of all" in " ".join(report.notes)


class FactorsOfHeads(nn.Module):
    """Brings each vector of a head to length √7, and multiplies its features by factors of that head."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.factors = nn.Parameter(torch.ones(4, 1, width))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.normalize(x, dim=-1) * 7**0.5 * self.factors


def fused(norm: Callable[[int], nn.Module]) -> type[PlainAttention]:
    """Return an attention that norms queries and keys, and hands them to torch's fused one."""

    class Fused(normed(norm)):  # type: ignore[misc]
        def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
            q, k, v = self.split(x)
            found = nn.functional.scaled_dot_product_attention(
                self.of_queries(q), self.of_keys(k), v, None if hidden is None else ~hidden
            )
            merged: Tensor = self.out(self.merge(found))
            return merged

    return Fused


@pytest.mark.parametrize("attention", [normed, fused])
@pytest.mark.parametrize(
    ("norm", "expected"),
    [(FactorsOfHeads, ("normed-by-head", "rms")), (nn.LayerNorm, ("normed", None))],
    ids=["of each head", "of all heads"],
)
def test_factors_behind_the_norms_may_be_those_of_each_head(
    attention: Callable[..., type[PlainAttention]],
    norm: Callable[[int], nn.Module],
    expected: tuple[str, str | None],
) -> None:
    """Also where the scale of the scores stands on queries and keys, as in torch's attention."""
    report = judged(lambda: Plain(layers_with(attention(norm))))
    assert (report.verdict, report.level) == ("conformant", "gradient"), report.notes
    chosen = report.profile["choices"]
    assert (chosen["attention"], chosen.get("norm_q")) == expected
    assert ("ATT-20" in {r.id for r in report.of("pass")}) is (expected[0] == "normed-by-head")


@pytest.mark.parametrize("norm", [nn.LayerNorm, RootMeanSquare])
def test_norms_may_stand_in_front_of_a_scale(norm: Callable[[int], nn.Module]) -> None:
    """As torch's fused attention is written, it multiplies queries and keys by the root of the scale each."""
    report = judged(lambda: Plain(layers_with(fused(norm))))
    assert (report.verdict, report.level) == ("conformant", "gradient"), report.notes
    assert report.profile["choices"]["attention"] == "normed"


class Packed(PlainAttention):
    """One map gives queries, keys and values, and the first two are brought to length √7."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__(width, count)
        del self.query, self.key, self.value
        self.packed = nn.Linear(width, 3 * width)
        self.of_queries, self.of_keys = RootMeanSquare(7), RootMeanSquare(7)

    def split(self, x: Tensor) -> list[Tensor]:
        q, k, v = (part.unflatten(-1, (self.count, -1)).transpose(1, 2) for part in self.packed(x).chunk(3, dim=-1))
        return [self.of_queries(q), self.of_keys(k), v]


def test_norms_may_read_a_part_of_what_one_map_gives() -> None:
    report = judged(lambda: Plain(layers_with(Packed)))
    assert (report.verdict, report.level) == ("conformant", "gradient"), report.notes
    assert report.profile["choices"]["attention"] == "normed"


def test_a_norm_of_the_queries_alone_is_left_open() -> None:
    report = judged(lambda: Plain(layers_with(normed(nn.LayerNorm, keys=False))))
    assert report.verdict == "undetermined"
    assert "its queries are normed, and its keys are not" in str(report.notes)


# Which keys are read, and what is known of their distance --------------------------------


class Within(PlainAttention):
    """Each position reads keys before it and behind it, up to so many of either.

    The fill is finite: padding may leave a padded position none of them.
    """

    def __init__(self, before: int, behind: int, width: int = 28, count: int = 4) -> None:
        super().__init__(width, count)
        self.before, self.behind = before, behind

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        place = torch.arange(q.shape[-2])
        ahead = place - place[:, None]
        return super().score(q, k).masked_fill((ahead > self.behind) | (-ahead > self.before), -1e30)


def encoder_of(*attentions: PlainAttention) -> nn.Module:
    """Return an encoder with an attention in each layer."""
    layers = [PlainPreNorm(28, 4, 44) for _ in attentions]
    for layer, attention in zip(layers, attentions, strict=True):
        layer.attention = attention
    return Plain(layers, nn.LayerNorm(28))


@pytest.mark.parametrize(
    ("attentions", "expected"),
    [
        (lambda: [Within(2, 2)], {"reach": "local", "window": 4.0}),
        (lambda: [Within(70, 70)], {"reach": "local", "window": 140.0}),
        (
            lambda: [PlainAttention(28, 4), Within(3, 3), Within(3, 3), PlainAttention(28, 4)],
            {"reach": "global, local, local, repeated", "window": 6.0},
        ),
        (lambda: [Within(3, 3), Within(9, 9)], {"reach": "local", "window": "6, 18, repeated"}),
    ],
    ids=["narrow", "wider than short inputs", "in turn", "of two widths"],
)
def test_windows_are_a_variant(
    attentions: Callable[[], list[PlainAttention]], expected: dict[str, str | float]
) -> None:
    """Wider ones show in long inputs alone."""
    report = judged(lambda: encoder_of(*attentions()))
    assert (report.verdict, report.level) == ("conformant", "gradient"), report.notes
    assert {name: report.profile["choices"].get(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("attention", "says"),
    [
        (lambda: Within(2, 1), "each position sees 2 others before it and 1 behind it alone"),
        (lambda: Within(999, 0), "each position sees itself and those before it alone (a causal mask)"),
    ],
    ids=["one more before", "causal"],
)
def test_other_reaches_are_wrong_unless_their_owner_declares_them(
    attention: Callable[[], PlainAttention], says: str
) -> None:
    report = judged(lambda: encoder_of(attention()))
    assert (report.verdict, report.departs_at) == ("nonconformant", "attention.global_reach"), report.notes
    assert says in str([r.message for r in report.of("fail")])


def test_a_causal_encoder_is_right_where_its_owner_declares_it() -> None:
    """The profile says so, and all else agrees."""
    causal = TORCH_PRE_LN.replace(name="causal", reach="causal")
    report = check(lambda: encoder_of(Within(999, 0)), profile=causal).targets[0]
    assert report.verdict == "conformant", [r.message for r in report.of("fail")]
    assert "MASK-11" in {r.id for r in report.of("pass")}


class WithTable(PlainAttention):
    """Adds an entry of a table to each score: of 8 rows, up to distance 16."""

    def __init__(self, table: nn.Embedding, row_of: Callable[[Tensor], Tensor]) -> None:
        super().__init__(28, 4)
        self.table, self.row_of = table, row_of

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        place = torch.arange(q.shape[-2])
        bias: Tensor = self.table(self.row_of(place - place[:, None]))
        return super().score(q, k) + bias.permute(2, 0, 1)


def in_buckets(ahead: Tensor) -> Tensor:
    """Rows 0 and 1 for themselves, 2 from distance 2 on, 3 from 2 · 8^½ = 5.66 on; four more for keys behind."""
    distance = ahead.abs()
    return 4 * (ahead > 0) + distance.clamp(max=2) + (distance > 5)


@pytest.mark.parametrize("is_shared", [True, False], ids=["one table", "one for each layer"])
def test_tables_of_distances_are_a_variant(is_shared: bool) -> None:
    """The rows are those of distances up to 16, and the table may be one for all layers."""

    def make() -> nn.Module:
        tables = [nn.Embedding(8, 4) for _ in range(2)]
        return encoder_of(*(WithTable(tables[0 if is_shared else l], in_buckets) for l in range(2)))

    report = judged(make)
    assert (report.verdict, report.level) == ("conformant", "gradient"), report.notes
    chosen = report.profile["choices"]
    expected = ("bucketed", 16.0, "bias" if is_shared else "none")
    assert (chosen["bias"], chosen["max_distance"], chosen["sharing"]) == expected


@pytest.mark.parametrize(
    ("row_of", "verdict", "says"),
    [
        (lambda ahead: in_buckets(-ahead), "nonconformant", "is read from the key to the query"),
        (lambda ahead: ahead.abs() % 8, "undetermined", "whose rows tell no distances in buckets"),
        (
            lambda ahead: in_buckets(ahead) ^ (ahead.abs() > 0),
            "nonconformant",
            "a key at k − j = 1 reads row 4 of the table of distances, where row 5 belongs",
        ),
    ],
    ids=["the other way round", "none of distances", "another row"],
)
def test_other_rows_are_named(row_of: Callable[[Tensor], Tensor], verdict: str, says: str) -> None:
    report = judged(lambda: encoder_of(WithTable(nn.Embedding(8, 4), row_of)))
    assert report.verdict == verdict
    assert says in str(report.notes) + str([r.message for r in report.of("fail")])


@pytest.mark.parametrize(
    ("rows", "row_of"),
    [
        (81, lambda ahead: ahead + 40),
        (81, lambda ahead: 40 - ahead),
        (82, lambda ahead: ahead + 40),
        (82, lambda ahead: ahead + 41),
        (7, lambda ahead: ahead.clamp(-3, 3) + 3),
        (19, lambda ahead: 9 - ahead.clamp(-9, 9)),
    ],
    ids=["each distance", "from the other end", "a spare row", "a row more before", "clipped", "clipped far away"],
)
def test_tables_with_a_row_for_each_distance_are_a_variant(rows: int, row_of: Callable[[Tensor], Tensor]) -> None:
    """A learned table may tell distances from either end; which end is which, its numbers say."""
    report = judged(lambda: encoder_of(WithTable(nn.Embedding(rows, 4), row_of)))
    assert (report.verdict, report.level) == ("conformant", "gradient"), report.notes
    assert report.profile["choices"]["bias"] == "by-distance"


class OnGrid(WithTable):
    """Adds an entry of a table to each score, by how far patches of a 4 × 4 grid lie apart."""

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        y, x = torch.arange(16) // 4, torch.arange(16) % 4
        bias: Tensor = self.table(self.row_of(7 * (y[:, None] - y + 3) + x[:, None] - x + 3))
        return PlainAttention.score(self, q, k) + bias.permute(2, 0, 1)


class OfPatches(nn.Module):
    """Layers behind patches of 2 × 2 pixels, without a class token."""

    def __init__(self, attention: PlainAttention) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 28, 2, 2)
        self.layers = encoder_of(attention)

    def forward(self, images: Tensor) -> Tensor:
        x: Tensor = self.layers(self.patches(images).flatten(2).transpose(1, 2))
        return x


@pytest.mark.parametrize(
    ("row_of", "verdict"),
    [(lambda row: row, "conformant"), (lambda row: 48 - row, "conformant"), (lambda row: row // 2, "undetermined")],
    ids=["as in Swin", "from the other end", "two places in one row"],
)
def test_tables_of_places_on_a_grid_are_a_variant(row_of: Callable[[Tensor], Tensor], verdict: str) -> None:
    """The image has 4 × 4 patches, so that 7 · 7 rows tell where one lies from another."""
    report = judged(lambda: OfPatches(OnGrid(nn.Embedding(49, 4), row_of)))
    assert report.verdict == verdict, report.notes
    if verdict == "conformant":
        assert report.profile["choices"]["bias"] == "by-grid"


class Grouped(PlainAttention):
    """Fewer heads of keys and values than the four of queries."""

    def __init__(self, groups: int, repeated: Callable[[Tensor], Tensor]) -> None:
        super().__init__(28, 4)
        self.key, self.value, self.repeated = nn.Linear(28, 7 * groups), nn.Linear(28, 7 * groups), repeated

    def split(self, x: Tensor) -> list[Tensor]:
        q, k, v = (m(x).unflatten(-1, (-1, 7)).transpose(1, 2) for m in (self.query, self.key, self.value))
        return [q, self.repeated(k), self.repeated(v)]


@pytest.mark.parametrize(
    ("groups", "repeated"),
    [
        (2, lambda x: x.repeat_interleave(2, 1)),
        (2, lambda x: x[:, :, None].expand(-1, -1, 2, -1, -1).flatten(1, 2)),
        (1, lambda x: x),
        (1, lambda x: x.expand(-1, 4, -1, -1)),
    ],
    ids=["repeated", "expanded", "one, broadcast", "one, expanded"],
)
def test_heads_that_share_keys_are_a_variant(groups: int, repeated: Callable[[Tensor], Tensor]) -> None:
    """However the keys are handed to several heads of queries."""
    report = judged(lambda: encoder_of(*(Grouped(groups, repeated) for _ in range(2))))
    assert (report.verdict, report.level) == ("conformant", "gradient"), report.notes
    assert report.profile["choices"]["num_key_value_heads"] == groups
    assert {"MH-9", "MH-11"} <= {r.id for r in report.of("pass")}


class NormedWhenRepeated(Grouped):
    """Keys are repeated for the heads that share them, and normed in each of these."""

    def __init__(self) -> None:
        super().__init__(2, lambda x: x.repeat_interleave(2, 1))
        self.of_queries, self.of_keys = RootMeanSquare(7), RootMeanSquare(7)

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        return super().score(self.of_queries(q), self.of_keys(k))


def test_what_is_normed_may_be_repeated() -> None:
    report = judged(lambda: encoder_of(*(NormedWhenRepeated() for _ in range(2))))
    assert (report.verdict, report.level) == ("conformant", "gradient"), report.notes
    chosen = report.profile["choices"]
    assert (chosen["attention"], chosen["num_key_value_heads"]) == ("normed", 2)


class InOneProduct(Grouped):
    """Queries of the heads that share keys stand below one another, so that one product has the scores of all."""

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        q, k, v = (m(x).unflatten(-1, (-1, 7)).transpose(1, 2) for m in (self.query, self.key, self.value))
        apart = q.unflatten(1, (k.shape[1], -1))
        scores = torch.einsum("bghid,bgjd->bghij", apart, k) / self.scale
        if hidden is not None:
            scores = scores.masked_fill(hidden[:, :, None], -torch.inf)
        heads = torch.einsum("bghij,bgjd->bghid", scores.softmax(-1), v)
        return self.out(self.merge(heads.flatten(1, 2)))


@pytest.mark.parametrize("groups", [1, 2])
def test_the_scores_of_several_heads_may_be_one_product(groups: int) -> None:
    report = judged(lambda: encoder_of(*(InOneProduct(groups, lambda x: x) for _ in range(2))))
    assert (report.verdict, report.level) == ("conformant", "gradient"), report.notes
    assert report.profile["choices"]["num_key_value_heads"] == groups


def test_heads_that_share_keys_in_some_layers_alone_are_left_open() -> None:
    report = judged(lambda: encoder_of(Grouped(2, lambda x: x.repeat_interleave(2, 1)), PlainAttention(28, 4)))
    assert report.verdict == "undetermined"


def test_heads_that_share_keys_in_another_order_are_wrong() -> None:
    """Repeated as a whole, the second head of queries reads the second one of keys."""
    report = judged(lambda: encoder_of(*(Grouped(2, lambda x: x.repeat(1, 2, 1, 1)) for _ in range(2))))
    assert (report.verdict, report.departs_at) == ("nonconformant", "multihead.groups"), report.notes
    assert "head 1 reads head 1 of the 2 of keys and values, where 0 belongs" in str(report.of("fail"))

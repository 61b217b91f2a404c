"""Encoders that compute a part of themselves in float32, whatever they are given: judged there, as strictly."""

import torch
from torch import Tensor, nn

from conformance_tests.engine.judging import check
from conformance_tests.meta_tests.encoders.subjects import Attention, Encoder, Layer
from conformance_tests.targets.builtin import torch_encoder

NOTE = "computes a part in float32 whatever it is given: judged in float32"


class SoftmaxInSinglePrecision(Attention):
    """The softmax is computed in float32, as many encoders do for the sake of float16."""

    def weigh(self, scores: Tensor, pad: Tensor | None) -> Tensor:
        return scores.float().softmax(-1).to(scores.dtype)


class ScaledByModelWidth(SoftmaxInSinglePrecision):
    """The same, and the scores, right at first, are divided by √h as well."""

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        return super().score(q, k) / self.num_heads**0.5


def with_attention(attention: type[Attention]) -> Encoder:
    """An encoder of layers with this attention."""
    layer = type("Layer", (Layer,), {"attention": attention})
    return type("Encoder", (Encoder,), {"layer": layer})()


class PositionsInSinglePrecision(nn.Module):
    """The sinusoids are computed anew in each call, in the default precision."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(31, 12)
        layer = nn.TransformerEncoderLayer(12, 3, 22, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, ids: Tensor) -> Tensor:
        exponents = torch.arange(0, 12, 2, dtype=torch.float32) / 12
        angles = torch.arange(ids.shape[1], dtype=torch.float32)[:, None] / 10000**exponents
        positions = torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)
        hidden: Tensor = self.encoder(self.embedding(ids) + positions)
        return hidden


class TooLarge(nn.Module):
    """Multiplies the output of an encoder by 1.01."""

    def forward(self, hidden: Tensor) -> Tensor:
        return 1.01 * hidden


def test_encoder_with_a_part_in_float32_is_judged_in_float32() -> None:
    """float64 would call its roundoff a defect; the report says where it was judged, and how far that reaches."""
    target = check(with_attention(SoftmaxInSinglePrecision)).targets[0]
    assert (target.verdict, target.dtype, target.level) == ("conformant", "float32", "agreement"), target.notes
    assert NOTE in target.notes


def test_positions_made_in_float32_are_judged_as_they_are() -> None:
    """They do not depend on the input: all else is judged in float64, gradients too, with these numbers."""
    target = check(PositionsInSinglePrecision()).targets[0]
    assert (target.verdict, target.dtype, target.level) == ("conformant", "float64", "gradient"), target.notes
    assert "keeps its sinusoidal positions as a table (P): compared as stored" in target.notes


class InOnePrecision(nn.Module):
    """Refuses numbers in another precision, or ends the process."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(12, 3, 22, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.only, self.seen = dtype, set[torch.dtype]()

    def forward(self, x: Tensor, src_key_padding_mask: Tensor | None = None) -> Tensor:
        if x.is_floating_point():
            self.seen.add(x.dtype)
            assert x.dtype is self.only
        hidden: Tensor = self.encoder(x, src_key_padding_mask=src_key_padding_mask)
        return hidden


def test_a_precision_that_is_asked_for_holds_from_the_first_call_on() -> None:
    """An encoder that can be called in no other one is judged there, and never called in another."""
    encoder = InOnePrecision(torch.float32)
    target = check(encoder, dtype="float32").targets[0]
    assert (target.verdict, target.dtype) == ("conformant", "float32"), target.notes
    assert encoder.seen == {torch.float32}


def test_an_encoder_that_runs_in_half_precision_alone_is_judged_there() -> None:
    target = check(InOnePrecision(torch.bfloat16), dtype="bfloat16").targets[0]
    assert (target.verdict, target.dtype) == ("conformant", "bfloat16"), target.notes


def test_a_wrong_equation_is_seen_where_one_precision_alone_is_asked_for() -> None:
    class DropsItsMask(InOnePrecision):
        def forward(self, x: Tensor, src_key_padding_mask: Tensor | None = None) -> Tensor:
            return super().forward(x)

    assert check(DropsItsMask(torch.float32), dtype="float32").verdict == "nonconformant"


def test_precision_that_is_asked_for_is_kept() -> None:
    """Who wants float64 is told that the encoder does not reach it; for what reason takes longer, and is no matter."""
    target = check(with_attention(SoftmaxInSinglePrecision), dtype="float64", explain=False).targets[0]
    assert (target.verdict, target.dtype) == ("nonconformant", "float64")


def test_part_in_float32_does_not_acquit_a_wrong_equation() -> None:
    """The defect is far above the budget of float32, and the rounding hides neither its cause nor its place."""
    target = check(with_attention(ScaledByModelWidth)).targets[0]
    assert target.verdict == "nonconformant"
    assert target.departs_at == "attention.scores"
    assert "the scores are multiplied by 0.182574, where 1/√6 = 0.408248 belongs" in target.diagnosis[0]["says"]


def test_what_is_rounded_does_not_stand_beside_what_is_wrong() -> None:
    """The weights of the attention differ from those of float64 by 10⁻⁷, and are right all the same."""
    target = check(nn.Sequential(with_attention(SoftmaxInSinglePrecision), TooLarge())).targets[0]
    assert (target.verdict, target.dtype) == ("nonconformant", "float32")
    assert target.departs_at == "norm.layer_norm"
    assert not any(r.id.startswith("ATT-") for r in target.of("fail"))


def test_queries_that_are_scaled_first_are_no_defect_in_half_precision() -> None:
    """Two keys compete with scores of 23 and 22 out of terms as large as 869: how the queries round decides.

    torch scales them first where it records no gradients, and is off by 0.041; orders of sums alone spread by 0.006.
    """
    target = check(torch_encoder(), seed=2, dtype="float16").targets[0]
    assert target.verdict == "conformant", [r.message for r in target.of("fail")]

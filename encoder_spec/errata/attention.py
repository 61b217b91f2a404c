"""Errata on scores, masks and positions."""

import math
from itertools import product

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from encoder_spec.assembly import Encoder
from encoder_spec.dimensions import Dimensions
from encoder_spec.errata.erratum import (
    BATCH,
    LENGTH,
    SMALL,
    Finding,
    Findings,
    distance,
    embeddings,
    erratum,
    numbers,
    parameters,
)
from encoder_spec.profiles import VASWANI_2017


def masked_where_true(S: Float[Tensor, "B h n n"], keep: Bool[Tensor, "#B #n #n"]) -> Float[Tensor, "B h n n"]:
    """A mask that marks valid positions, read as one that marks what to ignore."""
    return S.masked_fill(keep[:, None], -torch.inf)


def torch_attention(values: dict[str, Tensor], encoder: Encoder) -> nn.MultiheadAttention:
    """The attention module that S2's layer calls, with the parameters of the first layer."""
    sizes = encoder.dimensions
    module = nn.MultiheadAttention(sizes.d_model, sizes.h, batch_first=True, dtype=torch.float64)
    stacked = {
        "in_proj_weight": torch.cat([values[f"layers.0.W_{letter}"].T for letter in "QKV"]),
        "in_proj_bias": torch.cat([values[f"layers.0.b_{letter}"] for letter in "QKV"]),
        "out_proj.weight": values["layers.0.W_O"].T,
        "out_proj.bias": values["layers.0.b_O"],
    }
    module.load_state_dict(stacked)
    return module.requires_grad_(False)


@erratum(
    "ERR-4",
    "The polarity of the mask",
    source="S2 §3.1, S2 §4.1, S2 §6",
    said="src_mask is 1 at valid positions and 0 at padding, and is passed as key_padding_mask. "
    "(The pseudo-code of S2 §3.1 masks where mask == 0, which is right.)",
    right="key_padding_mask is True where a key is to be ignored: pass src_mask == 0. As written, exactly the valid "
    "positions are ignored, and a sequence without padding has no key left: 0/0, NaN. A mask of floats 1 and 0 is "
    "added to the scores instead and ignores nothing; one of integers is refused.",
    equations=("attention.mask", "attention.weights"),
)
def mask_polarity() -> Findings:
    """Run the library's attention both ways; the slot of the mask with the wrong polarity does the same."""
    values, x = parameters(SMALL), embeddings()
    library = torch_attention(values, SMALL)
    valid = torch.arange(LENGTH) < torch.tensor([[5], [3]])
    everywhere = torch.ones(BATCH, LENGTH, dtype=torch.bool)

    def called_with(key_padding_mask: Tensor) -> tuple[Tensor, Tensor]:
        output, weights = library(x, x, x, key_padding_mask=key_padding_mask)
        return output, weights

    def in_slot(encoder: Encoder) -> Tensor:
        output: Tensor = encoder.trace(values, x, keep=valid).of("multihead")[0]
        return output

    def on_padding(weights: Tensor) -> float:
        return float((weights * ~valid[:, None]).sum(-1).mean())

    def not_finite(output: Tensor) -> int:
        return int((~output.isfinite()).sum())

    said, right = called_with(valid), called_with(~valid)
    return (
        Finding("weight on padding", on_padding(said[1]), on_padding(right[1])),
        Finding("the same, mask of floats", on_padding(called_with(valid.double())[1]), on_padding(right[1])),
        Finding(
            "entries that are NaN, without padding",
            not_finite(called_with(everywhere)[0]),
            not_finite(called_with(~everywhere)[0]),
        ),
        Finding(
            "difference of the library's call from the equation in the slot",
            distance(said[0], in_slot(SMALL.replace(mask=masked_where_true))),
            distance(right[0], in_slot(SMALL)),
        ),
    )


def masked_by_rows(S: Float[Tensor, "B h n n"], keep: Bool[Tensor, "#B #n #n"]) -> Float[Tensor, "B h n n"]:
    """A (B, n) mask on scores (…, n, n): broadcasting sets its batch axis against the axis of queries."""
    return S.masked_fill(~keep[:, 0], -torch.inf)


@erratum(
    "ERR-17",
    "The axes of the mask",
    source="S2 §3.1, S2 §4.1",
    said="The mask has shape [B, S] and fills the scores [B, S, S] as it is.",
    right="It needs an axis for the queries, [B, 1, S]. Without one it fails unless B is 1 or S, and for B = S it "
    "silently gives query b of every sequence the mask of sequence b.",
    equations=("attention.mask",),
)
def mask_axes() -> Findings:
    """Three sequences of three tokens, equal scores; only token 2 of sequence 0 is padding."""
    values = parameters(SMALL)
    values["layers.0.W_Q"] = torch.zeros_like(values["layers.0.W_Q"])
    values["layers.0.b_Q"] = torch.zeros_like(values["layers.0.b_Q"])
    x = numbers(3, 3, SMALL.dimensions.d_model)
    valid = torch.tensor([[True, True, False], [True, True, True], [True, True, True]])

    def weights(encoder: Encoder) -> Tensor:
        A: Tensor = encoder.trace(values, x, keep=valid).of("attention.weights")[0]
        return A[:, 0]

    said, right = weights(SMALL.replace(mask=masked_by_rows)), weights(SMALL)
    return (
        Finding("sequence 0, query 1: weight on the padding", float(said[0, 1, 2]), float(right[0, 1, 2])),
        Finding("sequence 1, query 0: weight on its valid token 2", float(said[1, 0, 2]), float(right[1, 0, 2])),
    )


def scores_of_two_heads_together(Q: Float[Tensor, "B 1 n width"], K: Float[Tensor, "B 1 n width"]) -> Tensor:
    """Products over the width of two heads, divided by √d_k of one."""
    return Q @ K.mT / math.sqrt(Q.shape[-1] / 2)


@erratum(
    "ERR-16",
    "The transpose and the width of the scores",
    source="S2 §3.1",
    said="scores = Q @ K.T / sqrt(d_k), with Q and K of shape [B, S, d_model] and d_k the width of a head.",
    right="Only the last two axes of K are exchanged, and each head has scores of its own, of its own width d_k. "
    "K.T reverses all three axes, so that the product is undefined; over the whole width d_model, √d_k leaves the "
    "scores with variance h instead of 1.",
    equations=("attention.scores", "multihead.split"),
)
def full_width_scores() -> Findings:
    """The shape of the transposed keys; the variance of S over all q, k with entries ±1, d_model = 4, h = 2."""
    K = embeddings()
    sizes = Dimensions(d_model=4, h=2)

    def variance(encoder: Encoder, width: int) -> float:
        every = torch.tensor(list(product((-1.0, 1.0), repeat=width)), dtype=torch.float64)[None, None]
        return float(encoder.bind({}, slot="scores")(every, every).square().mean())

    wrong = SMALL.replace(scores=scores_of_two_heads_together)
    return (
        Finding("shape of the keys after the transpose", str(tuple(K.permute(2, 1, 0).shape)), str(tuple(K.mT.shape))),
        Finding("variance of the scores", variance(wrong, sizes.d_model), variance(SMALL, sizes.d_k)),
    )


def uniform_weights(S: Float[Tensor, "B h n n"]) -> Float[Tensor, "B h n n"]:
    """Weights that really are insensitive to position: each query averages all values."""
    return torch.ones_like(S) / S.shape[-1]


@erratum(
    "ERR-13",
    "Insensitive to position",
    source="S4 §3.3",
    said="Self-attention is insensitive to position, which is listed as an advantage.",
    right="It is permutation-equivariant: permuted tokens give equally permuted outputs, so each output still belongs "
    "to its token, but no output knows where its token stood. That is why positions are added.",
    equations=("multihead", "position.sinusoidal", "embedding.input"),
)
def equivariance() -> Findings:
    """Reverse the tokens; compare the attention sublayer's outputs place by place and token by token."""
    values, x = parameters(SMALL), embeddings()
    PE = Encoder(VASWANI_2017, SMALL.dimensions).bind({}, slot="position")(x)
    insensitive = SMALL.replace(weights=uniform_weights)

    def sublayer(encoder: Encoder, x: Tensor) -> Tensor:
        output: Tensor = encoder.trace(values, x).of("multihead")[0]
        return output

    def by_place(encoder: Encoder) -> float:
        return distance(sublayer(encoder, x), sublayer(encoder, x.flip(1)))

    def by_token(encoder: Encoder, positions: Tensor) -> float:
        return distance(sublayer(encoder, x + positions), sublayer(encoder, x.flip(1) + positions).flip(1))

    return (
        Finding("change at each place", by_place(insensitive), by_place(SMALL)),
        Finding("change at each token", by_token(insensitive, 0 * PE), by_token(SMALL, 0 * PE)),
        Finding("change at each token, positions added", by_token(insensitive, PE), by_token(SMALL, PE)),
    )

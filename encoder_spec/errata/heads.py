"""Errata on several heads."""

import torch
from jaxtyping import Float
from torch import Tensor

from encoder_spec.assembly import Encoder
from encoder_spec.errata.attention import torch_attention
from encoder_spec.errata.erratum import SMALL, Finding, Findings, distance, embeddings, entries, erratum, parameters


def split_in_place(X: Float[Tensor, "B n hd"], *, h: int) -> Float[Tensor, "B n h d_head"]:
    """S3's split: the head axis stays behind the positions."""
    return X.view(*X.shape[:-1], h, -1)


def joined_in_place(heads: Float[Tensor, "B n h d_v"]) -> Float[Tensor, "B n hd_v"]:
    """S3's concatenation, which undoes that split."""
    return heads.flatten(-2)


@erratum(
    "ERR-5",
    "Heads that attend to heads",
    source="S3 §2",
    said="Q, K, V are viewed as (batch, seq_len, num_heads, d_k) and go into the attention as they are.",
    right="The head axis moves in front of the positions first: (B, h, n, d_k). Otherwise the scores are (B, n, h, h): "
    "at each position the heads attend to each other, and no position ever sees another.",
    equations=("multihead.split", "multihead.concat", "attention.scores"),
)
def heads_attend_to_heads() -> Findings:
    """Shape of the scores; influence of the last position on the first; agreement with torch's attention."""
    values, x = parameters(SMALL), embeddings()
    changed = x.clone()
    changed[:, -1] += 1
    wrong = SMALL.replace(split=split_in_place, merge=joined_in_place)

    def shape(encoder: Encoder) -> str:
        return str(tuple(encoder.trace(values, x).of("attention.scores")[0].shape))

    def influence(encoder: Encoder) -> float:
        return distance(encoder(values, x)[:, 0], encoder(values, changed)[:, 0])

    def from_library(encoder: Encoder) -> float:
        return distance(encoder.trace(values, x).of("multihead")[0], torch_attention(values, encoder)(x, x, x)[0])

    return (
        Finding("shape of the scores, B = 2, n = 7, h = 3", shape(wrong), shape(SMALL)),
        Finding("influence of the last position on the first", influence(wrong), influence(SMALL)),
        Finding("distance of the sublayer's output from the library's", from_library(wrong), from_library(SMALL)),
    )


def projections_of_one_head(
    X: Float[Tensor, "B n d_model"],
    *,
    W_Q: Float[Tensor, "d_model d_k"],
    W_K: Float[Tensor, "d_model d_k"],
    W_V: Float[Tensor, "d_model d_v"],
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of a single head."""
    return X @ W_Q, X @ W_K, X @ W_V


def unsplit(X: Float[Tensor, "B n d_head"]) -> Float[Tensor, "B 1 n d_head"]:
    """One head, in the place of the head axis."""
    return X[:, None]


@erratum(
    "ERR-15",
    "One head in the place of all",
    source="S1 §7, S1 §9, S4 §4.3",
    said="S1's summary of a layer is LayerNorm(Z + A V W_O), with W_V of shape D × D/h. "
    "S4's worked example adds Att(H₀), of shape n × d_k, to H₀, of shape n × d.",
    right="A V has d_v = d_model/h columns, too few for W_O and for the residual: it takes all heads, "
    "Concat(A₁V₁, …, A_hV_h) W_O. The formulas hold as written for h = 1 alone.",
    equations=("multihead.concat", "multihead.output", "residual"),
)
def one_head() -> Findings:
    """Columns of what W_O multiplies, and attention matrices in a layer, for d_model = 15, h = 3."""
    x = embeddings()
    one = SMALL.replace(projections=projections_of_one_head, split=unsplit)

    def merged(encoder: Encoder) -> Tensor:
        values = {p.removeprefix("layers.0."): array for p, array in parameters(encoder).items()}
        Q, K, V = (encoder.bind(values, slot="split")(X) for X in encoder.bind(values, slot="projections")(x))
        keep = torch.ones(1, 1, 1, dtype=torch.bool)
        output: Tensor = encoder.bind(values, slot="attention")(Q, K, V, keep)
        return output

    rows, width = SMALL.parameter_shapes()["layers.0.W_O"]
    return (
        Finding(f"columns that W_O, of {rows} rows, multiplies", *(joined(merged(e)) for e in (one, SMALL))),
        Finding(f"columns added to the residual's {width}", joined(merged(one)), width),
        Finding("attention matrices of a layer", merged(one).shape[1], merged(SMALL).shape[1]),
    )


def joined(heads: Tensor) -> int:
    """The columns of the heads side by side."""
    return int(heads.shape[1] * heads.shape[-1])


def equal_heads(
    X: Float[Tensor, "B n d_model"],
    *,
    W_Q: Float[Tensor, "d_model d_k"],
    W_K: Float[Tensor, "d_model d_k"],
    W_V: Float[Tensor, "d_model d_v"],
) -> tuple[Tensor, Tensor, Tensor]:
    """S4's heads: head_j = Att(H) for every j, with one W_Q, W_K, W_V."""
    h = SMALL.dimensions.h
    return (X @ W_Q).tile(h), (X @ W_K).tile(h), (X @ W_V).tile(h)


@erratum(
    "ERR-23",
    "Heads without an index",
    source="S4 §4.2",
    said="head_j = Att(H) for j = 1 … h, where Att uses one W_Q, W_K and W_V of shape d × d_k.",
    right="Each head has projections of its own: head_j = Attention(H W_j^Q, H W_j^K, H W_j^V). "
    "Without the index all heads are equal, and their concatenation has rank at most d_k.",
    equations=("multihead", "attention.projections_without_bias"),
)
def heads_without_index() -> Findings:
    """Rank of the concatenated heads over 22 positions; difference of two heads; entries of the projections."""
    wrong, right = SMALL.replace(projections=equal_heads), SMALL.replace(projections="linear")
    x = embeddings(length=11)

    def merged(encoder: Encoder) -> Tensor:
        C: Tensor = encoder.trace(parameters(encoder), x).of("multihead.concat")[0]
        return C

    def rank(encoder: Encoder) -> int:
        return int(torch.linalg.matrix_rank(merged(encoder).flatten(0, 1)))

    def between_heads(encoder: Encoder) -> float:
        first, second, _ = merged(encoder).chunk(SMALL.dimensions.h, dim=-1)
        return distance(first, second)

    def projections(encoder: Encoder) -> int:
        return entries(encoder, "multihead", owner="projections")

    return (
        Finding("rank of the concatenation, h = 3, d_k = 5", rank(wrong), rank(right)),
        Finding("difference of heads 1 and 2", between_heads(wrong), between_heads(right)),
        Finding("entries of W_Q, W_K and W_V", projections(wrong), projections(right)),
    )

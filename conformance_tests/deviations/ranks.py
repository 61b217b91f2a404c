"""Wrong encoders that are spread over processes: each is wrong by how many processes share its work.

Where a sum over the processes is missing, each goes on with different hidden states. They are computed side by side
here, along the batch; the encoder is judged by those of the first process.
"""

import math
from collections.abc import Callable, Collection, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from conformance_tests.deviations import Deviation, deviation, enter
from encoder_spec.equation import Equation

AFFINE, FFN = "multihead.output", "ffn"

RANKS = (2, 4)
"""Numbers of processes; one more is one more deviation of each kind."""

BIAS = ("huggingface/text-generation-inference#1036", "awslabs/slapo#10", "Wenyueh/MinivLLM#80")
HEADS = ("NVIDIA/TensorRT-LLM#4308", "huggingface/transformers#34789")
SUM = ("FlashML-org/FreeToken#429", "FlashML-org/FreeToken#440", "sgl-project/sglang#14811")

Function = Callable[..., Tensor]


def repeated(bias: Tensor, ranks: int) -> Tensor:
    """Return a bias that each process adds before the sum; each learns its own copy, as from one alone."""
    return bias + (ranks - 1) * bias.detach()


def bias_of_output(ranks: int) -> Function:
    """Return the output projection whose bias each process adds."""

    def output(C: Tensor, *, W_O: Float[Tensor, "hd_v d_model"], b_O: Float[Tensor, "d_model"]) -> Tensor:
        return C @ W_O + repeated(b_O, ranks)

    return output


def bias_of_network(ranks: int) -> Function:
    """Return the feed-forward network whose last bias each process adds."""

    def network(
        x: Tensor,
        *,
        activation: Function,
        W_1: Float[Tensor, "d_model d_ff"],
        b_1: Float[Tensor, "d_ff"],
        W_2: Float[Tensor, "d_ff d_model"],
        b_2: Float[Tensor, "d_model"],
    ) -> Tensor:
        return activation(x @ W_1 + b_1) @ W_2 + repeated(b_2, ranks)

    return network


def cut_inside(ranks: int) -> Function:
    """Return the attention of heads that are cut along their features, one piece for each process."""

    def attention(
        Q: Tensor,
        K: Tensor,
        V: Tensor,
        keep: Tensor,
        *,
        rotation: Function,
        scores: Function,
        bias: Function,
        reach: Function,
        mask: Function,
        weights: Function,
        values: Function,
    ) -> Tensor:
        cut = zip(*(X.tensor_split(ranks, dim=-1) for X in (rotation(Q), rotation(K), V)), strict=True)
        # The scale is that of a whole head: the pieces of its scores lack nothing but their sum.
        pieces = [(q * math.sqrt(q.shape[-1] / Q.shape[-1]), k, v) for q, k, v in cut]
        return torch.cat([values(weights(mask(reach(bias(scores(q, k))), keep)), v) for q, k, v in pieces], dim=-1)

    return attention


def scaled_as_whole(ranks: int) -> Function:
    """Return scores that are divided by the root of the width that a head has beyond one process."""

    def scores(Q: Tensor, K: Tensor) -> Tensor:
        return Q @ K.mT / math.sqrt(ranks * Q.shape[-1])

    return scores


def side_by_side(ranks: int) -> Function:
    """Return the encoder in which each process has separate hidden states; those of the first count."""

    def stack(
        keep: Tensor,
        *inputs: Tensor,
        input: Function,
        layers: Sequence[Function],
        final_norm: Function,
        head: Function,
    ) -> Tensor:
        X = input(*inputs)
        several = keep if len(keep) == 1 else keep.repeat(ranks, 1, 1)
        Y = X.repeat(ranks, 1, 1)
        for layer in layers:
            Y = layer(Y, several)
        return head(final_norm(Y[: len(X)]), keep)

    return stack


def of_each(x: Tensor, ranks: int) -> Tensor:
    """Return the features that each process has, with zeros in the place of others: (ranks, B, n, features)."""
    owner = torch.arange(x.shape[-1], device=x.device) * ranks // x.shape[-1]
    own = owner == torch.arange(ranks, device=x.device)[:, None]
    return x.unflatten(0, (ranks, -1)) * own[:, None, None]


def joined(parts: Tensor, *, summed: bool) -> Tensor:
    """Return what each process goes on with: the sum, or its own part; (ranks·B, n, features)."""
    return (parts.sum(0, keepdim=True).expand_as(parts) if summed else parts).flatten(0, 1)


def output_of_ranks(ranks: int, *, summed: bool) -> Function:
    """Return the output projection of processes that sum their parts, or do not."""

    def output(C: Tensor, *, W_O: Float[Tensor, "hd_v d_model"], b_O: Float[Tensor, "d_model"]) -> Tensor:
        return joined(of_each(C, ranks) @ W_O, summed=summed) + b_O

    return output


def network_of_ranks(ranks: int, *, summed: bool) -> Function:
    """Return the feed-forward network of processes that sum their parts, or do not."""

    def network(
        x: Tensor,
        *,
        activation: Function,
        W_1: Float[Tensor, "d_model d_ff"],
        b_1: Float[Tensor, "d_ff"],
        W_2: Float[Tensor, "d_ff d_model"],
        b_2: Float[Tensor, "d_model"],
    ) -> Tensor:
        return joined(of_each(activation(x @ W_1 + b_1), ranks) @ W_2, summed=summed) + b_2

    return network


def without_sums(
    id: str, says: str, of: str, noticed_by: tuple[str, ...], ranks: int, missing: Collection[str]
) -> None:
    """Put an encoder into the catalogue in which some sums over the processes are missing.

    Args:
        id: its name.
        says: what it computes.
        of: the equation whose sum is missing.
        noticed_by: requirements, at least one of which must fail.
        ranks: the number of processes.
        missing: the slots whose sums are missing.
    """
    functions = {
        "stack": side_by_side(ranks),
        "output": output_of_ranks(ranks, summed="output" not in missing),
        "ffn": network_of_ranks(ranks, summed="ffn" not in missing),
    }
    replaces = {slot: Equation(f"deviation.{id}", slot, id, function) for slot, function in functions.items()}
    enter(Deviation(id, says, (of,), noticed_by, replaces, SUM, ranks))


for ranks in RANKS:
    deviation(
        f"output-bias-on-each-of-{ranks}-ranks",
        AFFINE,
        "MH-4",
        BIAS,
        definition=f"Each of {ranks} processes adds the output projection's bias before their sum.",
        ranks=ranks,
    )(bias_of_output(ranks))
    deviation(
        f"ffn-bias-on-each-of-{ranks}-ranks",
        FFN,
        "FFN-6",
        BIAS,
        definition=f"Each of {ranks} processes adds the feed-forward network's last bias before their sum.",
        ranks=ranks,
    )(bias_of_network(ranks))
    deviation(
        f"heads-cut-inside-on-{ranks}-ranks",
        "attention",
        ("ATT-3", "ATT-10", "ENC-2"),
        HEADS,
        definition=f"Each of {ranks} processes has a part of every head's features, instead of some heads.",
        ranks=ranks,
    )(cut_inside(ranks))
    deviation(
        f"scores-of-heads-cut-inside-on-{ranks}-ranks",
        "attention.scores",
        "ATT-3",
        HEADS,
        definition=f"Each head is one of {ranks} pieces of a head, by whose whole width the scores are scaled.",
        ranks=ranks,
    )(scaled_as_whole(ranks))
    without_sums(
        f"output-not-summed-over-{ranks}-ranks",
        f"Each of {ranks} processes goes on with the output projection of its heads alone (no all-reduce).",
        AFFINE,
        ("MH-4", "ENC-2"),
        ranks,
        ["output"],
    )
    without_sums(
        f"ffn-not-summed-over-{ranks}-ranks",
        f"Each of {ranks} processes goes on with its part of the feed-forward network (no all-reduce).",
        FFN,
        ("FFN-6", "ENC-2"),
        ranks,
        ["ffn"],
    )
    without_sums(
        f"nothing-summed-over-{ranks}-ranks",
        f"Each of {ranks} processes computes its heads and inner features alone (no all-reduce at all).",
        AFFINE,
        ("MH-4", "ENC-2"),
        ranks,
        ["output", "ffn"],
    )

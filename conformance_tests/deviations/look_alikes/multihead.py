"""Other computations of projections, heads and the sublayer that they make."""

from collections.abc import Callable
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from conformance_tests.deviations.look_alikes import look_alike

PROJECTIONS = "attention.projections"

F: TypeAlias = Callable[..., Tensor]
Map: TypeAlias = Float[Tensor, "d_model hd_k"]
ValueMap: TypeAlias = Float[Tensor, "d_model hd_v"]
Bias: TypeAlias = Float[Tensor, "hd_k"]
ValueBias: TypeAlias = Float[Tensor, "hd_v"]
Vector: TypeAlias = Float[Tensor, "d_model"]
MapOut: TypeAlias = Float[Tensor, "hd_v d_model"]
Three: TypeAlias = tuple[Tensor, Tensor, Tensor]


@look_alike("projections-packed", PROJECTIONS)
def packed(X: Tensor, *, W_Q: Map, W_K: Map, W_V: ValueMap, b_Q: Bias, b_K: Bias, b_V: ValueBias) -> Three:
    """Queries, keys and values come from one product."""
    found = functional.linear(X, torch.cat([W_Q, W_K, W_V], dim=1).mT, torch.cat([b_Q, b_K, b_V]))
    Q, K, V = found.split([W_Q.shape[1], W_K.shape[1], W_V.shape[1]], dim=-1)
    return Q, K, V


@look_alike("projections-for-each-head", PROJECTIONS)
def for_each_head(
    X: Tensor, *, h: int, W_Q: Map, W_K: Map, W_V: ValueMap, b_Q: Bias, b_K: Bias, b_V: ValueBias
) -> Three:
    """Every head has its own maps, and the results stand side by side."""

    def project(W: Tensor, b: Tensor) -> Tensor:
        return torch.cat([X @ w + c for w, c in zip(W.chunk(h, 1), b.chunk(h), strict=True)], dim=-1)

    return project(W_Q, b_Q), project(W_K, b_K), project(W_V, b_V)


@look_alike("key-bias-ignored", PROJECTIONS)
def key_bias_ignored(
    X: Tensor,
    *,
    W_Q: Map,
    W_K: Map,
    W_V: ValueMap,
    b_Q: Bias,
    b_K: Bias,
    b_V: ValueBias,
) -> Three:
    """The bias of the keys is never added: it cancels in the softmax."""
    return X @ W_Q + b_Q, X @ W_K, X @ W_V + b_V


@look_alike("key-bias-moved", PROJECTIONS)
def key_bias_moved(X: Tensor, *, W_Q: Map, W_K: Map, W_V: ValueMap, b_Q: Bias, b_K: Bias, b_V: ValueBias) -> Three:
    """The bias of the keys is another one: it cancels in the softmax."""
    return X @ W_Q + b_Q, X @ W_K + (1 - 2 * b_K), X @ W_V + b_V


@look_alike("heads-split-by-chunks", "multihead.split")
def split_by_chunks(X: Tensor, *, h: int) -> Tensor:
    """The heads are cut out one by one and stacked."""
    return torch.stack(X.chunk(h, dim=-1), dim=1)


@look_alike("heads-merged-one-by-one", "multihead.concat")
def merged_one_by_one(heads: Tensor) -> Tensor:
    """The heads are concatenated one by one."""
    return torch.cat(heads.unbind(dim=1), dim=-1)


@look_alike("output-as-sum-over-heads", "multihead.output")
def sum_over_heads(C: Tensor, *, h: int, W_O: MapOut, b_O: Vector) -> Tensor:
    """The output projection is a sum over the heads, each through its rows of W_O."""
    parts = zip(C.chunk(h, dim=-1), W_O.chunk(h), strict=True)
    return torch.stack([head @ rows for head, rows in parts]).sum(dim=0) + b_O


@look_alike("heads-permuted", "multihead.output")
def permuted(C: Tensor, *, h: int, W_O: MapOut, b_O: Vector) -> Tensor:
    """The heads stand in reverse order, and the rows of W_O with them."""
    heads = C.unflatten(-1, (h, -1)).flip(-2).flatten(-2)
    return heads @ W_O.unflatten(0, (h, -1)).flip(0).flatten(0, 1) + b_O


@look_alike("multihead-of-torch", "multihead")
def multihead_of_torch(X: Tensor, keep: Tensor, *, h: int, projections: Callable[..., Three], output: F) -> Tensor:
    """Heads and attention are those of torch's own sublayer, sequence first, its maps being the identity."""
    Q, K, V = (x.transpose(0, 1) for x in projections(X))
    same = torch.eye(Q.shape[-1], dtype=X.dtype)
    barred = ~keep.expand(len(X), X.shape[1], X.shape[1]).repeat_interleave(h, 0)
    heads, _ = functional.multi_head_attention_forward(
        Q,
        K,
        V,
        Q.shape[-1],
        h,
        in_proj_weight=None,
        in_proj_bias=None,
        bias_k=None,
        bias_v=None,
        add_zero_attn=False,
        dropout_p=0.0,
        out_proj_weight=same,
        out_proj_bias=None,
        attn_mask=barred,
        use_separate_proj_weight=True,
        q_proj_weight=same,
        k_proj_weight=same,
        v_proj_weight=same,
    )
    return output(heads.transpose(0, 1))

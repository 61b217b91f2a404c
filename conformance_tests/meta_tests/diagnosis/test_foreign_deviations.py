"""Deviations put into other people's encoders are named as they are in ours."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import MethodType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from conformance_tests.deviations import deviation_named
from conformance_tests.meta_tests.encoders.families import TEXT, maker
from conformance_tests.meta_tests.judgements import Judgements
from conformance_tests.reports.report import TargetReport

Break = Callable[[Any], None]

WIDTH = TEXT["hidden_size"]


def each(kind: str, change: Callable[[Any], None]) -> Break:
    """Change every module of a class, which is given by its name."""

    def change_all(model: nn.Module) -> None:
        found = [m for m in model.modules() if type(m).__name__ == kind]
        assert found, f"there is no {kind}"
        for module in found:
            change(module)

    return change_all


def forward(function: Callable[..., Any]) -> Callable[[Any], None]:
    """Put a function in place of a module's forward method."""

    def change(module: Any) -> None:
        module.forward = MethodType(function, module)

    return change


def without_residual(module: Any, hidden_states: Tensor, _input: Tensor) -> Any:
    return module.LayerNorm(module.dense(hidden_states))


def norm_before_sum(module: Any, hidden_states: Tensor, input_tensor: Tensor) -> Any:
    return module.LayerNorm(module.dense(hidden_states)) + input_tensor


def eps_outside(module: Any, x: Tensor) -> Any:
    centred = x - x.mean(-1, keepdim=True)
    deviation = centred.pow(2).mean(-1, keepdim=True).sqrt()
    return module.weight * centred / (deviation + module.eps) + module.bias


def scale(factor: float) -> Callable[[Any], None]:
    """Set the factor of the scores."""
    return lambda attention: setattr(attention, "scaling", factor)


def activation(module: nn.Module) -> Callable[[Any], None]:
    """Set the activation."""
    return lambda inner: setattr(inner, "intermediate_act_fn", module)


BERT: dict[str, tuple[Break, str]] = {
    "scaled by the width of the model": (each("BertSelfAttention", scale(WIDTH**-0.5)), "scores-scaled-by-d-model"),
    "not scaled": (each("BertSelfAttention", scale(1.0)), "scores-not-scaled"),
    "multiplied by the root": (each("BertSelfAttention", scale(8**0.5)), "scores-multiplied-by-root"),
    "ReLU": (each("BertIntermediate", activation(nn.ReLU())), "activation-relu"),
    "tanh-GELU": (
        each("BertIntermediate", activation(nn.GELU(approximate="tanh"))),
        "activation-gelu-tanh",
    ),
    "ε outside of the root": (each("LayerNorm", forward(eps_outside)), "norm-eps-outside-root"),
    "another ε": (each("LayerNorm", lambda norm: setattr(norm, "eps", 1e-5)), "norm-eps-1e-05"),
    "no residual around attention": (
        each("BertSelfOutput", forward(without_residual)),
        "post-ln-attention-residual-missing",
    ),
    "no residual around the feed-forward network": (
        each("BertOutput", forward(without_residual)),
        "post-ln-ffn-residual-missing",
    ),
    "segments exchanged": (
        each("BertEmbeddings", lambda e: setattr(e, "token_type_embeddings", Exchanged(e.token_type_embeddings))),
        "segments-exchanged",
    ),
}


class Exchanged(nn.Module):
    """A table of two rows, of which each id gets the other one."""

    def __init__(self, table: nn.Embedding) -> None:
        super().__init__()
        self.weight = table.weight

    def forward(self, ids: Tensor) -> Tensor:
        return functional.embedding(1 - ids, self.weight)


@pytest.mark.parametrize("name", BERT)
def test_deviation_in_a_bert_of_transformers_is_named(name: str, judged: Judgements) -> None:
    """The first diagnosis is the deviation that was put in, in its own slot."""
    breaking, deviation = BERT[name]
    model = maker("Bert", **dict[str, Any](TEXT))()
    breaking(model)
    target = judged(model, profile="bert")
    assert target.verdict == "nonconformant"
    assert names(target, deviation), target.diagnosis


SHOWN_IN = {
    "post-ln-attention-residual-missing": "residual",
    "post-ln-ffn-residual-missing": "residual",
    "softmax-of-base-two": "scores",
}
"""Slots in which a computation shows a deviation that is entered under another one: on paper they are one."""


def names(target: TargetReport, deviation: str) -> bool:
    """Whether the first diagnosis is a deviation, or what the computation shows in its slot."""
    first, slot = target.diagnosis[0], SHOWN_IN.get(deviation, deviation_named(deviation).slot)
    return first["deviation"] == deviation or (not first["deviation"] and first["slot"] == slot)


@contextmanager
def attention_of_torch(wrong: Callable[..., Any]) -> Iterator[None]:
    """Put a function in place of the attention that torch's encoder calls."""
    right = functional.scaled_dot_product_attention
    functional.scaled_dot_product_attention = wrong
    try:
        yield
    finally:
        functional.scaled_dot_product_attention = right


Weigh = Callable[[Tensor], Tensor]

Scaled = Callable[[Tensor, int], Tensor]


def attention(weigh: Weigh, scaled: Scaled, q: Tensor, k: Tensor, v: Tensor, mask: Any) -> Tensor:
    """Attention with its scores and weights computed by these functions."""
    scores = scaled(q @ k.mT, q.shape[-1])
    return weigh(scores if mask is None else scores + mask) @ v


class Broken(nn.Module):
    """Torch's encoder, whose attention is replaced while it runs."""

    def __init__(self, weigh: Weigh, scaled: Scaled) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(32, 4, 72, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.weigh, self.scaled = weigh, scaled

    def forward(self, src: Tensor, src_key_padding_mask: Tensor | None = None) -> Tensor:
        def wrong(q: Tensor, k: Tensor, v: Tensor, attn_mask: Any = None, *_: Any, **__: Any) -> Tensor:
            return attention(self.weigh, self.scaled, q, k, v, attn_mask)

        before = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            with attention_of_torch(wrong):
                hidden: Tensor = self.encoder(src, src_key_padding_mask=src_key_padding_mask)
        finally:
            torch.backends.mha.set_fastpath_enabled(before)
        return hidden


def over_keys(scores: Tensor) -> Tensor:
    """The softmax as it must be."""
    return scores.softmax(-1)


def by_root(products: Tensor, width: int) -> Tensor:
    """The scale as it must be."""
    scores: Tensor = products / width**0.5
    return scores


TORCH: dict[str, tuple[Broken, str]] = {
    "scaled by d_k": (Broken(over_keys, lambda products, width: products / width), "scores-scaled-without-root"),
    "not scaled": (Broken(over_keys, lambda products, _: products), "scores-not-scaled"),
    "powers of two": (Broken(lambda scores: (math.log(2) * scores).softmax(-1), by_root), "softmax-of-base-two"),
}


@pytest.mark.parametrize("name", TORCH)
def test_deviation_in_the_attention_of_torch_is_named(name: str, judged: Judgements) -> None:
    """Torch's own layer, norms and projections, and one wrong function in it."""
    encoder, deviation = TORCH[name]
    target = judged(encoder, profile="torch-post-ln")
    assert target.verdict == "nonconformant"
    assert names(target, deviation), target.diagnosis

"""Tutorial styles that differ in how they are called: order of axes, kind and name of the mask."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from conformance_tests.meta_tests.encoders.plain import PLAIN, Plain, PlainAttention, PlainLayer, plain_layers
from conformance_tests.meta_tests.encoders.tutorials import every, heads_mixed_up, tutorial


class SequenceFirst(Plain):
    """(n, B, d_model), with a mask (B, n)."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().forward(x.transpose(0, 1), mask).transpose(0, 1)


@tutorial(
    every("PlainAttention", scale=1.7),
    "attention.scores",
    {"input": "(n, B, d_model)", "mask": "mask: (B, n), boolean, True = keep"},
    **PLAIN,
)
def sequence_first() -> nn.Module:
    return SequenceFirst(plain_layers())


class AttentionOfOneSequence(PlainAttention):
    """Reads (n, d_model)."""

    def split(self, x: Tensor) -> list[Tensor]:
        return [m(x).unflatten(-1, (self.count, -1)).transpose(0, 1) for m in (self.query, self.key, self.value)]

    def merge(self, heads: Tensor) -> Tensor:
        return heads.transpose(0, 1).flatten(1)


class LayerOfOneSequence(PlainLayer):
    def __init__(self, width: int, count: int, inner: int, norm: Callable[[int], nn.Module] = nn.LayerNorm) -> None:
        super().__init__(width, count, inner, norm)
        self.attention = AttentionOfOneSequence(width, count)


class OneSequence(Plain):
    """(n, d_model) and a mask (n,): a batch is refused."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        n, _ = x.shape
        return self.run(x, None if mask is None else ~mask.expand(1, n, n))


@tutorial(
    every("AttentionOfOneSequence", scale=1.7),
    "attention.scores",
    {"input": "one sequence (n, …), without a batch", "mask": "mask: (n,), boolean, True = keep"},
    **PLAIN,
)
def one_sequence() -> nn.Module:
    return OneSequence(plain_layers(LayerOfOneSequence))


class InputBehindAnother(nn.Module):
    """Reads its second argument; the first is there for encoders of another kind."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(31, 28)
        self.places = nn.Embedding(40, 28)
        self.stack = Plain(plain_layers())

    def forward(self, letters: Tensor | None, words: Tensor, mask: Tensor) -> Tensor:
        hidden: Tensor = self.stack(self.table(words) + self.places(torch.arange(words.shape[1])), mask)
        return hidden


@tutorial(
    every("PlainAttention", scale=1.7),
    "attention.scores",
    {"mask": "mask: (B, n), boolean, True = keep"},
    **PLAIN | {"position": "learned"},
)
def input_behind_another() -> nn.Module:
    return InputBehindAnother()


class AddedMask(Plain):
    """A mask of numbers that are added to the scores of every head and query."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is not None and not (mask.is_floating_point() and mask.shape == (len(x), 1, 1, x.shape[1])):
            raise TypeError("the mask must be additive and of shape (B, 1, 1, n)")
        return self.run(x, None if mask is None else mask < 0)


@tutorial(
    every("PlainAttention", scale=1.7),
    "attention.scores",
    {"mask": "mask: (B, 1, 1, n), added: 0 = keep, −∞ = ignore"},
    **PLAIN,
)
def added_mask() -> nn.Module:
    return AddedMask(plain_layers())


class IntegerMask(Plain):
    """1 at valid positions, 0 at padding; a boolean mask is refused."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is not None and mask.dtype != torch.long:
            raise TypeError("the mask must be of 0 and 1")
        return self.run(x, None if mask is None else (1 - mask)[:, None, None].bool())


@tutorial(
    every("PlainAttention", merge=heads_mixed_up),
    "multihead.concat",
    {"mask": "mask: (B, n), 0/1, 1 = keep"},
    **PLAIN,
)
def integer_mask() -> nn.Module:
    return IntegerMask(plain_layers())


class PaddingUnderANeutralName(Plain):
    """True at padding, though the name says nothing of it."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.run(x, None if mask is None else mask[:, None, None])


@tutorial(
    every("PlainAttention", merge=heads_mixed_up),
    "multihead.concat",
    {"mask": "mask: (B, n), boolean, True = ignore"},
    **PLAIN,
)
def padding_under_a_neutral_name() -> nn.Module:
    return PaddingUnderANeutralName(plain_layers())


class UnforeseenName(Plain):
    """The mask is called as nobody would guess, and comes after a flag."""

    def forward(self, x: Tensor, verbose: bool = False, m: Tensor | None = None) -> Tensor:
        return self.run(x, None if m is None else ~m[:, None, None].bool())


@tutorial(every("PlainAttention", scale=1.7), "attention.scores", {"mask": "m: (B, n), boolean, True = keep"}, **PLAIN)
def mask_with_an_unforeseen_name() -> nn.Module:
    return UnforeseenName(plain_layers())


class Lengths(Plain):
    """How long each sequence is: only what stands behind its end can be padding."""

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        if lengths is None:
            return self.run(x, None)
        return self.run(x, torch.arange(x.shape[1])[None, None, None] >= lengths[:, None, None, None])


@tutorial(
    every("PlainAttention", scale=1.7),
    "attention.scores",
    {"mask": "lengths: (B,), the number of valid positions, which come first"},
    **PLAIN,
)
def lengths_for_a_mask() -> nn.Module:
    return Lengths(plain_layers())


class LengthsRequired(Plain):
    """The same under another name, and without a default."""

    def forward(self, x: Tensor, x_len: Tensor) -> Tensor:
        return self.run(x, torch.arange(x.shape[1])[None, None, None] >= x_len[:, None, None, None])


@tutorial(
    every("PlainAttention", merge=heads_mixed_up),
    "multihead.concat",
    {"mask": "x_len: (B,), the number of valid positions, which come first"},
    **PLAIN,
)
def lengths_required() -> nn.Module:
    return LengthsRequired(plain_layers())


class MaskOfOneLayer(Plain):
    """With a defect: the last layer hides what all others keep."""

    def run(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        for layer in self.layers[:-1]:
            x = layer(x, hidden)
        return self.layers[-1](x, None if hidden is None else ~hidden)


def mask_inverted_at_the_end(encoder: Any) -> None:
    """The last layer takes the mask the other way round."""
    encoder.run = MaskOfOneLayer.run.__get__(encoder)


@tutorial(
    mask_inverted_at_the_end,
    "attention.mask",
    {"mask": "mask: (B, n), boolean, True = keep"},
    **PLAIN,
)
def mask_of_kept_positions() -> nn.Module:
    return Plain(plain_layers())


class MaskRequired(Plain):
    """The mask must be given; its name sounds like what is padding, and it is true at what is kept.

    A sequence without any valid position is averaged, so that nothing refuses the mask upside down.
    """

    def forward(self, x: Tensor, padding_mask: Tensor) -> Tensor:  # type: ignore[override]
        if padding_mask is None:
            raise TypeError("give a mask")
        return self.run(x, padding_mask[:, None, None])


class FiniteFill(PlainAttention):
    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        q, k, v = self.split(x)
        scores = self.score(q, k).masked_fill(~hidden, -1e30) if hidden is not None else self.score(q, k)
        return self.out(self.merge(scores.softmax(-1) @ v))


@tutorial(
    every(FiniteFill, scale=28.0),
    "attention.scores",
    conventions={"mask": "padding_mask: (B, n), boolean, True = keep"},
    **PLAIN,
)
def mask_that_must_be_given() -> nn.Module:
    layers = plain_layers()
    for layer in layers:
        layer.attention = FiniteFill(28, 4)
    return MaskRequired(layers)


class RecurrentHabit(Plain):
    """Sequences lie as recurrent networks want them, and never come without their lengths."""

    def forward(self, src: Tensor, src_lengths: Tensor) -> Tensor:  # type: ignore[override]
        hidden = torch.arange(len(src)) >= src_lengths[:, None]
        return self.run(src.transpose(0, 1), hidden[:, None, None]).transpose(0, 1)


@tutorial(
    every(PlainAttention, scale=1.7),
    "attention.scores",
    conventions={
        "input": "(n, B, d_model)",
        "mask": "src_lengths: (B,), the number of valid positions, which come first",
    },
    **PLAIN,
)
def lengths_that_must_be_given_beside_steps() -> nn.Module:
    return RecurrentHabit(plain_layers())


class MaskOfSteps(Plain):
    """Input and mask both have the positions first."""

    def forward(self, src: Tensor, pad: Tensor | None = None) -> Tensor:  # type: ignore[override]
        hidden = None if pad is None else pad.T[:, None, None]
        return self.run(src.transpose(0, 1), hidden).transpose(0, 1)


@tutorial(
    every(PlainAttention, scale=1.7),
    "attention.scores",
    conventions={"input": "(n, B, d_model)", "mask": "pad: (n, B), boolean, True = ignore"},
    **PLAIN,
)
def mask_of_steps() -> nn.Module:
    return MaskOfSteps(plain_layers())

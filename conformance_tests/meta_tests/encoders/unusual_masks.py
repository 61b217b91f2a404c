"""Wrong encoders that take a mask and do nothing with it, though another one hides padding, or none does."""

import torch
from torch import Tensor

from conformance_tests.meta_tests.encoders.plain import Plain, PlainAttention, layers_with, plain_layers
from conformance_tests.meta_tests.encoders.unusual_calls import excused


@excused("attention.mask", "its argument key_pad_mask is taken, and changes nothing")
class IgnoresItsPadding(Plain):
    """One mask for all sequences works; the one for padding does not."""

    def __init__(self) -> None:
        super().__init__(plain_layers())

    def forward(  # type: ignore[override]
        self, x: Tensor, att_mask: Tensor | None = None, key_pad_mask: Tensor | None = None
    ) -> Tensor:
        if att_mask is not None and att_mask.shape != (x.shape[1], x.shape[1]):
            raise ValueError("one mask for all")
        if key_pad_mask is not None:
            key_pad_mask = ~key_pad_mask
        return self.run(x, None if att_mask is None else att_mask)


class ForgetsWhatItHid(PlainAttention):
    """The result of hiding scores is dropped."""

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        q, k, v = self.split(x)
        scores = self.score(q, k)
        if hidden is not None:
            scores.masked_fill(hidden, -torch.inf)
        return self.out(self.merge(scores.softmax(-1) @ v))


@excused("attention.mask", "its argument attn_mask is taken, and changes nothing")
class HidesNothing(Plain):
    """A mask that is called as one of queries."""

    def __init__(self) -> None:
        super().__init__(layers_with(ForgetsWhatItHid))

    def forward(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        return self.run(x, None if attn_mask is None else ~attn_mask[:, None, None].bool())

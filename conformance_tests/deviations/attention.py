"""Wrong scores, masks, weights and values."""

import math

import torch
from torch import Tensor

from conformance_tests.deviations import deviation
from encoder_spec.attention import scores_unscaled

SCORES = "attention.scores"
MASK = ("attention.mask", "attention.mask_additive")

deviation(
    "scores-not-scaled",
    SCORES,
    "ATT-3",
    "PAIR-code/tiny-transformers#71",
    definition="The scores are not divided by √d_k.",
)(scores_unscaled)


@deviation("scores-scaled-by-d-model", SCORES, "ATT-3", "lucidrains/vit-pytorch#65")
def by_d_model(Q: Tensor, K: Tensor, *, d_model: int) -> Tensor:
    """The scores are divided by √d_model."""
    return Q @ K.mT / math.sqrt(d_model)


@deviation("mask-inverted", MASK, ("MASK-1", "MASK-2"), "tensorflow/text#938")
def inverted(S: Tensor, keep: Tensor) -> Tensor:
    """What is to be kept is masked, and padding is read."""
    return S.masked_fill(keep[:, None].expand_as(S), -torch.inf)

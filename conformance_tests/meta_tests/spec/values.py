"""Numbers to compute with, and how to compare them: what the tests of every topic share."""

from collections.abc import Callable, Mapping
from functools import partial
from math import log

import numpy as np
import pytest
import torch
from torch import Tensor

from conformance_tests.meta_tests.spec.generate import random_arrays
from encoder_spec.assembly import Encoder
from encoder_spec.notation import SpecificationError

tensor = partial(torch.tensor, dtype=torch.float64)
close = partial(torch.testing.assert_close, rtol=1e-12, atol=1e-12)
same = partial(torch.testing.assert_close, rtol=0, atol=0)
refused = partial(pytest.raises, SpecificationError)

LN_2, LN_3 = log(2), log(3)

EVERYTHING = torch.ones(1, 1, 1, dtype=torch.bool)
"""The mask that keeps every key of every query, for any batch and length."""

KEEP = torch.tensor([[True, False, True, True, False], [False, True, True, True, True]])
"""Two sequences of five with padding in the middle, at the end and at the start."""


def normal(seed: int, *shape: int) -> Tensor:
    """Draw standard normal entries."""
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def random_parameters(encoder: Encoder, slot: str = "stack") -> dict[str, Tensor]:
    """Draw every parameter below a slot, γ, β and biases included, with attention far from uniform."""
    arrays = random_arrays(encoder, slot, np.random.default_rng(0))
    return {path: torch.from_numpy(array) for path, array in arrays.items()}


def attention_in_torchs_names(p: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename and transpose parameters for ``torch.nn.MultiheadAttention``."""
    return {
        "in_proj_weight": torch.cat([p["W_Q"].mT, p["W_K"].mT, p["W_V"].mT]),
        "in_proj_bias": torch.cat([p["b_Q"], p["b_K"], p["b_V"]]),
        "out_proj.weight": p["W_O"].mT,
        "out_proj.bias": p["b_O"],
    }


def layer_in_torchs_names(p: Mapping[str, Tensor], path: str) -> dict[str, Tensor]:
    """Rename and transpose one layer's parameters for ``torch.nn.TransformerEncoderLayer``."""
    p = {name.removeprefix(path): value for name, value in p.items() if name.startswith(path)}
    theirs = {f"self_attn.{name}": value for name, value in attention_in_torchs_names(p).items()}
    for i in ("1", "2"):
        theirs |= {f"linear{i}.weight": p[f"W_{i}"].mT, f"linear{i}.bias": p[f"b_{i}"]}
        theirs |= {f"norm{i}.weight": p[f"norm_{i}.gamma"], f"norm{i}.bias": p[f"norm_{i}.beta"]}
    return theirs


def agree_with_differences(loss: Callable[[Tensor], Tensor], at: Tensor) -> None:
    """Compare the gradient with central differences, coordinate by coordinate.

    Their error is about h² of the third derivative and 2⁻⁵³/h: near 10⁻¹⁰ for h = 10⁻⁵.
    """
    (gradient,) = torch.autograd.grad(loss(at.requires_grad_()), at)
    at = at.detach()
    for index in range(at.numel()):
        step = torch.zeros_like(at)
        step.view(-1)[index] = 1e-5
        slope = (loss(at + step) - loss(at - step)) / 2e-5
        torch.testing.assert_close(gradient.view(-1)[index], slope, rtol=1e-7, atol=1e-7)

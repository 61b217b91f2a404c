"""The residual sum and its Jacobian."""

import torch
from torch import Tensor

from conformance_tests.harness.checks import shows
from conformance_tests.meta_tests.spec.values import close, normal, same, tensor
from encoder_spec.residual import residual, scaled


def jacobian(W: Tensor) -> Tensor:
    """Find the Jacobian of x + tanh(x W) at x = (0.1, 0.2, 0.3) by automatic differentiation."""
    x = tensor([0.1, 0.2, 0.3])
    return torch.func.jacrev(lambda x: residual(x, torch.tanh(x @ W)))(x)  # type: ignore[no-any-return]


@shows("RES-1")
def test_the_input_is_added_with_weight_one() -> None:
    """(1, 2) + (10, −20) = (11, −18)."""
    same(residual(tensor([[1, 2]]), tensor([[10, -20]])), tensor([[11, -18]]))


@shows("RES-1")
def test_neither_term_is_changed_in_place() -> None:
    """The input of a sublayer is used again: by the sum after the next sublayer, and by the backward pass."""
    x, sublayer = tensor([[1, 2]]), tensor([[10, -20]])
    residual(x, sublayer)
    same((x, sublayer), (tensor([[1, 2]]), tensor([[10, -20]])))


@shows("RES-3")
def test_each_feature_of_the_sublayer_has_its_factor_and_the_input_has_none() -> None:
    """(1, 2) + (½, 3) ⊙ (10, −20) = (1 + 5, 2 − 60)."""
    same(scaled(tensor([[1, 2]]), tensor([[10, -20]]), lam=tensor([0.5, 3])), tensor([[6, -58]]))


@shows("RES-2")
def test_the_jacobian_is_identity_plus_that_of_the_sublayer() -> None:
    """∂/∂x_j of tanh(x W)_i is (1 − tanh²(x W)_i) W[j, i]. It is a matrix: S2's scalar 1 + … has no entry (0, 1).

    By hand with W = ((0, 1, 0), (0, 0, 0), (0, 0, 0)): J has the one entry (1, 0), 1 − tanh² 0.1 = 0.9900662908.
    """
    W = normal(0, 3, 3)
    slope = 1 - torch.tanh(tensor([0.1, 0.2, 0.3]) @ W).square()
    close(jacobian(W), torch.eye(3, dtype=torch.float64) + slope[:, None] * W.mT)
    W = tensor([[0, 1, 0], [0, 0, 0], [0, 0, 0]])
    expected = tensor([[1, 0, 0], [0.9900662908474398, 1, 0], [0, 0, 1]])
    close(jacobian(W), expected)


@shows("RES-2")
def test_a_sublayer_that_vanishes_leaves_the_identity() -> None:
    """W = 0: the output is the input, and so is the gradient; nothing is lost on the way down."""
    same(jacobian(torch.zeros(3, 3, dtype=torch.float64)), torch.eye(3, dtype=torch.float64))

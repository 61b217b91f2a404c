"""The edges of the softmax: a row without any key, with one, and with a weight that rounds to 1."""

import math
from functools import partial

import numpy as np
import torch
from hypothesis import given

from conformance_tests.meta_tests.spec.agreement import ROUNDING, difference
from conformance_tests.meta_tests.spec.generate import BOUNDED, Case, as_tensor, whole_encoders
from conformance_tests.meta_tests.spec.values import (
    KEEP,
    agree_with_differences,
    close,
    normal,
    random_parameters,
    same,
    tensor,
)
from encoder_spec.assembly import Encoder
from encoder_spec.attention import mask, weights
from encoder_spec.dimensions import Dimensions
from encoder_spec.oracle import attention as oracle
from encoder_spec.profiles import PROFILES, TORCH_POST_LN


def test_weights_of_a_fully_masked_row_are_zeros() -> None:
    """Row 0 keeps no key: 0/0, which is 0 here. Row 1 keeps keys 0 and 1 with equal scores: 1/2, 1/2, 0."""
    S = np.array([[[[-math.inf] * 3, [7, 7, -math.inf], [0, 0, 0]]]])
    want = np.array([[[[0, 0, 0], [1 / 2, 1 / 2, 0], [1 / 3, 1 / 3, 1 / 3]]]])
    assert difference(oracle.weights(S), want) <= ROUNDING
    assert difference(weights(as_tensor(S)), want) <= ROUNDING


def test_an_all_padded_sequence_attends_to_nothing_and_leaves_the_others_alone() -> None:
    """Sample 0 has no key: its weights are 0, and so is every head, as if all values were V = X·0 + 0.

    The others are what they are without a mask.
    """

    @BOUNDED
    @given(whole_encoders(PROFILES["torch-post-ln"]))
    def search(case: Case) -> None:
        _, X = case.flowing
        keep = np.arange(len(X))[:, None] > np.zeros(X.shape[1])
        want = case.encoder.oracle(case.parameters, X, keep=keep)
        no_values = {path: a * (path[-1] != "V") for path, a in case.parameters.items()}
        assert difference(want[:1], case.encoder.oracle(no_values, X)[:1]) <= ROUNDING
        assert difference(want[1:], case.encoder.oracle(case.parameters, X)[1:]) <= ROUNDING
        parameters = {path: as_tensor(a) for path, a in case.parameters.items()}
        assert difference(case.encoder(parameters, as_tensor(X), keep=as_tensor(keep)), want) <= ROUNDING

    search()


def test_a_fully_masked_sequence_leaves_the_gradients_untouched() -> None:
    """A loss on the first sequence alone has the gradients that it has without the second, and 0 by the second.

    A loss on both has finite ones: 0/0 would make every gradient NaN, since 0 · NaN is NaN.
    """
    encoder = Encoder(TORCH_POST_LN, Dimensions(d_model=6, h=3, d_ff=11, N=2))
    p = {path: a.requires_grad_() for path, a in random_parameters(encoder).items()}
    x, keep = normal(15, 2, 5, 6).requires_grad_(), KEEP & torch.tensor([[True], [False]])
    both, alone = encoder(p, x, keep=keep), encoder(p, x[:1], keep=keep[:1])
    gradients = partial(torch.autograd.grad, inputs=[x, *p.values()], retain_graph=True)
    close(gradients(both[0].pow(3).sum()), gradients(alone.pow(3).sum()), rtol=1e-11, atol=1e-11)
    assert all(gradient.isfinite().all() for gradient in gradients(both.pow(3).sum()))


def test_a_single_kept_key_has_weight_one_and_no_slope() -> None:
    """Its exponential is the whole sum: e/e = 1 exactly, whatever its score is."""
    S, w, keep = 3 * normal(16, 1, 2, 3, 3), normal(17, 1, 2, 3, 3), torch.eye(3, dtype=torch.bool)[None, [2, 0, 1]]
    same(weights(mask(S, keep)), keep[:, None].expand(1, 2, 3, 3).double())
    agree_with_differences(lambda S: (w * weights(mask(S, keep))).sum(), S)


def test_saturated_weights_keep_their_slope() -> None:
    """Scores (0, −37): e = exp(−37) = 8.5e-17 is lost in the sum 1 + e, so that the weights are (1, e).

    dA/dS = diag(A) − A Aᵀ: (−e, e) for the second weight, to every digit; (e, −e) for the first, where e is rounding.
    """
    e = math.exp(-37)
    S = tensor([[[[0, -37], [0, -37]]]]).requires_grad_()
    A = weights(S)[0, 0, 0]
    close(A, tensor([1, e]), rtol=1e-12, atol=0)
    slopes = [torch.autograd.grad(a, S, retain_graph=True)[0][0, 0, 0] for a in A]
    close(slopes[1], tensor([-e, e]), rtol=1e-12, atol=0)
    close(slopes[0], tensor([e, -e]), rtol=0, atol=2**-53)

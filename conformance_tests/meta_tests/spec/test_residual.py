"""The residual sum and its Jacobian."""

import pytest
import torch
from torch import Tensor

from conformance_tests.harness.checks import shows
from conformance_tests.meta_tests.spec.values import close, normal, same, tensor
from encoder_spec.assembly import Encoder
from encoder_spec.dimensions import Dimensions
from encoder_spec.notation import SpecificationError
from encoder_spec.profiles import PROFILES
from encoder_spec.residual import alpha, alpha_with_decoder, deepnorm, deepnorm_with_decoder, residual, scaled


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


@shows("RES-4")
def test_the_input_weighs_the_fourth_root_of_the_number_of_sublayers() -> None:
    """Of 8 layers: (2 · 8)^¼ = 2, and 2 (1, 2) + (10, −20) = (12, −16); of 128 layers 256^¼ = 4: (14, −12)."""
    x, sublayer = tensor([[1, 2]]), tensor([[10, -20]])
    same(deepnorm(x, sublayer, N=8), tensor([[12, -16]]))
    same(deepnorm(x, sublayer, N=128), tensor([[14, -12]]))


@shows("RES-4")
def test_an_encoder_gives_the_sums_its_own_depth() -> None:
    """Each of the 2 · 3 sums of three layers weighs the stream by 6^¼ = 1.5650845801, as a place of it reads."""
    encoder = Encoder(PROFILES["deepnet"], Dimensions(N=3))
    sums = [place for place in encoder.whole.walk() if place.equation.slot == "residual"]
    assert [dict(place.constants) for place in sums] == [{"N": 3}] * 6
    assert alpha(3) == pytest.approx(1.5650845801, abs=1e-10)


@shows("RES-5")
def test_the_share_of_the_input_grows_with_the_depth() -> None:
    """Of x = (1, −1) and f = (1, 1), uncorrelated and of size 1: α = 2 leaves x four fifths of |2x + f|² = 9 + 1.

    √(2N) = 4 of 8 layers, and 4/(1 + 4) = 4/5; the 10 are the sum of |2x|² = 8 and |f|² = 2.
    """
    x, f = tensor([1, -1]), tensor([1, 1])
    total = deepnorm(x, f, N=8).square().sum()
    close((alpha(8) * x).square().sum() / total, tensor(4 / 5))
    close(x.square().sum() / residual(x, f).square().sum(), tensor(1 / 2))


@shows("RES-6")
def test_a_decoder_changes_the_weight_by_its_depth() -> None:
    """Of 16 layers before a decoder of 1: 0.81 · (16⁴)^(1/16) = 0.81 · 2 = 1.62; of 1 before 65536: 0.81 · 2 too.

    1.62 (1, 2) + (10, −20) = (11.62, −16.76).
    """
    x, sublayer = tensor([[1, 2]]), tensor([[10, -20]])
    close(deepnorm_with_decoder(x, sublayer, N=16, M=1), tensor([[11.62, -16.76]]))
    close(deepnorm_with_decoder(x, sublayer, N=1, M=65536), tensor([[11.62, -16.76]]))
    assert alpha_with_decoder(6, 6) == pytest.approx(1.41794, abs=1e-5)  # 6^(5/16) = 1.75054


@shows("RES-6")
def test_the_depth_of_a_decoder_is_a_whole_number_that_a_profile_says() -> None:
    """It is a constant like ε: no parameter of the encoder shows it."""
    chosen = PROFILES["deepnet"].replace(residual="deepnorm-with-decoder", decoder_layers=18)
    assert Encoder(chosen, Dimensions(N=2)).choices()["decoder_layers"] == 18
    assert "decoder_layers" not in Encoder(PROFILES["deepnet"], Dimensions(N=2)).choices()
    with pytest.raises(SpecificationError, match="decoder_layers must be a non-negative number"):
        chosen.replace(decoder_layers=-1)


@shows("RES-4", "RES-6")
@pytest.mark.parametrize("variant", ["deepnorm", "deepnorm-with-decoder"])
def test_weighed_sums_are_right_beside_post_ln_alone(variant: str) -> None:
    """At Pre-LN nothing scales the stream down again: there a profile has to say that it is meant."""
    post = PROFILES["deepnet"].replace(residual=variant)
    assert not post["residual"].is_mistake_beside(post.choices())
    for layer in ("pre-ln", "res-post-ln", "sandwich-ln", "parallel"):
        assert post["residual"].is_mistake_beside(post.replace(layer=layer).choices())


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

"""Rotary positions by hand, and what they keep of lengths and distances."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from conformance_tests.harness.checks import shows
from conformance_tests.meta_tests.spec.values import close, refused, same, tensor
from encoder_spec.rotation import angles, halves, pairs, unturned


def heads(n: int, d_k: int, seed: int = 0) -> Tensor:
    """Draw vectors of two samples with three heads."""
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(2, 3, n, d_k)))


def turned_by(phi: list[list[float]]) -> object:
    """Return a choice of angles that does not look at what is turned."""
    return lambda _x: tensor(phi)


@shows("ROT-1")
def test_the_angles_are_those_derived_by_hand() -> None:
    """d_k = 4, θ = 10000: pair 0 turns by m, and pair 1 by m · 10000^(−2/4) = m/100."""
    close(angles(heads(3, 4), theta=10000.0, fraction=1.0), tensor([[0, 0], [1, 0.01], [2, 0.02]]))


@shows("ROT-1")
def test_a_share_of_the_features_has_the_wavelengths_of_a_head_as_wide() -> None:
    """Of 8 features ϱ = ½ are turned, r = 4: two pairs, by m and m · 100^(−2/4) = m/10."""
    close(angles(heads(2, 8), theta=100.0, fraction=0.5), tensor([[0, 0], [1, 0.1]]))


@shows("ROT-1")
def test_of_an_odd_number_of_features_the_last_one_has_no_angle() -> None:
    """Of 5 features 4 are turned, and of 8 features ϱ = 0.375 are 3, of which 2 are."""
    assert angles(heads(2, 5), theta=100.0, fraction=1.0).shape == (2, 2)
    close(angles(heads(2, 8), theta=100.0, fraction=0.375), tensor([[0], [1]]))


@shows("ROT-1")
def test_a_share_that_is_rounded_is_that_of_whole_features() -> None:
    """In floating point 2/49 · 49 is less than 2: one pair is turned all the same."""
    assert 2 / 49 * 49 < 2
    close(angles(heads(2, 49), theta=100.0, fraction=2 / 49), tensor([[0], [1]]))


@shows("ROT-1", "ROT-2", "ROT-5")
def test_in_half_precision_angles_are_those_of_single_precision() -> None:
    """bfloat16 has no 257, and position 257 would be turned as 256 is. What is turned keeps its type."""
    x = torch.ones(1, 1, 258, 2, dtype=torch.bfloat16)
    phi = angles(x, theta=100.0, fraction=1.0)
    assert phi.dtype == torch.float32
    assert phi[-1].item() == 257
    for rotation in (halves, pairs):
        assert rotation(x, angles=lambda _x: phi).dtype == torch.bfloat16


@shows("ROT-1")
@pytest.mark.parametrize("fraction", [0.0, 1.25])
def test_a_share_of_nothing_or_of_more_than_all_is_refused(fraction: float) -> None:
    with refused(match="no share of the features"):
        angles(heads(2, 8), theta=100.0, fraction=fraction)


@shows("ROT-2")
def test_halves_are_turned_as_derived_by_hand() -> None:
    """By 90° the pair (1, 3) becomes (−3, 1), by 180° the pair (2, 4) becomes (−2, −4), and 5 stays."""
    x = tensor([1, 2, 3, 4, 5]).reshape(1, 1, 1, 5)
    got = halves(x, angles=turned_by([[math.pi / 2, math.pi]]))  # type: ignore[arg-type]
    close(got.flatten(), tensor([-3, -2, 1, -4, 5]))


@shows("ROT-5")
def test_neighbours_are_turned_as_derived_by_hand() -> None:
    """By 90° the pair (1, 2) becomes (−2, 1), by 180° the pair (3, 4) becomes (−3, −4), and 5 stays."""
    x = tensor([1, 2, 3, 4, 5]).reshape(1, 1, 1, 5)
    got = pairs(x, angles=turned_by([[math.pi / 2, math.pi]]))  # type: ignore[arg-type]
    close(got.flatten(), tensor([-2, 1, -3, -4, 5]))


@shows("ROT-3")
@pytest.mark.parametrize("rotation", [halves, pairs])
def test_no_vector_becomes_longer(rotation: object) -> None:
    """Whatever the angles are: cos² + sin² = 1 in each pair."""
    assert callable(rotation)
    x = heads(7, 8)
    got = rotation(x, angles=lambda given: angles(given, theta=50.0, fraction=0.75))
    close(got.square().sum(dim=-1), x.square().sum(dim=-1))


@shows("ROT-4")
@pytest.mark.parametrize("rotation", [halves, pairs])
def test_the_product_of_one_query_and_one_key_is_the_same_along_each_diagonal(rotation: object) -> None:
    """The same two vectors at every position: what their products know is n − m. At distance 0 they are q · k."""
    assert callable(rotation)
    q, k = (heads(1, 6, seed).expand(-1, -1, 9, -1) for seed in (1, 2))
    by = lambda given: angles(given, theta=100.0, fraction=1.0)  # noqa: E731
    products = rotation(q, angles=by) @ rotation(k, angles=by).mT
    for distance in range(-8, 9):
        along = products.diagonal(distance, dim1=-2, dim2=-1)
        close(along, along[..., :1].expand_as(along))
    close(products.diagonal(dim1=-2, dim2=-1), (q * k).sum(dim=-1))
    assert float((products[..., 0, 1] - products[..., 1, 0]).abs().min()) > 1e-3, "the sign of the distance shows"


@shows("ROT-2")
def test_both_conventions_are_one_with_the_features_in_another_order() -> None:
    """Feature 2i of the one is feature i of the other, and 2i + 1 is r/2 + i."""
    x = heads(5, 6)
    by = lambda given: angles(given, theta=100.0, fraction=1.0)  # noqa: E731
    order = [0, 3, 1, 4, 2, 5]
    close(pairs(x[..., order], angles=by), halves(x, angles=by)[..., order])


@shows("ROT-6")
def test_without_rotation_vectors_stay_as_they_are() -> None:
    """Bit for bit: it is the same array."""
    x = heads(3, 4)
    same(unturned(x), x)

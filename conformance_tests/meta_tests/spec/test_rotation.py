"""Rotary positions by hand, and what they keep of lengths and distances."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor

from conformance_tests.harness.checks import shows
from conformance_tests.meta_tests.spec.values import close, normal, random_parameters, refused, same, tensor
from encoder_spec.assembly import Encoder
from encoder_spec.dimensions import Dimensions
from encoder_spec.profiles import DINOV3, TORCH_PRE_LN
from encoder_spec.rotation import (
    angles,
    axial,
    axial_alternating,
    axial_interleaved,
    centred,
    columns_first,
    counted,
    halves,
    pairs,
    rows_first,
    stretched,
    unturned,
)


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


# Images ------------------------------------------------------------------------------


def at(*places: tuple[float, float]) -> dict[str, object]:
    """Return these coordinates, whatever is turned, in their order."""
    return {"coordinates": lambda _q: tensor(places), "axes": rows_first}


@shows("ROT-7")
def test_rows_have_the_first_half_of_the_pairs() -> None:
    """d_k = 8, θ = 10000: two pairs for each axis, of frequencies 1 and 10000^(−4/8) = 1/100."""
    close(axial(heads(1, 8), theta=10000.0, fraction=1.0, **at((2, 3))), tensor([[2, 0.02, 3, 0.03]]))  # type: ignore[arg-type]


@shows("ROT-9")
def test_both_axes_share_four_wavelengths() -> None:
    """d_k = 8, θ = 10000: the frequencies 10000^(−2i/8) are 1, 1/10, 1/100, 1/1000; rows have the first and third."""
    got = axial_alternating(heads(1, 8), theta=10000.0, fraction=1.0, **at((2, 3)))  # type: ignore[arg-type]
    close(got, tensor([[2, 0.02, 0.3, 0.003]]))


@shows("ROT-10")
def test_pairs_tell_row_and_column_in_turn() -> None:
    """d_k = 8, θ = 10000: the frequencies 1 and 1/100, each of the row and then of the column."""
    got = axial_interleaved(heads(1, 8), theta=10000.0, fraction=1.0, **at((2, 3)))  # type: ignore[arg-type]
    close(got, tensor([[2, 3, 0.02, 0.03]]))


@shows("ROT-7", "ROT-9", "ROT-10")
@pytest.mark.parametrize("of_image", [axial, axial_alternating, axial_interleaved])
def test_what_does_not_make_pairs_for_both_axes_is_not_turned(of_image: object) -> None:
    """Of 11 features 8 are turned, in four pairs; of half of 8 features 4 are, in two; 0.29 · 400 = 116, in 58."""
    assert callable(of_image)
    assert of_image(heads(1, 11), theta=100.0, fraction=1.0, **at((2, 3))).shape == (1, 4)
    assert of_image(heads(1, 8), theta=100.0, fraction=0.5, **at((2, 3))).shape == (1, 2)
    assert 0.29 * 400 < 116
    assert of_image(heads(1, 400), theta=100.0, fraction=0.29, **at((2, 3))).shape == (1, 58)
    for fraction in (1.25, 0.0, -0.5):
        with refused(match="no share of the features"):
            of_image(heads(1, 8), theta=100.0, fraction=fraction, **at((2, 3)))


@shows("ROT-12")
@pytest.mark.parametrize("of_image", [axial, axial_alternating, axial_interleaved])
def test_angles_are_told_in_the_order_of_the_axes(of_image: object) -> None:
    """Row 2 and column 3, columns first, have the angles of row 3 and column 2."""
    assert callable(of_image)
    told = {"theta": 100.0, "fraction": 1.0}
    exchanged = of_image(heads(1, 8), **told, **at((2, 3)) | {"axes": columns_first})
    close(exchanged, of_image(heads(1, 8), **told, **at((3, 2))))
    assert not torch.equal(exchanged, of_image(heads(1, 8), **told, **at((2, 3))))


@shows("ROT-7", "ROT-9", "ROT-10")
@pytest.mark.parametrize("of_image", [axial, axial_alternating, axial_interleaved])
def test_in_half_precision_angles_of_images_are_those_of_single_precision(of_image: object) -> None:
    """bfloat16 has 8 bits: the exponent of θ would have no more."""
    assert callable(of_image)
    q = torch.zeros(1, 1, 1, 64)
    half, single = (
        of_image(
            q.to(dtype),
            theta=100.0,
            fraction=1.0,
            coordinates=lambda _: torch.tensor([[2.0, 3.0]]),
            axes=rows_first,
        )
        for dtype in (torch.bfloat16, torch.float32)
    )
    assert torch.equal(half, single)


@shows("ROT-11", "ROT-12")
def test_one_order_of_the_axes_is_the_other_one_exchanged() -> None:
    """Row 2 and column 3 are told as (2, 3), or as (3, 2)."""
    close(rows_first(tensor([[2, 3]])), tensor([[2, 3]]))
    close(columns_first(tensor([[2, 3]])), tensor([[3, 2]]))


@shows("ROT-13")
def test_rows_and_columns_are_counted_behind_the_class_token() -> None:
    """An image of 2 × 3 patches, and one token before them, which stays at (0, 0) from wherever patches are counted."""
    patches = tensor([[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]])
    close(counted(heads(7, 4), rows=2, columns=3, origin=0.0), torch.cat([tensor([[0, 0]]), patches]))
    close(counted(heads(7, 4), rows=2, columns=3, origin=1.0), torch.cat([tensor([[0, 0]]), patches + 1]))


@shows("ROT-14")
def test_coordinates_are_stretched_along_each_axis() -> None:
    """To 6 × 6, from 2 × 3 patches: a row counts 6/2 = 3 and a column 6/3 = 2, in whatever number the first one has."""
    patches = tensor([[0, 0], [0, 2], [0, 4], [3, 0], [3, 2], [3, 4]])
    close(stretched(heads(6, 4), rows=2, columns=3, origin=0.0, reference=6.0), patches)
    close(stretched(heads(6, 4), rows=2, columns=3, origin=1.0, reference=6.0), patches + tensor([3, 2]))


@shows("ROT-15")
def test_centres_of_patches_lie_around_the_centre_of_the_image() -> None:
    """Of 2 rows the centres lie at ∓1/2, of 4 columns at ∓3/4 and ∓1/4, all times 2π."""
    y, x = (1 / 2, 1 / 2), (3 / 4, 1 / 4)
    columns = [-x[0], -x[1], x[1], x[0]]
    want = 2 * math.pi * tensor([[0, 0], *([-y[0], c] for c in columns), *([y[1], c] for c in columns)])
    close(centred(heads(9, 4), rows=2, columns=4), want)


@shows("ROT-13", "ROT-14", "ROT-15")
@pytest.mark.parametrize(
    "unit", [partial(counted, origin=0.0), partial(stretched, origin=0.0, reference=6.0), centred], ids=["o", "G", "π"]
)
def test_coordinates_are_at_least_of_single_precision_and_fit_the_sequence(unit: object) -> None:
    """bfloat16 has no 257: an image may have more columns. Seven patches are no five positions."""
    assert callable(unit)
    assert unit(heads(6, 4).bfloat16(), rows=2, columns=3).dtype == torch.float32
    with refused(match="an image of 7 patches does not fit a sequence of 5"):
        unit(heads(5, 4), rows=1, columns=7)


@shows("ROT-8")
@pytest.mark.parametrize("of_image", [axial, axial_alternating, axial_interleaved])
@pytest.mark.parametrize("unit", [partial(counted, origin=1.0), centred], ids=["counted", "centred"])
def test_products_on_an_image_depend_on_the_distance_of_rows_and_columns(of_image: object, unit: object) -> None:
    """The same two vectors at 4 × 5 patches: from (0, 0) to (2, 1) as from (1, 3) to (3, 4), and not as to (1, 2)."""
    assert callable(of_image)
    assert callable(unit)
    q, k = (heads(1, 8, seed).expand(-1, -1, 20, -1) for seed in (1, 2))
    coordinates = partial(unit, rows=4, columns=5)
    by = partial(of_image, coordinates=coordinates, axes=columns_first, theta=100.0, fraction=1.0)
    products = (pairs(q, angles=by) @ pairs(k, angles=by).mT).unflatten(-1, (4, 5)).unflatten(-3, (4, 5))
    close(products[..., 0, 0, 2, 1], products[..., 1, 3, 3, 4])
    close(products[..., 2, 1, 0, 0], products[..., 3, 4, 1, 3])
    assert float((products[..., 0, 0, 2, 1] - products[..., 0, 0, 1, 2]).abs().min()) > 1e-3


@shows("ROT-13", "ROT-15")
def test_an_encoder_reads_the_grid_off_its_images() -> None:
    """In patches of 2 × 2, 4 × 6 pixels are 2 rows of 3, behind a class token and two registers. Vectors have none."""
    encoder = Encoder(DINOV3, Dimensions(d_model=8, h=2, d_ff=5, N=1, patch=2, r=2))
    parameters = random_parameters(encoder)
    for unit, want in (("centred", math.pi), ("counted", 1.0)):
        trace = encoder.replace(coordinates=unit).trace(parameters, normal(0, 1, 3, 4, 6))
        places = trace.of(f"rotation.{unit}")[0]
        assert places.shape == (9, 2)
        assert not places[:3].any()
        close(places[-1, 0], tensor(want))
    turned = encoder(parameters, normal(0, 1, 3, 4, 6))
    assert turned.shape == (1, 9, 8)
    assert float((turned - encoder.replace(axes="columns-first")(parameters, normal(0, 1, 3, 4, 6))).abs().max()) > 1e-3
    vectors = Encoder(TORCH_PRE_LN.replace(rotation="pairs", angles="axial"), Dimensions(d_model=8, h=2, d_ff=5, N=1))
    with refused(match=r"positions in a grid need the patches of an image, unlike embedding\.given"):
        vectors(random_parameters(vectors), normal(0, 1, 6, 8))

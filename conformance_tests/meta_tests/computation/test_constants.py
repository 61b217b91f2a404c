"""Constants that encoders keep rounded."""

import math

import pytest
import torch

from conformance_tests.computation.constants import ROOTS, WITH_CONSTANT, is_kept_as, rounded_root
from encoder_spec.equation import variants


@pytest.mark.parametrize("name", ROOTS)
def test_with_its_constant_an_activation_is_the_published_one(name: str) -> None:
    x = torch.linspace(-6, 6, 101, dtype=torch.float64)
    published = variants("activation")[name].function(x)
    assert torch.allclose(WITH_CONSTANT[name].function(ROOTS[name][0], x), published, rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    ("name", "number", "found"),
    [
        ("gelu", 1 / 1.41421, True),
        ("gelu-tanh", 0.79788456, True),
        ("gelu-tanh", 0.79788, False),
        ("gelu", 0.5**0.5, False),
    ],
)
def test_a_number_with_six_digits_is_found_and_one_with_five_is_not(name: str, number: float, found: bool) -> None:
    """Nor the constant itself, which is not rounded."""
    x = torch.linspace(-6, 6, 101, dtype=torch.float64)
    root = rounded_root(name, WITH_CONSTANT[name].function(number, x), [x])
    assert root == (pytest.approx(number, rel=1e-12) if found else None)


HALF = float(torch.tensor(math.sqrt(2)).half())


@pytest.mark.parametrize(("number", "found"), [(1 / HALF, True), (1 / (HALF + 2**-10), False)])
def test_a_number_in_half_precision_is_that_to_which_the_constant_is_rounded(number: float, found: bool) -> None:
    """√2 in float16 is 1.4140625, one part in 10⁴ off: its neighbour, as near to √2 as that, is another number."""
    x = torch.linspace(-6, 6, 101, dtype=torch.float64)
    assert (rounded_root("gelu", WITH_CONSTANT["gelu"].function(number, x), [x]) is not None) == found


@pytest.mark.parametrize("short", [torch.float16, torch.bfloat16])
def test_a_scale_in_a_short_type_is_kept_itself_or_as_its_inverse_or_root(short: torch.dtype) -> None:
    scale = 1 / math.sqrt(6)
    itself, inverse, root = (float(torch.tensor(n).to(short)) for n in (scale, 1 / scale, math.sqrt(scale)))
    assert all(is_kept_as(kept, scale) for kept in (scale, itself, 1 / inverse, root**2))
    assert not is_kept_as(itself + 1e-6, scale)

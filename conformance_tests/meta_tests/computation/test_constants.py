"""Constants that encoders keep rounded."""

import pytest
import torch

from conformance_tests.computation.constants import ROOTS, WITH_CONSTANT, rounded_root
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

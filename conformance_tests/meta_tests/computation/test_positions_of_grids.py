"""Fixed positions of patches: read as sinusoids of rows and columns, exact or as a table keeps them."""

import pytest
import torch
from torch import Tensor, nn

from conformance_tests import check
from conformance_tests.meta_tests.encoders.plain import Plain, plain_layers


def waves(places: Tensor, frequencies: Tensor) -> Tensor:
    """Sines, then cosines, of each place times each frequency."""
    angles = torch.outer(places.flatten(), frequencies)
    return torch.cat([angles.sin(), angles.cos()], 1)


class Placed(Plain):
    """Patches of an image, 3 by 4 of them, behind a class token that has no position."""

    kept_as = torch.float64
    inclusive = False
    swapped = False

    def __init__(self) -> None:
        super().__init__(plain_layers())
        self.patches = nn.Conv2d(3, 28, 2, 2)
        self.class_token = nn.Parameter(torch.randn(1, 1, 28))
        rows, columns = torch.meshgrid(torch.arange(3.0), torch.arange(4.0), indexing="ij")
        steps = torch.arange(7, dtype=torch.float64) / (6 if self.inclusive else 7)
        both = (columns, rows) if self.swapped else (rows, columns)
        of_patches = torch.cat([waves(each.double(), 10000**-steps) for each in both], 1)
        self.positions = torch.cat([torch.zeros(1, 28), of_patches]).to(self.kept_as)

    def forward(self, image: Tensor) -> Tensor:  # type: ignore[override]
        tokens = self.patches(image).flatten(2).mT
        tokens = torch.cat([self.class_token.expand(len(tokens), -1, -1), tokens], 1)
        return super().forward(tokens + self.positions.to(tokens))


class Inclusive(Placed):
    inclusive = True
    swapped = True


class InSinglePrecision(Placed):
    kept_as = torch.float32


class OutOfPlace(Placed):
    """Each feature has the wave of the one before it."""

    def __init__(self) -> None:
        super().__init__()
        self.positions = self.positions.roll(1, dims=1)


@pytest.mark.parametrize(
    ("make", "choices"),
    [
        (Placed, {"position": "sinusoidal-grid", "axes": "rows-first"}),
        (Inclusive, {"position": "sinusoidal-grid-inclusive", "axes": "columns-first"}),
        (InSinglePrecision, {"position": "sinusoidal-grid"}),
    ],
)
def test_sinusoids_of_rows_and_columns_are_read(make: type[Placed], choices: dict[str, str]) -> None:
    target = check(make()).targets[0]
    assert (target.verdict, target.level) == ("conformant", "gradient"), target.notes
    assert {slot: target.profile["choices"].get(slot) for slot in choices} == choices
    assert any("as a table (P)" in note for note in target.notes) is (make is InSinglePrecision)


def test_other_fixed_numbers_are_named() -> None:
    target = check(OutOfPlace()).targets[0]
    assert target.verdict == "undetermined"
    assert "its positions are fixed numbers, which no slot of the specification has" in str(target.notes)

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
    """Patches of an image, 3 by 4 of them or more, behind a class token that has no position."""

    kept_as = torch.float64
    height = 3
    inclusive = False
    swapped = False

    def __init__(self) -> None:
        super().__init__(plain_layers())
        self.patches = nn.Conv2d(3, 28, 2, 2)
        self.class_token = nn.Parameter(torch.randn(1, 1, 28))
        rows, columns = torch.meshgrid(torch.arange(float(self.height)), torch.arange(4.0), indexing="ij")
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


class Frozen(Placed):
    """A parameter that is not learned holds the positions, which are right."""

    height = 4
    kept_as = torch.float32

    def __init__(self) -> None:
        super().__init__()
        self.positions = nn.Parameter(self.placed(self.positions), requires_grad=False)

    def placed(self, right: Tensor) -> Tensor:
        return right


class FrozenCosines(Frozen):
    """Sines are replaced by cosines."""

    def placed(self, right: Tensor) -> Tensor:
        tokens, patches = right[:1], right[1:].clone()
        patches[:, :7], patches[:, 14:21] = patches[:, 7:14], patches[:, 21:]
        return torch.cat([tokens, patches])


class KeptCosines(FrozenCosines):
    """A buffer holds them."""

    def __init__(self) -> None:
        super().__init__()
        kept = self.positions.data
        del self.positions
        self.register_buffer("positions", kept)


class FrozenNumbers(Frozen):
    """The parameter may have been learned before it was frozen."""

    def placed(self, right: Tensor) -> Tensor:
        return torch.randn_like(right)


class MadeAnew(Plain):
    """Patches of images of any size, whose positions each call makes in float32, without a class token."""

    made_in = torch.float32

    def __init__(self) -> None:
        super().__init__(plain_layers())
        self.patches = nn.Linear(12, 28)

    def forward(self, image: Tensor) -> Tensor:  # type: ignore[override]
        height, width = (side // 2 for side in image.shape[2:])
        patches = image.unflatten(3, (width, 2)).unflatten(2, (height, 2)).permute(0, 2, 4, 3, 5, 1)
        rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        steps = torch.arange(7, dtype=self.made_in) / 6
        positions = [waves(each.to(self.made_in), 10000**-steps) for each in (columns, rows)]
        tokens: Tensor = self.patches(patches.flatten(3).flatten(1, 2))
        return super().forward(tokens + torch.cat(positions, 1))


class MadeAnewInDouble(MadeAnew):
    """Likewise in float64."""

    made_in = torch.float64


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


@pytest.mark.parametrize("make", [MadeAnew, MadeAnewInDouble])
def test_sinusoids_that_each_call_makes_are_read_of_several_patches(make: type[MadeAnew]) -> None:
    """One patch, the smallest image, would fit any layout; what float32 made is compared in float32."""
    target = check(make()).targets[0]
    assert target.verdict == "conformant", target.notes
    assert target.dtype == ("float32" if make is MadeAnew else "float64")
    chosen = target.profile["choices"]
    assert (chosen["position"], chosen["axes"]) == ("sinusoidal-grid-inclusive", "columns-first")


@pytest.mark.parametrize(
    ("make", "verdict"),
    [
        (Frozen, "conformant"),
        (FrozenNumbers, "conformant"),
        (FrozenCosines, "nonconformant"),
        (KeptCosines, "nonconformant"),
    ],
)
def test_waves_that_are_not_the_sinusoids_are_wrong_wherever_they_are_kept(make: type[Placed], verdict: str) -> None:
    target = check(make()).targets[0]
    assert target.verdict == verdict, target.notes
    if verdict == "nonconformant":
        assert target.departs_at == "position.learned"
        assert "tell rows and columns of patches by other numbers" in target.diagnosis[0]["says"]


def test_other_fixed_numbers_are_named() -> None:
    target = check(OutOfPlace()).targets[0]
    assert target.verdict == "undetermined"
    assert "its positions are fixed numbers, which no slot of the specification has" in str(target.notes)

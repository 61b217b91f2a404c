"""Encoders of images whose patches or positions stand in a grid, or whose sides they alone know."""

import torch
from torch import Tensor, nn

from conformance_tests.meta_tests.encoders.plain import Plain, plain_layers
from conformance_tests.meta_tests.encoders.unusual_calls import Calls, excused, unusual


@unusual
class PositionsInAGrid(Calls):
    """Adds a table of rows and columns of positions to the grid of patches, before they are put in a row."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.places = nn.Conv2d(3, 28, 4, 4), nn.Parameter(torch.randn(28, 3, 3))

    def embedded(self, images: Tensor) -> Tensor:
        return (self.patches(images) + self.places).flatten(2).mT

    def forward(self, images: Tensor) -> Tensor:  # type: ignore[override]
        return self.run(self.embedded(images), None)


@unusual
class FivePositions(Calls):
    """Two by two patches behind a class token, and a mask that is added to the scores as it is broadcast to them."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.first = nn.Conv2d(3, 28, 4, 4), nn.Parameter(torch.randn(1, 1, 28))
        self.places = nn.Parameter(torch.randn(1, 5, 28))

    def forward(self, images: Tensor, attn_mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        tokens = torch.cat([self.first.expand(len(images), -1, -1), self.patches(images).flatten(2).mT], 1)
        return self.run(tokens + self.places, None if attn_mask is None else ~attn_mask)


@unusual
class ClassTokenBesideAGrid(PositionsInAGrid):
    """Puts a class token in front, to which no position is added."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.randn(1, 1, 28))

    def embedded(self, images: Tensor) -> Tensor:
        return torch.cat([self.first.expand(len(images), -1, -1), super().embedded(images)], 1)


class ClassesOfOnePosition(nn.Module):
    """Maps one position to classes, behind a class token and patches; a subclass says which."""

    read = 0

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.encoder, self.classes = nn.Conv2d(3, 28, 4, 4), Plain(plain_layers()), nn.Linear(28, 5)
        self.first, self.places = nn.Parameter(torch.randn(1, 1, 28)), nn.Parameter(torch.randn(1, 10, 28))

    def encoded(self, images: Tensor) -> Tensor:
        x = torch.cat([self.first.expand(len(images), -1, -1), self.patches(images).flatten(2).mT], 1)
        states: Tensor = self.encoder(x + self.places)
        return states

    def forward(self, images: Tensor) -> Tensor:
        classes: Tensor = self.classes(self.encoded(images)[:, self.read])
        return classes


unusual(ClassesOfOnePosition)


@unusual
class ClassesOfPatches(ClassesOfOnePosition):
    """The mean over the patches leaves the class token out, as is customary."""

    def forward(self, images: Tensor) -> Tensor:
        classes: Tensor = self.classes(self.encoded(images)[:, 1:].mean(1))
        return classes


@excused("head.first", "the head reads position 9 of 10, and the class token stands at position 0")
class ClassesOfTheLastPatch(ClassesOfOnePosition):
    """The last position is that of a patch."""

    read = -1


@excused("head.first", "the head reads position 1 of 10, and the class token stands at position 0")
class ClassesOfTheFirstPatch(ClassesOfOnePosition):
    """The first patch stands behind the class token."""

    read = 1


@unusual
class ResamplesItsTable(PositionsInAGrid):
    """Takes images of any size, one of which is that of its table, and keeps a number that might be another one."""

    def __init__(self) -> None:
        super().__init__()
        self.places, self.width_of_a_head = nn.Parameter(torch.randn(28, 5, 5)), 8

    def embedded(self, images: Tensor) -> Tensor:
        patches = self.patches(images)
        places = self.places
        if patches.shape[2:] != places.shape[1:]:
            places = nn.functional.interpolate(places[None], tuple(patches.shape[2:]), mode="bicubic")[0]
        return (patches + places).flatten(2).mT


@excused("layer.post_ln", "the layers run in the order 1, 0")
class RunsBackwardsBehindItsTable(ResamplesItsTable):
    """Its layers run from the last to the first, which shows where its table is read as it is."""

    def run(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        for layer in reversed(self.layers):
            x = layer(x, hidden)
        return x


@unusual
class SidesOfItsOwn(Calls):
    """Takes its input apart by sides that it keeps: it takes other images with as many pixels, and reads them so."""

    def __init__(self) -> None:
        super().__init__()
        self.side, self.map, self.places = 8, nn.Linear(16, 28), nn.Parameter(torch.randn(1, 4, 28))

    def forward(self, images: Tensor) -> Tensor:  # type: ignore[override]
        rows = self.side // 4
        patches = images.reshape(-1, rows, 4, rows, 4).transpose(2, 3).reshape(len(images), rows**2, 16)
        return self.run(self.map(patches) + self.places, None)


@unusual
class MadeWithoutAMask(PositionsInAGrid):
    """Refuses a mask of patches unless it was made with what to put in their place."""

    def forward(self, images: Tensor, mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        if mask is not None:
            raise ValueError("made without masks")
        return self.run(self.embedded(images), None)


@unusual
class RescalesItsImages(PositionsInAGrid):
    """Takes images with entries up to 255, and makes them such up to 1."""

    def embedded(self, images: Tensor) -> Tensor:
        return super().embedded(images / 127.5 - 1)


@unusual
class StandardisesItsImages(PositionsInAGrid):
    """Takes a mean away from each channel and divides by a deviation, which it keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).reshape(3, 1, 1))
        self.register_buffer("deviation", torch.tensor([0.229, 0.224, 0.225]).reshape(3, 1, 1))

    def embedded(self, images: Tensor) -> Tensor:
        return super().embedded((images - self.get_buffer("mean")) / self.get_buffer("deviation"))


@unusual
class TurnsItsImagesRound(PositionsInAGrid):
    """White becomes black."""

    def embedded(self, images: Tensor) -> Tensor:
        return super().embedded(1 - images)


@unusual
class ClassTokenBehindARescaling(ClassTokenBesideAGrid):
    """Puts it in front behind the rescaling."""

    def embedded(self, images: Tensor) -> Tensor:
        return super().embedded(images * 2 - 1)

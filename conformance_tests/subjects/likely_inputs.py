"""Likely inputs of an encoder that nothing is known of: ids, vectors, images and signals, by its weights."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import count, islice, product, zip_longest
from types import MappingProxyType

import torch
from torch import Tensor

LENGTH = 5

MOST_WIDTHS = 8
"""The width of the hidden states is among the sizes that occur most often in the shapes of the weights."""

TABLE = MAP = 2
SEQUENCE = 3
"""The number of axes of a table, of a map, and of hidden states."""

LONGEST, MOST_LENGTHS = 256, 10
"""Lengths that a call is tried with are at most so large and so many: scores grow with their square."""

FEW_SIZES, LARGEST_WIDTH = 3, 1025
"""With fewer different sizes among its weights, every width below this one is tried."""

Shape = tuple[int, ...]

Patch = tuple[tuple[int, int], int]
"""Sides and channels."""

InputsOf = Callable[[Mapping[str, Tensor], int, int], Iterator[Tensor | Shape]]
"""Yields what may be the input: ids, or the shape of vectors. It reads the weights and the numbers of sequences and
positions.

A search passes over most of them. Drawing them all, large images too, takes longer than its calls.
"""


def inputs_of(
    weights: Mapping[str, Tensor],
    batch: int,
    length: int,
    tables: Mapping[str, Tensor] = MappingProxyType({}),
    shape: Sequence[int | None] | None = None,
    numbers: Collection[int] = (),
    special: Collection[int] = (),
) -> Iterator[Tensor | Shape]:
    """Yield what may be the input of an encoder with these weights, the likeliest first: ids, vectors, images, sounds.

    Of vectors, images and sounds that of a stated shape comes first, of images those with sides among the ``numbers``
    that it keeps. A single feature comes last: an encoder of wider vectors may take it as well, and repeat it. No id is
    one of those that are known to be ``special``.
    """
    shapes = [tuple(w.shape) for w in weights.values()]
    # Neither 0 nor 1, which are ids of padding in many vocabularies; different ones beside each other.
    usual = list(islice((id for id in count(2) if id not in special), 5))
    counted = torch.arange(length) + 2 * torch.arange(batch)[:, None]
    ids = torch.tensor(usual)[counted % len(usual)]
    yield ids
    # Two ids alone would read the same from the end, where it is seen whether an argument is read.
    rows = [shape[0] for shape in shapes if len(shape) == TABLE and 2 < shape[0] <= int(ids.max())]
    if rows:
        yield counted % min(rows)  # nucleotides, or the pieces of a game
    if shape is not None and len(shape) >= SEQUENCE:
        stated = [size or free for size, free in zip(shape, (batch, length, *shape[2:]), strict=True)]
        if None not in stated:
            yield tuple(filter(None, stated))
    yield ids[..., None]  # one feature of several that a position may have
    placed = position_tables([*shapes, *(tuple(t.shape) for t in tables.values())])
    for shape in convolved_signals(shapes, placed):  # before vectors: one position would do for all rows of a table
        yield batch, *shape
    sizes = Counter(size for shape in shapes for size in set(shape) if size > 1)
    likely = [size for size, _ in sizes.most_common(MOST_WIDTHS)]
    maps_of_one = [shape for shape in shapes if len(shape) == MAP and 1 in shape]
    for width in likely:
        yield batch, length, width
    for samples in waveforms(shapes, length):
        yield batch, samples
    if length != LENGTH:
        # Where only one length goes, it matters which axis has it.
        for width in likely:
            yield length, batch, width
    if maps_of_one:
        yield batch, length  # a number for each position, without an axis of features
    for shape in by_evidence(images_of(shapes, placed, numbers), shapes, placed, numbers):
        yield batch, *shape
    for kernel in dict.fromkeys(s for s in shapes if len(s) == 3):
        for time in (2 * length, *(2 * size for size in sizes if size <= LONGEST)):
            yield batch, kernel[1], time
        # Vectors with their features first: a mask beside them has as many positions.
        yield batch, kernel[1], length
    if length == LENGTH:
        # Where a mask (B, n) is asked for, it matters too.
        for width in likely:
            yield length, batch, width
    if maps_of_one:
        yield batch, length, 1


def drawn(likely: Tensor | Shape) -> Tensor:
    """Return ids as they are, and standard normal numbers of a shape."""
    if isinstance(likely, Tensor):
        return likely
    return torch.randn(*likely, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def positions_first(inputs: InputsOf) -> InputsOf:
    """Return the same inputs with the axes of sequences and positions exchanged."""
    return lambda weights, batch, length: inputs(weights, length, batch)


def likeliest_alone(inputs: InputsOf) -> InputsOf:
    """Return the first of the same inputs: ids."""
    return lambda weights, batch, length: islice(inputs(weights, batch, length), 1)


def convolved_signals(shapes: Sequence[Shape], placed: Sequence[Shape]) -> Iterator[tuple[int, int]]:
    """Yield the shapes of signals from which kernels make the rows of ``placed`` tables of positions.

    An image with a single channel may be taken without an axis for it.
    """
    widths = {table[-1] for table in placed}
    kernels = [s for s in shapes if len(s) == SEQUENCE and {s[0], s[-1]} & widths]
    stretches = [(s[0], s[1]) if s[-1] in widths else (s[1], s[2]) for s in kernels]
    yield from signals_of([stretch for a, b in stretches for stretch in ((a, b), (b, a))], placed)
    patches = [(s[2], s[3]) for s in shapes if len(s) == 4 and s[1] == 1 and s[0] in widths and s[2] * s[3] > 1]
    for (height, width), (rows, columns) in product(dict.fromkeys(patches), islice(grids_of(placed), MOST_GRIDS)):
        yield rows * height, columns * width


def waveforms(shapes: Sequence[Shape], length: int) -> Iterator[int]:
    """Yield how many samples may give so many positions, where kernels read one channel, and then what these give.

    Kernels have their channels in the middle. Most move by two times or by half of their width, some by all of it.
    """
    kernels = [s for s in shapes if len(s) == SEQUENCE]
    first = next((place for place, s in enumerate(kernels) if s[1] == 1), len(kernels))
    read: list[list[int]] = []
    for end, width in ((0, -1), (-1, 0)):  # channels that are given come first, or last
        taps: list[int] = []
        for shape in kernels[first:]:
            if taps and shape[1] != kernels[first][end]:
                break
            taps.append(shape[width])
        read.append(taps)
    steps = ([[max(2, -(-k // 2)) for k in taps] for taps in read], read)
    for taps, moves in (pair for each in steps for pair in zip(read, each, strict=True)):
        samples = length
        for k, step in zip(reversed(taps), reversed(moves), strict=True):
            samples = (samples - 1) * step + k
        if length < samples <= MOST_SAMPLES:
            yield samples


MOST_SAMPLES = 2**16
"""Sounds of at most so many samples are tried: four seconds."""


def is_waveform(x: Tensor) -> bool:
    """Return whether an input has a number for each sample, and no axis of features."""
    return x.ndim == MAP and x.is_floating_point()


def signals_of(stretches: Sequence[tuple[int, int]], placed: Sequence[Shape]) -> Iterator[tuple[int, int]]:
    """Yield the shapes of signals that make as many stretches as there are positions, with channels first and last.

    Args:
        stretches: channels and steps of one.
        placed: the shapes of tables of positions.
    """
    told = [s[-2] - special for s in placed for special in (1, 0, 2)]
    # A longer table has rows for any number of positions.
    counts = dict.fromkeys([*(n for n in told if 1 < n <= LONGEST), LENGTH])
    for (channels, steps), n in product(dict.fromkeys(stretches), list(counts)[:MOST_COUNTS]):
        if steps > 1:
            yield channels, n * steps
            yield n * steps, channels


MOST_CHANNELS, MOST_COUNTS = 16, 6
"""Signals with at most so many channels are tried, and so many numbers of stretches."""


def by_evidence(
    images: Iterable[Shape], shapes: Sequence[Shape], placed: Sequence[Shape], numbers: Collection[int]
) -> list[Shape]:
    """Return images in order: those first whose sides an encoder keeps, or for which it has a table of positions.

    Sides that are kept come before a table, which may have more rows, unless they are the sizes of some weights as
    well. An encoder that stretches its table takes other images, too, and computes no number of the table for them.
    """
    kernels = {tuple(sorted(s[2:])) for s in shapes if len(s) == 4}
    sizes = {size for shape in shapes for size in shape}
    told = set(images_told(placed, shapes, numbers))
    by_kernel = set(images_in_grids(patches_stored(shapes), placed))

    def rank(image: Shape) -> int:
        sides = tuple(sorted(image)[1:])
        is_kept = set(sides) <= set(numbers) and sides not in kernels
        is_surely = is_kept and sizes.isdisjoint(sides)
        is_told = image in told
        ranks = (is_surely and is_told, is_surely, image in by_kernel, is_kept and is_told, is_told, is_kept, True)
        return ranks.index(True)

    return sorted(images, key=rank)


def patches_stored(shapes: Sequence[Shape]) -> list[Patch]:
    """Return sides and channels of the patches that kernels read, squares first: they are likelier."""
    kernels = dict.fromkeys(s for s in shapes if len(s) == 4)
    stored = [((s[2], s[3]), s[1]) for s in kernels if s[2] * s[3] > 1]
    stored += [((s[0], s[1]), s[2]) for s in kernels if s[0] * s[1] > 1]
    return sorted(stored, key=lambda patch: patch[0][0] != patch[0][1])


def images_told(placed: Sequence[Shape], shapes: Sequence[Shape], numbers: Collection[int]) -> Iterator[Shape]:
    """Yield the shapes of images for which there is a table of positions; the arguments are those of ``images_of``."""
    squares = flattened_patches(mapped_to(placed, shapes))
    others = flattened_patches(mapped_to(placed, shapes), squares=False)
    rectangles = [(sides, channels) for sides, channels in others if set(sides) <= set(numbers)]
    yield from images_in_grids([*patches_stored(shapes), *rectangles, *squares], placed)


def images_in_grids(patches: Sequence[Patch], placed: Sequence[Shape]) -> Iterator[Shape]:
    """Yield the shapes of images that consist of as many patches as tables of positions have rows for."""
    for (patch, channels), grid in product(dict.fromkeys(patches), islice(grids_of(placed), MOST_GRIDS)):
        yield from images_with(patch, channels, grid)


def images_of(shapes: Sequence[Shape], placed: Sequence[Shape], numbers: Collection[int] = ()) -> Iterator[Shape]:
    """Yield the shapes of images that an encoder may take, those first for which there is a table of positions.

    Args:
        shapes: those of its weights.
        placed: those of tables of positions.
        numbers: whole numbers that it keeps, such as the sides of patches that a map reads flattened.
    """
    yield from images_told(placed, shapes, numbers)
    sizes = {size for shape in shapes for size in shape if size > 1}
    stored = patches_stored(shapes)
    # Where no kernel tells the sides of a patch, a table of positions has a row for each one, and for special tokens.
    grids = [k for k in range(1, 17) if any(k * k + special in sizes for special in range(3))]
    # A width that many arrays have is that of the layers.
    held = Counter(size for shape in shapes for size in set(shape))
    rare = [size for s in shapes if len(s) == MAP for size in s if held[size] <= MOST_OF_PATCHES]
    square = [s[0] for s in shapes if len(s) == MAP and s[0] == s[1]]  # ViT-B/16 has as many features as pixels
    areas = dict.fromkeys([*rare, *square])
    images = [(c, [*multiples(patch, (2, *range(1, 17))), LARGE_IMAGE]) for patch, c in dict.fromkeys(stored)]
    images += [(c, multiples(patch, (2, *grids))) for patch, c in flattened_patches(areas)]
    for channels, sides in images:
        yield from dict.fromkeys([*((channels, h, w) for h, w in sides), *((h, w, channels) for h, w in sides)])


LARGE_IMAGE = 224, 224
"""The sides of the images that most encoders of images are made for."""


def multiples(patch: tuple[int, int], times: Iterable[int]) -> list[tuple[int, int]]:
    """Return the sides of images with as many rows as columns of patches."""
    return [(k * patch[0], k * patch[1]) for k in times]


def images_with(patch: tuple[int, int], channels: int, grid: tuple[int, int]) -> Iterator[tuple[int, int, int]]:
    """Yield the shapes of the images with so many rows and columns of patches: channels first, and last."""
    height, width = grid[0] * patch[0], grid[1] * patch[1]
    yield channels, height, width
    yield height, width, channels


def of_rectangles(
    weights: Mapping[str, Tensor],
    batch: int,
    length: int,  # noqa: ARG001
    tables: Mapping[str, Tensor],
) -> Iterator[Shape]:
    """Yield images whose patches a map reads flattened, and which are rectangles of which only the area is told."""
    shapes, placed = shapes_of(weights, tables)
    patches = flattened_patches(mapped_to(placed, shapes), squares=False)
    for (patch, channels), grid in product(patches, list(islice(grids_of(placed, fewest=1), MOST_GRIDS))):
        for shape in images_with(patch, channels, grid):
            yield batch, *shape


def of_stretches(
    weights: Mapping[str, Tensor],
    batch: int,
    length: int,  # noqa: ARG001
    tables: Mapping[str, Tensor],
) -> Iterator[Shape]:
    """Yield signals whose stretches a map reads flattened."""
    shapes, placed = shapes_of(weights, tables)
    divided = product(mapped_to(placed, shapes), range(1, MOST_CHANNELS + 1))
    stretches = [(channels, entries // channels) for entries, channels in divided if entries % channels == 0]
    for shape in signals_of(stretches, placed):
        yield batch, *shape


def shapes_of(weights: Mapping[str, Tensor], tables: Mapping[str, Tensor]) -> tuple[list[Shape], list[Shape]]:
    """Return the shapes of an encoder's weights, and those of its tables of positions."""
    shapes = [tuple(w.shape) for w in weights.values()]
    return shapes, position_tables([*shapes, *(tuple(t.shape) for t in tables.values())])


def mapped_to(tables: Sequence[Shape], shapes: Sequence[Shape]) -> dict[int, None]:
    """Return how many entries maps read that give vectors as wide as the rows of tables of positions."""
    maps = [pair for s in shapes if len(s) == MAP for pair in (s, s[::-1])]
    return dict.fromkeys(read for read, width in maps if width in {table[-1] for table in tables})


def position_tables(shapes: Sequence[Shape]) -> list[Shape]:
    """Return the shapes that may be those of tables of positions: no other array has as many rows.

    The axis of the batch, with one entry, comes first in all of them.
    """
    often = Counter(size for shape in shapes for size in set(shape))
    three = [s for s in shapes if len(s) == SEQUENCE and 1 in s[:2]]
    with_batch = [(1, max(s[:2]), s[2]) for s in three]
    return with_batch + [s for s in shapes if len(s) == MAP and often[s[0]] == 1]


def grids_of(tables: Sequence[Shape], fewest: int = 2) -> Iterator[tuple[int, int]]:
    """Yield rows and columns of patches for which there is a table of positions: squares, then the nearest to them.

    A table has a row for each patch, for a class token, and for one that distils. There are at least the ``fewest``
    rows, and as many columns: a patch may be as high as the image.
    """
    grids: list[list[tuple[int, int]]] = []
    for patches in dict.fromkeys(s[-2] - special for s in tables for special in (1, 0, 2)):
        sides = [a for a in range(fewest, MOST_ROWS + 1) if patches % a == 0 and fewest <= patches // a <= MOST_ROWS]
        grids.append(sorted(((a, patches // a) for a in sides), key=lambda grid: abs(grid[0] - grid[1])))
    # A map may be taken for a table: no table of several comes last.
    in_turn = [grid for together in zip_longest(*grids) for grid in together if grid is not None]
    yield from sorted(in_turn, key=lambda grid: grid[0] != grid[1])


MOST_ROWS, MOST_GRIDS = 32, 12
"""Images have at most so many rows of patches (512 pixels with patches of 16), and so many grids are tried."""


def flattened_patches(areas: Iterable[int], *, squares: bool = True) -> Iterator[Patch]:
    """Yield sides and channels of patches that a map may read flattened: it reads pqC entries.

    Args:
        areas: what maps read.
        squares: whether the patches are squares, or other rectangles.
    """
    for area, channels in product(areas, COLOURS):
        pixels = area // channels
        heights = [height for height in range(1, pixels + 1) if pixels * channels == area and pixels % height == 0]
        for height in heights if pixels > 1 else ():
            if (height * height == pixels) == squares:
                yield (height, pixels // height), channels


COLOURS = (3, 1)
"""Channels of images: colour or grey."""

MOST_OF_PATCHES = 3
"""So many arrays may have the width of a flattened patch: the map, and γ and β of a norm before it."""


def of_any_width(weights: Mapping[str, Tensor], batch: int, length: int) -> Iterator[Shape]:
    """Yield embeddings of every width: all weights may be one vector, whose length says nothing of the width."""
    if len({size for w in weights.values() for size in w.shape}) < FEW_SIZES:
        for width in range(2, LARGEST_WIDTH):
            yield batch, length, width


def lengths_told(*held: Mapping[str, Tensor], numbers: Sequence[int] = ()) -> dict[int, None]:
    """Return the numbers of positions that an encoder tells, the likeliest first.

    These are the sides of squares beside its weights (a mask is made for pairs of positions), the rows of tables, whole
    numbers that it keeps beside the sizes of its arrays, how often the width that most arrays have goes into a longer
    one (a norm over all positions has n·d entries, and a map of them all reads as many), and any of their sizes.
    A table of positions has rows for a class token, and for one that distils.
    """
    placed = position_tables([tuple(w.shape) for arrays in held for w in arrays.values()])
    rows = [shape[-2] - special for shape in placed for special in (0, 1, 2)]
    counted = [Counter(size for w in arrays.values() for size in set(w.shape)).most_common() for arrays in held]
    sizes = [size for counts in counted for size, _ in counts]
    vectors = {w.shape[0] for arrays in held for w in arrays.values() if w.ndim == 1}
    times = [size // width for width in sizes[:1] for size in sorted(vectors) if size % width == 0]
    mapped = Counter(size for arrays in held for w in arrays.values() if w.ndim == MAP for size in w.shape)
    times += [size // width for width in sizes[:1] for size in mapped if mapped[size] == 1 and size % width == 0]
    kept = [number for number in numbers if number not in sizes]
    beside = (w.shape for arrays in held[1:] for w in arrays.values() if w.ndim > 1)
    pairs = [shape[-1] for shape in beside if shape[-1] == shape[-2]]
    return dict.fromkeys(size for size in (*pairs, *rows, *kept, *times, *sizes) if 1 < size <= LONGEST)

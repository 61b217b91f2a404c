"""Probes: inputs and masks chosen to make deviations visible.

No two axes have the same size. One position has a tiny variance and one a large offset. Padding stands in the middle,
on the left and on the right, and one sequence is nothing but padding. One probe is a single token; another has more
tokens than small windows, tables and caches hold. Two are large, one in its length and one in its number of sequences:
there work that is cut into chunks shows. Both come with many lengths, too: there work that is sorted by length, or
packed, shows. One sequence reaches to the end of a table of positions, if that is not too long. h = 1, B = 1, square
shapes, one length and well-scaled inputs each hide a family of defects.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from math import isqrt, prod
from typing import NamedTuple

import torch
from torch import Tensor

from conformance_tests.errors import Unsupported
from encoder_spec.assembly import Encoder
from encoder_spec.dimensions import Dimensions

UNPADDED = ("plain", "faint", "single", "extreme", "few", "many")
PADDED = ("everything-kept", "scattered", "right", "one-all-padded", "all-end-padded")
LARGE = ("long", "crowd")
RAGGED = ("ragged-long", "ragged-crowd")
WHOLE = "whole"
NAMES = (*UNPADDED, *PADDED, *LARGE, *RAGGED, WHOLE)
PRIMES = (3, 5, 7, 11, 13, 17, 19, 23, 29, 31)
BY_POSITION = ("given", "lookup", "vectors", "features", "features-without-bias")
"""Kinds of inputs whose second axis is that of the positions."""

SCALES = {"faint": 1e-4, "extreme": 1000.0}
FEW = 2
MANY = 41
LONG = 257
"""The first prime beyond 256: chunks of a power of two up to there are full, and one begins anew."""

MOST_OF_TABLE = 512
"""A table with more rows than this is not looked at to its end: it takes as long as all other probes together.

Nor is that of an encoder that is ``SLOW``.
"""

CROWD = 67
"""The first prime beyond 64, for the same reason; more sequences than that are a matter of memory."""

SLOW = 2**24
"""From so many parameters on that each position passes, probes have as few positions as show the same.

Two thousand positions in four probes take such an encoder longer than all other probes together. One sequence shows
what comes of its length, two positions what comes of the number of sequences, and 131 positions, the first prime
beyond 128, what padding does among many.
"""

USUAL = 7
"""So many positions a plain probe has, where nothing asks for others; an image of many patches takes longer."""

LONG_IF_SLOW, CROWDED_IF_SLOW = 131, 2
"""The positions of long sequences with padding, and of each sequence in a crowd, for such an encoder."""

PLAIN_IF_SLOW = ((3, 4), (2, 4), (5, 4))
"""Sequences and positions of the plain probe for such an encoder.

Where each array of weights is read for a few rows, processors multiply four rows as fast as three: 12 rows took 0.62 of
the time of the 21 that smaller encoders get, 8 rows 0.53, 20 rows 0.8, and 15 rows took longer than 21. Small encoders
with each deviation of the catalogue fail the same requirements with so few as with more.
"""


@dataclass(frozen=True)
class Probe:
    """One input to the encoder.

    ``inputs`` is what the slot ``input`` reads, in float64 or as ids; ``keep`` is
    (B, n) with True = keep, or None. ``by_position`` says whether the second axis of the
    inputs is that of the positions, as with tokens, but not with images or signals; ``patch`` has
    height and width of the patches of an image, and ``stages`` the sizes of the stages that a waveform passes.
    ``mixes_times`` says that a norm over time stands among these.
    """

    inputs: tuple[Tensor, ...]
    keep: Tensor | None = None
    by_position: bool = True
    patch: tuple[int, int] | None = None
    stages: Dimensions | None = None
    mixes_times: bool = False

    @property
    def positions(self) -> int:
        """The number of tokens, patches or frames, without what an encoder puts before them."""
        x = self.inputs[0]
        if self.by_position:
            return x.shape[1]
        if self.stages is not None:
            return self.stages.frames(x.shape[1])
        # A frame of a signal advances by two samples.
        return prod(self._grid) if self.patch else x.shape[-1] // 2

    @property
    def _grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        assert self.patch is not None
        height, width = self.inputs[0].shape[-2:]
        return height // self.patch[0], width // self.patch[1]

    def with_other_padding(self, times: float = 1000.0) -> "Probe":
        """Return the probe with other content at the padded positions, so many times larger where it is of reals."""
        x = self.inputs[0]
        assert self.keep is not None
        if not self.by_position:
            padded_in = (
                self._padded_samples if self.stages else self._padded_pixels if self.patch else self._padded_times
            )
            padded = padded_in()
            if not padded.any():
                raise Unsupported("what padded positions read is read by others too")
            return replace(self, inputs=(torch.where(padded, x.flip(0) + 1, x),))
        padded = ~self.keep[:, -x.shape[1] :]
        if x.is_floating_point():
            other = torch.where(padded[..., None], times * x.flip(0) + 1, x)
        else:
            # Among the ordinary ids: a padding id would move the positions of encoders that count past it.
            other = torch.where(padded, x.amin() + x.amax() - x, x)
        return replace(self, inputs=(other, *self.inputs[1:]))

    def with_other_middle(self) -> "Probe":
        """Return the probe with other content at the position in the middle, where it has any positions."""
        if not self.by_position:
            raise Unsupported("what stands at one position is read at others too")
        x = self.inputs[0].clone()
        middle = x.shape[1] // 2
        x[:, middle] = 1 - x[:, middle] if x.is_floating_point() else x.amin() + x.amax() - x[:, middle]
        return replace(self, inputs=(x, *self.inputs[1:]))

    def _padded_pixels(self) -> Tensor:
        """Return which pixels lie in padded patches; what stands before the patches has none."""
        assert self.keep is not None
        assert self.patch is not None
        patches: Tensor = ~self.keep[:, -prod(self._grid) :].unflatten(1, self._grid)
        return patches.repeat_interleave(self.patch[0], 1).repeat_interleave(self.patch[1], 2)[:, None]

    def _padded_times(self) -> Tensor:
        """Return which samples only padded positions read: two belong to each, and both neighbours read them."""
        assert self.keep is not None
        keep = self.keep[:, -(self.inputs[0].shape[-1] // 2) :].double()  # what stands before the signal has no content
        read = torch.nn.functional.max_pool1d(keep[:, None], kernel_size=3, stride=1, padding=1) > 0
        return ~read.repeat_interleave(2, dim=-1)

    def _padded_samples(self) -> Tensor:
        """Return which samples only padded positions read; positions overlap, and read more than lies between them.

        Raises:
            Unsupported: if each position reads all samples, as a norm over time has it.
        """
        assert self.keep is not None
        assert self.stages is not None
        if self.mixes_times:
            raise Unsupported("a norm over time reads padding too")
        read = torch.zeros_like(self.inputs[0], dtype=torch.bool)
        step = self.stages.samples(2) - self.stages.samples(1)
        for sample, position in self.keep[:, -self.positions :].nonzero().tolist():
            read[sample, position * step : position * step + self.stages.samples(1)] = True
        return ~read

    def without_mask(self) -> "Probe":
        """Return the probe without its mask."""
        return replace(self, keep=None)

    def reversed(self) -> "Probe":
        """Return the probe with its positions in reverse order."""
        return self._each(lambda x: x.flip(1))

    def left_out(self, position: int) -> "Probe":
        """Return the probe without one of its positions."""
        return self._each(lambda x: torch.cat([x[:, :position], x[:, position + 1 :]], 1))

    def only(self, sample: int) -> "Probe":
        """Return a batch of one sample."""
        return self._each(lambda x: x[sample][None])

    def part(self, sample: int, length: int) -> "Probe":
        """Return the first positions of one sample, without a mask."""
        return self.without_mask()._each(lambda x: x[sample : sample + 1, :length])

    def without_last(self) -> "Probe":
        """Return the sequences without their last position."""
        return self._each(lambda x: x[:, :-1])

    def corner(self, samples: int, length: int) -> "Probe":
        """Return the first samples and, where the inputs are by position, only their first positions."""
        keep = None if self.keep is None else self.keep[:samples]
        if not self.by_position:
            return replace(self._each(lambda x: x[:samples]), keep=keep)
        if keep is not None:
            keep = keep[:, : keep.shape[1] - self.inputs[0].shape[1] + length]  # what stands before the input stays
        return replace(self._each(lambda x: x[:samples, :length]), keep=keep)

    def strided(self) -> "Probe":
        """Return the probe with its numbers in another memory order."""
        return replace(self, inputs=tuple(x.transpose(0, 1).contiguous().transpose(0, 1) for x in self.inputs))

    def copy(self) -> "Probe":
        """Return the probe with its numbers in separate memory."""
        keep = None if self.keep is None else self.keep.clone()
        return replace(self._each(torch.clone), keep=keep)

    def equals(self, other: "Probe") -> bool:
        """Return whether inputs and mask hold the same numbers as those of another probe.

        An input into which torch has been made to write is not what it was, even where the numbers are.
        """
        same_keep = self.keep is other.keep is None or torch.equal(self.keep, other.keep)  # type: ignore[arg-type]
        pairs = list(zip(self.inputs, other.inputs, strict=True))
        return same_keep and all(torch.equal(a, b) and a._version == b._version for a, b in pairs)

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Probe":
        # Some encoders refuse numbers in another memory order, which only the probe that is about it may have.
        return replace(self, inputs=tuple(change(x).contiguous() for x in self.inputs))


class Sizes(NamedTuple):
    """The only number of sequences, the only number of positions, and the sides of the only images that are taken.

    Each is None if an encoder takes any.
    """

    batch: int | None = None
    length: int | None = None
    image: tuple[int, int] | None = None


def sizes_in_words(sizes: Sizes) -> str:
    """Return the only sizes that an encoder takes, for a message."""
    batch, length, image = sizes
    if image is not None:
        return ("" if batch is None else f"{batch} ") + f"images of {image[0]} × {image[1]}"
    several = "" if batch == 1 else "s"
    sequences = "sequences" if batch is None else f"{batch} sequence{several}"
    return sequences if length is None else f"{sequences} of {length} positions"


def is_slow(encoder: Encoder, positions: int = USUAL) -> bool:
    """Return whether so many positions pass so many parameters each that dozens of such sequences take long."""
    shapes = encoder.parameter_shapes()
    one = sum(prod(shape) for path, shape in shapes.items() if path.startswith("layers.0."))
    return one * encoder.dimensions.N * positions >= SLOW * USUAL


class Probes:
    """The probes for an encoder, made from a seed and always the same for it, with numbers that ``dtype`` can hold.

    With ``sizes``, all have so many sequences, or so many tokens: some encoders take no others. Ids that are
    ``special`` to an encoder do not occur.
    """

    def __init__(
        self,
        encoder: Encoder,
        seed: int,
        dtype: torch.dtype = torch.float64,
        sizes: Sizes | None = None,
        special: frozenset[int] = frozenset(),
    ) -> None:
        self.encoder = encoder
        self.special = special
        self.seed = seed
        self.dtype = dtype
        self._made: dict[str, Probe] = {}
        axes = ("N", "h", "d_k", "d_v", "d_model", "d_ff", *encoder.reads)
        taken = {size for letter, size in encoder.dimensions.sizes().items() if letter in axes}
        self.fixed = sizes or Sizes()
        self.is_slow = is_slow(encoder)
        self.batch, self.length = self._plain(taken)
        if self._kind.startswith("patches"):
            positions = prod(self._grid(self.length)) + encoder.prepended
            self.is_slow = is_slow(encoder, positions)
            # A mask of as many sequences as there are patches might be one for each pair of these.
            self.batch, _ = self._plain({*taken, positions})
        self.longest = self.whole = LONG
        learned = "P" in encoder.profile["position"].parameters
        if self._kind == "convolutions" and learned:
            self.length = encoder.dimensions.max_len  # such encoders take sounds of one length alone
        if self._kind not in BY_POSITION and learned:
            self.longest = self.length
        if self._kind in BY_POSITION and self._kind != "given" and learned:
            # Two rows are spared: the offset is not known before it is identified.
            spared = encoder.class_tokens + max(2, int(encoder.profile.constants["offset"]))
            usable = encoder.dimensions.max_len - spared
            self.length, self.longest = (max(1, min(length, usable)) for length in (self.length, LONG))
            has_offset = "offset" in encoder.profile["position"].constants
            before = encoder.class_tokens + (int(encoder.profile.constants["offset"]) if has_offset else 0)
            rows = encoder.dimensions.max_len - before
            is_quick = self.longest < rows <= MOST_OF_TABLE and not self.is_slow
            self.whole = rows if is_quick else self.longest
        self.batch, self.length = self._fixed(self.batch, self.length)
        self.tells_axes_apart = self.batch not in {*taken, self.length}
        """Whether no other axis has as many entries as there are sequences."""

    def _plain(self, taken: Collection[int]) -> tuple[int, int]:
        """Return how many sequences of how many positions the plain probe has: as many as no other axis."""
        if self.is_slow and self._kind.startswith("patches") and FEW not in taken:
            return FEW, next(p for p in PRIMES[2:] if p not in taken)
        if self.is_slow and self._kind in BY_POSITION:
            for batch, length in PLAIN_IF_SLOW:
                if not {batch, length, batch * length}.intersection(taken):
                    return batch, length
        batch = next(p for p in PRIMES if p not in taken)
        return batch, next(p for p in PRIMES[2:] if p not in taken and p != batch)

    @property
    def _mixes_times(self) -> bool:
        """True if a stage of a waveform reads more than lies under its kernel."""
        return any(equation.variant == "convolution-norm-over-time" for equation in self.encoder.equations())

    @property
    def _kind(self) -> str:
        if self.encoder.reads[-1:] == ("samples",):
            return "waveform"  # whatever is done with them
        profile = self.encoder.profile
        return profile["input" if profile["input"].variant == "given" else "embedding"].variant

    def _grid(self, length: int) -> tuple[int, int]:
        """Return rows and columns of patches: the square that a learned table is for, else about as many as asked."""
        if self.fixed.image is not None:
            height, width = self.fixed.image
            return height // self.encoder.dimensions.patch, width // self.encoder.dimensions.patch_width
        side = isqrt(self.encoder.dimensions.max_len - self.encoder.class_tokens)
        is_square = side**2 + self.encoder.class_tokens == self.encoder.dimensions.max_len
        if is_square and "P" in self.encoder.profile["position"].parameters:
            return side, side
        side = isqrt(length)
        return side, side + (side**2 < length)

    def __getitem__(self, name: str) -> Probe:
        """Return the probe of this name in separate memory: some encoders write into their inputs."""
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name].copy()

    def _make(self, name: str) -> Probe:
        generator = torch.Generator().manual_seed(self.seed * len(NAMES) + NAMES.index(name))
        inputs = self._inputs(generator, *self._sizes(name))
        inputs = tuple(self._held(x * SCALES.get(name, 1.0)) if x.is_floating_point() else x for x in inputs)
        sizes = self.encoder.dimensions
        patch = (sizes.patch, sizes.patch_width) if self._kind.startswith("patches") else None
        stages = sizes if self._kind == "waveform" else None
        probe = Probe(inputs, None, self._kind in BY_POSITION, patch, stages, self._mixes_times)
        keep = self._keep(name, len(inputs[0]), probe.positions + self.encoder.prepended, generator)
        return replace(probe, keep=keep)

    def _sizes(self, name: str) -> tuple[int, int]:
        """Return how many sequences of how many tokens; images and signals are not shorter than the plain ones."""
        more = next((p for p in PRIMES if p > self.batch), self.batch + 1)  # some encoders take a large batch alone
        sizes = {
            "single": (self.batch, 1),
            "few": (FEW, min(FEW, self.length)),
            "many": (more, min(MANY, self.longest)),
            "long": (FEW, self.longest),
            "crowd": (CROWD, self.length),
            WHOLE: (1, self.whole),
        }
        if self.is_slow:
            # Images have as many patches as they have.
            few = (CROWD, min(CROWDED_IF_SLOW, self.length)) if self._kind in BY_POSITION else (more, self.length)
            sizes |= {"many": (FEW, min(MANY, self.longest)), "long": (1, self.longest), "crowd": few}
            sizes |= {"ragged-long": (FEW, min(LONG_IF_SLOW, self.longest)), "ragged-crowd": few}
        batch, length = sizes.get(name, sizes.get(name.removeprefix("ragged-"), (self.batch, self.length)))
        return self._fixed(batch, length if self._kind in BY_POSITION else max(length, self.length))

    def _fixed(self, batch: int, length: int) -> tuple[int, int]:
        """Return sizes, except where the encoder takes one alone."""
        return self.fixed.batch or batch, self.fixed.length or length

    def _held(self, x: Tensor) -> Tensor:
        """Return numbers that the precision of the computation can hold, in float64."""
        return x.to(self.dtype).double()

    def _inputs(self, generator: torch.Generator, batch: int, length: int) -> tuple[Tensor, ...]:
        sizes = self.encoder.dimensions
        if self._kind in BY_POSITION and self._kind != "lookup":
            width = getattr(sizes, self.encoder.reads[-1])
            x = torch.randn(batch, length, width, generator=generator, dtype=torch.float64)
            if self._kind == "given":
                # The first norm reads them as they are; positions or a map would hide what they show.
                x[0, 1 % length] *= 1e-3
                x[1 % batch, 2 % length] += 30
            return (x, *self._segments(generator, batch, length))
        if self._kind.startswith("patches"):
            rows, columns = self._grid(length)
            shape = (batch, sizes.channels, rows * sizes.patch, columns * sizes.patch_width)
            return (torch.randn(shape, generator=generator, dtype=torch.float64),)
        if self._kind == "waveform":
            # Some samples at the end are too few for one more position.
            samples = sizes.samples(length) + (sizes.samples(2) - sizes.samples(1)) // 2
            return (torch.randn(batch, samples, generator=generator, dtype=torch.float64),)
        if self._kind == "convolutions":
            return (torch.randn(batch, sizes.channels, 2 * length, generator=generator, dtype=torch.float64),)
        # The first few ids are often special: padding, unknown, beginning, end.
        tokens = torch.randint(4 if sizes.V > 12 else 0, sizes.V, (batch, length), generator=generator)
        plain = next((id for id in reversed(range(sizes.V)) if id not in self.special), 0)
        tokens = tokens.masked_fill(torch.isin(tokens, torch.tensor(sorted(self.special))), plain)
        return (tokens, *self._segments(generator, batch, length))

    def _segments(self, generator: torch.Generator, batch: int, length: int) -> tuple[Tensor, ...]:
        if self._kind == "given" or self.encoder.profile["segment"].variant == "none":
            return ()
        return (torch.randint(self.encoder.dimensions.segments, (batch, length), generator=generator),)

    def _keep(self, name: str, batch: int, n: int, generator: torch.Generator) -> Tensor | None:
        if name in RAGGED:
            # One is whole, as the longest of a batch is. The order of many lengths is not its own inverse: what is put
            # back in the wrong one of the two shows. What an encoder puts before its tokens is never padding.
            lengths = torch.randint(self.encoder.prepended + 1, n + 1, (batch,), generator=generator)
            lengths[0] = n
            return torch.arange(n) < lengths[:, None]
        if name not in PADDED:
            return None
        keep = torch.ones(batch, n, dtype=torch.bool)
        if name == "scattered":
            keep[0, n // 2 : n // 2 + 2] = False
            keep[1 % batch, : n // 3] = False
            keep[-1, -(n // 3) :] = False
        elif name == "right":
            # As many as are padded in the probe before: what is kept by the number of tokens fits one of the two alone.
            keep[1 % batch, n - n // 3 :] = False
            keep[-1, 1 if n < 4 else n - n // 3 - 2 :] = False
        elif name == "one-all-padded":
            keep[1:2] = False
        elif name == "all-end-padded":
            keep[:, n - n // 4 :] = False
        return keep

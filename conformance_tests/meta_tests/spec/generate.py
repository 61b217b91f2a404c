"""Random cases for equations and encoders: Hypothesis draws the sizes, a seeded generator the entries.

Whatever an annotation says is allocated from it: symbolic axes become sizes,
parameters follow the walk of ``Encoder``, and slots are filled by a profile, so
that implementation and oracle always get corresponding functions.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.vendor.pretty import pretty
from jaxtyping import Bool, Int
from torch import Tensor

from encoder_spec.assembly import Encoder, join
from encoder_spec.dimensions import Dimensions, axis_size
from encoder_spec.equation import IDS, MASK, Equation, slots, variants
from encoder_spec.profiles import PROFILES, Profile

BOUNDED = settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=10,
    phases=[Phase.generate, Phase.shrink],
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow],
)

ID_TABLES = {"tokens": "V", "segment_ids": "segments"}
"""Arguments that hold ids, and the symbol of the table that they address."""

READ_BY = {"inputs": "input", "tokens": "embedding", "segment_ids": "segment"}
"""Arguments without a shape of their own, and the slot whose equation reads them: segments after X."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Twin(Equation):
    """An equation whose oracle stands beside it, not in ``encoder_spec.oracle``."""

    twin: Callable[..., Any]

    @property
    def oracle(self) -> Callable[..., Any]:
        """The function given as twin."""
        return self.twin


def spread(x: np.ndarray) -> np.ndarray:
    """Fill [0, 1) evenly with fixed numbers: the fractions of multiples of the golden ratio."""
    return ((np.arange(1, x.size + 1) * 0.6180339887498949) % 1).reshape(x.shape)


def spread_tensor(x: Tensor) -> Tensor:
    """Give the same numbers as a tensor."""
    return torch.from_numpy(spread(x.detach().numpy()))


SPREAD_NOISE = Twin("dropout.noise", "noise", "spread", spread_tensor, twin=spread)
"""Noise that both sides share: two random generators could never agree."""


@dataclass(frozen=True)
class Case:
    """One use of the equation in a slot: what flows into it and its parameters, as arrays."""

    encoder: Encoder
    slot: str
    flowing: Sequence[Any]
    parameters: dict[str, Any]

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        """Show where a failing case stands and how large it is, but no entries."""
        profile = self.encoder.profile
        shapes = [getattr(a, "shape", a) for a in self.flowing]
        printer.text(f"{profile[self.slot].id} of {shapes} in {profile.name}, {self.encoder.dimensions}")

    __repr__ = pretty

    def implementation(self) -> Any:
        """Evaluate by torch; arrays that are already tensors stay the same objects."""
        parameters = {path: as_tensor(a) for path, a in self.parameters.items()}
        return self.encoder.bind(parameters, slot=self.slot)(*map(as_tensor, self.flowing))

    def oracle(self) -> Any:
        """Evaluate by NumPy."""
        evaluate = self.encoder.bind(self.parameters, evaluate=lambda equation: equation.oracle, slot=self.slot)
        return evaluate(*self.flowing)

    def map(self, function: Callable[[Any], Any]) -> Self:
        """Replace every floating array, in a fixed order."""

        def change(a: Any) -> Any:
            return function(a) if getattr(a, "dtype", None) == np.float64 else a

        parameters = {path: change(a) for path, a in self.parameters.items()}
        return type(self)(self.encoder, self.slot, [change(a) for a in self.flowing], parameters)


def as_tensor(value: Any) -> Any:
    """Turn a NumPy array into a tensor; leave anything else as it is."""
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value


def random_floats(rng: np.random.Generator, shape: Sequence[int]) -> np.ndarray:
    """Draw normal entries, none so near to 0 that a difference quotient could step over ReLU's kink."""
    x = rng.standard_normal(tuple(shape))
    return np.asarray(x + np.copysign(0.01, x))


def random_mask(rng: np.random.Generator, shape: Sequence[int]) -> np.ndarray:
    """Draw a mask, True = keep; now and then a row keeps nothing."""
    keep = rng.random(tuple(shape)) < 0.6
    first = rng.integers(shape[-1] + 1, size=tuple(shape[:-1]))
    return keep | (np.arange(shape[-1]) == first[..., None])


def random_arrays(encoder: Encoder, slot: str, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Every parameter below the equation in ``slot``; maps keep the size of what they map."""
    shapes = {
        encoder.home(join(place.path, name)): encoder.dimensions.shape(axes)
        for place in encoder.places(slot)
        for name, axes in place.parameters.items()
    }
    return {
        path: random_floats(rng, shape) / (np.sqrt(shape[0]) if path.rpartition(".")[2].startswith("W_") else 1)
        for path, shape in shapes.items()
    }


def uses(encoder: Encoder, id: str) -> bool:
    """Whether the equation ``id`` takes part in the whole encoder."""
    return any(equation.id == id for equation in encoder.equations())


def readable(profile: Profile) -> bool:
    """Whether the parts fit together.

    Segments and masked tokens go with tokens alone, a head that reads E with an E of width d_model, and a grid with
    patches of an image. A mask of all positions is none of those before registers join them. Distances have queries
    and keys in each head, and are not those on a grid.
    """
    in_grid = any("rows" in equation.constants for equation in Encoder(profile, Dimensions()).equations())
    if in_grid and ("embedding" not in profile["input"].slots or "patch" not in profile["embedding"].constants):
        return False
    tokens_alone = profile["embedding"].id == "embedding.lookup" and profile["cls"].variant == "none"
    wide = profile["input"].variant != "factorised" or profile["head"].variant != "mlm"
    reads_mask = profile["position"].reads_mask or profile["embedding_scale"].reads_mask
    masked = not reads_mask or profile["registers"].variant == "none"
    tokens = profile["embedding_scale"].variant != "token-dropout" or tokens_alone
    told = profile["scores"].variant != "disentangled" or not (in_grid or "groups" in profile["multihead"].slots)
    return wide and masked and told and tokens and (profile["segment"].variant == "none" or tokens_alone)


READING_MASKS = (
    "head.mean",
    "head.last",
    "head.counted",
    "head.largest",
    "head.attention_pool",
    "embedding.token_dropout",
)
"""Equations that read which positions are valid, from a mask that is one for all queries."""

PREPENDED = {"embedding.cls": 1, "embedding.cls_and_distillation": 2}
"""By how many positions class tokens lengthen the sequence."""


def prepended(encoder: Encoder) -> int:
    """How many positions stand before those of the input."""
    has_registers = any(uses(encoder, f"embedding.{id}") for id in ("registers", "registers_behind"))
    registers = encoder.dimensions.r if has_registers else 0
    return registers + sum(number for id, number in PREPENDED.items() if uses(encoder, id))


@st.composite
def encoders(draw: st.DrawFn, profile: Profile) -> tuple[Encoder, dict[str, int]]:
    """Draw the sizes and constants of an encoder, and the sizes of its data.

    Hypothesis starts with the first of each tuple: distinct primes.
    """
    size = {
        "h": (3, 1, 2),
        "g": (1, 0),
        "d_k": (5, 1, 2),
        "d_v": (7, 2, 1),
        "d_ff": (11, 1, 4),
        "N": (2, 3, 1),
        "V": (13, 1, 4),
        "buckets": (8, 12, 4),
        "segments": (2, 1),
        "r": (3, 1),
        "kernel": (4, 3, 1),
        "convolutions": (2, 3, 1),
        "channels": (3, 1),
        "d_e": (8, 4, 6),
        "patch": (2, 3, 1),
        "patch_width": (3, 2, 1),
        "classes": (17, 1),
    }
    if profile["embedding"].variant == "waveform":
        size["channels"] = (3, 5)  # which norms read
    if profile["attention"].variant.startswith("normed"):
        size["d_k"] = (5, 3)  # for the same reason as d_model below
    drawn = {name: draw(st.sampled_from(choices), label=name) for name, choices in size.items()}
    # Not 2: a norm of two features is all but a sign, and magnifies rounding without bound.
    whole_pairs = profile["position"].variant in ("sinusoidal-concatenated", "sinusoidal-tensor2tensor")
    whole_pairs = whole_pairs or profile["position"].variant.startswith("convolution")
    widths = (6, 4, 10) if whole_pairs else (8, 12) if "grid" in profile["position"].variant else (7, 3, 6, 5)
    d_model = draw(st.sampled_from(widths), label="d_model")
    B, rows, columns = (draw(st.sampled_from(choices)) for choices in ((2, 1, 3), (1, 2), (5, 1, 3)))
    offset, spare = draw(st.sampled_from((2, 0))), draw(st.sampled_from((1, 2)))
    n = rows * columns
    constants = {"eps": draw(st.sampled_from((1e-5, 0.1, 1e-12))), "p_drop": draw(st.sampled_from((0.3, 0, 0.5)))}
    constants |= {"max_distance": draw(st.sampled_from((4, 7, 128))), "window": draw(st.sampled_from((4, 1, 7)))}
    constants |= {"mask_token_id": draw(st.sampled_from((2, 0)))}
    d_group = draw(st.sampled_from((2, 1))) if whole_pairs else 1
    sizes = drawn | {"rows": rows, "columns": columns, "d_group": d_group}
    if profile["scores"].variant == "disentangled":
        sizes["buckets"] = max(drawn["buckets"], 8)
        constants["max_distance"] = max(constants["max_distance"], 5)
    if profile["bias"].variant == "by-grid":
        sizes["buckets"] = (2 * rows - 1) * (2 * columns - 1) + 3
    widths, strides = draw(st.sampled_from((((5, 3, 2), (3, 2, 1)), ((3, 1), (2, 1)), ((2,), (2,)))))
    sizes |= {"widths": widths, "strides": strides}
    dimensions = Dimensions(d_model=d_model, max_len=n + offset + 1 + spare, **sizes)
    encoder = Encoder(profile.replace(noise=SPREAD_NOISE, position_offset=offset, **constants), dimensions)
    data = {"B": B, "n": n, "height": rows * drawn["patch"], "width": columns * drawn["patch_width"]}
    data |= {"m": n + draw(st.sampled_from((1, 0, 2))), "time": 2 * n, "d_head": drawn["d_k"]}
    more = min(spare, dimensions.samples(2) - dimensions.samples(1) - 1)  # too few for one more position
    data |= {"samples": dimensions.samples(n) + more, "heard": drawn["channels"] if len(widths) > 1 else 1}
    data |= {"hd": drawn["h"] * drawn["d_k"], "gd": dimensions.g * drawn["d_k"]}
    return encoder, dimensions.sizes() | data


def flowing(
    encoder: Encoder, equation: Equation, sizes: dict[str, int], draw: st.DrawFn, rng: np.random.Generator
) -> Iterator[Any]:
    """Random values for the positional arguments of an equation, from their annotations."""
    any_axes = draw(st.sampled_from([("B", "n"), ("B", "h", "n"), ("B",), ()]))
    grown = prepended(encoder) if equation.slot == "stack" else 0
    for name, hint in equation.flowing.items():
        if hint is Tensor:
            width = equation.widths.get(READ_BY[name], "d_model")
            read = flowing(encoder, encoder.profile[READ_BY[name]], sizes | {"d_model": sizes[width]}, draw, rng)
            yield from list(read)[name == "segment_ids" :]
            continue
        if hint is int:
            yield int(rng.integers(sizes["N"]))
            continue
        if hint is str:
            yield draw(st.sampled_from(("W_Q", "b_1", "norm_1.gamma")))
            continue
        axes = hint.dim_str.replace("*axes", " ".join(any_axes)).split()
        lengths = sizes | {"n": sizes["n"] + grown}
        shape = [
            draw(st.sampled_from((axis_size(axis[1:], lengths), 1))) if axis[0] == "#" else axis_size(axis, lengths)
            for axis in axes
        ]
        if hint.dtype is Bool:
            yield random_mask(rng, shape)
        elif hint.dtype is Int:
            yield rng.integers(sizes[ID_TABLES[name]], size=shape)
        else:
            yield random_floats(rng, shape)


def generators() -> st.SearchStrategy[np.random.Generator]:
    """Seeded sources of entries."""
    return st.integers(0, 2**32 - 1).map(np.random.default_rng)


BUSY = PROFILES["roformer"].replace(bias="alibi", reach="local", residual="scaled", dropout="inverted", length="unit")
"""Where parts of other profiles hand on what they get, those of this one change it: to leave one out shows."""


def filled(profiles: Iterable[Profile], equation: Equation) -> list[Profile]:
    """Put ``equation`` into its slot of every profile where it fits."""
    return [p for p in (profile.replace(**{equation.slot: equation}) for profile in profiles) if readable(p)]


@st.composite
def cases(draw: st.DrawFn, equation: Equation, profiles: Iterable[Profile] = (BUSY, *PROFILES.values())) -> Case:
    """Draw a case of ``equation``, its slots filled as one of the profiles fills them."""
    encoder, sizes = draw(encoders(draw(st.sampled_from(filled(profiles, equation)))))
    rng = draw(generators())
    arguments = list(flowing(encoder, equation, sizes, draw, rng))
    arrays = random_arrays(encoder, equation.slot, rng)
    if equation.reads_mask:
        rows = 1 if equation.id in READING_MASKS else sizes["n"]
        arrays[MASK] = random_mask(rng, [sizes["B"], rows, sizes["n"]])
    if IDS in equation.of_call:
        arrays[IDS] = rng.integers(4, size=(sizes["B"], sizes["n"]))
    return Case(encoder, equation.slot, arguments, arrays)


@st.composite
def whole_encoders(draw: st.DrawFn, profile: Profile) -> Case:
    """Draw an encoder with its inputs; the mask is the caller's: None, (B, n) or (B, n, n)."""
    encoder, sizes = draw(encoders(profile))
    rng = draw(generators())
    inputs = flowing(encoder, profile["input"], sizes, draw, rng)
    n = sizes["n"] + prepended(encoder)
    axes = (
        [(sizes["B"], n), ()]
        if any(uses(encoder, pool) for pool in READING_MASKS)
        else [(sizes["B"], n), (sizes["B"], n, n), ()]
    )
    shape = draw(st.sampled_from(axes), label="mask")
    keep = random_mask(rng, shape) if shape else None
    return Case(encoder, "stack", [keep, *inputs], random_arrays(encoder, "stack", rng))


def neighbours(profile: Profile) -> Iterator[tuple[str, Equation]]:
    """Every (slot, variant) that changes what ``profile`` computes, in turn."""
    for slot in slots():
        for equation in variants(slot).values():
            near = profile.replace(**{slot: equation})
            in_use = equation in Encoder(near, Dimensions()).equations()
            if equation is not profile[slot] and in_use and readable(near):
                yield slot, equation

"""Equations run at prime sizes, so that what they spend can be read back as a formula.

Every letter gets a prime of its own as its size, and the equations run on torch's meta
device, where tensors have shapes but no entries. A product of sizes then factorises in one
way only, hence into one monomial of letters: the 2·(B·n·d_ff)·d_model FLOPs of a matrix
product are measured as one number and read back as that expression. d_model, h, d_k and d_v
are independent of each other here, as ``Dimensions`` allows; widths are four times a prime, because
some positions tell rows and columns by pairs of features. d_model and d_e are multiples of the width
of a group, whose features lie side by side.

A sum of sizes does not factorise so: an axis n + 1 leaves the factor 104, and is refused.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod
from typing import Any

import sympy
import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.overrides import TorchFunctionMode

from encoder_spec.assembly import Encoder, Intermediate
from encoder_spec.dimensions import Dimensions, axis_size
from encoder_spec.equation import IDS, MASK, Equation
from encoder_spec.notation import demand
from encoder_spec.profiles import Profile

LETTERS = (
    "buckets",
    "B",
    "n",
    "d_model",
    "h",
    "g",
    "d_k",
    "d_v",
    "d_ff",
    "V",
    "max_len",
    "segments",
    "channels",
    "classes",
    "patch",
    "patch_width",
    "d_e",
    "r",
    "kernel",
    "d_group",
    "convolutions",
)
PRIMES = dict(zip(LETTERS, sympy.primerange(97, 223), strict=False))
GROUPED = ("d_model", "d_e")
SIZES = PRIMES | {size: 4 * PRIMES[size] for size in ("d_k", "buckets")}
SIZES |= {width: 4 * PRIMES[width] * PRIMES["d_group"] for width in GROUPED}

PRODUCTS = ("__matmul__", "matmul", "mm", "bmm", "linear")
UNREAD = ("einsum", "tensordot", "addmm", "baddbmm", "conv1d", "conv2d", "scaled_dot_product_attention")


def letters_of(number: int) -> tuple[Fraction, Counter[str]]:
    """The numeric factor, ½ for pairs, and the letters, with powers, whose sizes multiply to ``number``.

    Raises:
        SpecificationError: if what the letters leave is no small factor.
    """
    letters = {prime: letter for letter, prime in PRIMES.items()}
    powers: dict[int, int] = sympy.factorint(number)
    found = Counter({letters[prime]: power for prime, power in powers.items() if prime in letters})
    found -= Counter({"d_group": sum(found[width] for width in GROUPED)})  # their sizes have that of a group in them
    rest = Fraction(number, prod(SIZES[letter] for letter in found.elements()))
    demand(
        rest.denominator <= 2 and rest < min(letters),
        f"{number} is no product of sizes: it leaves {rest}, as an axis n + 1 would",
    )
    return rest, found


@dataclass
class Measurement(TorchFunctionMode):
    """What one evaluation spends: FLOPs by equation, entries of its intermediates, and its value.

    As a torch function mode it sees every matrix product, and books 2 FLOPs for each
    multiply–add to the innermost equation that is being evaluated.
    """

    flops: list[tuple[str, int]] = field(default_factory=list)
    storages: dict[int, tuple[Any, int]] = field(default_factory=dict)
    value: Any = None

    def __post_init__(self) -> None:
        super().__init__()
        self._open: list[str] = []

    def evaluate(self, equation: Equation) -> Callable[..., Any]:
        """The implementation of an equation, with its products booked to it."""

        def run(*flowing: Any, **supplied: Any) -> Any:
            self._open.append(equation.id)
            value = equation.function(*flowing, **supplied)
            self._open.pop()
            return value

        return run

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.__name__
        if name in PRODUCTS:
            self.flops.append((self._open[-1], 2 * result.numel() * args[0].shape[-1]))
        demand(name not in UNREAD, f"the cost of {name} cannot be read off: write the matrix product with @")
        return result

    def observe(self, intermediate: Intermediate) -> None:
        """Note the entries of an intermediate, once for all the views of one storage."""
        values = intermediate.value if isinstance(intermediate.value, tuple) else (intermediate.value,)
        for value in values:
            storage = value.untyped_storage()
            self.storages.setdefault(id(storage), (storage, storage.nbytes() // value.element_size()))

    @property
    def entries(self) -> list[int]:
        """The entries of every array that was computed; the arguments belong to whoever computed them."""
        return [size for _, size in self.storages.values()]


def example(hint: Any, width: str = "d_model") -> Tensor:
    """An argument of this annotation: token ids are zeros, anything else has a shape and no entries.

    ``width`` is the axis that d_model means.
    """
    sizes = SIZES | {"d_model": SIZES[width], "samples": Dimensions().samples(SIZES["n"])}
    axes = hint.dim_str.replace("*axes", "B n").replace("#", "").split()
    tall = {"height": SIZES["patch"] * SIZES["n"], "width": SIZES["patch_width"], "time": 2 * SIZES["n"]}
    tall["m"] = SIZES["n"]  # as if no class token stood before the tokens
    shape = [axis_size(axis, sizes | tall) for axis in axes]
    if hint.dtype is Int:
        return torch.zeros(shape, dtype=torch.long)
    return torch.empty(shape, dtype=torch.bool if hint.dtype is Bool else torch.float32, device="meta")


def measure(profile: Profile, slot: str) -> Measurement:
    """Evaluate what stands in ``slot`` at prime sizes."""
    # The last layer of two is measured: the first one may lack what the others have.
    encoder = Encoder(profile, Dimensions(N=2, **{k: size for k, size in SIZES.items() if k not in ("B", "n")}))
    *_, path = (place.path for place in encoder.places() if place.equation is profile[slot])
    arrays = {path: torch.empty(shape, device="meta") for path, shape in encoder.parameter_shapes().items()}
    arrays[MASK] = torch.empty(1, 1, 1, dtype=torch.bool, device="meta")
    arrays[IDS] = torch.empty(SIZES["B"], SIZES["n"], dtype=torch.long, device="meta")
    width = profile["input"].widths.get(slot, "d_model")
    arguments = [example(hint, width) for hint in profile[slot].flowing.values()]
    measurement = Measurement()
    for argument in arguments:
        storage = argument.untyped_storage()
        measurement.storages[id(storage)] = (storage, 0)
    with measurement:
        function = encoder.bind(arrays, measurement.observe, measurement.evaluate, path, slot)
        measurement.value = function(*arguments)
    return measurement

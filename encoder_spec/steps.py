"""Every step of an encoder: its shape, its parameters and its FLOPs, in the project's letters.

The whole encoder runs once at prime sizes (``encoder_spec.primes``), and each equation that it
evaluates is one step: outermost first, with what it uses below it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from sympy import Expr, S
from torch import Tensor

from encoder_spec.assembly import Encoder
from encoder_spec.cost import N, joined, lengths_of_stages, n, product_of, symbol, total
from encoder_spec.dimensions import Dimensions
from encoder_spec.equation import Equation
from encoder_spec.primes import SIZES, Measurement, example
from encoder_spec.profiles import Profile


@dataclass
class Step:
    """One evaluation of an equation, with everything below it.

    Attributes:
        equation: what is computed.
        depth: how many equations stand around it; the encoder itself has depth 0.
        times: how often it is run: N from the layer inwards, else once.
        parameters: the entries of the arrays that it and the steps below it read.
        flops: the FLOPs that it and the steps below it spend.
        shapes: the axes of its results.
    """

    equation: Equation
    depth: int
    times: Expr
    parameters: Expr
    flops: Expr = S.Zero
    shapes: tuple[tuple[Expr, ...], ...] = ()


@dataclass
class Walk(Measurement):
    """A measurement that keeps every evaluation, in the order in which they begin.

    Attributes:
        lengths: by the size of an axis of positions, how many these are, where n is the length that the layers see; the
            embedding reads as many tokens as ``SIZES`` says.
    """

    lengths: Mapping[int, Expr] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._around: list[Step] = []
        self._counted: set[int] = set()

    def evaluate(self, equation: Equation) -> Callable[..., Any]:
        """The implementation of an equation, noted as a step."""
        function = super().evaluate(equation)

        def run(*flowing: Any, **supplied: Any) -> Any:
            booked = len(self.flops)
            step = self.begin(equation, [supplied[name] for name in equation.parameters])
            value = function(*flowing, **supplied)
            self._around.pop()
            step.flops = total(self.read(spent) for _, spent in self.flops[booked:])
            results = value if isinstance(value, tuple) else (value,)
            step.shapes = tuple(tuple(map(self.read, result.shape)) for result in results)
            return value

        return run

    def begin(self, equation: Equation, arrays: list[Tensor]) -> Step:
        """A new step, inside of those that have begun; all of them read its arrays. Each array counts once."""
        within = [*(step.equation for step in self._around), equation]
        times = N if any(e.slot == "layer" for e in within) else S.One
        step = Step(equation, len(self._around), times, S.Zero)
        self.steps.append(step)
        self._around.append(step)
        own = [self.read(array.numel()) for array in arrays if id(array) not in self._counted]
        self._counted |= set(map(id, arrays))
        for reader in self._around:
            reader.parameters = total([reader.parameters, *own])
        return step

    def read(self, size: int) -> Expr:
        """The product that a number is, in which n is the length that the layers see."""
        others = {length: here for length, here in self.lengths.items() if length != SIZES["n"]}
        return product_of(size, others, self.lengths.get(SIZES["n"], n))


def lengths(profile: Profile) -> dict[int, Expr]:
    """The lengths of the sequence on its way into the layers, by their sizes: with all tokens, without registers."""
    registers, classes = joined(profile, "registers"), joined(profile, "cls")
    absent = (S.Zero, registers, registers + classes)
    size = {n: SIZES["n"], symbol("r"): SIZES["r"]}
    found = {int((n + registers + classes - less).subs(size)): n - less for less in absent}
    if "stages" in profile["embedding"].slots:
        found |= {length: times.subs(n, n - absent[-1]) for length, times in lengths_of_stages().items()}
    return found


def steps(profile: Profile) -> list[Step]:
    """Every step of an encoder with this profile, outermost first; one layer stands for all N of them."""
    sizes = {letter: size for letter, size in SIZES.items() if letter not in ("B", "n")}
    encoder = Encoder(profile, Dimensions(N=1, **sizes))
    arrays = {path: torch.empty(shape, device="meta") for path, shape in encoder.parameter_shapes().items()}
    keep = torch.ones(1, 1, 1, dtype=torch.bool, device="meta")
    walk = Walk(lengths=lengths(profile))
    with walk:
        encoder.bind(arrays, evaluate=walk.evaluate)(keep, *inputs(profile))
    return walk.steps


def inputs(profile: Profile) -> list[Tensor]:
    """What an encoder with this profile reads, at prime sizes: tokens, and segments where there are any."""
    uses = profile["input"].slots
    if "embedding" not in uses:
        return [example(hint) for hint in profile["input"].flowing.values()]
    first, *_ = profile["embedding"].flowing.values()
    _, *others = profile["segment"].flowing.values()
    return [example(hint) for hint in (first, *others)]

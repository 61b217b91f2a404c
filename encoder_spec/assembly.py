"""*An encoder is a choice of one equation per slot.* This file is that sentence.

``Encoder`` holds the choice and the sizes. Everything else follows by walking the
choice: the parameters and their shapes, the forward pass, the trace of all
intermediates, and all of these with the NumPy oracles in place of the
implementations.

One rule gives every parameter its path. An argument named like a slot is the
equation in that slot and shares its caller's path; an argument with a suffix,
such as ``norm_1``, is the equation in slot ``norm`` with parameters under
``norm_1``; ``layers`` are N equations of slot ``layer``, under ``layers.0``,
``layers.1``, … whose parameters are their own or those of the layers that the equation in
slot ``sharing`` names. A profile may fill one such place differently from the rest of its slot:
``norm_final = "rms"``, or one layer differently from the others: ``"layers.0" = "pre-ln-bare"``.
"""

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from encoder_spec.dimensions import Dimensions, Shape
from encoder_spec.equation import IDS, MASK, STACKS, Equation, places
from encoder_spec.notation import SYMBOLS, demand
from encoder_spec.profiles import Profile, constant_word, slot_of


class Intermediate(NamedTuple):
    """One value computed on the way: where, by which equation, what."""

    path: str
    equation: Equation
    value: Any


class Place(NamedTuple):
    """One use of an equation.

    Attributes:
        path: where its parameters live.
        equation: the equation.
        parameters: the axes of its parameters, by name.
        homes: the paths of its parameters, by name; in shared layers they are those of another layer. The mask of the
            call, where it is read, stands among the arrays under its own name.
        constants: the numbers that it reads, by name.
        inner: the equations that it uses, each with the argument that takes it.
    """

    path: str
    equation: Equation
    parameters: Mapping[str, tuple[str, ...]]
    homes: Mapping[str, str]
    constants: Mapping[str, float]
    inner: "tuple[tuple[str, Place], ...]"

    def walk(self) -> "Iterator[Place]":
        """Yield this use and all uses within it, outermost first."""
        yield self
        for _, place in self.inner:
            yield from place.walk()


class Trace(list[Intermediate]):
    """Every intermediate of one forward pass, in order of computation."""

    def of(self, equation: str) -> list[Any]:
        """Return the values computed by the equation with this id."""
        return [i.value for i in self if i.equation.id == equation]


Observer = Callable[[Intermediate], None]


def ignore(_: Intermediate) -> None:
    """Observe nothing."""


Evaluate = Callable[[Equation], Callable[..., Any]]


def implementation(equation: Equation) -> Callable[..., Any]:
    """Return what computes an equation, unless its oracle is asked for."""
    return equation.function


def everything(keep: Tensor | None, inputs: tuple[Tensor, ...]) -> Tensor:
    """Return the mask, or one that keeps everything: it broadcasts to any batch and length."""
    device = inputs[0].device if inputs else None
    return torch.ones(1, 1, dtype=torch.bool, device=device) if keep is None else keep


def in_call(parameters: Mapping[str, Any], keep: Any, inputs: Sequence[Any] = ()) -> Mapping[str, Any]:
    """Return arrays with the mask and the first input of a call among them, unless they have such already."""
    of_call = {MASK: keep} | ({IDS: inputs[0]} if inputs else {})
    return ChainMap(parameters, of_call)  # type: ignore[arg-type]  # nothing is written into it


def bound(
    place: Place,
    parameters: Mapping[str, Any],
    observe: Observer = ignore,
    evaluate: Evaluate = implementation,
) -> Callable[..., Any]:
    """Return the function that the equation at a place computes; see ``Encoder.bind``."""
    path, equation = place.path, place.equation
    supplied: dict[str, Any] = {n: parameters[home] for n, home in place.homes.items()}
    supplied |= place.constants
    for argument, inner in place.inner:
        function = bound(inner, parameters, observe, evaluate)
        if argument in STACKS:
            supplied.setdefault(argument, []).append(function)
        else:
            supplied[argument] = function
    function = evaluate(equation)

    def apply(*flowing: Any) -> Any:
        value = function(*flowing, **supplied)
        observe(Intermediate(path, equation, value))
        return value

    return apply


def join(path: str, name: str) -> str:
    """Return a dotted path below ``path``."""
    return f"{path}.{name}" if path else name


EACH_ITS_OWN = {"gd_k": "hd_k", "gd_v": "hd_v"}
"""What axes of keys and values mean where no heads share them."""


@dataclass(frozen=True)
class Encoder:
    """A profile with sizes: one equation per slot, ready to run."""

    profile: Profile
    dimensions: Dimensions

    def replace(self, **choices: Any) -> Self:
        """Return the encoder with another equation in a slot, or another constant."""
        return replace(self, profile=self.profile.replace(**choices))

    # The walk: which equations stand where -------------------------------------------

    def _below(self, path: str, equation: Equation) -> Iterator[tuple[str, str, str]]:
        """Yield the slots that an equation uses: (argument, path, slot)."""
        for argument in equation.slots:
            if argument in STACKS:
                for l in range(self.dimensions.N if argument == "layers" else len(self.dimensions.widths)):
                    layer = join(path, f"{argument}.{l}")
                    yield argument, layer, layer if layer in self.profile.equations else STACKS[argument]
            elif argument in places():
                slot = argument.partition("_")[0]
                yield argument, join(path, argument), argument if argument in self.profile.equations else slot
            else:
                yield argument, path, argument

    @property
    def shares_keys(self) -> bool:
        """True if queries' heads share those of keys and values."""
        return "groups" in self.profile["multihead"].slots

    @property
    def class_tokens(self) -> int:
        """The number of class tokens, which get positions as the tokens do."""
        return len({"x_cls", "x_dist"} & self._shapes.keys())

    @property
    def prepended(self) -> int:
        """The number of learned tokens that join those of the input."""
        return self.class_tokens + (self.dimensions.r if "X_reg" in self._shapes else 0)

    @cached_property
    def reads_grid(self) -> bool:
        """True if an equation tells positions by the rows and columns of an image."""
        return any("rows" in equation.constants for equation in self.equations())

    def seeing(self, *inputs: Any) -> Self:
        """Return the encoder with the grid of the patches of its input among its sizes, where an equation reads it.

        Raises:
            SpecificationError: if it has no patches.
        """
        if not self.reads_grid:
            return self
        reader = self.profile["embedding" if "embedding" in self.profile["input"].slots else "input"]
        demand("patch" in reader.constants, f"positions in a grid need the patches of an image, unlike {reader.id}")
        height, width = inputs[0].shape[-2:]
        sizes = self.dimensions
        return replace(self, dimensions=replace(sizes, rows=height // sizes.patch, columns=width // sizes.patch_width))

    def home(self, path: str) -> str:
        """Return where the parameter used at a path lives: there, or in the layer with which this one shares it."""
        stack, _, place = path.partition(".")
        if stack != "layers":
            return path
        number, _, name = place.partition(".")
        return f"layers.{self.profile['sharing'].function(int(number), name)}.{name}"

    def place(self, path: str = "", slot: str = "stack", width: str = "d_model") -> Place:
        """Return the use of the equation in a slot; ``width`` is the axis that d_model means there."""
        equation = self.profile.equation_at(slot, path)
        means = {"d_model": width} | ({} if self.shares_keys else EACH_ITS_OWN) | self._axes_of_stage(path, slot)
        return Place(
            path,
            equation,
            {n: tuple(means.get(a, a) for a in axes) for n, axes in equation.parameters.items()},
            {n: self.home(join(path, n)) for n in equation.parameters} | {name: name for name in equation.of_call},
            {n: self._number(n, path, equation.slot) for n in equation.constants},
            tuple(
                (argument, self.place(inner_path, inner_slot, equation.widths.get(argument, width)))
                for argument, inner_path, inner_slot in self._below(path, equation)
            ),
        )

    @cached_property
    def whole(self) -> Place:
        """The use of the encoder stack, walked once for all evaluations."""
        return self.place()

    def places(self, slot: str = "stack") -> Iterator[Place]:
        """Yield the equations in use, outermost first."""
        return self.place(slot=slot).walk()

    def equations(self) -> list[Equation]:
        """Return the equations in use, each once."""
        found = [place.equation for place in self.whole.walk()] + [self.profile["sharing"]]
        return list(dict.fromkeys(found))

    def choices(self) -> dict[str, str | float]:
        """Return the choices by name: variants of the slots in use, constants in use, sizes of the encoder stack."""
        used = self.equations()
        slots = {e.slot for e in used}
        slots |= {key for key in self.profile.equations if slot_of(key) in slots}
        numbers = {letter for e in used for letter in e.constants}
        constants = {constant_word(key) for key in self.profile.constants if key.rpartition(".")[2] in numbers}
        axes = {axis for shape in self.symbolic_shapes().values() for axis in shape}
        counted = ("r", "kernel", "d_group", "convolutions", "d_model", "d_ff", "d_e")
        letters = ["N", "h", *["g"] * self.shares_keys, *(s for s in counted if s in axes)]
        sizes: dict[str, str | float] = {SYMBOLS[s].word: getattr(self.dimensions, s) for s in letters}
        if "stage" in slots:
            stages = {"widths": self.dimensions.widths, "strides": self.dimensions.strides}
            sizes |= {f"stage_{what}": ", ".join(map(str, numbers)) for what, numbers in stages.items()}
        choices = self.profile.choices(self.dimensions.N)
        return {name: c for name, c in choices.items() if name in slots | constants} | sizes

    def symbolic_shapes(self) -> dict[str, tuple[str, ...]]:
        """Return the axes of each parameter, by path: ``{"layers.0.W_Q": ("d_model", "hd_k"), …}``.

        Raises:
            SpecificationError: if two equations need different axes of one parameter.
        """
        shapes: dict[str, tuple[str, ...]] = {}
        for place in self.whole.walk():
            for name, axes in place.parameters.items():
                path = place.homes[name]
                known = shapes.setdefault(path, axes)
                demand(known == axes, f"{place.equation.id} reads {path} as {axes}, but its axes are {known}")
        return shapes

    def parameter_shapes(self) -> dict[str, Shape]:
        """Return the shape of each parameter, by path."""
        return dict(self._shapes)

    @cached_property
    def _shapes(self) -> dict[str, Shape]:
        return {path: self.dimensions.shape(axes) for path, axes in self.symbolic_shapes().items()}

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """The axes of the input, such as ("B", "n", "d_model") of vectors; none where an equation does not say."""
        entrance = self.profile["input"]
        reader = self.profile["embedding"] if "embedding" in entrance.slots else entrance
        axes = getattr(next(iter(reader.flowing.values())), "dim_str", "").split()
        return tuple(entrance.widths.get("embedding", axis) if axis == "d_model" else axis for axis in axes)

    # The evaluation ------------------------------------------------------------------

    def bind(
        self,
        parameters: Mapping[str, Any],
        observe: Observer = ignore,
        evaluate: Evaluate = implementation,
        path: str = "",
        slot: str = "stack",
    ) -> Callable[..., Any]:
        """Return the function that the equation in ``slot`` computes with these parameters.

        Args:
            parameters: arrays by path, as ``parameter_shapes`` lists them; beside them may stand the mask of the call
                as ``keep`` (B, n, n), else everything is kept, and its token ids as ``ids`` (B, n).
            observe: called with every intermediate.
            evaluate: picks what computes an equation: its implementation or its oracle.
            path: where the parameters of this use of the slot live.
            slot: which slot to start from.
        """
        place = self.place(path, slot)
        if slot == "stack":
            return lambda keep, *inputs: bound(place, in_call(parameters, keep, inputs), observe, evaluate)(
                keep, *inputs
            )
        return bound(place, in_call(parameters, everything(None, ()).unsqueeze(0)), observe, evaluate)

    def _stage(self, path: str, slot: str) -> int | None:
        """Return the number of the stage to which a path leads; a stage by itself is the last one."""
        stack, _, rest = path.partition(".")
        if stack == "stages":
            return int(rest.partition(".")[0])
        return len(self.dimensions.widths) - 1 if slot == "stage" else None

    def _axes_of_stage(self, path: str, slot: str) -> dict[str, str]:
        """Return what the axes of a stage mean: numbers, and the channels of the stage before."""
        number = self._stage(path, slot)
        if number is None:
            return {}
        axes = {letter: str(size) for letter, size in self.dimensions.of_stage(number).items()}
        return axes | ({"heard": "channels"} if number else {})

    def _number(self, name: str, path: str, slot: str) -> float:
        number = self._stage(path, slot)
        sizes = self.dimensions.sizes() | ({} if number is None else self.dimensions.of_stage(number))
        return sizes[name] if name in sizes else self.profile.constant(name, path, slot)

    def __call__(
        self, parameters: Mapping[str, Any], *inputs: Any, keep: Any = None, observe: Observer = ignore
    ) -> Any:
        """Evaluate the encoder.

        Args:
            parameters: tensors by path, as ``parameter_shapes`` lists them.
            inputs: what the equation in slot ``input`` reads: token ids (B, n), token and
                segment ids, images, features (B, n, channels), or given embeddings (B, n, d_model).
            keep: boolean, True = keep: (B, n) for keys, or (B, n, n) for each query;
                None keeps everything.
            observe: called with every intermediate, in order of computation.

        Returns:
            The hidden states (B, n, d_model), or the result of the head.

        Raises:
            SpecificationError: if the parameters, the mask or the inputs do not fit.
        """
        return self._run(parameters, inputs, everything(keep, inputs), observe)

    def trace(self, parameters: Mapping[str, Any], *inputs: Any, keep: Any = None) -> Trace:
        """Evaluate the encoder and return every intermediate; the last one is its output."""
        trace = Trace()
        self(parameters, *inputs, keep=keep, observe=trace.append)
        return trace

    def oracle(self, parameters: Mapping[str, Any], *inputs: Any, keep: Any = None) -> Any:
        """Compute this encoder with the NumPy oracles, from NumPy arrays."""
        everywhere = np.ones((1, 1), dtype=bool) if keep is None else keep
        return self._run(parameters, inputs, everywhere, evaluate=lambda equation: equation.oracle)

    def _run(self, parameters: Mapping[str, Any], inputs: Any, keep: Any, *how: Any, **how_named: Any) -> Any:
        for path, shape in self._shapes.items():
            demand(path in parameters, f"parameter {path} of shape {shape} is missing")
            got = tuple(parameters[path].shape)
            demand(got == shape, f"parameter {path} has shape {got}, but the specification needs {shape}")
        demand(bool(inputs), "the encoder needs an input: token ids, an image, or embeddings (B, n, d_model)")
        letter = self.reads[-1] if self.reads else ""
        width = self.dimensions.sizes().get(letter, inputs[0].shape[-1])
        demand(
            inputs[0].shape[-1] == width,
            f"the input must have width {letter} = {width}, but has shape {tuple(inputs[0].shape)}",
        )
        demand(
            str(keep.dtype).endswith("bool"),
            f"the mask must be boolean (True = keep), but its dtype is {keep.dtype}",
        )
        demand(
            keep.ndim in (2, 3) and len(keep) in (1, len(inputs[0])),
            f"the mask must have shape (B, n) or (B, n, n) with B = {len(inputs[0])}, but has {tuple(keep.shape)}",
        )
        keep = keep[:, None] if keep.ndim == 2 else keep
        run = bound(self.seeing(*inputs).whole, in_call(parameters, keep, inputs), *how, **how_named)
        return run(keep, *inputs)

"""A computation as a graph: operations, the entries that they read, and the arrays that they gave.

Every entry of every array has a *code*: which value it belongs to, and which place in it. What only moves entries
(views, transposes, chunks, concatenations, copies, writes into a part) moves codes and leaves no trace in the graph,
so that nothing has to be known of how an encoder packs, turns or splits its arrays: the codes that an operation reads
say it. What is left are look-ups, elementwise operations, reductions and products.

Frameworks record a graph through ``Recording``; nothing here depends on any of them.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from math import log, prod
from typing import Any, Generic, NamedTuple, TypeGuard, TypeVar, overload

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

PLACES = 32
"""Bits of a code that hold the place in a value; those above hold the value's number."""

NEUTRAL = {"mul": 1.0, "div": 1.0, "add": 0.0, "sub": 0.0}
"""The number that an operation leaves the other operand with."""

CHOICES = {"where": (0, 1, 2), "masked_fill": (1, 2, 0)}
"""Operations that take entries of one of two operands: the places of what decides, and of both."""

ROUNDING = 1e-6
"""Random numbers of float32 with a mean of 1 differ from it by no more, after a division by the rate of dropout."""

NUMBERS_OF_MASKS = 2
"""Masks have no more different numbers than these, so that two of them may be equal and mean different things."""

Key = TypeVar("Key", bound=Hashable)
Kind = TypeVar("Kind")

Operand = Tensor | float
"""Something that an operation reads: the codes of an array, in the shape in which it is read, or a number."""

LARGE = 2**16
"""From so many entries on the codes of a leaf are written down where they are looked at, and not kept.

A code takes as much memory as a number in float64, so that those of each view of a large encoder's weights would take
several times as much as the encoder.
"""


FEW = 2**12
"""Codes of fewer entries tell as quickly as their memory which values they belong to."""


PART = 2**15
"""So many codes are compared at once: torch does not divide fewer between threads."""


class View(NamedTuple):
    """The codes of a view of a value: those of the entries that its sizes and strides lead to."""

    number: int
    shape: torch.Size
    strides: tuple[int, ...]
    offset: int

    @property
    def codes(self) -> Tensor:
        """The codes, written down."""
        span = sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True)) + 1
        if span > 2 * self.shape.numel():
            return self.at(*every_place(self.shape))  # a head's columns reach over the whole array
        begin = (self.number << PLACES) + self.offset
        whole = torch.arange(begin, begin + span if 0 not in self.shape else begin)
        remember(whole, View(self.number, torch.Size((span,)), (1,), self.offset))
        return whole.as_strided(self.shape, self.strides)

    def at(self, *index: Tensor | int) -> Tensor:
        """Return the codes at places along all axes, which are broadcast with each other."""
        begin = (self.number << PLACES) + self.offset
        steps = (place * stride for place, stride in zip(index, self.strides, strict=True))
        return torch.as_tensor(sum(steps, begin))

    def first(self) -> "View":
        """Return the view of the first entry along the first axis."""
        return self._replace(shape=self.shape[1:], strides=self.strides[1:])

    def renumbered(self, number: int) -> "View":
        """Return the same view of another value."""
        return self._replace(number=number)


def every_place(shape: torch.Size) -> list[Tensor]:
    """Return the places along each axis, to be broadcast with each other."""
    return [torch.arange(n).reshape(-1, *(1,) * (len(shape) - axis - 1)) for axis, n in enumerate(shape)]


WRITTEN_DOWN: dict[int, tuple[StorageWeakRef, View]] = {}
"""The memory in which codes of large leaves are written down, as long as it is there.

Nothing is written into it, so that each tensor in it is a view of the leaf. Below autograd a tensor does not know of
which other one it is a view.
"""

MOST_WRITTEN_DOWN = 1000
"""So many entries may stand there before those whose memory is gone are removed."""


def remember(whole: Tensor, view: View) -> None:
    """Remember which view of a leaf is written down in memory."""
    if len(WRITTEN_DOWN) > MOST_WRITTEN_DOWN:
        for key in [key for key, (memory, _) in WRITTEN_DOWN.items() if memory.expired()]:
            del WRITTEN_DOWN[key]
    memory = StorageWeakRef(whole.untyped_storage())
    WRITTEN_DOWN[memory.cdata] = memory, view


def as_view(codes: "Operand | View") -> View | None:
    """Return the view of a large leaf that codes were written down from; None if they are others."""
    if not isinstance(codes, Tensor):
        return codes if isinstance(codes, View) else None
    # A weak reference keeps the address from being given to other memory.
    _, whole = WRITTEN_DOWN.get(codes.untyped_storage()._cdata, (None, None))
    if whole is None:
        return None
    return View(whole.number, codes.shape, codes.stride(), whole.offset + int(codes.storage_offset()))


def regular(codes: Tensor) -> View | None:
    """Return the view of one value that has these codes, whatever has moved them there; None if no view has them."""
    if len(owning(codes)) != 1:
        return None
    first = int(codes.reshape(-1)[0])
    steps = [int(codes.select(axis, 1).reshape(-1)[0]) - first if n > 1 else 0 for axis, n in enumerate(codes.shape)]
    if min(steps, default=0) < 0:
        return None
    view = View(first >> PLACES, codes.shape, tuple(steps), first & ((1 << PLACES) - 1))
    # Not written down as views are: steps that are none of a view may lead far beyond the value. A part at a time,
    # which the processor's cache holds and one thread looks at, takes a third of the time of all at once.
    longest = max(range(codes.ndim), key=lambda axis: codes.shape[axis])
    axes = every_place(codes.shape)
    parts = codes.split(max(PART * codes.shape[longest] // codes.numel(), 1), dim=longest)
    for part, along in zip(parts, axes[longest].split(parts[0].shape[longest]), strict=True):
        if not torch.equal(view.at(*axes[:longest], along, *axes[longest + 1 :]).expand(part.shape), part):
            return None
    return view


def view_of(codes: Tensor) -> View | None:
    """Return the view that has these codes, if there is one and they are so many that it saves memory."""
    return as_view(codes) or regular(codes) if codes.numel() >= LARGE else None


class Codes(MutableMapping[Key, Tensor], Generic[Key]):
    """Codes by a key: those of a view are kept as such, and written down each time that one looks at them.

    ``forms`` has them as they are kept.
    """

    def __init__(self, codes: "Mapping[Key, Tensor] | None" = None) -> None:
        self.forms: dict[Key, Tensor | View] = {}
        self.update(codes or {})

    def __getitem__(self, key: Key) -> Tensor:
        form = self.forms[key]
        return form.codes if isinstance(form, View) else form

    def __setitem__(self, key: Key, codes: Tensor | View) -> None:
        self.forms[key] = codes if isinstance(codes, View) else view_of(codes) or codes

    def __delitem__(self, key: Key) -> None:
        del self.forms[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self.forms)

    def __len__(self) -> int:
        return len(self.forms)

    def __contains__(self, key: object) -> bool:
        return key in self.forms  # without writing down what is not looked at

    def shapes(self) -> dict[Key, tuple[int, ...]]:
        """Return the shape of each."""
        return {key: tuple(form.shape) for key, form in self.forms.items()}


def with_compact(*names: str) -> Callable[[type[Kind]], type[Kind]]:
    """Let the objects of a class keep these attributes as ``Codes``; each may be None."""

    def attribute(name: str) -> property:
        def got(one: Any) -> Tensor | None:
            return compact_in(one).get(name)

        def put(one: Any, codes: Tensor | None) -> None:
            if codes is None:
                compact_in(one).pop(name, None)
            else:
                compact_in(one)[name] = codes

        return property(got, put)

    def compact_in(one: Any) -> Codes[str]:
        codes: Codes[str] = vars(one).setdefault("compact", Codes())
        return codes

    def changed(kind: type[Kind]) -> type[Kind]:
        for name in names:
            setattr(kind, name, attribute(name))
        return kind

    return changed


class Unmade(NamedTuple):
    """The numbers of a large leaf, which are made anew where one asks for them."""

    shape: torch.Size
    dtype: torch.dtype
    make: Callable[[], Tensor]


class Reads(Sequence[Operand]):
    """The operands of a value: views of large leaves are written down each time that one is looked at."""

    def __init__(self, operands: "Iterable[Operand | View]") -> None:
        given = operands.forms if isinstance(operands, Reads) else operands
        self.forms: tuple[Operand | View, ...] = tuple(as_view(each) or each for each in given)

    def __len__(self) -> int:
        return len(self.forms)

    @overload
    def __getitem__(self, place: int) -> Operand: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Operand]: ...

    def __getitem__(self, place: int | slice) -> Operand | Sequence[Operand]:
        if isinstance(place, slice):
            return tuple(self[at] for at in range(len(self))[place])
        form = self.forms[place]
        return form.codes if isinstance(form, View) else form


@dataclass(eq=False)
class Value:
    """The result of one operation, or a leaf.

    Attributes:
        number: the place in the order of execution.
        operation: ``"parameter"``, ``"constant"`` (a buffer, too), ``"random"`` or ``"argument"`` of a leaf;
            ``"product"``, ``"look-up"``, ``"layer-norm"`` or ``"softmax"``; else the name of an elementwise operation
            or a reduction.
        reads: codes in the shape in which they are read, elementwise operations' in that of the result. A product
            reads rows (T, M, K) and columns (T, K, N), and gives (T, M, N); weights are among the columns if they
            are on one side alone.
        given: the numbers, in float64.
        kind: ``"elementwise"``, ``"reduction"`` or empty.
        name: of a leaf that has one.
        options: axes, ε and the like.
        depends: whether it depends on the arguments of the call; what does not is a weight, however it was made.
        learned: whether it depends on parameters that are not frozen.
        line: where in the encoder's source it was computed.
    """

    number: int
    operation: str
    reads: "Reads"
    given: Tensor | Unmade
    kind: str = ""
    name: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    depends: bool = False
    learned: bool = False
    line: str = ""

    def __post_init__(self) -> None:
        self.reads = Reads(self.reads)

    @property
    def data(self) -> Tensor:
        """The numbers, in float64."""
        return self.given if isinstance(self.given, Tensor) else self.given.make()

    @property
    def shape(self) -> torch.Size:
        """The shape of the numbers, which need not be made for it."""
        return self.given.shape

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the numbers, likewise."""
        return self.given.dtype

    @property
    def codes(self) -> Tensor:
        """The codes of its entries, in its shape."""
        if self.whole is not None:
            return self.whole.codes
        return (self.number << PLACES) + torch.arange(self.shape.numel()).reshape(self.shape)

    @property
    def form(self) -> Tensor | View:
        """The codes of its entries, those of a large leaf as a view."""
        return self.whole or self.codes

    @property
    def whole(self) -> View | None:
        """A large leaf as a view of all of it."""
        if len(self.reads) or self.shape.numel() < LARGE:
            return None
        return View(self.number, self.shape, contiguous_strides(self.shape), 0)

    @property
    def forms(self) -> "list[Tensor | View]":
        """The codes among what it reads, those of large leaves as views."""
        return [form for form in self.reads.forms if isinstance(form, Tensor | View)]

    @property
    def where(self) -> str:
        """The line in brackets, to stand behind a sentence; empty if it is not known."""
        return f" ({self.line})" if self.line else ""

    @property
    def arrays(self) -> list[Tensor]:
        """The codes among what it reads."""
        return [operand for operand in self.reads if isinstance(operand, Tensor)]

    def __repr__(self) -> str:
        """Return number, operation, shape and name."""
        return f"<{self.number} {self.operation} {tuple(self.shape)} {self.name}>"


class Rescaling(NamedTuple):
    """Constants by which an input is multiplied and that are added to it, which a batch of inputs broadcasts with."""

    factor: Tensor
    offset: Tensor

    def undone(self, x: Tensor) -> Tensor:
        """Return what is rescaled to an input."""
        return (x - self.offset.to(x)) / self.factor.to(x)

    def __str__(self) -> str:
        """Say what happens to an input."""
        factor, offset = (sorted({f"{number:.6g}" for number in each.reshape(-1).tolist()}) for each in self)
        return f"multiplied by {' or '.join(factor)}, and {' or '.join(offset)} is added"


class Graph:
    """All values of one call, in order of execution, and the codes of what the call returned.

    ``disturbed`` has the numbers of the values that meet random numbers, as in dropout, and the lines where they do:
    the graph is that of a call in which each draw gives its mean, and there those values pass unchanged. ``parts`` has
    the codes of what each part of the encoder returned, by its name, in order of execution. ``result`` is the place of
    the output among the floating arrays that the call returned, where several might be it. ``rescaling`` says how the
    argument was rescaled in the encoder, where that is so and the argument stands for what came of it. ``recorded`` is
    the graph that it was made of, with loops written out, and ``translated`` gives the codes for those of that graph.
    One that ``is_complete`` is recorded to the end.
    """

    def __init__(self) -> None:
        self.values: list[Value] = []
        self.disturbed: dict[int, str] = {}
        self.output: Tensor = torch.empty(0, dtype=torch.long)
        self.result: int | None = None
        self.rescaling: Rescaling | None = None
        self.parts: list[tuple[str, Tensor]] = []
        self._recorded: Graph | None = None
        self.translated: Callable[[Tensor], Tensor] = lambda codes: codes
        self.is_complete = False
        self._readers: tuple[int, dict[int, list[Value]]] = (-1, {})

    @property
    def recorded(self) -> "Graph":
        """The graph that this one was made of, which is itself if it was made of none."""
        return self if self._recorded is None else self._recorded

    def up_to(self, output: Tensor) -> "Graph":
        """Return the same values with other codes as the output."""
        shorter = copy(self)
        shorter.output = output
        return shorter

    def with_values(self, others: Iterable[Value]) -> "Graph":
        """Return the same graph with other values in the place of those with their numbers."""
        changed = copy(self)
        changed.values = list(self.values)
        for value in others:
            changed.values[value.number] = value
        changed._readers = (-1, {})
        return changed

    def with_sum(self, one: Tensor, other: Tensor) -> Tensor:
        """Take up the sum of two arrays of weights, as if it had been computed, and return its codes."""
        data = self.numbers(one) + self.numbers(other)
        reads, learned = Reads((one, other)), self.learned(one) or self.learned(other)
        value = Value(len(self.values), "add", reads, data, "elementwise", learned=learned)
        self.values.append(value)
        return value.codes

    def with_multiple(self, weights: Value, number: float) -> Value:
        """Take up a number times an array of weights, once, as if it had been computed, and return it."""
        if number == 1:
            return weights
        taken = (v for v in self.readers(weights) if v.operation == "mul" and v.shape == weights.shape)
        known = next((v for v in taken if isinstance(v.reads[1], float) and v.reads[1] == number), None)
        if known is None:
            reads, data = Reads((weights.codes, number)), weights.data * number
            known = Value(len(self.values), "mul", reads, data, "elementwise", learned=weights.learned)
            self.values.append(known)
        return known

    def read_by(self, value: Value) -> set[int]:
        """Return the numbers of the values that a value reads entries of."""
        return {number for form in value.forms for number in self.owning(form)}

    def owner(self, codes: Tensor | View) -> Value | None:
        """Return the value that all these entries belong to; None if there are several."""
        numbers = self.owning(codes)
        return self.values[numbers[0]] if len(numbers) == 1 else None

    def owners(self, codes: Tensor) -> list[Value]:
        """Return the values that these entries belong to, in order of execution."""
        return [self.values[number] for number in self.owning(codes)]

    def owning(self, codes: Tensor | View) -> tuple[int, ...]:
        """Return the numbers of the values that these entries belong to, in order.

        Large arrays are asked for often, under many views: the answer for a whole array is kept with it until something
        is written into it, which shows in its version as soon as no recorder stands between.
        """
        if isinstance(codes, View):
            return (codes.number,)
        view = as_view(codes) if codes.numel() >= FEW else None
        if view is not None:
            return (view.number,)
        whole = codes if codes._base is None else codes._base
        if not self.is_complete or whole.numel() > codes.numel() or whole.is_inference():
            return owning(codes)  # writing is not counted in inference mode
        version, known = getattr(whole, "_owning", (-1, ()))
        if version != whole._version:
            known = owning(whole)
            whole._owning = whole._version, known  # type: ignore[attr-defined]
        # A view may leave some out.
        return known if len(known) < 2 or whole.numel() == codes.numel() else owning(codes)

    def numbers(self, codes: Operand) -> Tensor:
        """Return the numbers of these entries, in float64."""
        if not isinstance(codes, Tensor):
            return torch.tensor(codes, dtype=torch.float64)
        owners = self.owners(codes)
        if len(owners) == 1:
            return owners[0].data.reshape(-1)[places(codes)].double()
        found = torch.empty(codes.shape, dtype=torch.float64)
        for value in owners:
            here = codes >> PLACES == value.number
            found[here] = value.data.reshape(-1)[places(codes[here])].double()
        return found

    def depends(self, codes: "Operand | View") -> bool:
        """Return whether one of these entries depends on the arguments of the call."""
        if isinstance(codes, View):
            return self.values[codes.number].depends
        return isinstance(codes, Tensor) and any(value.depends for value in self.owners(codes))

    def is_map(self, value: Value) -> bool:
        """Return whether a value is a product of what depends on the arguments of the call with weights."""
        if value.operation != "product":
            return False
        rows, columns = value.reads.forms
        return self.depends(rows) and not self.depends(columns)

    def learned(self, codes: Operand) -> bool:
        """Return whether one of these entries depends on a parameter."""
        return isinstance(codes, Tensor) and any(value.learned for value in self.owners(codes))

    def readers(self, value: Value) -> list[Value]:
        """Return the values that were computed from entries of this one."""
        if self._readers[0] != len(self.values):
            readers: dict[int, list[Value]] = {}
            for reader in self.values:
                for number in self.read_by(reader):
                    readers.setdefault(number, []).append(reader)
            self._readers = (len(self.values), readers)
        return self._readers[1].get(value.number, [])

    def ancestors(self, codes: Operand, behind: Value | None = None) -> Iterator[Value]:
        """Yield the values that these entries were computed from, each once, the latest first.

        Of those that lead to them by way of the value ``behind`` which they stand, none.
        """
        found = set() if behind is None else {behind.number}
        waiting = ({v.number for v in self.owners(codes)} if isinstance(codes, Tensor) else set()) - found
        while waiting:
            number = max(waiting)
            waiting.discard(number)
            found.add(number)
            value = self.values[number]
            yield value
            waiting |= self.read_by(value) - found


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of an array whose entries lie side by side."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def owning(codes: Tensor) -> tuple[int, ...]:
    """Return the numbers of the values that entries belong to, in order."""
    if not codes.numel():
        return ()
    first, last = (int(bound) >> PLACES for bound in codes.aminmax())
    return (first,) if first == last else tuple((codes >> PLACES).unique().tolist())


def places(codes: Tensor) -> Tensor:
    """Return the place of each entry in the value that it belongs to."""
    return codes & ((1 << PLACES) - 1)


def repeats(codes: Tensor, axis: int) -> bool:
    """Return whether entries repeat along an axis that is longer than 1."""
    return codes.shape[axis] > 1 and bool(torch.equal(codes, codes.narrow(axis, 0, 1).expand_as(codes)))


def first_along(codes: Tensor, axes: Sequence[int]) -> Tensor:
    """Return the first entries along some axes, which stay with length 1."""
    for axis in axes:
        codes = codes.narrow(axis, 0, 1)
    return codes


COMPLEX = "complex"
"""Stands before the operation of a value that holds complex numbers: of these the real parts alone are kept."""

BATCH_NORM = "batch-norm"
"""The operation of norms whose statistics are not those of one axis, or are stored."""


BOUNDS = ("clamp", "clamp_min", "clamp_max", "maximum", "minimum")
"""Operations that hold entries above or below others."""

LARGEST_IN_HALF = 0.9 * torch.finfo(torch.float16).max
"""Bounds from here on keep numbers that overflow in half precision; hidden states of order 1 are never near."""

OF_ONE = ("sum", "mean", "amax", "amin", "max", "min", "prod")
"""Reductions that give a single entry as it is."""


class Recording:
    """Builds a graph in order of execution.

    Its first leaf is the number 0, so that code 0 stands for it: what padding and triangles leave.
    """

    def __init__(self) -> None:
        self.graph = Graph()
        self._maps: dict[Hashable, Tensor] = {}
        self.leaf("constant", torch.zeros(()))

    def large_leaf(self, operation: str, data: Unmade, name: str = "", *, learned: bool = False) -> View:
        """Add a leaf whose codes are not written down, and return the view of all of it."""
        number = len(self.graph.values)
        self.graph.values.append(Value(number, operation, Reads(()), data, name=name, learned=learned))
        return View(number, data.shape, contiguous_strides(data.shape), 0)

    def leaf(self, operation: str, data: Tensor, name: str = "", *, learned: bool = False) -> Tensor:
        """Add a leaf, and return the codes of its entries; a parameter may be frozen, and so not learned.

        An argument with the numbers of an earlier one is the same again: queries may be handed over beside keys.
        """
        again = self._handed_over(data) if operation == "argument" else None
        if again is not None:
            return again.codes
        return self._added(operation, (), data, name=name, learned=learned, depends=operation == "argument")

    def _handed_over(self, data: Tensor) -> Value | None:
        """Return the argument with these numbers, if there is one; masks may just be equal."""
        arguments = (value for value in self.graph.values if value.operation == "argument")
        is_told = data.unique().numel() > NUMBERS_OF_MASKS
        return next((value for value in arguments if is_told and torch.equal(value.data, data)), None)

    def elementwise(self, operation: str, reads: Sequence[Operand], data: Tensor, **about: Any) -> Tensor:
        """Add an operation on each entry by itself; what it reads is broadcast to the shape of the result.

        A product with numbers that are not learned and all 1 is what it leaves as it is: a mask that keeps everything,
        given or made by the encoder. So is one with a number that leaves it so, such as a factor of 1. Random numbers
        stand for their mean, as in dropout, if that is one number.

        A power of a number is an exponential: cˣ = exp(x ln c).
        """
        if operation in NEUTRAL:
            reads = self._averaged(reads, NEUTRAL[operation], about.get("line", ""))
        if (power := self._power(operation, reads)) is not None:
            exponent, rate = power
            scaled = self.elementwise("mul", (exponent, rate), self.graph.numbers(exponent) * rate, **about)
            return self.elementwise("exp", (scaled,), data, **about)
        kept = self._kept(operation, reads, data)
        if kept is not None:
            return kept.broadcast_to(data.shape)
        shaped = tuple(r.broadcast_to(data.shape) if isinstance(r, Tensor) else r for r in reads)
        return self._added(operation, shaped, data, kind="elementwise", **about)

    def disturb(self, codes: Tensor, line: str) -> None:
        """Remember where values meet random numbers that leave them as they are on average."""
        self.graph.disturbed |= {value.number: line for value in self.graph.owners(codes)}

    def _averaged(self, reads: Sequence[Operand], neutral: float, line: str) -> Sequence[Operand]:
        """Return operands, with the mean of random ones in their place where it is one number; note what meets them."""
        drawn = [isinstance(read, Tensor) and self.is_drawn(read) for read in reads]
        met = [read for read, random in zip(reads, drawn, strict=True) if not random and self._varies(read)]
        if not met or not any(drawn):
            return reads  # random numbers alone, or times a number, are random numbers
        averaged = [self._mean(read, neutral) if random else read for read, random in zip(reads, drawn, strict=True)]
        if any(mean is not read for mean, read in zip(averaged, reads, strict=True)):
            for other in met:
                self.disturb(other, line)
        return averaged

    def _mean(self, drawn: Operand, neutral: float) -> Operand:
        """Return the mean of random numbers, if it is one number: the neutral one where it is that up to rounding."""
        numbers = self.graph.numbers(drawn)
        mean = float(numbers.reshape(-1)[0])
        if bool((numbers - mean).abs().max() >= ROUNDING):
            return drawn
        return neutral if abs(mean - neutral) < ROUNDING else mean

    def _varies(self, read: Operand) -> TypeGuard[Tensor]:
        """Return whether an operand is more than one number that is the same in each call."""
        if not isinstance(read, Tensor):
            return False
        if self.graph.depends(read) or self.graph.learned(read):
            return True
        numbers = self.graph.numbers(read)
        return bool((numbers != numbers.reshape(-1)[0]).any())

    def _kept(self, operation: str, reads: Sequence[Operand], data: Tensor) -> Tensor | None:
        """Return the operand that an operation leaves as it is; None if it leaves none so."""
        if operation in CHOICES and len(reads) == len(CHOICES[operation]):
            return self._chosen(*(reads[place] for place in CHOICES[operation]))
        if operation in BOUNDS and len(reads) > 1:
            x, *bounds = reads if isinstance(reads[0], Tensor) else reads[::-1]
            return self._bounded(x, bounds, data)
        if (
            operation == "nan_to_num"
            and isinstance(reads[0], Tensor)
            and torch.equal(self.graph.numbers(reads[0]), data)
        ):
            return reads[0]
        neutral = NEUTRAL.get(operation)
        if neutral is None or len(reads) != 2:
            return None
        for x, other in (reads, reads[::-1])[: 1 if operation in ("div", "sub") else 2]:
            if not isinstance(x, Tensor):
                continue
            if not isinstance(other, Tensor):
                if other == neutral:
                    return x
            elif operation in ("mul", "add") and self._keeps(other, x, data, neutral):
                return x
        return None

    def _power(self, operation: str, reads: Sequence[Operand]) -> tuple[Tensor, float] | None:
        """Return the exponent of a power of a positive number and the logarithm of that; None for other operations."""
        base, exponent = (2.0, reads[0]) if operation == "exp2" else reads[:2] if operation == "pow" else (0.0, 0.0)
        if not isinstance(exponent, Tensor) or not (self.graph.depends(exponent) or self.graph.learned(exponent)):
            return None
        number = float(self.graph.numbers(base).reshape(-1)[0])
        return (exponent, log(number)) if number > 0 and not self._varies(base) else None

    def _bounded(self, x: Operand, bounds: Sequence[Operand], data: Tensor) -> Tensor | None:
        """Return an operand that keeps a bound by itself, as what the largest of its entries was taken from does.

        It touches it, and nothing is beyond it: a bound that is just not reached may be reached in another call, unless
        it is there for numbers that no longer fit into float16.
        """
        if not isinstance(x, Tensor) or any(self.graph.depends(bound) or self.graph.learned(bound) for bound in bounds):
            return None
        numbers, limits = self.graph.numbers(x), list(map(self.graph.numbers, bounds))
        far = (bool((limit.abs() >= LARGEST_IN_HALF).all()) for limit in limits)
        keeps = all(is_far or bool((numbers == limit).any()) for is_far, limit in zip(far, limits, strict=True))
        return x if keeps and bool((numbers == data).all()) else None

    def _chosen(self, which: Operand, one: Operand, other: Operand) -> Tensor | None:
        """Return the operand that a choice always takes: a mask that the encoder makes itself may hide nothing."""
        if not isinstance(which, Tensor) or self.graph.depends(which) or self.graph.learned(which):
            return None
        numbers = self.graph.numbers(which)
        if not numbers.numel() or bool((numbers != numbers.reshape(-1)[0]).any()):
            return None
        taken = one if bool(numbers.reshape(-1)[0]) else other
        return taken if isinstance(taken, Tensor) else None

    def is_drawn(self, codes: Tensor) -> bool:
        """Return whether entries are computed of random numbers and of constants alone."""
        if self.graph.depends(codes) or self.graph.learned(codes):
            return False
        return any(value.operation == "random" for value in self.graph.ancestors(codes))

    def _keeps(self, given: Tensor, kept: Tensor, data: Tensor, neutral: float) -> bool:
        """Return whether an operand that is not learned leaves the other one as it is, or repeats it for each sequence.

        Of summands that does a further argument alone: the input, and what is computed of it, may just be 0.
        """
        if neutral == 0:
            owner = self.graph.owner(given)
            if owner is None or owner.operation != "argument":
                return False
            if not any(value.operation == "argument" for value in self.graph.values[: owner.number]):
                return False
        is_neutral = not self.graph.learned(given) and bool((self.graph.numbers(given) == neutral).all())
        return is_neutral and kept.shape[-2:] == data.shape[-2:]

    def reduction(self, operation: str, codes: Tensor, axes: Sequence[int], data: Tensor, **about: Any) -> Tensor:
        """Add a reduction over some axes of what it reads; over axes of a single entry it hands on what it reads."""
        axes = tuple(axis % codes.ndim for axis in axes) if axes else tuple(range(codes.ndim))
        if operation in OF_ONE and all(codes.shape[axis] == 1 for axis in axes):
            return codes.reshape(data.shape)
        if operation == "sum" and (given := self._product_in(codes, axes, data, **about)) is not None:
            return given
        options = {"axes": axes} | about.pop("options", {})
        return self._added(operation, (codes,), data, kind="reduction", options=options, **about)

    def other(self, operation: str, reads: Sequence[Operand], data: Tensor, **about: Any) -> Tensor:
        """Add any other operation."""
        return self._added(operation, tuple(reads), data, **about)

    def norm_of_sets(
        self,
        x: Tensor,
        eps: float,
        gamma: Tensor | None,
        beta: Tensor | None,
        *,
        stored: tuple[Tensor, Tensor] | None = None,
        **about: Any,
    ) -> Tensor:
        """Add a norm in which sets of entries have their own mean and variance, as in norms of batches and groups.

        It is recorded in the arrangement of the value whose entries it reads, as a layer norm where each set lies
        along one axis of that: frameworks lay the sets as they need them.

        Args:
            x: codes (S, M) of the entries, one row for each set.
            eps: ε.
            gamma: codes of what multiplies each, if there is a γ.
            beta: codes of what is added to each, if there is a β.
            stored: means and variances (S, 1) in the place of those of the sets.
            about: as for the other operations.
        """
        numbers = self.graph.numbers(x)
        mean, variance = stored or (numbers.mean(1, keepdim=True), numbers.var(1, correction=0, keepdim=True))
        data = (numbers - mean) / (variance + eps).sqrt()
        owner = self.graph.owner(x)
        whole = x if owner is None or x.unique().numel() < owner.shape.numel() else owner.codes
        order = places(x).reshape(-1) if whole is not x else torch.arange(x.numel())

        def arranged(given: Tensor) -> Tensor:
            found = torch.empty_like(given).reshape(-1)
            found[order] = given.reshape(-1)
            return found.reshape(whole.shape)

        of_one = torch.isin(whole, x[0]).nonzero()
        axes = tuple(axis for axis in range(whole.ndim) if of_one[:, axis].unique().numel() > 1)
        is_of_one_axis = stored is None and len(axes) == 1 and x.shape[1] == whole.shape[axes[0]]
        options = {"gamma": None, "beta": None, "eps": eps, "axes": axes}
        data = arranged(data)
        codes = self.other(
            "layer-norm" if is_of_one_axis else BATCH_NORM, [whole], data, options=options, line=about.get("line", "")
        )
        for operation, given in (("mul", gamma), ("add", beta)):
            if given is not None:
                operand = arranged(given)
                by = self.graph.numbers(operand)
                data = data * by if operation == "mul" else data + by
                codes = self.elementwise(operation, (codes, operand), data, **about)
        return codes.reshape(-1)[order].reshape(x.shape)

    def product(self, rows: Tensor, columns: Tensor, data: Tensor, **about: Any) -> Tensor:
        """Add a product of rows (T, M, K) and columns (T, K, N), with its result (T, M, N).

        If only the rows are weights, the transposed product is added, so that weights are columns. A product with
        constant columns that hold a single 1 each moves entries.
        """
        turned = self.graph.depends(columns) and not self.graph.depends(rows)
        if turned:
            rows, columns, data = columns.mT, rows.mT, data.mT
        if (taken := self._taken_by(columns)) is not None:
            codes = rows.gather(-1, taken.expand(len(rows), rows.shape[1], -1))
            return codes.mT if turned else codes
        index = None if self.graph.depends(columns) or len(rows) > 1 else self._marked(rows)
        if index is None:
            codes = self._once(rows, columns, data, **about)
        else:
            codes = self._added("look-up", (columns[0], index), data, options={"axis": 0}, **about)
        return codes.mT if turned else codes

    def _once(self, rows: Tensor, columns: Tensor, data: Tensor, **about: Any) -> Tensor:
        """Add a product, unless it is a map that is computed again: an activation may call it twice."""
        if self.graph.depends(columns):
            return self._added("product", (rows, columns), data, **about)
        key = tuple(as_view(codes) or (codes.shape, hash(codes.numpy().tobytes())) for codes in (rows, columns))
        if key not in self._maps:
            self._maps[key] = self._added("product", (rows, columns), data, **about)
        return self._maps[key]

    def _taken_by(self, columns: Tensor) -> Tensor | None:
        """Return which entry of a row each column (T, K, N) takes, where these are constants: a single 1 among zeros.

        Patches of an image may be cut out by such a product.
        """
        if self.graph.learned(columns) or self.graph.depends(columns) or columns.shape[1] == 1:
            return None
        numbers = self.graph.numbers(columns)
        is_taking = bool(((numbers == 0) | (numbers == 1)).all()) and bool((numbers.sum(1) == 1).all())
        return numbers.argmax(1)[:, None] if is_taking else None

    def _marked(self, rows: Tensor) -> Tensor | None:
        """Return the codes of the argument whose numbers are the places of the only 1 in each row of zeros (1, M, K).

        None if there is none: a product with such rows is a look-up.
        """
        owner = self.graph.owner(rows)
        if owner is None or owner.kind == "reduction" or owner.operation == "argument" or not owner.depends:
            return None
        numbers = self.graph.numbers(rows)
        is_marking = bool(((numbers == 0) | (numbers == 1)).all()) and bool((numbers.sum(-1) == 1).all())
        found = numbers.argmax(-1)
        if not is_marking or found.unique().numel() < 2:
            return None
        arguments = (v for v in self.graph.values if v.operation == "argument" and v.shape.numel() == found.numel())
        same = (v for v in arguments if torch.equal(v.data.reshape(-1).double(), found.reshape(-1).double()))
        return next((v.codes.reshape(found.shape) for v in same), None)

    def convolution(
        self,
        x: Tensor,
        W: Tensor,
        strides: Sequence[int],
        padding: Sequence[tuple[int, int]],
        groups: int,
        data: Tensor,
        **about: Any,
    ) -> Tensor:
        """Add a convolution of x (B, C, *sizes) with W (O, C/groups, *kernel) as a product of unfolded rows.

        Args:
            x: codes of what is convolved.
            W: codes of the kernel.
            strides: the step along each of the sizes.
            padding: how many zeros stand before and behind along each of the sizes.
            groups: the number of groups of channels: each is a separate product.
            data: the result (B, O, *out), without a bias.
            about: as for the other operations.
        """
        spatial = x.ndim - 2
        x = torch.nn.functional.pad(x, [p for sides in reversed(padding) for p in sides])
        for axis in range(spatial):
            x = x.unfold(2 + axis, W.shape[2 + axis], strides[axis])
        # (B, C, *out, *kernel) → (groups, B·out, C/groups·kernel)
        B, out = x.shape[0], x.shape[2 : 2 + spatial]
        order = [0, *range(2, 2 + spatial), 1, *range(2 + spatial, 2 + 2 * spatial)]
        rows = x.permute(order).reshape(B * out.numel(), groups, -1).transpose(0, 1)
        columns = W.reshape(groups, W.shape[0] // groups, -1).mT
        result = data.movedim(1, -1).reshape(rows.shape[1], groups, -1).transpose(0, 1)
        product = self.product(rows, columns, result, **about)
        return product.transpose(0, 1).reshape(B, *out, -1).movedim(-1, 1)

    def _product_in(self, codes: Tensor, axes: Sequence[int], data: Tensor, **about: Any) -> Tensor | None:
        """Add the product that a sum of elementwise products of two arrays is, where each repeats along other axes."""
        value = self.graph.owner(codes)
        if value is None or value.operation != "mul" or len(value.arrays) != 2 or len(axes) != 1:
            return None
        a, b = (read.reshape(-1)[places(codes)] for read in value.arrays)
        others = [axis for axis in range(codes.ndim) if axis not in axes]
        N, M = ([axis for axis in others if repeats(x, axis)] for x in (a, b))
        if not M or not N or set(M) & set(N) or not all(map(self.graph.depends, (a, b))):
            return None
        T = [axis for axis in others if axis not in (*M, *N)]
        sizes = [[codes.shape[axis] for axis in group] for group in (T, M, N)]
        t, m, n = (prod(group) for group in sizes)
        left, right = first_along(a, N), first_along(b, M)
        rows = left.permute(*T, *M, *axes, *N).reshape(t, m, -1)
        columns = right.permute(*T, *axes, *N, *M).reshape(t, -1, n)
        order = [others.index(axis) for axis in (*T, *M, *N)]
        shape = [codes.shape[axis] for axis in others]
        result = data.reshape(shape).permute(order).reshape(t, m, n)
        about.pop("options", None)
        product = self.product(rows, columns, result, **about)
        back = [order.index(place) for place in range(len(order))]
        return product.reshape([size for group in sizes for size in group]).permute(back).reshape(data.shape)

    def _added(
        self,
        operation: str,
        reads: tuple[Operand, ...],
        data: Tensor,
        *,
        kind: str = "",
        name: str = "",
        options: Mapping[str, Any] | None = None,
        learned: bool = False,
        depends: bool = False,
        line: str = "",
    ) -> Tensor:
        graph = self.graph
        if data.is_complex():
            # No equation has complex numbers: what is computed with them is something else, whatever it is.
            operation, kind, data = f"{COMPLEX} {operation}", "", data.real
        depends = depends or any(map(graph.depends, reads))
        learned = learned or any(map(graph.learned, reads))
        value = Value(
            len(graph.values), operation, Reads(reads), data, kind, name, options or {}, depends, learned, line
        )
        graph.values.append(value)
        return value.codes

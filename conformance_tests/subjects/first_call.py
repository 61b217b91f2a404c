"""A first call of an encoder that nothing is known of: whatever it accepts, at small sizes.

What the input is, and what the other arguments mean, is then read off the computation; here it is enough that the
call goes through and gives finite numbers.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain, combinations, islice, product
from sys import maxsize
from types import FrameType, MappingProxyType
from typing import Any, TypeVar

import torch
from torch import Tensor

from conformance_tests.computation.graph import Graph
from conformance_tests.computation.walking import is_even
from conformance_tests.errors import message
from conformance_tests.subjects.calling import (
    EXHAUSTED,
    SEGMENTS,
    Arguments,
    hidden_states,
    is_random_key,
    named_hidden_states,
    required,
    single_axes,
    tensors_in,
    with_another_sample,
)
from conformance_tests.subjects.likely_inputs import (
    LARGEST_WIDTH,
    LENGTH,
    LONGEST,
    MAP,
    MOST_LENGTHS,
    SEQUENCE,
    InputsOf,
    drawn,
    inputs_of,
    is_waveform,
    lengths_told,
    likeliest_alone,
    of_any_width,
    of_rectangles,
    of_stretches,
    positions_first,
)
from conformance_tests.subjects.masks import ESTABLISHED, LENGTHS, MaskForm, tells_of_a_mask
from conformance_tests.subjects.source_lines import SUITE, is_authors, with_line

BATCHES = (2, 1)
LIKELY, MOST_CALLS = 12, 400
"""So many fillings of further arguments are tried for one input: first the likely ones for every input."""

MOST_SIZES = 24
"""So many sizes, with so many arguments filled, are tried in one round: calls that are refused take their time too."""

MOST_TRIALS, FEW_TRIALS = 1250, 250
"""So many calls are tried in one round, or of an argument that is less likely the input: each takes a millisecond or
more."""

LONGEST_REFUSAL = 1000
"""So many characters of a refusal are read: some show a whole array."""

LARGEST_BATCH = 32
"""Images of so many samples take some 40 MB each."""

MOST_TOLD = 6
"""So many numbers that refusals name are tried as sizes: they name those of the weights as well."""

MOST_MENDED, MOST_INSTEAD = 60, 12
"""So many inputs with sizes that refusals name are tried in all, and so many with the same axes of one refused: a
refusal rarely names more than three sizes of weights, which make as many pairs."""

MOST_FURTHEST = 8
"""Values of further arguments are sought one by one for so many inputs: for those with which calls got furthest."""

MOST_ALIKE = 6
"""The likeliest values of an argument: nothing, and masks of several shapes. If an encoder refuses all of them in the
same words, its input is to blame, and no further value is tried beside it."""

FEW, MOST_OF_MANY = 3, 6
"""Of more than ``FEW`` further arguments only the likeliest values are combined with one another."""

MOST_OPTIONAL = 6
"""So many arguments that default to None are given a value if no call goes through without."""

T = TypeVar("T")


@dataclass(frozen=True)
class Plain:
    """A value for an argument that takes no mask: a key of ``PLAIN``."""

    kind: str

    def __str__(self) -> str:
        """Describe it in words, for the report."""
        return PLAIN[self.kind]


PLAIN = {
    "nothing": "None",
    "zeros": "zeros (B, n)",
    "length": "the number of positions",
    "no": "False",
    "nothing added": "zeros, with the axes of the input",
    "input": "the input again",
    "positions": "0, 1, 2, … (B, n)",
    "random key": "a key for random numbers",
    "bounds": "0, n, 2·n, … (the bounds of sequences that are laid end to end)",
}

Filling = MaskForm | Plain
"""A value that hides and changes as little as possible."""


def value_of(form: Filling, keep: Tensor, x: Tensor) -> Any:
    """Return the value for an input in which everything is kept; ``keep`` (B, n) tells its sizes."""
    if isinstance(form, MaskForm):
        return form.render(keep, x.shape[-1])
    values = {
        "nothing": None,
        "zeros": torch.zeros(keep.shape).long(),
        "length": keep.shape[1],
        "no": False,
        "nothing added": torch.zeros_like(x),
        "input": x,
        "random key": torch.zeros(2, dtype=torch.uint32),
        "bounds": keep.shape[1] * torch.arange(len(keep) + 1),
    }
    return (values | {"positions": torch.arange(keep.shape[1]).repeat(len(keep), 1)})[form.kind]


def another(value: Any) -> Any:
    """Return a value of the same kind that is another one."""
    return ~value if isinstance(value, Tensor) and value.dtype is torch.bool else value + 1


def is_sure(form: Filling | None) -> bool:
    """Return whether a value hides nothing, whatever an argument means: of a mask it depends on what true means."""
    return not isinstance(form, MaskForm) or form.values == LENGTHS


TryCall = Callable[[Tensor, Mapping[str, Any]], Any]
"""A call with a first argument and further ones by name, which may raise."""


@dataclass(frozen=True)
class FirstCall:
    """Arguments that an encoder accepts.

    Attributes:
        inputs: the first argument, as it is handed over.
        named: the other arguments that it requires or its author states, by name.
        batch: the number of sequences, and ``length`` that of positions, where there are any.
        forms: what the arguments in ``named`` are given, but for those with a stated value.
        is_odd: whether what comes back has not the positions that were given, or is one number throughout.
        in_one_axis: whether all positions of all sequences come back in one axis.
    """

    inputs: Tensor
    named: Mapping[str, Any]
    batch: int
    length: int
    forms: Mapping[str, Filling]
    is_odd: bool = False
    in_one_axis: bool = False

    def giving(self, argument: str, form: Plain) -> "FirstCall":
        """Return the same with something else in the place of zeros, or of nothing."""
        if argument in self.named and self.forms.get(argument) not in (Plain("zeros"), Plain("nothing added")):
            return self
        keep = torch.ones(self.batch, self.length, dtype=torch.bool)
        named = {**self.named, argument: value_of(form, keep, self.inputs)}
        return replace(self, named=named, forms={**self.forms, argument: form})

    @property
    def tells_axes_apart(self) -> bool:
        """True if there are not as many sequences as positions, or few of them."""
        return self.batch != self.length or self.batch in BATCHES


class SearchedTooLong(Exception):
    """The search for a call that goes through has taken too long."""


SHAPES = ("B n", "B 1 n", "B 1 1 n", "B n n", "B 1 n n", "n n", "B n 1")
"""The axes of arrays that hide nothing."""

WITH_HEADS = "B h n n"

LIKELY_SHAPES = SHAPES[:3]


MASKS = ("keep", "ignore", "additive")
"""Values of masks that are tried before numbers."""

COUNTED = ("keep 0/1", "keep 0.0/1.0")
"""Values of masks that are numbers themselves."""

ATTENDED = {"q", "k", "v", "query", "queries", "key", "keys", "value", "values"}
"""Words for what attention reads."""


POSITIONS = {"pos", "position", "positions"}
"""Words for the numbers of positions."""


def fillings(argument: str, beside_vectors: bool = True, heads: Sequence[int] = ()) -> list[Filling]:
    """Return what an argument may be given that is neither input nor mask, the likeliest first: nothing is hidden.

    Its name orders them, and excludes two: what is added, unless to vectors, and masks in the place of a random key. A
    mask may ask for an axis of ``heads``, of which there may be so many.
    """
    if is_random_key(argument):
        return [Plain("input"), Plain("random key"), Plain("nothing")]  # what attention reads may be called so too
    masks: list[Filling] = [MaskForm(argument, v, axes) for v in MASKS for axes in SHAPES]
    masks += [MaskForm(argument, v, WITH_HEADS, h) for v in MASKS for h in heads]
    counted: list[Filling] = [MaskForm(argument, v, axes) for v in COUNTED for axes in SHAPES]
    # Zeros hide everything where 1 is known to keep, and then nothing shows which keys are near enough to be read.
    keeps = ESTABLISHED.get(argument) == "keep"
    numbers: list[Filling] = [MaskForm(argument, LENGTHS, "B"), *(counted if keeps else [])]
    numbers += [Plain("zeros"), Plain("bounds")]
    others: list[Filling] = [] if keeps else counted
    # A number may scale whatever it meets.
    # What is false switches off; few lengths are not called so.
    lengths = [Plain("length"), Plain("no")] if "len" in argument else [Plain("no"), Plain("length")]
    others += [Plain("input"), *lengths]
    is_number = "len" in argument or SEGMENTS.search(argument)
    first: list[Filling] = [Plain("input")] if is_attended(argument) else []
    first += [Plain("positions")] if POSITIONS & set(argument.lower().split("_")) else []
    # True numbers that are added to the input would not hide, and change it.
    may_be_added = beside_vectors and not is_number and not tells_of_a_mask(argument)
    first += [Plain("nothing"), *([Plain("nothing added")] if may_be_added else [])]
    return [*first, *(numbers + masks if is_number else masks + numbers), *others]


def is_attended(argument: str) -> bool:
    """Return whether an argument is called as what attention reads: with the input for each, that is self-attention."""
    words = set(argument.lower().split("_"))
    return bool(words & ATTENDED) and not words & {"past", "cache"} and not tells_of_a_mask(argument)


def by_rank(choices: Sequence[Sequence[Filling]]) -> Iterator[tuple[Filling, ...]]:
    """Yield a choice from each list, those that are likely in all of them first."""
    likely = choices if len(choices) <= FEW else [c[:MOST_OF_MANY] for c in choices]
    rank = rank_together if all(map(is_first_a_mask, choices)) else sum_of_ranks
    ranked = sorted(product(*(enumerate(c) for c in likely)), key=rank)
    for chosen in islice(ranked, MOST_CALLS):
        yield tuple(choice for _, choice in chosen)


def is_first_a_mask(choices: Sequence[Filling]) -> bool:
    """Return whether an argument is a mask rather than the input again, positions, or numbers."""
    said = (choice for choice in choices if choice not in (Plain("nothing"), Plain("nothing added")))
    return getattr(next(said, None), "values", "") in MASKS


def sum_of_ranks(chosen: Sequence[tuple[int, Filling]]) -> int:
    """Return how late a choice for several arguments comes, each with its own rank."""
    return sum(rank for rank, _ in chosen)


def rank_together(chosen: Sequence[tuple[int, Filling]]) -> int:
    """Return how late a choice for several masks comes.

    Their values mean the same in one call, as a rule: then the likeliest shapes alone decide.
    """
    masks = [f for _, f in chosen if isinstance(f, MaskForm) and f.values in MASKS and f.axes in LIKELY_SHAPES]
    if 1 < len(masks) == len(chosen) and len({form.values for form in masks}) == 1:
        return sum(LIKELY_SHAPES.index(form.axes) for form in masks)
    return sum_of_ranks(chosen)


@cache
def likeliest(
    names: Sequence[str], most: int, beside_vectors: bool, heads: Sequence[int] = ()
) -> list[tuple[Filling, ...]]:
    """Return what several arguments are given together, the likeliest first."""
    return list(islice(by_rank([fillings(name, beside_vectors, heads) for name in names]), most))


def heads_told(weights: Mapping[str, Tensor], numbers: Sequence[int]) -> tuple[int, ...]:
    """Return how many heads an encoder may have: whole numbers that it keeps, and that divide the width of most arrays.

    Args:
        weights: its arrays.
        numbers: those that it keeps.
    """
    sizes = Counter(size for w in weights.values() for size in set(w.shape) if size > 1)
    width = next((size for size, _ in sizes.most_common(1)), 1)
    return tuple(n for n in dict.fromkeys(numbers) if 1 < n < width and width % n == 0)[:MOST_HEADS]


MOST_HEADS = 3
"""So many numbers of heads are tried."""


def plans(arguments: Arguments) -> Iterator[tuple[str, ...]]:
    """Yield the arguments to give beside the input: those required; then one, two or all that default to nothing.

    Code that states a default and cannot do without a value is common.
    """
    asked = required(arguments)
    optional = [name for name, default in list(arguments.items())[1:] if default is None][:MOST_OPTIONAL]
    every = len(optional)
    # Each one and each two of three take longer than the ascent with all; of more, a call would be given what it can
    # do without.
    for more in dict.fromkeys((0, every if every == FEW else 1, 1, 2, every)):
        for beside in combinations(optional, more):
            yield (*asked, *beside)


Reached = tuple[int, ...]
"""How far a call got before it was refused: the place in the code of each function that runs then, the outer first.

Of two refusals in one function the later one was refused for something else: what refused the first is given rightly.
"""


def reached_before(refusal: Exception) -> Reached:
    """Return how far a call got: from the encoder's own code on.

    An exported program, or one that was made while it runs, has no file of source: all that the suite calls is its own.
    """
    passed = [(frame.f_code.co_filename, at) for frame, at in passed_by(refusal)]
    beyond = max((i + 1 for i, (path, _) in enumerate(passed) if path.startswith(SUITE)), default=0)
    first = next((i for i, (path, _) in enumerate(passed) if is_authors(path)), beyond)
    return tuple(at for _, at in passed[first:])


def passed_by(refusal: Exception) -> Iterator[tuple[FrameType, int]]:
    """Yield each function that a refusal came through, the outer first, and the place in its code."""
    here = refusal.__traceback__
    while here is not None:
        yield here.tb_frame, here.tb_lasti
        here = here.tb_next


@dataclass(frozen=True, eq=False)
class Tried:
    """Names of further arguments, numbers of positions and sequences, and the input that calls are tried with."""

    names: tuple[str, ...]
    length: int
    batch: int
    x: Tensor

    def resized(self, sizes: Sequence[int]) -> "Tried":
        """Return the same with an input of other sizes, of which the first is the same."""
        x = self.x
        if x.is_floating_point() or (x.ndim == SEQUENCE and sizes[-1] > x.shape[-1]):
            x = drawn(tuple(sizes))  # several numbers of each position are features, and no ids
        else:
            for axis, size in enumerate(sizes):
                x = x.index_select(axis, torch.arange(size) % x.shape[axis])
        length = sizes[1] if self.x.ndim <= SEQUENCE and self.x.shape[:2] == (self.batch, self.length) else self.length
        return replace(self, x=x, length=length)


Attempt = tuple[Tried, tuple[Filling, ...]]
"""What a call is tried with, and the values of its further arguments."""

Mendable = tuple[Attempt, Collection[int]]
"""A call that was refused, and the numbers that the refusal names."""


def sizes_instead(sizes: Sequence[int], named: Collection[int]) -> Iterator[tuple[int, ...]]:
    """Yield the sizes of an input with some of those that a refusal names replaced by others that it names.

    One axis after the other comes first, then two together. The first is kept: sequences may be as many as one likes.
    """
    others = sorted(number for number in named if number not in sizes and 1 < number < LARGEST_WIDTH)
    axes = [axis for axis in range(1, len(sizes)) if sizes[axis] in named]
    for changed in chain(combinations(axes, 1), combinations(axes, 2)):
        for instead in islice(product(others, repeat=len(changed)), MOST_INSTEAD):
            new = dict(zip(changed, instead, strict=True))
            yield tuple(new.get(axis, size) for axis, size in enumerate(sizes))


AXES_ASKED_FOR = (
    re.compile(r"values to unpack \(expected (?P<expected>\d+)(?:, got (?P<got>\d+))?\)"),
    re.compile(r"input\.dim\(\) = (?P<got>\d+) is not equal to len\(dims\) = (?P<expected>\d+)"),
    re.compile(r"subscripts in the equation \((?P<expected>\d+)\) does not match .* dimensions \((?P<got>\d+)\)"),
    re.compile(r"expected (?P<expected>\d+) dims\. Received (?P<got>\d+)-dim"),
)
"""The words of Python, of torch's permute and einsum, and of einops for arrays with another number of axes."""


def axes_asked_for(said: str, axes: int) -> int | None:
    """Return how many axes a refusal asks for, if it is that sizes were taken apart as those of another number of axes.

    Args:
        said: the refusal.
        axes: the number of axes of what was refused.
    """
    for words in AXES_ASKED_FOR:
        if found := words.search(said):
            expected, got = int(found["expected"]), found["got"]
            is_of_input = int(got) == axes if got else axes > expected
            return expected if is_of_input else None
    return None


class Refusals:
    """Refusals of calls, in the words of an encoder, and how far each call got.

    Attributes:
        heads: the numbers of heads that it may have.
        best: how far the call got that got furthest.
        best_refusal: the error that this call was refused with, and its line.
    """

    def __init__(self, heads: Sequence[int] = ()) -> None:
        self.heads = tuple(heads)
        self._input: Tensor | None = None
        self._said: list[str] = []
        self._numbers = Counter[int]()
        self._axes = Counter[int]()
        self._furthest: list[Attempt] = []
        self.best: Reached = ()
        self.best_refusal = ""
        self._ascended: list[Tried] = []
        self._mendable: list[Mendable] = []
        self._mended: set[tuple[int, ...]] = set()
        self._last: Reached = ()

    def passed(self) -> None:
        """Take up that a call went through."""
        self._last = (maxsize,)

    def add(self, attempt: Attempt, refusal: Exception) -> None:
        """Take up the last refusal."""
        tried, _ = attempt
        said = f"{type(refusal).__name__}: {message(refusal)}"[:LONGEST_REFUSAL]
        self._said = [*self._said, said] if tried.x is self._input else [said]
        self._input = tried.x
        named = {int(number) for number in re.findall(r"\b\d{1,4}\b", said)}
        self._numbers.update(named)
        if (axes := axes_asked_for(said, tried.x.ndim)) is not None:
            self._axes[axes] += 1
        self._last = reached_before(refusal)
        if self._last > self.best:
            self.best, self.best_refusal, self._furthest = self._last, with_line(refusal), []
            self._mendable = []
        is_another = all(tried is not known for known, _ in self._furthest[-1:])
        if self._last == self.best and is_another and len(self._furthest) < MOST_FURTHEST:
            self._furthest.append(attempt)
        if self._last == self.best:
            self._mendable.append((attempt, named))

    def mended(self) -> Iterator[Attempt]:
        """Yield the calls that got furthest, with sizes that their refusals name in the place of those refused.

        What comes of each call is taken up before the next is asked for, and is mended in turn. Where an input gets as
        far as any, further arguments may have been given wrongly. A single position may be repeated for each one that
        an encoder adds something to, so that it comes last; a single feature is left to other rounds.
        """
        single: list[Attempt] = []
        while self._mendable:
            (tried, forms), named = self._mendable.pop(0)
            for sizes in sizes_instead(tried.x.shape, named):
                key = (tried.x.is_floating_point(), *sizes)
                is_sequence = tried.x.ndim == SEQUENCE
                is_feature = is_sequence and sizes[-1] == 1
                if is_feature or key in self._mended or len(self._mended) == MOST_MENDED:
                    continue
                self._mended.add(key)
                new = tried.resized(sizes)
                if is_sequence and sizes[1] == 1:
                    single.append((new, forms))
                    continue
                yield new, forms
                if self._last == self.best:
                    others = likeliest(tried.names, LIKELY, new.x.is_floating_point(), self.heads)
                    yield from ((new, other) for other in others if other != forms)
        yield from single

    def with_other_lengths(
        self, weights: Mapping[str, Tensor], lengths: Sequence[int], inputs: InputsOf
    ) -> Iterator[Attempt]:
        """Yield the calls that got furthest, with other numbers of positions: the rest of them may be right."""
        for tried, forms in self._furthest[:]:
            sizes = tuple(tried.x.shape)
            for n in sorted(lengths, key=self.naming, reverse=True):
                # Features may be as many as positions.
                as_long = {(*sizes[:i], n, *sizes[i + 1 :]) for i, size in enumerate(sizes) if size == tried.length}
                for likely in inputs(weights, tried.batch, n):
                    shape = tuple(likely.shape) if isinstance(likely, Tensor) else likely
                    if shape in as_long and isinstance(likely, Tensor) != tried.x.is_floating_point():
                        yield Tried(tried.names, n, tried.batch, drawn(likely)), forms
                        break

    def ascending(self, names: tuple[str, ...]) -> Iterator[Attempt]:
        """Yield calls with several arguments: of one after the other the value with which a call gets furthest is kept.

        The inputs are those with which calls got furthest; each comes once. What comes of each call is taken up before
        the next is asked for.
        """
        if len(names) < 2:
            return  # of a single one, all values are tried if it is required, and the likely ones if it is not
        for tried, _ in self._furthest[:]:
            if tried.names == names and tried not in self._ascended and len(self._ascended) < MOST_FURTHEST:
                self._ascended.append(tried)
                for forms in self._ascent(names, tried.x.is_floating_point()):
                    yield tried, forms

    def furthest_forms(self, names: tuple[str, ...]) -> list[tuple[Filling, ...]]:
        """Return what some arguments were given in the call that got furthest, if it gave these."""
        return [forms for tried, forms in self._furthest[:1] if tried.names == names]

    def looking_around(self) -> Iterator[Attempt]:
        """Yield calls with an input that got further than all before it: other values of one argument after the other.

        Of masks those with one kind of values come first, then others with the axes that got furthest. These are few,
        so that an input that is right is called rightly before time is spent on others that are not.
        """
        tried, forms = self._furthest[0]
        if len(tried.names) == 1 and self.blame(tried.x):
            return
        best = list(forms)
        for place, name in enumerate(tried.names):
            reached = self.best
            first = filter(has_first_values, fillings(name, tried.x.is_floating_point(), self.heads))
            for filling in chain(first, others_of(best, place)):
                yield tried, (*best[:place], filling, *best[place + 1 :])
                if self._last > reached:
                    best[place], reached = filling, self._last

    def _ascent(self, names: tuple[str, ...], beside_vectors: bool) -> Iterator[tuple[Filling, ...]]:
        choices = [fillings(name, beside_vectors, self.heads) for name in names]
        best = [of_one[0] for of_one in choices]
        # An argument that is read later is told apart only once those before it are given rightly.
        for _ in names:
            for place, of_one in enumerate(choices):
                reached: list[Reached] = []
                for filling in of_one:
                    yield (*best[:place], filling, *best[place + 1 :])
                    reached.append(self._last)
                best[place] = of_one[reached.index(max(reached))]

    def naming(self, number: int) -> int:
        """Return how many refusals name a number: it may be the size that is asked for."""
        return self._numbers[number]

    def sizes(self, most: int, known: Collection[int]) -> list[int]:
        """Return the numbers up to ``most`` that refusals name most often, besides those known: they may be sizes."""
        told = [number for number, _ in self._numbers.most_common() if 1 < number <= most and number not in known]
        return told[:MOST_TOLD]

    def asks_for_other_axes(self, axes: int) -> bool:
        """Return whether the number of axes is another than the one that refusals of several inputs ask for."""
        return len(self._axes) == 1 and self._axes.total() >= MOST_ALIKE and axes not in self._axes

    def blame(self, x: Tensor) -> bool:
        """Return whether an input was refused in the same words beside so many values that it is to blame."""
        return x is self._input and len(self._said) >= MOST_ALIKE and len(set(self._said)) == 1


def attempts_of(
    weights: Mapping[str, Tensor],
    refusals: Refusals,
    batches: Sequence[int],
    given: Iterable[tuple[str, ...]],
    lengths: Sequence[int],
    inputs: InputsOf,
    most: int,
) -> Iterator[Attempt]:
    """Yield calls with the likeliest values of some arguments, ``most`` for each input, the lengths named first.

    Both those lengths and the inputs to blame are known from the refusals of earlier calls.
    """
    named_first = sorted(lengths, key=refusals.naming, reverse=True)
    reached = refusals.best
    for names, n, batch in islice(product(given, named_first, batches), MOST_SIZES):
        for likely in inputs(weights, batch, n):
            if refusals.asks_for_other_axes(likely.ndim if isinstance(likely, Tensor) else len(likely)):
                continue
            x = drawn(likely)
            tried = Tried(names, n, batch, x)
            likely_forms = likeliest(names, most, x.is_floating_point(), refusals.heads)
            for forms in dict.fromkeys([*refusals.furthest_forms(names), *likely_forms]):
                if refusals.blame(x):
                    break
                yield tried, forms
            if refusals.best > reached:
                yield from refusals.looking_around()
                reached = refusals.best


def has_first_values(form: Filling) -> bool:
    """Return whether something is not a mask, or has the values with which the axes of a mask are sought."""
    return not isinstance(form, MaskForm) or form.values in (MASKS[0], COUNTED[0], LENGTHS)


def others_of(forms: Sequence[Filling], place: int) -> Iterator[Filling]:
    """Yield what the argument at a place may be given instead, if it is given a mask: other values."""
    form = forms[place]
    if isinstance(form, MaskForm) and form.values != LENGTHS:
        yield from (replace(form, values=values) for values in (*MASKS, *COUNTED) if values != form.values)


def attempts_as_told(
    weights: Mapping[str, Tensor], refusals: Refusals, asked: Sequence[tuple[str, ...]], inputs: InputsOf
) -> Iterator[Attempt]:
    """Yield calls with the numbers of positions, and of sequences, that the refusals before them name."""
    lengths = refusals.sizes(LONGEST, {LENGTH})
    yield from attempts_of(weights, refusals, BATCHES, asked, lengths, inputs, LIKELY)
    batches = refusals.sizes(LARGEST_BATCH, {LENGTH, *BATCHES})
    yield from attempts_of(weights, refusals, batches, asked, [LENGTH, *batches], inputs, LIKELY)


def first_call(
    weights: Mapping[str, Tensor],
    tables: Mapping[str, Tensor],
    arguments: Arguments,
    call: TryCall,
    lengths: Sequence[int] = (),
    batches: Sequence[int] = BATCHES,
    stated: Mapping[str, Any] = MappingProxyType({}),
    trials: int = MOST_TRIALS,
    shape: Sequence[int | None] | None = None,
    numbers: Sequence[int] = (),
    refusals: Refusals | None = None,
    special: Collection[int] = (),
) -> FirstCall | None:
    """Return arguments that an encoder accepts; None if none of those tried are.

    Args:
        weights: its arrays by name.
        tables: arrays that it keeps beside them.
        arguments: those of its call, the input first, without those whose values are stated.
        call: calls it.
        lengths: the numbers of positions to try; by default few, and as many as some size of its arrays.
        batches: the numbers of sequences to try.
        stated: values that every call gets, by argument.
        trials: the number of calls that may be tried in each round.
        shape: that of the input, if the encoder states it.
        numbers: whole numbers that it keeps; the only length that it takes, the sides of its images, or the number of
            its heads may be some.
        refusals: takes up those of the calls that are tried.
        special: ids that are not to be among its tokens.
    """
    few, *more = lengths or [LENGTH, *lengths_told(weights, tables, numbers=numbers)][:MOST_LENGTHS]
    every = list(plans(arguments))
    asked = every[:1]
    likely = partial(inputs_of, tables=tables, shape=shape, numbers=numbers, special=special)
    refusals = refusals or Refusals(heads_told(weights, numbers))
    attempts = partial(attempts_of, weights, refusals, batches)
    several = [number for number in batches if number > 1]  # one position would do for any number of them
    rounds = (
        attempts(every, [few], likely, LIKELY),
        refusals.ascending(*asked),
        refusals.with_other_lengths(weights, more, likely),
        *([] if lengths else [refusals.mended()]),  # sizes that are asked for are no others
        *([attempts_of(weights, refusals, [few], asked, several, positions_first(likely), LIKELY)] if asked[0] else []),
        *([refusals.ascending(max(every, key=len))] if len(every) > 1 else []),
        attempts(asked, more, likeliest_alone(likely), LIKELY),  # images of the first lengths may be too many
        attempts(asked, more, likely, LIKELY),
        refusals.ascending(*asked),
        attempts(asked, [few], likely, MOST_CALLS),
        attempts(asked, [few], partial(of_rectangles, tables=tables), 1),
        attempts(asked, [few], partial(of_stretches, tables=tables), 1),
        attempts(asked, [few], of_any_width, 1),
        *([] if lengths or batches != BATCHES else [attempts_as_told(weights, refusals, asked, likely)]),
    )
    passable: FirstCall | None = None
    odd: FirstCall | None = None
    for one_round in rounds:
        for tried, forms in islice(one_round, trials):
            x, batch = tried.x, tried.batch
            beside = dict(zip(tried.names, forms, strict=True))
            if passable and (passable.batch, passable.forms.keys()) != (batch, beside.keys()):
                return passable
            keep = torch.ones(batch, tried.length, dtype=torch.bool)
            named = dict(stated) | {name: value_of(form, keep, x) for name, form in beside.items()}
            try:
                tensors = tensors_in(call(x, named))
                refusals.passed()
            except EXHAUSTED:
                return None
            except SearchedTooLong:
                return passable or odd
            except Exception as refusal:
                refusals.add((tried, forms), refusal)
                continue
            if not x.is_floating_point() and takes_fractions(call, x, named, tensors):
                continue
            if x.shape[-1] == 1 and not reads(call, x, named, tensors):
                continue  # one feature beside wider vectors is nothing that a norm of them would leave
            accepted = FirstCall(x, named, batch, positions_in(tensors, x, batch, tried.length), beside)
            # A mask that hides everything, since true means ignore, may give zeros everywhere.
            is_hidden = tensors and not all(map(is_sure, forms)) and is_even(first_hidden_states(tensors))
            rows = in_rows(tensors, x, batch * tried.length) if len(x) == batch else None
            if rows is not None and not is_hidden and keeps_samples_apart(call, x, named, rows):
                return replace(accepted, in_one_axis=True)
            is_one = x.ndim < SEQUENCE and is_one_sequence(call, x, named, tensors)
            if is_hidden or rows is not None or is_one or not has_positions(tensors, x, batch, tried.length):
                odd = odd or replace(accepted, is_odd=True)
            elif tensors and all(bool(t.isfinite().all()) for t in tensors):
                return accepted
            else:
                passable = passable or (accepted if tensors else None)
        if passable:
            return passable
    return odd


def takes_fractions(call: TryCall, ids: Tensor, named: Mapping[str, Any], returned: Sequence[Tensor]) -> bool:
    """Return whether a call computes with ids as with numbers: fractions in their place give something else.

    Code that looks ids up refuses fractions, or rounds them down.
    """
    try:
        fractions = tensors_in(call(ids + 0.25, named))
    except Exception:
        return False
    same = (torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(fractions, returned, strict=False))
    return not all(same)


def reads(call: TryCall, x: Tensor, named: Mapping[str, Any], returned: Sequence[Tensor]) -> bool:
    """Return whether a call with the sequences in another order gives something else."""
    try:
        others = tensors_in(call(x.flip(0, 1), named))
    except Exception:
        return True
    return not all(map(torch.equal, returned, others))


def positions_in(returned: Sequence[Tensor], x: Tensor, batch: int, n: int) -> int:
    """Return the number of positions of a call: ``n``, unless hidden states come back with other sizes of the input.

    What was made as a signal, (B, channels, time), may be taken for vectors.
    """
    sizes = x.shape[:2]
    if is_waveform(x) and x.shape[1] != n:
        return next((t.shape[1] for t in returned if t.ndim == SEQUENCE), n)
    alike = x.ndim == SEQUENCE and any(t.ndim == SEQUENCE and t.shape[:2] == sizes for t in returned)
    if not alike or n in sizes or batch not in sizes:
        return n
    return sizes[1] if sizes[0] == batch else sizes[0]


def in_rows(returned: Sequence[Tensor], x: Tensor, rows: int) -> Tensor | None:
    """Return the hidden states, if they come back with all positions of all sequences in one axis."""
    if x.ndim > SEQUENCE or any(t.ndim == SEQUENCE for t in returned):
        return None
    return next((t for t in returned if t.ndim == MAP and len(t) == rows), None)


def keeps_samples_apart(call: TryCall, x: Tensor, named: Mapping[str, Any], hidden: Tensor) -> bool:
    """Return whether another first sequence changes only the first rows of hidden states in rows, as many as it has.

    All sequences may have become a single one as well.
    """
    if len(x) == 1:
        return False
    try:
        other = in_rows(tensors_in(call(with_another_sample(x), named)), x, len(hidden))
    except Exception:
        return False
    if other is None:
        return False
    changed = (hidden != other).any(1).tolist()
    return changed == [row < len(hidden) // len(x) for row in range(len(hidden))]


def is_one_sequence(call: TryCall, x: Tensor, named: Mapping[str, Any], returned: Sequence[Tensor]) -> bool:
    """Return whether numbers (B, n) are taken for the vectors of one sequence: as many come back, and all belong."""
    if len(x) == 1 or not returned or returned[0].shape != x.shape:
        return False
    try:
        other = tensors_in(call(with_another_sample(x), named))[0]
    except Exception:
        return False
    return bool((other != returned[0]).any(1).all())


def has_positions(returned: Sequence[Tensor], x: Tensor, batch: int, n: int) -> bool:
    """Return whether a sequence comes back with every position, in either order of axes; True where x has none.

    One sequence that is added to a table of another length is repeated for each of its rows: these come back, and
    what was given is none of what such an encoder takes.
    """
    returned = [t.squeeze(single_axes(t)) for t in returned]
    sequences = [t.shape[:2] for t in returned if t.ndim == SEQUENCE]
    if is_waveform(x) and x.shape[1] != n:
        return any(one == batch and n <= other < x.shape[1] for one, other in sequences)
    if x.ndim <= SEQUENCE and not sequences and len(x) != batch and {len(t) for t in returned if t.ndim} == {len(x)}:
        return False  # a row of each position: these were taken for samples, and a sample of one was repeated
    if x.ndim <= SEQUENCE and returned and all(t.ndim > SEQUENCE for t in returned):
        return False  # one sequence, of which a batch was made
    if x.ndim > SEQUENCE or sorted(x.shape[:2]) != sorted((batch, n)) or not sequences:
        return True
    return any((one == batch and other >= n) or (other == batch and one >= n) for one, other in sequences)


def first_hidden_states(returned: Any) -> Tensor:
    """Return the hidden states among an encoder's results, while nothing is known of their width."""
    sequences = [t for t in tensors_in(returned) if t.ndim == 3]
    return hidden_states(returned, sequences[0].shape[-1] if sequences else 0)


def with_output(graph: Graph, returned: Any, codes: Callable[[Tensor], Tensor]) -> Graph:
    """Note in the graph of a call which of its results are the hidden states.

    Of several arrays of that shape, such as those of each layer, they are the one that all the others lead to.

    Args:
        graph: what the call computes.
        returned: everything that it returned.
        codes: the codes of a tensor among that.
    """
    first = first_hidden_states(returned)
    graph.output, graph.result = codes(first), None
    if named_hidden_states(returned) is not None:
        return graph
    places = [place for place, result in enumerate(tensors_in(returned)) if result.shape == first.shape]
    alike = {place: codes(tensors_in(returned)[place]) for place in places}
    computed = {v.number for others in alike.values() for v in graph.owners(others) if v.depends}
    for place in places if len(places) > 1 else ():
        if computed <= {value.number for value in graph.ancestors(alike[place])}:
            graph.output, graph.result = alike[place], place
            break
    return graph

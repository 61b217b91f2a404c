"""Subjects that are called like a function, with arguments that the suite finds out by experiment."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from copy import copy
from dataclasses import replace
from itertools import chain, islice
from time import process_time
from typing import Any

import torch
from torch import Tensor

from conformance_tests.computation.graph import Graph, Rescaling
from conformance_tests.computation.images import ImageAxes
from conformance_tests.computation.inputs import tables_by_argument, unlearned_rows
from conformance_tests.computation.shown import Ending, Finding
from conformance_tests.computation.walking import is_even
from conformance_tests.errors import Refused, Unsupported
from conformance_tests.numerics.probes import Probe, Probes, Sizes
from conformance_tests.subjects.calling import (
    BATCH_FIRST,
    EXHAUSTED,
    FEATURES_FIRST,
    REQUIRED,
    SEGMENTS,
    SEQUENCE_FIRST,
    Arguments,
    hidden_states,
    order_of_axes,
    required,
    single_axes,
    tensors_in,
)
from conformance_tests.subjects.first_call import (
    BATCHES,
    FEW_TRIALS,
    LIKELY,
    MOST_TRIALS,
    Filling,
    FirstCall,
    Plain,
    Reached,
    Refusals,
    SearchedTooLong,
    TryCall,
    another,
    by_rank,
    fillings,
    first_call,
    heads_told,
    is_attended,
    is_sure,
    plans,
    value_of,
)
from conformance_tests.subjects.further_results import mixes_samples, reads_padding
from conformance_tests.subjects.left_out import Defaults, Rows, positions_left_out, segments_left_out
from conformance_tests.subjects.likely_inputs import SEQUENCE
from conformance_tests.subjects.mask_search import LearnedMask, MaskSearch, only_asked_whether_given
from conformance_tests.subjects.masks import (
    DOCUMENTED,
    LENGTHS,
    NO_MASKS,
    OTHER_WORDS,
    PADDING_ID,
    TAKEN_OUT,
    MaskForm,
    ends_in_padding,
    is_same,
    mask_arguments,
    telling_nothing,
    tells_of_a_mask,
    tells_of_padding,
    unforeseen_arguments,
)
from conformance_tests.subjects.one_by_one import (
    apart,
    are_sequences,
    filled_up,
    joined,
    over_tensors,
    with_batch,
    without_batch,
)
from conformance_tests.subjects.segments import segment_argument
from conformance_tests.subjects.subject import Boundary, Subject, with_values
from encoder_spec.dimensions import Dimensions

LONGEST_SEARCH, ALL_SEARCHES = 6.0, 8.0
"""Seconds of the processor that a search for a first call may take, and all those together that find none.

Most calls take milliseconds. A second search is for another precision, or another end of the encoder.
"""

LEAST_SHARE = 6
"""Each stage of a search has a sixth of the time at least: half of an equal share, as there are at most three."""

MOST_NAMES = 4
"""So many parameters behind the end of an encoder are named."""

INPUT_IN = {SEQUENCE_FIRST: "(n, B, d_model)", FEATURES_FIRST: "(B, d_model, n)"}
"""Orders of the axes of the input other than the usual one, in words; the last one may be the output's alone."""

MIXES = "what stands behind the encoder mixes samples: another one in the batch changes results of others"
"""Whatever is computed of hidden states, each sample has its own."""

READS_PADDING = "what it returns for each sequence, beside its hidden states, depends on what stands at padding"
"""A mask says that this is nothing; but what such a vector is for, no equation says."""

OTHER_ID = "positions are hidden where the id is {}, though the table of embeddings has padding_idx {}"
"""A contradiction within an encoder: the row of padding is read, and a token in its place is not."""

LOST = "its argument {} does something else where {} is given too, though that hides nothing"
"""An argument must do the same, whether or not another one is given that does nothing by itself."""

MOST_NUMBERING = 4
"""So many arguments are tried for numbers of positions: each takes up to six calls."""

NO_NUMBERS = (*NO_MASKS, *(word for word in OTHER_WORDS if word not in ("position", "ids")))
"""Words in the names of arguments that number no positions."""

UNTOUCHED = tuple(map(Plain, ("nothing", "no", "positions", "random key")))
"""Values of further arguments beside which no other one is tried."""

REPEATED = tuple(map(Plain, ("nothing", "no", "zeros", "length")))
"""Values of further arguments that are given of several sequences end to end as of a single one."""

TURNED = {BATCH_FIRST: "(n, B, d_model)", SEQUENCE_FIRST: "(B, n, d_model)", FEATURES_FIRST: "(n, d_model, B)"}
"""Orders of the axes of the output where batch and positions are exchanged, in words."""


class CalledSubject(Subject):
    """An encoder that is called with tensors by position and by name.

    A framework supplies ``arguments`` and ``call``, and as much of the rest as it can. This class learns which argument
    is the mask, its form and polarity, the order of the axes, and which part of the output are the hidden states.
    """

    stages: Sequence[tuple[bool, int]] = ((False, MOST_TRIALS), (True, FEW_TRIALS))
    """Rounds of calls until one goes through: whether with one sequence alone, and how many calls at most."""

    ends_with = "what its part `{}` returns"
    """Where a model is judged no further, in words."""

    def __init__(self) -> None:
        self.axes = BATCH_FIRST
        self.returns_turned = False
        self.returns_features_first = False
        self.single_axes: tuple[int, ...] = ()
        self.mask_form: MaskForm | None = None
        self.neutral: dict[str, Filling] = {}
        self._instead: dict[str, Any] = {}
        self.segments: str | None = None
        self._no_ids: set[str] = set()
        self.padding_ids: frozenset[int] = frozenset()
        self.stated_padding: int | None = None
        self.idle_weights: frozenset[str] = frozenset()
        self._shown_segments = ""
        self._kinds: frozenset[str] = frozenset()
        self._given_anyhow: dict[str, Plain] = {}
        self.width = 0
        self.result: int | None = None
        self.first_sizes: Sizes | None = None
        self.first_forms: Mapping[str, Filling] | None = None
        self.image_axes: ImageAxes | None = None
        self._asked_for: tuple[int, ...] | None = None
        self.rescaling: Rescaling | None = None
        self.ids_apart = False
        self.takes_numbers = False
        self.one_by_one = False
        self.in_one_axis = False
        self.returns_sequences = False
        self.is_laid_end_to_end = False
        self.ending: Ending | None = None
        self.place_of_head: int | None = None
        self.stands_on: Ending | None = None
        self.of_what_follows = ""
        self._not_recorded: frozenset[int] = frozenset()
        self._added = 0
        self._stages: Dimensions | None = None
        self._searched_in_vain = 0.0
        self._confuses_axes = False
        self._furthest: tuple[Reached, str] = ((), "")
        self._mask = LearnedMask()
        self._switches: frozenset[str] = frozenset()
        self._of_results: list[Finding] = []
        self._is_random = self._reads_padding = False
        self._undisturbed: Boundary = nullcontext
        self._defaults = Defaults()

    def arguments(self) -> Arguments:
        """Return the arguments of the call, in order, each with its default."""
        raise NotImplementedError

    def call(self, positional: Sequence[Tensor], named: Mapping[str, Any], gradients: bool) -> Any:
        """Call the encoder; arrays among what it returns come as tensors."""
        raise NotImplementedError

    def stated_shape(self) -> tuple[int | None, ...] | None:
        """Return the shape of its input, if it states one: None for a size that is free."""
        return None

    def takes_input_by_name(self) -> bool:
        """Return whether even the input goes by its name."""
        return False

    def call_with_batch(self, positional: Sequence[Tensor], named: Mapping[str, Any], gradients: bool) -> Any:
        """Call the encoder; one that takes a sequence without a batch gets the only one of a batch."""
        if self.takes_input_by_name():
            positional, named = (), dict(named) | dict(zip(self.arguments(), positional, strict=False))
        if self.in_one_axis:
            return over_tensors(apart(positional[0].shape[:2]), self.call(positional, named, gradients))
        if not self.one_by_one:
            returned = self.call(positional, named, gradients)
            x = positional[0] if positional else None
            if not isinstance(x, Tensor) or x.ndim < len(("B", "n")) or not are_sequences(returned, list(map(len, x))):
                return returned
            self.returns_sequences = True
            return filled_up(returned, torch.ones(x.shape[:2], dtype=torch.bool))
        alone = {name: without_batch(value) for name, value in named.items()}
        return with_batch(self.call([x[0] for x in positional], alone, gradients), self.ending is not None)

    def record_call(self, inputs: tuple[Tensor, ...], keep: Tensor | None) -> list[Tensor]:
        """Return every array that the encoder computes on the way, in order."""
        return super().record(inputs, keep)

    def record(self, inputs: tuple[Tensor, ...], keep: Tensor | None) -> list[Tensor]:
        """See ``Subject``: what belongs together of sequences that are handed over one by one stands in one array."""
        if not self.one_by_one or self.is_laid_end_to_end:
            return self.record_call(inputs, keep)
        each = [self.record_call(*one) for one in sequences(inputs, keep)]
        if len({len(arrays) for arrays in each}) > 1:
            raise Unsupported("the encoder computes its sequences in different ways")
        together = zip(*each, strict=True)
        return [torch.stack(arrays) for arrays in together if len({array.shape for array in arrays}) == 1]

    def open_arguments(self) -> Arguments:
        """Return the arguments of the call except those whose values are stated."""
        return {name: default for name, default in self.arguments().items() if name not in self.hints.arguments}

    def first_call(self, call: TryCall, sizes: Sizes) -> FirstCall | None:
        """Return a call that goes through; None if none of those tried does.

        An encoder that refuses batches may take one sequence.

        Args:
            call: calls the encoder with a first argument and those that it asks for, by ``call_with_batch``.
            sizes: the numbers of sequences and positions; by default few.
        """
        self.in_one_axis = False
        if self._confuses_axes:
            return None  # with less time than the search that showed it, another one may end with a call that is odd
        begun = process_time()
        whole = min(LONGEST_SEARCH, ALL_SEARCHES - self._searched_in_vain)
        end = begun + whole
        odd: tuple[FirstCall, Any] | None = None
        is_known = self.first_sizes is not None
        stages = self.stages
        if is_known and self.one_by_one:
            # What an encoder inside takes says nothing of a model that takes one sequence.
            stages = sorted(stages, key=lambda stage: not stage[0])
        elif is_known and sizes != Sizes():
            # What has taken a batch takes batches: it is the size that it refuses.
            stages = tuple(stage for stage in stages if not stage[0])
        for left, (alone, trials) in zip(range(len(stages), 0, -1), stages, strict=True):
            self.one_by_one = alone
            # Refusals in one stage, however slow, leave a third of the time to those behind it, and each has its share:
            # a single call may have taken longer than all of them should.
            here = end if left == 1 else (process_time() + 2 * end) / 3
            here = max(here, process_time() + whole / LEAST_SHARE)
            found = self.tried_calls(until(here, call), sizes, trials)
            # What takes a batch of one sequence alone may take a sequence: then all of a batch are judged.
            takes_batches = found is not None and (alone or found.batch > 1 or self.hints.batch == 1)
            # A batch as large as its sequences are long was named by refusals: it may be one sequence of such vectors.
            if found is not None and not found.is_odd and takes_batches and found.tells_axes_apart:
                self._confuses_axes = self._exchanges_axes(found, until(here, call))
                if self._confuses_axes:
                    continue
                return found
            odd = odd or (None if found is None else (found, self.how_called()))
        if odd is not None and not self._confuses_axes:
            found, how = odd
            self.call_as(how)
            return found
        self.one_by_one = False
        self._searched_in_vain += process_time() - begun
        return None

    def _exchanges_axes(self, found: FirstCall, call: TryCall) -> bool:
        """Return whether an encoder takes as many sequences as positions alone, however many these are.

        It takes one axis for the other somewhere, and the numbers of such a call do not show where.
        """
        size = found.length
        if found.batch != size or self.one_by_one or found.inputs.ndim > SEQUENCE:
            return False
        known = self.how_called()
        several, square = (self.tried_calls(call, Sizes(size + 1, n), FEW_TRIALS) for n in (size, size + 1))
        self.call_as(known)
        return several is None and square is not None

    def tried_calls(self, call: TryCall, sizes: Sizes, trials: int) -> FirstCall | None:
        """Return a call that goes through; None if none of so many does."""
        said = self.hints
        held, shape = (self.held(), self.kept()), self._asked_for or self.stated_shape()
        one_batch, *others = shape or (None,)
        batch = sizes.batch or said.batch or one_batch
        length = sizes.length or said.length or (others[0] if len(others) == 1 else None)
        lengths = [length] if length else []
        batches = [1] if self.one_by_one else [batch] if batch else BATCHES
        arguments = self.open_arguments()
        wanted = of_one_sequence(call) if self.one_by_one else call
        # What told the length of an earlier call may stand behind the end of the encoder.
        known = self.first_sizes.length if self.first_sizes else None
        numbers = [*self.numbers(), *([] if known is None else [known])]
        refusals = Refusals(heads_told(held[0], numbers))
        try:
            found = first_call(
                *held,
                arguments,
                wanted,
                lengths,
                batches,
                said.arguments,
                trials,
                shape,
                numbers,
                refusals,
                special=self._not_recorded,
            )
            for argument, form in self._given_anyhow.items():
                found = found and found.giving(argument, form)
            return found
        finally:
            self._furthest = max(self._furthest, (refusals.best, refusals.best_refusal))

    def kept(self) -> Mapping[str, Tensor]:
        """Return the arrays beside the weights whose sizes may be those of a call."""
        return self.tables()

    def numbers(self) -> Sequence[int]:
        """Return the whole numbers that the encoder keeps: one of them may be the only length that it takes."""
        return ()

    def accepted(self) -> Sizes | None:
        """See ``Subject``: those that its author states, or else those of the first call that was recorded."""
        said = self.hints
        return Sizes(said.batch or None, said.length or None) if said.batch or said.length else self.first_sizes

    def takes_segments(self) -> bool:
        """See ``Subject``."""
        return self._segment_argument() is not None

    def _segment_argument(self) -> str | None:
        stated = {self.hints.mask[0]} if self.hints.mask else set()
        return self._shown_segments or segment_argument(self.open_arguments(), stated | self._no_ids)

    def learn_segments(self, graph: Graph) -> int | None:
        """See ``Subject``: ids look rows up. An argument that the recorded call did without is given zeros.

        Where no name tells the argument, one that was given zeros and looks rows up is it.
        """
        argument, looked_up = self._segment_argument(), tables_by_argument(graph)
        if argument is not None and argument not in looked_up and self.first_sizes is not None:
            looked_up[argument] = ()
            with suppress(Exception), self._given(argument):  # an argument that refuses ids takes something else
                graph = self.computation(self.first_sizes)
                looked_up = tables_by_argument(graph)
        self._no_ids = {name for name, tables in looked_up.items() if not tables}
        # Whatever its name: zeros that look rows up are ids, and not those of tokens. Of several the first is read as
        # segments, and all tokens are of one of the other kinds.
        shown = self._given_zeros(looked_up)
        if len(shown) > 1 or (shown and (argument is None or argument in self._no_ids)):
            self._shown_segments = shown[0]
        self._kinds = frozenset(shown[1:])
        return unlearned_rows(graph).get(self._segment_argument() or "")

    def _given_zeros(self, looked_up: Mapping[str, Sequence[str]]) -> list[str]:
        """Return the arguments that were given zeros, of those that look rows up."""
        forms = self.first_forms or {}
        return [name for name, tables in looked_up.items() if tables and forms.get(name) == Plain("zeros")]

    def further_ids(self, graph: Graph) -> tuple[str, ...]:
        """See ``Subject``: those that are called segments are such."""
        return tuple(name for name in self._given_zeros(tables_by_argument(graph)) if not SEGMENTS.search(name))

    def may_number_segments(self) -> tuple[str, ...]:
        """See ``Subject``: one that is called so or is the second, else one whose name tells nothing."""
        named, given = self._segment_argument(), self.first_forms or {}
        likely = [*([] if named is None else [named]), *unforeseen_arguments(self.open_arguments())]
        return tuple(name for name in dict.fromkeys(likely) if name not in given and not name.startswith("*"))

    def further_vectors(self) -> tuple[str, ...]:
        """See ``Subject``."""
        return tuple(n for n, form in (self.first_forms or {}).items() if form == Plain("nothing added"))

    def give(self, argument: str, kind: str | None) -> None:
        """See ``Subject``."""
        self._given_anyhow.pop(argument, None)
        self._given_anyhow |= {argument: Plain(kind)} if kind else {}

    def ask_for(self, shape: tuple[int, ...] | None) -> None:
        """See ``Subject``."""
        self._asked_for = shape

    def record_without(self, ids: frozenset[int]) -> None:
        """See ``Subject``."""
        self._not_recorded = ids

    def learn_padding(self, ids: frozenset[int], stated: int | None) -> None:
        """See ``Subject``."""
        self.padding_ids, self.stated_padding = ids, stated

    def learn_idle(self, weights: Collection[str]) -> None:
        """See ``Subject``."""
        self.idle_weights = frozenset(weights)

    def learn_result(self, place: int | None) -> None:
        """See ``Subject``."""
        self.result = place

    def learn_rescaling(self, rescaling: Rescaling | None) -> None:
        """See ``Subject``."""
        self.rescaling = rescaling

    def learn_images(self, axes: ImageAxes, shape: Sequence[int]) -> None:
        """See ``Subject``."""
        self.image_axes = axes
        _, *sides = axes.sizes(shape)
        assert self.first_sizes is not None
        self.first_sizes = self.first_sizes._replace(image=(sides[0], sides[1]))

    @contextmanager
    def _given(self, argument: str) -> Iterator[None]:
        """Give an argument zeros (B, n) in each first call."""
        known = self.hints, self.first_sizes, self.first_forms
        assert self.first_sizes is not None
        zeros = torch.zeros(self.first_sizes.batch or 1, self.first_sizes.length or 1, dtype=torch.long)
        self.hints = replace(self.hints, arguments={**self.hints.arguments, argument: zeros})
        try:
            yield
        finally:
            self.hints, self.first_sizes, self.first_forms = known

    def _beside_segments(self) -> Arguments:
        """Return the arguments except the one for segments, unless that is the input itself (``*inputs``)."""
        beside = self.segments if self.segments and not self.segments.startswith("*") else None
        return {name: default for name, default in self.open_arguments().items() if name != beside}

    def beside_input(self) -> Arguments:
        """Return the arguments that may take a mask: no switches, nor what is read behind the end of the encoder."""
        others = self._switches.union(self._given_anyhow, self.ending.arguments if self.ending else ())
        return {name: default for name, default in self._beside_segments().items() if name not in others}

    def stated_order(self) -> bool | None:
        """Return whether the batch comes first, if the encoder says so itself."""
        return None

    def documented_masks(self) -> Mapping[str, tuple[str, ...]]:
        """Return the values of arrays (B, n), by argument, as the documentation of its class has them."""
        return DOCUMENTED

    def documentation(self) -> str:
        """Return what the author says of the arguments, as far as that is at hand."""
        return ""

    def can_hide(self, keep: Tensor) -> bool:
        """See ``Subject``: lengths mark the end of some sequences as padding, and the longest is that of the batch."""
        if self.mask_form is None:
            return True
        spared = self.mask_form.spared or int(self.mask_form.is_of_samples)
        if not bool(keep[:, :spared].all()):
            return False
        if self.mask_form.is_at_the_end:
            return ends_in_padding(keep) and bool(keep[:, -1].any())
        return self.one_by_one or self.mask_form.is_by_sequence or bool((keep == keep[:1]).all())

    def reads_padding(self) -> bool:
        """See ``Subject``."""
        return self.mask_form is None or self.mask_form.values not in (PADDING_ID, TAKEN_OUT)

    def hidden_ids(self) -> frozenset[int]:
        """See ``Subject``."""
        by_mask = {self.mask_form.id} if self.mask_form is not None and self.mask_form.values == PADDING_ID else set()
        return self.padding_ids | by_mask

    def cuts(self, graph: Graph) -> tuple[tuple[str, Tensor], ...]:
        """See ``Subject``: hidden states of one sequence alone count as those of a batch."""
        if not self.one_by_one:
            return super().cuts(graph)
        return tuple(
            (name, codes[None] if codes.ndim == SEQUENCE - 1 else codes) for name, codes in super().cuts(graph)
        )

    def end_at(self, ending: Ending) -> None:
        """See ``Subject``."""
        self.ending = ending

    def with_heads(self, inputs: tuple[Tensor, ...]) -> tuple[Subject, ...]:
        """See ``Subject``; sequences that are handed over one by one have no result for a batch."""
        if self.ending is None or self.one_by_one:
            return ()
        return tuple(self._with_head_at(place) for place in range(len(self._all_results(inputs))))

    def _with_head_at(self, place: int) -> Subject:
        """Return the whole model, called as this part of it, and judged by one of the arrays that it returns.

        A mask that is one of attention alone leaves what is on top of the hidden states to read all positions.
        """
        whole = copy(self)
        whole.ending, whole.stands_on, whole.place_of_head = None, self.ending, place
        whole.takes_mask = self.mask_form is not None and self.mask_form.tells_padding
        return whole

    def learn_head(self, judged: str) -> None:
        """See ``Subject``."""
        self.of_what_follows = judged

    def conventions(self) -> dict[str, str]:
        """See ``Subject``: what was learned."""
        order = {} if self.axes == BATCH_FIRST else {"input": INPUT_IN[self.axes]}
        order |= {"input": str(self.image_axes)} if self.image_axes and str(self.image_axes) else {}
        order |= {"input": "(n, B, 1)" if self.axes == SEQUENCE_FIRST else "(B, n, 1)"} if self.ids_apart else {}
        order |= {"input": "(n, B)" if self.axes == SEQUENCE_FIRST else "(B, n)"} if self.takes_numbers else {}
        order |= {"output": TURNED[self.axes]} if self.returns_turned else {}
        order |= {"output": INPUT_IN[FEATURES_FIRST]} if self.returns_features_first else {}
        order |= {"output": "(B·n, d_model)"} if self.in_one_axis else {}
        order |= {"output": self._with_single_axes(order.get("output", "(B, n, d_model)"))} if self.single_axes else {}
        one = "one sequence (n, …), without a batch"
        order |= {"input": "(B·n, …)" if self.is_laid_end_to_end else one} if self.one_by_one else {}
        form = self.mask_form.of_one_sequence() if self.mask_form and self.one_by_one else self.mask_form
        return order | ({"mask": str(form)} if form else {})

    def _with_single_axes(self, order: str) -> str:
        """Return an order of axes in words, with those of one entry."""
        axes = order.strip("()").split(", ")
        for place in self.single_axes:
            axes.insert(place, "1")
        return f"({', '.join(axes)})"

    def remarks(self) -> tuple[str, ...]:
        """See ``Subject``: a surprising mask, and arguments that were left at their defaults."""
        said = self.mask_form.against_its_name() if self.mask_form and not self.mask_form.is_turned else ""
        left = self._left_at_default()
        # Behind one mask that hides padding no other is looked for.
        searched = "" if self.mask_form else ", in which no mask was found"
        unjudged = f"left at the default, and not judged: {', '.join(left)}{searched}" if left else ""
        beside = {name: form for name, form in self.neutral.items() if name not in (self._mask_argument, self.segments)}
        given = "; ".join(
            str(form) if isinstance(form, MaskForm) else f"{name}: {form}" for name, form in beside.items()
        )
        in_every_call = f"given in every call, with nothing hidden: {given}" if given else ""
        before = f"judged behind the rescaling of its images, which are {self.rescaling}" if self.rescaling else ""
        ignored = f"{self._mask.ignored} changes nothing: padding is told by its id" if self._mask.ignored else ""
        added = f"{self._mask_argument} is added to the scores: booleans are taken too, and hide nothing"
        numbers = f"{self._mask_argument} takes 0 and 1 too, which do not do what false and true do"
        values = added if self._mask.added else numbers if self._mask.by_number else ""
        random = "random numbers enter something that it returns, in evaluation" if self._is_random else ""
        padding = READS_PADDING if self._reads_padding else ""
        others = (unjudged, ignored, values, random, padding, self._mask.declined, *self._defaults.remarks)
        return tuple(filter(None, (self._ends(), before, said, in_every_call, *others)))

    def _left_at_default(self) -> list[str]:
        """Return the optional arguments that no call gives."""
        inputs = self.left_out()
        masks = [
            name
            for name in mask_arguments(self._beside_segments())
            if not tells_of_padding(name) or inputs or name in self._mask.stand_ins
        ]
        return [name for name in (*masks, *inputs) if name not in {*self.neutral, self._mask_argument}]

    def departures(self) -> tuple[Finding, ...]:
        """See ``Subject``: a mask that hides other positions than it should, and one of padding that does nothing."""
        turned = self.mask_form is not None and self.mask_form.is_turned
        found = [Finding("mask", self.mask_form.against_its_name())] if turned and self.mask_form else []
        found += [Finding("mask", f"its argument {name} is taken, and changes nothing") for name in self._mask.idle]
        found += [Finding("mask", OTHER_ID.format(*self._mask.other_id))] if self._mask.other_id else []
        found += [Finding("mask", LOST.format(*self._mask.lost))] if self._mask.lost else []
        found += [*self._of_results, *self._defaults.findings]
        return tuple(found)

    def _ends(self) -> str:
        """Return a remark on how far a model is judged."""
        if self.ending is None:
            return ""
        if self.of_what_follows:
            return f"its hidden states are {self.ends_with.format(self.ending.part)}; {self.of_what_follows}"
        behind = sorted(self.ending.behind)
        named = f" ({', '.join(behind[:MOST_NAMES])}{', …' if len(behind) > MOST_NAMES else ''})" if behind else ""
        return f"judged up to {self.ends_with.format(self.ending.part)}, without what follows{named}"

    def unknown(self) -> str:
        """See ``Subject``: masks that could not be handed over."""
        return self._mask.refusal

    def left_open(self) -> str:
        """See ``Subject``."""
        return "; ".join(self._defaults.open)

    def learn_defaults(self, probes: Probes, rows: Rows) -> None:
        """See ``Subject``: of arguments whose default is nothing."""
        plain, arguments = probes["plain"], self.arguments()
        self._defaults = Defaults()
        if self.segments and arguments.get(self.segments, REQUIRED) is None:
            self._defaults |= segments_left_out(self, self.segments, plain, rows)
        if plain.by_position:
            self._defaults |= positions_left_out(self, self._may_number_positions(), plain, rows)

    def _may_number_positions(self) -> list[str]:
        """Return the optional arguments that may number positions, those that are called so first."""
        may_be = [
            name
            for name, default in self._beside_segments().items()
            if default is None
            and name not in (self._mask_argument, *self.neutral)
            and not tells_of_a_mask(name)
            and not any(word in name for word in NO_NUMBERS)
        ]
        return sorted(may_be, key=lambda name: "pos" not in name)[:MOST_NUMBERING]

    def numbering(self, argument: str, plain: Probe, numbers: Tensor) -> Tensor | None:
        """Return the output where an argument gives each sequence its numbers, or all the same; None if refused."""
        x = plain.inputs[0]
        if self.one_by_one and numbers.ndim > 1:
            return None  # a batch that is taken apart gives all of its sequences the same
        with self.giving({argument: self._turned(numbers.expand(len(x), -1).clone())}):
            return self.attempt(plain.inputs, None)

    def learn(self, probes: Probes, undisturbed: Boundary = nullcontext) -> None:
        """See ``Subject``: what must be given, the order of the axes, then the form of the mask."""
        self._undisturbed = undisturbed
        plain, padded = probes["plain"], probes["scattered"]
        assert padded.keep is not None
        self.width = probes.encoder.dimensions.d_model
        self.is_laid_end_to_end = False
        self.segments = self._segment_argument() if len(plain.inputs) > 1 else None
        self._stages = padded.stages
        self._added = padded.keep.shape[1] - self._positions(padded.inputs[0])
        asked = self._asked()
        unfilled = asked if self._filled(plain) is None else []
        self._demand_nothing_else([name for name in unfilled if not tells_of_a_mask(name)])
        if len(self._orders(plain)) > 1:
            self.axes = order_of_axes(self._handed(plain), plain.inputs[0], self._orders(plain))
        self._learn_order_of_output(plain)
        self.mask_form = None
        self._switches = frozenset(only_asked_whether_given(self, plain))
        self._learn_bounds(plain)
        # With bounds nothing is padded: lengths beside them hide nothing.
        self._mask = LearnedMask() if self.is_laid_end_to_end else MaskSearch(self, probes).learned()
        self.mask_form = self._mask.form
        self.takes_mask = self.mask_form is not None
        self._is_random = self._reads_padding = False  # also where it was so before, in another precision
        self._of_results = self._wrong_results(probes)
        if self.mask_form is None:
            self._demand_nothing_else(unfilled)
        given = self.neutral.get(self._mask_argument)
        # Zeros hide everything where ones are kept, and so much that no number of the output may show it.
        if self.mask_form is not None and given is not None and (given == Plain("zeros") or not is_sure(given)):
            self.neutral[self._mask_argument] = self.mask_form
        self._demand_nothing_else([name for name in self.neutral if self._matters(name, plain)])

    def how_called(self) -> Any:
        """See ``Subject``."""
        return vars(self) | {"neutral": dict(self.neutral)}

    def call_as(self, learned: Any) -> None:
        """See ``Subject``."""
        vars(self).update(learned)

    def _orders(self, plain: Probe) -> Sequence[str]:
        """Return the orders of axes to try, the likeliest first."""
        if plain.inputs[0].ndim > SEQUENCE or plain.stages is not None or self.one_by_one:
            return (BATCH_FIRST,)
        stated = (SEQUENCE_FIRST, BATCH_FIRST) if self.stated_order() is False else (BATCH_FIRST, SEQUENCE_FIRST)
        return (*stated, FEATURES_FIRST) if plain.inputs[0].ndim == SEQUENCE else stated

    def _learn_order_of_output(self, plain: Probe) -> None:
        """Learn whether what it returns has its positions before the sequences, or its features before the positions.

        Of vectors features come out where they went in. Further axes of one entry carry nothing.
        """
        x = plain.inputs[0]
        self.returns_turned = self.returns_features_first = False  # also where learned before, in another precision
        self.single_axes = ()
        returned = self.attempt(plain.inputs, None)
        if returned is None:
            return
        self.single_axes = single_axes(returned)
        returned = returned.squeeze(self.single_axes)
        B, n, sizes = len(x), self._positions(x) + self._added, tuple(returned.shape)
        self.returns_features_first = x.ndim != SEQUENCE and sizes[1:] == (self.width, n) != (n, self.width)
        self.returns_turned = not self.returns_features_first and sizes[:2] == (n, B) != (B, n)

    def _handed(self, plain: Probe) -> Callable[[Tensor, str], Tensor | None]:
        """Return a call with another first input than a probe's, which is handed over in some order of axes."""

        def handed(x: Tensor, axes: str) -> Tensor | None:
            self.axes = axes
            return self.attempt((x, *plain.inputs[1:]), None)

        return handed

    def _wrong_results(self, probes: Probes) -> list[Finding]:
        """Return what is wrong with all that the model returns, though its hidden states are right in that."""
        plain, padded = probes["plain"], probes["scattered"]
        is_all = self.ending is None and len(self._all_results(plain.inputs)) == 1
        if is_all:
            return []
        first, other = (self._all_results(plain.inputs, seed=seed) for seed in (0, 1))
        self._is_random = not all(map(torch.equal, first, other))
        if self.one_by_one or len(plain.inputs[0]) == 1 or mixes_samples(self._hidden_states, plain):
            return []
        findings = [Finding("head", MIXES)] if mixes_samples(self._all_results, plain) else []
        # What stands behind the end of an encoder is judged with padding as its head. A mask of scores hides only keys.
        tells = self.mask_form is not None and self.mask_form.tells_padding and self._mask.hides
        if tells and self.ending is None and plain.by_position and reads_padding(self._all_results, padded):
            self._reads_padding = True
        return findings

    def _hidden_states(self, inputs: tuple[Tensor, ...], keep: Tensor | None) -> list[Tensor]:
        """Return the hidden states alone; nothing if they are refused."""
        hidden = self.attempt(inputs, keep)
        return [] if hidden is None else [hidden]

    def _all_results(self, inputs: tuple[Tensor, ...], keep: Tensor | None = None, seed: int = 0) -> list[Tensor]:
        """Return all that the model returns, what stands behind the encoder included; nothing if it refuses.

        An encoder may fill the same arrays in every call: these are copies.
        """
        ending, self.ending = self.ending, None
        try:
            with self._undisturbed(), torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                returned = tensors_in(self.returned(inputs, keep, gradients=keep is not None))
                return [with_values(t).detach().clone() for t in returned]
        except EXHAUSTED:
            raise
        except Exception:
            return []
        finally:
            self.ending = ending

    def left_out(self) -> list[str]:
        """Return the optional arguments that no call gives, and that may be further inputs, each with its mask."""
        return [name for name in telling_nothing(self._beside_segments()) if name not in self.neutral]

    def _filled(self, plain: Probe) -> dict[str, Filling] | None:
        """Return the values of further arguments with which a call goes through; None if there are none such.

        Of several for the same arguments those come last with which all numbers of the output are one: a mask that
        hides everything does that.
        """
        hiding: tuple[dict[str, Filling], str] | None = None
        for given, choices in self._fillings(plain.inputs[0].is_floating_point()):
            for forms in choices:
                self.neutral = dict(zip(given, forms, strict=True))
                for axes in self._orders(plain):
                    self.axes = axes
                    output = self.attempt(plain.inputs, None)
                    if output is None or (forms and not output.isfinite().any()):
                        continue  # these hide everything, and no encoder is judged so
                    if all(map(is_sure, forms)) or not is_even(output):
                        return self.neutral
                    hiding = hiding or (self.neutral, axes)
            if hiding is not None:
                self.neutral, self.axes = hiding
                return self.neutral
        self.neutral, self.axes = {}, BATCH_FIRST
        return None

    def _fillings(self, beside_vectors: bool) -> Iterator[tuple[tuple[str, ...], Iterator[tuple[Filling, ...]]]]:
        """Yield names of further arguments, and what these may be given together.

        What a call went through with comes first. Then few others are tried, of the same arguments or of those that
        are required: one that is refused with the former is refused for something else, most likely for its sizes.
        Where no call went through, few are tried once more.
        """
        beside, known = self._beside_segments(), self.first_forms
        accepted = {name: form for name, form in (known or {}).items() if name in beside}
        likely = (set(accepted), set(required(beside)))
        for given in sorted(plans(beside), key=lambda names: set(names) != set(accepted)):
            if known is not None and set(given) not in likely:
                continue
            choices = by_rank([fillings(argument, beside_vectors) for argument in given])
            if known is None and not self._searched_in_vain:
                yield given, choices
            else:
                first = [tuple(accepted[name] for name in given)] if set(given) == set(accepted) else []
                yield given, chain(first, islice(choices, LIKELY))

    def refused(self) -> str:
        """See ``Subject``."""
        return self._furthest[1] if self.first_sizes is None else ""

    def _asked(self) -> list[str]:
        """Return the required arguments other than tokens, embeddings and segments."""
        return required(self._beside_segments())

    def _demand_nothing_else(self, others: Sequence[str]) -> None:
        if others:
            refused = f", and the call that got furthest raised {self.refused()}" if self.refused() else ""
            raise Refused(
                f"the encoder asks for {', '.join(others)} beside its input, which the suite cannot invent{refused}: "
                "name a function that makes an encoder called with its input, and a mask if it takes one"
                + given_arguments(others)
            )

    @contextmanager
    def giving(self, values: Mapping[str, Any]) -> Iterator[None]:
        """Give other values to arguments, or to arguments that are left at their defaults elsewhere."""
        self._instead = dict(values)
        try:
            yield
        finally:
            self._instead = {}

    def attempt(
        self, inputs: tuple[Tensor, ...], keep: Tensor | None, refusals: list[Exception] | None = None
    ) -> Tensor | None:
        """Return the output, or None if the encoder refuses: a form that it refuses is not its form.

        Gradients are recorded under a mask: torch's fast path takes masks in shapes that mean nothing. Random numbers
        are the same in every call, so that dropout which was left on hides nothing else.
        """
        try:
            with self._undisturbed(), torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                return with_values(self.encode(inputs, keep, gradients=keep is not None)).detach()
        except EXHAUSTED:
            raise
        except Exception as refusal:
            if refusals is not None:
                refusals.append(refusal)
            return None

    def encode(self, inputs: tuple[Tensor, ...], keep: Tensor | None, gradients: bool = True) -> Tensor:
        """See ``Subject``."""
        returned = self.returned(inputs, keep, gradients)
        if self.place_of_head is None:
            hidden = self.in_our_order(hidden_states(returned, self.width, self.result))
        else:
            hidden = tensors_in(returned)[self.place_of_head]  # a vector for each sequence has no axis of positions
        # One without values cannot be moved; the guard reports it. A copy stays what it is where an encoder fills one
        # buffer in every call.
        return hidden if hidden.is_meta else hidden.cpu().clone()

    def in_our_order(self, hidden: Tensor) -> Tensor:
        """Return hidden states in the order (B, n, d_model)."""
        hidden = hidden.squeeze(self.single_axes) if self.single_axes else hidden  # a sparse one has no views
        hidden = self._turned_back(hidden)
        hidden = hidden.mT if self.returns_features_first and hidden.ndim == SEQUENCE else hidden
        return hidden.transpose(0, 1) if self.returns_turned else hidden

    def returned(self, inputs: tuple[Tensor, ...], keep: Tensor | None, gradients: bool) -> Any:
        """Return everything that the encoder returns, in its own order of axes."""
        if self.one_by_one and len(inputs[0]) > 1:
            if self.is_laid_end_to_end and keep is None:
                return self._end_to_end(inputs, gradients)
            return joined([self.returned(*one, gradients) for one in sequences(inputs, keep)])
        if keep is not None and self.mask_form is not None and self.mask_form.values == PADDING_ID:
            beyond = ~keep[:, -inputs[0].shape[1] :]
            inputs, keep = (inputs[0].masked_fill(beyond, self.mask_form.id), *inputs[1:]), None
        named: dict[str, Any] = dict(self.hints.arguments)
        positional = [self.image_axes.arranged(inputs[0]) if self.image_axes else self._turned(inputs[0])]
        if self.rescaling is not None:
            positional[0] = self.rescaling.undone(positional[0])
        if self.ids_apart:
            positional[0] = positional[0][..., None]
        elif self.takes_numbers:
            positional[0] = positional[0][..., 0]
        if len(inputs) > 1 and self.segments:
            if self.segments.startswith("*"):
                positional.append(self._turned(inputs[1]))
            else:
                named[self.segments] = self._turned(inputs[1])
        if keep is None:
            return self.call_with_batch(positional, named | self._beside(inputs[0]), gradients)
        if self.mask_form is None:
            raise Unsupported(self._mask.refusal or "the subject takes no mask")
        if self.mask_form.values == TAKEN_OUT:
            of_kept: Any = [x[kept] for x, kept in zip(positional[0], keep, strict=True)]
            returned = self.call_with_batch([of_kept, *positional[1:]], named | self._beside(inputs[0]), gradients)
            if not are_sequences(returned, keep.sum(1).tolist()):
                raise Unsupported("sequences do not come back as long as they were handed over")
            return filled_up(returned, keep)
        mask = self.mask_form.render(keep, inputs[0].shape[-1])
        named |= self._beside(inputs[0]) | {self.mask_form.argument: mask}
        output = self.call_with_batch(positional, named, gradients)
        if not torch.equal(mask, self.mask_form.render(keep, inputs[0].shape[-1])):
            keep.logical_not_()  # the caller sees in its mask that the encoder wrote into its copy
        return output

    def _end_to_end(self, inputs: tuple[Tensor, ...], gradients: bool) -> Any:
        """Return what the encoder returns of sequences that it gets in one axis, together with their bounds."""
        sizes = inputs[0].shape[:2]
        bounds = value_of(Plain("bounds"), torch.ones(sizes, dtype=torch.bool), inputs[0])
        before, self._instead = self._instead, {**self._instead, **dict.fromkeys(self._bounding(), bounds)}
        try:
            returned = self.returned(tuple(x.flatten(0, 1)[None] for x in inputs), None, gradients)
        finally:
            self._instead = before
        return over_tensors(lambda t: t[0].unflatten(0, sizes) if t.shape[:2] == (1, sizes.numel()) else t, returned)

    def _bounding(self) -> list[str]:
        """Return the arguments that are given the bounds of sequences."""
        return [name for name, form in self.neutral.items() if form == Plain("bounds")]

    def _learn_bounds(self, plain: Probe) -> None:
        """Learn whether sequences can be laid end to end: the encoder takes them so, and is cut where a bound is."""
        known = self.neutral
        cut = [name for name in known if self.one_by_one and self._is_cut_by(name, plain)]
        beside = [form for name, form in known.items() if name not in cut]
        if cut and all(form in REPEATED or (isinstance(form, MaskForm) and form.values == LENGTHS) for form in beside):
            self.neutral, self.is_laid_end_to_end = known | dict.fromkeys(cut, Plain("bounds")), True
            if self.attempt(plain.inputs, None) is None:
                self.neutral, self.is_laid_end_to_end = known, False

    def _is_cut_by(self, argument: str, plain: Probe) -> bool:
        """Return whether an argument takes the bounds of sequences: some between both ends change the output.

        Zeros may do for one sequence, too.
        """
        if self.neutral[argument] not in (Plain("zeros"), Plain("bounds")):
            return False
        one, n = tuple(x[:1] for x in plain.inputs), plain.inputs[0].shape[1]
        whole = self.attempt(one, None)
        with self.giving({argument: torch.tensor([0, n])}):
            same = self.attempt(one, None)
        with self.giving({argument: torch.tensor([0, n // 3, n - n // 3, n])}):
            cut = self.attempt(one, None)
        if whole is None or same is None or cut is None:
            return False
        return torch.equal(whole, same) and whole.shape == cut.shape and not torch.equal(whole, cut)

    @property
    def _mask_argument(self) -> str:
        return self.mask_form.argument if self.mask_form else ""

    def _beside(self, x: Tensor) -> dict[str, Any]:
        """Return the values of the arguments that every call gets beside its input."""
        return {name: value_of(form, self._all_kept(x), x) for name, form in self.neutral.items()} | self._instead

    def _matters(self, name: str, plain: Probe) -> bool:
        """Return whether another value of an argument that is neither mask nor length changes the output."""
        form = self.neutral[name]
        is_length = "len" in name and form != Plain("zeros")
        known = name == self._mask_argument or tells_of_a_mask(name) or is_length
        again = form == Plain("input") and (is_attended(name) or name in self._given_anyhow)
        is_bound = form == Plain("bounds") and self.is_laid_end_to_end
        if known or again or is_bound or form in UNTOUCHED or name in self._kinds:
            return False
        if form == Plain("nothing added") and self._adds(name, plain):
            return False
        before = self.attempt(plain.inputs, None)
        with self.giving({name: another(self._beside(plain.inputs[0])[name])}):
            after = self.attempt(plain.inputs, None)
        if before is None or after is None or torch.equal(before, after):
            return False
        # What hides everything when it is turned round is a mask, whatever its name.
        return not (isinstance(form, MaskForm) and (is_even(after) or not after.isfinite().any()))

    def _adds(self, name: str, plain: Probe) -> bool:
        """Return whether the encoder adds an argument to its input, as it does with positions."""
        x, *others = plain.inputs
        added = x.roll(1, 1)
        in_the_sum = self.attempt((x + added, *others), None)
        with self.giving({name: self._turned(added)}):
            beside = self.attempt(plain.inputs, None)
        return in_the_sum is not None and beside is not None and is_same(in_the_sum, beside)

    def _all_kept(self, x: Tensor) -> Tensor:
        return torch.ones(len(x), self._positions(x) + self._added, dtype=torch.bool)

    def _positions(self, x: Tensor) -> int:
        """Return how many positions an input has: those that the stages give of samples, if it is a sound."""
        return read_positions(x) if self._stages is None else self._stages.frames(x.shape[1])

    def _turned(self, x: Tensor) -> Tensor:
        """Turn batch first into the encoder's own order."""
        if self.axes == FEATURES_FIRST:
            return x.transpose(1, 2) if x.ndim == SEQUENCE else x
        return x if self.axes == BATCH_FIRST else x.transpose(0, 1)

    def _turned_back(self, hidden: Tensor) -> Tensor:
        """Turn the encoder's own order into batch first; some take features first and return them last."""
        if self.axes == FEATURES_FIRST and (hidden.ndim != SEQUENCE or hidden.shape[1] != self.width):
            return hidden
        return self._turned(hidden)


def until(end: float, call: TryCall) -> TryCall:
    """Return the call, which ends the search for one that goes through behind a point in the process's own time."""

    def timed(x: Tensor, named: Mapping[str, Any]) -> Any:
        if process_time() > end:
            raise SearchedTooLong
        return call(x, named)

    return timed


def of_one_sequence(call: TryCall) -> TryCall:
    """Return the call, which refuses an encoder that gives no array (n, d_model) for a sequence.

    One with another idea of its axes takes the positions for samples, and returns a batch of something. Those of an
    image are told apart by their sizes, and a model may return its classes alone.
    """

    def demanding(x: Tensor, named: Mapping[str, Any]) -> Any:
        returned = call(x, named)
        if x.ndim <= SEQUENCE and not any(t.ndim == SEQUENCE for t in tensors_in(returned)):
            raise Unsupported("no array of positions and features comes back")
        return returned

    return demanding


def sequences(inputs: tuple[Tensor, ...], keep: Tensor | None) -> Iterator[tuple[tuple[Tensor, ...], Tensor | None]]:
    """Yield each sequence of a batch as a batch of one, with its mask."""
    for b in range(len(inputs[0])):
        yield tuple(x[b : b + 1] for x in inputs), None if keep is None else keep[b : b + 1]


def given_arguments(names: Sequence[str]) -> str:
    """Return the lines that give an encoder the arguments that it asks for."""
    values = ", ".join(f"{name}=…" for name in names)
    return (
        "\n    def make_called():"
        "\n        encoder = make_encoder()"
        f"\n        encoder.forward = functools.partial(encoder.forward, {values})"
        "\n        return encoder"
    )


def read_positions(x: Tensor) -> int:
    """Return how many positions an input has by its shape; an image has none."""
    return x.shape[1] if x.ndim <= 3 else 0

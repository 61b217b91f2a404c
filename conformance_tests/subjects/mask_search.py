"""The padding mask of an encoder, found by experiment: which argument takes it, and in what form."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import product
from math import exp, prod
from typing import Any, Protocol

import torch
from torch import Tensor

from conformance_tests.errors import Undetermined, Unsupported, one_line
from conformance_tests.numerics.noise import with_noise
from conformance_tests.numerics.probes import Probe, Probes
from conformance_tests.subjects.calling import Arguments
from conformance_tests.subjects.first_call import SHAPES, Filling, Plain, is_sure
from conformance_tests.subjects.hints import Hints
from conformance_tests.subjects.likely_inputs import SEQUENCE
from conformance_tests.subjects.masks import (
    DOCUMENTED,
    ESTABLISHED,
    LENGTHS,
    PADDING_ID,
    TAKEN_OUT,
    MaskForm,
    forms_behind_first,
    forms_for_all,
    forms_of_samples,
    is_same,
    length_forms,
    likely_forms,
    mask_arguments,
    stated_forms,
    tells_of_a_mask,
    tells_of_padding,
    tried_masks,
    unforeseen_forms,
)
from conformance_tests.subjects.source_lines import with_line

PADDING_IDS = 4
"""Ids below this one are tried for padding; vocabularies begin with the special ones."""

SLIGHT = exp(-2)
"""The share of a weight that is left where scores are lowered by 2: a mask of 0 and 1 that is added lowers by 1."""

UNFIT = (97, 89)
"""Sizes that no axis of a probe has, nor of an encoder that is tested with them."""


class MaskedCall(Protocol):
    """An encoder that is called with arguments by name, some of which may be masks; see ``CalledSubject``."""

    mask_form: MaskForm | None
    neutral: dict[str, Filling]
    padding_ids: frozenset[int]
    stated_padding: int | None
    returns_sequences: bool
    idle_weights: frozenset[str]
    hints: Hints

    def weights(self) -> dict[str, Tensor]:
        """Return its arrays by name."""

    def set_weights(self, values: Mapping[str, Tensor]) -> None:
        """Give it other weights."""

    def arguments(self) -> Arguments:
        """Return all arguments of the call."""

    def beside_input(self) -> Arguments:
        """Return those that may take a mask."""

    def left_out(self) -> list[str]:
        """Return those that no call gives, and that may be further inputs."""

    def documented_masks(self) -> Mapping[str, tuple[str, ...]]:
        """Return the values of arrays (B, n) that the encoder's class documents, by argument."""

    def documentation(self) -> str:
        """Return what the author says of the arguments."""

    def giving(self, values: Mapping[str, Any]) -> AbstractContextManager[None]:
        """Give other values to some arguments."""

    def attempt(
        self, inputs: tuple[Tensor, ...], keep: Tensor | None, refusals: list[Exception] | None = None
    ) -> Tensor | None:
        """Return the output, or None if the encoder refuses."""


@dataclass(frozen=True)
class LearnedMask:
    """Facts that were learned of the masks that an encoder takes.

    Attributes:
        form: the form that hides padding. If none does, it is the likeliest that is taken; None if no mask is taken.
        hides: whether padding was seen to be hidden in this form.
        ignored: an argument that changes nothing where an id hides padding.
        idle: arguments that are called masks, are taken, and change nothing.
        stand_ins: arguments that put learned vectors in the place of tokens, and hide none.
        refusal: why no mask could be handed over.
        other_id: an id that hides the positions at which it stands, and the one that the table of embeddings calls
            padding, which hides nothing.
        added: whether it is added to the scores, and booleans are taken too, which hide nothing when they are added.
        by_number: whether booleans hide padding, and the numbers 0 and 1 are taken too, and do something else.
        lost: a mask that does something else where another one is given too, which hides nothing, and that other one.
        declined: a remark that an encoder takes no masks: it has not implemented any, or reads images.
    """

    form: MaskForm | None = None
    hides: bool = False
    ignored: str = ""
    idle: tuple[str, ...] = ()
    stand_ins: frozenset[str] = frozenset()
    refusal: str = ""
    other_id: tuple[int, int] | None = None
    added: bool = False
    by_number: bool = False
    lost: tuple[str, str] | None = None
    declined: str = ""


class MaskSearch:
    """Calls an encoder with masks, and without, until it is known which argument hides padding.

    Args:
        subject: the encoder, which takes the probes without a mask. Its ``mask_form`` is the form of each call, and may
            be any behind the search; what it gives in every call stands in its ``neutral``, and what it has to give
            beside the mask is added there.
        probes: the inputs.
    """

    def __init__(self, subject: MaskedCall, probes: Probes) -> None:
        self.subject, self.probes = subject, probes
        self.padded = probes["scattered"]
        self.ignored = self.refusal = self.declined = ""
        self.taken: set[str] = set()
        self.taken_by_sequence: set[str] = set()
        self.other_id: tuple[int, int] | None = None
        self.stand_ins: frozenset[str] = frozenset()

    def learned(self) -> LearnedMask:
        """Return the mask, and what was learned of other arguments on the way.

        Raises:
            Undetermined: if the author states a mask of an argument that there is not.
        """
        form, hides = self._padding_mask()
        if form is not None and form.values == "additive" and self._is_multiplied(form):
            form, hides = replace(form, values="keep 0/1"), False
        if form is not None and hides:
            form = replace(form, is_counted=self._is_counted(form))
        idle = list(self._without_effect(form))
        if form is None and idle:
            form = idle[0]
        names = tuple(found.argument for found in idle)
        added = form is not None and form.values == "additive" and self._takes_booleans(form)
        return LearnedMask(
            form,
            hides,
            ignored=self.ignored,
            idle=names,
            stand_ins=self.stand_ins,
            refusal=self.refusal,
            other_id=self.other_id,
            added=added,
            by_number=form is not None and hides and self._differs_by_number(form),
            lost=self._lost_beside_another(form) if form is not None and hides else None,
            declined=self.declined,
        )

    def _is_counted(self, form: MaskForm) -> bool:
        """Return whether an encoder counts positions among those that a mask keeps.

        Then what is hidden in the middle might as well not be there; and unlike an encoder that knows no positions, it
        knows the order of its input.
        """
        whole = self.probes["plain"]
        x = whole.inputs[0]
        if not whole.by_position or not form.tells_padding or x.shape[1] <= 2:
            return False
        middle = x.shape[1] // 2
        keep = torch.ones(x.shape[:2], dtype=torch.bool)
        keep[:, middle] = False
        everything = torch.ones_like(keep)
        shorter = replace(whole.left_out(middle), keep=everything[:, 1:])
        hidden, without = self.output(replace(whole, keep=keep), form), self.output(shorter, form)
        if hidden is None or without is None or hidden.shape[:2] != keep.shape or len(without) != len(hidden):
            return False
        kept = torch.cat([hidden[:, :middle], hidden[:, middle + 1 :]], 1)
        if not is_same(kept, without):
            return False
        given, turned = (self.output(replace(p, keep=everything), form) for p in (whole, whole.reversed()))
        # A part may be computed in float32: in another order it rounds otherwise, which tells of no positions.
        return given is not None and turned is not None and not is_same(given.flip(1).float(), turned.float())

    def _takes_booleans(self, form: MaskForm) -> bool:
        """Return whether booleans of the same shape are taken as well."""
        return self.output(self.padded, replace(form, values="keep")) is not None

    def _is_multiplied(self, form: MaskForm) -> bool:
        """Return whether a mask of 0 and 1, with 1 = keep, does nearly what −∞ does where it is added.

        Added as they are, 1 and 0 lie one apart: the weights of what is hidden go down to e⁻¹. An encoder that lowers
        them by far more multiplies its mask, which is one of 0 and 1 then, though it does not hide what it should.
        """
        keep, numbers = self.padded.keep, replace(form, values="keep 0/1")
        free, hidden, lowered = (self.output(self.padded, of) for of in (None, form, numbers))
        if keep is None or free is None or hidden is None or lowered is None or hidden.shape[:2] != keep.shape:
            return False
        kept = keep.reshape(*keep.shape, *[1] * (hidden.ndim - keep.ndim))
        read, left = (((output - hidden) * kept).flatten(1).norm(dim=1) for output in (free, lowered))
        # Scores of some samples may be so large that less does not hide them.
        return bool((left < SLIGHT * read).any())

    def _differs_by_number(self, form: MaskForm) -> bool:
        """Return whether the numbers 0 and 1 are taken in the place of booleans, and do something else."""
        if form.values not in ("keep", "ignore"):
            return False
        numbers = self.output(self.padded, replace(form, values=f"{form.values} 0/1"))
        booleans = None if numbers is None else self.output(self.padded, form)
        return numbers is not None and booleans is not None and not is_same(numbers, booleans)

    def output(
        self, probe: Probe, form: MaskForm | None = None, refusals: list[Exception] | None = None
    ) -> Tensor | None:
        """Return the output for a probe, with its mask in some form or without one; None if it is refused."""
        self.subject.mask_form = form
        return self.subject.attempt(probe.inputs, probe.keep if form else None, refusals)

    def _padding_mask(self) -> tuple[MaskForm | None, bool]:
        """Return the form of the mask, and whether it is seen to hide padding."""
        arguments, stated = self.subject.beside_input(), self.subject.hints.mask
        if stated:
            if stated[0] not in arguments:
                raise Undetermined(
                    f"described: the encoder has no argument {stated[0]!r}; it takes {', '.join(arguments)}"
                )
            found, _ = self._hiding("right" if stated[1] == LENGTHS else "scattered", list(stated_forms(*stated)))
            if found is None:
                self.refusal = f"described: the encoder takes no mask in the form stated of {stated[0]!r}"
            return found, False
        likely: list[MaskForm] = []
        is_open, documented = True, self.subject.documented_masks()
        for padding, forms in self._tried(arguments):
            if forms == []:
                continue
            found, hides = self._hiding(padding, forms)
            if found is not None and hides:
                self.refusal = ""
                return found, True
            if found is not None:
                likely.append(found)
                # Lengths, and what changes nothing, may stand beside an id that hides padding; not what is documented.
                is_idle = found.argument not in documented and self._changes_nothing(found, self.probes[padding])
                is_open = is_open and (found.is_at_the_end or is_idle)
        beside = self._beside_another(arguments)
        if beside is not None:
            self.refusal = ""
            return beside, True
        if self.subject.returns_sequences and not likely:
            taken_out = MaskForm(next(iter(self.subject.arguments())), TAKEN_OUT, "B")
            return (None if self.output(self.probes["right"], taken_out) is None else taken_out), False
        by_id = self._hidden_by_id() if is_open else None
        if by_id is not None:
            self.ignored = likely[0].argument if likely else ""
            likely = [by_id]
        self.refusal = "" if likely or self.stand_ins else self.refusal
        return (likely[0] if likely else None), False

    def _tried(self, arguments: Arguments) -> Iterator[tuple[str, list[MaskForm] | None]]:
        """Yield probes and the forms to try with them, those under telling names first."""
        stages = self.padded.stages
        if stages is not None:
            first = stages.samples(1)
            yield "right", list(forms_of_samples(arguments, first, stages.samples(2) - first))
        yield "scattered", None
        yield "scattered", list(unforeseen_forms(arguments))
        yield "right", list(length_forms(arguments))
        # What is called a mask and takes no array of these may count what it would keep: ``n_valid``.
        refusing = [name for name in mask_arguments(arguments) if tells_of_a_mask(name) and name not in self.taken]
        yield "right", [MaskForm(name, LENGTHS, "B") for name in refusing]
        # What has been taken with an entry for each position, and hid the wrong ones, is not asked to leave one out.
        # A token that stands in front may be the caller's.
        behind = forms_behind_first(arguments, max(1, self.probes.encoder.prepended))
        yield "right", [form for form in behind if form.argument not in self.taken]
        # Nor does what takes a mask for each sequence take one for all: where all are padded alike, that of the first
        # would do.
        for_all = forms_for_all(arguments)
        yield "all-end-padded", [form for form in for_all if form.argument not in self.taken_by_sequence]

    def _hiding(self, padding: str, forms: list[MaskForm] | None = None) -> tuple[MaskForm | None, bool]:
        """Return the form that works for a probe, of those given or of those under telling names; and if it hides."""
        probes, padded, neutral = self.probes, self.probes[padding], self.subject.neutral
        arguments = self.subject.beside_input()
        may_be = mask_arguments(arguments)
        refusals: list[Exception] = []
        taken: set[str] = set()

        def masked(form: MaskForm | None, variation: str) -> Tensor | None:
            if form is None and not all(map(is_sure, neutral.values())):
                return None  # the meaning of this mask is what is to be found out
            try:
                # Content of order 1: a finite fill may give way to larger scores, and is a mask all the same.
                probe = padded.with_other_middle() if variation == "other middle" else padded
                probe = padded.with_other_padding(1.0) if variation == "other padding" else probe
                probe = fewer_positions_than_sequences(probe) if variation == "fewer" else probe
            except Unsupported:
                return None
            is_kept = variation in ("everything kept", "other middle")
            output = self.output(
                replace(probe, keep=probes["everything-kept"].keep) if is_kept else probe, form, refusals
            )
            if form is not None and output is not None:
                taken.add(form.argument)
                if form.axes == "B n":
                    self.taken_by_sequence.add(form.argument)
            return output

        assert padded.keep is not None
        found, hides = tried_masks(
            arguments,
            masked,
            padded.keep,
            forms,
            heads=probes.encoder.dimensions.h,
            documented=self.subject.documented_masks(),
            is_customary=probes.tells_axes_apart,
            # Zeros hide nothing as numbers, and everything as a mask.
            hides_nothing=all(neutral.get(name) != Plain("zeros") for name in may_be),
            documentation=self.subject.documentation(),
        )
        self.taken |= taken
        if found and self._brings_in_weights(found, padded):
            self.stand_ins |= {found.argument}
            return None, False
        if found and not padded.by_position:
            # An image or a signal need not be padded: an argument that changes nothing is not a mask for it, nor one
            # that changes something though everything is kept.
            without = masked(None, "padded")
            given = [masked(found, variation) for variation in ("padded", "everything kept")]
            if without is not None and None not in given:
                hiding, idle = (g is not None and g.shape == without.shape and is_same(g, without) for g in given)
                if hiding or not idle:
                    return None, False
        offered = may_be if forms is None else []
        if found is None and offered and refusals and not taken:
            self._refused(offered[0], refusals)
        return found, hides

    def _brings_in_weights(self, form: MaskForm, probe: Probe) -> bool:
        """Return whether weights that have no part in a call without a mask change what is kept by one.

        They stand where tokens are masked, as they do in training that has these guessed: attention goes on to see
        them. An argument whose name is known for padding should hide it all the same.
        """
        subject, keep = self.subject, probe.keep
        if not subject.idle_weights or "pad" in form.argument or form.argument in ESTABLISHED:
            return False
        held = subject.weights()
        before, unmasked = self.output(probe, form), self.output(probe)
        subject.set_weights(with_noise(held, held.keys() - subject.idle_weights))
        try:
            after, still_unmasked = self.output(probe, form), self.output(probe)
        finally:
            subject.set_weights(held)
        if keep is None or before is None or after is None or not before.shape[:2] == after.shape[:2] == keep.shape:
            return False
        # What a computation outside of torch does with its weights is not seen, and they are not idle for that.
        have_no_part = unmasked is None or still_unmasked is None or is_same(unmasked, still_unmasked)
        return have_no_part and not is_same(before[keep], after[keep])

    def _refused(self, argument: str, refusals: Sequence[Exception]) -> None:
        """Put down that an argument refused every form of mask."""
        # An image need not be padded, whatever else its mask is for.
        if declines(refusals) or not self.padded.by_position:
            self.declined = f"takes no mask: its argument {argument!r} raised {with_line(refusals[-1])}"
            return
        self.refusal = (
            f"the encoder accepts no form of padding mask: its argument {argument!r} refused boolean, 0/1 and "
            f"additive masks, per key and per query and key, the last one with {one_line(refusals[-1])}. "
            "Name a function that makes an encoder with a mask (B, n), True = keep"
        )

    def _beside_another(self, arguments: Arguments) -> MaskForm | None:
        """Return the form of a mask that an encoder takes beside another one alone, which hides nothing then."""
        masks, known = list(filter(tells_of_a_mask, mask_arguments(arguments))), self.subject.neutral
        for name, other in product([name for name in masks if name not in self.taken], masks):
            if name == other:
                continue
            for beside, forms in self._together(name, other):
                self.subject.neutral = known | {other: beside}
                found, hides = self._hiding("scattered", forms)
                if found is not None and hides:
                    # What is refused alone is given together in every call.
                    self.subject.neutral |= {} if other in self.taken else {name: found}
                    return found
        self.subject.neutral = known
        return None

    def _together(self, name: str, other: str) -> Iterator[tuple[MaskForm, list[MaskForm]]]:
        """Yield forms of another mask, each with those of a mask to try beside it: all where the other is taken alone.

        One that is not is taken in the same form, if in any: two masks of one kind are handed over together.
        """
        forms = list(likely_forms(name))
        for values, axes in product(("keep 0.0/1.0", "keep", "ignore"), SHAPES):
            beside = MaskForm(other, values, axes)
            if other not in self.taken:
                yield beside, [form for form in forms if (form.values, form.axes) == (values, axes)]
            elif self._changes_nothing(beside, self.probes["everything-kept"]):
                yield beside, forms

    def _lost_beside_another(self, form: MaskForm) -> tuple[str, str] | None:
        """Return a mask that is lost where another one is given too, and that other one; None if none is lost.

        The other one is the same for all sequences: it cannot say what is padding, and stands in for no mask that does.
        One that is made of ids is left alone: it may be the default of an argument.
        """
        probe, known, arguments = self.probes["all-end-padded"], self.subject.neutral, self.subject.beside_input()
        for name in mask_arguments(arguments) if probe.by_position else ():
            if name in {form.argument, *known}:
                continue
            for_all = [other for other in forms_for_all(arguments) if other.argument == name]
            beside, hides = self._hiding("all-end-padded", for_all)
            for one, other in ((form, beside), (beside, form)) if beside is not None and hides else ():
                alone = self.output(probe, one)
                self.subject.neutral = known | {other.argument: other}
                together = self.output(probe, one)
                self.subject.neutral = known
                # Two that must not be given together are refused.
                if alone is not None and together is not None and not is_same_where_kept(alone, together, probe):
                    return one.argument, other.argument
        return None

    def _changes_nothing(self, form: MaskForm, probe: Probe) -> bool:
        """Return whether the output is the same with a mask and without one."""
        masked, unmasked = (self.output(probe, given) for given in (form, None))
        return masked is not None and unmasked is not None and is_same(masked, unmasked)

    def _without_effect(self, found: MaskForm | None) -> Iterator[MaskForm]:
        """Yield the arguments that are called masks, beside the one that hides padding, and change nothing in any form.

        Each comes in the likeliest form that is taken. One for queries may be there for the sake of its place alone: it
        counts where the encoder computes with it.
        """
        padded, subject = self.padded, self.subject
        unmasked = self.output(padded)
        if unmasked is None or not padded.by_position or not all(map(is_sure, subject.neutral.values())):
            return
        known = {*subject.neutral, found.argument if found else "", self.ignored}
        for name in mask_arguments(subject.beside_input()):
            if found is not None and ("pad" not in name or subject.left_out()):
                continue  # beside the mask of the tokens there may be one of something else, which no call hands over
            given: list[tuple[MaskForm, Tensor]] = []
            if tells_of_a_mask(name) and name not in known:
                for values, axes in product(("ignore", "keep", "additive"), ("B n", "n n", "B 1 1 n", "B n n")):
                    form = MaskForm(name, values, axes)
                    output = self.output(padded, form)
                    given += [] if output is None else [(form, output)]
            if not given or not all(torch.equal(output, unmasked) for _, output in given):
                continue
            if tells_of_padding(name) or not self._takes_anything(name):
                yield given[0][0]

    def _takes_anything(self, name: str) -> bool:
        """Return whether an argument may have axes that fit nothing."""
        with self.subject.giving({name: torch.ones(UNFIT, dtype=torch.bool)}):
            return self.output(self.padded) is not None

    def _hidden_by_id(self) -> MaskForm | None:
        """Return the id that hides the positions at which it stands, as a form of mask; None if there is none such.

        Behind such ids a sequence is what it is alone; behind others it is not. One by which attention is seen to hide
        something should do so.
        """
        probe, subject = self.probes["right"], self.subject
        (ids, *others), keep = probe.inputs, probe.keep
        assert keep is not None
        if ids.is_floating_point() or not probe.by_position:
            return None
        lengths = keep.sum(dim=1).tolist()
        added = keep.shape[1] - ids.shape[1]
        padded = [i for i, length in enumerate(lengths) if length < keep.shape[1]]
        alone = [self.output(probe.part(i, lengths[i] - added)) for i in padded]

        def is_hidden(ids: Tensor) -> bool:
            output = self.output(replace(probe, inputs=(ids, *others)))
            return output is not None and all(
                one is not None and one.shape[1] == lengths[i] and is_same(output[i, : lengths[i]], one[0])
                for i, one in zip(padded, alone, strict=True)
            )

        has_one_length = any(one is None or one.ndim != SEQUENCE for one in alone)
        if not has_one_length and is_hidden(ids):
            return None
        beyond = ~keep[:, -ids.shape[1] :]
        stated = subject.stated_padding
        first = () if stated is None else (stated,)
        likely = (*first, *range(PADDING_IDS), *sorted(self.probes.special))
        found = None if has_one_length else next((id for id in likely if is_hidden(ids.masked_fill(beyond, id))), None)
        if found is not None and stated is not None and found != stated:
            self.other_id = found, stated
        hiding = min(subject.padding_ids, default=None) if found is None else found
        return None if hiding is None else MaskForm(next(iter(subject.arguments())), PADDING_ID, "B n", id=hiding)


def is_same_where_kept(one: Tensor, other: Tensor, probe: Probe) -> bool:
    """Return whether two outputs are the same at the positions that a probe keeps."""
    return one.shape == other.shape and is_same(one[probe.keep], other[probe.keep])


def only_asked_whether_given(subject: MaskedCall, plain: Probe) -> Iterator[str]:
    """Yield the arguments called masks that change the output, but no entry of which is read: they are switches.

    One that is there for padding by its name is a mask all the same, and changes what it should not.
    """
    unmasked = subject.attempt(plain.inputs, None)
    if unmasked is None:
        return
    arrays = torch.arange(prod(UNFIT)).reshape(UNFIT) % 3 == 0, torch.ones(UNFIT, dtype=torch.bool)
    for name in mask_arguments(subject.beside_input()):
        if "pad" in name or name in DOCUMENTED or name in subject.neutral:
            continue
        given: list[Tensor] = []
        for array in arrays:
            with subject.giving({name: array}):
                output = subject.attempt(plain.inputs, None)
            given += [] if output is None else [output]
        if len(given) == len(arrays) and is_same(given[0], given[1]) and not is_same(given[0], unmasked):
            yield name


def declines(refusals: Collection[Exception]) -> bool:
    """Return whether an encoder says of every form that masks are not implemented.

    Another error may be said of all forms, too, where it wants one that was not tried.
    """
    return all(isinstance(refusal, NotImplementedError) for refusal in refusals)


def fewer_positions_than_sequences(probe: Probe) -> Probe:
    """Return the first positions of a padded probe, one fewer than it has sequences; none of these is all padding.

    Raises:
        Unsupported: if it has fewer already, or only one would be left, or its input has no positions.
    """
    samples, positions = probe.inputs[0].shape[:2]
    if not probe.by_position or not 2 < samples <= positions:
        raise Unsupported("it has no two positions or more that are fewer than its sequences")
    fewer = probe.corner(samples, samples - 1)
    assert fewer.keep is not None
    return replace(fewer, keep=fewer.keep | ~fewer.keep.any(1, keepdim=True))

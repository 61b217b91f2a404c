"""A torch module that is spread over processes, as the subject that it is for the process that judges.

Rank 0 holds a module of the same build whose parameters are the whole arrays. It is called, cast and changed like one
that was never spread. Its forward method lets every rank call its part; arrays that were changed are shared out before.
"""

import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property, partial, wraps
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.distributed.fsdp import FSDPModule
from torch.utils._python_dispatch import _disable_current_modes, _get_current_dispatch_mode
from torch.utils._pytree import tree_flatten, tree_unflatten

from conformance_tests.computation.graph import Graph
from conformance_tests.computation.shown import Finding
from conformance_tests.errors import SubjectError, Unsupported
from conformance_tests.numerics.probes import Sizes
from conformance_tests.subjects.attributes import attribute
from conformance_tests.subjects.calling import arguments_of
from conformance_tests.subjects.first_call import first_call
from conformance_tests.subjects.spread.joining import axes_stated, cuts_of, held_by_all
from conformance_tests.subjects.spread.part import Cut, Output, Part, sharded
from conformance_tests.subjects.spread.ranks import Ranks
from conformance_tests.subjects.subject import Precision
from conformance_tests.subjects.torch_hints import configured
from conformance_tests.subjects.torch_subject import TorchSubject, in_dtype, stating

DIFFER = "rank {} returns other hidden states than rank 0 (off by {:.1e}): a sum over the processes is missing"
"""What is wrong where the ranks return different things."""

ROUNDINGS = 1e3
"""Outputs of two ranks may differ by so many units of the last place of the largest number."""


class SpreadSubject(TorchSubject):
    """A torch module of which each process holds a part.

    It is made on every rank. All ranks ``meet`` at the same time; then rank 0 judges, and the others follow.

    Attributes:
        ranks: the processes, once they have met.
        differing: how far the outputs of other ranks have been from those of rank 0, by rank.
    """

    ranks: Ranks
    part: Part

    def __init__(self, module: nn.Module, function: Callable[..., Any] | None = None) -> None:
        super().__init__(module, function)
        self.differing: dict[int, float] = {}
        self._is_told = False
        self._numbers, self._number = count(), 0
        self._done_with: list[int] = []
        self._sent: dict[str, tuple[Any, ...]] = {}

    def meet(self) -> None:
        """Find the other ranks; on rank 0, become the subject that is judged.

        Raises:
            Undetermined: if it is not known how the arrays of the ranks belong together.
            SubjectError: if the ranks hold parts of no encoder.
        """
        self.ranks = Ranks()
        self.processes = self.ranks.size
        self.part = Part(self.module, self._function, self.ranks)

    def join(self) -> None:
        """Join the arrays of all ranks, one after the other: from now on this is the whole encoder. On rank 0 alone."""
        held = held_by_all(self._everywhere("tell", heard=True))
        cuts = cuts_of(held, axes_stated(self.hints.cut, held), self._is_piece)
        self._everywhere("learn", cuts)
        self._take_up_heads(cuts)
        whole: dict[str, Tensor] = {}
        for name in self.part.parameters:
            whole |= self._everywhere("gather", [name], "data")
        same: dict[int, nn.Parameter] = {}
        joined = {
            id(p): same.setdefault(id(p), nn.Parameter(whole[name], requires_grad=p.requires_grad))
            for name, p in self.part.parameters.items()
        }
        called = self._function or self.module.forward
        self.module, self._function = twin(self.module, joined), None
        self.module.forward = wraps(called)(partial(self._call_everywhere))
        self.part.whole = {name: joined[id(p)] for name, p in self.part.parameters.items()}

    def _everywhere(self, order: str, *given: Any, heard: bool = False) -> Any:
        return self.ranks.together(self.part, order, *given, heard=heard)

    def _take_up_heads(self, cuts: Mapping[str, Cut | None]) -> None:
        """Hold the stated number of heads to be that of all ranks only where no part may mean its own.

        Raises:
            SubjectError: if heads that are those of all ranks cannot be shared evenly.
        """
        placed = any(hasattr(p, "placements") for p in self.part.parameters.values())
        if not any(cuts.values()) and (not placed or sharded(self.part.module)):
            return
        size, here = self.ranks.size, self.hints.sizes.get("h", 0)
        told = self.hints.stated.get("num_heads") or configured(attribute(self.part.module, "config"))[1].get("h")
        if told and int(told) % size:
            raise SubjectError(
                f"its {told} heads cannot be shared evenly by {size} processes: start a number that divides {told}"
            )
        if not told and here:
            others = {letter: number for letter, number in self.hints.sizes.items() if letter != "h"}
            self.hints = replace(self.hints, sizes=others, heads=here * size)

    def _is_piece(self, name: str) -> bool:
        """Return whether the ranks still return the same after an array was changed in one of them alone."""
        given = self._any_call
        if given is None or self._apart_in(*given) != {}:
            return False
        self._everywhere("disturb", name)
        try:
            return self._apart_in(*given) == {}
        finally:
            self._everywhere("disturb", name)

    @cached_property
    def _any_call(self) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Arguments with which the parts can be called as they are; None if none are found."""
        dtype = self.kept_in()
        shapes = {name: torch.zeros(p.shape) for name, p in self.part.parameters.items()}

        def tried(x: Tensor, named: Mapping[str, Any]) -> Any:
            first, others = in_dtype(dtype, x, named)
            output = self._called_by_all((first,), others, gradients=False)[0]
            return tree_unflatten(output.leaves, self.part.structure)

        found = first_call(shapes, {}, arguments_of(stating(self.module, self._function)), tried)
        if found is None:
            return None
        first, others = in_dtype(dtype, found.inputs, found.named)
        return (first,), others

    def _apart_in(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> dict[int, float] | None:
        """Return how far the other ranks are from rank 0 in a call, by rank; None if it is refused."""
        with suppress(Exception):
            return apart(self._called_by_all(arguments, named, gradients=False))
        return None

    def _called_by_all(
        self, arguments: tuple[Any, ...], named: dict[str, Any], *, gradients: bool, recorded: bool = False
    ) -> list[Output]:
        """Call the part of every rank with the same; return what each gives, in the order of the ranks."""
        modes = {"gradients": gradients, "inferring": torch.is_inference_mode_enabled(), "recorded": recorded}
        done, self._done_with[:] = tuple(self._done_with), []
        self._number = next(self._numbers)
        outputs: list[Output] = self._everywhere("call", self._number, arguments, named, modes, done, heard=True)
        return outputs

    def _call_everywhere(self, *arguments: Any, **named: Any) -> Any:
        """Compute as every rank does together: this is the forward method of the whole encoder."""
        with _disable_current_modes():
            self._share_out_changes()
        leaves, structure = tree_flatten((arguments, named))
        tensors = [x for x in leaves if isinstance(x, Tensor)]
        # What watches the operations of this process sees those of all of them.
        watched = _get_current_dispatch_mode() is not None
        call = Call(self, leaves, structure, watched)
        given = Everywhere.apply(call, *tensors, *self.part.whole.values())  # type: ignore[no-untyped-call]
        for array in call.recorded:
            array.clone()
        call.recorded.clear()
        returned = iter(given)
        filled = [next(returned) if isinstance(x, Tensor) else x for x in call.output.leaves]
        return tree_unflatten(filled, call.structure_of_output)

    def _share_out_changes(self) -> None:
        """Give every rank its pieces of the arrays that were changed since the last time."""
        now = {name: (p.data_ptr(), p._version, p.dtype) for name, p in self.part.whole.items()}
        changed = [name for name, state in now.items() if self._sent.get(name) != state]
        if changed:
            self._everywhere("share_out", changed)
            self._sent |= now

    @contextmanager
    def borrowed(self) -> Iterator[None]:
        """See ``Subject``: on every rank."""
        self._everywhere("lend")
        try:
            with super().borrowed():
                self._cast()
                yield
        finally:
            self._everywhere("take_back")

    @contextmanager
    def computing_in(self, precision: Precision) -> Iterator[None]:
        """See ``Subject``: on every rank."""
        with super().computing_in(precision):
            self._cast()
            yield
        self._cast()

    def _cast(self) -> None:
        self._everywhere("cast", self.dtype, self.device)
        self._sent.clear()

    def computation(self, sizes: Sizes | None = None) -> Graph:  # noqa: ARG002
        """See ``Subject``: the operations of one process are those of no whole encoder."""
        raise Unsupported("it is spread over processes, none of which computes all of it")

    def gradients(
        self, inputs: tuple[Tensor, ...], keep: Tensor | None, cotangent: Tensor, each: Callable[[str, Tensor], None]
    ) -> Tensor | None:
        """See ``Subject``: ranks that return different things compute the gradients of different functions."""
        if self.differing:
            raise Unsupported("the ranks return different hidden states, of which there is no common gradient")
        return super().gradients(inputs, keep, cotangent, each)

    def departures(self) -> tuple[Finding, ...]:
        """See ``Subject``: ranks that return different things."""
        self._is_told = bool(self.differing)
        return (*super().departures(), *(Finding("stack", says) for says in self._differ()))

    def _differ(self) -> list[str]:
        """Return in words that the ranks return different things, if they do."""
        return [DIFFER.format(rank, by) for rank, by in list(self.differing.items())[:1]]

    def unknown(self) -> str:
        """See ``Subject``: what differs between the ranks in some call keeps it from being judged conformant."""
        untold = [] if self._is_told else self._differ()
        return "; ".join(filter(None, (super().unknown(), *untold)))

    def conventions(self) -> dict[str, str]:
        """See ``Subject``: and over how many processes it is spread."""
        return super().conventions() | {"spread": f"over {self.ranks.size} processes"}


class Call:
    """One call of the whole encoder: what is given, and what came of it.

    Args:
        subject: whose ranks compute.
        leaves: what is given, without its structure.
        structure: that of the arguments by position and by name.
        is_watched: whether something records the operations.
    """

    def __init__(self, subject: SpreadSubject, leaves: list[Any], structure: Any, is_watched: bool) -> None:
        self.subject, self.leaves, self.structure, self.is_watched = subject, leaves, structure, is_watched
        self.records_gradients = torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
        self.output = Output([], [])
        self.structure_of_output: Any = None
        self.recorded: list[Tensor] = []
        self.number = -1

    def run(self, wanted: tuple[bool, ...]) -> tuple[Tensor, ...]:
        """Let every rank compute; return the tensors that rank 0 gives.

        Args:
            wanted: for each tensor that is given, whether its gradient is asked for.
        """
        asked, gradients = iter(wanted), self.records_gradients
        leaves = [
            x.detach().requires_grad_(next(asked) and gradients) if isinstance(x, Tensor) else x for x in self.leaves
        ]
        arguments, named = tree_unflatten(leaves, self.structure)
        subject = self.subject
        outputs = subject._called_by_all(arguments, named, gradients=gradients, recorded=self.is_watched)
        self.number, self.output, self.structure_of_output = subject._number, outputs[0], subject.part.structure
        subject.differing |= apart(outputs)
        self.recorded = together([output.recorded for output in outputs])
        # The graphs of a call are kept on every rank as long as it can be differentiated here.
        weakref.finalize(self, subject._done_with.append, self.number)
        return tuple(x for x in self.output.leaves if isinstance(x, Tensor))


class Everywhere(torch.autograd.Function):
    """The computation of all ranks as one operation: of what is given, and of the whole arrays."""

    @staticmethod
    def forward(ctx: Any, call: Call, *tensors: Tensor) -> tuple[Tensor, ...]:  # noqa: ARG004
        """Return the tensors that rank 0 gives."""
        ctx.call, ctx.given = call, sum(isinstance(x, Tensor) for x in call.leaves)
        with _disable_current_modes():  # what each rank does is recorded there
            outputs = call.run(ctx.needs_input_grad[1 : 1 + ctx.given])
        ctx.mark_non_differentiable(*(x for x in outputs if not x.is_floating_point()))
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        """Run the backward pass on every rank, and join the gradients of its pieces."""
        call, subject = ctx.call, ctx.call.subject
        sent = [c for c in cotangents if c.is_floating_point()]
        of_inputs = iter(subject._everywhere("backward", call.number, sent))
        by_input = [next(of_inputs) if isinstance(x, Tensor) else None for x in call.leaves]
        by_input = [g for g, x in zip(by_input, call.leaves, strict=True) if isinstance(x, Tensor)]
        by_name = subject._everywhere("gather", list(subject.part.whole), "grad")
        return None, *by_input, *(by_name.get(name) for name in subject.part.whole)


def apart(outputs: list[Output]) -> dict[int, float]:
    """Return how far the other ranks are from rank 0, by rank; those that return the same are left out."""
    found: dict[int, float] = {}
    first = [x for x in outputs[0].leaves if isinstance(x, Tensor) and x.is_floating_point()]
    for rank, output in enumerate(outputs[1:], 1):
        there = [x for x in output.leaves if isinstance(x, Tensor) and x.is_floating_point()]
        for mine, theirs in zip(first, there, strict=False):
            if mine.shape != theirs.shape or not mine.numel():
                continue
            by = float((mine.double() - theirs.double()).abs().nan_to_num(0.0).max())
            allowed = ROUNDINGS * torch.finfo(mine.dtype).eps * float(mine.abs().nan_to_num(0.0).max())
            if by > allowed:
                found[rank] = max(by, found.get(rank, 0.0))
    return found


def together(recorded: list[list[Tensor]]) -> list[Tensor]:
    """Return the arrays that all ranks compute together on the way, in the order of rank 0.

    What is the same everywhere is that array. Others are pieces: they are joined along every axis, as the axis along
    which they lie is not known. A sum over the ranks is not formed here: what misses one is to be missed.
    """
    first, *others = recorded
    if any(len(arrays) != len(first) for arrays in others):
        return first
    found: list[Tensor] = []
    for pieces in zip(*recorded, strict=True):
        if any(piece.shape != pieces[0].shape for piece in pieces) or all(map(partial(torch.equal, pieces[0]), pieces)):
            found.append(pieces[0])
        else:
            found += [torch.cat(pieces, dim=axis) for axis in range(pieces[0].ndim)]
    return found


def twin(module: nn.Module, joined: Mapping[int, nn.Parameter]) -> nn.Module:
    """Return a module of the same build, with other parameters: its parts have the attributes of those of the first.

    Args:
        module: the first.
        joined: the parameters of the twin, by the ids of those of the first.
    """
    # A module that gathers its parameters has a class that cannot be made anew.
    kind = next(each for each in type(module).__mro__ if not issubclass(each, FSDPModule))
    made: Any = object.__new__(kind)
    plain = {name: x.clone() if isinstance(x, Tensor) and x.is_leaf else x for name, x in vars(module).items()}
    vars(made).update(plain | {name: value for name, value in vars(nn.Module()).items() if "hooks" in name})
    made._parameters = {name: p if p is None else joined[id(p)] for name, p in module._parameters.items()}
    made._buffers = {name: b if b is None else b.detach().clone() for name, b in module._buffers.items()}
    made._modules = {name: None if part is None else twin(part, joined) for name, part in module._modules.items()}
    whole: nn.Module = made
    return whole

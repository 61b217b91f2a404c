"""The processes that an encoder is spread over: rank 0 gives orders, and all follow them at the same time.

What the encoder does between its ranks goes through its own groups. Orders and answers have others, so that no
collective of the encoder meets one of the suite. Faults that keep a rank from answering stand in the store in which
the processes found each other: it can be read when no collective is possible any more.
"""

import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import cache
from itertools import count
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from conformance_tests.errors import SubjectError, one_line
from conformance_tests.subjects.spread.launched import processes_launched, rank_launched

PATIENCE = timedelta(seconds=60)
"""So long a rank waits for the others where all do the same at the same time."""

BETWEEN_ORDERS = timedelta(days=7)
"""So long a rank waits for the next order: rank 0 evaluates the specification meanwhile."""

MADE = "made"
"""What a rank writes into the store that has made its part of an encoder; another writes why it could not."""

CLOSED = re.compile(r"Connection (closed|reset) by peer|Broken pipe|remote worker")
"""Words of gloo where a process has ended, or left the group; which of them depends on what it was waiting for."""

END = "end"
"""The order after which there are no more."""

_meetings = count()


def is_spread() -> bool:
    """Return whether this process is one of several in an initialised process group."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def meet(refusal: str = "") -> None:
    """Tell the other ranks whether this one has made its part of an encoder, and wait for theirs.

    Args:
        refusal: why it could not be made here; no text if it was made.

    Raises:
        SubjectError: if another rank could not make its part, or there is no process group to be spread over.
    """
    started = processes_launched()
    if not is_spread():
        if started > 1 and not refusal:
            raise SubjectError(
                f"{started} processes were started, but the encoder set up no process group between them: call "
                'torch.distributed.init_process_group("gloo") where it is made, or start one process'
            )
        return
    store, rank, here = default_store(), dist.get_rank(), f"encoder-spec/made/{next(_meetings)}"
    places = {other: f"{here}/{other}" for other in range(dist.get_world_size()) if other != rank}
    if refusal:
        # One that was raised elsewhere before may be what ended the connections that this rank waited on.
        first = [(other, store.get(place).decode()) for other, place in places.items() if store.check([place])]
        store.set(f"{here}/{rank}", refusal)
        part_company()
        for other, told in first:
            if told not in (MADE, refusal):
                raise SubjectError(f"on rank {other}, {told}")
        return
    store.set(f"{here}/{rank}", MADE)
    for other, place in places.items():
        with suppress(RuntimeError):
            store.wait([place], PATIENCE)
        told = store.get(place).decode() if store.check([place]) else ""
        if not told:
            raise SubjectError(f"rank {other} has not made its part of the encoder within {in_seconds(PATIENCE)}")
        if told != MADE:
            raise SubjectError(f"on rank {other}, {told}")


@cache
def default_store() -> Any:
    """Return the store in which the processes found each other; it outlasts their groups."""
    return dist.distributed_c10d._get_default_store()


def wait_for_rank_0() -> None:
    """Wait until rank 0 has shown its report: a launcher ends all processes as soon as one ends with a failure."""
    if default_store.cache_info().currsize == 0:
        return  # they never met
    with suppress(RuntimeError):
        if rank_launched() == 0:
            default_store().set("encoder-spec/shown", "")
        else:
            default_store().wait(["encoder-spec/shown"], PATIENCE)


def part_company() -> None:
    """Leave all process groups, so that nobody waits for this process in vain."""
    with suppress(Exception):
        dist.destroy_process_group()


def in_seconds(time: timedelta) -> str:
    """Return a time in words."""
    return f"{time.total_seconds():g} s"


class Ranks:
    """The processes of one encoder.

    To make it is an order to all: every process of the group does so at the same time.
    """

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self._store = default_store()
        self._orders = dist.new_group(backend="gloo", timeout=BETWEEN_ORDERS)
        self._answers = dist.new_group(backend="gloo", timeout=PATIENCE)
        self._place = f"encoder-spec/judged/{self._orders.group_name}"
        self.lost = ""

    def together(self, does: Any, order: str, *given: Any, heard: bool = False) -> Any:
        """Let every rank do something; return what it gave here, or on every rank.

        Args:
            does: what has a method for each order; every rank has such a thing.
            order: the name of the method.
            given: its arguments, the same on every rank.
            heard: whether the results of all ranks are returned, in a list.

        Raises:
            SubjectError: if another rank raised something, or does not answer.
            Exception: what was raised here.
        """
        if self.lost:
            raise SubjectError(self.lost)
        self._reached(lambda: dist.broadcast_object_list([order, given, heard], group=self._orders))
        return self._done(does, order, given, heard=heard)

    def follow(self, does: Any) -> Any:
        """Do what rank 0 orders until it ends; return what it gives then."""
        while True:
            told: list[Any] = [None, None, None]
            try:
                dist.broadcast_object_list(told, group=self._orders)
            except RuntimeError:
                return self._given_at_the_end()
            order, given, heard = told
            if order == END:
                return given
            with suppress(Exception):  # rank 0 has been told of it
                self._done(does, order, given, heard=heard)
            if self.lost:
                return self._given_at_the_end()

    def end(self, given: Any) -> None:
        """Let the other ranks go, and give them something."""
        if not self.lost:
            with suppress(RuntimeError):
                dist.broadcast_object_list([END, given, False], group=self._orders)
                return
        self._store.set(self._place, json.dumps(given))

    def sum(self, number: int) -> int:
        """Return the sum of a number over the ranks."""
        total = torch.tensor(number)
        dist.all_reduce(total, group=self._answers)
        return int(total)

    def joined(self, piece: Tensor, axis: int, lengths: Sequence[int]) -> Tensor:
        """Return on rank 0 the pieces of all ranks side by side along an axis; on others their own piece."""
        if self.rank:
            dist.send(piece.contiguous(), 0, group=self._answers)
            return piece
        pieces = [piece]
        for rank in range(1, self.size):
            shape = list(piece.shape)
            shape[axis] = lengths[rank]
            pieces.append(torch.empty(shape, dtype=piece.dtype))
            dist.recv(pieces[-1], rank, group=self._answers)
        return torch.cat(pieces, dim=axis)

    def dealt(self, whole: Tensor | None, like: Tensor, axis: int | None, lengths: Sequence[int]) -> Tensor:
        """Return what belongs to this rank of an array that rank 0 has: one of its pieces, or without an axis all."""
        if axis is None:
            copied = torch.empty_like(like) if whole is None else whole.contiguous()
            dist.broadcast(copied, 0, group=self._answers)
            return copied
        if whole is None:
            dist.recv(piece := torch.empty_like(like, memory_format=torch.contiguous_format), 0, group=self._answers)
            return piece
        own, *others = torch.split(whole, list(lengths), dim=axis)
        for rank, piece in enumerate(others, 1):
            dist.send(piece.contiguous(), rank, group=self._answers)
        return own

    def _given_at_the_end(self) -> Any:
        """Return what rank 0 gave at the end, where no order can reach this one any more; None if it gave nothing."""
        with suppress(Exception):
            self._store.wait([self._place], PATIENCE)
            return json.loads(self._store.get(self._place))
        return None

    def _done(self, does: Any, order: str, given: Any, *, heard: bool) -> Any:
        fault: Exception | None = None
        result = None
        try:
            result = getattr(does, order)(*given)
        except Exception as raised:
            fault = raised
        refusals: list[str] = [""] * self.size
        own = "" if fault is None else f"{order_in_words(order)} raised {one_line(fault)}"
        self._reached(lambda: dist.all_gather_object(refusals, own, group=self._answers), own)
        if fault is not None:
            raise fault
        for rank, refusal in enumerate(refusals):
            if refusal:
                raise SubjectError(f"on rank {rank}, {refusal}")
        if not heard:
            return result
        results: list[Any] | None = [None] * self.size if self.rank == 0 else None
        self._reached(lambda: dist.gather_object(result, results, group=self._answers))
        return results

    def _reached(self, speak: Callable[[], None], own: str = "") -> None:
        """Speak to the other ranks; if that fails, say what this one met, and let nobody wait for it any longer.

        Raises:
            SubjectError: if they cannot be reached, with what they met.
        """
        try:
            speak()
        except RuntimeError as fault:
            met = own or f"the others could not be reached: {one_line(fault)}"
            met = "another process has ended" if CLOSED.search(met) else met
            if own:
                with suppress(RuntimeError):
                    self._store.set(f"{self._place}/{self.rank}", own)
            part_company()
            self.lost = f"the ranks do not meet: {self._met_by_others() or met}"
            raise SubjectError(self.lost) from None

    def _met_by_others(self) -> str:
        """Return what other ranks met that kept them from answering."""
        told = []
        for rank in range(self.size):
            place = f"{self._place}/{rank}"
            with suppress(RuntimeError):
                if rank != self.rank and self._store.check([place]):
                    told.append(f"on rank {rank}, {self._store.get(place).decode()}")
        return "; ".join(told)


def order_in_words(order: str) -> str:
    """Return what a rank does on an order, as a part of a sentence."""
    return {"call": "calling the encoder", "backward": "the backward pass"}.get(order, f"to {order} its part")

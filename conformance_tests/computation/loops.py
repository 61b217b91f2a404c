"""Loops: what is computed again and again, of other entries each time, is one operation.

Encoders may run in loops over samples, heads, positions or rows. Such a loop is recorded as many small operations. Here
they are put side by side, operation by operation, so that a loop and its vectorised form read alike.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import chain

import torch
from torch import Tensor

from conformance_tests.computation.graph import Graph, Operand, Value, View, places
from conformance_tests.computation.rewriting import Rewriting

SHARES_WEIGHTS = ("product", "look-up", "layer-norm", "rms-norm")
"""Operations whose turns in a loop have the same weights: with others they are several maps, tables or norms."""

SIDE_BY_SIDE = ("softmax", *SHARES_WEIGHTS)
"""Operations, besides those on each entry and reductions, of which several can be put side by side."""


def rolled(graph: Graph) -> Graph:
    """Return a graph in which each loop is one operation, over one more axis; the same graph, if it has no loops."""
    loops = [turns for turns in Loops(graph).all_turns() if len(turns) > 1]
    return Rolling(graph, loops).finish() if any(turns[0].depends for turns in loops) else graph


class Loops:
    """Finds the operations that are turns of one loop, from the leaves on.

    Turns are the same operation on different entries of the same values, or of values that are turns of one loop
    themselves. So none depends on another, in whatever lines they stand: the first turn may stand before its loop.
    What each turn computes from the same weights is one weight.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._loop: dict[int, int] = {}

    def all_turns(self) -> Iterator[list[Value]]:
        """Yield the turns of each loop, in order of execution; what stands in none is a loop of one turn."""
        read: dict[int, list[tuple[int, ...]]] = {}
        height: dict[int, int] = {}
        at_height: dict[int, list[Value]] = {}
        for value in self._graph.values:
            read[value.number] = [self._graph.owning(codes) for codes in value.forms]
            height[value.number] = 1 + max((height[n] for numbers in read[value.number] for n in numbers), default=0)
            at_height.setdefault(height[value.number], []).append(value)
        for _, values in sorted(at_height.items()):
            alike: dict[Hashable, list[Value]] = {}
            for value in values:
                alike.setdefault(self._kind(value, read[value.number]), []).append(value)
            for members in chain.from_iterable(map(self._of_one_size, alike.values())):
                is_loop = len(members) > 1 and self._are_turns(members)
                for turns in [members] if is_loop else [[value] for value in members]:
                    self._loop |= dict.fromkeys((value.number for value in turns), turns[0].number)
                    yield turns

    def _kind(self, value: Value, read: Sequence[Sequence[int]]) -> Hashable:
        """Return what turns of a loop have in common: of an operation in none, its number."""
        if value.operation == "constant" and not value.name:
            return value.operation, tuple(value.shape), value.data.numpy().tobytes()
        is_open = value.kind or value.operation in SIDE_BY_SIDE
        if not value.reads or (value.depends and (not is_open or value.options.get("axis", 0) != 0)):
            return value.number
        options = tuple(sorted((name, str(option)) for name, option in value.options.items()))
        loops = iter([tuple(sorted({self._loop[number] for number in numbers})) for numbers in read])
        # As text, since a number that is none is unlike itself.
        forms = value.reads.forms
        reads = tuple(next(loops) if isinstance(operand, Tensor | View) else str(operand) for operand in forms)
        # A loop in a loop runs over heads and their maps: the turns of each map are a loop by themselves.
        has_weights = value.operation in SHARES_WEIGHTS or not value.depends
        weights = [codes for codes in value.forms if has_weights and not self._graph.depends(codes)]
        shared = tuple(map(self._entries_of, weights))
        return value.operation, value.shape[-1:], options, reads, shared

    def _entries_of(self, codes: Tensor | View) -> Hashable:
        """Return which entries of a weight these are, which each turn may make anew."""
        if isinstance(codes, View):
            return codes.renumbered(0)
        found: bytes = (codes if self._graph.owner(codes) is None else places(codes)).numpy().tobytes()
        return found

    def _of_one_size(self, members: list[Value]) -> list[list[Value]]:
        """Return operations that are alike, apart where they differ in size and are not of rows alone.

        The last turn of a loop over some rows at a time may have fewer of them.
        """
        of_size: dict[Hashable, list[Value]] = {}
        for value in members:
            of_size.setdefault((value.shape, *(tuple(codes.shape) for codes in value.forms)), []).append(value)
        return [members] if len(of_size) == 1 or self._is_of_rows(members) else list(of_size.values())

    def _is_of_rows(self, members: Sequence[Value]) -> bool:
        """Return whether operations do the same to each row of what they read, however many there are."""
        first = members[0]
        if not all(value.depends and len(value.shape) > 1 for value in members):
            return False
        if first.operation == "product":
            _, columns = first.reads
            assert isinstance(columns, Tensor)
            return all(
                v.shape[0] == first.shape[0] and torch.equal(v.arrays[1], columns) and not v.kind for v in members
            )
        widths = {tuple(codes.shape[-1] for codes in value.arrays) for value in members}
        along = all(
            tuple(value.options["axes"]) == (value.arrays[0].ndim - 1,) for value in members if "axes" in value.options
        )
        is_each = first.kind == "elementwise" or (first.operation != "look-up" and "axes" in first.options)
        return is_each and along and len(widths) == 1

    @staticmethod
    def _are_turns(members: Sequence[Value]) -> bool:
        """Return whether operations that are alike read different entries, and do not compute the same again."""
        entries = {tuple(codes.numpy().tobytes() for codes in value.arrays) for value in members}
        return not members[0].depends or len(entries) > 1


class Rolling(Rewriting):
    """Builds the graph in which the turns of each loop are one value."""

    def __init__(self, former: Graph, loops: Sequence[Sequence[Value]]) -> None:
        super().__init__(former)
        self._turns = {turn.number: turns for turns in loops for turn in turns}
        for first in self._in_order():
            self._add(self._turns.get(first.number, [first]))

    def _in_order(self) -> Iterator[Value]:
        """Yield the first turn of each loop, and any other value, as early as what they read allows."""
        first = {v.number: self._turns.get(v.number, [v])[0].number for v in self.former.values}
        missing: dict[int, set[int]] = {number: set() for number in first.values()}
        readers: dict[int, set[int]] = {number: set() for number in missing}
        for value in self.former.values:
            for read in {first[v.number] for codes in value.arrays for v in self.former.owners(codes)}:
                missing[first[value.number]].add(read)
                readers[read].add(first[value.number])
        ready = [number for number, read in missing.items() if not read]
        heapify(ready)
        while ready:
            number = heappop(ready)
            yield self.former.values[number]
            for reader in readers[number]:
                missing[reader].discard(number)
                if not missing[reader]:
                    heappush(ready, reader)

    def _add(self, turns: Sequence[Value]) -> None:
        """Add the value that some turns are, and note which entries theirs are now."""
        first = turns[0]
        if len(turns) == 1 or not first.depends:
            codes = self.keep(first)
            for turn in turns:
                self.now[turn.number] = codes
            return
        reads = [tuple(map(self.read, turn.reads)) for turn in turns]
        if any(turn.shape != first.shape for turn in turns):
            self._add_rows(turns, reads)
            return
        if first.operation == "product":
            self._add_product(turns, reads)
            return
        operands = self._side_by_side(first, reads, torch.stack)
        options = self.options(first)
        if "axes" in options:
            options["axes"] = tuple(axis % first.arrays[0].ndim + 1 for axis in options["axes"])
        codes = self.add(first, operands, torch.stack([turn.data for turn in turns]), options)
        self.now.update({turn.number: mine for turn, mine in zip(turns, codes, strict=True)})

    def _side_by_side(
        self, first: Value, reads: Sequence[tuple[Operand, ...]], join: Callable[[list[Tensor]], Tensor]
    ) -> tuple[Operand, ...]:
        """Return what all turns read, joined, operand by operand; weights and numbers are those of the first."""
        found: list[Operand] = []
        for operand, each in zip(first.reads, zip(*reads, strict=True), strict=True):
            is_shared = first.operation in SHARES_WEIGHTS and not self.former.depends(operand)
            found.append(each[0] if is_shared or not isinstance(operand, Tensor) else join(list(each)))
        return tuple(found)

    def _add_rows(self, turns: Sequence[Value], reads: Sequence[tuple[Operand, ...]]) -> None:
        """Add the value that turns are which do the same to several rows each, behind one another."""
        first = turns[0]
        data = [turn.data for turn in turns]
        if first.operation == "product":
            rows = torch.cat([read[0] for read in reads], dim=1)  # type: ignore[misc]
            codes = self.add(first, (rows, reads[0][1]), torch.cat(data, dim=1), {})
            parts = codes.split([turn.shape[1] for turn in turns], dim=1)
        else:
            operands = self._side_by_side(first, reads, lambda all_of: torch.cat([as_rows(codes) for codes in all_of]))
            options = self.options(first) | ({"axes": (1,)} if "axes" in first.options else {})
            # A turn may have further axes in front: a query has heads, where one key serves them all.
            each_one = [
                as_rows(x) if x.ndim == turn.arrays[0].ndim else x.reshape(-1)
                for turn, x in zip(turns, data, strict=True)
            ]
            codes = self.add(first, operands, torch.cat(each_one), options)
            parts = codes.split([len(x) for x in each_one])
        self.now.update({turn.number: mine.reshape(turn.shape) for turn, mine in zip(turns, parts, strict=True)})

    def _add_product(self, turns: Sequence[Value], reads: Sequence[tuple[Operand, ...]]) -> None:
        """Add the product of all that the turns multiply: rows and columns that meet have the same t."""
        rows = torch.cat([read[0] for read in reads])  # type: ignore[misc]
        columns = torch.cat([read[1].mT for read in reads])  # type: ignore[union-attr]
        data = torch.cat([turn.data for turn in turns])
        row, column = in_order_of_appearance(rows), in_order_of_appearance(columns)
        meeting = groups(row.tolist(), column.tolist())
        if meeting is None:
            codes = self.add(turns[0], (rows, columns.mT), data, {})
        else:
            which_rows, which_columns = (torch.tensor(each) for each in zip(*meeting, strict=True))
            t, m = places_in(which_rows)
            _, n = places_in(which_columns)
            _, M, N = shape = len(meeting), which_rows.shape[1], which_columns.shape[1]
            at = (t[row] * M + m[row])[:, :, None] * N + n[column][:, None]
            whole = torch.empty(shape, dtype=data.dtype).reshape(-1)
            whole[at] = data
            operands = representatives(rows, row)[which_rows], representatives(columns, column)[which_columns].mT
            codes = self.add(turns[0], operands, whole.reshape(shape), {}).reshape(-1)[at]
        mine = codes.split([turn.shape[0] for turn in turns])
        self.now.update({turn.number: part for turn, part in zip(turns, mine, strict=True)})


def as_rows(x: Tensor) -> Tensor:
    """Return an array as rows behind one another."""
    return x.reshape(-1, x.shape[-1])


def in_order_of_appearance(vectors: Tensor) -> Tensor:
    """Return a number for each of some vectors (T, M, K) by their entries: equal ones have the same."""
    _, number = vectors.reshape(-1, vectors.shape[-1]).unique(dim=0, return_inverse=True)
    seen: dict[int, int] = {}
    return torch.tensor([seen.setdefault(n, len(seen)) for n in number.tolist()]).reshape(vectors.shape[:2])


def representatives(vectors: Tensor, number: Tensor) -> Tensor:
    """Return one of the vectors (T, M, K) that has each number."""
    found = torch.empty(int(number.max()) + 1, vectors.shape[-1], dtype=vectors.dtype)
    found[number.reshape(-1)] = vectors.reshape(-1, vectors.shape[-1])
    return found


def groups(rows: Sequence[Sequence[int]], columns: Sequence[Sequence[int]]) -> list[tuple[list[int], list[int]]] | None:
    """Return rows and columns that meet all of each other once, and no others; None without groups of one size.

    Args:
        rows: those of each t.
        columns: those of each t.
    """
    met: dict[int, set[int]] = {}
    for of_rows, of_columns in zip(rows, columns, strict=True):
        for row in of_rows:
            met.setdefault(row, set()).update(of_columns)
    together: dict[frozenset[int], list[int]] = {}
    for row, others in sorted(met.items()):
        together.setdefault(frozenset(others), []).append(row)
    found = [(mine, sorted(others)) for others, mine in together.items()]
    sizes = {(len(mine), len(others)) for mine, others in found}
    is_apart = sum(len(others) for _, others in found) == len(set().union(*together))
    pairs = sum(len(mine) * len(others) for mine, others in found)
    is_once = pairs == sum(len(mine) * len(others) for mine, others in zip(rows, columns, strict=True))
    return found if len(sizes) == 1 and is_apart and is_once else None


def places_in(numbers: Tensor) -> tuple[Tensor, Tensor]:
    """Return the row and the column of a table at which each number up to its largest stands."""
    row, column = torch.empty((2, int(numbers.max()) + 1), dtype=torch.long)
    T, M = numbers.shape
    row[numbers], column[numbers] = torch.arange(T)[:, None].expand(T, M), torch.arange(M).expand(T, M)
    return row, column

"""The wiring: what every value on the way from the input to the output is, and the layers in order of execution."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import isclose
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from conformance_tests.computation.affine import Affine, affine, one_step
from conformance_tests.computation.attention import Attention, attentions
from conformance_tests.computation.feed_forward import (
    FeedForward,
    absent_network,
    feed_forwards,
    leaves,
    read_one_map,
)
from conformance_tests.computation.graph import PLACES, Graph, Value, places
from conformance_tests.computation.norm import Norm, read_norm
from conformance_tests.computation.shown import Finding, Remarks

Sublayer = Attention | FeedForward
PartT = TypeVar("PartT", Attention, FeedForward)


IN_WORDS = {
    "norm": "a norm",
    "map": "a map",
    "sublayer": "a sublayer",
    "look-up": "a look-up",
    "input": "its input",
    "weights": "weights",
}
"""Kinds of values in words; of others the operation is named."""

MOST_NAMED = 6
"""So many operations behind one another are named: two maps, what stands between them, and a norm before them."""


@dataclass(eq=False)
class Node:
    """The explanation of a value.

    Attributes:
        kind: ``"norm"``, ``"sublayer"``, ``"sum"``, ``"difference"``, ``"scaled"``, ``"map"``, ``"look-up"``,
            ``"weights"``, ``"input"``, ``"side by side"`` or ``"unknown"``.
        value: it; None of several.
        parts: what it is made of.
        what: the norm, the sublayer, the affine entries, or the codes of weights.
        factor: of what is scaled.
        passes: operations on each entry through which the result of a sublayer passes.
    """

    kind: str
    value: Value | None
    parts: tuple["Node", ...] = ()
    what: "Norm | Sublayer | Affine | Tensor | None" = None
    factor: float = 1.0
    passes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Say what it is, for a report."""
        if self.value is None:
            return self.kind
        named = f" {self.value.name}" if self.value.name else ""
        return f"{self.value.operation}{named}{self.value.where}"

    def taken_apart(self) -> str:
        """Say what it is, and of a sum what its terms are made of."""
        if self.kind not in ("sum", "difference"):
            return str(self)
        return f"{self}, the {self.kind} of {' and '.join(part.made_of() for part in self.parts)}"

    def made_of(self, most: int = MOST_NAMED) -> str:
        """Say by which operations it is made, the last one first, back to the stream."""
        if self.kind in IN_WORDS and not self.parts:
            return IN_WORDS[self.kind]
        if self.kind in ("sum", "difference"):
            return "the stream"
        name = IN_WORDS.get(self.kind) or (self.value.operation if self.value else self.kind)
        data = [part for part in self.parts if part.kind != "weights"]
        return f"{name} of {data[0].made_of(most - 1)}" if len(data) == 1 and most > 1 else name


MATRIX = 2
"""The number of axes of rows that a map reads."""


class Wiring:
    """Explains values; each is explained once, so that two ways that meet lead to one node."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.attentions = attentions(graph)
        self.networks = feed_forwards(graph)
        parts: list[Sublayer] = [*self.networks, *self.attentions]
        self._maps = {part.gives.number: part for part in parts if part.gives is not None}
        self._known: dict[int, Node] = {}
        self._several: dict[int, tuple[Node, bool]] = {}

    def of(self, codes: Tensor) -> Node:
        """Return what these entries are."""
        graph = self.graph
        value = graph.owner(codes)
        if value is None:
            return self._of_several(codes)
        if not graph.depends(codes):
            return Node("weights", value, what=codes)
        if codes.unique().numel() < value.shape.numel():
            return Node("unknown", value, (self.explain(value),), codes)
        return self.explain(value)

    def _of_several(self, codes: Tensor) -> Node:
        """Return what entries of several values are: one node for the same entries, however a reader arranges them.

        Attention reads them once for each head; the arrangement in sequences of positions is kept.
        """
        entries = codes.unique()
        key = hash(entries.numpy().tobytes())
        is_plain = codes.numel() == entries.numel() and codes.ndim > MATRIX and len(codes) > 1
        node, was_plain = self._several.get(key, (None, False))
        if node is None or (is_plain and not was_plain):
            found = self._side_by_side(codes)
            if node is None:
                node = found
            vars(node).update(vars(found))  # all who hold it see the same one
            self._several[key] = node, is_plain
        return node

    def explain(self, value: Value) -> Node:
        """Return what a value is."""
        if value.number not in self._known:
            self._known[value.number] = self._explained(value)
        return self._known[value.number]

    def _explained(self, value: Value) -> Node:
        graph = self.graph
        if value.operation == "argument":
            return Node("input", value)
        if value.operation == "look-up":
            return Node("look-up", value)
        norm = read_norm(graph, value)
        if norm is not None:
            return Node("norm", value, (self.of(norm.reads),), norm)
        found = affine(graph, value.codes)
        if found is not None and len(found.products) == 1:
            return self._mapped(value, found, found.products[0])
        if value.operation == "product" and value.number in self._maps:
            return self._sublayer(value, self._maps[value.number], 1.0)
        if value.kind == "elementwise":
            return self._combined(value)
        return Node("unknown", value)

    def _mapped(self, value: Value, found: Affine, product: Value) -> Node:
        part = self._maps.get(product.number)
        factor = found.factor()
        if part is None and not found.has_one_bias():
            return self._combined(value)
        if part is None or factor is None:
            rows = product.reads[0]
            assert isinstance(rows, Tensor)
            return Node("map", value, (self.of(rows),), found)
        bias = found.bias_by_column()
        if bias is not None:
            set_bias(part, bias)
        return self._sublayer(value, part, factor)

    def _sublayer(self, value: Value, part: Sublayer, factor: float) -> Node:
        reads = self.of(part.reads) if part.reads.numel() else Node("unknown", part.gives)
        return Node("sublayer", value, (reads,), part, factor)

    def _combined(self, value: Value) -> Node:
        graph = self.graph
        data = [read for read in value.arrays if graph.depends(read)]
        if value.operation in ("add", "sub") and len(data) == 2:
            parts = tuple(map(self.of, data))
            parts = (self._as_network(parts[0], data[0], parts[1]), self._as_network(parts[1], data[1], parts[0]))
            parts = one_by_one(*parts) if value.operation == "add" else parts
            return Node("sum" if value.operation == "add" else "difference", value, parts)
        if value.operation in MASKING and len(data) == 2:
            numbers = graph.numbers(value.codes)
            kept = [read for read in data if torch.equal(graph.numbers(read).broadcast_to(numbers.shape), numbers)]
            if len(kept) == 1:
                return self.of(kept[0])  # a mask that keeps every position
        if (counted := self._scaled_by_counts(value)) is not None:
            return counted
        step = one_step(graph, value)
        if step is None and (scaled_by_feature := self._scaled_by_feature(value)) is not None:
            return scaled_by_feature
        if step is None:
            return self._passing(value) or Node("unknown", value, tuple(map(self.of, data)))
        followed, factor, added, sign = step
        inner = self.of(followed)
        if factor.unique().numel() > 1:
            return Node("unknown", value, (inner,))
        if bool((factor != 1).any()):
            inner = scaled(inner, float(factor.reshape(-1)[0]), value)
        if added is None:
            return inner
        assert isinstance(added, Tensor)
        return Node("sum" if sign > 0 else "difference", value, (inner, Node("weights", None, what=added)))

    def _scaled_by_counts(self, value: Value) -> Node | None:
        """Return a value that is multiplied by what is counted of ids alone: one number, while all are usual."""
        counted = counted_in(self.graph, value)
        if counted is None:
            return None
        number = float(self.graph.numbers(counted).reshape(-1)[0])
        other = next(read for read in value.arrays if self.graph.depends(read) and read is not counted)
        return scaled(self.of(other), number if value.operation == "mul" else 1 / number, value)

    def _scaled_by_feature(self, value: Value) -> Node | None:
        """Return a sublayer, or its norm, whose features are multiplied by learned factors, if a value is such."""
        data = [read for read in value.arrays if self.graph.depends(read)]
        others = [read for read in value.arrays if not self.graph.depends(read)]
        if value.operation != "mul" or len(data) != 1 or len(others) != 1:
            return None
        factors = others[0].reshape(-1, value.shape[-1])
        node = self.of(data[0])
        sublayers = node.parts if node.kind in ("sum", "norm") else (node,)
        if any(n.kind != "sublayer" for n in sublayers) or not bool((factors == factors[:1]).all()):
            return None
        for sublayer in sublayers:
            assert isinstance(sublayer.what, Attention | FeedForward)
            sublayer.what.lam = factors[0]
        return replace(node, value=value)

    def _as_network(self, node: Node, codes: Tensor, beside: Node) -> Node:
        """Return a node as a sublayer if it is a network of one map of what it is added to, which may be normed.

        It may be added to an earlier stream by mistake.
        """
        if node.kind not in ("map", "unknown") or node.value is None:
            return node
        network = read_one_map(self.graph, node.value, codes)
        if network is None:
            return self._without_maps(node, beside) or node
        reads = self.of(network.reads)
        stream = reads.parts[0] if reads.kind == "norm" and beside.kind != "norm" else reads
        return Node("sublayer", node.value, (reads,), network) if is_on(stream, beside) else node

    def _without_maps(self, node: Node, beside: Node) -> Node | None:
        """Return the sublayer that a function of each entry of the stream stands for, if a node is such."""
        operations: list[str] = []
        reads = node
        while reads.kind == "unknown" and reads.value is not None and len(reads.value.arrays) == len(reads.parts) == 1:
            if reads.value.kind != "elementwise":
                return None
            operations.insert(0, reads.value.operation)
            reads = reads.parts[0]
        stream = reads.parts[0] if reads.kind == "norm" and beside.kind != "norm" else reads
        if node.value is None or not operations or not is_on(stream, beside):
            return None
        says = f"its feed-forward network is {', '.join(operations)} of each entry, without a map{node.value.where}"
        return Node("sublayer", node.value, (reads,), absent_network(node.value.shape[-1], says))

    def _passing(self, value: Value) -> Node | None:
        """Return a sublayer whose result passes through further operations on each entry, if a value is such."""
        found: list[Affine] = []
        behind: list[Value] = []
        if not leaves(self.graph, value.codes, found, behind) or len(found) != 1 or len(found[0].products) != 1:
            return None
        if found[0].products[0].number not in self._maps:
            return None  # a map that leaves no sublayer
        node = self._mapped(value, found[0], found[0].products[0])
        passes = tuple(dict.fromkeys(value.operation for value in reversed(behind)))
        return replace(node, passes=passes) if node.kind == "sublayer" else None

    def _side_by_side(self, codes: Tensor) -> Node:
        owners = self.graph.owners(codes)
        data = [v for v in owners if v.depends]
        if not data:
            return Node("weights", None, what=codes)
        found = affine(self.graph, codes)
        if found is not None and len(found.products) > 1:
            part = self._maps.get(found.products[0].number)
            if part is not None:
                return self._sublayer(found.products[0], part, 1.0)
        heads = self._heads(codes, data)
        if heads is not None:
            return heads
        summed = self._sums(codes)
        if summed is not None:
            return Node("sum", data[-1], (self.of(summed[0]), Node("weights", None, what=summed[1])))
        placed = self._without_registers(codes)
        return Node("side by side", data[-1], tuple(map(self.explain, data)) if placed is None else (placed,), codes)

    def _without_registers(self, codes: Tensor) -> Node | None:
        """Return what stands beside parameters as they are, if its positions are added to several parts apart."""
        if codes.ndim <= MATRIX:
            return None
        kept = torch.tensor([v.operation != "parameter" for v in self.graph.values])[codes >> PLACES].any(-1).any(0)
        rest = codes[:, kept]
        is_some = bool(kept.any()) and not bool(kept.all())
        return self.of(rest) if is_some and self.graph.owner(rest) is None and self._sums(rest) is not None else None

    def _heads(self, codes: Tensor, owners: list[Value]) -> Node | None:
        """Return the attention whose heads' results stand side by side, each computed by itself and mapped by none."""
        parts = {value.number: self._maps.get(value.number) for value in owners}
        in_turn = dict.fromkeys((codes.reshape(-1, codes.shape[-1])[0] >> PLACES).tolist())
        apart = [part for number in in_turn if isinstance(part := parts.get(number), Attention)]
        if len(apart) < len(owners) or codes.unique().numel() < sum(v.shape.numel() for v in owners):
            return None
        if not all(part.heads for part in apart) or any(head.W_O is not None for part in apart for head in part.heads):
            return None
        # Each head may read features of one value.
        reads = {self.of(part.reads if (v := self.graph.owner(part.reads)) is None else v.codes) for part in apart}
        if len(reads) > 1 or len({part.scale for part in apart}) > 1:
            return None
        first = min(apart, key=lambda part: part.weights.number)
        together = replace(first, heads=[head for part in apart for head in part.heads])
        return Node("sublayer", owners[-1], (reads.pop(),), together)

    def _sums(self, codes: Tensor) -> tuple[Tensor, Tensor] | None:
        """Return the two sides of sums that stand side by side, if each has entries of the same weights on one side.

        Positions may be added to class tokens and to patches apart: these are the same sums.
        """
        graph, owners = self.graph, self.graph.owners(codes)
        if any(v.operation != "add" or len(v.arrays) != 2 for v in owners):
            return None
        beside = [read for v in owners if v.depends for read in v.arrays if not graph.depends(read)]
        added = {value.number for read in beside for value in graph.owners(read)}
        rest, weights = torch.empty_like(codes), torch.empty_like(codes)
        for value in owners:
            sides = [{owner.number for owner in graph.owners(read)} <= added for read in value.arrays]
            if sides.count(True) != 1:
                return None
            here = codes >> PLACES == value.number
            at = places(codes[here])
            weights[here] = value.arrays[sides.index(True)].reshape(-1)[at]
            rest[here] = value.arrays[sides.index(False)].reshape(-1)[at]
        return rest, weights


MASKING = ("mul", "masked_fill", "where")
"""Operations by which a mask in the call hides positions of the stream; an activation may keep every entry too."""


def counted_in(graph: Graph, value: Value) -> Tensor | None:
    """Return the factor or the divisor that is counted of ids alone, if it is one number other than 0; else None."""
    data = [read for read in value.arrays if graph.depends(read)]
    if value.operation not in ("mul", "div") or len(data) != 2:
        return None
    which = [read for read in (data if value.operation == "mul" else data[1:]) if is_counted(graph, read)]
    return which[0] if len(which) == 1 and bool((graph.numbers(which[0]) != 0).all()) else None


def is_counted(graph: Graph, codes: Tensor) -> bool:
    """Return whether entries, all of one number, are computed of comparisons of the input alone, which they count."""
    behind = [v for v in graph.ancestors(codes) if v.depends and v.operation != "argument"]
    is_count = any(v.kind == "reduction" for v in behind) and any(v.operation in ("eq", "ne") for v in behind)
    is_alone = all(v.kind in ("elementwise", "reduction") for v in behind)
    return is_count and is_alone and graph.numbers(codes).unique().numel() == 1


EMBEDDED = ("look-up", "sum", "map", "side by side")
"""Kinds of values that a stream begins with, which may be multiplied."""


@dataclass(eq=False)
class Step:
    """One sublayer on the stream: what norms stand before and behind it, and whether the stream goes around it.

    ``extra`` is a norm that has no place in any order of norms: of the sum to which the stream is added once more, or
    before a sublayer where norms stand behind all of them. ``of_result`` is the norm of what it gives, before that is
    added. A sublayer that ``is_parallel`` reads the stream that the one before it reads. The stream counts ``times``
    times where the result is added, which is computed at ``where``.
    """

    part: Sublayer
    before: Norm | None = None
    behind: Norm | None = None
    is_added: bool = True
    extra: Norm | None = None
    of_result: Norm | None = None
    is_parallel: bool = False
    times: float = 1.0
    where: str = ""

    @property
    def kind(self) -> str:
        """Return what the sublayer is called."""
        return "attention" if isinstance(self.part, Attention) else "feed-forward network"


@dataclass(eq=False)
class Stream(Remarks):
    """An encoder's layers in order of execution, and what stands before and behind them.

    Attributes:
        steps: the sublayers.
        leading: a norm of the stream before the first sublayer, and ``trailing`` one behind the last.
        source: what enters the first sublayer.
        tail: the finding that the stream passes through operations behind the last sublayer, if it does.
        starts_bare: whether the first sublayer of the first layer alone has no norm before it.
    """

    steps: list[Step] = field(default_factory=list)
    leading: Norm | None = None
    trailing: Norm | None = None
    source: Node | None = None
    tail: Finding | None = None
    starts_bare: bool = False

    @property
    def is_pre(self) -> bool:
        """Return whether norms stand before the sublayers."""
        return any(step.before for step in self.steps)

    @property
    def layer(self) -> str:
        """Return the variant of the layer: in which order its sublayers, sums and norms stand."""
        if any(step.is_parallel for step in self.steps):
            has_one = any(step.is_parallel and not step.before for step in self.steps)
            return "parallel" if has_one else "parallel-two-norms"
        if not self.is_pre:
            return "post-ln"
        return "sandwich-ln" if any(step.of_result for step in self.steps) else "pre-ln"


def below_norms(node: Node) -> Node:
    """Return what is normed, if a value is a norm of something; else the value."""
    while node.kind == "norm":
        node = node.parts[0]
    return node


def one_by_one(one: Node, other: Node) -> tuple[Node, Node]:
    """Return the summands of a sum in which x + (f + g) is (x + f) + g, where f and g are sublayers that read x."""
    for stream, both in ((one, other), (other, one)):
        is_both = both.kind == "sum" and all(part.kind == "sublayer" for part in both.parts)
        if is_both and all(below_norms(part.parts[0]) is stream for part in both.parts):
            first, second = both.parts
            return Node("sum", both.value, (stream, first)), second
    return one, other


class Branch(NamedTuple):
    """A sublayer, the stream to which it is added, how many times that counts, and a norm that stands between them.

    Without a stream nothing is added to the sublayer, or what is added is taken away again. What is normed may have the
    stream in it already: then it is added twice.
    """

    out: Node
    rest: Node | None
    times: float = 1.0
    norm: Norm | None = None
    is_twice: bool = False


def scaled(node: Node, factor: float, value: Value) -> Node:
    """Return a value times a number; twice the mean of two values is their sum."""
    if node.kind == "sum":
        summed = {term: times * factor * term.factor for term, times in terms(node).items()}
        if len(summed) > 1 and all(isclose(times, 1) for times in summed.values()):
            return Node("sum", value, tuple(replace(term, factor=1.0) if term.factor != 1 else term for term in summed))
    return Node("scaled", value, (node,), factor=factor)


def terms(node: Node) -> dict[Node, float]:
    """Return what is summed in a value, and how many times each counts; what is added and taken away is gone.

    Sums inside of it are the stream before it, and stay as they are; so are streams that a sublayer is taken from.
    """
    if node.kind == "scaled" and node.parts[0].kind not in EMBEDDED:
        return {term: node.factor * times for term, times in terms(node.parts[0]).items()}
    if node.kind not in ("sum", "difference"):
        return {node: 1.0}
    found: dict[Node, float] = {}
    for part, sign in zip(node.parts, (1.0, -1.0 if node.kind == "difference" else 1.0), strict=True):
        is_stream = part.kind == "sum" or (part.kind == "difference" and part.parts[1].kind == "sublayer")
        inside = {part: 1.0} if is_stream else terms(part)
        for term, times in inside.items():
            found[term] = found.get(term, 0.0) + sign * times
    return {term: times for term, times in found.items() if times}


def made(node: Node) -> int:
    """Return when a value is computed."""
    return -1 if node.value is None else node.value.number


def branch_in(node: Node) -> Branch | None:
    """Return the sublayer that a sum adds to the stream, if it does.

    A bias of the sublayer may be added behind the stream: (x + f W) + b.
    """
    biases: list[Tensor] = []
    while node.kind in ("sum", "difference"):
        summed = terms(node)
        # Without a residual connection before it, the stream is a sublayer too: the later one reads the earlier.
        behind = sorted((term for term in summed if term.kind != "weights"), key=made, reverse=True)
        added = [term.what for term in summed if term.kind == "weights" and isinstance(term.what, Tensor)]
        if len(behind) > 2 or any(times != 1 for term, times in summed.items() if term.kind == "weights"):
            break
        if len(behind) == 1 and behind[0].kind != "sublayer":
            if summed[behind[0]] != 1:
                break
            biases += added
            node = behind[0]
            continue
        for out in behind:
            rest = next((term for term in behind if term is not out), None)
            times = 1.0 if rest is None else summed[rest]
            if out.kind == "sublayer":
                rest, times = multiplied_before(out.parts[0], rest, times)
                counted = replace(out, factor=out.factor * summed[out])
                return Branch(counted, rest, times) if attached(out, [*biases, *added]) else None
        for out in behind:
            rest = next((term for term in behind if term is not out), None)
            if not isinstance(out.what, Norm) or rest is None:
                continue
            if out.parts[0].kind == "sublayer":
                return None if biases or added else Branch(out.parts[0], rest, summed[rest], out.what)
            inner = branch_in(out.parts[0])
            if inner is not None and inner.rest is rest and inner.norm is None and not biases and not added:
                return inner._replace(norm=out.what, is_twice=True)
        break
    return None


def multiplied_before(reads: Node, rest: Node | None, times: float) -> tuple[Node | None, float]:
    """Return what a sublayer's result is added to, and how many times that counts.

    If the first sublayer reads it multiplied by that number, too, the number belongs to the embeddings. If it reads
    what is multiplied, the number weighs the stream.
    """
    below = reads.parts[0] if reads.kind == "norm" else reads
    if below.kind == "scaled" and below.parts[0] is rest and below.factor == times and not has_sublayer(below):
        return below, 1.0
    if rest is not None and rest.kind == "scaled" and rest.parts[0] is below:
        return below, times * rest.factor
    return rest, times


def is_on(stream: Node, earlier: Node) -> bool:
    """Return whether a stream is an earlier one, or made of it by norms and by adding what sublayers give."""
    while stream is not earlier:
        branch = branch_in(stream)
        before = stream.parts[0] if stream.kind == "norm" else branch.rest if branch is not None else None
        if before is None:
            return False
        stream = before
    return True


def attached(node: Node, biases: list[Tensor]) -> bool:
    """Give a sublayer the bias that is added behind the stream; return whether there is a place for it."""
    part = node.what
    assert isinstance(part, Attention | FeedForward)
    if len(biases) > 1:
        return False
    for codes in biases:
        flat = codes.reshape(-1, codes.shape[-1])
        known = bias_of(part)
        if not bool((flat == flat[:1]).all()) or (known is not None and not torch.equal(known, flat[0])):
            return False
        set_bias(part, flat[0])  # it may be known of an earlier look at this sum
    return True


def bias_of(part: Sublayer) -> Tensor | None:
    """Return the bias behind the last map of a sublayer."""
    return part.b_O if isinstance(part, Attention) else part.b_2


def set_bias(part: Sublayer, codes: Tensor) -> None:
    """Give a sublayer the bias behind its last map."""
    if isinstance(part, Attention):
        part.b_O = codes
    else:
        part.b_2 = codes


def stream_of(wiring: Wiring, output: Tensor) -> Stream:
    """Follow the stream from the output back to the input."""
    found = Stream()
    events: list[Norm | Step] = []
    read: dict[int, Node] = {}
    astray: list[tuple[int, Finding]] = []
    added: list[tuple[Finding, Sequence[Value]]] = []
    here = wiring.of(output)
    while True:
        if here.kind == "norm":
            assert isinstance(here.what, Norm)
            events.append(here.what)
            here = here.parts[0]
            continue
        branch = branch_in(here)
        out, rest = (branch.out, branch.rest) if branch else (here, None)
        if out.kind != "sublayer":
            passed = behind_operations(wiring.graph, here)
            if passed is None and (factors := learned_factors(wiring.graph, here)):
                found.foreign.append(f"the stream is multiplied by {factors}{here.value.where if here.value else ''}")
                here = here.parts[0]
                continue
            if passed is None:
                break
            slot, where = ("layer", "between its sublayers") if events else ("final_norm", "behind its last sublayer")
            if passed.added:
                added.append((Finding(slot, f"{where} {passed}"), passed.added))
            else:
                found.findings.append(Finding(slot, f"{where} {passed}"))
                found.tail = found.tail if events else found.findings[-1]
            here = passed.stream
            continue
        assert isinstance(out.what, Attention | FeedForward)
        rest, repeated = without_repetition(out, rest)
        step = Step(out.what, where=out.value.where if out.value is not None else "")
        if branch is not None and branch.is_twice:
            step.extra = branch.norm
        elif branch is not None:
            step.of_result = branch.norm
        events.append(step)
        reads = out.parts[0]
        slot, where = step.kind, step.where
        is_its_own = rest is not None and isinstance(out.what, Attention) and rest.value is out.what.averages
        if rest is None or is_its_own:
            step.is_added = False
            added_to = "what its heads average is" if is_its_own else "nothing is"
            found.findings.append(Finding("residual", f"{added_to} added to what the {slot} gives{where}"))
            here = reads
            continue
        if repeated:
            found.findings.append(Finding("residual", f"what the {slot} gives is added more than once{where}"))
        assert branch is not None
        step.times = branch.times
        found.findings += wrong_with(branch, slot, where)
        here = later(reads, rest)
        if reads is not rest:
            # Where the stream goes on behind what the sublayer reads, a norm there is found on it.
            step.before = reads.what if isinstance(reads.what, Norm) and here is rest else None
            if step.before is None or reads.parts[0] is not rest:
                says = f"the {slot} reads another value than the one it is added to{where}"
                astray.append((len(events) - 1, Finding("layer", says)))
        read[len(events) - 1] = reads
    for place, finding in astray:
        # The sublayer before it on the stream is the next event here, unless a norm stands between.
        beside = read.get(place + 1)
        if beside is not None and stand_in_parallel(events, place, (beside, read[place])):
            continue
        if beside is read[place]:
            found.foreign = ["attention and feed-forward network read one value, side by side"]
        else:
            found.findings.append(finding)
    found.source = here
    judge_added(found, wiring.graph, added)
    arrange(found, with_absent_sublayers(wiring, found, events[::-1], here))
    return found


def stand_in_parallel(events: list["Norm | Step"], place: int, reads: tuple[Node, Node]) -> bool:
    """Note that two sublayers read one stream, each through its norm or both through one; return whether it is so.

    Args:
        events: norms and sublayers, the last one first; the attention is put before the network, as a layer has them.
        place: that of the sublayer which is added last; the other one stands behind it.
        reads: what the other one reads, and what this one does.
    """
    both = [events[place + 1], events[place]]
    norms = [node.what for node in reads]
    if {type(step.part) for step in both if isinstance(step, Step)} != {Attention, FeedForward}:
        return False
    if not all(isinstance(norm, Norm) for norm in norms) or below_norms(reads[0]) is not below_norms(reads[1]):
        return False
    for step, norm in zip(both, norms, strict=True):
        assert isinstance(step, Step)
        assert isinstance(norm, Norm)
        step.before, step.is_parallel = norm, False
    first, second = sorted(both, key=lambda step: isinstance(step, Step) and isinstance(step.part, FeedForward))
    assert isinstance(second, Step)
    second.is_parallel = True
    second.before = None if reads[0] is reads[1] else second.before
    events[place], events[place + 1] = second, first
    return True


def wrong_with(branch: Branch, sublayer: str, where: str) -> Iterator[Finding]:
    """Yield what is wrong with the sum of a sublayer's result and the stream, but for the weight of the stream.

    Args:
        branch: the sum.
        sublayer: what the sublayer is called.
        where: the line, in brackets.
    """
    if branch.is_twice:
        says = f"behind the norm of the sum with what the {sublayer} gives the stream is added once more{where}"
        yield Finding("residual", says)
    out = branch.out
    if out.passes:
        says = f"what the {sublayer} gives passes through {', '.join(out.passes)} before it is added{where}"
        yield Finding("output" if isinstance(out.what, Attention) else "ffn", says)
    if out.factor != 1:
        how = "taken away from the stream" if out.factor == -1 else f"added {out.factor:.6g} times"
        yield Finding("residual", f"what the {sublayer} gives is {how}{where}")


def with_absent_sublayers(
    wiring: Wiring, found: Stream, events: Sequence["Norm | Step"], source: Node
) -> list["Norm | Step"]:
    """Put sublayers where an encoder has none of their kind at all, so that the rest of it can be read.

    A network that gives 0 stands behind each attention, and an attention whose results are not used before each
    network. A single sublayer of what is given is a part, and no encoder.
    """
    steps = [event for event in events if isinstance(event, Step)]
    kinds = {type(step.part) for step in steps}
    if len(kinds) != 1:
        return list(events)
    if kinds == {FeedForward}:
        idle = unused(wiring, wiring.attentions)
        if len(idle) != len(steps):
            return list(events)
        for part in idle:
            explain_bias(wiring, part)
        where = idle[0].gives.where if idle[0].gives else ""
        found.findings.append(Finding("residual", f"what the attention gives is not used{where}"))
        return before_networks(events, [Step(part) for part in idle])
    networks = unused(wiring, wiring.networks)
    is_part = len(steps) == 1 and source.kind == "input" and not networks
    if is_part or not all(isinstance(step.part, Attention) and step.part.heads for step in steps):
        return list(events)
    says = f"what its feed-forward network gives is not used{networks[0].where}" if networks else NO_NETWORK
    return behind_attentions(events, says)


NO_NETWORK = "no feed-forward network stands behind its attention"


def unused(wiring: Wiring, parts: Sequence[PartT]) -> list[PartT]:
    """Return sublayers that are computed before the output and have no part in it."""
    graph = wiring.graph
    used = {value.number for value in graph.ancestors(graph.output)}
    last = max((value.number for value in graph.owners(graph.output)), default=-1)
    return [part for part in parts if part.gives and part.gives.number < last and part.gives.number not in used]


def explain_bias(wiring: Wiring, part: Sublayer) -> None:
    """Give a sublayer whose results are not used the bias that is added to them."""
    for reader in wiring.graph.readers(part.gives) if part.gives else ():
        wiring.explain(reader)


def behind_attentions(events: Sequence["Norm | Step"], says: str) -> list["Norm | Step"]:
    """Put a network that gives 0 behind each attention, and behind the norm of it; ``says`` what is found of them."""
    found: list[Norm | Step] = []
    waiting: list[Step] = []
    for event in events:
        if not isinstance(event, Step):
            found += [event, *waiting]
            waiting = []
            continue
        assert isinstance(event.part, Attention)
        network = Step(absent_network(event.part.heads[0].W_Q.shape[0], says))
        # The first norm behind an attention is its own, where norms do not stand before it.
        found += [*waiting, event, *([network] if event.before else [])]
        waiting = [] if event.before else [network]
    return found + waiting


def before_networks(events: Sequence["Norm | Step"], attentions: list[Step]) -> list["Norm | Step"]:
    """Put an attention before each network, and before the norm between them, where norms stand behind sublayers."""
    found: list[Norm | Step] = []
    for event in events:
        if isinstance(event, Step):
            has_own = not event.before and bool(found) and isinstance(found[-1], Norm)
            found.insert(len(found) - has_own, attentions.pop(0))
        found.append(event)
    return found


def judge_added(found: Stream, graph: Graph, added: Sequence[tuple[Finding, Sequence[Value]]]) -> None:
    """Find parameters that enter with the input and are added again; others have no slot, and may be right.

    Args:
        found: the stream, with its source.
        graph: the computation.
        added: what would be found, and the parameters that are added.
    """
    source = None if found.source is None else found.source.value
    entering = set() if source is None else {value.number for value in graph.ancestors(source.codes)}
    for finding, parameters in added:
        if entering.issuperset(value.number for value in parameters):
            found.findings.append(finding)
        else:
            found.foreign.append(finding.says)


class Passed(NamedTuple):
    """Operations on a stream outside of its sublayers, the stream before them, and the parameters added to it."""

    stream: Node
    operations: str
    added: tuple[Value, ...]

    def __str__(self) -> str:
        """Say what happens to the stream."""
        names = ", ".join(value.name for value in self.added)
        return f"{names} is added to the stream" if names else f"the stream passes through {self.operations}"


def behind_operations(graph: Graph, node: Node) -> Passed | None:
    """Return the operations on each entry of the stream that belong to no sublayer, if a value comes of such.

    None if parameters have another part in it than to be added, or no sublayer stands before it.
    """
    if node.value is None:
        return None
    passed: list[Value] = []
    before: list[Node] = []
    added: dict[int, Value] = {}
    waiting = [node]
    while waiting:
        here = waiting.pop()
        if here.kind == "weights":
            assert isinstance(here.what, Tensor)
            added |= {v.number: v for v in graph.ancestors(here.what) if v.operation == "parameter"}
            continue
        if here in before or here.value in passed:
            continue
        may_pass = here.kind in ("unknown", "scaled", "sum", "difference") and here.parts and branch_in(here) is None
        if not may_pass or here.value is None or here.value.kind != "elementwise":
            before.append(here)
            continue
        is_sum = here.kind in ("sum", "difference")
        if not is_sum and any(graph.learned(read) and not graph.depends(read) for read in here.value.arrays):
            return None
        passed.append(here.value)
        waiting += here.parts
    if len(before) != 1 or not passed or not has_sublayer(before[0]):
        return None
    names = ", ".join(dict.fromkeys(value.operation for value in sorted(passed, key=lambda value: value.number)))
    return Passed(before[0], f"{names}{node.value.where}", tuple(added.values()))


def learned_factors(graph: Graph, node: Node) -> str:
    """Return the names of the parameters by which a stream with sublayers is multiplied; empty if it is not."""
    if node.kind != "unknown" or node.value is None or node.value.operation != "mul" or len(node.parts) != 1:
        return ""
    others = [read for read in node.value.arrays if not graph.depends(read)]
    named = {v.name: None for read in others for v in graph.ancestors(read) if v.operation == "parameter"}
    return ", ".join(named) if has_sublayer(node.parts[0]) else ""


def has_sublayer(node: Node) -> bool:
    """Return whether a value is what a sublayer gives, or a norm of that."""
    while node.kind == "norm":
        node = node.parts[0]
    return node.kind == "sublayer" or branch_in(node) is not None


def without_repetition(out: Node, rest: Node | None) -> tuple[Node | None, bool]:
    """Return the stream before a sublayer's result is added for the first time, and whether it is added again."""
    repeated = False
    while rest is not None and (before := branch_in(rest)) is not None and before.out.what is out.what:
        rest, repeated = before.rest, True
    return rest, repeated


def later(reads: Node, rest: Node) -> Node:
    """Return where the stream goes on: at what a sublayer is added to, or at what it reads, if that is made later.

    A second sum that takes the layer's input passes by the first sublayer, which the second one reads. That is so too
    where no residual connection goes around an attention.
    """
    summed = reads
    while summed.kind == "norm":
        summed = summed.parts[0]
    is_later = summed.value is not None and rest.value is not None and summed.value.number > rest.value.number
    is_attention = summed.kind == "sublayer" and isinstance(summed.what, Attention)
    return reads if is_later and (is_attention or branch_in(summed)) else rest


FROM_NORMED = "the residual connection starts from the normed value, not from the norm's input"


def arrange(found: Stream, events: list["Norm | Step"]) -> None:
    """Give each norm on the stream its place: before, between or behind the sublayers."""
    steps = [e for e in events if isinstance(e, Step)]
    found.steps = steps
    if not steps:
        return
    set_extra_apart(found, events)
    are_results_normed = place_norms_of_results(found, events)
    for norm, step in pairwise(list(events)):
        if found.is_pre and isinstance(step, Step) and step.before is None and isinstance(norm, Norm):
            if step is steps[0] and step.is_added and all(other.before is not None for other in steps[1:]):
                # The first layer reads what is normed already, as in ModernBERT: the norm is that of the embeddings.
                found.starts_bare = True
                continue
            # Without a residual connection the norm before a sublayer seems to stand on the stream.
            step.before = norm
            events.remove(norm)
            if step.is_added:
                found.findings.append(Finding("residual", f"{FROM_NORMED}{norm.value.where}"))
    first, last = events.index(steps[0]), events.index(steps[-1])
    before = [e for e in events[:first] if isinstance(e, Norm)]
    behind = [e for e in events[last + 1 :] if isinstance(e, Norm)]
    inner: list[list[Norm]] = []
    for a, b in pairwise(steps):
        inner.append([e for e in events[events.index(a) + 1 : events.index(b)] if isinstance(e, Norm)])
    if not found.is_pre and not are_results_normed:
        set_second_apart(found, [before, *inner], [*inner, behind])
    if len(before) > 1 or len(behind) > 1 + (not found.is_pre) or any(len(i) > 1 for i in inner):
        found.unread.append("several norms stand behind one another")
    if found.is_pre or are_results_normed:
        found.leading, found.trailing = first_of(before), first_of(behind)
        for step, norms in zip(steps, inner, strict=False):
            if norms:
                step.behind = norms[0]
        return
    if not behind and before and all(inner):
        # Each sublayer has a norm before it, which its residual takes too.
        for step, norms in zip(steps, [before, *inner], strict=True):
            step.before = norms[0]
        found.findings.append(Finding("residual", FROM_NORMED))
        return
    found.leading = first_of(before)
    for step, norms in zip(steps, [*inner, behind[:1]], strict=True):
        step.behind = first_of(norms) or step.behind
    found.trailing = first_of(behind[1:])


def place_norms_of_results(found: Stream, events: Sequence["Norm | Step"]) -> bool:
    """Give norms of what the sublayers give their places; return whether there are these alone.

    Then the layers are those of Swin Transformer V2. Most who write this mean Post-LN, so that it has to be declared.
    Beside norms before the sublayers each of them has one, or none.
    """
    normed = {step: step.of_result for step in found.steps if step.of_result is not None}
    all_normed = len(normed) == len(found.steps)
    if all_normed and found.is_pre:
        return False
    on_stream = [event for event in events[events.index(found.steps[0]) : -1] if isinstance(event, Norm)]
    variant = "res-post-ln" if all_normed and not on_stream else ""
    for step, norm in normed.items():
        says = f"what the {step.kind} gives is normed before it is added, not behind the sum{norm.value.where}"
        found.findings.append(Finding("layer" if variant else "residual", says, variant))
        step.of_result = None
        if found.is_pre:
            step.extra = norm
        else:
            step.behind = norm
    return bool(variant)


def set_second_apart(found: Stream, before: Sequence[list[Norm]], behind: Sequence[list[Norm]]) -> None:
    """Set the second of two norms before a sublayer apart, where norms stand behind them: the residual starts there.

    Without another one behind it, it is the norm of that sublayer.

    Args:
        found: the stream.
        before: the norms on it before each sublayer, of which the second one is taken away.
        behind: those behind each.
    """
    starts = [
        (step, norms, following)
        for step, norms, following in zip(found.steps, before, behind, strict=True)
        if len(norms) > 1 and step.extra is None and step.is_added
    ]
    if starts and len(before[0]) == 1 and not behind[0] and all(not following for *_, following in starts):
        # No norm of a sublayer stands before that of the first one.
        starts.insert(0, (found.steps[0], before[0], behind[0]))
    for step, norms, following in starts:
        second = norms.pop()
        found.findings.append(Finding("residual", f"{FROM_NORMED}{second.value.where}"))
        if following:
            step.extra = second
        else:
            step.behind = second


def set_extra_apart(found: Stream, events: Sequence["Norm | Step"]) -> None:
    """Set norms before some sublayers apart where norms stand behind all of them.

    With norms before and behind each sublayer an encoder has another order.
    """
    followed = [isinstance(after, Norm) for event, after in pairwise([*events, None]) if isinstance(event, Step)]
    normed = [step for step in found.steps if step.before is not None]
    if not all(followed) or not 0 < len(normed) < len(found.steps):
        return
    for step in normed:
        assert step.before is not None
        says = f"a norm stands before the {step.kind}, too, and behind every sublayer{step.before.value.where}"
        found.findings.append(Finding("layer", says))
        step.before, step.extra = None, step.before


def first_of(norms: list[Norm]) -> Norm | None:
    """Return the first of some norms, if there is one."""
    return norms[0] if norms else None

"""Reading what enters the first layer: look-ups, vectors, positions, segments, class tokens, patches, features."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations, product
from math import inf
from typing import Any

import torch
from torch import Tensor

from conformance_tests.computation.affine import NONE, Affine, affine
from conformance_tests.computation.constants import NEAR, SAME, is_kept_as
from conformance_tests.computation.convolutions import Stacked, read_convolution, read_stacked, read_surroundings
from conformance_tests.computation.feed_forward import linear, nearest_activation, unscaled
from conformance_tests.computation.graph import PLACES, Graph, Reads, Value, places
from conformance_tests.computation.images import Patches, tiling
from conformance_tests.computation.norm import CLOSE, Norm
from conformance_tests.computation.outer_norms import read_outer_norm
from conformance_tests.computation.shown import EncoderReading, Finding, Kind
from conformance_tests.computation.stream import Node, counted_in
from conformance_tests.computation.walking import along_axis, first_argument, is_even, paths, through, unchanged
from conformance_tests.computation.waveforms import read_stages
from encoder_spec.equation import variants
from encoder_spec.notation import SpecificationError

EXACT, STORED = 1e-9, 1e-5
"""How far sinusoids of few positions may be from the formula: in float64, and with angles computed in float32."""

ABSENT = ("feature_norm", "token_norm", "token_activation", "embedding_scale", "segment", "cls", "registers")
"""Slots of the input that are empty unless something is read that fills them."""

SINUSOIDS = ("sinusoidal", "sinusoidal-concatenated", "sinusoidal-tensor2tensor")

FEWEST_WAVING = 4
"""Fewer positions are on some wave whatever they are."""

LONGEST_SOUGHT = 64
"""So many rows of a table are held against sinusoids."""

MOST_SHIFTED = 4
"""From so many positions on the count of sinusoids is sought."""

CLASS_TOKENS = ("x_cls", "x_dist")
"""The class token and that of distillation, in order."""


def read_entrance(found: EncoderReading, source: Node, is_normed: bool) -> None:
    """Read what enters the first layer, the norm of the embeddings left out.

    Args:
        found: what is read.
        source: the embeddings.
        is_normed: whether a norm of them stands before the first layer: then they do not enter it as they are given.
    """
    if source.kind == "input" and not is_normed:
        found.choices["input"] = "given"
        return
    found.choices |= {"input": "embedded"} | dict.fromkeys(ABSENT, "none")
    for factor, term in summands(found.graph, read_surrounded(found, source)):
        read_term(found, factor, term)
    take_positions_into_registers(found)
    if found.images is not None and found.choices.get("position") == "learned-offset":
        # An offset leaves room for an id of padding, and patches have none.
        says = f"the table of positions is read from row {found.choices['position_offset']} on, and nothing reads row 0"
        found.findings.append(Finding("position", says, "learned-offset"))
    read_kinds(found)
    if "embedding" not in found.choices:
        found.unread.append(f"what enters its first layer is {source}")


def read_surrounded(found: EncoderReading, node: Node) -> Node:
    """Read positions that are a convolution of what they are added to, and return that; else return all."""
    graph = found.graph
    terms = [read for read in node.value.arrays if graph.depends(read)] if node.kind == "sum" and node.value else []
    for one, other in permutations(terms, 2) if len(terms) == len(node.parts) else ():
        convolved = read_surroundings(graph, one, other) if one.ndim == WITH_FEATURES else None
        rest = [part for part in node.parts if part.value is not graph.owner(one)]
        where = node.value.where if node.value else ""
        if convolved is None and one.ndim == WITH_FEATURES and len(rest) == 1:
            stacked = read_stacked(graph, one, other)
            if stacked is not None:
                take_stacked(found, stacked, where)
                found.placed = graph.numbers(one)
                return rest[0]
        if convolved is None or len(rest) != 1:
            continue
        K, d_group, _ = convolved.W.shape
        heard = f"{convolved.before} positions before it"
        # Other activations and other reaches are found in other encoders; half an even kernel has an end too many.
        if convolved.activation != "gelu":
            says = f"its positions are told by a convolution behind which no GELU stands{where}"
            found.foreign_input.append(says)
        if convolved.before == (K - 1) // 2 < K // 2:
            says = f"a position hears {heard}, where {K // 2} of {K} belong{where}"
            found.findings.append(Finding("position", says))
        elif convolved.before != K // 2:
            found.foreign_input.append(f"its positions are told by a convolution that hears {heard}, of {K}{where}")
        found.codes["W_pos"] = convolved.W
        if convolved.b is None:
            found.numbers["b_pos"] = torch.zeros(convolved.W.shape[-1], dtype=torch.float64)
        else:
            found.codes["b_pos"] = convolved.b
        found.choices["position"], found.placed = "convolution", graph.numbers(one)
        found.sizes |= {"kernel": K, "d_group": d_group}
        return rest[0]
    return node


def take_stacked(found: EncoderReading, stacked: Stacked, where: str) -> None:
    """Take up positions that several convolutions tell, one behind the other."""
    J, K, d_group, width = stacked.W.shape
    if stacked.before != K // 2:
        heard = f"{stacked.before} positions before it, of {K}"
        found.foreign_input.append(f"its positions are told by convolutions that hear {heard}{where}")
    found.codes["W_around"] = stacked.W
    if stacked.b is None:
        found.numbers["b_around"] = torch.zeros(J, width, dtype=torch.float64)
    else:
        found.codes["b_around"] = stacked.b
    found.choices["position"] = "convolutions"
    if abs(stacked.eps - float(found.choices.get("eps", stacked.eps))) > NEAR * stacked.eps:
        found.choices["position.eps"] = stacked.eps
    found.sizes |= {"convolutions": J, "kernel": K, "d_group": d_group}


def summands(
    graph: Graph, node: Node, factor: float = 1.0, in_sequence: Tensor | None = None
) -> Iterator[tuple[float, Node]]:
    """Yield the summands of a value, each with the number that multiplies it.

    Weights come with an entry for each one of the sequence: a table may be added to a grid of patches before these are
    put in a row.

    Args:
        graph: of which the value is.
        node: the value.
        factor: what multiplies it.
        in_sequence: the entries of the value as the sequence (B, n, d_model), if that is known.
    """
    if node.kind in ("sum", "difference"):
        entries = sequence_of(graph, node.value) if in_sequence is None else in_sequence
        for part, sign in zip(node.parts, (1, -1 if node.kind == "difference" else 1), strict=True):
            if part.kind == "weights" and entries is not None:
                assert isinstance(part.what, Tensor)
                yield sign * factor, replace(part, what=through(part.what, entries))
                continue
            ways = paths(graph, entries, part.value) if entries is not None and part.value is not None else iter(())
            yield from summands(graph, part, sign * factor, next(ways, None))
    elif node.kind == "scaled":
        yield from summands(graph, node.parts[0], factor * node.factor, in_sequence)
    else:
        yield factor, node


def sequence_of(graph: Graph, value: Value | None) -> Tensor | None:
    """Return the entries of a grid of positions as the sequence (B, n, d_model) that is read of it; None of no grid."""
    if value is None or len(value.shape) <= WITH_FEATURES:
        return None
    reads = (read for later in graph.values[value.number + 1 :] for read in later.arrays)
    samples, entries = value.shape[0], value.shape.numel()  # maps may read the positions of all samples in one axis
    as_sequence = (r for r in reads if r.ndim == WITH_FEATURES and len(r) == samples and r.numel() == entries)
    return next((read for read in as_sequence if graph.owner(read) is value), None)


def read_term(found: EncoderReading, factor: float, term: Node) -> None:
    """Read one summand."""
    if term.kind in ("map", "unknown") and term.value is not None and read_stem(found, term.value):
        return
    if term.kind == "look-up":
        read_lookup(found, factor, term)
    elif term.kind == "weights":
        assert isinstance(term.what, Tensor)
        find_multiplied(found, factor, term.what)
        read_constant(found, term.what)
    elif term.kind == "input":
        read_vectors(found, factor, term)
    elif term.kind == "map":
        assert isinstance(term.what, Affine)
        read_map(found, factor, term.what, term.parts[0])
    elif term.kind == "norm" and is_embedding(term.parts[0]):
        assert isinstance(term.what, Norm)
        read_norm_of(found, term.what, "token")
        read_behind(found, factor, term.parts[0], term)
    elif term.kind == "unknown" and (activated := activation_of(found.graph, term)) is not None:
        name, inner = activated
        found.choices["token_activation"] = "activation"
        if name != found.choices.get("activation"):
            found.choices["activation_token"] = name
        read_behind(found, factor, inner, term)
    elif term.kind == "side by side":
        assert isinstance(term.what, Tensor)
        read_side_by_side(found, term)
    else:
        found.unread.append(f"what enters its first layer has a part that is {term}")


def is_embedding(node: Node) -> bool:
    """Return whether a value may be an embedding as it is: what scales it before its norm has no slot."""
    return node.kind in ("look-up", "input") or (isinstance(node.what, Affine) and node.what.factor() == 1)


def read_behind(found: EncoderReading, factor: float, inner: Node, term: Node) -> None:
    """Read the embedding that a norm or an activation follows; anything else that they follow has no slot."""
    known = "embedding" in found.choices
    read_term(found, factor, inner)
    if known or "embedding" not in found.choices:
        found.unread.append(f"what enters its first layer has a part that is {term}")


def read_norm_of(found: EncoderReading, norm: Norm, what: str) -> None:
    """Read the norm of the features, or of each token; one that no equation gives has no slot here."""
    if norm.form:
        read_outer_norm(found, norm, f"norm_{what}", f"{what}_norm")
    else:
        says = f"before its first layer a norm gives other numbers than any of the specification{norm.value.where}"
        found.unread.append(says)


def activation_of(graph: Graph, term: Node) -> tuple[str, Node] | None:
    """Return the activation whose result a value is, and what it reads: an embedding, or the norm of one."""
    assert term.value is not None
    found = behind_activation(term)
    reads = {node.what.products[0].number if isinstance(node.what, Affine) else id(node): node for node in found}
    inner = next(iter(reads.values()), None)
    if len(reads) != 1 or inner is None or inner.value is None or inner.value is term.value:
        return None  # what is at least 0, as a maximum of such, would be the ReLU of itself
    if inner.value.shape.numel() != term.value.shape.numel():
        return None
    # A map may give its rows in another arrangement.
    codes = next(iter(paths(graph, term.value.codes, inner.value)), None)
    if codes is None:
        return None
    given = graph.numbers(codes)
    found_anew = affine(graph, codes) if isinstance(inner.what, Affine) else None
    if found_anew is not None:
        plain = unscaled(found_anew)
        given, inner = linear(graph, plain), replace(inner, what=plain)
    name, _, off, _ = nearest_activation(graph.numbers(term.value.codes), [given])
    return (name, inner) if off <= CLOSE else None


def behind_activation(node: Node) -> Iterator[Node]:
    """Yield the embeddings and norms behind operations on single entries, and whatever else stands there."""
    if node.kind == "weights":
        return
    if node.kind in ("unknown", "scaled", "sum", "difference") and node.parts:
        for part in node.parts:
            yield from behind_activation(part)
    else:
        yield node


def read_lookup(found: EncoderReading, factor: float, term: Node) -> None:
    """Read a look-up: of tokens or segments by an argument itself, of positions by what is computed of one."""
    graph = found.graph
    assert term.value is not None
    table, *indices = term.value.arrays
    index = unchanged(graph, indices[-1])
    owner = graph.owner(index)
    by_argument = owner is not None and owner.operation == "argument"
    if term.value.options.get("axis") not in (0, None) or table.ndim != 2:
        found.unread.append(f"a look-up along another axis{term.value.where}")
    elif by_argument and owner is not None:
        first = owner is first_argument(graph)
        if not first and is_count(graph.numbers(index)):
            find_multiplied(found, factor, table[: index.shape[-1]])
            read_positions(found, table[: index.shape[-1]], table)
            return
        unlearned = term.value.options.get("unlearned")
        if not first:
            numbers = graph.numbers(index).long().unique().tolist()
            found.kinds.append(Kind(owner.number, factor, table, numbers, unlearned, term.value.where))
            return
        if "E" in found.codes:
            if torch.equal(found.codes["E"], table):
                says = f"the token embedding is added more than once{term.value.where}"
                found.findings.append(Finding("embedding", says))
            else:
                found.unread.append(f"its tokens are looked up in several tables{term.value.where}")
            return
        found.codes["E"] = table
        if unlearned is not None:
            found.unlearned["E"] = unlearned
        read_scale(found, factor, table.shape[1], shared_id(graph, term.value))
        found.choices["embedding"] = "lookup"
    else:
        rows = graph.numbers(index).long()
        given = first_argument(graph)
        sequences = () if given is None else given.shape[:2]  # of ids, or of vectors
        if len(sequences) == 2 and rows.numel() == sequences[0] * sequences[1]:
            rows = rows.reshape(sequences)  # indices of all sequences may stand in one axis
        rows = rows.reshape(-1, rows.shape[-1])
        if not bool((rows == rows[:1]).all()):
            found.unread.append(f"rows of a table are chosen by what is computed of the input{term.value.where}")
            return
        find_multiplied(found, factor, table[rows[0]])
        if rows.shape[1] > 1 and bool((rows[0] == rows[0, 0]).all()):
            read_constant(found, table[rows[0]])  # whatever the input is, the same row
        else:
            read_positions(found, table[rows[0]], table)


def read_kinds(found: EncoderReading) -> None:
    """Read the tables of what else the tokens are: segments, and further kinds of ids.

    The specification has one such table. Where every token is of one further kind, its row is added to all rows of the
    table of tokens.
    """
    if not found.kinds:
        return
    segments, *others = sorted(found.kinds, key=lambda kind: kind.order)
    found.codes["E_seg"], found.choices["segment"] = segments.table, "added"
    if segments.unlearned is not None:
        found.unlearned["E_seg"] = segments.unlearned
    choices = found.choices
    behind = (choices.get(slot, "none") for slot in ("embedding_scale", "token_norm", "token_activation"))
    is_plain = choices.get("embedding") == "lookup" and set(behind) == {"none"}
    for kind in others:
        if is_plain and len(kind.rows) == 1 and kind.factor == 1:
            row = kind.table[kind.rows].expand_as(found.codes["E"])
            found.codes["E"] = sum_of_weights(found.graph, found.codes["E"], row)
            found.unlearned.pop("E", None)  # by what is computed of parameters there are no gradients to compare
        else:
            found.unread.append(f"its tokens are looked up in several tables{kind.where}")


def sum_of_weights(graph: Graph, one: Tensor, other: Tensor) -> Tensor:
    """Return the codes of a sum of weights, which stands behind everything that the encoder computes."""
    data, learned = graph.numbers(one) + graph.numbers(other), graph.learned(one) or graph.learned(other)
    graph.values.append(Value(len(graph.values), "add", Reads((one, other)), data, "elementwise", learned=learned))
    return graph.values[-1].codes


def is_count(numbers: Tensor) -> bool:
    """Return whether each sequence counts from 0, and has several numbers."""
    return numbers.shape[-1] > 1 and bool((numbers == torch.arange(numbers.shape[-1])).all())


def find_multiplied(found: EncoderReading, factor: float, codes: Tensor) -> None:
    """Say by which number positions or a segment are multiplied, if they are: sinusoids are wrong then."""
    if factor == 1:
        return
    rows = codes[0] if codes.ndim == WITH_FEATURES else codes
    if not found.graph.learned(rows) and is_of_sinusoids(found.graph.numbers(rows), rows.shape[-1]):
        found.findings.append(Finding("position", f"the sinusoids are multiplied by {factor:.6g}"))
    else:
        found.unread.append(f"what is added to the tokens is multiplied by {factor:.6g}")


MOST_SPECIAL = 3
"""An input that is compared with more numbers than these is compared with all of a vocabulary, to mark what it is."""


def special_ids(graph: Graph) -> frozenset[int]:
    """Return the ids with which the computation compares its input: such as that of padding, or of a mask."""
    given = first_argument(graph)
    if given is None or given.dtype.is_floating_point:
        return frozenset()
    compared = (v.reads for v in graph.values if v.operation in ("eq", "ne") and len(v.reads) == 2)
    pairs = (pair for reads in compared for pair in (reads, reads[::-1]))
    against = (other for x, other in pairs if isinstance(x, Tensor) and graph.owner(x) is given)
    numbers = (graph.numbers(other).unique().tolist() for other in against if not graph.depends(other))
    return frozenset(int(n) for each in numbers if len(each) <= MOST_SPECIAL for n in each)


def reads_any(graph: Graph, ids: frozenset[int]) -> bool:
    """Return whether some of these ids are among those that a computation is of."""
    given = first_argument(graph)
    return bool(ids) and given is not None and not ids.isdisjoint(graph.numbers(given.codes).long().unique().tolist())


def tables_by_argument(graph: Graph) -> dict[str, tuple[str, ...]]:
    """Return the names of the parameters whose rows each argument itself numbers, the first argument first."""
    found: dict[str, dict[str, None]] = {v.name: {} for v in graph.values if v.operation == "argument"}
    for table, *rest in (v.arrays for v in graph.values if v.operation == "look-up"):
        by, owner = graph.owner(unchanged(graph, rest[-1])), graph.owner(table)
        if by is not None and by.operation == "argument" and owner is not None and owner.operation == "parameter":
            found[by.name][owner.name] = None
    return {argument: tuple(tables) for argument, tables in found.items()}


def unlearned_rows(graph: Graph) -> dict[str, int]:
    """Return the row that is not learned, of a table whose rows an argument itself numbers, by that argument."""
    found: dict[str, int] = {}
    for look_up in (v for v in graph.values if v.operation == "look-up"):
        by, row = graph.owner(unchanged(graph, look_up.arrays[-1])), look_up.options.get("unlearned")
        if by is not None and by.operation == "argument" and row is not None:
            found[by.name] = row
    return found


def shared_id(graph: Graph, tokens: Value) -> int | None:
    """Return the id by whose share in a sequence its tokens are multiplied or divided; None if none is counted."""
    for value in (v for v in graph.values if v.shape == tokens.shape):
        counted = counted_in(graph, value)
        if counted is not None and any(v is tokens for v in graph.ancestors(value.codes)):
            compared = (v.reads for v in graph.ancestors(counted) if v.operation in ("eq", "ne"))
            ids = {int(read) for reads in compared for read in reads if not isinstance(read, Tensor)}
            return ids.pop() if len(ids) == 1 else None
    return None


def read_scale(found: EncoderReading, factor: float, width: int, shared: int | None = None) -> None:
    """Read by what the tokens are multiplied.

    Args:
        found: takes it up.
        factor: where no token has a special id.
        width: of the embeddings.
        shared: the id by whose share they are multiplied, too.
    """
    root = width**0.5
    if shared is not None and 0 < factor <= 1:
        found.choices |= {"embedding_scale": "token-dropout", "mask_token_id": shared, "masked_share": 1 - factor}
        return
    if is_kept_as(factor, root) and factor != 1:
        found.choices["embedding_scale"] = "sqrt-d-model"
        if abs(factor / root - 1) > SAME:
            found.kept["embedding_scale"] = factor
    elif factor != 1:
        found.choices["embedding_scale"] = "none"
        says = f"the token embedding is multiplied by {factor:.6g}, where 1 or √{width} belongs"
        found.findings.append(Finding("embedding_scale", says))


ONE_FOR_ALL = "one vector is added to every token"
"""The statement on what tells no positions, though it stands in their place."""


def read_constant(found: EncoderReading, codes: Tensor) -> None:
    """Read what is added to every sequence: positions, or one row of a table of segments."""
    graph = found.graph
    codes = features_last(by_sequence(graph, codes), found.sizes.get("d_model"))
    shape = codes.shape
    along = 0
    while codes.ndim > 2 and bool((codes == codes[:1]).all()):
        codes, along = codes[0], along + 1
    if codes.ndim > 2 and bool((codes == codes[:, :1]).all()):
        codes = codes[:, 0]
    if codes.ndim == 2 and len(shape) == 3 and not bool((codes == codes[:1]).all()):
        found.position_axis = shape, along
    if codes.ndim != 2:
        found.unread.append("what is added to the tokens differs from sequence to sequence")
        return
    owner = graph.owner(codes)
    if bool((codes == codes[:1]).all()) and len(codes) > 1:
        of_table = owner is not None and owner.operation == "parameter" and owner.shape.numel() > codes.shape[-1]
        given = first_argument(graph)
        if of_table and given is not None and given.dtype.is_floating_point:
            # Only ids have segments; a table of several rows for anything else is one of positions.
            assert owner is not None
            read_positions(found, codes, owner.codes.reshape(-1, codes.shape[-1]))
        elif owner is not None and owner.operation == "parameter":
            table = owner.codes.reshape(-1, codes.shape[-1])
            rows = (table == codes[0]).all(-1).nonzero().flatten().tolist()
            found.kinds.append(Kind(inf, 1, table, rows))
        elif owner is not None and owner.operation == "constant" and is_of_sinusoids(owner.data, codes.shape[-1]):
            found.findings.append(Finding("position", "the same row of the sinusoids is added to every token"))
        elif bool(graph.numbers(codes[0]).any()):
            found.unread.append(ONE_FOR_ALL)
        return
    is_kept = owner is not None and owner.operation in ("parameter", "constant")
    read_positions(found, codes, rows_of(owner, codes) if owner is not None and is_kept else None)


def rows_of(table: Value, codes: Tensor) -> Tensor | None:
    """Return a table as rows of features, whichever axis these stand along; None if it is none of such rows.

    Args:
        table: the array that holds it.
        codes: entries (n, d_model) of some of its rows.
    """
    shape, width = table.shape, codes.shape[-1]
    first = places(codes[0])
    along = [axis for axis in range(len(shape)) if not is_even(along_axis(first, shape, axis))]
    if len(along) == 1 and shape[along[0]] == width:
        return table.codes.movedim(along[0], -1).reshape(-1, width)
    return table.codes.reshape(-1, width) if table.shape.numel() % width == 0 else None


def features_last(codes: Tensor, width: int | None) -> Tensor:
    """Return what is added to tokens with its features last: code for convolutions has them before the positions."""
    axes = [axis for axis, size in enumerate(codes.shape) if size == width]
    return codes.movedim(axes[0], -1) if len(axes) == 1 else codes


def by_sequence(graph: Graph, codes: Tensor) -> Tensor:
    """Return rows of all sequences that stand in one axis, one sequence behind the other or in turn, as (B, n, d)."""
    given = first_argument(graph)
    sizes = () if given is None else given.shape[:2]  # of ids, or of vectors
    if codes.ndim != 2 or len(sizes) != 2 or len(codes) != sizes[0] * sizes[1]:
        return codes
    apart = codes.reshape(*sizes, -1)
    in_turn = codes.reshape(*reversed(sizes), -1).transpose(0, 1)
    return in_turn if torch.equal(in_turn, in_turn[:1].expand_as(in_turn)) else apart


def read_positions(found: EncoderReading, codes: Tensor, table: Tensor | None) -> None:
    """Read positions: the rows that are added to the sequence, and the table that they come from."""
    graph = found.graph
    numbers = graph.numbers(codes)
    if found.placed is not None:
        if torch.equal(found.placed, numbers):
            found.findings.append(Finding("position", "the same positions are added more than once"))
        else:
            found.unread.append("several kinds of positions are added")
        return
    found.placed = numbers
    layout = sinusoid(numbers)
    if layout is not None:
        name, shift, exact = layout
        if shift and variants("position")[name].constants:
            found.choices["position_offset"] = shift  # this layout may be counted from any number
        elif shift:
            found.findings.append(Finding("position", f"the sinusoids are counted from {shift}, not from 0"))
        if exact or (shift and not variants("position")[name].constants):
            found.choices["position"] = name
            return
    owner = None if table is None else graph.owner(table)
    if layout is None and not graph.learned(codes):
        is_frozen = owner is not None and owner.operation == "parameter"
        read_fixed(found, numbers if table is None else graph.numbers(table), is_frozen)
    if table is None:
        if graph.learned(codes):
            found.codes["P"] = codes  # computed of other parameters, as where a table is stretched or multiplied
            find_bare(found, numbers)
        else:
            found.numbers["P"] = numbers
        found.made_for = len(numbers)
        found.choices["position"] = "learned"
        return
    rows = row_numbers(codes, table)
    if rows is None:
        found.unread.append("positions are not rows of a table")
        return
    first, in_turn = int(rows[0]), bool((rows.diff() == 1).all())
    if not in_turn:
        read_rows = ", ".join(map(str, rows.tolist()))
        found.findings.append(Finding("position", f"positions 0, 1, 2, … read rows {read_rows} of their table"))
    elif first and layout is None and sinusoid(graph.numbers(table[:4])) is not None:
        found.findings.append(Finding("position", f"the sinusoids are counted from {first}, not from 0"))
    found.choices["position"] = "learned"
    if first and in_turn and (graph.learned(codes) or layout is not None):
        found.choices |= {"position": "learned-offset", "position_offset": first}
    if owner is not None and owner.operation == "parameter":
        found.codes["P"] = table
    else:
        found.numbers["P"] = graph.numbers(table)


def find_bare(found: EncoderReading, positions: Tensor) -> None:
    """Say of which position, or in which feature, nothing that is learned arrives; sinusoids are 0 here and there."""
    nothing = positions == 0
    bare, features = nothing.all(1).nonzero(), nothing.all(0).nonzero()
    if len(bare):
        says = f"nothing that is learned of position {int(bare[0])} arrives: it is multiplied by 0, or replaced"
    elif len(features) and len(positions) > 1:
        says = f"of what is learned of positions nothing arrives in feature {int(features[0])}: it is multiplied by 0"
    else:
        return
    found.findings.append(Finding("position", says))


def is_of_sinusoids(table: Tensor, width: int) -> bool:
    """Return whether an array holds sinusoids of this width for several positions."""
    rows = table.reshape(-1, width)[:LONGEST_SOUGHT] if table.numel() % width == 0 else table[:0]
    return len(rows) > 1 and sinusoid(rows) is not None


WAVES = 1e-5
"""How far a wave of amplitude 1 that is stored in float32 may be from v(p + 1) + v(p − 1) = 2 cos ω · v(p)."""


ANGLES = 2**-20
"""How much further it may be off with every position: an angle in float32 is off by 2⁻²⁴ of its size, in four terms."""


FIXED_NUMBERS = "its positions are fixed numbers, which no slot of the specification has"


def read_fixed(found: EncoderReading, table: Tensor, is_frozen: bool) -> None:
    """Say of positions that are neither learned nor sinusoids of the specification what they are.

    A frozen parameter may have been learned before, unless it is made of waves. Tables are often copied whose first
    row, of zeros, was once that of padding.
    """
    has_first = len(table) == 1 or bool(table[0].any())
    table = table if has_first else table[1:]
    if sinusoid(table[:LONGEST_SOUGHT]) is not None:
        if not has_first:
            found.findings.append(Finding("position", "the first row of the sinusoids is 0"))
        return
    times = float((2 * table.square().mean()).sqrt())  # a sine and a cosine of one angle have squares that sum to 1
    if times and sinusoid(table[:LONGEST_SOUGHT] / times) is not None:
        found.findings.append(Finding("position", f"the sinusoids are multiplied by {times:.6g}"))
        return
    if are_waves(table):
        says = (
            f"the positions are sinusoids with other frequencies or phases than the formula gives{first_apart(table)}"
        )
        found.findings.append(Finding("position", says))
    elif not is_frozen:
        found.foreign_input.append(FIXED_NUMBERS)


OF_GRIDS = ("sinusoidal-grid", "sinusoidal-grid-inclusive")
"""Variants of the positions that tell the rows and columns of patches."""


def read_sinusoids_of_grid(found: EncoderReading, rows: int, columns: int) -> None:
    """Read fixed positions as sinusoids of the rows and columns of patches, if they are such.

    In a table that float32 has rounded they are compared as they are stored. Where each call makes them in float32, for
    the image that it is given, all is compared in that precision. A frozen parameter that holds them is kept as it is;
    it may have been learned before, unless it is made of waves along rows and columns.
    """
    is_frozen = "P" in found.codes and not found.graph.learned(found.codes["P"])
    table = found.graph.numbers(found.codes["P"]) if is_frozen else found.numbers.get("P")
    is_fixed = is_frozen or FIXED_NUMBERS in found.foreign_input
    if table is None or not is_fixed or len(table) < rows * columns:
        return
    for name, order in product(OF_GRIDS, variants("axes")):
        axes = variants("axes")[order].function
        want = layout(name, *table.shape, axes=axes, rows=rows, columns=columns)
        off = float("inf") if want is None else float((table - want).abs().max())
        if off <= STORED * max(rows, columns):
            found.foreign_input = [said for said in found.foreign_input if said != FIXED_NUMBERS]
            if not is_frozen and (off <= EXACT or found.made_for):
                found.is_rounded |= off > EXACT
                found.choices |= {"position": name, "axes": order}
                del found.numbers["P"]
            return
    if are_waves_of_grid(table[-rows * columns :].unflatten(0, (rows, columns))):
        says = "the positions tell rows and columns of patches by other numbers than the sinusoids of the formula"
        found.findings.append(Finding("position", says))
        found.foreign_input = [said for said in found.foreign_input if said != FIXED_NUMBERS]


def are_waves_of_grid(table: Tensor) -> bool:
    """Return whether each feature of a table (rows, columns, d_model) is a wave along one axis alone.

    Both axes must have such.
    """
    same = [(table == table.select(axis, 0).unsqueeze(axis)).flatten(0, 1).all(0) for axis in (0, 1)]
    waves = [along.any() and are_waves(table.select(axis, 0)[:, along]) for axis, along in enumerate(same)]
    return bool((same[0] | same[1]).all()) and all(waves)


def are_waves(table: Tensor) -> bool:
    """Return whether the features of a table (positions, d_model) are waves of amplitude 1, of whatever frequencies."""
    here, beside = table[1:-1], table[2:] + table[:-2]
    twice_cos = (here * beside).sum(0) / (here * here).sum(0).clamp(min=WAVES**2)
    allowed = WAVES + ANGLES * torch.arange(len(here), dtype=torch.float64)[:, None]
    waves = len(table) >= FEWEST_WAVING and bool(((beside - twice_cos * here).abs() <= allowed).all())
    one_for_all = bool((table == table[:, :1]).all())  # no two features differ, as those of any sinusoids do
    return waves and not one_for_all and bool((table.abs() <= 1 + WAVES).all())


def is_table_of_waves(array: Tensor) -> bool:
    """Return whether an array is a table of sinusoids, perhaps with axes of size 1."""
    table = array.squeeze()
    return table.ndim == 2 and are_waves(table)


def first_apart(table: Tensor) -> str:
    """Say in which column a table leaves the layout of sinusoids that it is nearest to."""
    near: list[tuple[int, str]] = []
    for name in SINUSOIDS:
        want = layout(name, *table.shape)
        if want is not None:
            same = ((table - want).abs().amax(0) <= STORED * len(table)).tolist()
            near.append(((same + [False]).index(False), name))
    column, name = max(near, default=(0, ""), key=lambda one: one[0])
    return f": {name} up to column {column}" if column else ""


def row_numbers(codes: Tensor, table: Tensor) -> Tensor | None:
    """Return which row of a table each row of codes is."""
    first = {int(code): row for row, code in enumerate(table[:, 0].tolist())}
    rows = [first.get(int(code), NONE) for code in codes[:, 0].tolist()]
    if NONE in rows:
        return None
    found = torch.tensor(rows)
    return found if torch.equal(table[found], codes) else None


def sinusoid(numbers: Tensor) -> tuple[str, int, bool] | None:
    """Return the layout of sinusoids, from which position they are counted, and whether they are exact."""
    n, width = numbers.shape
    for shift in range(MOST_SHIFTED):
        for name in SINUSOIDS:
            want = layout(name, n + shift, width)
            if want is None:
                continue
            off = float((numbers - want[shift:]).abs().max())
            if off <= STORED * (n + shift):
                return name, shift, off <= EXACT
    return None


def layout(name: str, n: int, width: int, **supplied: Any) -> Tensor | None:
    """Return the sinusoids (n, width) of a layout; None if it has none of this width.

    Other constants than those that are supplied are 0.
    """
    equation = variants("position")[name]
    try:
        given = torch.zeros(1, n, width, dtype=torch.float64)
        table: Tensor = equation.function(given, **dict.fromkeys(equation.constants, 0) | supplied)
    except SpecificationError:
        return None
    return table


def read_vectors(found: EncoderReading, factor: float, term: Node) -> None:
    """Read vectors that are given, to which something is added."""
    assert term.value is not None
    if "embedding" in found.choices:
        found.findings.append(Finding("embedding", f"what is given is added more than once{term.value.where}"))
        return
    if term.value is not first_argument(found.graph) or len(term.value.shape) != WITH_FEATURES:
        found.unread.append(f"what enters its first layer has a part that is {term}")
        return
    found.choices["embedding"] = "vectors"
    found.sizes["d_e"] = term.value.shape[-1]
    read_scale(found, factor, found.sizes["d_e"])


NORM_OF_FEATURES = ("norm_feature.gamma", "norm_feature.beta")
"""Parameters with an entry for each one of a patch, whose order is that of the patch's entries."""

OF_NUMBERS, WITH_FEATURES, WITH_CHANNELS = 2, 3, 4
"""The number of axes of a batch of sequences of numbers, of such of vectors, and of a batch of images."""


def read_map(found: EncoderReading, factor: float, what: Affine, given: Node) -> None:
    """Read a map of what is given, or of its norm: patches of an image, or the features at every position."""
    product = what.products[0]
    rows = product.reads[0]
    assert isinstance(rows, Tensor)
    norm = given.what if isinstance(given.what, Norm) else None
    if norm is not None and norm.reads.shape == norm.value.shape:
        rows = through(norm.reads, rows)
        read_norm_of(found, norm, "feature")
    owner = found.graph.owner(rows)
    is_computed = owner is not None and owner.operation != "argument" and "embedding" not in found.choices
    if is_computed and read_waveform(found, factor, what, rows):
        return
    if owner is None or owner.operation != "argument" or "embedding" in found.choices:
        found.unread.append(f"what enters its first layer is a map of something computed{product.where}")
    elif len(owner.shape) == WITH_CHANNELS and len(rows) == 1:
        patches = tiling(places(rows[0]), owner.shape)
        if patches is None:
            found.unread.append("its patches are not rectangles that tile the image")
        else:
            read_patches(found, what, patches)
    elif len(owner.shape) in (WITH_FEATURES, OF_NUMBERS) and owner is first_argument(found.graph):
        read_features(found, factor, what, rows, owner)
    else:
        found.unread.append(f"what enters its first layer is a map of something else than its input{product.where}")


def read_waveform(found: EncoderReading, factor: float, what: Affine, rows: Tensor) -> bool:
    """Read a map of what the stages of a sound give; return whether a sound passes such."""
    samples, scale = first_argument(found.graph), what.factor()
    if samples is None or scale is None or len(rows) > 1 or rows.shape[1] % samples.shape[0]:
        return False
    if not read_stages(found, rows[0].reshape(samples.shape[0], -1, rows.shape[2])):
        return False
    found.codes["W_feature"], bias = what.map_and_bias()
    if bias is None:
        found.numbers["b_feature"] = torch.zeros(found.codes["W_feature"].shape[1], dtype=torch.float64)
    else:
        found.codes["b_feature"] = bias
    read_scale(found, factor * scale, found.codes["W_feature"].shape[1])
    return True


def read_features(found: EncoderReading, factor: float, what: Affine, rows: Tensor, owner: Value) -> None:
    """Read a map of the last axis of what is given, which is the same at every position; or of patches of a signal."""
    where, scale = what.products[0].where, what.factor()
    shape = owner.shape if len(owner.shape) == WITH_FEATURES else (*owner.shape, 1)
    C = shape[-1]
    at = places(rows).reshape(-1, rows.shape[-1])
    if not torch.equal(at, C * (at[:, :1] // C) + torch.arange(C)):
        patches = tiling(at, shape)
        if patches is not None:
            read_patches(found, what, patches)
            return
        if len(owner.shape) == OF_NUMBERS or not is_mixed(at, owner):
            found.unread.append(f"what enters its first layer is a map along another axis than the last one{where}")
            return
        says = f"a position reads numbers of several: time and features are exchanged by a reshape{where}"
        found.findings.append(Finding("embedding", says))
    if scale is None:
        found.unread.append(f"the map of its features is multiplied by a number, and its bias is not{where}")
        return
    found.codes["W_feature"], bias = what.map_and_bias()
    if bias is not None:
        found.codes["b_feature"] = bias
    found.choices["embedding"] = "features-without-bias" if bias is None else "features"
    found.sizes |= {"channels": C}
    read_scale(found, factor * scale, found.codes["W_feature"].shape[1])


def is_mixed(at: Tensor, of: Value) -> bool:
    """Return whether rows that hold each number once, as many as a position has, are of several positions and features.

    A map over time reads one feature, and a stretch of time is read as a longer row.
    """
    C = of.shape[-1]
    if at.shape[1] != C or at.numel() != of.shape.numel() or at.unique().numel() < at.numel():
        return False
    return all(bool((which != which[:, :1]).any()) for which in (at // C, at % C))


def read_patches(found: EncoderReading, what: Affine, patches: Patches) -> None:
    """Read a map of patches of an image; its entries are put in the order channel, row, column."""
    W_patch, bias = what.map_and_bias()
    found.codes.update({"W_patch": W_patch[patches.order]} | ({} if bias is None else {"b_patch": bias}))
    for held in (found.codes, found.numbers):
        held.update({path: held[path][patches.order] for path in NORM_OF_FEATURES if path in held})
    found.choices["embedding"] = "patches-without-bias" if bias is None else "patches"
    found.sizes |= {"patch": patches.height, "patch_width": patches.width, "channels": patches.channels}
    found.images = patches.axes, patches.shape


def read_stem(found: EncoderReading, value: Value) -> bool:
    """Read the two convolutions of an encoder of sounds; return whether a value comes out of such."""
    second = read_convolution(found.graph, value.codes)
    first = None if second is None else read_convolution(found.graph, second.reads.codes)
    if first is None or second is None or first.reads.operation != "argument":
        return False
    if (first.step, second.step) != (1, 2):
        found.unread.append(f"its convolutions move in steps of {first.step} and {second.step}")
    for which, convolution in (("first", first), ("second", second)):
        if convolution.activation != "gelu":
            found.findings.append(Finding("embedding", f"GELU does not stand behind the {which} convolution"))
    for name, convolution in (("conv", first), ("step", second)):
        found.codes[f"W_{name}"] = convolution.W
        if convolution.b is None:
            found.numbers[f"b_{name}"] = torch.zeros(convolution.W.shape[-1], dtype=torch.float64)
        else:
            found.codes[f"b_{name}"] = convolution.b
    found.choices["embedding"] = "convolutions"
    found.sizes["channels"] = first.W.shape[1]
    return True


def read_side_by_side(found: EncoderReading, term: Node) -> None:
    """Read learned vectors that stand beside the tokens: class tokens and registers."""
    graph = found.graph
    codes = term.what
    assert isinstance(codes, Tensor)
    codes = codes[None] if codes.ndim == WITH_FEATURES - 1 else codes  # one sequence without a batch
    if codes.ndim != WITH_FEATURES or len(term.parts) != 1:
        found.unread.append(f"several parts stand side by side ({term})")
        return
    # Behind registers a class token may have a position: then it is computed, and read with the tokens.
    has_classes = any(part.kind == "side by side" for part in term.parts[0].parts)
    kept = [v.operation != "parameter" if has_classes else v.depends for v in graph.values]
    outside = ~torch.tensor(kept)[codes >> PLACES].all(dim=-1)
    if bool(outside.all(dim=1).any()) and not bool(outside.all(dim=0).any()):
        codes, outside = codes.transpose(0, 1), outside.T  # the positions come first
    beside = outside.any(dim=0)
    tokens = (~beside).nonzero().flatten()
    behind = codes[:, tokens]
    # Those before the first token are one part, and all others the other: neither may be interrupted by tokens.
    is_before = torch.arange(len(beside)) < int(tokens[0]) if len(tokens) else beside
    parts = [places for which in (is_before, ~is_before) if len(places := (beside & which).nonzero().flatten())]
    if not parts or any(int(places[-1] - places[0]) >= len(places) for places in parts):
        found.unread.append("something other than class tokens and registers stands beside the tokens")
        return
    if not any(graph.learned(codes[:, places]) for places in parts):
        found.unread.append("constants stand beside the tokens, with which a sequence is filled up")
        is_nothing = not bool(graph.numbers(codes[:, beside]).any())  # other numbers may be a class token's
        found.filled = frozenset(beside.nonzero().flatten().tolist() if is_nothing else ())
        return
    is_placed = "position" in found.choices
    for factor, part in summands(graph, term.parts[0], in_sequence=None if graph.owner(behind) is None else behind):
        read_term(found, factor, part)
    with_positions = is_placed or "position" not in found.choices
    earlier = 0
    for places in parts:
        read_learned(found, codes[0, places], int(places[0]) - earlier, len(tokens), with_positions=with_positions)
        earlier += len(places)


def read_learned(found: EncoderReading, vectors: Tensor, first: int, others: int, *, with_positions: bool) -> None:
    """Read learned vectors beside the tokens: class tokens get positions where tokens do, and registers none.

    Args:
        found: takes them up, and has what stands behind them already.
        vectors: their codes.
        first: the place of the first one of them in the sequence.
        others: how many others stand there.
        with_positions: whether what is added to the tokens is added to them, too, or nothing is added to either.
    """
    own = len(class_tokens(found))
    if own or not with_positions:
        classes, registers = vectors[:0], vectors
    else:
        # Without positions nothing tells class tokens from registers, of which there are several.
        classes, registers = (vectors, vectors[:0]) if len(vectors) <= len(CLASS_TOKENS) else (vectors[:1], vectors[1:])
    for path, codes in zip(CLASS_TOKENS, classes, strict=False):
        found.codes[path] = codes
        found.choices["cls"] = "cls" if path == CLASS_TOKENS[0] else "cls-and-distillation"
    if len(registers):
        found.registers_are_placed = with_positions
        found.codes["X_reg"], found.sizes["r"] = registers, len(registers)
        found.choices["registers"] = "registers-behind" if first == others else "registers"
    if len(classes) and first:
        found.findings.append(Finding("cls", "the class token does not stand before the positions"))
    elif first not in (own, others):
        where = "before the class token" if first < own else "among the tokens"
        found.findings.append(Finding("registers", f"the registers stand {where}"))


def take_positions_into_registers(found: EncoderReading) -> None:
    """Read registers that get positions as those without which they are with them: a sum of two vectors is a vector."""
    are_behind = found.choices["registers"] == "registers-behind"
    # Behind a sentence they have other positions in each call.
    if not found.registers_are_placed or "P" not in found.codes or (are_behind and found.images is None):
        return
    table, registers = found.codes["P"], found.codes["X_reg"]
    assert found.placed is not None
    first = len(found.placed) - len(registers) if are_behind else len(class_tokens(found))
    last = first + len(registers)
    found.codes["X_reg"] = found.graph.with_sum(registers, table[first:last])
    found.codes["P"] = torch.cat([table[:first], table[last:]])


def class_tokens(found: EncoderReading) -> list[str]:
    """Return which class tokens are read."""
    return [path for path in CLASS_TOKENS if path in found.codes]

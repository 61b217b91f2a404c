"""Reading attention: from each softmax back to queries and keys, and forward to the values and the output map."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import log, prod
from typing import NamedTuple

import torch
from torch import Tensor

from conformance_tests.computation.affine import NONE, Affine, affine, of_weights, one_step
from conformance_tests.computation.constants import SAME
from conformance_tests.computation.graph import BOUNDS, CHOICES, PLACES, Graph, Value, places, with_compact
from conformance_tests.computation.masks import (
    LARGE,
    MATRIX,
    Reach,
    hidden_wrongly,
    ids_behind,
    is_made_of_ids,
    masks_out,
    reach_of,
)
from conformance_tests.computation.norm import Norm, apart, read_norm
from conformance_tests.computation.relative import OfDistances, Scored, Term, of_distances, terms_of
from conformance_tests.computation.rotation import Turning, tell_distances, turning
from conformance_tests.computation.shown import Finding, Remarks
from conformance_tests.computation.sums_apart import APART
from conformance_tests.computation.walking import (
    along_axis,
    constant_along,
    is_even,
    is_of_data,
    through,
)

ALL = slice(None)


@with_compact("W_Q", "W_K", "W_V", "W_O")
@dataclass(eq=False)
class Head:
    """Codes of one head's weights: maps (K, width), biases (width), and its rows of the output map."""

    W_Q: Tensor
    W_K: Tensor
    W_V: Tensor
    b_Q: Tensor
    b_K: Tensor
    b_V: Tensor
    W_O: Tensor | None = None


@dataclass(frozen=True)
class Result:
    """The product that gives the results of heads: whether its rows are the queries', and the head of each t."""

    product: Value
    by_row: bool
    heads: tuple[int, ...]


@dataclass(eq=False)
class Attention(Remarks):
    """One attention: its heads in order of execution, and what was read of it besides.

    Attributes:
        weights: the softmax, or what stands in its place.
        averages: the product of weights and values.
        reads: codes of what the queries are maps of, one row each.
        scale: the number that multiplies the scores; None if it is not a number.
        heads: the maps of each head.
        gives: the product that leaves it: the output map's, or the heads' results if there is none.
        b_O: codes of the bias behind the output map.
        where_scored: where the scores are computed, in brackets.
        results: the products that give the heads' results: one, or one for each head, or each sample.
        is_masked_by_ids: whether ids decide which scores are hidden.
        turning: how positions turn queries and keys; None if they do not.
        lam: codes of the factors of its features in the residual sum, if it has such.
        norms: those of queries and keys in each head, or over the features of all heads; None without both.
        are_across_heads: whether the norms are over those of all heads, which stand side by side in their order.
        factors: codes of those by which each head multiplies the features of its normed queries and keys, (h, d_k) of
            either; None where all heads have the same ones.
        slopes: by how much the scores of each head fall from position to position; None where they do not.
        is_rounded: whether these are multiplied by the distance in less than float64.
        reach: which keys a query reads.
        table: what is learned of distances and added to the scores, if something is.
        distances: what queries and keys are multiplied with, beside each other.
    """

    weights: Value
    averages: Value
    reads: Tensor
    scale: float | None
    heads: list[Head]
    gives: Value | None = None
    b_O: Tensor | None = None
    where_scored: str = ""
    results: list[Result] = field(default_factory=list)
    is_masked_by_ids: bool = False
    turning: Turning | None = None
    lam: Tensor | None = None
    norms: tuple[Norm, Norm] | None = None
    are_across_heads: bool = False
    factors: tuple[Tensor, Tensor] | None = None
    slopes: Tensor | None = None
    is_rounded: bool = False
    reach: Reach = field(default_factory=Reach)
    table: "DistanceTable | None" = None
    distances: list[OfDistances] = field(default_factory=list)


UNNOTICED = 1e-6
"""How far weights may be from a softmax: a sum that is kept from being 0 moves them, and so does float32."""


def softmax_argument(graph: Graph, value: Value) -> tuple[Tensor, int] | None:
    """Return the codes that a softmax reads, and its axis; None if a value is not one.

    Its numbers tell, whatever operations it is written in: exp(z) / Σ exp(z), exp(z - log Σ exp(z)), exp(log-softmax).
    """
    if value.operation == "softmax":
        along = int(value.options["axes"][0])
        return without_shift(graph, value.arrays[0], along), along
    axis = axis_of_shares(graph, value)
    if axis is None:
        return None
    waiting, seen = [value.codes], set()
    while waiting:
        codes = waiting.pop(0)
        owner = graph.owner(codes)
        if owner is None or owner.number in seen or not owner.depends:
            continue
        seen.add(owner.number)
        # Where all weights are equal, so is much before them: the exponential tells where the softmax begins.
        is_told = not is_even(value.data) or any(reader.operation == "exp" for reader in graph.readers(owner))
        alike = codes.shape == value.shape and owner is not value and is_told
        if alike and apart(graph.numbers(codes).softmax(axis), value.data) < UNNOTICED:
            return without_shift(graph, codes, axis), axis
        if owner.kind:
            waiting += [read if owner.kind == "reduction" else through(read, codes) for read in owner.arrays]
    return None


def axis_of_shares(graph: Graph, value: Value) -> int | None:
    """Return the axis along which the entries of a value are positive and sum up to 1; None if they do on none.

    Where all are equal, several axes may do; then it is the one along which what they are divided by is summed.
    """
    x = value.data
    if value.kind != "elementwise" or not x.is_floating_point() or not x.numel() or bool((x < 0).any()):
        return None
    axes = (axis for axis in reversed(range(x.ndim)) if x.shape[axis] > 1)
    shares = [axis for axis in axes if apart(x.sum(axis), torch.ones((), dtype=x.dtype)) < UNNOTICED]
    sums = [read for read in value.arrays if (of := graph.owner(read)) is not None and of.kind == "reduction"]
    for axis in shares:
        if not constant_along(x, axis) or (is_even(x) and any(constant_along(read, axis) for read in sums)):
            return axis
    return None


def without_shift(graph: Graph, codes: Tensor, axis: int) -> Tensor:
    """Return what entries are without a number that is taken from all along an axis: it cancels in a softmax."""
    while (value := graph.owner(codes)) is not None:
        if value.operation == "log-softmax":
            codes = through(value.arrays[0], codes)
            continue
        if value.operation not in ("sub", "add") or len(value.arrays) != 2:
            break
        kept, other = (through(read, codes) for read in value.arrays)
        if not graph.depends(kept) or not cancels(graph, other, axis):
            break
        codes = kept
    return codes


def cancels(graph: Graph, codes: Tensor, axis: int) -> bool:
    """Return whether entries that are added to scores are one number along the axis of a softmax: it divides by it."""
    return graph.depends(codes) and constant_along(codes, axis)


def attentions(graph: Graph) -> list[Attention]:
    """Return the attentions of a computation, in order of execution."""
    found: list[Attention] = []
    for value in graph.values:
        argument = softmax_argument(graph, value) if value.depends else None
        attention = None if argument is None else read_attention(graph, value, *argument)
        # Weights that are divided by their sum once more are a softmax, too: the first one of an average is it.
        if attention is not None and all(attention.averages is not other.averages for other in found):
            found.append(attention)
    found += without_softmax(graph, {attention.averages.number for attention in found})
    return joined(graph, sorted(found, key=lambda attention: attention.weights.number))


def why_unread(graph: Graph, found: Sequence[Attention]) -> list[str]:
    """Say of each softmax that belongs to no attention which leads to an output map, what keeps it from that."""
    said = []
    for value in graph.values:
        argument = softmax_argument(graph, value) if value.depends else None
        scores = None if argument is None else read_scores(graph, *argument)
        averaged = None if scores is None else read_values(graph, value, scores)
        if argument is not None and scores is None:
            said.append(f"what its softmax reads is not a product of queries and keys{value.where}")
        elif scores is not None and averaged is None:
            says = next((f": {reader.operation}{reader.where}" for reader in graph.readers(value)), "")
            said.append(f"its attention weights{value.where} enter no matrix product with values{says}")
    for attention in found:
        readers = graph.readers(attention.averages)
        if attention.gives is attention.averages and readers:
            said.append(f"what the heads give enters {readers[0].operation}{readers[0].where}, and not a map")
    return list(dict.fromkeys(said))


def without_softmax(graph: Graph, known: Collection[int]) -> Iterator[Attention]:
    """Yield attentions whose weights are not a softmax of their scores.

    Args:
        graph: the computation.
        known: the numbers of products that average values with a softmax.
    """
    for product in graph.values:
        if product.number in known or not is_of_data(graph, product):
            continue
        for weights in map(graph.owner, product.arrays):
            if weights is not None and weights.kind != "reduction" and leads_to_scores(graph, weights.codes):
                attention = read_attention(graph, weights, weights.codes, None)
                if attention is not None and attention.averages is product and attention.heads:
                    yield attention


@dataclass(eq=False)
class Scores(Remarks):
    """The making of scores: the product, the place in it of each entry that the softmax reads, and the scale.

    ``otherwise`` are operations on them that are neither scale nor bias nor mask, ``masking_ids`` the ids that masks
    are made from, one for each entry, ``added`` what is added to each entry in every call, if something is,
    ``learned`` the codes of what is learned and added to each, with its factor, and ``terms`` products with learned
    vectors that are.
    """

    product: Value
    entries: Tensor
    scale: float | None
    otherwise: list[str] = field(default_factory=list)
    masking_ids: list[Tensor] = field(default_factory=list)
    added: Tensor | None = None
    learned: list[tuple[Tensor, float]] = field(default_factory=list)
    terms: list[Term] = field(default_factory=list)


def leads_to_scores(graph: Graph, codes: Tensor) -> bool:
    """Return whether a product of two arrays of data stands behind entries, through elementwise operations alone.

    A product of numbers made from the ids alone is a mask of queries and keys.
    """
    waiting, seen = graph.owners(codes), set()
    while waiting:
        value = waiting.pop()
        if value.number in seen:
            continue
        seen.add(value.number)
        if is_of_data(graph, value) and not is_made_of_ids(graph, value):
            return True
        if value.kind == "elementwise":
            waiting += [v for read in value.arrays for v in graph.owners(read)]
    return False


def read_scores(graph: Graph, codes: Tensor, axis: int | None) -> Scores | None:
    """Follow what a softmax reads back to a product of two arrays of data; None if there is none behind it.

    Args:
        graph: the computation.
        codes: what the softmax reads.
        axis: of the softmax; None without one.
    """
    scale: float | None = 1.0
    said = Remarks()
    otherwise: list[str] = []
    masking_ids: list[Tensor] = []
    argument = graph.numbers(codes)
    added = torch.zeros(codes.shape, dtype=torch.float64)
    learned: list[tuple[Tensor, float]] = []
    terms: list[Term] = []
    while (value := graph.owner(codes)) is not None and value.kind == "elementwise":
        leading = [i for i, r in enumerate(value.reads) if isinstance(r, Tensor) and leads_to_scores(graph, r)]
        if not leading:
            return None
        decides = CHOICES[value.operation][0] if value.operation in CHOICES else None
        if len(leading) > 1 and decides in leading:
            leading.remove(decides)
            if hides_more(graph, value, value.reads[leading[-1]]):
                says = f"keys are left out of the softmax by how large their scores are{value.where}"
                said.findings.append(Finding("weights", says))
        which = leading[-1]
        if len(leading) > 1 and value.operation != "where":
            which = max(leading, key=lambda i: latest(graph, value.reads[i]))
            said.findings.append(Finding("scores", f"{other_scores(graph, value, which, leading)}{value.where}"))
        others = [r for i, r in enumerate(value.reads) if i not in leading]
        if axis is not None and value.operation in ("add", "sub"):
            # Before the scores are scaled, such a number does what it does behind: it cancels.
            others = [r for r in others if not (isinstance(r, Tensor) and cancels(graph, through(r, codes), axis))]
        factor = 1.0 if masks_out(graph, value, others, argument) else change_of_scores(graph, value, others, said)
        if axis is not None and (bounds := cutting(graph, value, value.reads[which], others, axis)):
            at = " and ".join(f"{bound:.6g}" for bound in bounds)
            said.findings.append(Finding("scores", f"the scores are cut off at {at}{value.where}"))
        elif value.operation not in CHANGES_OF_SCORES and not is_bound(graph, others):
            otherwise.append(value.operation)
        if value.operation in ("add", "sub") and scale is not None:
            sign = -1 if value.operation == "sub" else 1
            for bias in others:
                if not isinstance(bias, Tensor):
                    continue
                if bias_in_words(graph, bias, sign) == CONSTANTS:
                    added += scale * sign * graph.numbers(through(bias, codes))
                elif (entries := entries_of_table(graph, through(bias, codes))) is not None:
                    learned.append((entries[0], sign * scale * entries[1]))
                else:
                    terms += terms_of(graph, through(bias, codes), sign * scale) or ()
        scale = None if scale is None or factor is None else scale * factor
        masking_ids += [ids for r in others if isinstance(r, Tensor) for ids in ids_behind(graph, through(r, codes))]
        followed = value.reads[which]
        assert isinstance(followed, Tensor)
        codes = through(followed, codes)
    if value is None or not is_of_data(graph, value):
        return None
    found = Scores(value, codes, scale, otherwise, masking_ids, added if bool(added.any()) else None, learned, terms)
    found.take(said)
    return found


def other_scores(graph: Graph, value: Value, which: int, leading: Sequence[int]) -> str:
    """Say what stands beside the scores in an operation: those of an earlier attention, carried on, or others.

    Args:
        graph: the computation.
        value: what the operation gives.
        which: the place of the scores among what it reads.
        leading: the places of all scores among what it reads.
    """
    before = {v.number for v in graph.ancestors(value.reads[which])}
    own, *others = (
        read_scores(graph, value.reads[i], None)  # type: ignore[arg-type]
        for i in sorted(leading, key=lambda i: i != which)
    )
    # Residual attention (RealFormer) computes its queries from what the earlier attention gave.
    if own and all(other and other.product.number in before - {own.product.number} for other in others):
        return "the scores of an earlier attention are added to the scores"
    return "other scores are added to the scores"


def hides_more(graph: Graph, value: Value, scores: "Tensor | float") -> bool:
    """Return whether a choice hides entries of scores that were not hidden before."""
    return bool(((value.data <= -LARGE) & (graph.numbers(scores) > -LARGE)).any())


def latest(graph: Graph, codes: "Tensor | float") -> int:
    """Return the number of the latest value among those that entries belong to."""
    return max((v.number for v in graph.owners(codes)), default=-1) if isinstance(codes, Tensor) else -1


def change_of_scores(graph: Graph, value: Value, others: "Sequence[Tensor | float]", said: Remarks) -> float | None:
    """Return the number by which an operation multiplies scores, None if it is not one; say what else it does to them.

    Args:
        graph: the computation.
        value: what the operation gives.
        others: what it reads beside the scores.
        said: takes up what is said.
    """
    if value.operation in ("mul", "div") and len(others) == 1 and not graph.depends(others[0]):
        number = graph.numbers(others[0])
        if is_even(number) and not graph.learned(others[0]):
            one = float(number.reshape(-1)[0])
            return one if value.operation == "mul" else 1 / one
        by = names(graph, others[0])
        (said.foreign if by else said.unread).append(f"its scores are scaled by {by or 'an array'}")
        return None
    if value.operation in ("add", "sub"):
        for bias in others:
            if shift := made_of_scores(graph, bias):
                says = f"what is taken from the scores before the softmax ({shift}) is not one number for all keys"
                said.findings.append(Finding("weights", f"{says}{value.where}"))
            elif isinstance(bias, Tensor) and entries_of_table(graph, bias) is not None:
                continue  # what the table tells is read where the heads are known
            elif isinstance(bias, Tensor) and terms_of(graph, bias):
                continue  # so are the products
            elif (words := bias_in_words(graph, bias, -1 if value.operation == "sub" else 1)) not in ("", CONSTANTS):
                (said.foreign if graph.learned(bias) else said.unread).append(f"its scores get {words} added")
    return 1.0


def made_of_scores(graph: Graph, codes: "Tensor | float") -> str:
    """Return the operation that makes one number of many scores, if entries are such; no text if they are others.

    One that all keys of a query share cancels in the softmax, and is taken away before.
    """
    value = graph.owner(codes) if isinstance(codes, Tensor) else None
    is_made = value is not None and value.kind == "reduction" and leads_to_scores(graph, value.arrays[0])
    return value.operation if value is not None and is_made else ""


def is_bound(graph: Graph, others: "Sequence[Tensor | float]") -> bool:
    """Return whether an operation reads large numbers alone beside the scores: it keeps them from infinities."""
    numbers = [graph.numbers(read) for read in others if not graph.depends(read) and not graph.learned(read)]
    return 0 < len(numbers) == len(others) and all(bool((n.abs() >= LARGE).all()) for n in numbers)


def cutting(
    graph: Graph, value: Value, scores: "Tensor | float", others: "Sequence[Tensor | float]", axis: int
) -> list[float]:
    """Return the bounds that scores are held within, if larger ones would reach them: few scores of a call may do so.

    Below the largest score, which is 0, what is far below adds nothing to the sum of exponentials.
    """
    given = [read for read in others if not graph.depends(read) and not graph.learned(read)]
    if value.operation not in BOUNDS or len(given) < len(others) or is_bound(graph, others):
        return []
    bounds = [float(bound) for read in given for bound in graph.numbers(read).unique()]
    is_shifted = apart(graph.numbers(scores).amax(axis), torch.zeros((), dtype=torch.float64)) == 0
    return [bound for bound in bounds if abs(bound) < LARGE and not (is_shifted and bound <= NOTHING_BELOW)]


NOTHING_BELOW = log(torch.finfo(torch.float64).eps) - 1
"""The exponential of what is lower is lost in a sum with 1."""


CHANGES_OF_SCORES = ("mul", "div", "add", "sub", "masked_fill", "where")
"""Operations by which scores are scaled, biased and masked."""


CONSTANTS = "constants"
"""The name in reports of numbers that are added to the scores at every call and are not learned."""


COMPUTED = "a bias that is computed from its input"
"""The name in reports of what is added to the scores, learned and dependent on the input, and not read."""


def bias_in_words(graph: Graph, codes: "Tensor | float", sign: int) -> str:
    """Say what is added to scores, times a sign, if it is the same in every call and does more than hide keys."""
    if graph.depends(codes):
        return COMPUTED if graph.learned(codes) else ""
    if learned := names(graph, codes):
        return f"the bias {learned}"
    numbers = sign * graph.numbers(codes)
    hides = (numbers == 0) | (numbers <= -LARGE)
    return "" if bool(hides.all()) else CONSTANTS


def names(graph: Graph, codes: "Tensor | float") -> str:
    """Return the names of the parameters that entries are made of."""
    if not isinstance(codes, Tensor):
        return ""
    return ", ".join(dict.fromkeys(v.name for v in graph.ancestors(codes) if v.operation == "parameter"))


def in_heads(graph: Graph, vectors: Tensor) -> "InHeads | None":
    """Return vectors as ``InHeads``, if they are such."""
    found = affine(graph, vectors)
    if found is None:
        return None
    columns = found.columns()
    if not bool((columns == columns[:, :1]).all()):
        return None
    return found, columns[:, 0]


def behind_functions(graph: Graph, vectors: Tensor) -> tuple[Tensor, str]:
    """Return the affine entries of which vectors are a function, each of one, and its operation and line.

    Vectors that are affine themselves, or something else than a function of such, are returned as they are.
    """
    codes, by = vectors, ""
    while affine(graph, codes) is None:
        value = graph.owner(codes)
        read = [r for r in value.reads if isinstance(r, Tensor)] if value is not None else []
        if value is None or value.kind != "elementwise" or len(read) != 1:
            return vectors, ""
        codes, by = through(read[0], codes), by or f"{value.operation}{value.where}"
    return codes, by


def not_affine(graph: Graph, vectors: Tensor) -> str:
    """Say what stands between vectors and the products with weights behind them."""
    value = max(graph.owners(vectors), key=lambda v: v.number)
    before = (v for read in value.arrays if graph.depends(read) for v in graph.owners(read))
    norm = next((norm for v in (value, *before) if (norm := read_norm(graph, v)) is not None and norm.form), None)
    if norm is not None:
        return f"a norm of {prod(norm.reads.shape[axis] for axis in norm.axes)} features{norm.value.where}"
    learned = names(graph, next((r for r in value.arrays if not graph.depends(r) and graph.learned(r)), 0.0))
    return value.operation + (f" with {learned}" if learned else "") + value.where


def read_attention(graph: Graph, weights: Value, argument: Tensor, axis: int | None) -> Attention | None:
    """Read the attention whose weights a value is; None if they are not made of scores.

    Args:
        graph: the computation.
        weights: the value.
        argument: what the softmax reads; without one, the weights themselves.
        axis: of the softmax; None without one.
    """
    scores = read_scores(graph, argument, axis)
    averaged = None if scores is None else read_values(graph, weights, scores)
    if scores is None or averaged is None:
        return None
    product = averaged.product
    found = Attention(weights, product, NOTHING, None, [], product, where_scored=scores.product.where)
    found.take(scores)
    found.is_masked_by_ids = bool(scores.masking_ids)
    if axis is not None:
        found.reach = reach_of(graph.numbers(argument), axis)
    if axis is not None and (wrong := hidden_wrongly(graph, scores.masking_ids, axis)):
        found.findings.append(Finding("mask", f"the mask that is made of the ids {wrong}{weights.where}"))
    found.take(kind_of_weights(weights, scores, averaged, axis))
    found.take(summed_apart(scores, averaged))
    turn_back(graph, found, scores, averaged)
    normed = norm_back(graph, found, scores, averaged)
    behind = [behind_functions(graph, codes) for codes in (averaged.queries, averaged.keys, averaged.values)]
    vectors = [codes for codes, _ in behind]
    for (_, by), what in zip(behind, ("queries", "keys", "values"), strict=True):
        if by:
            found.findings.append(Finding("projections", f"its {what} pass through {by}"))
    Q, K, V = (in_heads(graph, codes) for codes in vectors)
    if Q is None or K is None or V is None:
        maps = [affine(graph, codes) for codes in vectors]
        split = [one for one in maps if one is not None and len(one.products) == 1 and one.factor() is not None]
        if len(split) == len(vectors) and axis is not None:
            found.scale = scale_of(scores, split[0], split[1])
            read_split(graph, found, averaged, split)
            return found
        for read, codes, what in zip((Q, K), vectors, ("queries", "keys"), strict=False):
            if read is None:
                found.foreign.append(f"its {what} pass through {not_affine(graph, codes)}")
        if V is None:
            found.foreign.append("its values are not a map of what it reads")
        return found
    found.reads = Q[0].at(ALL, ALL, 0).arguments()
    if are_apart(graph, found.reads, K[0].at(ALL, ALL, 0).arguments()):
        found.foreign.append(f"its queries are of one sequence and its keys of another (a decoder){weights.where}")
    found.scale = scale_of(scores, Q[0], K[0])
    if V[0].factor() != 1:
        found.unread.append("its values are scaled")
    heads = heads_of(graph, Q, K, found.reads)
    if scores.added is not None:
        found.slopes, found.is_rounded = slopes_of(scores, heads)
        if found.slopes is None and (one_sided := slopes_of(scores, heads, signed=True)[0]) is not None:
            found.slopes = one_sided.abs()
            says = "the scores fall towards one side and grow towards the other: ALiBi takes |i − j|, without its sign"
            found.findings.append(Finding("bias", f"{says}{found.where_scored}"))
        elif found.slopes is None:
            found.unread.append(f"its scores get {CONSTANTS} added{found.where_scored}")
    for entries, factor in scores.learned:
        found.table = None if found.table is not None else table_of_distances(graph, scores, entries, factor, heads)
        if found.table is None:
            found.foreign.append(f"its scores get the bias {names(graph, entries)} added{found.where_scored}")
    read_distances(graph, found, scores, averaged, heads, {"queries": Q[0].factor(), "keys": K[0].factor()})
    found.heads = list(maps_of_heads(graph, Q, K, V, heads, averaged))
    if normed is not None:
        read_factors(found, normed, heads)
    if any(torch.equal(a.W_Q, b.W_Q) and torch.equal(a.W_K, b.W_K) for a, b in combinations(found.heads, 2)):
        says = f"a head has the queries and keys of another one{found.where_scored}"
        found.findings.append(Finding("projections", says))
    part = features_of(graph, Q[0])
    if part is not None and part[0].shape[-1] < part[1]:
        says = f"each head projects {part[0].shape[-1]} of the {part[1]} features, not all of them"
        found.findings.append(Finding("projections", f"{says}{Q[0].products[0].where}"))
    read_output(graph, found, averaged, [heads[t] for t in averaged.scores_t])
    return found


NOTHING = torch.empty(0, dtype=torch.long)


def turn_back(graph: Graph, found: Attention, scores: Scores, averaged: "Averaged") -> None:
    """Read how positions turn queries and keys, and let these be what they are before."""
    of = {"queries": averaged.queries, "keys": averaged.keys, "values": averaged.values}
    turned = {what: by for what, codes in of.items() if (by := turning(graph, codes)) is not None}
    for what, by in turned.items():
        setattr(averaged, what, by.codes)
        if what != "values" and scores.scale is not None:
            scores.scale *= by.factor
    if not turned:
        return
    found.turning = next(iter(turned.values()))
    still = [what for what in ("queries", "keys") if what not in turned]
    if still or "values" in turned:
        others = f", and its {' and '.join(still)} are not" if still else ""
        says = f"its {' and '.join(turned)} are turned by their positions{others}{found.where_scored}"
        found.findings.append(Finding("rotation", says))
    elif any(by.mixes is not None for by in turned.values()):
        one, other = (turned[what].matrices for what in ("queries", "keys"))
        is_by_head = any(by.is_by_head for by in turned.values())
        mixing = "their heads, and not by their positions" if is_by_head else "their positions"
        says = f"the features of its queries and keys are mixed by {mixing}{found.where_scored}"
        if is_by_head:
            found.findings.append(Finding("rotation", says))
        elif tell_distances(one, other):
            found.foreign.append(says)
        else:
            says += ", and their products do not depend on the distance alone"
            found.findings.append(Finding("rotation", says))
    elif not turned["queries"].is_like(turned["keys"]):
        says = f"its queries are turned by other angles than its keys{found.where_scored}"
        found.findings.append(Finding("rotation", says))


def norm_back(graph: Graph, found: Attention, scores: Scores, averaged: "Averaged") -> "tuple[Normed, Normed] | None":
    """Read the norms of queries and keys, and let these be what they are before."""
    one, other = (norm_behind(graph, codes) for codes in (averaged.queries, averaged.keys))
    if one is not None:
        averaged.queries = one.before
    if other is not None:
        averaged.keys = other.before
    if one is not None and other is not None:
        if scores.scale is not None:
            scores.scale *= one.times * other.times
        found.norms = one.norm, other.norm
        return one, other
    if one is not None or other is not None:
        normed, bare = ("queries", "keys") if one is not None else ("keys", "queries")
        found.foreign.append(f"its {normed} are normed, and its {bare} are not{found.where_scored}")
    return None


def read_factors(found: Attention, normed: "tuple[Normed, Normed]", heads: Sequence[int]) -> None:
    """Read what tells the heads apart in the norms of queries and keys: factors of each, or its part of one norm.

    Args:
        found: takes it up.
        normed: queries and keys.
        heads: the head of each t of the scores' product.
    """
    one, other = normed
    first = [heads.index(i) for i in range(max(heads) + 1)]
    if one.factors is not None and other.factors is not None:
        found.factors = one.factors[first], other.factors[first]
    elif one.factors is not other.factors:
        found.foreign.append(f"its queries or its keys alone have factors of each head{found.where_scored}")
    if one.features is None and other.features is None:
        return
    norms = [of_heads_in_order(each, first) for each in normed]
    if norms[0] is None or norms[1] is None:
        where = one.norm.value.where
        of = "of each head, or of all"
        found.foreign.append(f"its queries or its keys are normed over other features than those {of}{where}")
    else:
        found.norms, found.are_across_heads = (norms[0], norms[1]), True


def of_heads_in_order(normed: "Normed", first: Sequence[int]) -> Norm | None:
    """Return a norm over the features of all heads, in the order of these; None if it is another one.

    Heads that share keys have the same features.
    """
    if normed.features is None or normed.factors is not None:
        return None
    order = normed.features[first].flatten()
    width = normed.norm.reads.shape[normed.norm.axes[-1]]
    if not torch.equal(order.sort().values, torch.arange(width)):
        return None
    gamma, beta = (None if codes is None else codes[order] for codes in (normed.norm.gamma, normed.norm.beta))
    return replace(normed.norm, gamma=gamma, beta=beta)


class Normed(NamedTuple):
    """Vectors (T, M, d_k) before they are normed, the norm, and what multiplies them behind it.

    ``factors`` are codes (T, d_k) of learned ones that differ from head to head, ``times`` is a number. ``features``
    (T, d_k) are places among what is normed, where that are the features of more than one head; else None.
    """

    before: Tensor
    norm: Norm
    factors: Tensor | None
    times: float
    features: Tensor | None = None


def norm_behind(graph: Graph, vectors: Tensor) -> Normed | None:
    """Return vectors (T, M, d_k) as they are before a norm; None if none stands there, but for what multiplies them."""
    codes, factors, times = vectors, None, 1.0
    while (value := graph.owner(codes)) is not None:
        norm = norm_of_features(graph, codes)
        if norm is not None:
            before = through(norm.reads, codes)
            if norm.reads.shape[norm.axes[0]] == vectors.shape[-1]:
                return Normed(before, norm, factors, times)
            features = normed_features(norm, codes)
            return None if features is None else Normed(before, norm, factors, times, features)
        step = one_step(graph, value) if value.operation in ("mul", "div") else None
        if step is not None and step[1].unique().numel() == 1:
            codes, times = through(step[0], codes), times * float(step[1].reshape(-1)[0])
        elif factors is None and (found := without_factors(graph, value, codes)) is not None:
            codes, factors = found
        else:
            break
    return None


def without_factors(graph: Graph, value: Value, vectors: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return vectors (T, M, d_k) before each head multiplies their features by learned factors, and these (T, d_k).

    They are the same at all positions, and others in another head: those of all heads belong to a norm.
    """
    data = [read for read in value.arrays if graph.depends(read)]
    learned = [read for read in value.arrays if not graph.depends(read) and graph.learned(read)]
    if value.operation != "mul" or len(data) != 1 or len(learned) != 1:
        return None
    factors = through(learned[0].broadcast_to(value.shape), vectors)
    is_of_heads = torch.equal(factors, factors[:, :1].expand_as(factors)) and bool((factors != factors[:1]).any())
    return (through(data[0], vectors), factors[:, 0]) if is_of_heads else None


def norm_of_features(graph: Graph, vectors: Tensor) -> Norm | None:
    """Return the norm of which vectors (T, M, d_k) are the rows, or parts of rows; None if they are not of one."""
    value = graph.owner(vectors)
    norm = None if value is None else read_norm(graph, value)
    if norm is None or not norm.form or norm.reads.shape != norm.value.shape or len(norm.axes) != 1:
        return None
    return norm if norm.reads.shape[norm.axes[0]] % vectors.shape[-1] == 0 else None


def normed_features(norm: Norm, vectors: Tensor) -> Tensor | None:
    """Return the places (T, d_k) of vectors (T, M, d_k) among what is normed at once; None if that is not one row."""
    shape, axis = norm.value.shape, norm.axes[0]
    along = torch.arange(shape[axis]).view(-1, *(1 for _ in shape[axis + 1 :])).expand(shape).reshape(-1)
    at = places(vectors)
    features = along[at]
    step = prod(shape[axis + 1 :])
    rows = at - features * step
    is_row = torch.equal(rows, rows[..., :1].expand_as(rows))
    return features[:, 0] if is_row and torch.equal(features, features[:, :1].expand_as(features)) else None


def slopes_of(scores: Scores, heads: Sequence[int], *, signed: bool = False) -> tuple[Tensor | None, bool]:
    """Return by how much the scores of each head fall with the distance, and whether each fall is rounded by itself.

    None if what is added to them is another. Distances are ``signed`` where a key behind the query has a negative one.
    """
    assert scores.added is not None
    _, M, N = scores.product.shape
    at = places(scores.entries)
    head, ahead = torch.tensor(heads)[at // (M * N)], at // N % M - at % N
    distance = ahead if signed else ahead.abs()
    apart_from_it = distance != 0
    falls = -scores.added / distance.where(apart_from_it, 1)
    slopes = torch.stack([falls[(head == i) & apart_from_it].median() for i in range(max(heads) + 1)])
    off = apart(scores.added, -slopes[head] * distance)
    return (slopes, off > SAME) if off < UNNOTICED else (None, False)


@dataclass(frozen=True, eq=False)
class DistanceTable:
    """A table of which each head adds one entry to each score.

    Attributes:
        codes: of its entries (rows, h).
        rows: the row that is read for each query and key (n, n).
    """

    codes: Tensor
    rows: Tensor


def entries_of_table(graph: Graph, codes: Tensor) -> tuple[Tensor, float] | None:
    """Return the entries of one learned array with two axes that these are, and by what number they are multiplied.

    What hides keys may stand between; None if they are others.
    """
    factor = 1.0
    while (value := graph.owner(codes)) is not None and value.kind == "elementwise":
        if not value.learned:
            return None
        if value.operation in ("mul", "div"):
            made = of_weights(graph, codes)
            if made is None or made.plus:
                return None
            codes, factor = made.entries, factor * made.times
            continue
        if value.operation not in ("add", "sub", "where", "masked_fill"):
            return None
        learned = [read for read in value.arrays if graph.learned(read)]
        others = [read for read in value.reads if all(read is not one for one in learned)]
        numbers = [graph.numbers(read) for read in others if not graph.depends(read)]
        if len(learned) != 1 or not all(bool(((x == 0) | (x.abs() >= LARGE)).all()) for x in numbers):
            return None
        codes = through(learned[0], codes)
    is_table = value is not None and value.operation == "parameter" and len(value.shape) == MATRIX
    return (codes, factor) if is_table else None


def table_of_distances(
    graph: Graph, scores: Scores, entries: Tensor, factor: float, heads: Sequence[int]
) -> DistanceTable | None:
    """Return the table whose entries, times a factor, are added to the scores: one column for each head.

    A number times what is learned is learned as well; None if they are others.
    """
    table = graph.owner(entries)
    assert table is not None
    _, M, N = scores.product.shape
    at, head = places(scores.entries).reshape(-1), torch.tensor(heads)
    read = places(entries.broadcast_to(scores.entries.shape)).reshape(-1)
    row, column = read // table.shape[1], read % table.shape[1]
    columns, rows = torch.full((int(head.max()) + 1,), NONE), torch.full((M * N,), NONE)
    columns[head[at // (M * N)]], rows[at % (M * N)] = column, row
    if M != N or not torch.equal(columns[head[at // (M * N)]], column) or not torch.equal(rows[at % (M * N)], row):
        return None
    return DistanceTable(graph.with_multiple(table, factor).codes[:, columns], rows.reshape(M, N))


def read_distances(
    graph: Graph,
    found: Attention,
    scores: Scores,
    averaged: "Averaged",
    heads: Sequence[int],
    factors: Mapping[str, float | None],
) -> None:
    """Read the products with vectors of distances that are added to the scores.

    Args:
        graph: the computation.
        found: takes them up.
        scores: the scores.
        averaged: has the queries and keys.
        heads: the head of each t of the scores' product.
        factors: by what queries and keys are multiplied, in front of that product.
    """
    rows, columns = scores.product.reads
    assert isinstance(rows, Tensor)
    assert isinstance(columns, Tensor)
    _, M, N = scores.product.shape
    at = places(scores.entries).reshape(-1)
    row, column = at // N % M, at % N
    of_rows, of_columns = Scored(rows, at // N), Scored(columns.mT, at // (M * N) * N + column)
    if averaged.keys_are_columns:
        sides, pairs = {"queries": of_rows, "keys": of_columns}, row * N + column
    else:
        sides, pairs = {"queries": of_columns, "keys": of_rows}, column * M + row
    for term in scores.terms:
        read = of_distances(graph, term, sides, torch.tensor(heads)[at // (M * N)], pairs) if M == N else None
        if read is None:
            found.foreign.append(f"its scores get {COMPUTED} added")
        else:
            found.distances.append(replace(read, scale=read.scale * (factors[read.of] or 1.0)))


def are_apart(graph: Graph, one: Tensor, other: Tensor) -> bool:
    """Return whether two values come from different arguments or attentions each, as those of a decoder and its memory.

    What queries and keys read in an encoder may be computed twice, or by two norms of one value.
    """
    if graph.owner(one) is graph.owner(other) or torch.equal(graph.numbers(one), graph.numbers(other)):
        return False
    first, second = ({v.number for v in graph.ancestors(codes) if is_source(graph, v)} for codes in (one, other))
    return bool(first - second) and bool(second - first)


def is_source(graph: Graph, value: Value) -> bool:
    """Return whether a value is an argument, or a product of two arrays of data."""
    return value.operation == "argument" or is_of_data(graph, value)


def scale_of(scores: Scores, Q: Affine, K: Affine) -> float | None:
    """Return the number that multiplies the scores, wherever it does; None if it is not one number."""
    factors = [scores.scale, Q.factor(), K.factor()]
    return None if None in factors else prod(factor for factor in factors if factor is not None)


def kind_of_weights(weights: Value, scores: Scores, averaged: "Averaged", axis: int | None) -> Remarks:
    """Say how weights differ from a softmax of the scores over the keys."""
    said = Remarks()
    if averaged.changed_by:
        said.findings.append(Finding("weights", averaged.changed_by))
    if axis is None:
        made = ", ".join(dict.fromkeys(reversed(scores.otherwise))) or "the scores themselves"
        says = f"the attention weights are not a softmax of the scores, but {made}{weights.where}"
        said.findings.append(Finding("weights", says))
        return said
    said.unread += [f"its scores pass through {operation}" for operation in scores.otherwise]
    if not is_summed_along(weights, axis, averaged.weights):
        says = f"the softmax does not run over the keys, which the values are averaged over{weights.where}"
        said.findings.append(Finding("weights", says))
    return said


def summed_apart(scores: Scores, averaged: "Averaged") -> Remarks:
    """Find products of two sums in the place of sums of products."""
    said = Remarks()
    for slot, product, what in (
        ("scores", scores.product, "queries and keys are"),
        ("weights", averaged.product, "attention weights and values are"),
    ):
        if APART in product.options:
            says = (
                f"{what} summed each by themselves before they are multiplied: two letters for one axis{product.where}"
            )
            said.findings.append(Finding(slot, says))
    return said


def read_split(graph: Graph, found: Attention, averaged: "Averaged", maps: Sequence[Affine]) -> None:
    """Read an attention whose heads hold entries of several positions: the maps as a whole, and the finding.

    Over one position alone, heads that are compared with one another and heads that are not look alike.
    """
    rows = maps[0].rows()[:, :, 0]
    if rows.unique().numel() == 1:
        found.foreign.append("it has one position, which shows nothing of attention")
        return
    d_k, d_v = averaged.queries.shape[-1], averaged.values.shape[-1]
    letters = [in_order(vectors) for vectors in maps]
    h = letters[0][0].shape[1] // d_k
    if any(W.shape[1] != h * d for (W, _), d in zip(letters, (d_k, d_k, d_v), strict=True)):
        found.foreign.append("its queries, keys and values differ from position to position")
        return
    (W_Q, b_Q), (W_K, b_K), (W_V, b_V) = letters
    for i in range(h):
        k, v = slice(i * d_k, (i + 1) * d_k), slice(i * d_v, (i + 1) * d_v)
        found.heads.append(Head(W_Q[:, k], W_K[:, k], W_V[:, v], b_Q[k], b_K[k], b_V[v]))
    found.reads = maps[0].products[0].reads[0]  # type: ignore[assignment]
    one_position = bool((rows == rows[:, :1]).all())
    says = "compares the heads of one position" if one_position else "has heads that hold entries of several positions"
    found.findings.append(Finding("split", f"the attention {says}{averaged.product.where}"))
    read_output(graph, found, averaged, [0] * len(averaged.scores_t))


def in_order(vectors: Affine) -> tuple[Tensor, Tensor]:
    """Return the map (K, width) and the bias (width) that entries are made of, in the order of their storage."""
    product = vectors.products[0]
    columns = product.reads[1]
    assert isinstance(columns, Tensor)
    mine = places(vectors.entries.reshape(-1)) % product.shape[-1]
    used = mine.unique()
    first = torch.stack([(mine == column).nonzero()[0, 0] for column in used])
    return columns[0][:, used], vectors.bias.reshape(-1)[first]


InHeads = tuple[Affine, Tensor]
"""Vectors (T, M, width) as entries of products with weights, and the columns (T, width) that they are made of."""


def features_of(graph: Graph, vectors: Affine) -> tuple[Tensor, int] | None:
    """Return which features (T, K) of what they read vectors are made of, and how many features that has.

    None if what is read are not entries of one value along one axis of it.
    """
    rows = vectors.at(ALL, 0, 0).arguments()
    read = graph.owner(rows)
    if read is None:
        return None
    along = [along_axis(places(rows), read.shape, axis) for axis in range(len(read.shape))]
    varying = [axis for axis, at in enumerate(along) if not is_constant_last(at)]
    return (along[varying[0]], read.shape[varying[0]]) if len(varying) == 1 else None


def heads_of(graph: Graph, Q: InHeads, K: InHeads, reads: Tensor) -> list[int]:
    """Return which head each t of the scores' product is of.

    Those with equal maps of equal features are one head, in different samples: if what they read (T, M, K) is the same,
    they are heads with the same maps.
    """
    heads: dict[tuple[int, ...], int] = {}
    before: dict[tuple[int, ...], list[Tensor]] = {}
    part = features_of(graph, Q[0])
    features = Q[1][:, :0] if part is None else part[0]
    found = []
    for t, (queries, keys, read) in enumerate(zip(Q[1].tolist(), K[1].tolist(), features.tolist(), strict=True)):
        maps = (*queries, *keys, *read)
        again = sum(torch.equal(reads[t], other) for other in before.setdefault(maps, []))
        before[maps].append(reads[t])
        found.append(heads.setdefault((*maps, again), len(heads)))
    return found


def maps_of_heads(
    graph: Graph, Q: InHeads, K: InHeads, V: InHeads, heads: Sequence[int], averaged: "Averaged"
) -> Iterator[Head]:
    """Yield the maps of each head, as one of its samples shows them.

    The product with the values counts its own t: each belongs to that of the scores whose weights it reads.
    """
    of_values = [heads[t] for t in averaged.scores_t]
    for head in range(max(heads) + 1):
        t = heads.index(head)
        j = of_values.index(head) if head in of_values else 0
        places_of = ((Q, t), (K, t), (V, j))
        yield Head(
            *(whole_map(graph, vectors, place) for (vectors, _), place in places_of),
            *(vectors.at(place, 0).bias for (vectors, _), place in places_of),
        )


def whole_map(graph: Graph, vectors: Affine, t: int) -> Tensor:
    """Return the map (features, width) of one head, with zeros for the features that it does not read."""
    W = vectors.at(t, 0).weights().mT
    part = features_of(graph, vectors)
    if part is None or part[1] <= len(W):
        return W
    whole = torch.zeros(part[1], W.shape[1], dtype=W.dtype)  # code 0 is the number 0
    whole[part[0][t]] = W
    return whole


def is_constant_last(x: Tensor) -> bool:
    """Return whether numbers do not change along the last axis."""
    return bool((x == x[..., :1]).all())


@dataclass(eq=False)
class Averaged:
    """The product of attention weights and values.

    Attributes:
        product: it.
        weights: the entries (T, queries, keys) of the weights that it reads.
        queries: the vectors (T, queries, d_k) that the scores' product multiplies with the keys.
        keys: those vectors (T, keys, d_k).
        values: the vectors (T, keys, d_v) that are averaged.
        by_row: whether its rows are the queries'.
        keys_are_columns: whether the keys are the columns of the scores' product.
        scores_t: for each t, that of the product of the scores.
        changed_by: what is done to the weights behind the softmax, in words.
    """

    product: Value
    weights: Tensor
    queries: Tensor
    keys: Tensor
    values: Tensor
    by_row: bool
    keys_are_columns: bool
    scores_t: list[int]
    changed_by: str = ""


def read_values(graph: Graph, weights: Value, scores: Scores) -> Averaged | None:
    """Find the product that reads the weights; the keys are what it sums over."""
    waiting: list[tuple[Value, str]] = [(weights, "")]
    seen = {weights.number}
    while waiting:
        value, changed = waiting.pop(0)
        for reader in graph.readers(value):
            if reader.operation == "product":
                for side in (0, 1):
                    found = averaged_by(graph, reader, side, value, weights, scores)
                    if found is not None:
                        found.changed_by = changed
                        return found
            elif reader.kind == "elementwise" and reader.number not in seen:
                seen.add(reader.number)
                waiting.append((reader, changed or change_in_words(graph, reader, value)))
    return None


def averaged_by(
    graph: Graph, product: Value, side: int, value: Value, weights: Value, scores: Scores
) -> Averaged | None:
    """Return a product as the one of weights and values, if one of its sides is what the weights became."""
    codes, values = product.reads[side], product.reads[1 - side]
    assert isinstance(codes, Tensor)
    assert isinstance(values, Tensor)
    if graph.owner(codes) is not value or not graph.depends(values):
        return None
    behind = back_to(graph, codes, weights)
    if behind is None:
        return None
    behind, values = (behind, values) if side == 0 else (behind.mT, values.mT)
    entries = scores.entries.reshape(-1)[places(behind)]
    _, M, N = scores.product.shape
    at = places(entries)
    rows, columns = scores.product.reads
    assert isinstance(rows, Tensor)
    assert isinstance(columns, Tensor)
    keys_are_columns = not is_constant_last(at % N) or is_constant_last(at // N % M)
    queries, keys = (rows, columns.mT) if keys_are_columns else (columns.mT, rows)
    of_scores = (at // (M * N))[:, 0, 0].tolist()
    return Averaged(product, behind, queries, keys, values, side == 0, keys_are_columns, of_scores)


def is_summed_along(weights: Value, axis: int, codes: Tensor) -> bool:
    """Return whether weights (T, queries, keys), read by a product, have the softmax's axis along their last one."""
    along = along_axis(places(codes), weights.shape, axis)
    return bool((along == along[:, :1]).all()) and (codes.shape[-1] == 1 or not is_constant_last(along))


def change_in_words(graph: Graph, reader: Value, value: Value) -> str:
    """Say what an operation does to attention weights; nothing if it only hides some."""
    if reader.operation in ("mul", "div"):
        others = [r for r in reader.reads if not (isinstance(r, Tensor) and graph.owner(r) is value)]
        if len(others) == 1 and not graph.depends(others[0]) and is_even(graph.numbers(others[0])):
            number = float(graph.numbers(others[0]).reshape(-1)[0])
            verb = "multiplied" if reader.operation == "mul" else "divided"
            return f"the attention weights are {verb} by {number:.6g} behind the softmax{reader.where}"
    return ""


def back_to(graph: Graph, codes: Tensor, target: Value) -> Tensor | None:
    """Return the entries of an earlier value behind these, through elementwise operations."""
    while (value := graph.owner(codes)) is not target:
        if value is None or value.kind != "elementwise" or value.number < target.number:
            return None
        data = [r for r in value.arrays if graph.depends(r)]
        nearer = [r for r in data if any(v.number >= target.number for v in graph.owners(r))]
        if not nearer:
            return None
        codes = through(nearer[0], codes)
    return codes


def read_output(graph: Graph, found: Attention, averaged: Averaged, heads: Sequence[int]) -> None:
    """Find the map that reads the heads' results; ``heads`` are those of each t of them."""
    result = averaged.product
    found.results.append(Result(result, averaged.by_row, tuple(heads)))
    maps = [reader for reader in graph.readers(result) if is_map_of(graph, reader, result)]
    if len(maps) > 1:
        used = {value.number for value in graph.ancestors(graph.output)}
        maps = [reader for reader in maps if reader.number in used] or maps
    if maps:
        found.gives = maps[0]


def is_map_of(graph: Graph, reader: Value, result: Value) -> bool:
    """Return whether a value is a product of weights with the results of heads, and nothing beside them."""
    rows = reader.reads[0] if reader.operation == "product" else None
    if not isinstance(rows, Tensor) or graph.depends(reader.reads.forms[1]):
        return False
    owners = graph.owners(rows)
    return result in owners and all(v.operation == "product" for v in owners)


def joined(graph: Graph, found: list[Attention]) -> list[Attention]:
    """Put the softmaxes under one output map together: each is a head, or a sample, of one attention."""
    together: list[Attention] = []
    for attention in found:
        before = next((a for a in together if a.gives is attention.gives and a.gives is not None), None)
        if before is None or attention.gives is None or attention.gives.operation != "product":
            together.append(attention)
            continue
        before.take(attention)
        same = torch.equal(before.reads, attention.reads)
        number = []
        for head in attention.heads:
            known = next(
                (
                    i
                    for i, other in enumerate(before.heads)
                    if torch.equal(head.W_Q, other.W_Q) and torch.equal(head.W_V, other.W_V)
                ),
                None,
            )
            if known is not None and not same:
                number.append(known)  # the same head of another sample
                continue
            if known is not None:
                says = f"a head has the maps of another one{attention.where_scored}"
                before.take(Remarks(findings=[Finding("projections", says)]))
            number.append(len(before.heads))
            before.heads.append(head)
        before.results += [replace(r, heads=tuple(number[head] for head in r.heads)) for r in attention.results]
    for attention in together:
        share_output(graph, attention)
    return together


def share_output(graph: Graph, attention: Attention) -> None:
    """Give each head its rows of the output map, in whatever order the heads' results are laid side by side."""
    if attention.gives is None or attention.gives.operation != "product" or not attention.heads:
        return
    rows, columns = attention.gives.reads
    if not isinstance(rows, Tensor) or not isinstance(columns, Tensor) or graph.depends(columns):
        return
    width = attention.heads[0].W_V.shape[1]
    query, entry = placed_in_heads(attention.results, rows, width)
    if bool((entry == NONE).any()):
        return
    is_mixed = any(finding.slot == "split" for finding in attention.findings)
    is_laid = bool((entry == entry[:1, :1]).all()) and is_constant_last(query)
    if not is_laid and not is_mixed:
        says = "the heads' results are not laid side by side for each position"
        attention.findings.append(Finding("merge", says))
    # Where entries of several positions meet in a row, the map is as wide as all heads, and read in its own order.
    read = entry[0, 0] if is_laid and not is_mixed else torch.arange(rows.shape[-1])
    W_O = torch.full((len(attention.heads) * width, columns.shape[-1]), NONE)
    if read.unique().numel() == len(W_O):
        W_O[read] = columns[0]
        for i, head in enumerate(attention.heads):
            head.W_O = W_O[i * width : (i + 1) * width]


def placed_in_heads(results: Sequence[Result], rows: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Return the query that each entry of rows belongs to, and its place among those of all heads, side by side.

    Args:
        results: the heads' results.
        rows: codes of entries of them.
        width: of a head.
    """
    query, entry = torch.full_like(rows, NONE), torch.full_like(rows, NONE)
    for result in results:
        here = rows >> PLACES == result.product.number
        at = places(rows[here])
        _, M, N = result.product.shape
        t, row, column = at // (M * N), at // N % M, at % N
        query[here], inside = (row, column) if result.by_row else (column, row)
        entry[here] = torch.tensor(result.heads)[t] * width + inside
    return query, entry

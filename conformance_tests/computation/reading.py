"""An encoder as its computation shows it: the weights of each canonical path, the choices, and what departs."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

import torch
from torch import Tensor
from torch.nn.functional import pad

from conformance_tests.computation.affine import NONE, Affine
from conformance_tests.computation.attention import (
    Attention,
    DistanceTable,
    attentions,
    axis_of_shares,
    names,
    why_unread,
)
from conformance_tests.computation.constants import NEAR, SAME, is_kept_as
from conformance_tests.computation.feed_forward import FeedForward
from conformance_tests.computation.graph import PLACES, Codes, Graph, Value, places
from conformance_tests.computation.inputs import (
    ONE_FOR_ALL,
    WITH_FEATURES,
    class_tokens,
    read_entrance,
    read_sinusoids_of_grid,
)
from conformance_tests.computation.norm import LAYER_NORM, Norm
from conformance_tests.computation.outer_norms import read_norm_parameters, read_outer_norm
from conformance_tests.computation.relative import OfDistances
from conformance_tests.computation.rotation import USUAL_BASE, as_written, wavelengths
from conformance_tests.computation.shown import READ_AS_REALS, EncoderReading, Ending, Finding, Remarks
from conformance_tests.computation.stream import FROM_NORMED, Step, Stream, Wiring, stream_of
from conformance_tests.computation.unmapped import IDENTITY
from conformance_tests.computation.walking import along_axis, is_one_array
from encoder_spec.attention import buckets, row_of_bucket, row_of_distance, row_of_places, slopes
from encoder_spec.equation import variants
from encoder_spec.position import told_in_attention
from encoder_spec.profiles import PROFILES, VASWANI_2017, in_turn_by, in_words
from encoder_spec.residual import alpha, alpha_with_decoder


def read(graph: Graph) -> EncoderReading:
    """Read an encoder off its computation, as far as there is one in it."""
    found = EncoderReading(graph)
    read_encoder(found)
    find_random(found)
    return found


def ending(graph: Graph, cuts: Sequence[tuple[str, Tensor]]) -> Ending | None:
    """Return where the encoder in a model ends, if something else than hidden states comes out of the model.

    ``cuts`` has what it may end with: names, and codes, in order of execution.

    What returns hidden states as wide as the encoder's is the encoder, whatever it does behind its layers, unless it
    just leaves some of them out, or maps those of an encoder in which nothing departs. An encoder that leaves features
    out without parameters has no model around it. Where attention follows, further layers do, or a decoder. Operations
    on each entry in front of a head belong to the head. One that cannot be read ends with the last vectors of all
    positions: a head does not hide what is wrong in an encoder.
    """
    tried: set[int] = set()
    unread: Ending | None = None
    width = usual_width(cuts)
    departing: Ending | None = None
    named: Ending | None = None  # what has layers, and a part that no slot has: the report can name it there
    last = max((attention.averages.number for attention in attentions(graph)), default=0)
    for part, codes in reversed(cuts):
        value = graph.owner(codes)
        if value is None or value.number in tried or codes.ndim != WITH_FEATURES:
            continue
        if codes.numel() < value.shape.numel():
            continue  # a pooled position
        is_as_wide = graph.output.ndim == codes.ndim and graph.output.shape[-1] == codes.shape[-1]
        is_inside = is_as_wide and graph.owner(graph.output) is not value
        if is_inside and not is_mapped(graph, value):
            continue
        if value.number < last:
            continue  # what is computed again behind the layers, such as a mask made of ids, is what it was before them
        if not is_passed(graph, value):
            continue
        tried.add(value.number)
        shown = read(graph.up_to(codes))
        departures = [finding for finding in shown.findings if finding.slot != "dropout"]
        fits = shown.fits_slots or (departures and shown.layers_are_read)
        whole = EncoderReading(graph)
        kinds = ("parameter", "argument")
        found = Ending(part, *(frozenset(whole.reached(kind) - shown.reached(kind)) for kind in kinds))
        if not fits and not is_as_wide and "N" in shown.sizes:
            named = named or found
        if unread is None and not is_as_wide and codes.shape[-1] == width:
            unread = found
        if not fits or (is_inside and (shown.unread or departures)):
            continue
        has_tail = departures == [shown.tail]
        if not shown.unread and not has_tail:
            return found if has_features(graph.output, codes.shape[-1]) or reads_weights(graph, value) else None
        # What departs in an encoder, or is in no slot, may keep the rest from being read; what ends within a layer
        # departs too. What stands between an encoder and a head belongs to the head, if the encoder is seen to end
        # before it.
        departing = departing or found
    return departing or named or unread


def asks_for_few(graph: Graph, hidden: Tensor) -> str:
    """Say that the last attention has queries for no other positions than those that are read; else return nothing.

    Hidden states at others, which nothing reads, need not be what they are in an encoder that computes them.
    """
    value = graph.owner(hidden)
    found = [] if value is None else sorted(attentions(graph), key=lambda attention: attention.averages.number)
    for attention in found:
        state = graph.owner(attention.reads)
        if value is None or state is None or not len(value.shape) == len(state.shape) == WITH_FEATURES:
            continue
        axis = next((a for a in range(2) if state.shape[a] == attention.weights.shape[-1]), None)
        if axis is None:
            continue
        asked = set(along_axis(places(attention.reads[..., 0]), state.shape, axis).unique().tolist())
        if len(asked) == state.shape[axis]:
            continue
        if attention is not found[-1]:
            return ""  # a later one reads all positions
        is_short = value.shape[axis] == len(asked)  # the others are left out of the hidden states, too
        if is_short or positions_read(graph, value, axis) <= asked:
            return (
                f"its last attention has queries for {len(asked)} of {state.shape[axis]} positions alone, of which its "
                f"output is made{attention.where_scored}: there are no hidden states of all positions to compare"
            )
    return ""


def positions_read(graph: Graph, value: Value, axis: int) -> set[int]:
    """Return the positions of a value, along an axis, at which the output or what it is made of reads it."""
    later = [v for v in graph.ancestors(graph.output, behind=value) if value.number in graph.read_by(v)]
    read = [graph.output, *(codes for v in later if v is not value for codes in v.arrays)]
    entries = [places(codes[codes >> PLACES == value.number]) for codes in read]
    return set(along_axis(torch.cat(entries), value.shape, axis).unique().tolist())


def usual_width(cuts: Sequence[tuple[str, Tensor]]) -> int:
    """Return the width that most vectors of all positions have; 0 without any."""
    widths = Counter(codes.shape[-1] for _, codes in cuts if codes.ndim == WITH_FEATURES)
    return max(widths, key=widths.__getitem__, default=0)


def is_passed(graph: Graph, value: Value) -> bool:
    """Return whether all that is made of the input with weights reaches the output through a value alone.

    What is left of a mean over layers, or of two encoders side by side, is not what the model computes. A value that is
    returned may have others beside it.
    """
    if value in graph.owners(graph.output):
        return True
    made_of_it = {value.number}
    for later in sorted(graph.ancestors(graph.output, behind=value), key=lambda v: v.number):
        if made_of_it & graph.read_by(later):
            made_of_it.add(later.number)
        elif later.depends and later.learned:
            return False
    return True


def has_features(output: Tensor, width: int) -> bool:
    """Return whether what is made of features without parameters has all of them: pooled, or side by side."""
    return output.ndim > 0 and output.shape[-1] % width == 0


def reads_weights(graph: Graph, value: Value) -> bool:
    """Return whether weights are read between a value and the output: those of a head may be those of a table."""
    return any(v.operation == "parameter" for v in graph.ancestors(graph.output, behind=value))


def is_mapped(graph: Graph, value: Value) -> bool:
    """Return whether the output is a map of a value, perhaps with more behind it; a residual connection is none."""
    readers = graph.readers(value)
    maps = [v for v in readers if v.operation == "product" and not graph.depends(v.reads.forms[1])]
    return bool(maps) and not any(reader.operation == "add" for reader in readers)


def read_encoder(found: EncoderReading) -> None:
    """Read layers and inputs."""
    graph = found.graph
    state, returned = all_positions(graph)
    wiring = Wiring(graph)
    stream = stream_of(wiring, state)
    layers = list(layers_of(found, stream))
    if not layers:
        read_alone(found, stream, wiring.attentions)
        return
    found.take(stream)
    found.tail = stream.tail
    read_layers(found, stream, layers)
    assert stream.source is not None
    of_layers = list(found.unread)
    read_inputs(found, stream)
    attended: list[Attention] = [a.part for a, _ in layers]  # type: ignore[misc]
    read_rotation(found, attended)
    read_slopes(found, attended)
    read_tables_of_distances(found, attended)
    read_vectors_of_distances(found, attended)
    read_scale_of_scores(found, attended)
    read_sharing(found, len(layers))
    if stream.starts_bare and found.choices.get("input") == "given":
        # Given embeddings have no norm.
        found.findings.append(Finding("residual", FROM_NORMED))
    # Attention alone, behind something that is not read, need not be an encoder's.
    if all(isinstance(second.part, FeedForward) and not second.part.absent for _, second in layers):
        found.unread_input = [said for said in found.unread if said not in of_layers]
    demand_positions(found)
    find_filled(found, attended)
    find_alone(found, attended)
    if returned:
        find_left_out(found, returned, state.shape[1])
    first = layers[0][0].part
    assert isinstance(first, Attention)
    if found.position_axis is not None:
        find_axis(found, first, *found.position_axis)


def read_alone(found: EncoderReading, stream: Stream, attentions: Sequence[Attention]) -> None:
    """Read sublayers that make no layer: what is wrong with them is so in any encoder.

    Where attention has a part that no slot has, no more than that is known of what is done with it.
    """
    at = stream.source
    found.unread = why_unread(found.graph, attentions) or found.unread
    parts = [step.part for step in stream.steps]
    found.is_part = len(parts) == 1 and at is not None and at.kind == "input"
    if found.is_part:
        kind = "attention" if isinstance(parts[0], Attention) else "a feed-forward network"
        found.unread = [f"it is {kind} alone{where_of(parts[0])}, and neither a layer nor an encoder"]
    else:
        of = at.taken_apart() if at is not None else "nothing"
        found.unread.append(f"what its layers read is {of}" if parts else f"what it returns is {of}")
    for part in parts:
        if isinstance(part, Attention) and part.heads:
            found.sizes["d_k"] = part.heads[0].W_Q.shape[1]
            read_scale_of_scores(found, [part])
            found.take(part)
        elif isinstance(part, FeedForward) and (part.operations or found.is_part):
            read_activation(found, [part])  # without an operation it may as well be two maps of something else
    if foreign := [says for attention in attentions if not attention.heads for says in attention.foreign]:
        found.unread = list(dict.fromkeys(foreign))


def all_positions(graph: Graph) -> tuple[Tensor, list[int]]:
    """Return the output with all positions that were computed for it, and which of them are returned."""
    output, value = graph.output, graph.owner(graph.output)
    if value is None or output.ndim != len(value.shape) or output.ndim != WITH_FEATURES:
        return output, []
    rows = along_axis(places(output[0, :, 0]), value.shape, 1)
    same = len(output) == value.shape[0] and torch.equal(output, value.codes[:, rows])
    return (value.codes, rows.tolist()) if same else (output, [])


def find_left_out(found: EncoderReading, returned: list[int], computed: int) -> None:
    """Find positions that are computed and not returned; to leave out class tokens is a choice."""
    missing = set(range(computed)).difference(returned)
    r, classes = found.sizes.get("r", 0), len(class_tokens(found))
    is_behind = found.choices.get("registers") == "registers-behind"
    missing -= found.filled
    own = {*range(classes), *(range(computed - r, computed) if is_behind else range(classes, classes + r))}
    if missing and missing <= own:
        found.foreign.append("its output leaves out the tokens that it puts before the others")
    elif missing:
        says = f"it returns {computed - len(missing)} of the {computed} positions that it computes"
        found.findings.append(Finding("final_norm", says))


def find_alone(found: EncoderReading, attentions: Sequence[Attention]) -> None:
    """Find patches none of which attends to another one: what goes in has other positions than these.

    Models of several series read each by itself, so that what they were given was short series, and not patches.
    """
    keys = [axis_of_keys(found.graph, attention.weights) for attention in attentions]
    alone = (along is not None and a.weights.shape[along] == 1 for along, a in zip(keys, attentions, strict=True))
    if math.prod(grid_of(found) or ()) > 1 and all(alone):
        found.foreign.append(f"each of its patches attends to itself alone{attentions[0].weights.where}")


def axis_of_keys(graph: Graph, weights: Value) -> int | None:
    """Return the axis of attention weights along which they are those of the keys, if that is seen."""
    return int(weights.options["axes"][0]) if weights.operation == "softmax" else axis_of_shares(graph, weights)


def find_filled(found: EncoderReading, attentions: Sequence[Attention]) -> None:
    """Find attention to constants with which sequences are filled up: they are padding, whatever a caller hides."""
    for attention in attentions if found.filled else ():
        weights = attention.weights
        along = axis_of_keys(found.graph, weights)
        if along is not None and bool(weights.data.index_select(along, torch.tensor(sorted(found.filled))).any()):
            says = f"what a sequence is filled up with inside of the encoder is attended to{weights.where}"
            found.findings.append(Finding("mask", says))
            return


def find_random(found: EncoderReading) -> None:
    """Find random numbers in what the output is computed of; beside them numbers tell nothing else."""
    graph = found.graph
    for value in graph.ancestors(graph.output):
        if value.operation == "random" or value.number in graph.disturbed:
            met = graph.disturbed.get(value.number)
            where = f" ({met})" if met else next((reader.where for reader in graph.readers(value)), "")
            found.findings = [Finding("dropout", f"random numbers enter the output in evaluation{where}")]
            return


def find_axis(found: EncoderReading, attention: Attention, shape: torch.Size, axis: int) -> None:
    """Find attention that runs along another axis than the one along which positions are added."""
    state = found.graph.owner(attention.reads)
    if state is None or state.shape != shape:
        return
    rows = places(attention.reads[0, :, 0])
    varying = [a for a in range(2) if along_axis(rows, shape, a).unique().numel() > 1]
    if varying == [1 - axis]:
        # Which of them is wrong depends on where its author has the batch: mostly that is the first axis.
        slot, placed, attended = (("position", "first", "second"), ("scores", "second", "first"))[axis]
        says = f"positions are added along the {placed} axis of what enters its layers, and attention runs along the"
        found.findings.append(Finding(slot, f"{says} {attended}{attention.where_scored}"))


Layer = tuple[Step, Step]

NARROW = ("norm", "sum", "look-up", "scaled")
"""Kinds of values that are narrower than the layers, where a map widens them."""


def layers_of(found: EncoderReading, stream: Stream) -> Iterator[Layer]:
    """Yield attention and feed-forward network of each layer."""
    steps = list(stream.steps)
    pairs = list(zip(steps[::2], steps[1::2], strict=False))
    are_exchanged = all(isinstance(one.part, FeedForward) and isinstance(two.part, Attention) for one, two in pairs)
    if are_exchanged and len(steps) == 2 * len(pairs) > 2:
        says = "the feed-forward network of each layer stands before its attention"
        found.findings.append(Finding("layer", f"{says}{where_of(steps[0].part)}"))
        steps = [step for network, attention in pairs for step in (attention, network)]
    while steps:
        first = steps.pop(0)
        if not isinstance(first.part, Attention) or not first.part.heads:
            found.unread.append(f"a sublayer without attention before it{where_of(first.part)}")
            if isinstance(first.part, Attention):
                found.take(first.part)
            continue
        if not steps or not isinstance(steps[0].part, FeedForward):
            found.unread.append(f"an attention without feed-forward network behind it{where_of(first.part)}")
            continue
        yield first, steps.pop(0)


def where_of(part: Attention | FeedForward) -> str:
    """Return where a sublayer is, in brackets."""
    return part.where if isinstance(part, FeedForward) else part.weights.where


def read_layers(found: EncoderReading, stream: Stream, layers: Sequence[Layer]) -> None:
    """Read the equations of all layers, and their parameters."""
    graph = found.graph
    norms: dict[str, Norm | None] = {}
    for l, (first, second) in enumerate(layers):
        attention, network = first.part, second.part
        assert isinstance(attention, Attention)
        assert isinstance(network, FeedForward)
        place = f"layers.{l}."
        read_projections(found, place, attention)
        read_network(found, place, network)
        found.take(attention)
        if attention.gives is not None:
            found.within_attention |= parameters_between(graph, attention.reads, attention.gives)
        for name, of_result, step in (("norm_1", "norm_attention", first), ("norm_2", "norm_ffn", second)):
            norm = step.before if stream.is_pre else step.behind
            if norm is not None or not (step.is_parallel or (stream.starts_bare and step is stream.steps[0])):
                norms[place + name] = norm
            if stream.layer == "sandwich-ln":
                norms[place + of_result] = step.of_result
            if step.extra is not None:
                found.departing |= parameters_between(graph, step.extra.reads, step.extra.value)
            if step.before and step.behind and is_final_norm(step.behind, stream):
                says = f"the norm behind the last layer stands behind layer {l}, too{step.behind.value.where}"
                found.findings.append(Finding("final_norm", says))
            elif step.before and step.behind:
                found.unread.append(f"norms before and behind a sublayer{step.behind.value.where}")
    read_masks_by_ids(found, [a.part for a, _ in layers])  # type: ignore[misc]
    attention, network = layers[0][0].part, layers[0][1].part
    assert isinstance(attention, Attention)
    assert isinstance(network, FeedForward)
    head = attention.heads[0]
    found.sizes |= {
        "N": len(layers),
        "h": len(attention.heads),
        "d_k": head.W_Q.shape[1],
        "d_v": head.W_V.shape[1],
        "d_model": head.W_Q.shape[0],
        "d_ff": max(found.codes.forms[f"layers.{l}.W_1"].shape[1] for l in range(len(layers))),
    }
    found.choices |= {"layer": stream.layer, "residual": "sum"}
    biases = {path.rpartition(".")[2] for path in found.codes}
    projections = biases & {"b_Q", "b_K", "b_V"}
    found.choices["projections"] = (
        "linear" if not projections else "affine-but-keys" if projections == {"b_Q", "b_V"} else "affine"
    )
    found.choices["output"] = "affine" if "b_O" in biases else "linear"
    found.choices["ffn"] = network_by_biases(biases, is_gated=network.W_G is not None)
    missing_biases(found, len(layers))
    fill_up_networks(found, len(layers))
    read_reach(found, [a.part for a, _ in layers])  # type: ignore[misc]
    read_activation(found, [f.part for _, f in layers])  # type: ignore[misc]
    read_norms(found, stream, norms)
    read_norms_of_heads(found, [a.part for a, _ in layers])  # type: ignore[misc]
    read_factors_of_sublayers(found, layers)
    read_weights_of_stream(found, layers)
    read_groups(found, len(layers))
    find_merge(found)
    find_partly_shared(found, len(layers))


def is_final_norm(norm: Norm, stream: Stream) -> bool:
    """Return whether a norm has the parameters of the one behind the last layer."""
    last = stream.trailing.gamma if stream.trailing is not None else None
    return last is not None and norm.gamma is not None and torch.equal(norm.gamma, last)


def read_sharing(found: EncoderReading, N: int) -> None:
    """Read whether the layers have one set of parameters, or one table of distances."""
    first_of = Codes({p.split(".", 2)[2]: found.codes[p] for p in found.codes if p.startswith("layers.0.")})
    alike = all(
        is_one_array(found.graph, found.codes.get(f"layers.{l}.{name}", codes), codes)
        for l in range(1, N)
        for name, codes in first_of.items()
    )
    found.choices["sharing"] = "all" if N > 1 and alike and names(found.graph, first_of["W_Q"]) else "none"
    of_distances = [name for name in first_of if variants("sharing")["bias"].function(1, name) == 0]
    others = [(f"layers.{l}.{name}", name) for l in range(1, N) for name in of_distances]
    if (
        found.choices["sharing"] == "none"
        and others
        and all(
            path in found.codes and is_one_array(found.graph, found.codes[path], first_of[name])
            for path, name in others
        )
    ):
        found.choices["sharing"] = "bias"
        for path, _ in others:
            del found.codes[path]
    if found.choices["sharing"] == "all":
        for path in [p for p in found.codes if p.startswith("layers.") and not p.startswith("layers.0.")]:
            del found.codes[path]


def read_masks_by_ids(found: EncoderReading, attentions: Sequence[Attention]) -> None:
    """Read whether the ids decide which scores are hidden, and find layers in which they do not."""
    masked = [l for l, attention in enumerate(attentions) if attention.is_masked_by_ids]
    found.is_masked_by_ids = bool(masked)
    if 0 < len(masked) < len(attentions):
        bare = next(l for l in range(len(attentions)) if l not in masked)
        says = f"the ids hide keys in layer {masked[0]} and not in layer {bare}{attentions[bare].weights.where}"
        found.findings.append(Finding("mask", says))


def read_groups(found: EncoderReading, N: int) -> None:
    """Read heads that each have queries and share keys and values, and keep one copy of the maps that they share."""
    h = found.sizes["h"]
    heads = {(l, letter): found.codes[f"layers.{l}.W_{letter}"][0].reshape(h, -1) for l in range(N) for letter in "QKV"}
    shared = {at: in_order_of_appearance(columns[:, 0]) for at, columns in heads.items()}
    numbers = {at: int(groups.max()) + 1 for at, groups in shared.items()}
    if all(number == h for number in numbers.values()):
        find_keys_of_others(found, [(heads[l, "Q"], heads[l, "K"]) for l in range(N)])
    if all(number == h for number in numbers.values()) or any(numbers[l, "Q"] < h for l in range(N)):
        return
    for (_, letter), columns in heads.items():
        if idle := unused_twin(found.graph, columns) if letter in "KV" else "":
            what = {"K": "keys", "V": "values"}[letter]
            says = f"its {h} heads share the {what} of {numbers[0, letter]}, and {idle} is left unused"
            found.findings.append(Finding("projections", says))
            return
    g = numbers[0, "K"]
    if any(numbers[l, letter] != g for l in range(N) for letter in "KV"):
        found.foreign.append(
            f"its {h} heads share the keys of {g} and the values of another number, or not in all layers"
        )
        return
    found.choices["multihead"] = "grouped-query"
    found.sizes["g"] = g
    side_by_side = torch.arange(h) * g // h
    for (l, letter), groups in shared.items():
        if letter == "Q":
            continue
        first = [int((groups == group).nonzero()[0]) for group in groups.unique()]
        numbered = in_order_of_appearance(heads[l, letter][in_order_of_storage(found, heads[l, "Q"]), 0])
        wrong = (numbered != side_by_side).nonzero()
        if len(wrong):
            i = int(wrong[0])
            got, want = int(numbered[i]), int(side_by_side[i])
            says = f"head {i} reads head {got} of the {g} of keys and values, where {want} belongs"
            found.findings.append(Finding("groups", says))
        for name in (f"layers.{l}.W_{letter}", f"layers.{l}.b_{letter}"):
            if name in found.codes:
                each = found.codes[name].unflatten(-1, (h, -1))[..., first, :]
                found.codes[name] = each.flatten(-2)


def find_keys_of_others(found: EncoderReading, layers: Sequence[tuple[Tensor, Tensor]]) -> None:
    """Find heads whose queries meet the keys of another head, as the order in which the maps are stored has them.

    Args:
        found: takes it up.
        layers: columns (h, width) of the maps of queries and of keys in each layer.
    """
    for queries, keys in layers:
        if found.graph.owner(queries[:, 0]) is None or found.graph.owner(keys[:, 0]) is None:
            continue  # arrays for each head have no order
        ranks = [columns[:, 0].argsort().argsort().tolist() for columns in (queries, keys)]
        if others := [pair for pair in zip(*ranks, strict=True) if pair[0] != pair[1]]:
            says = f"the queries of head {others[0][0]} are compared with the keys of head {others[0][1]}"
            found.findings.append(Finding("split", says))
            return


def in_order_of_appearance(codes: Tensor) -> Tensor:
    """Return for each entry the number of what it equals, counted as they appear, however they are stored."""
    numbers = {code: number for number, code in enumerate(dict.fromkeys(codes.tolist()))}
    return torch.tensor([numbers[code] for code in codes.tolist()])


def in_order_of_storage(found: EncoderReading, columns: Tensor) -> Tensor:
    """Return the heads (h, width) in the order of their columns in one array, in whatever order they are computed."""
    first = columns[:, 0]
    return first.argsort() if found.graph.owner(first) is not None else torch.arange(len(first))


def unused_twin(graph: Graph, codes: Tensor) -> str:
    """Return the name of a parameter without influence that has the shape of one of these; empty if there is none."""
    used = {v.number for v in graph.ancestors(graph.output)}
    shapes = {v.shape for v in graph.owners(codes)}
    idle = (v for v in graph.values if v.operation == "parameter" and v.number not in used)
    return next((v.name for v in idle if v.shape in shapes), "")


def find_merge(found: EncoderReading) -> None:
    """Find heads that are split in another way than that in which they are laid side by side.

    In an array that holds all of Q, K and V each order is a way of packing them.
    """
    columns, rows = found.codes["layers.0.W_V"][0], found.codes.get("layers.0.W_O")
    owners = [found.graph.owner(codes) for codes in (columns, rows) if codes is not None]
    if rows is None or None in owners or len(columns) != len(rows) or columns.unique().numel() < columns.numel():
        return  # arrays for each head have no order beside each other, nor have those that heads share
    if bool((rows[columns.argsort(), 0].diff() > 0).all()):
        return
    places_of = columns.argsort().argsort().reshape(found.sizes["h"], -1)
    together = bool((places_of.amax(dim=1) - places_of.amin(dim=1) < places_of.shape[1]).all())
    if together:
        says = "the heads are not laid side by side in the order in which they were split"
        found.findings.append(Finding("merge", says))
    elif packed(found):
        found.interleaved = True
    else:
        says = "the columns of a head do not stand side by side in the maps, but its results do behind the attention"
        found.findings.append(Finding("split", says))


def packed(found: EncoderReading) -> bool:
    """Return whether one array holds the maps of queries, keys and values."""
    owners = [found.graph.owner(found.codes.forms[f"layers.0.W_{letter}"]) for letter in "QKV"]
    return owners[0] is not None and owners.count(owners[0]) == len(owners)


def find_partly_shared(found: EncoderReading, N: int) -> None:
    """Find layers that share their parameters with some of the others, but not with all."""
    made = len({int(found.codes[f"layers.{l}.W_Q"].min()) for l in range(N)})
    if 1 < made < N:
        found.findings.append(Finding("sharing", f"its {N} layers have the parameters of {made}"))


def read_projections(found: EncoderReading, place: str, attention: Attention) -> None:
    """Read W_Q, W_K, W_V and W_O with their biases: all heads side by side, in the order in which they are computed."""
    heads = attention.heads
    for letter in "QKV":
        found.codes[f"{place}W_{letter}"] = torch.cat([getattr(head, f"W_{letter}") for head in heads], dim=1)
        bias = torch.cat([getattr(head, f"b_{letter}") for head in heads])
        add_bias(found, f"{place}b_{letter}", bias)
    find_unmapped(found, place, attention)
    outputs = [head.W_O for head in heads]
    if all(W_O is not None for W_O in outputs):
        found.codes[f"{place}W_O"] = torch.cat([W_O for W_O in outputs if W_O is not None])
    else:
        width = sum(head.W_V.shape[1] for head in heads)
        found.numbers[f"{place}W_O"] = torch.eye(width, dtype=torch.float64)
    if attention.b_O is not None:
        add_bias(found, f"{place}b_O", attention.b_O)


PROJECTED = (("Q", "queries"), ("K", "keys"), ("V", "values"))
"""The letters of W_Q, W_K and W_V, and the vectors that these maps compute."""


def find_unmapped(found: EncoderReading, place: str, attention: Attention) -> None:
    """Find queries, keys and values that are what the attention reads, without a map."""
    owners = {what: found.graph.owner(found.codes.forms[f"{place}W_{letter}"]) for letter, what in PROJECTED}
    without = [what for what, owner in owners.items() if owner is not None and owner.operation == IDENTITY]
    if without:
        named = " and ".join(filter(None, [", ".join(without[:-1]), without[-1]]))
        says = f"the {named} are what the attention reads, without a map{attention.where_scored}"
        found.findings.append(Finding("projections", says))


def add_bias(found: EncoderReading, path: str, codes: Tensor) -> None:
    """Add a bias, unless there is none, or it is a constant 0."""
    there = codes != NONE
    if not bool(there.any()):
        return
    if not bool(there.all()):
        found.unread.append(f"a bias for some entries alone ({path})")
    elif found.graph.learned(codes) or bool(found.graph.numbers(codes).any()):
        found.codes[path] = codes


def network_by_biases(biases: set[str], *, is_gated: bool) -> str:
    """Return the variant of the feed-forward network that has these biases, and no further one unless it must."""
    inner = biases & {"b_1", "b_G"}
    if not is_gated:
        return "affine" if inner or "b_2" in biases else "linear"
    return "gated-affine" if inner else "gated-output-bias" if "b_2" in biases else "gated"


def missing_biases(found: EncoderReading, N: int) -> None:
    """Put zeros where an equation has a bias and this encoder has none."""
    needed = {"affine": "QKV", "affine-but-keys": "QV", "linear": ""}[str(found.choices["projections"])]
    letters = [f"b_{letter}" for letter in needed]
    letters += ["b_O"] if found.choices["output"] == "affine" else []
    letters += [name for name in variants("ffn")[str(found.choices["ffn"])].parameters if name.startswith("b_")]
    for l in range(N):
        for letter in letters:
            path = f"layers.{l}.{letter}"
            if path not in found.codes:
                held = found.codes.forms if path.replace("b_", "W_") in found.codes else found.numbers
                found.numbers[path] = torch.zeros(held[path.replace("b_", "W_")].shape[-1], dtype=torch.float64)


def fill_up_networks(found: EncoderReading, N: int) -> None:
    """Give narrower feed-forward networks the width of the widest: what rows of 0 in W_2 read has no effect."""
    for l in range(N):
        place = f"layers.{l}."
        width = found.codes.forms[f"{place}W_1"].shape[1]
        beyond = found.sizes["d_ff"] - width
        sides = dict.fromkeys(("W_1", "W_G", "b_1", "b_G"), (0, beyond)) | {"W_2": (0, 0, 0, beyond)}
        for held, (name, side) in product((found.codes, found.numbers), sides.items() if beyond else ()):
            if (path := f"{place}{name}") in held:
                found.widths[path] = width
                held[path] = pad(held[path], side)  # code 0 is the number 0


def read_network(found: EncoderReading, place: str, network: FeedForward) -> None:
    """Read the maps of a feed-forward network."""
    found.codes[f"{place}W_1"] = network.W_1
    if network.absent:
        found.take(Remarks(findings=[Finding("ffn", network.absent)]))
    if network.W_2 is not None:
        found.codes[f"{place}W_2"] = network.W_2
    else:
        found.numbers[f"{place}W_2"] = torch.eye(network.W_1.shape[1], dtype=torch.float64)
        found.findings.append(Finding("ffn", f"its feed-forward network has one map where two belong{network.where}"))
    add_bias(found, f"{place}b_1", network.b_1)
    if network.W_G is not None and network.b_G is not None:
        found.codes[f"{place}W_G"] = network.W_G
        add_bias(found, f"{place}b_G", network.b_G)
    if network.b_2 is not None:
        add_bias(found, f"{place}b_2", network.b_2)


def read_norms(found: EncoderReading, stream: Stream, norms: Mapping[str, Norm | None]) -> None:
    """Read the form of the norms, their ε, and the norms outside of the layers.

    Args:
        found: takes up what is read.
        stream: has the norms outside of the layers.
        norms: those of the sublayers, by canonical path.
    """
    there = [norm for norm in norms.values() if norm is not None]
    outside = [norm for norm in (stream.leading, stream.trailing) if norm is not None]
    for norm in (*there, *outside):
        if not norm.form:
            found.take(another_norm(norm, found.sizes["d_model"]))
            found.departing |= parameters_between(found.graph, norm.reads, norm.value)
    found.norms_are_read = all(norm.form for norm in (*there, *outside))
    # Beside no network no norm is missed.
    have_none = any(isinstance(step.part, FeedForward) and step.part.absent for step in stream.steps)
    bare = [place for place, norm in norms.items() if norm is None]
    if stream.starts_bare:
        found.choices["layers.0"] = "pre-ln-bare"
    find_missing_norms(found, [place for place in bare if not (have_none and place.endswith("norm_2"))])
    known = Counter((norm.form, norm.eps) for norm in there if norm.form) or Counter((n.nearest, n.eps) for n in there)
    form, eps = known.most_common(1)[0][0] if known else (LAYER_NORM, 0.0)
    found.choices |= {"norm": form} | ({"eps": eps} if eps or any(norm.form for norm in there) else {})
    for place, read in norms.items():
        read_norm_parameters(found, place, read, form)
    found.choices |= {"embedding_norm": "none", "final_norm": "none"}
    for outer, place, slot in (
        (stream.leading, "norm_embedding", "embedding_norm"),
        (stream.trailing, "norm_final", "final_norm"),
    ):
        if outer is not None:
            read_outer_norm(found, outer, place, slot)
    for name in dict.fromkeys(place.rpartition(".")[2] for place in norms):
        read_eps(found, name, [norm for place, norm in norms.items() if place.endswith(name) and norm and norm.form])


def read_eps(found: EncoderReading, name: str, norms: Sequence[Norm]) -> None:
    """Read the ε of one norm of all layers, where it is not that of the other one."""
    usual = float(found.choices["eps"]) if norms else 0.0
    eps, *others = dict.fromkeys(norm.eps for norm in norms) or [usual]
    if far := [other for other in others if abs(other - eps) > NEAR * eps]:
        says = f"the norms of the layers have several ε: {eps:g} and {far[0]:g}{norms[-1].value.where}"
        found.findings.append(Finding("norm", says))
    elif abs(eps - usual) > NEAR * usual:
        found.choices[f"{name}.eps"] = eps


def parameters_between(graph: Graph, codes: Tensor, value: Value) -> set[str]:
    """Return the names of the parameters that a value is made of and these entries are not."""
    behind, before = ({v.name for v in graph.ancestors(c) if v.operation == "parameter"} for c in (value.codes, codes))
    return behind - before


def another_norm(norm: Norm, width: int) -> Remarks:
    """Say what is known of a norm that no equation gives, beside features of this width."""
    sizes = [norm.reads.shape[axis] for axis in norm.axes]
    if norm.by_feature:
        whose = (
            "groups of the features, not of all"
            if sizes == [width]
            else "other positions or sequences, not of the features"
        )
        return Remarks(
            findings=[Finding("statistics", f"the statistics of a norm are those of {whose}{norm.value.where}")]
        )
    if sizes != [width]:
        over = " × ".join(map(str, sizes))
        says = f"the statistics of a norm run over {over} entries, where {width} features belong{norm.value.where}"
        return Remarks(findings=[Finding("statistics", says)])
    if norm.gamma is not None and norm.gamma.unique().numel() < width:
        return Remarks(unread=[f"a norm with one γ for all features{norm.value.where}"])
    if norm.uncentred:
        return Remarks(findings=[Finding("statistics", f"a norm with β leaves the mean in{norm.value.where}")])
    says = f"a norm gives other numbers than any norm of the specification{norm.value.where}"
    return Remarks(findings=[Finding("norm", says)])


def find_missing_norms(found: EncoderReading, places: Sequence[str]) -> None:
    """Find sublayers without a norm."""
    for name, sublayer in (("norm_1", "attention"), ("norm_2", "feed-forward network")):
        layers = [place.split(".")[1] for place in places if place.endswith(name)]
        if layers:
            of = f"layer {layers[0]}" if len(layers) == 1 else f"layers {', '.join(layers)}"
            found.findings.append(Finding("statistics", f"the {sublayer} of {of} has no norm"))


def read_scale_of_scores(found: EncoderReading, attentions: Sequence[Attention]) -> None:
    """Read the number that multiplies the scores."""
    d_k = found.sizes["d_k"]
    of, root = d_k, "√d_k"
    if found.choices.setdefault("scores", "scaled") == "disentangled":
        of, root = 3 * d_k, "√(3 d_k)"
    right = of**-0.5
    scales = {a.scale for a in attentions if a.scale is not None}
    if not scales:
        return
    if all(abs(s - 1) <= SAME for s in scales) and d_k > 1:
        # Beside what no equation covers, such as another bias of the scores, it may be meant.
        beside = found.choices["scores"] != "scaled" or variants("scores")["unscaled"].is_mistake_beside(found.choices)
        if beside and not found.foreign:
            says = f"the scores are not divided by {root}{attentions[0].where_scored}"
            found.findings.append(Finding("scores", says, "unscaled"))
        else:
            found.choices["scores"] = "unscaled"
        return
    if len(scales) == 1 and abs(min(scales) / right - 1) > SAME and is_kept_as(min(scales), right):
        found.kept["scores"] = min(scales)
    for a in attentions:
        if a.scale is not None and not is_kept_as(a.scale, right):
            says = f"the scores are multiplied by {a.scale:.6g}, where 1/√{of} = {right:.6g} belongs{a.where_scored}"
            found.take(Remarks(findings=[Finding("scores", says)]))


def read_norms_of_heads(found: EncoderReading, attentions: Sequence[Attention]) -> None:
    """Read the norms of queries and keys, in each head or over all of them."""
    normed = [attention.norms for attention in attentions if attention.norms is not None]
    if not normed:
        return
    if len(normed) < len(attentions):
        where = normed[0][0].value.where
        found.foreign.append(f"queries and keys are normed in {len(normed)} of its {len(attentions)} layers{where}")
        return
    factors = [attention.factors for attention in attentions if attention.factors is not None]
    if factors and len(factors) < len(attentions):
        found.foreign.append(f"some of its layers alone have factors for each head{attentions[0].where_scored}")
        return
    across = {attention.are_across_heads for attention in attentions}
    if len(across) > 1:
        found.foreign.append(
            f"some of its layers alone norm queries and keys over all heads{attentions[0].where_scored}"
        )
        return
    found.choices["attention"] = "normed-across-heads" if True in across else "normed-by-head" if factors else "normed"
    for l, both in enumerate(factors):
        for letter, codes in zip("qk", both, strict=True):
            found.codes[f"layers.{l}.gamma_{letter}"] = codes
    for i, name in enumerate(("norm_q", "norm_k")):
        here = [both[i] for both in normed]
        for l, norm in enumerate(here):
            read_norm_parameters(found, f"layers.{l}.{name}", norm, norm.form)
        read_form(found, name, here)


def read_form(found: EncoderReading, name: str, norms: Sequence[Norm]) -> None:
    """Read form and ε of the norms in one place of all layers, where they are not those of the others."""
    if norms[0].form != found.choices["norm"]:
        found.choices[name] = norms[0].form
    if any(norm.form != norms[0].form for norm in norms):
        found.unread.append(f"the norms of its queries and keys are not of one form{norms[0].value.where}")
    read_eps(found, name, norms)


def read_factors_of_sublayers(found: EncoderReading, layers: Sequence[Layer]) -> None:
    """Read the learned factors with which the features of the sublayers are added (LayerScale)."""
    parts = {f"layers.{l}.residual_{i}.lam": s.part for l, both in enumerate(layers) for i, s in enumerate(both, 1)}
    if all(part.lam is None for part in parts.values()):
        return
    found.choices["residual"] = "scaled"
    for path, part in parts.items():
        if part.lam is None:
            found.numbers[path] = torch.ones(found.sizes["d_model"], dtype=torch.float64)
        else:
            add_bias(found, path, part.lam)


FEW_DIGITS = 0.01
"""How far, relatively, a weight of the stream may be from DeepNorm's to be taken for it with too few digits."""

MOST_ROUNDED = 32
"""Of a decoder with more layers a weight in float32 does not tell the number: those of neighbours are too near."""

MOST_OF_A_DECODER = 1000
"""So many layers a decoder may have: of more than that, any weight is nearly that of some number of them."""


def read_weights_of_stream(found: EncoderReading, layers: Sequence[Layer]) -> None:
    """Read the number that multiplies the stream in each residual sum, which may be that of DeepNorm."""
    steps = [step for both in layers for step in both if step.is_added and not is_absent(step.part)]
    weights = Counter(step.times for step in steps)
    if set(weights) <= {1.0}:
        return
    N = len(layers)
    published = next((w for w, _ in weights.most_common() if weighed(w, N)), None)
    meant = published or next((w for w in weights if len(weights) == 1 and is_mistaken_alpha(w, N)), None)
    if meant is None or found.choices["residual"] == "scaled":
        found.findings += [weight_found(step) for step in steps if step.times != 1]
        return
    choices = weighed(meant, N) or {"residual": "deepnorm"}
    equation = variants("residual")[str(choices["residual"])]
    if equation.is_mistake_beside(found.choices):
        variant = equation.variant if len(weights) == 1 and published else ""
        found.findings += [weight_found(step, variant=variant) for step in steps if step.times != 1]
        return
    M = choices.get("decoder_layers")
    right, symbol = (alpha(N), "(2N)^¼") if M is None else (alpha_with_decoder(N, int(M)), "0.81 (N⁴M)^(1/16)")
    found.choices |= choices
    if published is not None and abs(published / right - 1) > SAME:
        found.kept["residual"] = published
    belongs = f", where {symbol} = {right:.6g} belongs to {N} layers"
    found.findings += [weight_found(step, belongs) for step in steps if step.times != published]


def is_absent(part: Attention | FeedForward) -> bool:
    """Return whether a sublayer stands where an encoder has none."""
    return isinstance(part, FeedForward) and bool(part.absent)


def weighed(weight: float, N: int) -> dict[str, str | float]:
    """Return the choices of DeepNorm that give the stream of N layers this weight; nothing if it has another one.

    A decoder that reads the encoder's output shows in the weight alone.
    """
    if abs(weight / alpha(N) - 1) <= NEAR:
        return {"residual": "deepnorm"}
    M = round((weight / alpha_with_decoder(N, 1)) ** 16)
    if not 1 <= M <= MOST_OF_A_DECODER:
        return {}
    off = abs(weight / alpha_with_decoder(N, M) - 1)
    is_near = off <= (NEAR if M <= MOST_ROUNDED else SAME)
    return {"residual": "deepnorm-with-decoder", "decoder_layers": M} if is_near else {}


def is_mistaken_alpha(weight: float, N: int) -> bool:
    """Return whether a weight is nearly DeepNorm's, or the fourth root of a whole number: as in another depth."""
    power = weight**4
    is_root = power > 1 and abs(power / round(power) - 1) <= 8 * SAME
    return (is_root and abs(weight - round(weight)) > SAME) or abs(weight / alpha(N) - 1) <= FEW_DIGITS


def weight_found(step: Step, belongs: str = "", variant: str = "") -> Finding:
    """Return what is found of a stream that has another weight than 1, or than another one that belongs there."""
    how = "is not multiplied" if step.times == 1 else f"is multiplied by {step.times:.6g}"
    says = f"the stream {how} before the {step.kind}'s result is added{step.where}{belongs}"
    return Finding("residual", says, variant)


def read_rotation(found: EncoderReading, attentions: Sequence[Attention]) -> None:
    """Read by which angles positions turn queries and keys."""
    turned = [attention.turning for attention in attentions]
    found.choices["rotation"] = "none"
    if not any(turned):
        return
    if any(each is not None and each.mixes is not None for each in turned):
        found.choices["rotation"] = "halves"  # what it comes nearest to
        return
    ways = [None if each is None else wavelengths(each, found.sizes["d_k"], grid_of(found)) for each in turned]
    first = next(way for way in ways if way is not None)
    where = next(a.where_scored for a in attentions if a.turning is not None)
    if odd := next((way.odd for way in ways if way is not None and way.odd), ""):
        found.foreign.append(f"its queries and keys are turned by their positions, but {odd}{where}")
        return
    if wrong := next((way.wrong for way in ways if way is not None and way.wrong), ""):
        found.findings.append(Finding("rotation", f"its queries and keys are {wrong}{where}"))
    every = [first if way is None else way for way in ways]
    usual = VASWANI_2017.choices()
    names_read = list(dict.fromkeys(name for way in every for name in way.choices))
    read = {name: [way.choices.get(name, usual[name]) for way in every] for name in names_read}
    read["rotation"] = ["none" if way is None else way.choices["rotation"] for way in ways]
    found.choices |= {name: in_words(in_turn_by(values)) for name, values in read.items()}
    found.findings += unturned(found, attentions)
    # Of 10000^(-2i/d_model) the base is a root of the usual one, as no author writes it unless it is a published one.
    ratio = found.sizes["d_model"] / found.sizes["d_k"]
    published = {base for profile in PROFILES.values() for base in profile.choice("theta")}
    unpublished = (base for base in read.get("rotary_base", ()) if base not in published)
    if any(as_written(float(base) ** ratio) == USUAL_BASE for base in unpublished):
        says = f"the exponents of its wavelengths are divided by d_model = {found.sizes['d_model']}, where d_k ="
        found.findings.append(Finding("angles", f"{says} {found.sizes['d_k']} belongs{where}"))
    found.is_rounded |= any(way.is_rounded for way in every)
    kept = [way.omega for way in every if way.omega is not None]
    if any(way.is_kept for way in every) and (len(kept) < len(every) or len(set(read["angles"])) > 1):
        found.is_rounded = True  # what the layers have in turn is not kept in one way
    elif any(way.is_kept for way in every):
        alike = all(way.choices == first.choices for way in every)
        found.kept["angles"] = kept[:1] if alike else kept


def unturned(found: EncoderReading, attentions: Sequence[Attention]) -> list[Finding]:
    """Return what is found where positions turn nothing in some layers, which reach no other keys than the others do.

    In published encoders those layers do without that attend to all positions, beside others with windows.
    """
    bare = [l for l, attention in enumerate(attentions) if attention.turning is None]
    reached = {attentions[l].reach.variant for l in bare}
    if not bare or reached.isdisjoint(a.reach.variant for a in attentions if a.turning is not None):
        return []
    others = next(l for l in range(len(attentions)) if l not in bare)
    says = f"positions turn no queries and keys in layer {bare[0]}, as they do in layer {others}"
    return [Finding("rotation", f"{says}{attentions[bare[0]].where_scored}", str(found.choices["rotation"]))]


def grid_of(found: EncoderReading) -> tuple[int, int] | None:
    """Return how many rows and columns of patches the images that are read have; None without patches."""
    if found.images is None:
        return None
    axes, shape = found.images
    _, height, width = axes.sizes(shape)
    return height // found.sizes["patch"], width // found.sizes["patch_width"]


def made_for_images(found: EncoderReading) -> tuple[int, ...] | None:
    """Return the shape of the images that an encoder is made for, if it resampled its table of positions for others.

    The patches of these have a row each in the table. Its rows may be read for the images that it is made for alone.
    """
    grid = grid_of(found)
    if found.images is None or grid is None or "P" not in found.codes or not found.made_for:
        return None
    (axes, shape), special = found.images, len(found.codes["P"]) - grid[0] * grid[1]
    special += found.sizes["r"] if found.registers_are_placed else 0  # whose rows stand in the table
    tables = (v for v in found.graph.ancestors(found.codes["P"]) if v.operation == "parameter")
    for rows in (table.shape.numel() // found.sizes["d_model"] for table in tables):
        side = math.isqrt(max(rows - special, 0))
        if side > 1 and side**2 == rows - special and grid != (side, side):
            height, width = side * found.sizes["patch"], side * found.sizes["patch_width"]
            sides = {"c": axes.sizes(shape)[0], "y": height, "x": width}
            return shape[0], *(sides[axis] for axis in axes.order)
    return None


def several_patches(found: EncoderReading) -> tuple[int, ...] | None:
    """Return the shape of images of 2 × 3 patches, if positions are fixed numbers and were read of a single patch.

    One position fits every layout of sinusoids.
    """
    if found.images is None or grid_of(found) != (1, 1) or not found.made_for:
        return None
    axes, shape = found.images
    sides = {"c": axes.sizes(shape)[0], "y": 2 * found.sizes["patch"], "x": 3 * found.sizes["patch_width"]}
    return shape[0], *(sides[axis] for axis in axes.order)


def as_stretched(shown: EncoderReading) -> EncoderReading | None:
    """Return a reading in which coordinates are stretched to the image that was seen; None if they cannot be.

    Of an image as large as that to which they are stretched, they are just counted.
    """
    grid = grid_of(shown)
    if shown.choices.get("coordinates") != "counted" or grid is None or len(set(grid)) > 1:
        return None
    return replace(shown, choices=shown.choices | {"coordinates": "stretched", "grid_reference": grid[0]})


def read_slopes(found: EncoderReading, attentions: Sequence[Attention]) -> None:
    """Read by how much the scores fall with the distance."""
    sloped = [attention.slopes for attention in attentions if attention.slopes is not None]
    found.choices["bias"] = "none"
    if not sloped:
        return
    own, where = slopes(len(sloped[0])), attentions[0].where_scored
    off = max(float((each / own - 1).abs().max()) if len(each) == len(own) else math.inf for each in sloped)
    found.choices["bias"] = "alibi"
    if len(sloped) < len(attentions):
        says = f"the scores fall with the distance in {len(sloped)} of the {len(attentions)} layers alone{where}"
        found.findings.append(Finding("bias", says))
    if off > NEAR:
        got, want = (", ".join(f"{float(slope):.3g}" for slope in each) for each in (sloped[0], own))
        says = f"the scores of the heads fall with the distance by {got}, where {want} belong{where}"
        found.findings.append(Finding("bias", says))
    elif any(attention.is_rounded for attention in attentions):
        found.is_rounded = True
    elif off > SAME:
        found.kept["bias"] = sloped[0]


def farthest_told(
    rows: Tensor, number: int, row_of: Callable[..., Tensor], likely: Sequence[float], least: int
) -> tuple[float, str]:
    """Return from which distance on relative positions share a row, by the rows (n, n) of a table with so many.

    What is read of short inputs leaves several open: of these the first one that people choose. And how the rows
    depart from the likeliest, in words, if those of no distance fit.

    Args:
        rows: those that are read.
        number: how many the table has.
        row_of: the rows of an equation, by n, the number of rows and the farthest distance.
        likely: what people choose, the likeliest first.
        least: the nearest one that the equation takes.
    """
    n = len(rows)
    for farthest in (*likely, *map(float, range(least, 2 * n))):
        if farthest >= least and torch.equal(row_of(n, number, farthest), rows):
            return farthest, ""
    place = torch.arange(n)
    first = tuple((row_of(n, number, likely[0]) != rows).nonzero()[0])
    got, want = (int(each[first]) for each in (rows, row_of(n, number, likely[0])))
    where = f"a key at k − j = {int((place - place[:, None])[first])} reads row {got} of the table of distances"
    return likely[0], f"{where}, where row {want} belongs"


def farthest_distance(rows: Tensor, number: int) -> tuple[float | None, str]:
    """Return from which distance on relative positions share a row of a table that is added, as ``farthest_told`` does.

    None if keys up to the query and behind it have not each half of the rows.
    """
    n, half = len(rows), number // 2
    place = torch.arange(n)
    ahead = place - place[:, None]
    if number % 4 or n == 1 or not bool(((rows >= half) == (ahead > 0)).all()):
        return None, ""
    return farthest_told(rows, number, buckets, (FARTHEST_OF_T5, *POWERS), half // 2 + 1)


FARTHEST_OF_T5, FARTHEST_OF_DEBERTA = 128.0, 512.0
"""Distances from which on relative positions share a row in released encoders; many others keep them."""

POWERS = tuple(float(2**power) for power in range(3, 14))
"""Other such distances that people choose."""


def order_by_distance(table: DistanceTable) -> Tensor | None:
    """Return the rows of a table in the order of the distances that they tell one by one; None if they do not.

    A table may tell them from either end. Rows that no pair reads, as the table has more on one side, are left out.
    """
    n, own = len(table.rows), int(table.rows[0, 0])
    step = int(table.rows[0, 1]) - own if n > 1 else 0
    room = {1: own, -1: len(table.codes) - 1 - own}
    if abs(step) != 1:
        return None
    place = torch.arange(n)
    extents = []
    for side, read in ((-1, table.rows[-1].flip(0)), (1, table.rows[0])):
        told = int((read == own + side * step * place).long().cumprod(0).sum()) - 1
        extents.append(told if told < n - 1 else room[-side * step])
    before, behind = extents
    behind = min(before, behind)
    before = before if before == behind + 1 else behind
    order = own + step * torch.arange(-before, behind + 1)
    return order if torch.equal(order[row_of_distance(n, len(order))], table.rows) else None


def order_by_grid(table: DistanceTable, grid: tuple[int, int] | None) -> Tensor | None:
    """Return the rows of a table in the order of the ways from patch to patch that they stand for; None if of others.

    Each distance along both axes has its own row, and so has what a class token reads, and what reads it.
    """
    n = len(table.rows)
    if grid is None or n - math.prod(grid) not in (0, 1):
        return None
    own = row_of_places(n, *grid)
    order = torch.zeros(int(own.max()) + 1, dtype=torch.long)
    order[own] = table.rows
    is_told = torch.equal(order[own], table.rows) and order.unique().numel() == len(order)
    return order if is_told else None


def orders_of_rows(
    tables: Sequence[DistanceTable | None], grid: tuple[int, int] | None
) -> tuple[str, list[Tensor]] | None:
    """Return the equation of tables with a row for each distance, and their rows in its order; None if none fits."""
    present = [table for table in tables if table is not None]
    for variant, orders in (
        ("by-grid", [order_by_grid(table, grid) for table in present]),
        ("by-distance", [order_by_distance(table) for table in present]),
    ):
        told = [order for order in orders if order is not None]
        if len(told) == len(tables) and len(set(map(len, told))) == 1:
            return variant, told
    return None


def read_tables_of_distances(found: EncoderReading, attentions: Sequence[Attention]) -> None:
    """Read the tables of relative positions, and which of their rows is read for which distance."""
    tables = [attention.table for attention in attentions]
    first = next((table for table in tables if table is not None), None)
    if first is None:
        return
    where = attentions[0].where_scored
    if None in tables or found.choices["bias"] != "none":
        found.foreign.append(f"its scores get a table of distances added in some of its layers alone{where}")
        return
    number = len(first.codes)
    if (orders := orders_of_rows(tables, grid_of(found))) is not None:
        variant, read = orders
        found.choices["bias"] = variant
        found.sizes["buckets"] = len(read[0])
        for l, (table, order) in enumerate(zip(tables, read, strict=True)):
            assert table is not None
            found.codes[f"layers.{l}.R"] = table.codes[order]
        return
    farthest, _ = farthest_distance(first.rows, number)
    if farthest is None and (farthest := farthest_distance(first.rows.mT, number)[0]) is not None:
        says = f"its table of distances is read from the key to the query, and not from the query to the key{where}"
        found.findings.append(Finding("bias", says))
        tables = [None if table is None else replace(table, rows=table.rows.mT) for table in tables]
    if farthest is None:
        named = names(found.graph, first.codes)
        found.foreign.append(f"its scores get the bias {named} added, whose rows tell no distances in buckets{where}")
        return
    found.choices |= {"bias": "bucketed", "max_distance": farthest}
    found.sizes["buckets"] = number
    for l, table in enumerate(tables):
        assert table is not None
        found.codes[f"layers.{l}.R"] = table.codes
        if says := farthest_distance(table.rows, number)[1]:
            found.findings.append(Finding("bias", f"{says}{where}"))


def read_vectors_of_distances(found: EncoderReading, attentions: Sequence[Attention]) -> None:
    """Read the vectors of distances that queries and keys are multiplied with, and which is read for which distance."""
    found.choices["scores"] = "scaled"
    told = [attention.distances for attention in attentions]
    first = next(iter(filter(None, told)), None)
    if first is None:
        return
    where = attentions[0].where_scored
    of, named = " and ".join(each.of for each in first), names(found.graph, first[0].table)
    says = f"its {of} are multiplied with vectors of distances ({named}), too"
    if any([each.of for each in here] != [each.of for each in first] for here in told):
        found.foreign.append(f"{says}, but not in all layers{where}")
    elif len(first) == 1 and all(is_of_keys(each, found.sizes["d_k"]) for (each,) in told):
        read_relative_keys(found, [each for (each,) in told], f"{says}, whose rows tell none{where}")
    elif all(is_disentangled(here, attention) for here, attention in zip(told, attentions, strict=True)):
        read_disentangled(found, told, where)
    else:
        found.foreign.append(f"{says}{where}")
    for here, attention in zip(told, attentions, strict=True):
        for each in here:
            if attention.scale is not None and abs(each.scale / attention.scale - 1) > NEAR:
                by = f"by {each.scale:.6g}, where {attention.scale:.6g} belongs as everywhere in the scores"
                says = f"the products of {each.of} and vectors of distances are multiplied {by}{where}"
                found.findings.append(Finding("scores", says))


def is_of_keys(read: OfDistances, d_k: int) -> bool:
    """Return whether queries are multiplied with the rows of a table as they are, which all heads share."""
    return read.of == "queries" and read.maps is None and read.norm is None and read.table.shape[1] == d_k


def read_relative_keys(found: EncoderReading, told: Sequence[OfDistances], otherwise: str) -> None:
    """Read tables with a row for each distance, up to the farthest, or say how they are otherwise."""
    orders = [order_by_distance(DistanceTable(each.table, each.rows)) for each in told]
    if any(order is None for order in orders):
        found.foreign.append(otherwise)
        return
    found.choices["scores"] = "relative-keys"
    for l, (each, order) in enumerate(zip(told, orders, strict=True)):
        found.codes[f"layers.{l}.D"] = each.table[order]
        found.sizes["buckets"] = len(found.codes[f"layers.{l}.D"])


def is_disentangled(read: Sequence[OfDistances], attention: Attention) -> bool:
    """Return whether queries and keys are multiplied with those of the rows of one table, which their own maps give."""
    by_side = {each.of: each for each in read}
    if len(read) != 2 or len(by_side) != 2:
        return False
    queries, keys = by_side["queries"], by_side["keys"]
    if queries.maps is None or keys.maps is None or queries.norm is None or keys.norm is None:
        return False
    own = [(head.W_K, head.b_K, head.W_Q, head.b_Q) for head in attention.heads]
    theirs = [(*of_keys, *of_queries) for of_keys, of_queries in zip(queries.maps, keys.maps, strict=True)]
    is_one = torch.equal(queries.table, keys.table) and queries.norm.value is keys.norm.value
    return is_one and all(map(torch.equal, sum(own, ()), sum(theirs, ())))


def read_disentangled(found: EncoderReading, told: Sequence[Sequence[OfDistances]], where: str) -> None:
    """Read one table of distances, of whose rows queries and keys are made as of tokens."""
    table = told[0][0].table
    number, named = len(table), names(found.graph, table)
    found.choices |= {"scores": "disentangled", "max_distance": FARTHEST_OF_DEBERTA}
    for each in dict.fromkeys(each for here in told for each in here):
        one_by_one = row_of_distance(len(each.rows), number)
        if len(each.rows) > number // 4 + 1 and any(
            torch.equal(rows, one_by_one) for rows in (each.rows, each.rows.mT)
        ):
            found.foreign.append(f"its vectors of distances ({named}) tell each one by itself{where}")
            return
        (farthest, wrong), (_, wrong_from_keys) = (
            farthest_told(rows, number, row_of_bucket, (FARTHEST_OF_DEBERTA, *POWERS), number // 4 + 2)
            for rows in (each.rows, each.rows.mT)
        )
        if wrong and not wrong_from_keys:
            wrong = f"{each.of} are multiplied with the vector of k − j, where that of j − k belongs"
        elif not wrong:
            found.choices["max_distance"] = farthest
        found.findings += [Finding("scores", f"{wrong}{where}")] if wrong else []
    found.sizes["buckets"] = number
    norms = [here[0].norm for here in told]
    for l, (here, norm) in enumerate(zip(told, norms, strict=True)):
        assert norm is not None
        found.codes[f"layers.{l}.D"] = here[0].table
        read_norm_parameters(found, f"layers.{l}.norm_D", norm, norm.form)
    read_form(found, "norm_D", [norm for norm in norms if norm is not None])


def read_reach(found: EncoderReading, attentions: Sequence[Attention]) -> None:
    """Read which keys the queries of each layer read."""
    reached = [attention.reach for attention in attentions]
    wrong = next(
        ((r, a) for r, a in zip(reached, attentions, strict=True) if r.variant not in ("global", "local")), None
    )
    if wrong is not None:
        reach, attention = wrong
        says = f"with nothing padded, {reach.says}{attention.weights.where}"
        found.findings.append(Finding("reach", says, reach.variant))
        return
    found.choices["reach"] = in_words(in_turn_by([reach.variant for reach in reached]))
    windows = [reach.window for reach in reached if reach.window]
    if windows:
        found.choices["window"] = in_words(in_turn_by([float(reach.window or windows[0]) for reach in reached]))


def read_activation(found: EncoderReading, networks: Sequence[FeedForward]) -> None:
    """Read the activation."""
    kinds = [n.activation for n in networks]
    named = Counter(filter(None, (n.activation or n.resembles for n in networks))).most_common(1)
    if named:
        found.choices["activation"] = named[0][0]
    roots = [n.root for n in networks if n.root is not None]
    if roots and len(roots) == len(networks) and max(roots) - min(roots) <= SAME:
        found.kept["activation"] = roots[0]
    others = Remarks()
    for network in networks:
        if network.is_glu:
            says = f"one map is multiplied by the logistic function of another (GLU){network.where}"
            others.take(Remarks(foreign=[says]))
        elif not network.activation:
            near = f", near {network.resembles} and up to {network.off:.1g} from it" if network.off < math.inf else ""
            made = ", ".join(network.operations) or "none at all"
            says = f"the activation is none of the specification's: {made}{network.where}{near}"
            others.take(Remarks(findings=[Finding("activation", says)]))
    found.take(others)
    if len(set(kinds)) > 1 and all(kinds):
        found.findings.append(
            Finding("activation", f"the layers have several activations: {', '.join(dict.fromkeys(kinds))}")
        )


def demand_positions(found: EncoderReading) -> None:
    """Find tokens to which no positions are added; mapped features and vectors are a set without them.

    Vectors that are merely multiplied may as well be given embeddings that are scaled once more; normed ones are not.
    """
    if "position" in found.choices or any(f.slot == "position" for f in found.findings):
        return
    if told_in_attention(found.choices) and found.choices.get("input") != "given":
        found.choices["position"] = "in-attention"
        return
    if found.choices.get("embedding") in READ_AS_REALS:
        is_normed = {found.choices["embedding_norm"], found.choices["token_norm"]} != {"none"}
        if found.choices["embedding"] == "vectors" and found.choices["cls"] == "none" and not is_normed:
            found.unread.append("nothing is added to its input that tells positions")
        else:
            found.choices["position"] = "none"
    elif {"E", "W_patch"} & found.codes.keys() or found.stages:
        others = [said for said in found.unread if said != ONE_FOR_ALL]
        if not (others or found.foreign or found.foreign_input):
            instead = f": {ONE_FOR_ALL}" if found.unread else ""
            says = f"nothing is added to the tokens that tells their positions{instead}"
            found.findings.append(Finding("position", says, "none"))
            found.unread = others


def read_inputs(found: EncoderReading, stream: Stream) -> None:
    """Read what enters the first layer; behind a map of embeddings that are narrower, what enters that."""
    source, leading = stream.source, stream.leading
    assert source is not None
    widened = source.what if source.kind == "map" and source.parts[0].kind in NARROW else None
    if isinstance(widened, Affine):
        source = source.parts[0]
        if source.kind == "norm":
            assert isinstance(source.what, Norm)
            leading, source = source.what, source.parts[0]
    read_entrance(found, source, is_normed=leading is not None)
    if (grid := grid_of(found)) is not None:
        read_sinusoids_of_grid(found, *grid)
    if isinstance(widened, Affine) and "embedding" in found.choices:
        found.choices["input"] = "factorised"
        found.codes["W_e"], bias = widened.map_and_bias()
        if bias is None:
            found.numbers["b_e"] = torch.zeros(found.codes["W_e"].shape[-1], dtype=torch.float64)
        else:
            found.codes["b_e"] = bias
        if leading is not None:
            read_outer_norm(found, leading, "norm_embedding", "embedding_norm")
    if "x_dist" in found.codes and int(found.codes["x_dist"].min()) < int(found.codes["x_cls"].min()):
        says = "the tokens before the positions stand in another order than they were made"
        found.findings.append(Finding("cls", says))
    shapes = found.codes.shapes() | {path: tuple(numbers.shape) for path, numbers in found.numbers.items()}
    if "E" in shapes:
        found.sizes |= {"V": shapes["E"][0], "d_e": shapes["E"][1]}
    if "P" in shapes:
        found.sizes["max_len"] = shapes["P"][0]
    if "E_seg" in shapes:
        found.sizes["segments"] = shapes["E_seg"][0]
    if not names(found.graph, found.codes["layers.0.W_1"]):
        found.unread.append("its maps are not made of parameters")

"""Statements on the parameters of an encoder, held against what its computation does with them."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import torch
from torch import Tensor

from conformance_tests.computation.affine import entries_at, of_weights
from conformance_tests.computation.graph import Graph, Value, View
from conformance_tests.computation.shown import EncoderReading, Finding
from conformance_tests.identification.foreign_parts import listed
from conformance_tests.parameters.gathered import packing
from conformance_tests.parameters.idle import is_one_token
from conformance_tests.parameters.mapping import ParameterMapping
from conformance_tests.parameters.names import owners_of, words
from conformance_tests.parameters.tables import layout_of
from conformance_tests.subjects.hints import Hints
from encoder_spec.equation import equations

PACKED = "in_proj_weight"
"""A packed array of torch's: its documentation has the order Q, K, V."""


def contradicted(shown: EncoderReading, hints: Hints) -> Iterator[Finding]:
    """Yield the statements that the computation contradicts: of torch's documentation, and of the author."""
    slots = slot_of_letter()
    yield from packed_otherwise(shown)
    yield from named_otherwise(shown)
    yield from turned(shown, hints, slots)
    yield from configured_otherwise(shown, hints)
    yield from numbered_otherwise(shown)
    for letter, pattern in hints.parameters.items():
        for path, codes in shown.codes.items() if letter in slots else ():
            layer = path.split(".")[1] if path.startswith("layers.") else ""
            if path.removeprefix(f"layers.{layer}.") != letter:
                continue
            said = pattern.removesuffix(".T").replace("{l}", layer)
            names = {value.name for value in shown.graph.owners(codes)}
            if names and said not in names:
                yield Finding(slots[letter], f"{letter} is said to be {said}, but is {', '.join(sorted(names))}")


def slot_of_letter() -> dict[str, str]:
    """Return the slot that each letter of a parameter belongs to: the first one, where others read it again."""
    return {letter: e.slot for e in reversed(equations().values()) for letter in e.parameters}


def serving_twice(shown: EncoderReading, mapping: ParameterMapping) -> Iterator[Finding]:
    """Yield the parameters that stand in two places, each of which has separate parameters in the equations.

    Layers that share what stands in one place of each are said to share it; a map that serves twice is told without its
    bias, and a norm without its second factor. A head may read the table of the tokens, and the results of parallel
    sublayers may be multiplied together.
    """
    slots = slot_of_letter()
    at_once = ["residual"] if str(shown.choices.get("layer")).startswith("parallel") else []
    told: set[tuple[str, str]] = set()
    for path, first in mapping.tied.items():
        (layer, what), (layer_of_first, what_of_first) = map(place_of, (path, first))
        slot, slot_of_first = (slots[each.rpartition(".")[2]] for each in (path, first))
        if what == what_of_first or (what, what_of_first) in told or {"head", *at_once} & {slot, slot_of_first}:
            continue
        told.add((what, what_of_first))
        within = f" of layer {layer_of_first}" if layer_of_first != layer else ""
        where = f" in layer {layer}" if layer else ""
        says = f"{what}{where} is {what_of_first}{within} again, and each should have separate parameters"
        yield Finding(slot, says)


def applied_again(shown: EncoderReading) -> Iterator[Finding]:
    """Yield the maps that are applied to their own results: what two maps compute is one map, but not of one array.

    A map may be computed of several arrays, such as factors of a low rank, or of one array and its transpose.
    """
    slots, told = slot_of_letter(), set()
    for path, form in shown.codes.forms.items():
        letter = path.rpartition(".")[2]
        factors = [] if letter in told else factors_of(shown.graph, form)
        again = next((one for one, other in combinations(factors, 2) if torch.equal(one, other)), None)
        if again is not None:
            told.add(letter)
            names = ", ".join(v.name for v in shown.graph.owners(again))
            yield Finding(slots[letter], f"{names} is applied to its own result, and each map should be applied once")


def factors_of(graph: Graph, codes: Tensor | View) -> list[Tensor]:
    """Return the entries of the parameters whose product an array of weights is, up to numbers; nothing if it is none.

    Args:
        graph: the computation.
        codes: entries of the array, in any arrangement.
    """
    value = graph.owner(codes)
    while value is not None and value.kind == "elementwise" and value.operation == "mul":
        learned = [read for read in value.arrays if graph.learned(read)]
        value = graph.owner(learned[0]) if len(learned) == 1 else None
    if value is None or value.operation != "product" or value.depends:
        return []
    factors: list[Tensor] = []
    for read in value.arrays:
        made = of_weights(graph, read)
        factors += factors_of(graph, read) if made is None else [made.entries]
    return factors


def place_of(path: str) -> tuple[str, str]:
    """Return the number of the layer that a path stands in, if it is one, and the map, norm or table that it is of."""
    layer, name = path.split(".", 2)[1:] if path.startswith("layers.") else ("", path)
    return layer, re.sub(r"^b_", "W_", name.partition(".")[0])


SAME_EPS = 1e-6
"""Relatively: an ε that is kept in float32 is the one that is stated."""


def unused(shown: EncoderReading, mapping: ParameterMapping, weights: Mapping[str, Tensor]) -> Iterator[Finding]:
    """Yield the parameters that count 0 times, or do not reach the output beside others that all serve one slot.

    Beside them is what the same owner has, and what its parts have: the owner of a whole model serves many slots.
    """
    slots = slot_of_letter()
    for path, form in shown.codes.forms.items():
        made = None if isinstance(form, View) else of_weights(shown.graph, form)
        letter = path.rpartition(".")[2]
        if made is not None and not made.times:
            names = ", ".join(v.name for v in shown.graph.owners(made.entries))
            yield Finding(slots[letter], f"{letter}, a part of {names}, is multiplied by 0")
    served: dict[str, set[str]] = {}
    for path, source in mapping.sources.items():
        for owner in {owner for name in source.names for owner in owners_of(name)}:
            served.setdefault(owner, set()).add(slots[path.rpartition(".")[2]])
    if mapping.is_absent("layers.0.W_O"):
        width = shown.sizes["h"] * shown.sizes["d_v"]
        maps = [name for name in mapping.spare if weights[name].shape == (width, shown.sizes["d_model"])]
        if maps:
            yield Finding("output", f"nothing maps the heads' results, and {', '.join(maps)} has no part in the output")
    layers = spare_layers(mapping, weights)
    if layers:
        more = "a further layer" if layers == 1 else f"{layers} further layers"
        yield Finding("stack", f"the parameters of {more} ({mapping.spare[0]}, …) have no part in the output")
    for name in mapping.spare:
        beside = served.get(name.rpartition(".")[0], set())
        if len(beside) == 1 and not is_one_token(weights[name].shape):
            yield Finding(beside.pop(), f"{name} has no part in the output")


def without_its_positions(shown: EncoderReading, tables: Mapping[str, Tensor]) -> Iterator[Finding]:
    """Yield that an encoder which adds no positions keeps sinusoids as wide as its input: it has forgotten them."""
    if shown.choices.get("position") == "none":
        width = shown.sizes.get("d_e", shown.sizes["d_model"])
        rows = {name: t.reshape(-1, width) for name, t in tables.items() if t.ndim > 1 and t.shape[-1] == width}
        if kept := sorted(name for name, table in rows.items() if layout_of(table)):
            says = f"nothing is added that tells positions, though it keeps sinusoids ({listed(kept)})"
            yield Finding("position", says)


def spare_layers(mapping: ParameterMapping, weights: Mapping[str, Tensor]) -> int:
    """Return how many layers the parameters without a part in the output would make, by their shapes; 0 if none."""
    first = {name for path, source in mapping.sources.items() if path.startswith("layers.0.") for name in source.names}
    layer, spare = (Counter(weights[name].shape for name in names) for names in (first, mapping.spare))
    if not layer or layer.keys() != spare.keys():
        return 0
    times = {spare[shape] / number for shape, number in layer.items()}
    return int(times.pop()) if len(times) == 1 and next(iter(times)).is_integer() else 0


NORMED_FIRST = {"pre-ln": ("sandwich-ln", "parallel", "parallel-two-norms")}
"""Further orders in which norms stand before the sublayers, which is all that such an attribute states."""


def configured_otherwise(shown: EncoderReading, hints: Hints) -> Iterator[Finding]:
    """Yield the choices that the encoder's configuration states and that it does not compute."""
    said, computed = hints.configured.get("activation"), shown.choices.get("activation")
    # The name of SwiGLU says its activation: what is configured is that of a network without a gate.
    is_swiglu = computed == "silu" and str(shown.choices.get("ffn")).startswith("gated")
    if said is not None and computed is not None and said != computed and not is_swiglu:
        yield Finding("activation", f"its configuration states {said}, but it computes {computed}")
    order, found = hints.configured.get("layer"), shown.choices.get("layer")
    if order is not None and found is not None and order != found and found not in NORMED_FIRST.get(str(order), ()):
        yield Finding("layer", f"an attribute states that it is {order}, but it computes {found}")
    eps, used = hints.configured.get("eps"), shown.choices.get("eps")
    if eps is not None and used is not None and abs(float(used) - float(eps)) > SAME_EPS * float(eps):
        yield Finding("norm", f"its configuration states ε = {eps:g}, but its norms have ε = {used:g}")
    heads, read = hints.configured.get("h"), shown.sizes.get("h")
    if heads is not None and read is not None and heads != read:
        yield Finding("split", f"its attributes state {heads:g} heads, but it computes {read}")


def packed_otherwise(shown: EncoderReading) -> Iterator[Finding]:
    """Yield a packed array under torch's name that has another order than torch documents."""
    owner, order = shown.graph.owner(shown.codes["layers.0.W_Q"]), packing(shown)
    maps = torch.cat([shown.codes[f"layers.0.W_{letter}"][0] for letter in "QKV"])
    if maps.unique().numel() < len(maps):
        return  # a map that serves twice has no order
    if owner is None or not owner.name.endswith(PACKED):
        return
    if order != "packed in the order Q, K, V":
        yield Finding("projections", f"{owner.name} is documented to be packed in the order Q, K, V, but is {order}")
    elif shown.interleaved:
        yield Finding("split", f"the heads stand side by side in {owner.name}, as documented, but are split otherwise")


ROLES = {"W_Q": "q", "W_K": "k", "W_V": "v"}
"""The maps of an attention, and the known word that names what each of them makes, however that is spelled."""


def named_otherwise(shown: EncoderReading) -> Iterator[Finding]:
    """Yield that maps named query, key and value have exchanged their roles: weights of others would serve wrongly."""
    owners = {letter: shown.graph.owner(shown.codes[f"layers.0.{letter}"]) for letter in ROLES}
    said = {letter: set(words(v.name)) & set(ROLES.values()) for letter, v in owners.items() if v is not None}
    if sorted(said.values(), key=sorted) != sorted(({role} for role in ROLES.values()), key=sorted):
        return  # only where each name tells one role
    wrong = [letter for letter, role in ROLES.items() if said[letter] != {role}]
    if wrong:
        made = " and ".join(f"{letter} is {v.name}" for letter in wrong if (v := owners[letter]) is not None)
        yield Finding("projections", f"maps have the roles of others by their names: {made}")


def turned(shown: EncoderReading, hints: Hints, slots: Mapping[str, str]) -> Iterator[Finding]:
    """Yield maps whose class documents that they are output × input, and that are used as input × output."""
    said: dict[str, Finding] = {}
    for path, codes in shown.codes.forms.items():
        letter, owner = path.rpartition(".")[2], shown.graph.owner(codes)
        if owner is None or owner.name not in hints.output_by_input or len(codes.shape) != 2 or min(codes.shape) < 2:
            continue
        down, across = (int(entries_at(codes, *place) - entries_at(codes, 0, 0)) for place in ((1, 0), (0, 1)))
        if down == owner.shape[1] > 1 and across == 1:
            says = f"{owner.name} is a weight of nn.Linear, output × input, and is used transposed"
            said.setdefault(letter, Finding(slots[letter], says))
    yield from said.values()


def numbered_otherwise(shown: EncoderReading) -> Iterator[Finding]:
    """Yield the order of layers that run otherwise than their names, or their places in one array, number them."""
    if shown.choices["sharing"] == "all":
        return
    maps = (shown.codes[f"layers.{l}.W_Q"] for l in range(shown.sizes["N"]))
    owners, codes = zip(*((shown.graph.owner(W_Q[:1, :1]), int(W_Q.min())) for W_Q in maps), strict=True)
    numbers = numbers_of(owners, codes)
    if numbers != sorted(numbers):
        in_words = ", ".join(map(str, numbers))
        yield Finding("layer", f"the layers run in the order {in_words}, as they are numbered")


NUMBER = re.compile(r"(\d+)")


def numbers_of(owners: Sequence[Value | None], codes: Sequence[int]) -> list[int]:
    """Return the number of each layer, which is all that the names of their parameters differ in; else nothing.

    Layers in one array are numbered by their places in it.
    """
    if len(set(owners)) == 1:
        return codes_in_turn(codes)
    names = [NUMBER.split(owner.name) if owner else [] for owner in owners]
    if len({len(name) for name in names}) > 1:
        return []
    columns = list(zip(*names, strict=True))
    differing = [place for place, column in enumerate(columns) if len(set(column)) > 1]
    if len(differing) != 1 or not all(map(str.isdigit, columns[differing[0]])):
        return []
    numbered = columns[differing[0] - 1][0].rstrip("._").rpartition(".")[2]
    if numbered[:1].isupper():
        return []  # Flax numbers the parts of each class as they are made: Block(Block(x)) makes the outer one first
    return list(map(int, columns[differing[0]]))


def codes_in_turn(codes: Sequence[int]) -> list[int]:
    """Return which of some codes each is, in ascending order."""
    return [sorted(codes).index(code) for code in codes]

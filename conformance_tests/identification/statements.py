"""Statements on the parameters of an encoder, held against what its computation makes of them."""

from collections.abc import Iterator, Mapping

from conformance_tests.computation.shown import EncoderReading, Finding
from conformance_tests.parameters.gathered import packing
from conformance_tests.subjects.hints import Hints
from encoder_spec.equation import equations

PACKED = "in_proj_weight"
"""A packed array of torch's: its documentation has the order Q, K, V."""


def contradicted(shown: EncoderReading, hints: Hints) -> Iterator[Finding]:
    """The statements that the computation contradicts: torch's documentation, and the author's."""
    slots = {letter: e.slot for e in equations().values() for letter in e.parameters}
    yield from packed_otherwise(shown)
    yield from turned(shown, hints, slots)
    for letter, pattern in hints.parameters.items():
        for path, codes in shown.codes.items() if letter in slots else ():
            layer = path.split(".")[1] if path.startswith("layers.") else ""
            if path.removeprefix(f"layers.{layer}.") != letter:
                continue
            said = pattern.removesuffix(".T").replace("{l}", layer)
            names = {value.name for value in shown.graph.owners(codes)}
            if names and said not in names:
                yield Finding(slots[letter], f"{letter} is said to be {said}, but is {', '.join(sorted(names))}")


def packed_otherwise(shown: EncoderReading) -> Iterator[Finding]:
    """A packed array under torch's name that has another order than torch documents."""
    owner, order = shown.graph.owner(shown.codes["layers.0.W_Q"]), packing(shown)
    if owner is not None and owner.name.endswith(PACKED) and order != "packed in the order Q, K, V":
        yield Finding("projections", f"{owner.name} is documented to be packed in the order Q, K, V, but is {order}")


def turned(shown: EncoderReading, hints: Hints, slots: Mapping[str, str]) -> Iterator[Finding]:
    """Maps whose class documents that they are output × input, and that are used as input × output."""
    said: dict[str, Finding] = {}
    for path, codes in shown.codes.items():
        letter, owner = path.rpartition(".")[2], shown.graph.owner(codes)
        if owner is None or owner.name not in hints.output_by_input or codes.ndim != 2 or min(codes.shape) < 2:
            continue
        down, across = (int(codes[place]) - int(codes[0, 0]) for place in ((1, 0), (0, 1)))
        if down == owner.data.shape[1] > 1 and across == 1:
            says = f"{owner.name} is a weight of nn.Linear, output × input, and is used transposed"
            said.setdefault(letter, Finding(slots[letter], says))
    yield from said.values()

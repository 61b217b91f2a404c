"""Notes on what could not be found out, said precisely."""

import re
from collections.abc import Iterable, Mapping, Sequence

from torch import Tensor

from conformance_tests.errors import TableUnknown
from conformance_tests.parameters.mapping import ParameterMapping

MOST_SHOWN = 6

NEEDED = ("W_Q", "W_K", "W_V", "W_O", "W_1", "W_2")
"""The maps that every encoder has."""


def what_is_missing(reason: str, mapping: ParameterMapping, weights: Mapping[str, Tensor]) -> str:
    """Return a note on parameters that could not be assigned, and on what the author can say of them.

    Where every map of an encoder is found, what is left over is something else: no line can supply an equation.
    """
    unknown = mapping.unmapped or mapping.guessed
    if not unknown:
        return reason
    shown = ", ".join(unknown[:MOST_SHOWN]) + (", …" if len(unknown) > MOST_SHOWN else "")
    sure = {path.rpartition(".")[2] for path, s in mapping.sources.items() if not set(s.names) & set(mapping.guessed)}
    absent = [letter for letter in NEEDED if letter not in sure]
    maps = [name for name in unknown if weights[name].ndim > 1 and min(weights[name].shape[:2]) > 1]
    pairs = list(zip(absent, by_layer(maps), strict=False))
    if not pairs and not mapping.unmapped:
        read = ", ".join(f"{name} as {path}" for name, path in guesses(mapping)[:MOST_SHOWN])
        return f"{reason}; neither name nor shape tells apart some of its parameters, read here as follows: {read}"
    if not pairs:
        return f"{reason}, and no slot of the specification has its parameters {shown}"
    patterns = ", ".join(pattern for _, pattern in pairs)
    what = "no slot of the specification has" if mapping.unmapped else "neither name nor shape tells apart"
    return f"{reason}; {what} its parameters {shown}. Say with `described` which of {patterns} is {one_of(absent)}"


def one_of(words: Sequence[str]) -> str:
    """Return words as a choice: ``a, b or c``."""
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last


def guesses(mapping: ParameterMapping) -> list[tuple[str, str]]:
    """Return the parameters that neither name nor shape tells apart, each with what it was taken for."""
    return [(n, path) for path, source in mapping.sources.items() for n in source.names if n in mapping.guessed]


def table_is_missing(weights: Mapping[str, Tensor], mapping: ParameterMapping) -> TableUnknown:
    """Return what to raise for an encoder of token ids, none of whose parameters is known as their table."""
    tables = tuple(name for name in mapping.unmapped if weights[name].ndim == 2)
    may_be = f" (it may be {', '.join(tables[:MOST_SHOWN])})" if tables else ""
    return TableUnknown(
        f"it reads token ids, but no name tells which of its parameters is their table{may_be}, and no outputs agree",
        tables[:MOST_SHOWN],
    )


def by_layer(names: Iterable[str]) -> Sequence[str]:
    """Return names with ``{l}`` for the number of the layer, each pattern once; biases come with their maps."""
    patterns = (re.sub(r"(^|\.)\d+(?=\.)", r"\1{l}", name, count=1) for name in names if not name.endswith("bias"))
    return list(dict.fromkeys(patterns))

"""Names as words and numbers.

No spelling has a rule: ``selfAttn.Wq`` and ``self_attn.w_q`` are the same words. A piece of a name that is unknown,
but made of known words, is those.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from itertools import takewhile

from conformance_tests.parameters.evidence import KNOWN, Words, is_on_top

FEWEST_MAPS = 4
"""A layer has at least so many maps: packed projections, the output, two of the feed-forward network."""


@cache
def words(name: str) -> Words:
    """Split a name: at signs, between small and capital letters, between letters and digits."""
    pieces = re.findall(r"\d+|[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return tuple(word for piece in pieces for word in known(piece.lower()) or (piece.lower(),))


@cache
def known(piece: str) -> Words:
    """Return the known words that a piece of a name is made of; none if it is not."""
    whole = next((KNOWN[word] for word in (piece, piece.removesuffix("s")) if word in KNOWN), piece)
    if whole != piece or piece in KNOWN or piece.isdigit():
        return (whole,)
    halves = ((known(piece[:cut]), known(piece[cut:])) for cut in range(len(piece) - 1, 0, -1))
    return next((first + second for first, second in halves if len(first) == 1 and second), ())


def is_beside(name: str) -> bool:
    """Return whether a part stands on top of an encoder and not in it, or is addressed by further inputs alone."""
    return is_on_top(words(name))


def common_owner(names: Iterable[str]) -> list[str]:
    """Return the modules that own every array of these names, the outermost first."""
    owners = (name.split(".")[:-1] for name in names)
    return [here[0] for here in takewhile(lambda here: len(set(here)) == 1, zip(*owners, strict=False))]


def owners_of(name: str) -> list[str]:
    """Return the modules that own an array of this name, the outermost first; the model itself has the empty name."""
    parts = name.split(".")[:-1]
    return [".".join(parts[:end]) for end in range(len(parts) + 1)]


def numbers(spoken: Words) -> Iterator[tuple[int, int, Words]]:
    """Yield each number among words, with its place and the words with a sign in its place."""
    for place, word in enumerate(spoken):
        if word.isdigit():
            yield int(word), place, (*spoken[:place], "#", *spoken[place + 1 :])


def layers_of(spoken: Mapping[str, Words], maps: Collection[str]) -> dict[str, tuple[int, Words]]:
    """Return the layer of each array that is in one, from 0 on, and what its name says beside that.

    The number of the layer is the one that runs over the same consecutive range, from 0 or from 1, in the names of
    most maps, wherever it stands. A list of twice as many vectors holds two of each layer.

    Args:
        spoken: the words of every name.
        maps: the names of arrays that are not vectors.
    """
    runs: dict[Words, set[int]] = {}
    for said in spoken.values():
        for number, _, pattern in numbers(said):
            runs.setdefault(pattern, set()).add(number)
    counts: dict[tuple[int, ...], int] = {}
    for name in maps:
        for run in {tuple(sorted(runs[pattern])) for _, _, pattern in numbers(spoken[name])}:
            counts[run] = counts.get(run, 0) + 1
    possible = [
        run
        for run, count in counts.items()
        if run[0] < 2 and run == tuple(range(run[0], run[0] + len(run))) and count >= FEWEST_MAPS * len(run)
    ]
    if not possible:
        return {}
    chosen = max(possible, key=lambda run: (len(run) > 1 and 2 * counts[run] > len(maps), counts[run]))
    found: dict[str, tuple[int, Words]] = {}
    before = set()
    for name, said in spoken.items():
        here = [(number, place) for number, place, pattern in numbers(said) if runs[pattern] == set(chosen)]
        for number, place in here[:1]:
            found[name] = number - chosen[0], said[:place] + said[place + 1 :]
            before.add(said[:place])
    for name in spoken.keys() - found.keys():
        said = spoken[name]
        for number, place, pattern in numbers(said):
            left = said[:place], said[place + 1 :]
            if left[0] in before and number in chosen:
                found[name] = number - chosen[0], left[0] + left[1]
            elif name not in maps and runs[pattern] == set(range(2 * len(chosen))):
                found[name] = number // 2, (*left[0], str(number % 2), *left[1])
    return found

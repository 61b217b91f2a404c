"""The names of an encoder's arrays as most encoders spell them.

No wrapper's name stands before those of the encoder; the number of the layer is a part of its own and stands before
what is in the layer; ``bias`` and ``weight`` come last.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from itertools import takewhile

from torch import Tensor

from conformance_tests.parameters.naming import NORM, common_owner, layer_prefix, role, stem_and_kind

FEWEST_MAPS = 4
"""So many maps a layer has at least: packed projections, the output, two of the feed-forward network."""

FEWEST_PARTS = 5
"""So many parts without a norm among them have a list each, where layers are spread over lists; heads have four."""

SUFFIXED = re.compile(r"^((?:[A-Za-z_]+\.)*)([A-Za-z]\w*?)_?(\d+)[._](.+)$")
"""A part with the number of its layer at the end of its name, and what of it."""

BEHIND = re.compile(r"^(.+?)\.(\d+)\.(.+)$")
"""A part, the number of its layer, and what of it."""

SCALES = ("weight", "kernel", "gamma", "scale", "gain", "w", "W", "g")
"""What the array is called that a shift stands beside, a map's or a norm's, where both are no arrays of a module."""

SCALES_OF = {"o": ("g",)}
"""The same where the word for the shift says less: an ``o`` is an offset beside a gain alone."""

SCALE = re.compile(rf"^(.+?)_?({'|'.join(SCALES)})$")
"""A name with such a word at its end."""

SHIFT = re.compile(r"(?:(?<=_)|^)(?:bias|beta|shift|offset|b|o)(?=_|\d|$)|(?<=[a-z0-9])b$")
"""The word for a shift in a name, which may be a mere ``b`` at its end."""


def plain_names(weights: Mapping[str, Tensor]) -> dict[str, str]:
    """The plain name of every array, by its own."""
    wrapper = shared_owner(weights)
    plain = {name: name.removeprefix(wrapper) for name in weights}
    for respell in (numbers_apart, layers_first, beside_layers, kinds_apart, kinds_behind):
        spelled = respell({plain[name]: w for name, w in weights.items()})
        renamed = {name: spelled.get(now, now) for name, now in plain.items()}
        if len(set(renamed.values())) == len(renamed):
            plain = renamed
    return plain


def shared_owner(names: Collection[str]) -> str:
    """The modules that own every array, as they stand before its name; a list of layers is none of them."""
    shared = list(takewhile(lambda part: not part.isdigit(), common_owner(names)))
    numbered = any(
        len(path) > len(shared) + 1 and path[len(shared)].isdigit() for path in (n.split(".") for n in names)
    )
    return "".join(f"{part}." for part in (shared[:-1] if numbered else shared))


def is_outside(name: str) -> bool:
    """Whether a name speaks of what stands before or behind the layers."""
    return bool(role(stem_and_kind(name)[0], in_layer=False, is_norm=False))


def numbers_apart(arrays: Mapping[str, Tensor]) -> dict[str, str]:
    """``attn_0.q`` and ``layer1.q`` with the number, from 0 on, as a part of its own: ``attn.0.q``, ``layer.0.q``.

    Only where it is the number of a layer: every map has one, and each layer maps enough.
    """
    inside = {name: SUFFIXED.match(name) for name in arrays if not is_outside(name)}
    maps = [found for name, found in inside.items() if arrays[name].ndim > 1]
    told = [found for found in maps if found]
    owners, numbers = {found[1] + found[2] for found in told}, Counter(int(found[3]) for found in told)
    first = min(numbers, default=0)
    if (
        len(told) < len(maps)
        or sorted(numbers) != list(range(first, first + len(numbers)))
        or min(numbers.values(), default=0) < FEWEST_MAPS
        or (first and len(owners) > 1)
    ):
        return {}
    return {
        name: f"{found[1]}{found[2]}.{int(found[3]) - first}.{found[4]}"
        for name, found in inside.items()
        if found and int(found[3]) in numbers
    }


def layers_first(arrays: Mapping[str, Tensor]) -> dict[str, str]:
    """``attns.0.q`` as ``layers.0.attn.q``, where the parts have a list each with an entry for every layer.

    A list with several norms for each layer has them in the order in which they are used.
    """
    found = {name: entry for name in arrays if (entry := BEHIND.match(name))}
    lists: dict[str, set[str]] = {}
    vectors: dict[str, bool] = {}
    for name, entry in found.items():
        lists.setdefault(entry[1], set()).add(entry[2])
        vectors[entry[1]] = vectors.get(entry[1], True) and arrays[name].ndim == 1
    beside: dict[tuple[str, frozenset[str]], list[str]] = {}
    for part, numbers in lists.items():
        beside.setdefault((part.rpartition(".")[0], frozenset(numbers)), []).append(part)
    most = max(beside.values(), key=len, default=[])
    layers = len(lists[most[0]]) if most else 0
    normed = {
        part
        for part, is_norm in vectors.items()
        if (is_norm or re.search(NORM, part.lower())) and len(lists[part]) in (layers, 2 * layers)
    }
    if len(most) < FEWEST_PARTS and not (len(most) > 1 and normed):
        return {}

    def respelled(part: str, number: int, rest: str) -> str:
        size = len(lists[part])
        if part in normed and size == 2 * layers:
            return f"layers.{number // 2}.{part}_{number % 2 + 1}.{rest}"
        known = role(stem_and_kind(f"{part}.{rest}")[0], in_layer=True, is_norm=vectors[part])
        return f"layers.{number}.{part if known else re.sub(r'(?<=[a-z]{2})s$', '', part)}.{rest}"

    return {name: respelled(entry[1], int(entry[2]), entry[3]) for name, entry in found.items()}


def beside_layers(arrays: Mapping[str, Tensor]) -> dict[str, str]:
    """``body.norm`` as ``norm``, where the layers are ``body.layers``: what stands beside them is the encoder's."""
    owner = layer_prefix(arrays).rpartition(".")[0]
    return {name: name.removeprefix(f"{owner}.") for name in arrays if owner and name.startswith(f"{owner}.")}


def kinds_apart(arrays: Mapping[str, Tensor]) -> dict[str, str]:
    """``up_b`` beside ``up``, ``up_w`` or ``w_up`` as the bias of ``up``, ``beta_1`` beside ``gamma_1`` as a norm's.

    Only both together: a γ alone may be the scale of a whole sublayer.
    """
    spelled: dict[str, str] = {}
    for name, shift in arrays.items():
        owner, dot, last = name.rpartition(".")
        for scale, other, stem in shifted_by(last):
            whole = owner + dot + other
            if whole in arrays and is_shifted(arrays[whole], shift) and not is_plain(last, other):
                what = "w" if arrays[whole].ndim > 1 else "norm"
                part = owner + dot + (f"{what}{stem}" if stem.isdigit() else stem)
                spelled |= {name: f"{part}.bias", whole: f"{part}.{kind(scale)}"}
                break
    return spelled


def kinds_behind(arrays: Mapping[str, Tensor]) -> dict[str, str]:
    """``up_w`` and ``lnf_g`` alone as the weights of ``up`` and ``lnf``, where only those are known."""
    spelled: dict[str, str] = {}
    for name, array in arrays.items():
        owner, dot, last = name.rpartition(".")
        found = SCALE.match(last)
        if found and is_known(owner + dot + found[1], array) and not is_known(name, array):
            spelled[name] = f"{owner}{dot}{found[1]}.{kind(found[2])}"
    return spelled


def kind(scale: str) -> str:
    """Which of a part's arrays it is that is called so; a kernel is stored input × output."""
    return "kernel" if scale == "kernel" else "weight"


def is_known(name: str, array: Tensor) -> bool:
    """Whether a name says what part of an encoder an array of this kind belongs to."""
    *owners, last = name.split(".")
    inside = any(owner.isdigit() for owner in owners)
    return bool(role(stem_and_kind(last)[0], in_layer=inside, is_norm=array.ndim == 1))


def is_plain(shift: str, whole: str) -> bool:
    """Whether two names say as they are that they are of one part: ``b_1`` and ``w1``."""
    return stem_and_kind(shift)[0].replace("_", "") == stem_and_kind(whole)[0].replace("_", "")


def is_shifted(whole: Tensor, shift: Tensor) -> bool:
    """Whether an array may shift what another one maps, or scales."""
    if whole.ndim > shift.ndim:
        return True
    return whole.shape == shift.shape and sum(size > 1 for size in shift.shape) <= 1


def shifted_by(name: str) -> Iterator[tuple[str, str, str]]:
    """What an array that one with this name may shift is called: the word for it, the whole, and both without it.

    What begins with a ``w`` keeps it: the map ``w_in`` is no ``in``.
    """
    for found in SHIFT.finditer(name):
        before, behind = name[: found.start()], name[found.end() :]
        stem = re.sub(r"_(?=_|$)|^_", "", before + behind)
        for scale in SCALES_OF.get(found[0], SCALES) if stem else ():
            keeps = scale in ("w", "W") and not before and not stem.isdigit()
            yield scale, before + scale + behind, scale + behind if keeps else stem
        if stem and found[0] not in SCALES_OF:
            yield "", stem, stem

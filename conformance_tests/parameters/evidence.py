"""One table of evidence: which words speak for which part of an encoder, and which shapes fit it.

A weight says how strongly a word speaks for a part, or against it; sums are compared, so that no word decides
alone. Adding a family of encoders is adding its words here.
"""

from collections.abc import Sequence
from math import prod

Words = tuple[str, ...]

CONCEPTS = {
    "attention": "attn att mha msa sa mhsa multihead",
    "norm": "ln rms layernorm n",
    "feed": "ff ffn ffwd mlp wise pointwise",
    "q": "query queries",
    "k": "key",
    "v": "value val",
    "o": "out output merge concat unify combine",
    "in": "input inp i",
    "inner": "up expand intermediate hidden",
    "down": "contract outer",
    "gate": "gated g",
    "first": "one",
    "second": "two",
    "before": "pre",
    "after": "post",
    "final": "last f",
    "embed": "emb embedding",
    "token": "tok word vocab vocabulary src wte lut shared",
    "position": "pos positional wpe pe",
    "segment": "seg type",
    "class": "cls",
    "distillation": "dist distill",
    "register": "registers reg",
    "map": "mapping",
    "project": "proj projection",
    "weight": "kernel gamma scale gain alpha w",
    "bias": "beta shift offset",
    "relative": "rel",
}
"""Words that mean the same, by the one that stands in the table."""

EVIDENCE = {
    "Q": "q 4, attention 1, first .5, feed -3",
    "K": "k 4, attention 1, second .5, feed -3",
    "V": "v 4, attention 1, third .5, feed -3",
    "O": "o 2, attention 2, project 1, fourth .5, feed -3",
    "QKV": "in 2, attention 2, project .5, feed -3",
    "KV": "feed -3",
    "1": "feed 2, inner 2, in 2, first 1, attention -3",
    "1G": "feed 2, inner 2, in 2, first 1, attention -3",
    "2": "feed 2, o 2, down 2, project 1, from 3, second 1, attention -3",
    "G": "gate 4, feed 1, third 1, inner 1, in 1, v .5, attention -3",
    "norm_1": "norm 1, attention 2, first 1, in 2, before 2, a 1",
    "norm_2": "norm 1, feed 2, second 1, after 2, final 2, o 1, inner 1, b 1",
    "E": "embed 1, token 3, in 1",
    "P": "position 4, feed -4",
    "E_seg": "segment 4",
    "x_cls": "class 3",
    "x_dist": "distillation 4",
    "X_reg": "register 4",
    "patch": "patch 4, conv 1, project 1",
    "conv": "conv 1, first 2",
    "step": "conv 1, second 2",
    "e": "embed 1, map 2, project 2",
    "feature": "feature 4, in 1, project 1",
    "norm_embedding": "norm .5, embed 3, before 2, in 2, first -4, second -4",
    "norm_final": "norm 1, final 2, after 4, o 1, first -4, second -4",
}
"""By part: the words that speak for it, each with its weight."""

FOREIGN = ("relative", "adapter", "lora", "rotary", "lambda", "global", "cross", "entity", "visual", "decoder")
"""Words of parts that no slot has."""

ON_TOP = (
    *("pooler", "head", "classifier", "decoder", "class", "prediction", "cross attention", "mask token"),
    *("entity", "visual", "weight 2 e", "e 2 weight", "e 2 e"),
)
"""Phrases for what stands on top of an encoder and not in it, or what further inputs alone address."""

FILLERS = (
    "layer block forward encoder enc model module transformer stack body self multi head heads net linear lin fc dense "
    "to for b c e table encoding mask prediction"
)
"""Words that speak for no part, and are known."""

WEIGHTS = {
    part: {word: float(weight) for word, weight in (entry.split() for entry in line.split(", "))}
    for part, line in EVIDENCE.items()
}

KNOWN = {word: word for row in WEIGHTS.values() for word in row} | {word: word for word in (*FOREIGN, *FILLERS.split())}
KNOWN |= {word: concept for concept, same in CONCEPTS.items() for word in (concept, *same.split())}
"""Each known word, with the concept that it stands for."""

PACKED = {"QKV": "QKV", "KV": "KV", "1G": "1G"}
"""Parts that hold several maps, with the letters of those."""

OUTSIDE = (
    "E",
    "P",
    "E_seg",
    "x_cls",
    "x_dist",
    "X_reg",
    "patch",
    "conv",
    "step",
    "e",
    "feature",
    "norm_embedding",
    "norm_final",
)
IN_LAYER = tuple(part for part in EVIDENCE if part not in OUTSIDE)

ATTENTION, FEED_FORWARD = ("Q", "K", "V", "O", "QKV", "KV"), ("1", "1G", "2", "G")

FADING = 0.95
"""Factor by which a word counts less than the one behind it: the end of a name is more specific than its owners."""

TIE = 1e-2
"""Evidence that differs by less is the same."""

UNKNOWN = 0.1
"""Weight of an unknown word against a part: the plain name is the better one."""

CLEAR = {"e": 2, "feature": 1.5}
"""Weight that words must have for a map outside of the layers: one word speaks for many maps."""

SHAPE = 0.5
"""Weight of a map's having the shape of a part as most store it, output × input."""


def said(words: Words) -> dict[str, float]:
    """Return how strongly words speak for each part for which they do."""
    spoken = [word for word in words if word != "weight"]
    strength = {word: FADING ** (len(spoken) - place) for place, word in enumerate(spoken)}
    if strength.keys() & set(FOREIGN):
        return {}
    found = {part: sum(row.get(word, 0) * s for word, s in strength.items()) for part, row in WEIGHTS.items()}
    for part in ("QKV", "KV"):
        letters = part.lower()
        if set(letters) <= strength.keys():
            found[part] += sum(WEIGHTS[letter.upper()][letter] for letter in letters)
    return {part: weight for part, weight in found.items() if weight > 0}


def stands_outside(words: Words) -> bool:
    """Return whether a name speaks more of tables and tokens, which stand outside of layers, than of parts of one."""
    spoken = said(words)
    tables = max(spoken.get(part, 0.0) for part in ("E", "P", "E_seg", "x_cls", "x_dist", "X_reg", "patch"))
    return tables > max(spoken.get(part, 0.0) for part in IN_LAYER)


def is_on_top(words: Words, but: str = "") -> bool:
    """Return whether words speak of what stands on top of an encoder, or is addressed by further inputs alone.

    ``but`` is a phrase that does not count: a class token stands in the encoder.
    """
    spoken = f" {' '.join(words)} ".replace(" multi head ", " ")
    return any(f" {phrase} " in spoken for phrase in ON_TOP if phrase != but)


def evidence(
    words: Words, shape: tuple[int, ...], roles: Sequence[str], width: int, inner: int, *, has_bias: bool
) -> dict[str, float]:
    """Return how much speaks for an array being each part, as far as it may be that one.

    Args:
        words: those of its name.
        shape: its axes; those of a map output × input.
        roles: the parts that there may be.
        width: d_model.
        inner: d_ff.
        has_bias: whether something is added to it.
    """
    spoken = said(words)
    unknown = sum(word not in KNOWN.values() for word in words)
    found = {}
    for part in roles:
        if part in OUTSIDE and is_on_top(words, but="class" if part == "x_cls" else ""):
            continue
        more = of_shape(part, shape, width, inner, spoken.get(part, 0.0))
        if more is not None:
            more += SHAPE * (part == "norm_final" and has_bias) - UNKNOWN * min(unknown, 3)
            found[part] = spoken.get(part, 0.0) + more
    return {part: weight for part, weight in found.items() if weight > 0}


def of_shape(part: str, shape: tuple[int, ...], width: int, inner: int, spoken: float) -> float | None:
    """Return what a shape adds to what words say for a part; None if no array of that part has this shape."""
    if not shape:
        return None  # a number alone is a scale
    square = len(shape) == 2 and shape[0] == shape[1]
    if part in FEED_FORWARD:
        fits = sorted(shape) == sorted((width, inner * len(part)))
        usual = fits and shape[part != "2"] == width
        return SHAPE * usual if usual or (fits and spoken and part != "G") else None
    if part in PACKED:
        fits = width in shape and not square and prod(shape) % (len(part) * width) == 0
        return SHAPE if spoken and fits and len(shape) > 1 else None
    if part in ATTENTION:
        fits = (square or width in shape) if spoken else (square and width in shape)
        return SHAPE * square if fits and len(shape) > 1 else None
    if part.startswith("norm"):
        fits = shape == (width,) or (
            len(shape) == 1 and (part == "norm_embedding" or (part == "norm_final" and shape == (1,)))
        )
        # The only norm of a layer stands behind it.
        return (SHAPE + TIE * (part == "norm_2")) * (part in IN_LAYER) if fits else None
    if part.startswith("x_"):
        return 0.0 if spoken and prod(shape) == width else None
    if part == "X_reg":
        return 0.0 if spoken and shape[-1] == width and len(shape) > 1 else None
    axes = {"E": 2, "P": 2, "E_seg": 2, "e": 2, "feature": 2, "patch": 4, "conv": 3, "step": 3}[part]
    fits = len(shape) == axes or (part == "P" and shape[0] == 1) or (part == "patch" and spoken > 2)
    fits = fits and (part not in ("conv", "step") or 3 in shape)
    fits = fits and (part not in CLEAR or (width in shape and spoken > CLEAR[part]))
    return 0.0 if spoken and fits else None

"""What names and shapes leave open of how an encoder stores its parameters: left to experiment."""

from collections.abc import Mapping
from itertools import permutations
from typing import Any

import torch
from torch import Tensor

from conformance_tests.parameters.arrays import pieces, plain_statement
from conformance_tests.parameters.mapping import canonical_names
from conformance_tests.parameters.parts import parts_of, survey
from conformance_tests.parameters.shapes import hidden_width
from conformance_tests.parameters.storage import Storage

Answer = Mapping[str, Any]
"""Values for some attributes of ``Storage``."""


def open_storage(
    weights: Mapping[str, Tensor], h: int | None = None, stated: Mapping[str, str] | None = None
) -> list[list[Answer]]:
    """What names and shapes leave open: for each question its answers, the customary one first.

    Args:
        weights: the arrays by the subject's names.
        h: the number of heads, if it is known: for maps that are packed head by head.
        stated: what the author says, as for ``reading``.
    """
    stated = plain_statement(stated or {}, weights)
    weights = {plain: piece.take(weights[piece.name]) for plain, piece in pieces(weights).items()}
    if not canonical_names(weights).unmapped:
        return []
    width = hidden_width(weights)
    named = survey(weights, stated)
    parts, guessed = parts_of(named, weights, width, Storage())
    of_layers = [n for n in named if n.layer and parts[n.layer, n.stem]]
    first = {parts[key] for key in guessed if key[0] == of_layers[0].layer} if of_layers else set()
    arrays = {n: weights[n.names[0]] for n in of_layers if not n.is_bias}
    found = {parts[n.layer, n.stem] for n in of_layers}
    gammas = [w for n, w in arrays.items() if parts[n.layer, n.stem].startswith("norm")]
    questions: list[list[Answer]] = []
    if gammas:
        nearer_zero = float(torch.cat([w.flatten() for w in gammas]).abs().mean()) < 0.5
        questions.append([{"plus": plus} for plus in ((1.0, 0.0) if nearer_zero else (0.0, 1.0))])
    if {"norm_1", "norm_2"} <= first:
        questions.append([{"norms": order} for order in ("12", "21")])
    outside = {parts[n.layer, n.stem] for n in named if not n.layer}
    norms = {parts[n.layer, n.stem]: weights[n.names[0]].numel() for n in named if not n.layer and not n.is_bias}
    widths = {part: size for part, size in norms.items() if part.startswith("norm")}
    if len(widths) == 1 and width in widths.values() and outside & {"E", "patch"}:
        questions.append([{"outer_norm": place} for place in ("as named", "the other")])
    packed = {n.names[0] for n in of_layers if not n.is_bias and parts[n.layer, n.stem] == "QKV"}
    if packed and not all(name.endswith(DOCUMENTED) for name in packed):
        heads = [h] if h else [k for k in range(2, width + 1) if width % k == 0]
        customary: list[Answer] = [{"order": "".join(order), "by_head": 0} for order in permutations("QKV")]
        questions.append([*customary[:1], *({"order": "QKV", "by_head": k} for k in heads), *customary[1:]])
    unnamed = [part for part in "QKVO" if part in first]
    turns = any(w.ndim == 2 and w.shape[0] == w.shape[1] and n.kind not in TOLD for n, w in arrays.items())
    # An author who stores the other maps input × output stores square ones so too.
    given = [w for n, w in arrays.items() if parts[n.layer, n.stem] in ("1", "1G") and w.ndim == 2]
    stored = [w.shape[0] == width for w in given]
    usual = all(stored) and bool(stored)
    orientations = (usual, not usual) if turns else (usual,)
    ways: list[Answer] = [{"turned": turned} for turned in orientations]
    if len(unnamed) > 1:
        ways = [
            {"turned": turned, "squares": "".join(order)} for turned in orientations for order in permutations(unnamed)
        ]
    questions.append(ways)
    if found & {"G", "1G"}:
        questions.append([{"gates": gates} for gates in ("1G", "G1")])
    return [answers for answers in questions if len(answers) > 1]


DOCUMENTED = "in_proj_weight"
"""A packed array of torch's: its documentation has the order Q, K, V, and another one is a defect."""

TOLD = ("kernel", "transposed", "bias", "beta")
"""Kinds of arrays whose orientation is known."""

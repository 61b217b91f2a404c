"""Questions that names and shapes leave open on how an encoder stores its parameters: left to experiment."""

from collections.abc import Mapping
from itertools import permutations
from typing import Any

import torch
from torch import Tensor

from conformance_tests.parameters.assignment import assigned
from conformance_tests.parameters.evidence import IN_LAYER
from conformance_tests.parameters.mapping import canonical_names
from conformance_tests.parameters.storage import Storage

Answer = Mapping[str, Any]
"""Values for some attributes of ``Storage``."""


def open_storage(
    weights: Mapping[str, Tensor], h: int | None = None, stated: Mapping[str, str] | None = None
) -> list[list[Answer]]:
    """Return what names and shapes leave open: for each question its answers, the customary one first.

    Args:
        weights: the arrays by the subject's names.
        h: the number of heads, if it is known: for maps that are packed head by head.
        stated: what the author says, as for ``reading``.
    """
    parts, width = assigned(weights, Storage(), stated or {})
    if not canonical_names(weights).unmapped:
        return []
    of_layers = [part for part in parts if part.arrays and part.part in IN_LAYER]
    outside = {part.part: part for part in parts if part.arrays and part.part not in ("", *IN_LAYER)}
    names = {part.part for part in of_layers}
    first = {part.part for part in of_layers if part.guessed and part.first.layer == of_layers[0].first.layer}
    questions: list[list[Answer]] = []
    gammas = [a.take(weights[a.name]) for p in of_layers if p.part.startswith("norm") for a in p.arrays]
    if gammas:
        nearer_zero = float(torch.cat([w.flatten() for w in gammas]).abs().mean()) < 0.5
        questions.append([{"plus": plus} for plus in ((1.0, 0.0) if nearer_zero else (0.0, 1.0))])
    if {"norm_1", "norm_2"} <= first:
        questions.append([{"norms": order} for order in ("12", "21")])
    norms = [part.first.shape for name, part in outside.items() if name.startswith("norm")]
    if norms == [(width,)] and outside.keys() & {"E", "P", "patch", "feature"}:
        questions.append([{"outer_norm": place} for place in ("as named", "the other")])
    packed = [part.arrays[0].name for part in of_layers if part.part == "QKV"]
    if packed and not all(name.endswith(DOCUMENTED) for name in packed):
        heads = [h] if h else [k for k in range(2, width + 1) if width % k == 0]
        customary: list[Answer] = [{"order": "".join(order), "by_head": 0} for order in permutations("QKV")]
        questions.append([*customary[:1], *({"order": "QKV", "by_head": k} for k in heads), *customary[1:]])
    unnamed = [part for part in "QKVO" if part in first]
    maps = [part.first for part in of_layers if len(part.first.shape) == 2]
    turns = any(a.shape[0] == a.shape[1] and a.kind not in TOLD for a in maps)
    # An author who stores the other maps input × output stores square ones so too.
    given = [part.first.shape for part in of_layers if part.part in ("1", "1G")]
    usual = bool(given) and all(shape[0] == width for shape in given)
    orientations = (usual, not usual) if turns else (usual,)
    orders = ["".join(order) for order in permutations(unnamed)] if len(unnamed) > 1 else ["QKVO"]
    questions.append([{"turned": turned, "squares": order} for turned in orientations for order in orders])
    if names & {"G", "1G"}:
        questions.append([{"gates": gates} for gates in ("1G", "G1")])
    return [answers for answers in questions if len(answers) > 1]


DOCUMENTED = "in_proj_weight"
"""A packed array of torch's: its documentation has the order Q, K, V, and another one is a defect."""

TOLD = ("kernel", "transposed")
"""Kinds of arrays whose orientation is known."""

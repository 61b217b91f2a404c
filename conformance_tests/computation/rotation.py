"""Rotary positions, told by their numbers: vectors are multiplied by cosines and by sines of the same angles."""

from itertools import combinations

import torch
from torch import Tensor

from conformance_tests.computation.graph import COMPLEX, Graph, Value

ON_THE_CIRCLE = 1e-5
"""cos² + sin² of tables that were made in float32 differs from 1 by no more, a hundred times their rounding."""

NUMBERS_OF_A_MASK = 2
"""A mask and its opposite lie on the circle as well, and turn nothing; a table of angles has more different numbers."""


def rotation(graph: Graph) -> str:
    """Return how an encoder turns vectors by angles; empty if it turns none.

    Complex numbers are taken for a rotation. In real arithmetic one is told by two factors of the same shape whose
    squares add up to 1 everywhere.
    """
    factors: dict[torch.Size, list[tuple[Value, Tensor]]] = {}
    for value in graph.ancestors(graph.output):
        if value.depends and value.operation.startswith(COMPLEX):
            return f"it computes with complex numbers{value.where}"
        if value.depends and value.operation == "mul":
            for operand in value.arrays:
                if not graph.depends(operand) and not graph.learned(operand):
                    factors.setdefault(value.shape, []).append((value, graph.numbers(operand)))
    for alike in factors.values():
        for (value, one), (_, other) in combinations(alike, 2):
            is_circle = torch.allclose(one.square() + other.square(), torch.ones_like(one), atol=ON_THE_CIRCLE)
            if is_circle and one.abs().unique().numel() > NUMBERS_OF_A_MASK:
                return f"it turns vectors by angles, as rotary positions do{value.where}"
    return ""

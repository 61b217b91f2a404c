"""Weights that are divided by their sum behind the average that they give: (Σ eᵢ vᵢ) / Σ eᵢ is Σ (eᵢ / Σ eᵢ) vᵢ.

Attention that goes through its keys in chunks does so, and so does code that saves a division of each weight.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from conformance_tests.computation.affine import NONE
from conformance_tests.computation.graph import Graph, Value, places
from conformance_tests.computation.norm import apart
from conformance_tests.computation.rewriting import Replacing
from conformance_tests.computation.walking import constant_along, is_of_data, through

SUMMED = 1e-9
"""How far what divides an average may be from the sum of the weights: sums round."""


def normalised(graph: Graph) -> Graph:
    """Return a graph in which weights are divided before they average; the same graph, if it has no others."""
    found = {value.number: one for value in graph.values if (one := divided_behind(graph, value)) is not None}
    return Normalising(graph, found).finish() if found else graph


class Divided(NamedTuple):
    """An average that is divided by the sum of its weights.

    Attributes:
        product: the average.
        side: 0 if the weights are its rows, 1 if they are its columns.
        divisor: codes of what divides it, one for each row, or column.
        entries: those of the product that are divided, in the arrangement of the result.
    """

    product: Value
    side: int
    divisor: Tensor
    entries: Tensor


def divided_behind(graph: Graph, value: Value) -> Divided | None:
    """Return the average whose every entry a value is, divided by the sum of its weights; None if it is another."""
    if value.operation != "div" or len(value.arrays) != 2:
        return None
    entries, by = (read.expand_as(value.data) for read in value.arrays)
    product = graph.owner(entries)
    if product is None or not is_of_data(graph, product) or entries.numel() != product.shape.numel():
        return None
    divisor = torch.full(product.shape, NONE)
    divisor.view(-1)[places(entries.reshape(-1))] = by.reshape(-1)
    for side, (weights, across) in enumerate(((product.arrays[0], divisor), (product.arrays[1].mT, divisor.mT))):
        if bool((across == NONE).any()) or not constant_along(across, 2):
            continue
        if apart(graph.numbers(across[..., 0]), graph.numbers(weights).sum(-1)) <= SUMMED:
            return Divided(product, side, across[..., 0], entries)
    return None


class Normalising(Replacing[Divided]):
    """Builds the graph in which weights are divided by their sum before they average."""

    def replaced(self, value: Value, found: Divided) -> Tensor:
        """See ``Replacing``: the weights, divided, and the average of the values by them."""
        reads = [self.read(read) for read in found.product.arrays]
        weights = reads[found.side] if found.side == 0 else reads[found.side].mT
        divisor = self.translated(found.divisor)[..., None].expand_as(weights)
        data = self.graph.numbers(weights) / self.graph.numbers(divisor)
        shares = self.add(value, (weights, divisor), data, {})
        reads[found.side] = shares if found.side == 0 else shares.mT
        average = self.graph.numbers(reads[0]) @ self.graph.numbers(reads[1])
        return through(self.add(found.product, tuple(reads), average, {}), found.entries)

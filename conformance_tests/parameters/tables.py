"""Sinusoids that an encoder keeps as a table: stored numbers, but no learned parameter."""

from collections.abc import Iterator, Mapping
from itertools import product

import torch
from torch import Tensor

from conformance_tests.computation.inputs import OF_GRIDS, SINUSOIDS, layout
from conformance_tests.parameters.mapping import ParameterMapping
from encoder_spec.equation import variants

STORED = 1e-6
"""Allowed distance of a row of a table from the sinusoid, by its position: angles are usually computed in float32."""


def stored_sinusoids(mapping: ParameterMapping, weights: Mapping[str, Tensor], frozen: set[str]) -> dict[str, str]:
    """Return the canonical tables that are frozen and hold a sinusoid: path → variant of the slot ``position``.

    Such a table is judged as it is: it is neither perturbed nor differentiated.
    """
    found = {}
    for path, source in mapping.sources.items():
        if path == "P" and set(source.names) <= frozen:
            layout = layout_of(mapping.at(path, weights))
            if layout:
                found[path] = layout
    return found


def layout_of(P: Tensor) -> str | None:
    """Return the layout of the sinusoid that a table holds, if it holds one; zero rows, for padding, do not count."""
    filled = P.any(dim=-1)
    if filled.sum() < 2:
        return None
    allowed = STORED * (1 + torch.arange(len(P), dtype=torch.float64)[:, None])
    for name, sinusoid in sinusoids(P, int(filled.sum())):
        if bool(((P.double() - sinusoid).abs() <= allowed)[filled].all()):
            return name
    return None


def sinusoids(P: Tensor, filled: int) -> Iterator[tuple[str, Tensor]]:
    """Yield the layouts that there are of a table's shape, with their sinusoids.

    A grid has as many patches as rows are filled.
    """
    grids = [{"rows": rows, "columns": filled // rows} for rows in range(1, filled + 1) if filled % rows == 0]
    orders = [{"axes": equation.function} for equation in variants("axes").values()]
    told = {name: [grid | order for grid, order in product(grids, orders)] for name in OF_GRIDS}
    for name in (*SINUSOIDS, *OF_GRIDS):
        for supplied in told.get(name, [{}]):
            table = layout(name, *P.shape, **supplied)
            if table is not None:
                yield name, table.to(P.device)

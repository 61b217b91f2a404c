"""Sinusoids that an encoder keeps as a table: stored numbers, but no learned parameter."""

from collections.abc import Mapping

import torch
from torch import Tensor

from conformance_tests.mapping import ParameterMapping
from encoder_spec.equation import variants
from encoder_spec.notation import SpecificationError

STORED = 1e-6
"""How far a table may be from the sinusoid: it is usually kept in float32."""


def stored_sinusoids(mapping: ParameterMapping, weights: Mapping[str, Tensor], frozen: set[str]) -> dict[str, str]:
    """The canonical tables that are frozen and hold a sinusoid: path → variant of the slot ``position``.

    Such a table is judged as it is: it is neither perturbed nor differentiated.
    """
    found = {}
    for path, source in mapping.sources.items():
        if path == "P" and source.name in frozen:
            layout = layout_of(source.take(weights[source.name]))
            if layout:
                found[path] = layout
    return found


def layout_of(P: Tensor) -> str | None:
    """The layout of the sinusoid that a table holds, if it holds one."""
    for name in ("sinusoidal", "sinusoidal-concatenated"):
        try:
            sinusoid = variants("position")[name].function(P[None].double())
        except SpecificationError:
            continue
        if torch.allclose(P.double(), sinusoid, rtol=0, atol=STORED):
            return name
    return None

"""Reading the norms outside of the layers: their parameters, and form and ε where they are not those of the layers."""

import torch

from conformance_tests.computation.constants import NEAR
from conformance_tests.computation.norm import Norm
from conformance_tests.computation.shown import EncoderReading
from encoder_spec.equation import variants


def read_outer_norm(found: EncoderReading, norm: Norm, place: str, slot: str) -> None:
    """Read a norm outside of the layers: its parameters, and form and ε where they are not those of the layers."""
    found.choices[slot] = "norm"
    usual = str(found.choices["norm"])
    read_norm_parameters(found, place, norm, norm.form or usual)
    if norm.form and norm.form != usual:
        found.choices[place] = norm.form
    if norm.form and abs(norm.eps - float(found.choices.get("eps", norm.eps))) > NEAR * norm.eps:
        found.choices[f"{place}.eps"] = norm.eps


def read_norm_parameters(found: EncoderReading, place: str, norm: Norm | None, form: str) -> None:
    """Read γ and β of a norm as an equation needs them; without parameters, and without a norm, γ is 1 and β is 0.

    A norm that departs may have parameters of other shapes.
    """
    width = norm.reads.shape[norm.axes[-1]] if norm and norm.form else found.sizes["d_model"]
    for letter, codes, absent in (
        ("gamma", norm.gamma if norm else None, 1.0),
        ("beta", norm.beta if norm else None, 0.0),
    ):
        if codes is not None and tuple(codes.shape) == (width,):
            found.codes[f"{place}.{letter}"] = codes
        elif letter in variants("norm")[form].parameters:
            found.numbers[f"{place}.{letter}"] = torch.full((width,), absent, dtype=torch.float64)

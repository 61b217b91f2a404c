"""Statements on parameters that their use in a computation contradicts."""

import pytest
import torch
from torch import Tensor

from conformance_tests.computation.graph import Recording
from conformance_tests.computation.shown import EncoderReading
from conformance_tests.identification.statements import applied_again


@pytest.mark.parametrize(
    ("factors", "says"),
    [
        ("A", []),
        ("AB", []),
        ("AT", []),
        ("AA", ["A is applied to its own result, and each map should be applied once"]),
        ("ABA", ["A is applied to its own result, and each map should be applied once"]),
    ],
)
@pytest.mark.parametrize("times", [1.0, 0.5])
def test_a_map_is_applied_once_though_it_may_be_a_product(factors: str, says: list[str], times: float) -> None:
    """Of two parameters, or of one and its transpose (T), but not of one and itself."""
    recording = Recording()
    numbers = {name: torch.randn(3, 3, dtype=torch.float64) for name in "AB"}
    leaves = {name: recording.leaf("parameter", data, name, learned=True) for name, data in numbers.items()}
    pairs = {name: (leaves[name], numbers[name]) for name in "AB"} | {"T": (leaves["A"].mT, numbers["A"].mT)}
    W, data = pairs[factors[0]]
    for name in factors[1:]:
        other, of_other = pairs[name]
        data = times * data @ of_other
        W = recording.product(scaled(recording, W, times)[None], other[None], data[None])[0]
    found = EncoderReading(recording.graph)
    found.codes["layers.0.W_O"] = found.codes["layers.1.W_O"] = W
    assert [(finding.slot, finding.says) for finding in applied_again(found)] == [("output", each) for each in says]


def scaled(recording: Recording, codes: Tensor, times: float) -> Tensor:
    """Record a number times an array."""
    data = times * recording.graph.numbers(codes)
    return codes if times == 1 else recording.elementwise("mul", (codes, times), data)

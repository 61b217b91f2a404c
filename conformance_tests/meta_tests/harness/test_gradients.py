"""Gradients by a subject's weights become sketches by canonical path as they arise."""

import torch
from torch import Tensor

from conformance_tests.harness.gradients import Arising
from conformance_tests.numerics.sketches import sketch
from conformance_tests.parameters.mapping import ParameterMapping, Source

GIVEN = torch.arange(6.0, dtype=torch.float64)


def one_half(packed: Tensor) -> Tensor:
    return packed[:3]


def other_half(packed: Tensor) -> Tensor:
    return packed[3:]


def put_together(one: Tensor, other: Tensor) -> Tensor:
    return torch.cat([one, other])


MAPPING = ParameterMapping(
    {
        "layers.0.W_Q": Source(("packed",), one_half),
        "layers.0.W_K": Source(("packed",), other_half, times=2.0),
        "layers.0.W_1": Source(("left", "right"), put_together),
        "layers.0.W_2": Source(("idle",), torch.clone),
        "layers.0.norm_1.gamma": Source((), torch.clone),
        "E": Source(("tokens", "kinds"), torch.add, is_computed=True),
        "E_seg": Source(("kinds",), torch.clone),
    },
    ("beside",),
)


def arising() -> Arising:
    held = {
        name: torch.zeros(6, dtype=torch.float64) for name in ("packed", "left", "right", "idle", "beside", "kinds")
    }
    return Arising(MAPPING, held)


def test_each_path_has_what_is_taken_of_its_weights() -> None:
    """A parameter that is twice a weight has half its gradient; constants and what is computed have none.

    Nor has a weight of which something is computed, too: the gradient by it is that of both.
    """
    found = arising()
    for name in ("right", "packed", "left", "beside", "kinds"):
        found.add(name, GIVEN)
    by_input, by_path, felt = found.gradients(None)
    assert by_input is None
    assert list(by_path) == ["layers.0.W_Q", "layers.0.W_K", "layers.0.W_1", "layers.0.W_2"]
    assert by_path["layers.0.W_Q"].tolist() == [0, 1, 2]
    assert by_path["layers.0.W_K"].tolist() == [1.5, 2, 2.5]
    assert by_path["layers.0.W_1"].tolist() == [0, 1, 2, 3, 4, 5] * 2
    assert by_path["layers.0.W_2"].tolist() == [0] * 6
    assert felt == {"right", "packed", "left", "beside", "kinds"}


def test_summands_are_summed_and_zeros_are_not_felt() -> None:
    found = arising()
    found.add("packed", GIVEN)
    found.add("packed", 2 * GIVEN)
    found.add("left", torch.zeros(6, dtype=torch.float64))
    _, by_path, felt = found.gradients(None)
    assert by_path["layers.0.W_Q"].tolist() == [0, 3, 6]
    assert by_path["layers.0.W_1"].tolist() == [0] * 12
    assert felt == {"packed"}


def test_of_a_large_parameter_a_sketch_is_kept() -> None:
    large = torch.randn(300, 300, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = Arising(ParameterMapping({"E": Source(("table",), torch.clone)}, ()), {"table": torch.zeros_like(large)})
    found.add("table", large)
    assert torch.equal(found.gradients(None).by_path["E"], sketch(large))

"""How a graph keeps track of torch: of writes in place, of one-hot look-ups, and of memory that it knows in part."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from conformance_tests.computation.graph import COMPLEX
from conformance_tests.computation.norm import read_norm
from conformance_tests.subjects.torch_recording import TorchRecording


def recorded(function: Callable[..., Tensor], *tensors: Tensor) -> tuple[TorchRecording, Tensor]:
    recording = TorchRecording({"W": tensors[-1]}, (), {}, {})
    for tensor in tensors[:-1]:
        recording.known("argument", tensor, "x")
    with recording:
        returned = function(*tensors)
    return recording, recording.codes(returned)


def test_what_was_read_keeps_its_codes_when_the_tensor_is_written_into() -> None:
    def in_place(x: Tensor, W: Tensor) -> Tensor:
        h = x * 1.5
        product = h @ W
        h += product
        return h

    recording, codes = recorded(in_place, torch.randn(3, 4), torch.randn(4, 4))
    (added,) = recording.graph.owners(codes)
    scaled, product = (recording.graph.owner(read.reshape(-1)) for read in added.arrays)
    assert [value.operation for value in (scaled, product)] == ["mul", "product"]  # type: ignore[union-attr]
    assert recording.graph.owner(product.arrays[0]) is scaled  # type: ignore[union-attr]


def test_of_memory_that_is_known_in_part_the_rest_is_read_when_it_is_used() -> None:
    table = torch.arange(12.0).reshape(4, 3)

    def twice(x: Tensor, _: Tensor) -> Tensor:
        return x * table[:2] + x * table[2:]

    x = torch.randn(2, 3)
    recording, codes = recorded(twice, x, torch.randn(1))
    found = recording.graph.numbers(codes)
    assert torch.equal(found, (x * table[:2] + x * table[2:]).double())
    read = [recording.graph.numbers(v.arrays[1]) for v in recording.graph.values if v.operation == "mul"]
    assert torch.equal(torch.cat(read), table.double())


def by_scattering(ids: Tensor, W: Tensor) -> Tensor:
    return torch.zeros(*ids.shape, len(W)).scatter_(-1, ids[..., None], 1.0) @ W


def by_writing(ids: Tensor, W: Tensor) -> Tensor:
    marks = torch.zeros(ids.numel(), len(W))
    marks[torch.arange(ids.numel()), ids.reshape(-1)] = 1.0
    return (marks @ W).reshape(*ids.shape, -1)


def by_comparing(ids: Tensor, W: Tensor) -> Tensor:
    return (ids[..., None] == torch.arange(len(W))).float() @ W


@pytest.mark.parametrize(
    "look_up",
    [lambda ids, W: functional.one_hot(ids, len(W)).float() @ W, by_scattering, by_writing, by_comparing],
)
def test_products_with_marks_are_look_ups(look_up: Callable[..., Tensor]) -> None:
    recording, codes = recorded(look_up, torch.tensor([[1, 5], [0, 2]]), torch.randn(6, 4))
    value = recording.graph.owner(codes)
    assert value is not None
    assert (value.operation, value.options["axis"]) == ("look-up", 0)
    assert recording.graph.owner(value.arrays[1].reshape(-1)).operation == "argument"  # type: ignore[union-attr]


def test_numbers_that_are_scattered_are_no_codes() -> None:
    def scattered(x: Tensor, _: Tensor) -> Tensor:
        return x * torch.zeros(2, 3).scatter(1, torch.tensor([[0], [2]]), 7.0)

    recording, codes = recorded(scattered, torch.randn(2, 3), torch.randn(1))
    factors = recording.graph.owner(codes).arrays[1]  # type: ignore[union-attr]
    assert recording.graph.numbers(factors).tolist() == [[7, 0, 0], [0, 0, 7]]


def test_memory_is_followed_where_it_is_read_as_complex_numbers_and_as_pairs() -> None:
    """Products of complex numbers are those of the pairs in their memory, also where these are written later."""

    def turned(x: Tensor, W: Tensor) -> Tensor:
        pairs = (x * W).unflatten(-1, (2, 2))
        numbers = torch.view_as_complex(pairs)
        pairs[..., 0] += 1
        return torch.view_as_real(numbers * 1j).flatten(-2)

    recording, codes = recorded(turned, torch.randn(3, 4), torch.randn(4))
    assert recording.graph.depends(codes)
    behind = {value.operation for value in recording.graph.ancestors(codes)}
    assert behind >= {"add", "mul", "argument", "parameter"}
    assert not any(operation.startswith(COMPLEX) for operation in behind)


def test_pairs_that_are_also_read_as_complex_numbers_stay_what_they_are() -> None:
    """A view writes nothing."""

    def both(x: Tensor, W: Tensor) -> Tensor:
        pairs = (x * W).unflatten(-1, (2, 2))
        return torch.view_as_complex(pairs).abs() + pairs.sum(-1)

    recording, codes = recorded(both, torch.randn(3, 4), torch.randn(4))
    (total,) = (value for value in recording.graph.ancestors(codes) if value.operation == "sum")
    assert [value.operation for value in recording.graph.owners(total.arrays[0])] == ["mul"]


def test_the_norm_of_what_is_scaled_reads_it_behind_its_scale() -> None:
    """Before it, another ε would give the same numbers, or nearly so."""

    def normed(x: Tensor, W: Tensor) -> Tensor:
        scaled = x * 5
        return scaled * torch.rsqrt(scaled.pow(2).mean(-1, keepdim=True) + 1e-6) * W

    recording, codes = recorded(normed, torch.randn(3, 4).double(), torch.randn(4).double())
    value = recording.graph.owner(codes)
    assert value is not None
    norm = read_norm(recording.graph, value)
    assert norm is not None
    read = recording.graph.owner(norm.reads)
    assert read is not None
    assert (norm.form, norm.eps, read.operation) == ("rms", 1e-6, "mul")

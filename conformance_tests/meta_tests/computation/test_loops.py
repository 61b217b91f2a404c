"""Loops are read as the vectorised operations that they are, and nothing else is put together."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from conformance_tests.computation.graph import Graph
from conformance_tests.computation.loops import groups, rolled
from conformance_tests.meta_tests.encoders.plain import Plain, PlainLayer, plain_layers
from conformance_tests.subjects.torch_subject import TorchSubject


class Computes(nn.Module):
    """Computes what a function does with vectors and two maps."""

    def __init__(self, function: Callable[[Tensor, nn.Linear, nn.Linear], Tensor]) -> None:
        super().__init__()
        self.function, self.one, self.other = function, nn.Linear(6, 6, bias=False), nn.Linear(6, 6, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, self.one, self.other)


def graph_of(module: nn.Module) -> Graph:
    """Return the computation of a module."""
    subject = TorchSubject(module)
    with subject.borrowed():
        return subject.computation()


def of_each(x: Tensor, one: nn.Linear, other: nn.Linear) -> Tensor:
    return torch.stack([torch.stack([one(row).exp() / one(row).exp().sum() for row in rows]) for rows in x])


def in_pairs(x: Tensor, one: nn.Linear, other: nn.Linear) -> Tensor:
    q, k = one(x), other(x)
    scores = [torch.stack([torch.stack([a @ b for b in k[i]]) for a in q[i]]) for i in range(len(x))]
    return torch.stack(scores) @ x


def with_several_maps(x: Tensor, one: nn.Linear, other: nn.Linear) -> Tensor:
    return torch.cat([m(part) for m, part in zip((one, other), x.chunk(2, 1), strict=False)], 1)


def one_after_the_other(x: Tensor, one: nn.Linear, other: nn.Linear) -> Tensor:
    for _ in range(3):
        x = one(x)
    return x


def twice(x: Tensor, one: nn.Linear, other: nn.Linear) -> Tensor:
    first, second = (one(x) for _ in range(2))
    return first + second


@pytest.mark.parametrize(("function", "products"), [(of_each, 1), (in_pairs, 4)])
def test_a_loop_becomes_as_few_products_as_its_vectorised_form(
    function: Callable[[Tensor, nn.Linear, nn.Linear], Tensor], products: int
) -> None:
    """Its numbers stay what they were."""
    recorded = graph_of(Computes(function))
    graph = rolled(recorded)
    assert len([v for v in recorded.values if v.operation == "product"]) > products
    assert len([v for v in graph.values if v.operation == "product"]) == products
    assert torch.equal(graph.numbers(graph.output), recorded.numbers(recorded.output))
    assert graph.recorded is recorded
    for value in graph.values:
        assert all(v.number < value.number for codes in value.arrays for v in graph.owners(codes))


@pytest.mark.parametrize("function", [with_several_maps, one_after_the_other, twice])
def test_what_is_no_loop_over_entries_stays_as_it_is(
    function: Callable[[Tensor, nn.Linear, nn.Linear], Tensor],
) -> None:
    """Several maps, layers in turn, and the same again."""
    graph = graph_of(Computes(function))
    assert rolled(graph) is graph


def test_an_encoder_without_loops_stays_as_it_is() -> None:
    graph = graph_of(Plain(plain_layers(PlainLayer)))
    assert rolled(graph) is graph


def test_rows_and_columns_that_meet_are_one_product() -> None:
    """Pairs of two samples; an incomplete set of pairs is none."""
    assert groups([[0], [0], [1], [1]], [[0], [1], [2], [3]]) == [([0], [0, 1]), ([1], [2, 3])]
    assert groups([[0], [0], [1]], [[0], [1], [0]]) is None
    assert groups([[0], [1]], [[0, 1], [1, 2]]) is None
    assert groups([[0], [0]], [[0], [0]]) is None

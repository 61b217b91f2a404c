"""Codes of large leaves are written down where they are looked at, and are those that are kept of small ones."""

import gc
from dataclasses import dataclass, replace

import pytest
import torch

from conformance_tests.computation.graph import (
    PLACES,
    Codes,
    Graph,
    Reads,
    Recording,
    View,
    as_view,
    view_of,
    with_compact,
)
from conformance_tests.meta_tests.computation.styles import Einsum
from conformance_tests.meta_tests.computation.test_reading import reading_of
from conformance_tests.subjects.torch_subject import TorchSubject


def of_torch() -> torch.nn.Module:
    layer = torch.nn.TransformerEncoderLayer(12, 3, 20, batch_first=True)
    return torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def large_leaf() -> tuple[Graph, torch.Tensor]:
    recording = Recording()
    codes = recording.leaf("parameter", torch.zeros(300, 400), "W", learned=True)
    return recording.graph, codes


def test_the_codes_of_a_large_leaf_are_those_of_its_places() -> None:
    _, codes = large_leaf()
    assert torch.equal(codes, (1 << PLACES) + torch.arange(300 * 400).reshape(300, 400))


@pytest.mark.parametrize(
    "turned",
    [
        lambda x: x,
        lambda x: x.mT,
        lambda x: x[100:200],
        lambda x: x.chunk(4, dim=1)[2],
        lambda x: x.unflatten(1, (8, 50)).transpose(0, 1),
        lambda x: x[None].expand(2, -1, -1),
        lambda x: x[5, 7:9],
    ],
)
def test_a_view_of_them_is_kept_as_sizes_and_strides_and_gives_the_same_codes(turned: object) -> None:
    """Whatever a view is a view of: transposes, chunks, heads, repeats and single rows."""
    assert callable(turned)
    _, codes = large_leaf()
    want = turned(codes)
    view = as_view(want)
    assert view is not None
    assert view.number == 1
    assert torch.equal(view.codes, want)
    assert torch.equal(view.renumbered(3).codes - view.codes, torch.full_like(want, 2 << PLACES))


def test_entries_of_a_view_are_found_without_all_of_it() -> None:
    _, codes = large_leaf()
    view = as_view(codes.mT)
    assert view is not None
    rows, columns = torch.tensor([3, 399])[:, None], torch.tensor([0, 17, 299])
    assert torch.equal(view.at(rows, columns), codes.mT[rows, columns])


def test_other_codes_are_no_view() -> None:
    """Not copies, which may have another order; nor codes in memory that a leaf has left."""
    _, codes = large_leaf()
    assert as_view(codes.clone()) is None
    assert as_view(2.0) is None
    del codes
    gc.collect()
    assert all(as_view(torch.arange(300 * 400)) is None for _ in range(20))


@pytest.mark.parametrize(
    "moved",
    [
        lambda x: x.mT.contiguous(),
        lambda x: x[:, 100:350].clone(),
        lambda x: torch.cat([x[:, i : i + 50] for i in range(0, 400, 50)], dim=1),
    ],
    ids=["turned", "a part", "put together of heads"],
)
def test_codes_that_were_moved_are_recognised_as_a_view(moved: object) -> None:
    """Wherever they are: they say it themselves, so that nothing has to be known of what moved them."""
    assert callable(moved)
    _, codes = large_leaf()
    want = moved(codes)
    assert as_view(want) is None
    view = view_of(want)
    assert view is not None
    assert torch.equal(view.codes, want)


def test_other_codes_are_recognised_as_no_view() -> None:
    """Not in another order, nor of two values, nor fewer than are worth it."""
    _, codes = large_leaf()
    swapped = codes[[1, 0, *range(2, 300)]]
    assert view_of(swapped) is None
    assert view_of(codes.flip(0)) is None
    assert view_of(torch.cat([codes, codes + (1 << PLACES)])) is None
    assert view_of(torch.stack([codes, codes + (1 << PLACES)])) is None
    assert view_of(codes[[0, 299, *range(298)]]) is None
    assert view_of(codes[:2].clone()) is None


def test_codes_by_name_are_kept_as_views_and_looked_at_as_they_are() -> None:
    _, codes = large_leaf()
    swapped = codes[[1, 0, *range(2, 300)]]
    kept = Codes({"turned": codes.mT.contiguous(), "swapped": swapped})
    assert isinstance(kept.forms["turned"], View)
    assert torch.equal(kept["turned"], codes.mT)
    assert torch.equal(kept["swapped"], swapped)
    assert kept.shapes() == {"turned": (400, 300), "swapped": (300, 400)}
    del kept["swapped"]
    assert "swapped" not in kept
    assert list(kept) == ["turned"]


def test_codes_that_an_object_has_are_kept_as_views() -> None:
    @with_compact("W", "V")
    @dataclass(eq=False)
    class Maps:
        W: torch.Tensor
        V: torch.Tensor | None = None

    _, codes = large_leaf()
    maps = Maps(codes.clone())
    assert maps.V is None
    assert torch.equal(maps.W, codes)
    assert not any(isinstance(kept, torch.Tensor) for kept in vars(maps)["compact"].forms.values())
    maps.V = codes[:2]
    other = replace(maps, W=codes[:1])
    assert torch.equal(other.W, codes[:1])
    assert torch.equal(other.V, codes[:2])  # type: ignore[arg-type]
    maps.V = None
    assert maps.V is None


def test_what_a_value_reads_of_a_large_leaf_takes_no_memory() -> None:
    graph, codes = large_leaf()
    reads = Reads((codes.mT, 2.0))
    assert isinstance(reads.forms[0], View)
    assert [len(reads), reads[1], reads[-1]] == [2, 2.0, 2.0]
    assert torch.equal(reads[0], codes.mT)  # type: ignore[arg-type]
    assert len(reads[:1]) == 1
    assert graph.owning(reads.forms[0]) == (1,)


class WritesIntoItsWeights(torch.nn.Module):
    """Clips its table where it is read, as some embeddings do."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(300, 400))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        read = x @ self.table
        with torch.no_grad():
            self.table.mul_(0)
        return read


def test_the_numbers_of_a_large_leaf_are_those_that_were_read() -> None:
    subject = TorchSubject(WritesIntoItsWeights())
    with subject.borrowed():
        graph = subject.computation()
    table = next(value for value in graph.values if value.name == "table")
    product = next(value for value in graph.values if value.operation == "product")
    assert torch.allclose(graph.numbers(product.reads[0]) @ table.data.double(), product.data)


@pytest.mark.parametrize("module", [Einsum(), of_torch()], ids=["einsum", "torch"])
def test_an_encoder_is_read_alike_whether_its_leaves_count_as_large(
    module: torch.nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, _ = reading_of(module)
    for place in ("computation.graph.LARGE", "computation.graph.FEW", "subjects.torch_recording.LARGE"):
        monkeypatch.setattr(f"conformance_tests.{place}", 1)
    views, _ = reading_of(module)
    assert kept.choices == views.choices
    assert kept.codes.keys() == views.codes.keys()
    assert all(torch.equal(codes, views.codes[path]) for path, codes in kept.codes.items())

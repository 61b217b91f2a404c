"""Sketches of large arrays: what they keep, and what shows in them."""

import torch
from torch.utils.checkpoint import checkpoint

from conformance_tests.numerics.sketches import LARGE, as_they_arise, is_sketched, nothing_like, signs, sketch

ROWS, COLUMNS = 300, 251


def array(seed: int) -> torch.Tensor:
    return torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_a_small_array_is_its_own_sketch() -> None:
    x = torch.randn(3, 4)
    assert sketch(x) is x
    assert not is_sketched(LARGE - 1)
    assert is_sketched(LARGE)


def test_a_large_one_has_a_sum_for_each_row_and_each_column() -> None:
    """By hand: the first entry is Σ_j s_j x[0, j], the one behind all rows Σ_i r_i x[i, 0]."""
    x = array(0)
    of_rows, of_columns = sketch(x).split((ROWS, COLUMNS))
    assert torch.allclose(of_rows[0], (signs(COLUMNS) * x[0]).sum())
    assert torch.allclose(of_columns[0], (signs(ROWS) * x[:, 0]).sum())
    assert set(signs(ROWS).tolist()) == {-1.0, 1.0}


def test_sketches_are_linear() -> None:
    x, y = array(1), array(2)
    assert torch.allclose(sketch(x + 3 * y), sketch(x) + 3 * sketch(y))


def test_one_wrong_entry_shows_in_its_row_and_its_column_alone() -> None:
    x = array(3)
    y = x.clone()
    y[17, 5] += 1e-6
    wrong = ((sketch(x) - sketch(y)).abs() > 1e-9).nonzero().flatten().tolist()
    assert wrong == [17, ROWS + 5]


def test_a_transposed_map_has_another_sketch() -> None:
    x = torch.randn(256, 256, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    assert not torch.allclose(sketch(x), sketch(x.mT))


def test_an_array_of_zeros_takes_no_memory_and_has_a_sketch_of_zeros() -> None:
    none = nothing_like(array(5))
    assert none.shape == (ROWS, COLUMNS)
    assert none.untyped_storage().nbytes() == 8
    assert not sketch(none).any()


def test_gradients_are_handed_over_under_every_name_and_let_go() -> None:
    """Of (2a + b) · 3: by a it is 6, by b 3. What stands under two names is handed over twice, what is idle never."""
    a, b, idle = (torch.ones(1, requires_grad=True) for _ in range(3))
    got: list[tuple[str, float]] = []
    with as_they_arise({"a": a, "b": b, "again": a, "idle": idle}, lambda name, g: got.append((name, g.item()))):
        ((2 * a + b) * 3).sum().backward()
        assert a.grad is None
        assert b.grad is None
    assert sorted(got) == [("a", 6), ("again", 6), ("b", 3)]
    (5 * a).sum().backward()
    assert a.grad is not None
    assert a.grad.item() == 5
    assert len(got) == 3


def test_a_pass_in_several_parts_hands_over_summands() -> None:
    """A reentrant checkpoint runs a second backward pass inside the first: by a, one gives 2 · 3 and the other 1."""
    a, x = (torch.ones(1, requires_grad=True) for _ in range(2))
    got: list[float] = []
    with as_they_arise({"a": a}, lambda _, g: got.append(g.item())):
        inner = checkpoint(lambda x: 3 * a * x, x, use_reentrant=True)
        (2 * inner + a).sum().backward()
    assert sum(got) == 7
    assert len(got) == 2

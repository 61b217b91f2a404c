"""What evaluated programs record: the codes that operations read and give, without any framework."""

import numpy as np
import pytest
import torch
from torch import Tensor

from conformance_tests.subjects.evaluation import Coded, Evaluation

GENERATOR = np.random.default_rng(0)


def numbers(*shape: int) -> np.ndarray:
    """Random numbers."""
    return GENERATOR.standard_normal(shape)


def data(evaluation: Evaluation, array: np.ndarray) -> Coded:
    """An argument of the call."""
    return evaluation.leaf("argument", array, "x")


def weights(evaluation: Evaluation, array: np.ndarray, name: str = "W") -> Coded:
    """A parameter."""
    return evaluation.leaf("parameter", array, name, learned=True)


def held(evaluation: Evaluation, codes: Tensor) -> np.ndarray:
    """The numbers behind codes."""
    found: np.ndarray = evaluation.graph.numbers(codes).numpy()
    return found


def test_a_product_keeps_the_weights_entries_in_its_columns() -> None:
    """Rows are what the arguments hold, columns are the entries that each result is a map of."""
    evaluation = Evaluation()
    x, W = data(evaluation, numbers(2, 3, 4)), weights(evaluation, numbers(4, 5, 6))
    result = np.einsum("bnd,dhk->bnhk", x.array, W.array)
    product = evaluation.product(x, W, ((2,), (0,)), result)
    rows, columns = evaluation.graph.values[-1].reads
    assert torch.equal(rows, x.codes.reshape(1, 6, 4))
    assert torch.equal(columns, W.codes.reshape(1, 4, 30))
    assert product.codes.shape == (2, 3, 5, 6)
    np.testing.assert_array_equal(held(evaluation, product.codes), result)


def test_a_product_with_the_weights_on_the_left_is_turned() -> None:
    """The weights are among the columns, and each entry of the result is still its own."""
    evaluation = Evaluation()
    x, W = data(evaluation, numbers(4, 3)), weights(evaluation, numbers(5, 4))
    product = evaluation.product(W, x, ((1,), (0,)), W.array @ x.array)
    columns = evaluation.graph.values[-1].reads[1]
    assert torch.equal(columns, W.codes.mT[None])
    np.testing.assert_array_equal(held(evaluation, product.codes), W.array @ x.array)


def test_a_product_of_batches_has_one_matrix_for_each() -> None:
    """Scores: batch and heads are the outer axis, in whichever place they stand."""
    evaluation = Evaluation()
    q, k = (data(evaluation, numbers(2, 5, 4, 8)) for _ in range(2))
    result = np.einsum("bqhd,bkhd->bhqk", q.array, k.array)
    product = evaluation.product(q, k, ((3,), (3,)), result, batch=((0, 2), (0, 2)))
    rows, columns = evaluation.graph.values[-1].reads
    assert rows.shape == (8, 5, 8)
    assert columns.shape == (8, 8, 5)
    assert torch.equal(rows[1], q.codes[0, :, 1])
    assert torch.equal(columns[1], k.codes[0, :, 1].mT)
    np.testing.assert_array_equal(held(evaluation, product.codes), result)


@pytest.mark.parametrize("groups", [1, 2])
def test_a_convolution_is_a_product_of_unfolded_rows(groups: int) -> None:
    """Its rows are the patches; padding reads the number 0."""
    evaluation = Evaluation()
    x, W = data(evaluation, numbers(2, 4, 6)), weights(evaluation, numbers(8, 4 // groups, 3))
    arguments = [torch.from_numpy(a.array) for a in (x, W)]
    result = torch.nn.functional.conv1d(*arguments, stride=2, padding=1, groups=groups).numpy()
    found = evaluation.convolution(x, W, [2], [(1, 1)], groups, result)
    rows, columns = (held(evaluation, codes) for codes in evaluation.graph.values[-1].reads)
    assert len(rows) == groups
    np.testing.assert_allclose(rows @ columns, evaluation.graph.values[-1].data.numpy(), atol=1e-12)
    np.testing.assert_array_equal(held(evaluation, found.codes), result)


def test_what_depends_on_nothing_is_a_constant() -> None:
    """Shapes, scales and masks that are computed on the way leave no operations behind."""
    evaluation = Evaluation()
    two = evaluation.constant(np.array(2.0))
    root = evaluation.elementwise("sqrt", [two], np.sqrt(two.array))
    assert evaluation.graph.owner(root.codes).operation == "constant"  # type: ignore[union-attr]
    scaled = evaluation.elementwise("mul", [data(evaluation, numbers(3)), root], numbers(3))
    assert evaluation.graph.owner(scaled.codes).reads[1] == 2**0.5  # type: ignore[union-attr]


def test_an_object_without_numbers_is_handed_on() -> None:
    """Random keys are arrays of a type that NumPy does not know."""
    evaluation = Evaluation()
    key = evaluation.constant(np.array([None, None]))
    assert not key.codes.any()

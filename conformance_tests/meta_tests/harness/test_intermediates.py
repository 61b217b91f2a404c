"""Arrays of a subject, among which the values of the specification are looked for."""

import torch

from conformance_tests.harness.intermediates import Recorded

VALUE = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]], dtype=torch.float64)


def test_a_value_is_found_in_another_order_of_axes() -> None:
    recorded = Recorded([VALUE.T, VALUE + 1], 1e-9)
    assert recorded.has(VALUE)
    assert recorded.holds(VALUE)
    assert not recorded.holds(VALUE + 2)


def test_a_value_without_entries_stands_among_no_arrays() -> None:
    """A wrong equation may leave none of a single token."""
    recorded = Recorded([VALUE, VALUE[:0]], 1e-9)
    for empty in (VALUE[:, :0], torch.empty(2, 0, 4, dtype=torch.float64)):
        assert not recorded.has(empty)
        assert not recorded.holds(empty)

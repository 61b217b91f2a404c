"""Ids that a call leaves out; functions stand in for encoders."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from conformance_tests.numerics.probes import Probe
from conformance_tests.subjects.left_out import Defaults, Rows, positions_left_out, segments_left_out

IDS = torch.tensor([[5, 6, 7], [7, 6, 5]])
SEGMENTS = torch.tensor([[0, 1, 1], [1, 1, 0]])


class Call:
    """Sums ids, segments and positions, with what a test has for those that are left out."""

    def __init__(self, read: Callable[[Tensor], Tensor], segment: float = 0.0) -> None:
        self.read = read
        self.segment = segment

    def attempt(self, inputs: tuple[Tensor, ...], keep: Tensor | None) -> Tensor | None:
        ids, *segments = inputs
        return ids[..., None].double() + 100.0 * (segments[0][..., None] if segments else self.segment)

    def numbering(self, argument: str, plain: Probe, numbers: Tensor) -> Tensor | None:
        if argument == "refused":
            return None
        ids, segments = plain.inputs
        left = self.attempt((ids, segments), None)
        assert left is not None
        return left + self.read(numbers)[..., None].double()


class Absolute(Call):
    """Adds positions to its ids, as a table of them does."""

    def attempt(self, inputs: tuple[Tensor, ...], keep: Tensor | None) -> Tensor | None:
        left = super().attempt(inputs, keep)
        return None if left is None else left + 10.0 * torch.arange(3)[:, None]


def placed(numbers: Tensor) -> Tensor:
    """Return how far numbers are from an encoder's own positions, as they show in its output."""
    return 10.0 * (numbers - torch.arange(3))


@pytest.mark.parametrize(
    ("segment", "padded", "found"),
    [
        (0.0, False, ""),
        (1.0, False, "every token is of segment 1"),
        (1.0, True, "what it computes with 1 throughout"),
        (0.5, False, "something else than with zeros"),
    ],
)
def test_segments_that_are_left_out_are_the_first_one(segment: float, padded: bool, found: str) -> None:
    """Those of another row are wrong, unless the first row is that of padding; anything else is told alone."""
    plain = Probe((IDS, SEGMENTS))
    known = segments_left_out(Call(placed, segment), "kinds", plain, Rows(segments=2, first_is_padding=padded))
    assert found in str(known)
    assert bool(known.findings) == found.startswith("every")
    assert bool(known.remarks) == (bool(found) and not known.findings)


@pytest.mark.parametrize(
    ("shift", "rows", "expected"),
    [
        (0, Rows(), "right"),
        (2, Rows(offset=2, padding={1}), "right"),
        (2, Rows(offset=2), "open"),
        (1, Rows(offset=2, padding={1}), "open"),
        (-1, Rows(), "wrong"),
        (7, Rows(), "right"),
    ],
)
def test_positions_that_are_left_out_are_counted_from_0_or_behind_padding(
    shift: int, rows: Rows, expected: str
) -> None:
    """The encoder counts from ``shift`` on. An argument that never reproduces its positions numbers none."""
    known = positions_left_out(Call(lambda n: placed(n - shift)), ["refused", "places"], Probe((IDS, SEGMENTS)), rows)
    assert (bool(known.findings), bool(known.open)) == (expected == "wrong", expected == "open")


@pytest.mark.parametrize(
    ("read", "remarks"),
    [
        (torch.zeros_like, ("places takes a number for each token, and changes nothing",)),
        (lambda n: torch.where(n == 0, 5, 0), ()),
    ],
)
def test_what_does_not_depend_on_the_order_numbers_no_positions(
    read: Callable[[Tensor], Tensor], remarks: tuple[str, ...]
) -> None:
    """An argument that nothing reads, which is told, and a mask, which hides where it is 0."""
    known = positions_left_out(Call(read), ["places"], Probe((IDS, SEGMENTS)), Rows())
    assert known == Defaults(remarks=remarks)


@pytest.mark.parametrize(
    ("read", "place_alone", "found"),
    [
        (placed, True, 0),
        (lambda n: placed(n[..., :1] + torch.arange(3)), True, 1),
        (lambda n: placed(n[..., :1] + torch.arange(3)), False, 0),
    ],
)
def test_tokens_take_their_positions_with_them(read: Callable[[Tensor], Tensor], place_alone: bool, found: int) -> None:
    """Unless something else tells places, tokens in another order give the same in that order."""
    rows = Rows(place_alone=place_alone)
    known = positions_left_out(Absolute(read), ["places"], Probe((IDS, SEGMENTS)), rows)
    assert len(known.findings) == found


@pytest.mark.parametrize(("of_the_first", "found"), [(True, 1), (False, 0)])
def test_each_sequence_has_its_own_positions(of_the_first: bool, found: int) -> None:
    """Positions of all sequences alike would hide that those of the first are read for all."""

    def read(numbers: Tensor) -> Tensor:
        return placed(numbers[:1].expand(len(numbers), -1) if of_the_first and numbers.ndim > 1 else numbers)

    known = positions_left_out(Call(read), ["places"], Probe((IDS, SEGMENTS)), Rows())
    assert len(known.findings) == found

"""Ids that probes leave out, and encoders that treat them otherwise."""

import pytest
import torch

from conformance_tests.harness.question import Question
from conformance_tests.harness.rare_ids import hidden_ids, ids_apart, is_read_as_zeros, rare_ids, told_apart, with_ids
from conformance_tests.identification.opening import opened
from conformance_tests.meta_tests.encoders import unusual_ids
from conformance_tests.meta_tests.encoders.plain import Plain, plain_layers
from conformance_tests.numerics.probes import Probe


def test_each_id_stands_once_in_a_sequence_and_at_other_places() -> None:
    """A short sequence holds as many of them as fit; segments stay as they are."""
    ids, segments = torch.full((3, 4), 9), torch.ones(3, 4, dtype=torch.long)
    probe, holds = with_ids(Probe((ids, segments)), [1, 2])
    assert probe.inputs[0].tolist() == [[9, 1, 2, 9], [9, 9, 1, 2], [2, 9, 9, 1]]
    assert probe.inputs[1] is segments
    assert torch.equal(holds, probe.inputs[0] != 9)
    assert with_ids(Probe((ids[:1],)), [1, 2, 3, 4, 5])[0].inputs[0].tolist() == [[4, 1, 2, 3]]


@pytest.mark.parametrize(
    ("make", "rare", "apart"),
    [
        (unusual_ids.WithIds, [1, 2, 3, 60], []),
        (unusual_ids.DoublesTheLast, [1, 2, 3, 60], [60]),
        (unusual_ids.ReadsFromTheSecondOn, [1, 2, 3, 60], [1]),
        (unusual_ids.ZeroesPadding, [1, 2, 3], []),
        (unusual_ids.HidesTheLastId, [1, 2, 3], []),
        (unusual_ids.PlacesBehindPadding, [2, 3, 60], []),
        (unusual_ids.HidesTheFirstTwoIds, [1, 2, 3, 60], [1]),
        (lambda: Plain(plain_layers()), [], []),
    ],
)
def test_ids_are_read_as_all_others_unless_they_are_those_of_padding(
    make: type[unusual_ids.WithIds], rare: list[int], apart: list[int]
) -> None:
    """Padding is what hides its position, what a table states, and what positions are counted behind."""
    with opened(make(), Question()) as run:
        assert rare_ids(run) == rare
        assert ids_apart(run, rare) == apart
        assert told_apart(run) == (
            f"with the id {apart[0]} among its tokens it computes something else than with others, "
            "and nothing shows a padding id"
            if apart
            else "",
            "",
        )
        assert ids_apart(run, []) == []


def test_one_id_alone_is_that_of_padding() -> None:
    """Whichever of those that hide their positions that is, the others are tokens."""
    with opened(unusual_ids.HidesAnotherId(), Question()) as run:
        assert hidden_ids(run) == [0, 17]
        said = "it hides each position with one of the ids 0, 17, and one id alone is that of padding"
        assert told_apart(run) == (said, "")


def test_an_id_that_is_compared_and_read_as_zeros_is_that_of_padding() -> None:
    """Unless it is read as zeros, an id that is compared with says nothing."""
    with opened(unusual_ids.ReadsNoLast(), Question()) as run:
        assert ids_apart(run, [3, 60]) == [60]
        assert told_apart(run) == ("", "reads the id 60 as zeros, as an id of padding is")
    with opened(unusual_ids.DoublesTheLast(), Question()) as run:
        assert not is_read_as_zeros(run, 60)


def test_an_id_that_hides_its_position_is_that_of_padding_though_nothing_says_so() -> None:
    """By agreement with the equations where these positions are hidden."""
    with opened(unusual_ids.HidesTheLastId(), Question()) as run:
        assert ids_apart(run, [3, 60]) == []

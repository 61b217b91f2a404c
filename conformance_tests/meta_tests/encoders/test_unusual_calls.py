"""A call, an entrance or a layer is found out, and neither excuses a wrong encoder nor accuses a right one."""

from collections.abc import Callable
from typing import Any

import pytest
from torch import Tensor, nn

from conformance_tests.meta_tests.encoders import (
    in_no_slot,
    plain,
    unusual_calls,
    unusual_defaults,
    unusual_entrances,
    unusual_frameworks,
    unusual_ids,
    unusual_images,
    unusual_layers,
    unusual_loops,
    unusual_masks,
    unusual_numbers,
    unusual_signals,
    unusual_tensors,
)
from conformance_tests.meta_tests.judgements import Judgements

MODULES = (
    unusual_calls,
    unusual_defaults,
    unusual_entrances,
    unusual_frameworks,
    unusual_ids,
    unusual_images,
    unusual_layers,
    unusual_loops,
    unusual_masks,
    unusual_numbers,
    unusual_signals,
    unusual_tensors,
)
"""Those that register encoders."""

UNUSUAL, EXCUSED = unusual_calls.UNUSUAL, unusual_calls.EXCUSED


@pytest.mark.parametrize("name", UNUSUAL)
def test_a_correct_encoder_is_conformant_however_it_is_called(name: str, judged: Judgements) -> None:
    report = judged(UNUSUAL[name])
    assert report.verdict == "conformant", [r.message for r in report.of("fail")] + report.notes


@pytest.mark.parametrize("name", EXCUSED)
def test_a_wrong_encoder_is_found_out_though_another_call_would_excuse_it(name: str, judged: Judgements) -> None:
    make, departs_at, words = EXCUSED[name]
    report = judged(make)
    said = str([report.profile, report.diagnosis, [(r.id, r.message) for r in report.of("fail")]])
    assert (report.verdict, report.departs_at) == ("nonconformant", departs_at), report.notes
    assert words in said


def test_nothing_but_its_gradients_is_missed_in_an_encoder_in_inference_mode(judged: Judgements) -> None:
    """Its owner's calls return the right numbers, and the statistics of its norms are seen too."""
    report = judged(unusual_tensors.in_inference_mode)
    assert [r.id for r in report.of("fail")] == ["ENC-8", "ENC-9", "ENC-10"]
    assert "NORM-1" in [r.id for r in report.of("pass")]


def test_sequences_that_are_filled_up_inside_an_encoder_are_given_in_several_lengths(judged: Judgements) -> None:
    report = judged(unusual_calls.ReturnsEachThatReadsPadding)
    assert "ENC-3" in [r.id for r in report.of("fail")]
    assert "sequences: (B,), a list of sequences without padding" in str(report.profile)


def test_an_encoder_that_refuses_gradients_is_judged_without_them(judged: Judgements) -> None:
    """The reason is its own."""
    report = judged(unusual_tensors.refuses_gradients)
    reason = "backward is not supported on this device"
    assert f"called without gradients alone: with them it refuses to run ({reason})" in str(report.notes)
    assert "ENC-8" in [r.id for r in report.of("unsupported") if reason in r.message]


def test_nothing_else_is_said_of_an_encoder_that_writes_into_its_input(judged: Judgements) -> None:
    """It gets vectors that are no leaves of a graph, as a layer before it would give them."""
    assert [r.id for r in judged(unusual_layers.WritesIntoItsInput).of("fail")] == ["ENC-6"]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (in_no_slot.gated_by_the_logistic(in_no_slot.LogisticGate), "(GLU)"),
        (in_no_slot.gated_by_the_logistic(in_no_slot.LogisticGateOfTorch), "(GLU)"),
        (in_no_slot.linear_attention, "a sublayer without attention"),
        (in_no_slot.SeriesApart, "its patches"),
        (in_no_slot.BeginsBehindPadding, "asks for begin beside its input"),
        (in_no_slot.scores_of_distances, "what its softmax reads is not a product of queries and keys"),
        (in_no_slot.one_weight_for_all_heads, "enter no matrix product with values: mean"),
        (in_no_slot.vectors_of_positions_averaged, "what the heads give enters add"),
        (in_no_slot.ActivatedWithItsPositions, "what enters its first layer is tanh"),
        (in_no_slot.LargestOfSomePixels, "what enters its first layer has a part that is max_pool2d"),
        (unusual_ids.DoublesTheLast, "with the id 60 among its tokens it computes something else than with others"),
        (in_no_slot.asks_for_what_it_returns, "queries for 1 of 5 positions alone, of which its output is made"),
        (in_no_slot.leaves_out_the_others, "queries for 1 of 5 positions alone, of which its output is made"),
        (unusual_defaults.CountsFromOne, "no padding is known that the numbers before 1 are kept for"),
    ],
)
def test_what_is_published_and_in_no_slot_is_left_open(make: Callable[[], Any], words: str, judged: Judgements) -> None:
    """The first gated unit is right, in other equations than the specification's."""
    report = judged(make)
    assert report.verdict == "undetermined"
    assert words in str(report.notes)


def test_random_numbers_in_what_is_returned_beside_hidden_states_are_told(judged: Judgements) -> None:
    """Some models draw what they return; the hidden states are right."""
    told = "random numbers enter something that it returns, in evaluation"
    assert told in judged(unusual_layers.DropsOfItsPooledVector).notes
    assert told not in judged(unusual_layers.WithAPooledVector).notes


def test_a_vector_beside_hidden_states_that_reads_padding_is_told(judged: Judgements) -> None:
    """No equation says what such a vector is for."""
    told = "what it returns for each sequence, beside its hidden states, depends on what stands at padding"
    assert told in judged(unusual_layers.PoolsPadding).notes
    assert told not in judged(unusual_layers.WithAPooledVector).notes


def test_an_argument_for_positions_that_changes_nothing_is_told(judged: Judgements) -> None:
    """Its own positions are right, and nobody who numbers them gets others."""
    told = "places takes a number for each token, and changes nothing"
    assert told in judged(unusual_defaults.IgnoresGivenPlaces).notes
    assert told not in judged(unusual_defaults.RowsBehindAnOffset).notes


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (unusual_ids.ReadsNoLast, "reads the id 60 as zeros, as an id of padding is"),
        (
            unusual_ids.ZeroesWithoutAMask,
            "compares its ids with 0, as with an id of padding, and hides no position by it",
        ),
    ],
)
def test_what_an_encoder_does_with_padding_that_it_does_not_hide_is_told(
    make: Callable[[], Any], said: str, judged: Judgements
) -> None:
    """It may be right, and a mask that never arrives looks the same."""
    assert said in judged(make).notes


def test_an_encoder_with_scores_of_no_slot_ends_where_it_ends(judged: Judgements) -> None:
    """Neither the head belongs to it, nor does it end within its last layer."""
    assert "judged up to what its part `layers.1` returns" in str(judged(in_no_slot.SlopedBelowAHead).notes)


class ExchangesAxes(plain.PlainAttention):
    """Confuses the batch with the positions, which goes unnoticed where both have one size."""

    def merge(self, heads: Tensor) -> Tensor:
        return heads.transpose(1, 2).reshape(heads.shape[2], heads.shape[0], -1)


def test_an_encoder_that_takes_as_many_sequences_as_positions_alone_is_left_open(judged: Judgements) -> None:
    """The numbers of such a call are right, and it refuses every other one."""
    assert judged(exchanges_axes).verdict == "undetermined"


def exchanges_axes() -> nn.Module:
    return plain.Plain(plain.layers_with(ExchangesAxes))


class RaisesWhateverItIsGiven(unusual_calls.Calls):
    """Uses a name that is defined nowhere."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:  # type: ignore[override]
        return self.run(x, ~mask[:, None, None]) + forgotten  # type: ignore[name-defined]


def test_of_an_encoder_that_raises_whatever_it_is_given_the_furthest_refusal_is_told(judged: Judgements) -> None:
    """With its line: nothing that it asks for would mend it."""
    line = RaisesWhateverItIsGiven.forward.__code__.co_firstlineno + 1
    refused = f"raised NameError: name 'forgotten' is not defined (test_unusual_calls.py:{line})"
    assert refused in str(judged(RaisesWhateverItIsGiven).notes)


@pytest.mark.parametrize(("make", "pool"), [(unusual_ids.ChoosesByAnId, None), (unusual_ids.ChoosesTheFirst, "first")])
def test_a_head_that_chooses_by_an_id_is_not_one_that_reads_the_first_position(
    make: Callable[[], Any], pool: str | None, judged: Judgements
) -> None:
    """Random tokens never have that id."""
    report = judged(make)
    assert (report.verdict, report.profile["choices"].get("pool")) == ("conformant", pool)
    assert any(note.startswith("judged up to what its part `final` returns") for note in report.notes) == (pool is None)

"""The first call of an encoder of which nothing is known."""

from collections.abc import Callable, Mapping
from itertools import islice
from time import process_time
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from conformance_tests.subjects.called import until
from conformance_tests.subjects.calling import REQUIRED
from conformance_tests.subjects.first_call import (
    MOST_ALIKE,
    Plain,
    axes_asked_for,
    by_rank,
    fillings,
    first_call,
    has_positions,
    is_sure,
    plans,
    positions_in,
    sizes_instead,
    takes_fractions,
    value_of,
)
from conformance_tests.subjects.likely_inputs import grids_of, images_of, waveforms
from conformance_tests.subjects.masks import LENGTHS, MaskForm

WEIGHTS = {"W": torch.zeros(6, 12), "V": torch.zeros(12, 6), "E": torch.zeros(9, 6)}


def test_choices_that_are_likely_in_all_places_come_first() -> None:
    chosen = list(by_rank([["a", "b", "c"], ["x", "y"]]))
    assert chosen[:3] == [("a", "x"), ("a", "y"), ("b", "x")]
    assert len(chosen) == 6


def test_of_many_arguments_the_likeliest_values_alone_are_combined() -> None:
    chosen = list(by_rank([list(range(20))] * 4))
    assert len(chosen) == 400
    assert max(max(values) for values in chosen) < 6


def test_arguments_with_a_default_of_none_are_given_one_after_the_other_and_two_at_a_time() -> None:
    arguments = {"x": REQUIRED, "a": REQUIRED, "b": None, "flag": True, "c": None}
    assert list(plans(arguments)) == [("a",), ("a", "b"), ("a", "c"), ("a", "b", "c")]


def test_a_name_orders_the_values_and_excludes_none() -> None:
    """Nothing first, whatever the name; lengths before masks where the name says so."""
    masks, lengths = fillings("b"), fillings("src_len")
    assert masks[0] == lengths[0] == Plain("nothing")
    assert (masks[1:3], lengths[1]) == (
        [Plain("nothing added"), MaskForm("b", "keep", "B n")],
        MaskForm("src_len", LENGTHS, "B"),
    )
    assert Plain("nothing added") not in fillings("pad_mask")
    assert masks.index(Plain("no")) < masks.index(Plain("length"))
    assert lengths.index(Plain("length")) < lengths.index(Plain("no"))


def test_ones_come_before_zeros_where_one_is_known_to_keep() -> None:
    """Zeros would hide everything, and an encoder whose fill is finite takes that too."""
    zeros = Plain("zeros")
    known, unknown = fillings("attention_mask"), fillings("mask")
    assert known.index(MaskForm("attention_mask", "keep 0/1", "B n")) < known.index(zeros)
    assert unknown.index(MaskForm("mask", "keep 0/1", "B n")) > unknown.index(zeros)
    assert len(set(known)) == len(known) == len(unknown)


def test_values_hide_nothing() -> None:
    keep, x = torch.ones(2, 3, dtype=torch.bool), torch.randn(2, 3, 6)
    assert value_of(MaskForm("m", "ignore", "B 1 n"), keep, x).equal(torch.zeros(2, 1, 3, dtype=torch.bool))
    assert value_of(MaskForm("m", "keep", "n n"), keep, x).equal(torch.ones(3, 3, dtype=torch.bool))
    assert value_of(MaskForm("m", LENGTHS, "B"), keep, x).tolist() == [3, 3]
    assert [value_of(Plain(kind), keep, x) for kind in ("nothing", "length", "no")] == [None, 3, False]
    assert value_of(Plain("input"), keep, x) is x
    assert value_of(Plain("zeros"), keep, x).equal(torch.zeros(2, 3, dtype=torch.long))


def test_only_of_masks_the_meaning_is_open() -> None:
    assert is_sure(Plain("zeros"))
    assert is_sure(MaskForm("lengths", LENGTHS, "B"))
    assert not is_sure(MaskForm("mask", "keep", "B n"))


def test_what_an_encoder_needs_is_found_among_three_arguments() -> None:
    """Ids, segments that are looked up too, and a mask with an axis for the queries."""

    def call(x: Tensor, named: Mapping[str, Any]) -> Tensor:
        if (
            x.is_floating_point()
            or (named["a"].shape, named["a"].dtype) != (x.shape, x.dtype)
            or named["b"].shape != (2, 1, 1, 5)
        ):
            raise TypeError
        return torch.zeros(2, 5, 6)

    found = first_call(WEIGHTS, {}, {"x": REQUIRED, "a": REQUIRED, "b": REQUIRED}, call)
    assert found is not None
    assert (found.inputs.shape, found.batch, found.length) == ((2, 5), 2, 5)
    assert found.forms == {"a": Plain("zeros"), "b": MaskForm("b", "keep", "B 1 1 n")}


def test_arguments_are_filled_one_after_the_other_before_other_inputs_are_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A call that gets further has something right; each may take long."""
    monkeypatch.setattr("conformance_tests.subjects.first_call.is_authors", lambda _: True)
    calls: list[Tensor] = []

    def call(x: Tensor, named: Mapping[str, Any]) -> Tensor:
        calls.append(x)
        if x.is_floating_point():
            raise TypeError("ids are looked up")
        if named["mask"] is None or named["mask"].shape != (len(x), 1, 1, x.shape[1]):
            raise ValueError("keys for heads and queries")
        if named["mask"].dtype is not torch.float64:
            raise ValueError("a mask that is counted with")
        if named["types"] is None or named["types"].shape != x.shape:
            raise ValueError("a type for each token")
        if named["order"] is None or named["order"].shape != x.shape:
            raise ValueError("a position for each token")
        return torch.arange(6.0).expand(*x.shape, 6)

    found = first_call(WEIGHTS, {}, dict.fromkeys(("x", "mask", "types", "order"), REQUIRED), call)
    assert found is not None
    assert len(calls) < 60


@pytest.mark.parametrize("shape", [(3, 8, 8), (12, 12, 3)])
def test_a_map_of_flattened_patches_reads_images(shape: tuple[int, ...]) -> None:
    """Patches of side 4 with 3 channels have 48 entries: 2 × 2 of them, or 3 × 3 where a table has 10 rows."""

    def call(x: Tensor, named: Mapping[str, Any]) -> Tensor:
        if x.shape != (2, *shape):
            raise TypeError
        return torch.zeros(2, 4, 20)

    weights = {"norm": torch.zeros(48), "map": torch.zeros(20, 48), "places": torch.zeros(10, 20)}
    found = first_call(weights, {}, {"x": REQUIRED}, call)
    assert found is not None
    assert found.inputs.shape == (2, *shape)


def test_a_length_that_only_a_table_tells_is_tried() -> None:
    def call(x: Tensor, named: Mapping[str, Any]) -> Tensor:
        return torch.zeros(7, 6) + x.reshape(2, 7, 6)

    found = first_call(WEIGHTS, {"mask": torch.zeros(7, 7)}, {"x": REQUIRED}, call)
    assert found is not None
    assert (found.inputs.shape, found.length) == ((2, 7, 6), 7)


def test_sizes_that_refusals_name_are_tried_in_the_place_of_those_refused() -> None:
    """No weight has the length or the width; a refusal names them beside those of the call, one after the other."""

    def call(x: Tensor, named: Mapping[str, Any]) -> Tensor:
        if x.ndim != 3 or x.shape[1] != 11:
            raise ValueError(f"positions are (1, 11, 14), and the input is {tuple(x.shape)}")
        if x.shape[2] != 14 or not x.is_floating_point():
            raise ValueError(f"shapes do not match: {x.shape[2]} and 14")
        return x

    found = first_call({"W": torch.zeros(3, 3)}, {}, {"x": REQUIRED, "mask": REQUIRED}, call)
    assert found is not None
    assert (found.inputs.shape, found.length) == ((2, 11, 14), 11)


def test_sizes_that_a_refusal_does_not_name_stay() -> None:
    """The number of sequences stays as well; sizes of 1 would be repeated."""
    assert list(sizes_instead((2, 5, 1), {1, 5, 6, 32, 2})) == [
        *((2, 6, 1), (2, 32, 1), (2, 5, 6), (2, 5, 32)),
        *((2, 6, 6), (2, 6, 32), (2, 32, 6), (2, 32, 32)),
    ]
    assert list(sizes_instead((2, 5, 8), {16, 5})) == [(2, 16, 8)]


def test_stated_values_are_part_of_every_call() -> None:
    def call(x: Tensor, named: Mapping[str, Any]) -> Tensor:
        return x if named["task"] == "mlm" and x.ndim == 3 else x[named["task"]]

    found = first_call(WEIGHTS, {}, {"x": REQUIRED}, call, lengths=[4], batches=[3], stated={"task": "mlm"})
    assert found is not None
    assert found.inputs.shape == (3, 4, 6)
    assert found.named == {"task": "mlm"}


def test_numbers_that_are_not_finite_are_the_last_resort() -> None:
    def call(x: Tensor, named: Mapping[str, Any]) -> Tensor:
        if x.ndim != 3:
            raise TypeError
        return torch.full((2, 5, 6), torch.nan)

    found = first_call(WEIGHTS, {}, {"x": REQUIRED}, call)
    assert found is not None
    assert found.inputs.ndim == 3


def test_an_encoder_that_refuses_everything_has_no_call() -> None:
    def call(x: Tensor, named: Mapping[str, Any]) -> Tensor:
        raise TypeError

    assert first_call(WEIGHTS, {}, {"x": REQUIRED, "mask": None}, call) is None


def test_what_attention_reads_is_first_given_the_input_again() -> None:
    """A mask of keys is still a mask, and what earlier calls have computed is not the input."""
    assert fillings("query")[0] == fillings("key")[0] == Plain("input")
    assert fillings("key_padding_mask")[0] == fillings("past_key_values")[0] == Plain("nothing")


def test_a_signal_that_is_taken_for_vectors_has_as_many_positions_as_come_back() -> None:
    """One of 12 channels and 24 times, by an encoder of 12 vectors of width 24 alone."""

    def call(x: Tensor, _: Mapping[str, Any]) -> Tensor:
        if x.shape[1:] != (12, 24):
            raise ValueError("another size")
        return x

    weights = {"positions": torch.zeros(1, 12, 24), "W": torch.zeros(24, 24)}
    found = first_call(weights, {}, {"x": REQUIRED}, call)
    assert found is not None
    assert (found.inputs.shape, found.batch, found.length) == ((2, 12, 24), 2, 12)


@pytest.mark.parametrize(
    ("kernels", "samples"),
    [
        # Stages move by 5 and 2 times, half of their widths or 2: 5 positions read (4·2 + 2 − 1)·5 + 10 = 55 samples.
        ([(8, 1, 10), (8, 8, 2)], [55, 100]),
        # Kernels that are read from their last axis to their first.
        ([(10, 1, 8), (2, 8, 8)], [55, 100]),
        ([(8, 3, 3)], []),
    ],
)
def test_sounds_have_as_many_samples_as_stages_read(kernels: list[tuple[int, ...]], samples: list[int]) -> None:
    """If each stage moves by half of its width, or by all of it: 5 positions read 5·2·10 = 100 samples then."""
    assert set(samples) <= set(waveforms(kernels, 5))
    assert bool(samples) == bool(list(waveforms(kernels, 5)))


def test_a_sound_has_as_many_positions_as_come_back() -> None:
    """They are fewer than its samples, and not fewer than are asked for."""
    x = torch.randn(2, 55)
    assert positions_in([torch.zeros(2, 6, 4)], x, 2, 5) == 6
    assert [has_positions([torch.zeros(2, n, 4)], x, 2, 5) for n in (4, 5, 6, 55)] == [False, True, True, False]
    assert not has_positions([torch.zeros(3, 6, 4)], x, 2, 5)


def test_ids_are_looked_up_and_not_computed_with() -> None:
    """Code that takes ids for numbers is none that reads ids; rounding a fraction down is looking it up."""
    table = torch.randn(40, 6)
    ids = torch.arange(6).reshape(2, 3)

    def looks_up(x: Tensor, named: Mapping[str, Any]) -> Tensor:
        return table[x.long() if named else x]

    def scales(x: Tensor, named: Mapping[str, Any]) -> Tensor:
        return 2.0 * x[..., None]

    assert not takes_fractions(looks_up, ids, {}, [table[ids]])
    assert not takes_fractions(looks_up, ids, {"rounds": True}, [table[ids]])
    assert takes_fractions(scales, ids, {}, [2.0 * ids[..., None]])


def test_a_search_that_takes_too_long_ends() -> None:
    """Behind the end of its time nothing else is tried."""
    now = process_time()
    assert until(now + 60, lambda x, named: x)(torch.zeros(1), {}) == 0
    asked: list[Tensor] = []

    def call(x: Tensor, named: Mapping[str, Any]) -> Tensor:
        asked.append(x)
        return until(now, lambda x, named: x)(x, named)  # type: ignore[no-any-return]

    assert first_call(WEIGHTS, {}, {"x": REQUIRED}, call) is None
    assert len(asked) == 1


def refusing(says: Any) -> tuple[list[tuple[Tensor, Any]], Any]:
    """The calls of an encoder that refuses all of them, and the encoder; ``says`` is given input and mask."""
    asked: list[tuple[Tensor, Any]] = []

    def call(x: Tensor, named: Mapping[str, Any]) -> Tensor:
        asked.append((x, named["mask"]))
        raise ValueError(says(x, named["mask"]))

    return asked, call


def times(asked: list[tuple[Tensor, Any]]) -> list[int]:
    """How often each input was handed over, in turn."""
    counts: list[int] = []
    before = None
    for x, _ in asked:
        counts = [*counts[:-1], counts[-1] + 1] if x is before else [*counts, 1]
        before = x
    return counts


def test_no_further_mask_is_tried_beside_an_input_that_is_refused_in_the_same_words() -> None:
    """Six values that range from nothing to masks; other words for one of them mean that masks matter."""
    asked, call = refusing(lambda x, mask: f"no {tuple(x.shape)}")
    assert first_call(WEIGHTS, {}, {"x": REQUIRED, "mask": REQUIRED}, call) is None
    assert max(times(asked)) == 6
    asked, call = refusing(lambda x, mask: f"no {mask is None}")
    assert first_call(WEIGHTS, {}, {"x": REQUIRED, "mask": REQUIRED}, call) is None
    assert max(times(asked)) > 6


def test_lengths_that_refusals_name_are_tried_first() -> None:
    """Behind the usual five; 12 is a size of the weights as 6 and 9 are."""
    asked, call = refusing(lambda x, mask: "9 positions, please")
    assert first_call(WEIGHTS, {}, {"x": REQUIRED, "mask": REQUIRED}, call) is None
    lengths = list(dict.fromkeys(x.shape[1] for x, _ in asked if not x.is_floating_point()))
    assert lengths[:2] == [5, 9]
    asked, call = refusing(lambda x, mask: "12 positions, please")
    assert first_call(WEIGHTS, {}, {"x": REQUIRED, "mask": REQUIRED}, call) is None
    assert list(dict.fromkeys(x.shape[1] for x, _ in asked if not x.is_floating_point()))[:2] == [5, 12]


def test_an_argument_for_positions_gets_their_numbers() -> None:
    """0, 1, 2 for each of two sequences, before anything else."""
    first = fillings("position_ids")[0]
    assert first == Plain("positions")
    assert torch.equal(value_of(first, torch.ones(2, 3), torch.zeros(2, 3)), torch.tensor([[0, 1, 2]] * 2))
    assert fillings("composition")[0] == Plain("nothing")


def three_tables(x: Tensor, named: Any) -> Tensor:
    """A call that looks up three arguments, one after the other: a piece, a square and a player."""
    tables = [torch.randn(rows, 28, generator=torch.Generator().manual_seed(rows)) for rows in (4, 64, 2)]
    pieces = nn.functional.embedding(x, tables[0])
    squares = nn.functional.embedding(named["square"], tables[1])
    return pieces + squares + nn.functional.embedding(named["whose"], tables[2])


def test_arguments_are_found_one_after_the_other_by_how_far_a_call_gets() -> None:
    """Neither is told by its name: zeros are far down in the list of both, and all pairs would be 800 calls."""
    asked: list[Any] = []

    def call(x: Tensor, named: Any) -> Tensor:
        asked.append(named)
        return three_tables(x, named)

    weights = {"pieces": torch.zeros(4, 28), "squares": torch.zeros(64, 28), "players": torch.zeros(2, 28)}
    found = first_call(weights, {}, {"x": REQUIRED, "square": REQUIRED, "whose": REQUIRED}, call)
    assert found is not None
    assert [tuple(t.shape) for t in (found.inputs, *found.named.values())] == [(2, 5), (2, 5), (2, 5)]
    assert int(found.inputs.max()) < 4
    assert len(asked) < 1500


def test_a_random_key_is_given_where_one_is_asked_for() -> None:
    """By its name: two numbers draw nothing in evaluation, and no mask is tried in their place."""

    def call(x: Tensor, named: Mapping[str, Any]) -> Tensor:
        if named["dropout_key"] is None or named["dropout_key"].shape != (2,):
            raise TypeError("no key")
        return x

    found = first_call(WEIGHTS, {}, {"x": REQUIRED, "dropout_key": REQUIRED}, call)
    assert found is not None
    assert found.named["dropout_key"].dtype is torch.uint32


def test_positions_may_come_first_beside_lengths() -> None:
    """Then there are as many lengths as the input has columns."""

    def call(x: Tensor, named: Mapping[str, Any]) -> Tensor:
        lengths = named["lengths"]
        assert lengths.shape == x.shape[1:2]
        assert int(lengths.max()) <= len(x)
        return torch.zeros(*x.shape[:2], 6)

    found = first_call(WEIGHTS, {}, {"x": REQUIRED, "lengths": REQUIRED}, call)
    assert found is not None
    assert (found.length, found.batch) == tuple(found.inputs.shape[:2])


def test_sizes_that_refusals_name_are_tried_where_nothing_else_tells_them() -> None:
    """Four sequences of seven positions, of which no array has a size."""

    def call(x: Tensor, named: Mapping[str, Any]) -> Tensor:
        if x.shape != (4, 7):
            raise ValueError(f"got {tuple(x.shape)}, not (4, 7)")
        return torch.zeros(4, 7, 6)

    found = first_call(WEIGHTS, {}, {"x": REQUIRED}, call)
    assert found is not None
    assert found.inputs.shape == (4, 7)


def test_inputs_with_another_number_of_axes_than_refusals_ask_for_are_left_out() -> None:
    """All are tried where the refusal may be about another array than the input."""

    def four(x: Tensor, named: Mapping[str, Any]) -> Tensor:
        asked.append(x.ndim)
        _, _, _, _ = x.shape
        raise ValueError("no")

    asked: list[int] = []
    assert first_call(WEIGHTS, {}, {"x": REQUIRED}, four) is None
    assert asked.count(2) + asked.count(3) == MOST_ALIKE
    assert axes_asked_for("not enough values to unpack (expected 4, got 3)", 3) == 4
    assert axes_asked_for("not enough values to unpack (expected 4, got 3)", 2) is None
    assert axes_asked_for("too many values to unpack (expected 2)", 3) == 2
    assert axes_asked_for("too many values to unpack (expected 3)", 3) is None


X = torch.ones(2, 5)


@pytest.mark.parametrize(
    "refused", [lambda: X.permute(0, 2, 1), lambda: torch.einsum("bnd,de->bne", X, torch.ones(1, 1))]
)
def test_the_words_of_torch_tell_the_axes_that_it_wants(refused: Callable[[], Any]) -> None:
    with pytest.raises(RuntimeError) as refusal:
        refused()
    assert axes_asked_for(str(refusal.value), X.ndim) == 3


def test_the_words_of_einops_tell_the_axes_that_it_wants() -> None:
    """A message of einops 0.8, which need not be installed."""
    said = "Error while processing rearrange-reduction pattern. Wrong shape: expected 3 dims. Received 2-dim tensor."
    assert axes_asked_for(said, 2) == 3
    assert axes_asked_for(said, 3) is None


def test_positions_beside_a_mask_keep_their_numbers() -> None:
    """Masks of the same values are likely together where all arguments may be masks."""
    choices = [fillings("attention_mask"), fillings("position_ids")]
    assert next(iter(by_rank(choices)))[1] == Plain("positions")
    nothing, masks = islice(by_rank([fillings("a"), fillings("b")]), 2)
    assert nothing == (Plain("nothing"), Plain("nothing"))
    assert masks == (MaskForm("a", "keep", "B n"), MaskForm("b", "keep", "B n"))


def test_all_arguments_that_default_to_nothing_are_given_together_too() -> None:
    arguments = {"x": REQUIRED, "a": None, "b": None, "c": None}
    assert list(plans(arguments))[1] == ("a", "b", "c")
    assert list(plans(dict.fromkeys("xabcd")))[-1] == ("a", "b", "c", "d")

    def call(x: Tensor, named: Mapping[str, Any]) -> Tensor:
        if named.keys() != {"a", "b", "c"} or None in named.values():
            raise TypeError("'NoneType' object has no attribute 'shape'")
        return torch.zeros(*x.shape[:2], 6)

    found = first_call(WEIGHTS, {}, arguments, call)
    assert found is not None
    assert found.named.keys() == {"a", "b", "c"}


def test_squares_come_first_and_then_the_squarest_grid_of_each_table() -> None:
    """71, 72 and 70 patches, and 8, 9 and 7."""
    assert list(grids_of([(72, 26), (9, 26)]))[:4] == [(3, 3), (8, 9), (7, 10), (2, 4)]


def test_images_of_the_sides_that_an_encoder_keeps_come_first() -> None:
    """A map of 72 entries reads patches of 4 × 6 pixels, in a grid of 3 × 3."""
    shapes = [(72, 26), (9, 26), (26, 26)]
    told = list(images_of(shapes, [(9, 26)], numbers=[4, 6]))
    assert (12, 18, 3) in told[:6]
    assert (12, 18, 3) not in list(images_of(shapes, [(9, 26)]))[:6]

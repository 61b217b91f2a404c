"""Probes have sizes, numbers, masks and changes that make deviations visible."""

from itertools import combinations, product
from typing import Any

import pytest
import torch
from torch import Tensor

from conformance_tests.errors import Unsupported
from conformance_tests.numerics.probes import (
    LARGE,
    NAMES,
    PADDED,
    PRIMES,
    RAGGED,
    UNPADDED,
    WHOLE,
    Probe,
    Probes,
    Sizes,
    is_slow,
)
from encoder_spec.assembly import Encoder
from encoder_spec.dimensions import Dimensions
from encoder_spec.profiles import BERT, DEIT, ROBERTA, TORCH_POST_LN, VASWANI_2017, VIT, WAV2VEC2, WHISPER, Profile

T, F = True, False


def probes(profile: Profile = TORCH_POST_LN, seed: int = 0, **sizes: Any) -> Probes:
    """Probes for an encoder with d_model = 4, h = d_k = d_v = 2 and d_ff = 8 unless given."""
    given: dict[str, Any] = {"d_model": 4, "h": 2, "d_ff": 8, "N": 2, "V": 41, "max_len": 31} | sizes
    return Probes(Encoder(profile, Dimensions(**given)), seed)


@pytest.mark.parametrize(
    ("sizes", "batch", "length"),
    [
        ({}, 3, 7),
        ({"N": 3}, 5, 7),
        ({"N": 3, "d_ff": 5}, 7, 11),
        ({"d_model": 15, "h": 3, "d_ff": 7}, 11, 13),
        ({"d_k": 3}, 5, 7),
        ({"d_v": 7}, 3, 11),
        ({"d_model": 7, "h": 1}, 3, 11),
        ({"d_model": 3, "h": 1, "d_ff": 5, "N": 11}, 7, 13),
        ({"N": 7, "h": 23, "d_k": 11, "d_v": 13, "d_model": 17, "d_ff": 19}, 3, 29),
    ],
)
def test_batch_and_length_are_the_least_primes_that_no_other_axis_has(
    sizes: dict[str, int], batch: int, length: int
) -> None:
    """B of 3, 5, 7, …, then n of 7, 11, …: never N, h, d_k, d_v, d_model, d_ff, nor n = B."""
    (x,) = probes(**sizes)["plain"].inputs
    assert x.shape == (batch, length, sizes.get("d_model", 4))


def test_probes_have_fewer_positions_where_each_passes_millions_of_parameters() -> None:
    """Six layers of 512 × 2048 have 18.9 million, more than 2²⁴; five have 15.8, and fewer."""
    sizes = {"d_model": 512, "h": 8, "d_ff": 2048}
    names = ("plain", "right", "single", "few", "many", "long", "crowd", "ragged-long", "ragged-crowd")
    slow, quick = probes(N=6, **sizes), probes(N=5, **sizes)
    shapes = [[tuple(of[name].inputs[0].shape[:2]) for name in names] for of in (slow, quick)]
    assert shapes == [
        [(3, 4), (3, 4), (3, 1), (2, 2), (2, 41), (1, 257), (67, 2), (2, 131), (67, 2)],
        [(3, 7), (3, 7), (3, 1), (2, 2), (5, 41), (2, 257), (67, 7), (2, 257), (67, 7)],
    ]
    assert is_slow(slow.encoder)
    assert not is_slow(quick.encoder)


def test_encoders_of_images_are_slow_by_their_patches_too() -> None:
    """An image of 14 × 14 patches takes 28 times as long as seven tokens: a twelfth of 18.9 million is enough."""
    sizes = {"d_model": 192, "h": 6, "d_ff": 768, "N": 6, "patch": 4}
    names = ("plain", "single", "few", "many", "long", "crowd", "ragged-crowd")
    slow, quick = (probes(VIT, max_len=max_len, **sizes) for max_len in (197, 17))
    assert (slow.is_slow, quick.is_slow, is_slow(slow.encoder)) == (True, False, False)
    assert [len(slow[name].inputs[0]) for name in names] == [2, 2, 2, 2, 1, 3, 3]
    assert [len(quick[name].inputs[0]) for name in names] == [5, 5, 2, 7, 2, 67, 67]


@pytest.mark.parametrize(
    ("sizes", "shape"),
    [({"h": 16}, (3, 4)), ({"h": 12}, (2, 4)), ({"h": 8, "N": 12}, (5, 4)), ({"h": 4, "N": 12}, (3, 7))],
)
def test_no_axis_of_a_slow_encoder_has_as_many_entries_as_its_few_positions(
    sizes: dict[str, int], shape: tuple[int, int]
) -> None:
    """Neither B nor n, nor B · n, which is an axis where sequences are laid end to end."""
    slow = probes(**{"d_model": 960, "d_ff": 3840, "N": 6} | sizes)
    assert is_slow(slow.encoder)
    assert tuple(slow["plain"].inputs[0].shape[:2]) == shape


def test_sizes_are_chosen_among_primes() -> None:
    """Ascending, without a divisor: no product of two other sizes is one of them."""
    assert list(PRIMES) == sorted(set(PRIMES))
    assert [(p, d) for p in PRIMES for d in range(2, p) if p % d == 0] == []


@pytest.mark.parametrize(
    ("name", "shape"),
    [(name, (3, 7)) for name in NAMES if name not in ("single", "few", "many", *LARGE, *RAGGED, WHOLE)]
    + [("single", (3, 1)), ("few", (2, 2)), ("many", (5, 41)), ("long", (2, 257)), ("crowd", (67, 7))]
    + [("ragged-long", (2, 257)), ("ragged-crowd", (67, 7))],
)
def test_each_probe_has_its_own_batch_and_length(name: str, shape: tuple[int, int]) -> None:
    """One token, two by two, 41 tokens in the next larger prime number of sequences, and two large ones."""
    probe = probes()[name]
    assert probe.inputs[0].shape == (*shape, 4)
    assert (probe.by_position, probe.patch, probe.positions) == (True, None, shape[1])
    ids = probes(VASWANI_2017)[name]
    assert ids.inputs[0].shape == shape
    assert (ids.by_position, ids.patch) == (True, None)


PLANTED = {"plain": 1.0, "faint": 1e-4, "extreme": 1e3, "many": 1.0, "scattered": 1.0}


@pytest.mark.parametrize("name", PLANTED)
def test_given_inputs_are_normal_but_for_a_faint_and_a_shifted_row(name: str) -> None:
    """The median of |x| is 0.67; row [0, 1] is 1000 times smaller, row [1, 2] shifted by 30; all times the scale."""
    (x,) = probes(d_model=64)[name].inputs
    x = x / PLANTED[name]
    assert 0.6 < float(x.abs().median()) < 0.8
    assert float(x[0, 1].abs().max()) < 0.005
    assert 29 < float(x[1, 2].mean()) < 31
    others = torch.ones(x.shape[:2], dtype=torch.bool)
    others[0, 1] = others[1, 2] = False
    assert float(x[others].abs().max()) < 6
    assert float(x[others].std(-1).min()) > 0.6


def test_a_single_token_is_both_the_faint_and_the_shifted_row() -> None:
    """Positions are counted modulo the length: 1 and 2 are 0 of one."""
    (x,) = probes(d_model=64)["single"].inputs
    assert float(x[0].abs().max()) < 0.005
    assert 29 < float(x[1].mean()) < 31
    assert float(x[2].abs().max()) > 0.5


@pytest.mark.parametrize(("V", "ids"), [(12, range(12)), (13, range(4, 13)), (3, range(3))])
def test_token_ids_leave_out_the_special_ones_of_a_large_vocabulary(V: int, ids: range) -> None:
    """Among 5 · 41 draws each id occurs; those below 4 only where there are at most 12."""
    assert probes(VASWANI_2017, V=V)["many"].inputs[0].unique().tolist() == list(ids)


def test_segment_ids_are_given_where_there_are_segments() -> None:
    """Each of three occurs, in the shape of the tokens; nothing is scaled."""
    for name in ("plain", "extreme"):
        tokens, segments = probes(BERT, segments=3)[name].inputs
        assert segments.shape == tokens.shape
        assert segments.unique().tolist() == [0, 1, 2]
    assert len(probes(VASWANI_2017)["plain"].inputs) == 1


def test_numbers_can_be_held_in_the_precision_of_the_computation() -> None:
    """Float64 inputs with values of float16; otherwise they have all digits of float64."""
    for name, profile in product(("plain", "faint", "extreme"), (TORCH_POST_LN, VIT, WHISPER)):
        encoder = probes(profile).encoder
        (x,), (finer,) = Probes(encoder, 0, torch.float16)[name].inputs, Probes(encoder, 0)[name].inputs
        assert x.dtype == finer.dtype == torch.float64
        assert torch.equal(x, x.half().double())
        assert not torch.equal(finer, finer.float().double())


def test_no_two_probes_of_two_seeds_are_drawn_alike() -> None:
    """For seeds 0, 1 and 2 all first numbers differ; the same seed gives the same again."""
    drawn = [probes(seed=seed)[name].inputs[0][-1, 0] for seed in range(3) for name in NAMES if name not in PLANTED]
    drawn += [probes(seed=seed)[name].inputs[0][-1, 0] / PLANTED[name] for seed in range(3) for name in PLANTED]
    assert [(a, b) for a, b in combinations(drawn, 2) if torch.allclose(a, b, rtol=1e-9, atol=0)] == []
    for name in NAMES:
        for profile in (TORCH_POST_LN, BERT, VIT, WHISPER):
            assert probes(profile, seed=7)[name].equals(probes(profile, seed=7)[name])


KEPT = {
    "everything-kept": [[T] * 7, [T] * 7, [T] * 7],
    "scattered": [[T, T, T, F, F, T, T], [F, F, T, T, T, T, T], [T, T, T, T, T, F, F]],
    "right": [[T] * 7, [T, T, T, T, T, F, F], [T, T, T, F, F, F, F]],
    "one-all-padded": [[T] * 7, [F] * 7, [T] * 7],
    "all-end-padded": [[T, T, T, T, T, T, F]] * 3,
}


@pytest.mark.parametrize("name", PADDED)
def test_padding_stands_in_the_middle_on_either_side_and_everywhere(name: str) -> None:
    """Of n = 7: two from 7 // 2 = 3 on; 7 // 3 = 2 at either end, or 2 and 2 + 2 at the right; 7 // 4 = 1 in all."""
    keep = probes()[name].keep
    assert keep is not None
    assert keep.dtype is torch.bool
    assert keep.tolist() == KEPT[name]


@pytest.mark.parametrize(("length", "kept"), [(2, 1), (3, 1), (4, 1), (5, 2), (6, 2), (7, 3)])
def test_as_many_are_padded_in_two_probes_and_something_is_kept(length: int, kept: int) -> None:
    """With fewer than four tokens all but one are padded in the last sequence."""
    made = Probes(probes().encoder, 0, sizes=Sizes(3, length))
    scattered, right = (made[name].keep for name in ("scattered", "right"))
    assert scattered is not None
    assert right is not None
    assert int(right[-1].sum()) == kept
    assert (scattered.sum() == right.sum()) == (length > 3)


@pytest.mark.parametrize("seed", range(5))
def test_ragged_sequences_end_in_padding_and_their_order_is_not_its_own_inverse(seed: int) -> None:
    """The first is whole, and none is empty; sorted by length, ascending or descending, they do not trade places."""
    long, crowd = (probes(seed=seed)[name].keep for name in RAGGED)
    assert long is not None
    assert crowd is not None
    for keep in (long, crowd):
        assert keep[0].all()
        assert keep[:, 0].all()
        assert bool((keep[:, :-1] | ~keep[:, 1:]).all())
    for descending in (False, True):
        order = crowd.sum(1).argsort(descending=descending, stable=True)
        assert not torch.equal(order.argsort(), order)


@pytest.mark.parametrize(
    ("name", "padded"),
    [
        ("scattered", {0: [5, 6], 1: [0, 1, 2], 6: [8, 9, 10]}),
        ("right", {1: [8, 9, 10], 6: [6, 7, 8, 9, 10]}),
        ("all-end-padded", {sample: [9, 10] for sample in range(7)}),
    ],
)
def test_longer_sequences_have_more_padding(name: str, padded: dict[int, list[int]]) -> None:
    """Of n = 11, in 7 sequences: from 11 // 2 = 5 on; 11 // 3 = 3 at either end, or 3 and 3 + 2 at the right."""
    keep = probes(N=3, d_ff=5)[name].keep
    assert keep is not None
    assert keep.shape == (7, 11)
    found = {sample: [n for n in range(11) if not row[n]] for sample, row in enumerate(keep.tolist())}
    assert {sample: where for sample, where in found.items() if where} == padded


@pytest.mark.parametrize("name", [*UNPADDED, *LARGE])
def test_probes_without_padding_have_no_mask(name: str) -> None:
    """None, and not a mask that keeps everything."""
    assert probes()[name].keep is None


@pytest.mark.parametrize(
    ("profile", "max_len", "lengths"),
    [
        (BERT, 31, (7, 29, 29)),
        (BERT, 43, (7, 41, 41)),
        (BERT, 44, (7, 41, 42)),
        (BERT, 512, (7, 41, 257)),
        (BERT, 8, (6, 6, 6)),
        (BERT, 3, (1, 1, 1)),
        (BERT, 2, (1, 1, 1)),
        (ROBERTA.replace(position_offset=5), 31, (7, 26, 26)),
        (ROBERTA.replace(position_offset=1), 31, (7, 29, 29)),
        (VASWANI_2017, 5, (7, 41, 257)),
        (TORCH_POST_LN.replace(position="learned"), 5, (7, 41, 257)),
    ],
)
def test_a_learned_table_limits_the_lengths_and_spares_its_offset(
    profile: Profile, max_len: int, lengths: tuple[int, int, int]
) -> None:
    """max_len less the offset, or less 2 if that is more, but 1 at least; nothing limits sinusoids or given inputs."""
    made = probes(profile, max_len=max_len)
    assert tuple(made[name].inputs[0].shape[1] for name in ("plain", "many", "long")) == lengths
    assert made["few"].inputs[0].shape[1] == min(2, lengths[0])


@pytest.mark.parametrize(
    ("profile", "max_len", "lengths"),
    [
        (BERT, 31, (29, 31)),
        (BERT, 257, (255, 257)),
        (BERT, 512, (257, 512)),
        (BERT, 513, (257, 257)),
        (ROBERTA.replace(position_offset=1), 31, (29, 30)),
        (ROBERTA.replace(position_offset=5), 31, (26, 26)),
        (VASWANI_2017, 5, (257, 257)),
        (TORCH_POST_LN, 5, (257, 257)),
    ],
)
def test_one_sequence_is_as_long_as_a_table_that_is_not_too_long(
    profile: Profile, max_len: int, lengths: tuple[int, int]
) -> None:
    """It uses every row behind the offset. Without such a table it is as long as the probe ``long``."""
    made = probes(profile, max_len=max_len)
    assert tuple(made[name].positions for name in ("long", WHOLE)) == lengths
    assert len(made[WHOLE].inputs[0]) == 1


@pytest.mark.parametrize(
    ("profile", "max_len", "grid", "prepended"),
    [
        (VIT, 10, (3, 3), 1),
        (VIT, 9, (2, 3), 1),
        (VIT, 17, (4, 4), 1),
        (VIT.replace(cls="none"), 9, (3, 3), 0),
        (VIT.replace(position="sinusoidal"), 10, (2, 3), 1),
        (DEIT, 11, (3, 3), 2),
        (DEIT, 3, (1, 1), 2),
        (VIT.replace(embedding="patches-without-bias"), 10, (3, 3), 1),
    ],
)
def test_an_image_has_the_grid_of_its_table_of_positions(
    profile: Profile, max_len: int, grid: tuple[int, int], prepended: int
) -> None:
    """The square root of max_len less what stands before the patches; 2 × 3 where that is no square or no table.

    There are three images, or five where one has three positions: a mask of 3 × 3 might be one for each pair of these.
    """
    probe = probes(profile, max_len=max_len, patch=5, channels=2)["everything-kept"]
    rows, columns = grid
    batch = 5 if rows * columns + prepended == 3 else 3
    assert probe.inputs[0].shape == (batch, 2, 5 * rows, 5 * columns)
    assert probe.keep is not None
    assert probe.keep.shape == (batch, rows * columns + prepended)
    assert (probe.by_position, probe.patch, probe.positions) == (False, (5, 5), rows * columns)
    assert 0.6 < float(probe.inputs[0].abs().median()) < 0.8


def test_nothing_stands_before_given_inputs() -> None:
    """Whatever a profile says of a first token: the mask has the length of the input."""
    keep = probes(TORCH_POST_LN.replace(cls="cls"))["right"].keep
    assert keep is not None
    assert keep.shape == (3, 7)


@pytest.mark.parametrize(("position", "length"), [("sinusoidal-tensor2tensor", 7), ("learned", 13)])
def test_a_signal_has_two_samples_for_each_position(position: str, length: int) -> None:
    """With a learned table of 13 rows n = 13: such encoders take sounds of one length alone."""
    probe = probes(WHISPER.replace(position=position), max_len=13, channels=5)["everything-kept"]
    assert probe.inputs[0].shape == (3, 5, 2 * length)
    assert probe.keep is not None
    assert probe.keep.shape == (3, length)
    assert (probe.by_position, probe.patch) == (False, None)


def row(*entries: float) -> Tensor:
    """Vectors of width 1 in float64."""
    return torch.tensor(entries, dtype=torch.float64)[:, None]


PADDED_ROWS = Probe(
    (torch.stack([row(2, 3, 5), row(7, 11, 13)]),), keep=torch.tensor([[True, False, True], [False, True, True]])
)


@pytest.mark.parametrize(("options", "times"), [({}, 1000), ({"times": 2.0}, 2)])
def test_other_padding_is_that_of_the_other_sample_many_times_larger(options: dict[str, float], times: float) -> None:
    """The padded 3 becomes times · 11 + 1, and the padded 7 times · 2 + 1; the mask stays."""
    other = PADDED_ROWS.with_other_padding(**options)
    assert other.inputs[0].squeeze(-1).tolist() == [[2, times * 11 + 1, 5], [times * 2 + 1, 11, 13]]
    assert other.keep is PADDED_ROWS.keep


def test_other_padding_of_token_ids_stays_among_them() -> None:
    """Mirrored between the least and the largest, 4 and 17: 5 becomes 16; segment ids stay."""
    ids, segments = torch.tensor([[4, 5, 6], [9, 13, 17]]), torch.tensor([[0, 1, 0], [1, 0, 0]])
    keep = torch.tensor([[True, False, True], [False, True, False]])
    other = Probe((ids, segments), keep).with_other_padding()
    assert other.inputs[0].tolist() == [[4, 16, 6], [12, 13, 4]]
    assert other.inputs[1] is segments


def test_other_padding_leaves_out_what_stands_before_the_tokens() -> None:
    """The mask has one column more than the input: the last two are those of the tokens."""
    x, keep = torch.stack([row(2, 3), row(5, 7)]), torch.tensor([[False, True, False], [True, True, True]])
    assert Probe((x,), keep).with_other_padding(1.0).inputs[0].squeeze(-1).tolist() == [[2, 8], [5, 7]]


def test_other_padding_of_an_image_fills_the_padded_patches() -> None:
    """Of 2 × 3 patches of side 2 behind one token, the one of row 1 and column 2 is padded: column 1 + 1·3 + 2 = 6."""
    image = torch.arange(48, dtype=torch.float64).reshape(2, 1, 4, 6)
    keep = torch.ones(2, 7, dtype=torch.bool)
    keep[0, 6] = False
    (other,) = Probe((image,), keep, by_position=False, patch=(2, 2)).with_other_padding().inputs
    changed = torch.zeros(2, 1, 4, 6, dtype=torch.bool)
    changed[0, 0, 2:4, 4:6] = True
    assert torch.equal(other != image, changed)
    assert torch.equal(other[changed], image[1, 0, 2:4, 4:6].flatten() + 1)


def signal(keep: list[list[bool]]) -> Probe:
    """Two signals of 2 · 5 samples with this mask."""
    x = torch.arange(20, dtype=torch.float64).reshape(2, 1, 10)
    return Probe((x,), torch.tensor(keep), by_position=False)


@pytest.mark.parametrize("before", [0, 1])
def test_other_padding_of_a_signal_is_what_no_valid_position_reads(before: int) -> None:
    """Position p owns samples 2p and 2p + 1; the neighbours of a valid one are read too.

    Kept are 0 and 1, so 2 is read as well: samples 6 to 9 are free. A column before the signal's own counts nothing.
    """
    probe = signal([[T] * before + [T, T, F, F, F], [T] * before + [T, T, T, T, T]])
    (other,) = probe.with_other_padding().inputs
    changed = torch.zeros(2, 1, 10, dtype=torch.bool)
    changed[0, 0, 6:] = True
    assert torch.equal(other != probe.inputs[0], changed)
    assert other[0, 0, 6:].tolist() == [17, 18, 19, 20]


STAGES = {"widths": (5, 3), "strides": (2, 2), "channels": 3, "kernel": 4, "d_group": 2}
"""The first position reads 5 + 2·2 = 9 samples, and each further one begins 4 samples later."""


def test_a_waveform_has_samples_for_its_positions_and_some_that_are_too_few() -> None:
    """N positions read 9 + 4(n − 1) samples; 2 more make no further position. None has fewer than the plain probe."""
    made = probes(WAV2VEC2, **STAGES)
    plain, many = made["plain"], made["many"]
    assert (plain.inputs[0].shape, plain.positions) == ((3, 9 + 4 * 6 + 2), 7)
    assert (many.inputs[0].shape[1], many.positions) == (9 + 4 * 40 + 2, 41)
    assert made["single"].positions == 7
    assert not plain.by_position


def test_other_padding_of_a_waveform_is_what_no_valid_position_reads() -> None:
    """Two positions read 13 of 15 samples, so that the last two are of no one if both are kept.

    With the second one hidden, the first reads samples 0 to 8, and the rest is padding.
    """
    samples = torch.randn(2, 15, dtype=torch.float64)
    sizes = Dimensions(widths=(5, 3), strides=(2, 2))
    probe = Probe((samples,), torch.tensor([[T, T], [T, F]]), by_position=False, stages=sizes)
    assert probe.positions == 2
    (other,) = probe.with_other_padding().inputs
    assert (other != samples).tolist() == [[F] * 13 + [T] * 2, [F] * 9 + [T] * 6]


def test_padding_of_a_waveform_is_read_by_a_norm_over_time() -> None:
    """Every position reads it."""
    with pytest.raises(Unsupported, match="a norm over time reads padding too"):
        probes(WAV2VEC2, **STAGES)["right"].with_other_padding()


def test_padding_that_valid_positions_read_has_no_other_content() -> None:
    """One padded position between two valid ones: both read its samples."""
    with pytest.raises(Unsupported, match="what padded positions read is read by others too"):
        signal([[T, T, F, T, T], [T, T, T, T, T]]).with_other_padding()


def test_images_have_no_other_padding_where_none_is_padded() -> None:
    """Nothing would change, and a comparison would say nothing."""
    image = torch.zeros(2, 1, 4, 6, dtype=torch.float64)
    with pytest.raises(Unsupported):
        Probe((image,), torch.ones(2, 6, dtype=torch.bool), by_position=False, patch=(2, 2)).with_other_padding()


TWO = Probe(
    (torch.tensor([[2, 3, 5], [7, 11, 13]]), torch.tensor([[0, 0, 1], [1, 1, 0]])),
    torch.tensor([[True, False, True], [True, True, False]]),
)


def values(probe: Probe) -> list[list[list[int]]]:
    """The numbers of the inputs."""
    return [x.tolist() for x in probe.inputs]


@pytest.mark.parametrize(
    ("change", "arguments", "expected"),
    [
        ("reversed", (), [[[5, 3, 2], [13, 11, 7]], [[1, 0, 0], [0, 1, 1]]]),
        ("only", (1,), [[[7, 11, 13]], [[1, 1, 0]]]),
        ("without_last", (), [[[2, 3], [7, 11]], [[0, 0], [1, 1]]]),
        ("corner", (1, 2), [[[2, 3]], [[0, 0]]]),
        ("without_mask", (), [[[2, 3, 5], [7, 11, 13]], [[0, 0, 1], [1, 1, 0]]]),
        ("strided", (), [[[2, 3, 5], [7, 11, 13]], [[0, 0, 1], [1, 1, 0]]]),
        ("copy", (), [[[2, 3, 5], [7, 11, 13]], [[0, 0, 1], [1, 1, 0]]]),
    ],
)
def test_a_changed_probe_has_all_its_inputs_changed_alike(
    change: str, arguments: tuple[int, ...], expected: list[list[list[int]]]
) -> None:
    """Token ids and segment ids together."""
    assert values(getattr(TWO, change)(*arguments)) == expected


def test_masks_go_along_where_a_probe_is_cut_or_copied() -> None:
    """A corner has the mask's corner, a probe without mask none, and a copy one in memory of its own."""
    corner, copy = TWO.corner(1, 2), TWO.copy()
    assert corner.keep is not None
    assert corner.keep.tolist() == [[True, False]]
    assert TWO.without_mask().keep is None
    assert TWO.without_mask().corner(1, 2).keep is None
    assert TWO.without_mask().copy().keep is None
    assert copy.equals(TWO)
    assert copy.keep is not None
    assert TWO.keep is not None
    assert copy.keep.data_ptr() != TWO.keep.data_ptr()
    assert copy.inputs[1].data_ptr() != TWO.inputs[1].data_ptr()


def test_the_corner_of_images_keeps_all_positions() -> None:
    """Positions are no axis of an image: only the number of samples shrinks."""
    corner = probes(VIT, max_len=10, patch=2)["scattered"].corner(1, 2)
    assert corner.inputs[0].shape == (1, 3, 6, 6)
    assert corner.keep is not None
    assert corner.keep.shape == (1, 10)
    assert probes(VIT, max_len=10, patch=2)["plain"].corner(2, 2).keep is None


def test_a_strided_probe_lies_in_another_order_in_memory() -> None:
    """Batch and positions are exchanged: a step along the batch is one vector, along positions a whole column."""
    (x,) = probes()["plain"].strided().inputs
    assert x.shape == (3, 7, 4)
    assert x.stride() == (4, 12, 1)
    assert x.equal(probes()["plain"].inputs[0])


def test_probes_are_equal_only_with_the_same_numbers_and_mask() -> None:
    """Another id, another segment, another mask, or none."""
    ids, segments = TWO.inputs
    assert TWO.equals(Probe((ids.clone(), segments.clone()), TWO.keep))
    assert TWO.without_mask().equals(TWO.without_mask().copy())
    assert not TWO.equals(Probe((ids + 1, segments), TWO.keep))
    assert not TWO.equals(Probe((ids, 1 - segments), TWO.keep))
    assert TWO.keep is not None
    assert not TWO.equals(Probe((ids, segments), ~TWO.keep))

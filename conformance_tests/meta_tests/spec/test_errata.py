"""Each erratum's numbers, derived by hand."""

import math
import re

import pytest

from encoder_spec.equation import equations
from encoder_spec.errata import Erratum, Finding, errata

ALL = {erratum.id: erratum for erratum in errata()}
TINY = 1e-12


def findings(id: str) -> tuple[Finding, ...]:
    """The demonstration of one erratum."""
    return ALL[id].demonstrate()


def rows(id: str) -> list[tuple[int | float | str, int | float | str]]:
    """What the source's statement and the right one give, without the labels."""
    return [(f.said, f.right) for f in findings(id)]


def numeric(value: int | float | str) -> float:
    """A value that must be a number."""
    assert isinstance(value, int | float), f"{value!r} is no number"
    return value


def near(value: int | float | str, expected: float, tolerance: float = TINY) -> bool:
    """Whether a value is the expected number."""
    return abs(numeric(value) - expected) <= tolerance


def test_the_ids_count_up_from_one() -> None:
    """Thirteen errata are demanded, eleven more were found: 24 ids without gap or repetition."""
    assert [e.id for e in errata()] == [f"ERR-{number}" for number in range(1, 25)]


def test_the_titles_differ() -> None:
    """Nothing is listed twice under two ids."""
    assert len({e.title for e in ALL.values()}) == len(ALL)


@pytest.mark.parametrize("erratum", ALL.values(), ids=lambda e: e.id)
def test_an_erratum_names_a_source_and_equations_that_exist(erratum: Erratum) -> None:
    """A source with a section for each citation, and at least one registered equation."""
    assert all(re.fullmatch(r"S[0-4] §\d+(\.\d+)?", part) for part in erratum.source.split(", "))
    assert set(erratum.equations) <= set(equations())
    assert erratum.equations


@pytest.mark.parametrize("erratum", ALL.values(), ids=lambda e: e.id)
def test_a_demonstration_is_deterministic_and_shows_a_difference(erratum: Erratum) -> None:
    """Two calls give equal findings, and in at least one of them the two statements part."""
    first = erratum.demonstrate()
    assert first == erratum.demonstrate()
    parted = [
        f.said != f.right
        if isinstance(f.said, str) or isinstance(f.right, str)
        else not math.isclose(f.said, f.right, rel_tol=1e-7, abs_tol=1e-9)
        for f in first
    ]
    assert any(parted)


def test_err_1_the_ffn_has_2099712_parameters() -> None:
    """2·512·2048 = 2,097,152; biases 2048 + 512 = 2,560; S0's total is 2,097,152 + 2·2048."""
    assert rows("ERR-1") == [(2_101_248, 2_099_712), (2048, 512)]


def test_err_2_the_crossovers_are_twice_and_four_times_d_model() -> None:
    """Per sequence, d_ff = 4d: projections 8nd² FLOPs, quadratic part 4n²d, FFN 16nd².

    4n²d + 8nd² = 16nd² ⇔ n = 2d = 1024; 4n²d = 16nd² ⇔ n = 4d = 2048; 4n²d = 8nd² ⇔ n = 2d = 1024.
    S0's n = d = 512 solves n²d = nd².
    """
    assert rows("ERR-2") == [(512, 1024), (512, 2048), (512, 1024)]


def test_err_3_the_three_norms_differ() -> None:
    """For x = (σ, −σ): μ = 0, biased deviation σ, unbiased σ√2, ε = 10⁻⁶.

    σ = 10⁻³, so σ² = ε: 10⁻³/√(2·10⁻⁶) = 1/√2; 10⁻³/(10⁻³ + 10⁻⁶) = 1/1.001; 1/(√2 + 10⁻³).
    σ = 1: 1/√(1 + 10⁻⁶); 1/(1 + 10⁻⁶); 1/(√2 + 10⁻⁶).
    """
    expected = [
        (1 / 1.001, 1 / math.sqrt(2)),
        (1 / (math.sqrt(2) + 1e-3), 1 / math.sqrt(2)),
        (1 / 1.000001, 1 / math.sqrt(1.000001)),
        (1 / (math.sqrt(2) + 1e-6), 1 / math.sqrt(1.000001)),
    ]
    got = rows("ERR-3")
    assert len(got) == len(expected)
    assert all(near(a, c) and near(b, d) for (a, b), (c, d) in zip(got, expected, strict=True))


def test_err_4_the_wrong_polarity_ignores_exactly_the_valid_positions() -> None:
    """All weight goes to padding instead of none; without padding all 2·7·15 = 210 entries are 0/0.

    A float mask adds 1 to valid scores: some weight, but not all, stays on the padding. The equation
    with the wrong polarity in the slot ``mask`` computes what the library's call does.
    """
    weight, floats, undefined, difference = rows("ERR-4")
    assert near(weight[0], 1)
    assert weight[1] == 0
    assert 0.01 < numeric(floats[0]) < 0.99
    assert undefined == (2 * 7 * 15, 0)
    assert all(near(d, 0) for d in difference)


def test_err_5_heads_left_in_place_never_see_another_position() -> None:
    """(B, n, h, d_k)·(B, n, d_k, h) = (B, n, h, h): at each position its own h heads, nothing else."""
    shapes, influence, from_library = rows("ERR-5")
    assert shapes == ("(2, 7, 3, 3)", "(2, 3, 7, 7)")
    assert influence[0] == 0
    assert numeric(influence[1]) > 1e-3
    assert numeric(from_library[0]) > 0.1
    assert near(from_library[1], 0)


def test_err_6_bert_is_post_ln() -> None:
    """Post-LN ends with a norm: variance σ²/(σ² + 10⁻¹²) ≈ 1. Pre-LN without one adds sublayers to variance 1."""
    slot, variance = rows("ERR-6")
    assert slot == ("pre-ln", "post-ln")
    assert near(variance[1], 1, 1e-9)
    assert numeric(variance[0]) > 1.5


def test_err_7_vit_is_pre_ln_with_a_final_norm() -> None:
    """The vit_b_16 of torchvision is documented with 86,567,656 parameters; a final norm has 2·768 = 1,536 of them.

    By hand: patches 768·768 + 768, class token 768, positions 197·768, twelve layers of
    12·768² + 13·768, final norm 2·768, classifier 768·1000 + 1000.
    """
    d = 768
    by_hand = d * d + d + d + 197 * d + 12 * (12 * d * d + 13 * d) + 2 * d + 1000 * d + 1000
    assert by_hand == 86_567_656
    assert rows("ERR-7") == [("post-ln", "pre-ln"), ("none", "norm"), (by_hand - 1536, by_hand)]


def test_err_8_pre_ln_norms_before_attention_and_at_the_end() -> None:
    """The final norm makes the variance σ²/(σ² + ε) ≈ 1.

    LN(2x) = LN(x) up to ε, so doubling H₀ leaves the attention of Pre-LN unchanged up to ε, and changes it where no
    norm comes first.
    """
    variance, *doubling = rows("ERR-8")
    assert near(variance[1], 1, 1e-4)
    assert numeric(variance[0]) > 1.5
    assert len(doubling) == 2
    assert all(numeric(said) > 0.1 and numeric(right) < 1e-3 for said, right in doubling)


def test_err_9_the_gradient_of_the_residual_is_a_matrix_product() -> None:
    """For y = x + (−x₁, x₀): I + J = [[1, −1], [1, 1]]; (1, 2)(I + J) = (1 + 2, −1 + 2) = (3, 1).

    Feature by feature: diag J = 0 gives (1, 2). 1 added to each entry: (1, 2)·[[1, 0], [2, 1]] = (5, 2).
    """
    assert rows("ERR-9") == [(1, 3), (2, 1), (5, 3), (2, 1)]


def test_err_10_biases_count() -> None:
    """FFN 2·512·2048 (+ 2048 + 512); attention 4·512² (+ 4·512); layer: their sum + 2·2·512."""
    assert rows("ERR-10") == [(2_097_152, 2_099_712), (1_048_576, 1_050_624), (3_147_776, 3_152_384)]


def test_err_11_a_shared_norm_moves_by_the_sum_of_two_gradients() -> None:
    """Two norms of 15 γ and 15 β: 60 entries, shared 30.

    By the chain rule the gradient of a γ used twice is the sum of the gradients of its two uses.
    """
    entries, first, second, total = rows("ERR-11")
    assert entries == (30, 60)
    assert not near(first[0], numeric(first[1]), 1e-3)
    assert not near(second[0], numeric(second[1]), 1e-3)
    assert near(total[0], numeric(total[1]))


def test_err_12_the_scale_lifts_the_embedding_above_its_position() -> None:
    """‖PE‖ = √(512/2) = 16. A unit row: 1/16 unscaled, √512/16 = √2 scaled."""
    ((said, right),) = rows("ERR-12")
    assert near(said, 1 / 16)
    assert near(right, math.sqrt(2))


def test_err_13_attention_is_equivariant_not_invariant() -> None:
    """Reversed tokens: equal outputs token by token, unequal place by place, and with positions unequal in both.

    Uniform weights, which are insensitive, change in neither.
    """
    place, token, with_positions = rows("ERR-13")
    assert all(near(said, 0) for said, _ in (place, token, with_positions))
    assert numeric(place[1]) > 0.05
    assert near(token[1], 0)
    assert numeric(with_positions[1]) > 0.05


def test_err_14_the_projections_dominate_short_sequences() -> None:
    """At n = 64, d = 512: 4n²d = 8,388,608; 8nd² = 134,217,728 more.

    Doubling n: 4 for n² alone; (2·134,217,728 + 4·8,388,608)/142,606,336 = (32 + 4)/17.
    """
    flops, growth = rows("ERR-14")
    assert flops == (8_388_608, 8_388_608 + 134_217_728)
    assert growth[0] == 4
    assert near(growth[1], 36 / 17)


def test_err_15_one_head_is_too_narrow() -> None:
    """d_model = 15, h = 3: A V has 5 columns; W_O has 15 rows, the residual 15 columns; three heads make 15."""
    assert rows("ERR-15") == [(5, 15), (5, 15), (1, 3)]


def test_err_16_scores_over_the_whole_width_have_variance_h() -> None:
    """The product q · k of ±1 entries has variance equal to their number: 4/d_k = 4/2 = 2 together, 2/2 = 1 in a head.

    Reversing all axes of (B, n, d) = (2, 7, 15) gives (15, 7, 2).
    """
    shape, variance = rows("ERR-16")
    assert shape == ("(15, 7, 2)", "(2, 15, 7)")
    assert near(variance[0], 2)
    assert near(variance[1], 1)


def test_err_17_a_mask_without_query_axis_masks_by_the_wrong_sequence() -> None:
    """The scores are equal, and query b gets the mask of sequence b.

    Query 1 keeps all three keys, 1/3 each, in sequence 0 too; query 0 loses key 2 in sequence 1 too. Right: padding 0,
    and 1/3 for each of three valid keys.
    """
    padding, valid = rows("ERR-17")
    assert near(padding[0], 1 / 3)
    assert padding[1] == 0
    assert valid[0] == 0
    assert near(valid[1], 1 / 3)


def test_err_18_the_ffn_has_eight_times_the_parameters_of_a_direct_map() -> None:
    """512² + 512 = 262,656 against 2,099,712; the rest of the layer is 1,050,624 + 2,048 = 1,052,672."""
    entries, share = rows("ERR-18")
    assert entries == (262_656, 2_099_712)
    assert near(share[0], 262_656 / (262_656 + 1_052_672))
    assert near(share[1], 2_099_712 / (2_099_712 + 1_052_672))


def test_err_19_an_ffn_at_initialisation_is_not_near_zero() -> None:
    """Xavier: Var W = 2/(d + d_ff) = 2/(5d).

    Inner variance d·2/(5d) = 0.4; ReLU keeps half of the second moment, 0.2; output variance 4d·0.2·2/(5d) = 0.32 per
    unit of the input's: √0.32 ≈ 0.566, within the draw's 5 %.
    """
    ((said, right),) = rows("ERR-19")
    assert said == 0
    assert math.isclose(numeric(right), math.sqrt(0.32), rel_tol=0.05)


def test_err_20_attention_dropout_acts_on_the_weights() -> None:
    """Weights, attention's output, inside the FFN, FFN's output: 4 calls; without the first 3.

    Every other of the 2·3·7·7 = 294 weights is dropped: 147.
    """
    assert rows("ERR-20") == [(3, 4), (0, 147)]


def test_err_21_an_appended_token_changes_the_earlier_keys() -> None:
    """Layer 0's keys are a map of each token alone; layer 1's read outputs that attend to the new token."""
    first, second, outputs = rows("ERR-21")
    assert all(near(change, 0) for change in first)
    for said, right in (second, outputs):
        assert near(said, 0)
        assert numeric(right) > 1e-3


def test_err_22_the_steps_never_use_the_ffn() -> None:
    """H_i = LN(H_{i−1} + H') does not contain FFN(H'): W₁ has no influence; one norm of 2·15 entries, not two."""
    effect, norms = rows("ERR-22")
    assert effect[0] == 0
    assert numeric(effect[1]) > 0.01
    assert norms == (30, 60)


def test_err_23_heads_without_an_index_are_equal() -> None:
    """Three copies of 5 columns have rank 5, three different heads 15; 3·15·5 entries against 3·15·15."""
    rank, difference, entries = rows("ERR-23")
    assert rank == (5, 15)
    assert near(difference[0], 0)
    assert numeric(difference[1]) > 0.01
    assert entries == (225, 675)


def test_err_24_a_norm_over_the_sample_leaks_between_positions() -> None:
    """[0, 2]: μ = 1, σ = 1, feature 1 ↦ 1 at every position; [[0, 2], [0, 2]] has the same μ and σ.

    [[0, 2], [4, 6]]: μ = 3, σ² = (9 + 1 + 1 + 9)/4 = 5, feature 1 of position 0 ↦ −1/√5.
    """
    before, after = rows("ERR-24")
    assert before == (1, 1)
    assert near(after[0], -1 / math.sqrt(5))
    assert after[1] == 1

"""Checks of chapters 3 and 4: attention and its mask."""

import torch

from conformance_tests.errors import Disagreement
from conformance_tests.harness.checks import decides
from conformance_tests.harness.run import PADDED, Case, Run
from conformance_tests.harness.weight_sets import SHARPEST
from encoder_spec.attention import alibi

CLEARLY = 1e-6
"""A weight that is larger does not underflow to 0 in any precision."""


@decides("ATT-1", "ATT-2", "ATT-13", level="trace")
def test_queries_keys_and_values_are_projections_of_the_input(run: Run) -> None:
    """Q = X W_Q, K = X W_K and V = X W_V, with or without biases: each is one of the encoder's intermediates."""
    run.expect("projections").is_formed()


@decides("ATT-3", "ATT-5", "ATT-23", "ATT-24", level="trace")
def test_scores_have_the_scale_of_their_variant(run: Run) -> None:
    """S = Q Kᵀ / √d_k, the root of one head's width, or S = Q Kᵀ, of normed Q and K or of others: an intermediate.

    With products of Q, and K, and vectors of distances, where the variant has such. It is what the bias is added to.
    """
    run.expect("scores").reaches("bias").is_formed()


@decides("ATT-20", level="trace")
def test_each_head_has_its_own_factors_of_queries_and_keys(run: Run) -> None:
    """The result of each head, of queries and keys that are multiplied behind their norms: an intermediate."""
    run.expect("attention").is_formed()


@decides("ATT-15", "ATT-16", "ATT-18", "ATT-21", "ATT-22", level="trace")
def test_scores_are_changed_by_what_their_variant_says(run: Run) -> None:
    """S, S less a slope times the distance, or S and an entry of a table: an intermediate, and what the mask reads."""
    expected = run.expect("bias").reaches("reach")
    if run.encoder.profile["bias"].variant == "none":
        expected.is_not_changed_by(alibi)
    expected.is_formed()


@decides("MASK-9", "MASK-10", "MASK-11", level="trace")
def test_queries_read_the_keys_of_their_reach_alone(run: Run) -> None:
    """S, or S with −∞ beyond the reach: an intermediate, and what the mask reads. No key within has a weight of 0."""
    expected = run.expect("reach").reaches("mask")
    case = run.case()
    for here in run.before_departure("weights", case) if run.encoder.profile["reach"].variant == "global" else ():
        if here.got is not None and (unread := (here.got == 0) & (here.want > CLEARLY)).any():
            _, head, query, key = unread.nonzero()[0].tolist()
            raise Disagreement(
                f"attention.global_reach: in head {head} query {query} does not read key {key} [{run.context(case)}]"
            )
    expected.is_formed()


@decides("ATT-6", level="trace")
def test_weights_are_the_softmax_of_the_scores(run: Run) -> None:
    """A = softmax(S̃), with and without padding: an intermediate, and what averages the values."""
    run.expect("weights", *run.with_and_without_padding()).reaches("values").is_formed()


@decides("ATT-7", level="trace")
def test_rows_of_weights_are_probabilities(run: Run) -> None:
    """Σ_k A[j, k] = 1 and A[j, k] ≥ 0, for what the encoder itself uses as A."""
    case = run.case()
    for A in run.observed("weights", case):
        sums = A.sum(dim=-1)
        run.demand_equal(sums, torch.ones_like(sums), "attention.weights: row sum Σ A", case)
        assert A.min() >= 0, f"attention.weights: a weight is {float(A.min()):.3g}, below 0"


@decides("ATT-9", level="black-box")
def test_extreme_scores_give_finite_outputs(run: Run) -> None:
    """Inputs a thousand times larger, or large queries and keys, give scores beyond ±10³, and still numbers."""
    for case in run.with_numbers(Case(probe="extreme"), Case(SHARPEST)):
        output = run.output(case)
        assert output.isfinite().all(), (
            f"attention.weights: {int((~output.isfinite()).sum())} of {output.numel()} outputs are not finite for "
            f"large scores [{run.context(case)}]; subtract the largest score of each row before exp"
        )


@decides("MASK-1", "MASK-4", level="trace")
def test_masked_scores_vanish_and_kept_scores_stay(run: Run) -> None:
    """S̃[j, k] = S[j, k] where k is kept and −∞, in effect, where not: an intermediate, and what the softmax reads."""
    run.demand_mask()
    run.expect("mask", *PADDED).reaches("weights").is_formed()


@decides("MASK-2", "MASK-7", level="black-box")
def test_content_of_padding_reaches_no_valid_position(run: Run) -> None:
    """Other content at padded positions, up to a thousand times larger, changes no valid output."""
    run.demand_mask()
    without_gradients = (c._replace(gradients=False) for c in PADDED)
    for case, other, valid in run.with_other_padding(*run.padded_cases(), *without_gradients):
        changed = run.encode(case, other)
        run.demand_equal(
            changed, run.output(case), "attention.mask: Z after the padding's content changed", case, valid
        )


@decides("MASK-3", "MASK-8", level="black-box")
def test_mask_that_keeps_everything_changes_nothing(run: Run) -> None:
    """A mask without padding gives what no mask gives."""
    run.demand_mask()
    kept, plain = run.case(probe="everything-kept"), run.case()
    bare = run.probes["everything-kept"].without_mask()
    run.demand_equal(run.output(kept), run.encode(plain, bare), "attention.mask: Z with an idle mask", kept)


@decides("MASK-5", level="trace")
def test_rows_of_weights_sum_to_one_over_kept_keys(run: Run) -> None:
    """Σ_k A[j, k] over kept keys k alone is 1 for each valid row j: masked keys get nothing."""
    run.demand_mask()
    for case in run.cases(*PADDED):
        keep = run.keep(case)
        for A in run.observed("weights", case):
            rows = keep[:, None, :].expand(A.shape[:3])
            on_kept = A.masked_fill(~keep[:, None, None, :], 0).sum(dim=-1)
            run.demand_equal(on_kept, torch.ones_like(on_kept), "attention.weights: Σ A over kept keys", case, rows)


@decides("MASK-6", level="black-box")
def test_fully_masked_sequence_leaves_the_others_alone(run: Run) -> None:
    """Beside a sequence of padding alone, the others come out as without it. Its own output is free."""
    run.demand_mask()
    for case in run.cases(Case(probe="one-all-padded"), Case(probe="one-all-padded", gradients=False)):
        probe = run.probes[case.probe]
        without = run.encode(case, probe.without_mask())
        run.demand_equal(
            run.output(case), without, "attention.weights: Z beside a padded sequence", case, run.valid(case)
        )


@decides("ATT-10", level="trace")
def test_heads_average_the_values_with_the_weights(run: Run) -> None:
    """A V, for each head: one of the encoder's intermediates, with and without padding."""
    run.expect("values", *run.with_and_without_padding()).is_formed()

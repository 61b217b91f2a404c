"""Checks of chapter 6: normalisation."""

from conformance_tests.errors import Unsupported
from conformance_tests.harness.checks import decides
from conformance_tests.harness.run import Case, Run
from conformance_tests.harness.weight_sets import FAINT, OFFSET


@decides("NORM-1", level="trace")
def test_mean_is_taken_over_the_features(run: Run) -> None:
    """μ[j] = Σ_c x[j, c] / d is one of the encoder's intermediates; σ² is seldom formed, and judged with the norm."""
    run.expect("statistics").is_formed()


@decides("ATT-14", "ATT-26", "NORM-3", "NORM-7", "NORM-8", "NORM-10", "NORM-12", level="trace")
def test_norm_computes_its_variant(run: Run) -> None:
    """γ (x − μ) / √(σ² + ε) + β, or its variant: an intermediate, also where σ² is as small as ε."""
    run.expect("norm", Case(), Case(FAINT, "faint")).is_formed()


@decides("NORM-6", level="agreement")
def test_large_offset_costs_no_digits(run: Run) -> None:
    """With 10⁴ added to every entry of b_O and b₂ the norms see that offset, and take it out again.

    Without biases all of W_O and W₂ is moved, which offsets each position by thousands, another one each.
    At 10⁴ the spacing of doubles is 10⁴ times that near 1, about 2·10⁻¹², in each sum and
    again in each layer: hence the amplification by 100. A variance computed as E[x²] − μ²
    would be wrong by the spacing at 10⁸, which is 10⁴ times as much.
    """
    if OFFSET not in run.weight_sets:
        raise Unsupported("nobody can change its weights, through which to offset what the norms see")
    run.demand_agreeing(run.case())
    case = Case(OFFSET)
    run.demand_equal(run.output(case), run.expected(case), "norm: Z", case, amplification=100)

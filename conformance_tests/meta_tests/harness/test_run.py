"""What a check may demand of a run, and what it goes on with: each demand, met and not met."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from conformance_tests.computation.shown import Facts, Finding
from conformance_tests.deviations import deviations
from conformance_tests.engine.judging import check
from conformance_tests.errors import Blocked, Disagreement, Unsupported
from conformance_tests.harness.intermediates import made_of, parts
from conformance_tests.harness.question import Question
from conformance_tests.harness.run import PADDED, Case, ExpectedValue, Run
from conformance_tests.harness.weight_sets import PERTURBED, SHARPNESS
from conformance_tests.identification.opening import opened
from conformance_tests.meta_tests.harness.conftest import Runs
from conformance_tests.numerics.probes import Probes
from conformance_tests.quality.kill_matrix import SMALL, deviating
from encoder_spec.assembly import Encoder
from encoder_spec.dimensions import Dimensions
from encoder_spec.equation import equations
from encoder_spec.module import EncoderModule
from encoder_spec.profiles import PROFILES

SCALED = "scores-scaled-by-d-model"


# Compared ------------------------------------------------------------------------------


def test_outputs_that_agree_are_compared_and_those_that_do_not_are_named(run_of: Runs) -> None:
    """Each comparison is kept for the report; a wrong output is the encoder's, with the case in which it is wrong."""
    run = run_of()
    with run.measured() as comparisons:
        run.demand_agreement(Case())
        run.demand_agreement(PADDED[0])
    assert len(comparisons) == 2
    assert all(c.error <= c.budget for c in comparisons)
    with pytest.raises(Disagreement, match=r"encoder: Z\[.*perturbed weights, probe plain, with gradients; seed 0"):
        run_of(deviation=SCALED).demand_agreement(Case())


def test_outputs_at_padding_are_not_compared(run_of: Runs) -> None:
    """One that departs there alone agrees."""
    got = run_of().expected(PADDED[0]).clone()
    keep = run_of().keep(PADDED[0])
    got[~keep] += 1
    run: Any = SimpleNamespace(
        **{name: getattr(run_of(), name) for name in ("expected", "valid", "context", "budget")}, comparisons=[]
    )
    run.demand_equal = lambda *given, **options: Run.demand_equal(run, *given, **options)
    run.output = lambda case: got
    Run.demand_agreement(run, PADDED[0])
    got[keep] += 1
    with pytest.raises(Disagreement):
        Run.demand_agreement(run, PADDED[0])


def test_a_comparison_says_where_it_was_made(run_of: Runs) -> None:
    """The place comes before the sizes, the weights and the seed; a budget that is given outweighs the derived one."""
    run, ones = run_of(), torch.ones(2, dtype=torch.float64)
    with pytest.raises(Disagreement, match=r"x\[0\] = .*\[layers\.0; input \(3, 7, 24\), d_model=24 h=4 "):
        run.demand_equal(ones, 2 * ones, "x", Case(), place="layers.0")
    with run.measured() as comparisons:
        run.demand_equal(ones, 1.25 * ones, "x", Case(), budget=0.5)
    assert [(c.error, c.budget) for c in comparisons] == [(0.25, 0.5)]


@pytest.mark.parametrize(
    ("suffixes", "counted"),
    [
        (("W_Q",), None),
        (("W_Q", "b_1"), None),
        (("b_1",), None),
        (("W_K",), "maps: 1,200 parameters, but the declared shapes sum to 1,000"),
        (("W_Q", "W_K"), "maps: 2,200 parameters, but the declared shapes sum to 2,000"),
    ],
)
def test_parameters_are_counted_by_what_their_paths_end_in(suffixes: tuple[str, ...], counted: str | None) -> None:
    """W_Q has 20 · 50 entries as declared; W_K has 20 · 60 where 20 · 50 are declared."""
    declared = {"layers.0.W_Q": (20, 50), "layers.0.W_K": (20, 50), "layers.0.b_1": (7,)}
    stated = {"layers.0.W_Q": torch.zeros(20, 50), "layers.0.W_K": torch.zeros(20, 60), "layers.0.b_1": torch.zeros(7)}
    run: Any = SimpleNamespace(
        stated_parameters=lambda: stated, encoder=SimpleNamespace(parameter_shapes=lambda: declared)
    )
    if counted is None:
        Run.demand_parameter_count(run, "maps", *suffixes)
    else:
        with pytest.raises(AssertionError) as wrong:
            Run.demand_parameter_count(run, "maps", *suffixes)
        assert str(wrong.value).split("\n")[0] == counted


# Gone on with --------------------------------------------------------------------------


def run_with(
    profile: str = "torch-post-ln", shape: tuple[int, ...] = (3, 7, 24), agreeing: bool = True, head: str = "none"
) -> Any:
    """A run whose output has this shape, where the specification gives (3, 7, 24)."""
    made = PROFILES[profile].replace(head=head)
    run: Any = SimpleNamespace(
        case=Case,
        probes=Probes(Encoder(made, SMALL), 0),
        output=lambda case: torch.zeros(shape),
        expected=lambda case: torch.zeros(3, 7, 24),
        agrees=lambda case: agreeing or case == Case(),
        encoder=SimpleNamespace(profile=made),
        subject=SimpleNamespace(takes_mask=agreeing),
    )
    run.demand_shaped = lambda case: Run.demand_shaped(run, case)
    return run


def test_an_output_of_another_shape_says_nothing_else() -> None:
    Run.demand_shaped(run_with(), Case())
    blocked = r"the output has shape \(3, 24\) already, where the specification gives \(3, 7, 24\)"
    with pytest.raises(Blocked, match=blocked):
        Run.demand_shaped(run_with(shape=(3, 24)), Case())
    with pytest.raises(Blocked, match=blocked):
        Run.demand_output_per_position(run_with(shape=(3, 24)))


@pytest.mark.parametrize(
    ("profile", "head", "reason"),
    [
        ("torch-post-ln", "none", None),
        ("bert", "mlm", None),
        ("bert", "pooled", "the head does not give an output for each position"),
        ("vit", "none", "an image is not a sequence of positions"),
    ],
)
def test_outputs_belong_to_positions_unless_a_head_or_an_image_is_between(
    profile: str, head: str, reason: str | None
) -> None:
    run = run_with(profile, head=head)
    if reason is None:
        Run.demand_output_per_position(run)
    else:
        with pytest.raises(Unsupported, match=reason):
            Run.demand_output_per_position(run)


def test_masks_and_agreement_are_demanded_where_something_builds_on_them() -> None:
    """The first probe that disagrees is named."""
    Run.demand_mask(run_with())
    with pytest.raises(Unsupported, match="takes no mask"):
        Run.demand_mask(run_with(agreeing=False))
    Run.demand_agreeing(run_with(), Case(), *PADDED)
    Run.demand_agreeing(run_with(agreeing=False), Case())
    with pytest.raises(Blocked, match="disagree with the specification already on probe scattered"):
        Run.demand_agreeing(run_with(agreeing=False), Case(), *PADDED)


# Observed ------------------------------------------------------------------------------


def test_values_are_observed_up_to_where_the_encoder_departs(run_of: Runs) -> None:
    """In each layer where all is right; what stands in the place of the first wrong value; nothing behind it."""
    assert [tuple(got.shape) for got in run_of().observed("scores", Case())] == [(3, 4, 7, 7)] * 2
    wrong = run_of(deviation=SCALED)
    (scores,) = wrong.observed("scores", Case())
    (right,) = (here.want for here in wrong.before_departure("scores", Case()))
    assert torch.allclose(scores * 24**0.5, right * 6**0.5)
    with pytest.raises(Blocked, match=r"departs from the specification at attention\.scores"):
        wrong.observed("values", Case())


# Expected ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "place"), [("layers.1.norm_1", " (layers.1.norm_1)"), ("", "")], ids=["in-a-layer", "whole"]
)
def test_an_equation_that_reads_another_input_is_named_with_its_place(path: str, place: str) -> None:
    """Under the name of the equation that should have given it; where that is another slot, this one is met."""
    reader = SimpleNamespace(equation=equations()["norm.layer_norm"], path=path)
    giver = PROFILES["torch-post-ln"]["residual"]
    misread = SimpleNamespace(reader=reader, giver=giver)
    run: Any = SimpleNamespace(
        departure=None,
        agrees=lambda case: False,
        misread=lambda case: misread,
        context=lambda case: "here",
        facts=Facts(),
    )
    with pytest.raises(Disagreement) as wrong:
        ExpectedValue(run, "residual", (Case(),)).reaches()
    says = f"norm.layer_norm{place} reads another input than in the specification [here]"
    assert str(wrong.value) == f"{giver.id}: {says}"
    other = ExpectedValue(run, "norm", (Case(),))
    assert other.reaches() is other


def test_the_first_wrong_case_is_looked_at_beside_those_of_the_check() -> None:
    """Once, if it is one of them; cases that agree show nothing."""
    seen: list[Case] = []
    run: Any = SimpleNamespace(
        departure=(PADDED[1], None), agrees=lambda case: case == PADDED[0], misread=seen.append, facts=Facts()
    )
    ExpectedValue(run, "norm", (Case(), PADDED[0], PADDED[1])).reaches()
    assert seen == [Case(), PADDED[1], PADDED[1], PADDED[1]]


def test_a_departure_that_the_computation_shows_fails_its_slot_alone() -> None:
    """Whatever the values are: what it says is the message."""
    profile = PROFILES["torch-post-ln"]
    run: Any = SimpleNamespace(
        departure=None,
        agrees=lambda case: True,
        cases=lambda *cases: [],
        encoder=SimpleNamespace(profile=profile),
        facts=Facts((Finding("scores", "the scores are halved"),)),
    )
    for verb in ("reaches", "is_formed"):
        with pytest.raises(Disagreement, match=r"attention\.scores: the scores are halved"):
            getattr(ExpectedValue(run, "scores", ()), verb)()
        assert getattr(ExpectedValue(run, "mask", ()), verb)()


def test_a_value_is_expected_in_the_plain_case_unless_others_are_named(run_of: Runs) -> None:
    assert run_of().expect("scores").cases == (Case(),)
    assert run_of().expect("scores", *PADDED).cases == PADDED


def test_a_change_is_looked_for_where_outputs_are_wrong(run_of: Runs) -> None:
    """And among the values of that slot alone."""

    def doubled(value: Tensor) -> Tensor:
        return 2 * value

    run = run_of(deviation="scores-multiplied-by-root")

    def without_root(value: Tensor) -> Tensor:
        return value * 6

    with pytest.raises(Disagreement, match=r"attention\.scores: S is changed by without_root, but not in the profile"):
        run.expect("scores").is_not_changed_by(without_root)
    expected = run.expect("scores")
    assert expected.is_not_changed_by(doubled) is expected
    run_of().expect("scores").is_not_changed_by(without_root)


# Finite fills --------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["bert", "torch-post-ln", "pre-ln", "whisper"])
def test_padding_changes_as_far_as_a_finite_fill_hides_it(profile: str, run_of: Runs) -> None:
    """No score of a sample that is compared goes beyond 5000, and in some case they come near it."""
    run = run_of(profile)
    cases = [case._replace(weights=weights) for case in PADDED for weights in (PERTURBED, *SHARPNESS)]
    largest = []
    for case, other, valid in run.with_other_padding(*cases):
        assert not other.equals(run.probes[case.probe])
        assert bool((~valid | run.keep(case)).all())
        scores = [i.value for i in run.trace(case, other) if i.equation.slot == "scores"]
        largest += [
            float(S.abs()[b, :, other.keep[b]].max()) for S in scores for b in range(len(valid)) if valid[b].any()
        ]
    assert 4000 < max(largest) <= 5000


def test_padding_is_not_changed_where_all_scores_are_beyond_a_finite_fill(
    run_of: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conformance_tests.harness.run.LARGEST_SCORE", 1e-9)
    with pytest.raises(Unsupported, match="its scores go beyond ±1e-09"):
        run_of().with_other_padding(*PADDED)


@pytest.mark.parametrize("entrance", ["given", "embedded"])
@pytest.mark.parametrize(("taken", "failed"), [(10_000.0, []), (1000.0, ["MASK-2"]), (100.0, ["MASK-2"])])
def test_a_mask_may_subtract_what_berts_does_and_not_much_less(entrance: str, taken: float, failed: list[str]) -> None:
    """10000, as its released code does; weights of 100 or 1000 less leak where scores are large."""

    def finite(S: Tensor, keep: Tensor) -> Tensor:
        return S - taken * (~keep[:, None]).to(S)

    bert = PROFILES["bert"].replace(input=entrance)
    report = check(EncoderModule(Encoder(bert.replace(mask=finite), SMALL)), profile=bert, explain=False).targets[0]
    assert [r.id for r in report.of("fail") if r.id.startswith("MASK")] == failed
    assert report.verdict == ("nonconformant" if failed else "conformant")


@pytest.mark.parametrize(
    ("deviation", "within", "equation"),
    [
        ("softmax-over-queries", "vit-22b", "attention.weights"),
        ("ffn-activation-last", "vit-22b", "ffn.gelu"),
        ("rotation-backwards", "embedding-gemma", "rotation.halves"),
    ],
)
def test_what_is_found_vouches_for_what_it_is_computed_of_alone(deviation: str, within: str, equation: str) -> None:
    """In a parallel layer the network is right whatever the attention is; normed keys are, whatever turns queries."""
    with opened(deviating(deviations()[deviation], within), Question(PROFILES[within])) as run:
        assert run.departure is not None
        assert run.departure[1].spec.equation.id == equation


def test_autograd_tells_what_a_value_is_computed_of() -> None:
    """The scores of Q and K, and not of V, which stands before them; the average of all; angles belong to none."""
    encoder = Encoder(PROFILES["roformer"].replace(input="given"), Dimensions(d_model=6, h=1, d_ff=4, N=1))
    shapes = encoder.parameter_shapes()
    parameters = {path: torch.rand(shape, requires_grad=True) for path, shape in shapes.items()}
    trace = encoder.trace(parameters, torch.rand(1, 3, 6))
    named = [(step.equation.slot, part) for step in trace for part in range(len(parts(step)))]
    bits = made_of(trace)
    first = {name: named.index(name) for name in named}
    scores, average = (bits[first[slot, 0]] for slot in ("scores", "values"))
    Q, K, V, angles = (first[name] for name in [*(("projections", i) for i in range(3)), ("angles", 0)])
    assert [bool(scores >> place & 1) for place in (Q, K, V, angles)] == [True, True, False, True]
    assert [bool(average >> place & 1) for place in (Q, K, V)] == [True, True, True]

"""The search by outputs alone, in stages: what does not show yet is not searched, and what agrees stays."""

from math import prod

import pytest
import torch

from conformance_tests.deviations import deviations, with_deviations
from conformance_tests.identification.experiment import Experiment
from conformance_tests.identification.outputs import Search, nearest, stages
from conformance_tests.identification.search import Axes
from conformance_tests.identification.wrong_equation import behind_one_deviation
from conformance_tests.quality.kill_matrix import SMALL
from encoder_spec.assembly import Encoder
from encoder_spec.profiles import PROFILES

START = Encoder(PROFILES["torch-post-ln"], SMALL)
RIGHT = START.replace(layer="pre-ln", norm="std-plus-eps", activation="gelu", eps=2e-5)
AXES: Axes = {
    "layer": ["post-ln", "pre-ln"],
    "norm": ["layer-norm", "std-plus-eps"],
    "activation": ["relu", "gelu", "silu"],
    "scores": ["scaled", "unscaled"],
    "eps": [],
}
ATTENTION, FFN = ("W_O", "b_O"), ("W_2", "b_2")
SILENCES = ((), (*ATTENTION, *FFN), ATTENTION, FFN)


def calls(subject: Encoder, silences: tuple[tuple[str, ...], ...] = SILENCES) -> list[Experiment]:
    """Call an encoder on one input, once for each group of letters, whose arrays are then zero."""
    random = torch.Generator().manual_seed(0)
    drawn = {
        path: torch.randn(shape, generator=random, dtype=torch.float64) / shape[0] ** 0.5
        for path, shape in subject.parameter_shapes().items()
    }
    x = torch.randn(3, 7, SMALL.d_model, generator=random, dtype=torch.float64)
    made = []
    for zeros in silences:
        weights = {path: 0 * w if path.rpartition(".")[2] in zeros else w for path, w in drawn.items()}
        made.append(Experiment(weights, (x,), subject(weights, x.clone())))
    return made


def test_a_call_tells_which_sublayers_end_with_zeros() -> None:
    assert [e.silent for e in calls(START)] == [set(), {"multihead", "ffn"}, {"multihead"}, {"ffn"}]


def test_a_bias_alone_is_heard() -> None:
    assert [e.silent for e in calls(START, (("W_O",), ("W_2",)))] == [set(), set()]


def test_each_stage_shows_choices_that_none_before_shows() -> None:
    """And has the calls of those in which more is silent, against which its choices must hold too."""
    found = stages(AXES, calls(RIGHT))
    shown = [(set(s.silent), list(s.axes), len(s.experiments)) for s in found]
    assert shown == [
        ({"multihead", "ffn"}, ["layer", "norm", "eps"], 1),
        ({"ffn"}, ["scores"], 2),
        ({"multihead"}, ["activation"], 2),
        (set(), [], 4),
    ]


def test_calls_in_which_nothing_is_silent_are_one_stage() -> None:
    (only,) = stages(AXES, calls(RIGHT, ((),)))
    assert only.axes == AXES


def test_choices_are_settled_one_stage_after_the_other() -> None:
    """Their number is a sum; without silent sublayers it is the product, and the answer the same."""
    staged, whole = nearest(START, AXES, calls(RIGHT)), nearest(START, AXES, calls(RIGHT, ((),)))
    assert staged.is_settled
    assert whole.is_settled
    assert staged.best.choices() == whole.best.choices() == RIGHT.choices()
    assert staged.tried < whole.tried <= prod(len(values) for values in AXES.values() if values)


def test_a_norm_inside_of_the_sublayers_is_found_where_they_are_heard() -> None:
    """In a Pre-LN layer without a final norm no norm shows while the sublayers are silent."""
    start, right = START.replace(layer="pre-ln"), RIGHT.replace(eps=1e-5)
    experiments = calls(right)
    assert all(e.residual(start) <= 1 for e in experiments if len(e.silent) == 2)
    assert nearest(start, AXES, experiments).best.choices() == right.choices()


@pytest.mark.parametrize(
    ("deviation", "departing", "agreed"),
    [
        ("scores-scaled-by-d-model", {"ffn"}, {0, 2}),
        ("activation-leaky-relu", {"multihead"}, {0, 1}),
        ("norm-unbiased-variance", {"multihead", "ffn"}, set()),
    ],
)
def test_what_is_right_is_recognised_beside_something_wrong(
    deviation: str, departing: set[str], agreed: set[int]
) -> None:
    """The stage that departs is the first that does; the deviation is sought there, and the rest found beside it."""
    right = START.replace(activation="relu", scores="scaled")
    experiments = calls(with_deviations(right, (deviations()[deviation],)))
    search = nearest(START.replace(activation="silu"), AXES, experiments)
    assert not search.is_settled
    assert (search.stages[search.departing].silent, search.agreed) == (departing, agreed)
    found = behind_one_deviation(search)
    assert found is not None
    assert found.choices() == right.choices()


def test_what_departs_everywhere_is_behind_no_single_deviation() -> None:
    """Cubes of the hidden states: nothing agrees, and the search gives up where it is told to."""
    wrong = [Experiment(e.parameters, e.inputs, e.output**3) for e in calls(START)]
    search = Search(START, AXES, wrong)
    assert not search.goes_on(START)
    assert (search.agreed, search.departing) == (set(), 0)
    assert behind_one_deviation(search) is None

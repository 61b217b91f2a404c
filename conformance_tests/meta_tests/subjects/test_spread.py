"""Encoders that are spread over processes are judged by all of them together; what goes wrong between them is named.

The encoders are in ``meta_tests.encoders.spread``. Torch divides and gathers two of them itself.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from conformance_tests.errors import SubjectError, Undetermined
from conformance_tests.meta_tests.ranks import Ended, checked
from conformance_tests.subjects.spread.joining import WHOLE, Held, axes_stated, cuts_of, held_by_all, hidden_width
from conformance_tests.subjects.spread.part import Cut, Output, Piece, stated_axis
from conformance_tests.subjects.spread.subject import apart, together, twin
from encoder_spec.notation import SpecificationError

RIGHT = ("by_hand", "by_dtensor", "fully_sharded")

WRONG = {
    "bias_on_every_rank": ("output-bias-on-each-of-{}-ranks", "multihead.output"),
    "heads_cut_inside": ("scores-of-heads-cut-inside-on-{}-ranks", "attention.scores"),
    "attention_not_summed": ("output-not-summed-over-{}-ranks", "multihead.output"),
}
"""The deviation that each wrong encoder has, and where it departs."""

WRONG_IN_OTHER_WAYS = {
    "inner_bias_on_every_rank": ("ffn-bias-on-each-of-{}-ranks", "ffn"),
    "heads_stated": ("heads-cut-inside-on-{}-ranks", "attention.scores"),
    "network_not_summed": ("ffn-not-summed-over-{}-ranks", "ffn"),
    "nothing_summed": ("nothing-summed-over-{}-ranks", "multihead.output"),
}

TOLD_OTHERWISE = ("pieces_alike", "stated_axis", "megatron_axis")
"""Encoders that are right, and whose pieces are told apart by an experiment, or by what their author says."""

OPEN = ("untold_axis", "uneven_heads", "bias_on_rank_0_alone")


@pytest.fixture(scope="module")
def on_two(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """Encoders of each kind, judged by two processes."""
    return checked(2, [*RIGHT, *WRONG, *OPEN], tmp_path_factory.mktemp("two"))


@pytest.fixture(scope="module")
def others_on_two(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """Those that differ from them in a detail."""
    return checked(2, [*WRONG_IN_OTHER_WAYS, *TOLD_OTHERWISE], tmp_path_factory.mktemp("others"))


@pytest.fixture(scope="module")
def on_four(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """Encoders of each kind, judged by four."""
    return checked(4, [*RIGHT, *WRONG], tmp_path_factory.mktemp("four"))


# Two processes -----------------------------------------------------------------------------


def demand_all_decided(target: dict[str, Any]) -> None:
    """Demand that everything passes: intermediates of all ranks are joined, and gradients of all pieces."""
    assert (target["verdict"], target["level"]) == ("conformant", "gradient"), target["notes"]
    assert [r["id"] for r in target["requirements"] if r["outcome"] != "pass"] == []


def demand_named(target: dict[str, Any], deviation: str, equation: str) -> None:
    """Demand that the first deviation with a name is this one, and that the encoder departs at this equation."""
    assert (target["verdict"], target["departs_at"]) == ("nonconformant", equation)
    assert [d["deviation"] for d in target["diagnosis"] if d["deviation"]][:1] == [deviation]


@pytest.mark.parametrize("name", RIGHT)
def test_right_encoder_on_two_ranks_is_conformant_up_to_its_gradients(on_two: Ended, name: str) -> None:
    """By hand, by DTensor, and fully sharded."""
    demand_all_decided(on_two.targets[name])
    assert on_two.targets[name]["profile"]["conventions"]["spread"] == "over 2 processes"


@pytest.mark.thorough
@pytest.mark.parametrize("name", TOLD_OTHERWISE)
def test_pieces_are_told_apart_by_an_experiment_or_a_statement(others_on_two: Ended, name: str) -> None:
    """Pieces with the same numbers, and square ones."""
    demand_all_decided(others_on_two.targets[name])


@pytest.mark.parametrize("name", WRONG)
def test_defect_on_two_ranks_is_named(on_two: Ended, name: str) -> None:
    """Twice the bias, half of each head, half of the sum."""
    deviation, equation = WRONG[name]
    demand_named(on_two.targets[name], deviation.format(2), equation)


@pytest.mark.thorough
@pytest.mark.parametrize("name", WRONG_IN_OTHER_WAYS)
def test_the_same_defect_elsewhere_is_named(others_on_two: Ended, name: str) -> None:
    """In the feed-forward network, in both sublayers, and with the number of heads stated."""
    deviation, equation = WRONG_IN_OTHER_WAYS[name]
    demand_named(others_on_two.targets[name], deviation.format(2), equation)


def test_ranks_that_return_different_things_are_nonconformant_though_rank_0_is_right(on_two: Ended) -> None:
    """A bias that rank 0 alone adds behind the last sum leaves its own output right."""
    target = on_two.targets["bias_on_rank_0_alone"]
    failed = {r["id"]: r["message"] for r in target["requirements"] if r["outcome"] == "fail"}
    assert target["verdict"] == "nonconformant"
    assert failed.keys() == {"ENC-2"}
    assert "rank 1 returns other hidden states than rank 0" in failed["ENC-2"]


def test_square_piece_asks_for_its_axis(on_two: Ended) -> None:
    """d_ff of each rank is d_model: no side of fc1 tells where it is cut."""
    target = on_two.targets["untold_axis"]
    assert target["verdict"] == "undetermined"
    assert "described(encoder, cut={'layers.0.fc1.weight': 0})" in target["notes"][0]


def test_heads_that_the_processes_cannot_share_evenly_are_an_error(on_two: Ended) -> None:
    """Three heads on two processes."""
    target = on_two.targets["uneven_heads"]
    assert target["verdict"] == "error"
    assert "its 3 heads cannot be shared evenly by 2 processes" in target["notes"][0]


def test_rank_0_alone_speaks_and_all_end_with_one_status(on_two: Ended) -> None:
    """One target is not conformant: 1."""
    assert on_two.statuses == [1, 1]
    assert "conformant" in on_two.printed[0]
    assert on_two.printed[1] == on_two.complaints[1] == ""


# Four processes ----------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("name", RIGHT)
def test_right_encoder_on_four_ranks_is_conformant(on_four: Ended, name: str) -> None:
    """One head on each rank."""
    demand_all_decided(on_four.targets[name])


@pytest.mark.thorough
@pytest.mark.parametrize("name", WRONG)
def test_defect_on_four_ranks_is_named(on_four: Ended, name: str) -> None:
    """Four times the bias, a quarter of each head, a quarter of the sum."""
    deviation, equation = WRONG[name]
    demand_named(on_four.targets[name], deviation.format(4), equation)


# What goes wrong between them --------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("without_a_group", "2 processes were started, but the encoder set up no process group between them: call"),
        ("refused_on_one_rank", "on rank 1, refused_on_one_rank() raised ValueError: no shard for this rank"),
        ("raises_on_one_rank", "on rank 1, calling the encoder raised ValueError: this rank is out of luck"),
        ("ends_on_one_rank", "the ranks do not meet: another process has ended"),
    ],
)
def test_what_one_rank_meets_is_told_by_rank_0_and_nobody_hangs(name: str, says: str, tmp_path: Path) -> None:
    """Each rank waits three seconds for the others, in collectives of the encoder too."""
    ended = checked(2, [name], tmp_path, patience=3)
    assert ended.targets[name]["verdict"] == "error"
    assert says in ended.targets[name]["notes"][0]
    assert ended.statuses[0] == 1
    assert "Traceback" not in ended.complaints[0]


# How pieces lie ----------------------------------------------------------------------------


def held(*shapes: tuple[int, ...], same: bool = False, stated: int | None = None) -> Held:
    """What processes say of an array whose pieces have these shapes."""
    return Held(tuple(Piece(shape, "" if same else str(rank), False, stated) for rank, shape in enumerate(shapes)))


def never(_: str) -> bool:
    """Return that an array is none of several pieces."""
    return False


LAYER = {
    "q.weight": held((6, 24), (6, 24)),
    "q.bias": held((6,), (6,), same=True),
    "o.weight": held((24, 6), (24, 6)),
    "o.bias": held((24,), (24,), same=True),
    "norm.weight": held((24,), (24,), same=True),
    "table": held((50, 24), (50, 24), same=True),
}


def test_what_differs_is_cut_where_it_is_not_as_wide_as_the_hidden_states() -> None:
    """The width is 24, a size of five arrays; zeros that are six long are cut as the map above them."""
    assert hidden_width([each.shape for each in LAYER.values()]) == 24
    assert cuts_of(LAYER, {}, never) == {
        "q.weight": Cut(0, (6, 6)),
        "q.bias": Cut(0, (6, 6)),
        "o.weight": Cut(1, (6, 6)),
        "o.bias": None,
        "norm.weight": None,
        "table": None,
    }


def test_pieces_of_different_lengths_tell_their_axis() -> None:
    """Five rows on one rank and four on the other, of a width that others have too."""
    uneven = LAYER | {"up.weight": held((5, 24), (4, 24)), "square": held((24, 24), (20, 24))}
    found = cuts_of(uneven, {}, never)
    assert (found["up.weight"], found["square"]) == (Cut(0, (5, 4)), Cut(0, (24, 20)))


def test_statement_comes_before_what_differs() -> None:
    """A copy that differs, as one without a seed does, and a square piece."""
    more = LAYER | {"layers.3.up": held((24, 24), (24, 24)), "loose": held((50, 24), (50, 24))}
    stated = axes_stated({"layers.{l}.up": 1, "loose": WHOLE}, more)
    found = cuts_of(more, stated, never)
    assert (found["layers.3.up"], found["loose"]) == (Cut(1, (24, 24)), None)


@pytest.mark.parametrize(
    ("stated", "says"),
    [
        ({"layers.{l}.w": 0}, r"cut names 'layers.\{l\}.w', but no parameter is called so"),
        ({"q.weight": 2}, r"cut gives q.weight the axis 2, but its shape is \(6, 24\)"),
    ],
)
def test_statement_that_fits_nothing_is_refused(stated: dict[str, int], says: str) -> None:
    """A name that no parameter has, and an axis that this one does not have."""
    with pytest.raises(SpecificationError, match=says):
        axes_stated(stated, LAYER)


def test_square_piece_without_a_statement_is_undetermined() -> None:
    """24 × 24 on both ranks, with other numbers."""
    with pytest.raises(Undetermined, match=r"w \(24, 24\) differs between the processes"):
        cuts_of(LAYER | {"w": held((24, 24), (24, 24))}, {}, never)


def test_ranks_with_different_parameters_are_no_parts_of_one_encoder() -> None:
    """A pipeline, whose ranks hold different layers."""
    here, there = ({name: Piece((2,), "", False, None)} for name in ("layers.0.w", "layers.1.w"))
    with pytest.raises(SubjectError, match="rank 1 and rank 0 hold different parameters"):
        held_by_all([here, there])


def test_megatrons_attributes_say_where_a_parameter_is_cut() -> None:
    """As its layers set them; a parameter without them says nothing."""
    silent, cut, whole = (nn.Parameter(torch.zeros(2, 3)) for _ in range(3))
    cut.tensor_model_parallel, cut.partition_dim = True, 1  # type: ignore[attr-defined]
    whole.tensor_model_parallel = False  # type: ignore[attr-defined]
    assert [stated_axis(p) for p in (silent, cut, whole)] == [None, 1, WHOLE]


# What ranks give ---------------------------------------------------------------------------


def test_recorded_pieces_are_joined_and_copies_are_not() -> None:
    """[1 2] on both ranks stays; [1 2] and [3 4] become [1 2 3 4]; a sum, [4 6], is not formed."""
    one, two = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    found = together([[one, one], [one, two]])
    assert [x.tolist() for x in found] == [[1.0, 2.0], [1.0, 2.0, 3.0, 4.0]]


def test_ranks_are_apart_by_more_than_rounding() -> None:
    """1e-13 beside 1 is rounding in float64, 1e-3 is not."""

    def given(*numbers: float) -> Output:
        return Output([torch.tensor(numbers, dtype=torch.float64)], [])

    assert apart([given(1.0, 0.5), given(1.0 + 1e-13, 0.5), given(1.0, 0.501)]) == {2: pytest.approx(1e-3)}


def test_twin_has_other_parameters_and_the_attributes_of_its_original() -> None:
    """A hook of the original stays there."""
    module: Any = nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2, eps=1e-3))
    module[0].heads = 7
    module.register_forward_hook(lambda *_: torch.zeros(0))
    joined = {id(p): nn.Parameter(p + 1) for p in module.parameters()}
    other: Any = twin(module, joined)
    assert torch.equal(other[0].weight, module[0].weight + 1)
    assert (other[0].heads, other[1].eps) == (7, 1e-3)
    assert other(torch.ones(1, 2)).shape == (1, 2)

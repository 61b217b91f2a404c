"""Operations that frameworks write in several steps: recognised by what they do."""

import math

import pytest
import torch
from torch import Tensor

from conformance_tests.computation.attention import back_to, softmax_argument
from conformance_tests.computation.graph import Graph, Operand, Recording
from conformance_tests.computation.inputs import read_entrance
from conformance_tests.computation.replaced_by_itself import left_as_they_are
from conformance_tests.computation.shown import EncoderReading
from conformance_tests.computation.stream import Wiring
from conformance_tests.computation.walking import unchanged


def recorded(*shape: int) -> tuple[Recording, Tensor, Tensor]:
    """A recording with one argument: its codes and its numbers."""
    recording = Recording()
    numbers = torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return recording, recording.leaf("argument", numbers, "x"), numbers


def of(graph: Graph, *reads: Operand) -> list[Tensor]:
    """The numbers of operands."""
    return [graph.numbers(read) for read in reads]


def softmax_minus(recording: Recording, scores: Tensor, subtracted: Tensor) -> Tensor:
    """exp(scores − subtracted) over its sum along the last axis; codes."""
    graph = recording.graph
    a, b = of(graph, scores, subtracted)
    shifted = recording.elementwise("sub", (scores, subtracted), a - b)
    above = recording.elementwise("exp", (shifted,), (a - b).exp())
    below = recording.reduction("sum", above, (-1,), (a - b).exp().sum(-1))
    below = below.unsqueeze(-1).expand_as(above)
    return recording.elementwise("div", (above, below), (a - b).softmax(-1))


def test_what_is_the_same_for_a_whole_row_cancels_in_a_softmax() -> None:
    """The largest score, kept from being −∞: a maximum with a number behind a reduction."""
    recording, scores, numbers = recorded(2, 3, 5)
    largest = recording.reduction("amax", scores, (-1,), numbers.amax(-1))
    kept = recording.elementwise("maximum", (largest, float("-inf")), numbers.amax(-1))
    codes = softmax_minus(recording, scores, kept.unsqueeze(-1).expand_as(scores))
    value = recording.graph.owner(codes)
    assert value is not None
    argument = softmax_argument(recording.graph, value)
    assert argument is not None
    assert torch.equal(argument[0], scores)
    assert argument[1] == 2


def test_what_differs_within_a_row_does_not_cancel() -> None:
    """A bias for each key is part of the scores."""
    recording, scores, numbers = recorded(2, 3, 5)
    bias = recording.reduction("amax", scores, (-2,), numbers.amax(-2)).unsqueeze(-2).expand_as(scores)
    codes = softmax_minus(recording, scores, bias)
    value = recording.graph.owner(codes)
    assert value is not None
    argument = softmax_argument(recording.graph, value)
    assert argument is not None
    shifted = recording.graph.owner(argument[0])
    assert shifted is not None
    assert shifted.operation == "sub"


@pytest.mark.parametrize(("operation", "reads"), [("exp2", ()), ("pow", (2.0,))])
def test_a_power_of_a_number_is_an_exponential(operation: str, reads: tuple[float, ...]) -> None:
    """2ˣ = exp(x ln 2): what a softmax reads is told by exponentials."""
    recording, exponents, numbers = recorded(2, 5)
    codes = recording.elementwise(operation, (*reads, exponents), numbers.exp2())
    value = recording.graph.owner(codes)
    assert value is not None
    assert value.operation == "exp"
    assert torch.allclose(recording.graph.numbers(value.arrays[0]), numbers * math.log(2))


def test_a_power_of_data_is_none_of_a_number() -> None:
    """Squares are data to the power of a number, and frequencies are numbers alone."""
    recording, base, numbers = recorded(2, 5)
    squares = recording.elementwise("pow", (base, 2.0), numbers**2)
    steps = recording.leaf("constant", torch.arange(3.0))
    frequencies = recording.elementwise("pow", (10000.0, steps), 10000.0 ** torch.arange(3.0))
    assert {value.operation for value in map(recording.graph.owner, (squares, frequencies)) if value} == {"pow"}


def test_ids_are_followed_through_what_leaves_them_as_they_are() -> None:
    """where(ids < 0, ids + V, ids), of ids that are none of them negative."""
    recording = Recording()
    ids = torch.tensor([[1, 4, 2]])
    codes = recording.leaf("argument", ids, "ids")
    negative = recording.elementwise("lt", (codes, 0.0), ids < 0)
    shifted = recording.elementwise("add", (codes, 7.0), ids + 7)
    kept = recording.elementwise("where", (negative, shifted, codes), ids)
    assert torch.equal(unchanged(recording.graph, kept[:, 1:]), codes[:, 1:])
    assert torch.equal(unchanged(recording.graph, shifted), shifted)


@pytest.mark.parametrize(
    ("tables", "numbered", "is_open"),
    [(("segments",), False, False), (("boxes", "segments"), False, True), (("boxes", "segments"), True, False)],
)
def test_one_row_that_is_looked_up_for_every_position_is_a_segment(
    tables: tuple[str, ...], numbered: bool, is_open: bool
) -> None:
    """The index is computed of the ids, as in RoBERTa, and is the same for all of them.

    Of two such tables an argument shows which has the segments; the row of the other one belongs to every token.
    """
    recording = Recording()
    ids = torch.tensor([[1, 4, 2], [3, 2, 5]])
    codes = recording.leaf("argument", ids, "ids")
    index = {name: recording.elementwise("mul", (codes, 0.0), 0 * ids) for name in tables}
    index |= {"tokens": codes} | ({"segments": recording.leaf("argument", 0 * ids, "kinds")} if numbered else {})
    numbers = {name: torch.randn(6, 4, dtype=torch.float64) for name in index}
    leaves = {name: recording.leaf("parameter", table, name, learned=True) for name, table in numbers.items()}
    rows = {name: numbers[name][ids if name == "tokens" else 0 * ids] for name in index}
    added, total = (
        recording.other("look-up", (leaves["tokens"], codes), rows["tokens"], options={"axis": 0}),
        rows["tokens"],
    )
    for name in tables:
        total = total + rows[name]
        row = recording.other("look-up", (leaves[name], index[name]), rows[name], options={"axis": 0})
        added = recording.elementwise("add", (added, row), total)
    found = EncoderReading(recording.graph)
    read_entrance(found, Wiring(recording.graph).of(added), is_normed=False)
    assert found.leaves_segments_open == is_open
    assert torch.equal(found.codes["E_seg"], leaves["segments" if not is_open else "boxes"])
    assert (found.choices["segment"], found.unread) == ("added", [])


def test_weights_are_followed_past_constants_that_came_later() -> None:
    """where(a mask made behind the softmax, 0, the attention weights)."""
    recording, codes, numbers = recorded(2, 3)
    weights = recording.other("softmax", [codes], numbers.softmax(-1), options={"axes": (1,)})
    mask = recording.leaf("constant", torch.zeros(2, 3, dtype=torch.bool))
    kept = recording.elementwise("where", (mask, 0.0, weights), numbers.softmax(-1))
    value = recording.graph.owner(weights)
    assert value is not None
    behind = back_to(recording.graph, kept.mT, value)
    assert behind is not None
    assert torch.equal(behind, weights.mT)


@pytest.mark.parametrize(("compared", "instead", "changes"), [(0.0, 0.0, False), (1.0, 1.0, False), (0.0, 1.0, True)])
def test_a_row_that_is_replaced_by_the_number_that_it_consists_of_stays(
    compared: float, instead: float, changes: bool
) -> None:
    """Where any entry differs from a number the row is kept; else it is that number."""
    recording, x, numbers = recorded(2, 3, 5)
    differs = recording.elementwise("ne", (x, compared), numbers != compared)
    kept = recording.reduction("any", differs, (-1,), (numbers != compared).any(-1))
    chosen = recording.elementwise("where", (kept.unsqueeze(-1).expand_as(x), x, instead), numbers)
    recording.graph.output = chosen
    graph = left_as_they_are(recording.graph)
    assert torch.equal(graph.output, x) != changes


def test_a_row_that_is_kept_for_another_row_may_be_replaced() -> None:
    recording, x, numbers = recorded(2, 3, 5)
    differs = recording.elementwise("ne", (x, 0.0), numbers != 0)
    kept = recording.reduction("any", differs, (-1,), (numbers != 0).any(-1)).flip(1)
    recording.graph.output = recording.elementwise("where", (kept.unsqueeze(-1).expand_as(x), x, 0.0), numbers)
    assert left_as_they_are(recording.graph) is recording.graph

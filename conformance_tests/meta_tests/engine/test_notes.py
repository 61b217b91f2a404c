"""Notes beside a verdict: copies of one layer, guessed heads, and what a precision cannot resolve."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from conformance_tests.computation.shown import Facts
from conformance_tests.deviations.resolution import on_file, unresolved
from conformance_tests.engine.notes import are_copies, below_resolution, describe, guesses_heads
from conformance_tests.harness.computed import Longest
from conformance_tests.quality.kill_matrix import SMALL
from conformance_tests.reports.report import TargetReport
from conformance_tests.subjects.segments import FIRST_ALONE
from encoder_spec.assembly import Encoder
from encoder_spec.profiles import PROFILES

ONES, TWOS = torch.ones(2, 2), torch.full((2, 2), 2.0)


def run_with(parameters: dict[str, Tensor], layers: int = 2, sharing: str = "none") -> Any:
    """What ``are_copies`` asks of a run."""
    encoder = SimpleNamespace(
        dimensions=SimpleNamespace(N=layers), profile={"sharing": SimpleNamespace(variant=sharing)}
    )
    return SimpleNamespace(encoder=encoder, stated_parameters=lambda: parameters)


EQUAL = {"layers.0.W_Q": ONES, "layers.1.W_Q": ONES.clone(), "layers.0.b_1": ONES, "layers.1.b_1": TWOS}


@pytest.mark.parametrize(
    ("asked", "copies"),
    [
        (run_with(EQUAL), True),
        (run_with(EQUAL | {"layers.1.W_Q": TWOS}), False),
        (run_with(EQUAL, layers=1), False),
        (run_with(EQUAL, layers=3), False),
        (run_with(EQUAL | {"layers.2.W_Q": TWOS}, layers=3), False),
        (run_with(EQUAL, sharing="all"), False),
        (run_with({}), False),
        (run_with(EQUAL | {"layers.0.W_K": ONES, "layers.1.W_K": TWOS}), False),
    ],
)
def test_layers_are_copies_where_all_maps_of_each_equal_those_of_the_first(asked: Any, copies: bool) -> None:
    """Biases do not count: most begin as zeros. One layer is no copy, and shared layers are one on purpose."""
    assert are_copies(asked) is copies


@pytest.mark.parametrize(
    ("mapped", "stated", "sizes", "heads", "guess"),
    [
        (None, None, {}, 1, True),
        (None, None, {}, 2, False),
        (1, None, {}, 1, False),
        (None, 1, {}, 1, False),
        (None, None, {"h": 1}, 1, False),
    ],
)
def test_a_single_head_that_nothing_states_is_a_guess(
    mapped: int | None, stated: int | None, sizes: dict[str, int], heads: int, guess: bool
) -> None:
    run: Any = SimpleNamespace(
        mapping=SimpleNamespace(heads=mapped),
        subject=SimpleNamespace(hints=SimpleNamespace(heads=stated, sizes=sizes)),
        encoder=SimpleNamespace(dimensions=SimpleNamespace(h=heads)),
    )
    assert guesses_heads(run) is guess


def test_float64_leaves_nothing_open_and_bfloat16_counts_what_it_does() -> None:
    """The number is that of the measurement on file."""
    count = len(unresolved(on_file(), "bfloat16"))
    assert count > 0
    assert below_resolution("float64") == []
    assert below_resolution("bfloat16") == [
        f"{count} of the known deviations are not decidable in bfloat16: nothing is said of them"
    ]


# The whole description -----------------------------------------------------------------


def described(variants: dict[str, Any] | None = None, heads: int = 4, **facts: Any) -> TargetReport:
    """The report of a run over torch's encoder with these variants, about which these facts are known."""
    known: Any = {
        "declared": None,
        "identified": True,
        "stored": {},
        "longest": Longest(257, ""),
        "without_value": [],
        "parameters": {},
        "calls": {},
        "maps": {},
        "kept": {},
        "segments": True,
        "remarks": [],
        "unmoved": set(),
        "compared": set(),
        "takes_mask": True,
        "unlearned": {},
    } | facts
    subject = SimpleNamespace(
        conventions=lambda: known["calls"],
        takes_segments=lambda: known["segments"],
        remarks=lambda: known["remarks"],
        unmoved=lambda: known["unmoved"],
        special_ids=known["compared"],
        takes_mask=known["takes_mask"],
        hints=SimpleNamespace(heads=None, sizes={}),
    )
    run: Any = SimpleNamespace(
        encoder=Encoder(PROFILES["torch-post-ln"].replace(**(variants or {})), replace(SMALL, h=heads)),
        question=SimpleNamespace(declared=known["declared"]),
        subject=subject,
        mapping=SimpleNamespace(conventions=lambda: known["maps"], heads=None, spare=()),
        stated_parameters=lambda: known["parameters"],
        facts=Facts(unlearned=known["unlearned"], kept=known["kept"]),
        sizes=None,
        with_head=None,
        **{name: known[name] for name in ("identified", "stored", "longest", "without_value")},
    )
    report = TargetReport("theirs")
    describe(run, report)
    return report


def test_a_rounded_constant_is_named() -> None:
    """By what it rounds to, in digits that tell it from that."""
    report = described(variants={"activation": "gelu"}, kept={"activation": 0.7071, "scores": 0.37796447})
    assert "keeps 1/√2 as 0.7071 (activation): judged with it" in report.notes
    assert "keeps 1/√d_k as 0.37796447 (scores): judged with it" in report.notes


def test_a_published_choice_is_named_with_its_conventions() -> None:
    """Those of its calls and those of its maps; nothing else is worth a note."""
    report = described(calls={"mask": "ignore"}, maps={"W_Q": "output × input"})
    choices = Encoder(PROFILES["torch-post-ln"], SMALL).choices()
    conventions = {"mask": "ignore", "W_Q": "output × input"}
    assert report.profile == {
        "name": "torch-post-ln",
        "choices": choices,
        "conventions": conventions,
        "identified": True,
    }
    assert report.notes == []


def test_a_declared_profile_is_named_and_nothing_was_identified() -> None:
    """Also where the encoder departs from it; what it does at its input is said of one that starts behind it."""
    report = described({"activation": "gelu"}, declared=PROFILES["torch-post-ln"])
    assert (report.profile["name"], report.profile["choices"]["activation"]) == ("torch-post-ln", "gelu")
    assert "identified" not in report.profile
    assert report.notes == []
    behind = described(declared=PROFILES["bert"])
    assert behind.profile["name"] == "bert"
    assert behind.notes == ["starts from given embeddings: the profile's input equations are not judged"]


def test_an_unpublished_choice_is_compared_with_the_nearest_profile() -> None:
    """Slot by slot: what the encoder has, and in brackets what the profile has there."""
    report = described({"activation": "silu", "eps": 1e-3})
    assert report.profile["name"] == "unpublished"
    (note,) = report.notes
    begins, _, differ = note.partition(", which differs in ")
    assert begins == "no published profile; the nearest is torch-post-ln"
    assert differ == "activation silu (there relu), eps 0.001 (there 1e-05)"


@pytest.mark.parametrize(("heads", "guess"), [(4, ""), (1, "; the number of heads is a guess")])
def test_a_choice_that_agrees_with_nothing_is_said_to_be_the_closest(heads: int, guess: str) -> None:
    report = described(identified=False, heads=heads)
    assert report.profile["identified"] is False
    closest = "its outputs agree with no choice of equations; judged against what it states or comes closest to"
    assert report.notes == [closest + guess]


@pytest.mark.parametrize(
    ("variant", "taken", "said"), [("added", False, FIRST_ALONE), ("added", True, None), ("none", False, None)]
)
def test_segments_that_cannot_be_given_are_a_convention(variant: str, taken: bool, said: str | None) -> None:
    """Where the encoder adds them; without them there is nothing to be said."""
    base = PROFILES["bert"] if variant == "added" else PROFILES["vaswani-2017"]
    variants = {slot: e.variant for slot, e in base.equations.items()}
    assert described(variants, segments=taken).profile["conventions"].get("segments") == said


def test_positions_in_a_table_are_named_with_their_layout_and_what_does_not_move() -> None:
    layouts = {"P": "sinusoidal", "other.P": "concatenated"}
    report = described(stored=layouts, unmoved={"b", "a"})
    assert report.profile["choices"]["position"] == "concatenated"
    assert report.notes == [
        "keeps its sinusoidal positions as a table (P): compared as stored",
        "a plain attribute, which does not move with the encoder: a, b",
        "keeps its concatenated positions as a table (other.P): compared as stored",
        "a plain attribute, which does not move with the encoder: a, b",
    ]
    assert described(stored={"P": "sinusoidal"}).notes == [report.notes[0]]


def test_remarks_copies_and_refused_lengths_are_noted() -> None:
    """The encoder's own remarks come first."""
    copies = {"layers.0.W_Q": ONES, "layers.1.W_Q": ONES.clone()}
    report = described(remarks=["odd"], longest=Longest(11, "it raised IndexError"), parameters=copies)
    assert report.notes == [
        "odd",
        "judged with at most 11 tokens: more are refused: it raised IndexError",
        "all layers start with the same weights: they are copies of one layer",
    ]


@pytest.mark.parametrize(
    ("compared", "unlearned", "takes_mask", "padding"),
    [
        ({0}, {}, False, "0"),
        ({5}, {"E": 5}, False, "5"),
        ({0}, {"E": 5}, False, ""),
        ({5}, {"E": 5}, True, ""),
        (set(), {"E": 5}, False, ""),
    ],
)
def test_an_id_of_padding_that_is_compared_and_hides_nothing_is_told(
    compared: set[int], unlearned: dict[str, int], takes_mask: bool, padding: str
) -> None:
    """It is the one that the table states, or 0. Where a mask is taken, that may hide it."""
    notes = described(compared=compared, unlearned=unlearned, takes_mask=takes_mask).notes
    says = f"compares its ids with {padding}, as with an id of padding, and hides no position by it"
    assert notes == ([says] if padding else [])


def test_weights_that_hold_no_numbers_are_named_three_at_most() -> None:
    """A module that lost its numbers has lost them in all parameters."""
    says = "its own weights hold NaN, infinity or numbers beyond 10000 ({}): judged with others"
    assert described(without_value=["a", "b", "c"]).notes == [says.format("a, b, c")]
    assert described(without_value=["a", "b", "c", "d"]).notes == [says.format("a, b, c …")]

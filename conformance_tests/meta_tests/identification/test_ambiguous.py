"""What cannot be judged is said precisely, and what its author states of it is used, and checked."""

import re
from ast import literal_eval
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from conformance_tests import described
from conformance_tests.meta_tests.encoders.ambiguous_names import (
    MAPS,
    ArraysAlone,
    Opaque,
    TableWithoutAName,
    maps_in_an_array_of_their_own,
    maps_that_shapes_cannot_tell,
    table_without_a_name,
)
from conformance_tests.meta_tests.encoders.catalogue import all_ambiguous
from conformance_tests.meta_tests.encoders.plain import Plain, plain_layers
from conformance_tests.meta_tests.encoders.tutorials_letters import letters_for_names
from conformance_tests.meta_tests.encoders.tutorials_norms import unusual_epsilon
from conformance_tests.meta_tests.judgements import Judgements
from encoder_spec.notation import SpecificationError

AMBIGUOUS = all_ambiguous()


def plain() -> nn.Module:
    """Four heads, and a mask (B, n) with True = keep."""
    return Plain(plain_layers())


class WithTask(Plain):
    """It asks for a further argument."""

    def forward(self, x: Tensor, mask: Tensor | None = None, task: int = 0) -> Tensor:
        return super().forward(x, mask)


def with_task() -> nn.Module:
    return WithTask(plain_layers())


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_what_cannot_be_judged_is_undetermined_and_named(name: str, judged: Judgements) -> None:
    """Neither conformant nor nonconformant: what is computed may be right, and is not in the specification."""
    torch.manual_seed(0)  # where any argument may be the input, the weights decide which of them is taken for it
    report = judged(AMBIGUOUS[name].make)
    assert report.verdict == "undetermined", [r.message for r in report.of("fail")]
    note = "\n".join(report.notes)
    assert [word for word in AMBIGUOUS[name].named if word not in note] == []


@pytest.mark.parametrize("name", [name for name, a in AMBIGUOUS.items() if a.facts])
def test_what_its_author_states_makes_it_conformant(name: str, judged: Judgements) -> None:
    """The facts that the note asks for suffice."""
    report = judged(described(AMBIGUOUS[name].make, **AMBIGUOUS[name].facts))
    assert report.verdict == "conformant", [r.message for r in report.of("fail")] + report.notes


@pytest.mark.parametrize("make", [TableWithoutAName, maps_in_an_array_of_their_own])
def test_what_no_name_tells_a_computation_does(make: Any, judged: Judgements) -> None:
    """A table and a bundle of maps are read by what is done with them."""
    report = judged(make)
    assert report.verdict == "conformant", [r.message for r in report.of("fail")] + report.notes


def test_a_table_that_no_name_tells_is_the_one_with_which_outputs_agree(judged: Judgements) -> None:
    """Of an encoder that shows nothing but its outputs."""
    assert judged(table_without_a_name).verdict == "conformant"


def test_an_encoder_of_ids_whose_table_nothing_tells_is_undetermined(judged: Judgements) -> None:
    """Its outputs agree with no table, since they are wrong."""

    class Cubed(ArraysAlone):
        def encode(self, x: Any, mask: Any) -> Any:
            return super().encode(x, mask) ** 3

    (note,) = judged(lambda: Cubed(TableWithoutAName())).notes
    assert note.endswith("which of its parameters is their table (it may be lexicon), and no outputs agree")


def test_a_wrong_assignment_is_not_called_conformant(judged: Judgements) -> None:
    """W_Q and W_V exchanged: agreement is the judge, not the author."""
    exchanged = MAPS | {"W_Q": MAPS["W_V"], "W_V": MAPS["W_Q"]}
    wrong = described(maps_that_shapes_cannot_tell, parameters=exchanged, heads=2)
    assert judged(wrong, explain=False).verdict == "nonconformant"


def test_what_is_stated_of_a_broken_encoder_does_not_acquit_it(judged: Judgements) -> None:
    """SiLU without its sigmoid's sign: every parameter is stated, and the activation is no variant."""

    class Wrong(Opaque):
        def activated(self, x: Any) -> Any:
            return x * (-x).sigmoid()

    assert judged(described(Wrong(), parameters=MAPS, heads=2), explain=False).verdict == "nonconformant"


def test_stated_parameters_need_no_search(judged: Judgements) -> None:
    """Every map of the encoder that has letters for names is found as stated, with the transposition."""
    letters = {"W_V": "a", "W_O": "b", "W_K": "c", "W_Q": "d", "W_1": "g", "W_2": "f"}
    biases = {f"b{letter[1:]}": f"p.{{l}}.{name}.bias" for letter, name in letters.items()}
    maps = {letter: f"p.{{l}}.{name}.weight.T" for letter, name in letters.items()}
    report = judged(described(letters_for_names, parameters=maps | biases, heads=6, mask=("u", "ignore")))
    assert report.verdict == "conformant", report.notes
    assert report.profile["conventions"]["mask"] == "u: (B, n), boolean, True = ignore"


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"heads": 2}, "num_heads = 2, but its outputs agree with 4"),
        ({"choices": {"eps": 1e-3}}, "eps = 0.001, but its outputs agree with 1e-05"),
        ({"choices": {"layer": "pre-ln"}}, "layer = pre-ln, but its outputs agree with post-ln"),
        ({"parameters": {"W_Q": "layers.{l}.attention.q"}}, "no parameter 'layers.0.attention.q'"),
        ({"mask": ("attn", "keep")}, "no argument 'attn'; it takes x, mask"),
    ],
)
def test_a_statement_that_is_wrong_is_reported(facts: dict[str, Any], message: str, judged: Judgements) -> None:
    """The encoder would be conformant without it."""
    report = judged(described(plain, **facts))
    assert report.verdict == "undetermined"
    assert message in " ".join(report.notes)


def test_a_mask_that_is_stated_the_wrong_way_round_fails(judged: Judgements) -> None:
    """What the author says of the mask is no convention to learn: by it, the padding is what is attended to."""
    report = judged(described(plain, mask=("mask", "ignore")), explain=False)
    assert report.verdict == "nonconformant"
    assert "MASK-2" in {r.id for r in report.of("fail")}


def test_a_constant_that_is_stated_is_found_at_once(judged: Judgements) -> None:
    """ε = 4·10⁻⁹ is in no list; stated, it is the first that is tried."""
    report = judged(described(unusual_epsilon, choices={"eps": 4e-9}))
    assert (report.verdict, report.profile["choices"]["eps"]) == ("conformant", 4e-9)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"parameters": {"W_X": "x"}}, "no parameter 'W_X' in the equations; there are .*W_Q"),
        ({"parameters": {"norm_f.gamma": "norm.weight"}}, "no parameter 'norm_f.gamma' .* norm_1.gamma.*norm_final"),
        ({"mask": ("mask", "maybe")}, r"lengths, in a pair, but not \('mask', 'maybe'\)"),
        ({"heads": 0}, "heads must be a positive integer, but is 0"),
        ({"choices": {"norm": "batch"}}, "slot norm has no variant 'batch'"),
    ],
)
def test_a_statement_that_means_nothing_is_refused(facts: dict[str, Any], message: str) -> None:
    """In one line, with what could have been meant."""
    with pytest.raises(SpecificationError, match=message) as refused:
        described(plain, **facts)
    assert not re.search(r"\n", str(refused.value))


def test_the_facts_of_the_documentation_are_those_of_the_function() -> None:
    """Every row of the table in the docs can be handed over, and there is no other fact."""
    page = (Path(__file__).parents[3] / "docs" / "test-your-encoder.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)=(.+?)` \|", page, re.MULTILINE)
    assert {name for name, _ in rows} == set(signature(described).parameters) - {"encoder"}
    for name, value in rows:
        if name != "cut":  # of encoders alone that are spread over several processes
            described(with_task, **{name: literal_eval(value)})

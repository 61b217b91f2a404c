"""A question is asked in words, and what they stand for is looked up once."""

import json
from pathlib import Path

import pytest
import torch

from conformance_tests.harness.question import Question
from conformance_tests.reports.report import Level
from encoder_spec.notation import SpecificationError
from encoder_spec.profiles import BERT


@pytest.mark.parametrize(
    ("words", "declared"),
    [({}, None), ({"profile": "auto"}, None), ({"profile": "bert"}, BERT), ({"profile": BERT}, BERT)],
)
def test_profile_is_declared_by_name_or_as_it_is(words: dict[str, object], declared: object) -> None:
    assert Question(**words).declared is declared  # type: ignore[arg-type]


def test_what_is_not_said_has_the_documented_default() -> None:
    """The strongest evidence, seed 0, the best precision on the CPU, no known failures, with an explanation."""
    asked = Question()
    assert (asked.strongest, asked.seed, asked.known_failures, asked.explain) == (Level.GRADIENT, 0, (), True)
    assert (asked.precision.dtype, asked.precision.device) == (None, "cpu")


def test_dtype_and_level_are_looked_up_by_name() -> None:
    asked = Question(dtype="bfloat16", level="black-box")
    assert (asked.precision.dtype, asked.strongest) == (torch.bfloat16, Level.BLACK_BOX)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"profile": "brt"}, "brt"),
        ({"dtype": "int8"}, "there is no dtype 'int8' here"),
        ({"device": "meta"}, "there is no device 'meta' here"),
        ({"expected": {"ATT-99": "a reason"}}, "there is no requirement 'ATT-99'"),
        ({"expected": "absent.toml"}, "absent.toml: No such file"),
    ],
)
def test_question_that_cannot_be_asked_is_refused_with_the_word_that_is_wrong(
    words: dict[str, object], said: str
) -> None:
    with pytest.raises(SpecificationError, match=said):
        Question(**words).demand_usable()  # type: ignore[arg-type]


def test_question_travels_as_json_and_comes_back_equal(tmp_path: Path) -> None:
    """A path is the only part of a command line that JSON cannot hold."""
    asked = Question("bert", "trace", 7, tmp_path / "known.toml", "float32", "cpu", explain=False)
    came = Question(**json.loads(json.dumps(asked.in_words())))
    assert came == Question("bert", "trace", 7, str(tmp_path / "known.toml"), "float32", "cpu", explain=False)

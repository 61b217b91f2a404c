"""What tests are told again without judging again: just what the same sources, test and question gave before."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conformance_tests.meta_tests import judgements
from conformance_tests.meta_tests.judgements import Judgements, fingerprint, sources
from conformance_tests.reports.report import Report, Result, TargetReport


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is judged indeed; each time with one more note."""
    made: list[Any] = []

    def check(target: Any, **question: Any) -> Report:
        made.append((target, question))
        result = Result("ATT-3", "attention.scores", "test", "trace", "pass", error=1e-13, budget=2e-12)
        return Report(0, [TargetReport("theirs", "conformant", requirements=[result], notes=[str(len(made))])])

    monkeypatch.setattr(judgements, "check", check)
    monkeypatch.setattr(judgements, "KEPT", tmp_path)
    return made


def told(*test: str) -> Callable[..., list[str]]:
    judge = Judgements(*test)
    return lambda **question: judge("encoder", **question).notes


def test_same_test_is_told_what_it_was_told_before(calls: list[Any]) -> None:
    """The whole report comes back, and nothing is judged again."""
    first, again = Judgements("id", "text")("encoder", seed=3), Judgements("id", "text")("encoder", seed=3)
    assert first == again
    assert calls == [("encoder", {"seed": 3})]


@pytest.mark.parametrize(
    ("test", "question"), [(("other", "text"), {}), (("id", "changed"), {}), (("id", "text"), {"seed": 1})]
)
def test_another_test_text_or_question_is_judged_anew(
    test: tuple[str, str], question: dict[str, Any], calls: list[Any]
) -> None:
    told("id", "text")()
    assert told(*test)(**question) == ["2"]
    assert len(calls) == 2


def test_second_judgement_of_a_test_is_not_the_first(calls: list[Any]) -> None:
    """Two encoders may differ in what no question shows: the order in which a test asks tells them apart."""
    judge = told("id", "text")
    assert (judge(), judge()) == (["1"], ["2"])
    assert told("id", "text")() == ["1"]


def test_encoder_with_a_name_is_judged_once_for_all_tests(calls: list[Any]) -> None:
    """Whichever test asks, and whether it says what is asked in any case; another name or question is another."""
    one, other = Judgements("one", "text"), Judgements("other", "words")
    assert one("encoder", known_as="plain").notes == ["1"]
    assert other("encoder", known_as="plain", seed=0, explain=True).notes == ["1"]
    assert other("encoder", known_as="plain", explain=False).notes == ["2"]
    assert other("encoder", known_as="gated").notes == ["3"]
    assert other("encoder").notes == ["4"]
    assert calls == [("encoder", {}), ("encoder", {"explain": False}), ("encoder", {}), ("encoder", {})]


def test_other_sources_forget_everything(calls: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was judged of sources that are gone is deleted, and never found."""
    told("id", "text")()
    monkeypatch.setattr(judgements, "fingerprint", lambda: "another")
    assert told("id", "text")() == ["2"]
    assert [folder.name for folder in tmp_path.iterdir()] == ["another"]
    assert len(calls) == 2


def test_fingerprint_sees_the_code_and_not_the_tests() -> None:
    """An equation, a room, a deviation and an encoder of the zoo count; a file of tests is part of its own key."""
    names = {file.relative_to(judgements.ROOT).as_posix() for file in sources()}
    assert {
        "encoder_spec/attention.py",
        "conformance_tests/test_attention.py",
        "conformance_tests/engine/judging.py",
        "conformance_tests/deviations/attention.py",
        "conformance_tests/meta_tests/encoders/plain.py",
    } <= names
    assert not {name for name in names if "/meta_tests/" in name and "/test_" in name}
    assert len(fingerprint()) == 16

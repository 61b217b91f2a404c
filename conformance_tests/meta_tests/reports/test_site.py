"""Reports point to the site where somebody has said where it stands."""

from pathlib import Path

import pytest

from conformance_tests.engine.judging import check
from conformance_tests.meta_tests.encoders.example import scaled_by_model_width
from conformance_tests.reports import written
from conformance_tests.reports.html import web
from conformance_tests.reports.printed import PrintedReport
from conformance_tests.reports.report import Result
from conformance_tests.reports.site import of_note, of_requirement

RESULT = Result("ATT-3", "attention.scores", "test", "trace", "fail")


def test_without_an_address_the_command_and_the_page_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ENCODER_SPEC_SITE", raising=False)
    assert of_requirement(RESULT).address == ""
    assert str(of_requirement(RESULT)) == "encoder-spec requirements ATT-3 (on the site: attention.html#ATT-3)"


@pytest.mark.parametrize("site", ["https://example.org/book", "https://example.org/book/"])
def test_with_an_address_the_page_is_linked(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One slash between the two, whether the address ends with one or not."""
    monkeypatch.setenv("ENCODER_SPEC_SITE", site)
    place = of_requirement(RESULT)
    assert place.address == str(place) == "https://example.org/book/attention.html#ATT-3"


def test_a_folder_is_the_address_of_a_copy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ENCODER_SPEC_SITE", str(tmp_path))
    assert of_requirement(RESULT).address == f"{tmp_path.as_uri()}/attention.html#ATT-3"


def test_the_environment_goes_before_the_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty in the environment means that there is none."""
    monkeypatch.setattr("conformance_tests.reports.site.SITE", "https://here.org")
    monkeypatch.delenv("ENCODER_SPEC_SITE", raising=False)
    assert of_requirement(RESULT).address == "https://here.org/attention.html#ATT-3"
    monkeypatch.setenv("ENCODER_SPEC_SITE", "")
    assert of_requirement(RESULT).address == ""


@pytest.mark.parametrize(
    ("note", "page"),
    [
        ("no published profile; the nearest is bert, which differs in eps 1e-05 (there 1e-12)", "profiles.html#bert"),
        ("all layers start with the same weights", "test-your-encoder.html#what-the-notes-mean"),
    ],
)
def test_a_note_is_explained_with_its_profile_or_among_the_notes(note: str, page: str) -> None:
    assert of_note(note).page == page


def test_every_failure_note_and_diagnosis_carries_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a broken encoder: in the terminal, on the page and in the file for CI."""
    monkeypatch.setenv("ENCODER_SPEC_SITE", "https://example.org")
    report = check(scaled_by_model_width)
    (target,) = report.targets
    assert isinstance(report, PrintedReport)
    pages = {r.page for r in target.of("fail")} | {of_note(note).page for note in target.notes}
    pages |= {"attention.html#attention.scores", "wrong-attention.html#scores-scaled-by-d-model"}
    assert len(pages) >= 5
    for text in (str(report), written(report, "html"), written(report, "junit"), written(report, "markdown")):
        flat = "".join(text.split())
        assert [page for page in pages if f"https://example.org/{page}" not in flat] == []


@pytest.mark.parametrize(
    ("link", "is_web"),
    [("https://a", True), ("http://a", True), ("ftp://a", False), ("x https://a", False), ("", False)],
)
def test_only_web_addresses_are_links(link: str, is_web: bool) -> None:
    assert web(link) == is_web

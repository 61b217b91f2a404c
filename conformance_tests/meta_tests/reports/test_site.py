"""Reports point to the site where somebody has said where it stands."""

import pytest

from conformance_tests.reports.html import web
from conformance_tests.reports.report import Result
from conformance_tests.reports.site import address, explanation

RESULT = Result("ATT-3", "attention.scores", "test", "trace", "fail")


def test_without_an_address_the_command_and_the_page_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ENCODER_SPEC_SITE", raising=False)
    assert address(RESULT) == ""
    assert explanation(RESULT) == "encoder-spec requirements ATT-3 (on the site: attention.html#ATT-3)"


@pytest.mark.parametrize("site", ["https://example.org/book", "https://example.org/book/"])
def test_with_an_address_the_page_is_linked(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One slash between the two, whether the address ends with one or not."""
    monkeypatch.setenv("ENCODER_SPEC_SITE", site)
    assert address(RESULT) == explanation(RESULT) == "https://example.org/book/attention.html#ATT-3"


def test_the_environment_goes_before_the_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty in the environment means that there is none."""
    monkeypatch.setattr("conformance_tests.reports.site.SITE", "https://here.org")
    monkeypatch.delenv("ENCODER_SPEC_SITE", raising=False)
    assert address(RESULT) == "https://here.org/attention.html#ATT-3"
    monkeypatch.setenv("ENCODER_SPEC_SITE", "")
    assert address(RESULT) == ""


@pytest.mark.parametrize(
    ("link", "is_web"),
    [("https://a", True), ("http://a", True), ("ftp://a", False), ("x https://a", False), ("", False)],
)
def test_only_web_addresses_are_links(link: str, is_web: bool) -> None:
    assert web(link) == is_web

"""The reports that people read: the HTML page, Markdown, and what a terminal shows of hostile text."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files

import pytest
from click.testing import CliRunner
from markdown_it import MarkdownIt

from conformance_tests.engine.judging import check
from conformance_tests.frontends.command_line import main
from conformance_tests.meta_tests.reports.hostile import HOSTILE, SHOWN, report_saying
from conformance_tests.meta_tests.reports.test_report_files import luminance
from conformance_tests.reports import written
from conformance_tests.reports.report import Report
from encoder_spec.equation import requirements

CSS = (files("conformance_tests.reports") / "templates" / "report.css").read_text(encoding="utf-8")
VOID = {"meta", "link", "img", "br", "hr", "input"}


class Page(HTMLParser):
    """The elements of a page with their attributes, whether they are nested rightly, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def shape(self) -> list[tuple[str, list[str]]]:
        """Tags and names of attributes."""
        return [(tag, list(attributes)) for tag, attributes in self.elements]

    def values(self, attribute: str) -> list[str]:
        """All values of an attribute."""
        return [a[attribute] or "" for _, a in self.elements if attribute in a]


@pytest.mark.parametrize("kind", HOSTILE)
def test_page_has_the_same_elements_whatever_a_subject_says(kind: str) -> None:
    """Tags and attributes are those of a harmless text's page, everything is closed, and the text can be read."""
    page, plain = (Page(written(report_saying(text), "html")) for text in (HOSTILE[kind], "plain"))
    assert page.open == []
    assert page.shape == plain.shape
    assert page.values("href") == plain.values("href")
    assert SHOWN[kind] + " " in page.texts, kind


def test_page_needs_nothing_from_elsewhere() -> None:
    """No script, image, style sheet or frame; every link stays on the page; the browser is told to load nothing."""
    html = written(report_saying("https://example.org/ url(https://example.org) @import"), "html")
    page = Page(html)
    assert {tag for tag, _ in page.elements} & {"script", "link", "img", "iframe", "object", "svg"} == set()
    assert not [name for _, names in page.shape for name in names if name.startswith("on") or name in ("src", "style")]
    assert "default-src 'none'; style-src 'unsafe-inline'" in page.values("content")
    assert "url(" not in CSS
    assert "@import" not in CSS


@pytest.mark.parametrize(
    ("link", "linked"),
    [
        ("https://example.org/?a=1&b='2'", True),
        ("http://example.org", True),
        ("javascript:alert(1)", False),
        ("JavaScript:alert(1)", False),
        ("data:text/html,x", False),
        ("issue 7", False),
    ],
)
def test_link_of_an_expected_failure_is_a_link_only_to_the_web(link: str, linked: bool) -> None:
    """Whatever else it says is shown as text."""
    report = report_saying("plain")
    target = report.targets[0]
    report.targets[0] = replace(target, requirements=[replace(r, link=link) for r in target.requirements])
    page = Page(written(report, "html"))
    assert (link in page.values("href")) == linked
    assert link in " ".join(page.texts)


def test_page_begins_with_the_verdict_and_what_fails() -> None:
    """Overview and verdict, then where it departs, then failures (ATT-3 first), expected ones, then everything."""
    text = " ".join(" ".join(Page(written(report_saying("said"), "html")).texts).split())
    parts = [
        "0 of 2 conformant",
        "said nonconformant At least one requirement is not met",
        "It departs from the specification at attention.scores",
        "Profile said",
        "Note said",
        "Not met fail ATT-3 attention.scores · Scaled scores",
        "xpass ATT-9",
        "error NORM-1",
        "Expected failures xfail ATT-6",
        "Not decided",
        "Every requirement attention fail 1 of 6 met",
        "said error The suite could not finish judging it",
        "What the words mean",
    ]
    places = [text.find(part) for part in parts]
    assert -1 not in places, dict(zip(parts, places, strict=True))
    assert places == sorted(places)


@pytest.fixture(scope="module")
def broken() -> Report:
    """A real failure: torch's Post-LN encoder judged as Pre-LN."""
    return check("torch-post-ln", profile="torch-pre-ln", seed=3)


@pytest.mark.parametrize("form", ["html", "markdown"])
def test_failure_carries_all_that_a_reader_needs(form: str, broken: Report) -> None:
    """Requirement, equation, statement, message with shape and seed, the command to repeat it, and where to read on."""
    html = written(broken, form)
    if form == "markdown":
        html = MarkdownIt("commonmark").enable("table").render(html)
    text = " ".join("".join(Page(html).texts).split())
    assert broken.targets[0].of("fail")
    for r in broken.targets[0].of("fail"):
        told = (r.id, r.equation, requirements()[r.id].statement, r.message, r.repro, r.page)
        assert [part for part in told if " ".join(part.split()) not in text] == []
    assert "encoder-spec check torch-post-ln --profile torch-pre-ln --seed 3" in text


@pytest.mark.parametrize("form", ["html", "markdown", "junit"])
def test_failures_link_to_the_site_once_somebody_says_where_it_is(
    form: str, broken: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By default no address is made up; with one, each failure points to its requirement."""
    address = "https://spec.example.org/book/encoder.html#ENC-17"
    assert broken.targets[0].of("fail")[0].page == "encoder.html#ENC-17"
    assert "//spec.example.org" not in written(broken, form)
    monkeypatch.setenv("ENCODER_SPEC_SITE", "https://spec.example.org/book/")
    assert address in written(broken, form)


def test_colours_of_the_page_can_be_read_in_both_schemes() -> None:
    """Every text on every ground it stands on has a contrast of at least 4.5:1, as WCAG 2 level AA asks."""
    light, dark = CSS.split("@media (prefers-color-scheme: dark)")
    for scheme in (light, dark.split("@media")[0]):
        colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{3,6});", scheme))
        pairs = [(text, ground) for text in ("text", "quiet", "link") for ground in ("paper", "raised")]
        for text, ground in [*pairs, *((name, f"{name}-paper") for name in ("good", "bad", "open"))]:
            dim, bright = sorted((luminance(colours[text]), luminance(colours[ground])))
            assert (bright + 0.05) / (dim + 0.05) >= 4.5, (text, ground)


def markdown_shape(text: str) -> list[tuple[str, str]]:
    """Every element that a Markdown reader sees, but for the text in it."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    inline = [child for token in tokens for child in token.children or []]
    return [(t.type, t.tag) for t in [*tokens, *inline] if t.type not in ("text", "text_special", "softbreak")]


@pytest.mark.parametrize("kind", HOSTILE)
def test_markdown_has_the_same_elements_whatever_a_subject_says(kind: str) -> None:
    """No heading, table cell, link or HTML comes from a subject's text, and its name can be read."""
    report, plain = (written(report_saying(text), "markdown") for text in (HOSTILE[kind], "plain"))
    assert markdown_shape(report) == markdown_shape(plain)
    html = MarkdownIt("commonmark").enable("table").render(report)
    names = [text for text in Page(html).texts if text.strip() == SHOWN[kind].strip()]
    assert len(names) >= 4


@pytest.mark.parametrize("kind", HOSTILE)
def test_terminal_shows_any_text_without_obeying_it(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit status and report as with any name; no escape sequence and no other control character gets through."""
    monkeypatch.setattr("conformance_tests.engine.judging.check_all", lambda *_: report_saying(HOSTILE[kind]))
    monkeypatch.setattr("conformance_tests.reports.terminal.by_topic", lambda _: "")
    result = CliRunner().invoke(main, ["check", "torch-post-ln", "--in-process"])
    assert result.exit_code == 1, result.output
    assert [c for c in result.stdout if not c.isprintable() and c != "\n"] == []
    assert SHOWN[kind] in result.stdout

"""Markdown's own escapes, one by one: each text is read back as it was by a Markdown reader."""

import pytest
from markdown_it import MarkdownIt

from conformance_tests.reports.markdown import cell, code, fenced, longest_run, prose

READER = MarkdownIt("commonmark").enable("table")


@pytest.mark.parametrize(("text", "length"), [("", 0), ("a", 0), ("`", 1), ("a``b`", 2), ("```x````", 4)])
def test_the_longest_run_of_backticks_is_measured(text: str, length: int) -> None:
    assert longest_run(text) == length


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("a", "`a`"),
        ("a`b", "``a`b``"),
        ("`a", "`` `a ``"),
        ("a`", "`` a` ``"),
        (" a", "`  a `"),
        ("a ", "` a  `"),
        ("a ``` b", "````a ``` b````"),
        ("", ""),
        ("   ", ""),
    ],
)
def test_a_code_span_shows_its_text_as_it_is(text: str, span: str) -> None:
    """Its fence is one longer than any run inside, with a space where the text begins or ends with one or a space."""
    assert code(text) == span
    if span:
        (inline,) = READER.parseInline(span)
        assert [(t.type, t.content) for t in inline.children or []] == [("code_inline", text)]


def test_a_bar_does_not_end_a_cell() -> None:
    """GitHub's tables take a bar behind a backslash for a bar, in code spans too."""
    assert cell("a|b|c") == r"`a\|b\|c`"
    assert cell("a") == "`a`"


@pytest.mark.parametrize(
    ("text", "fence"), [("a\nb", "```"), ("a`` b", "```"), ("```\na", "````"), ("`````", "``````")]
)
def test_a_block_of_code_has_a_fence_longer_than_any_inside(text: str, fence: str) -> None:
    """Of three backticks at least."""
    assert fenced(text) == f"{fence}text\n{text}\n{fence}"
    assert [(t.type, t.content) for t in READER.parse(fenced(text))] == [("fence", text + "\n")]


@pytest.mark.parametrize(
    "text",
    [
        "*a* _b_ `c` <d> [e](f) | #g ~h~ &amp; !i @j \\k",
        "# no heading",
        "- no item",
        "+ no item",
        "12. no item",
        "7) no item",
        "= no heading",
        ". point",
        "plain: 3.5 - 2 = 1.5",
        "https://example.org/a_b",
    ],
)
def test_nothing_in_prose_is_markup(text: str) -> None:
    """A reader finds one paragraph with this very text."""
    tokens = READER.parse(prose(text))
    assert [t.type for t in tokens] == ["paragraph_open", "inline", "paragraph_close"]
    inside = tokens[1].children or []
    assert {t.type for t in inside} <= {"text", "text_special"}
    assert "".join(t.content for t in inside) == text


def test_prose_has_one_line() -> None:
    """Spaces and line ends between words become single spaces."""
    assert prose("  a\n b\t\tc ") == "a b c"


@pytest.mark.parametrize(
    ("text", "escaped"),
    [("1. a", r"1\. a"), ("-a", r"\-a"), ("a-b 1.", "a-b 1."), ("2+2", r"2\+2"), ("a@b", r"a\@b")],
)
def test_prose_escapes_a_list_only_at_the_beginning(text: str, escaped: str) -> None:
    assert prose(text) == escaped

"""The lint of the words finds what it should and lets good sentences pass; nothing in scope is left to mend."""

import ast
from pathlib import Path

import click
import pytest

from conformance_tests.meta_tests import prose
from conformance_tests.meta_tests.prose import (
    CODE,
    EXEMPT,
    ON_FILE,
    PAGES,
    ROOT,
    findings,
    first_words,
    help_texts,
    long_sentences,
    names,
    of_code,
    phrases,
    sentences,
)

BANNED = {
    "The softmax makes of each row a distribution.": "makes of",
    "'torch-post-lnn' is no built-in encoder": "is no",
    "These are no weights.": "are no",
    "At the end the norm is at last applied.": "at last",
    "a γ that is stored less 1": "less 1",
    "It runs in a process of its own.": "of its own",
    "An array for whoever wants it.": "whoever",
    "Passing there acquits of none of these.": "acquits",
    "The fault is laid at the norm.": "laid at",
    "It is everywhere unless given.": "unless given",
    "It tells whether the code is right.": "tells whether",
    "A deviation that is judged freely.": "judged freely",
    "Several heads look at once.": "Several heads",
    "All doors call the same function.": "doors",
    "A part without parameters shows in nothing but the outputs.": "shows in nothing but",
    "Its outputs agree with no choice.": "agree with no",
    "It is one of which something is not known.": "of which something",
    "`encoder-spec identify` says which it is.": "`encoder-spec identify` says",
    "It is what it really computes.": "really",
}

GOOD = (
    "The softmax turns each row of scores into a distribution.",
    "If there is no mask, each position is valid. There are no others.",
    "The sum is no longer exact, and the error is no more than 1.",
    "Report what happened at the last layer.",
    "At least 1 of them, or less than 1.5, or less 1e-5.",
    "The two are told apart by their shapes; nobody can tell them apart otherwise.",
    "It tells you whether your code computes the published equations.",
    "An indoor-outdoor model: `outdoors`.",
    "`encoder-spec identify` prints the variant.",
)


@pytest.mark.parametrize(("sentence", "words"), BANNED.items())
def test_banned_phrase_is_found(sentence: str, words: str) -> None:
    """Each sentence holds one phrase and no other."""
    (finding,) = phrases(sentence)
    assert finding.text.startswith(f"'{words}': write ")


@pytest.mark.parametrize("sentence", GOOD)
def test_good_sentence_passes(sentence: str) -> None:
    """Words that look like a banned phrase are none."""
    assert list(phrases(sentence)) == []


def test_phrase_is_found_where_a_line_breaks_within_it() -> None:
    """In a comment, a number sign stands at the beginning of the second line."""
    assert [f.line for f in phrases("x = 1\n# in a process of\n    # its own\n")] == [2]


@pytest.mark.parametrize("opening", ["What", "Which", "Whether", "How", "The same"])
@pytest.mark.parametrize("place", ['"""{} it is."""', 'class A:\n    """{} it is."""', 'def a():\n    """{} it is."""'])
def test_docstring_that_begins_with_a_question_is_found(opening: str, place: str) -> None:
    """In modules, classes and functions alike."""
    (finding,) = first_words(ast.parse(place.format(opening)))
    assert f"begins with '{opening}'" in finding.text
    assert finding.line == 1 + place.count("\n")


def test_docstring_that_begins_with_a_verb_passes() -> None:
    """Also where a question follows, and where a word begins like one."""
    assert list(first_words(ast.parse('def a():\n    """Return what it is."""'))) == []
    assert list(first_words(ast.parse('"""However many there are."""'))) == []


def test_property_may_begin_with_a_noun_and_a_function_may_not() -> None:
    """A property is a thing; ruff takes 'Every' for a verb."""
    source = '{}def a(self):\n    """Every weight."""'
    assert [f.line for f in first_words(ast.parse(source.format("")))] == [2]
    assert list(first_words(ast.parse(source.format("@cached_property\n")))) == []


def test_function_with_an_empty_name_is_found() -> None:
    """A longer name that says more passes."""
    source = "def told(): ...\ndef _found(): ...\ndef norms_outside(): ...\n"
    assert [(f.line, f.text.split(":")[0]) for f in names(ast.parse(source))] == [
        (1, "a function is named 'told'"),
        (2, "a function is named '_found'"),
    ]


def test_sentences_of_a_page_have_their_lines() -> None:
    """Headings, items and cells are sentences; fences are not, and the dot of a path ends none."""
    page = (
        "# Title\n\nOne. Two\ngoes on. See [it](a.md)\n\n```\ncode. here\n```\n\n"
        "- Read `a.b c`. Then\n\n| A | B |\n|---|---|\n| c | d |\n"
    )
    assert list(sentences(page)) == [
        (1, "Title"),
        (3, "One."),
        (3, "Two\ngoes on."),
        (4, "See it"),
        (10, "Read `code`."),
        (10, "Then"),
        (12, "A"),
        (12, "B"),
        (14, "c"),
        (14, "d"),
    ]


@pytest.mark.parametrize(("count", "found"), [(25, 0), (26, 1)])
def test_a_sentence_has_at_most_25_words(count: int, found: int) -> None:
    """A name with a hyphen, a dot or an apostrophe is one word; a dash is none."""
    sentence = " ".join(["self-attention", "0.5", "–", *["word"] * (count - 3), "it's"]) + "."
    assert len(list(long_sentences(f"# A\n\n{sentence}\n"))) == found


def test_a_sentence_has_at_most_one_semicolon() -> None:
    """The finding stands at the line where the sentence begins."""
    assert [f.line for f in long_sentences("One; two.\nOne; two; three.\n")] == [2]


@pytest.mark.parametrize("text", ["Of probes and weights.", "Where to judge.", "The profile; auto unless given."])
def test_help_that_makes_no_sense_alone_is_found(text: str) -> None:
    """At whatever depth of commands the option is."""
    inner = click.Command("check", params=[click.Option(["--seed"], help=text)], help="Judge encoders.")
    (finding,) = help_texts(click.Group("encoder-spec", {"check": inner}, help="Judge and list."), "encoder-spec")
    assert finding.startswith("encoder-spec check --seed: ")


def test_help_that_is_a_whole_phrase_passes() -> None:
    """It makes sense alone."""
    option = click.Option(["--seed"], help="Seed for probes and weights.")
    assert list(help_texts(click.Command("check", params=[option], help="Judge encoders."), "check")) == []


def test_scope_exists_and_each_room_is_in_it_or_exempt() -> None:
    """A room that is renamed or added must be listed."""
    assert [place for place in (*CODE, *PAGES) if not (ROOT / place).exists()] == []
    rooms = {init.parent.name for init in (ROOT / "conformance_tests").glob("*/__init__.py")}
    in_scope = {place.split("/")[1] for place in CODE if place.startswith("conformance_tests/")}
    assert rooms == {name for name in in_scope if not name.endswith(".py")} | set(EXEMPT)
    assert in_scope.isdisjoint(EXEMPT)


def test_messages_on_file_are_still_in_use() -> None:
    """One that nobody prints any more must leave the list."""
    files = {file for place in CODE for file in ((ROOT / place).rglob("*.py") if "." not in place else [ROOT / place])}
    texts = [file.read_text(encoding="utf-8") for file in files]
    assert [sum(message in text for text in texts) for message in ON_FILE] == [1] * len(ON_FILE)


def test_message_on_file_may_stay_and_the_rest_of_its_file_is_read(tmp_path: Path) -> None:
    """The phrase in the message passes, and the one beside it is found at its line."""
    file = tmp_path / "notes.py"
    file.write_text(f'NOTE = "{ON_FILE[0]}"\nOTHER = "a part of its own"\n', encoding="utf-8")
    assert [(f.line, f.text.split(":")[0]) for f in of_code(file)] == [(2, "'of its own'")]


def test_ruff_is_asked_for_verbs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One docstring of two begins with an article."""
    source = 'def a():\n    """The sum."""\n\n\ndef b():\n    """Return the sum."""\n'
    (tmp_path / "sums.py").write_text(source, encoding="utf-8")
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    monkeypatch.setattr(prose, "CODE", ("sums.py",))
    (finding,) = prose.missing_verbs()
    assert finding.startswith("sums.py:2: First line of docstring should be in imperative mood")


def test_nothing_in_scope_is_left_to_mend() -> None:
    """As ``make lint`` says, line by line."""
    assert list(findings()) == []

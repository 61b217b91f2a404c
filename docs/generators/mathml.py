"""Formulas as MathML, rendered when the site is built.

KaTeX does the work, inside the ``pykatex`` wheel. What it emits is then mended for
browsers, which implement MathML Core: no ``columnalign``, no ``mathvariant`` but
``normal``, and one ``mi`` for each letter of a word.
"""

import unicodedata
from collections.abc import Iterable
from functools import cache
from itertools import pairwise
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pykatex

from generators.problems import FormulaError

NAMESPACE = "http://www.w3.org/1998/Math/MathML"
FUNCTION_APPLICATION = "\N{FUNCTION APPLICATION}"
ElementTree.register_namespace("", NAMESPACE)

# How Unicode names the letters of an alphabet, and those that it has under older names.
ALPHABETS = {"double-struck": "DOUBLE-STRUCK", "script": "SCRIPT", "bold": "BOLD", "fraktur": "FRAKTUR"}
LETTERS = {"double-struck": "CNPQRZHℂℕℙℚℝℤℍ", "script": "BEFHILMRegoℬℰℱℋℐℒℳℛℯℊℴ", "fraktur": "CHIRZℭℌℑℜℨ"}


@cache
def render(latex: str, *, display: bool = False) -> str:
    """The ``<math>`` element of a formula.

    Raises:
        FormulaError: if KaTeX does not understand the LaTeX.
    """
    try:
        html = pykatex.renderToString(latex, displayMode=display, output=pykatex.OUTPUT_MATHML, throwOnError=True)
    except pykatex.ParseError as problem:
        raise FormulaError(f"{problem}\nin the formula {latex}") from None
    root = ElementTree.fromstring(html)
    math = next(root.iter(tag("math")))
    math[:] = [math[0][0]]  # <semantics> holds the formula, then its LaTeX
    for element in list(math.iter()):
        merge_words(element)
        space_arguments(element)
        replace_variant(element)
        align_columns(element)
    return ElementTree.tostring(math, encoding="unicode", short_empty_elements=False)


def tag(name: str) -> str:
    """The name of a MathML element, as ElementTree writes it."""
    return f"{{{NAMESPACE}}}{name}"


def is_upright_letter(element: Element) -> bool:
    """Whether the element is one letter of a word such as Dropout."""
    upright = element.tag == tag("mi") and element.get("mathvariant") == "normal"
    return upright and (element.text or "").isalpha() and (element.text or "").isascii()


def merge_words(row: Element) -> None:
    """Make one identifier of a row of upright letters: browsers kern it, screen readers say it."""
    letters = list(row)
    if row.tag == tag("mrow") and len(letters) > 1 and all(map(is_upright_letter, letters)):
        word = Element(tag("mi"))
        word.text = "".join(letter.text or "" for letter in letters)
        row[:] = [word]


def space_arguments(row: Element) -> None:
    """Set a function apart from an argument without parentheses: exp S, not expS."""
    for application, argument in pairwise(row):
        if application.text == FUNCTION_APPLICATION and argument.tag not in (tag("mo"), tag("mspace")):
            application.set("rspace", "0.1667em")


def replace_variant(element: Element) -> None:
    """Replace a styled letter by its own code point."""
    variant = element.get("mathvariant", "normal")
    if variant != "normal":
        element.text = "".join(styled(letter, variant) for letter in element.text or "")
        del element.attrib["mathvariant"]


def styled(letter: str, variant: str) -> str:
    """The code point of a letter in another alphabet: ``styled("R", "double-struck")`` is ℝ."""
    older = LETTERS.get(variant, "")
    if letter in older:
        return older[older.index(letter) + len(older) // 2]
    case = "CAPITAL" if letter.isupper() else "SMALL"
    try:
        return unicodedata.lookup(f"MATHEMATICAL {ALPHABETS[variant]} {case} {letter.upper()}")
    except KeyError:
        raise FormulaError(f"{letter!r} has no {variant} form") from None


def align_columns(table: Element) -> None:
    """Move the alignment of columns into the cells."""
    columns = table.attrib.pop("columnalign", "").split()
    gap = table.attrib.pop("columnspacing", "0em")
    height = table.attrib.pop("rowspacing", "0em")
    for row in table if columns else ():
        for j, (cell, side) in enumerate(zip(row, columns, strict=False)):
            before = gap if j else "0"
            cell.set("style", f"text-align: {side}; padding: calc({height} / 2) 0 calc({height} / 2) {before}")


def product(factors: Iterable[str]) -> str:
    """The LaTeX of a shape: its axes joined by ×."""
    return r" \times ".join(factors)

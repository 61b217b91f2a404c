"""What a formula and its code have in common: letters that light each other up.

A letter of the formula belongs to the identifier that the code has for it. Both are
marked with ``data-symbol`` when the site is built; ``javascripts/symbols.js`` does no more
than light up what carries the same mark on the same card.
"""

import re
import unicodedata
from collections.abc import Collection, Iterator
from html import escape, unescape
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from generators.mathml import tag

# What formulas write otherwise than code: a letter is tried under these names after its own.
ALSO = {
    "epsilon": ("eps",),
    "sigma^2": ("var",),
    "sigma": ("activation", "activation_token", "var"),
    "s^2": ("var",),
    "x": ("tokens",),
    "S": ("scores",),
    "max": ("clamp",),
    "softmax": ("weights",),
    "head": ("heads",),
    "Layer_l": ("layer",),
    "MHA": ("multihead",),
    "Embed": ("embedding",),
    "Scale": ("embedding_scale",),
    "Concat": ("merge", "concat"),
    "LN": ("norm_final", "norm_embedding", "norm_token", "norm_feature", "norm_head", "norm"),
    "LN_1": ("norm_1",),
    "LN_2": ("norm_2",),
    "LN_attention": ("norm_attention",),
    "LN_ffn": ("norm_ffn",),
    "Norm": ("final_norm", "embedding_norm"),
}
SCRIPTS = (tag("msub"), tag("msup"), tag("msubsup"))
NAME = re.compile(r'<span class="(n\w*|fm|vm)">([^<]+)</span>')


def names(code: str) -> set[str]:
    """The identifiers in highlighted code."""
    return {unescape(match[2]) for match in NAME.finditer(code)}


def mark_formula(math: str, known: Collection[str]) -> str:
    """The formula with each letter marked that ``known``, the identifiers of the code, has a name for."""
    root = ElementTree.fromstring(math)
    met: set[str] = set()
    for element, name in letters(root, known):
        element.set("data-symbol", name)
        if name not in met:
            element.set("tabindex", "0")
        met.add(name)
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=False)


def mark_code(code: str, known: Collection[str]) -> str:
    """Highlighted code with each identifier marked that ``known``, the letters of the formula, has."""
    met: set[str] = set()

    def marked(match: re.Match[str]) -> str:
        kind, name = match[1], unescape(match[2])
        if name not in known:
            return match[0]
        stop = "" if name in met else ' tabindex="0"'
        met.add(name)
        return f'<span class="{kind}" data-symbol="{escape(name)}"{stop}>{match[2]}</span>'

    return NAME.sub(marked, code)


def named(name: str) -> str:
    """An identifier in a table, which lights up with its letter."""
    return f'<code data-symbol="{escape(name)}">{escape(name)}</code>'


def marks(html: str) -> set[str]:
    """The names that are marked in it."""
    return set(re.findall(r'data-symbol="([^"]+)"', html))


def letters(element: Element, known: Collection[str]) -> Iterator[tuple[Element, str]]:
    """The letters of a formula that have a name in ``known``, outermost first."""
    if name := first_known(spellings(element), known):
        yield element, name
        return
    children = list(element)
    words = dict(spelled_out(children, known))
    for place, child in enumerate(children):
        if place not in words:
            yield from letters(child, known)
            continue
        base = child[0] if len(child) else child
        yield base, words[place]
        for script in list(child)[1:]:
            yield from letters(script, known)


def spelled_out(children: list[Element], known: Collection[str]) -> Iterator[tuple[int, str]]:
    """The places of single letters that are one name together, such as PE or pos."""
    text = "".join(single(child) or "\0" for child in children)
    for name in known:
        if len(name) > 1 and name.isalpha():
            for match in re.finditer(rf"(?<![A-Za-z]){name}(?![A-Za-z])", text):
                yield from ((place, name) for place in range(*match.span()))


def single(element: Element) -> str:
    """The one letter that an element shows, apart from its subscript."""
    base = element[0] if element.tag in SCRIPTS else element
    text = base.text or ""
    return text if base.tag == tag("mi") and len(text) == 1 and text.isascii() else ""


def spellings(element: Element) -> Iterator[str]:
    """How code may write a letter, most specific first: W with a subscript Q is W_Q."""
    if element.tag in SCRIPTS:
        base, *scripts = (flat(child) for child in element)
        for script in reversed(scripts):
            yield f"{base}_{script}"
            yield f"{base}^{script}"
    elif element.tag in (tag("mi"), tag("mtext")):
        yield flat(element)


def flat(element: Element) -> str:
    """The text of an element, letters of other alphabets by name: γ is gamma."""
    return "".join(map(latin, "".join(element.itertext())))


def latin(letter: str) -> str:
    """A Greek letter's name, any other letter itself."""
    name = unicodedata.name(letter, "")
    return name.split()[-1 if "SYMBOL" not in name else -2].lower() if name.startswith("GREEK") else letter


def first_known(spelled: Iterator[str], known: Collection[str]) -> str:
    """The first name that the code has, or none."""
    for name in spelled:
        for candidate in (name, name.lower(), *ALSO.get(name, ())):
            if candidate in known:
                return candidate
        own = [known_name for known_name in known if known_name.startswith(f"{name}_")]
        if name in ("W", "b") and len(own) == 1:  # the only map, or bias, of its code
            return own[0]
    return ""

"""The font of the formulas: the part of STIX Two Math that the built pages use.

The font comes with the ``ziamath`` wheel, under the SIL Open Font License.
"""

import re
from importlib.util import find_spec
from pathlib import Path

from fontTools import subset

# Browsers set a single-letter identifier in these italics by themselves.
LATIN = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
GREEK = "ΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡϴΣΤΥΦΧΨΩ∇αβγδεζηθικλμνξοπρςστυφχψω∂ϵϑϰϕϱϖ"
ITALIC = {letter: chr(0x1D434 + i) for i, letter in enumerate(LATIN)}
ITALIC |= {letter: chr(0x1D6E2 + i) for i, letter in enumerate(GREEK)}
ITALIC["h"] = "ℎ"


def characters(site: Path) -> set[str]:
    """Every character that a formula of the built site may show."""
    found = {"√"}  # an element draws it, no text
    for page in site.rglob("*.html"):
        for formula in re.findall(r"<math.*?</math>", page.read_text(encoding="utf-8"), re.DOTALL):
            found |= set(re.sub(r"<[^>]*>", "", formula))
    return found | {ITALIC[letter] for letter in found if letter in ITALIC}


def original() -> Path:
    """The whole font, where the wheel keeps it.

    Raises:
        FileNotFoundError: if ``ziamath`` is not installed.
    """
    spec = find_spec("ziamath")
    if spec is None or not spec.origin:
        raise FileNotFoundError("the font of the formulas comes with the package ziamath: pip install -e .[docs]")
    return Path(spec.origin).parent / "fonts" / "STIXTwoMath-Regular.ttf"


def write(site: Path) -> None:
    """Write ``fonts/math.woff`` into the built site."""
    options = subset.Options()
    options.flavor = "woff"
    options.layout_features = ["*"]
    options.name_IDs = ["*"]  # the name table holds the font's licence
    options.hinting = False
    font = subset.load_font(str(original()), options)
    subsetter = subset.Subsetter(options)
    subsetter.populate(text="".join(sorted(characters(site))))
    subsetter.subset(font)
    target = site / "fonts" / "math.woff"
    target.parent.mkdir(exist_ok=True)
    subset.save_font(font, str(target), options)

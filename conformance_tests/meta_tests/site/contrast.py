"""axe-core's judgement of a page: all rules on the whole page, contrast on one text of each kind.

To judge the contrast of every text takes axe seconds for a page of ten thousand elements, most of which look alike.
"""

from axe_playwright_python.base import AXE_SCRIPT
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

STANDARD = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
"""The rules of WCAG 2.0 to 2.2, levels A and AA."""

CONTRAST = "color-contrast"

CHOOSE = """
() => {
  const words = ["color", "fontSize", "fontWeight", "textShadow", "webkitTextFillColor", "webkitTextStroke"];
  const ground = ["backgroundColor", "backgroundImage", "backgroundClip", "opacity", "filter", "mixBlendMode"];
  const known = new Map();
  const behind = (e) => {
    if (!known.has(e)) {
      const style = getComputedStyle(e);
      known.set(e, ground.map((name) => style[name]).join());
    }
    return known.get(e);
  };
  const chains = new Map([[null, ""]]);
  const chain = (e) => {
    if (!chains.has(e)) chains.set(e, `${behind(e)} < ${chain(e.parentElement)}`);
    return chains.get(e);
  };
  const shown = [];
  for (const e of document.body.querySelectorAll("*")) {
    const text = [...e.childNodes].find((n) => n.nodeType === Node.TEXT_NODE && n.data.trim());
    if (!text && !e.matches("input, select, textarea")) continue;
    const range = document.createRange();
    range.selectNodeContents(text ?? e);
    const box = (text ? range : e).getClientRects()[0];
    if (box) shown.push([e, box.x + box.width / 2, box.y + box.height / 2 + scrollY]);
  }
  shown.sort((a, b) => a[2] - b[2]);
  for (const e of document.querySelectorAll("[data-exemplar]")) delete e.dataset.exemplar;
  const kinds = new Set();
  for (const [e, x, y] of shown) {
    if (y - scrollY > innerHeight * 0.75) scrollTo({ top: y - innerHeight / 4, behavior: "instant" });
    const style = getComputedStyle(e);
    const kind = [
      ...words.map((name) => style[name]),
      chain(e),
      ...document.elementsFromPoint(x, y - scrollY).map(behind),
    ].join("; ");
    if (!kinds.has(kind)) e.dataset.exemplar = "";
    kinds.add(kind);
  }
  scrollTo({ top: 0, behavior: "instant" });
  return [shown.length, kinds.size];
}
"""
"""Marks one text of each kind, and returns how many texts and how many kinds there are.

Texts are of one kind if they have one style, and if all that they stand in, and all that lies above or below their
middle, have the same backgrounds. Contrast depends on nothing else.
"""


def chosen(page: Page) -> tuple[int, int]:
    """Mark one text of each kind; return how many texts and how many kinds there are."""
    texts, kinds = page.evaluate(CHOOSE)
    return texts, kinds


EXEMPLARS = Axe(f"{AXE_SCRIPT}; axe.configure({{rules: [{{id: '{CONTRAST}', selector: '[data-exemplar]'}}]}})")
"""axe, which judges the contrast of marked texts alone, and every other rule on the whole page."""


def contrast(page: Page) -> str:
    """Report which kinds of text have too little contrast; empty if none has."""
    chosen(page)
    return reported(page, {"runOnly": [CONTRAST]}, EXEMPLARS)


def violations(page: Page) -> str:
    """Report which rules a page violates; empty if it violates none."""
    chosen(page)
    return reported(page, {"runOnly": {"type": "tag", "values": STANDARD}}, EXEMPLARS)


def reported(page: Page, options: dict[str, object], axe: Axe | None = None) -> str:
    """Run axe, and return its report; empty if it finds no violation."""
    results = (axe or Axe()).run(page, options=options | {"resultTypes": ["violations"], "preload": False})
    return str(results.generate_report()) if results.violations_count else ""

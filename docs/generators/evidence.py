"""What stands behind a requirement: its tests and its proof."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from conformance_tests.deviations import deviations
from conformance_tests.harness.checks import registry
from conformance_tests.quality.traceability import demonstrations_at_hand
from encoder_spec.equation import Equation, Requirement, requirements
from encoder_spec.proof import proofs
from generators import listing
from generators.html import anchor, code, deviation_link, folded, link, prose
from generators.problems import GapError
from generators.results import latest

MOST_CAUSES = 5
"""So many deviations are named that break a requirement."""


@dataclass(frozen=True)
class Test:
    """A test of one requirement: ``level`` is how strong its evidence about an encoder is."""

    name: str
    level: str
    function: Callable[..., Any]


@cache
def tests(requirement: str) -> tuple[Test, ...]:
    """The tests of a requirement, checks of an encoder first.

    Raises:
        GapError: if there is none.
    """
    demonstrations_at_hand()
    known = registry()
    checks = [Test(c.name, str(c.level), c.function) for c in known.checks.values() if requirement in c.requirements]
    shown = [
        Test(f"{function.__module__.rpartition('.')[2]}::{function.__name__}", "", function)
        for ids, function in known.demonstrations
        if requirement in ids
    ]
    if not checks and not shown:
        raise GapError(f"requirement {requirement} has no test")
    return (*checks, *shown)


def of(equation: Equation) -> list[Requirement]:
    """The requirements of an equation."""
    return [r for r in requirements().values() if r.equation == equation.id]


def item(requirement: Requirement) -> str:
    """A requirement with everything that supports it, folded."""
    blocks = [
        folded(f"<code>{t.name}</code> {badge(t)}", code(listing.whole(t.function))) for t in tests(requirement.id)
    ]
    if proof := proofs().get(requirement.id):
        source = code(listing.annotated(proof))
        blocks.append(folded('Proof <span class="badge proof" title="derived for symbols">SymPy</span>', source))
    blocks += causes(requirement.id)
    return (
        f'<li class="requirement">{anchor(requirement.id, requirement.id)}'
        f"<div><p>{prose(requirement.statement)}</p>{latest(requirement.id)}{''.join(blocks)}</div></li>"
    )


def causes(requirement: str) -> list[str]:
    """What usually breaks a requirement: the deviations that declare it, folded; each page shows the lines to mend."""
    usual = [d for d in deviations().values() if requirement in d.noticed_by]
    if not usual:
        return []
    items = "".join(f"<li>{deviation_link(d.id)} {prose(d.definition)}</li>" for d in usual[:MOST_CAUSES])
    rest = f"{len(usual) - MOST_CAUSES} more are in the mutation matrix"
    more = f"<li>{link(f'kill-matrix.html?requirement={requirement}', rest)}</li>" if len(usual) > MOST_CAUSES else ""
    said = "Begin with the line that your report names, or compare yours with the implementation above."
    return [folded("If it fails: what usually causes it", f"<p>{said}</p><ul>{items}{more}</ul>")]


def badge(test: Test) -> str:
    """What kind of evidence a test gives."""
    if test.level:
        title = "decides it for an encoder, by evidence of this level"
        return f'<span class="badge level" title="{title}">{test.level}</span>'
    return '<span class="badge" title="shows it on the specification itself">specification</span>'

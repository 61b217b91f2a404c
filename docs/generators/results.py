"""What came of the tests of a requirement last: on encoders of others, and on the deviations."""

from collections import Counter
from functools import cache
from html import escape

from conformance_tests.quality import kill_matrix
from generators.encoders import Judged, judged
from generators.html import link

MOST_NAMED = 3
"""So many encoders that fail are named; of more, the number."""


def latest(requirement: str) -> str:
    """How many encoders meet a requirement, which fail it, and how many deviations it notices; empty if none did."""
    outcomes = Counter(outcome for _, outcome in decisions(requirement))
    failing = [e for e, outcome in decisions(requirement) if outcome == "fail"]
    undecided = outcomes.total() - outcomes["pass"] - len(failing)
    said = [f"met by {link('frameworks.html', number(outcomes['pass'], 'encoder'))}"] if outcomes["pass"] else []
    said += [f"not met by {named(failing)}"] if failing else []
    said += [f"undecided for {undecided}"] if undecided else []
    if count := notices()[requirement]:
        said.append(f"notices {link(f'kill-matrix.html?requirement={requirement}', number(count, 'deviation'))}")
    return f'<p class="results"><span>Latest results:</span> {", ".join(said)}</p>' if said else ""


def decisions(requirement: str) -> list[tuple[Judged, str]]:
    """Every encoder of the matrix for which the requirement was to be decided, with the outcome."""
    return [(e, e.requirements[requirement]["outcome"]) for e in judged() if requirement in e.requirements]


def named(failing: list[Judged]) -> str:
    """The encoders that fail, as links, or their number."""
    if len(failing) > MOST_NAMED:
        return str(len(failing))
    return " and ".join(link(f"{e.id}.html", escape(e.subject)) for e in failing)


def number(count: int, what: str) -> str:
    """A number of things."""
    return f"{count} {what}{'' if count == 1 else 's'}"


@cache
def notices() -> Counter[str]:
    """How many deviations each requirement notices, each in the profiles of the mutation matrix."""
    rows = {(r.deviation, id) for r in kill_matrix.on_file() if r.judged_as != kill_matrix.AUTO for id in r.killed_by}
    return Counter(id for _, id in rows)

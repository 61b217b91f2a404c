"""The page of errata: what the sources say, what holds, and both computed."""

from encoder_spec.errata import Erratum, Finding, errata
from generators import listing
from generators.html import cite, code, equation_link, folded, heading, prose, table

LEAD = (
    "Where the sources err. Each mistake is computed beside the right statement: a wrong equation is put into its "
    "slot and run, or its parameters are counted. The numbers were computed when this page was built."
)


def page() -> str:
    """The Markdown of the page."""
    lead = f'<p class="lead">{LEAD}</p>'
    return "\n".join([heading(1, "Errata of the sources", "errata"), "", lead, "", *map(section, errata())])


def section(erratum: Erratum) -> str:
    """One erratum: said, right, findings, the computation."""
    about = ", ".join(equation_link(id) for id in erratum.equations)
    statements = table(
        (),
        [
            ("Source", cite(erratum.source)),
            ("Says", prose(erratum.said)),
            ("Right is", prose(erratum.right)),
            ("About", about),
        ],
        kind="head",
    )
    computation = folded("The computation", code(listing.annotated(erratum.demonstrate)))
    return "\n".join(
        [
            heading(2, f"{erratum.id}: {erratum.title}", erratum.id),
            "",
            f'<div class="equation">{statements}{findings(erratum.demonstrate())}{computation}</div>',
            "",
        ]
    )


def findings(found: tuple[Finding, ...]) -> str:
    """What comes out of either statement."""
    rows = [(prose(f.label), number(f.said), number(f.right)) for f in found]
    return table(("", "as the source has it", "as it is"), rows, kind="numbers")


def number(value: float | str) -> str:
    """A number with its digits grouped, or a text."""
    if isinstance(value, str):
        return prose(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"

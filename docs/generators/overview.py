"""The index: every slot with its equations, every requirement with its evidence."""

from encoder_spec.equation import requirements, slots, variants
from encoder_spec.profiles import PROFILES
from encoder_spec.proof import proofs
from generators import evidence
from generators.html import anchor, equation_link, heading, profile_link, prose, requirement_link, table


def page() -> str:
    """The Markdown of the page."""
    return "\n".join(
        [
            heading(1, "Index of equations and requirements", "index"),
            "",
            heading(2, "Equations by slot", "slots"),
            "",
            table(("Slot", "Variant", "Equation", "Requirements", "Chosen by"), by_slot(), kind="index"),
            "",
            heading(2, "Requirements", "requirements"),
            "",
            table(("Id", "Statement", "Equation", "Tests", "Proof"), by_requirement(), kind="index"),
            "",
        ]
    )


def by_slot() -> list[tuple[str, ...]]:
    """A row for every variant of every slot."""
    return [
        (
            anchor(f"slot-{slot}", slot) if first else slot,
            f"<code>{name}</code>",
            f"{equation_link(equation.id)} {prose(equation.title)}",
            ", ".join(requirement_link(r.id) for r in evidence.of(equation)),
            ", ".join(profile_link(p) for p, profile in PROFILES.items() if profile[slot] is equation),
        )
        for slot in slots()
        for first, (name, equation) in zip([True] + [False] * 99, variants(slot).items(), strict=False)
    ]


def by_requirement() -> list[tuple[str, ...]]:
    """A row for every requirement."""
    return [
        (
            requirement_link(r.id),
            prose(r.statement),
            equation_link(r.equation),
            ", ".join(sorted({test.level or "specification" for test in evidence.tests(r.id)})),
            "SymPy" if r.id in proofs() else "",
        )
        for r in requirements().values()
    ]

"""The page of profiles: one equation per slot, side by side."""

from collections.abc import Iterable

from encoder_spec.notation import SYMBOLS
from encoder_spec.profiles import CONSTANTS, PROFILES, Profile, slot_of
from generators import mathml
from generators.html import cite, equation_link, heading, link, profile_link, table

BASE = next(iter(PROFILES.values()))

LEAD = f"""\
A profile is a published choice of one equation per slot, with its constants. A slot that a
profile fills as `{BASE.name}` does is left pale; what differs stands out.
"""


def page() -> str:
    """The Markdown of the page."""
    return "\n".join(
        [heading(1, "Profiles", "profiles"), "", LEAD, overview(), "", *(section(p) for p in PROFILES.values())]
    )


def overview() -> str:
    """Slots and constants × profiles."""
    rows = [
        (
            link(f"equations-and-requirements.html#slot-{slot}", slot),
            *(mark(profile.choices()[slot], BASE.choices()[slot]) for profile in PROFILES.values()),
        )
        for slot in BASE.equations
    ]
    rows += [
        (
            mathml.render(SYMBOLS[letter].latex),
            *(mark(profile.choices()[word], BASE.choices()[word]) for profile in PROFILES.values()),
        )
        for word, letter in CONSTANTS.items()
    ]
    return table(("Slot", *(profile_link(name) for name in PROFILES)), rows, kind="profiles")


def mark(choice: object, usual: object) -> str:
    """A choice, pale when it is the base profile's."""
    kind = "same" if choice == usual else "differs"
    return f'<span class="{kind}">{choice}</span>'


def in_turn(choices: Iterable[str]) -> str:
    """Choices that the layers take in turn, or the one that all of them take."""
    words = list(choices)
    return words[0] if len(words) == 1 else ", ".join([*words, "repeated"])


def section(profile: Profile) -> str:
    """Source of a profile, and how it differs from the base."""
    differences = [
        (key, in_turn(equation_link(e.id) for e in taken), f"instead of {equation_link(usual.id)}")
        for key in profile.equations
        if (taken := profile.choice(key)) != ((usual := BASE[slot_of(key)]),)
    ]
    differences += [
        (
            mathml.render(SYMBOLS[letter].latex),
            in_turn(f"{number:g}" for number in profile.choice(letter)),
            f"instead of {BASE.constants[letter]:g}",
        )
        for letter in CONSTANTS.values()
        if profile.choice(letter) != (BASE.constants[letter],)
    ]
    text = f"<p>{cite(profile.source)}.</p>"
    if differences:
        text += f"<p>Differs from {profile_link(BASE.name)} in:</p>" + table((), differences)
    return "\n".join([heading(2, profile.name, profile.name), "", text, ""])

"""Addresses to which reports point for an explanation."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance_tests.reports.report import Result

SITE = ""
"""URL of the site; the environment variable ``ENCODER_SPEC_SITE``, a URL or the folder of a copy, goes before it.

While it is empty, reports name the page and the command that shows the same, without a link.
"""

NEAREST = re.compile(r"^no published profile; the nearest is ([\w-]+), ")
"""How the note begins that names a profile."""


@dataclass(frozen=True)
class Place:
    """A place of the site that explains something, and the words of the command that show the same."""

    page: str
    command: str = ""

    @property
    def address(self) -> str:
        """Its URL; an empty one if nobody has said where the site stands."""
        site = os.environ.get("ENCODER_SPEC_SITE", SITE)
        if not site:
            return ""
        home = site if "://" in site else Path(site).resolve().as_uri()
        return f"{home.rstrip('/')}/{self.page}"

    def __str__(self) -> str:
        offline = (
            f"encoder-spec {self.command} (on the site: {self.page})" if self.command else f"{self.page} on the site"
        )
        return self.address or offline


def of_requirement(result: Result) -> Place:
    """Return where a requirement is explained."""
    return Place(result.page, f"requirements {result.id}")


def of_diagnosis(said: dict[str, Any]) -> Place | None:
    """Return where a diagnosis is explained: with its deviation, or with the equation that is wrong."""
    if not said.get("page"):
        return None
    what, _, id = said["page"].partition("#")
    return Place(said["page"], f"deviations {id}" if what.startswith("wrong-") else f"equations {id}")


def of_note(note: str) -> Place:
    """Return where a note is explained: with the profile that it names, or among the notes."""
    if nearest := NEAREST.match(note):
        return Place(f"profiles.html#{nearest[1]}", f"profiles {nearest[1]}")
    return Place("test-your-encoder.html#what-the-notes-mean")

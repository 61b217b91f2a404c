"""Addresses to which reports point for an explanation."""

import os

from conformance_tests.reports.report import Result

SITE = ""
"""URL of the site; the environment variable ``ENCODER_SPEC_SITE`` goes before it.

While it is empty, reports name the page and the command that shows the same, without a link.
"""


def address(result: Result) -> str:
    """Return the URL that explains a requirement; an empty one if nobody has said where the site stands."""
    site = os.environ.get("ENCODER_SPEC_SITE", SITE)
    return f"{site.rstrip('/')}/{result.page}" if site else ""


def explanation(result: Result) -> str:
    """Return in words where a requirement is explained."""
    return address(result) or f"encoder-spec requirements {result.id} (on the site: {result.page})"

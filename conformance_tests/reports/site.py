"""Where reports point to for an explanation."""

import os

from conformance_tests.reports.report import Result

SITE = ""
"""Where the site stands, as a URL; the environment variable ``ENCODER_SPEC_SITE`` goes before it.

While it is empty, reports name the page and the command that shows the same, but link to nothing.
"""


def address(result: Result) -> str:
    """The URL that explains a requirement; empty if nobody said where the site stands."""
    site = os.environ.get("ENCODER_SPEC_SITE", SITE)
    return f"{site.rstrip('/')}/{result.page}" if site else ""


def explanation(result: Result) -> str:
    """Where a requirement is explained, in words."""
    return address(result) or f"encoder-spec requirements {result.id} (on the site: {result.page})"

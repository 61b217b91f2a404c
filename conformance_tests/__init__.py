"""The conformance suite of the Transformer encoder.

``check`` judges an encoder and returns a report. What it needs, torch among it, is
imported when it is first used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conformance_tests.report import Report as Report
    from conformance_tests.suite import check as check

__all__ = ["Report", "check"]

_HOMES = {"check": "conformance_tests.suite", "Report": "conformance_tests.report"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)

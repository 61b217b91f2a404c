"""The conformance suite of the Transformer encoder.

``check`` judges an encoder and returns a report. ``encoder_conformance`` makes tests of it in your
own suite. ``described`` adds the facts about an encoder that the suite cannot work out. Torch and
the rest are imported when you first use one of these names.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conformance_tests.engine.judging import check as check
    from conformance_tests.frontends.decorator import encoder_conformance as encoder_conformance
    from conformance_tests.reports.report import Report as Report
    from conformance_tests.targets.description import described as described

__all__ = ["Report", "check", "described", "encoder_conformance"]

_HOMES = {
    "Report": "conformance_tests.reports.report",
    "check": "conformance_tests.engine.judging",
    "described": "conformance_tests.targets.description",
    "encoder_conformance": "conformance_tests.frontends.decorator",
}


if not TYPE_CHECKING:  # a type checker would take each misspelt name for one that exists

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import importlib

        return getattr(importlib.import_module(_HOMES[name]), name)

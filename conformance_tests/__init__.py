"""The conformance suite of the Transformer encoder.

``check`` judges an encoder and returns a report. ``encoder_conformance`` makes tests of it in your
own suite. ``described`` adds the facts about an encoder that the suite cannot work out. Torch and
the rest are imported when you first use one of these names.
"""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conformance_tests.engine.judging import check as check
    from conformance_tests.errors import Undetermined as Undetermined
    from conformance_tests.frontends.decorator import encoder_conformance as encoder_conformance
    from conformance_tests.reports.report import Report as Report
    from conformance_tests.reports.report import Result as Result
    from conformance_tests.reports.report import TargetReport as TargetReport
    from conformance_tests.subjects.subject import ArraySubject as ArraySubject
    from conformance_tests.subjects.subject import Subject as Subject
    from conformance_tests.targets.description import described as described

__all__ = [
    "ArraySubject",
    "Report",
    "Result",
    "Subject",
    "TargetReport",
    "Undetermined",
    "check",
    "described",
    "encoder_conformance",
]

_HOMES = {
    "ArraySubject": "subjects.subject",
    "Report": "reports.report",
    "Result": "reports.report",
    "Subject": "subjects.subject",
    "TargetReport": "reports.report",
    "Undetermined": "errors",
    "check": "engine.judging",
    "described": "targets.description",
    "encoder_conformance": "frontends.decorator",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


class _Moved(ModuleType):
    """A module whose documented names have moved here; it hands them on."""

    def __getattr__(self, name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return globals()["__getattr__"](name)


# The reference promised these two places before the suite had rooms.
for _old in ("report", "subject"):
    sys.modules[f"{__name__}.{_old}"] = _Moved(f"{__name__}.{_old}", _Moved.__doc__)

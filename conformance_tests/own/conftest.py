"""Fixtures that several files of the suite's own tests share."""

from conformance_tests.own.site import site

__all__ = ["site"]

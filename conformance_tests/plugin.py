"""The pytest plugin: ``pytest --pyargs conformance_tests --encoder TARGET``.

It adds the options and refuses what they cannot mean; the package's own conftest does the
rest, when its tests are collected. A run that does not use it imports nothing but this file.
"""

from contextlib import suppress

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the suite."""
    group = parser.getgroup("encoder-spec", "conformance of Transformer encoders")
    group.addoption(
        "--encoder",
        action="append",
        metavar="TARGET",
        help="encoder to check: package.module:attribute, file.py:attribute, or a built-in name (repeatable)",
    )
    group.addoption(
        "--encoder-profile",
        default="auto",
        metavar="NAME",
        help="profile that must hold exactly; auto (the default) accepts any variant",
    )
    group.addoption(
        "--encoder-dtype",
        metavar="DTYPE",
        help="precision to judge in: float64 (where the encoder can, the default), float32, bfloat16, float16",
    )
    group.addoption("--encoder-device", default="cpu", metavar="DEVICE", help="where to judge, as torch names it")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a target or a profile that does not exist in one line, before anything is collected."""
    targets, profile = config.getoption("--encoder"), config.getoption("--encoder-profile")
    if not targets:
        return
    from conformance_tests.targets import SubjectError, TargetError, resolve
    from encoder_spec.notation import SpecificationError

    try:
        for target in targets:
            # What goes wrong inside a target that exists is for the checks to report.
            with suppress(SubjectError):
                resolve(target)()
        if profile != "auto":
            from encoder_spec.profiles import profile as published

            published(profile)
    except (TargetError, SpecificationError) as reason:
        raise pytest.UsageError(str(reason)) from None

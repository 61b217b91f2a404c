"""Runs over small encoders of the specification, right ones and wrong ones, opened once for all files of this room."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest

from conformance_tests.deviations import deviations
from conformance_tests.harness.question import Question
from conformance_tests.harness.run import Run
from conformance_tests.identification.opening import opened
from conformance_tests.quality.kill_matrix import SMALL, deviating
from encoder_spec.assembly import Encoder
from encoder_spec.module import EncoderModule
from encoder_spec.profiles import PROFILES

Runs = Callable[..., Run]


@pytest.fixture(scope="session")
def run_of() -> Iterator[Runs]:
    """A function that opens the specification's encoder of a profile, with a deviation in it if one is named."""
    with ExitStack() as stack:

        @cache
        def run_of(profile: str = "torch-post-ln", deviation: str = "") -> Run:
            right = EncoderModule(Encoder(PROFILES[profile], SMALL))
            encoder = deviating(deviations()[deviation], profile) if deviation else right
            return stack.enter_context(opened(encoder, Question(profile)))

        yield run_of

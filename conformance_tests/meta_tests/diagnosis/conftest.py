"""Runs over small encoders with wrong equations in them, opened once for all files of this room."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from typing import Any

import pytest
import torch

from conformance_tests.deviations import deviation_named, with_deviations
from conformance_tests.harness.question import Question
from conformance_tests.harness.run import Run
from conformance_tests.identification.opening import opened
from conformance_tests.quality.kill_matrix import SMALL
from encoder_spec.assembly import Encoder
from encoder_spec.module import EncoderModule
from encoder_spec.profiles import PROFILES

RunWith = Callable[..., Run]


@pytest.fixture(scope="session")
def run_with() -> Iterator[RunWith]:
    """A function that opens an encoder with these deviations, judged against the profile without them."""
    with ExitStack() as stack:

        @cache
        def run_with(*wrong: str, profile: str = "torch-post-ln", variant: str = "", **question: Any) -> Run:
            chosen = PROFILES[profile].replace(activation=variant) if variant else PROFILES[profile]
            encoder = with_deviations(Encoder(chosen, SMALL), map(deviation_named, wrong))
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                module = EncoderModule(encoder)
            return stack.enter_context(opened(module, Question(profile, **question)))

        yield run_with

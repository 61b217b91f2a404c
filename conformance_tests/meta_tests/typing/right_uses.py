"""Right uses of the public API, as a user's own file has them: mypy must accept each line, and infer these types.

Nothing here runs. Names that start with ``own_`` are what a user wrote.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, assert_type

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from conformance_tests import Report, check, described, encoder_conformance
from conformance_tests.frontends.decorator import JudgedRequirement
from conformance_tests.reports.report import Result, TargetReport
from conformance_tests.subjects.subject import ArraySubject, Subject
from encoder_spec.profiles import BERT, Profile


class OwnEncoder(nn.Module):
    """A torch module is a target as it stands."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the hidden states."""
        return x if mask is None else x * mask[..., None]


class OwnArrays:
    """An object with ``weights`` and ``encode`` is a subject, in any framework."""

    def __init__(self) -> None:
        self.weights: Mapping[str, Any] = {"W_Q": np.eye(3)}

    def encode(self, x: NDArray[np.float64], mask: NDArray[np.bool_] | None) -> NDArray[np.float64]:
        """Return the hidden states."""
        return x


class OwnSubject(Subject):
    """The richer protocol, one method for each ability."""

    def weights(self) -> dict[str, Tensor]:
        """Return the parameters by name."""
        return {"W_Q": torch.eye(3)}

    def encode(self, inputs: tuple[Tensor, ...], keep: Tensor | None, gradients: bool = True) -> Tensor:
        """Return the hidden states."""
        return inputs[0]

    def record(self, inputs: tuple[Tensor, ...], keep: Tensor | None) -> list[Tensor]:
        """Return the intermediates."""
        return [inputs[0]]


def own_factory() -> nn.Module:
    """Make an encoder."""
    return OwnEncoder()


# check ---------------------------------------------------------------------------------------

assert_type(check("torch-post-ln"), Report)
assert_type(check(OwnEncoder()), Report)
assert_type(check(own_factory, profile="bert", level="trace", seed=3), Report)
assert_type(check([OwnEncoder(), "reference"], profile=BERT, dtype="bfloat16", device="cuda"), Report)
assert_type(check(OwnArrays(), expected={"ATT-3": "scales later"}), Report)
assert_type(check(OwnSubject(), expected=Path("expected.toml"), explain=False), Report)


def own_progress(what: str, done: int, of: int) -> None:
    """Show what is being done."""


check(OwnEncoder(), progress=own_progress)

# Report --------------------------------------------------------------------------------------

report = check(OwnEncoder())
assert_type(report.verdict, str)
assert_type(report.seed, int)
assert_type(report.targets, list[TargetReport])
assert_type(report.requirements, list[Result])
assert_type(report.diagnosis, list[dict[str, Any]])
assert_type(report.to_json(), str)
target = report.targets[0]
assert_type(target.departs_at, str | None)
assert_type(target.notes, list[str])
assert_type(target.profile, dict[str, Any])
result = target.requirements[0]
assert_type(result.id, str)
assert_type(result.outcome, str)
assert_type(result.error, float | None)
assert_type(result.budget, float | None)
assert_type(result.smallest, list[int] | None)

# encoder_conformance -------------------------------------------------------------------------


@encoder_conformance(own_factory, profile="bert", expected={"ATT-3": "scales later"})
def test_encoder(requirement: JudgedRequirement) -> None:
    """Keep the type of the decorated test."""
    assert_type(requirement.id, str)
    requirement.check()


undecorated: Callable[[JudgedRequirement], None] = test_encoder


@encoder_conformance("encoders.py:make", level="agreement", seed=1, dtype="float32")
@pytest.mark.slow
def test_named_encoder(requirement: JudgedRequirement) -> None:
    """Go together with marks."""
    requirement.check()


# described -----------------------------------------------------------------------------------

subject = described(
    own_factory,
    heads=4,
    parameters={"W_Q": "blocks.{l}.alpha"},
    mask=("padding", "ignore"),
    choices={"activation": "gelu", "eps": 1e-12},
)
assert_type(subject, Subject)
assert_type(check(subject), Report)

# Subjects and profiles -----------------------------------------------------------------------

arrays: ArraySubject = OwnArrays()
assert_type(BERT.replace(activation="relu"), Profile)
assert_type(BERT.choices(), dict[str, str | float])

"""The extent of a judgement: the calls that an encoder was asked, and answered."""

from dataclasses import dataclass, field
from typing import Any

import torch

from conformance_tests.numerics.probes import Probe
from conformance_tests.subjects.subject import DTYPES, name_of

MODES = WITH_GRADIENTS, WITHOUT_GRADIENTS, AS_USED = "with gradients", "without gradients", "as its owner uses it"
WEIGHTS = OWN, DRAWN = "its own", "drawn"


@dataclass
class Extent:
    """Sizes, precisions, modes and weights of all calls that were answered; what was refused does not count.

    Attributes:
        positions: the lengths of the inputs.
        sequences: the sizes of the batches.
        dtypes: the precisions.
        modes: whether gradients were recorded, or it was called as its owner calls it.
        weights: its own ones, or drawn ones.
    """

    positions: set[int] = field(default_factory=set)
    sequences: set[int] = field(default_factory=set)
    dtypes: set[str] = field(default_factory=set)
    modes: set[str] = field(default_factory=set)
    weights: set[str] = field(default_factory=set)

    def add(self, probe: Probe, dtype: torch.dtype, mode: str, weights: str) -> None:
        """Add a call that was answered."""
        self.positions.add(probe.positions)
        self.sequences.add(len(probe.inputs[0]))
        self.dtypes.add(name_of(dtype))
        self.modes.add(mode)
        self.weights.add(weights)

    def as_data(self) -> dict[str, list[Any]]:
        """Return it as plain data, in order."""
        words = {"dtypes": DTYPES, "modes": MODES, "weights": WEIGHTS}
        sizes = {"positions": sorted(self.positions), "sequences": sorted(self.sequences)}
        return sizes | {kind: [one for one in known if one in getattr(self, kind)] for kind, known in words.items()}

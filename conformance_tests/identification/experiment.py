"""One call of the subject, and how far a choice of equations is from what it returned."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from conformance_tests.errors import Disagreement
from conformance_tests.harness.weight_sets import LAST_MAPS
from conformance_tests.numerics.compare import demand_equal
from conformance_tests.numerics.rounding import budget
from encoder_spec.assembly import Encoder, bound, everything, in_call
from encoder_spec.notation import SpecificationError

FAR = 1e4
"""In units of roundoff: no order of sums loses more of its digits, with the weights of an experiment."""


def scale_of(value: Tensor) -> float:
    """Return the largest magnitude, at least 1."""
    return max(1.0, float(value.abs().nan_to_num(posinf=0.0).max()))


@dataclass(frozen=True)
class Experiment:
    """One call of the subject: its inputs, the weights it had, and what it returned."""

    parameters: Mapping[str, Tensor]
    inputs: tuple[Tensor, ...]
    output: Tensor
    dtype: torch.dtype = torch.float64

    @cached_property
    def silent(self) -> frozenset[str]:
        """The sublayers that end with a map of zeros in every layer: nothing inside of them shows."""
        by_letter: dict[str, list[Tensor]] = {}
        for path, w in self.parameters.items():
            by_letter.setdefault(path.rpartition(".")[2], []).append(w)
        return frozenset(
            sublayer
            for sublayer, (map_, bias) in LAST_MAPS.items()
            if map_ in by_letter and not any(bool(w.any()) for w in by_letter[map_] + by_letter.get(bias, []))
        )

    @property
    def _given(self) -> tuple[Tensor, ...]:
        """The inputs, copied: some deviations write into theirs."""
        return tuple(map(torch.clone, self.inputs))

    def residual(self, encoder: Encoder) -> float:
        """Return the largest difference to the specification in units of the budget: ≤ 1 agrees."""
        try:
            want = encoder(self.parameters, *self._given)
            allowed = None
            if self.dtype is not torch.float64:
                # What is far off needs no derivation.
                demand_equal(self.output, want, "output", budget=FAR * torch.finfo(self.dtype).eps * scale_of(want))
                allowed = budget(encoder, self.parameters, self.inputs, None, self.dtype)
            found = demand_equal(self.output, want, "output", budget=allowed)
        except Disagreement as disagreement:
            if disagreement.error is None or disagreement.budget is None:
                return float("inf")
            return disagreement.error / disagreement.budget
        except SpecificationError:
            return float("inf")
        return found.error / found.budget

    def distance(self, encoder: Encoder) -> float:
        """Return the median difference to the specification.

        A few positions where a wrong ε matters most do not move it. A search asks this of thousands of encoders, so
        that parameters are not checked first: what cannot be evaluated is infinitely far.
        """
        try:
            keep = everything(None, self.inputs)[:, None]
            whole = encoder.seeing(*self.inputs).whole
            want = bound(whole, in_call(self.parameters, keep, self._given))(keep, *self._given)
        except (SpecificationError, KeyError, RuntimeError):
            return float("inf")
        if want.shape != self.output.shape:
            return float("inf")
        return float((self.output - want).abs().nan_to_num(nan=float("inf")).median())

"""Encoders of tinynet as subjects: a copy of them runs, in float64."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import tinynet
import torch
from torch import Tensor

from conformance_tests.subjects.called import CalledSubject
from conformance_tests.subjects.calling import Arguments, arguments_of
from conformance_tests.subjects.hints import Hints


class TinynetSubject(CalledSubject):
    """An encoder of tinynet. How it is called is found out; what a framework must supply is below."""

    def __init__(self, encoder: tinynet.Encoder) -> None:
        super().__init__()
        self.encoder = copy.deepcopy(encoder)
        self.hints = Hints(sizes={"h": encoder.h})

    def arguments(self) -> Arguments:
        """See ``CalledSubject``."""
        return arguments_of(self.encoder.__call__)

    def call(self, positional: Sequence[Tensor], named: Mapping[str, Tensor | None], gradients: bool) -> Any:
        """See ``CalledSubject``."""
        arrays = {name: None if value is None else value.numpy() for name, value in named.items()}
        return torch.from_numpy(self.encoder(*(x.numpy() for x in positional), **arrays))

    def weights(self) -> dict[str, Tensor]:
        """See ``Subject``."""
        return {name: torch.from_numpy(array.copy()) for name, array in self.encoder.arrays.items()}

    def set_weights(self, values: Mapping[str, Tensor]) -> None:
        """See ``Subject``: it is then judged with other weights than its own as well, which show more."""
        self.encoder.arrays = {name: values[name].numpy() for name in self.encoder.arrays}

"""Tutorial styles that differ in what they return."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from conformance_tests.meta_tests.encoders.plain import PLAIN, Plain, plain_layers
from conformance_tests.meta_tests.encoders.tutorials import every, tutorial

WRONG_SCALE = every("PlainAttention", scale=1.7)


class ReturnsATuple(Plain):
    """Hidden states, and the mean of them."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        states = super().forward(x, mask)
        return states, states.mean(dim=1)


@tutorial(WRONG_SCALE, "attention.scores", **PLAIN)
def returns_a_tuple() -> nn.Module:
    return ReturnsATuple(plain_layers())


class ReturnsADictionary(Plain):
    """The pooled vector comes first."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        states = super().forward(x, mask)
        return {"pooled": states[:, 0], "states": states}


@tutorial(WRONG_SCALE, "attention.scores", **PLAIN)
def returns_a_dictionary() -> nn.Module:
    return ReturnsADictionary(plain_layers())


@dataclass
class Encoded:
    """Hidden states with their mask."""

    mask: Tensor | None
    hidden: Tensor


class ReturnsADataclass(Plain):
    """The hidden states are its second field."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        return Encoded(mask, super().forward(x, mask))


@tutorial(WRONG_SCALE, "attention.scores", **PLAIN)
def returns_a_dataclass() -> nn.Module:
    return ReturnsADataclass(plain_layers())


class ReturnsEveryLayer(Plain):
    """What each layer gave, the last one last."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        given = []
        for layer in self.layers:
            x = layer(x, None if mask is None else ~mask[:, None, None])
            given.append(x)
        return given


@tutorial(WRONG_SCALE, "attention.scores", **PLAIN)
def returns_every_layer() -> nn.Module:
    return ReturnsEveryLayer(plain_layers())


class ReturnsStatesBeside(Plain):
    """The output, and a list of what every layer read, the input first."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        read = [x]
        for layer in self.layers:
            read.append(layer(read[-1], None if mask is None else ~mask[:, None, None]))
        return read[-1], read[:-1]


@tutorial(WRONG_SCALE, "attention.scores", **PLAIN)
def returns_states_beside() -> nn.Module:
    return ReturnsStatesBeside(plain_layers())

"""An encoder with something wrong is recognised behind it, although nothing names its choices."""

from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

from conformance_tests.engine.judging import check
from conformance_tests.identification.structure import sizes
from conformance_tests.meta_tests.encoders.plain import PlainLayer
from conformance_tests.meta_tests.encoders.uncatalogued import attending
from conformance_tests.subjects.hints import Hints
from encoder_spec.notation import SpecificationError
from encoder_spec.position import sinusoidal

WIDTH, HEADS, INNER, WORDS = 12, 3, 20, 31


class Block(nn.Module):
    """A Post-LN layer with tanh-GELU, whose number of heads stands in its code alone."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.inner, self.outer = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)
        self.n1, self.n2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (m(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for m in (self.q, self.k, self.v))
        weights = torch.softmax(q @ k.mT / (WIDTH // HEADS) ** 0.5, dim=-1)
        x = self.n1(x + self.o((weights @ v).transpose(1, 2).flatten(2)))
        hidden: Tensor = self.n2(x + self.outer(nn.functional.gelu(self.inner(x), approximate="tanh")))
        return hidden


def test_an_array_with_more_axes_than_its_slot_has_is_named() -> None:
    """Whatever its name promises: what it is asked for are its sizes."""
    held = {f"layers.0.W_{letter}": torch.zeros(2, 6, 3, 4) for letter in "QKV"}
    with pytest.raises(SpecificationError, match=r"layers\.0\.W_Q is an array \(2, 6, 3, 4\), where one with 2 axes"):
        sizes(held, Hints(), 1)


class WithoutPositions(nn.Module):
    """Tokens go into the layers as they are looked up."""

    says: ClassVar[str] = "nothing is added to the tokens that tells their positions"

    def __init__(self) -> None:
        super().__init__()
        self.emb = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList([Block(), Block()])

    def read(self, ids: Tensor) -> Tensor:
        looked_up: Tensor = self.emb(ids)
        return looked_up

    def forward(self, ids: Tensor) -> Tensor:
        x = self.read(ids)
        for block in self.blocks:
            x = block(x)
        return x


class CountingFromOne(WithoutPositions):
    """The sinusoids are those of the next position."""

    says: ClassVar[str] = "the sinusoids are counted from 1, not from 0"

    def read(self, ids: Tensor) -> Tensor:
        looked_up = super().read(ids)
        return looked_up + sinusoidal(torch.zeros(1, ids.shape[1] + 1, WIDTH, dtype=looked_up.dtype))[1:]


@pytest.mark.parametrize("encoder", [WithoutPositions, CountingFromOne])
def test_choices_behind_a_wrong_input_are_recognised(encoder: type[WithoutPositions]) -> None:
    """Number of heads and activation are found, so that the wrong input is all that is wrong."""
    target = check(encoder).targets[0]
    assert (target.verdict, target.departs_at) == ("nonconformant", "position.sinusoidal")
    assert (target.profile["choices"]["num_heads"], target.profile["choices"]["activation"]) == (HEADS, "gelu-tanh")
    assert encoder.says in target.diagnosis[0]["says"]


def test_the_activation_is_recognised_behind_a_wrong_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing behind the scores is as it should be, but some array, as GELU gives it, is another one."""
    monkeypatch.setattr(PlainLayer, "feed_forward", lambda l, x: l.fc2(nn.functional.gelu(l.fc1(x))))
    target = check(attending(score=lambda a, q, k: q @ k.mT / a.scale**1.5), explain=False).targets[0]
    assert (target.departs_at, target.profile["choices"]["activation"]) == ("attention.scores", "gelu")


class HearsNothing(nn.Module):
    """Takes one sequence, and refuses faint ones."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = PlainLayer(24, 4, 40)

    def forward(self, x: Tensor) -> Tensor:
        _, _ = x.shape
        if x.abs().max() < 0.1:
            raise ValueError("nothing is heard")
        return self.layer(x[None])[0]


def test_a_refusal_says_how_the_input_was_given() -> None:
    """The shape is that of the suite's own input, which comes as the encoder takes it."""
    said = "given as one sequence (n, …), without a batch, raised ValueError: nothing is heard"
    assert said in str(check(HearsNothing).targets[0].notes)

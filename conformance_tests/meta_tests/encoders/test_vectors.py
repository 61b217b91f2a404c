"""Encoders of vectors or features: held to a declared choice, and sets where nothing tells positions."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from conformance_tests import check
from conformance_tests.meta_tests.encoders.plain import Plain, PlainPreNorm, plain_layers
from conformance_tests.meta_tests.encoders.tutorials_inputs import PositionTable, interleaved
from conformance_tests.meta_tests.encoders.tutorials_vectors import Measuring, Placing, WithClassToken, bare
from encoder_spec.position import sinusoidal
from encoder_spec.profiles import ANNOTATED_TRANSFORMER, VASWANI_2017, VIT, Profile

FEATURES = VASWANI_2017.replace(
    **{"name": "features", "embedding": "features", "embedding_scale": "none", "position": "learned"},
    **{"projections": "affine", "output": "affine", "eps": 1e-5},
)

SETS_OF_TOKENS = FEATURES.replace(name="sets of tokens", embedding="lookup", position="none")


TABLE = sinusoidal(torch.zeros(1, 47, 28, dtype=torch.float64))


class Altered(Plain):
    """Passes its vectors through a plain function before the layers read them."""

    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__(plain_layers())
        self.change = change

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().forward(self.change(x), mask)


class Set(Plain):
    """Maps 11 features, and adds nothing."""

    def __init__(self) -> None:
        super().__init__(plain_layers())
        self.project = nn.Linear(11, 28)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.project(x))


class SetWithClassToken(WithClassToken):
    """A class token before the vectors, and no positions."""

    def __init__(self) -> None:
        super().__init__()
        self.times = 0
        del self.pos_embedding


def without_bias() -> nn.Module:
    """Its map has a bias, which is never added."""
    encoder = Measuring(11, plain_layers())
    encoder.map = bare
    return encoder


def sinusoids(x: Tensor) -> Tensor:
    """The formula's, in float32."""
    return x + interleaved(x.shape[1], 28)


@pytest.mark.parametrize(
    ("make", "profile", "verdict", "departs_at"),
    [
        (lambda: Measuring(11, plain_layers()), FEATURES, "conformant", None),
        (without_bias, FEATURES, "nonconformant", "embedding.features"),
        (lambda: Measuring(11, plain_layers(), bias=False), FEATURES, "nonconformant", "embedding.features"),
        (WithClassToken, VIT.replace(activation="relu", eps=1e-5), "conformant", None),
        (
            lambda: Placing(plain_layers(PlainPreNorm), TABLE, final=nn.LayerNorm(28)),
            ANNOTATED_TRANSFORMER.replace(norm="layer-norm", eps=1e-5),
            "conformant",
            None,
        ),
    ],
    ids=["features", "bias unused", "no bias", "class token", "before positions"],
)
def test_a_declared_profile_is_held_from_where_the_encoder_starts(
    make: Callable[[], nn.Module], profile: Profile, verdict: str, departs_at: str | None
) -> None:
    """Vectors stand for tokens or patches that were embedded, and scaled, before; features do not."""
    report = check(make, profile=profile).targets[0]
    assert (report.verdict, report.departs_at) == (verdict, departs_at), [r.message for r in report.of("fail")]


@pytest.mark.parametrize("make", [Set, SetWithClassToken])
def test_an_encoder_of_sets_has_no_positions(make: Callable[[], nn.Module]) -> None:
    """Features and vectors may be a set, which has no order; this is a choice like any other."""
    report = check(make).targets[0]
    assert report.verdict == "conformant", [r.message for r in report.of("fail")]
    assert report.profile["choices"]["position"] == "none"


@pytest.mark.parametrize(
    ("forgotten", "departs_at"),
    [(PositionTable(interleaved(47, 28)), "position.none"), (nn.Parameter(torch.randn(47, 28)), "encoder")],
    ids=["sinusoids", "learned"],
)
def test_an_encoder_that_keeps_positions_and_adds_none_has_forgotten_them(
    forgotten: nn.Module | nn.Parameter, departs_at: str
) -> None:
    """A table says that there is an order."""
    encoder = Set()
    encoder.places = forgotten
    report = check(encoder).targets[0]
    assert (report.verdict, report.departs_at) == ("nonconformant", departs_at)
    assert "places" in " ".join(r.message for r in report.of("fail"))


def test_tokens_are_a_set_if_their_owner_says_so() -> None:
    """Without a word nothing tells them from a sentence whose positions were forgotten."""
    encoder = nn.Sequential(nn.Embedding(31, 28), Plain(plain_layers()))
    declared, undeclared = (check(encoder, profile=p, explain=False).targets[0] for p in (SETS_OF_TOKENS, "auto"))
    assert declared.verdict == "conformant", [r.message for r in declared.of("fail")]
    assert "POS-11" in {r.id for r in declared.of("pass")}
    assert (undeclared.verdict, undeclared.departs_at) == ("nonconformant", "position.sinusoidal")


def test_given_embeddings_that_are_scaled_are_no_set() -> None:
    """Nothing but a factor stands between them and the layers, and no slot has it there."""
    report = check(lambda: Altered(lambda x: 28**0.5 * x)).targets[0]
    assert report.verdict == "nonconformant"
    assert "EMB-9" in {r.id for r in report.of("fail")}


def test_an_encoder_that_adds_nothing_has_its_embeddings_given() -> None:
    """With a class token, positions or a map, the vectors would be embedded and not given."""
    report = check(lambda: Altered(lambda x: 1.0 * x)).targets[0]
    assert (report.verdict, report.profile["choices"]["input"]) == ("conformant", "given")


def test_positions_that_are_computed_in_the_call_are_found() -> None:
    """No table is kept: the formula is evaluated for each call, in float32."""
    report = check(lambda: Altered(sinusoids)).targets[0]
    assert report.verdict == "conformant", [r.message for r in report.of("fail")] + report.notes
    assert report.profile["choices"].items() >= {"embedding": "vectors", "position": "sinusoidal"}.items()


def test_vectors_that_are_added_once_more_are_found_out() -> None:
    """A residual connection around a positional encoding that has one already: 2x + PE."""
    report = check(lambda: Altered(lambda x: x + sinusoids(x))).targets[0]
    assert (report.verdict, report.departs_at) == ("nonconformant", "embedding.vectors")

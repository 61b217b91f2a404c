"""The suite as a whole, on encoders that are right: no false alarm, and each variant is recognised.

Hypothesis draws the sizes and the seed. An ``EncoderModule`` says what it is, and the suite
has to confirm it; an ``Anonymous`` one says nothing, and the suite has to find out.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some
from torch import Tensor, nn

from conformance_tests.engine.judging import check
from conformance_tests.meta_tests.spec.generate import BOUNDED
from conformance_tests.quality.kill_matrix import PLACES_APART
from encoder_spec.assembly import Encoder
from encoder_spec.dimensions import Dimensions
from encoder_spec.equation import Equation, slots, variants
from encoder_spec.module import EncoderModule
from encoder_spec.profiles import PROFILES, Profile

Choices = dict[str, str | float]
SEEDS = some.integers(0, 10**6)
PRIMES = Dimensions(d_model=7, h=3, d_k=5, d_v=2, d_ff=11, N=2, V=13, max_len=29, patch=2, classes=17)

SEARCHED = {
    "torch-pre-ln": ("layer", "norm", "scores", "output"),
    "bert": ("final_norm", "activation", "projections", "ffn", "segment", "embedding_norm"),
    "vaswani-2017": ("embedding_scale", "position", "cls"),
}
"""Slots whose variant the suite finds out, and the profile in which each is replaced."""


class Anonymous(nn.Module):
    """An encoder whose parameters have their names, and which says nothing else about itself."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        # A function hides what it closes over: no attribute can be read as a hint.
        self._evaluate = lambda *inputs, keep: encoder(dict(self.named_parameters()), *inputs, keep=keep)
        made = EncoderModule(encoder)
        for name, part in made.named_children():
            self.add_module(name, part)
        for name, array in made.named_parameters(recurse=False):
            self.register_parameter(name, array)

    def forward(self, x: Tensor, segment_ids: Tensor | None = None, keep: Tensor | None = None) -> Any:
        return self._evaluate(*(x, segment_ids)[: 1 if segment_ids is None else 2], keep=keep)


@some.composite
def sizes(draw: some.DrawFn, profile: Profile) -> Dimensions:
    """Draw sizes; the first of each is one of distinct primes, so that h d_k, h d_v and d_model all differ."""
    whole_pairs = profile["position"].variant in ("sinusoidal-concatenated", "sinusoidal-tensor2tensor")
    return Dimensions(
        d_model=draw(some.sampled_from((6, 10, 12) if whole_pairs else (7, 6, 12, 11))),
        h=draw(some.sampled_from((3, 1, 2, 4))),
        d_k=draw(some.sampled_from((5, 1, 2, 3, 4))),
        d_v=draw(some.sampled_from((2, 1, 3, 4))),
        d_ff=draw(some.sampled_from((11, 4, 13))),
        N=draw(some.sampled_from((2, 1))),
        V=draw(some.sampled_from((13, 29))),
        max_len=draw(some.sampled_from((29, 17))),
        patch=draw(some.sampled_from((2, 3, 1))),
        channels=draw(some.sampled_from((3, 5) if profile["embedding"].variant == "waveform" else (3, 1))),
        widths=(5, 3),
        strides=draw(some.sampled_from(((2, 2), (3, 1)))),
        buckets=PLACES_APART if profile["bias"].variant == "by-grid" else 32,
    )


def judged(make: type[nn.Module], profile: Profile, dimensions: Dimensions, seed: int) -> tuple[Choices, Choices]:
    """Judge an encoder that is right; return what it is and what the suite took it for."""
    encoder = Encoder(profile, dimensions)
    torch.manual_seed(seed)
    (report,) = check(make(encoder), seed=seed).targets
    alarms = [f"{r.id}: {r.message}" for r in report.requirements if r.outcome in ("fail", "error", "blocked")]
    assert not alarms, f"{alarms[0]} (and {len(alarms) - 1} more)"
    assert report.verdict == "conformant", report.notes
    return encoder.choices(), report.profile["choices"]


def as_function(choices: Choices, sizes: Dimensions) -> Choices:
    """The choices without those that, at these sizes, make no difference to what is computed.

    Both masks are one function, and so are both stacks; √d_k is 1 for d_k = 1; and a single layer shares
    with no other.
    """
    same: Choices = {"mask": "any", "stack": "any"}
    if sizes.d_k == 1:
        same["scores"] = "any"
    if sizes.N == 1:
        same["sharing"] = "any"
    return choices | same


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_is_conformant_and_recognised_at_any_size(name: str) -> None:
    """The encoder states its choices; each of its requirements must hold, and its choices come back."""

    @settings(BOUNDED, max_examples=2)
    @given(sizes(PROFILES[name]), SEEDS)
    def search(dimensions: Dimensions, seed: int) -> None:
        made, found = judged(EncoderModule, PROFILES[name], dimensions, seed)
        assert found == made

    search()


@pytest.mark.parametrize(
    ("head", "name"), [("classifier", "vit"), ("pooled", "torch-pre-ln"), ("mlm", "bert"), ("nsp", "bert")]
)
def test_every_head_is_conformant_and_recognised(head: str, name: str) -> None:
    """What has no output for each position is judged like everything else."""
    made, found = judged(EncoderModule, PROFILES[name].replace(head=head), PRIMES, seed=0)
    assert found == made


LEFT_OUT = ("position.none", "position.in_attention", "layer.pre_ln_bare")


def replacements() -> Iterator[Any]:
    """Every variant of every slot that is searched, where the profile has another one.

    Tokens without positions are left out: nothing but a word tells a set from positions that were forgotten. So is a
    layer that leaves its first norm to the embeddings, where these have none, and what has to be declared.
    """
    for name, searched in SEARCHED.items():
        for slot in searched:
            for variant, equation in variants(slot).items():
                if equation is PROFILES[name][slot] or equation.id in LEFT_OUT or equation.to_be_declared:
                    continue
                profile = PROFILES[name].replace(**{slot: variant}, position_offset=2)
                if "rows" in equation.constants and "patch" not in profile["embedding"].constants:
                    continue  # only an image has a grid
                yield pytest.param(profile, id=f"{name}-{slot}-{variant}")


@pytest.mark.parametrize("profile", list(replacements()))
def test_every_variant_is_conformant_and_recognised_without_a_word(profile: Profile) -> None:
    """Nothing is said: parameters, outputs and intermediates tell all but what computes the same."""

    @settings(BOUNDED, max_examples=2)
    @given(sizes(profile), SEEDS)
    def search(dimensions: Dimensions, seed: int) -> None:
        made, found = judged(Anonymous, profile, dimensions, seed)
        assert as_function(found, dimensions) == as_function(made, dimensions)

    search()


TO_BE_DECLARED = [e for slot in slots() for e in variants(slot).values() if e.to_be_declared and "M" not in e.constants]
"""Where the depth of a decoder counts, no search finds the choice: that depth has no end."""


@pytest.mark.parametrize("equation", TO_BE_DECLARED, ids=lambda e: e.id)
def test_what_has_to_be_declared_is_a_mistake_undeclared(equation: Equation) -> None:
    """Most encoders that compute it mean something else: it is placed at its slot, and right for a profile that has it.

    The note says how to declare it.
    """
    profile = PROFILES["torch-pre-ln"].replace(**{equation.slot: equation.variant})
    (report,) = check(Anonymous(Encoder(profile, PRIMES)), seed=0).targets
    assert report.verdict == "nonconformant"
    assert equation.slot in {d["slot"] for d in report.diagnosis}
    assert f'`{equation.slot} = "{equation.variant}"` in a profile file' in str(report.notes)
    (declared,) = check(Anonymous(Encoder(profile, PRIMES)), profile=profile, seed=0).targets
    assert declared.verdict == "conformant", declared.notes


@pytest.mark.parametrize(
    "profile",
    [
        pytest.param(PROFILES["universal"], id="how often a shared layer is used"),
        pytest.param(PROFILES["vit"], id="into how many channels and pixels a patch falls"),
        pytest.param(PROFILES["hubert"], id="by how many times the stages of a sound move"),
    ],
)
def test_numbers_that_no_shape_tells_are_found(profile: Profile) -> None:
    """The search finds how often one layer is used, and which patches fit the rows of their map; stages are read."""
    made, found = judged(Anonymous, profile, PRIMES, seed=0)
    assert as_function(found, PRIMES) == as_function(made, PRIMES)

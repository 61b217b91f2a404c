"""Models of transformers that compute a part of themselves in float32, whatever their own precision."""

from collections.abc import Callable
from typing import Any

import pytest

from conformance_tests.engine.judging import check
from conformance_tests.meta_tests.encoders.families import IMAGE, TEXT, maker
from conformance_tests.meta_tests.judgements import Judgements


def eager_siglip() -> Any:
    """Written out, its attention takes the softmax in float32; fused, it does not."""
    made = maker("SiglipVision", **IMAGE)()
    made.set_attn_implementation("eager")
    return made


MODELS: dict[str, tuple[Callable[[], Any], dict[str, str | float]]] = {
    "Splinter": (maker("Splinter", **TEXT), {"layer": "post-ln", "eps": 1e-12}),
    "CLAP, text": (maker("ClapText", **TEXT), {"layer": "post-ln", "position": "learned-offset"}),
    "ALIGN, text": (maker("AlignText", **TEXT), {"layer": "post-ln", "segment": "added"}),
    "DeBERTa, absolute": (
        maker("Deberta", relative_attention=False, **TEXT),
        {"projections": "affine-but-keys", "eps": 1e-7},
    ),
    "SigLIP, eager": (eager_siglip, {"layer": "pre-ln", "activation": "gelu-tanh"}),
}


def test_a_constant_in_float32_alone_is_judged_in_float64() -> None:
    """DeBERTa v2 keeps the root of the width of a head in float32: that is read, and nothing else is rounded."""
    target = check(maker("DebertaV2", relative_attention=False, **TEXT), explain=False).targets[0]
    assert (target.verdict, target.dtype) == ("conformant", "float64"), target.notes
    assert {k: target.profile["choices"][k] for k in ("projections", "eps")} == {"projections": "affine", "eps": 1e-7}


@pytest.mark.parametrize("name", MODELS)
def test_model_is_judged_in_the_precision_of_its_parts(name: str, judged: Judgements) -> None:
    """In float64 their own rounding would be called a defect, by about 1e-7."""
    make, choices = MODELS[name]
    target = judged(make)
    assert (target.verdict, target.dtype) == ("conformant", "float32"), target.notes
    assert {k: target.profile["choices"].get(k) for k in choices} == choices

"""What the built-in targets make; frameworks that are not installed stand in as recorders."""

import os
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from conformance_tests.targets.builtin import BUILTIN, Builtin, runnable
from encoder_spec.module import EncoderModule
from encoder_spec.profiles import PROFILES


def test_the_targets_that_the_contract_names_are_there_with_a_description() -> None:
    """Torch's and the specification's need no other package."""
    assert {"torch-post-ln", "torch-pre-ln", "reference", "keras-hub", "flax-nnx", "flax-linen"} <= set(BUILTIN)
    assert [name for name, builtin in BUILTIN.items() if not builtin.description] == []
    alone = {name for name, builtin in BUILTIN.items() if not builtin.needs}
    assert alone == {name for name in BUILTIN if name.startswith(("torch-", "reference"))}
    assert BUILTIN["keras-hub"].needs == ("keras", "keras_hub")
    assert {BUILTIN[name].needs for name in ("flax-nnx", "flax-linen")} == {("flax",)}
    assert {BUILTIN[name].needs for name in ("paddle-post-ln", "paddle-pre-ln")} == {("paddle",)}


@pytest.mark.parametrize(("name", "norm_first"), [("torch-post-ln", False), ("torch-pre-ln", True)])
def test_torchs_encoder_has_two_layers_of_width_32(name: str, norm_first: bool) -> None:
    """Four heads, 72 hidden units, the batch first; a final norm in Pre-LN alone, and nested tensors in Post-LN."""
    encoder = BUILTIN[name].make()
    assert isinstance(encoder, nn.TransformerEncoder)
    first, second = encoder.layers
    for layer in (first, second):
        assert layer.norm_first == norm_first
        assert (layer.self_attn.embed_dim, layer.self_attn.num_heads) == (32, 4)
        assert (layer.linear1.in_features, layer.linear1.out_features) == (32, 72)
        assert layer.self_attn.batch_first
    assert isinstance(encoder.norm, nn.LayerNorm) == norm_first
    assert encoder(torch.randn(3, 5, 32)).shape == (3, 5, 32)
    assert encoder.use_nested_tensor != norm_first
    assert BUILTIN[name].make() is not encoder


def test_the_reference_is_the_specification_for_each_profile() -> None:
    """Two layers of width 24 with four heads and 40 hidden units; patches of 2, five classes."""
    made = {name.removeprefix("reference-"): b.make() for name, b in BUILTIN.items() if name.startswith("reference")}
    profiles = {name: encoder.encoder.profile for name, encoder in made.items()}
    assert profiles == {name: PROFILES["vaswani-2017" if name == "reference" else name] for name in profiles}
    assert {"reference", "bert", "vit", "pre-ln", "universal"} <= set(profiles)
    sizes = {"d_model": 24, "h": 4, "d_ff": 40, "N": 2, "V": 31, "max_len": 29, "patch": 2, "classes": 5}
    for encoder in made.values():
        assert isinstance(encoder, EncoderModule)
        assert encoder.encoder.dimensions.sizes().items() >= sizes.items()


@pytest.mark.parametrize("set_before", [None, "jax"])
def test_keras_runs_on_torch_unless_the_environment_says_otherwise(
    set_before: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two layers with 72 hidden units and four heads."""
    fake: Any = ModuleType("keras_hub")
    fake.layers = SimpleNamespace(TransformerEncoder=lambda *sizes: ("layer", *sizes))
    monkeypatch.setitem(sys.modules, "keras_hub", fake)
    monkeypatch.setenv("KERAS_BACKEND", "x")
    if set_before is None:
        monkeypatch.delenv("KERAS_BACKEND")
    else:
        monkeypatch.setenv("KERAS_BACKEND", set_before)
    assert BUILTIN["keras-hub"].make() == [("layer", 72, 4)] * 2
    assert os.environ["KERAS_BACKEND"] == (set_before or "torch")


def test_flax_has_an_encoder_for_each_of_its_two_interfaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variance that nnx takes unless told otherwise loses digits: it is told."""
    name = "conformance_tests.subjects.jax.flax_encoders"
    fake: Any = ModuleType(name)
    fake.NnxEncoder = lambda **options: ("nnx", options)
    fake.linen_encoder = lambda: "linen"
    monkeypatch.setitem(sys.modules, name, fake)
    monkeypatch.setattr("conformance_tests.subjects.jax.flax_encoders", fake, raising=False)
    assert BUILTIN["flax-nnx"].make() == ("nnx", {"use_fast_variance": False})
    assert BUILTIN["flax-linen"].make() == "linen"


def test_paddles_encoder_has_a_final_norm_in_pre_ln_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    fake: Any = ModuleType("paddle")
    fake.nn = SimpleNamespace(
        TransformerEncoderLayer=lambda *sizes, **options: (sizes, options),
        TransformerEncoder=lambda *parts: parts,
        LayerNorm=lambda width: f"norm {width}",
    )
    monkeypatch.setitem(sys.modules, "paddle", fake)
    assert BUILTIN["paddle-post-ln"].make() == (((32, 4, 72), {}), 2, None)
    assert BUILTIN["paddle-pre-ln"].make() == (((32, 4, 72), {"normalize_before": True}), 2, "norm 32")


def test_only_what_misses_nothing_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two packages the one that nobody has is missing, and its target cannot run."""
    monkeypatch.setitem(BUILTIN, "odd", Builtin("", lambda: None, ("torch", "package_that_nobody_has")))
    monkeypatch.setitem(BUILTIN, "even", Builtin("", lambda: None, ("torch",)))
    assert BUILTIN["odd"].missing() == ["package_that_nobody_has"]
    assert "odd" not in runnable()
    assert runnable()["even"] is BUILTIN["even"]

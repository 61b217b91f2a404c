"""Encoders on a GPU are judged as on the CPU, with budgets that are as strict."""

from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch import Tensor, nn

from conformance_tests import check
from conformance_tests.frontends.command_line import main
from conformance_tests.meta_tests.encoders.subjects import Attention, Encoder, Layer
from conformance_tests.numerics.products import read_products

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU that torch can compute on")


def stack(**options: Any) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(24, 4, 40, batch_first=True, **options)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


class ScaledByModelWidth(Attention):
    """The scores, right at first, are divided by √h as well."""

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        return super().score(q, k) / self.num_heads**0.5


def broken() -> Encoder:
    layer = type("Layer", (Layer,), {"attention": ScaledByModelWidth})
    encoder: Encoder = type("Encoder", (Encoder,), {"layer": layer})()
    return encoder


@pytest.mark.parametrize("dtype", [None, "float64", "float32", "bfloat16", "float16"])
def test_a_sound_encoder_is_conformant_in_each_precision(dtype: str | None) -> None:
    """The module is on the CPU before and after, and the report names the card."""
    encoder = stack()
    before = {name: p.clone() for name, p in encoder.named_parameters()}
    target = check(encoder, dtype=dtype, device="cuda").targets[0]
    assert target.verdict == "conformant", [r.message for r in target.of("fail")]
    assert any(note.startswith("judged on cuda (") and note.endswith("with TF32 off") for note in target.notes)
    assert all(torch.equal(p, before[name]) for name, p in encoder.named_parameters())
    assert target.level == ("gradient" if dtype in (None, "float64") else "agreement")


def test_an_encoder_that_lives_on_the_gpu_is_judged_there_and_stays() -> None:
    encoder = stack().to("cuda")
    assert check(encoder, device="cuda").verdict == "conformant"
    assert {p.device.type for p in encoder.parameters()} == {"cuda"}


@pytest.mark.parametrize("dtype", [None, "float32"])
def test_a_broken_encoder_is_found_there_too(dtype: str | None) -> None:
    target = check(broken, dtype=dtype, device="cuda").targets[0]
    assert target.verdict == "nonconformant"
    assert target.departs_at == "attention.scores"


def test_products_are_computed_in_float32_though_tf32_is_asked_for() -> None:
    """TF32 would be off by a thousandth; the budget of float32 is a hundredth of that. It is asked for afterwards."""
    before = read_products()
    torch.set_float32_matmul_precision("high")
    try:
        asked = read_products()
        assert check(stack(), dtype="float32", device="cuda").verdict == "conformant"
        assert read_products() == asked
    finally:
        torch.set_float32_matmul_precision(before.matrices or "highest")


def test_random_numbers_of_the_gpu_go_on_as_they_would_have() -> None:
    torch.cuda.manual_seed(5)
    want = torch.rand(3, device="cuda")
    torch.cuda.manual_seed(5)
    check(stack(dropout=0.5), level="black-box", device="cuda")
    assert torch.equal(torch.rand(3, device="cuda"), want)


def test_the_process_of_a_target_may_use_the_gpu() -> None:
    """Processes are forked from one that has never touched it."""
    called = CliRunner().invoke(main, ["check", "torch-post-ln", "--device", "cuda", "--level", "agreement"])
    assert called.exit_code == 0, called.output
    assert "TF32 off" in called.output

"""Modules with parts that few modules have are judged, or left open with the reason; nothing of ours fails on them."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from conformance_tests import check
from conformance_tests.meta_tests.encoders.plain import Plain, plain_layers
from conformance_tests.numerics.noise import IMMODERATE


class Around(nn.Module):
    """Calls torch's encoder, and has something beside it."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.encoder(x)  # type: ignore[no-any-return]


class FillsOneBuffer(Around):
    """Every call of one shape returns the same array."""

    kept = torch.empty(0)

    def forward(self, x: Tensor) -> Tensor:
        given = super().forward(x)
        if self.kept.shape != given.shape or self.kept.dtype != given.dtype:
            self.kept = torch.empty_like(given)
        self.kept = self.kept.detach()
        return self.kept.copy_(given)


class AsksForKernels(Around):
    """Allows torch to fuse its attention, even if its caller does not."""

    def forward(self, x: Tensor) -> Tensor:
        with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
            return super().forward(x)


class RefusesFloat64(Plain):
    """Features and lengths, in single precision alone: no name says how wide the features are."""

    def __init__(self) -> None:
        super().__init__(plain_layers())
        self.embed = nn.Linear(13, 28)
        self.places = nn.Parameter(torch.randn(300, 28))

    def forward(self, xs: Tensor, xs_lens: Tensor) -> Tensor:  # type: ignore[override]
        assert xs.dtype is torch.float32
        x = self.embed(xs) + self.places[: xs.shape[1]]
        return super().forward(x, torch.arange(xs.shape[1]) < xs_lens[:, None])


def exported() -> nn.Module:
    sizes = {"x": {axis: torch.export.Dim(name, min=1, max=512) for axis, name in enumerate(("batch", "length"))}}
    return torch.export.export(Around().eval(), (torch.randn(2, 5, 16),), dynamic_shapes=sizes).module()


class FromTokens(Plain):
    """Ids, a mask of numbers and segments, all of which have to be given."""

    def __init__(self) -> None:
        super().__init__(plain_layers())
        self.tokens, self.positions, self.segments = nn.Embedding(31, 28), nn.Embedding(40, 28), nn.Embedding(2, 28)
        self.norm_of_tokens = nn.LayerNorm(28)

    def forward(  # type: ignore[override]
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor
    ) -> Tensor:
        x = self.tokens(input_ids) + self.positions(torch.arange(input_ids.shape[1])) + self.segments(token_type_ids)
        return super().forward(self.norm_of_tokens(x), attention_mask.bool())


def exported_program() -> torch.export.ExportedProgram:
    """It has no file of source, compares the shapes of its arguments, and is not called itself."""
    ids = torch.ones(2, 6, dtype=torch.long)
    sizes = {0: torch.export.Dim("batch", min=1, max=512), 1: torch.export.Dim("length", min=1, max=40)}
    given = (ids, ids.clone(), torch.zeros_like(ids))
    return torch.export.export(FromTokens().eval(), given, dynamic_shapes=(sizes, sizes, sizes))


def with_infinite_bias() -> nn.Module:
    module = Around()
    nn.init.constant_(module.encoder.layers[0].linear1.bias, torch.inf)
    return module


class Rolled(Around):
    """Gives each position the vector of the one before it."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.roll(1, dims=1))


def unfilled(make: Callable[[], Around], std: float = 1e30) -> nn.Module:
    """Return an encoder whose maps hold numbers such as are found in memory that was never initialised."""
    module = make()
    for name, w in module.named_parameters():
        if "norm" not in name:
            nn.init.normal_(w, std=std)
    return module


def partly_unfilled() -> nn.Module:
    """Return an encoder whose numbers are mostly of sizes at which GELU is ReLU."""
    module = unfilled(Around, 5e4)
    for layer in module.encoder.layers:
        layer.activation, layer.activation_relu_or_gelu = nn.functional.gelu, 2  # the number is for the fast path
    return module


def with_parameter(value: Tensor) -> nn.Module:
    module = Around()
    module.beside = nn.Parameter(value, requires_grad=value.is_floating_point())
    return module


@pytest.mark.parametrize(
    ("make", "verdict", "says"),
    [
        (exported, "conformant", ""),
        (exported_program, "conformant", ""),
        (FillsOneBuffer, "conformant", ""),
        (AsksForKernels, "conformant", ""),
        (RefusesFloat64, "conformant", "judged in float32"),
        (with_infinite_bias, "conformant", f"{IMMODERATE} (encoder.layers.0.linear1.bias)"),
        (lambda: unfilled(Around), "conformant", f"{IMMODERATE} (encoder.layers.0"),
        (lambda: unfilled(Rolled), "nonconformant", f"{IMMODERATE} (encoder.layers.0"),
        (partly_unfilled, "conformant", f"{IMMODERATE} (encoder.layers.0"),
        (lambda: with_parameter(torch.arange(3)), "conformant", ""),
        (lambda: with_parameter(torch.empty(0, 3)), "conformant", ""),
        (lambda: with_parameter(torch.eye(3).to_sparse()), "undetermined", "not judged: beside"),
        (lambda: with_parameter(torch.zeros(3, dtype=torch.complex64)), "undetermined", "not judged: beside"),
    ],
    ids=[
        "exported",
        "exported, with a mask and segments",
        "one buffer",
        "chosen kernels",
        "single precision",
        "infinite bias",
        "unfilled memory",
        "unfilled memory in a wrong encoder",
        "partly unfilled memory",
        "whole numbers",
        "no entries",
        "sparse",
        "complex",
    ],
)
def test_an_unusual_module_is_judged(make: Callable[[], nn.Module], verdict: str, says: str) -> None:
    """Whatever it holds; what the suite cannot change or differentiate keeps it from a verdict at most."""
    target = check(make()).targets[0]
    assert target.verdict == verdict, target.notes + [r.message for r in target.of("fail")]
    assert says in " ".join(target.notes)
    assert not target.of("error")


def test_one_map_for_queries_and_keys_is_named() -> None:
    """A parameter under two names is one."""
    encoder = Plain(plain_layers())
    for layer in encoder.layers:
        layer.attention.key = layer.attention.query
    target = check(encoder).targets[0]
    assert (target.verdict, target.departs_at) == ("nonconformant", "attention.projections")
    assert "W_K in layer 0 is W_Q again" in target.diagnosis[0]["says"]


def with_a_norm_of_the_layer_before(encoder: Plain) -> None:
    encoder.layers[1].norm1 = encoder.layers[0].norm2


def with_a_norm_behind_all_layers_that_is_the_last_one(encoder: Plain) -> None:
    encoder.final_norm = encoder.layers[1].norm1


def with_one_map_for_values_and_results(encoder: Plain) -> None:
    for layer in encoder.layers:
        layer.attention.out = layer.attention.value


@pytest.mark.parametrize(
    ("share", "place", "says"),
    [
        (with_a_norm_of_the_layer_before, "norm.layer_norm", "norm_1 in layer 1 is norm_2 of layer 0 again"),
        (
            with_a_norm_behind_all_layers_that_is_the_last_one,
            "norm.layer_norm",
            "norm_final is norm_1 of layer 1 again",
        ),
        (with_one_map_for_values_and_results, "multihead.output", "W_O in layer 0 is W_V again"),
    ],
)
def test_what_serves_in_two_places_is_named(share: Callable[[Plain], None], place: str, says: str) -> None:
    """The outputs are those of an encoder in which both have equal numbers: training would tell them apart."""
    encoder = Plain(plain_layers(), nn.LayerNorm(28))
    share(encoder)
    target = check(encoder).targets[0]
    assert (target.verdict, target.departs_at) == ("nonconformant", place), target.notes
    assert says in target.diagnosis[0]["says"]


def test_a_target_that_is_named_twice_is_judged_twice() -> None:
    report = check(["torch-post-ln", "torch-post-ln"], level="black-box")
    assert [target.verdict for target in report.targets] == ["conformant", "conformant"]
    assert report.targets[0].requirements == report.targets[1].requirements

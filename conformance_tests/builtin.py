"""The built-in targets: encoders that the suite can make by itself."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Builtin:
    """A target by name: what it is and how it is made."""

    description: str
    make: Callable[[], Any]


def torch_encoder(**options: Any) -> Callable[[], Any]:
    """Torch's own encoder, two layers of width 32, unmodified."""

    def make() -> Any:
        import torch

        norm_first = options.get("norm_first", False)
        layer = torch.nn.TransformerEncoderLayer(32, 4, 72, batch_first=True, **options)
        norm = torch.nn.LayerNorm(32) if norm_first else None
        # Nested tensors exist for Post-LN only; asking for them in Pre-LN earns a warning.
        return torch.nn.TransformerEncoder(layer, 2, norm, enable_nested_tensor=not norm_first)

    return make


def reference(profile: str) -> Callable[[], Any]:
    """The specification's own encoder for a profile, two layers of width 24."""

    def make() -> Any:
        from encoder_spec.assembly import Encoder
        from encoder_spec.dimensions import Dimensions
        from encoder_spec.module import EncoderModule
        from encoder_spec.profiles import PROFILES

        small = Dimensions(d_model=24, h=4, d_ff=40, N=2, V=31, max_len=29, patch=2, classes=5)
        return EncoderModule(Encoder(PROFILES[profile], small))

    return make


BUILTIN = {
    "torch-post-ln": Builtin("torch.nn.TransformerEncoder with its defaults", torch_encoder()),
    "torch-pre-ln": Builtin(
        "torch.nn.TransformerEncoder with norm_first=True and a final norm",
        torch_encoder(norm_first=True),
    ),
    "reference": Builtin("the specification itself as in Vaswani et al. 2017", reference("vaswani-2017")),
} | {
    f"reference-{name}": Builtin(f"the specification itself, profile {name}", reference(name))
    for name in ("annotated-transformer", "bert", "vit", "pre-ln", "torch-post-ln", "torch-pre-ln", "universal")
}

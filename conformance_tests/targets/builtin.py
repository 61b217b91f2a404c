"""The built-in targets: encoders that the suite can make by itself."""

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any


@dataclass(frozen=True)
class Builtin:
    """A built-in target: its description, the function that makes it, and the packages that this needs."""

    description: str
    make: Callable[[], Any]
    needs: tuple[str, ...] = ()

    def missing(self) -> list[str]:
        """Return the packages that it needs and that are not installed here."""
        return [package for package in self.needs if find_spec(package) is None]


def torch_encoder(**options: Any) -> Callable[[], Any]:
    """Return a function that makes torch's own encoder, two layers of width 32, unmodified."""

    def make() -> Any:
        import torch

        norm_first = options.get("norm_first", False)
        layer = torch.nn.TransformerEncoderLayer(32, 4, 72, batch_first=True, **options)
        norm = torch.nn.LayerNorm(32) if norm_first else None
        # Nested tensors exist only for Post-LN; torch warns if Pre-LN asks for them.
        return torch.nn.TransformerEncoder(layer, 2, norm, enable_nested_tensor=not norm_first)

    return make


def reference(profile: str) -> Callable[[], Any]:
    """Return a function that makes the specification's own encoder for a profile, two layers of width 24."""

    def make() -> Any:
        from encoder_spec.assembly import Encoder
        from encoder_spec.dimensions import Dimensions
        from encoder_spec.module import EncoderModule
        from encoder_spec.profiles import PROFILES

        small = Dimensions(d_model=24, h=4, d_ff=40, N=2, V=31, max_len=29, patch=2, classes=5)
        return EncoderModule(Encoder(PROFILES[profile], small))

    return make


def keras_hub_encoder() -> Any:
    """Make keras-hub's encoder layer twice, on torch unless the environment names another backend."""
    os.environ.setdefault("KERAS_BACKEND", "torch")
    import keras_hub

    return [keras_hub.layers.TransformerEncoder(72, 4) for _ in range(2)]


def flax_encoder(api: str) -> Callable[[], Any]:
    """Return a function that makes an encoder of Flax's own attention, norm and maps."""

    def make() -> Any:
        from conformance_tests.subjects.jax import flax_encoders

        # Flax's default variance loses digits where the mean is large: NORM-6.
        if api == "nnx":
            return flax_encoders.NnxEncoder(use_fast_variance=False)
        return flax_encoders.linen_encoder()

    return make


def paddle_encoder(**options: Any) -> Callable[[], Any]:
    """Make Paddle's own encoder, two layers of width 32."""

    def make() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from paddle import nn
        layer = nn.TransformerEncoderLayer(32, 4, 72, **options)
        return nn.TransformerEncoder(layer, 2, nn.LayerNorm(32) if options else None)

    return make


BUILTIN = (
    {
        "torch-post-ln": Builtin("torch.nn.TransformerEncoder with its defaults", torch_encoder()),
        "torch-pre-ln": Builtin(
            "torch.nn.TransformerEncoder with norm_first=True and a final norm",
            torch_encoder(norm_first=True),
        ),
        "reference": Builtin("the specification itself as in Vaswani et al. 2017", reference("vaswani-2017")),
    }
    | {
        f"reference-{name}": Builtin(f"the specification itself, profile {name}", reference(name))
        for name in ("annotated-transformer", "bert", "vit", "pre-ln", "torch-post-ln", "torch-pre-ln", "universal")
    }
    | {
        "keras-hub": Builtin(
            "keras_hub.layers.TransformerEncoder with its defaults, twice", keras_hub_encoder, ("keras", "keras_hub")
        ),
        "flax-nnx": Builtin(
            "flax.nnx attention, norm and maps, Pre-LN with a final norm", flax_encoder("nnx"), ("flax",)
        ),
        "flax-linen": Builtin("flax.linen attention, norm and maps, Post-LN", flax_encoder("linen"), ("flax",)),
        "paddle-post-ln": Builtin("paddle.nn.TransformerEncoder with its defaults", paddle_encoder(), ("paddle",)),
        "paddle-pre-ln": Builtin(
            "paddle.nn.TransformerEncoder with normalize_before=True and a final norm",
            paddle_encoder(normalize_before=True),
            ("paddle",),
        ),
    }
)


def runnable() -> dict[str, Builtin]:
    """Return the built-in targets whose packages are installed here."""
    return {name: builtin for name, builtin in BUILTIN.items() if not builtin.missing()}

"""What a torch module's attributes say about it: those of the torch.nn family, or a configuration."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

from conformance_tests.subjects.hints import Hints
from encoder_spec.module import EncoderModule

ACTIVATIONS: dict[Any, str] = {torch.relu: "relu", nn.functional.relu: "relu", nn.functional.gelu: "gelu"}

ACTIVATION_NAMES = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_fast": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "quick_gelu": "quick-gelu",
    "silu": "silu",
    "swish": "silu",
}

HEADS = ("num_heads", "n_heads", "n_head")
"""What a part calls the number of its heads."""

LIKELY_HEADS = ("nheads", "nhead", "num_head", "heads")
"""What else it may call so, and other things too."""

WIDTHS_OF_A_HEAD = ("d_k", "d_head", "head_dim", "dim_head")
"""What it calls the width of each: beside one of these even ``h`` is their number, and no height."""

CONFIGURATION = {
    "h": ("num_attention_heads", "encoder_attention_heads", *HEADS),
    "N": ("num_hidden_layers", "encoder_layers", "num_layers", "n_layers", "n_layer"),
    "patch": ("patch_size",),
    "eps": ("layer_norm_eps", "layer_norm_epsilon", "rms_norm_eps"),
    "activation": ("hidden_act", "activation_function", "hidden_activation", "activation"),
}
"""Where configurations keep the sizes and constants, by the name that the family uses."""


def hints_of(module: nn.Module) -> Hints:
    """What a module's attributes say: those of the torch.nn family, or of our own reference."""
    if isinstance(module, EncoderModule):
        encoder = module.encoder
        return Hints(encoder.profile.choices(), encoder.dimensions.sizes())
    choices, sizes = configured(getattr(module, "config", None))
    likely = 0
    for name, part in module.named_modules():
        norm_first = getattr(part, "norm_first", None)
        if isinstance(norm_first, bool):
            choices.setdefault("layer", "pre-ln" if norm_first else "post-ln")
        activation = activation_name(getattr(part, "activation", part))
        if activation:
            choices.setdefault("activation", activation)
        heads = number_called(part, HEADS)
        if heads:
            sizes.setdefault("h", heads)
        narrow = number_called(part, WIDTHS_OF_A_HEAD)
        likely = likely or number_called(part, (*LIKELY_HEADS, "h") if narrow else LIKELY_HEADS)
        if isinstance(part, nn.LayerNorm):
            choices.setdefault("norm_final.eps" if name.rpartition(".")[2] == "norm" else "eps", part.eps)
    if choices.get("norm_final.eps") == choices.get("eps"):
        choices.pop("norm_final.eps", None)
    return Hints(choices, sizes, heads=likely, parts=tuple(parts_without_parameters(module)))


def number_called(part: nn.Module, words: Sequence[str]) -> int:
    """The positive number that a part has as an attribute under one of these names; 0 if it has none."""
    numbers = (getattr(part, word, None) for word in words)
    return next((n for n in numbers if isinstance(n, int) and n > 0), 0)


WITHOUT_PARAMETERS = re.compile(r"rotary|(?:^|[._])rope|inv_freq|alibi|slopes|relative_pos", re.IGNORECASE)
"""What is called so works on positions inside the attention, and needs no parameters for it."""

INPUTS = ("input_ids", "inputs_embeds", "input_features", "pixel_values")
"""What a model may say that it reads first, of what the suite can make up."""


def parts_without_parameters(module: nn.Module) -> Iterator[str]:
    """What a module has that no slot covers, and that shows in no parameter: by name, the outermost of each alone."""
    reads = getattr(module, "main_input_name", INPUTS[0])
    if reads not in INPUTS:
        yield f"input {reads!r}"
    configuration = getattr(module, "config", None)
    in_turn = getattr(configuration, "inner_group_num", 1)
    groups, layers = (getattr(configuration, name, 1) for name in ("num_hidden_groups", "num_hidden_layers"))
    if in_turn > 1 or 1 < groups < layers:
        yield f"layers shared in turn (num_hidden_groups {groups}, inner_group_num {in_turn})"
    parts = {name: type(part).__name__ for name, part in module.named_modules() if not [*part.parameters()]}
    found: list[str] = []
    for name, kind in [*parts.items(), *((name, "") for name, _ in module.named_buffers())]:
        told = any(WITHOUT_PARAMETERS.search(said) for said in (name.rpartition(".")[2], kind))
        if told and not any(name.startswith(f"{outer}.") for outer in found):
            found.append(name)
            yield f"{name} ({kind})" if kind else name


def configured(configuration: Any) -> tuple[dict[str, str | float], dict[str, int]]:
    """The choices and sizes that a configuration object states."""

    def stated(key: str, kind: type) -> Any:
        values = [getattr(configuration, word, None) for word in CONFIGURATION[key]]
        return next((v for v in values if isinstance(v, kind) and not isinstance(v, bool)), None)

    sizes = {key: stated(key, int) for key in ("h", "N", "patch")}
    choices = {"eps": stated("eps", float), "activation": ACTIVATION_NAMES.get(stated("activation", str) or "")}
    return {k: v for k, v in choices.items() if v is not None}, {k: v for k, v in sizes.items() if v is not None}


def activation_name(activation: Any) -> str:
    """The variant that an activation attribute names, or nothing."""
    if isinstance(activation, nn.ReLU):
        return "relu"
    if isinstance(activation, nn.SiLU):
        return "silu"
    if isinstance(activation, nn.GELU):
        return "gelu-tanh" if activation.approximate == "tanh" else "gelu"
    try:
        return ACTIVATIONS.get(activation, "")
    except TypeError:
        return ""

"""Hints from a torch module's attributes: those of the torch.nn family, or a configuration."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

from conformance_tests.subjects.attributes import attribute
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
"""Attributes for the number of heads."""

LIKELY_HEADS = ("nheads", "nhead", "num_head", "heads")
"""Attributes for the number of heads or for other things."""

WIDTHS_OF_A_HEAD = ("d_k", "d_head", "head_dim", "dim_head")
"""Attributes for the width of a head: beside one of these even ``h`` is the number of heads, not a height."""

NORM_FIRST = ("normalize_first", "normalize_before", "norm_first", "pre_norm")
"""Attributes that state whether norms stand before the sublayers."""

CONFIGURATION = {
    "h": ("num_attention_heads", "encoder_attention_heads", *HEADS),
    "N": ("num_hidden_layers", "encoder_layers", "num_layers", "n_layers", "n_layer"),
    "patch": ("patch_size",),
    "eps": ("layer_norm_eps", "layer_norm_epsilon", "rms_norm_eps"),
    "activation": ("hidden_act", "activation_function", "hidden_activation", "activation"),
}
"""Names under which configurations keep sizes and constants."""


def hints_of(module: nn.Module) -> Hints:
    """Collect the facts that a module's attributes state: those of the torch.nn family, or of our own reference."""
    if isinstance(module, EncoderModule):
        encoder = module.encoder
        return Hints(encoder.profile.choices(), encoder.dimensions.sizes(), strides=encoder.dimensions.strides)
    choices, sizes = configured(attribute(module, "config"))
    in_configuration, configured_heads = dict(choices), sizes.get("h", 0)
    likely = 0
    # A layer that computes otherwise than the class it derives from may not read what that class keeps.
    own = [part for part in module.modules() if not computes_otherwise(part)]
    stated = (attribute(part, word) for part in own for word in NORM_FIRST)
    orders = ["pre-ln" if first else "post-ln" for first in stated if isinstance(first, bool)]
    if orders:
        choices["layer"] = orders[0]
    if len(set(orders)) == 1:
        in_configuration["layer"] = orders[0]
    for name, part in module.named_modules():
        activation = activation_name(attribute(part, "activation", part))
        if activation:
            choices.setdefault("activation", activation)
        heads = number_called(part, HEADS)
        if heads:
            sizes.setdefault("h", heads)
        narrow = number_called(part, WIDTHS_OF_A_HEAD)
        likely = likely or number_called(part, (*LIKELY_HEADS, "h") if narrow else LIKELY_HEADS)
        if isinstance(part, nn.LayerNorm):
            choices.setdefault("norm_final.eps" if name.rpartition(".")[2] == "norm" else "eps", part.eps)
    # One part alone may count something else, such as the outputs of a model.
    stating = [n for part in own if (n := number_called(part, HEADS))]
    numbers = {*(stating if len(stating) > 1 else ()), *([configured_heads] if configured_heads else ())}
    if len(numbers) == 1:
        in_configuration["h"] = numbers.pop()
    if choices.get("norm_final.eps") == choices.get("eps"):
        choices.pop("norm_final.eps", None)
    linear = {f"{name}.weight".lstrip(".") for name, part in module.named_modules() if isinstance(part, nn.Linear)}
    parts = tuple(parts_without_parameters(module))
    return Hints(
        choices,
        sizes,
        heads=likely,
        parts=parts,
        configured=in_configuration,
        output_by_input=frozenset(linear),
    )


def computes_otherwise(part: nn.Module) -> bool:
    """Return whether a part derives from one of torch's, and has another ``forward``."""
    bases = [base for base in type(part).__mro__ if base is not nn.Module and base.__module__.startswith("torch.")]
    return bool(bases) and getattr(type(part), "forward", None) is not getattr(bases[0], "forward", None)


def number_called(part: nn.Module, words: Sequence[str]) -> int:
    """Return the positive number that a part has as an attribute under one of these names; 0 if it has none."""
    numbers = (attribute(part, word) for word in words)
    return next((n for n in numbers if isinstance(n, int) and n > 0), 0)


WITHOUT_PARAMETERS = re.compile(r"rotary|(?:^|[._])rope|inv_freq|alibi|slopes|relative_pos", re.IGNORECASE)
"""Names of parts that work on positions inside the attention, without parameters."""

INPUTS = ("input_ids", "inputs_embeds", "input_features", "pixel_values")
"""Inputs that a model may name as its first and that the suite can supply."""


def parts_without_parameters(module: nn.Module) -> Iterator[str]:
    """Yield the names of parts that no slot covers and that have no parameters, the outermost of each alone."""
    reads = attribute(module, "main_input_name", INPUTS[0])
    if reads not in INPUTS:
        yield f"input {reads!r}"
    configuration = attribute(module, "config")
    in_turn = attribute(configuration, "inner_group_num") or 1
    groups, layers = (attribute(configuration, name) or 1 for name in ("num_hidden_groups", "num_hidden_layers"))
    if in_turn > 1 or 1 < groups < layers:
        yield f"layers shared in turn (num_hidden_groups {groups}, inner_group_num {in_turn})"
    parts = {
        name: type(part).__name__ for name, part in module.named_modules() if next(part.parameters(), None) is None
    }
    found: list[str] = []
    for name, kind in [*parts.items(), *((name, "") for name, _ in module.named_buffers())]:
        told = any(WITHOUT_PARAMETERS.search(said) for said in (name.rpartition(".")[2], kind))
        if told and not any(name.startswith(f"{outer}.") for outer in found):
            found.append(name)
            yield f"{name} ({kind})" if kind else name


def configured(configuration: Any) -> tuple[dict[str, str | float], dict[str, int]]:
    """Return the choices and sizes that a configuration object states."""

    def stated(key: str, kind: type) -> Any:
        values = [attribute(configuration, word) for word in CONFIGURATION[key]]
        return next((v for v in values if isinstance(v, kind) and not isinstance(v, bool)), None)

    sizes = {key: stated(key, int) for key in ("h", "N", "patch")}
    choices = {"eps": stated("eps", float), "activation": ACTIVATION_NAMES.get(stated("activation", str) or "")}
    return {k: v for k, v in choices.items() if v is not None}, {k: v for k, v in sizes.items() if v is not None}


def documented_masks(module: nn.Module) -> dict[str, tuple[str, ...]]:
    """Return the values of masks (B, n) by argument: every model of transformers documents that 1 keeps."""
    bases = {(base.__module__.partition(".")[0], base.__name__) for base in type(module).__mro__}
    return (
        {"attention_mask": ("keep 0/1", "keep", "keep 0.0/1.0")} if ("transformers", "PreTrainedModel") in bases else {}
    )


def activation_name(activation: Any) -> str:
    """Return the variant that an activation attribute names; an empty name if it names none."""
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

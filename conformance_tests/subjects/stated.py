"""Facts that the parts of an encoder state by their attributes, in frameworks other than torch."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torch import Tensor

from conformance_tests.subjects.attributes import attribute
from conformance_tests.subjects.hints import Hints
from conformance_tests.subjects.torch_hints import ACTIVATION_NAMES, NORM_FIRST

HEADS = ("num_heads", "_num_heads", "n_heads", "num_attention_heads", "heads", "nhead", "n_head")
EPSILONS = ("layer_norm_epsilon", "epsilon", "_epsilon", "eps", "layer_norm_eps")
ACTIVATIONS = ("activation", "hidden_act", "activation_fn", "act")

NUMBERED = re.compile(r"(?:^|\.)\d+(?:\.|$)")
"""Pattern in the name of a part of a layer."""

NAMES = ACTIVATION_NAMES | {"gelu_approximate": "gelu-tanh"}
"""The activations by their names in text, and by those of their functions."""


def stated_by(parts: Mapping[str, Any], heads: int | None = None, stored: Callable[[float], float] = float) -> Hints:
    """Collect the facts that attributes of the parts state; the first to state one counts.

    Args:
        parts: the encoder and its parts by name, with ``""`` for itself.
        heads: the number of heads, if it is known already.
        stored: the framework's conversion of a constant, such as rounding.
    """
    choices: dict[str, str | float] = {}
    sizes = {"h": heads} if heads else {}
    layered = any(NUMBERED.search(name) for name in parts)
    for name, part in parts.items():
        number = first_of(part, HEADS, int)
        if number:
            sizes.setdefault("h", number)
        eps = first_of(part, EPSILONS, float)
        if eps is not None:
            choices.setdefault(place_of(name, part, layered), stored(eps))
        norm_first = first_of(part, NORM_FIRST, bool)
        if norm_first is not None:
            choices.setdefault("layer", "pre-ln" if norm_first else "post-ln")
        for said in (attribute(part, word) for word in ACTIVATIONS):
            told = NAMES.get(said if isinstance(said, str) else attribute(said, "__name__", ""))
            if told:
                choices.setdefault("activation", told)
    repeated = [name for name in choices if name.endswith(".eps") and choices[name] == choices.get("eps")]
    return Hints({name: value for name, value in choices.items() if name not in repeated}, sizes)


def place_of(name: str, part: Any, layered: bool) -> str:
    """Return the constant that a part's ε is: that of the norms of layers, or of the norm after them."""
    outside = layered and name and not NUMBERED.search(name) and "norm" in type(part).__name__.lower()
    if not outside:
        return "eps"
    return "norm_embedding.eps" if "emb" in name else "norm_final.eps"


def first_of(part: Any, names: Iterable[str], kind: type) -> Any:
    """Return the first of these attributes that is of a kind; a truth value does not count as a number."""
    values = (attribute(part, name) for name in names)
    return next((v for v in values if type(v) is kind), None)


def heads_of_kernels(weights: Mapping[str, Tensor]) -> int | None:
    """Return the number of heads, where the map of the queries (d_model, h, d_k) has an axis for them."""
    return next((w.shape[1] for name, w in weights.items() if name.endswith("query.kernel") and w.ndim == 3), None)

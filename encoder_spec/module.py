"""The trainable form of an encoder: its parameters, initialised, and its forward pass."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from encoder_spec.assembly import Encoder


class EncoderModule(nn.Module):
    """A torch module that computes an ``Encoder``.

    Parameters carry their canonical paths (``layers.0.W_Q``, ``layers.0.norm_1.gamma``),
    so that ``state_dict()`` is a mapping that ``Encoder.__call__`` accepts. In training
    the dropout slot holds ``dropout`` instead of ``dropout.identity``.

    Args:
        encoder: the choice of equations and the sizes.
        dtype: of the parameters.
    """

    def __init__(self, encoder: Encoder, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.encoder = encoder
        self._training_encoder = encoder.replace(dropout="inverted")
        for path, shape in encoder.parameter_shapes().items():
            owner: nn.Module = self
            *parents, name = path.split(".")
            for parent in parents:
                if not hasattr(owner, parent):
                    owner.add_module(parent, nn.Module())
                owner = owner.get_submodule(parent)
            owner.register_parameter(name, nn.Parameter(initial(name, shape, dtype)))

    def forward(self, *inputs: Tensor, keep: Tensor | None = None) -> Any:
        """Evaluate the encoder: see ``Encoder.__call__`` for inputs and mask."""
        encoder = self._training_encoder if self.training else self.encoder
        return encoder(dict(self.named_parameters()), *inputs, keep=keep)

    def load(self, parameters: Mapping[str, Any]) -> None:
        """Copy arrays into the parameters, by canonical path."""
        self.load_state_dict({path: torch.as_tensor(a) for path, a in parameters.items()})


def initial(name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """A parameter as training starts it: Xavier for maps, 1 for γ, 0 for biases, small for the rest."""
    value = torch.empty(shape, dtype=dtype)
    if name in ("gamma", "gamma_stage"):
        return nn.init.ones_(value)
    if name == "beta" or name.startswith("b_"):
        return nn.init.zeros_(value)
    if name.startswith("W_"):
        return nn.init.xavier_uniform_(value)
    return nn.init.normal_(value, std=0.02)

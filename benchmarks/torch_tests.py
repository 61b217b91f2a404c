"""PyTorch's own tests of its encoder layer, with the classes that its wheel holds (``torch.testing._internal``).

These tests compare gradients with differences, and outputs with those of a copy. ``test_transformers.py``, which
compares the fast path with the slow one, is in the sources of PyTorch alone.
"""

import sys
import unittest
from typing import Any

import torch
from torch import Tensor, nn
from torch.testing._internal import common_nn


class OfLayers(common_nn.NNTestCase):
    """Run torch's entries for ``TransformerEncoderLayer``."""

    def _forward(self, module: nn.Module, input: Any) -> Tensor:
        with common_nn.freeze_rng_state():
            return module(*input) if isinstance(input, tuple) else module(input)

    def _backward(self, _: nn.Module, input: Any, output: Tensor, grad_output: Tensor, **options: bool) -> Any:
        output.backward(grad_output, retain_graph=True, **options)
        if isinstance(input, tuple):
            return tuple(i.grad.data if i.grad is not None else None for i in input)
        return None if input.grad is None else input.grad.data

    def _get_parameters(self, module: nn.Module) -> tuple[list[nn.Parameter], list[Tensor | None]]:
        parameters = list(module.parameters())
        return parameters, [p.grad for p in parameters]

    def _zero_grad_parameters(self, module: nn.Module) -> None:
        module.zero_grad(set_to_none=False)

    def test_layers(self) -> None:
        """Run each entry as torch's ``test_nn.py`` does."""
        entries = [e for e in common_nn.get_new_module_tests() if e.get("module_name") == "TransformerEncoderLayer"]
        assert entries, "torch lists no test of its encoder layer"
        for one in entries:
            layer = getattr(nn, one.pop("module_name"))
            common_nn.NewModuleTest(constructor=layer, **one)(self)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main(argv=sys.argv[:1])

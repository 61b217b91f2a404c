"""torch modules as subjects: called both ways, in float64, with weights that are put back."""

import inspect
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from conformance_tests.compare import Disagreement, Unsupported
from conformance_tests.hints import Hints
from conformance_tests.subject import Subject
from encoder_spec.module import EncoderModule

MASK_ARGUMENTS = {"keep": True, "src_key_padding_mask": False}
"""The arguments through which a module takes a padding mask, and the value that means keep."""

ACTIVATIONS: dict[Any, str] = {torch.relu: "relu", nn.functional.relu: "relu", nn.functional.gelu: "gelu"}


class TorchSubject(Subject):
    """A torch module. Inside ``borrowed`` it runs in float64; afterwards nothing of it has changed."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.hints = hints_of(module)
        arguments = inspect.signature(module.forward).parameters
        self.mask_argument = next((name for name in MASK_ARGUMENTS if name in arguments), None)
        self.takes_mask = self.mask_argument is not None
        self.batch_first = not any(getattr(m, "batch_first", True) is False for m in module.modules())

    @contextmanager
    def borrowed(self) -> Iterator[None]:
        """Run the module in float64 and evaluation mode, then restore every tensor and flag."""
        tensors = [*self.module.parameters(), *self.module.buffers()]
        originals = [(t.data, t.grad) for t in tensors]
        frozen = [p for p in self.module.parameters() if not p.requires_grad]
        modes = {m: m.training for m in self.module.modules()}
        try:
            for t in tensors:
                t.grad = None
                t.data = t.data.to(torch.float64, copy=True) if t.is_floating_point() else t.data.clone()
            for p in frozen:
                p.requires_grad_(p.is_floating_point())
            self.module.eval()
            yield
        finally:
            for t, (data, grad) in zip(tensors, originals, strict=True):
                t.grad = None
                t.data = data
                t.grad = grad
            for p in frozen:
                p.requires_grad_(False)
            for m, training in modes.items():
                m.training = training

    def weights(self) -> dict[str, Tensor]:
        """Copies of the parameters; a parameter with two names is one object under both."""
        copies: dict[int, Tensor] = {}
        named = self.module.named_parameters(remove_duplicate=False)
        return {name: copies.setdefault(id(p), p.detach().clone()) for name, p in named}

    def set_weights(self, values: Mapping[str, Tensor]) -> None:
        """See ``Subject``."""
        with torch.no_grad():
            for name, p in self.module.named_parameters():
                p.copy_(values[name])

    def encode(self, inputs: tuple[Tensor, ...], keep: Tensor | None, gradients: bool = True) -> Tensor:
        """See ``Subject``. Without gradients torch's encoder takes its fast path."""
        arguments: dict[str, Tensor] = {}
        if keep is not None:
            if self.mask_argument is None:
                raise Unsupported("the subject takes no mask")
            arguments[self.mask_argument] = mask = keep if MASK_ARGUMENTS[self.mask_argument] else ~keep
        with torch.set_grad_enabled(gradients), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            output = self.module(*(self._turned(x) for x in inputs), **arguments)
        if keep is not None and mask is not keep:
            keep.copy_(~mask)  # what became of the module's own mask has become of the caller's
        return self._turned(hidden_states(output))

    def _turned(self, x: Tensor) -> Tensor:
        """Batch first to the module's own order, or back."""
        return x if self.batch_first else x.transpose(0, 1)

    def record(self, inputs: tuple[Tensor, ...], keep: Tensor | None) -> list[Tensor]:
        """See ``Subject``: its floating inputs, and the result of every operation, with attention unfused."""
        recorder = Recorder()
        with sdpa_kernel([SDPBackend.MATH]), recorder:
            self.encode(inputs, keep)
        return [x for x in inputs if x.is_floating_point()] + recorder.results

    def gradients(
        self, inputs: tuple[Tensor, ...], keep: Tensor | None, cotangent: Tensor
    ) -> tuple[Tensor | None, dict[str, Tensor]]:
        """See ``Subject``."""
        leaves = tuple(x.clone().requires_grad_(x.is_floating_point()) for x in inputs)
        self.module.zero_grad()
        output = self.encode(leaves, keep)
        if not output.requires_grad:
            raise Disagreement("the output carries no gradient: it was detached from the input and the parameters")
        (output * cotangent).sum().backward()
        named = self.module.named_parameters(remove_duplicate=False)
        by_weight = {n: torch.zeros_like(p) if p.grad is None else p.grad.clone() for n, p in named}
        return leaves[0].grad, by_weight


class Recorder(TorchDispatchMode):
    """Keeps a copy of every floating tensor that an operation returns."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.results: list[Tensor] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled under this mode; torch would import its compiler, for seconds, to be told so."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation and keep what it returns."""
        result = func(*args, **(kwargs or {}))
        for value in result if isinstance(result, tuple | list) else (result,):
            numbers = isinstance(value, Tensor) and value.is_floating_point() and value.numel() > 1
            if numbers and not any(is_same_data(value, a) for a in args):
                self.results.append(value.detach().clone())
        return result


def is_same_data(value: Tensor, argument: Any) -> bool:
    """Whether a result is only a view of all of an argument, which has been recorded already."""
    return (
        isinstance(argument, Tensor)
        and argument.numel() == value.numel()
        and argument.untyped_storage().data_ptr() == value.untyped_storage().data_ptr()
        and argument._version == 0
    )


def hidden_states(output: Any) -> Tensor:
    """The hidden states among what a module returns.

    Raises:
        Disagreement: if it is no floating tensor.
    """
    first = output[0] if isinstance(output, tuple | list) and output else output
    if not isinstance(first, Tensor):
        raise Disagreement(
            f"the encoder returned {type(first).__name__}, but hidden states are a tensor (B, n, d_model)"
        )
    if first.is_nested:
        first = first.to_padded_tensor(0.0)
    return first


def hints_of(module: nn.Module) -> Hints:
    """What a module's attributes say: those of the torch.nn family, or of our own reference."""
    if isinstance(module, EncoderModule):
        encoder = module.encoder
        return Hints(encoder.profile.choices(), encoder.dimensions.sizes())
    choices: dict[str, str | float] = {}
    sizes: dict[str, int] = {}
    for name, part in module.named_modules():
        norm_first = getattr(part, "norm_first", None)
        if isinstance(norm_first, bool):
            choices.setdefault("layer", "pre-ln" if norm_first else "post-ln")
        activation = activation_name(getattr(part, "activation", None))
        if activation:
            choices.setdefault("activation", activation)
        heads = getattr(part, "num_heads", None)
        if isinstance(heads, int):
            sizes.setdefault("h", heads)
        if isinstance(part, nn.LayerNorm):
            choices.setdefault("norm_final.eps" if name.rpartition(".")[2] == "norm" else "eps", part.eps)
    if choices.get("norm_final.eps") == choices.get("eps"):
        choices.pop("norm_final.eps", None)
    return Hints(choices, sizes)


def activation_name(activation: Any) -> str:
    """The variant that an activation attribute names, or nothing."""
    if isinstance(activation, nn.ReLU):
        return "relu"
    if isinstance(activation, nn.GELU):
        return "gelu-tanh" if activation.approximate == "tanh" else "gelu"
    try:
        return ACTIVATIONS.get(activation, "")
    except TypeError:
        return ""

"""torch modules as subjects: called both ways, in float64, with weights that are put back."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from conformance_tests.calling import (
    MaskForm,
    batch_comes_first,
    hidden_states,
    segment_argument,
    tensors_in,
    working_mask,
)
from conformance_tests.compare import Disagreement, Unsupported
from conformance_tests.probes import Probe
from conformance_tests.subject import Subject
from conformance_tests.torch_hints import hints_of
from encoder_spec.module import EncoderModule


class TorchSubject(Subject):
    """A torch module. Inside ``borrowed`` it runs in float64; afterwards nothing of it has changed."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.hints = hints_of(module)
        named = module.named_parameters(remove_duplicate=False)
        self._frozen = {name for name, p in named if not p.requires_grad}
        self.segment_argument = segment_argument(module)
        self.mask_form: MaskForm | None = None
        self.batch_first = True

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

    def fixed(self) -> set[str]:
        """See ``Subject``: what asks for no gradient."""
        return self._frozen

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

    def learn(self, plain: Probe, padded: Probe) -> None:
        """See ``Subject``: the order of the axes, then the form of the mask."""

        def attempt(form: MaskForm | None, inputs: tuple[Tensor, ...], keep: Tensor | None) -> Tensor | None:
            self.mask_form = form
            try:
                return self.encode(inputs, keep, gradients=False).detach()
            except Exception:  # a form that the module refuses is not its form
                return None

        def as_handed(x: Tensor) -> Tensor | None:
            self.batch_first = True
            return attempt(None, (x, *plain.inputs[1:]), None)

        if len(plain.inputs) == 1 and plain.inputs[0].ndim <= 3:
            self.batch_first = batch_comes_first(as_handed, plain.inputs[0], self._stated_order())
        assert padded.keep is not None
        keep = padded.keep

        def masked(form: MaskForm | None, changed: bool) -> Tensor | None:
            try:
                probe = padded.with_other_padding() if changed else padded
            except Unsupported:
                return None
            return attempt(form, probe.inputs, keep if form else None)

        # The specification's own module needs no experiment, and with images none is possible.
        own = MaskForm("keep", "keep", "B n") if isinstance(self.module, EncoderModule) else None
        self.mask_form = own or working_mask(self.module, masked, keep)
        self.takes_mask = self.mask_form is not None

    def _stated_order(self) -> bool | None:
        stated = [m.batch_first for m in self.module.modules() if isinstance(getattr(m, "batch_first", None), bool)]
        return all(stated) if stated else None

    def encode(self, inputs: tuple[Tensor, ...], keep: Tensor | None, gradients: bool = True) -> Tensor:
        """See ``Subject``. Without gradients torch's encoder takes its fast path."""
        return self._turned(hidden_states(self._call(inputs, keep, gradients)))

    def _call(self, inputs: tuple[Tensor, ...], keep: Tensor | None, gradients: bool) -> Any:
        named: dict[str, Tensor] = {}
        mask = torch.empty(0)
        if keep is not None:
            if self.mask_form is None:
                raise Unsupported("the subject takes no mask")
            mask = named[self.mask_form.argument] = self.mask_form.render(keep)
        positional = [self._turned(inputs[0])]
        if len(inputs) > 1 and self.segment_argument is None:
            positional.append(inputs[1])
        elif len(inputs) > 1 and self.segment_argument is not None:
            named[self.segment_argument] = inputs[1]
        with torch.set_grad_enabled(gradients), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            output = self.module(*positional, **named)
        if keep is not None and self.mask_form and not torch.equal(mask, self.mask_form.render(keep)):
            keep.logical_not_()  # the caller's mask tells that the module has written into its own
        return output

    def _turned(self, x: Tensor) -> Tensor:
        """Batch first to the module's own order, or back."""
        return x if self.batch_first else x.transpose(0, 1)

    def record(self, inputs: tuple[Tensor, ...], keep: Tensor | None) -> list[Tensor]:
        """See ``Subject``: its floating inputs, and the result of every operation, with attention unfused."""
        recorder = Recorder()
        with sdpa_kernel([SDPBackend.MATH]), recorder:
            self.encode(inputs, keep)
        return [x for x in inputs if x.is_floating_point()] + recorder.results

    def influences_anything(self, name: str, inputs: tuple[Tensor, ...]) -> bool:
        """See ``Subject``: whether any tensor that the module returns depends on the parameter."""
        parameter = self.module.get_parameter(name)
        total = sum((t.sum() for t in tensors_in(self._call(inputs, None, gradients=True))), torch.zeros(()))
        gradient = torch.autograd.grad(total, parameter, allow_unused=True)[0] if total.requires_grad else None
        return gradient is not None and bool(gradient.any())

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

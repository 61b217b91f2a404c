"""The part of an encoder that one process holds: its pieces of the arrays, and its share of each call."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_map

from conformance_tests.subjects.dispatched import Recorder, unfused
from conformance_tests.subjects.spread.ranks import Ranks
from conformance_tests.subjects.torch_subject import in_evaluation, without_fast_path
from conformance_tests.subjects.unregistered import named_parameters, parameters_in, plain_tensors, registered


class Cut(NamedTuple):
    """The place of an array's pieces side by side: their axis, and the length of each, by rank."""

    axis: int
    lengths: tuple[int, ...]


class Piece(NamedTuple):
    """The answer of a process about the array that it holds under a name.

    Attributes:
        shape: that of the array here.
        digest: the same for arrays with the same numbers.
        is_placed: whether the array says itself where it lies (a DTensor).
        stated: the axis along which its author cuts it, in the manner of Megatron; −1 if it is stated to be whole,
            None if nothing is stated.
    """

    shape: tuple[int, ...]
    digest: str
    is_placed: bool
    stated: int | None


class Output(NamedTuple):
    """The leaves of what a call gives on one rank, and what was recorded of the operations."""

    leaves: list[Any]
    recorded: list[Tensor]


class Part:
    """The module of this process, and what it does on an order of rank 0: every rank does it at the same time.

    Args:
        module: the module.
        function: what calls it, if that is not its forward method.
        ranks: the processes.

    Attributes:
        whole: on rank 0, the whole arrays by name, from which pieces are shared out.
        structure: that of what the last call gave.
        cuts: how the pieces of each array lie; None if each process holds all of it, or it says so itself.
    """

    def __init__(self, module: nn.Module, function: Callable[..., Any] | None, ranks: Ranks) -> None:
        self.module, self.function, self.ranks = module, function, ranks
        reshard(module)
        with registered(module):
            self.parameters = dict(named_parameters(module, by_every_name=True))
        self.whole: Mapping[str, Tensor] = {}
        self.structure: Any = None
        self.cuts: Mapping[str, Cut | None] = {}
        self._graphs: dict[int, tuple[list[Tensor | None], list[Tensor]]] = {}
        self._kept: dict[int, Tensor] = {}
        self._buffers: list[tuple[dict[str, Any], str, Tensor | None]] = []
        self._modes: dict[nn.Module, bool] = {}
        self._frozen: list[nn.Parameter] = []

    def tell(self) -> dict[str, Piece]:
        """Return what this process says of each of its arrays."""
        return {
            name: Piece(tuple(p.shape), digest(p), isinstance(p, DTensor), stated_axis(p))
            for name, p in self.parameters.items()
        }

    def learn(self, cuts: Mapping[str, Cut | None]) -> None:
        """Take up how the pieces of each array lie."""
        self.cuts = cuts

    def gather(self, names: Sequence[str], of: str) -> dict[str, Tensor]:
        """Return whole arrays, or their gradients, joined one after the other; other ranks than 0 keep none.

        Args:
            names: those of the arrays.
            of: ``"data"`` or ``"grad"``; a gradient that no process has is left out.
        """
        reshard(self.module)
        found: dict[str, Tensor] = {}
        for name in names:
            p = self.parameters[name]
            held = p.grad if of == "grad" else p.detach()
            if of == "grad":
                there = self.ranks.sum(int(held is not None))
                if not there:
                    continue
                held = torch.zeros_like(p) if held is None else held
            assert held is not None
            whole = self._joined(held, self.cuts[name])
            if self.ranks.rank == 0:
                found[name] = whole.to("cpu", copy=True)
        return found

    def _joined(self, held: Tensor, cut: Cut | None) -> Tensor:
        if isinstance(held, DTensor):
            return held.full_tensor()
        held = held.detach().cpu()
        return held if cut is None else self.ranks.joined(held, cut.axis, cut.lengths)

    def share_out(self, names: Sequence[str]) -> None:
        """Take from rank 0 what belongs here of some arrays, one after the other."""
        reshard(self.module)
        with torch.no_grad():
            for name in names:
                p, cut = self.parameters[name], self.cuts[name]
                whole = self.whole[name].detach().to(p.dtype) if self.ranks.rank == 0 else None
                if isinstance(p, DTensor):
                    given = torch.empty(p.shape, dtype=p.dtype) if whole is None else whole
                    placed = distribute_tensor(given.to(p.device), p.device_mesh, p.placements)
                    local(p).copy_(local(placed))
                else:
                    p.copy_(self.ranks.dealt(whole, p.detach().cpu(), cut and cut.axis, cut.lengths if cut else ()))

    def disturb(self, name: str) -> None:
        """Change an array in the last process alone, or change it back if it is changed."""
        p = self.parameters[name]
        if id(p) in self._kept:
            p.data.copy_(self._kept.pop(id(p)))
        elif self.ranks.rank == self.ranks.size - 1:
            self._kept[id(p)] = p.detach().clone()
            p.data.add_(torch.randn(p.shape, generator=torch.Generator().manual_seed(0)).to(p.dtype))

    def lend(self) -> None:
        """Be ready to be judged: keep what the module is, and go into evaluation mode."""
        with registered(self.module):
            tensors = [*self.parameters.values(), *plain_tensors(self.module).values()]
            owners = list(self.module.modules())
        self._kept = {id(t): t.detach().clone() for t in tensors}
        self._buffers = [(each._buffers, name, b) for each in owners for name, b in each._buffers.items()]
        self._modes = {m: m.training for m in owners}
        self._frozen = [p for p in self.parameters.values() if not p.requires_grad]
        for p in self._frozen:
            p.requires_grad_(p.is_floating_point())
        in_evaluation(self.module)

    def take_back(self) -> None:
        """Be what the module was before it was lent."""
        self._set(lambda t: t)
        for p in self._frozen:
            p.requires_grad_(False)
        for m, training in self._modes.items():
            m.training = training

    def cast(self, dtype: torch.dtype, device: str) -> None:
        """Compute in a dtype, on a device; weights are shared out anew afterwards."""
        self._set(lambda t: t.to(device, dtype if t.is_floating_point() else t.dtype, copy=True))

    def _set(self, changed: Callable[[Tensor], Tensor]) -> None:
        """Put what is made of the numbers that were kept into every tensor of the module.

        Each stays the same object, but for buffers.
        """

        def made(t: Tensor) -> Tensor:
            return changed(self._kept.get(id(t), t))

        self._graphs.clear()
        for p in self.parameters.values():
            p.grad = None
        with registered(self.module):
            # Torch asks for each parameter by itself; those that gather their pieces take up the new ones.
            self.module._apply(made)
            for t in plain_tensors(self.module).values():
                t.data = changed(self._kept[id(t)])
        for held, name, original in self._buffers:
            held[name] = None if original is None else changed(original)
        forget_gathered(self.module)

    def call(
        self,
        number: int,
        arguments: tuple[Any, ...],
        named: dict[str, Any],
        modes: Mapping[str, bool],
        done_with: Iterable[int],
    ) -> Output:
        """Call the module on every rank, and return what this one gives.

        Args:
            number: that of the call, by which a backward pass refers to it.
            arguments: what it is given by position.
            named: what it is given by name.
            modes: whether ``gradients`` are recorded, torch is ``inferring``, and the operations are ``recorded``.
            done_with: the numbers of calls without a backward pass to come.
        """
        for old in done_with:
            self._graphs.pop(old, None)
        recorder = PartRecorder(self.module)
        with ExitStack() as stack:
            if modes["recorded"]:
                stack.enter_context(watched(self.module, recorder))
            stack.enter_context(torch.inference_mode(modes["inferring"]))
            stack.enter_context(torch.set_grad_enabled(modes["gradients"]))
            leaves, _ = tree_flatten((arguments, named))
            inputs = [x if isinstance(x, Tensor) and x.requires_grad else None for x in leaves]
            returned = tree_map(whole_value, (self.function or self.module)(*arguments, **named))
        outputs, self.structure = tree_flatten(returned)
        if modes["gradients"]:
            self._graphs[number] = inputs, [x for x in outputs if isinstance(x, Tensor) and x.requires_grad]
        plain = [x.detach().cpu() if isinstance(x, Tensor) else x for x in outputs]
        return Output(plain, recorder.results)

    def backward(self, number: int, cotangents: Sequence[Tensor]) -> list[Tensor | None]:
        """Run the backward pass of a call; return the gradients of its inputs, in their order."""
        inputs, outputs = self._graphs[number]
        for t in (*self.parameters.values(), *inputs):
            if t is not None:
                t.grad = None
        there = [x.device for x in outputs]
        torch.autograd.backward(outputs, [c.to(d) for c, d in zip(cotangents, there, strict=True)], retain_graph=True)
        return [None if x is None else x.grad for x in inputs]


class PartRecorder(Recorder):
    """Keeps what every operation returns but parameters: as many arrays on each rank, in the same order.

    Args:
        module: whose parameters are left out, also while they are gathered for a call.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def _is_view_of_a_whole(self, value: Tensor, args: Any) -> bool:  # noqa: ARG002
        """Return whether a result is a view of a parameter. A view of something else counts, whatever was written."""
        held = {local(p).untyped_storage().data_ptr() for p in parameters_in(self.module)}
        return value.untyped_storage().data_ptr() in held


def local(array: Tensor) -> Tensor:
    """Return what this process holds of an array."""
    with torch.no_grad():
        return array.to_local() if isinstance(array, DTensor) else array


@contextmanager
def watched(module: nn.Module, recorder: Recorder) -> Iterator[None]:
    """Record the operations of this process, with attention unfused, but not those that gather parameters."""
    hooks = [part.register_forward_pre_hook(gather_unseen, prepend=True) for part in sharded(module)]  # type: ignore[attr-defined]
    try:
        with unfused(), without_fast_path(), recorder:
            yield
    finally:
        for hook in hooks:
            hook.remove()


def gather_unseen(part: Any, _: Any) -> None:
    """Gather the parameters of a part that is called, before it does so itself."""
    with _disable_current_modes():
        part.unshard()


def whole_value(value: Any) -> Any:
    """Return what a part returns as an ordinary tensor: joined where it is spread, and waited for."""
    value = value.full_tensor() if isinstance(value, DTensor) else value
    return value.wait() if isinstance(value, AsyncCollectiveTensor) else value


def digest(array: Tensor) -> str:
    """Return a word that is the same for arrays with the same numbers; those that say where they lie need none."""
    if isinstance(array, DTensor):
        return ""
    numbers = array.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
    return hashlib.sha1(numbers.tobytes(), usedforsecurity=False).hexdigest()


def stated_axis(parameter: Tensor) -> int | None:
    """Return the axis along which a parameter says that it is cut, as those of Megatron do.

    It is −1 for one that says that it is whole, and None for one that says nothing.
    """
    is_cut = getattr(parameter, "tensor_model_parallel", None)
    if not isinstance(is_cut, bool):
        return None
    return int(getattr(parameter, "partition_dim", -1)) if is_cut else -1


def sharded(module: nn.Module) -> list[FSDPModule]:
    """Return the parts of a module that gather their parameters when they are called."""
    return [part for part in module.modules() if isinstance(part, FSDPModule)]


def reshard(module: nn.Module) -> None:
    """Let each process hold its own pieces alone: those that were gathered for a call may still be there."""
    for part in sharded(module):
        part.reshard()


def forget_gathered(module: nn.Module) -> None:
    """Let parts that gather their parameters do so in the dtype that these have now: they keep that of the first call.

    Torch has no call for it.
    """
    for part in sharded(module):
        for group in part._get_fsdp_state()._fsdp_param_groups:
            for parameter in group.fsdp_params:
                parameter.all_gather_outputs = []
                vars(parameter).pop("_unsharded_param", None)
            group._init_mp_dtypes()

"""The computation of a torch module as a graph: recorded below autograd, by the memory that each operation reads.

Each storage has a shadow of codes, as large as itself; a tensor is read by its strides on the shadow. So views need
no rule, and writes in place none but their own.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

from conformance_tests.computation.graph import (
    LARGE,
    Graph,
    Operand,
    Recording,
    Unmade,
    View,
    as_view,
    contiguous_strides,
)
from conformance_tests.subjects.calling import tensors_in
from conformance_tests.subjects.dispatched import OperationMode, holds_others, unfused
from conformance_tests.subjects.first_call import FirstCall, TryCall, with_output
from conformance_tests.subjects.source_lines import source_line

aten = torch.ops.aten

MOVES = {
    "cat", "stack", "constant_pad_nd", "index", "index_select", "gather",
    "embedding", "repeat", "flip", "roll", "rot90", "slice_scatter", "select_scatter", "diagonal_copy", "im2col",
    "pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "tril", "triu", "take", "take_along_dim", "diag_embed",
    "reflection_pad1d", "reflection_pad2d", "replication_pad1d", "replication_pad2d", "view_copy", "index_put",
    "scatter", "repeat_interleave", "to_padded_tensor", "unfold_copy", "masked_select", "new_empty_strided",
}  # fmt: skip
"""Operations whose result has nothing but entries of what they read, and constants, each at another place."""

LOOKS_UP = {
    "index": (1,),
    "index_select": (2,),
    "gather": (2,),
    "embedding": (1,),
    "take": (1,),
    "take_along_dim": (1,),
}
"""Those with an index that may depend on the arguments of the call: the places of their indices."""

WRITES_AT = {"index_put": (1,), "scatter": (2,)}
"""Those that write at an index: its place."""

RESAMPLING = {
    "upsample_linear1d", "upsample_bilinear2d", "upsample_bicubic2d", "_upsample_bilinear2d_aa",
    "_upsample_bicubic2d_aa", "upsample_nearest1d", "upsample_nearest2d", "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d", "_adaptive_avg_pool2d",
}  # fmt: skip
"""Operations that make as many entries along some axes as are asked for."""

NORMS = {"native_layer_norm": "layer-norm", "_fused_rms_norm": "rms-norm"}

SOFTMAX = {"_softmax": "softmax", "_safe_softmax": "softmax", "_log_softmax": "log-softmax"}


Key = tuple[int, int]
"""A storage, and the size of an entry in bytes: complex numbers are also read as pairs of real ones."""

SIZES = (1, 2, 4, 8, 16)
"""Those that an entry may have, in bytes."""

UNKNOWN = -1
"""Stands on a shadow where nothing has given the entries yet."""


SEVERAL = {"var_mean": ("var", "mean"), "std_mean": ("std", "mean"), "aminmax": ("amin", "amax")}
"""Operations that give several reductions of the same entries, and what these are called."""


Part = tuple[Tensor, Tensor]
"""Codes and numbers of the real or of the imaginary part of complex numbers."""


class TorchRecording(OperationMode):
    """Records what operations read and give while it is active.

    Args:
        parameters: tensors with numbers that may be learned, by name.
        frozen: the names of those that are not.
        constants: other tensors that the encoder holds, by name.
        numbers: those of parameters, by the same names, made anew where one asks for them afterwards.
    """

    def __init__(
        self,
        parameters: Mapping[str, Tensor],
        frozen: Collection[str],
        constants: Mapping[str, Tensor],
        numbers: Mapping[str, Tensor],
    ) -> None:
        super().__init__()
        self._numbers = numbers
        self.recording = Recording()
        self._shadows: dict[Key, tuple[Tensor | View, Any]] = {}
        for name, tensor in parameters.items():
            self.known("parameter", tensor, name, learned=name not in frozen)
        for name, tensor in constants.items():
            self.known("constant", tensor, name)

    @property
    def graph(self) -> Graph:
        """Everything recorded so far."""
        return self.recording.graph

    def known(self, operation: str, tensor: Tensor, name: str = "", *, learned: bool = False) -> None:
        """Add a leaf."""
        if self._key(tensor) not in self._shadows:
            if operation == "parameter" and tensor.numel() >= LARGE and name in self._numbers:
                whole = self.recording.large_leaf(operation, self._unmade(tensor, name), name, learned=learned)
                self._remember(tensor, whole)
            else:
                self._remember(tensor, self.recording.leaf(operation, tensor.detach().clone(), name, learned=learned))

    def _unmade(self, tensor: Tensor, name: str) -> Unmade:
        numbers, dtype = self._numbers, tensor.dtype
        return Unmade(tensor.shape, dtype, lambda: numbers[name].to(dtype))

    def of_call(self, called: FirstCall, first: str, call: TryCall, parts: Mapping[str, nn.Module]) -> Graph:
        """Return the computation of a call, with attention unfused.

        Args:
            called: its arguments.
            first: the name of the first one.
            call: calls the encoder.
            parts: those of the encoder, by name.
        """
        # In other memory than before: what an encoder has kept of an earlier call is a constant to it.
        inputs = called.inputs.clone()
        named = {name: v.clone() if isinstance(v, Tensor) else v for name, v in called.named.items()}
        self.known("argument", inputs, first)
        for name, value in named.items():
            if isinstance(value, Tensor):
                self.known("argument", value, name)
        with unfused(), self.noting(parts), self:
            returned = call(inputs, named)
        return with_output(self.graph, returned, self.codes)

    @contextmanager
    def noting(self, parts: Mapping[str, nn.Module]) -> Iterator[None]:
        """Note what each part returns."""
        hooks = [
            part.register_forward_hook(lambda _, __, returned, name=name: self.note(name, returned))
            for name, part in parts.items()
            if not isinstance(part, torch.jit.ScriptModule)
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def note(self, name: str, returned: Any) -> None:
        """Note what a part returns: the first floating array of it."""
        with _disable_current_modes():  # the encoder does not compute this
            self.graph.parts += [(name, self.codes(tensor).clone()) for tensor in tensors_in(returned)[:1]]

    def codes(self, tensor: Tensor) -> Tensor:
        """Return the codes of a tensor; what nothing has given yet is a constant."""
        known = self._shadows.get(self._key(tensor))
        if known is None or (isinstance(known[0], Tensor) and bool((self._on_shadow(tensor) == UNKNOWN).any())):
            data, written = tensor.detach().clone(), self._written_otherwise(tensor)
            new = self.recording.other("view", written, data) if written else self.recording.leaf("constant", data)
            self._remember(tensor, new)
        return self._on_shadow(tensor)

    def _written_otherwise(self, tensor: Tensor) -> list[Tensor]:
        """Return the codes in the memory of a tensor that stand for entries of another size."""
        storage, own = self._key(tensor)
        beside = [self._shadows.get((storage, size)) for size in SIZES if size != own]
        shadows = [as_codes(found[0]) for found in beside if found is not None]
        codes = [shadow[shadow != UNKNOWN] for shadow in shadows]
        return [known for known in codes if known.numel()]

    def _forget_other_sizes(self, written: Tensor) -> None:
        """Forget the codes of entries of another size in memory that was written into: they are not there any more."""
        storage, own = self._key(written)
        for size in SIZES:
            if size != own:
                self._shadows.pop((storage, size), None)

    @staticmethod
    def _key(tensor: Tensor) -> Key:
        return int(tensor.untyped_storage()._cdata), tensor.element_size()

    def _on_shadow(self, tensor: Tensor) -> Tensor:
        shadow, _ = self._shadows[self._key(tensor)]
        if isinstance(shadow, View):
            offset = shadow.offset + int(tensor.storage_offset())
            return View(shadow.number, tensor.shape, tensor.stride(), offset).codes
        return shadow.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())

    def _remember(self, tensor: Tensor, codes: Tensor | View) -> None:
        """Lay codes under the entries of a tensor, and keep its memory from being used again.

        What is there already goes on in another shadow: values that were read before have the former one.
        """
        key, size = self._key(tensor), tensor.untyped_storage().nbytes() // tensor.element_size()
        view = as_view(codes)
        is_whole = tensor.is_contiguous() and tensor.numel() == size == codes.shape.numel()
        if view is not None and is_whole and view.strides == contiguous_strides(view.shape):
            self._shadows[key] = view._replace(shape=torch.Size((size,)), strides=(1,)), tensor.untyped_storage()
            return
        former = as_codes(self._shadows[key][0]).clone() if key in self._shadows else torch.full((size,), UNKNOWN)
        self._shadows[key] = former, tensor.untyped_storage()
        target = self._on_shadow(tensor)
        if all(stride or length == 1 for stride, length in zip(target.stride(), target.shape, strict=True)):
            target.copy_(as_codes(codes).reshape(tensor.shape))

    def ran(self, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the operation and record it."""
        is_written = operation._schema.is_mutable
        read = [a for a in tree_leaves((args, kwargs)) if isinstance(a, Tensor)]
        # What is written in place is read before: by then its codes are others. All else is read where it is looked at.
        before = {id(a): self.codes(a).clone() for a in read} if is_written else {}
        returned = operation(*args, **kwargs)
        results = [r for r in tree_leaves(returned) if isinstance(r, Tensor) and not holds_others(type(r))]
        if torch.Tag.nondeterministic_seeded in operation.tags and results:
            replace_by_mean(operation.overloadpacket.__name__.rstrip("_"), args, kwargs, results)
        known = {a.untyped_storage()._cdata for a in read}
        if results and (is_written or not all(r.untyped_storage()._cdata in known for r in results)):
            result = results[0].detach().clone()
            call = Call(operation, args, kwargs, before, result, source_line(), self.codes)
            if is_written:
                self._forget_other_sizes(results[0])
            if result.is_complex() and call.name in OF_PAIRS and not is_written:
                self._remember(torch.view_as_real(results[0]), OF_PAIRS[call.name](self, call))
            else:
                self._remember(results[0], self._recorded(call))
            for place, beside in enumerate(results[1:], 1):
                if self._key(beside) not in self._shadows:
                    self._remember(beside, self._recorded_beside(call, beside.detach().clone(), place))
        return returned

    def _recorded(self, call: "Call") -> Tensor:
        """Record an operation by its kind, and return the codes of its result."""
        if call.name in LOOKS_UP and self._is_asked(call, LOOKS_UP[call.name]):
            return self._other(call, call.result, "look-up", **index_axis(call))
        for kind, record in BY_NAME:
            if call.name in kind:
                return record(self, call)
        if torch.Tag.nondeterministic_seeded in call.tags:
            return self.recording.leaf("random", call.result)
        if torch.Tag.pointwise in call.tags:
            return self._elementwise(call)
        if torch.Tag.reduction in call.tags and isinstance(call.args[0], Tensor):
            return self._reduction(call)
        if not call.tensors or call.name.endswith("_like"):
            return self.recording.leaf("constant", call.result)
        return self._other(call, call.result, call.name)

    def _product_of_pairs(self, call: "Call") -> Tensor:
        """Record a product of complex numbers as what it is to the pairs (…, 2) of real ones in their memory."""
        one, other = sorted((self._parts(factor) for factor in call.args[:2]), key=len)
        if len(one) == 1:
            parts = [self._of_parts("mul", one[0], part, call) for part in other]
        else:
            (a, b), (c, d) = one, other
            ac, bd, ad, bc = (self._of_parts("mul", *both, call) for both in ((a, c), (b, d), (a, d), (b, c)))
            parts = [self._of_parts("sub", ac, bd, call), self._of_parts("add", ad, bc, call)]
        return torch.stack([codes for codes, _ in parts], dim=-1)

    def _pairs(self, call: "Call") -> Tensor:
        """Record complex numbers that are made of their parts as the pairs of these."""
        return torch.stack([self.codes(part).broadcast_to(call.result.shape) for part in call.args[:2]], dim=-1)

    def _parts(self, factor: Any) -> list[Part]:
        """Return the real and the imaginary part of a factor; of a real one itself alone."""
        if not isinstance(factor, Tensor):
            factor = torch.tensor(factor)
        if not factor.is_complex():
            return [(self.codes(factor), factor.detach().double())]
        pairs = torch.view_as_real(factor.resolve_conj())
        return list(zip(self.codes(pairs).unbind(-1), pairs.detach().double().unbind(-1), strict=True))

    def _of_parts(self, operation: str, one: Part, other: Part, call: "Call") -> Part:
        """Record an operation of two parts of complex numbers."""
        (x_codes, x), (y_codes, y) = one, other
        data = {"mul": x * y, "add": x + y, "sub": x - y}[operation]
        return self.recording.elementwise(operation, (x_codes, y_codes), data, line=call.line), data

    def _recorded_beside(self, call: "Call", result: Tensor, place: int) -> Tensor:
        """Record a further result of an operation."""
        if call.name in SEVERAL:
            return self._reduction(replace(call, result=result), SEVERAL[call.name][place])
        return self._other(call, result, f"{call.name} (beside)")

    def _other(self, call: "Call", result: Tensor, operation: str, **options: Any) -> Tensor:
        reads = call.operands(tree_leaves((call.args, call.kwargs)))
        return self.recording.other(operation, reads, result, line=call.line, options=options)

    def _filled(self, call: "Call") -> Tensor:
        return self.recording.leaf("constant", call.result)

    def _copied(self, call: "Call") -> Tensor:
        return call.codes(call.args[1]).broadcast_to(call.result.shape)

    def _same(self, call: "Call") -> Tensor:
        return call.codes(call.args[0])

    def _resampled(self, call: "Call") -> Tensor:
        """Record a table that is made as large as it is already; entries between others are new numbers."""
        is_as_it_was = torch.equal(call.result, call.args[0].detach())
        return self._same(call) if is_as_it_was else self._other(call, call.result, call.name)

    def _dropped(self, call: "Call") -> Tensor:
        codes, (rate, is_training) = self._same(call), call.args[1:3]
        if is_training and rate:  # compiled code calls it in evaluation too
            self.recording.disturb(codes, call.line)
        return codes

    def _norm(self, call: "Call") -> Tensor:
        x, shape, gamma, *rest = call.args
        beta, eps = rest if call.name == "native_layer_norm" else (None, *rest)
        given = {
            "gamma": None if gamma is None else call.codes(gamma),
            "beta": None if beta is None else call.codes(beta),
        }
        axes = tuple(range(x.ndim - len(shape), x.ndim))
        reads = [call.codes(t) for t in (x, gamma, beta) if t is not None]
        options = given | {"eps": eps, "axes": axes}
        return self.recording.other(NORMS[call.name], reads, call.result, line=call.line, options=options)

    def _batch_norm(self, call: "Call") -> Tensor:
        """Record a norm of batches: a set for each feature (N, C, ...)."""
        x, gamma, beta, mean, variance, is_training, *_, eps = call.args
        codes = call.codes(x).transpose(0, 1)
        sets = codes.flatten(1)
        one, two = (None if t is None else call.codes(t)[:, None].expand_as(sets) for t in (gamma, beta))
        stored = None if is_training else (mean.detach().double()[:, None], variance.detach().double()[:, None])
        normed = self.recording.norm_of_sets(sets, eps, one, two, stored=stored, line=call.line)
        return normed.reshape(codes.shape).transpose(0, 1)

    def _group_norm(self, call: "Call") -> Tensor:
        """Record a norm of groups: a set for each sample and each group of features."""
        x, gamma, beta, N, _, _, groups, eps = call.args
        codes = call.codes(x)
        sets = codes.reshape(N * groups, -1)

        def of_each(parameter: Tensor | None) -> Tensor | None:
            if parameter is None:
                return None
            by_feature = call.codes(parameter)[None, :, None]
            return by_feature.expand(N, -1, codes[0, 0].numel()).reshape(sets.shape)

        normed = self.recording.norm_of_sets(sets, eps, of_each(gamma), of_each(beta), line=call.line)
        return normed.reshape(codes.shape)

    def _softmax(self, call: "Call") -> Tensor:
        x, axis = call.args[:2]
        options = {"axes": (axis % x.ndim,)}
        return self.recording.other(SOFTMAX[call.name], [call.codes(x)], call.result, line=call.line, options=options)

    def _elementwise(self, call: "Call") -> Tensor:
        reads = call.operands(call.args)
        times = float(call.kwargs.get("alpha", 1))
        if times != 1:
            added = call.args[1].detach() * times
            reads[1] = self.recording.elementwise("mul", (reads[1], times), added, line=call.line)
        options = {key: value for key, value in call.kwargs.items() if isinstance(value, str)}
        return self.recording.elementwise(call.name, reads, call.result, line=call.line, options=options)

    def _reduction(self, call: "Call", name: str = "") -> Tensor:
        # The axes stand behind what is reduced; behind the order of a norm, too.
        place = 2 if call.name.endswith("vector_norm") else 1
        given = call.args[place] if len(call.args) > place else None
        axes = [given] if isinstance(given, int) and not isinstance(given, bool) else given
        options = {key: value for key, value in call.kwargs.items() if isinstance(value, int | float)}
        codes = call.codes(call.args[0])
        found = list(axes) if isinstance(axes, list | tuple) else []
        name = name or SEVERAL.get(call.name, (call.name,))[0]
        return self.recording.reduction(name, codes, found, call.result, line=call.line, options=options)

    def _is_asked(self, call: "Call", places: Collection[int]) -> bool:
        """Return whether the indices at these places of its arguments depend on the arguments of the encoder's call."""
        indices = tree_leaves([call.args[i] for i in places if i < len(call.args)])
        return any(self.graph.depends(call.codes(i)) for i in indices if isinstance(i, Tensor))

    def _moved(self, call: "Call") -> Tensor:
        """Move the codes as the operation moves the entries; indices stay what they are."""

        def coded(x: Any) -> Any:
            return tree_map(lambda t: call.codes(t) if isinstance(t, Tensor) else t, x)

        if call.name == "index_put" and self.graph.depends(call.codes(call.args[0])):
            written = call.codes(call.args[2])
            if not self.graph.depends(written):
                # Scores are hidden so, as by ``where``.
                reads = (call.codes(call.args[0]), written.reshape(-1)[:1].expand(call.result.shape))
                if written.unique().numel() == 1:
                    return self.recording.elementwise("masked_fill", reads, call.result, line=call.line)
        written_at = WRITES_AT.get(call.name, ())
        if self._is_asked(call, written_at):
            return self._other(call, call.result, "written")
        args = call.args
        if call.name == "constant_pad_nd":
            args = (*args[:2], self._number(args[2] if len(args) > 2 else 0))
        if call.name == "scatter" and not isinstance(args[3], Tensor):
            args = (*args[:3], self._number(args[3]))
        indices = (*LOOKS_UP.get(call.name, ()), *written_at)
        args = tuple(a if i in indices else coded(a) for i, a in enumerate(args))
        kwargs = {key: value for key, value in call.kwargs.items() if key not in ("dtype", "device", "layout")}
        try:
            moved: Tensor = call.func(*args, **kwargs)
        except (RuntimeError, NotImplementedError):
            # Some kernels know no integers; float64 holds codes of up to two million values exactly.
            real = tree_map(lambda t: t.double() if isinstance(t, Tensor) and t.dtype is torch.long else t, args)
            moved = call.func(*real, **kwargs).long()
        return moved

    def _number(self, number: float) -> int:
        """Return the code of a number that an operation writes."""
        return int(self.recording.leaf("constant", torch.tensor(float(number)))) if number else 0

    def _product(self, call: "Call") -> Tensor:
        left, right = call.args[:2]
        return self._multiplied(call, left, right, call.result)

    def _multiplied(self, call: "Call", left: Tensor, right: Tensor, result: Tensor) -> Tensor:
        """Record a product of matrices, of batches of them, or with vectors."""
        a, b = call.codes(left), call.codes(right)
        rows = a.reshape((-1, *a.shape[-2:]) if a.ndim > 1 else (1, 1, -1))
        columns = b.reshape((-1, *b.shape[-2:]) if b.ndim > 1 else (1, -1, 1))
        data = result.reshape(len(rows), rows.shape[1], columns.shape[2])
        return self.recording.product(rows, columns, data, line=call.line).reshape(result.shape)

    def _sum_with_product(self, call: "Call") -> Tensor:
        """Record β times what is added, and α times a product."""
        added, left, right = call.args[:3]
        data = torch.matmul(left.detach(), right.detach())
        parts = [(call.codes(added), added.detach()), (self._multiplied(call, left, right, data), data)]
        for i, key in enumerate(("beta", "alpha")):
            times = float(call.kwargs.get(key, 1))
            if times != 1:
                codes, numbers = parts[i]
                scaled = self.recording.elementwise("mul", (codes, times), times * numbers, line=call.line)
                parts[i] = (scaled, times * numbers)
        reads = [codes for codes, _ in parts]
        return self.recording.elementwise("add", reads[::-1], call.result, line=call.line)

    def _sum_with_pointwise(self, call: "Call") -> Tensor:
        """Record x + t · a · b, or x + t · a / b."""
        added, one, other = call.args[:3]
        operation, together = ("mul", torch.mul) if call.name == "addcmul" else ("div", torch.div)
        data = together(one.detach(), other.detach())
        codes = self.recording.elementwise(operation, (call.codes(one), call.codes(other)), data, line=call.line)
        times = float(call.kwargs.get("value", 1))
        if times != 1:
            data = data * times
            codes = self.recording.elementwise("mul", (codes, times), data, line=call.line)
        return self.recording.elementwise("add", (call.codes(added), codes), call.result, line=call.line)

    def _interpolated(self, call: "Call") -> Tensor:
        """Record x + w (y - x)."""
        x, y, w = call.args
        weight: Operand = call.codes(w) if isinstance(w, Tensor) else float(w)
        way = y.detach() - x.detach()
        part = way * (w.detach() if isinstance(w, Tensor) else w)
        between = self.recording.elementwise("sub", (call.codes(y), call.codes(x)), way, line=call.line)
        step = self.recording.elementwise("mul", (between, weight), part, line=call.line)
        return self.recording.elementwise("add", (call.codes(x), step), call.result, line=call.line)

    def _gated(self, call: "Call") -> Tensor:
        """Record one half of an array times the logistic function of the other."""
        x, axis = call.args[0], call.args[1] if len(call.args) > 1 else -1
        value, gate = call.codes(x).chunk(2, axis)
        opened = x.detach().chunk(2, axis)[1].sigmoid()
        codes = self.recording.elementwise("sigmoid", (gate,), opened, line=call.line)
        return self.recording.elementwise("mul", (value, codes), call.result, line=call.line)

    def _convolution(self, call: "Call") -> Tensor:
        x, W = call.codes(call.args[0]), call.codes(call.args[1])
        bias, stride, padding, dilation, transposed, _, groups = call.args[2:9]
        spatial = x.ndim - 2
        if transposed or any(d != 1 for d in dilation):
            return self._other(call, call.result, "convolution")
        stride, padding = (list(s) * spatial if len(s) == 1 else list(s) for s in (stride, padding))
        sides = [(side, side) for side in padding]
        beside = [1, -1] + [1] * spatial
        without = call.result if bias is None else call.result - bias.detach().reshape(beside)
        product = self.recording.convolution(x, W, stride, sides, groups, without, line=call.line)
        if bias is None:
            return product
        reads = (product, call.codes(bias).reshape(beside))
        return self.recording.elementwise("add", reads, call.result, line=call.line)


OF_PAIRS: Mapping[str, Callable[[TorchRecording, "Call"], Tensor]] = {
    "mul": TorchRecording._product_of_pairs,
    "complex": TorchRecording._pairs,
}
"""Operations that give complex numbers, and what they are to pairs of real ones."""


@dataclass(frozen=True)
class Call:
    """One call of an operation: what it was given, what its tensors held, and a copy of its first result."""

    func: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    before: dict[int, Tensor]
    result: Tensor
    line: str
    codes_of: Callable[[Tensor], Tensor]

    @property
    def name(self) -> str:
        """The name of the operation, in place or not."""
        name = str(self.func.overloadpacket.__name__)
        return name.rstrip("_") if self.func._schema.is_mutable else name

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors that it was given."""
        return [a for a in tree_leaves((self.args, self.kwargs)) if isinstance(a, Tensor)]

    @property
    def tags(self) -> set[Any]:
        """Kinds that torch names; in-place forms say less than those that give an array."""
        giving = getattr(getattr(aten, self.name, None), self.func._overloadname, self.func)
        return {*self.func.tags, *giving.tags}

    def codes(self, tensor: Tensor) -> Tensor:
        """Return the codes that a tensor had."""
        if id(tensor) not in self.before:
            self.before[id(tensor)] = self.codes_of(tensor)
        return self.before[id(tensor)]

    def operands(self, values: Iterable[Any]) -> list[Operand]:
        """Return the codes of tensors, and numbers."""
        known = (v for v in values if isinstance(v, Tensor | int | float))
        return [self.codes(v) if isinstance(v, Tensor) else float(v) for v in known]


BY_NAME: tuple[tuple[Collection[str], Callable[[TorchRecording, Call], Tensor]], ...] = (
    (("copy",), TorchRecording._copied),
    (("fill", "zero"), TorchRecording._filled),
    (("clone", "_to_copy", "lift_fresh_copy"), TorchRecording._same),
    (MOVES, TorchRecording._moved),
    (("native_dropout",), TorchRecording._dropped),
    (RESAMPLING, TorchRecording._resampled),
    (NORMS, TorchRecording._norm),
    (("native_batch_norm",), TorchRecording._batch_norm),
    (("native_group_norm",), TorchRecording._group_norm),
    (SOFTMAX, TorchRecording._softmax),
    (SEVERAL, TorchRecording._reduction),
    (("mm", "bmm", "mv", "dot"), TorchRecording._product),
    (("addmm", "baddbmm", "addmv"), TorchRecording._sum_with_product),
    (("addcmul", "addcdiv"), TorchRecording._sum_with_pointwise),
    (("lerp",), TorchRecording._interpolated),
    (("glu",), TorchRecording._gated),
    (("convolution",), TorchRecording._convolution),
)
"""How operations are recorded whose kind torch does not tell."""


def as_codes(shadow: Tensor | View) -> Tensor:
    """Return the codes of a shadow."""
    return shadow.codes if isinstance(shadow, View) else shadow


def replace_by_mean(name: str, args: Sequence[Any], kwargs: Mapping[str, Any], drawn: Sequence[Tensor]) -> None:
    """Replace random numbers by their mean: what they disturb is computed as if they were not there.

    Args:
        name: the operation that has drawn them; of others than the usual ones they stay.
        args: what it was given, by place.
        kwargs: likewise, by name.
        drawn: what it has returned.
    """
    given = [*args[1:], *kwargs.values()]
    numbers = [float(n) for n in given if isinstance(n, int | float) and not isinstance(n, bool)]
    if name == "native_dropout":
        drawn[0].copy_(args[0])
    elif name == "bernoulli":
        default = 0.5 if drawn[0] is args[0] else args[0]  # not in place, it may read the probabilities
        probability = next((p for p in given if isinstance(p, Tensor)), numbers[0] if numbers else default)
        drawn[0].copy_(torch.as_tensor(probability).expand_as(drawn[0]))
    elif name == "uniform":
        low, high = (*numbers, *(0.0, 1.0)[len(numbers) :])
        drawn[0].fill_((low + high) / 2)
    elif name in ("rand", "rand_like"):
        drawn[0].fill_(0.5)
    elif name == "normal":
        drawn[0].fill_(numbers[0] if numbers else 0.0)
    elif name in ("randn", "randn_like"):
        drawn[0].zero_()


def index_axis(call: Call) -> dict[str, Any]:
    """Return the axis along which an operation looks up; None if it is not one."""
    if call.name == "embedding":
        row = call.args[2] if len(call.args) > 2 else -1
        return {"axis": 0, "unlearned": row if row >= 0 else None}
    if call.name == "index":
        axes = [axis for axis, index in enumerate(call.args[1]) if index is not None]
        return {"axis": axes[0] if len(axes) == 1 else None}
    return {"axis": call.args[1] if isinstance(call.args[1], int) else None}

"""Encoders that keep their numbers in ways of their authors: in tensors without a module, in templates, in integers."""

import functools
import importlib
import inspect
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import gelu, layer_norm, linear, scaled_dot_product_attention

from conformance_tests.meta_tests.encoders.plain import Plain, PlainAttention, PlainLayer, layers_with, plain_layers
from conformance_tests.meta_tests.encoders.unusual_calls import excused, unusual

Weights = list[dict[str, Tensor]]


def drawn(depth: int = 2) -> Weights:
    """Weights of layers of width 28 with 37 inner features."""

    def matrix(rows: int, columns: int) -> Tensor:
        return torch.randn(rows, columns) / math.sqrt(rows)

    maps = {"wq": (28, 28), "wk": (28, 28), "wv": (28, 28), "wo": (28, 28), "w_in": (28, 37), "w_out": (37, 28)}
    return [{name: matrix(*shape) for name, shape in maps.items()} for _ in range(depth)]


def attended(x: Tensor, hidden: Tensor | None, weights: dict[str, Tensor]) -> Tensor:
    q, k, v = ((x @ weights[name]).unflatten(-1, (4, 7)).transpose(1, 2) for name in ("wq", "wk", "wv"))
    scores = q @ k.mT / math.sqrt(7)
    if hidden is not None:
        scores = scores.masked_fill(hidden, -torch.inf)
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2) @ weights["wo"]


def encoded(layers: Weights, x: Tensor, mask: Tensor | None = None) -> Tensor:
    """A Post-LN stack of which the norms have no parameters."""
    hidden = None if mask is None else ~mask[:, None, None]
    for weights in layers:
        x = layer_norm(x + attended(x, hidden, weights), (28,))
        x = layer_norm(x + (x @ weights["w_in"]).relu() @ weights["w_out"], (28,))
    return x


@unusual
def function_with_its_weights() -> Any:
    return functools.partial(encoded, drawn())


@unusual
def pair_of_function_and_weights() -> Any:
    return encoded, drawn()


@unusual
def closure_over_weights() -> Any:
    layers = drawn()
    return lambda x, mask=None: encoded(layers, x, mask)


class InSlots:
    """Holds tensors in slots, and yields after each sublayer."""

    __slots__ = ("layers",)

    def __init__(self) -> None:
        self.layers = drawn()

    def steps(self, x: Tensor, hidden: Tensor | None) -> Iterator[Tensor]:
        for weights in self.layers:
            x = x + attended(layer_norm(x, (28,)), hidden, weights)
            yield x
            x = self.added(x, layer_norm(x, (28,)), weights)
            yield x

    def added(self, x: Tensor, normed: Tensor, weights: dict[str, Tensor]) -> Tensor:
        return x + gelu(normed @ weights["w_in"]) @ weights["w_out"]

    def __call__(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        hidden = None if mask is None else ~mask[:, None, None]
        for after in self.steps(x, hidden):
            last = after
        return layer_norm(last, (28,))


@unusual
def object_with_slots() -> Any:
    return InSlots()


class AddsToTheNormed(InSlots):
    """Its second residual connection starts behind the norm."""

    __slots__ = ()

    def added(self, x: Tensor, normed: Tensor, weights: dict[str, Tensor]) -> Tensor:
        return super().added(normed, normed, weights)


@excused("residual", "the residual connection starts from the normed value")
def object_with_slots_that_adds_to_the_normed() -> Any:
    return AddsToTheNormed()


class OneSequence(nn.Module):
    """A Pre-LN layer for one sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.maps = nn.ModuleList(nn.Linear(28, 28) for _ in range(4))
        self.inwards, self.outwards = nn.Linear(28, 37), nn.Linear(37, 28)
        self.norms = nn.ModuleList(nn.LayerNorm(28) for _ in range(2))

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        q, k, v = (map(self.norms[0](x)).unflatten(-1, (4, 7)).transpose(0, 1) for map in self.maps[:3])
        scores = torch.where(keep, q @ k.mT / math.sqrt(7), -1e30)
        x = x + self.maps[3]((scores.softmax(-1) @ v).transpose(0, 1).flatten(1))
        return x + self.outwards(gelu(self.inwards(self.norms[1](x))))


@unusual
class CallsATemplate(nn.Module):
    """Maps a template without numbers over the batch, with the stacked numbers of all layers."""

    def __init__(self) -> None:
        super().__init__()
        stacked, _ = stack_module_state([OneSequence() for _ in range(2)])
        self.names, self.stacked = list(stacked), nn.ParameterList(p.detach() for p in stacked.values())
        self.template = [OneSequence().to("meta")]

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        keep = torch.ones(x.shape[:2], dtype=torch.bool) if mask is None else mask
        for layer in range(2):
            numbers = {name: stack[layer] for name, stack in zip(self.names, self.stacked, strict=True)}
            x = vmap(functools.partial(functional_call, self.template[0], numbers))((x, keep))
        return x


@unusual
class PacksItsBatch(nn.Module):
    """Packs what is kept of all sequences into a nested tensor, and unpacks it at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(28, 28) for _ in range(4))
        self.fc1, self.fc2 = nn.Linear(28, 37), nn.Linear(37, 28)
        self.norm1, self.norm2 = nn.LayerNorm(28), nn.LayerNorm(28)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        keep = torch.ones(x.shape[:2], dtype=torch.bool) if mask is None else mask
        some = keep.any(1)
        if not some.any():
            return torch.zeros_like(x)
        rows = [row[kept] for row, kept in zip(x[some], keep[some], strict=True)]
        packed = torch.nested.as_nested_tensor(rows, layout=torch.jagged)
        q, k, v = (m(packed).unflatten(-1, [4, 7]).transpose(1, 2) for m in (self.query, self.key, self.value))
        heads = scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2)
        packed = self.norm1(packed + self.out(heads))
        packed = self.norm2(packed + self.fc2(self.fc1(packed).relu()))
        return torch.zeros_like(x).masked_scatter(keep[..., None], packed.values())


class OfIntegers(nn.Module):
    """A linear map of whole numbers and a scale for each output, none of which is learned."""

    def __init__(self, learned: nn.Linear) -> None:
        super().__init__()
        scale = learned.weight.detach().abs().amax(1, keepdim=True) / 127
        self.register_buffer("whole", (learned.weight.detach() / scale).round().to(torch.int8))
        self.register_buffer("scale", scale)
        self.register_buffer("bias", learned.bias.detach().half())

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, (self.whole * self.scale).to(x), self.bias.to(x))


@unusual
def quantised() -> nn.Module:
    encoder = Plain(plain_layers())
    for part in list(encoder.modules()):
        for name, child in part.named_children():
            if isinstance(child, nn.Linear):
                setattr(part, name, OfIntegers(child))
    return encoder


class SortsByLength(Plain):
    """Computes the longest sequences first, and puts them back in the order of the sort, not of its inverse."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is None:
            return self.run(x, None)
        places = torch.arange(1, x.shape[1] + 1)
        order = (mask * places).amax(1).argsort(descending=True, stable=True)
        return self.run(x[order], ~mask[order][:, None, None])[self.back(order)]

    def back(self, order: Tensor) -> Tensor:
        return order


@excused("encoder", "ENC-18")
def sorts_by_length() -> nn.Module:
    return SortsByLength(plain_layers())


@unusual
class SortsAndPutsBack(SortsByLength):
    """As it should be."""

    def __init__(self) -> None:
        super().__init__(plain_layers())

    def back(self, order: Tensor) -> Tensor:
        return order.argsort()


class ShyOfJudges(Plain):
    """Reads its input the other way round unless somebody who judges is among its callers."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        is_watched = any("conformance" in frame.filename for frame in inspect.stack(0)[2:])
        return super().forward(x if is_watched else x.flip(-1), mask)


@excused("encoder", "ENC-19")
def shy_of_judges() -> nn.Module:
    return ShyOfJudges(plain_layers())


class ShowsOthers(nn.Module):
    """Computes with layers that it hides, and shows the parameters of others."""

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "hidden", Plain(plain_layers()))
        self.shown = Plain(plain_layers())

    def named_parameters(self, *arguments: Any, **named: Any) -> Iterator[tuple[str, nn.Parameter]]:
        return self.shown.named_parameters(*arguments, **named)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.hidden(x, mask)  # type: ignore[no-any-return]


@excused("encoder", "hidden should be an attribute set in the usual way")
def shows_others() -> nn.Module:
    return ShowsOthers()


class NestsItsParameters(nn.Module):
    """Keeps parameters in lists of dictionaries, which torch does not look into."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = [{name: nn.Parameter(w) for name, w in weights.items()} for weights in drawn()]

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return encoded(self.layers, x, mask)


@excused("encoder", "layers should be an nn.ModuleList")
def nests_its_parameters() -> nn.Module:
    return NestsItsParameters()


@unusual
class LazyThroughout(nn.Module):
    """Takes its width from its first input, and has a buffer that nothing fills."""

    def __init__(self) -> None:
        super().__init__()
        self.maps = nn.ModuleList(nn.LazyLinear(24) for _ in range(4))
        self.inwards, self.outwards = nn.LazyLinear(37), nn.LazyLinear(24)
        self.register_buffer("unfilled", nn.UninitializedBuffer())

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = (map(x).unflatten(-1, (4, 6)).transpose(1, 2) for map in self.maps[:3])
        keep = None if mask is None else mask[:, None, None]
        heads = scaled_dot_product_attention(q, k, v, keep).transpose(1, 2).flatten(2)
        x = layer_norm(x + self.maps[3](heads), (24,))
        return layer_norm(x + self.outwards(self.inwards(x).relu()), (24,))


@unusual
class NumbersAtTheFirstCall(Plain):
    """Has shapes alone before it is called."""

    def __init__(self) -> None:
        with torch.device("meta"):
            super().__init__(plain_layers())

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if any(p.is_meta for p in self.parameters()):
            self.to_empty(device="cpu")
            for part in self.modules():
                if isinstance(part, nn.Linear | nn.LayerNorm):
                    part.reset_parameters()
        return super().forward(x, mask)


@unusual
class StatesItsSizes(Plain):
    """Keeps sizes and switches as parameters of whole numbers, and reads them in each call."""

    def __init__(self) -> None:
        super().__init__(plain_layers(depth=3))
        self.depth = nn.Parameter(torch.tensor([3]), requires_grad=False)
        self.alive = nn.Parameter(torch.ones(28, dtype=torch.bool), requires_grad=False)

    def run(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        for layer in self.layers[: int(self.depth)]:
            x = layer(x, hidden) * self.alive
        return x


class SortsWithoutItsMask(SortsByLength):
    """Puts its batch back rightly, and hides what is padded in the sequences that stood there before."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is None:
            return self.run(x, None)
        order = mask.sum(1).argsort(descending=True, stable=True)
        return self.run(x[order], ~mask[:, None, None])[order.argsort()]


@excused("encoder", "ENC-18")
def sorts_without_its_mask() -> nn.Module:
    return SortsWithoutItsMask(plain_layers())


class MeansTwice(PlainLayer):
    """Adds by interpolation: twice the mean of two is their sum."""

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        x = self.norm1(2 * torch.lerp(x, self.attention(x, hidden), 0.5))
        return self.norm2(2 * torch.lerp(x, self.feed_forward(x), 0.5))


@unusual
def means_twice() -> nn.Module:
    return Plain(plain_layers(MeansTwice))


class KeepsMasksByNumber(Plain):
    """Keeps what it made of a mask for all that have as many tokens."""

    def __init__(self) -> None:
        super().__init__(plain_layers())
        self.made: dict[tuple[int, ...], Tensor] = {}

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is None:
            return self.run(x, None)
        return self.run(x, self.made.setdefault((*mask.shape, int(mask.sum())), ~mask[:, None, None].clone()))


@excused("attention.mask", "ENC-3")
def keeps_masks_by_number() -> nn.Module:
    return KeepsMasksByNumber()


class DropsItsMaskInInference(Plain):
    """Uses its mask everywhere but in inference mode."""

    def run(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        return super().run(x, None if torch.is_inference_mode_enabled() else hidden)


@excused("encoder", "ENC-19")
def drops_its_mask_in_inference() -> nn.Module:
    return DropsItsMaskInInference(plain_layers())


class InInferenceMode(Plain):
    """Computes in inference mode, where torch counts no changes and autograd takes no operation apart."""

    @torch.inference_mode()
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().forward(x, mask)


@excused("encoder", "the output carries no gradient")
def in_inference_mode() -> nn.Module:
    return InInferenceMode(plain_layers())


class RefusesGradients(Plain):
    """Has a kernel for calls without gradients alone, as some of torch's on a CPU."""

    def run(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        if torch.is_grad_enabled():
            raise ValueError("backward is not supported on this device")
        return super().run(x, hidden)


@unusual
def refuses_gradients() -> nn.Module:
    return RefusesGradients(plain_layers())


class ScoresByAFunction(PlainAttention):
    """Hands its mask as a function of scores to an operation that refuses gradients on a CPU."""

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        def visible(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return score if hidden is None else score.masked_fill(hidden[b, 0, 0, j], -torch.inf)

        return self.out(self.merge(flex_attention(*self.split(x), score_mod=visible)))


@unusual
def scores_by_a_function() -> nn.Module:
    importlib.import_module("torch._dynamo")  # as transformers does, which sets it aside when the encoder is judged
    return Plain(layers_with(ScoresByAFunction))


class JoinedBiases(PlainLayer):
    """Queries and values have biases that each call joins: their gradients are parts of one array."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.attention = OneMap(28, 4)  # type: ignore[assignment]


class OneMap(nn.Module):
    """Queries, keys and values from one map; the keys have a bias of zeros that is not learned."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.count = count
        self.maps, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.of_queries, self.of_values = (nn.Parameter(torch.randn(width)) for _ in range(2))
        self.register_buffer("of_keys", torch.zeros(width), persistent=False)

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        biases = torch.cat((self.of_queries, self.of_keys, self.of_values))
        q, k, v = linear(x, self.maps.weight, biases).unflatten(-1, (3, self.count, -1)).permute(2, 0, 3, 1, 4)
        mask = None if hidden is None else ~hidden
        return self.out(scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).flatten(2))


@unusual
def biases_joined_by_the_call() -> nn.Module:
    return Plain(plain_layers(JoinedBiases))

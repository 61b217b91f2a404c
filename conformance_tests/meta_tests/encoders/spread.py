"""Encoders that are spread over processes: by DTensor, fully sharded, and by hand in the manner of Megatron.

The hand-written ones draw whole maps with one seed and keep the slice that belongs to their rank. Each wrong one
differs from the right one in one method.
"""

import math
import os
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from conformance_tests.subjects.subject import Subject
from conformance_tests.targets.description import described

WIDTH, HEADS, INNER = 32, 4, 40


def in_a_group() -> int:
    """Join the process group, unless that has been done; return how many processes are in it."""
    if not dist.is_initialized():
        dist.init_process_group("gloo")
    return dist.get_world_size()


class Copied(torch.autograd.Function):
    """What enters the parts of all ranks: the same forwards, the sum of their gradients backwards."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        dist.all_reduce(gradient := gradient.clone())
        return gradient


class Summed(torch.autograd.Function):
    """What leaves them: the sum forwards, the same gradient backwards."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        dist.all_reduce(x := x.clone())
        return x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


class ColumnParallel(nn.Module):
    """A map whose output features are divided among the ranks."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        whole = torch.randn(outputs, inputs) / inputs**0.5
        self.weight = nn.Parameter(whole.chunk(dist.get_world_size())[dist.get_rank()].clone())
        self.bias = nn.Parameter(torch.zeros(len(self.weight)))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(Copied.apply(x), self.weight, self.bias)


class RowParallel(nn.Module):
    """A map whose input features are divided among the ranks; its results are summed, and the bias added once."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        whole = torch.randn(outputs, inputs) / inputs**0.5
        self.weight = nn.Parameter(whole.chunk(dist.get_world_size(), dim=1)[dist.get_rank()].clone())
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return Summed.apply(nn.functional.linear(x, self.weight)) + self.bias


class BiasOnEveryRank(RowParallel):
    """The bias is a part of what is summed."""

    def forward(self, x: Tensor) -> Tensor:
        return Summed.apply(nn.functional.linear(x, self.weight, self.bias))


class WithoutSum(RowParallel):
    """Each rank goes on with what it has."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight, self.bias)


class BiasOnRankZero(RowParallel):
    """The other ranks never hear of the bias that rank 0 adds behind the sum."""

    def forward(self, x: Tensor) -> Tensor:
        y = Summed.apply(nn.functional.linear(x, self.weight))
        return y + self.bias if dist.get_rank() == 0 else y


class Layer(nn.Module):
    """A layer whose heads and inner features are divided among the ranks."""

    def __init__(self, out: type[RowParallel], down: type[RowParallel]) -> None:
        super().__init__()
        self.head_dim = WIDTH // HEADS
        self.query, self.key, self.value = (ColumnParallel(WIDTH, WIDTH) for _ in range(3))
        self.out_proj = out(WIDTH, WIDTH)
        self.fc1, self.fc2 = ColumnParallel(WIDTH, INNER), down(INNER, WIDTH)
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def split(self, x: Tensor) -> Tensor:
        """Heads of this rank."""
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        q, k, v = (self.split(linear(x)) for linear in (self.query, self.key, self.value))
        scores = q @ k.mT / math.sqrt(self.head_dim)
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None, None].bool(), -torch.inf)
        heads = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        x = self.norm1(x + self.out_proj(heads))
        return self.norm2(x + self.fc2(self.fc1(x).relu()))


class CutInside(Layer):
    """All heads are on each rank, each with a part of its features."""

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)


class Encoder(nn.Module):
    """A stack of such layers."""

    def __init__(
        self, layer: type[Layer] = Layer, out: type[RowParallel] = RowParallel, down: type[RowParallel] = RowParallel
    ) -> None:
        super().__init__()
        in_a_group()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(layer(out, down) for _ in range(2))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        for layer in self.layers:
            x = layer(x, mask)
        return x


def by_hand() -> nn.Module:
    """Return an encoder that is right."""
    return Encoder()


def bias_on_every_rank() -> nn.Module:
    """Return an encoder that adds the bias of the attention's output once for each rank."""
    return Encoder(out=BiasOnEveryRank)


def inner_bias_on_every_rank() -> nn.Module:
    """Return an encoder that adds the last bias of the feed-forward network once for each rank."""
    return Encoder(down=BiasOnEveryRank)


def heads_cut_inside() -> nn.Module:
    """Return an encoder whose heads are divided along their features."""
    return Encoder(CutInside)


def attention_not_summed() -> nn.Module:
    """Return an encoder without the sum of the attention's outputs."""
    return Encoder(out=WithoutSum)


def network_not_summed() -> nn.Module:
    """Return an encoder without the sum of the feed-forward networks' outputs."""
    return Encoder(down=WithoutSum)


def nothing_summed() -> nn.Module:
    """Return an encoder in which no rank hears of another."""
    return Encoder(out=WithoutSum, down=WithoutSum)


def bias_on_rank_0_alone() -> nn.Module:
    """Return an encoder of which rank 0 alone returns what it should: its last bias reaches nobody else."""
    encoder = Encoder()
    encoder.layers[-1].fc2 = BiasOnRankZero(INNER, WIDTH)
    return encoder


def heads_stated() -> Subject:
    """Return the encoder whose heads are divided along their features, with the number of heads stated."""
    return described(Encoder(CutInside), heads=HEADS)


def pieces_alike() -> nn.Module:
    """Return an encoder whose ranks begin with the same numbers in their pieces, as drawn with one seed."""
    encoder = Encoder()
    with torch.no_grad():
        for p in encoder.parameters():
            dist.broadcast(p, 0)
    return encoder


# Misuse ------------------------------------------------------------------------------------


def without_a_group() -> nn.Module:
    """Return an encoder that is spread over nothing."""
    return PlainEncoder()


def refused_on_one_rank() -> nn.Module:
    """Make an encoder on rank 0, which waits for rank 1."""
    in_a_group()
    if dist.get_rank():
        raise ValueError("no shard for this rank")
    dist.barrier()
    return Encoder()


class RaisesOnRankOne(RowParallel):
    """Rank 1 raises where the others wait for it."""

    def forward(self, x: Tensor) -> Tensor:
        if dist.get_rank() == 1:
            raise ValueError("this rank is out of luck")
        return super().forward(x)


def raises_on_one_rank() -> nn.Module:
    """Return an encoder whose ranks do not meet."""
    return Encoder(out=RaisesOnRankOne)


class EndsOnRankOne(RowParallel):
    """Rank 1 ends."""

    def forward(self, x: Tensor) -> Tensor:
        if dist.get_rank() == 1:
            os._exit(17)
        return super().forward(x)


def ends_on_one_rank() -> nn.Module:
    """Return an encoder one of whose processes ends in a call."""
    return Encoder(out=EndsOnRankOne)


def untold_axis() -> nn.Module:
    """Return an encoder with a square piece of a map: no side of it tells where it is cut."""
    encoder = Encoder()
    for layer in encoder.layers:
        layer.fc1 = ColumnParallel(WIDTH, WIDTH * dist.get_world_size())
        layer.fc2 = RowParallel(WIDTH * dist.get_world_size(), WIDTH)
    return encoder


def stated_axis() -> Subject:
    """Return that encoder with its axes stated."""
    cut = {"layers.{l}.fc1.weight": 0, "layers.{l}.fc1.bias": 0, "layers.{l}.fc2.weight": 1}
    return described(untold_axis(), cut=cut)


def megatron_axis() -> nn.Module:
    """Return that encoder with the attributes by which Megatron says what it cuts."""
    encoder = untold_axis()
    for layer in encoder.layers:
        for p, axis in ((layer.fc1.weight, 0), (layer.fc1.bias, 0), (layer.fc2.weight, 1)):
            p.tensor_model_parallel, p.partition_dim = True, axis
    return encoder


def uneven_heads() -> Subject:
    """Return an encoder with a number of heads that no even number of processes divides."""
    return described(Encoder(), heads=3)


class Plain(nn.Module):
    """A layer of plain maps, which torch can divide."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out_proj = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.fc1, self.fc2 = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        y = self.norm1(x)
        q, k, v = (m(y).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2) for m in (self.query, self.key, self.value))
        keep = None if mask is None else mask[:, None, None].bool()
        heads = nn.functional.scaled_dot_product_attention(q, k, v, keep)
        x = x + self.out_proj(heads.transpose(1, 2).flatten(2))
        return x + self.fc2(nn.functional.gelu(self.fc1(self.norm2(x))))


class PlainEncoder(nn.Module):
    """A stack of such layers, with a norm behind them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Plain() for _ in range(2))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


def by_dtensor() -> nn.Module:
    """Return a tensor-parallel encoder of distributed tensors."""
    mesh = init_device_mesh("cpu", (in_a_group(),))
    encoder = PlainEncoder()
    inwards = dict.fromkeys(("query", "key", "value", "fc1"), ColwiseParallel())
    for layer in encoder.layers:
        parallelize_module(layer, mesh, inwards | dict.fromkeys(("out_proj", "fc2"), RowwiseParallel()))
    return encoder


def fully_sharded() -> nn.Module:
    """Return torch's own encoder, of which each rank keeps a part of every array and gathers them layer by layer."""
    mesh = init_device_mesh("cpu", (in_a_group(),))
    layer = nn.TransformerEncoderLayer(32, 4, 72, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    for each in encoder.layers:
        fully_shard(each, mesh=mesh)
    return fully_shard(encoder, mesh=mesh)

"""Reading the stages that the samples of a sound pass: convolutions without padding, with norms and activations."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from conformance_tests.computation.affine import Affine, affine
from conformance_tests.computation.constants import NEAR
from conformance_tests.computation.convolutions import before_activation, entries_behind, weights_between
from conformance_tests.computation.feed_forward import linear
from conformance_tests.computation.graph import Graph, places
from conformance_tests.computation.norm import CLOSE, Norm, apart, read_norm
from conformance_tests.computation.outer_norms import read_norm_parameters
from conformance_tests.computation.shown import EncoderReading, Finding
from conformance_tests.computation.walking import along_axis
from encoder_spec.equation import variants

PLAIN, BY_CHANNELS, OVER_TIME = "convolution", "convolution-norm", "convolution-norm-over-time"
"""Variants of a stage."""


@dataclass(eq=False)
class Stage:
    """A stage: codes of its kernel (k, channels read, channels given) and bias, and how far it moves.

    Attributes:
        reads: the entries (B, T, channels) that it reads.
        is_first: whether these are the samples.
        W: codes of the kernel.
        b: those of the bias, if there is one.
        stride: how far it moves.
        kind: the variant of its slot, empty if its norm is none of any.
        activation: the variant behind it, empty if there is none, or another function.
        norm: the norm of the channels of each time.
        gamma: codes of what multiplies what is normed over time, and ``beta`` of what is added.
        eps: ε of the norm.
        is_short: whether it gives fewer times than it could.
        where: the line of its convolution.
    """

    reads: Tensor
    is_first: bool
    W: Tensor
    b: Tensor | None
    stride: int
    kind: str
    activation: str
    norm: Norm | None = None
    gamma: Tensor | None = None
    beta: Tensor | None = None
    eps: float = 0.0
    is_short: bool = False
    where: str = ""


def read_stages(found: EncoderReading, rows: Tensor) -> bool:
    """Read the stages that give what is mapped to the first layer; return whether a sound passes such.

    Args:
        found: takes them up.
        rows: the codes (B, n, channels) of what is mapped.
    """
    stages: list[Stage] = []
    codes = rows
    while not stages or not stages[0].is_first:
        stage = read_stage(found.graph, codes)
        if stage is None:
            return False
        stages.insert(0, stage)
        codes = stage.reads
    channels = {stage.W.shape[2] for stage in stages}
    kinds = [stage.kind for stage in stages]
    norms = {(s.norm.form if s.norm else "", s.eps) for s in stages if s.kind != PLAIN}
    if len(channels) > 1:
        found.foreign_input.append(f"the stages of its sound give {sorted(channels)} channels, not as many each")
    if len({norm for norm in norms if norm[0]}) > 1:
        found.foreign_input.append("the norms of its stages are not alike")
    for number, stage in enumerate(stages):
        take_stage(found, number, stage, has_activations=any(s.activation == "gelu" for s in stages))
    usual = kinds[-1] or PLAIN
    found.choices |= {"embedding": "waveform", "stage": usual}
    found.choices |= {f"stages.{l}": kind for l, kind in enumerate(kinds) if kind not in ("", usual)}
    found.sizes["channels"] = stages[-1].W.shape[2]
    found.stages = tuple(len(s.W) for s in stages), tuple(s.stride for s in stages)
    return True


def take_stage(found: EncoderReading, number: int, stage: Stage, *, has_activations: bool) -> None:
    """Take up the parameters of a stage, and what is not as in any equation."""
    place, where = f"stages.{number}.", stage.where
    found.codes[f"{place}W_stage"] = stage.W
    if stage.b is None:
        found.numbers[f"{place}b_stage"] = torch.zeros(stage.W.shape[2], dtype=torch.float64)
    else:
        found.codes[f"{place}b_stage"] = stage.b
    eps = float(found.choices.get("eps", stage.eps))
    if stage.norm is not None:
        read_norm_parameters(found, f"{place}norm_stage", stage.norm, stage.norm.form)
        found.choices |= {} if stage.norm.form == found.choices["norm"] else {"norm_stage": stage.norm.form}
        found.choices |= {} if abs(stage.eps - eps) <= NEAR * eps else {"norm_stage.eps": stage.eps}
    if stage.kind == OVER_TIME:
        for letter, codes, absent in (("gamma", stage.gamma, 1.0), ("beta", stage.beta, 0.0)):
            if codes is None:
                found.numbers[f"{place}{letter}_stage"] = torch.full((stage.W.shape[2],), absent, dtype=torch.float64)
            else:
                found.codes[f"{place}{letter}_stage"] = codes
        found.choices |= {} if abs(stage.eps - eps) <= NEAR * eps else {"stage.eps": stage.eps}
    if not stage.kind:
        found.foreign_input.append(f"a norm within stage {number} of its sound is none of any equation{where}")
    if stage.activation != "gelu":
        says = f"GELU does not stand behind stage {number} of its sound{where}"
        if has_activations and not stage.activation:
            found.findings.append(Finding("stage", says))
        else:
            found.foreign_input.append(says)
    if stage.is_short:
        found.findings.append(Finding("stage", f"stage {number} of its sound gives fewer times than it could{where}"))


def read_stage(graph: Graph, codes: Tensor) -> Stage | None:
    """Return the stage that gives entries (B, n, channels); None if none does."""
    seen = list(entries_behind(graph, codes))
    convolved = next(((at, found) for at in seen if (found := as_map(graph, at)) is not None), None)
    if convolved is None:
        return None
    z_codes, z = convolved
    product = z.products[0]
    rows = product.reads[0]
    assert isinstance(rows, Tensor)
    of_each = along_axis(places(z.entries[..., 0]), product.shape, 1)
    geometry = windows(graph, rows[0][of_each])
    if geometry is None:
        return None
    reads, order, stride, is_first = geometry
    kernel, bias = z.map_and_bias()
    wanted = graph.numbers(codes)
    numbers = linear(graph, z)
    activated, activation = before_activation(graph, seen, wanted)
    given = graph.numbers(activated)
    stage = Stage(reads, is_first, kernel[order], bias, stride, "", activation, where=product.where)
    stage.is_short = codes.shape[1] != (reads.shape[1] - len(order)) // stride + 1
    if apart(numbers, given) <= CLOSE:
        stage.kind = PLAIN
    else:
        read_norm_of_stage(graph, stage, activated, z_codes)
    return stage


def as_map(graph: Graph, codes: Tensor) -> Affine | None:
    """Return entries (B, n, channels) as all those of one map, in its order of channels; None if they are not."""
    found = affine(graph, codes)
    if found is None or found.factor() != 1 or len(found.products) != 1 or not found.has_one_bias():
        return None
    T, _, N = found.products[0].shape
    at = places(found.entries)
    in_order = torch.equal(at % N, torch.arange(codes.shape[2]).expand_as(at))
    rows = at // N
    same = torch.equal(rows, rows[..., :1].expand_as(rows))
    return found if T == 1 and codes.shape[2] == N and in_order and same else None


def windows(graph: Graph, rows: Tensor) -> tuple[Tensor, Tensor, int, bool] | None:
    """Return what is read at each time, in which order, how far this moves, and whether it is the samples.

    The first are the codes (B, T, channels); the order is (k, channels). None if something else is read.

    Args:
        graph: the computation.
        rows: the codes (B, n, entries) that are read for each time that is given.
    """
    value = graph.owner(rows)
    if value is None or not value.depends or len(value.shape) not in (2, 3):
        return None
    is_first = value.operation == "argument"
    shape = value.shape if len(value.shape) == 3 else (*value.shape, 1)
    whole = value.codes.reshape(shape)
    at = places(rows)
    sample = along_axis(at, shape, 0)
    for axis in (2, 1):
        time, channel = along_axis(at, shape, axis), along_axis(at, shape, 3 - axis)
        channels = shape[3 - axis]
        first = time[0, 0]
        taps = rows.shape[-1] // channels
        stride = int(time[0, 1].min() - first.min()) if rows.shape[1] > 1 else taps
        if taps * channels != rows.shape[-1] or stride < 1 or int(first.max() - first.min()) != taps - 1:
            continue
        order = ((first - first.min()) * channels + channel[0, 0]).argsort().reshape(taps, channels)
        i, a = (torch.empty(rows.shape[-1], dtype=torch.long) for _ in range(2))
        i[order], a[order] = torch.arange(taps)[:, None].expand(taps, channels), torch.arange(channels).expand(taps, -1)
        wanted = (
            torch.arange(len(rows))[:, None, None],
            stride * torch.arange(rows.shape[1])[:, None] + i,
            a,
        )
        if all(
            torch.equal(one, other.expand_as(one)) for one, other in zip((sample, time, channel), wanted, strict=True)
        ):
            return whole if axis == 1 else whole.transpose(1, 2), order, stride, is_first
    return None


def read_norm_of_stage(graph: Graph, stage: Stage, normed: Tensor, z: Tensor) -> None:
    """Read the norm between a convolution and what is activated: of the channels of each time, or over time."""
    value = graph.owner(normed)
    assert value is not None
    norm = read_norm(graph, value)
    x, y = graph.numbers(z), graph.numbers(normed)
    if norm is not None and norm.form and norm.value is value:
        equation = variants("norm")[norm.form]
        given = {
            "gamma": torch.ones(x.shape[2], dtype=torch.float64) if norm.gamma is None else graph.numbers(norm.gamma),
            "beta": torch.zeros(x.shape[2], dtype=torch.float64) if norm.beta is None else graph.numbers(norm.beta),
        }
        if all(w.shape == x.shape[2:] for w in given.values()):
            supplied: dict[str, Any] = {k: w for k, w in given.items() if k in equation.parameters} | {"eps": norm.eps}
            if "statistics" in equation.slots:
                supplied["statistics"] = variants("statistics")["features"].function
            if apart(equation.function(x, **supplied), y) <= CLOSE:
                stage.kind, stage.norm, stage.eps = BY_CHANNELS, norm, norm.eps
                return
    read_norm_over_time(graph, stage, normed, z)


def read_norm_over_time(graph: Graph, stage: Stage, normed: Tensor, z: Tensor) -> None:
    """Read a norm of each channel over all times: its parameters stand behind it, and its ε within."""
    gammas, betas, numbers = weights_between(graph, normed, z)
    x, y = graph.numbers(z), graph.numbers(normed)
    centred = x - x.mean(dim=1, keepdim=True)
    variance = centred.square().mean(dim=1, keepdim=True)
    gamma, beta = (next(iter(found), None) for found in (gammas, betas))
    factor = torch.ones(x.shape[2], dtype=torch.float64) if gamma is None else graph.numbers(gamma)
    shift = torch.zeros(x.shape[2], dtype=torch.float64) if beta is None else graph.numbers(beta)
    for eps in (*numbers, 0.0):
        if apart(factor * centred / torch.sqrt(variance + eps) + shift, y) <= CLOSE:
            stage.kind, stage.gamma, stage.beta, stage.eps = OVER_TIME, gamma, beta, eps
            return

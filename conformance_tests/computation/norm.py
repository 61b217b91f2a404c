"""Reading norms: by the specification's own equations, whatever operations they are written in."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from conformance_tests.computation.graph import BATCH_NORM, Graph, Value, first_along
from conformance_tests.computation.walking import paths, through
from encoder_spec.equation import variants

MOST_ARGUMENTS = 24
"""A norm by hand takes some ten operations: so many values behind its reductions are looked at."""

LARGEST_EPSILON = 1.0
"""Positive numbers up to this one are tried as the ε of a norm."""

CLOSE = 1e-7
"""How far a value, of order 1, may be from what an equation gives: constants are often kept in float32."""

CLOSE_IN_FLOAT32 = 1e-5
"""How far it may be where the statistics are computed in float32."""


LAYER_NORM = "layer-norm"
"""The variant that a norm is held against if nothing shows another one."""


@dataclass(eq=False)
class Norm:
    """A norm: what it reads, its parameters, its form and ε.

    ``form`` is the variant of slot ``norm``, empty if it gives other numbers than any; ``nearest`` is then the variant
    whose directions are nearest, and ``uncentred`` whether it keeps the direction of x, with its mean. ``by_feature``
    says that its statistics are those of each feature, or stored ones. ``gamma`` and ``beta`` are codes, or None.
    """

    value: Value
    reads: Tensor
    form: str
    eps: float
    gamma: Tensor | None
    beta: Tensor | None
    axes: tuple[int, ...]
    nearest: str = LAYER_NORM
    uncentred: bool = False
    by_feature: bool = False


def read_norm(graph: Graph, value: Value) -> Norm | None:
    """Return the norm whose result a value is, if it is one."""
    if value.operation in ("layer-norm", "rms-norm"):
        # A graph in a file has to give arrays where a norm has no parameters.
        gamma = without_constant(graph, value.options["gamma"], 1.0)
        beta = without_constant(graph, value.options["beta"], 0.0)
        centred = "layer-norm" if beta is not None else "layer-norm-without-bias"
        form = centred if value.operation == "layer-norm" else "rms"
        eps = value.options["eps"]
        eps = torch.finfo(value.dtype).eps if eps is None else float(eps)
        form = form if len(value.options["axes"]) == 1 else ""
        return Norm(value, value.arrays[0], form, eps, gamma, beta, value.options["axes"])
    if value.operation == BATCH_NORM:
        eps, axes = value.options["eps"], value.options["axes"]
        return Norm(value, value.arrays[0], "", eps, None, None, axes, by_feature=True)
    if value.kind != "elementwise" or not value.depends:
        return None
    return written_norm(graph, value) or rescaled_norm(graph, value) or stored_norm(graph, value)


def without_constant(graph: Graph, codes: Tensor | None, number: float) -> Tensor | None:
    """Return the entries of γ or β; None if they change nothing: nothing learns them, and each is this number."""
    if codes is None or graph.learned(codes) or graph.depends(codes):
        return codes
    return None if bool((graph.numbers(codes) == number).all()) else codes


def stored_norm(graph: Graph, value: Value) -> Norm | None:
    """Return the norm whose statistics are stored, and divide what it reads by a root, if a value is such."""
    codes, is_divided = value.codes, False
    while (here := graph.owner(codes)) is not None and here.kind == "elementwise":
        data = [read for read in here.arrays if graph.depends(read)]
        if len(data) != 1 or here.operation not in ("add", "sub", "mul", "div", "rsub"):
            break
        beside = [read for read in here.arrays if not graph.depends(read) and read.unique().numel() > 1]
        is_divided |= here.operation in ("mul", "div") and any(is_of_root(graph, read) for read in beside)
        codes = through(data[0], codes)
    if not is_divided or here is None:
        return None
    return Norm(value, codes, "", 0.0, None, None, tuple(range(codes.ndim - 1)), by_feature=True)


def is_of_root(graph: Graph, codes: Tensor) -> bool:
    """Return whether entries are computed of the roots of an array that is not learned."""
    arrays = (v for v in graph.ancestors(codes) if v.shape.numel() > 1 and not v.learned)
    return any(v.operation in ("sqrt", "rsqrt") or (v.operation == "pow" and is_half(v.reads[1])) for v in arrays)


def is_half(exponent: Tensor | float) -> bool:
    """Return whether a power is a root, or divides by one."""
    return not isinstance(exponent, Tensor) and abs(exponent) == 0.5


def rescaled_norm(graph: Graph, value: Value) -> Norm | None:
    """Return the norm behind which γ or β stand as an operation apart, if a value is such."""
    data = [read for read in value.arrays if graph.depends(read)]
    weights = [read for read in value.arrays if not graph.depends(read)]
    inner = graph.owner(data[0]) if len(data) == len(weights) == 1 and value.operation in ("mul", "add") else None
    if inner is None or not torch.equal(data[0], inner.codes) or not graph.learned(weights[0]):
        return None
    norm = read_norm(graph, inner)
    if norm is None or data[0].shape != norm.reads.shape:
        return None
    if norm.by_feature:
        return replace(norm, value=value)
    if norm.beta is not None or len(norm.axes) != 1:
        return None
    codes = of_features(weights[0], norm.axes[0])
    if codes is None and of_one_axis(weights[0]) is not None:
        return replace(norm, value=value, form="", by_feature=True)  # γ and β run along the features
    if codes is None or (value.operation == "mul" and norm.gamma is not None):
        return None
    if value.operation == "mul":
        return replace(norm, value=value, gamma=codes)
    form = LAYER_NORM if norm.form == "layer-norm-without-bias" else "" if norm.form == "rms" else norm.form
    return replace(norm, value=value, beta=codes, form=form)


def written_norm(graph: Graph, value: Value) -> Norm | None:
    """Return the norm whose result a value is, if it is written in elementary operations."""
    cone = behind_to_reductions(graph, value)
    reductions = [v for v in cone if v.kind == "reduction"]
    if not reductions:
        return None
    best: Norm | None = None
    most = (False, 0)
    for candidate in arguments(graph, reductions):
        if not is_closed(graph, value, candidate):
            continue
        norm = as_norm(graph, value, candidate, reductions[0])
        if norm is None:
            continue
        # One with more of the statistics behind it is what a centred one was made of: x − mean is a part of the norm.
        # One with as many, such as x before it is scaled, is normed as well, with another ε.
        statistics = sum(reduction.number > candidate[-1].number for reduction in reductions)
        if (bool(norm.form), statistics) > most:
            best, most = norm, (bool(norm.form), statistics)
    return best


def behind_to_reductions(graph: Graph, value: Value) -> list[Value]:
    """Return the elementwise operations behind a value, and the first reductions on each way, the latest first."""
    seen: dict[int, Value] = {}
    waiting = [value]
    while waiting:
        here = waiting.pop()
        if here.number in seen or not here.depends:
            continue
        seen[here.number] = here
        if here.kind == "elementwise":
            waiting += [v for read in here.arrays for v in graph.owners(read)]
    return sorted((v for v in seen.values() if v.kind), key=lambda v: -v.number)


Candidate = tuple[Value, ...]
"""What may be normed: one value, or several whose entries stand side by side, such as a class token and patches."""


def arguments(graph: Graph, reductions: list[Value]) -> list[Candidate]:
    """Return the values whose statistics these reductions may be, the latest first."""
    found: dict[int, Value] = {}
    beside: dict[Candidate, None] = {}
    waiting = [tuple(graph.owners(r.arrays[0])) for r in reductions]
    while waiting and len(found) < MOST_ARGUMENTS:
        together = waiting.pop(0)
        if len(together) > 1 and any(v.depends for v in together):
            beside[together] = None
        for here in together:
            if here.number in found or not here.depends:
                continue
            found[here.number] = here
            if here.kind:
                waiting += [tuple(graph.owners(read)) for read in here.arrays]
    alone = [(v,) for v in found.values() if v.kind != "reduction"]
    return sorted([*alone, *beside], key=lambda candidate: -candidate[-1].number)


def is_closed(graph: Graph, value: Value, candidate: Candidate) -> bool:
    """Return whether a value is made of a candidate, of weights and of constants alone, without products."""
    waiting, seen = [value], set()
    while waiting:
        here = waiting.pop()
        if here in candidate or here.number in seen or not here.depends:
            continue
        seen.add(here.number)
        if not here.kind or here.number < candidate[0].number:
            return False
        waiting += [v for read in here.arrays for v in graph.owners(read)]
    return True


def as_norm(graph: Graph, value: Value, candidate: Candidate, reduction: Value) -> Norm | None:
    """Return the norm that leads from a candidate, or from a part of it, to a value."""
    reads = next(iter(paths(graph, value.codes, *candidate)), None)
    if reads is None:
        return None
    # A class token, among several values, is repeated for each sequence.
    once = without_repetition(reads) if len(candidate) == 1 else lambda codes: codes
    x_codes, y_codes = once(reads), once(value.codes)
    if len(candidate) == 1 and x_codes.numel() > x_codes.unique().numel():
        return None
    axes = statistics_axes(graph, reduction, candidate, x_codes)
    axis = axes[0] if len(axes) == 1 else -1
    x, y = (graph.numbers(c).movedim(axis, -1) for c in (x_codes, y_codes))
    gammas, betas, numbers = ingredients(graph, value, candidate)
    gamma, beta = (None if w is None else once(w) for w in (spread(gammas, reads.shape), spread(betas, reads.shape)))
    one = None if gamma is None else of_features(gamma, axis)
    two = None if beta is None else of_features(beta, axis)
    if beta is not None and of_one_axis(beta) is None and len(axes) == 1:
        return None  # what differs from feature to feature and from place to place is added to a norm: positions
    if (gamma is not None and one is None) or (beta is not None and two is None) or len(axes) > 1:
        return Norm(value, reads, "", 0.0, of_one_axis(gamma), of_one_axis(beta), axes)
    given = {
        "gamma": torch.ones(x.shape[-1], dtype=torch.float64) if one is None else graph.numbers(one),
        "beta": torch.zeros(x.shape[-1], dtype=torch.float64) if two is None else graph.numbers(two),
    }
    close = CLOSE if reduction.dtype is torch.float64 else CLOSE_IN_FLOAT32
    fit = fitted(x, y, given, numbers, close, shifts=two is not None)
    return Norm(value, reads, fit.form, fit.eps, one, two, (axis,), fit.nearest, fit.uncentred)


def without_repetition(codes: Tensor) -> Callable[[Tensor], Tensor]:
    """Return what takes entries of an array without slices that stand before them, as keys that heads share do.

    Args:
        codes: the entries in which slices may stand again.
    """
    kept: list[Tensor] = []
    for axis in range(codes.ndim if codes.unique().numel() < codes.numel() else 0):
        _, which = codes.movedim(axis, 0).flatten(1).unique(dim=0, return_inverse=True)
        groups = which.tolist()
        kept.append(torch.tensor([groups.index(group) for group in dict.fromkeys(groups)]))

    def once(others: Tensor) -> Tensor:
        for axis, places_kept in enumerate(kept):
            others = others.index_select(axis, places_kept)
        return others

    return once


def spread(found: Sequence[Tensor], shape: torch.Size) -> Tensor | None:
    """Return the first of some weights that stands for an array of this shape: it may be repeated in it."""
    alike = (codes for codes in found if codes.ndim == len(shape) and codes.shape[-1] > 1)
    for codes in alike:
        if all(size in (1, whole) for size, whole in zip(codes.shape, shape, strict=True)):
            return codes.broadcast_to(shape)
    return None


def statistics_axes(graph: Graph, reduction: Value, candidate: Candidate, x_codes: Tensor) -> tuple[int, ...]:
    """Return the axes of what is normed along which the entries of one statistic lie.

    They are followed from the reduction, which may read them in another shape.
    """
    read, axes = reduction.arrays[0], reduction.options["axes"]
    entries = next(iter(paths(graph, read, *candidate)), None)
    if entries is None:
        return tuple(axes) if read.ndim == x_codes.ndim else (x_codes.ndim - 1,)
    others = [axis for axis in range(read.ndim) if axis not in axes]
    # The entries of a class token, which stands first or last, are those of every sequence.
    ends = (first_along(entries, others), first_along(entries.flip(others), others))
    where = min((torch.isin(x_codes, one.reshape(-1)).nonzero() for one in ends), key=len)
    return tuple(axis for axis in range(x_codes.ndim) if where[:, axis].unique().numel() > 1)


class Fit(NamedTuple):
    """The form and ε of a norm, and what is known of it where it has no form: see ``Norm``."""

    form: str
    eps: float
    nearest: str
    uncentred: bool


def fitted(
    x: Tensor, y: Tensor, given: Mapping[str, Tensor], numbers: Sequence[float], close: float, *, shifts: bool
) -> Fit:
    """Return the variant that leads from x to y, features last, with the parameters and one of the numbers as its ε.

    Args:
        x: what is normed.
        y: the result.
        given: γ and β.
        numbers: those that may be ε.
        close: how far a variant may be from the result.
        shifts: whether there is a β; a layer norm without one is another variant.
    """
    statistics = variants("statistics")["features"].function
    off, form, eps = close, "", numbers[0] if numbers else 0.0
    wanted = directions(y, given)
    turned: list[tuple[float, int, str]] = []
    for name, equation in variants("norm").items():
        if x.shape[-1] < 2 or (shifts and "beta" not in equation.parameters) or (not shifts and name == LAYER_NORM):
            continue
        for tried in (*numbers, 0.0):
            supplied: dict[str, Any] = {k: v for k, v in given.items() if k in equation.parameters} | {"eps": tried}
            if "statistics" in equation.slots:
                supplied["statistics"] = statistics
            normed = equation.function(x, **supplied)
            turned.append((round(float((directions(normed, given) - wanted).norm()), DIGITS), len(turned), name))
            # In float32 no ε at all may come nearer than the one that is written.
            if apart(normed, y) < off and (tried or not form):
                off, form, eps = apart(normed, y), name, tried
    _, _, nearest = min(turned, default=(0.0, 0, LAYER_NORM))
    uncentred = nearest != "rms" and apart(torch.nn.functional.normalize(x, dim=-1), wanted) <= close
    return Fit(form, eps, nearest, uncentred)


DIGITS = 9
"""To so many digits directions are compared: norms that differ in their divisor alone have one."""


def directions(y: Tensor, given: Mapping[str, Tensor]) -> Tensor:
    """Return the direction of each normed vector before γ and β, which a wrong divisor does not change."""
    return torch.nn.functional.normalize((y - given["beta"]) / given["gamma"], dim=-1)


def apart(got: Tensor, want: Tensor) -> float:
    """Return the largest difference of numbers, in units of what is wanted where that is above 1; NaN differs."""
    return float(((got - want).abs() / want.abs().clamp(min=1)).nan_to_num(nan=float("inf")).max())


def of_features(codes: Tensor, axis: int) -> Tensor | None:
    """Return the entries for the features, if every position has the same ones."""
    flat = codes.movedim(axis, -1).reshape(-1, codes.shape[axis])
    return flat[0] if bool((flat == flat[:1]).all()) else None


def of_one_axis(codes: Tensor | None) -> Tensor | None:
    """Return the entries along the only axis on which they vary; None if they vary on several."""
    if codes is None:
        return None
    along = (of_features(codes, axis) for axis in range(codes.ndim))
    return next((entries for entries in along if entries is not None), None)


def leaves_numbers(graph: Graph, value: Value) -> bool:
    """Return whether an operation gives what it reads: a divisor that is kept from being 0 has no ε in it."""
    data = [read for read in value.arrays if graph.depends(read)]
    return len(data) == 1 and torch.equal(graph.numbers(data[0]), graph.numbers(value.codes))


def ingredients(graph: Graph, value: Value, candidate: Candidate) -> tuple[list[Tensor], list[Tensor], list[float]]:
    """Return the weights that multiply on the way to a value, those that are added, and the numbers."""
    gammas: list[Tensor] = []
    betas: list[Tensor] = []
    numbers: list[float] = []
    waiting, seen = [value], set()
    while waiting:
        here = waiting.pop()
        if here in candidate or here.number in seen or not here.kind or not here.depends:
            continue
        seen.add(here.number)
        # Beside a large variance ε is rounded away in float32, and is ε all the same.
        idle = here.operation != "add" and leaves_numbers(graph, here)
        for read in here.reads:
            if not isinstance(read, Tensor):
                numbers += [] if idle else [float(read)]
            elif not graph.depends(read):
                held = graph.numbers(read)
                if graph.learned(read) or not bool((held == held.reshape(-1)[0]).all()):
                    {"mul": gammas, "add": betas, "sub": betas}.get(here.operation, []).append(read)
                elif not idle:
                    numbers.append(float(held.reshape(-1)[0]))
        waiting += [v for read in here.arrays for v in graph.owners(read)]
    small = [n for n in numbers if 0 < n <= LARGEST_EPSILON]
    return gammas, betas, list(dict.fromkeys(small))

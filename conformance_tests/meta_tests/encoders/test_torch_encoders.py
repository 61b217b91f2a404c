"""Torch's own encoder, stock and unmodified, in every configuration that its constructor offers."""

import random
from collections.abc import Iterator
from itertools import combinations, product
from typing import Any

import pytest
import torch
from torch import nn

from conformance_tests.engine.judging import check
from conformance_tests.reports.report import TargetReport

OPTIONS: dict[str, tuple[Any, ...]] = {
    "whole": (True, False),
    "norm_first": (False, True),
    "activation": ("relu", "gelu", nn.functional.gelu, nn.GELU()),
    "bias": (True, False),
    "final": ("none", "norm", "norm with its own ε"),
    "batch_first": (True, False),
    "N": (1, 2, 3),
    "heads": (2, 3),
    "dropout": (0.0, 0.1),
    "training": (True, False),
    "dtype": (torch.float32, torch.float64),
    "nested": (True, False),
    "frozen": (False, True),
}
"""``whole``: a TransformerEncoder, else a TransformerEncoderLayer alone, which has neither N nor a final norm."""


def pairwise(options: dict[str, tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Rows in which any two values of any two options meet at least once, chosen greedily from random ones."""
    rng = random.Random(0)
    open_pairs = set(pairs_of_all(options))
    rows = []
    while open_pairs:
        drawn = [{name: rng.randrange(len(values)) for name, values in options.items()} for _ in range(200)]
        best = max(drawn, key=lambda row: len(open_pairs & set(combinations(row.items(), 2))))
        open_pairs -= set(combinations(best.items(), 2))
        rows.append({name: options[name][i] for name, i in best.items()})
    return rows


def pairs_of_all(options: dict[str, tuple[Any, ...]]) -> Iterator[Any]:
    """Every pair of values, as ((option, place), (option, place))."""
    for (a, of_a), (b, of_b) in combinations(options.items(), 2):
        yield from product([(a, i) for i in range(len(of_a))], [(b, j) for j in range(len(of_b))])


ROWS = pairwise(OPTIONS)


def made(row: dict[str, Any]) -> nn.Module:
    """The encoder of a row, 30 wide, with weights of its own for every vector too."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(
        30,
        row["heads"],
        44,
        row["dropout"],
        row["activation"],
        batch_first=row["batch_first"],
        norm_first=row["norm_first"],
        bias=row["bias"],
        layer_norm_eps=1e-5,
    )
    eps = 1e-3 if "ε" in row["final"] else 1e-5
    norm = None if row["final"] == "none" else nn.LayerNorm(30, eps, bias=row["bias"])
    # Torch warns where nested tensors are asked for and it has none: that is tested by its own defaults below.
    possible = not row["norm_first"] and row["batch_first"] and row["heads"] % 2 == 0 and row["bias"]
    stack = nn.TransformerEncoder(layer, row["N"], norm, enable_nested_tensor=row["nested"] and possible)
    module = stack if row["whole"] else layer
    for p in module.parameters():
        p.data += 0.1 * torch.randn_like(p)
    next(module.parameters()).requires_grad_(not row["frozen"])
    return module.to(row["dtype"]).train(row["training"])


def name_of(row: dict[str, Any]) -> str:
    """The values of a row, for pytest's id."""
    return ", ".join(getattr(v, "__name__", str(v)) for v in row.values())


def snapshot(module: nn.Module) -> dict[str, Any]:
    """Everything of a module, and of the process, that judging it must leave as it was."""
    return {
        "weights": {n: (id(p), p.data_ptr(), p.dtype, p.detach().clone()) for n, p in module.state_dict().items()},
        "gradients": {n: None if p.grad is None else p.grad.clone() for n, p in module.named_parameters()},
        "frozen": [p.requires_grad for p in module.parameters()],
        "training": [m.training for m in module.modules()],
        "hooks": [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in module.modules()],
        "random numbers": torch.get_rng_state(),
        "process": (torch.get_num_threads(), torch.get_default_dtype(), torch.is_grad_enabled()),
        "fast path": torch.backends.mha.get_fastpath_enabled(),
    }


def assert_same(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Compare two snapshots bit for bit."""
    for name, (_, place, dtype, value) in before["weights"].items():
        _, place_after, dtype_after, value_after = after["weights"][name]
        assert (place, dtype) == (place_after, dtype_after), name
        assert torch.equal(value, value_after), name
    for name, gradient in before["gradients"].items():
        left = after["gradients"][name]
        assert (gradient is None and left is None) or torch.equal(gradient, left), f"gradient of {name}"
    assert torch.equal(before["random numbers"], after["random numbers"])
    for what in ("frozen", "training", "hooks", "process", "fast path"):
        assert before[what] == after[what], what


def expected_choices(row: dict[str, Any]) -> dict[str, Any]:
    """What the constructor was told, in the specification's words."""
    gelu = row["activation"] != "relu"
    finished = row["whole"] and row["final"] != "none"
    own_eps = {"norm_final.eps": 1e-3} if finished and "ε" in row["final"] else {}
    return own_eps | {
        "layer": "pre-ln" if row["norm_first"] else "post-ln",
        "activation": "gelu" if gelu else "relu",
        "norm": "layer-norm" if row["bias"] else "layer-norm-without-bias",
        "projections": "affine" if row["bias"] else "linear",
        "output": "affine" if row["bias"] else "linear",
        "ffn": "affine" if row["bias"] else "linear",
        "final_norm": "norm" if finished else "none",
        "eps": 1e-5,
        "num_layers": row["N"] if row["whole"] else 1,
        "num_heads": row["heads"],
        "d_model": 30,
        "d_ff": 44,
    }


def assert_close(target: TargetReport) -> None:
    """Whole outputs agree to 10⁻¹² of their largest entry, which the norms keep below some tens."""
    compared = [r for r in target.requirements if r.id in ("ENC-2", "ENC-3", "ENC-4")]
    assert [r.outcome for r in compared] == ["pass"] * 3
    for result in compared:
        assert result.error is not None
        assert result.budget is not None
        assert result.error <= result.budget <= 1e-10, f"{result.id}: {result.error} of {result.budget}"


def test_the_rows_cover_every_pair_of_options() -> None:
    """Each of the pairs below is a configuration that somebody uses; all triples would take minutes."""
    covered = {pair for row in ROWS for pair in combinations(row.items(), 2)}
    for (a, of_a), (b, of_b) in combinations(OPTIONS.items(), 2):
        for pair in product(of_a, of_b):
            assert ((a, pair[0]), (b, pair[1])) in covered, (a, b, pair)
    assert len(ROWS) < 40


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_torchs_encoder_is_conformant_and_left_as_it_was(row: dict[str, Any]) -> None:
    """Verdict, level, variant and closeness; then every bit of the module and the process."""
    module = made(row)
    if not row["frozen"]:
        for p in module.parameters():
            p.grad = torch.full_like(p, 0.5)
    before = snapshot(module)
    target = check(module).targets[0]
    assert_same(before, snapshot(module))
    failed = [(r.id, r.outcome, r.message) for r in target.requirements if r.outcome != "pass"]
    assert (target.verdict, target.level, failed) == ("conformant", "gradient", [])
    assert target.departs_at is None
    choices = target.profile["choices"]
    assert target.profile["identified"]
    assert {k: choices.get(k) for k in expected_choices(row)} == expected_choices(row)
    assert_close(target)


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_fast_paths_tanh_gelu_is_found_out(norm_first: bool) -> None:
    """Torch's fast path takes any ``nn.GELU`` for the exact one, and tanh-GELU differs from it by up to 4.7·10⁻⁴.

    With gradients the module computes what it states, so that nothing else may fail.
    """
    layer = nn.TransformerEncoderLayer(
        30, 2, 44, activation=nn.GELU(approximate="tanh"), batch_first=True, norm_first=norm_first
    )
    target = check(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), explain=False).targets[0]
    assert target.verdict == "nonconformant"
    assert [r.id for r in target.requirements if r.outcome != "pass"] == ["ENC-4"]
    assert target.profile["choices"]["activation"] == "gelu-tanh"
    error = target.of("fail")[0].error
    assert error is not None
    assert 1e-6 < error < 1e-1


def test_tanh_gelu_without_a_fast_path_is_conformant() -> None:
    """With an odd number of heads torch has no fast path, and computes what it states."""
    layer = nn.TransformerEncoderLayer(30, 3, 44, activation=nn.GELU(approximate="tanh"), batch_first=True)
    target = check(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)).targets[0]
    assert (target.verdict, target.profile["choices"]["activation"]) == ("conformant", "gelu-tanh")

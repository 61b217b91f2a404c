"""Encoders of Flax, in nnx and in linen: judged right, and given back as they were."""

from functools import partial
from typing import Any

import numpy as np
import pytest

from conformance_tests import check
from conformance_tests.reports.report import TargetReport

jax = pytest.importorskip("jax", reason="needs the extra `flax`: run by `make frameworks`")
flax = pytest.importorskip("flax", reason="needs the extra `flax`: run by `make frameworks`")

from conformance_tests.meta_tests.encoders.flax_examples import (  # noqa: E402
    RIGHT,
    WRONG,
    LinenLayer,
    NnxEncoder,
    in_a_function,
    linen_pair,
    nnx_encoder,
)
from conformance_tests.subjects.jax.flax import initialised  # noqa: E402


def report(make: Any, seed: int = 0) -> TargetReport:
    """The report on what a function makes."""
    return check(make, seed=seed).targets[0]


def said(found: TargetReport) -> str:
    """What a report says in words."""
    return "\n".join([*found.notes, *(f"{r.id} {r.message}" for r in found.of("fail"))])


@pytest.mark.parametrize("name", RIGHT)
def test_an_encoder_of_flax_is_conformant(name: str) -> None:
    """With the choices that its code states, up to gradients, without any adapter."""
    make, choices = RIGHT[name]
    found = report(make)
    assert found.verdict == "conformant", said(found)
    assert {key: found.profile["choices"].get(key) for key in choices} == choices
    assert found.level == "gradient"
    assert "True = keep" in found.profile["conventions"]["mask"]


@pytest.mark.parametrize("name", WRONG)
def test_an_encoder_with_one_thing_wrong_is_nonconformant(name: str) -> None:
    """The requirement that it breaks fails, and no other is blamed for it."""
    make, requirement, departs_at = WRONG[name]
    found = report(make)
    assert found.verdict == "nonconformant", said(found)
    assert requirement in {r.id for r in found.of("fail")}
    assert found.departs_at == departs_at


@pytest.mark.parametrize("make", [NnxEncoder, in_a_function])
def test_a_variance_in_one_pass_is_documented_and_therefore_not_judged(make: Any) -> None:
    """E[x²] − E[x]² with a mean of 10⁴ loses 8 of the 16 digits, and Flax says so, wherever its norms are called."""
    found = report(lambda: make())
    assert found.verdict == "conformant", said(found)
    (digits,) = [r for r in found.requirements if r.id == "NORM-6"]
    assert digits.outcome == "unsupported"
    assert "use_fast_variance" in digits.message


def test_what_jax_rounds_on_its_own_account_is_left_out_and_said() -> None:
    """Its attention computes the softmax in float32, whatever it is given."""
    found = report(nnx_encoder)
    assert found.profile["conventions"]["precision"] == "rounds to a shorter type within; judged without that"
    agreement = next(r for r in found.requirements if r.id == "ENC-2")
    assert agreement.error < 1e-13


def test_nothing_of_a_module_changes() -> None:
    """Neither its parameters nor its mode, nor JAX's own settings."""
    module = nnx_encoder()
    module.train()
    before = jax.tree.map(np.array, flax.nnx.state(module, flax.nnx.Param))
    assert check(module).verdict == "conformant"
    after = jax.tree.map(np.array, flax.nnx.state(module, flax.nnx.Param))
    same = jax.tree.map(lambda a, b: bool((a == b).all()) and a.dtype == b.dtype, before, after)
    assert all(jax.tree.leaves(same))
    assert not module.layers[0].dropout.deterministic
    assert not jax.config.jax_enable_x64


class CannotBeCalled(flax.linen.Module):
    """Refuses every input."""

    def __call__(self, x: Any) -> Any:
        raise ValueError("not like that")


def test_a_module_of_linen_that_cannot_be_initialised_needs_its_variables() -> None:
    found = report(CannotBeCalled)
    assert found.verdict == "error"
    assert "give `module.bind(variables)`, or the pair (module, variables)" in said(found)


def test_a_module_of_linen_is_handed_over_with_its_variables_or_alone() -> None:
    """Its parameters are kept by whoever made them; alone it is initialised."""
    module, variables = linen_pair()
    applied = partial(module.apply, variables)
    bound = module.bind(variables)
    given = partial(bound, train=False), partial(module.apply, variables, train=False), bound.__call__
    for handed_over in (module, bound, (module, variables), (module, variables["params"]), applied, *given):
        assert check(handed_over, level="agreement").verdict == "conformant"


class AsksForItsMask(flax.linen.Module):
    """A layer without variables, which a mask must be given."""

    width: int = 32

    @flax.linen.compact
    def __call__(self, x: Any, mask: Any) -> Any:
        return LinenLayer(self.width, 4, 72)(x, mask[:, None, None, :], True)


def test_a_module_that_asks_for_a_mask_is_initialised_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first call that goes through is taken, and not for one whose mask hides everything."""
    returned, eval_shape = [], jax.eval_shape

    def noted(function: Any, *given: Any, **named: Any) -> Any:
        found = eval_shape(function, *given, **named)
        returned.append(function.__qualname__)
        return found

    monkeypatch.setattr(jax, "eval_shape", noted)
    found = report(AsksForItsMask)
    assert found.verdict == "conformant", said(found)
    assert len([name for name in returned if name.startswith(initialised.__name__)]) == 1


def test_a_module_that_computes_in_float32_by_order_is_judged_in_float64() -> None:
    """``dtype`` is a precision, and no equation."""
    found = report(lambda: NnxEncoder(use_fast_variance=False, dtype=jax.numpy.float32))
    assert found.verdict == "conformant", said(found)

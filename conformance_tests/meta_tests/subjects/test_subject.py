"""The defaults of a subject, and the precision and the device in which it is judged."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from conformance_tests.errors import Undetermined, Unsupported
from conformance_tests.numerics.probes import Probes
from conformance_tests.subjects.subject import (
    BEST,
    DTYPES,
    Precision,
    Subject,
    name_of,
)
from encoder_spec.assembly import Encoder
from encoder_spec.dimensions import Dimensions
from encoder_spec.notation import SpecificationError
from encoder_spec.profiles import TORCH_POST_LN

PROBES = Probes(Encoder(TORCH_POST_LN, Dimensions(d_model=4, h=2, d_ff=8, N=2)), 0)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        (None, None),
        ("float64", torch.float64),
        ("float32", torch.float32),
        ("bfloat16", torch.bfloat16),
        ("float16", torch.float16),
    ],
)
def test_a_precision_is_named_by_its_dtype(name: str | None, dtype: torch.dtype | None) -> None:
    """Nothing named means the best that the encoder can, on the CPU."""
    assert Precision.named(name) == Precision(dtype, "cpu")
    assert dtype is None or name_of(dtype) == name
    assert Precision() == BEST == Precision(None, "cpu")


def test_another_dtype_is_refused_with_those_that_there_are() -> None:
    said = r"^there is no dtype 'int8' here: choose among float64, float32, bfloat16, float16$"
    with pytest.raises(SpecificationError, match=said):
        Precision.named("int8")
    assert DTYPES == ("float64", "float32", "bfloat16", "float16")


@pytest.mark.parametrize("device", ["meta", "nowhere"])
def test_a_device_that_holds_no_numbers_is_refused_in_one_line(device: str) -> None:
    """``meta`` has shapes alone; ``nowhere`` is none."""
    with pytest.raises(SpecificationError, match=f"^there is no device '{device}' here: .") as caught:
        Precision.named("float32", device)
    assert "\n" not in str(caught.value)


def test_a_subject_computes_where_it_is() -> None:
    """The best, or its own dtype, is nothing to ask for; another one, or another device, it cannot."""
    subject = Subject()
    for precision in (Precision(), Precision(torch.float64)):
        with subject.computing_in(precision):
            assert subject.dtype is torch.float64
    subject.dtype = torch.float32
    with subject.computing_in(Precision(torch.float32)):
        pass
    said = "^it can be judged only in float32, on its own device$"
    for precision in (Precision(torch.float64), Precision(None, "cuda"), Precision(torch.float32, "cuda")):
        with pytest.raises(Undetermined, match=said), subject.computing_in(precision):
            pytest.fail("it computes")


@pytest.mark.parametrize(
    ("ability", "refusal", "said"),
    [
        (lambda s: s.set_weights({}), Unsupported, "the subject's weights cannot be set"),
        (lambda s: s.record((), None), Unsupported, "the subject does not show its intermediates"),
        (
            lambda s: s.gradients((), None, torch.ones(1), dict),
            Unsupported,
            "the subject computes no gradients",
        ),
        (lambda s: s.weights(), NotImplementedError, ""),
        (lambda s: s.encode((), None), NotImplementedError, ""),
    ],
)
def test_a_subject_refuses_what_it_cannot(ability: Callable[[Subject], Any], refusal: Any, said: str) -> None:
    """What is optional is unsupported; the two that are not optional are not implemented."""
    with pytest.raises(refusal, match=f"^{said}$"):
        ability(Subject())


def test_a_subject_says_nothing_that_it_does_not_know() -> None:
    """No tables, conventions, remarks or parts; a constant is kept as it is; any mask can be said."""
    s = Subject()
    with s.borrowed():
        pass
    assert [s.fixed(), s.unmoved(), s.tables(), s.unregistered(), s.conventions()] == [set(), set(), {}, {}, {}]
    assert (s.narrowest_part((), None), s.as_kept(0.1), s.remarks(), s.unknown()) == (None, 0.1, (), "")
    assert (s.takes_segments(), s.can_hide(torch.tensor([[False, True]])), s.takes_mask) == (True, True, True)
    assert not s.influences_anything("w", ())
    assert s.learn(PROBES) is None  # type: ignore[func-returns-value]

"""Products of float32 are computed in float32 while an encoder is judged, and set as they were afterwards."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from conformance_tests import check
from conformance_tests.engine.notes import elsewhere
from conformance_tests.numerics.products import full_products, known_parts, read_products, write_products

BY_PART = hasattr(torch.backends.cuda.matmul, "fp32_precision")
"""Whether this torch has a setting for each part of a library: from 2.9 on."""


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = read_products()
    yield
    write_products(before)


def of_all(precision: str) -> Callable[[], None]:
    return lambda: torch.set_float32_matmul_precision(precision)


def of_matrices() -> None:
    torch.backends.cuda.matmul.allow_tf32 = True


def of_cudnn() -> None:
    torch.backends.cudnn.allow_tf32 = True


def of_a_part() -> None:
    """Torch then refuses to read the setting for all."""
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    torch.backends.cudnn.conv.fp32_precision = "tf32"
    with pytest.raises(RuntimeError):
        torch.get_float32_matmul_precision()


WAYS = {"high": of_all("high"), "medium": of_all("medium"), "matrices": of_matrices, "cuDNN": of_cudnn} | (
    {"by part": of_a_part} if BY_PART else {}
)


def is_full() -> bool:
    """Whether torch itself says that no product of float32 is computed in less."""
    try:
        said = [torch.get_float32_matmul_precision() == "highest"]
        said += [not torch.backends.cuda.matmul.allow_tf32, not torch.backends.cudnn.allow_tf32]
    except RuntimeError:
        return False
    return all(said) and all(part.fp32_precision == "ieee" for part in known_parts().values())


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_what_is_set_is_off_meanwhile_and_set_again_afterwards(way: Callable[[], None]) -> None:
    """In each way in which torch is told to compute in less; also where what happens meanwhile raises."""
    way()
    before = read_products()
    with suppress(ZeroDivisionError), full_products():
        assert is_full()
        raise ZeroDivisionError
    assert read_products() == before
    assert not is_full()


@pytest.mark.skipif(not BY_PART, reason="this torch has no settings for parts")
def test_all_parts_have_settings() -> None:
    assert known_parts().keys() == {f"{of}.{what}" for of, what in LIBRARIES}


LIBRARIES = [
    ("cuda", "matmul"),
    ("cudnn", "conv"),
    ("cudnn", "rnn"),
    *(("mkldnn", of) for of in ("matmul", "conv", "rnn")),
]


class Listening(nn.TransformerEncoder):
    """Torch's encoder, which notes how products are computed when it is called."""

    def __init__(self, precision: str = "") -> None:
        layer = nn.TransformerEncoderLayer(12, 3, 22, batch_first=True)
        super().__init__(layer, 1, enable_nested_tensor=False)
        self.heard: list[bool] = []
        self.precision = precision

    def forward(self, src: Tensor, src_key_padding_mask: Tensor | None = None) -> Tensor:
        self.heard.append(is_full())
        if self.precision:
            torch.set_float32_matmul_precision(self.precision)
        return super().forward(src, src_key_padding_mask=src_key_padding_mask)


def test_an_encoder_is_called_with_products_in_full() -> None:
    """Whatever its owner has set, who finds that again."""
    torch.set_float32_matmul_precision("high")
    encoder = Listening()
    before = read_products()
    assert check(encoder, level="agreement").verdict == "conformant"
    assert encoder.heard
    assert all(encoder.heard)
    assert read_products() == before


def test_an_encoder_that_sets_products_itself_is_noted() -> None:
    """It does so in each call; the suite and the owner find the settings that they had."""
    encoder, before = Listening("medium"), read_products()
    target = check(encoder, level="black-box").targets[0]
    assert "the encoder changed the precision of float32 products (put back for everybody else)" in target.notes
    assert encoder.heard[0]
    assert read_products() == before


def test_the_report_says_where_it_was_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a GPU, that TF32 is off; of the CPU nothing."""
    asked: list[Any] = []
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: asked.append(device) or "A Card")
    assert elsewhere("cuda:1") == ["judged on cuda:1 (A Card), with TF32 off"]
    assert asked == ["cuda:1"]
    assert elsewhere("mps") == ["judged on mps"]
    assert elsewhere("cpu") == []

"""Wrong heads on top: another position read, padding averaged, another table."""

from jaxtyping import Bool, Float
from torch import Tensor

from conformance_tests.deviations import deviation

CLS = "head.cls"


@deviation("class-read-from-the-end", CLS, "HEAD-2", "commonly seen")
def from_the_end(
    Z: Float[Tensor, "B n d_model"],
    keep: Bool[Tensor, "#B #n #n"],
    *,
    W_cls: Float[Tensor, "d_model classes"],
    b_cls: Float[Tensor, "classes"],
) -> Tensor:
    """The classifier reads the last position."""
    return Z[:, -1] @ W_cls + b_cls


@deviation("class-read-from-the-mean", CLS, "HEAD-2", "commonly seen")
def from_the_mean(
    Z: Float[Tensor, "B n d_model"],
    keep: Bool[Tensor, "#B #n #n"],
    *,
    W_cls: Float[Tensor, "d_model classes"],
    b_cls: Float[Tensor, "classes"],
) -> Tensor:
    """The classifier reads the mean over the positions."""
    return Z.mean(1) @ W_cls + b_cls

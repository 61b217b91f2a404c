"""Vectors that are normed, mapped or multiplied before the first layer."""

import pytest
from torch import Tensor, nn

from conformance_tests.engine.judging import check
from conformance_tests.meta_tests.judgements import Judgements


class Entering(nn.Module):
    """Layers of torch behind an entrance of their own, whose result is multiplied by a number."""

    def __init__(self, *entrance: nn.Module, times: float = 1.0, pre: bool = True) -> None:
        super().__init__()
        self.entrance, self.times = nn.Sequential(*entrance), times
        layer = nn.TransformerEncoderLayer(16, 4, 40, batch_first=True, norm_first=pre)
        self.layers = nn.TransformerEncoder(layer, 2, nn.LayerNorm(16), enable_nested_tensor=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.entrance(x)
        return self.layers(x if self.times == 1 else x * self.times)  # type: ignore[no-any-return]


NORMED = {"embedding": "vectors", "embedding_norm": "norm", "embedding_scale": "none"}
SCALED = {"embedding": "vectors", "token_norm": "norm", "embedding_scale": "sqrt-d-model"}


@pytest.mark.parametrize("pre", [True, False])
@pytest.mark.parametrize(
    ("mapped", "times", "choices"),
    [(False, 1.0, NORMED), (False, 4.0, SCALED), (True, 4.0, SCALED | {"embedding": "features"})],
)
def test_a_norm_at_the_entrance_is_that_of_the_embeddings(
    mapped: bool, times: float, choices: dict[str, str], pre: bool, judged: Judgements
) -> None:
    """A number behind it multiplies what enters the first layer, and not a sum within that."""
    entrance = [*([nn.Linear(9, 16)] if mapped else []), nn.LayerNorm(16)]
    report = judged(lambda: Entering(*entrance, times=times, pre=pre))
    assert report.verdict == "conformant", report.notes
    found = report.profile["choices"]
    assert {name: found[name] for name in choices} == choices
    assert (found["position"], found["layer"]) == ("none", "pre-ln" if pre else "post-ln")


@pytest.mark.parametrize("pre", [True, False])
@pytest.mark.parametrize(("is_normed", "times"), [(True, 3.0), (False, 4.0)], ids=["normed", "given"])
def test_another_number_and_given_vectors_that_are_multiplied_are_wrong(
    is_normed: bool, times: float, pre: bool
) -> None:
    """√d_model is 4; but vectors that are given have been scaled before."""
    entrance = [nn.LayerNorm(16)] * is_normed
    report = check(lambda: Entering(*entrance, times=times, pre=pre)).targets[0]
    assert report.verdict == "nonconformant", report.notes
    assert str(report.departs_at).startswith("embedding"), report.of("fail")

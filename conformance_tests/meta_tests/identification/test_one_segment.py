"""Encoders with a table of segments, and no place for segment ids in their call."""

import torch
from torch import Tensor, nn

from conformance_tests import check


class OneSegment(nn.Module):
    """Embeddings before torch's encoder: every position is in the first of two segments."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places, self.kinds = (nn.Embedding(size, 16) for size in (29, 50, 2))
        layer = nn.TransformerEncoderLayer(16, 2, 24, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.places.weight[: ids.shape[1]] + self.kinds(torch.zeros_like(ids))
        hidden: Tensor = self.layers(x)
        return hidden


def test_the_first_row_of_the_table_is_judged() -> None:
    """It is conformant with segments added, of which there is one."""
    found = check(OneSegment, level="agreement").targets[0]
    assert found.verdict == "conformant", found.notes
    assert found.profile is not None
    assert found.profile["choices"]["segment"] == "added"

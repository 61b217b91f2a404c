"""Products of queries and keys with vectors of distances, as one writes them: read off the computation."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from conformance_tests.engine.judging import check
from conformance_tests.meta_tests.encoders.plain import Plain, PlainAttention, PlainPreNorm
from conformance_tests.reports.report import TargetReport
from encoder_spec.attention import row_of_bucket

EXACT = 4
"""Distances up to this one have a key of their own."""


def ahead(n: int) -> Tensor:
    """The distance k − j for every pair of positions."""
    place = torch.arange(n)
    return place - place[:, None]


class OfDistances(PlainAttention):
    """Adds terms to the scores: a function computes them from queries, keys and the table of distances."""

    def __init__(self, terms: Callable[..., Tensor], table: nn.Embedding | None = None, times: float = 1.0) -> None:
        super().__init__(28, 4)
        self.terms, self.table, self.times = terms, table or nn.Embedding(2 * EXACT + 1, 7), times

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        return super().score(q, k) + self.times * self.terms(q, k, self.table.weight) / self.scale


def clipped(n: int) -> Tensor:
    """The row of each pair in a table with one for each distance."""
    return ahead(n).clamp(-EXACT, EXACT) + EXACT


def by_einsum(q: Tensor, k: Tensor, table: Tensor) -> Tensor:
    return torch.einsum("bhjc,jkc->bhjk", q, table[clipped(q.shape[2])])


def by_position(q: Tensor, k: Tensor, table: Tensor) -> Tensor:
    """One product for each position of a query, of all samples and heads together."""
    keys = table[clipped(q.shape[2])]
    of_positions = q.permute(2, 0, 1, 3).flatten(1, 2) @ keys.mT
    return of_positions.transpose(0, 1).unflatten(0, q.shape[:2])


def gathered(q: Tensor, k: Tensor, table: Tensor) -> Tensor:
    return (q @ table.mT).gather(-1, clipped(q.shape[2]).expand(*q.shape[:2], -1, -1))


def from_the_other_end(q: Tensor, k: Tensor, table: Tensor) -> Tensor:
    return torch.einsum("bhjc,jkc->bhjk", q, table[2 * EXACT - clipped(q.shape[2])])


def of_keys(q: Tensor, k: Tensor, table: Tensor) -> Tensor:
    return torch.einsum("bhkc,jkc->bhjk", k, table[clipped(q.shape[2])])


def of_both(q: Tensor, k: Tensor, table: Tensor) -> Tensor:
    return by_einsum(q, k, table) + of_keys(q, k, table)


def without_sides(q: Tensor, k: Tensor, table: Tensor) -> Tensor:
    return torch.einsum("bhjc,jkc->bhjk", q, table[ahead(q.shape[2]).abs().clamp(max=EXACT)])


def judged(*attentions: PlainAttention) -> TargetReport:
    layers = [PlainPreNorm(28, 4, 44) for _ in attentions]
    for layer, attention in zip(layers, attentions, strict=True):
        layer.attention = attention
    return check(lambda: Plain(layers, nn.LayerNorm(28))).targets[0]


@pytest.mark.parametrize("terms", [by_einsum, by_position, gathered, from_the_other_end])
def test_relative_keys_are_a_variant(terms: Callable[..., Tensor]) -> None:
    """Whatever product computes them, and from whichever end of the table."""
    report = judged(OfDistances(terms), OfDistances(terms))
    assert (report.verdict, report.level) == ("conformant", "gradient"), report.notes
    assert (report.profile["choices"]["scores"], report.profile["choices"]["sharing"]) == ("relative-keys", "none")
    assert "ATT-23" in {r.id for r in report.of("pass")}


def test_relative_keys_may_be_those_of_all_layers() -> None:
    table = nn.Embedding(2 * EXACT + 1, 7)
    report = judged(OfDistances(by_einsum, table), OfDistances(by_einsum, table))
    assert (report.verdict, report.profile["choices"]["sharing"]) == ("conformant", "bias"), report.notes


@pytest.mark.parametrize(
    ("terms", "says"),
    [
        (of_keys, "its keys are multiplied with vectors of distances"),
        (of_both, "its queries and keys are multiplied with vectors of distances"),
        (without_sides, "whose rows tell none"),
        (lambda q, k, table: by_einsum(q, k, table).square(), "a bias that is computed from its input"),
    ],
    ids=["of keys", "of both", "without sides", "squared"],
)
def test_other_products_are_named(terms: Callable[..., Tensor], says: str) -> None:
    report = judged(OfDistances(terms))
    assert (report.verdict, says in str(report.notes)) == ("undetermined", True), report.notes


def test_products_with_another_scale_are_named() -> None:
    """√7 times too large: they are not divided."""
    report = judged(OfDistances(by_einsum, times=7**0.5))
    said = [r.message for r in report.of("fail")]
    assert (report.verdict, report.departs_at) == ("nonconformant", "attention.scores_relative_keys"), report.notes
    assert "queries and vectors of distances are multiplied by 1, where 0.377964 belongs" in str(said)


def test_layers_without_distances_beside_others_are_named() -> None:
    report = judged(OfDistances(by_einsum), PlainAttention(28, 4))
    assert (report.verdict, "but not in all layers" in str(report.notes)) == ("undetermined", True), report.notes


class Disentangled(PlainAttention):
    """DeBERTa's scores, in one expression; ``rows_of_keys`` are those of the queries of distances."""

    rows_of_keys = staticmethod(lambda row: row)
    terms = 3

    def __init__(self, table: nn.Embedding, norm: nn.Module) -> None:
        super().__init__(28, 4)
        self.table, self.norm = table, norm
        self.scale = (self.terms * 7) ** 0.5

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        row = row_of_bucket(q.shape[2], 16, 32.0)
        queries, keys, _ = self.split(self.norm(self.table.weight)[None])
        of_keys = torch.einsum("hjkc,bhkc->bhjk", queries[0][:, self.rows_of_keys(row)], k)
        return (q @ k.mT + torch.einsum("bhjc,hjkc->bhjk", q, keys[0][:, row]) + of_keys) / self.scale


class OfTheOtherSide(Disentangled):
    """The queries of distances are those of k − j."""

    rows_of_keys = staticmethod(lambda row: row.mT)


class AsOneTerm(Disentangled):
    """The sum of three products is scaled as one of them."""

    terms = 1


def disentangled(kind: type[Disentangled], **norm: Any) -> list[Disentangled]:
    table, shared = nn.Embedding(16, 28), nn.LayerNorm(28, **norm)
    return [kind(table, shared) for _ in range(2)]


def test_disentangled_scores_are_a_variant() -> None:
    report = judged(*disentangled(Disentangled))
    assert (report.verdict, report.level) == ("conformant", "gradient"), report.notes
    chosen = report.profile["choices"]
    assert (chosen["scores"], chosen["max_distance"], chosen["sharing"]) == ("disentangled", 32.0, "bias")


def test_the_norm_of_distances_may_have_another_epsilon() -> None:
    report = judged(*disentangled(Disentangled, eps=0.25))
    assert (report.verdict, report.profile["choices"]["norm_D.eps"]) == ("conformant", 0.25), report.notes


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (OfTheOtherSide, "keys are multiplied with the vector of k − j, where that of j − k belongs"),
        (AsOneTerm, "the scores are multiplied by 0.377964, where 1/√21 = 0.218218 belongs"),
    ],
)
def test_wrong_disentangled_scores_are_named(kind: type[Disentangled], says: str) -> None:
    report = judged(*disentangled(kind))
    assert (report.verdict, report.departs_at) == ("nonconformant", "attention.scores_disentangled"), report.notes
    assert says in str([r.message for r in report.of("fail")])

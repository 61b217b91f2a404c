"""Inputs that are structures: what code looks for in them shows, and is judged as arguments are."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from conformance_tests.meta_tests.judgements import Judgements
from conformance_tests.subjects.calling import REQUIRED
from conformance_tests.subjects.structured import Entries, Structure, structure_of

X = torch.arange(6).reshape(2, 3)


def takes_both(ids: Any, mask: Any = None) -> Any:
    return ids + mask


@pytest.mark.parametrize(
    ("code", "entries"),
    [
        (lambda batch: batch["ids"] + batch["mask"], {"ids": ("ids", REQUIRED), "mask": ("mask", REQUIRED)}),
        (lambda batch: batch.ids.sum(), {"ids": ("ids", REQUIRED)}),
        (lambda batch: (batch["ids"], batch.get("mask")), {"ids": ("ids", REQUIRED), "mask": ("mask", None)}),
        (lambda batch: "mask" in batch or batch["ids"], {"mask": ("mask", None), "ids": ("ids", REQUIRED)}),
        (lambda batch: batch[1] @ batch[0], {"batch[1]": (1, REQUIRED), "batch[0]": (0, REQUIRED)}),
        (lambda batch: [a for a, _ in [batch]], {"batch[0]": (0, REQUIRED), "batch[1]": (1, REQUIRED)}),
        (lambda batch: batch["ids"].no_such_thing + batch["mask"], {"ids": ("ids", REQUIRED)}),
        (lambda batch: takes_both(**batch), {"ids": ("ids", REQUIRED), "mask": ("mask", None)}),
        (lambda batch: takes_both(1, **batch), {"mask": ("mask", None)}),
        (lambda batch: takes_both(mask=1, **batch), {"ids": ("ids", REQUIRED)}),
    ],
    ids=["keys", "attribute", "get", "in", "places", "unpacked", "cut short", "by name", "first given", "second given"],
)
def test_what_code_looks_for_is_noted(code: Callable[[Any], Any], entries: dict[str, Any]) -> None:
    """By key, by attribute or by place, with the default that the question has, in the order of the questions."""
    structure = structure_of("batch", code, [X])
    assert structure == Structure("batch", entries)
    assert list(structure.entries) == list(entries)


@pytest.mark.parametrize(
    "code",
    [
        dict,
        lambda batch: dict(**batch),
        lambda batch: batch + 1,
        lambda x: x.__secret__,
        lambda x: x.shape[1],
        lambda x: x.size(),
        lambda x: None,
    ],
)
def test_code_that_looks_for_nothing_takes_no_structure(code: Callable[[Any], Any]) -> None:
    assert structure_of("batch", code, [X]) is None


def test_the_array_that_leads_furthest_shows_most() -> None:
    """Ids go into a table, where vectors stop."""
    table = nn.Embedding(9, 4)

    def code(batch: Any) -> Any:
        return table(batch["ids"]) + batch["mask"]

    structure = structure_of("batch", code, [torch.ones(2, 3), X, torch.ones(2, 3)])
    assert structure is not None
    assert list(structure.entries) == ["ids", "mask"]


def test_entries_are_arguments_and_arguments_become_entries() -> None:
    structure = Structure("batch", {"ids": ("ids", REQUIRED), "mask": ("mask", None)})
    assert structure.arguments({"batch": REQUIRED, "task": 0}) == {"ids": REQUIRED, "mask": None, "task": 0}
    made, beside = structure.made({"ids": X, "task": 1})
    assert (made["ids"] is X, made.ids is X, made["mask"], beside) == (True, True, None, {"task": 1})


def test_places_make_a_tuple() -> None:
    structure = Structure("pair", {"pair[1]": (1, REQUIRED), "pair[0]": (0, REQUIRED)})
    assert structure.made({"pair[0]": 3, "pair[1]": 4}) == ((3, 4), {})


def test_entries_that_are_there_are_not_asked_for() -> None:
    entries = Entries({"ids": X})
    assert entries["ids"] is entries.ids is entries.get("ids")
    assert "ids" in entries
    assert not entries.asked


# Whole encoders ------------------------------------------------------------------------


class Plain(nn.Module):
    """A class of torch behind an embedding; each subclass says how it is called."""

    step = 1

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(31, 24)
        self.places = nn.Embedding(50, 24)
        layer = nn.TransformerEncoderLayer(24, 3, 40, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def run(self, ids: Tensor, hidden: Tensor | None) -> Tensor:
        places = self.step * torch.arange(ids.shape[1])
        out: Tensor = self.layers(self.tokens(ids) + self.places(places), src_key_padding_mask=hidden)
        return out


class ByKey(Plain):
    def forward(self, batch: Any) -> Any:
        return {"hidden": self.run(batch["input_ids"], batch["attention_mask"] == 0)}


class ByAttribute(Plain):
    def forward(self, sample: Any) -> Tensor:
        return self.run(sample.words, sample.padding)


class ByTuple(Plain):
    def forward(self, inputs: Any) -> Tensor:
        hidden, ids = inputs
        return self.run(ids, hidden)


class WithDefault(Plain):
    def forward(self, batch: Any) -> Tensor:
        keep = batch.get("keep")
        return self.run(batch["ids"], None if keep is None else ~keep)


class Unpacked(Plain):
    """The module that gets the entries states their names."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = Names()

    def forward(self, batch: Any) -> Any:
        return self.encoder(**batch)


class Names(Plain):
    def forward(self, tokens: Tensor, padding: Tensor | None = None) -> Tensor:
        return self.run(tokens, padding)


@pytest.mark.parametrize(
    ("make", "mask"),
    [
        (ByKey, "attention_mask: (B, n), 0/1, 1 = keep"),
        (ByAttribute, "padding: (B, n), boolean, True = ignore"),
        (ByTuple, "inputs[0]: (B, n), boolean, True = ignore"),
        (WithDefault, "keep: (B, n), boolean, True = keep"),
        (Unpacked, "padding: (B, n), boolean, True = ignore"),
    ],
)
def test_an_encoder_of_structures_is_judged(make: type[Plain], mask: str, judged: Judgements) -> None:
    """Its input and its mask are found among the entries, whatever their order."""
    report = judged(make)
    assert report.verdict == "conformant", report.notes
    assert report.profile["conventions"]["mask"] == mask
    assert report.profile["conventions"]["input"].startswith("entries of ")


class FirstOfTuple(Plain):
    """Of an array it would take the first sequence alone, without a word."""

    def forward(self, sample: Any) -> Tensor:
        ids = sample[0]
        hidden: Tensor = self.layers(self.tokens(ids) + self.places(torch.arange(ids.shape[-1])))
        return hidden


def test_what_takes_the_first_sequence_alone_takes_a_tuple(judged: Judgements) -> None:
    report = judged(FirstOfTuple)
    assert report.verdict == "conformant", report.notes
    assert report.profile["conventions"]["input"] == "entries of sample: 0"


class MaskOfTheFirst(ByKey):
    def run(self, ids: Tensor, hidden: Tensor | None) -> Tensor:
        return super().run(ids, None if hidden is None else hidden[:1].expand_as(hidden))


class EveryOther(ByTuple):
    step = 2


@pytest.mark.parametrize(("make", "slot"), [(MaskOfTheFirst, "attention.mask"), (EveryOther, "position.")])
def test_a_broken_encoder_of_structures_is_found_out(make: type[Plain], slot: str, judged: Judgements) -> None:
    report = judged(make)
    assert report.verdict == "nonconformant", report.notes
    assert str(report.departs_at).startswith(slot)

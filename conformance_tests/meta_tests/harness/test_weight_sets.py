"""The weights with which a subject is judged: what each set changes, and what stays as it was given."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from conformance_tests.errors import Unsupported
from conformance_tests.harness.weight_sets import (
    FAINT,
    GIVEN,
    KEEN,
    LOUD,
    NO_ATTENTION,
    NO_FFN,
    OFFSET,
    PERTURBED,
    SHARP,
    SHARPEST,
    SILENT,
    WeightSets,
)
from conformance_tests.parameters.mapping import ParameterMapping, Source
from conformance_tests.subjects.subject import Subject

D = 4
"""Every map of the example reads four entries."""


def as_it_is(w: Tensor) -> Tensor:
    return w


class Holder(Subject):
    """A subject that keeps the weights which it is given, and counts how often."""

    def __init__(self, given: Mapping[str, Tensor]) -> None:
        self.own = dict(given)
        self.times_set = 0

    def weights(self) -> dict[str, Tensor]:
        return copied(self.own)

    def set_weights(self, values: Mapping[str, Tensor]) -> None:
        self.times_set += 1
        self.own = copied(values)


class InPlace(Holder):
    """One whose own arrays can be written into."""

    def given(self) -> Mapping[str, Tensor]:
        return copied(self.own)

    def held(self) -> dict[str, Tensor]:
        return self.own

    def set_weights(self, values: Mapping[str, Tensor]) -> None:
        self.times_set += 1
        for name, w in values.items():
            self.own[name].copy_(w)


def copied(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copy arrays; one with two names stays one."""
    copies: dict[int, Tensor] = {}
    return {name: copies.setdefault(id(w), w.clone()) for name, w in weights.items()}


class Fixed(Holder):
    def set_weights(self, values: Mapping[str, Tensor]) -> None:
        raise Unsupported("its weights cannot be changed")


class Halved(Holder):
    dtype = torch.bfloat16


PATHS = ("W_Q", "W_K", "W_V", "W_O", "b_O", "W_1", "W_2", "norm_1.gamma")


@pytest.fixture(params=[Holder, InPlace])
def holder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> type[Holder]:
    """A small subject, whose sets are kept, and a large one, whose own arrays hold one set after the other."""
    kind: type[Holder] = request.param
    if kind is InPlace:
        monkeypatch.setattr("conformance_tests.harness.weight_sets.ROOM", 0)
    return kind


def weight_sets(
    kind: type[Holder] = Holder, without: tuple[str, ...] = (), fixed: tuple[str, ...] = (), tied: bool = False
) -> WeightSets:
    """Sets over one layer whose maps are ones, its vectors twos, named as the paths are but in small letters."""
    given = {
        path.lower(): torch.ones(D, D, dtype=torch.float64) if path.startswith("W") else torch.full((D,), 2.0).double()
        for path in PATHS
        if path not in without
    }
    if tied:
        given["w_v"] = given["w_q"]
    sources = {f"layers.0.{path}": Source((path.lower(),), as_it_is) for path in PATHS if path not in without}
    subject: Any = kind(given)
    return WeightSets(subject, ParameterMapping(sources, ()), 5, fixed)


def ratios(sets: WeightSets, name: str) -> dict[str, float]:
    """By what factor each array of a set differs from the perturbed one, where it does."""
    perturbed = copied(sets[PERTURBED])
    factors = {own: (w / perturbed[own]).mean().item() for own, w in sets[name].items()}
    return {own: round(factor, 9) for own, factor in factors.items() if factor != 1}


def test_given_weights_are_the_first_of_all_sets(holder: type[Holder]) -> None:
    sets = weight_sets(holder)
    all_sets = [GIVEN, PERTURBED, FAINT, OFFSET, KEEN, SHARP, SHARPEST, LOUD, SILENT, NO_ATTENTION, NO_FFN]
    assert list(sets) == all_sets
    assert len(sets) == len(all_sets)
    for name in (PERTURBED, GIVEN):
        sets.use(name)
    assert all(torch.equal(w, sets.given[own]) for own, w in sets[GIVEN].items())


def test_a_subject_whose_weights_cannot_be_changed_has_those_given_alone() -> None:
    assert list(weight_sets(Fixed)) == [GIVEN]


def test_maps_are_drawn_anew_and_vectors_are_moved(holder: type[Holder]) -> None:
    """0.8/√4 = 0.4 times what the generator of the seed draws, and 2 + 0.3 times it, in the order of the names."""
    generator = torch.Generator().manual_seed(5)
    for name, w in weight_sets(holder)[PERTURBED].items():
        noise = torch.randn(w.shape, generator=generator, dtype=torch.float64)
        torch.testing.assert_close(w, 0.4 * noise if w.ndim == 2 else 2 + 0.3 * noise, msg=name)


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        (FAINT, {"w_o": 1e-4, "b_o": 1e-4, "w_2": 1e-4, "norm_1.gamma": 1e-4}),
        (KEEN, {"w_q": 8, "w_k": 8}),
        (SHARP, {"w_q": 24, "w_k": 24}),
        (SHARPEST, {"w_q": 40, "w_k": 40}),
        (LOUD, {"w_1": 30}),
        (SILENT, {"w_o": 0, "b_o": 0, "w_2": 0}),
        (NO_ATTENTION, {"w_o": 0, "b_o": 0}),
        (NO_FFN, {"w_2": 0}),
    ],
)
def test_a_set_scales_the_arrays_that_it_is_about(name: str, changed: dict[str, float], holder: type[Holder]) -> None:
    """Queries and keys, inner features, or what the norms read."""
    assert ratios(weight_sets(holder), name) == changed


def test_maps_that_hold_queries_and_keys_too_are_not_loud() -> None:
    """One array for all maps of a parallel layer: 30 times as large, it would give scores 900 times as large."""
    joined = {"w": torch.ones(D, 2 * D, dtype=torch.float64), "w_2": torch.ones(D, D, dtype=torch.float64)}
    parts = {"W_Q": Source(("w",), lambda w: w[:, :D]), "W_1": Source(("w",), lambda w: w[:, D:])}
    sources = {f"layers.0.{letter}": source for letter, source in parts.items()}
    sources["layers.0.W_2"] = Source(("w_2",), as_it_is)
    subject: Any = Holder(joined)
    assert ratios(WeightSets(subject, ParameterMapping(sources, ()), 5, ()), LOUD) == {}


def test_the_offset_is_in_the_bias_or_in_the_map_where_there_is_none(holder: type[Holder]) -> None:
    """10⁴ in a bias; 5000/√4 = 2500 in each entry of a map that reads four."""
    for without, moved in (((), {"b_o": 1e4}), (("b_O",), {"w_o": 2500.0, "w_2": 2500.0})):
        sets = weight_sets(holder, without=without)
        perturbed = copied(sets[PERTURBED])
        shifts = {own: (w - perturbed[own]).mean().item() for own, w in sets[OFFSET].items()}
        assert {own: round(shift, 6) for own, shift in shifts.items() if shift} == moved


def test_tied_arrays_stay_equal(holder: type[Holder]) -> None:
    """The values use the array of the queries: where those are sharpened, they are."""
    sets = weight_sets(holder, tied=True)
    assert all(sets[name]["w_v"].equal(sets[name]["w_q"]) for name in sets)
    assert ratios(sets, SHARP) == {"w_q": 24, "w_k": 24, "w_v": 24}


def test_what_is_fixed_is_neither_drawn_nor_made_small(holder: type[Holder]) -> None:
    sets = weight_sets(holder, fixed=("layers.0.norm_1.gamma",))
    assert sets[PERTURBED]["norm_1.gamma"].equal(sets.given["norm_1.gamma"])
    assert ratios(sets, FAINT) == {"w_o": 1e-4, "b_o": 1e-4, "w_2": 1e-4}
    assert sets.is_fixed("layers.0.norm_1.gamma")
    assert not sets.is_fixed("layers.0.W_Q")


def test_weights_are_those_that_the_precision_can_hold() -> None:
    """Of float64 in which bfloat16 loses nothing; in float64 nothing is rounded."""
    rounded = weight_sets(Halved)[PERTURBED]
    assert {w.dtype for w in rounded.values()} == {torch.float64}
    assert all(w.equal(w.bfloat16().double()) for w in rounded.values())
    exact = weight_sets()[PERTURBED]
    assert not any(w.equal(w.bfloat16().double()) for w in exact.values())


def test_one_array_at_two_paths_is_one(holder: type[Holder]) -> None:
    """Equal values do not make it one, nor does a path that is not there."""
    sets = weight_sets(holder, tied=True)
    assert sets.is_one("layers.0.W_Q", "layers.0.W_V")
    assert not sets.is_one("layers.0.W_Q", "layers.0.W_K")
    assert not sets.is_one("layers.0.W_Q", "layers.1.W_Q")


def test_a_set_is_given_to_the_subject_once_and_only_when_it_changes(holder: type[Holder]) -> None:
    """The subject begins with the weights as given."""
    sets = weight_sets(holder)
    subject: Any = sets.subject
    assert PERTURBED in sets
    before = subject.times_set
    for name, times in ((GIVEN, 0), (PERTURBED, 1), (PERTURBED, 1), (GIVEN, 2)):
        sets.use(name)
        assert subject.times_set - before == times
        assert all(torch.equal(w, sets[name][own]) for own, w in subject.own.items())


def test_the_parameters_of_a_set_are_in_use_from_when_one_is_asked_for(holder: type[Holder]) -> None:
    """What was asked for before belongs to its own set again as soon as it is asked for again."""
    sets = weight_sets(holder)
    one, other = (sets.parameters(name, sets.mapping) for name in (PERTURBED, KEEN))
    first = one["layers.0.W_Q"].clone()
    assert torch.allclose(other["layers.0.W_Q"], 8 * first)
    assert torch.equal(one["layers.0.W_Q"], first)
    assert set(one) == {f"layers.0.{path}" for path in PATHS}
    assert len(one) == len(PATHS)
    assert "layers.0.W_Q" in one
    assert "W_Q" not in one


@pytest.mark.parametrize(
    "written",
    [lambda w: w[-1].add_(1), lambda w: w.data.mul_(0.9), lambda w: w.data[0].fill_(0)],
    ids=["a row", "all behind torch's back", "the first row behind its back"],
)
def test_a_large_encoder_that_writes_into_its_weights_in_a_call_leaves_those_of_the_specification_alone(
    written: Callable[[Tensor], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From that call on they are held in other memory; the next call has the weights of its set again."""
    monkeypatch.setattr("conformance_tests.harness.weight_sets.ROOM", 0)
    sets = weight_sets(InPlace)
    subject: Any = sets.subject
    want = copied(sets[PERTURBED])
    for _ in range(2):
        with sets.in_use(PERTURBED):
            assert all(torch.equal(w, want[own]) for own, w in subject.own.items())
            written(subject.own["w_o"])
        assert all(torch.equal(w, want[own]) for own, w in sets[PERTURBED].items())


def test_a_large_encoder_that_writes_nothing_keeps_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conformance_tests.harness.weight_sets.ROOM", 0)
    sets = weight_sets(InPlace)
    subject: Any = sets.subject
    for name in (PERTURBED, KEEN, GIVEN):
        with sets.in_use(name):
            subject.own["w_o"] @ subject.own["w_q"]
    assert sets.held["w_o"] is subject.own["w_o"]


def test_adopted_weights_take_the_place_of_those_made_and_leave_out_what_is_not_there(holder: type[Holder]) -> None:
    sets = weight_sets(holder)
    given = {own: w.clone() for own, w in sets.given.items()}
    sets.adopt([GIVEN], lambda _: {own: 3 * w for own, w in given.items()} | {"other": torch.ones(1)})
    assert list(sets) == [GIVEN]
    assert list(sets[GIVEN]) == list(given)
    assert all(w.equal(3 * given[own]) for own, w in sets[GIVEN].items())

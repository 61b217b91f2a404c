"""The weights with which a subject is judged: what each set changes, and what stays as it was given."""

from collections.abc import Mapping
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
        self.given = dict(given)
        self.held: list[Mapping[str, Tensor]] = []

    def weights(self) -> dict[str, Tensor]:
        return self.given

    def set_weights(self, values: Mapping[str, Tensor]) -> None:
        self.held.append(values)


class Fixed(Holder):
    def set_weights(self, values: Mapping[str, Tensor]) -> None:
        raise Unsupported("its weights cannot be changed")


class Halved(Holder):
    dtype = torch.bfloat16


PATHS = ("W_Q", "W_K", "W_V", "W_O", "b_O", "W_1", "W_2", "norm_1.gamma")


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
    holder: Any = kind(given)
    return WeightSets(holder, ParameterMapping(sources, ()), 5, fixed)


def ratios(sets: WeightSets, name: str) -> dict[str, float]:
    """By what factor each array of a set differs from the perturbed one, where it does."""
    factors = {own: (w / sets[PERTURBED][own]).mean().item() for own, w in sets[name].items()}
    return {own: round(factor, 9) for own, factor in factors.items() if factor != 1}


def test_given_weights_are_the_first_of_all_sets() -> None:
    sets = weight_sets()
    all_sets = [GIVEN, PERTURBED, FAINT, OFFSET, KEEN, SHARP, SHARPEST, LOUD, SILENT, NO_ATTENTION, NO_FFN]
    assert list(sets) == all_sets
    assert len(sets) == len(all_sets)
    assert sets[GIVEN] is sets.given


def test_a_subject_whose_weights_cannot_be_changed_has_those_given_alone() -> None:
    assert list(weight_sets(Fixed)) == [GIVEN]


def test_maps_are_drawn_anew_and_vectors_are_moved() -> None:
    """0.8/√4 = 0.4 times what the generator of the seed draws, and 2 + 0.3 times it, in the order of the names."""
    generator = torch.Generator().manual_seed(5)
    for name, w in weight_sets()[PERTURBED].items():
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
def test_a_set_scales_the_arrays_that_it_is_about(name: str, changed: dict[str, float]) -> None:
    """Queries and keys, inner features, or what the norms read."""
    assert ratios(weight_sets(), name) == changed


def test_the_offset_is_in_the_bias_or_in_the_map_where_there_is_none() -> None:
    """10⁴ in a bias; 5000/√4 = 2500 in each entry of a map that reads four."""
    for without, moved in (((), {"b_o": 1e4}), (("b_O",), {"w_o": 2500.0, "w_2": 2500.0})):
        sets = weight_sets(without=without)
        shifts = {own: (w - sets[PERTURBED][own]).mean().item() for own, w in sets[OFFSET].items()}
        assert {own: round(shift, 6) for own, shift in shifts.items() if shift} == moved


def test_tied_arrays_stay_equal() -> None:
    """The values use the array of the queries: where those are sharpened, they are."""
    sets = weight_sets(tied=True)
    assert all(weights["w_v"].equal(weights["w_q"]) for weights in sets.values())
    assert ratios(sets, SHARP) == {"w_q": 24, "w_k": 24, "w_v": 24}


def test_what_is_fixed_is_neither_drawn_nor_made_small() -> None:
    sets = weight_sets(fixed=("layers.0.norm_1.gamma",))
    assert sets[PERTURBED]["norm_1.gamma"] is sets.given["norm_1.gamma"]
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


def test_one_array_at_two_paths_is_one() -> None:
    """Equal values do not make it one, nor does a path that is not there."""
    sets = weight_sets(tied=True)
    assert sets.is_one("layers.0.W_Q", "layers.0.W_V")
    assert not sets.is_one("layers.0.W_Q", "layers.0.W_K")
    assert not sets.is_one("layers.0.W_Q", "layers.1.W_Q")


def test_a_set_is_given_to_the_subject_once_and_only_when_it_changes() -> None:
    """The subject begins with the weights as given."""
    sets = weight_sets()
    held = sets.subject.held  # type: ignore[attr-defined]
    perturbed = sets[PERTURBED]
    held.clear()
    for name in (GIVEN, PERTURBED, PERTURBED, GIVEN):
        sets.use(name)
    assert [weights is perturbed for weights in held] == [True, False]
    assert held[-1] is sets.given


def test_adopted_weights_take_the_place_of_those_made_and_leave_out_what_is_not_there() -> None:
    sets = weight_sets()
    sets.adopt({GIVEN: {own: 3 * w for own, w in sets.given.items()} | {"other": torch.ones(1)}})
    assert list(sets) == [GIVEN]
    assert list(sets[GIVEN]) == list(sets.given)
    assert all(w.equal(3 * sets.given[own]) for own, w in sets[GIVEN].items())

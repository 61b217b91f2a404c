"""Which plain attributes hold parts, under which names, and that they are forgotten again."""

from typing import Any

import pytest
import torch
from torch import nn

from conformance_tests.subjects.unregistered import parts_in, plain_tensors, registered, unregistered


class Holding(nn.Module):
    """A module with something as a plain attribute."""

    def __init__(self, held: Any) -> None:
        super().__init__()
        self.held = held


MAP, ARRAY = nn.Linear(2, 2), nn.Parameter(torch.ones(2))


ITSELF: list[Any] = [MAP]
ITSELF.append(ITSELF)


@pytest.mark.parametrize(
    ("held", "names"),
    [
        ([MAP], ["0.weight"]),
        ((MAP, MAP), ["0.weight", "1.weight"]),
        ([ARRAY], ["0"]),
        ({"a": MAP, "b": ARRAY}, ["b", "a.weight"]),
        ({"a.b": MAP}, ["a_b.weight"]),
        ({"keys": MAP}, ["keys.weight"]),
        ({3: MAP}, ["3.weight"]),
        ([MAP, 3], ["0.weight"]),
        ([[MAP], (ARRAY, {"a": MAP})], ["0.0.weight", "1.0", "1.1.a.weight"]),
        (ITSELF, ["0.weight"]),
        (MAP, ["weight"]),
        ({}, None),
        ([], None),
        ([[], ()], None),
        ([torch.ones(2)], None),
        ("text", None),
        (None, None),
        ({MAP}, None),
    ],
    ids=str,
)
def test_modules_and_parameters_in_lists_and_dictionaries_should_have_been_parts(
    held: Any, names: list[str] | None
) -> None:
    """However nested, and whatever else is there."""
    found = parts_in(held)
    named = found and [name for name, _ in found.named_parameters(remove_duplicate=False) if "bias" not in name]
    assert named == names


def test_parts_are_found_under_the_path_of_their_owner() -> None:
    """That of the module itself has no path."""
    module = Holding([nn.Linear(2, 2)])
    module.inner = Holding({"a": nn.Linear(2, 2)})
    found = [(path, owner, name) for path, owner, name, _ in unregistered(module)]
    assert found == [("held", module, "held"), ("inner.held", module.inner, "held")]


@pytest.mark.parametrize("held", [[nn.ReLU()], [nn.Sequential()], {"a": nn.Dropout()}])
def test_parts_without_parameters_are_left_alone(held: Any) -> None:
    assert list(unregistered(Holding(held))) == []


def test_parts_that_torch_knows_by_another_name_are_left_alone() -> None:
    """A module or a parameter that is registered already, itself or inside of one in the list."""
    module = Holding([nn.Linear(2, 2)])
    module.known = module.held[0]
    assert list(unregistered(module)) == []
    tied = Holding([nn.Linear(2, 2)])
    tied.weight = tied.held[0].weight
    assert list(unregistered(tied)) == []
    listed = Holding([nn.Parameter(torch.ones(2))])
    listed.weight = listed.held[0]
    assert list(unregistered(listed)) == []


def test_what_was_made_known_is_forgotten_when_the_suite_fails() -> None:
    """In a list inside of a list too."""
    inner = Holding([nn.Linear(2, 2, bias=False)])
    inner.known = nn.Linear(2, 2, bias=False)
    module = Holding([inner])

    def fail() -> None:
        with registered(module) as found:
            raise ValueError(f"{len(list(module.parameters()))} in {len(found)}")

    with pytest.raises(ValueError, match="2 in 2"):
        fail()
    assert list(module.parameters()) == []
    assert list(inner.parameters()) == [inner.known.weight]


@pytest.mark.parametrize(
    ("held", "is_one"),
    [
        (torch.ones(2), True),
        (torch.ones(2, dtype=torch.float16), True),
        (torch.ones(2, requires_grad=True), True),
        (torch.ones(1), False),
        (torch.ones(2, dtype=torch.long), False),
        (torch.ones(2, requires_grad=True) * 2, False),
        ([1.0, 2.0], False),
    ],
)
def test_plain_tensors_are_floating_have_entries_and_are_computed_from_nothing(held: Any, is_one: bool) -> None:
    """By the path of their owner."""
    outer = nn.Sequential(Holding(held))
    assert plain_tensors(outer) == ({"0.held": held} if is_one else {})
    assert list(plain_tensors(outer[0])) == (["held"] if is_one else [])

"""What stands around the equations of a torch module is taken off a copy; the module stays what it is."""

import warnings
from collections.abc import Callable
from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize, prune, weight_norm

from conformance_tests.subjects.unwrapped import made_by_hooks, unwrapped


class Halved(nn.Module):
    """A weight that is half of what is learned."""

    def forward(self, weight: Tensor) -> Tensor:
        return weight / 2


def two_maps() -> nn.Sequential:
    """Two maps with weights ((3, 4), (0, 5)) and no biases."""
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    for part in model:
        with torch.no_grad():
            part.weight.copy_(torch.tensor([[3.0, 4.0], [0.0, 5.0]]))
    return model


def old_weight_norm(part: nn.Module) -> None:
    """Torch's earlier form, by a hook before each call."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weight_norm(part)


def smallest_pruned(part: nn.Module) -> None:
    """One of the four entries is not used: 3 is the smallest beside 0."""
    prune.l1_unstructured(part, "weight", amount=2)


@pytest.mark.parametrize("spread", [1, 2])
def test_a_module_that_is_spread_over_devices_is_the_module_inside(spread: int) -> None:
    """However often."""
    module = model = two_maps()
    for _ in range(spread):
        module = nn.DataParallel(module)  # type: ignore[assignment]
    assert unwrapped(module) is model


@pytest.mark.filterwarnings("ignore:.*script_method:DeprecationWarning")  # importing the compiler warns
def test_a_compiled_module_is_the_module_inside() -> None:
    model = two_maps()
    assert unwrapped(torch.compile(model)) is model


def test_a_module_with_plain_weights_is_taken_as_it_is() -> None:
    model = two_maps()
    assert unwrapped(model) is model
    assert made_by_hooks(model[0]) == {}


@pytest.mark.parametrize(
    ("change", "weight"),
    [
        (lambda part: parametrize.register_parametrization(part, "weight", Halved()), [[1.5, 2], [0, 2.5]]),
        (parametrizations.weight_norm, [[3, 4], [0, 5]]),
        (old_weight_norm, [[3, 4], [0, 5]]),
        (smallest_pruned, [[0, 4], [0, 5]]),
    ],
    ids=["parametrized", "weight norm", "weight norm by hook", "pruned"],
)
def test_a_weight_made_of_others_becomes_a_plain_one_in_a_copy(
    change: Callable[[nn.Module], object], weight: list[list[float]]
) -> None:
    """With the numbers that the module computes with; the module itself keeps what it learns, and computes the same."""
    model = two_maps()
    change(model[0])
    names = [name for name, _ in model.named_parameters()]
    x = torch.eye(2)
    before = model(x)
    plain = unwrapped(model)
    assert plain is not model
    assert {name for name, _ in plain.named_parameters()} == {"0.weight", "1.weight"}
    torch.testing.assert_close(plain[0].weight.detach(), torch.tensor(weight, dtype=torch.float32))  # type: ignore[index]
    torch.testing.assert_close(plain(x), before)
    assert [name for name, _ in model.named_parameters()] == names
    torch.testing.assert_close(model(x), before)
    assert list(made_by_hooks(plain[0])) == []  # type: ignore[index]


def test_copies_of_a_parametrized_part_become_plain_each_by_itself() -> None:
    """Copies, as in torch's stack, share the class from which torch removes the weight; so do two weights of a part."""
    part = two_maps()[0]
    parametrize.register_parametrization(part, "weight", Halved())
    part.register_parameter("other", nn.Parameter(torch.tensor([7.0])))
    parametrize.register_parametrization(part, "other", Halved())
    model = nn.Sequential(part, deepcopy(part))
    plain = unwrapped(model)
    for found in plain:  # type: ignore[attr-defined]
        assert type(found) is nn.Linear
        assert (found.weight.tolist(), found.other.tolist()) == ([[1.5, 2], [0, 2.5]], [3.5])
    assert [parametrize.is_parametrized(one) for one in model] == [True, True]
    assert model[1].weight.tolist() == [[1.5, 2], [0, 2.5]]


def test_weights_that_hooks_make_are_found_by_name() -> None:
    """Both kinds; other hooks make none."""
    model = two_maps()
    old_weight_norm(model[0])
    smallest_pruned(model[1])
    model[1].register_forward_pre_hook(lambda module, args: None)
    assert [list(made_by_hooks(part)) for part in model] == [["weight"], ["weight"]]

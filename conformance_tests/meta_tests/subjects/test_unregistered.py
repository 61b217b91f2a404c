"""Parts that torch does not know of: found wherever a plain list may stand, and left as they were."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from conformance_tests import check
from conformance_tests.meta_tests.encoders.plain import Plain, plain_layers
from conformance_tests.subjects.unregistered import attributes_kept, plain_tensors, registered


class Holding(nn.Module):
    """A module with something as a plain attribute."""

    def __init__(self, held: Any) -> None:
        super().__init__()
        self.known = nn.Linear(2, 3)
        self.held = held


def maps() -> list[nn.Module]:
    return [nn.Linear(2, 2), nn.Linear(2, 2)]


@pytest.mark.parametrize(
    ("held", "kind"),
    [
        (maps(), "an nn.ModuleList"),
        (tuple(maps()), "an nn.ModuleList"),
        ({"first": nn.Linear(2, 2), "second": nn.Linear(2, 2)}, "an nn.ModuleDict"),
        ([nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))], "an nn.ParameterList"),
        ({"scale": nn.Parameter(torch.ones(2))}, "an nn.ParameterDict"),
        ([[[nn.Parameter(torch.ones(2))], "words"], 3], "an nn.ModuleList"),
        ([(nn.Linear(2, 2), nn.Parameter(torch.ones(2)))], "an nn.ModuleList"),
    ],
)
def test_a_plain_list_with_parameters_is_known_for_a_while(held: Any, kind: str) -> None:
    module = Holding(held)
    before = list(module.state_dict())
    with registered(module) as found:
        assert found == {"held": kind}
        assert len(list(module.parameters())) > len(before)
        assert module.held is held
    assert list(module.state_dict()) == before == ["known.weight", "known.bias"]


def test_a_module_that_torch_did_not_notice_is_known_for_a_while() -> None:
    module = Holding(None)
    vars(module)["beside"] = nn.Linear(2, 2)
    with registered(module) as found:
        assert found == {"beside": "an attribute set in the usual way"}
        assert len(list(module.parameters())) == 4
    assert len(list(module.parameters())) == 2


def test_lists_inside_of_a_list_are_found() -> None:
    """A module in a plain list may hold a plain list of its own."""
    module = Holding([Holding(maps())])
    with registered(module) as found:
        assert found == {"held": "an nn.ModuleList", "held.0.held": "an nn.ModuleList"}
    assert len(list(module.parameters())) == 2


def test_what_torch_knows_already_is_left_alone() -> None:
    """A list that hides the model around a module from torch; parts without parameters; words and numbers."""
    outer = Holding(None)
    outer.inner = Holding([outer])
    outer.held = [outer.known]
    for module in (outer, Holding([nn.ReLU()]), Holding([1, "two"]), Holding([[]]), Holding([])):
        with registered(module) as found:
            assert found == {}


def test_only_floating_tensors_of_some_length_are_plain_tensors() -> None:
    module = Holding(torch.ones(3, 2))
    module.register_buffer("table", torch.ones(4))
    module.count, module.scale = torch.arange(3), torch.tensor(2.0)
    assert list(plain_tensors(module)) == ["held"]


def test_a_table_and_the_length_that_it_is_for_are_put_back_together() -> None:
    """One without the other makes a right encoder refuse longer inputs."""
    module = Holding(torch.zeros(5))
    module.length = 5
    linear = module.known
    with attributes_kept(module):
        module.held, module.length = torch.zeros(7), 7
        module.eval()
    assert (len(module.held), module.length) == (5, 5)
    assert module.known is linear
    assert not module.training


class WithTable(Plain):
    """Sinusoids in a plain attribute, as in tutorials."""

    def __init__(self) -> None:
        super().__init__(plain_layers())
        self.token = nn.Embedding(41, 28)
        angles = torch.arange(50)[:, None] / 10000 ** (torch.arange(0, 28, 2) / 28)
        self.encoding = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().forward(self.token(ids) + self.encoding[: ids.shape[1]], mask)


def test_a_table_in_a_plain_attribute_is_judged_in_float64_and_named() -> None:
    """It is sound as it stands; that it does not move with the module is worth a note."""
    module = WithTable()
    report = check(module).targets[0]
    assert (report.verdict, report.dtype, report.level) == ("conformant", "float64", "gradient")
    assert "a plain attribute, which does not move with the encoder: encoding" in report.notes
    assert module.encoding.dtype is torch.float32


def test_layers_that_are_copies_are_named() -> None:
    """As those of torch's own stack are; layers drawn one by one are not."""
    layer = nn.TransformerEncoderLayer(32, 4, 72, batch_first=True)
    copies = check(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)).targets[0]
    note = "all layers start with the same weights: they are copies of one layer"
    assert note in copies.notes
    assert note not in check(Plain(plain_layers())).targets[0].notes

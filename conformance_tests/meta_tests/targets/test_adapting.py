"""Which subject an object becomes."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from conformance_tests import check
from conformance_tests.errors import SubjectError
from conformance_tests.subjects.adapted import AdaptedSubject
from conformance_tests.subjects.ready_made import READY_MADE
from conformance_tests.subjects.subject import Subject
from conformance_tests.subjects.torch_subject import TorchSubject
from conformance_tests.targets.adapting import adapt


class Arrays:
    """The least that a subject offers."""

    def __init__(self) -> None:
        self.weights: dict[str, Any] = {}

    def encode(self, x: Any, mask: Any) -> Any:
        return x


class Halves:
    """``encode`` alone."""

    def encode(self, x: Any, mask: Any) -> Any:
        return x


class Mine(Subject):
    """A subject by itself, though it has ``weights`` and ``encode`` too."""

    def weights(self) -> dict[str, Tensor]:
        return {}


def test_a_subject_is_taken_as_it_is() -> None:
    mine = Mine()
    assert adapt(mine) is mine


def test_a_torch_module_becomes_a_torch_subject_around_itself() -> None:
    module = nn.Linear(3, 5)
    subject = adapt(module)
    assert isinstance(subject, TorchSubject)
    assert subject.module is module


def test_an_object_with_weights_and_encode_is_adapted() -> None:
    thing = Arrays()
    subject = adapt(thing)
    assert isinstance(subject, AdaptedSubject)
    assert subject.subject is thing


def test_a_layer_of_a_framework_on_torch_is_one_of_the_framework(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its class descends from a torch module as well: the framework is asked first."""
    monkeypatch.setitem(READY_MADE, "madeup", "adapted:AdaptedSubject")
    layer = type("Layer", (nn.Module,), {"__module__": "madeup.layers"})()
    subject = adapt(layer)
    assert isinstance(subject, AdaptedSubject)
    assert subject.subject is layer


def test_parameters_without_numbers_are_refused_where_numbers_are_needed() -> None:
    """One of them is enough; shapes they have."""
    subject = adapt(nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 7, device="meta")))
    assert [tuple(w.shape) for w in subject.shapes().values()] == [(5, 3), (5,), (7, 5), (7,)]
    said = (
        r"^its parameters have shapes but no numbers \(the device is meta\): load its weights first, or judge its "
        r"shapes alone with --level static$"
    )
    with pytest.raises(SubjectError, match=said):
        subject.materialise()


class Model(nn.Module):
    """An encoder with a head, which one of its methods leaves out."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(24, 4, 40, batch_first=True)
        self.layers, self.head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(24, 3)

    def encode(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """Encode, without the head."""
        return self.layers(x, src_key_padding_mask=padding)  # type: ignore[no-any-return]


class DropsItself(nn.Module):
    """Calls functions that are told by the module whether it is in training."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(24, 4, 40, batch_first=True)

    def run(self, x: Tensor) -> Tensor:
        """Encode, under another name than ``forward``."""
        return self.layer(nn.functional.dropout(x, 0.1, training=self.training))  # type: ignore[no-any-return]


class Beside:
    """No module, but an object that holds one and a parameter."""

    def __init__(self) -> None:
        self.model, self.places = Model(), nn.Parameter(torch.randn(300, 24))

    def __call__(self, x: Tensor) -> Tensor:
        """Add positions, and encode."""
        return self.model.encode(x + self.places[: x.shape[1]])


def closed_over() -> Callable[..., Tensor]:
    """Return a function that calls two modules around it, and adds no positions."""
    table, model = nn.Embedding(31, 24), Model()
    return lambda ids: model.encode(table(ids))


@pytest.mark.parametrize(
    ("make", "verdict"),
    [
        (lambda: Model().encode, "conformant"),
        (lambda: partial(Model().encode, padding=None), "conformant"),
        (lambda: DropsItself().run, "conformant"),
        (Beside, "conformant"),
        (closed_over, "nonconformant"),
    ],
    ids=["method", "partial function", "method of a module in training", "object", "function around modules"],
)
def test_what_calls_a_module_is_judged_by_what_it_calls(make: Callable[[], Any], verdict: str) -> None:
    """The parameters are those of the modules that it holds."""
    report = check(make(), explain=False).targets[0]
    assert report.verdict == verdict, (report.notes, [r.message for r in report.of("fail")])


@pytest.mark.parametrize("thing", [5, "bert", None, {}, Halves(), [nn.Linear(2, 2)], torch.zeros(2), len])
def test_anything_else_is_no_encoder(thing: Any) -> None:
    """A list of modules, a tensor and an object with only one of the two among it."""
    said = (
        f"^{type(thing).__name__} is not an encoder: give a torch.nn.Module, "
        r"an object that is called and holds modules or tensors of torch, or arrays of NumPy or JAX, "
        r"or one with `weights` and `encode\(x, mask\)`$"
    )
    with pytest.raises(SubjectError, match=said):
        adapt(thing)


def test_what_calls_a_module_with_lazy_parts_gives_them_their_shapes() -> None:
    layer = nn.TransformerEncoderLayer(24, 4, 40, batch_first=True)
    model = nn.Sequential(nn.LazyLinear(24), layer)
    adapt(lambda x: model(x))
    assert not nn.parameter.is_lazy(model[0].weight)

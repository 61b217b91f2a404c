"""At the level static an encoder is read by names and shapes alone, of any size: what no shape shows stays open."""

import json
from collections.abc import Callable
from math import prod
from typing import Any, ClassVar

import jsonschema
import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from conformance_tests import check, described
from conformance_tests.meta_tests.encoders.catalogue import all_tutorials
from conformance_tests.meta_tests.reports.test_report_files import SCHEMA
from conformance_tests.reports.report import TargetReport
from encoder_spec.assembly import Encoder
from encoder_spec.dimensions import Dimensions
from encoder_spec.module import EncoderModule
from encoder_spec.profiles import PROFILES

TRILLION = 10**12


def layer(**options: Any) -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(24, 4, 40, batch_first=True, **options)


class Stack(nn.Module):
    """Layers that nobody may call."""

    def __init__(self, layers: Any) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: Tensor) -> Tensor:
        raise AssertionError("the encoder was called")


def stack(**options: Any) -> Stack:
    return Stack(nn.ModuleList([layer(**options) for _ in range(2)]))


def on_meta(make: Callable[[], nn.Module]) -> nn.Module:
    with torch.device("meta"):
        return make()


def judged(encoder: Any, profile: Any = "auto") -> TargetReport:
    return check(encoder, profile, level="static").targets[0]


class Allocated(TorchDispatchMode):
    """Collects the sizes of the tensors with numbers that operations return, as arrays may only share memory."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        returned = func(*args, **(kwargs or {}))
        self.sizes |= {t.numel() for t in tree_leaves(returned) if isinstance(t, Tensor) and not t.is_meta}
        return returned


# Nothing runs, and nothing is allocated ------------------------------------------------


def test_neither_is_an_encoder_called_nor_are_its_weights_copied() -> None:
    """No tensor with numbers is larger than a vector, the parameters stay where they are, and a call would raise."""
    encoder = stack()
    places = {name: p.data_ptr() for name, p in encoder.named_parameters()}
    with Allocated() as allocated:
        report = judged(encoder)
    assert report.verdict == "conformant", report.notes
    assert {name: p.data_ptr() for name, p in encoder.named_parameters()} == places
    assert max(allocated.sizes, default=0) <= 24  # at most γ = 1, for layers whose norms have no parameters


def test_a_module_of_a_trillion_parameters_is_judged_without_numbers() -> None:
    """128 layers of width 25,600: 12·d² + 13·d parameters in each."""
    d, N = 25_600, 128

    def make() -> nn.Module:
        wide = nn.TransformerEncoderLayer(d, 160, 4 * d, batch_first=True, activation="gelu")
        return nn.TransformerEncoder(wide, N)

    encoder = on_meta(make)
    with Allocated() as allocated:
        report = judged(encoder)
    number = N * (12 * d**2 + 13 * d)
    assert number > TRILLION
    assert report.verdict == "conformant", report.notes
    assert report.notes[0].startswith(f"{number:,} parameters in {12 * N:,} arrays")
    assert report.profile["choices"].items() >= {"num_layers": N, "d_model": d, "d_ff": 4 * d}.items()
    assert max(allocated.sizes, default=0) <= d


def test_without_numbers_nothing_more_than_shapes_can_be_judged() -> None:
    """The message says which level can."""
    report = check(on_meta(stack), level="agreement").targets[0]
    assert report.verdict == "error"
    assert "shapes but no numbers" in report.notes[0]
    assert "--level static" in report.notes[0]


# What shapes show ----------------------------------------------------------------------

SHOWN = {
    "bert": {"position", "layer", "activation", "eps", "num_heads"},
    "vaswani-2017": {"position", "layer", "activation", "eps", "num_heads"},
    "vit": {"layer", "activation", "eps", "num_heads"},
    "universal": {"layer", "activation", "eps", "num_heads"},
}
"""Profiles, each with choices that have no parameters, and so cannot be read off them."""

SMALL = Dimensions(d_model=24, h=4, d_ff=40, N=2, V=31, max_len=29, patch=2, classes=5)


class Foreign(Stack):
    """Parameters of the specification under its names, in a module that states nothing of itself."""

    def __init__(self, profile: str) -> None:
        super().__init__(None)
        inside = EncoderModule(Encoder(PROFILES[profile], SMALL))
        for name, p in inside.named_parameters():
            *owners, last = name.split(".")
            part: nn.Module = self
            for owner in owners:
                if not isinstance(getattr(part, owner, None), nn.Module):
                    setattr(part, owner, nn.Module())
                part = getattr(part, owner)
            part.register_parameter(last, p)


@pytest.mark.parametrize("profile", SHOWN)
def test_choices_without_parameters_stay_open(profile: str) -> None:
    """Each is named with the variants that look alike, and is not among the choices. The profile itself fits."""
    report = judged(Foreign(profile))
    left, choices = report.profile["open"], report.profile["choices"]
    assert report.verdict == "conformant", report.notes
    assert left.keys() >= SHOWN[profile]
    assert left.keys().isdisjoint(choices)
    assert {"pre-ln", "post-ln"} <= set(left["layer"])
    assert (left["eps"], left["num_heads"]) == ([], [])
    assert report.profile["name"] == "open"
    fitting = next(note for note in report.notes if note.startswith("published profiles that fit: "))
    assert profile in fitting.partition(": ")[2].split(", ")
    jsonschema.validate(json.loads(check(Foreign(profile), level="static").to_json()), SCHEMA)


@pytest.mark.parametrize("profile", SHOWN)
def test_choices_with_parameters_are_shown(profile: str) -> None:
    """Those in which the profile and its look-alikes agree are those of the profile."""
    report = judged(Foreign(profile))
    mine = Encoder(PROFILES[profile], SMALL).choices()
    shown = report.profile["choices"]
    assert {name: mine[name] for name in shown if name != "num_layers"} == {
        name: choice for name, choice in shown.items() if name != "num_layers"
    }
    assert {"projections", "output", "ffn", "d_model", "d_ff"} <= shown.keys()
    assert ("final_norm" in shown) == (mine["final_norm"] == "norm")  # one without parameters has no shape


def test_statements_fill_what_shapes_leave_open_and_are_told_apart() -> None:
    """Torch's layers keep their activation, ε and order of norms as attributes."""
    report = judged(stack(norm_first=True, activation="gelu", layer_norm_eps=1e-3))
    stated = {"layer": "pre-ln", "activation": "gelu", "eps": 1e-3, "num_heads": 4}
    assert report.profile["choices"].items() >= stated.items()
    assert report.profile["open"].keys().isdisjoint(stated)
    said = next(note for note in report.notes if note.startswith("stated, and shown by no shape: "))
    assert all(f"{name} {choice}" in said for name, choice in stated.items())


def test_an_author_says_which_array_is_which() -> None:
    """A name that is not there is reported as at any other level."""

    class Nameless(Stack):
        def __init__(self) -> None:
            super().__init__(None)
            shapes = [(24, 24)] * 4 + [(40, 24), (24, 40)] + [(24,)] * 4
            self.blocks = nn.ModuleList(nn.ParameterDict() for _ in range(2))
            for block in self.blocks:
                for number, shape in enumerate(shapes):
                    block[f"a{number}"] = nn.Parameter(torch.empty(shape, device="meta"))

    letters = ("W_Q", "W_K", "W_V", "W_O", "W_1", "W_2", "norm_1.gamma", "norm_1.beta", "norm_2.gamma", "norm_2.beta")
    said = {letter: f"blocks.{{l}}.a{number}" for number, letter in enumerate(letters)}
    report = judged(described(Nameless(), parameters=said, heads=3))
    assert report.verdict == "conformant", report.notes
    assert report.profile["choices"].items() >= {"projections": "linear", "num_heads": 3, "num_layers": 2}.items()
    wrong = judged(described(Nameless(), parameters={"W_Q": "blocks.{l}.b"}))
    assert wrong.verdict == "undetermined"
    assert "the encoder has no parameter 'blocks.0.b'" in wrong.notes[0]


# What shapes refute --------------------------------------------------------------------


def test_a_declared_profile_is_held_as_far_as_shapes_show() -> None:
    """Pre-LN for Post-LN and GELU for ReLU look alike; a final norm and missing biases do not."""
    assert judged(stack(norm_first=True, activation="gelu"), "torch-post-ln").verdict == "conformant"
    with_norm = judged(stack(norm_first=True), "torch-pre-ln")
    assert with_norm.verdict == "nonconformant"
    assert "norm_final.beta is missing" in {r.id: r.message for r in with_norm.of("fail")}["ENC-17"]
    without = judged(stack(bias=False), "torch-post-ln")
    assert {"ENC-17", "FFN-9", "MH-8"} <= {r.id for r in without.of("fail")}


def test_a_failure_by_shapes_is_placed_and_not_searched_for() -> None:
    """No deviation can be tried on an encoder that does not run, and the report does not say that none fits."""
    encoder = stack()
    encoder.layers[1].linear1.bias = None  # type: ignore[union-attr]
    report = judged(encoder)
    assert (report.verdict, report.departs_at, report.explained) == ("nonconformant", "ffn", False)
    assert "layers.1.b_1 is missing, declared (40,)" in {r.id: r.message for r in report.of("fail")}["ENC-17"]


def test_parameters_of_no_slot_leave_the_verdict_open() -> None:
    """Whether they matter, only a call would tell; those on top of the hidden states do not count."""
    encoder = stack()
    encoder.pooler = nn.Linear(24, 24)
    assert judged(encoder).verdict == "conformant"
    encoder.layers[0].gate = nn.Parameter(torch.ones(24, 7))  # type: ignore[union-attr]
    for profile in ("auto", "torch-post-ln"):
        report = judged(encoder, profile)
        assert (report.verdict, len(report.of("fail"))) == ("undetermined", 0)
        assert report.notes[-1].startswith("no slot of the specification has layers.0.gate: ")


def test_what_is_not_an_encoder_is_undetermined() -> None:
    report = judged(nn.Linear(3, 5))
    assert report.verdict == "undetermined"
    assert "there are no attention projections among the parameters" in report.notes[0]


@pytest.mark.parametrize("place", [on_meta, lambda make: make()], ids=["meta", "cpu"])
def test_modules_in_a_plain_list_are_not_known_to_torch(place: Callable[[Callable[[], nn.Module]], nn.Module]) -> None:
    """Of an encoder on the device meta too, where a module without numbers might be a template."""

    def make() -> nn.Module:
        encoder = stack()
        layers = list(encoder.layers)
        del encoder.layers
        encoder.layers = layers
        encoder.final_norm = nn.LayerNorm(24)
        return encoder

    report = judged(place(make))
    assert "layers should be an nn.ModuleList" in {r.id: r.message for r in report.of("fail")}["ENC-17"]


# Shared layers -------------------------------------------------------------------------


def shared() -> Stack:
    one = layer()
    return Stack(nn.ModuleList([one, one]))


DIFFERENT = PROFILES["torch-post-ln"]
SHARING = DIFFERENT.replace(name="sharing", sharing="all")


@pytest.mark.parametrize("place", [on_meta, lambda make: make()], ids=["meta", "cpu"])
def test_layers_share_what_is_one_object(place: Callable[[Callable[[], nn.Module]], nn.Module]) -> None:
    """Under two names it is one; two arrays of one shape are two."""
    one, two = place(shared), place(stack)
    assert judged(one).profile["choices"].items() >= {"sharing": "all", "num_layers": 2}.items()
    assert judged(two).profile["choices"].items() >= {"sharing": "none", "num_layers": 2}.items()
    verdicts = {profile.name: [judged(m, profile).verdict for m in (one, two)] for profile in (SHARING, DIFFERENT)}
    assert verdicts == {
        "sharing": ["conformant", "nonconformant"],
        "torch-post-ln": ["nonconformant", "conformant"],
    }
    assert [r.id for r in judged(one, DIFFERENT).of("fail")] == ["ENC-15"]
    assert "ENC-16" in [r.id for r in judged(two, SHARING).of("fail")]


@pytest.mark.parametrize("place", [on_meta, lambda make: make()], ids=["meta", "cpu"])
def test_a_part_that_is_used_in_every_layer_does_not_make_all_shared(
    place: Callable[[Callable[[], nn.Module]], nn.Module],
) -> None:
    """One map of the feed-forward networks is one object; all else is there twice."""

    def make() -> nn.Module:
        encoder = stack()
        encoder.layers[1].linear1 = encoder.layers[0].linear1  # type: ignore[union-attr]
        return encoder

    report = judged(place(make))
    says = "encoder: 2 layers have 1 W_1 where the spec gives 2"
    assert {r.id: r.message.split(",")[0] for r in report.of("fail")} == {"ENC-15": says}


def test_layers_in_one_array_are_not_shared() -> None:
    """Each is another part of it."""
    shapes = {"attn.qkv": (24, 72), "attn.out": (24, 24), "fc1": (24, 40), "fc2": (40, 24)}

    class Scanned(Stack):
        def __init__(self) -> None:
            super().__init__(None)
            for name, shape in shapes.items():
                self.register_parameter(f"{name}.kernel".replace(".", "_"), nn.Parameter(torch.empty(3, *shape)))
            for norm in ("norm1_weight", "norm1_bias", "norm2_weight", "norm2_bias"):
                self.register_parameter(norm, nn.Parameter(torch.empty(3, 24)))

    report = judged(Scanned())
    assert report.verdict == "conformant", report.notes
    assert report.profile["choices"].items() >= {"num_layers": 3, "sharing": "none"}.items()


@pytest.mark.parametrize("place", [on_meta, lambda make: make()], ids=["meta", "cpu"])
def test_shared_layers_may_have_norms_without_parameters(
    place: Callable[[Callable[[], nn.Module]], nn.Module],
) -> None:
    def make() -> nn.Module:
        encoder = shared()
        bare = nn.LayerNorm(24, elementwise_affine=False)
        encoder.layers[0].norm1 = encoder.layers[0].norm2 = bare  # type: ignore[union-attr]
        return encoder

    report = judged(place(make))
    assert report.verdict == "conformant", report.notes
    assert report.profile["choices"].items() >= {"sharing": "all", "num_layers": 2}.items()


# Other targets -------------------------------------------------------------------------


def test_arrays_without_a_framework_are_read_so_too() -> None:
    """An object with ``weights`` and ``encode``, which is not called."""

    class Arrays:
        weights: ClassVar = {name: np.zeros(tuple(p.shape)) for name, p in on_meta(stack).named_parameters()}

        def encode(self, x: Any, mask: Any) -> Any:
            raise AssertionError("the encoder was called")

    report = judged(Arrays())
    assert report.verdict == "conformant", report.notes
    assert report.notes[0].startswith(f"{sum(prod(w.shape) for w in Arrays.weights.values()):,} parameters")


def test_a_failure_is_repeated_at_the_level_that_was_asked_for() -> None:
    """No call was answered, so that the report says nothing of lengths."""
    report = judged(stack(bias=False), "torch-post-ln")
    assert report.of("fail")
    assert all("level='static'" in r.repro for r in report.of("fail"))
    assert report.extent["positions"] == []


@pytest.mark.parametrize("name", all_tutorials())
def test_no_sound_encoder_fails_by_shapes(name: str) -> None:
    """What names and shapes do not show keeps the verdict open, and no more; what they show is right."""
    tutorial = all_tutorials()[name]
    report = judged(tutorial.make)
    assert report.verdict in ("conformant", "undetermined"), [r.message for r in report.of("fail")]
    if report.verdict == "conformant":
        found = report.profile["choices"]
        wrong = {slot: found[slot] for slot, right in tutorial.choices.items() if found.get(slot, right) != right}
        assert not wrong

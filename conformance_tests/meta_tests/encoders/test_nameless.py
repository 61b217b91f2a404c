"""Encoders are judged with none of their names known: of parameters, modules and arguments."""

import pytest
import torch
from torch import nn

from conformance_tests.meta_tests.encoders.catalogue import all_defects, all_tutorials
from conformance_tests.meta_tests.encoders.nameless import Nameless
from conformance_tests.meta_tests.judgements import Judgements

SAID_BY_NAMES = {
    "KeysAndValuesSwapped": "which map is that of the keys",
    "QueriesAndKeysSwapped": "which map is that of the queries",
    "HeadsInterleaved": "in which order one array holds the maps",
    "OutputMapTransposed": "that a weight is stored output × input",
    "TorchOutputMapTransposed": "that a weight is stored output × input",
    "LayersInReverse": "which layer is the first",
    "MaskInverted": "that an argument hides where it is true",
    "TorchMaskInverted": "that an argument hides where it is true",
    "MaskNeverUsed": "that an argument is a mask",
    "TorchMaskNeverUsed": "that an argument is a mask",
    "MaskRefused": "that an argument is a mask",
    "IdleParameter": "that a parameter belongs to a layer",
}
"""Defects that contradict names alone, and what these say: without the names nothing is wrong."""

NOT_READ = {
    "stacked_arrays_with_gates",
    "stacked_arrays_with_one_map_turned",
    "weights_made_of_others",
    "FeedForwardAcrossPositions",
    "LayersInAPlainList",
}
"""Encoders whose computation is not read in full: they are left open."""

WRAPPERS = (nn.DataParallel,)
"""Modules whose class must be known: they call another one."""

MODULES = sorted(
    name
    for name, written in all_tutorials().items()
    if isinstance(encoder := written.make(), nn.Module) and not isinstance(encoder, WRAPPERS)
)
WRONG = sorted(name for name, defect in all_defects().items() if defect.profile == "auto" and name not in SAID_BY_NAMES)


def without_names(module: nn.Module) -> nn.Module:
    """A module without names, made with the same random numbers each time."""
    torch.manual_seed(0)
    return Nameless(module)


@pytest.mark.parametrize("name", MODULES)
def test_sound_encoder_without_names_is_conformant(name: str, judged: Judgements) -> None:
    """With the choices that its code makes, unless its computation is not read."""
    written = all_tutorials()[name]
    report = judged(lambda: without_names(written.make()), known_as=f"{name}, nameless", explain=False)
    if name in NOT_READ:
        assert report.verdict == "undetermined", report.notes
        return
    assert report.verdict == "conformant", [r.message for r in report.of("fail")] + report.notes
    choices = report.profile["choices"]
    assert {k: choices.get(k) for k in written.choices} == written.choices


@pytest.mark.parametrize("name", WRONG)
def test_broken_encoder_without_names_is_found_out(name: str, judged: Judgements) -> None:
    """Unless its computation is not read: then the verdict stays open."""
    report = judged(lambda: without_names(all_defects()[name].make()), known_as=f"{name}, nameless", explain=False)
    assert report.verdict == ("undetermined" if name in NOT_READ else "nonconformant"), report.notes

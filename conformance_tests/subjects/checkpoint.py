"""A folder with ``config.json`` and ``safetensors`` as a subject, run by the package transformers.

The suite executes, unpickles and fetches nothing: the classes come from the installed package, attention is computed
as that has it, and the weights are plain arrays of files in the folder. By shapes alone, headers of the files are
enough, and so is a configuration without weights.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from conformance_tests.errors import SubjectError, Undetermined, one_line
from conformance_tests.parameters.names import is_beside
from conformance_tests.subjects.headers import files_of_index, shapes_of_files
from conformance_tests.subjects.hints import Hints
from conformance_tests.subjects.shapes import ShapesSubject
from conformance_tests.subjects.torch_hints import configured


def load(folder: Path) -> Any:
    """Load the model that a folder holds.

    Raises:
        SubjectError: if the folder lacks a file, or transformers cannot read it.
        Undetermined: if configuration and weights do not belong together.
    """
    demand_files(folder)
    with offline():
        model, told = loaded(folder)
    for what, names in (
        ("the weights lack what the configuration asks for", told["missing_keys"]),
        ("the configuration has no place for the weights", told["unexpected_keys"]),
    ):
        inside = sorted(name for name in map(str, names) if not is_beside(name))
        if inside:
            raise Undetermined(f"{what}: {', '.join(inside[:4])}{', …' if len(inside) > 4 else ''}")
    return model


def loaded(folder: Path) -> tuple[Any, dict[str, Any]]:
    """Return the model, and what transformers tells of its weights.

    Raises:
        SubjectError: if transformers is not there, or cannot read the folder.
    """
    with transformers_for(folder) as transformers:
        return transformers.AutoModel.from_pretrained(  # type: ignore[no-any-return]
            folder,
            config=configuration_in(folder, transformers),
            attn_implementation=PLAIN,
            use_safetensors=True,
            output_loading_info=True,
            **HERE,
        )


def by_shapes(place: Path) -> Any:
    """Return the shapes of the weights in a file or a folder; of a configuration alone, its model on the device meta.

    Raises:
        SubjectError: if there are no weights and no configuration, or they cannot be read.
    """
    if place.suffix == ".safetensors":
        return ShapesSubject(shapes_of_files([place]), Hints(), tells_constants=False)
    if place.is_dir() and any(place.glob("*.safetensors*")):
        return ShapesSubject(shapes_of_files(files_in(place)), hints_in(place), tells_constants=False)
    if place.is_dir():
        demand_no_pickles(place)
    if not (place / "config.json" if place.is_dir() else place).is_file():
        raise SubjectError(f"{place} has neither *.safetensors with weights nor a config.json that describes some")
    with offline(), transformers_for(place) as transformers, torch.device("meta"):
        return transformers.AutoModel.from_config(
            configuration_in(place, transformers), attn_implementation=PLAIN, trust_remote_code=False
        )


def files_in(folder: Path) -> list[Path]:
    """Return the files with the weights of a model, as transformers would choose them: one, or those of an index.

    Raises:
        SubjectError: if an index lists what is not there, or there are several files and no index.
    """
    whole = folder / "model.safetensors"
    indices, files = sorted(folder.glob("*.index.json")), sorted(folder.glob("*.safetensors"))
    if whole.is_file() or (len(files) == 1 and not indices):
        return [whole] if whole.is_file() else files
    if len(indices) == 1:
        return files_of_index(indices[0], weight_map(indices[0]))
    raise SubjectError(f"{folder} has {len(files)} files of weights and {len(indices)} that say which: name one file")


def hints_in(folder: Path) -> Hints:
    """Return what the configuration in a folder states, if it has one.

    Raises:
        SubjectError: if it cannot be read.
    """
    file = folder / "config.json"
    if not file.is_file():
        return Hints()
    try:
        choices, sizes = configured(SimpleNamespace(**json.loads(file.read_text(encoding="utf-8"))))
    except (OSError, ValueError, TypeError) as fault:
        raise SubjectError(f"{file} does not hold a configuration: {one_line(fault)}") from None
    return Hints(choices, sizes, configured=dict(choices))


@contextmanager
def transformers_for(place: Path) -> Iterator[Any]:
    """Yield the package transformers, to load what is stored somewhere.

    Raises:
        SubjectError: if it is not there, or cannot load that.
    """
    try:
        import transformers
    except ImportError as fault:
        raise SubjectError(f"{place} is run by transformers: pip install transformers safetensors") from fault
    # Its advice on loading does not concern this encoder.
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    try:
        yield transformers
    except Exception as fault:
        raise SubjectError(f"transformers cannot load {place}: {one_line(fault)}") from fault


def configuration_in(place: Path, transformers: Any) -> Any:
    """Return the configuration in a folder or a file; it may name a kernel of the hub, in more than one way."""
    config = transformers.AutoConfig.from_pretrained(place, **HERE)
    config._attn_implementation = PLAIN
    return config


@contextmanager
def offline() -> Iterator[None]:
    """Let nothing be fetched from the hub meanwhile, whatever a configuration names."""
    before = os.environ.get(OFFLINE)
    os.environ[OFFLINE] = "1"
    try:
        yield
    finally:
        os.environ.pop(OFFLINE)
        os.environ.update({} if before is None else {OFFLINE: before})


PLAIN = "eager"
"""Attention that transformers computes step by step."""

HERE = {"local_files_only": True, "trust_remote_code": False}
"""Options with which transformers looks for nothing elsewhere, and runs no code that comes with weights."""

OFFLINE = "HF_HUB_OFFLINE"
"""The environment variable that keeps the packages of the hub from its network."""


def weight_map(index: Path) -> dict[str, str]:
    """Return the file of each array as an index lists them, which may name files of safetensors beside it alone.

    Raises:
        SubjectError: naming the entry, if it names anything else.
    """
    try:
        listed = dict(json.loads(index.read_text(encoding="utf-8"))["weight_map"].items())
    except (OSError, ValueError, LookupError, AttributeError, TypeError) as fault:
        raise SubjectError(f"{index} does not list weights: {one_line(fault)}") from None
    for entry in listed.values():
        if not isinstance(entry, str) or Path(entry).name != entry or Path(entry).suffix != ".safetensors":
            raise SubjectError(
                f"{index} names {entry!r} where it may only name *.safetensors in the folder: it is not opened"
            )
    return listed


def demand_files(folder: Path) -> None:
    """Refuse a folder without configuration or readable weights.

    Raises:
        SubjectError: naming what is missing, and what to do about pickled weights.
    """
    if not (folder / "config.json").is_file():
        raise SubjectError(f"{folder} has no config.json to describe the encoder of its weights")
    for index in folder.glob("*.index.json"):
        weight_map(index)
    if any(folder.glob("*.safetensors")):
        return
    demand_no_pickles(folder)
    raise SubjectError(
        f"{folder} has no *.safetensors with the weights: its configuration alone is judged with --level static"
    )


def demand_no_pickles(folder: Path) -> None:
    """Refuse a folder with weights that are pickled.

    Raises:
        SubjectError: saying what to do about them.
    """
    pickled = next(iter(sorted([*folder.glob("*.bin"), *folder.glob("*.pt"), *folder.glob("*.pth")])), None)
    if pickled is not None:
        raise SubjectError(
            f"{pickled} is a pickle, which may run code and is not opened: save the model again with "
            "model.save_pretrained(folder), which writes safetensors"
        )

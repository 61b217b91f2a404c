"""A folder with ``config.json`` and ``safetensors`` as a subject, run by the package transformers.

The suite executes, unpickles and fetches nothing: the classes come from the installed package, attention is computed
as that has it, and the weights are plain arrays of files in the folder.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from conformance_tests.errors import SubjectError, Undetermined, one_line
from conformance_tests.parameters.names import is_beside


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
    try:
        import transformers
    except ImportError as fault:
        raise SubjectError(f"{folder} is run by transformers: pip install 'encoder-spec[transformers]'") from fault
    # Its advice on loading does not concern this encoder.
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    here = {"local_files_only": True, "trust_remote_code": False}
    try:
        config = transformers.AutoConfig.from_pretrained(folder, **here)
        # A configuration may name a kernel of the hub, in more than one way.
        config._attn_implementation = PLAIN
        return transformers.AutoModel.from_pretrained(  # type: ignore[no-any-return]
            folder, config=config, attn_implementation=PLAIN, use_safetensors=True, output_loading_info=True, **here
        )
    except Exception as fault:
        raise SubjectError(f"transformers cannot load {folder}: {one_line(fault)}") from fault


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

OFFLINE = "HF_HUB_OFFLINE"
"""The environment variable that keeps the packages of the hub from its network."""


def demand_own_weights(index: Path) -> None:
    """Refuse an index of weights that names anything but files of safetensors beside it.

    Raises:
        SubjectError: naming the entry.
    """
    try:
        entries = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
    except (OSError, ValueError, LookupError, AttributeError, TypeError) as fault:
        raise SubjectError(f"{index} does not list weights: {one_line(fault)}") from None
    for entry in entries:
        if not isinstance(entry, str) or Path(entry).name != entry or Path(entry).suffix != ".safetensors":
            raise SubjectError(
                f"{index} names {entry!r} where it may only name *.safetensors in the folder: it is not opened"
            )


def demand_files(folder: Path) -> None:
    """Refuse a folder without configuration or readable weights.

    Raises:
        SubjectError: naming what is missing, and what to do about pickled weights.
    """
    if not (folder / "config.json").is_file():
        raise SubjectError(f"{folder} has no config.json to describe the encoder of its weights")
    for index in folder.glob("*.index.json"):
        demand_own_weights(index)
    if any(folder.glob("*.safetensors")):
        return
    pickled = next(iter(sorted([*folder.glob("*.bin"), *folder.glob("*.pt"), *folder.glob("*.pth")])), None)
    if pickled is not None:
        raise SubjectError(
            f"{pickled} is a pickle, which may run code and is not opened: save the model again with "
            "model.save_pretrained(folder), which writes safetensors"
        )
    raise SubjectError(f"{folder} has no *.safetensors with the weights")

"""A folder with ``config.json`` and ``safetensors`` as a subject, run by the package transformers.

The suite executes and unpickles nothing from the folder: the classes come from the
installed package, and the weights are plain arrays.
"""

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
    try:
        import transformers
    except ImportError as fault:
        raise SubjectError(f"{folder} is run by transformers: pip install 'encoder-spec[transformers]'") from fault
    # Its advice on loading does not concern this encoder.
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    try:
        model, told = transformers.AutoModel.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, use_safetensors=True, output_loading_info=True
        )
    except Exception as fault:
        raise SubjectError(f"transformers cannot load {folder}: {one_line(fault)}") from fault
    for what, names in (
        ("the weights lack what the configuration asks for", told["missing_keys"]),
        ("the configuration has no place for the weights", told["unexpected_keys"]),
    ):
        inside = sorted(name for name in map(str, names) if not is_beside(name))
        if inside:
            raise Undetermined(f"{what}: {', '.join(inside[:4])}{', …' if len(inside) > 4 else ''}")
    return model


def demand_files(folder: Path) -> None:
    """Refuse a folder without configuration or readable weights.

    Raises:
        SubjectError: naming what is missing, and what to do about pickled weights.
    """
    if not (folder / "config.json").is_file():
        raise SubjectError(f"{folder} has no config.json to describe the encoder of its weights")
    if any(folder.glob("*.safetensors")):
        return
    pickled = next(iter(sorted([*folder.glob("*.bin"), *folder.glob("*.pt"), *folder.glob("*.pth")])), None)
    if pickled is not None:
        raise SubjectError(
            f"{pickled} is a pickle, which may run code and is not opened: save the model again with "
            "model.save_pretrained(folder), which writes safetensors"
        )
    raise SubjectError(f"{folder} has no *.safetensors with the weights")

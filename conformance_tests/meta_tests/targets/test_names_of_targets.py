"""Names of targets, and messages that help where a name is wrong."""

from pathlib import Path

import pytest

from conformance_tests.errors import TargetError
from conformance_tests.targets.builtin import BUILTIN
from conformance_tests.targets.resolving import resolve

MISSPELT = {
    "torch-post-lnn": "torch-post-ln",
    "torch-preln": "torch-pre-ln",
    "torch_post_ln": "torch-post-ln",
    "refrence": "reference",
}


def refusal(target: str) -> str:
    """Return the message on a target that cannot be used."""
    with pytest.raises(TargetError) as refused:
        resolve(target)
    return str(refused.value)


@pytest.mark.parametrize(("misspelt", "meant"), MISSPELT.items())
def test_a_misspelt_built_in_name_gets_the_nearest_one(misspelt: str, meant: str) -> None:
    """One line, with the name that was meant and the command that lists them all."""
    assert refusal(misspelt) == (
        f"Unknown target {misspelt!r}. Did you mean {meant}? Run `encoder-spec encoders` for the list"
    )


@pytest.mark.parametrize("target", ["nobody", "my/model"])
def test_a_name_near_no_built_in_gets_the_forms_of_a_target(target: str) -> None:
    """A guess would mislead here; the forms of a target say what is missing."""
    said = refusal(target)
    assert said.startswith(f"Unknown target {target!r}. Write package.module:attribute, path/to/file.py:attribute")
    assert "Did you mean" not in said
    assert said.endswith("run `encoder-spec encoders` for the list")


@pytest.mark.parametrize("name", BUILTIN)
def test_built_in_names_are_targets(name: str) -> None:
    """Nothing is made, and no framework imported, before the function is called."""
    assert resolve(name) is BUILTIN[name].make


def test_weights_alone_are_refused_with_what_is_missing(tmp_path: Path) -> None:
    """The folder of the file is a target if it has a configuration."""
    (tmp_path / "model.safetensors").touch()
    load = resolve(str(tmp_path / "model.safetensors"))
    with pytest.raises(TargetError, match=r"holds only weights: name its folder, with a config\.json"):
        load()

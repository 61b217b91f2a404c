"""Every install line works: the package is on no index yet."""

import re
import tomllib
from pathlib import Path

import pytest

from conformance_tests.meta_tests.site.site import ROOT

FROM_INDEX = re.compile(r"pip install (?:-\S+ )*['\"]?encoder-spec\b")
TOLD = {"onnx": "conformance_tests/targets/resolving.py", "transformers": "conformance_tests/subjects/checkpoint.py"}


def texts() -> dict[str, str]:
    """Everything that people may read, but for what former versions said of themselves."""
    folders = ("conformance_tests", "encoder_spec", "docs", ".ci", ".github", "changelog.d")
    files = [*ROOT.glob("*"), *(path for folder in folders for path in (ROOT / folder).rglob("*"))]
    read = [p for p in files if p.suffix in (".md", ".py", ".toml", ".yml", ".html") and p.is_file()]
    return {p.relative_to(ROOT).as_posix(): p.read_text(encoding="utf-8") for p in read}


def test_nobody_is_told_to_install_it_from_an_index() -> None:
    here = Path(__file__).relative_to(ROOT).as_posix()
    found = [name for name, text in texts().items() if FROM_INDEX.search(text) and name not in (here, "CHANGELOG.md")]
    assert found == []


@pytest.mark.parametrize("command", ["pip install encoder-spec", "pip install 'encoder-spec[onnx]'"])
def test_such_a_line_would_be_found(command: str) -> None:
    assert FROM_INDEX.search(command)
    assert not FROM_INDEX.search("pip install ./encoder-spec")


@pytest.mark.parametrize("extra", TOLD)
def test_what_a_message_says_to_install_is_the_extra(extra: str) -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    names = {re.split(r"[<>=]", requirement)[0] for requirement in wanted[extra]}
    (told,) = re.findall(r"pip install ([\w ]+)\"", (ROOT / TOLD[extra]).read_text(encoding="utf-8"))
    assert set(told.split()) == names

"""Each form in which a person writes a target, and each refusal with its words."""

import json
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from torch import nn

from conformance_tests.errors import SubjectError, TargetError
from conformance_tests.targets.builtin import BUILTIN
from conformance_tests.targets.resolving import (
    Elsewhere,
    in_files,
    load_file,
    load_module,
    make,
    module_exists,
    resolve,
)

SOURCE = """
from dataclasses import dataclass
import beside_it

number = 7
_hidden = 5

class Outer:
    class Inner:
        value = 11

def make():
    return beside_it.value
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of its own to stand in, with a file and what it imports; imports are forgotten afterwards."""
    (tmp_path / "mine.py").write_text(SOURCE)
    (tmp_path / "beside_it.py").write_text("value = 13\n")
    (tmp_path / "silent.py").write_text("number = 3\n")
    (tmp_path / "weights.pt").write_text("")
    (tmp_path / "broken.py").write_text("raise ValueError('no\\nway')\n")
    (tmp_path / "leaving.py").write_text("raise SystemExit(3)\n")
    (tmp_path / "stopping.py").write_text("raise KeyboardInterrupt\n")
    many = "".join(f"def made_{letter}(): ...\n" for letter in "abcdefghij")
    (tmp_path / "many.py").write_text(many)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name in ("mine", "beside_it", "silent", "broken", "leaving", "stopping", "many") or name[:9] == "_subject_":
            del sys.modules[name]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("mine.py:number", 7),
        ("mine:number", 7),
        ("./mine.py:number", 7),
        ("mine.py:Outer.Inner.value", 11),
        ("mine:Outer.Inner.value", 11),
        ("json:dumps", json.dumps),
        ("os.path:sep", "/"),
    ],
)
def test_an_attribute_of_a_module_or_a_file_is_found(target: str, expected: Any) -> None:
    """By its path or by the name of the module; attributes of attributes too."""
    assert resolve(target)() == expected


def test_a_file_finds_what_stands_beside_it(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own folder is searched, wherever the process stands; a colon in the path is part of it."""
    elsewhere = here / "a:b"
    elsewhere.mkdir()
    for name in ("mine.py", "beside_it.py"):
        (here / name).rename(elsewhere / name)
    assert resolve("a:b/mine.py:make")()() == 13
    assert sys.path[0] == str(elsewhere)
    length = len(sys.path)
    resolve("a:b/mine.py:make")()
    assert len(sys.path) == length


def test_a_file_does_not_hide_the_package_that_it_is_named_after(here: Path) -> None:
    """Not even one without ``__init__.py``, before which Python prefers any file of that name."""
    package = here / "packages" / "attentive"
    package.mkdir(parents=True)
    (package / "model.py").write_text("value = 17\n")
    (here / "attentive.py").write_text("def make():\n    from attentive.model import value\n    return value\n")
    sys.path.append(str(package.parent))
    found = [resolve("attentive.py:make")()() for _ in range(2)]
    assert found == [17, 17]
    finders = [finder for finder in sys.meta_path if isinstance(finder, Elsewhere)]
    assert [finder.name for finder in finders].count("attentive") == 1


def test_nothing_is_imported_before_it_is_asked_for() -> None:
    """A name can be checked without running anything of the target; each load of a file runs it anew."""
    load = resolve("broken.py:make")
    assert "_subject_broken" not in sys.modules
    with pytest.raises(SubjectError, match=r"^importing broken\.py raised ValueError: no \(broken\.py:1\)$"):
        load()
    first, second = resolve("mine.py:Outer")(), resolve("mine.py:Outer")()
    assert first is not second
    assert sys.modules["_subject_mine"].Outer is second


@pytest.mark.parametrize("name", ["torch-post-ln", "reference-bert"])
def test_a_built_in_name_is_its_maker(name: str) -> None:
    assert resolve(name) is BUILTIN[name].make


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("mine.py:", "'mine.py:' must have the form package.module:attribute or path/to/file.py:attribute"),
        (":make", "':make' must have the form package.module:attribute or path/to/file.py:attribute"),
        ("absent.py:make", "there is no file absent.py"),
        (
            "http://here/model.py:make",
            "'http://here/model.py:make' is an address, and nothing is fetched: name a file or a module that is here",
        ),
        (
            "json.decoder",
            "'json.decoder' lacks the name of what is in the module: write json.decoder:attribute, or json:decoder",
        ),
        ("mine.make", "'mine.make' must have the form module:attribute: write mine:make"),
        ("mine.py::make", "'mine.py::make' must have the form path/to/file.py:attribute: write mine.py:make"),
        ("mine.py#make", "Unknown target 'mine.py#make'. Did you mean mine.py:make?"),
        (
            "weights.pt",
            "weights.pt is neither a file of Python (.py) nor an ONNX file; a stored model is named by its folder",
        ),
        (
            "absent:make",
            "there is no module 'absent'; a file is written with its .py: path/to/file.py:make",
        ),
        (
            "json.absent.deeper:make",
            "there is no module 'json.absent.deeper'; a file is written with its .py: path/to/file.py:make",
        ),
        ("absent.onnx", "there is no file absent.onnx"),
        ("absent.safetensors", "there is no file absent.safetensors"),
    ],
)
def test_a_name_that_cannot_be_used_is_refused_at_once(target: str, said: str) -> None:
    with pytest.raises(TargetError, match=f"^{re.escape(said)}$"):
        resolve(target)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("mine.py:mak", "mine.py has no attribute 'mak'. Did you mean make?"),
        ("mine:Outer.Otter", "mine has no attribute 'Outer.Otter'; it has Inner"),
        ("mine:absent", "mine has no attribute 'absent'; it has Outer, make"),
        ("silent.py:make", "silent.py has no attribute 'make'"),
        (
            "many:absent",
            "many has no attribute 'absent'; it has made_a, made_b, made_c, made_d, made_e, made_f, made_g, made_h",
        ),
    ],
)
def test_an_attribute_that_is_absent_is_answered_with_those_that_are_there(target: str, said: str) -> None:
    """Classes and functions of the module's own, eight at most: nothing imported, hidden, or a number."""
    load = resolve(target)
    with pytest.raises(TargetError, match=f"^{re.escape(said)}$"):
        load()


@pytest.mark.parametrize(
    ("load", "said"),
    [
        (lambda: load_module("broken"), "importing broken raised ValueError: no (broken.py:1)"),
        (lambda: load_file(Path("broken.py")), "importing broken.py raised ValueError: no (broken.py:1)"),
        (lambda: load_module("leaving"), "importing leaving raised SystemExit: 3 (leaving.py:1)"),
        (lambda: load_file(Path("leaving.py")), "importing leaving.py raised SystemExit: 3 (leaving.py:1)"),
    ],
)
def test_what_an_import_raises_is_the_subjects_fault(load: Callable[[], Any], said: str) -> None:
    """The first line of it; what ends the process as well."""
    sys.path.insert(0, str(Path.cwd()))
    with pytest.raises(SubjectError, match=f"^{re.escape(said)}$") as caught:
        load()
    assert caught.value.__cause__ is not None


def test_an_interrupt_is_nobodys_fault() -> None:
    """Ctrl-C during an import ends the command."""
    for load in (resolve("stopping.py:make"), resolve("stopping:make")):
        with pytest.raises(KeyboardInterrupt):
            load()


@pytest.mark.parametrize(
    ("name", "exists"),
    [("json", True), ("json.decoder", True), ("mine", True), ("absent", False), ("json.absent", False), ("", False)],
)
def test_modules_are_looked_for_from_where_the_process_stands(name: str, exists: bool) -> None:
    """The folder is put on the search path once; a name that is none exists nowhere."""
    assert module_exists(name) == exists
    assert module_exists(name) == exists
    assert sys.path.count(str(Path.cwd())) == 1


def test_a_parent_that_is_no_package_has_no_modules() -> None:
    """``silent`` is a file: there is nothing below it; one that fails on import has nothing either."""
    assert not module_exists("silent.below")
    assert not module_exists(".relative")


ALONE = {
    "model.safetensors": "holds only weights: name its folder, with a config.json that describes the encoder",
    "config.json": "only describes an encoder: name its folder, with *.safetensors that hold its weights",
}


@pytest.mark.parametrize(("name", "why"), ALONE.items())
def test_a_part_of_a_stored_encoder_is_refused_unless_its_shapes_are_enough(
    name: str, why: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When it is loaded: only then is it known what is asked of it."""
    from conformance_tests.subjects import checkpoint

    (here / name).write_bytes(b"")
    load = resolve(name)
    said = f"{name} {why}; --level static needs no more than this file"
    with pytest.raises(TargetError, match=f"^{re.escape(said)}$"):
        load()
    monkeypatch.setattr(checkpoint, "by_shapes", lambda path: ("shapes", path))
    assert resolve(name, by_shapes=True)() == ("shapes", Path(name))


def test_a_folder_is_loaded_as_a_checkpoint(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When it is asked for, from the path as written."""
    from conformance_tests.subjects import checkpoint

    (here / "folder").mkdir()
    monkeypatch.setattr(checkpoint, "load", lambda path: ("loaded", path))
    assert resolve("folder")() == ("loaded", Path("folder"))
    monkeypatch.setattr(checkpoint, "by_shapes", lambda path: ("shapes", path))
    assert resolve("folder", by_shapes=True)() == ("shapes", Path("folder"))


def test_an_onnx_file_is_loaded_by_its_subject(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without ONNX Runtime the report says what to install."""
    (here / "model.onnx").write_bytes(b"")
    fake: Any = ModuleType("conformance_tests.subjects.onnx")
    fake.OnnxSubject = lambda path: ("onnx", path)
    fake.shapes_in = lambda path: ("shapes", path)
    monkeypatch.setitem(sys.modules, "conformance_tests.subjects.onnx", fake)
    assert resolve("model.onnx", by_shapes=True)() == ("shapes", Path("model.onnx"))
    assert resolve("model.onnx")() == ("onnx", Path("model.onnx"))
    monkeypatch.setitem(sys.modules, "conformance_tests.subjects.onnx", None)
    said = r"^model\.onnx is run by ONNX Runtime: pip install onnx onnxruntime$"
    with pytest.raises(SubjectError, match=said):
        in_files(Path("model.onnx"))()


class Encoder(nn.Module):
    """Needs nothing."""


class Wide(nn.Module):
    def __init__(self, width: int, depth: int = 2, *, heads: int) -> None:
        super().__init__()


class Arrays:
    """A subject by its form."""

    def encode(self) -> None: ...


class Factory:
    def __call__(self, width: int) -> None: ...


def anything(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
    return args, kwargs


ENCODER, ARRAYS = Encoder(), Arrays()


@pytest.mark.parametrize("thing", [ENCODER, ARRAYS, 5, [ENCODER], {"a": 1}, None])
def test_what_is_made_already_is_taken_as_it_is(thing: Any) -> None:
    """A module although it can be called, an object with ``encode``, and whatever cannot be called."""
    assert make(thing) is thing


@pytest.mark.parametrize(
    ("maker", "kind"),
    [(Encoder, Encoder), (Arrays, Arrays), (lambda: ENCODER, Encoder), (dict, dict), (anything, tuple)],
)
def test_a_function_or_class_without_required_arguments_makes_one(maker: Any, kind: type) -> None:
    """A class of encoders is no encoder yet, even where it has ``encode``."""
    assert type(make(maker)) is kind


def test_a_layer_of_a_framework_is_made_already() -> None:
    """Though it can be called; its class is a maker."""
    layer = type("Layer", (), {"__module__": "keras.layers", "__call__": lambda self, x: x})
    thing = layer()
    assert make(thing) is thing
    assert type(make(layer)) is layer


def test_an_object_that_holds_arrays_and_asks_for_its_input_is_made_already() -> None:
    """One that asks for nothing is called, and makes an encoder."""
    bound = partial(lambda w, x: x @ w, np.eye(3))
    assert make(bound) is bound
    assert make(partial(lambda w: ENCODER, np.eye(3))) is ENCODER


@pytest.mark.parametrize(
    ("maker", "said"),
    [
        (
            Wide,
            "Wide needs the arguments width, heads: name a function without required arguments, "
            "such as `def make(): return Wide(...)`",
        ),
        (
            Factory(),
            "Factory needs the arguments width: name a function without required arguments, "
            "such as `def make(): return Factory(...)`",
        ),
        (
            partial(Wide, heads=2),
            "partial needs the arguments width: name a function without required arguments, "
            "such as `def make(): return partial(...)`",
        ),
    ],
)
def test_what_asks_for_arguments_is_refused_with_their_names(maker: Any, said: str) -> None:
    with pytest.raises(SubjectError, match=f"^{re.escape(said)}$"):
        make(maker)


@pytest.mark.parametrize(
    ("fault", "said"), [(ValueError("no\nway"), "ValueError: no"), (SystemExit(3), "SystemExit: 3")]
)
def test_what_a_maker_raises_is_the_subjects_fault(fault: BaseException, said: str) -> None:
    def failing() -> None:
        raise fault

    with pytest.raises(SubjectError, match=f"^{re.escape('failing() raised ' + said)}$") as caught:
        make(failing)
    assert caught.value.__cause__ is fault


def test_an_interrupt_of_a_maker_ends_the_command() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(interrupted)


@pytest.fixture
def package(here: Path) -> Iterator[Path]:
    """A package with a file that imports relatively, and one whose own beginning fails."""
    for name in ("parcel", "parcel/inner", "failing"):
        (here / name).mkdir()
        (here / name / "__init__.py").write_text("")
    (here / "failing/__init__.py").write_text("import nothing_of_this_name\n")
    (here / "parcel/parts.py").write_text("value = 17\n")
    (here / "parcel/inner/model.py").write_text("from ..parts import value\ndef make():\n    return value\n")
    (here / "failing/model.py").write_text("def make():\n    return 19\n")
    yield here
    for name in [name for name in sys.modules if name.partition(".")[0] in ("parcel", "failing")]:
        del sys.modules[name]


def test_a_file_in_a_package_is_imported_as_a_part_of_it(package: Path) -> None:
    """From outside the package and from within its folder."""
    make = resolve("parcel/inner/model.py:make")()
    assert (make(), make.__module__) == (17, "parcel.inner.model")
    assert sys.modules["parcel.inner.model"].make is make


def test_a_file_in_a_package_that_fails_is_imported_alone(package: Path) -> None:
    make = resolve("failing/model.py:make")()
    assert (make(), make.__module__) == (19, "_subject_model")


def test_a_package_that_fails_says_why(package: Path) -> None:
    """By the name of a module in it, and by a file of it that imports relatively."""
    (package / "failing/relative.py").write_text("from .model import make\n")
    said = r"raised ModuleNotFoundError: No module named 'nothing_of_this_name' \(__init__\.py:1\)$"
    for target in ("failing.model:make", "failing/relative.py:make"):
        with pytest.raises(SubjectError, match=said):
            resolve(target)()


@pytest.mark.parametrize("beginning", [None, ""], ids=["without a beginning", "with one in the innermost folder"])
def test_a_file_in_folders_is_imported_as_a_part_of_them(beginning: str | None, package: Path) -> None:
    """Folders are packages without an ``__init__.py`` too."""
    (package / "parcel/__init__.py").unlink()
    if beginning is None:
        (package / "parcel/inner/__init__.py").unlink()
    make = resolve("parcel/inner/model.py:make")()
    assert (make(), make.__module__) == (17, "parcel.inner.model")


def test_a_file_that_imports_from_above_all_folders_says_so(package: Path) -> None:
    (package / "lost.py").write_text("from .nowhere import make\n")
    with pytest.raises(SubjectError, match=r"raised ImportError: attempted relative import"):
        resolve("lost.py:make")()


def test_a_module_without_an_attribute_is_not_imported_to_say_so(package: Path) -> None:
    """Its package would run in the process that asks."""
    with pytest.raises(TargetError, match=r"^'failing\.model' lacks the name"):
        resolve("failing.model")
    assert "failing" not in sys.modules


def test_a_package_of_the_same_name_from_elsewhere_is_not_taken_for_it(package: Path) -> None:
    """Here is another ``json``: that of Python is imported already."""
    (package / "json").mkdir()
    (package / "json/__init__.py").write_text("")
    (package / "json/model.py").write_text("value = 23\n")
    assert resolve("json/model.py:value")() == 23


ENCODERS = {
    "ready": "from torch import nn\nencoder = nn.Linear(2, 2)\ndef helper(): ...\n",
    "made": "from torch import nn\nfrom math import cos\ndef make(width=2): ...\ndef other(width): ...\n",
    "of_a_class": "from torch import nn\nclass Encoder(nn.Module): ...\nclass Options: ...\n",
    "with_words": "STORED_IN = 'weights.pt'\ndef make(): ...\n",
    "that_encodes": "class Encoder:\n    def encode(self, x, mask): ...\n",
    "needing": "from torch import nn\nclass Encoder(nn.Module):\n    def __init__(self, width): ...\n",
    "two": "def make(): ...\ndef make_large(): ...\n",
}


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("ready", "encoder"),
        ("made", "make"),
        ("of_a_class", "Encoder"),
        ("with_words", "make"),
        ("that_encodes", "Encoder"),
    ],
)
def test_a_file_alone_gives_the_only_encoder_in_it(name: str, found: str, here: Path) -> None:
    """An encoder goes before what may make one; what needs arguments, or is imported, makes none."""
    (here / f"file_{name}.py").write_text(ENCODERS[name])
    thing = resolve(f"file_{name}.py")()
    assert thing is vars(sys.modules[f"_subject_file_{name}"])[found]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("two", "file_two.py has 2 things that may be meant: name one of file_two.py:{make,make_large}"),
        (
            "needing",
            "file_needing.py has neither an encoder nor a function or class without required arguments "
            "that may make one",
        ),
    ],
)
def test_a_file_alone_with_several_or_none_is_answered_with_what_is_there(name: str, said: str, here: Path) -> None:
    (here / f"file_{name}.py").write_text(ENCODERS[name])
    load = resolve(f"file_{name}.py")
    with pytest.raises(TargetError, match=f"^{re.escape(said)}$"):
        load()


def test_a_file_alone_that_is_absent_is_refused_at_once() -> None:
    with pytest.raises(TargetError, match=r"^there is no file nowhere\.py$"):
        resolve("nowhere.py")


def test_no_name_is_no_target() -> None:
    """Neither is it the folder in which one stands."""
    with pytest.raises(TargetError, match=r"^Unknown target ''"):
        resolve("")


def test_a_file_in_the_home_folder_is_named_with_a_tilde(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no shell writes the folder out."""
    monkeypatch.setenv("HOME", str(here))
    assert resolve("~/beside_it.py:value")() == 13


def test_a_script_sees_its_own_arguments(here: Path) -> None:
    """None but its name: those of the command line are not its own."""
    (here / "script.py").write_text("import sys\nseen = list(sys.argv)\n")
    before = list(sys.argv)
    assert resolve("script.py:seen")() == ["script.py"]
    assert sys.argv == before


def test_what_a_script_printed_before_it_ended_is_quoted(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The last line, of either stream, and it is printed all the same; an ordinary error says enough by itself."""
    (here / "ending.py").write_text("import sys\nprint('one')\nprint('two', file=sys.stderr)\nsys.exit(2)\n")
    (here / "raising.py").write_text("print('one')\nraise ValueError('no')\n")
    said = r"^importing ending\.py raised SystemExit: 2 \(ending.py:4\); the last line that it printed: two$"
    with pytest.raises(SubjectError, match=said):
        resolve("ending.py:make")()
    with pytest.raises(SubjectError, match=r"^importing raising\.py raised ValueError: no \(raising\.py:2\)$"):
        resolve("raising.py:make")()
    assert capfd.readouterr() == ("one\none\n", "two\n")


def test_a_script_may_put_other_streams_in_the_place_of_the_standard_ones(here: Path) -> None:
    """As scripts do for another encoding; the stream that they have put there stays for the guard to see."""
    text = "import io, sys\nsys.stdout = io.TextIOWrapper(io.BytesIO(), encoding='utf-8')\nown = sys.stdout\n"
    (here / "streams.py").write_text(text)
    before = sys.stdout
    try:
        own = resolve("streams.py:own")()
        assert sys.stdout is own
    finally:
        sys.stdout = before

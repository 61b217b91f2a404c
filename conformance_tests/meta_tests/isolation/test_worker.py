"""What a worker does beside judging: forgetting modules, measuring memory, seeing whether it is as it was."""

import os
import resource
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import encoder_spec.attention
from conformance_tests.isolation import worker
from conformance_tests.isolation.worker import (
    LITTLE,
    STANDARD,
    State,
    deep_functions,
    forget_siblings,
    free_memory,
    limit_memory,
    memory_in_use,
)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder of a target; the modules that a test adds are removed."""
    before = dict(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - set(before):
        del sys.modules[name]
    sys.modules.update(before)


def imported(name: str, file: Path | None) -> None:
    """Have a module imported from a file, or from none."""
    module = ModuleType(name)
    module.__file__ = None if file is None else str(file)
    sys.modules[name] = module


@pytest.mark.parametrize(
    ("name", "file", "forgotten"),
    [
        ("sibling_m", "sibling_m.py", True),
        ("sibling_p", "sibling_p/__init__.py", True),
        ("sibling_n", "other.py", False),
        ("sibling_d", "deeper/sibling_d.py", False),
        ("sibling_e", "../elsewhere/sibling_e.py", False),
        ("sibling_x", None, False),
    ],
)
def test_modules_from_the_folder_of_a_target_are_forgotten(
    name: str, file: str | None, forgotten: bool, folder: Path
) -> None:
    """A file or a package there, by its own name; what lies elsewhere, or nowhere, stays."""
    imported(name, None if file is None else folder / file)
    forget_siblings(f"{folder}/target.py:make", set())
    assert (name not in sys.modules) == forgotten


def test_a_package_is_forgotten_with_all_its_modules(folder: Path) -> None:
    """What begins with its name and is another stays."""
    imported("sibling_p", folder / "sibling_p" / "__init__.py")
    imported("sibling_p.inner", folder / "sibling_p" / "inner.py")
    imported("sibling_pq", None)
    forget_siblings(f"{folder}/target.py:make", set())
    assert [name for name in ("sibling_p", "sibling_p.inner", "sibling_pq") if name in sys.modules] == ["sibling_pq"]


def test_modules_that_were_there_before_and_the_suite_itself_stay(folder: Path) -> None:
    """A target may stand beside the suite."""
    imported("sibling_m", folder / "sibling_m.py")
    forget_siblings(f"{folder}/target.py:make", {"sibling_m"})
    assert "sibling_m" in sys.modules
    for root in ("conformance_tests", "encoder_spec"):
        place = Path(sys.modules[root].__file__ or "").parents[1]
        forget_siblings(f"{place}/target.py:make", set(sys.modules) - {root})
        assert root in sys.modules


@pytest.mark.parametrize("target", ["torch-post-ln", "package.module:make", "sibling.onnx"])
def test_a_target_that_is_no_file_has_no_siblings(target: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    imported("sibling_m", folder / "sibling_m.py")
    forget_siblings(target, set())
    assert "sibling_m" in sys.modules


def test_a_target_is_found_from_where_the_process_stands(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    imported("sibling_m", folder / "sibling_m.py")
    forget_siblings("target.py:make", set())
    assert "sibling_m" not in sys.modules


def test_the_standard_library_is_known_by_its_folders() -> None:
    assert (str(Path(os.__file__).parent), str(Path(os.__file__).parent / "lib-dynload")) == STANDARD


def told(monkeypatch: pytest.MonkeyPatch, text: str | None) -> None:
    """Have the system tell this of its memory, or nothing."""

    def read_text(self: Path) -> str:
        if text is None:
            raise FileNotFoundError(self)
        return f"{text}\nof {self}:    1 kB\n"

    monkeypatch.setattr(worker.Path, "read_text", read_text)


@pytest.mark.parametrize(
    ("text", "used", "free"),
    [
        ("VmPeak:\t 7 kB\nVmData:\t    11 kB\nMemFree: 13 kB\nMemAvailable:   17 kB", 11 * 1024, 17 * 1024),
        ("VmPeak:\t 7 kB\nMemTotal: 13 kB", 0, 0),
        (None, 0, 0),
    ],
)
def test_memory_is_read_in_kibibytes(text: str | None, used: int, free: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """0 where the system does not tell."""
    told(monkeypatch, text)
    assert (memory_in_use(), free_memory()) == (used, free)


def test_memory_in_use_is_that_of_this_process_and_free_memory_that_of_the_system() -> None:
    """Linux tells both; a process that runs torch uses at least 16 MiB."""
    if Path("/proc/self/status").exists():
        assert memory_in_use() > 2**24
        assert free_memory() > 0


MANY = 2**60


@pytest.mark.parametrize(
    ("allowed", "most", "limit"),
    [
        (700, resource.RLIM_INFINITY, 1024 + 700),
        (700, MANY, 1024 + 700),
        (700, 1500, 1500),
        (None, resource.RLIM_INFINITY, resource.RLIM_INFINITY),
    ],
)
def test_what_is_allowed_is_added_to_what_is_in_use(
    allowed: int | None, most: int, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As far as the hard limit goes, which stays."""
    said: list[Any] = []
    monkeypatch.setattr(worker, "memory_in_use", lambda: 1024)
    monkeypatch.setattr(resource, "getrlimit", lambda which: (5, most))
    monkeypatch.setattr(resource, "setrlimit", lambda which, limits: said.append((which, limits)))
    limit_memory(allowed)
    assert said == [(resource.RLIMIT_DATA, (limit, most))]


def test_no_limit_is_set_where_the_system_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "memory_in_use", lambda: 0)
    monkeypatch.setattr(resource, "setrlimit", lambda *_: pytest.fail("a limit was set"))
    limit_memory(700)
    limit_memory(None)


def test_the_functions_watched_reach_into_torchs_modules() -> None:
    """Those that the guard watches, and the methods of each module class."""
    watched = dict(deep_functions())
    assert watched[id(torch), "softmax"] is torch.softmax
    assert watched[id(encoder_spec.attention), "scores"] is encoder_spec.attention.scores
    assert watched[id(nn.Linear), "forward"] is nn.Linear.forward


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The memory in use, as a test sets it."""
    used = {"bytes": 1000}
    monkeypatch.setattr(worker, "memory_in_use", lambda: used["bytes"])
    return used


def test_a_worker_is_as_it_was_while_nothing_is_done_to_it(memory: dict[str, int]) -> None:
    """Half a GiB more is little; one byte more is not."""
    state = State()
    assert state.is_unchanged()
    memory["bytes"] = 1000 + LITTLE
    assert state.is_unchanged()
    memory["bytes"] += 1
    assert not state.is_unchanged()
    assert LITTLE == 2**29


@pytest.mark.parametrize("place", [torch, nn.Linear, encoder_spec.attention], ids=["torch", "Linear", "attention"])
def test_a_worker_with_a_function_replaced_is_not_as_it_was(
    place: Any, memory: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = {torch: "softmax", nn.Linear: "forward", encoder_spec.attention: "scores"}[place]
    state = State()
    monkeypatch.setattr(place, name, lambda *_: None)
    assert not state.is_unchanged()
    monkeypatch.undo()


def test_a_worker_with_a_thread_that_has_stayed_is_not_as_it_was(memory: dict[str, int]) -> None:
    """One that has ended costs nothing."""
    state, end = State(), threading.Event()
    thread = threading.Thread(target=end.wait, daemon=True)
    thread.start()
    assert not state.is_unchanged()
    end.set()
    thread.join()
    assert state.is_unchanged()


@pytest.mark.parametrize("closed", [1, 2])
def test_a_worker_with_its_output_closed_is_not_as_it_was(
    closed: int, memory: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fstat(descriptor: int) -> None:
        if descriptor == closed:
            raise OSError(descriptor)

    state = State()
    monkeypatch.setattr(worker, "os", SimpleNamespace(fstat=fstat))
    assert not state.is_unchanged()

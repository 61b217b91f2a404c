"""JAX compiles quickly in the process of a target, in whichever release it comes."""

import importlib.util
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from conformance_tests.isolation import jax_flags
from conformance_tests.isolation.jax_flags import compile_quickly


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in the place of the library of XLA."""
    spec = ModuleSpec("jaxlib", None, origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(jax_flags, "find_spec", lambda name: spec if name == "jaxlib" else None)
    return tmp_path / "libjax_common.so"


def test_only_flags_that_the_library_knows_are_set(library: Path) -> None:
    """Another one would end the process."""
    library.write_bytes(b"...xla_llvm_disable_expensive_passes...")
    environment: dict[str, str] = {}
    compile_quickly(environment)
    assert environment == {"XLA_FLAGS": "--xla_llvm_disable_expensive_passes=true"}


def test_flags_that_are_set_already_come_later_and_win(library: Path) -> None:
    library.write_bytes(b"xla_backend_optimization_level")
    environment = {"XLA_FLAGS": "--xla_backend_optimization_level=3"}
    compile_quickly(environment)
    assert environment["XLA_FLAGS"].split() == [
        "--xla_backend_optimization_level=0",
        "--xla_backend_optimization_level=3",
    ]


@pytest.mark.parametrize("held", [b"", b"nothing of it", None])
def test_a_library_that_tells_nothing_changes_nothing(library: Path, held: bytes | None) -> None:
    if held is not None:
        library.write_bytes(held)
    environment: dict[str, str] = {}
    compile_quickly(environment)
    assert not environment


def test_without_jax_nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax_flags, "find_spec", lambda name: importlib.util.find_spec("no_such_package"))
    environment: dict[str, str] = {}
    compile_quickly(environment)
    assert not environment

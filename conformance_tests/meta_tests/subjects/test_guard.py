"""Each setting and each function that a subject changes is put back, kept for it, and named."""

import io
import math
import os
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import encoder_spec.attention
from conformance_tests.errors import Disagreement, SubjectError
from conformance_tests.numerics import compare
from conformance_tests.subjects import guard as module
from conformance_tests.subjects.guard import (
    SETTINGS,
    UNREMARKABLE,
    Guard,
    GuardedSubject,
    has_values,
    is_own_of,
    tamed,
    watched,
    with_values,
    working_directory,
    write_default_device,
    write_working_directory,
)
from conformance_tests.subjects.hints import Hints
from conformance_tests.subjects.subject import Boundary, Subject


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Whatever a test leaves behind is undone by hand, not by what is tested."""
    path, environment, stdin, out, err = [*sys.path], dict(os.environ), sys.stdin, sys.stdout, sys.stderr
    finders = [*sys.meta_path]
    where, limit, threads, budget = Path.cwd(), sys.getrecursionlimit(), torch.get_num_threads(), compare.BUDGET
    originals = torch.softmax, nn.Module.forward, encoder_spec.attention.scores, np.exp, torch.tanh
    with warnings.catch_warnings():
        yield
    torch.softmax, nn.Module.forward, encoder_spec.attention.scores, np.exp, torch.tanh = originals
    compare.BUDGET = budget
    sys.meta_path[:] = finders
    sys.path[:], sys.stdin, sys.stdout, sys.stderr = path, stdin, out, err
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(where)
    sys.setrecursionlimit(limit)
    torch.set_num_threads(threads)
    torch.set_default_dtype(torch.float32)
    torch.set_default_device(None)
    torch.set_grad_enabled(True)
    torch.set_float32_matmul_precision("highest")
    torch.set_deterministic_debug_mode(0)
    torch.backends.mha.set_fastpath_enabled(True)
    torch.set_autocast_enabled("cpu", False)
    torch.set_anomaly_enabled(False)


def capture() -> None:
    """Write to a file in memory from now on."""
    sys.stdout = io.StringIO()


class Seeing(TorchFunctionMode):
    """Sees all functions of torch that are called."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


CHANGES: dict[str, Callable[[], Any]] = {
    "the default dtype": lambda: torch.set_default_dtype(torch.float64),
    "the default device": lambda: torch.set_default_device("meta"),
    "the gradient mode": lambda: torch.set_grad_enabled(False),
    "the number of threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "the precision of float32 products": lambda: torch.set_float32_matmul_precision("high"),
    "deterministic algorithms": lambda: torch.set_deterministic_debug_mode("warn"),
    "the fast path": lambda: torch.backends.mha.set_fastpath_enabled(False),
    "autocast": lambda: torch.set_autocast_enabled("cpu", True),
    "anomaly detection": lambda: torch.set_anomaly_enabled(True),
    "the filters of warnings": lambda: warnings.filterwarnings("ignore", "said by a subject"),
    "the recursion limit": lambda: sys.setrecursionlimit(sys.getrecursionlimit() + 7),
    "the working directory": lambda: os.chdir("/"),
    "the standard streams": capture,
    "the modes of torch": lambda: Seeing().__enter__(),
    "the finders of modules": lambda: sys.meta_path.append(Seeing),
    "the search path": lambda: sys.path.insert(0, "/somewhere"),
    "the environment": lambda: os.environ.__setitem__("SUBJECT", "1"),
}

NOT_KEPT = {"the gradient mode", "the number of threads", "the precision of float32 products"}
"""What a subject finds as the suite has it, whatever it set before."""


def test_every_setting_is_changed_by_a_case_here() -> None:
    assert list(CHANGES) == list(SETTINGS)
    assert {name for name, setting in SETTINGS.items() if not setting.kept} == NOT_KEPT


@pytest.mark.parametrize("name", CHANGES)
def test_a_setting_is_put_back_kept_for_the_subject_and_named(name: str) -> None:
    """The suite finds its own after each call; the subject finds its own in the next, and none if it goes back."""
    guard, read = Guard(), SETTINGS[name].read
    ours = read()
    with guard.undisturbed():
        CHANGES[name]()
        theirs = read()
    assert theirs != ours
    assert read() == ours
    assert list(guard.changed) == [name]
    for _ in range(2):
        with guard.undisturbed():
            assert read() == (ours if name in NOT_KEPT else theirs)
        assert read() == ours
    with guard.undisturbed():
        SETTINGS[name].write(ours)
    with guard.undisturbed():
        assert read() == ours
    said = [] if name in UNREMARKABLE else [f"the encoder changed {name} (put back for everybody else)"]
    assert guard.notes() == said


@pytest.mark.parametrize("name", CHANGES)
def test_a_setting_is_put_back_when_the_call_fails(name: str) -> None:
    guard, ours = Guard(), SETTINGS[name].read()

    def call() -> None:
        with guard.undisturbed():
            CHANGES[name]()
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        call()
    assert SETTINGS[name].read() == ours


def test_a_subject_that_changes_nothing_is_not_named() -> None:
    guard = Guard()
    with guard.undisturbed():
        torch.ones(2).softmax(0)
    assert (guard.changed, guard.notes(), guard.raised) == ({}, [], None)


def test_several_changes_are_named_in_one_sentence_without_what_imports_do() -> None:
    """Search path, environment and filters change whenever something is imported."""
    guard = Guard()
    with guard.undisturbed():
        for change in CHANGES.values():
            change()
    told = ", ".join(name for name in CHANGES if name not in UNREMARKABLE)
    assert guard.notes() == [f"the encoder changed {told} (put back for everybody else)"]
    assert UNREMARKABLE == ("the search path", "the environment", "the filters of warnings", "the finders of modules")


class Doubling(TorchDispatchMode):
    """Doubles all sines."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return 2 * result if func.overloadpacket is torch.ops.aten.sin else result


def test_a_mode_that_is_never_left_is_the_subjects_alone() -> None:
    """The suite computes without a dispatch mode that the subject entered, and the subject with it."""
    guard, one = Guard(), torch.ones(())
    with guard.undisturbed():
        Doubling().__enter__()
    assert torch.sin(one) == math.sin(1)
    with guard.undisturbed():
        assert torch.sin(one) == 2 * math.sin(1)
    assert torch.sin(one) == math.sin(1)


def test_filters_that_are_put_back_work_again() -> None:
    """``warnings`` remembers by version what it has shown: a filter put back counts from then on."""
    guard = Guard()
    with guard.undisturbed():
        warnings.simplefilter("ignore")
        warnings.warn("said", stacklevel=1)
    with pytest.raises(UserWarning):
        warnings.warn("said", stacklevel=1)


def test_a_directory_that_is_gone_is_no_place_to_be(tmp_path: Path) -> None:
    """Nobody can go there, nor back to it; the process stays where it is."""
    gone = tmp_path / "gone"
    gone.mkdir()
    os.chdir(gone)
    assert working_directory() == gone
    gone.rmdir()
    assert working_directory() is None
    os.chdir(tmp_path)
    for place in (gone, None):
        write_working_directory(place)
        assert Path.cwd() == tmp_path


def test_no_default_device_is_set_where_none_was() -> None:
    """A device that is set costs every call of torch a mode; the CPU is what stands there without."""
    write_default_device(torch.device("meta"))
    assert torch.get_default_device() == torch.device("meta")
    write_default_device(torch.device("cpu"))
    assert torch.get_default_device() == torch.device("cpu")
    assert torch.overrides._get_current_function_mode_stack() == []


def theirs(*args: Any, **kwargs: Any) -> Any:
    """A function of a subject's in the place of another."""


PATCHED: list[tuple[Any, str, str]] = [
    (torch, "softmax", "torch.softmax"),
    (nn.Module, "forward", "Module.forward"),
    (np, "exp", "numpy.exp"),
    (encoder_spec.attention, "scores", "encoder_spec.attention.scores"),
    (compare, "BUDGET", "conformance_tests.numerics.compare.BUDGET"),
]


@pytest.mark.parametrize(("place", "name", "told"), PATCHED, ids=lambda x: x if isinstance(x, str) else "")
def test_a_function_that_is_replaced_is_put_back_kept_for_the_subject_and_named(
    place: Any, name: str, told: str
) -> None:
    """Of torch, NumPy and the specification; and a number that decides in the suite."""
    guard, ours = Guard(), vars(place)[name]
    with guard.undisturbed():
        setattr(place, name, theirs)
    assert vars(place)[name] is ours
    with guard.undisturbed():
        assert vars(place)[name] is theirs
    assert vars(place)[name] is ours
    assert list(guard.changed) == [told]
    assert guard.notes() == [f"the encoder changed {told} (put back for everybody else)"]


def test_several_functions_of_one_place_are_put_back() -> None:
    guard, ours = Guard(), (torch.softmax, torch.tanh)
    with guard.undisturbed():
        torch.softmax = torch.tanh = theirs
    assert (torch.softmax, torch.tanh) == ours
    assert set(guard.changed) == {"torch.softmax", "torch.tanh"}


def test_a_method_that_hides_an_inherited_one_is_removed() -> None:
    """``Tensor.softmax`` is that of its base: one put before it goes, and comes back in the subject's next call."""
    guard = Guard()
    assert "softmax" not in vars(Tensor)
    with guard.undisturbed():
        Tensor.softmax = theirs  # type: ignore[method-assign,assignment]
    try:
        assert "softmax" not in vars(Tensor)
        assert torch.zeros(2).softmax(0).tolist() == [0.5, 0.5]
        with guard.undisturbed():
            assert vars(Tensor)["softmax"] is theirs
        assert "softmax" not in vars(Tensor)
        assert list(guard.changed) == ["Tensor.softmax"]
    finally:
        if "softmax" in vars(Tensor):
            del Tensor.softmax


def made_in(package: str) -> type:
    return type("Made", (), {"__module__": f"{package}.inside"})


@pytest.mark.parametrize(
    ("added", "stays", "told"),
    [
        (theirs, False, ["numpy.added_by_test"]),
        (5, True, []),
        (made_in("torch"), True, []),
        (made_in("transformers"), False, []),
        (made_in("torchen"), False, ["numpy.added_by_test"]),
    ],
)
def test_what_is_added_is_removed_unless_it_is_torchs_own_or_no_function(
    added: Any, stays: bool, told: list[str]
) -> None:
    """Transformers adds functions when it makes its first model: those go, and nobody is told."""
    guard = Guard()
    with guard.undisturbed():
        np.added_by_test = added
    try:
        assert hasattr(np, "added_by_test") == stays
        assert list(guard.changed) == told
        with guard.undisturbed():
            assert np.added_by_test is added
    finally:
        vars(np).pop("added_by_test", None)


def test_what_torch_replaces_itself_stays() -> None:
    """Torch exchanges functions of its own when its compiler is first used: from then on that is the original."""
    guard = Guard()
    replacement = nn.functional.relu
    with guard.undisturbed():
        torch.softmax = replacement
    assert torch.softmax is replacement
    assert guard.changed == {}
    with guard.undisturbed():
        torch.softmax = theirs
    assert torch.softmax is replacement


def test_what_is_watched_is_all_of_the_suite_and_the_functions_of_others() -> None:
    """Nothing of the suite's own tests; constants too where they are ours, and not where torch may change its own."""
    originals = watched()
    assert originals[torch]["softmax"] is torch.softmax
    assert "pi" not in originals[torch]
    assert originals[encoder_spec.attention]["scores"] is encoder_spec.attention.scores
    assert {"with_values", "SETTINGS"} <= originals[module].keys()
    assert sys.modules[__name__] not in originals


def test_methods_of_the_suite_must_stay() -> None:
    """Python may note something on a class of ours, as it does with annotations; nobody may replace a method."""
    guard = Guard()
    guard.demand_own_classes()
    Guard.noted_by_test = 1  # type: ignore[attr-defined]
    try:
        guard.demand_own_classes()
    finally:
        del Guard.noted_by_test  # type: ignore[attr-defined]
    ours = Guard.notes
    Guard.notes = theirs  # type: ignore[method-assign]
    try:
        with pytest.raises(SubjectError, match=r"^the encoder changed methods of the suite itself \(Guard\)"):
            guard.demand_own_classes()
    finally:
        Guard.notes = ours  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("package", "function", "own"),
    [
        ("torch", nn.functional.relu, True),
        ("torch", nn.Linear, True),
        ("torch", theirs, False),
        ("torch", made_in("torchen"), False),
        ("torch", len, False),
        ("torch", None, False),
        ("conformance_tests", theirs, True),
        ("absent", theirs, False),
        ("absent", made_in("absent"), True),
    ],
)
def test_a_function_is_a_packages_own_by_its_file_and_a_class_by_its_module(
    package: str, function: Any, own: bool
) -> None:
    assert is_own_of(package, function) == own


@pytest.mark.parametrize("fault", [ValueError("no"), KeyboardInterrupt()])
def test_what_a_call_raises_is_kept_and_goes_on(fault: BaseException) -> None:
    guard = Guard()

    def call() -> None:
        with guard.undisturbed():
            raise fault

    with pytest.raises(type(fault)) as caught:
        call()
    assert caught.value is guard.raised is fault


def test_what_would_end_the_process_becomes_an_ordinary_exception() -> None:
    """Of the same name and with the same arguments, from the one that was raised."""
    guard, fault = Guard(), SystemExit(3)

    def call() -> None:
        with guard.undisturbed():
            raise fault

    with pytest.raises(Exception, match=r"^3$") as caught:
        call()
    assert type(caught.value).__name__ == "SystemExit"
    assert not isinstance(caught.value, SystemExit)
    assert caught.value is guard.raised
    assert caught.value.__cause__ is fault
    assert tamed(GeneratorExit("a", 5)).args == ("a", 5)


def test_a_fork_that_goes_on_ends_with_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process has another number than the one that the guard was made in."""

    class Ended(Exception):
        """In the place of the end of the process."""

    def end(status: int) -> None:
        raise Ended(status)

    monkeypatch.setattr(os, "_exit", end)
    guard = Guard()
    with guard.undisturbed():
        pass
    monkeypatch.setattr(os, "getpid", lambda: -5)
    with pytest.raises(Ended, match=r"^0$"), guard.undisturbed():
        pass


def test_random_numbers_are_put_back_at_the_end_and_only_torchs_are_named() -> None:
    """Python's and NumPy's are drawn by many libraries."""
    guard = Guard()
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    with guard.kept_random_state():
        random.random()
        np.random.random()
    assert guard.changed == {}

    def draw() -> None:
        with guard.kept_random_state():
            random.random()
            np.random.random()
            torch.rand(1)
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        draw()
    assert list(guard.changed) == ["torch's random state"]
    assert (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()) == before


class Harmful(Subject):
    """Changes the default dtype in each call."""

    def __init__(self) -> None:
        self.seen: list[torch.dtype] = []

    def weights(self) -> dict[str, Tensor]:
        self.seen.append(torch.get_default_dtype())
        torch.set_default_dtype(torch.float64)
        return {}

    def encode(self, inputs: tuple[Tensor, ...], keep: Tensor | None, gradients: bool = True) -> Tensor:
        return inputs[0]

    def record(self, inputs: tuple[Tensor, ...], keep: Tensor | None) -> list[Tensor]:
        return [torch.ones(2), torch.empty(2, device="meta"), torch.ones(2).to_sparse(), torch.ones(3)]


def test_every_ability_of_a_guarded_subject_is_undisturbed() -> None:
    """Each call begins under the settings that the last one left and ends under ours; nothing is written into it."""
    subject = Harmful()
    subject.hints = Hints()
    mine = dict(vars(subject))
    guarded = GuardedSubject(subject, Guard())
    for _ in range(2):
        guarded.weights()
        assert torch.get_default_dtype() is torch.float32
    assert subject.seen == [torch.float32, torch.float64]
    assert set(vars(subject)) == set(mine)
    assert (guarded.hints, guarded.takes_mask, guarded.dtype) == (subject.hints, subject.takes_mask, subject.dtype)
    subject.weights()
    assert torch.get_default_dtype() is torch.float64


def test_nothing_that_a_subject_can_is_left_unguarded() -> None:
    """Every method of a subject is asked under the guard, but for the two that lend it."""
    abilities = {name for name, f in vars(Subject).items() if callable(f) and name[0] != "_"}
    assert abilities <= set(vars(GuardedSubject))
    assert {"encode", "weights", "record", "gradients", "learn", "borrowed"} <= abilities


def test_calls_by_which_a_subject_learns_do_not_disturb_one_another() -> None:
    """Each is made in the guard's own boundary: the second begins under ours, and not under what the first left."""
    subject, seen = Harmful(), []

    def learn(_probes: object, undisturbed: Boundary) -> None:
        for _ in range(2):
            with undisturbed():
                subject.weights()
            seen.append(torch.get_default_dtype())

    subject.learn = learn  # type: ignore[assignment, method-assign]
    GuardedSubject(subject, Guard()).learn(None)  # type: ignore[arg-type]
    assert seen == [torch.float32, torch.float32]


def test_only_arrays_with_values_come_out() -> None:
    """Of recorded arrays those without are left out; an output without is a fault of the encoder."""
    guarded = GuardedSubject(Harmful(), Guard())
    assert [len(array) for array in guarded.record((), None)] == [2, 3]
    x = torch.ones(2, 3, 5)
    assert guarded.encode((x,), None) is x
    with pytest.raises(Disagreement):
        guarded.encode((x.long(),), None)


@pytest.mark.parametrize(
    ("array", "held"),
    [
        (torch.ones(2), True),
        (torch.ones(2, dtype=torch.long), True),
        (torch.empty(2, device="meta"), False),
        (torch.ones(2, 2).to_sparse(), False),
        (torch.ones(2, 2).to_mkldnn(), False),
    ],
)
def test_an_array_holds_values_if_it_is_dense_and_somewhere(array: Tensor, held: bool) -> None:
    assert has_values(array) == held


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (torch.empty(2, device="meta"), "a meta tensor of torch.float32"),
        (torch.ones(2, 2).to_sparse(), "a sparse_coo tensor of torch.float32"),
        (torch.ones(2, dtype=torch.long), "a strided tensor of torch.int64"),
        (torch.ones(2, dtype=torch.complex64), "a strided tensor of torch.complex64"),
    ],
)
def test_an_output_without_real_numbers_is_named(output: Tensor, said: str) -> None:
    with pytest.raises(Disagreement) as caught:
        with_values(output)
    wanted = "but hidden states are numbers: a dense floating tensor (B, n, d_model)"
    assert str(caught.value) == f"the encoder returned {said}, {wanted}"


def test_an_output_of_numbers_is_taken_as_it_is() -> None:
    output = torch.ones(2, dtype=torch.float16)
    assert with_values(output) is output

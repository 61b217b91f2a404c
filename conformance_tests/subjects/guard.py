"""The guard of the process that a subject shares with the suite, but not its settings.

A subject may change the default dtype, the gradient mode or a function of torch, when it
is imported or in each call. It then finds the process as it left it, the suite and the
specification find it as they left it, and the report names the change. The state of random
numbers is restored only at the end: a subject that draws them must not seem repeatable.
"""

import builtins
import math
import os
import random
import sys
import warnings
from builtins import all, getattr, isinstance, len, list, map, setattr, sum, vars  # noqa: A004, UP029 -- see PATCHABLE
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import wraps
from itertools import chain, takewhile
from operator import is_
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn, overrides
from torch.utils import _python_dispatch
from torch.utils._device import DeviceContext

from conformance_tests.errors import SubjectError
from conformance_tests.numerics.probes import Probes
from conformance_tests.numerics.products import read_products, write_products
from conformance_tests.subjects.hints import Hints
from conformance_tests.subjects.subject import Boundary, Precision, Subject, has_values, with_values


class Setting(NamedTuple):
    """One setting of the process: functions to read and write it, and whether the subject keeps its own."""

    read: Callable[[], Any]
    write: Callable[[Any], Any]
    kept: bool = True


def working_directory() -> Path | None:
    """Return the folder of the process; None if it has been deleted."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None


def write_working_directory(path: Path | None) -> None:
    """Go there, if it still exists."""
    if path is not None and path.is_dir():
        os.chdir(path)


def write_default_device(device: torch.device) -> None:
    """Restore the default device; the CPU means that none was set."""
    torch.set_default_device(None if device == torch.device("cpu") else device)


def read_environment() -> dict[Any, Any]:
    """Return the environment variables as Python keeps them: to decode them all takes a tenth of a short call."""
    return dict(os.environ._data)  # type: ignore[attr-defined]


def write_environment(values: dict[Any, Any]) -> None:
    """Make these the environment variables."""
    os.environ.clear()
    os.environ.update({os.fsdecode(name): os.fsdecode(value) for name, value in values.items()})


def write_filters(filters: list[Any]) -> None:
    """Make these the filters of warnings; resetting tells ``warnings`` that they are others."""
    warnings.resetwarnings()
    warnings.filters[:] = filters  # type: ignore[index]


def write_streams(streams: tuple[Any, ...]) -> None:
    """Make these the standard streams."""
    sys.stdin, sys.stdout, sys.stderr = streams


Modes = tuple[list[Any], list[Any]]
"""Modes that torch is in: those that see its operations, and those that see its functions."""


def read_modes() -> Modes:
    """Return the modes that torch is in; a default device is one, and a setting by itself."""
    of_functions = overrides._get_current_function_mode_stack()
    of_functions = [mode for mode in of_functions if not isinstance(mode, DeviceContext)]
    return _python_dispatch._get_current_dispatch_mode_stack(), of_functions


def write_modes(modes: Modes) -> None:
    """Leave all modes that are not among these, and enter those of them that torch is not in."""
    for wanted, now, place in zip(modes, read_modes(), (_python_dispatch, overrides), strict=True):
        same = len(list(takewhile(lambda pair: pair[0] is pair[1], zip(wanted, now, strict=False))))
        for _ in now[same:]:
            place._pop_mode()
        for mode in wanted[same:]:
            place._push_mode(mode)


def write_finders(finders: tuple[list[Any], list[Any]]) -> None:
    """Make these find modules."""
    sys.meta_path[:], sys.path_hooks[:] = finders


SETTINGS = {
    "the default dtype": Setting(torch.get_default_dtype, torch.set_default_dtype),
    "the default device": Setting(torch.get_default_device, write_default_device),
    "the gradient mode": Setting(torch.is_grad_enabled, torch.set_grad_enabled, kept=False),
    "the number of threads": Setting(torch.get_num_threads, torch.set_num_threads, kept=False),
    "the precision of float32 products": Setting(read_products, write_products, kept=False),
    "deterministic algorithms": Setting(torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode),
    "the fast path": Setting(torch.backends.mha.get_fastpath_enabled, torch.backends.mha.set_fastpath_enabled),
    "autocast": Setting(
        lambda: torch.is_autocast_enabled("cpu"), lambda enabled: torch.set_autocast_enabled("cpu", enabled)
    ),
    "anomaly detection": Setting(torch.is_anomaly_enabled, torch.set_anomaly_enabled),
    "the filters of warnings": Setting(lambda: list(warnings.filters), write_filters),
    "the recursion limit": Setting(sys.getrecursionlimit, sys.setrecursionlimit),
    "the working directory": Setting(working_directory, write_working_directory),
    "the standard streams": Setting(lambda: (sys.stdin, sys.stdout, sys.stderr), write_streams),
    "the modes of torch": Setting(read_modes, write_modes),
    "the finders of modules": Setting(lambda: (list(sys.meta_path), list(sys.path_hooks)), write_finders),
    "the search path": Setting(lambda: list(sys.path), lambda path: sys.path.__setitem__(slice(None), path)),
    "the environment": Setting(read_environment, write_environment),
}

UNREMARKABLE = ("the search path", "the environment", "the filters of warnings", "the finders of modules")
"""Settings that ordinary imports change."""

PATCHABLE: tuple[Any, ...] = (
    torch,
    Tensor,
    nn,
    nn.functional,
    nn.Module,
    torch.linalg,
    torch.special,
    np,
    math,
    builtins,
)
"""Places of functions that the specification and the suite call, beside the modules of both.

The guard itself binds what it needs of ``builtins``: otherwise it would look for a replaced ``all`` with that one.
"""


def own_modules() -> list[Any]:
    """Return the modules of the specification and of the suite that are imported."""
    ours = [m for name, m in sys.modules.items() if name.partition(".")[0] in ("encoder_spec", "conformance_tests")]
    return [module for module in ours if ".meta_tests." not in module.__name__]


def own_classes() -> list[type]:
    """Return the classes that these modules define."""
    return [
        thing
        for module in own_modules()
        for thing in vars(module).values()
        if isinstance(thing, type) and thing.__module__ == module.__name__
    ]


def watched() -> dict[Any, dict[str, Any]]:
    """Return what a subject may not replace for others, by owner and name.

    In ``PATCHABLE`` these are the functions and classes. In the specification and the suite they are all names, since a
    budget that was replaced would decide as much as a function.
    """
    found = {place: {name: value for name, value in vars(place).items() if callable(value)} for place in PATCHABLE}
    for module in own_modules():
        found[module] = {name: value for name, value in vars(module).items() if not name.startswith("__")}
    return found


def methods(owner: type) -> dict[str, Any]:
    """Return what a class defines that computes, without what Python itself may add to a class later."""
    return {name: value for name, value in vars(owner).items() if callable(value) or hasattr(value, "__get__")}


class Contents:
    """The objects that some places held when they were last looked through.

    This is asked after each call for thousands of names, hence without a loop in Python.
    """

    def __init__(self, places: Iterable[Any]) -> None:
        self._held = [vars(place) for place in places]
        self._objects = [thing for held in self._held for thing in held.values()]

    def are_there(self) -> bool:
        """Return whether the places still hold these, and no others; by identity, since ``==`` would ask them."""
        now = chain.from_iterable([held.values() for held in self._held])
        return sum(map(len, self._held)) == len(self._objects) and all(map(is_, now, self._objects))


class Guard:
    """Keeps the changes that one subject makes to the process away from the suite, and remembers them."""

    def __init__(self) -> None:
        self.changed: dict[str, None] = {}
        self.raised: BaseException | None = None
        self._theirs: dict[str, Any] = {}
        self._patches: dict[tuple[Any, str], Any] = {}
        self._originals = watched()
        self._names = {place: set(vars(place)) for place in PATCHABLE}
        self._contents = Contents(self._originals)
        self._methods = {each: methods(each) for each in own_classes()}
        self._classes = Contents(self._methods)
        self._process = os.getpid()

    def notes(self) -> list[str]:
        """Return what the subject changed, as a sentence; an empty list if it changed nothing."""
        known = dict.fromkeys([*SETTINGS, *self.changed])  # whichever call changed what first
        told = [name for name in known if name in self.changed and name not in UNREMARKABLE]
        return [f"the encoder changed {', '.join(told)} (put back for everybody else)"] if told else []

    def demand_own_classes(self) -> None:
        """Go on only while the classes of the suite and of the specification are what they were.

        Nothing can be put back here: what they have decided meanwhile is worth nothing.

        Raises:
            SubjectError: if one of them was changed.
        """
        if self._classes.are_there():
            return
        changed = [each.__qualname__ for each, known in self._methods.items() if methods(each) != known]
        if changed:
            raise SubjectError(
                f"the encoder changed methods of the suite itself ({', '.join(changed)}): no verdict on it means "
                "anything until it leaves them alone"
            )

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Run the subject's code under the subject's settings, then put back our own.

        A forked process that returns from the subject ends here, so that the suite continues only once.
        """
        ours = {name: setting.read() for name, setting in SETTINGS.items()}
        for name, value in self._theirs.items():
            SETTINGS[name].write(value)
        for (place, name), value in self._patches.items():
            setattr(place, name, value)
        try:
            yield
        except (Exception, KeyboardInterrupt) as fault:
            self.raised = fault
            raise
        except BaseException as fault:
            self.raised = tamed(fault)
            raise self.raised from fault
        finally:
            if os.getpid() != self._process:
                os._exit(0)
            self._unpatch()
            self._put_back(ours)

    def _put_back(self, ours: dict[str, Any]) -> None:
        for name, setting in SETTINGS.items():
            theirs = setting.read()
            if theirs == ours[name]:
                self._theirs.pop(name, None)
                continue
            self.changed[name] = None
            if setting.kept:
                self._theirs[name] = theirs
            setting.write(ours[name])

    def _unpatch(self) -> None:
        if self._contents.are_there():
            return
        for place, originals in self._originals.items():
            names = vars(place)
            for name in [name for name, original in originals.items() if names.get(name) is not original]:
                now = names.get(name)
                if is_own_of("torch", now):
                    originals[name] = now
                else:
                    self.changed[f"{place.__name__}.{name}"] = None
                    self._patches[place, name] = now
                    setattr(place, name, originals[name])
            if place in self._names:
                self._remove_added(place, self._names[place])
        self._contents = Contents(self._originals)

    def _remove_added(self, place: Any, known: set[str]) -> None:
        """Remove what hides an inherited function, as ``Tensor.softmax`` is one."""
        for name in vars(place).keys() - known:
            now = vars(place)[name]
            if not callable(now) or is_own_of("torch", now):
                known.add(name)
                continue
            if not is_own_of("transformers", now):
                self.changed[f"{place.__name__}.{name}"] = None
            self._patches[place, name] = now
            delattr(place, name)

    @contextmanager
    def kept_random_state(self) -> Iterator[None]:
        """Put back the random numbers of Python, NumPy and torch at the end."""
        python, numpy, state = random.getstate(), np.random.get_state(), torch.get_rng_state()
        on_gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
        try:
            yield
        finally:
            if not torch.equal(state, torch.get_rng_state()):
                self.changed["torch's random state"] = None
            random.setstate(python)
            np.random.set_state(numpy)
            torch.set_rng_state(state)
            if on_gpus:
                torch.cuda.set_rng_state_all(on_gpus)


class GuardedSubject(Subject):
    """A subject whose calls are all undisturbed, and whose outputs are arrays with values.

    Its properties are those of the guarded subject, and each of its calls runs under the guard.
    """

    def __init__(self, subject: Subject, guard: Guard) -> None:
        self._subject = subject
        self._guard = guard

    @property
    def hints(self) -> Hints:  # type: ignore[override]
        """The facts that the encoder states about itself."""
        return self._subject.hints

    @property
    def takes_mask(self) -> bool:  # type: ignore[override]
        """True if the encoder takes a mask."""
        return self._subject.takes_mask

    @property
    def draws_numbers(self) -> bool:  # type: ignore[override]
        """True if two calls with the same input were seen to differ."""
        return self._subject.draws_numbers

    @property
    def mixes_types(self) -> bool:  # type: ignore[override]
        """True if the encoder mixes numbers of two precisions in a call."""
        return self._subject.mixes_types

    @property
    def records_gradients(self) -> bool | None:  # type: ignore[override]
        """True if the encoder runs only while gradients are recorded, False if only while none are."""
        return self._subject.records_gradients

    @property
    def processes(self) -> int:  # type: ignore[override]
        """The number of processes over which the encoder is spread."""
        return self._subject.processes

    @property
    def dtype(self) -> torch.dtype:  # type: ignore[override]
        """The precision in which the encoder computes."""
        return self._subject.dtype

    @contextmanager
    def borrowed(self) -> Iterator[None]:
        """See ``Subject``."""
        with self._subject.borrowed():
            yield

    @contextmanager
    def computing_in(self, precision: Precision) -> Iterator[None]:
        """See ``Subject``."""
        with self._subject.computing_in(precision):
            yield

    @contextmanager
    def as_used(self) -> Iterator[None]:
        """See ``Subject``."""
        with self._subject.as_used():
            yield

    def learn(self, probes: Probes, undisturbed: Boundary = nullcontext) -> None:  # noqa: ARG002
        """See ``Subject``: each call is undisturbed by itself, so that none disturbs the next."""
        with self._guard.undisturbed():
            self._subject.learn(probes, self._guard.undisturbed)

    def with_heads(self, inputs: tuple[Tensor, ...]) -> tuple[Subject, ...]:
        """See ``Subject``: each of them is guarded."""
        with self._guard.undisturbed():
            return tuple(GuardedSubject(whole, self._guard) for whole in self._subject.with_heads(inputs))


def under_guard(name: str) -> Callable[..., Any]:
    """Return a method that asks the guarded subject for one of its abilities."""

    @wraps(getattr(Subject, name))
    def ask(self: GuardedSubject, *args: Any, **kwargs: Any) -> Any:
        with self._guard.undisturbed():
            result = getattr(self._subject, name)(*args, **kwargs)
            if isinstance(result, list):
                return [array for array in result if has_values(array)]
            return with_values(result) if isinstance(result, Tensor) else result

    return ask


for ability, function in vars(Subject).items():
    if callable(function) and ability[0] != "_" and ability not in vars(GuardedSubject):
        setattr(GuardedSubject, ability, under_guard(ability))


def tamed(fault: BaseException) -> Exception:
    """Return an exception that would end the process (SystemExit and its like) as an ordinary one of that name."""
    tame: Exception = type(type(fault).__name__, (Exception,), {})(*fault.args)
    return tame


def is_own_of(package: str, function: Any) -> bool:
    """Return whether a package itself put a value there.

    Torch does so for some settings and when its compiler is first used, transformers when it makes its first model.
    """
    if isinstance(function, type):
        return function.__module__.partition(".")[0] == package
    code, where = getattr(function, "__code__", None), getattr(sys.modules.get(package), "__file__", None)
    return code is not None and where is not None and Path(code.co_filename).is_relative_to(Path(where).parent)

"""The framework from which an object comes, read from its class, without importing any framework."""

import importlib
from collections.abc import Mapping
from functools import partial
from types import MethodType
from typing import TYPE_CHECKING, Any, NamedTuple

from conformance_tests.subjects.attributes import attribute

if TYPE_CHECKING:
    from conformance_tests.subjects.subject import Subject

READY_MADE = {"keras": "keras.subject:KerasSubject", "flax": "jax.flax:FlaxSubject", "paddle": "paddle:PaddleSubject"}
"""The subject for each framework: its module in this package, and its class."""


def framework_of(thing: Any) -> str | None:
    """Return the framework whose class an object's class is or descends from; None without a subject for it.

    The first of several layers, or of a module beside its parameters, decides.
    """
    first = thing[0] if isinstance(thing, list | tuple) and thing else thing
    packages = {kind.__module__.partition(".")[0] for kind in type(first).__mro__}
    return next((framework for framework in READY_MADE if framework in packages), None)


class ModuleCall(NamedTuple):
    """An object that is called, by which of its methods, and the arguments that it is given beforehand."""

    thing: Any
    method: str = "__call__"
    given: Mapping[str, Any] = {}


def module_call_of(thing: Any) -> ModuleCall:
    """Return what a partial function, or a method of a module of Flax, calls; and other things as they are.

    ``partial(module.apply, parameters)`` is the pair of module and parameters.
    """
    inner: Any = thing
    given: dict[str, Any] = {}
    while isinstance(inner, partial) and not inner.args:
        inner, given = inner.func, {**inner.keywords, **given}
    if isinstance(inner, partial) and attribute(inner.func, "__name__", "") == "apply" and len(inner.args) == 1:
        given = {**inner.keywords, **given}
        inner = attribute(inner.func, "__self__"), inner.args[0]
        method = given.pop("method", None) or "__call__"  # Flax takes a method, or its name
        found = ModuleCall(inner, method if isinstance(method, str) else method.__name__, given)
    elif isinstance(inner, MethodType):
        found = ModuleCall(inner.__self__, inner.__name__, given)
    else:
        found = ModuleCall(inner, given=given)
    return found if found.thing is thing or framework_of(found.thing) == "flax" else ModuleCall(thing)


def ready_made(thing: Any) -> "Subject | None":
    """Make the subject for an object of a framework; return None if the suite has none for it.

    Raises:
        SubjectError: if it is not an encoder in a form that can be called.
    """
    call = module_call_of(thing)
    framework = framework_of(call.thing)
    if framework is None:
        return None
    module, _, kind = READY_MADE[framework].partition(":")
    make = getattr(importlib.import_module(f"{__package__}.{module}"), kind)
    subject: Subject = make(*call) if framework == "flax" else make(call.thing)
    return subject

"""The framework from which an object comes, read from its class, without importing any framework."""

import importlib
from functools import partial
from typing import TYPE_CHECKING, Any

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


def beside_its_parameters(thing: Any) -> Any:
    """Return the module and the parameters that ``partial(module.apply, parameters)`` holds, and other things as is."""
    if not isinstance(thing, partial) or getattr(thing.func, "__name__", "") != "apply" or len(thing.args) != 1:
        return thing
    from conformance_tests.subjects.calling import EVALUATION  # it loads torch, which a plain look at a class needs not

    pair = getattr(thing.func, "__self__", None), thing.args[0]
    in_evaluation = all(EVALUATION.get(name) is value for name, value in thing.keywords.items())
    return pair if framework_of(pair) and in_evaluation else thing


def ready_made(thing: Any) -> "Subject | None":
    """Make the subject for an object of a framework; return None if the suite has none for it.

    Raises:
        SubjectError: if it is not an encoder in a form that can be called.
    """
    thing = beside_its_parameters(thing)
    framework = framework_of(thing)
    if framework is None:
        return None
    module, _, kind = READY_MADE[framework].partition(":")
    subject: Subject = getattr(importlib.import_module(f"{__package__}.{module}"), kind)(thing)
    return subject

"""Attributes of objects that are not ours: asking for one that is missing may raise anything.

Classes that keep their parameters in a dictionary often look attributes up there, and raise a ``KeyError``.
"""

import copy
import inspect
from collections.abc import Callable, Mapping
from typing import Any


def attribute(thing: Any, name: str, default: Any = None) -> Any:
    """Return an attribute; the default if there is none, whatever the thing raises to say so."""
    try:
        return getattr(thing, name, default)
    except Exception:
        return default


def parameters_of(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a call by name; of an object that cannot be asked itself, those of its class.

    Raises:
        TypeError, ValueError: if a call states none.
    """
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        raise
    except Exception:
        return inspect.signature(type(function).__call__.__get__(function)).parameters


def with_attributes(thing: Any, attributes: Mapping[str, Any]) -> Any:
    """Return a shallow copy of an object with other attributes, also of one that refuses to be copied."""
    try:
        another = copy.copy(thing)
    except Exception:
        another = object.__new__(type(thing))
        vars(another).update(vars(thing))
    vars(another).update(attributes)
    return another

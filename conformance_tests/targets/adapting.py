"""Adapting: from an object to a subject."""

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import torch

from conformance_tests.errors import SubjectError
from conformance_tests.subjects.adapted import AdaptedSubject
from conformance_tests.subjects.attributes import attribute
from conformance_tests.subjects.calling import entrance
from conformance_tests.subjects.held_arrays import HeldArraysSubject, held_arrays
from conformance_tests.subjects.holding import held
from conformance_tests.subjects.ready_made import ready_made
from conformance_tests.subjects.spread.ranks import is_spread
from conformance_tests.subjects.subject import Subject
from conformance_tests.subjects.torch_subject import TorchSubject


def adapt(thing: Any) -> Subject:
    """Return the subject for an object.

    Raises:
        SubjectError: if the suite cannot call it.
    """
    if isinstance(thing, Subject):
        return thing
    thing = thing.module() if is_program(thing) else thing
    # Before torch: a layer of Keras on torch is a torch module as well.
    subject = ready_made(thing)
    if subject is not None:
        return subject
    if isinstance(thing, torch.nn.Module):
        return of_torch(thing)
    thing = with_its_parameters(thing)
    if all(attribute(thing, member) is not None for member in ("weights", "encode")):
        return AdaptedSubject(thing)
    if modules := modules_called(thing):
        function = entrance(thing)
        return of_torch(called(function, modules), function)
    if tensors := tensors_called(thing):
        return of_torch(of_tensors(tensors), entrance(thing))
    subject_of_arrays = holding_arrays(thing)
    if subject_of_arrays is not None:
        return subject_of_arrays(thing)
    raise SubjectError(
        f"{type(thing).__name__} is not an encoder: give a torch.nn.Module, an object that is called and holds modules "
        "or tensors of torch, or arrays of NumPy or JAX, or one with `weights` and `encode(x, mask)`"
    )


def of_torch(module: torch.nn.Module, function: Callable[..., Any] | None = None) -> Subject:
    """Return the subject for a torch module, of which several processes may each hold a part."""
    if is_spread():
        from conformance_tests.subjects.spread.subject import SpreadSubject

        return SpreadSubject(module, function)
    return TorchSubject(module, function)


def is_program(thing: Any) -> bool:
    """Return whether an object is an exported program, which makes the module to call and cannot be called itself."""
    exporting = sys.modules.get("torch.export")
    return exporting is not None and isinstance(thing, exporting.ExportedProgram)


def with_its_parameters(thing: Any) -> Any:
    """Return the function that a function and what it takes first make, in a pair or with more; else the thing itself.

    Code for JAX hands them over so: a function, or what has one as ``apply``, then parameters, and perhaps a state.
    """
    if not isinstance(thing, list | tuple) or len(thing) < 2:
        return thing
    first, *given = thing
    function = first if callable(first) else attribute(first, "apply")
    return partial(function, *given) if callable(function) and holds_numbers(given) else thing


def called(function: Callable[..., Any], modules: Mapping[str, torch.nn.Module]) -> torch.nn.Module:
    """Return the module that a function calls; of several, or parameters beside it, one that holds them all."""
    different = {id(module): (name, module) for name, module in modules.items()}
    inside = {id(p) for module in modules.values() for p in module.parameters()}
    loose = {name: p for name, p in held(function, torch.nn.Parameter).items() if id(p) not in inside}
    if len(different) == 1 and not loose:
        return next(iter(modules.values()))
    whole = torch.nn.Module()
    for name, part in (*different.values(), *loose.items()):
        setattr(whole, name.replace(".", "_"), part)
    return whole


def is_encoder_itself(thing: Any) -> bool:
    """Return whether an object computes with arrays or modules that it holds, and so makes no encoder but is one."""
    return bool(modules_called(thing)) or holds_numbers(thing)


def holds_numbers(thing: Any) -> bool:
    """Return whether an object holds floating tensors or arrays, however deep."""
    return bool(held_tensors(thing)) or holding_arrays(thing) is not None


def modules_called(thing: Any) -> dict[str, torch.nn.Module]:
    """Return the torch modules that a function, a method or an object with an entrance holds, by name."""
    with suppress(SubjectError):
        return held(entrance(thing), torch.nn.Module)
    return {}


def tensors_called(thing: Any) -> dict[str, torch.Tensor]:
    """Return the floating tensors that a function, a method or an object with an entrance computes with, by name."""
    with suppress(SubjectError):
        return held_tensors(entrance(thing))
    return {}


def held_tensors(thing: Any) -> dict[str, torch.Tensor]:
    """Return the floating tensors with several entries that an object holds, however deep, by name."""
    tensors = held(thing, torch.Tensor)
    return {name: t for name, t in tensors.items() if t.is_floating_point() and t.numel() > 1 and t.is_leaf}


def of_tensors(tensors: Mapping[str, torch.Tensor]) -> torch.nn.Module:
    """Return a module whose parameters are tensors, under their names: these themselves, as a function reads them."""
    whole = torch.nn.Module()
    for path, tensor in tensors.items():
        *parents, name = path.split(".")
        part = whole
        for parent in parents:
            if parent not in part._modules:
                part._modules[parent] = torch.nn.Module()
            part = part.get_submodule(parent)
        part._parameters[name] = tensor  # type: ignore[assignment]  # torch registers no others than its own class
    return whole


def holding_arrays(thing: Any) -> Callable[[Any], Subject] | None:
    """Return what makes a subject of an object that holds arrays of NumPy or JAX; None if it holds none."""
    if held_arrays(thing):
        return HeldArraysSubject
    # An object can hold arrays of JAX only where JAX has been imported; it is not imported here to find out.
    if "jax" in sys.modules:
        from conformance_tests.subjects.jax import held

        if held.held_arrays(thing):
            return held.HeldSubject
    return None

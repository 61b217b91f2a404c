"""A torch module without wrappers around its equations: a compiler, devices, weights computed from others."""

import sys
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.nn.utils import parametrize, prune
from torch.nn.utils.weight_norm import WeightNorm, remove_weight_norm


def unwrapped(module: nn.Module) -> nn.Module:
    """Return the module that computes; a copy of it with plain weights, where they are computed from others.

    Weight normalisation, pruning and the like do not belong to the equations of an encoder: only the resulting weight
    counts.
    """
    while (within := directly_within(module)) is not None:
        module = within
    if not any(parametrize.is_parametrized(part) or made_by_hooks(part) for part in module.modules()):
        return module
    for part in module.modules():
        for name in made_by_hooks(part):
            # Each call makes it anew, and between calls it prevents a copy.
            setattr(part, name, getattr(part, name).detach())
    module = deepcopy(module)
    for part in list(module.modules()):
        for name in list(getattr(part, "parametrizations", ())) if parametrize.is_parametrized(part) else ():
            # Torch removes the weight from the class, which copies share with what they were copied from.
            shared = type(part)
            part.__class__ = type(shared.__name__, shared.__bases__, dict(vars(shared)))
            parametrize.remove_parametrizations(part, name)
        for name, remove in made_by_hooks(part).items():
            remove(part, name)
    return module


def directly_within(module: nn.Module) -> nn.Module | None:
    """Return the module that a compiler, or what spreads a module over devices, calls; None if it is none of these."""
    # The compiler takes a second to import, and a compiled module has imported it.
    compiled = getattr(sys.modules.get("torch._dynamo"), "OptimizedModule", ())
    within: nn.Module | None = None
    if isinstance(module, DataParallel | DistributedDataParallel):
        within = module.module
    elif isinstance(module, compiled):
        within = module._orig_mod
    return within


def made_by_hooks(part: nn.Module) -> dict[str, Callable[..., Any]]:
    """Return the weights that hooks make before each call, and how each becomes a plain one."""
    found: dict[str, Callable[..., Any]] = {}
    for hook in part._forward_pre_hooks.values():
        if isinstance(hook, WeightNorm):
            found[hook.name] = remove_weight_norm
        elif isinstance(hook, prune.BasePruningMethod):
            found[hook._tensor_name] = prune.remove
    return found

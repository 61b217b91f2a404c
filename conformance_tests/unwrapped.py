"""A torch module without what stands around its equations: spreading over devices, weights made of other weights."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.nn.utils import parametrize
from torch.nn.utils.weight_norm import WeightNorm


def unwrapped(module: nn.Module) -> nn.Module:
    """The module that computes; a copy of it with plain weights, where they are computed from others.

    Weight normalisation and its kin are no equation of the encoder: what counts is the weight that they give.
    """
    while isinstance(module, DataParallel | DistributedDataParallel):
        module = module.module
    if not any(parametrize.is_parametrized(part) or any(weight_norms(part)) for part in module.modules()):
        return module
    for part in module.modules():
        for _, hook in weight_norms(part):
            # It is made anew by every call, and in between stands in the way of a copy.
            setattr(part, hook.name, getattr(part, hook.name).detach())
    module = deepcopy(module)
    for part in list(module.modules()):
        for name in list(getattr(part, "parametrizations", ())) if parametrize.is_parametrized(part) else ():
            parametrize.remove_parametrizations(part, name)
        for key, hook in list(weight_norms(part)):
            hook.remove(part)
            del part._forward_pre_hooks[key]
    return module


def weight_norms(part: nn.Module) -> Iterator[tuple[int, Any]]:
    """The hooks of ``torch.nn.utils.weight_norm``, by their keys."""
    yield from ((key, hook) for key, hook in part._forward_pre_hooks.items() if isinstance(hook, WeightNorm))

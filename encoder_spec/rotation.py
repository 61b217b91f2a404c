"""Chapter 3: positions that turn queries and keys, instead of being added to tokens.

A pair of features is a point of the plane, and its position is told by an angle: nothing is learned. Only the
length and the width of a head matter.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from encoder_spec.equation import equation, requirement
from encoder_spec.notation import demand


@requirement("ROT-1", "At position m the pair i is turned by m·θ^(−2i/r), counted from 0.")
@equation("rotation.angles", slot="angles", variant="geometric")
def angles(x: Float[Tensor, "B h n d_k"], *, theta: float, fraction: float) -> Float[Tensor, "n pairs"]:
    r"""Angles of rotary positions. Su et al. 2021, §3.2.2, eq. (15).

    $$ \varphi_{m,i} = m \, \theta^{-2i/r}, \qquad i = 0 \dots r/2 - 1, \quad r = \varrho \, d_k $$

    m = 0 … n − 1. The r features that are turned make pairs: of an odd number the last one stays.

    Undefined: the position of a padding token; here it is counted as any other.
    """
    n, d_k = x.shape[-2:]
    demand(0 < fraction <= 1, f"rotation.angles: {fraction:g} is no share of the features of a head: give 0 < ϱ ≤ 1")
    r = round(fraction * d_k) // 2 * 2
    # In half precision all positions beyond a few hundred would be one: released code turns in float32 then.
    dtype = torch.promote_types(x.dtype, torch.float32)
    m = torch.arange(n, dtype=dtype, device=x.device)
    i = torch.arange(r // 2, dtype=dtype, device=x.device)
    return m[:, None] * theta ** (-2 * i / r)


@requirement("ROT-4", "The product of a turned query and a turned key depends on their distance alone.", algebraic=True)
@requirement("ROT-3", "Turning keeps the length of every query and of every key.", algebraic=True)
@requirement("ROT-2", "Features i and r/2 + i of a head are turned as one pair.")
@equation("rotation.halves", slot="rotation", variant="halves")
def halves(x: Float[Tensor, "B h n d_k"], *, angles: Callable[..., Tensor]) -> Float[Tensor, "B h n d_k"]:
    r"""Rotary positions, a feature of each half. Su et al. 2021, §3.4.2; in halves as in GPT-NeoX's released code.

    $$ \begin{pmatrix} x'_i \\ x'_{r/2 + i} \end{pmatrix} =
       \begin{pmatrix} \cos \varphi_{m,i} & -\sin \varphi_{m,i} \\ \sin \varphi_{m,i} & \cos \varphi_{m,i} \end{pmatrix}
       \begin{pmatrix} x_i \\ x_{r/2 + i} \end{pmatrix} $$

    Features from r on stay as they are.

    Undefined: nothing.
    """
    phi = angles(x)
    cos, sin = phi.cos().to(x.dtype), phi.sin().to(x.dtype)
    half = phi.shape[-1]
    a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], dim=-1)


@requirement("ROT-5", "Features 2i and 2i + 1 of a head are turned as one pair.")
@equation("rotation.pairs", slot="rotation", variant="pairs")
def pairs(x: Float[Tensor, "B h n d_k"], *, angles: Callable[..., Tensor]) -> Float[Tensor, "B h n d_k"]:
    r"""Rotary positions, neighbouring features. Su et al. 2021, §3.4.2, eq. (34).

    $$ \begin{pmatrix} x'_{2i} \\ x'_{2i + 1} \end{pmatrix} =
       \begin{pmatrix} \cos \varphi_{m,i} & -\sin \varphi_{m,i} \\ \sin \varphi_{m,i} & \cos \varphi_{m,i} \end{pmatrix}
       \begin{pmatrix} x_{2i} \\ x_{2i + 1} \end{pmatrix} $$

    Features from r on stay as they are.

    Undefined: nothing.
    """
    phi = angles(x)
    cos, sin = phi.cos().to(x.dtype), phi.sin().to(x.dtype)
    r = 2 * phi.shape[-1]
    a, b, rest = x[..., :r:2], x[..., 1:r:2], x[..., r:]
    turned = torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1).flatten(-2)
    return torch.cat([turned, rest], dim=-1)


@requirement("ROT-6", "Queries and keys are compared as they are projected: nothing turns them.")
@equation("rotation.none", slot="rotation", variant="none")
def unturned(x: Float[Tensor, "B h n d_k"]) -> Float[Tensor, "B h n d_k"]:
    r"""Queries and keys as they are. Vaswani et al. 2017, §3.2.1; S0 §3, S1 §4, S2 §3.1, S4 §4.2.

    $$ x' = x $$

    Undefined: nothing.
    """
    return x

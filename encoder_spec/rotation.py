"""Chapter 3: positions that turn queries and keys, instead of being added to tokens.

A pair of features is a point of the plane, and its position is told by an angle: nothing is learned. Only the
length and the width of a head matter, and of an image the grid of its patches.
"""

import math
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


@requirement(
    "ROT-8",
    "The product of a turned query and a turned key depends on how far apart their rows are, and their columns, alone.",
    algebraic=True,
)
@requirement("ROT-7", "The first half of the pairs tells one axis of the image, the second the other: c·θ^(−4i/r).")
@equation("rotation.axial", slot="angles")
def axial(
    q: Float[Tensor, "B h n d_k"],
    *,
    coordinates: Callable[..., Tensor],
    axes: Callable[..., Tensor],
    theta: float,
    fraction: float,
) -> Float[Tensor, "n pairs"]:
    r"""Axial angles. Heo et al. 2024 (RoPE-ViT), §3.2; Siméoni et al. 2025 (DINOv3) and Fang et al. 2023 (EVA-02).

    $$ \varphi_{j,i} = c_j \, \theta^{-4i/r}, \quad \varphi_{j,\,r/4+i} = c'_j \, \theta^{-4i/r}, \qquad
       i = 0 \dots r/4 - 1, \quad r = \varrho \, d_k $$

    c and c' are row and column of a patch, in the order that the slot ``axes`` gives them, and in the unit of the slot
    ``coordinates``. The r features that are turned make pairs for either axis: up to three that are left over stay.

    Undefined: nothing.
    """
    places = axes(coordinates(q))
    return (places[:, :, None] * _frequencies(q, theta, fraction)[:, 0]).flatten(1)


@requirement("ROT-9", "Both axes share the wavelengths of a sequence, in turn: c·θ^(−4i/r), then c'·θ^(−(4i+2)/r).")
@equation("rotation.axial_alternating", slot="angles")
def axial_alternating(
    q: Float[Tensor, "B h n d_k"],
    *,
    coordinates: Callable[..., Tensor],
    axes: Callable[..., Tensor],
    theta: float,
    fraction: float,
) -> Float[Tensor, "n pairs"]:
    r"""Axial angles, wavelengths in turn. Agrawal et al. 2024 (Pixtral 12B), §2.2; released code.

    $$ \varphi_{j,i} = c_j \, \theta^{-4i/r}, \quad \varphi_{j,\,r/4+i} = c'_j \, \theta^{-(4i+2)/r}, \qquad
       i = 0 \dots r/4 - 1, \quad r = \varrho \, d_k $$

    Undefined: nothing.
    """
    places = axes(coordinates(q))
    return (places[:, :, None] * _frequencies(q, theta, fraction).T).flatten(1)


@requirement("ROT-10", "Pairs tell one axis of the image and the other in turn, both by c·θ^(−4i/r).")
@equation("rotation.axial_interleaved", slot="angles")
def axial_interleaved(
    q: Float[Tensor, "B h n d_k"],
    *,
    coordinates: Callable[..., Tensor],
    axes: Callable[..., Tensor],
    theta: float,
    fraction: float,
) -> Float[Tensor, "n pairs"]:
    r"""Axial angles, axes in turn. Kimi 2025 (MoonViT of Kimi-VL), §2.1; released code.

    $$ \varphi_{j,2i} = c_j \, \theta^{-4i/r}, \quad \varphi_{j,2i+1} = c'_j \, \theta^{-4i/r}, \qquad
       i = 0 \dots r/4 - 1, \quad r = \varrho \, d_k $$

    Undefined: nothing.
    """
    places = axes(coordinates(q))
    return (places[:, None, :] * _frequencies(q, theta, fraction)[:, :1]).flatten(1)


def _frequencies(q: Tensor, theta: float, fraction: float) -> Tensor:
    """θ^(−2i/r) of an even number of pairs i, two by two."""
    demand(0 < fraction <= 1, f"rotation.axial: {fraction:g} is no share of the features of a head: give 0 < ϱ ≤ 1")
    r = round(fraction * q.shape[-1]) // 4 * 4
    i = torch.arange(r // 2, dtype=torch.promote_types(q.dtype, torch.float32), device=q.device)
    frequencies: Tensor = (theta ** (-2 * i / r)).unflatten(0, (-1, 2))
    return frequencies


@requirement("ROT-11", "Of the two axes of an image, rows are told first.")
@equation("rotation.rows_first", slot="axes")
def rows_first(places: Float[Tensor, "n 2"]) -> Float[Tensor, "n 2"]:
    r"""Rows before columns. Fang et al. 2023 (EVA-02), released code; Siméoni et al. 2025 (DINOv3) likewise.

    $$ (c, c') = (y, x) $$

    Undefined: nothing.
    """
    return places


@requirement("ROT-12", "Of the two axes of an image, columns are told first.")
@equation("rotation.columns_first", slot="axes")
def columns_first(places: Float[Tensor, "n 2"]) -> Float[Tensor, "n 2"]:
    r"""Columns before rows. Heo et al. 2024 (RoPE-ViT), §3.2; Bolya et al. 2025 (PE), released code.

    $$ (c, c') = (x, y) $$

    Undefined: nothing.
    """
    return places.flip(-1)


@requirement("ROT-13", "Rows and columns of patches are counted from o; what stands before the patches is at (0, 0).")
@equation("rotation.counted", slot="coordinates")
def counted(q: Float[Tensor, "B h n d_k"], *, rows: int, columns: int, origin: float) -> Float[Tensor, "n 2"]:
    r"""Rows and columns as coordinates. Heo et al. 2024 (RoPE-ViT), §3.2; Agrawal et al. 2024 (Pixtral 12B), §2.2.

    $$ y_j = o_g + \lfloor j / n_x \rfloor, \qquad x_j = o_g + j \bmod n_x, \qquad j = 0 \dots n_y n_x - 1 $$

    The image has n_y rows of n_x patches. A learned token in front of them has y = x = 0: it is not turned.

    Undefined: nothing.
    """
    return behind_tokens(q, origin + grid_places(q, rows, columns))


@requirement("ROT-14", "Rows and columns are stretched to an image of G × G patches; what stands before is at (0, 0).")
@equation("rotation.stretched", slot="coordinates")
def stretched(
    q: Float[Tensor, "B h n d_k"], *, rows: int, columns: int, origin: float, reference: float
) -> Float[Tensor, "n 2"]:
    r"""Coordinates stretched to a grid. Fang et al. 2023 (EVA-02), released code; Bolya et al. 2025 (PE) likewise.

    $$ y_j = \frac{G}{n_y} (o_g + \lfloor j / n_x \rfloor), \qquad
       x_j = \frac{G}{n_x} (o_g + j \bmod n_x), \qquad j = 0 \dots n_y n_x - 1 $$

    An image of any size has the coordinates of one with G × G patches, on which the encoder was trained.

    Undefined: nothing.
    """
    return behind_tokens(q, reference * (origin + grid_places(q, rows, columns)) / _sides(q, rows, columns))


@requirement("ROT-15", "Centres of patches lie in [−1, 1], times 2π; what stands before the patches is at (0, 0).")
@equation("rotation.centred", slot="coordinates")
def centred(q: Float[Tensor, "B h n d_k"], *, rows: int, columns: int) -> Float[Tensor, "n 2"]:
    r"""Coordinates from the centre of the image. Siméoni et al. 2025 (DINOv3), §3.2; released code.

    $$ y_j = 2\pi \Bigl( 2\, \frac{\lfloor j / n_x \rfloor + 1/2}{n_y} - 1 \Bigr), \qquad
       x_j = 2\pi \Bigl( 2\, \frac{j \bmod n_x + 1/2}{n_x} - 1 \Bigr), \qquad j = 0 \dots n_y n_x - 1 $$

    Undefined: nothing. (In training the coordinates are shifted and scaled at random.)
    """
    return behind_tokens(q, 2 * math.pi * (2 * (grid_places(q, rows, columns) + 0.5) / _sides(q, rows, columns) - 1))


def grid_places(q: Tensor, rows: int, columns: int) -> Tensor:
    """Row and column of each patch, row by row, counted from 0."""
    dtype = torch.promote_types(q.dtype, torch.float32)
    y, x = (torch.arange(side, dtype=dtype, device=q.device) for side in (rows, columns))
    return torch.cartesian_prod(y, x)


def _sides(q: Tensor, rows: int, columns: int) -> Tensor:
    return torch.tensor([rows, columns], device=q.device)


def behind_tokens(q: Tensor, places: Tensor) -> Tensor:
    """Coordinates of all n positions: the patches stand last, and what stands before them is not turned."""
    first = q.shape[-2] - len(places)
    demand(first >= 0, f"rotation: an image of {len(places)} patches does not fit a sequence of {q.shape[-2]}")
    return torch.nn.functional.pad(places, (0, 0, first, 0))


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

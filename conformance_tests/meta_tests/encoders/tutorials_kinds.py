"""A tutorial style of dictionaries: the end of a name says which of a part's arrays it is, after a mere underscore."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from conformance_tests.meta_tests.encoders.tutorials import every, tutorial


class Kernels(nn.Module):
    """Dictionaries of arrays, stored input × output; no name of a norm says that it is one."""

    def __init__(self, width: int = 24, heads: int = 4, inner: int = 52, depth: int = 2) -> None:
        super().__init__()
        self.heads, self.power = heads, -0.5
        shapes = dict.fromkeys("qkvo", (width, width)) | {"up": (width, inner), "down": (inner, width)}
        self.blocks = nn.ModuleList(nn.ParameterDict() for _ in range(depth))
        for block in self.blocks:
            for name, shape in shapes.items():
                block[f"{name}_kernel"] = nn.Parameter(torch.randn(shape) / 5)
                block[f"{name}_bias"] = nn.Parameter(torch.zeros(shape[1]))
            for name in ("pre_attn", "pre_mlp"):
                block[f"{name}_scale"] = nn.Parameter(torch.ones(width))
                block[f"{name}_offset"] = nn.Parameter(torch.zeros(width))
        self.last_scale, self.last_offset = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        for p in self.blocks:
            y = functional.layer_norm(x, x.shape[-1:], p["pre_attn_scale"], p["pre_attn_offset"])
            q, k, v = (
                (y @ p[f"{name}_kernel"] + p[f"{name}_bias"]).unflatten(-1, (self.heads, -1)).transpose(1, 2)
                for name in "qkv"
            )
            scores = torch.einsum("bhid,bhjd->bhij", q, k) * q.shape[-1] ** self.power
            if mask is not None:
                scores = scores.masked_fill(~mask[:, None, None, :].bool(), -torch.inf)
            x = x + (scores.softmax(-1) @ v).transpose(1, 2).flatten(2) @ p["o_kernel"] + p["o_bias"]
            y = functional.layer_norm(x, x.shape[-1:], p["pre_mlp_scale"], p["pre_mlp_offset"])
            x = x + functional.gelu(y @ p["up_kernel"] + p["up_bias"]) @ p["down_kernel"] + p["down_bias"]
        return functional.layer_norm(x, x.shape[-1:], self.last_scale, self.last_offset)


@tutorial(
    every(Kernels, power=-1),
    "attention.scores",
    d_model=24,
    num_heads=4,
    d_ff=52,
    num_layers=2,
    activation="gelu",
    layer="pre-ln",
    norm="layer-norm",
    final_norm="norm",
)
def kernels_scales_and_offsets() -> nn.Module:
    return Kernels()

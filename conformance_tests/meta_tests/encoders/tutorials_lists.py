"""Tutorial styles in which a number in a name tells the layer, or which of several maps or norms it is."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from conformance_tests.meta_tests.encoders.tutorials import every, tutorial

# attn_0, na_0, ff_0, nb_0, attn_1, … --------------------------------------------------------


class Attributes(nn.Module):
    """The parts of each layer are attributes whose names end in its number."""

    depth = 2

    def __init__(self, width: int = 24, heads: int = 4, inner: int = 40) -> None:
        super().__init__()
        for place in range(self.depth):
            self.add_module(f"attn_{place}", nn.MultiheadAttention(width, heads, batch_first=True))
            self.add_module(f"na_{place}", nn.LayerNorm(width))
            feed = nn.Sequential(nn.Linear(width, inner), nn.ReLU(), nn.Linear(inner, width))
            self.add_module(f"ff_{place}", feed)
            self.add_module(f"nb_{place}", nn.LayerNorm(width))

    def forward(self, x: Tensor, pad_mask: Tensor | None = None) -> Tensor:
        for place in range(self.depth):
            attn, na, ff, nb = (self.get_submodule(f"{part}_{place}") for part in ("attn", "na", "ff", "nb"))
            x = na(x + attn(x, x, x, key_padding_mask=pad_mask, need_weights=False)[0])
            x = nb(x + self.sublayer(ff, x))
        return x

    def sublayer(self, ff: nn.Module, x: Tensor) -> Tensor:
        return ff(x)


def twice(encoder: nn.Module) -> None:
    encoder.sublayer = lambda ff, x: 2 * ff(x)


@tutorial(
    twice,
    "residual",
    {"mask": "pad_mask: (B, n), boolean, True = ignore"},
    d_model=24,
    num_heads=4,
    d_ff=40,
    num_layers=2,
    activation="relu",
    layer="post-ln",
)
def numbers_at_the_end_of_names() -> nn.Module:
    return Attributes()


# attns.0, ffs.0, and two norms a layer in one list ---------------------------------------------


class Lists(nn.Module):
    """A list for each part, which goes through sequences position by position."""

    def __init__(self, width: int = 28, heads: int = 7, inner: int = 50, depth: int = 3) -> None:
        super().__init__()
        self.attns = nn.ModuleList(nn.MultiheadAttention(width, heads) for _ in range(depth))
        self.ffs = nn.ModuleList(
            nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width)) for _ in range(depth)
        )
        self.ln = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * depth))
        self.second = 1

    def forward(self, x: Tensor) -> Tensor:
        x = x.transpose(0, 1)
        for place, (attend, feed) in enumerate(zip(self.attns, self.ffs, strict=True)):
            x = self.ln[2 * place](x + attend(x, x, x)[0])
            x = self.ln[2 * place + self.second](x + feed(x))
        return x.transpose(0, 1)


def first_norm_again(encoder: nn.Module) -> None:
    encoder.second = 0


@tutorial(
    first_norm_again,
    "norm.layer_norm",
    d_model=28,
    num_heads=7,
    d_ff=50,
    num_layers=3,
    activation="gelu",
    layer="post-ln",
)
def two_norms_a_layer_in_one_list() -> nn.Module:
    return Lists()


# l0_wq, l0_up, l0_up_b, g1, gf -------------------------------------------------------------------


class Bare(nn.Module):
    """Arrays alone, gains by a letter, biases by the end of their names, an axis for the heads."""

    def __init__(self, width: int = 24, heads: int = 3, inner: int = 40, depth: int = 2) -> None:
        super().__init__()
        self.depth, self.entries, self.mean = depth, width // heads, True
        shapes = {
            "wq": (width, heads, self.entries),
            "wk": (width, heads, self.entries),
            "wv": (width, heads, self.entries),
            "wo": (heads, self.entries, width),
            "up": (width, inner),
            "up_b": (inner,),
            "down": (inner, width),
            "down_b": (width,),
        }
        for place in range(depth):
            for name, shape in shapes.items():
                self.register_parameter(f"l{place}_{name}", nn.Parameter(torch.randn(shape) / 5))
            for name in ("g1", "g2"):
                self.register_parameter(f"l{place}_{name}", nn.Parameter(torch.ones(width)))
        self.gf = nn.Parameter(torch.ones(width))

    def rms(self, x: Tensor, gain: Tensor) -> Tensor:
        squares = x.square().mean(-1, keepdim=True) if self.mean else x.square().sum(-1, keepdim=True)
        return x * torch.rsqrt(squares + 1e-6) * gain

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        for place in range(self.depth):
            p = {name.removeprefix(f"l{place}_"): w for name, w in self.named_parameters()}
            y = self.rms(x, p["g1"])
            q, k, v = (torch.einsum("bnd,dhk->bhnk", y, p[name]) for name in ("wq", "wk", "wv"))
            scores = torch.einsum("bhik,bhjk->bhij", q, k) / self.entries**0.5
            if valid is not None:
                scores = scores.masked_fill(~valid[:, None, None, :].bool(), -torch.inf)
            x = x + torch.einsum("bhij,bhjk,hkd->bid", scores.softmax(-1), v, p["wo"])
            x = x + functional.silu(self.rms(x, p["g2"]) @ p["up"] + p["up_b"]) @ p["down"] + p["down_b"]
        return self.rms(x, self.gf)


def without_mean(encoder: nn.Module) -> None:
    encoder.mean = False


@tutorial(
    without_mean,
    "norm.rms",
    d_model=24,
    num_heads=3,
    d_ff=40,
    num_layers=2,
    activation="silu",
    layer="pre-ln",
    norm="rms",
    final_norm="norm",
)
def gains_by_a_letter() -> nn.Module:
    return Bare()


# w1 … w6, block1, block2: a letter with a number, and layers that are counted from one ---------


class CountedMaps(nn.Module):
    """Six maps by their numbers, the first four of them in the attention."""

    factor = 6**-0.5

    def __init__(self, width: int = 24, inner: int = 40) -> None:
        super().__init__()
        for number in range(1, 5):
            self.add_module(f"w{number}", nn.Linear(width, width))
        self.w5, self.w6 = nn.Linear(width, inner), nn.Linear(inner, width)
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        q, k, v = (part(x).unflatten(-1, (4, -1)).transpose(1, 2) for part in (self.w1, self.w2, self.w3))
        scores = q @ k.mT * self.factor
        if keep is not None:
            scores = scores.masked_fill(~keep[:, None, None], -torch.inf)
        x = self.n1(x + self.w4((scores.softmax(-1) @ v).transpose(1, 2).flatten(2)))
        return self.n2(x + self.w6(self.w5(x).relu()))


class CountedBlocks(nn.Module):
    """Blocks are attributes that are counted from one."""

    def __init__(self) -> None:
        super().__init__()
        self.block1, self.block2 = CountedMaps(), CountedMaps()

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        return self.block2(self.block1(x, keep), keep)


@tutorial(
    every(CountedMaps, factor=0.5),
    "attention.scores",
    d_model=24,
    num_heads=4,
    d_ff=40,
    num_layers=2,
    activation="relu",
    layer="post-ln",
)
def counted_from_one() -> nn.Module:
    return CountedBlocks()

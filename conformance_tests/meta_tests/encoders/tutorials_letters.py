"""A tutorial style with nothing named tellingly: which map is which shows in what it computes alone."""

from torch import Tensor, nn

from conformance_tests.meta_tests.encoders.tutorials import every, tutorial


class Letters(nn.Module):
    """The maps are defined in another order than they are used in, and so are the norms."""

    def __init__(self, d: int, m: int) -> None:
        super().__init__()
        self.m = m
        self.a = nn.Linear(d, d)
        self.b = nn.Linear(d, d)
        self.c = nn.Linear(d, d)
        self.d = nn.Linear(d, d)
        self.e = nn.LayerNorm(d)
        self.f = nn.Linear(47, d)
        self.g = nn.Linear(d, 47)
        self.i = nn.LayerNorm(d)

    def cut(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.m, -1)).transpose(1, 2)

    def forward(self, x: Tensor, u: Tensor | None) -> Tensor:
        v, o, k, q = self.a, self.b, self.c, self.d
        s = self.cut(q(x)) @ self.cut(k(x)).mT * self.factor()
        if u is not None:
            s = s.masked_fill(u[:, None, None], -1e30)
        x = self.i(x + o((s.softmax(-1) @ self.cut(v(x))).transpose(1, 2).flatten(2)))
        return self.e(x + self.f(nn.functional.gelu(self.g(x))))

    def factor(self) -> float:
        return float((self.a.in_features // self.m) ** -0.5)


class LettersEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p = nn.ModuleList(Letters(30, 6) for _ in range(2))

    def forward(self, x: Tensor, u: Tensor | None = None) -> Tensor:
        for part in self.p:
            x = part(x, u)
        return x


@tutorial(
    every(Letters, factor=lambda: 30**-0.5),
    "attention.scores",
    {"mask": "u: (B, n), boolean, True = ignore"},
    d_model=30,
    num_heads=6,
    d_ff=47,
    num_layers=2,
    layer="post-ln",
    activation="gelu",
)
def letters_for_names() -> nn.Module:
    return LettersEncoder()

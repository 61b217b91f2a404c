from torch import nn


class Attention(nn.Module):
    def __init__(self, d_model, heads):
        super().__init__()
        self.heads, self.d_model = heads, d_model
        self.q, self.k, self.v, self.out = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, keep):
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        scores = q @ k.mT / self.d_model**0.5
        scores = scores.masked_fill(~keep[:, None, None], float("-inf"))
        heads = scores.softmax(-1) @ v
        return self.out(heads.transpose(1, 2).flatten(2))

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class Layer(nn.Module):
    def __init__(self, d_model, heads, d_ff):
        super().__init__()
        self.attention = Attention(d_model, heads)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm_1, self.norm_2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, keep):
        x = self.norm_1(x + self.attention(x, keep))
        return self.norm_2(x + self.ffn(x))


class MyEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer(d_model=30, heads=5, d_ff=44) for _ in range(2))

    def forward(self, x, keep):
        for layer in self.layers:
            x = layer(x, keep)
        return x

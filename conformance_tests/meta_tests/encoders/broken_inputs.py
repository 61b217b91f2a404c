"""Encoders whose input is broken: what becomes of tokens, of a signal, of an image, and of positions."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from conformance_tests.meta_tests.encoders.defects import breaks


def stack(width: int = 30, **options: Any) -> nn.TransformerEncoder:
    """Torch's encoder behind the inputs of this file."""
    layer = nn.TransformerEncoderLayer(width, 5, 44, activation="gelu", batch_first=True, **options)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


class Factorised(nn.Module):
    """Tokens and positions of width 13, normed, and a map to the width of the layers."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Embedding(41, 13)
        self.position_embeddings = nn.Embedding(19, 13)
        self.emb_norm = nn.LayerNorm(13)
        self.embeddings_project = nn.Linear(13, 30)
        self.encoder = stack()

    def forward(self, ids: Tensor, pad_mask: Tensor | None = None) -> Tensor:
        narrow = self.emb_norm(self.token(ids) + self.position_embeddings.weight[: ids.shape[1]])
        return self.encoder(self.widen(narrow), src_key_padding_mask=pad_mask)

    def widen(self, narrow: Tensor) -> Tensor:
        return self.embeddings_project(narrow)


class Looking(nn.Module):
    """Patches of side 2 of an image of 6 × 6, a class token, a distillation token, learned positions."""

    def __init__(self) -> None:
        super().__init__()
        self.patch_embedding = nn.Conv2d(3, 30, 2, 2)
        self.cls_token, self.dist_token = (nn.Parameter(torch.randn(1, 1, 30)) for _ in range(2))
        self.pos_embedding = nn.Parameter(torch.randn(1, 11, 30))
        self.encoder = stack(norm_first=True)

    def forward(self, image: Tensor) -> Tensor:
        patches = self.patch_embedding(image).flatten(2).mT
        return self.encoder(self.placed(*(token.expand(len(image), -1, -1) for token in self.prepended()), patches))

    def placed(self, first: Tensor, second: Tensor, patches: Tensor) -> Tensor:
        return torch.cat([first, second, patches], 1) + self.pos_embedding

    def prepended(self) -> tuple[Tensor, Tensor]:
        return self.cls_token, self.dist_token


class Attending(nn.Module):
    """Self-attention whose keys have no bias."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.v, self.out = (nn.Linear(30, 30) for _ in range(3))
        self.k = nn.Linear(30, 30, bias=False)
        self.num_heads = 5

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (y.unflatten(-1, (5, 6)).transpose(1, 2) for y in self.project(x))
        heads = (q @ k.mT / math.sqrt(6)).softmax(-1) @ v
        return self.out(heads.transpose(1, 2).flatten(2))

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.q(x), self.k(x), self.v(x)


class ListeningLayer(nn.Module):
    """A Pre-LN layer with GELU."""

    def __init__(self, attention: type[Attending]) -> None:
        super().__init__()
        self.attention = attention()
        self.norm1, self.norm2 = nn.LayerNorm(30), nn.LayerNorm(30)
        self.linear1, self.linear2 = nn.Linear(30, 44), nn.Linear(44, 30)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.linear2(nn.functional.gelu(self.linear1(self.norm2(x))))


class Listening(nn.Module):
    """Two convolutions over a signal of 7 channels, sinusoids of tensor2tensor, Pre-LN layers and a final norm."""

    attention: type[Attending] = Attending

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(7, 30, 3, padding=1)
        self.conv2 = nn.Conv1d(30, 30, 3, stride=2, padding=1)
        self.layers = nn.ModuleList([ListeningLayer(self.attention) for _ in range(2)])
        self.norm = nn.LayerNorm(30)

    def forward(self, signal: Tensor) -> Tensor:
        x = self.listen(signal).mT
        places = torch.arange(x.shape[1], dtype=x.dtype)[:, None]
        x = x + self.positions(places * 10000 ** (-torch.arange(15, dtype=x.dtype) / self.steps()))
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)

    def listen(self, signal: Tensor) -> Tensor:
        gelu = nn.functional.gelu
        return gelu(self.conv2(gelu(self.conv1(signal))))

    def steps(self) -> float:
        return 14

    def positions(self, angles: Tensor) -> Tensor:
        return torch.cat([angles.sin(), angles.cos()], -1)


SOUND = (Factorised, Looking, Listening)


@breaks("embedding.factorised", "EMB-16", "ENC-8")
class EmbeddingsWidenedWithoutBias(Factorised):
    """The bias of the map exists and is never added."""

    def widen(self, narrow: Tensor) -> Tensor:
        return nn.functional.linear(narrow, self.embeddings_project.weight)


@breaks("embedding.cls_and_distillation", "EMB-15")
class DistillationTokenFirst(Looking):
    """The two tokens stand in the wrong order."""

    def prepended(self) -> tuple[Tensor, Tensor]:
        return self.dist_token, self.cls_token


@breaks("embedding.cls_and_distillation", "EMB-15")
class TokensBehindThePatches(Looking):
    """The two tokens stand last."""

    def placed(self, first: Tensor, second: Tensor, patches: Tensor) -> Tensor:
        return torch.cat([patches, first, second], 1) + self.pos_embedding


@breaks("embedding.convolutions", "EMB-14")
class NothingBehindTheSecondConvolution(Listening):
    """The second GELU is left out."""

    def listen(self, signal: Tensor) -> Tensor:
        return self.conv2(nn.functional.gelu(self.conv1(signal)))


@breaks("position.sinusoidal_tensor2tensor", "POS-10", profile="whisper")
class FrequenciesOfThePaper(Listening):
    """The exponent is divided by d_model/2, not by d_model/2 − 1: right elsewhere, wrong here."""

    def steps(self) -> float:
        return 15


class BiasOfTheQueriesForAll(Attending):
    """The bias of the queries is added to the values too, and that of the values does nothing."""

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.q(x), self.k(x), nn.functional.linear(x, self.v.weight, self.q.bias)


@breaks("attention.projections_linear_keys", "ATT-13", "ENC-8")
class ListeningWithOneBias(Listening):
    """Its attention has the defect."""

    attention = BiasOfTheQueriesForAll

"""The same kinds of defect, patched into torch's own encoder by subclasses of its classes."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from conformance_tests.meta_tests.encoders.defects import DEFECTS, Defect

Mask = Tensor | None


def breaks(
    departs_at: str, *fails: str, profile: str = "auto", located_by_catalogue: bool = False, **options: Any
) -> Any:
    """Register torch's encoder with a broken layer, or broken itself: see ``defects.breaks``."""

    def register(broken: type[nn.Module]) -> type[nn.Module]:
        def make() -> nn.Module:
            if issubclass(broken, nn.TransformerEncoder):
                layer = nn.TransformerEncoderLayer(30, 5, 44, batch_first=True)
                return broken(layer, 2, enable_nested_tensor=False)
            layer = broken(30, 5, 44, batch_first=True, **options)
            return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)  # type: ignore[arg-type]

        DEFECTS[broken.__name__] = Defect(broken.__name__, make, departs_at, fails, profile, located_by_catalogue)
        return broken

    return register


def attended(layer: nn.TransformerEncoderLayer, x: Tensor, pad: Mask, scale: float = 1.0, later: float = 0.0) -> Tensor:
    """Torch's attention up to W_O by its own fused kernel; ``later`` is added to the scores of later keys."""
    attention = layer.self_attn
    packed = nn.functional.linear(x, attention.in_proj_weight, attention.in_proj_bias)
    q, k, v = packed.unflatten(-1, (3, attention.num_heads, -1)).permute(2, 0, 3, 1, 4)
    mask = torch.full((x.shape[1], x.shape[1]), later, dtype=x.dtype).triu(1)
    if pad is not None:
        mask = mask + pad[:, None, None, :]
    mixed = nn.functional.scaled_dot_product_attention(q, k, v, mask, scale=scale / math.sqrt(q.shape[-1]))
    return mixed.transpose(1, 2).flatten(2)


@breaks("attention.scores", "ATT-3")
class TorchScaledByModelWidth(nn.TransformerEncoderLayer):
    """Scores are divided by √d_model."""

    def _sa_block(self, x: Tensor, attn_mask: Mask, key_padding_mask: Mask, is_causal: bool = False) -> Tensor:
        mixed = attended(self, x, key_padding_mask, scale=1 / math.sqrt(self.self_attn.num_heads))
        return self.self_attn.out_proj(mixed)


@breaks("attention.global_reach", "MASK-1", "ENC-11")
class TorchCausal(nn.TransformerEncoderLayer):
    """A decoder's mask in an encoder."""

    def _sa_block(self, x: Tensor, attn_mask: Mask, key_padding_mask: Mask, is_causal: bool = False) -> Tensor:
        return self.self_attn.out_proj(attended(self, x, key_padding_mask, later=-torch.inf))


@breaks("attention.mask", "MASK-1", "MASK-2", "ENC-3")
class TorchMaskNeverUsed(nn.TransformerEncoderLayer):
    """The mask is not passed on."""

    def _sa_block(self, x: Tensor, attn_mask: Mask, key_padding_mask: Mask, is_causal: bool = False) -> Tensor:
        return super()._sa_block(x, attn_mask, None, is_causal)


@breaks("attention.mask", "MASK-1", "MASK-2", "ENC-3")
class TorchMaskInverted(nn.TransformerEncoderLayer):
    """Kept keys are masked and masked ones kept; torch has made −∞ of True before."""

    def _sa_block(self, x: Tensor, attn_mask: Mask, key_padding_mask: Mask, is_causal: bool = False) -> Tensor:
        pad = key_padding_mask
        inverted = None if pad is None else torch.where(pad == 0, -torch.inf, 0.0).to(x.dtype)
        return super()._sa_block(x, attn_mask, inverted, is_causal)


@breaks("multihead.output", "MH-4")
class TorchOutputMapTransposed(nn.TransformerEncoderLayer):
    """W_O is square, and is used the other way round."""

    def _sa_block(self, x: Tensor, attn_mask: Mask, key_padding_mask: Mask, is_causal: bool = False) -> Tensor:
        out = self.self_attn.out_proj
        return nn.functional.linear(attended(self, x, key_padding_mask), out.weight.mT, out.bias)


@breaks("residual", "RES-1")
class TorchResidualDropped(nn.TransformerEncoderLayer):
    """What torch adds is taken away before."""

    def _sa_block(self, x: Tensor, attn_mask: Mask, key_padding_mask: Mask, is_causal: bool = False) -> Tensor:
        return super()._sa_block(x, attn_mask, key_padding_mask, is_causal) - x


@breaks("ffn.relu", "FFN-1")
class TorchActivationForgotten(nn.TransformerEncoderLayer):
    """Two maps with nothing between them."""

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.linear2(self.linear1(x))


@breaks("ffn.gelu", "FFN-2", activation="gelu", profile="torch-post-ln-gelu.toml")
class TorchSigmoidGelu(nn.TransformerEncoderLayer):
    """x·sigmoid(1.702x), the paper's other approximation, where GELU is declared."""

    def _ff_block(self, x: Tensor) -> Tensor:
        x = self.linear1(x)
        return self.linear2(x * (1.702 * x).sigmoid())


@breaks("layer.post_ln", "ENC-2", profile="torch-post-ln")
class TorchPreNormWherePostNormIsDeclared(nn.TransformerEncoderLayer):
    """A legitimate order in the wrong place, in spite of what ``norm_first`` says."""

    def forward(self, src: Tensor, src_mask: Mask = None, src_key_padding_mask: Mask = None, **_: Any) -> Tensor:
        pad = additive(src_key_padding_mask, src)
        src = src + self._sa_block(self.norm1(src), src_mask, pad)
        return src + self._ff_block(self.norm2(src))


@breaks("layer.post_ln", "RES-1", "LAYER-1")
class TorchNormBeforeTheSum(nn.TransformerEncoderLayer):
    """x + LN(f(x)): neither order."""

    def forward(self, src: Tensor, src_mask: Mask = None, src_key_padding_mask: Mask = None, **_: Any) -> Tensor:
        src = src + self.norm1(self._sa_block(src, src_mask, additive(src_key_padding_mask, src)))
        return src + self.norm2(self._ff_block(src))


@breaks("norm.layer_norm", "NORM-3", "ENC-8")
class TorchFirstNormUsedTwice(nn.TransformerEncoderLayer):
    """norm2 exists for nothing."""

    def forward(self, src: Tensor, src_mask: Mask = None, src_key_padding_mask: Mask = None, **_: Any) -> Tensor:
        src = self.norm1(src + self._sa_block(src, src_mask, additive(src_key_padding_mask, src)))
        return self.norm1(src + self._ff_block(src))


@breaks("encoder", "ENC-8")
class TorchLastLayerSkipped(nn.TransformerEncoder):
    """N − 1 layers run."""

    def forward(self, src: Tensor, mask: Mask = None, src_key_padding_mask: Mask = None, **_: Any) -> Tensor:
        for layer in list(self.layers)[:-1]:
            src = layer(src, mask, src_key_padding_mask)
        return src


@breaks("encoder", "MASK-1", "MASK-2", "ENC-3", located_by_catalogue=True)
class TorchMaskInTheFirstLayerOnly(nn.TransformerEncoder):
    """Padding reaches everyone from the second layer on."""

    def forward(self, src: Tensor, mask: Mask = None, src_key_padding_mask: Mask = None, **_: Any) -> Tensor:
        for l, layer in enumerate(self.layers):
            src = layer(src, mask, src_key_padding_mask if l == 0 else None)
        return src


@breaks("encoder", "ENC-9", "ENC-10", "ENC-8")
class TorchDetachedBetweenLayers(nn.TransformerEncoder):
    """No gradient passes the border between layers."""

    def forward(self, src: Tensor, mask: Mask = None, src_key_padding_mask: Mask = None, **_: Any) -> Tensor:
        for layer in self.layers:
            src = layer(src.detach(), mask, src_key_padding_mask)
        return src


def additive(pad: Mask, like: Tensor) -> Mask:
    """The padding mask as torch hands it to its sublayers; the stack may have made it so before."""
    if pad is None or pad.is_floating_point():
        return pad
    return torch.zeros(pad.shape, dtype=like.dtype).masked_fill(pad, -torch.inf)

"""Encoders whose stack is broken, or the way in which it is called."""

import torch
from torch import Tensor, nn

from conformance_tests.meta_tests.encoders.defects import breaks
from conformance_tests.meta_tests.encoders.subjects import Encoder, PreNorm, PreNormEncoder


@breaks("encoder", "ENC-8")
class LastLayerSkipped(Encoder):
    """N − 1 layers run."""

    def forward(self, src: Tensor, src_key_padding_mask: Tensor | None = None) -> Tensor:
        for layer in list(self.layers)[:-1]:
            src = layer(src, src_key_padding_mask)
        return src


@breaks("encoder", "ENC-8")
class FirstLayerRunsTwice(Encoder):
    """The second layer exists for nothing."""

    def forward(self, src: Tensor, src_key_padding_mask: Tensor | None = None) -> Tensor:
        for _ in self.layers:
            src = self.layers[0](src, src_key_padding_mask)
        return src


@breaks("layer.post_ln", "LAYER-1")
class LayersInReverse(Encoder):
    """The last layer runs first."""

    def forward(self, src: Tensor, src_key_padding_mask: Tensor | None = None) -> Tensor:
        for layer in reversed(self.layers):
            src = layer(src, src_key_padding_mask)
        return src


@breaks("encoder", "MASK-1", "MASK-2", "ENC-3", located_by_catalogue=True)
class MaskInTheFirstLayerOnly(Encoder):
    """Padding reaches everyone from the second layer on."""

    def forward(self, src: Tensor, src_key_padding_mask: Tensor | None = None) -> Tensor:
        for l, layer in enumerate(self.layers):
            src = layer(src, src_key_padding_mask if l == 0 else None)
        return src


@breaks("encoder.final_norm", "ENC-17", profile="torch-pre-ln", located_by_catalogue=True)
class FinalNormMissing(Encoder):
    """Pre-LN without the final norm that the declared profile has."""

    layer = PreNorm


@breaks("encoder", "ENC-8")
class FinalNormForgotten(PreNormEncoder):
    """The final norm exists and is never called: a legitimate stack without one, but for what lies idle."""

    def forward(self, src: Tensor, src_key_padding_mask: Tensor | None = None) -> Tensor:
        return Encoder.forward(self, src, src_key_padding_mask)


@breaks("encoder", "ENC-9", "ENC-10", "ENC-8")
class DetachedBetweenLayers(Encoder):
    """The forward pass is right; no gradient passes the border between layers."""

    def forward(self, src: Tensor, src_key_padding_mask: Tensor | None = None) -> Tensor:
        for layer in self.layers:
            src = layer(src.detach(), src_key_padding_mask)
        return src


@breaks("encoder", "ENC-9", "ENC-10")
class GradientOfTheResidualScaled(Encoder):
    """The forward pass is right; the backward pass is halved on the way."""

    def forward(self, src: Tensor, src_key_padding_mask: Tensor | None = None) -> Tensor:
        output = super().forward(src, src_key_padding_mask)
        return output / 2 + output.detach() / 2


@breaks("encoder", "ENC-6")
class InputChanged(Encoder):
    """The caller's input is overwritten."""

    def forward(self, src: Tensor, src_key_padding_mask: Tensor | None = None) -> Tensor:
        output = super().forward(src.clone(), src_key_padding_mask)
        src.data.zero_()
        return output


@breaks("encoder", "ENC-6")
class InputChangedInPlace(Encoder):
    """The caller's input is overwritten by an operation that autograd sees, and refuses for leaves."""

    def forward(self, src: Tensor, src_key_padding_mask: Tensor | None = None) -> Tensor:
        output = super().forward(src.clone(), src_key_padding_mask)
        src.mul_(2)
        return output


@breaks("encoder", "ENC-6")
class MaskChanged(Encoder):
    """The caller's mask is overwritten."""

    def forward(self, src: Tensor, src_key_padding_mask: Tensor | None = None) -> Tensor:
        output = super().forward(src, src_key_padding_mask)
        if src_key_padding_mask is not None:
            src_key_padding_mask.zero_()
        return output


@breaks("encoder", "ENC-7")
class MemoryReadAsItLies(Encoder):
    """The input's memory is read as if it were contiguous."""

    def forward(self, src: Tensor, src_key_padding_mask: Tensor | None = None) -> Tensor:
        _, length, width = src.shape
        return super().forward(src.as_strided(src.shape, (length * width, width, 1)), src_key_padding_mask)


@breaks("encoder", "ENC-1", located_by_catalogue=True)
class SinglePrecisionOutput(Encoder):
    """The output is float32 for float64 input."""

    def forward(self, src: Tensor, src_key_padding_mask: Tensor | None = None) -> Tensor:
        return super().forward(src, src_key_padding_mask).float()


@breaks("encoder.no_final_norm", "ENC-1")
class OutputWithoutLastPosition(Encoder):
    """One position gets lost."""

    def forward(self, src: Tensor, src_key_padding_mask: Tensor | None = None) -> Tensor:
        return super().forward(src, src_key_padding_mask)[:, :-1]


@breaks("encoder", "ENC-4")
class AnotherFastPath(Encoder):
    """Without gradients an approximation runs, which is off by a millionth."""

    def forward(self, src: Tensor, src_key_padding_mask: Tensor | None = None) -> Tensor:
        output = super().forward(src, src_key_padding_mask)
        return output if torch.is_grad_enabled() else output * (1 + 1e-6)


@breaks("attention.mask", "ENC-3")
class MaskRefused(Encoder):
    """Every mask with padding raises."""

    def forward(self, src: Tensor, src_key_padding_mask: Tensor | None = None) -> Tensor:
        if src_key_padding_mask is not None and src_key_padding_mask.any():
            raise NotImplementedError("padding is not supported")
        return super().forward(src)


@breaks("encoder", "ENC-1")
class TrimmedToTheLongestSequence(Encoder):
    """Where every sequence ends in padding, the output is shorter than the input."""

    def forward(self, src: Tensor, src_key_padding_mask: Tensor | None = None) -> Tensor:
        output = super().forward(src, src_key_padding_mask)
        if src_key_padding_mask is None:
            return output
        return output[:, : int((~src_key_padding_mask).any(0).nonzero().max()) + 1]


@breaks("encoder", "ENC-8")
class IdleParameter(Encoder):
    """A parameter that no equation has, and that nothing reads."""

    def __init__(self) -> None:
        super().__init__()
        self.layers[0].gate = nn.Parameter(torch.ones(3))


@breaks("encoder.unshared", "ENC-15", located_by_catalogue=True)
class FeedForwardShared(Encoder):
    """All layers use the feed-forward network of the first."""

    def __init__(self) -> None:
        super().__init__()
        for layer in self.layers:
            layer.linear1, layer.linear2 = self.layers[0].linear1, self.layers[0].linear2


@breaks("encoder.unshared", "ENC-15", located_by_catalogue=True)
class AttentionShared(Encoder):
    """All layers use the attention of the first."""

    def __init__(self) -> None:
        super().__init__()
        for layer in self.layers:
            layer.self_attn = self.layers[0].self_attn


@breaks("encoder", "ENC-17")
class LayersInAPlainList(Encoder):
    """Torch knows nothing of the layers: an optimiser trains none of them."""

    def __init__(self) -> None:
        super().__init__()
        layers = list(self.layers)
        del self.layers
        self.layers = layers

"""Errata on the order of the norms, the input and the stack."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from encoder_spec.assembly import Encoder
from encoder_spec.dimensions import Dimensions
from encoder_spec.errata.erratum import (
    LENGTH,
    SMALL,
    Finding,
    Findings,
    distance,
    embeddings,
    entries,
    erratum,
    parameters,
)
from encoder_spec.profiles import BERT, TORCH_PRE_LN, VASWANI_2017, VIT

PRE_LN = Encoder(TORCH_PRE_LN, SMALL.dimensions)


def spread(Z: Tensor) -> float:
    """The mean over all positions of the variance over the features."""
    return float(Z.var(dim=-1, correction=0).mean())


@erratum(
    "ERR-6",
    "The order of BERT's layer",
    source="S3 §7",
    said="BERT's encoder layer is Pre-LN: x + Sublayer(LN(x)).",
    right="BERT is Post-LN, as the original: LN(x + Sublayer(x)). Hence the released model needs no final norm: with "
    "γ = 1, β = 0 each output has variance 1.",
    equations=("layer.post_ln", "layer.pre_ln"),
)
def bert_order() -> Findings:
    """The variant in the slot of the layer, and the variance of BERT's outputs with each."""
    right = Encoder(BERT, SMALL.dimensions)
    said = right.replace(layer="pre-ln")
    tokens = torch.arange(2 * LENGTH).reshape(2, LENGTH)

    def variance(encoder: Encoder) -> float:
        return spread(encoder(parameters(encoder), tokens, tokens // LENGTH))

    return (
        Finding("slot layer", said.profile["layer"].variant, right.profile["layer"].variant),
        Finding("variance over the features of an output", variance(said), variance(right)),
    )


@erratum(
    "ERR-7",
    "The order of ViT's layer",
    source="S1 §5, S1 §6, S1 §7",
    said="ViT's layer is LayerNorm(Z + Sublayer(Z)), and its classifier reads the last layer as it is.",
    right="ViT is Pre-LN, and a final norm precedes the classifier (Dosovitskiy et al. 2020, eq. (2)–(4)). Its γ and β "
    "are in the published count of ViT-B/16: 86,567,656.",
    equations=("layer.pre_ln", "layer.post_ln", "encoder.final_norm", "head.classifier"),
)
def vit_order() -> Findings:
    """Variants in the slots, and the parameters of ViT-B/16: 224² pixels, 196 patches and a class token."""
    sizes = Dimensions(d_model=768, h=12, d_ff=3072, N=12, max_len=197, patch=16, channels=3, classes=1000)
    right = Encoder(VIT.replace(head="classifier"), sizes)
    said = right.replace(layer="post-ln", final_norm="none")
    slots = ("layer", "final_norm")
    return (
        *(Finding(f"slot {slot}", said.profile[slot].variant, right.profile[slot].variant) for slot in slots),
        Finding("parameters of ViT-B/16", entries(said, "stack"), entries(right, "stack")),
    )


def worked_example(
    x: Float[Tensor, "B n d_model"],
    keep: Bool[Tensor, "#B #n #n"],
    *,
    multihead: Callable[..., Tensor],
    ffn: Callable[..., Tensor],
    norm_2: Callable[..., Tensor],
    residual: Callable[..., Tensor],
    dropout: Callable[..., Tensor],
) -> Float[Tensor, "B n d_model"]:
    """S4's example, all heads taken: no norm before attention, one before the FFN."""
    x = residual(x, dropout(multihead(x, keep)))
    return residual(x, dropout(ffn(norm_2(x))))


@erratum(
    "ERR-8",
    "Post-LN in the steps, Pre-LN in the formulas",
    source="S4 §3.2, S4 §4.1, S4 §4.3",
    said="The steps norm after the residual sum, the formulas before the sublayer. The worked example has no "
    "norm before attention. Step 6 norms the last output, which the formulas return as it is.",
    right="They are two encoders. Pre-LN norms before both sublayers and ends with a final norm, which S4's formulas, "
    "and S3's Pre-LN too, lack; Post-LN needs none.",
    equations=("layer.pre_ln", "layer.post_ln", "encoder.final_norm"),
)
def pre_ln_or_post_ln() -> Findings:
    """The variance without and with the final norm; the effect of doubling the input on the attention sublayer."""
    x = embeddings()
    formulas, example = PRE_LN.replace(final_norm="none"), PRE_LN.replace(layer=worked_example)

    def variance(encoder: Encoder) -> float:
        return spread(encoder(parameters(encoder), x))

    def effect_of_doubling(encoder: Encoder) -> float:
        before, after = (encoder.trace(parameters(encoder), given).of("multihead")[0] for given in (x, 2 * x))
        return distance(before, after)

    return (
        Finding("variance over the features of an output, formulas", variance(formulas), variance(PRE_LN)),
        Finding("effect of doubling H₀, steps", effect_of_doubling(SMALL), effect_of_doubling(PRE_LN)),
        Finding("effect of doubling H₀, example", effect_of_doubling(example), effect_of_doubling(PRE_LN)),
    )


def steps_as_written(
    x: Float[Tensor, "B n d_model"],
    keep: Bool[Tensor, "#B #n #n"],
    *,
    multihead: Callable[..., Tensor],
    ffn: Callable[..., Tensor],
    norm_1: Callable[..., Tensor],
    residual: Callable[..., Tensor],
) -> Float[Tensor, "B n d_model"]:
    """S4's steps 2 to 4 to the letter: FFN(H') is computed, then H + H' is normed."""
    attended = multihead(x, keep)
    ffn(attended)
    return norm_1(residual(x, attended))


@erratum(
    "ERR-22",
    "An FFN without effect",
    source="S4 §3.1, S4 §3.2",
    said="Step 3 computes FFN(H'), where H' is the attention's output; step 4 adds the layer's input to H' and norms. "
    "Its diagram, too, has one residual and norm for the whole layer.",
    right="Each sublayer has its own residual and norm: H' = LN(H + MHA(H)), then LN(H' + FFN(H')). "
    "By the letter of the steps nothing uses the FFN's output.",
    equations=("layer.post_ln", "ffn"),
)
def ffn_without_effect() -> Findings:
    """Change of the output when W₁ is doubled, and the norms' parameters in a layer."""
    x = embeddings()

    def effect(encoder: Encoder) -> float:
        values = parameters(encoder)
        doubled = {path: 2 * v if path.endswith("W_1") else v for path, v in values.items()}
        return distance(encoder(values, x), encoder(doubled, x))

    wrong = SMALL.replace(layer=steps_as_written)
    return (
        Finding("change of the output when W₁ is doubled", effect(wrong), effect(SMALL)),
        Finding(
            "entries of the norms of one layer, d_model = 15",
            *(entries(e, "layer", owner="norm") for e in (wrong, SMALL)),
        ),
    )


@erratum(
    "ERR-21",
    "A cache of keys and values",
    source="S3 §8",
    said="At inference an encoder layer can reuse cached keys and values.",
    right="Only for an unchanged input. In an encoder every token attends to every other: an appended token changes "
    "the outputs of all earlier ones, hence their keys and values in every later layer. It is valid under a causal "
    "mask, in a decoder.",
    equations=("encoder", "attention"),
)
def cached_keys() -> Findings:
    """Append a token; what changes for the earlier tokens, under a causal mask and in an encoder."""
    values, longer = parameters(SMALL), embeddings()

    def change(equation: str, *, layer: int, causal: bool) -> float:
        def earlier(length: int) -> Tensor:
            full = torch.ones(2, length, length, dtype=torch.bool)
            trace = SMALL.trace(values, longer[:, :length], keep=full.tril() if causal else full)
            value = trace.of(equation)[layer]
            kept: Tensor = value[1] if isinstance(value, tuple) else value
            return kept[:, : LENGTH - 1]

        return distance(earlier(LENGTH - 1), earlier(LENGTH))

    return tuple(
        Finding(f"change of the earlier tokens' {what}", *(change(equation, layer=l, causal=c) for c in (True, False)))
        for what, equation, l in (
            ("keys, layer 0", "attention.projections", 0),
            ("keys, layer 1", "attention.projections", 1),
            ("outputs", "layer.post_ln", 1),
        )
    )


@erratum(
    "ERR-12",
    "Scaled and unscaled embeddings",
    source="S2 §1.2, S2 §6",
    said="The input is Embedding(x) + position, presented as the original encoder, without a scale.",
    right="The original multiplies the embedding by √d_model first (S0 §2, Vaswani et al. 2017, §3.4). Without it, "
    "embeddings of unit length are drowned by sinusoids of length √(d_model/2).",
    equations=("embedding.scale", "embedding.unscaled"),
)
def scaled_embedding() -> Findings:
    """Length of the embedding over length of its position vector, d_model = 512, rows of E of unit length."""
    base = Encoder(VASWANI_2017, SMALL.dimensions.replace(d_model=512, h=8))
    E = torch.nn.functional.one_hot(torch.arange(base.dimensions.V), 512).double()
    tokens = torch.tensor([[3, 1, 4, 15, 9]])

    def ratio(encoder: Encoder) -> float:
        X = encoder.bind({"E": E}, slot="embedding")(tokens)
        scaled = encoder.bind({}, slot="embedding_scale")(X)
        return float((scaled.norm(dim=-1) / encoder.bind({}, slot="position")(X).norm(dim=-1)).mean())

    return (Finding("‖embedding‖ / ‖position‖", ratio(base.replace(embedding_scale="none")), ratio(base)),)

"""Chapter 9: the order of sublayer, residual and norm."""

from collections.abc import Callable

from jaxtyping import Bool, Float
from torch import Tensor

from encoder_spec.equation import equation, requirement


@requirement(
    "LAYER-3",
    "With h·d_k = h·d_v = d a layer has 4d² + 2·d·d_ff entries of maps and 9d + d_ff of biases and norms.",
    algebraic=True,
)
@requirement("LAYER-2", "Sequence length and width are unchanged.")
@requirement("LAYER-1", "Each sublayer is followed by the residual sum and then its own norm.")
@equation("layer.post_ln", slot="layer")
def post_ln(
    x: Float[Tensor, "B n d_model"],
    keep: Bool[Tensor, "#B #n #n"],
    *,
    multihead: Callable[..., Tensor],
    ffn: Callable[..., Tensor],
    norm_1: Callable[..., Tensor],
    norm_2: Callable[..., Tensor],
    residual_1: Callable[..., Tensor],
    residual_2: Callable[..., Tensor],
    dropout: Callable[..., Tensor],
) -> Float[Tensor, "B n d_model"]:
    r"""Post-LN layer. Vaswani et al. 2017, §3.1; S0 §7, S1 §7, S2 §4.1, S3 §3.

    $$ \begin{aligned}
       x &\leftarrow \mathrm{LN}_1(x + \mathrm{Dropout}(\mathrm{MHA}(x))) \\
       x &\leftarrow \mathrm{LN}_2(x + \mathrm{Dropout}(\mathrm{FFN}(x)))
       \end{aligned} $$

    The two norms have parameters of their own.

    Undefined: nothing.
    """
    x = norm_1(residual_1(x, dropout(multihead(x, keep))))
    return norm_2(residual_2(x, dropout(ffn(x))))


@requirement("LAYER-4", "Each sublayer reads the normed input and adds its output to the input before the norm.")
@equation("layer.pre_ln", slot="layer")
def pre_ln(
    x: Float[Tensor, "B n d_model"],
    keep: Bool[Tensor, "#B #n #n"],
    *,
    multihead: Callable[..., Tensor],
    ffn: Callable[..., Tensor],
    norm_1: Callable[..., Tensor],
    norm_2: Callable[..., Tensor],
    residual_1: Callable[..., Tensor],
    residual_2: Callable[..., Tensor],
    dropout: Callable[..., Tensor],
) -> Float[Tensor, "B n d_model"]:
    r"""Pre-LN layer. Xiong et al. 2020, table 1; S3 §3, S4 §4.1.

    $$ \begin{aligned}
       x &\leftarrow x + \mathrm{Dropout}(\mathrm{MHA}(\mathrm{LN}_1(x))) \\
       x &\leftarrow x + \mathrm{Dropout}(\mathrm{FFN}(\mathrm{LN}_2(x)))
       \end{aligned} $$

    The residual path is never normed, which is why the stack ends with a norm of its own.

    Undefined: nothing.
    """
    x = residual_1(x, dropout(multihead(norm_1(x), keep)))
    return residual_2(x, dropout(ffn(norm_2(x))))


@requirement(
    "LAYER-5", "Attention reads the input as it is, and the feed-forward network the normed sum; each adds its output."
)
@equation("layer.pre_ln_bare", slot="layer", variant="pre-ln-bare")
def pre_ln_bare(
    x: Float[Tensor, "B n d_model"],
    keep: Bool[Tensor, "#B #n #n"],
    *,
    multihead: Callable[..., Tensor],
    ffn: Callable[..., Tensor],
    norm_2: Callable[..., Tensor],
    residual_1: Callable[..., Tensor],
    residual_2: Callable[..., Tensor],
    dropout: Callable[..., Tensor],
) -> Float[Tensor, "B n d_model"]:
    r"""Pre-LN layer behind a norm. Warner et al. 2024 (ModernBERT), §2.1.1: the first layer, behind normed embeddings.

    $$ \begin{aligned}
       x &\leftarrow x + \mathrm{Dropout}(\mathrm{MHA}(x)) \\
       x &\leftarrow x + \mathrm{Dropout}(\mathrm{FFN}(\mathrm{LN}_2(x)))
       \end{aligned} $$

    What it reads is normed already, and is not normed again.

    Undefined: nothing.
    """
    x = residual_1(x, dropout(multihead(x, keep)))
    return residual_2(x, dropout(ffn(norm_2(x))))


@requirement("LAYER-6", "Each sublayer reads its input as it is; what it gives is normed, and then added.")
@equation("layer.res_post_ln", slot="layer", variant="res-post-ln", to_be_declared=True)
def res_post_ln(
    x: Float[Tensor, "B n d_model"],
    keep: Bool[Tensor, "#B #n #n"],
    *,
    multihead: Callable[..., Tensor],
    ffn: Callable[..., Tensor],
    norm_1: Callable[..., Tensor],
    norm_2: Callable[..., Tensor],
    residual_1: Callable[..., Tensor],
    residual_2: Callable[..., Tensor],
    dropout: Callable[..., Tensor],
) -> Float[Tensor, "B n d_model"]:
    r"""Layer with normed results. Liu et al. 2021b (Swin Transformer V2), §3.2 and figure 1: *res-post-norm*.

    $$ \begin{aligned}
       x &\leftarrow x + \mathrm{Dropout}(\mathrm{LN}_1(\mathrm{MHA}(x))) \\
       x &\leftarrow x + \mathrm{Dropout}(\mathrm{LN}_2(\mathrm{FFN}(x)))
       \end{aligned} $$

    No sublayer reads what is normed, and the residual path has no norm: what each layer adds has one size.

    Undefined: nothing.
    """
    x = residual_1(x, dropout(norm_1(multihead(x, keep))))
    return residual_2(x, dropout(norm_2(ffn(x))))


@requirement("LAYER-7", "Each sublayer reads the normed input, and what it gives is normed again before it is added.")
@equation("layer.sandwich_ln", slot="layer", variant="sandwich-ln")
def sandwich_ln(
    x: Float[Tensor, "B n d_model"],
    keep: Bool[Tensor, "#B #n #n"],
    *,
    multihead: Callable[..., Tensor],
    ffn: Callable[..., Tensor],
    norm_1: Callable[..., Tensor],
    norm_2: Callable[..., Tensor],
    norm_attention: Callable[..., Tensor],
    norm_ffn: Callable[..., Tensor],
    residual_1: Callable[..., Tensor],
    residual_2: Callable[..., Tensor],
    dropout: Callable[..., Tensor],
) -> Float[Tensor, "B n d_model"]:
    r"""Sandwich-LN layer. Ding et al. 2021 (CogView), §2.4; Riviere et al. 2024 (Gemma 2), §2.

    $$ \begin{aligned}
       x &\leftarrow x + \mathrm{Dropout}(\mathrm{LN}_\text{attention}(\mathrm{MHA}(\mathrm{LN}_1(x)))) \\
       x &\leftarrow x + \mathrm{Dropout}(\mathrm{LN}_\text{ffn}(\mathrm{FFN}(\mathrm{LN}_2(x))))
       \end{aligned} $$

    All four norms have parameters of their own.

    Undefined: nothing.
    """
    x = residual_1(x, dropout(norm_attention(multihead(norm_1(x), keep))))
    return residual_2(x, dropout(norm_ffn(ffn(norm_2(x)))))


@requirement("LAYER-8", "Both sublayers read the layer's input through one norm, and what both give is added to it.")
@equation("layer.parallel", slot="layer")
def parallel(
    x: Float[Tensor, "B n d_model"],
    keep: Bool[Tensor, "#B #n #n"],
    *,
    multihead: Callable[..., Tensor],
    ffn: Callable[..., Tensor],
    norm_1: Callable[..., Tensor],
    residual_1: Callable[..., Tensor],
    residual_2: Callable[..., Tensor],
    dropout: Callable[..., Tensor],
) -> Float[Tensor, "B n d_model"]:
    r"""Parallel layer. Wang & Komatsuzaki 2021 (GPT-J), released code; Dehghani et al. 2023 (ViT-22B), §2.

    $$ x \leftarrow x + \mathrm{Dropout}(\mathrm{MHA}(y)) + \mathrm{Dropout}(\mathrm{FFN}(y)), \qquad
       y = \mathrm{LN}_1(x) $$

    Neither sublayer waits for the other, so that their maps of y may be computed as one.

    Undefined: nothing.
    """
    y = norm_1(x)
    return residual_2(residual_1(x, dropout(multihead(y, keep))), dropout(ffn(y)))


@requirement("LAYER-9", "Both sublayers read the layer's input, each through its norm, and what both give is added.")
@equation("layer.parallel_two_norms", slot="layer", variant="parallel-two-norms")
def parallel_two_norms(
    x: Float[Tensor, "B n d_model"],
    keep: Bool[Tensor, "#B #n #n"],
    *,
    multihead: Callable[..., Tensor],
    ffn: Callable[..., Tensor],
    norm_1: Callable[..., Tensor],
    norm_2: Callable[..., Tensor],
    residual_1: Callable[..., Tensor],
    residual_2: Callable[..., Tensor],
    dropout: Callable[..., Tensor],
) -> Float[Tensor, "B n d_model"]:
    r"""Parallel layer with two norms. Black et al. 2022 (GPT-NeoX-20B), §2.1.2.

    $$ x \leftarrow x + \mathrm{Dropout}(\mathrm{MHA}(\mathrm{LN}_1(x)))
       + \mathrm{Dropout}(\mathrm{FFN}(\mathrm{LN}_2(x))) $$

    Undefined: nothing. (Its authors had meant to share one norm, and report two as an oversight in their code.)
    """
    return residual_2(residual_1(x, dropout(multihead(norm_1(x), keep))), dropout(ffn(norm_2(x))))

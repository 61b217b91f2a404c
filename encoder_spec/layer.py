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

"""Chapter 1: how tokens, patches of an image, stretches of sound, or measured features become vectors."""

import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from encoder_spec.equation import equation, requirement
from encoder_spec.ffn import gelu
from encoder_spec.notation import SpecificationError, demand


@requirement("EMB-1", "X[b, j] is row x[b, j] of E: equal tokens get equal vectors, wherever they stand.")
@equation("embedding.lookup", slot="embedding")
def lookup(tokens: Int[Tensor, "B n"], *, E: Float[Tensor, "V d_model"]) -> Float[Tensor, "B n d_model"]:
    r"""Token embedding. Vaswani et al. 2017, §3.4; S0 §2, S1 §2, S2 §1.2, S4 §3.2.

    $$ X = E[x], \qquad E \in \mathbb{R}^{|V| \times d_\text{model}} $$

    Every token id lies in 0 … |V| − 1.

    Undefined: what a padding token embeds to; here it is an ordinary row of E.
    """
    if not bool(((tokens >= 0) & (tokens < len(E))).all()):
        raise SpecificationError(
            f"embedding.lookup: ids must lie in 0 … {len(E) - 1}, the rows of the table, "
            f"but range from {int(tokens.min())} to {int(tokens.max())}"
        )
    return E[tokens]


@requirement("EMB-2", "The embedding is multiplied by √d_model before positions are added.")
@equation("embedding.scale", slot="embedding_scale", variant="sqrt-d-model")
def scale(X: Float[Tensor, "B n d_model"]) -> Float[Tensor, "B n d_model"]:
    r"""Scaled embedding. Vaswani et al. 2017, §3.4; S0 §2.

    $$ X \leftarrow \sqrt{d_\text{model}} \; X $$

    Undefined: nothing.
    """
    return math.sqrt(X.shape[-1]) * X


@requirement("EMB-3", "The embedding is not scaled.")
@equation("embedding.unscaled", slot="embedding_scale", variant="none")
def unscaled(X: Float[Tensor, "B n d_model"]) -> Float[Tensor, "B n d_model"]:
    r"""Embedding without scale. Devlin et al. 2018, §3; Dosovitskiy et al. 2020, eq. (1); S2 §6.

    $$ X \leftarrow X $$

    Undefined: nothing.
    """
    return X


@requirement(
    "EMB-34",
    "Masked tokens become 0, and the others are multiplied by (1 − p_m)/(1 − r), where r is the share of masked ones.",
)
@equation("embedding.token_dropout", slot="embedding_scale")
def token_dropout(
    X: Float[Tensor, "B n d_model"],
    *,
    keep: Bool[Tensor, "#B #n #n"],
    ids: Int[Tensor, "B n"],
    mask_id: int,
    p_mask: float,
) -> Float[Tensor, "B n d_model"]:
    r"""Embedding scaled for the tokens that are masked. Lin et al. 2022 (ESM-2), as released.

    $$ X_j \leftarrow \frac{1 - p_m}{1 - r}\, X_j, \qquad X_j \leftarrow 0 \text{ where } x_j = t_m, \qquad
       r = \frac{\#\{ j : x_j = t_m \}}{\#\{ j : j \text{ valid} \}} $$

    x_j is the id at position j. In training 12 % of the tokens are masked on average: 80 % of the 15 % that are to be
    predicted. Where none is masked, as in use, all are multiplied by 0.88.

    Undefined: a sequence with as many masked tokens as valid positions, where r is 1: here 1 − r counts as 1 then.
    """
    demand(ids.shape == X.shape[:2], f"embedding.token_dropout: each token needs an id, but ids are {tuple(ids.shape)}")
    demand(
        keep.shape[-2] == 1 and keep.shape[-1] in {1, ids.shape[1]},
        f"embedding.token_dropout: the mask must be one for all queries, of shape (B, n), but is {tuple(keep.shape)}",
    )
    is_masked = (ids == mask_id).to(X.device)
    valid = keep[:, 0].expand(ids.shape).sum(1)
    r = is_masked.sum(1) / valid.to(X.dtype)
    left = torch.where(r < 1, 1 - r, 1)[:, None, None]
    return X.masked_fill(is_masked[..., None], 0) * (1 - p_mask) / left


@requirement("EMB-4", "Each token is a linear map of one patch; equals a convolution with kernel = stride = p × q.")
@equation("embedding.patches", slot="embedding")
def patches(
    images: Float[Tensor, "B channels height width"],
    *,
    patch: int,
    patch_width: int,
    feature_norm: Callable[..., Float[Tensor, "B n patch_area"]],
    W_patch: Float[Tensor, "patch_area d_model"],
    b_patch: Float[Tensor, "d_model"],
) -> Float[Tensor, "B n d_model"]:
    r"""Patch embedding. Dosovitskiy et al. 2020, §3.1, eq. (1); S1 §2.

    $$ X = [\, x_p^1 W;\ \dots;\ x_p^n W \,] + b, \qquad
       x_p^j \in \mathbb{R}^{p q C},\ n = \tfrac{\text{height}}{p} \cdot \tfrac{\text{width}}{q} $$

    p divides the height and q the width. Patches are squares in the paper, and rectangles where the axes of an
    image mean different things, as in a spectrogram (Berg et al. 2021: all frequencies of one moment).
    They are read row by row. Where the slot ``feature_norm`` is filled, the map reads normed patches.

    Undefined: the order of the entries inside a flattened patch; here channel,
    row, column, which is the order of a convolution kernel.
    """
    height, width = images.shape[-2:]
    demand(
        height % patch == 0 and width % patch_width == 0,
        f"embedding.patches: patches of {patch} × {patch_width} do not tile an image of {height} × {width}",
    )
    x_p: Tensor = images.unflatten(-2, (-1, patch)).unflatten(-1, (-1, patch_width))
    x_p = x_p.permute(0, 2, 4, 1, 3, 5).flatten(-3).flatten(1, 2)
    return feature_norm(x_p) @ W_patch + b_patch


@requirement("EMB-13", "Each token is a linear map of one patch, without a bias.")
@equation("embedding.patches_without_bias", slot="embedding")
def patches_without_bias(
    images: Float[Tensor, "B channels height width"],
    *,
    patch: int,
    patch_width: int,
    feature_norm: Callable[..., Float[Tensor, "B n patch_area"]],
    W_patch: Float[Tensor, "patch_area d_model"],
) -> Float[Tensor, "B n d_model"]:
    r"""Patch embedding without bias. Radford et al. 2021 (CLIP), released code.

    $$ X = [\, x_p^1 W;\ \dots;\ x_p^n W \,] $$

    p divides the height and q the width.

    Undefined: as for ``embedding.patches``.
    """
    b_patch = W_patch.new_zeros(W_patch.shape[-1])
    return patches(
        images, patch=patch, patch_width=patch_width, feature_norm=feature_norm, W_patch=W_patch, b_patch=b_patch
    )


@requirement(
    "EMB-14",
    "Each token reads what lies around two samples: two convolutions of width 3, the second one in steps of 2.",
)
@equation("embedding.convolutions", slot="embedding")
def convolutions(
    signal: Float[Tensor, "B channels time"],
    *,
    W_conv: Float[Tensor, "3 channels d_model"],
    b_conv: Float[Tensor, "d_model"],
    W_step: Float[Tensor, "3 d_model d_model"],
    b_step: Float[Tensor, "d_model"],
) -> Float[Tensor, "B n d_model"]:
    r"""Convolutional stem. Radford et al. 2022 (Whisper), §2.2.

    $$ U_t = \mathrm{GELU}\Bigl(\sum_{k=0}^{2} u_{t+k-1} W^\text{conv}_k + b^\text{conv}\Bigr), \qquad
       X_j = \mathrm{GELU}\Bigl(\sum_{k=0}^{2} U_{2j+k-1} W^\text{step}_k + b^\text{step}\Bigr) $$

    u_t are the channels at time t; what lies outside of the signal is 0, also in U. n is half the
    number of times, rounded up.

    Undefined: nothing.
    """
    U = gelu(_convolve(signal.mT, W_conv, 1) + b_conv)
    return gelu(_convolve(U, W_step, 2) + b_step)


def _convolve(u: Tensor, W: Tensor, step: int) -> Tensor:
    """Σ_k u[t + k − 1] W[k] at every ``step``-th t, with zeros outside of u."""
    padded = torch.nn.functional.pad(u, (0, 0, 1, 1))
    first, second, third = (padded[:, k : k + u.shape[1] : step] @ W[k] for k in range(3))
    return first + second + third


@requirement("EMB-17", "The vectors that are given are the embedding: what else is added, is added to them.")
@equation("embedding.vectors", slot="embedding")
def vectors(x: Float[Tensor, "B n d_model"]) -> Float[Tensor, "B n d_model"]:
    r"""Vectors as embedding. Vaswani et al. 2017, §3.5; Dosovitskiy et al. 2020, eq. (1), behind the patches.

    $$ X = x $$

    The encoder adds positions itself. One that adds nothing to its vectors has
    ``embedding.given`` in its slot ``input``.

    Undefined: whether the vectors have been scaled before; ``embedding_scale`` is what the encoder does.
    """
    return x


@requirement("EMB-18", "Each position is an affine map of the features there, the same map everywhere.")
@equation("embedding.features", slot="embedding")
def features(
    u: Float[Tensor, "B n channels"],
    *,
    feature_norm: Callable[..., Float[Tensor, "B n channels"]],
    W_feature: Float[Tensor, "channels d_model"],
    b_feature: Float[Tensor, "d_model"],
) -> Float[Tensor, "B n d_model"]:
    r"""Mapped features. Zerveas et al. 2020, §3.1, eq. (1).

    $$ X_j = u_j W^\text{feature} + b^\text{feature} $$

    u_j are the C numbers measured at time j. Where the slot ``feature_norm`` is filled, the map
    reads them normed.

    Undefined: nothing. (The paper standardises each feature over the data before the map.)
    """
    return feature_norm(u) @ W_feature + b_feature


@requirement("EMB-19", "Each position is a linear map of the features there, without a bias.")
@equation("embedding.features_without_bias", slot="embedding")
def features_without_bias(
    u: Float[Tensor, "B n channels"],
    *,
    feature_norm: Callable[..., Float[Tensor, "B n channels"]],
    W_feature: Float[Tensor, "channels d_model"],
) -> Float[Tensor, "B n d_model"]:
    r"""Mapped features without bias. Nie et al. 2022 (PatchTST), §3.1.

    $$ X_j = u_j W^\text{feature} $$

    Undefined: nothing. (The paper's features are stretches of one series; its released code adds a bias.)
    """
    return feature_norm(u) @ W_feature


@requirement("EMB-29", "Each position is an affine map of what the stages give there, the last one behind the others.")
@equation("embedding.waveform", slot="embedding")
def waveform(
    samples: Float[Tensor, "B samples"],
    *,
    stages: Sequence[Callable[..., Float[Tensor, "B n channels"]]],
    feature_norm: Callable[..., Float[Tensor, "B n channels"]],
    W_feature: Float[Tensor, "channels d_model"],
    b_feature: Float[Tensor, "d_model"],
) -> Float[Tensor, "B n d_model"]:
    r"""Convolved waveform. Baevski et al. 2020 (wav2vec 2.0), §2; Hsu et al. 2021 (HuBERT), §III likewise.

    $$ X_j = u^{(L)}_j W^\text{feature} + b^\text{feature}, \qquad
       u^{(l)} = \mathrm{Stage}_l(u^{(l-1)}),\ u^{(0)}_t = [\, x_t \,] $$

    x_t are the samples of a sound. L stages, one behind the other, make C channels of them. Where the slot
    ``feature_norm`` is filled, the map reads what the last stage gives normed.

    Undefined: nothing. (The paper normalises the samples of each sound before.)
    """
    u = samples[..., None]
    for stage in stages:
        u = stage(u)
    return features(u, feature_norm=feature_norm, W_feature=W_feature, b_feature=b_feature)


@requirement("EMB-31", "A stage gives ⌊(T − k)/s⌋ + 1 times: nothing is read outside of the signal.")
@requirement("EMB-30", "A stage is a GELU of a convolution: its result j reads k times of its input, from time s·j on.")
@equation("embedding.stage", slot="stage", variant="convolution")
def stage(
    u: Float[Tensor, "B time heard"],
    *,
    stride: int,
    W_stage: Float[Tensor, "taps heard channels"],
    b_stage: Float[Tensor, "channels"],
) -> Float[Tensor, "B n channels"]:
    r"""Stage of a waveform. Baevski et al. 2020 (wav2vec 2.0), §2 and §4.1.

    $$ \mathrm{Stage}(u)_j = \mathrm{GELU}(z_j), \qquad
       z_j = \sum_{i=0}^{k-1} u_{sj+i} W^\text{stage}_i + b^\text{stage},\ 0 \le j < \tfrac{T - k}{s} + 1 $$

    There are k times or more. The first stage reads one channel, and the others as many as they give.

    Undefined: whether there is a bias. (The released base model has none: then it is 0.)
    """
    return gelu(_strided(u, W_stage, stride) + b_stage)


@requirement("EMB-32", "Within a stage the channels of each time are normalised before GELU.")
@equation("embedding.stage_norm", slot="stage", variant="convolution-norm")
def stage_norm(
    u: Float[Tensor, "B time heard"],
    *,
    stride: int,
    W_stage: Float[Tensor, "taps heard channels"],
    b_stage: Float[Tensor, "channels"],
    norm_stage: Callable[..., Float[Tensor, "B n channels"]],
) -> Float[Tensor, "B n channels"]:
    r"""Stage with a norm. Baevski et al. 2020 (wav2vec 2.0), §2; Baevski et al. 2022 (data2vec), §4.

    $$ \mathrm{Stage}(u)_j = \mathrm{GELU}(\mathrm{LN}(z_j)), \qquad
       z_j = \sum_{i=0}^{k-1} u_{sj+i} W^\text{stage}_i + b^\text{stage} $$

    There are k times or more.

    Undefined: whether there is a bias. (data2vec's released code has none: then it is 0.)
    """
    return gelu(norm_stage(_strided(u, W_stage, stride) + b_stage))


@requirement("EMB-33", "Within a stage each channel is normalised over all times of its sound before GELU.")
@equation("embedding.stage_norm_over_time", slot="stage", variant="convolution-norm-over-time")
def stage_norm_over_time(
    u: Float[Tensor, "B time heard"],
    *,
    stride: int,
    W_stage: Float[Tensor, "taps heard channels"],
    b_stage: Float[Tensor, "channels"],
    gamma_stage: Float[Tensor, "channels"],
    beta_stage: Float[Tensor, "channels"],
    eps: float,
) -> Float[Tensor, "B n channels"]:
    r"""Stage with a norm over time. Baevski et al. 2020 (wav2vec 2.0), released code (base); HuBERT likewise.

    $$ \mathrm{Stage}(u)_j = \mathrm{GELU}\Bigl(\gamma \odot \frac{z_j - \mu}{\sqrt{\sigma^2 + \epsilon}} + \beta\Bigr),
       \qquad \mu = \tfrac{1}{m} \textstyle\sum_j z_j,\ \sigma^2 = \tfrac{1}{m} \sum_j (z_j - \mu)^2 $$

    z_j are the m results of the convolution, as in ``embedding.stage``. The norm is a group norm with a group for each
    channel. What is padding among the samples is read by it as well.

    Undefined: nothing. (The paper says layer normalisation.)
    """
    z = _strided(u, W_stage, stride) + b_stage
    centred = z - z.mean(dim=1, keepdim=True)
    return gelu(gamma_stage * centred / torch.sqrt(centred.square().mean(dim=1, keepdim=True) + eps) + beta_stage)


def _strided(u: Tensor, W: Tensor, stride: int) -> Tensor:
    """Σ_i u[s·j + i] W[i] for every j for which all of these times are there."""
    times, taps = u.shape[1], len(W)
    demand(times >= taps, f"a stage reads {taps} times at once, but there are {times}: give it a longer sound")
    windows = u.unfold(1, taps, stride).mT.flatten(-2)
    return windows @ W.flatten(0, 1)


@requirement("EMB-20", "Features, or the entries of a patch, are normalised before they are mapped.")
@equation("embedding.feature_norm", slot="feature_norm", variant="norm")
def feature_norm(
    u: Float[Tensor, "B n d_model"], *, norm_feature: Callable[..., Tensor]
) -> Float[Tensor, "B n d_model"]:
    r"""Norm of the features. Baevski et al. 2020 (wav2vec 2.0), released code; Kumar et al. 2023, §3, of patches.

    $$ u \leftarrow \mathrm{LN}(u) $$

    The width is that of what is given: C features, or the pqC entries of a patch.

    Undefined: nothing.
    """
    return norm_feature(u)


@requirement("EMB-21", "Features, or the entries of a patch, are mapped as they are.")
@equation("embedding.no_feature_norm", slot="feature_norm", variant="none")
def no_feature_norm(u: Float[Tensor, "B n d_model"]) -> Float[Tensor, "B n d_model"]:
    r"""Without norm of the features. Dosovitskiy et al. 2020, eq. (1); Zerveas et al. 2020, §3.1.

    $$ u \leftarrow u $$

    Undefined: nothing.
    """
    return u


@requirement("EMB-22", "Each embedding is normalised by itself, before scale, class token and positions.")
@equation("embedding.token_norm", slot="token_norm", variant="norm")
def token_norm(X: Float[Tensor, "B n d_model"], *, norm_token: Callable[..., Tensor]) -> Float[Tensor, "B n d_model"]:
    r"""Norm of each token. Kumar et al. 2023, §3; Watanabe et al. 2018 (ESPnet), released code.

    $$ X \leftarrow \mathrm{LN}(X) $$

    Undefined: nothing. (``embedding.norm`` is the norm of the sum, with positions and segments in it.)
    """
    return norm_token(X)


@requirement("EMB-23", "No norm stands between the embedding and its scale.")
@equation("embedding.no_token_norm", slot="token_norm", variant="none")
def no_token_norm(X: Float[Tensor, "B n d_model"]) -> Float[Tensor, "B n d_model"]:
    r"""Without norm of each token. Vaswani et al. 2017, §3.4; Dosovitskiy et al. 2020, eq. (1).

    $$ X \leftarrow X $$

    Undefined: nothing.
    """
    return X


@requirement("EMB-24", "An activation follows the embedding, before scale, class token and positions.")
@equation("embedding.token_activation", slot="token_activation", variant="activation")
def token_activation(
    X: Float[Tensor, "B n d_model"], *, activation_token: Callable[..., Tensor]
) -> Float[Tensor, "B n d_model"]:
    r"""Activation of each token. Watanabe et al. 2018 (ESPnet), released code: ReLU behind map and norm.

    $$ X \leftarrow \sigma(X) $$

    Undefined: nothing.
    """
    return activation_token(X)


@requirement("EMB-25", "No activation stands between the embedding and its scale.")
@equation("embedding.no_token_activation", slot="token_activation", variant="none")
def no_token_activation(X: Float[Tensor, "B n d_model"]) -> Float[Tensor, "B n d_model"]:
    r"""Without activation of each token. Vaswani et al. 2017, §3.4; Zerveas et al. 2020, §3.1.

    $$ X \leftarrow X $$

    Undefined: nothing.
    """
    return X


@requirement("EMB-5", "The learned class token stands before the first token; the sequence grows by one.")
@equation("embedding.cls", slot="cls", variant="cls")
def cls(X: Float[Tensor, "B n d_model"], *, x_cls: Float[Tensor, "d_model"]) -> Float[Tensor, "B n+1 d_model"]:
    r"""Class token. Dosovitskiy et al. 2020, eq. (1); S1 §2.

    $$ X' = [\, x_\text{cls};\ x_1;\ \dots;\ x_n \,] $$

    Undefined: nothing.
    """
    return torch.cat([x_cls.expand(len(X), 1, -1), X], dim=1)


@requirement("EMB-15", "A learned class token, then a learned distillation token, stand before the first token.")
@equation("embedding.cls_and_distillation", slot="cls", variant="cls-and-distillation")
def cls_and_distillation(
    X: Float[Tensor, "B n d_model"], *, x_cls: Float[Tensor, "d_model"], x_dist: Float[Tensor, "d_model"]
) -> Float[Tensor, "B n+2 d_model"]:
    r"""Class and distillation token. Touvron et al. 2020 (DeiT), §4.

    $$ X' = [\, x_\text{cls};\ x_\text{dist};\ x_1;\ \dots;\ x_n \,] $$

    Undefined: nothing.
    """
    return cls(cls(X, x_cls=x_dist), x_cls=x_cls)


@requirement("EMB-6", "No token is prepended: the sequence keeps its length.")
@equation("embedding.no_cls", slot="cls", variant="none")
def no_cls(X: Float[Tensor, "B n d_model"]) -> Float[Tensor, "B n d_model"]:
    r"""Without class token. Vaswani et al. 2017, §3.4; S0 §2, S2 §1.2.

    $$ X' = X $$

    Undefined: nothing. (BERT's [CLS] is an ordinary token of the vocabulary.)
    """
    return X


@requirement("EMB-26", "Learned registers stand between class token and tokens, and no position is added to them.")
@equation("embedding.registers", slot="registers", variant="registers")
def registers(
    X: Float[Tensor, "B m d_model"], tokens: Float[Tensor, "B n d_model"], *, X_reg: Float[Tensor, "r d_model"]
) -> Float[Tensor, "B m+r d_model"]:
    r"""Registers. Darcet et al. 2023, §2.2; place and order are those of the released code (DINOv2).

    $$ [\, x_\text{cls};\ x_1;\ \dots;\ x_n \,] \leftarrow
       [\, x_\text{cls};\ x_{\text{reg},1};\ \dots;\ x_{\text{reg},r};\ x_1;\ \dots;\ x_n \,] $$

    What stands before the n tokens stays there. A class token without a position, as in DeiT III
    (Touvron et al. 2022), is a register: nothing in the computation tells the two apart.

    Undefined: where in the sequence they stand, of which attention knows nothing.
    """
    first = X.shape[1] - tokens.shape[1]
    return torch.cat([X[:, :first], X_reg.expand(len(X), -1, -1), X[:, first:]], dim=1)


@requirement("EMB-28", "Learned registers stand behind the last token, and no position is added to them.")
@equation("embedding.registers_behind", slot="registers", variant="registers-behind")
def registers_behind(
    X: Float[Tensor, "B m d_model"],
    tokens: Float[Tensor, "B n d_model"],  # noqa: ARG001 — how many there are decides where registers would else stand
    *,
    X_reg: Float[Tensor, "r d_model"],
) -> Float[Tensor, "B m+r d_model"]:
    r"""Registers behind the tokens. Darcet et al. 2023, §2.2, which does not say where they stand.

    $$ [\, x_\text{cls};\ x_1;\ \dots;\ x_n \,] \leftarrow
       [\, x_\text{cls};\ x_1;\ \dots;\ x_n;\ x_{\text{reg},1};\ \dots;\ x_{\text{reg},r} \,] $$

    Undefined: nothing.
    """
    return torch.cat([X, X_reg.expand(len(X), -1, -1)], dim=1)


@requirement("EMB-27", "No further token joins the sequence once the positions are added.")
@equation("embedding.no_registers", slot="registers", variant="none")
def no_registers(
    X: Float[Tensor, "B m d_model"],
    tokens: Float[Tensor, "B n d_model"],  # noqa: ARG001 — how many there are decides where registers would stand
) -> Float[Tensor, "B m d_model"]:
    r"""Without registers. Vaswani et al. 2017, §3.4; Dosovitskiy et al. 2020, eq. (1).

    $$ X \leftarrow X $$

    Undefined: nothing.
    """
    return X


@requirement("EMB-7", "X⁰ is the sum of (scaled) embedding and position: one position vector for each place.")
@equation("embedding.input", slot="input", variant="embedded")
def embedded(
    tokens: Tensor,
    *segment_ids: Tensor,
    embedding: Callable[..., Tensor],
    token_norm: Callable[..., Tensor],
    token_activation: Callable[..., Tensor],
    embedding_scale: Callable[..., Tensor],
    cls: Callable[..., Tensor],
    position: Callable[..., Tensor],
    segment: Callable[..., Tensor],
    registers: Callable[..., Tensor],
    embedding_norm: Callable[..., Tensor],
    dropout: Callable[..., Tensor],
) -> Float[Tensor, "B n d_model"]:
    r"""Encoder input. Vaswani et al. 2017, §3.4–3.5, §5.4; S0 §2, S1 §2, S2 §1.2, S4 §3.2.

    $$ X^{(0)} = \mathrm{Dropout}(X' + PE), \qquad X' = \mathrm{Cls}(\mathrm{Scale}(\mathrm{Embed}(x))) $$

    BERT adds a vector for the segment and normalises the sum: the slots ``segment`` and
    ``embedding_norm``, which are empty otherwise. Some encoders of features norm and activate what
    their map gives: ``token_norm`` and ``token_activation``. ``registers`` join the sum where there are
    any. (S4 writes H₀ = E + P, S1 writes Z₀ = X' + E_pos: the same sum.)

    Undefined: nothing.
    """
    scaled = embedding_scale(token_activation(token_norm(embedding(tokens))))
    X = cls(scaled)
    return dropout(embedding_norm(registers(segment(X + position(X), *segment_ids), scaled)))


@requirement("EMB-16", "X⁰ is an affine map, from width d_e to d_model, of the normed sum of embedding and position.")
@equation("embedding.factorised", slot="input", variant="factorised")
def factorised(
    tokens: Tensor,
    *segment_ids: Tensor,
    embedding: Callable[..., Float[Tensor, "B n d_e"]],
    token_norm: Callable[..., Float[Tensor, "B n d_e"]],
    token_activation: Callable[..., Float[Tensor, "B n d_e"]],
    embedding_scale: Callable[..., Float[Tensor, "B n d_e"]],
    cls: Callable[..., Float[Tensor, "B m d_e"]],
    position: Callable[..., Float[Tensor, "m d_e"]],
    segment: Callable[..., Float[Tensor, "B m d_e"]],
    registers: Callable[..., Float[Tensor, "B m d_e"]],
    embedding_norm: Callable[..., Float[Tensor, "B m d_e"]],
    dropout: Callable[..., Float[Tensor, "B m d_e"]],
    W_e: Float[Tensor, "d_e d_model"],
    b_e: Float[Tensor, "d_model"],
) -> Float[Tensor, "B n d_model"]:
    r"""Factorised embedding. Lan et al. 2019 (ALBERT), §3.1; Clark et al. 2020 (ELECTRA) likewise.

    $$ X^{(0)} = \mathrm{Dropout}(\mathrm{Norm}(X' + PE)) \, W_e + b_e, \qquad
       X' = \mathrm{Cls}(\mathrm{Scale}(\mathrm{Embed}(x))) $$

    Tokens, positions, segments and the norm have width d_e, which is d_model everywhere else: their
    tables are smaller by the factor d_e/d_model.

    Undefined: what of the input has width d_e. The paper speaks of the token embedding alone; this is
    its released code, which also adds the bias.
    """
    X = embedded(
        tokens,
        *segment_ids,
        embedding=embedding,
        token_norm=token_norm,
        token_activation=token_activation,
        embedding_scale=embedding_scale,
        cls=cls,
        position=position,
        segment=segment,
        registers=registers,
        embedding_norm=embedding_norm,
        dropout=dropout,
    )
    return X @ W_e + b_e


@requirement("EMB-8", "Each position gets the vector of its segment, added to token and position.")
@equation("embedding.segments", slot="segment", variant="added")
def segments(
    X: Float[Tensor, "B n d_model"], segment_ids: Int[Tensor, "B n"], *, E_seg: Float[Tensor, "segments d_model"]
) -> Float[Tensor, "B n d_model"]:
    r"""Segment embedding. Devlin et al. 2018, §3 and figure 2.

    $$ X \leftarrow X + E_\text{seg}[s] $$

    Every segment id lies in 0 … n_s − 1.

    Undefined: nothing.
    """
    return X + lookup(segment_ids, E=E_seg)


@requirement("EMB-11", "No segments are added.")
@equation("embedding.no_segments", slot="segment", variant="none")
def no_segments(X: Float[Tensor, "B n d_model"]) -> Float[Tensor, "B n d_model"]:
    r"""Without segments. Vaswani et al. 2017, §3.4; S0 §2, S2 §1.2.

    $$ X \leftarrow X $$

    Undefined: nothing.
    """
    return X


@requirement("EMB-10", "The sum of the embeddings is normalised before the first layer.")
@equation("embedding.norm", slot="embedding_norm", variant="norm")
def embedding_norm(
    X: Float[Tensor, "B n d_model"], *, norm_embedding: Callable[..., Tensor]
) -> Float[Tensor, "B n d_model"]:
    r"""Norm of the embeddings. Devlin et al. 2018, released code; Lewis et al. 2019 (BART) likewise.

    $$ X \leftarrow \mathrm{LN}(X) $$

    Undefined: nothing. (BERT's paper does not mention it.)
    """
    return norm_embedding(X)


@requirement("EMB-12", "The sum of the embeddings enters the first layer as it is.")
@equation("embedding.no_norm", slot="embedding_norm", variant="none")
def no_embedding_norm(X: Float[Tensor, "B n d_model"]) -> Float[Tensor, "B n d_model"]:
    r"""Without norm of the embeddings. Vaswani et al. 2017, §3.4; S0 §2, S2 §1.2.

    $$ X \leftarrow X $$

    Undefined: nothing.
    """
    return X


@requirement("EMB-9", "Embeddings that are given enter the first layer unchanged.")
@equation("embedding.given", slot="input", variant="given")
def given(X: Float[Tensor, "B n d_model"]) -> Float[Tensor, "B n d_model"]:
    r"""Given embeddings. The stack alone: Vaswani et al. 2017, §3.1; S4 §4.1.

    $$ X^{(0)} = X $$

    Undefined: nothing.
    """
    return X

"""Errata on normalisation."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from encoder_spec.assembly import Encoder
from encoder_spec.errata.erratum import SMALL, Finding, Findings, embeddings, entries, erratum, parameters


def normed(encoder: Encoder, x: Tensor) -> Tensor:
    """What the norm of an encoder makes of x, with γ = 1 and β = 0."""
    gamma = torch.ones(x.shape[-1], dtype=x.dtype)
    value: Tensor = encoder.bind({"gamma": gamma, "beta": 0 * gamma}, slot="norm")(x)
    return value


@erratum(
    "ERR-3",
    "Three norms under one name",
    source="S0 §4, S2 §3.3, S3 §3, S4 §4.2",
    said="Layer normalisation divides by σ + ε (S0), by √(σ² + ε) (S2, S4), or by s + ε with the "
    "standard deviation over d − 1 (S3, code).",
    right="Layer normalisation divides by √(σ² + ε), σ² over d. The other two are equations of their own: they agree "
    "with it only where σ ≫ √ε and d is large.",
    equations=("norm.layer_norm", "norm.std_plus_eps", "norm.unbiased_std_plus_eps"),
)
def three_norms() -> Findings:
    """The first feature of x = (σ, −σ) under each norm, at σ = 10⁻³ and σ = 1, with ε = 10⁻⁶."""
    encoder = SMALL.replace(eps=1e-6)

    def first(norm: str, sigma: float) -> float:
        return float(normed(encoder.replace(norm=norm), torch.tensor([sigma, -sigma], dtype=torch.float64))[0])

    return tuple(
        Finding(f"{source}, σ = {sigma:g}", first(norm, sigma), first("layer-norm", sigma))
        for sigma in (1e-3, 1.0)
        for source, norm in (("S0", "std-plus-eps"), ("S3", "unbiased-std-plus-eps"))
    )


def post_ln_with_one_norm(
    x: Float[Tensor, "B n d_model"],
    keep: Bool[Tensor, "#B #n #n"],
    *,
    multihead: Callable[..., Tensor],
    ffn: Callable[..., Tensor],
    norm_1: Callable[..., Tensor],
    residual: Callable[..., Tensor],
    dropout: Callable[..., Tensor],
) -> Float[Tensor, "B n d_model"]:
    """S3's layer as written: the same norm, with the same γ and β, after both sublayers."""
    x = norm_1(residual(x, dropout(multihead(x, keep))))
    return norm_1(residual(x, dropout(ffn(x))))


@erratum(
    "ERR-11",
    "One norm used twice",
    source="S3 §1, S3 §3, S3 §5",
    said="A layer calls one layer_norm after both sublayers.",
    right="A layer has two norms, each with its own γ and β, as S3 counts them in its §6. Training moves each "
    "by its own gradient; a shared norm moves by the sum of both.",
    equations=("layer.post_ln",),
)
def one_norm_twice() -> Findings:
    """Count the parameters of the norms; take the gradient of γ at γ = 1, where both layers agree."""

    def gradients(encoder: Encoder) -> list[Tensor]:
        values = parameters(encoder)
        gammas = [path for path in values if path.startswith("layers.0") and path.endswith("gamma")]
        for path in gammas:
            values[path].requires_grad_()
        # One entry as the loss: the sum over a position would be constant after a norm.
        return list(torch.autograd.grad(encoder(values, embeddings())[0, 0, 0], [values[path] for path in gammas]))

    wrong = SMALL.replace(layer=post_ln_with_one_norm)
    (shared,), (first, second) = gradients(wrong), gradients(SMALL)
    return (
        Finding(
            "entries of the norms of one layer, d_model = 15",
            *(entries(e, "layer", owner="norm") for e in (wrong, SMALL)),
        ),
        Finding("gradient of γ after attention, largest entry", float(shared.abs().max()), float(first.abs().max())),
        Finding("gradient of γ after the FFN, largest entry", float(shared.abs().max()), float(second.abs().max())),
        Finding("their sum, largest entry", float(shared.abs().max()), float((first + second).abs().max())),
    )


def over_the_sample(x: Float[Tensor, "*axes d_model"]) -> tuple[Tensor, Tensor]:
    """Mean and variance over positions and features together."""
    mu = x.mean(dim=(-2, -1), keepdim=True)
    return mu, (x - mu).square().mean(dim=(-2, -1), keepdim=True)


@erratum(
    "ERR-24",
    "What the norm averages over",
    source="S4 §2, S4 §4.2",
    said="Layer normalisation normalises each sample; μ and σ² are the mean and variance of the sample.",
    right="μ and σ² are those of the features at one position. Over the whole sample (n × d), the output at a position "
    "would change with the content, and the padding, of all others.",
    equations=("norm.statistics",),
)
def normed_over_the_sample() -> Findings:
    """Two positions of two features; the second position changes, the first is watched (ε = 0)."""
    encoder = SMALL.replace(eps=0.0)
    before = torch.tensor([[0.0, 2.0], [0.0, 2.0]], dtype=torch.float64)
    after = torch.tensor([[0.0, 2.0], [4.0, 6.0]], dtype=torch.float64)

    def watched(choice: Encoder, x: Tensor) -> float:
        return float(normed(choice, x)[0, 1])

    wrong = encoder.replace(statistics=over_the_sample)
    return (
        Finding("feature 1 of position 0, before", watched(wrong, before), watched(encoder, before)),
        Finding("the same, after position 1 has changed", watched(wrong, after), watched(encoder, after)),
    )

"""Errata on what surrounds a sublayer: the residual connection and dropout."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from encoder_spec.assembly import Encoder
from encoder_spec.dimensions import Dimensions
from encoder_spec.errata.erratum import SMALL, Finding, Findings, embeddings, erratum, numbers, parameters
from encoder_spec.module import initial
from encoder_spec.profiles import VASWANI_2017


@erratum(
    "ERR-9",
    "The gradient of the residual connection",
    source="S2 §3.2",
    said="∂L/∂x = ∂L/∂Output · (1 + ∂Sublayer/∂x).",
    right="∂L/∂x = ∂L/∂Output · (I + J): the identity matrix, J the Jacobian of the sublayer. "
    "Neither the derivatives of single features (the diagonal of J) nor 1 added to every entry of J give it.",
    equations=("residual",),
)
def residual_jacobian() -> Findings:
    """Sublayer(x) = (−x₁, x₀), ∂L/∂Output = (1, 2): the gradient by autograd and by both readings as a scalar."""
    J = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)
    upstream = torch.tensor([1.0, 2.0], dtype=torch.float64)
    x = torch.tensor([0.3, 0.7], dtype=torch.float64, requires_grad=True)
    y = SMALL.bind({}, slot="residual")(x, J @ x)
    (gradient,) = torch.autograd.grad(y, x, upstream)
    by_feature = upstream * (1 + J.diagonal())
    entry_by_entry = upstream @ (1 + J)
    return tuple(
        Finding(f"∂L/∂x, feature {i}, {reading}", float(said[i]), float(gradient[i]))
        for reading, said in (("feature by feature", by_feature), ("1 added to each entry", entry_by_entry))
        for i in range(2)
    )


def vanishing(x: Float[Tensor, "*axes d_model"]) -> Float[Tensor, "*axes d_model"]:
    """A sublayer whose output is 0."""
    return torch.zeros_like(x)


@erratum(
    "ERR-19",
    "Sublayers at initialisation",
    source="S2 §3.2",
    said="At first the output of a sublayer is near 0, so that the residual sum is near its input.",
    right="Not with the usual initialisation: under Xavier's, an FFN with d_ff = 4·d_model gives a normed input an "
    "output of √0.32 ≈ 0.57 times its length. It is so only where the last map starts at 0 on purpose.",
    equations=("residual", "ffn"),
)
def sublayer_at_initialisation() -> Findings:
    """‖FFN(x)‖/‖x‖ over 64 rows of zero mean and unit variance, d_model = 128, d_ff = 512."""
    encoder = Encoder(VASWANI_2017, Dimensions(d_model=128, h=8, d_ff=512, N=1))
    names = encoder.profile["ffn"].parameters
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        start = {n: initial(n, encoder.dimensions.shape(axes), torch.float64) for n, axes in names.items()}
    unit = {"gamma": torch.ones(128, dtype=torch.float64), "beta": torch.zeros(128, dtype=torch.float64)}
    x = encoder.bind(unit, slot="norm")(numbers(64, 128))

    def relative(choice: Encoder) -> float:
        return float(choice.bind(start, slot="ffn")(x).norm() / x.norm())

    return (Finding("‖FFN(x)‖ / ‖x‖", relative(encoder.replace(ffn=vanishing)), relative(encoder)),)


def attention_without_dropout(
    Q: Float[Tensor, "B h n d_k"],
    K: Float[Tensor, "B h n d_k"],
    V: Float[Tensor, "B h n d_v"],
    keep: Bool[Tensor, "#B #n #n"],
    *,
    scores: Callable[..., Tensor],
    mask: Callable[..., Tensor],
    weights: Callable[..., Tensor],
    values: Callable[..., Tensor],
) -> Float[Tensor, "B h n d_v"]:
    """Attention whose weights are never dropped."""
    return values(weights(mask(scores(Q, K), keep)), V)


def alternating(x: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
    """Noise that a reader can follow: it drops every other entry, in the order of memory."""
    return (torch.arange(x.numel(), dtype=x.dtype) % 2).reshape(x.shape)


@erratum(
    "ERR-20",
    "Which dropout is the attention's",
    source="S3 §7",
    said="The dropout on the output of the attention sublayer, before the residual sum, is the attention dropout; "
    "the layer has no other between Q, K, V and that sum.",
    right="Attention dropout acts on the weights A (S2 §3.5, released code); that on the sublayer's output is the "
    "residual dropout, a third place beside the one inside the FFN.",
    equations=("dropout", "attention"),
)
def attention_dropout() -> Findings:
    """Places of dropout in one layer, and the weights A that it sets to 0, when every other entry is dropped."""
    training = SMALL.replace(dropout="inverted", noise=alternating, p_drop=0.5)
    x = embeddings()

    def dropped(encoder: Encoder) -> list[Tensor]:
        """What dropout made of its argument, at each of its places in the first layer."""
        trace = encoder.trace(parameters(encoder), x)
        in_layer: list[Tensor] = [i.value for i in trace if i.equation.id == "dropout" and i.path == "layers.0"]
        return in_layer

    def weights_at_zero(encoder: Encoder) -> int:
        d = SMALL.dimensions
        return sum(int((A == 0).sum()) for A in dropped(encoder) if A.ndim == 4 and A.shape[1] == d.h)

    wrong = training.replace(attention=attention_without_dropout)
    return (
        Finding("calls of dropout in a layer", len(dropped(wrong)), len(dropped(training))),
        Finding("weights at 0, of B·h·n² = 294", weights_at_zero(wrong), weights_at_zero(training)),
    )

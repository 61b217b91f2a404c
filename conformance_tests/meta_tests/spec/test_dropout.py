"""Dropout: where it acts, what it keeps on average, and what it draws from."""

import math

import torch
from torch import Tensor

from conformance_tests.harness.checks import shows
from conformance_tests.meta_tests.spec.values import close, normal, random_parameters, refused, same, tensor
from encoder_spec.assembly import Encoder
from encoder_spec.dimensions import Dimensions
from encoder_spec.dropout import dropout, identity, noise
from encoder_spec.module import EncoderModule
from encoder_spec.profiles import TORCH_PRE_LN, VASWANI_2017

SIZES = Dimensions(d_model=6, h=3, d_ff=7, N=1, V=11)
ONE_LAYER = Encoder(TORCH_PRE_LN.replace(final_norm="none", dropout="inverted", p_drop=0.5), SIZES)


@shows("DROP-6")
def test_dropout_in_evaluation_is_the_identity() -> None:
    """What goes in comes out, entry by entry: (1, −2) stays (1, −2)."""
    same(identity(tensor([1, -2])), tensor([1, -2]))


@shows("DROP-1")
def test_an_encoder_repeats_itself_in_evaluation_alone() -> None:
    """Two calls in evaluation agree in every bit; two calls in training draw different masks."""
    torch.manual_seed(0)
    module = EncoderModule(Encoder(VASWANI_2017, SIZES))
    tokens = torch.tensor([[3, 1, 4, 1, 5]])
    assert not torch.equal(module.train()(tokens), module(tokens)), "training draws no new noise"
    same(module.eval()(tokens), module(tokens))


@shows("DROP-2")
def test_kept_entries_grow_and_dropped_ones_vanish() -> None:
    """P_drop = 3/4: entries with u ≥ 3/4 are kept and multiplied by 1/(1 − 3/4) = 4; u = (0.7, 0.75, 0.9, 0.1).

    (1, 2, 3, 4) becomes (0, 8, 12, 0). With P and 1 − P confused it would be (4/3, 8/3, 4, 0) or its like.
    """
    u = tensor([0.7, 0.75, 0.9, 0.1])
    same(dropout(tensor([1, 2, 3, 4]), P_drop=0.75, noise=lambda _: u), tensor([0, 8, 12, 0]))
    same(dropout(tensor([1, 2, 3, 4]), P_drop=0.0, noise=noise), tensor([1, 2, 3, 4]))


@shows("DROP-2")
def test_a_probability_that_drops_everything_is_refused() -> None:
    """P_drop = 1 leaves nothing to divide by 0; below 0 and above 1 there is no probability."""
    for P_drop in (1.0, -0.1, 1.5):
        with refused(match=rf"P_drop must lie in \[0, 1\), but is {P_drop}"):
            dropout(tensor([1]), P_drop=P_drop, noise=noise)


@shows("DROP-3")
def test_the_average_over_all_outcomes_is_the_input() -> None:
    """Of u = (k + 1/2)/20, k = 0 … 19, P_drop = 3/20 drops three; the other 17 give x · 20/17, on average x.

    Srivastava's own form, which keeps x and shrinks the weights in evaluation, would average to 17/20 x.
    """
    x = tensor([1, -2, 5])
    outcomes = [dropout(x, P_drop=0.15, noise=lambda x, k=k: torch.full_like(x, (k + 0.5) / 20)) for k in range(20)]
    assert sum(bool((y == 0).all()) for y in outcomes) == 3
    close(torch.stack(outcomes).mean(dim=0), x)


@shows("DROP-4")
def test_dropout_acts_on_weights_inside_the_ffn_and_on_both_sublayers() -> None:
    """B = 2, h = 3, n = 5, d_model = 6, d_ff = 7: the shapes (2, 3, 5, 5), (2, 5, 7) and twice (2, 5, 6) tell."""
    seen: list[tuple[int, ...]] = []

    def observed(x: Tensor) -> Tensor:
        seen.append(tuple(x.shape))
        return torch.ones_like(x)

    ONE_LAYER.replace(noise=observed)(random_parameters(ONE_LAYER), normal(0, 2, 5, 6))
    assert seen == [(2, 3, 5, 5), (2, 5, 6), (2, 5, 7), (2, 5, 6)], seen


@shows("DROP-4")
def test_a_dropped_sublayer_leaves_its_input() -> None:
    """Noise 0 drops every sublayer before the sum: x + 0 + 0 is x. Dropped after the sum, nothing would be left."""
    x = normal(1, 2, 5, 6)
    same(ONE_LAYER.replace(noise=lambda x: torch.zeros_like(x))(random_parameters(ONE_LAYER), x), x)


@shows("DROP-4")
def test_dropped_weights_and_inner_features_leave_the_biases() -> None:
    """Noise 0 on the weights: heads are 0, the sublayer b_O. Noise 0 inside the FFN: 0 W₂ + b₂ = b₂.

    Sublayer outputs are kept (noise 1), hence doubled at P_drop = 1/2: x + 2 b_O + 2 b₂.
    """

    def inner(x: Tensor) -> Tensor:
        return torch.full_like(x, float(x.shape[1:] == (5, 6)))

    p, x = random_parameters(ONE_LAYER), normal(2, 2, 5, 6)
    close(ONE_LAYER.replace(noise=inner)(p, x), x + 2 * p["layers.0.b_O"] + 2 * p["layers.0.b_2"])


@shows("DROP-5")
def test_the_noise_is_uniform() -> None:
    """The mean of m uniform draws has the standard deviation √(1/12m); m = 10⁵: 9.1e-4, five of them 4.6e-3.

    The fraction below P has √(P(1 − P)/m) ≤ 1.6e-3, five of them 7.9e-3. Products of neighbours average to
    1/4 if entries are independent; their deviation is at most √(1/9 · 3/m) ≈ 1.8e-3, five of them 9.1e-3.
    """
    torch.manual_seed(0)
    m = 100_000
    u = noise(torch.full((m,), 7.0, dtype=torch.float64))
    assert (u.min() >= 0) & (u.max() < 1)
    assert abs(u.mean() - 0.5) < 5 * math.sqrt(1 / 12 / m)
    for P in (0.1, 0.5, 0.9):
        assert abs((u < P).double().mean() - P) < 5 * math.sqrt(P * (1 - P) / m), P
    assert abs((u[1:] * u[:-1]).mean() - 0.25) < 5 * math.sqrt(1 / 3 / m)


@shows("DROP-5")
def test_the_noise_is_drawn_anew_for_every_entry_and_call() -> None:
    """No two of 2 · 210 draws of 53 bits are equal; the same seed draws the same."""
    x = torch.zeros(2, 3, 5, 7, dtype=torch.float64)
    torch.manual_seed(1)
    first, second = noise(x), noise(x)
    assert first.shape == x.shape
    assert len({*first.flatten().tolist(), *second.flatten().tolist()}) == 420
    torch.manual_seed(1)
    same(noise(x), first)

"""The feed-forward network and its activations, by hand and against another form of the same map."""

import math
from collections.abc import Callable
from functools import partial
from statistics import NormalDist

import torch
from torch import Tensor

from conformance_tests.harness.checks import shows
from conformance_tests.meta_tests.spec.values import close, normal, random_parameters, same, tensor
from encoder_spec.assembly import Encoder
from encoder_spec.dimensions import Dimensions
from encoder_spec.dropout import identity
from encoder_spec.ffn import (
    ffn,
    gated,
    gated_with_biases,
    gated_with_output_bias,
    gelu,
    gelu_tanh,
    quick_gelu,
    relu,
    silu,
    without_bias,
)
from encoder_spec.profiles import VASWANI_2017

GRID = torch.linspace(-12, 12, 24001, dtype=torch.float64)


def random_network(d_model: int, d_ff: int) -> dict[str, Tensor]:
    """Parameters of a feed-forward network."""
    return random_parameters(Encoder(VASWANI_2017, Dimensions(d_model=d_model, h=1, d_ff=d_ff)), "ffn")


@shows("FFN-1")
def test_relu_cuts_what_is_negative() -> None:
    """max(0, ·) of −2, −0.5, 0, 0.5, 3 is 0, 0, 0, 0.5, 3."""
    same(relu(tensor([-2, -0.5, 0, 0.5, 3])), tensor([0, 0, 0, 0.5, 3]))


@shows("FFN-2")
def test_gelu_weighs_by_the_normal_distribution_function() -> None:
    """Φ(1) = 0.8413447460685429: GELU(1) = Φ(1), GELU(2) = 2 Φ(2) = 2 · 0.9772498680518208, GELU(0) = 0.

    Φ(−1) = 1 − Φ(1): GELU(−1) = −0.1586552539314571. The standard library's Φ judges all other points.
    """
    expected = tensor([-0.1586552539314571, 0, 0.8413447460685429, 1.9544997361036416])
    close(gelu(tensor([-1, 0, 1, 2])), expected)
    close(gelu(GRID), tensor([x * NormalDist().cdf(x) for x in GRID.tolist()]))


@shows("FFN-3")
def test_gelu_is_between_nothing_and_the_identity() -> None:
    """Φ(x) + Φ(−x) = 1 gives GELU(x) − GELU(−x) = x; 0 ≤ Φ ≤ 1 gives the bounds."""
    close(gelu(GRID) - gelu(-GRID), GRID)
    assert (gelu(GRID) >= GRID.clamp(max=0)).all()
    assert (gelu(GRID) <= GRID.clamp(min=0)).all()


@shows("FFN-11", "FFN-12")
def test_logistic_gates_are_those_of_two_steepnesses() -> None:
    """The logistic function of ln 3 is 3/4, of −ln 3 is 1/4.

    So SiLU(±ln 3) = ln 3 · 3/4 and −ln 3 · 1/4, and quick GELU has these gates at ±ln 3 / 1.702.
    """
    x = math.log(3)
    close(silu(tensor([x, 0, -x])), tensor([3 / 4 * x, 0, -x / 4]))
    x /= 1.702
    close(quick_gelu(tensor([x, 0, -x])), tensor([3 / 4 * x, 0, -x / 4]))


@shows("FFN-13")
def test_one_map_gates_the_other() -> None:
    """X = (1, 2), W₁ = (1, 1)ᵀ, W_G = (3, −1)ᵀ: the gate is ReLU(3) = 3, the other map 3 − 2 = 1.

    Their product 3 through W₂ = (2, −5) is (6, −15). With W₁ = (−1, 0)ᵀ the gate is ReLU(−1) = 0.
    """
    network = partial(gated, activation=relu, dropout=identity, W_G=tensor([[3], [-1]]), W_2=tensor([[2, -5]]))
    same(network(tensor([[1, 2]]), W_1=tensor([[1], [1]])), tensor([[6, -15]]))
    same(network(tensor([[1, 2]]), W_1=tensor([[-1], [0]])), tensor([[0, 0]]))


@shows("FFN-13")
def test_dropout_acts_on_the_product_of_both_maps() -> None:
    """X = (1, 2), W₁ = (1, 1)ᵀ, W_G = (4, −1)ᵀ: ReLU(3) = 3 and 4 − 2 = 2 make 6; dropout, here · − 10, leaves −4.

    Through W₂ = (2, −5) that is (−8, 20). On the gate alone it would leave −7 · 2 = −14, on the map 3 · −8 = −24.
    """
    maps = {"W_1": tensor([[1], [1]]), "W_G": tensor([[4], [-1]]), "W_2": tensor([[2, -5]])}
    same(gated(tensor([[1, 2]]), activation=relu, dropout=lambda x: x - 10, **maps), tensor([[-8, 20]]))


@shows("FFN-14")
def test_gate_with_biases_is_of_three_affine_maps() -> None:
    """X = (1, 2), W₁ = (1, 1)ᵀ, b₁ = −1, W_G = (3, −1)ᵀ, b_G = 4: the gate is ReLU(3 − 1) = 2, the other map 1 + 4 = 5.

    Their product 10 through W₂ = (2, −5) and b₂ = (7, 11) is (27, −39); dropout on it, here · − 4, leaves 6 and
    (19, −19). With b₁ = −4 the gate is ReLU(−1) = 0, and b₂ alone is left.
    """
    maps = {"W_1": [[1], [1]], "W_G": [[3], [-1]], "b_G": [4], "W_2": [[2, -5]], "b_2": [7, 11]}
    network = partial(gated_with_biases, tensor([[1, 2]]), activation=relu, **{n: tensor(w) for n, w in maps.items()})
    same(network(dropout=identity, b_1=tensor([-1])), tensor([[27, -39]]))
    same(network(dropout=lambda x: x - 4, b_1=tensor([-1])), tensor([[19, -19]]))
    same(network(dropout=identity, b_1=tensor([-4])), tensor([[7, 11]]))


@shows("FFN-15")
def test_gate_with_one_bias_has_it_behind_the_last_map() -> None:
    """X = (1, 2), W₁ = (1, 1)ᵀ, W_G = (3, −1)ᵀ: the gate is ReLU(3) = 3, the other map 1, their product 3.

    Through W₂ = (2, −5) and b₂ = (7, 11) that is (13, −4); dropout on the product, here · − 1, leaves 2: (11, 1). With
    W₁ = (−1, 0)ᵀ the gate is 0, and b₂ alone is left.
    """
    maps = {"W_G": [[3], [-1]], "W_2": [[2, -5]], "b_2": [7, 11]}
    network = partial(
        gated_with_output_bias, tensor([[1, 2]]), activation=relu, **{n: tensor(w) for n, w in maps.items()}
    )
    same(network(dropout=identity, W_1=tensor([[1], [1]])), tensor([[13, -4]]))
    same(network(dropout=lambda x: x - 1, W_1=tensor([[1], [1]])), tensor([[11, 1]]))
    same(network(dropout=identity, W_1=tensor([[-1], [0]])), tensor([[7, 11]]))


@shows("FFN-4")
def test_tanh_gelu_is_the_published_approximation() -> None:
    """At 1 the tanh is of √(2/π) (1 + 0.044715).

    That is 0.7978845608 · 1.044715 = 0.8335619690, its tanh 0.6823839812, and (1 + 0.6823839812)/2 =
    0.8411919906, against 0.8413447461 of GELU. At −1 the tanh changes sign: −(1 − 0.6823839812)/2.
    """
    torch.testing.assert_close(gelu_tanh(tensor([1, -1])), tensor([0.8411919906, -0.1588080094]), rtol=0, atol=1e-10)
    inner = [math.sqrt(2 / math.pi) * (x + 0.044715 * x**3) for x in GRID.tolist()]
    close(gelu_tanh(GRID), tensor([x * (1 + math.tanh(z)) / 2 for x, z in zip(GRID.tolist(), inner, strict=True)]))


@shows("FFN-5")
def test_tanh_gelu_differs_from_gelu_by_little_but_visibly() -> None:
    """Beyond |x| = 12 both are x or 0 to the last digit, so the grid decides for every x."""
    difference = (gelu_tanh(GRID) - gelu(GRID)).abs()
    assert 4e-4 < difference.max() < 5e-4, f"the largest difference is {difference.max():.3e}"
    assert difference[[0, -1]].max() < 1e-15


BY_HAND = {"W_1": tensor([[1, -1, 0], [1, -1, 1]]), "W_2": tensor([[1, 2], [10, 20], [100, 200]])}


@shows("FFN-6")
def test_the_network_is_the_one_derived_by_hand() -> None:
    """From x = (1, 2), columns of W₁ (1, 1), (−1, −1), (0, 1): x W₁ = (3, −3, 2); b₁ = (0, 1, −5): (3, −2, −3).

    ReLU: (3, 0, 0). W₂: 3 · (1, 2) = (3, 6); b₂ = (−5, 1): (−2, 7). No activation follows: −2 stays.
    """
    biases = {"b_1": tensor([0, 1, -5]), "b_2": tensor([-5, 1])}
    same(ffn(tensor([[1, 2]]), activation=relu, dropout=identity, **BY_HAND, **biases), tensor([[-2, 7]]))


@shows("FFN-10")
def test_the_network_without_biases_is_the_one_derived_by_hand() -> None:
    """From x = (1, 2): x W₁ = (3, −3, 2), ReLU (3, 0, 2), W₂: 3 · (1, 2) + 2 · (100, 200) = (203, 406)."""
    same(without_bias(tensor([[1, 2]]), activation=relu, dropout=identity, **BY_HAND), tensor([[203, 406]]))


@shows("FFN-6", "FFN-10")
def test_dropout_stands_between_activation_and_second_map() -> None:
    """Dropout, here · − 10, sees (3, 0, 2) after ReLU: (−7, −10, −8) W₂ = −7 − 100 − 800 = −907, twice that −1814.

    Before the activation it would leave nothing: (−7, −13, −8) becomes 0.
    """
    zeros = {"b_1": tensor([0, 0, 0]), "b_2": tensor([0, 0])}
    for network, biases in ((ffn, zeros), (without_bias, {})):
        y = network(tensor([[1, 2]]), activation=relu, dropout=lambda x: x - 10, **BY_HAND, **biases)
        same(y, tensor([[-907, -1814]]))


@shows("FFN-7")
def test_each_position_is_mapped_by_itself() -> None:
    """The network on a sequence is the network on each of its vectors, with one set of parameters."""
    network: Callable[..., Tensor] = partial(ffn, activation=gelu, dropout=identity, **random_network(7, 11))
    x = normal(4, 2, 5, 7)
    close(network(x), torch.stack([torch.stack([network(vector) for vector in sample]) for sample in x]))


@shows("FFN-8")
def test_the_network_equals_two_convolutions_of_size_one() -> None:
    """A kernel of size 1 maps the channels of one position: its weight is W transposed, (out, in, 1)."""
    p, x = random_network(7, 11), normal(5, 2, 5, 7)
    inner = torch.nn.functional.conv1d(x.mT, p["W_1"].mT[..., None], p["b_1"]).relu()
    outer = torch.nn.functional.conv1d(inner, p["W_2"].mT[..., None], p["b_2"])
    close(ffn(x, activation=relu, dropout=identity, **p), outer.mT)


@shows("FFN-9")
def test_the_network_has_the_counted_parameters() -> None:
    """With d = 512, d_ff = 2048: 2 · 1048576 + 2048 + 512 = 2099712; d = 3, d_ff = 5: 30 + 5 + 3 = 38."""
    for d_model, d_ff, count in [(512, 2048, 2_099_712), (3, 5, 38)]:
        shapes = Encoder(VASWANI_2017, Dimensions(d_model=d_model, h=1, d_ff=d_ff, N=1)).parameter_shapes()
        mine = [math.prod(shape) for path, shape in shapes.items() if path.endswith(("_1", "_2"))]
        assert sum(mine) == count, f"{d_model}, {d_ff}: {sum(mine)}"

"""What stands on top of the encoder, by hand."""

import inspect
import math
from collections.abc import Callable

import pytest
import torch

from conformance_tests.harness.checks import shows
from conformance_tests.meta_tests.spec.values import (
    EVERYTHING,
    LN_2,
    LN_3,
    close,
    random_parameters,
    refused,
    same,
    tensor,
)
from encoder_spec.assembly import Encoder
from encoder_spec.dimensions import Dimensions
from encoder_spec.ffn import relu
from encoder_spec.head import (
    any_length,
    attention_pool,
    classifier,
    counted,
    first,
    largest,
    last,
    mean,
    mlm,
    none,
    nsp,
    pooled,
    pooler,
    read,
    transformed,
    unit_length,
)
from encoder_spec.profiles import BERT, VASWANI_2017

SIZES = Dimensions(d_model=6, h=3, d_ff=7, N=1, V=11, max_len=13, classes=5)

PADDED = tensor([[[1, 2], [3, 4], [math.nan, math.inf]], [[100, 200], [5, 7], [-1, 1e300]]])
KEPT = torch.tensor([[[True, True, False]], [[False, True, False]]])


@shows("HEAD-1")
def test_without_a_head_the_hidden_states_come_out() -> None:
    """(1, 2), (3, 4) stay as they are, padding included."""
    Z = tensor([[[1, 2], [3, 4]]])
    same(none(Z, torch.tensor([[[True, False]]])), tensor([[[1, 2], [3, 4]]]))
    plain, averaged = (Encoder(VASWANI_2017.replace(head=head, pool="mean"), SIZES) for head in ("none", "pooled"))
    p = random_parameters(plain)
    tokens = torch.tensor([[3, 1, 4, 1]])
    close(plain(p, tokens).mean(dim=1), averaged(p, tokens))


@shows("HEAD-2")
def test_the_first_position_alone_is_read() -> None:
    """Z₀ = (1, 2), whatever the second position holds."""
    for rest in (0, math.inf):
        same(first(tensor([[[1, 2], [rest, rest]]]), EVERYTHING), tensor([[1, 2]]))


@shows("HEAD-6")
def test_the_pooled_vector_of_each_sequence_is_returned() -> None:
    """(3, 4) and (5, 12), the means of two sequences, as they are; of length 1, (3/5, 4/5) and (5/13, 12/13)."""
    Z = tensor([[[1, 2], [5, 6]], [[5, 12], [5, 12]]])
    same(pooled(Z, EVERYTHING, pool=mean, length=any_length), tensor([[3, 4], [5, 12]]))
    close(pooled(Z, EVERYTHING, pool=mean, length=unit_length), tensor([[3 / 5, 4 / 5], [5 / 13, 12 / 13]]))


@shows("HEAD-7")
def test_the_classifier_maps_the_pooled_vector() -> None:
    """(1, 2), columns of W (1, 10) and (100, 1000), b = (5, 7): (1 + 20 + 5, 100 + 2000 + 7) = (26, 2107).

    What the second position holds does not matter. b = (−18, −2096): (3, 4), brought to length 1 behind the map.
    """
    W_cls, b_cls = tensor([[1, 100], [10, 1000]]), tensor([5, 7])
    for rest in (0, math.inf):
        Z = tensor([[[1, 2], [rest, rest]]])
        y = classifier(Z, EVERYTHING, pool=first, length=any_length, W_cls=W_cls, b_cls=b_cls)
        same(y, tensor([[26, 2107]]))
        b = tensor([-18, -2096])
        y = classifier(Z, EVERYTHING, pool=first, length=unit_length, W_cls=W_cls, b_cls=b)
        close(y, tensor([[3 / 5, 4 / 5]]))


@shows("HEAD-13")
def test_what_is_made_of_a_sequence_is_made_of_its_vector_alone() -> None:
    """The means are (3, 4) and (5, 12); their squares sum to 25 and 169. Of the squares, means would differ."""
    Z = tensor([[[1, 2], [5, 6]], [[2, 9], [8, 15]]])

    def squared(u: torch.Tensor) -> torch.Tensor:
        return (u**2).sum(-1, keepdim=True)

    same(transformed(Z, EVERYTHING, pool=mean, transform=squared), tensor([[25], [169]]))
    same(transformed(Z, EVERYTHING, pool=first, transform=squared), tensor([[5], [85]]))


@shows("HEAD-15")
def test_a_sequence_gives_what_its_valid_positions_give_alone() -> None:
    """The mean of (1, 2) and (3, 4) is (2, 3), with padding behind them or without; (5, 7) is all of the second."""
    same(read(PADDED, KEPT, reader=mean), tensor([[2, 3], [5, 7]]))
    same(read(PADDED[:1, :2], EVERYTHING, reader=mean), tensor([[2, 3]]))
    same(read(PADDED[1:, 1:2], EVERYTHING, reader=mean), tensor([[5, 7]]))


@shows("HEAD-16")
def test_a_learned_query_weighs_the_valid_positions() -> None:
    """d_k = 9: nine ones are q, and W_K turns (1, 2) into nine times ln 3/3, (0, 4) into 0: scores 3 ln 3/√9 and 0.

    The weights are 3/4 and 1/4, the values 1 and 0, and W_O turns 3/4 into (3/4, 15/2). A second head with q = 0 turns
    the mean of the values 2 and 4 into (6, 0). Padding may hold anything. Where all is padding, zeros come out.
    """
    Z = tensor([[[1, 2], [0, 4], [math.nan, math.inf]]])
    q = tensor([[1] * 9, [0] * 9])
    W_K = tensor([[[LN_3 / 3] * 9, [0] * 9], [[1] * 9, [1] * 9]])
    W_V, W_O = tensor([[[1], [0]], [[0], [1]]]), tensor([[[1, 10]], [[2, 0]]])
    arrays = {"q_pool": q, "W_K_pool": W_K, "W_V_pool": W_V, "W_O_pool": W_O}
    close(attention_pool(Z, torch.tensor([[[True, True, False]]]), **arrays), tensor([[27 / 4, 15 / 2]]))
    same(attention_pool(Z, torch.tensor([[[False, False, False]]]), **arrays), tensor([[0, 0]]))


@shows("HEAD-14")
def test_the_pooling_layer_ends_in_a_hyperbolic_tangent() -> None:
    """(1, 2), columns of W (1, 2) and (−3, 1), b = (−4, 2): u W + b = (1, 1), whose tanh is (e² − 1)/(e² + 1).

    (ln 3/2 + 4, 0) has ln 3/2 as its first entry, and tanh(ln 3/2) = (3 − 1)/(3 + 1).
    """
    W, b = tensor([[1, -3], [2, 1]]), tensor([-4, 2])
    close(pooler(tensor([[1, 2]]), W_pool=W, b_pool=b), tensor([[(math.e**2 - 1) / (math.e**2 + 1)] * 2]))
    close(pooler(tensor([[LN_3 / 2 + 4, 0]]), W_pool=W, b_pool=b)[:, :1], tensor([[1 / 2]]))


@shows("HEAD-3")
def test_the_mean_runs_over_the_valid_positions_alone() -> None:
    """(1, 2) and (3, 4) average to (2, 3), whatever stands at the padding; the second sequence keeps (5, 7) alone."""
    same(mean(PADDED, KEPT), tensor([[2, 3], [5, 7]]))


@shows("HEAD-8")
def test_the_last_valid_position_is_read_wherever_padding_stands() -> None:
    """(3, 4) is the last of two valid positions; (5, 7), the only one, has padding on either side."""
    same(last(PADDED, KEPT), tensor([[3, 4], [5, 7]]))


@shows("HEAD-12")
def test_the_number_of_valid_positions_tells_the_last_one_where_padding_stands_behind() -> None:
    """Two are valid: position 1, (3, 4). Of the other sequence one is valid: position 0, which is padding there."""
    same(counted(PADDED, KEPT), tensor([[3, 4], [100, 200]]))


@shows("HEAD-9")
def test_each_feature_is_the_largest_over_the_valid_positions() -> None:
    """(1, 9) and (3, 4) give (3, 9), and (−5, −7) alone gives itself: neither 0 nor padding is larger."""
    Z = tensor([[[1, 9], [3, 4], [math.inf, 1e300]], [[100, 200], [-5, -7], [-1, 1e300]]])
    same(largest(Z, KEPT), tensor([[3, 9], [-5, -7]]))


@shows("HEAD-3", "HEAD-8", "HEAD-9", "HEAD-12")
@pytest.mark.parametrize("pool", [mean, last, counted, largest])
def test_without_padding_all_positions_count(pool: Callable[..., torch.Tensor]) -> None:
    """(1 + 3 + 8)/3 = 4, the last and the largest are 8; with a mask, and with one that keeps all by broadcasting."""
    Z = tensor([[[1], [3], [8]], [[0], [3], [0]]])
    want = {mean: [[4], [1]], largest: [[8], [3]]}.get(pool, [[8], [0]])
    for keep in (EVERYTHING, torch.ones(2, 1, 3, dtype=torch.bool)):
        same(pool(Z, keep), tensor(want))


@shows("HEAD-3")
def test_the_mean_over_nothing_is_zero() -> None:
    """A sequence of padding alone: 0/0, which is 0 here; (5) and (7) beside it average to 6. Slopes are 1/2, or 0."""
    Z = tensor([[[1], [3]], [[5], [7]]]).requires_grad_()
    y = mean(Z, torch.tensor([[[False, False]], [[True, True]]]))
    same(y, tensor([[0], [6]]))
    (gradient,) = torch.autograd.grad(y.sum(), Z)
    same(gradient, tensor([[[0], [0]], [[0.5], [0.5]]]))


@shows("HEAD-8", "HEAD-9", "HEAD-12")
@pytest.mark.parametrize(("pool", "want"), [(last, 1), (counted, 1), (largest, 0)])
def test_of_a_sequence_that_is_all_padding_something_finite_is_read(
    pool: Callable[..., torch.Tensor], want: int
) -> None:
    """The first position, or 0 for the largest of nothing, also beside a sequence that has something."""
    same(pool(tensor([[[1], [3]]]), torch.tensor([[[False, False]]])), tensor([[want]]))
    keep = torch.tensor([[[False, False]], [[True, True]]])
    same(pool(tensor([[[1], [3]], [[5], [7]]]), keep), tensor([[want], [7]]))


@shows("HEAD-3", "HEAD-8", "HEAD-9", "HEAD-12")
@pytest.mark.parametrize("pool", [mean, last, counted, largest])
def test_a_pool_runs_where_its_hidden_states_are(pool: Callable[..., torch.Tensor]) -> None:
    """On any device, of which ``meta`` stands for all."""
    keep = torch.ones(2, 1, 3, dtype=torch.bool, device="meta")
    assert pool(torch.zeros(2, 3, 4, device="meta"), keep).device.type == "meta"


@shows("HEAD-3", "HEAD-8", "HEAD-9", "HEAD-12")
@pytest.mark.parametrize("pool", [mean, last, counted, largest])
def test_a_pool_with_a_mask_for_each_query_is_refused(pool: Callable[..., torch.Tensor]) -> None:
    """Which of its three rows would tell what is padding? Unwrapped, since the annotations refuse it before."""
    with refused(match=r"the mask must be one for all queries, of shape \(B, n\)"):
        inspect.unwrap(pool)(tensor([[[1], [3], [8]]]), torch.ones(1, 3, 3, dtype=torch.bool))


@shows("HEAD-10")
def test_a_vector_comes_as_long_as_it_is() -> None:
    """(3, 4) stays (3, 4)."""
    same(any_length(tensor([[3, 4]])), tensor([[3, 4]]))


@shows("HEAD-11")
def test_a_vector_is_brought_to_length_one() -> None:
    """(3, 4) has length 5; (−8, 6) has length 10; a vector of zeros stays one, and has a slope of 1."""
    u = tensor([[3, 4], [-8, 6], [0, 0]]).requires_grad_()
    y = unit_length(u)
    close(y, tensor([[0.6, 0.8], [-0.8, 0.6], [0, 0]]))
    (gradient,) = torch.autograd.grad(y[2].sum(), u)
    same(gradient[2], tensor([1, 1]))


@shows("HEAD-4")
def test_logits_over_the_vocabulary_are_those_derived_by_hand() -> None:
    """From z = (1, 2), W = ((1, 0), (1, −1)), b = (0, 1): (3, −2 + 1); ReLU (3, 0); the norm, here + 1: (4, 1).

    Rows of E (1, 0), (0, 1), (10, 100) and b_V = (0, 5, 0): logits (4, 1 + 5, 140) = (4, 6, 140).
    z = 0: (0, 1), ReLU (0, 1), + 1: (1, 2), logits (1, 2 + 5, 210).
    """
    y = mlm(
        tensor([[[1, 2], [0, 0]]]),
        EVERYTHING,
        activation=relu,
        norm_head=lambda z: z + 1,
        W_mlm=tensor([[1, 0], [1, -1]]),
        b_mlm=tensor([0, 1]),
        E=tensor([[1, 0], [0, 1], [10, 100]]),
        b_vocab=tensor([0, 5, 0]),
    )
    same(y, tensor([[[4, 6, 140], [1, 7, 210]]]))


@shows("HEAD-4")
def test_the_vocabulary_is_read_through_the_token_embedding() -> None:
    """The encoder has one E, for the way in and out.

    A token that does not occur enters through its logit alone: with its row of E doubled, its logit
    doubles (b_V = 0) and no other changes.
    """
    encoder = Encoder(BERT.replace(head="mlm"), SIZES)
    shapes = encoder.parameter_shapes()
    assert [path for path, shape in shapes.items() if shape == (11, 6)] == ["E"]
    p = random_parameters(encoder)
    p["b_vocab"] = torch.zeros(11, dtype=torch.float64)
    tokens, segment_ids = torch.tensor([[3, 1, 4, 1]]), torch.tensor([[0, 0, 1, 1]])
    doubled = torch.ones(11, dtype=torch.float64)
    doubled[9] = 2
    y = encoder(p, tokens, segment_ids)
    assert y.shape == (1, 4, 11), y.shape
    close(encoder(p | {"E": p["E"] * doubled[:, None]}, tokens, segment_ids), y * doubled)


@shows("HEAD-5")
def test_the_next_sentence_logits_are_those_derived_by_hand() -> None:
    """tanh(ln 2) = (2 − 1/2)/(2 + 1/2) = 3/5, tanh(ln 3) = (3 − 1/3)/(3 + 1/3) = 4/5.

    Z₀ = (ln 2, 0), W_p = I, b_p = (0, ln 3): pooled (3/5, 4/5). W = ((5, 10), (5, −10)), b = (1, 3):
    (3 + 4 + 1, 6 − 8 + 3) = (8, 1). The second position has no say.
    """
    for rest in (0, math.inf):
        y = nsp(
            tensor([[[LN_2, 0], [rest, rest]]]),
            EVERYTHING,
            W_pool=torch.eye(2, dtype=torch.float64),
            b_pool=tensor([0, LN_3]),
            W_nsp=tensor([[5, 10], [5, -10]]),
            b_nsp=tensor([1, 3]),
        )
        close(y, tensor([[8, 1]]))

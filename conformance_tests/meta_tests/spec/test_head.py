"""What stands on top of the encoder, by hand."""

import inspect
import math

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
from encoder_spec.head import cls, mean_pool, mlm, none, nsp
from encoder_spec.profiles import BERT, VASWANI_2017

SIZES = Dimensions(d_model=6, h=3, d_ff=7, N=1, V=11, max_len=13, classes=5)


@shows("HEAD-1")
def test_without_a_head_the_hidden_states_come_out() -> None:
    """(1, 2), (3, 4) stay as they are, padding included."""
    Z = tensor([[[1, 2], [3, 4]]])
    same(none(Z, torch.tensor([[[True, False]]])), tensor([[[1, 2], [3, 4]]]))
    plain, pooled = Encoder(VASWANI_2017, SIZES), Encoder(VASWANI_2017.replace(head="mean-pool"), SIZES)
    p = random_parameters(plain)
    tokens = torch.tensor([[3, 1, 4, 1]])
    close(plain(p, tokens).mean(dim=1), pooled(p, tokens))


@shows("HEAD-2")
def test_the_classifier_reads_the_first_position_alone() -> None:
    """Z₀ = (1, 2), columns of W (1, 10) and (100, 1000), b = (5, 7): (1 + 20 + 5, 100 + 2000 + 7) = (26, 2107).

    What the second position holds does not matter.
    """
    W_cls, b_cls = tensor([[1, 100], [10, 1000]]), tensor([5, 7])
    for rest in (0, math.inf):
        Z = tensor([[[1, 2], [rest, rest]]])
        same(cls(Z, EVERYTHING, W_cls=W_cls, b_cls=b_cls), tensor([[26, 2107]]))


@shows("HEAD-3")
def test_the_mean_runs_over_the_valid_positions_alone() -> None:
    """(1, 2) and (3, 4) average to (2, 3), whatever stands at the padding; the second sequence keeps (5, 7) alone."""
    Z = tensor([[[1, 2], [3, 4], [math.nan, math.inf]], [[100, 200], [5, 7], [-1, 1e300]]])
    keep = torch.tensor([[[True, True, False]], [[False, True, False]]])
    same(mean_pool(Z, keep), tensor([[2, 3], [5, 7]]))


@shows("HEAD-3")
def test_the_mean_without_padding_is_that_of_all_positions() -> None:
    """(1 + 3 + 8)/3 = 4 with a mask of its own, and with one that keeps everything by broadcasting."""
    Z = tensor([[[1], [3], [8]], [[0], [3], [0]]])
    for keep in (EVERYTHING, torch.ones(2, 1, 3, dtype=torch.bool)):
        same(mean_pool(Z, keep), tensor([[4], [1]]))


@shows("HEAD-3")
def test_the_mean_over_nothing_is_zero() -> None:
    """A sequence of padding alone: 0/0, which is 0 here; (5) and (7) beside it average to 6. Slopes are 1/2, or 0."""
    Z = tensor([[[1], [3]], [[5], [7]]]).requires_grad_()
    y = mean_pool(Z, torch.tensor([[[False, False]], [[True, True]]]))
    same(y, tensor([[0], [6]]))
    (gradient,) = torch.autograd.grad(y.sum(), Z)
    same(gradient, tensor([[[0], [0]], [[0.5], [0.5]]]))


@shows("HEAD-3")
def test_a_mean_with_a_mask_for_each_query_is_refused() -> None:
    """Which of its three rows would tell what is padding? Unwrapped, since the annotations refuse it before."""
    with refused(match=r"the mask must be one for all queries, of shape \(B, n\)"):
        inspect.unwrap(mean_pool)(tensor([[[1], [3], [8]]]), torch.ones(1, 3, 3, dtype=torch.bool))


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

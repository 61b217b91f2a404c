"""Random numbers for arrays: those of small ones are drawn, and large ones read one block."""

import torch

from conformance_tests.numerics.noise import BLOCK, NOISE, Noise, WithNoise, block_of, first_names, moderate, with_noise

SHAPES = {"small": (3, 4), "large": (1200, 1000), "vector": (5,), "other": (1200, 1000)}


def test_small_arrays_are_drawn_one_behind_the_other() -> None:
    generator = torch.Generator().manual_seed(7)
    noise = Noise(7, SHAPES)
    for name in ("small", "vector"):
        want = torch.randn(SHAPES[name], generator=generator, dtype=torch.float64)
        assert torch.equal(noise.of(name, SHAPES[name]), want)


def test_a_large_array_is_standard_normal_and_no_other_one_nor_are_two_rows_equal() -> None:
    """Of 1.2 million entries: the mean is within 5/√n of 0, the variance within 5·√(2/n) of 1."""
    noise = Noise(7, SHAPES)
    x, other = (noise.of(name, SHAPES[name]) for name in ("large", "other"))
    n = x.numel()
    assert n > BLOCK
    assert abs(float(x.mean())) < 5 / n**0.5
    assert abs(float(x.var()) - 1) < 5 * (2 / n) ** 0.5
    assert not torch.equal(x, other)
    assert len({tuple(row[:3].tolist()) for row in x}) == len(x)


def test_a_large_array_goes_on_at_the_beginning_of_the_block() -> None:
    flat = Noise(3, {"large": (2 * BLOCK,)}).of("large", (2 * BLOCK,))
    assert torch.equal(flat, torch.cat([block_of(3), block_of(3)]))


def test_what_is_written_does_not_depend_on_the_order_in_memory() -> None:
    noise = Noise(7, SHAPES)
    turned = torch.empty(1000, 1200, dtype=torch.float64).mT
    noise.write("large", turned)
    assert torch.equal(turned, noise.of("large", SHAPES["large"]))


def test_an_array_with_two_names_goes_by_the_first() -> None:
    x, y = torch.ones(2), torch.ones(2)
    assert first_names({"a": x, "b": y, "c": x}) == {"a": "a", "b": "b", "c": "a"}


def test_weights_with_noise_are_made_anew_and_alike_each_time() -> None:
    """Those with two names are one array; constants have no noise, and a precision that is not float64 is widened."""
    table, whole = torch.randn(3, 4), torch.arange(3)
    weights = {"table": table, "tied": table, "frozen": torch.ones(2), "whole": whole}
    noisy = WithNoise(weights, {"frozen"})
    assert torch.equal(noisy["table"], noisy["tied"])
    assert noisy["table"] is not noisy["table"]
    want = table.double() + NOISE * Noise(0, {name: weights[name].shape for name in ("table", "frozen", "whole")}).of(
        "table", (3, 4)
    )
    assert torch.allclose(noisy["table"], want, rtol=0, atol=1e-15)
    assert torch.equal(noisy["frozen"], torch.ones(2))
    assert torch.equal(noisy["whole"], whole)
    assert list(noisy) == list(weights)
    assert len(noisy) == 4
    assert "absent" not in noisy
    made = with_noise(weights, {"frozen"})
    assert made["table"] is made["tied"]
    assert all(torch.equal(made[name], noisy[name]) for name in weights)


def test_noise_is_added_to_the_numbers_that_were_given() -> None:
    held, given = {"w": torch.full((2,), 7.0)}, {"w": torch.zeros(2)}
    assert torch.allclose(WithNoise(held, (), given)["w"], WithNoise(held, ())["w"] - 7)


def test_weights_that_no_training_gives_count_as_zero() -> None:
    """An array with NaN, infinity or 1e30 becomes 0, before noise is added or without it.

    The numbers beside these are no weights either; 10,000 is kept, and so are constants.
    """
    w = torch.tensor([1.5, -1e4, 1e30, -torch.inf, torch.nan])
    for unfit in w[2:]:
        assert moderate(torch.stack([w[0], unfit])).tolist() == [0, 0]
    fit = w[:2]
    assert moderate(fit) is fit
    noisy = WithNoise({"w": w}, frozen=())["w"] - NOISE * Noise(0, {"w": (5,)}).of("w", (5,))
    torch.testing.assert_close(noisy, torch.zeros(5).double())
    assert WithNoise({"w": w}, frozen={"w"})["w"] is w

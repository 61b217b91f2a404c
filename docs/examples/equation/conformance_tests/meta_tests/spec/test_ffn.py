@shows("FFN-902", "FFN-903")
def test_bilinear_network_is_the_one_derived_by_hand() -> None:
    """From x = (1, 2), W₁ = (1, 1)ᵀ, W_G = (3, −1)ᵀ: 3 · 1 = 3, and through W₂ = (2, −5): (6, −15).

    From −2x both maps change sign and double: four times as much, (24, −60).
    """
    from encoder_spec.ffn import bilinear

    network = partial(
        bilinear, dropout=identity, W_1=tensor([[1], [1]]), W_G=tensor([[3], [-1]]), W_2=tensor([[2, -5]])
    )
    same(network(tensor([[1, 2]])), tensor([[6, -15]]))
    same(network(tensor([[-2, -4]])), tensor([[24, -60]]))

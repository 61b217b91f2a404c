@shows("FFN-901")
def test_squared_relu_is_the_one_derived_by_hand() -> None:
    """From −3, 0, 2: max(0, ·) is 0, 0, 2, and the squares 0, 0, 4."""
    from encoder_spec.ffn import relu_squared

    same(relu_squared(tensor([-3, 0, 2])), tensor([0, 0, 4]))

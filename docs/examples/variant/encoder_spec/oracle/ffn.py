def relu_squared(x: Array) -> Array:
    """y[…] = x[…]² where x[…] > 0, else 0."""
    return _for_each_entry(lambda entry: entry * entry if entry > 0 else 0.0, x)

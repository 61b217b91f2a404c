@deviation("activation-capped-at-1", RELU, "FFN-1", evidence="commonly seen")
def capped_at_1(x: Tensor) -> Tensor:
    """The activation is ReLU cut off at 1."""
    return x.clamp(min=0, max=1)

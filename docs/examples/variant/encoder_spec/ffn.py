@requirement("FFN-901", "Squared ReLU is 0 for negative inputs and the square of others.")
@equation("ffn.relu_squared", slot="activation")
def relu_squared(x: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
    r"""Squared ReLU. So et al. 2021, §4.

    $$ \mathrm{ReLU}^2(x) = \max(0, x)^2 $$

    Undefined: nothing.
    """
    return x.clamp(min=0) ** 2

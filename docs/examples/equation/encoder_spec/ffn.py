@requirement("FFN-903", "It has degree 2: FFN(c x) = c² FFN(x).", algebraic=True)
@requirement("FFN-902", "FFN(x) = (x W₁ ⊙ x W_G) W₂: two maps are multiplied, and nothing is activated.")
@equation("ffn.bilinear", slot="ffn")
def bilinear(
    x: Float[Tensor, "*axes d_model"],
    *,
    dropout: Callable[..., Tensor],
    W_1: Float[Tensor, "d_model d_ff"],
    W_G: Float[Tensor, "d_model d_ff"],
    W_2: Float[Tensor, "d_ff d_model"],
) -> Float[Tensor, "*axes d_model"]:
    r"""Bilinear feed-forward network. Shazeer 2020, eq. (5).

    $$ \mathrm{FFN}(x) = (x W_1 \odot x W_G)\, W_2 $$

    Undefined: dropout; here on the product, as in the other feed-forward networks.
    """
    return dropout((x @ W_1) * (x @ W_G)) @ W_2

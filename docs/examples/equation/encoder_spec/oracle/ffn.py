def bilinear(x: Array, *, dropout: Callable[..., Array], W_1: Array, W_G: Array, W_2: Array) -> Array:
    """y[p, m'] = Σ_f Dropout(Σ_m x[p, m] W₁[m, f] Σ_k x[p, k] W_G[k, f]) W₂[f, m']."""
    inner: Array = np.einsum("...m,mf,...k,kf->...f", x, W_1, x, W_G)
    y: Array = np.einsum("...f,fm->...m", dropout(inner), W_2)
    return y

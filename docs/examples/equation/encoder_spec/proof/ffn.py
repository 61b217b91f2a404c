@proves("FFN-903")
def bilinear_ffn_has_degree_2() -> None:
    """Each of the two maps is linear, so either takes out one c; shown for one inner feature of two inputs."""
    c, x_1, x_2, u_1, u_2, g_1, g_2, w = symbols("c x_1 x_2 u_1 u_2 g_1 g_2 w")
    network = (x_1 * u_1 + x_2 * u_2) * (x_1 * g_1 + x_2 * g_2) * w
    scaled = network.subs({x_1: c * x_1, x_2: c * x_2}, simultaneous=True)
    assert simplify(scaled - c**2 * network) == 0

@decides("FFN-902", level="trace")
def test_ffn_is_the_product_of_two_maps(run: Run) -> None:
    """The network's output stands among the encoder's intermediates."""
    run.expect("ffn").is_formed()

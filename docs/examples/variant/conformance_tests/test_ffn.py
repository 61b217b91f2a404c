@decides("FFN-901", level="trace")
def test_activation_is_a_square(run: Run) -> None:
    """The activation's output stands among the encoder's intermediates."""
    run.expect("activation").is_formed()

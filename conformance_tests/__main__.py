"""``python -m conformance_tests`` is ``encoder-spec``."""

from conformance_tests.cli import main

main(prog_name="encoder-spec")

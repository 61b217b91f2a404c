"""``python -m conformance_tests`` is ``encoder-spec``."""

from conformance_tests.frontends.command_line import main

main(prog_name="encoder-spec")

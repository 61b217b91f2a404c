"""The lines that a report offers, with which an author states a fact."""

from typing import Any

from conformance_tests.subjects.hints import Hints, lines


def test_the_lines_are_a_function_that_states_the_facts() -> None:
    """They run as they stand where ``make_encoder`` makes the encoder, and state all facts in one call."""
    said = lines("heads=5", 'mask=("m", "keep")')
    told: list[Any] = []
    code = said.replace("\n    ", "\n").replace("from conformance_tests import described", "")
    names: dict[str, Any] = {"make_encoder": lambda: "encoder"}
    names["described"] = lambda *given, **facts: told.append((given, facts))
    exec(code, names)
    names["make_described"]()
    assert told == [(("encoder",), {"heads": 5, "mask": ("m", "keep")})]
    assert "\n    from conformance_tests import described\n" in said


def test_nothing_is_said_unless_something_is() -> None:
    """No two subjects share what they say."""
    one, other = Hints(), Hints()
    one.choices["layer"] = one.parameters["W_Q"] = one.stated["eps"] = "x"
    one.sizes["h"] = 3
    assert other == Hints(choices={}, sizes={}, heads=0, parameters={}, mask=None, stated={}, parts=())

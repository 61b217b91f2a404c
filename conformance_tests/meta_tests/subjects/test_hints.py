"""The facts that an encoder states about itself."""

from conformance_tests.subjects.hints import Hints


def test_nothing_is_said_unless_something_is() -> None:
    """No two subjects share what they say."""
    one, other = Hints(), Hints()
    one.choices["layer"] = one.parameters["W_Q"] = one.stated["eps"] = "x"
    one.sizes["h"] = 3
    assert other == Hints(choices={}, sizes={}, heads=0, parameters={}, mask=None, stated={}, parts=())

"""Every exception of the suite. Nothing is imported here, so that any room can raise and catch them.

A check ends with one of three: ``Disagreement`` if the encoder is wrong, ``Blocked`` if something earlier
is wrong already, ``Unsupported`` if the encoder cannot tell.
"""


class TargetError(Exception):
    """A target's name cannot be used; the message is one line."""

"""Answers of a worker, signed, so that nothing else that is written into the channel passes for one.

A subject lives in the worker's process. It may find the channel and write into it, and it may replace ``json.dumps``.
So each answer carries its number and a signature with a key that the parent drew, and what writes it is bound here,
before any subject is loaded: a type of C, which has nothing that could be replaced.

This keeps accidents and tricks away. It keeps no secrets from code that searches the worker's memory for them.
"""

import json
import secrets
from collections.abc import Callable, Iterable
from hashlib import blake2b
from hmac import compare_digest
from json import encoder
from typing import Any, NoReturn


def refuse(thing: object) -> NoReturn:
    """Write nothing but plain data."""
    raise TypeError(f"an answer holds plain data, but not {type(thing).__name__}")


def writer() -> Callable[[Any], str]:
    """Return what writes plain data as JSON: the encoder of C, where this Python has it."""
    make = getattr(encoder, "c_make_encoder", None)
    if make is None:
        return json.dumps
    pieces: Callable[[Any, int], Iterable[str]] = make(
        None, refuse, encoder.encode_basestring_ascii, None, ": ", ", ", False, False, True
    )
    return lambda data: "".join(pieces(data, 0))


WRITE = writer()


def new_key() -> str:
    """Return a key for one worker."""
    return secrets.token_hex(32)


class Signing:
    """One end of a channel: it signs the answers of a worker, or checks them, one after the other.

    Args:
        key: known to both ends alone.
    """

    def __init__(self, key: str) -> None:
        self._key = bytes.fromhex(key)
        self._answers = 0

    def _signature(self, text: bytes) -> bytes:
        self._answers += 1
        return blake2b(b"%d %s" % (self._answers, text), key=self._key).hexdigest().encode()

    def signed(self, answer: dict[str, Any]) -> bytes:
        """Return the line that sends an answer."""
        text = WRITE(answer).encode()
        return self._signature(text) + b" " + text + b"\n"

    def read(self, line: bytes) -> dict[str, Any]:
        """Return the answer that a line sends.

        Raises:
            ValueError: if the worker has not sent it, or not as its next one.
        """
        signature, _, text = line.rstrip(b"\n").partition(b" ")
        if not compare_digest(signature, self._signature(text)):
            raise ValueError("this line is not signed")
        answer: dict[str, Any] = json.loads(text)
        return answer

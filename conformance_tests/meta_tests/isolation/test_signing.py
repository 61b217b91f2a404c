"""The parent takes a worker's own answers, and nothing else that reaches it."""

import json

import pytest

from conformance_tests.isolation.signing import Signing, new_key

ANSWER = {"doing": "ENC-2 \N{GREEK SMALL LETTER EPSILON}\n", "done": 1, "of": None, "error": 1e-300, "list": [True, {}]}


def test_answers_arrive_as_they_were_sent() -> None:
    """One line each, whatever is in it, numbers that JSON has no word for included."""
    key = new_key()
    worker, parent = Signing(key), Signing(key)
    for answer in (ANSWER, {"error": float("inf")}, ANSWER):
        line = worker.signed(answer)
        assert line.count(b"\n") == 1
        assert parent.read(line) == answer


def test_no_two_workers_have_one_key() -> None:
    assert new_key() != new_key()


@pytest.mark.parametrize("line", [b"", b"\n", b" {}\n", json.dumps(ANSWER).encode(), b"0" * 128 + b" {}\n"])
def test_what_is_not_signed_is_no_answer(line: bytes) -> None:
    with pytest.raises(ValueError, match="not signed"):
        Signing(new_key()).read(line)


def test_neither_another_key_nor_another_text_nor_an_answer_again_is_taken() -> None:
    key = new_key()
    line = Signing(key).signed(ANSWER)
    for forged in (Signing(new_key()).signed(ANSWER), line.replace(b"ENC-2", b"ENC-3")):
        with pytest.raises(ValueError, match="not signed"):
            Signing(key).read(forged)
    parent = Signing(key)
    parent.read(line)
    with pytest.raises(ValueError, match="not signed"):
        parent.read(line)


def test_only_plain_data_is_sent() -> None:
    with pytest.raises(TypeError, match="but not set"):
        Signing(new_key()).signed({"ids": {1, 2}})

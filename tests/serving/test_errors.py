"""Errors of requests: codes, HTTP statuses and messages of one line."""

import pytest

from keras_bert.serving.errors import CODE_OF_STATUS, CODES, HTTP_STATUS, RequestError, bad, one_line


def test_codes_are_in_the_order_of_their_numbers():
    """Those of google/rpc/code.proto, which the runtime's errors have."""
    numbers = {"OK": 0, "INVALID_ARGUMENT": 3, "NOT_FOUND": 5, "UNIMPLEMENTED": 12, "UNAUTHENTICATED": 16}
    for code, number in numbers.items():
        assert CODES[number] == code
    assert len(CODES) == 17


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "INVALID_ARGUMENT"),  # Of three codes, the first.
        (404, "NOT_FOUND"),
        (405, "UNIMPLEMENTED"),
        (408, "DEADLINE_EXCEEDED"),
        (413, "RESOURCE_EXHAUSTED"),
        (429, "RESOURCE_EXHAUSTED"),
        (500, "INTERNAL"),
        (503, "UNAVAILABLE"),
    ],
)
def test_the_code_of_a_status(status, code):
    assert CODE_OF_STATUS[status] == code


def test_every_status_that_a_server_sends_has_a_code():
    assert set(HTTP_STATUS.values()) <= set(CODE_OF_STATUS)


def test_the_status_of_an_error():
    """That of its code, or another one."""
    assert RequestError("NOT_FOUND", "no such model").status == 404
    assert RequestError("RESOURCE_EXHAUSTED", "too many rows", status=413).status == 413
    with pytest.raises(KeyError, match="MISSING"):
        RequestError("MISSING", "no such code")


def test_an_invalid_request_is_a_value_error():
    error = bad("no rows")
    assert isinstance(error, ValueError)
    assert str(error) == "no rows"
    assert error.code == "INVALID_ARGUMENT"
    assert error.status == 400


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("a\n  b\tc\r\n", "a b c"),
        ("ä 天", "ä 天"),
        ("a\x00b\x1b[31m\ud800", "a?b?[31m?"),
        ("", "ValueError"),
        (" \n", "ValueError"),
        ("x" * 500, "x" * 500),
        ("x" * 501, "x" * 497 + "..."),
    ],
)
def test_a_message_is_one_line(message, line):
    assert one_line(ValueError(message)) == line

"""One error for both protocols: a canonical code, a line for the user, and what HTTP calls it."""

# The canonical codes of gRPC and TensorFlow, in the order of their numbers, and the HTTP status of each as
# TensorFlow Serving maps them.
HTTP_STATUS = {
    "OK": 200,
    "CANCELLED": 499,
    "UNKNOWN": 500,
    "INVALID_ARGUMENT": 400,
    "DEADLINE_EXCEEDED": 504,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "PERMISSION_DENIED": 403,
    "RESOURCE_EXHAUSTED": 429,
    "FAILED_PRECONDITION": 400,
    "ABORTED": 409,
    "OUT_OF_RANGE": 400,
    "UNIMPLEMENTED": 501,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "DATA_LOSS": 500,
    "UNAUTHENTICATED": 401,
}
CODES = tuple(HTTP_STATUS)
# What clients make of a status of HTTP; the first code wins where two share one.
CODE_OF_STATUS = {status: code for code, status in reversed(HTTP_STATUS.items())} | {
    405: "UNIMPLEMENTED",
    408: "DEADLINE_EXCEEDED",
    413: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
}
_LONGEST = 500


class RequestError(ValueError):
    """A request that is not answered.

    Args:
        code: a canonical code, such as `"NOT_FOUND"`.
        message: one line: what is wrong, what was expected, what was received.
        status: the HTTP status, where it is not the code's usual one.
    """

    def __init__(self, code, message, status=None):
        super().__init__(message)
        self.code = code
        self.status = status or HTTP_STATUS[code]


def bad(message):
    """The error of a request that the client has to change."""
    return RequestError("INVALID_ARGUMENT", message)


def one_line(error):
    """The message of any error without line breaks or other signs that a terminal obeys, and not endless."""
    text = " ".join(str(error).split()) or type(error).__name__
    text = "".join(sign if sign.isprintable() else "?" for sign in text)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."

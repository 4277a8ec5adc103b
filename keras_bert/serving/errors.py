"""One error for both protocols: a canonical code, a message, and the HTTP status."""

# The canonical codes in the order of their numbers, and TensorFlow Serving's HTTP status of each.
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
# The code that a client raises for an HTTP status; the first code where several share one.
CODE_OF_STATUS = {status: code for code, status in reversed(HTTP_STATUS.items())} | {
    405: "UNIMPLEMENTED",
    408: "DEADLINE_EXCEEDED",
    413: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
}
_LONGEST = 500


class RequestError(ValueError):
    """A request that failed: a canonical code such as `"NOT_FOUND"`, a message of one line and the HTTP status."""

    def __init__(self, code, message, status=None):
        super().__init__(message)
        self.code = code
        self.status = status or HTTP_STATUS[code]


def bad(message):
    """The error of a request that the client has to change."""
    return RequestError("INVALID_ARGUMENT", message)


def one_line(error):
    """The message of an error on one line, without control characters and of bounded length."""
    text = " ".join(str(error).split()) or type(error).__name__
    text = "".join(sign if sign.isprintable() else "?" for sign in text)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."

"""The request error of both protocols: a canonical code, a message and the HTTP status."""

# gRPC's canonical codes in numeric order, and the HTTP status that TensorFlow Serving returns for each.
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
# The code that the client raises for an HTTP status; if several codes share a status, the first.
CODE_OF_STATUS = {status: code for code, status in reversed(HTTP_STATUS.items())} | {
    405: "UNIMPLEMENTED",
    408: "DEADLINE_EXCEEDED",
    413: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
}
_LONGEST = 500


class RequestError(ValueError):
    """A failed request: a canonical code such as `"NOT_FOUND"`, a one-line message and the HTTP status."""

    def __init__(self, code, message, status=None):
        super().__init__(message)
        self.code = code
        self.status = status or HTTP_STATUS[code]


def bad(message):
    """Returns the error for an invalid request."""
    return RequestError("INVALID_ARGUMENT", message)


def one_line(error):
    """Returns an error message as a single line without control characters, truncated to 500 characters."""
    message = " ".join(str(error).split()) or type(error).__name__
    line = "".join(sign if sign.isprintable() else "?" for sign in message)
    if len(line) > _LONGEST:
        return line[: _LONGEST - 3] + "..."
    return line

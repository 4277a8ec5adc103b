"""The client's REST transport. Uses urllib3 (`requests` needs 3x the CPU time per call), not TensorFlow."""

import base64
import http.client
import json
import urllib.parse

import numpy as np
import urllib3

from keras_bert.serving.errors import CODE_OF_STATUS, RequestError, one_line

_NotConnected = urllib3.exceptions.NewConnectionError  # A subclass of urllib3's TimeoutError.
# Maximum number of pooled connections: threads beyond it open new ones.
_CONNECTIONS = 256
# NumPy's dtypes of TensorFlow's; it has no bfloat16.
_DTYPES = {
    "DT_HALF": "float16",
    "DT_BFLOAT16": "float32",
    "DT_FLOAT": "float32",
    "DT_DOUBLE": "float64",
    "DT_BOOL": "bool",
    "DT_INT8": "int8",
    "DT_INT16": "int16",
    "DT_INT32": "int32",
    "DT_INT64": "int64",
    "DT_UINT8": "uint8",
    "DT_UINT16": "uint16",
    "DT_UINT32": "uint32",
    "DT_UINT64": "uint64",
}


class RestTransport:
    """REST over keep-alive connections."""

    def __init__(self, address, timeout):
        url = urllib.parse.urlsplit(address if "://" in address else f"http://{address}")
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ValueError(f"`address` must be host:port or an HTTP(S) URL. Received: address={address!r}")
        self._host = url.netloc
        self._prefix = url.path.rstrip("/")
        self._timeout = timeout
        server = f"{url.scheme}://{url.netloc}"
        self._pool = urllib3.connection_from_url(server, maxsize=_CONNECTIONS, timeout=timeout, retries=False)

    def predict(self, model, inputs, version, signature, _, output_dtypes):
        request = {"signature_name": signature, "inputs": inputs}
        outputs = self._send("POST", f"{_path(model, version)}:predict", request)["outputs"]
        if len(output_dtypes) == 1:
            outputs = {next(iter(output_dtypes)): outputs}
        return {name: _from_json(value, output_dtypes.get(name)) for name, value in outputs.items()}

    def status(self, model):
        return self._send("GET", _path(model, None))

    def metadata(self, model, version):
        return self._send("GET", f"{_path(model, version)}/metadata")

    def about(self, model):
        try:
            return self._send("GET", f"/about/{urllib.parse.quote(model, safe='')}")
        except RequestError:
            return {}

    def close(self):
        self._pool.close()

    def _send(self, method, path, request=None):
        body = None if request is None else _to_json(request)
        response = self._exchange(method, path, body)
        status = response.status
        try:
            answer = json.loads(response.data)
        except ValueError as error:
            shown = response.data[:100].decode("utf-8", "replace")
            raise RequestError("INTERNAL", f"{self._host} did not return JSON (HTTP {status}): {shown}") from error
        if status != 200:
            message = answer.get("error") if isinstance(answer, dict) else None
            code = CODE_OF_STATUS.get(status, "UNKNOWN")
            raise RequestError(code, message or f"HTTP status {status}", status)
        return answer

    def _exchange(self, method, path, body, again=True):
        headers = {"Content-Type": "application/json"} if body else {}
        try:
            return self._pool.urlopen(method, self._prefix + path, body, headers, redirect=False)
        except urllib3.exceptions.HTTPError as error:
            is_grpc = any(type(cause) is http.client.BadStatusLine for cause in error.args)
            is_closed = isinstance(error, urllib3.exceptions.ProtocolError) and not is_grpc
            if not is_closed or not again:
                raise self._connection_error(error, is_grpc) from error
        return self._exchange(method, path, body, again=False)  # The server closed the connection.

    def _connection_error(self, error, is_grpc):
        """Returns an error of Python's that says why there is no answer."""
        if is_grpc:
            fix = "Use its REST port (8501 by default), or `protocol`=grpc"
            return ConnectionError(f"{self._host} does not answer in HTTP: it is a port of gRPC. {fix}")
        if isinstance(error.__cause__, ConnectionRefusedError):
            message = f"no server is listening at {self._host}"
            if ":" not in self._host:
                message += ", which has no port. Expected host:port, such as localhost:8501"
            return ConnectionRefusedError(message)
        if isinstance(error, urllib3.exceptions.TimeoutError) and not isinstance(error, _NotConnected):
            return TimeoutError(f"{self._host} did not answer within {self._timeout} seconds")
        return ConnectionError(f"the request to {self._host} failed: {one_line(error)}")


def _path(model, version):
    path = f"/v1/models/{urllib.parse.quote(model, safe='')}"
    if version is not None:
        path += f"/versions/{int(version)}"
    return path


def _to_json(request):
    try:
        return json.dumps(request, default=_json_value).encode()
    except (TypeError, RecursionError) as error:
        expected = "`inputs` must be lists or arrays of strings or numbers"
        raise ValueError(f"{expected}: {one_line(error)}") from error


def _json_value(value):
    """Converts an array, a NumPy scalar or bytes, which JSON lacks."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode()}
    raise TypeError(f"received {type(value).__name__}")


def _from_json(value, dtype):
    """Converts nested lists of JSON, or a single value, to an array."""
    if dtype != "DT_STRING":
        return np.array(value, _DTYPES.get(dtype))
    return np.vectorize(_text_or_bytes, [object])(value)


def _text_or_bytes(value):
    """Returns a string as it is, and the bytes of `{"b64": "..."}`."""
    if isinstance(value, dict):
        return base64.b64decode(value["b64"])
    return value

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
_DTYPES = {"DT_HALF": "float16", "DT_BFLOAT16": "float32", "DT_FLOAT": "float32", "DT_DOUBLE": "float64"}
_DTYPES |= {"DT_BOOL": "bool"}
_DTYPES |= {f"DT_{name.upper()}{bits}": f"{name}{bits}" for name in ("int", "uint") for bits in (8, 16, 32, 64)}


class RestTransport:
    """REST over keep-alive connections."""

    def __init__(self, address, timeout):
        url = urllib.parse.urlsplit(address if "://" in address else f"http://{address}")
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ValueError(f"`address` must be host:port or an HTTP(S) URL. Received: address={address!r}")
        self._host, self._prefix, self._timeout = url.netloc, url.path.rstrip("/"), timeout
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
        response = self._exchange(method, path, request and _to_json(request))
        status = response.status
        try:
            answer = json.loads(response.data)
        except ValueError as error:
            shown = response.data[:100].decode("utf-8", "replace")
            raise RequestError("INTERNAL", f"{self._host} did not return JSON (HTTP {status}): {shown}") from error
        if status != 200:
            message = answer.get("error", "") if isinstance(answer, dict) else ""
            raise RequestError(CODE_OF_STATUS.get(status, "UNKNOWN"), message or f"HTTP status {status}", status)
        return answer

    def _exchange(self, method, path, body, again=True):
        headers = {"Content-Type": "application/json"} if body else {}
        try:
            return self._pool.urlopen(method, self._prefix + path, body, headers, redirect=False)
        except urllib3.exceptions.HTTPError as error:
            failure = error
        if any(type(cause) is http.client.BadStatusLine for cause in failure.args):
            other = "Use its REST port (8501 by default), or `protocol`=grpc"
            raise ConnectionError(f"{self._host} does not answer in HTTP: it is a port of gRPC. {other}") from failure
        if isinstance(failure, urllib3.exceptions.ProtocolError) and again:
            return self._exchange(method, path, body, again=False)  # The server closed the connection.
        if isinstance(failure.__cause__, ConnectionRefusedError):
            hint = "" if ":" in self._host else ", which has no port. Expected host:port, such as localhost:8501"
            raise ConnectionRefusedError(f"no server is listening at {self._host}{hint}") from failure
        if isinstance(failure, urllib3.exceptions.TimeoutError) and not isinstance(failure, _NotConnected):
            raise TimeoutError(f"{self._host} did not answer within {self._timeout} seconds") from failure
        raise ConnectionError(f"the request to {self._host} failed: {one_line(failure)}") from failure


def _path(model, version):
    path = f"/v1/models/{urllib.parse.quote(model, safe='')}"
    return path if version is None else f"{path}/versions/{int(version)}"


def _to_json(request):
    try:
        return json.dumps(request, default=_plain).encode()
    except (TypeError, RecursionError) as error:
        expected = "`inputs` must be lists or arrays of strings or numbers"
        raise ValueError(f"{expected}: {one_line(error)}") from error


def _plain(value):
    """Converts an array, a NumPy scalar or bytes, which JSON lacks."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode()}
    raise TypeError(f"received {type(value).__name__}")


def _from_json(value, dtype):
    if dtype != "DT_STRING":
        return np.array(value, _DTYPES.get(dtype))
    return np.vectorize(lambda text: base64.b64decode(text["b64"]) if isinstance(text, dict) else text, [object])(value)

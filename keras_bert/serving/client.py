"""A client of TensorFlow Serving, and of this package's server. By REST it needs the standard library and NumPy."""

import base64
import contextlib
import http.client
import importlib
import json
import threading
import time
import urllib.parse

import numpy as np

from keras_bert.serving.errors import CODE_OF_STATUS, RequestError, one_line

# A served version may be replaced by one with other outputs.
_SIGNATURE_SECONDS = 10.0
_DEFAULT_SIGNATURE = "serving_default"


class Client:
    """Asks served models.

    Predictions change nothing at the server, so a request whose kept connection turns out to be closed is sent once
    more; nothing else is retried. May be used by several threads.

    Args:
        address: `host:port`, or a URL for REST.
        protocol: `"rest"` or `"grpc"`, which needs grpcio and tensorflow-serving-api.
        timeout: seconds that an answer may take.

    Example:
        client = Client("localhost:8501")
        client.predict("sst2", ["A charming film."])["label"]
    """

    def __init__(self, address, protocol="rest", timeout=60.0):
        if protocol not in ("rest", "grpc"):
            raise ValueError(f"`protocol` must be rest or grpc. Received: protocol={protocol!r}")
        if protocol == "grpc":
            self._wire = importlib.import_module("keras_bert.serving.rpc_client").RpcWire(address, timeout)
        else:
            self._wire = RestWire(address, timeout)
        self._signatures = {}

    def predict(self, model, inputs, version=None, signature=None):
        """Asks a model.

        Args:
            model: its name.
            inputs: lists or arrays by name, or a single one where the signature has one input. Text is `str`, or
                `bytes` as it is.
            version: a version's number; by default the newest.
            signature: the signature's name, by default `serving_default`.

        Returns:
            NumPy arrays by the outputs' names. Text is `str`, and `bytes` where the name ends in `_bytes`.
        """
        signature = signature or _DEFAULT_SIGNATURE
        inputs_of, outputs_of = self._signature(model, version, signature)
        if not isinstance(inputs, dict):
            if len(inputs_of) != 1:
                raise ValueError(
                    f"`inputs` must be a dict of {', '.join(sorted(inputs_of))}. Received: {type(inputs).__name__}"
                )
            inputs = {next(iter(inputs_of)): inputs}
        return self._wire.predict(model, inputs, version, signature, inputs_of, outputs_of)

    def status(self, model):
        """The state of each version: a list of dicts with `version`, `state`, `error_code` and `error_message`."""
        return self._wire.status(model)

    def metadata(self, model, version=None):
        """The signatures of a model.

        Returns:
            `{"version": number, "signatures": {name: {"method": ..., "inputs": {name: {"dtype", "shape"}}, "outputs":
            ...}}}`, with dtypes as TensorFlow names them (`DT_STRING`) and None for free dimensions.
        """
        return self._wire.metadata(model, version)

    def close(self):
        """Closes the connections of this thread."""
        self._wire.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _signature(self, model, version, signature):
        """Dtypes of the inputs and outputs: an answer alone does not say them, nor the name of a single output."""
        key = (model, version, signature)
        found, until = self._signatures.get(key, (None, 0.0))
        if time.monotonic() >= until:
            if found:  # Other threads go on with what was, while this one asks.
                self._signatures[key] = found, time.monotonic() + _SIGNATURE_SECONDS
            signatures = self.metadata(model, version)["signatures"]
            if signature not in signatures:
                expected = ", ".join(sorted(name for name in signatures if not name.startswith("__saved_model_")))
                raise RequestError(
                    "INVALID_ARGUMENT", f"there is no signature `{signature}`. Expected one of: {expected}"
                )
            found = tuple(
                {name: info["dtype"] for name, info in signatures[signature][side].items()}
                for side in ("inputs", "outputs")
            )
            self._signatures[key] = found, time.monotonic() + _SIGNATURE_SECONDS
        return found


def to_text(name, values):
    """An array of texts of an array of bytes."""
    texts = np.empty(values.size, object)
    texts[:] = [value if name.endswith("_bytes") else value.decode("utf-8", "replace") for value in values.reshape(-1)]
    return texts.reshape(values.shape)


class RestWire:
    """REST over one kept connection a thread."""

    def __init__(self, address, timeout):
        url = urllib.parse.urlsplit(address if "://" in address else f"http://{address}")
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ValueError(f"`address` must be host:port or a URL of http. Received: address={address!r}")
        self._kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        self._host, self._port, self._prefix = url.hostname, url.port, url.path.rstrip("/")
        self._timeout = timeout
        self._kept = threading.local()

    def predict(self, model, inputs, version, signature, inputs_of, outputs_of):
        asked = {"signature_name": signature, "inputs": {name: _to_json(value) for name, value in inputs.items()}}
        outputs = self._send("POST", f"{_path(model, version)}:predict", asked)["outputs"]
        if len(outputs_of) == 1:
            outputs = {next(iter(outputs_of)): outputs}
        return {name: _from_json(name, value, outputs_of.get(name)) for name, value in outputs.items()}

    def status(self, model):
        listed = self._send("GET", _path(model, None))["model_version_status"]
        return [{"version": int(each["version"]), "state": each["state"], **each["status"]} for each in listed]

    def metadata(self, model, version):
        answer = self._send("GET", f"{_path(model, version)}/metadata")
        signatures = answer["metadata"]["signature_def"]["signature_def"]
        return {
            "version": int(answer["model_spec"]["version"]),
            "signatures": {
                name: {
                    "method": signature.get("method_name", ""),
                    "inputs": {key: _info(info) for key, info in signature.get("inputs", {}).items()},
                    "outputs": {key: _info(info) for key, info in signature.get("outputs", {}).items()},
                }
                for name, signature in signatures.items()
            },
        }

    def _send(self, method, path, asked=None):
        body = None if asked is None else json.dumps(asked).encode()
        status, content = self._exchange(method, self._prefix + path, body)
        try:
            answer = json.loads(content)
        except ValueError as error:
            shown = content[:100].decode("utf-8", "replace")
            raise RequestError("INTERNAL", f"{self._host} answers {status}, which is not JSON: {shown}") from error
        if status != 200:
            message = answer.get("error", "") if isinstance(answer, dict) else ""
            raise RequestError(CODE_OF_STATUS.get(status, "UNKNOWN"), message or f"HTTP status {status}", status)
        return answer

    def _exchange(self, method, path, body):
        kept = getattr(self._kept, "connection", None)
        if kept is not None:
            try:
                return self._once(kept, method, path, body)
            except (ConnectionResetError, BrokenPipeError):
                pass  # The server had closed it meanwhile.
        self._kept.connection = self._kind(self._host, self._port, timeout=self._timeout)
        return self._once(self._kept.connection, method, path, body)

    def _once(self, connection, method, path, body):
        address = f"{self._host}:{connection.port}"
        try:
            # A body that is refused while it is sent may have its answer waiting.
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
            response = connection.getresponse()
            return response.status, response.read()
        except TimeoutError as error:
            self.close()
            raise TimeoutError(f"{address} did not answer within {self._timeout} seconds") from error
        except ConnectionRefusedError as error:
            self.close()
            raise ConnectionRefusedError(f"nobody listens at {address}") from error
        except (ConnectionResetError, BrokenPipeError):
            self.close()
            raise
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise ConnectionError(f"{address} cannot be asked: {type(error).__name__}: {one_line(error)}") from error

    def close(self):
        connection = getattr(self._kept, "connection", None)
        self._kept.connection = None
        if connection is not None:
            connection.close()


def _path(model, version):
    path = f"/v1/models/{urllib.parse.quote(model, safe='')}"
    return path if version is None else f"{path}/versions/{int(version)}"


def _info(info):
    shape = info["tensor_shape"]
    sizes = [None if int(dim["size"]) < 0 else int(dim["size"]) for dim in shape.get("dim", ())]
    return {"dtype": info["dtype"], "shape": None if shape.get("unknown_rank") else sizes}


def _to_json(value):
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_to_json(item) for item in value]
    return {"b64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _from_json(name, value, dtype):
    if dtype != "DT_STRING":
        return np.array(value, _NUMPY.get(dtype))
    shape, inner = [], value
    while isinstance(inner, list):
        shape.append(len(inner))
        inner = inner[0] if inner else None
    flat = np.array(value, object).reshape(-1) if shape else [value]
    texts = np.empty(len(flat), object)
    texts[:] = [base64.b64decode(text["b64"]) if isinstance(text, dict) else text for text in flat]
    return texts.reshape(shape)


_NUMPY = {
    "DT_HALF": np.float16,
    "DT_BFLOAT16": np.float32,
    "DT_FLOAT": np.float32,
    "DT_DOUBLE": np.float64,
    "DT_BOOL": np.bool_,
} | {f"DT_{kind}{bits}": np.dtype(f"{kind.lower()}{bits}") for kind in ("INT", "UINT") for bits in (8, 16, 32, 64)}

"""A client for TensorFlow Serving and the development server."""

import time
from typing import Literal

from keras_bert.imports import quiet_start
from keras_bert.serving.errors import bad

# Cached signatures expire after this time, since a new version may have different ones.
_SIGNATURE_SECONDS = 10.0
_DEFAULT_SIGNATURE = "serving_default"


class Client:
    """Sends requests to served models. Thread-safe.

    A REST request is retried once if the server has closed the keep-alive connection; there are no other retries.

    Args:
        address: string, `host:port`, or a URL for REST.
        protocol: `"rest"` or `"grpc"`. gRPC requires grpcio and tensorflow-serving-api. Defaults to `"rest"`.
        timeout: float, response timeout in seconds. Defaults to 60.

    Example:
        client = Client("localhost:8501")
        client.predict("sst2", ["A charming film."])["label"]
    """

    def __init__(self, address: str, protocol: Literal["rest", "grpc"] = "rest", *, timeout: float = 60.0):
        if protocol not in ("rest", "grpc"):
            raise ValueError(f"`protocol` must be rest or grpc. Received: protocol={protocol!r}")
        # Each transport needs packages that the other does not.
        if protocol == "grpc":
            with quiet_start():
                from keras_bert.serving.rpc_client import RpcTransport as transport
        else:
            from keras_bert.serving.rest_client import RestTransport as transport  # type: ignore[assignment]
        self._transport = transport(address, timeout)
        self._dtypes = {}

    def predict(self, model, inputs, *, version=None, signature=None):
        """Runs a model signature.

        Args:
            model: string, model name.
            inputs: dict of lists or arrays, or a single list or array if the signature has one input. Text is `str` or
                `bytes`.
            version: int, version number. Defaults to the latest version.
            signature: string, signature name. Defaults to `serving_default`.

        Returns:
            Dict of NumPy arrays. Text is `str`; outputs whose names end with `_bytes` are `bytes`.
        """
        signature = signature or _DEFAULT_SIGNATURE
        input_dtypes, output_dtypes = self._signature_dtypes(model, version, signature)
        if not isinstance(inputs, dict):
            if len(input_dtypes) != 1:
                names = ", ".join(sorted(input_dtypes))
                raise ValueError(f"`inputs` must be a dict of {names}. Received: {type(inputs).__name__}")
            inputs = {next(iter(input_dtypes)): inputs}
        return self._transport.predict(model, inputs, version, signature, input_dtypes, output_dtypes)

    def status(self, model):
        """Returns the state of each version: dicts with `version`, `state`, `error_code` and `error_message`."""
        states = []
        for answer in self._transport.status(model)["model_version_status"]:
            state = {"version": int(answer["version"]), "state": answer["state"]}
            state.update(answer["status"])
            states.append(state)
        return states

    def metadata(self, model, version=None):
        """Returns the signatures of a model.

        Returns:
            `{"version": number, "signatures": {name: {"method": ..., "inputs": {name: {"dtype", "shape"}}, "outputs":
            ...}}}`, with TensorFlow's dtype names (`DT_STRING`) and `None` for unknown dimensions.
        """
        answer = self._transport.metadata(model, version)
        signatures = {}
        for name, signature in answer["metadata"]["signature_def"]["signature_def"].items():
            signatures[name] = {
                "method": signature.get("method_name", ""),
                "inputs": _tensor_facts(signature.get("inputs", {})),
                "outputs": _tensor_facts(signature.get("outputs", {})),
            }
        return {"version": int(answer["model_spec"]["version"]), "signatures": signatures}

    def about(self, model):
        """Returns what `export` stores about a model, a dict; empty for a server that does not tell it.

        `pipelines.serve` tells it by REST; TensorFlow Serving has no such request.
        """
        return self._transport.about(model)

    def close(self):
        """Closes the connections."""
        self._transport.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _signature_dtypes(self, model, version, signature):
        """Input and output dtypes by name. JSON responses lack the dtypes and the name of a single output."""
        key = (model, version, signature)
        cached, expires = self._dtypes.get(key, (None, 0.0))
        if time.monotonic() < expires:
            return cached
        if cached:  # Other threads keep using the cached dtypes while this one refreshes them.
            self._dtypes[key] = cached, time.monotonic() + _SIGNATURE_SECONDS
        signatures = self.metadata(model, version)["signatures"]
        if signature not in signatures:
            expected = ", ".join(sorted(name for name in signatures if not name.startswith("__saved_model_")))
            raise bad(f"unknown signature `{signature}`. Expected one of: {expected}")
        input_dtypes = {name: info["dtype"] for name, info in signatures[signature]["inputs"].items()}
        output_dtypes = {name: info["dtype"] for name, info in signatures[signature]["outputs"].items()}
        dtypes = (input_dtypes, output_dtypes)
        self._dtypes[key] = dtypes, time.monotonic() + _SIGNATURE_SECONDS
        return dtypes


def _tensor_facts(infos):
    """Returns the dtype and the shape of each tensor of a signature, by name."""
    facts = {}
    for name, info in infos.items():
        facts[name] = {"dtype": info["dtype"], "shape": _shape(info["tensor_shape"])}
    return facts


def _shape(shape):
    """Returns the sizes of a shape in JSON, with `None` for unknown ones, or `None` for an unknown rank."""
    if shape.get("unknown_rank"):
        return None
    sizes = []
    for dim in shape.get("dim", ()):
        size = int(dim["size"])
        sizes.append(None if size < 0 else size)
    return sizes

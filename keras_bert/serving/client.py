"""A client of TensorFlow Serving and of the development server."""

import time

from keras_bert import serving
from keras_bert.serving.errors import bad

# A model's signatures are read again after this time: a new version may have others.
_SIGNATURE_SECONDS = 10.0
_DEFAULT_SIGNATURE = "serving_default"


class Client:
    """Sends requests to served models. Several threads may share a client.

    A request is sent a second time if the server had closed the connection that was kept open; there are no other
    retries.

    Args:
        address: `host:port`, or a URL for REST.
        protocol: `"rest"`, or `"grpc"`, which needs grpcio and tensorflow-serving-api. Defaults to `"rest"`.
        timeout: float, seconds to wait for an answer. Defaults to 60.

    Example:
        client = Client("localhost:8501")
        client.predict("sst2", ["A charming film."])["label"]
    """

    def __init__(self, address, protocol="rest", timeout=60.0):
        if protocol not in ("rest", "grpc"):
            raise ValueError(f"`protocol` must be rest or grpc. Received: protocol={protocol!r}")
        transport = serving.RpcTransport if protocol == "grpc" else serving.RestTransport
        self._transport = transport(address, timeout)
        self._dtypes = {}

    def predict(self, model, inputs, version=None, signature=None):
        """Runs a signature of a model.

        Args:
            model: the model's name.
            inputs: dict of lists or arrays, or a single one for a signature with one input. Text is `str` or `bytes`.
            version: int, a version number. Defaults to the newest version.
            signature: the signature's name. Defaults to `serving_default`.

        Returns:
            Dict of NumPy arrays. Text is `str`; outputs with names that end in `_bytes` are `bytes`.
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
        """The state of each version: a list of dicts with `version`, `state`, `error_code` and `error_message`."""
        versions = self._transport.status(model)["model_version_status"]
        return [{"version": int(each["version"]), "state": each["state"], **each["status"]} for each in versions]

    def metadata(self, model, version=None):
        """The signatures of a model.

        Returns:
            `{"version": number, "signatures": {name: {"method": ..., "inputs": {name: {"dtype", "shape"}}, "outputs":
            ...}}}`, with TensorFlow's names of dtypes (`DT_STRING`) and `None` for free dimensions.
        """
        answer = self._transport.metadata(model, version)
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

    def close(self):
        """Closes the connections."""
        self._transport.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _signature_dtypes(self, model, version, signature):
        """Dtypes of inputs and outputs by name. JSON has neither them nor the name of a single output."""
        key = (model, version, signature)
        found, expires = self._dtypes.get(key, (None, 0.0))
        if time.monotonic() < expires:
            return found
        if found:  # Other threads continue with these while this one reads the new ones.
            self._dtypes[key] = found, time.monotonic() + _SIGNATURE_SECONDS
        signatures = self.metadata(model, version)["signatures"]
        if signature not in signatures:
            expected = ", ".join(sorted(name for name in signatures if not name.startswith("__saved_model_")))
            raise bad(f"there is no signature `{signature}`. Expected one of: {expected}")
        sides = signatures[signature]["inputs"], signatures[signature]["outputs"]
        found = tuple({name: info["dtype"] for name, info in side.items()} for side in sides)
        self._dtypes[key] = found, time.monotonic() + _SIGNATURE_SECONDS
        return found


def _info(info):
    shape = info["tensor_shape"]
    sizes = [None if int(dim["size"]) < 0 else int(dim["size"]) for dim in shape.get("dim", ())]
    return {"dtype": info["dtype"], "shape": None if shape.get("unknown_rank") else sizes}

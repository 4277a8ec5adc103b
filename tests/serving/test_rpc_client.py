"""The client over gRPC: errors of the network, and tensors."""

import numpy as np
import pytest

pytest.importorskip("tensorflow")
pytest.importorskip("grpc")
pytestmark = pytest.mark.tensorflow

from keras_bert.serving.rpc_client import RpcTransport, to_dict  # noqa: E402


def predict(transport, signature="ids", dtypes=None, **inputs):
    """Asks the model `many`; there is an answer only if the inputs can be tensors of these types."""
    return transport.predict("many", inputs, None, signature, dtypes or {}, {})


def test_a_url():
    with pytest.raises(ValueError, match="`address` must be host:port for gRPC. Received: address='http"):
        RpcTransport("http://localhost:1", 1)


def test_no_server(two_addresses):
    address, _ = two_addresses
    with pytest.raises(ConnectionRefusedError, match=f"no server is listening at {address}"):
        RpcTransport(address, 5).status("text")


def test_the_port_of_rest(server):
    address = f"127.0.0.1:{server.port}"
    with pytest.raises(ConnectionError, match=rf"^{address} does not answer in gRPC.* Use its gRPC port .8500"):
        RpcTransport(address, 20).status("text")


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("DT_INT32", [[1 << 31]]),
        ("DT_INT32", [[1.0]]),
        ("DT_BOOL", [1]),
        ("DT_FLOAT", [1e39]),
        ("DT_STRING", [["a"], ["b", "c"]]),
        ("DT_STRING", [1]),
    ],
)
def test_values_that_are_not_of_the_type_of_an_input(two_addresses, dtype, value):
    """They are found before anything is sent: there is no server."""
    address, _ = two_addresses
    with pytest.raises(ValueError, match=f"^input `value` must be {dtype}: "):
        predict(RpcTransport(address, 5), dtypes={"value": dtype}, value=value)


def test_integers_are_converted_to_the_type_of_an_input(server):
    """Those of NumPy and of Python have 64 bits."""
    transport = RpcTransport(f"127.0.0.1:{server.grpc_port}", 20)
    answer = predict(transport, dtypes={"token_ids": "DT_INT32"}, token_ids=np.array([[1, 2], [3, 4]]))
    assert answer["total"].dtype == np.int32
    assert answer["total"].tolist() == [3, 7]
    floats = {"x": "DT_FLOAT", "flip": "DT_BOOL"}
    answer = predict(transport, "divide", floats, x=[2], flip=[False])
    assert answer["quotient"].tolist() == [0.5]


def test_messages_as_in_json():
    """Names are those of the protocol, and default values are there."""
    from tensorflow_serving.apis.get_model_status_pb2 import ModelVersionStatus

    status = {"error_code": "OK", "error_message": ""}
    expected = {"version": "2", "state": "AVAILABLE"}
    assert to_dict(ModelVersionStatus(version=2, state="AVAILABLE", status={})) == expected | {"status": status}

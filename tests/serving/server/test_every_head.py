"""Models of every head, the server and the client together: answers over REST and gRPC, and the README's commands."""

import pathlib
import re
import shlex
import urllib.parse

import numpy as np
import pytest

from keras_bert.files import read_json
from keras_bert.serving import Client

pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]


def test_answers_equal_those_of_the_keras_models(exported_heads, heads):
    """The probes of each SavedModel have the outputs of its Keras model, of which `predict` makes answers."""
    with Client(f"127.0.0.1:{heads.port}") as rest, Client(f"127.0.0.1:{heads.grpc_port}", "grpc") as grpc:
        for folder in sorted(exported_heads.iterdir()):
            probe = read_json(folder / "3" / "assets.extra" / "probes.json")["serving_default"]
            inputs = {name: as_bytes(values) for name, values in probe["inputs"].items()}
            for client in (rest, grpc):
                answers = client.predict(folder.name, inputs)
                assert answers.keys() == probe["outputs"].keys()
                for name, expected in probe["outputs"].items():
                    assert_same(answers[name], expected, f"{folder.name}: {name}")


def as_bytes(value):
    """Probes store each byte as a Latin-1 character."""
    if isinstance(value, list):
        return [as_bytes(part) for part in value]
    return value.encode("latin-1")


def assert_same(found, expected, name):
    if found.dtype == object:
        encoded = np.vectorize(str.encode, [object])(found)
        assert encoded.tolist() == as_bytes(expected), name
    elif found.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max(), err_msg=name)
    else:
        np.testing.assert_array_equal(found, expected, err_msg=name)


# The models in the examples of `saved_models/README.md`, and the keys of which each response has one.
NAMES = {"sst2": "many_classes", "mrpc": "classes", "squad": "answers", "bert": "masks"}
ANSWERS = {"predictions", "outputs", "results", "model_version_status", "model_spec"}


def curl_commands():
    """Returns the arguments of each curl command of the README."""
    text = (pathlib.Path(__file__).parents[3] / "saved_models" / "README.md").read_text()
    (block,) = re.findall(r"^curl .*?(?=^```)", text, re.MULTILINE | re.DOTALL)
    commands = []
    for word in shlex.split(block, comments=True):
        if word == "curl":
            commands.append([])
        else:
            commands[-1].append(word)
    return commands


def test_curl_commands_of_the_readme(heads):
    commands = curl_commands()
    assert len(commands) == 8
    for command in commands:
        *body, url = [word for word in command if word != "-d"]
        path = urllib.parse.urlsplit(f"http://{url}").path
        for name, head in NAMES.items():
            path = path.replace(f"/{name}", f"/{head}")
        if body:
            status, answer = heads.send("POST", path, body[0].encode())
        else:
            status, answer = heads.send("GET", path)
        assert status == 200, (command, answer)
        assert ANSWERS & set(answer), (command, answer)

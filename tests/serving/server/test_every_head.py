"""The answers of every head over REST and gRPC."""

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
    """The probes of each SavedModel contain the outputs of its Keras model; test_results.py makes answers of these."""
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
    return [as_bytes(part) for part in value] if isinstance(value, list) else value.encode("latin-1")


def assert_same(found, expected, name):
    if found.dtype == object:
        assert np.vectorize(str.encode, [object])(found).tolist() == as_bytes(expected), name
    elif found.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max(), err_msg=name)
    else:
        np.testing.assert_array_equal(found, expected, err_msg=name)


# The models in the examples of `saved_models/README.md`, and the keys of which each response has one.
NAMES = {"sst2": "many_classes", "mrpc": "classes", "squad": "answers", "bert": "masks"}
ANSWERS = ("predictions", "outputs", "results", "model_version_status", "model_spec")


def test_curl_commands_of_the_readme(heads):
    text = (pathlib.Path(__file__).parents[3] / "saved_models" / "README.md").read_text()
    (block,) = re.findall(r"^curl .*?(?=^```)", text, re.MULTILINE | re.DOTALL)
    words = " ".join(map(shlex.quote, shlex.split(block, comments=True)))
    lines = [line.strip() for line in words.split("curl ")[1:]]
    assert len(lines) == 8
    for line in lines:
        *body, url = [part for part in shlex.split(line) if part != "-d"]
        path = urllib.parse.urlsplit(f"http://{url}").path
        for name, head in NAMES.items():
            path = path.replace(f"/{name}", f"/{head}")
        status, answer = heads.send("POST" if body else "GET", path, body[0].encode() if body else None)
        assert (status, bool(set(ANSWERS) & set(answer))) == (200, True), (line, answer)

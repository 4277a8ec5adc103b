"""The answers of each head by REST and gRPC equal those of its SavedModel, on real texts."""

import pathlib
import shlex
import urllib.parse

import numpy as np
import pytest

from keras_bert.serving import Client
from keras_bert.tasks.glue.data import TASKS, read

tf = pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]

INPUTS = {
    "classes": ("text", "pair"),
    "many_classes": ("text",),
    "score": ("text", "pair"),
    "tags": ("text",),
    "more_answers": ("question", "context"),
    "masks": ("text",),
    "choices": ("text", "choices"),
    "vectors": ("text",),
}


def test_real_texts(exported_heads, heads, data):
    pairs = read(TASKS["mrpc"], data / "glue", "dev")
    first, second = pairs.text[:50], pairs.pair[:50]
    columns = {
        "text": [f"{text} [MASK]" for text in first],
        "pair": second,
        "question": second,
        "context": [f"{text} {other}" for text, other in zip(first, reversed(second), strict=True)],
        "choices": [[text, other] for text, other in zip(first, second, strict=True)],
    }
    with (
        Client(f"127.0.0.1:{heads.port}") as rest,
        Client(f"127.0.0.1:{heads.grpc_port}", "grpc") as grpc,
    ):
        for name, inputs in INPUTS.items():
            served = tf.saved_model.load(exported_heads / name / "3").signatures["serving_default"]
            expected = served(**{key: tf.constant(columns[key]) for key in inputs})
            for client in (rest, grpc):
                answers = client.predict(name, {key: columns[key] for key in inputs})
                assert answers.keys() == expected.keys()
                for key, value in expected.items():
                    assert_same(answers[key], value.numpy(), f"{name}: {key}")


# The models of the examples in `saved_models/README.md`, and what each answer must have.
NAMES = {"sst2": "many_classes", "mrpc": "classes", "squad": "answers", "bert": "masks"}
ANSWERS = ("predictions", "outputs", "results", "model_version_status", "model_spec")


def test_the_curl_lines_of_the_readme(heads):
    text = (pathlib.Path(__file__).parents[3] / "saved_models" / "README.md").read_text()
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line.startswith("    curl ")]
    assert len(lines) == 8
    for line in lines:
        *body, url = [part for part in shlex.split(line, comments=True)[1:] if part != "-d"]
        path = urllib.parse.urlsplit(f"http://{url}").path
        for name, head in NAMES.items():
            path = path.replace(f"/{name}", f"/{head}")
        status, answer = heads.send("POST" if body else "GET", path, body[0].encode() if body else None)
        assert (status, bool(set(ANSWERS) & set(answer))) == (200, True), (line, answer)


def assert_same(found, expected, name):
    if expected.dtype == object:
        assert np.vectorize(str.encode, [object])(found).tolist() == expected.tolist(), name
    elif expected.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max(), err_msg=name)
    else:
        np.testing.assert_array_equal(found, expected, err_msg=name)

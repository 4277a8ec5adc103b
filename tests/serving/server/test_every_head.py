"""What each head answers by REST and by gRPC is what its SavedModel answers, on real texts."""

import http.client
import json
import pathlib
import shlex
import urllib.parse

import keras
import numpy as np
import pytest

import keras_bert
from keras_bert.serving import Client
from keras_bert.tasks.glue.data import TASKS, read

tf = pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
# Head -> how it is built and exported, and the inputs that its signatures take.
HEADS = {
    "classification": (lambda e: keras_bert.build_classifier(e, 3), {"labels": ["no", "yes", "maybe"]}, ("text",)),
    "pair": (lambda e: keras_bert.build_classifier(e, 2), {"pair": True}, ("text", "pair")),
    "regression": (lambda e: keras_bert.build_classifier(e, 1), {}, ("text",)),
    "tagging": (lambda e: keras_bert.build_token_classifier(e, len(TAGS)), {"labels": TAGS}, ("text",)),
    "answering": (keras_bert.build_span_labeler, {"top": 3}, ("question", "context")),
    "masks": (keras_bert.build_pretrainer, {}, ("text",)),
    "choice": (keras_bert.build_multiple_choice, {}, ("text", "choices")),
    "vectors": (lambda e: e, {"normalize": True}, ("text",)),
}
CONFIG = keras_bert.BertConfig(
    vocab_size=30522,
    hidden_size=32,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=64,
    max_position_embeddings=128,
    initializer_range=0.25,
)


@pytest.fixture(scope="module")
def shelf(data, tmp_path_factory):
    """All heads, exported and then moved."""
    folder = tmp_path_factory.mktemp("written")
    preprocessor = keras_bert.TextPreprocessor(data / "vocab" / "bert-base-uncased-vocab.txt", 128)
    for name, (build, options, _) in HEADS.items():
        keras.utils.set_random_seed(1)
        model = build(keras_bert.build_encoder(CONFIG))
        keras_bert.export(model, preprocessor, folder / "shelf" / name / "1", **options)
    return (folder / "shelf").rename(folder / "moved")


@pytest.fixture(scope="module")
def columns(data):
    """200 real texts for each input."""
    pairs = read(TASKS["mrpc"], data / "glue", "dev")
    first, second = pairs.text[:200], pairs.pair[:200]
    return {
        "text": [f"{text} [MASK]" for text in first],
        "pair": second,
        "question": second,
        "context": [f"{text} {other}" for text, other in zip(first, reversed(second), strict=True)],
        "choices": [[text, other] for text, other in zip(first, second, strict=True)],
    }


def test_two_hundred_real_texts(shelf, columns, running):
    with (
        running(shelf) as server,
        Client(f"127.0.0.1:{server.port}") as rest,
        Client(f"127.0.0.1:{server.grpc_port}", "grpc") as grpc,
    ):
        for name, (_, _, inputs) in HEADS.items():
            served = tf.saved_model.load(shelf / name / "1").signatures["serving_default"]
            for start in range(0, 200, 40):
                asked = {key: columns[key][start : start + 40] for key in inputs}
                expected = served(**{key: tf.constant(value) for key, value in asked.items()})
                for client in (rest, grpc):
                    answers = client.predict(name, asked)
                    assert answers.keys() == expected.keys()
                    for key, value in expected.items():
                        assert_same(answers[key], value.numpy(), f"{name}: {key}")


# The models of the examples in `saved_models/README.md`, and what each answer must have.
NAMES = {"sst2": "classification", "mrpc": "pair", "squad": "answering", "bert": "masks"}
ANSWERS = ("predictions", "outputs", "results", "model_version_status", "model_spec")


def test_the_curl_lines_of_the_readme(shelf, running):
    text = (pathlib.Path(__file__).parents[3] / "saved_models" / "README.md").read_text()
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line.startswith("    curl ")]
    assert len(lines) == 8
    with running(shelf) as server:
        for line in lines:
            *body, url = [part for part in shlex.split(line, comments=True)[1:] if part != "-d"]
            path = urllib.parse.urlsplit(f"http://{url}").path
            for name, head in NAMES.items():
                path = path.replace(f"/{name}", f"/{head}")
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
            connection.request("POST" if body else "GET", path, body[0] if body else None)
            response = connection.getresponse()
            answer = json.loads(response.read())
            connection.close()
            assert (response.status, bool(set(ANSWERS) & set(answer))) == (200, True), (line, answer)


def assert_same(found, expected, name):
    if expected.dtype == object:
        assert np.vectorize(str.encode, [object])(found).tolist() == expected.tolist(), name
    elif expected.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max(), err_msg=name)
    else:
        np.testing.assert_array_equal(found, expected, err_msg=name)

"""The program that runs SavedModels without this package: what it is asked, and what it answers."""

import json
import re

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.exporting import probe_runner

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A SavedModel that divides one by the lengths of texts, and returns the texts reversed."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def function(text):
        lengths = tf.strings.length(text)
        tf.debugging.assert_less(lengths, 4, "too long")
        return {"inverse": 1.0 / tf.cast(lengths, tf.float32), "length": lengths, "text": text}

    folder = str(tmp_path_factory.mktemp("toy"))
    tf.saved_model.save(tf.Module(), folder, {"serving_default": function})
    return folder


def texts(*values):
    return {"text": {"shape": [len(values)], "values": list(values)}}


def test_answers_have_type_shape_and_values(directory):
    """A character is a byte, and a number that is not finite is `null`."""
    answered = probe_runner.answer(directory, [["serving_default", texts("\xff\0", "")]])
    assert answered["signatures"] == {"serving_default": ["inverse", "length", "text"]}
    (answer,) = answered["answers"]
    assert answer["text"] == {"dtype": "string", "shape": [2], "values": ["\xff\0", ""]}
    assert answer["length"] == {"dtype": "int32", "shape": [2], "values": [2, 0]}
    assert answer["inverse"] == {"dtype": "float32", "shape": [2], "values": [0.5, None]}


@pytest.mark.parametrize(
    ("name", "inputs", "error"),
    [
        ("other", texts("a"), "there is no such signature"),
        ("serving_default", {"words": texts("a")["text"]}, "takes text"),
        ("serving_default", texts("long"), "InvalidArgumentError: .*too long"),
    ],
)
def test_a_call_that_fails_leaves_the_others(directory, name, inputs, error):
    wrong, right = probe_runner.answer(directory, [[name, inputs], ["serving_default", texts("ab")]])["answers"]
    assert list(wrong) == ["error"]
    assert "\n" not in wrong["error"]
    assert len(wrong["error"]) <= 300
    assert re.search(error, wrong["error"])
    assert right["length"]["values"] == [2]


def test_a_folder_that_does_not_load(tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(b"\xff" * 9)
    answered = probe_runner.answer(str(tmp_path), [["serving_default", texts("a")]])
    assert list(answered) == ["error"]


def test_the_program_reads_and_writes_files(directory, tmp_path):
    requests = [{"directory": directory, "calls": [["serving_default", texts("abc")]]}]
    (tmp_path / "requests.json").write_text(json.dumps(requests))
    probe_runner.main(str(tmp_path / "requests.json"), str(tmp_path / "answers.json"))
    (answered,) = json.loads((tmp_path / "answers.json").read_text())
    np.testing.assert_allclose(answered["answers"][0]["inverse"]["values"], [1 / 3], rtol=1e-6)

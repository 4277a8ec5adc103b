"""Each problem of a SavedModel is reported in one line."""

import importlib.metadata
import json
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

from keras_bert.exporting import assets, probe_runner, verification  # noqa: E402


@pytest.fixture
def here(monkeypatch):
    """Runs the probe runner in this process, to avoid starting a new one."""

    def ask(requests):
        return [probe_runner.answer(**request) for request in requests]

    monkeypatch.setattr(verification, "ask", ask)


@pytest.fixture
def copy(exported, tmp_path):
    return shutil.copytree(exported("classification"), tmp_path / "copy")


@pytest.fixture
def toy(tmp_path):
    """Writes a SavedModel of a function of strings, with its probe."""

    def write(function, outputs, precision="float32"):
        directory = tmp_path / "toy"
        signature = [tf.TensorSpec([None], tf.string, "text")]
        function = tf.function(function, input_signature=signature, autograph=False)
        tf.saved_model.save(tf.Module(), str(directory), {"serving_default": function})
        (directory / assets.FOLDER).mkdir()
        store(directory, {"serving_default": {"inputs": {"text": ["a", "bb", "cc\0"]}, "outputs": outputs}})
        (directory / assets.FOLDER / assets.FACTS).write_text(json.dumps({"precision": precision}))
        return directory

    return write


def probes_of(directory):
    return json.loads((directory / assets.FOLDER / assets.PROBES).read_text())


def store(directory, probes):
    (directory / assets.FOLDER / assets.PROBES).write_text(json.dumps(probes))


def lengths(text):
    return tf.cast(tf.strings.length(text), tf.float32)


def problems(directory, **options):
    (report,) = verification.verify([directory], **options)
    return report.problems


def test_a_valid_model(exported, here):
    (report,) = verification.verify([exported("classification")])
    assert report.problems == []
    assert [line.split(":")[0] for line in report.lines] == ["serving_default", "classify", "tokens", "ops"]
    assert report.lines[0].startswith("serving_default: 4 rows, largest difference ")
    assert report.lines[-1].endswith("unproven on TensorFlow Serving 2.20)")


def test_wrong_signatures_outputs_and_stored_answers(copy, here):
    """One line tells of each."""
    probes = probes_of(copy)
    probes["next_sentence"] = {"inputs": probes["tokens"]["inputs"], "outputs": {}}
    del probes["classify"]
    probes["tokens"]["inputs"]["ids"] = probes["tokens"]["inputs"].pop("token_ids")
    outputs = probes["serving_default"]["outputs"]
    outputs["rating"] = outputs["label"]
    outputs["probabilities"] = [[1.0], []]
    outputs["label"] = ["1"]
    store(copy, probes)
    assert problems(copy) == [
        "next_sentence: no such signature",
        "classify: there is no probe for it",
        "serving_default: output rating is missing",
        "serving_default: label has shape (4,), expected (1,)",
        "serving_default: probabilities has stored values of another type",
        "tokens: takes padding_mask, segment_ids, token_ids",
    ]


def without_probes(path):
    shutil.rmtree(path / assets.FOLDER)


def without_facts(path):
    (path / assets.FOLDER / assets.FACTS).unlink()


def with_half_of_the_probes(path):
    (path / assets.FOLDER / assets.PROBES).write_text('{"a": ')


def with_probes_without_outputs(path):
    store(path, {"a": {"inputs": {}}})


def without_graph(path):
    (path / "saved_model.pb").unlink()


def with_another_graph(path):
    (path / "saved_model.pb").write_bytes(b"\xff" * 9)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (without_probes, "no assets.extra/probes.json, which `export` writes"),
        (without_facts, "no assets.extra/keras_bert.json, which"),
        (with_half_of_the_probes, "assets.extra is damaged: JSON"),
        (with_probes_without_outputs, "assets.extra is damaged: KeyError: 'outputs'"),
        (without_graph, "no SavedModel: it has no saved_model.pb"),
        (with_another_graph, "does not load: "),
    ],
)
def test_a_damaged_folder_is_reported_in_one_line(copy, here, damage, message):
    damage(copy)
    (problem,) = problems(copy)
    assert problem.startswith(message)
    assert "\n" not in problem


def test_python_in_the_graph(toy, here):
    """Works here but not in TensorFlow Serving."""

    def function(text):
        shape = tf.numpy_function(np.shape, [text], tf.int64)
        return {"length": tf.ensure_shape(shape, [1])}

    directory = toy(function, {"length": [3]})
    assert "TensorFlow Serving does not link the op PyFunc" in problems(directory)


def test_a_valid_toy_model(toy, here):
    """A string that ends with byte 0, an integer, floats; padding may differ for a single text."""

    def function(text):
        return {
            "text": text,
            "count": tf.strings.length(text),
            "length": lengths(text) - 1,
            "letters": tf.strings.bytes_split(text).to_tensor(),
            "none": tf.zeros([tf.size(text), 0, 2]),
        }

    outputs = {
        "text": ["a", "bb", "cc\0"],
        "count": [1, 2, 3],
        "length": [0.0, 1.0, 2.0],
        "letters": [["a", "", ""], ["b", "b", ""], ["c", "c", "\0"]],
        "none": [[], [], []],
    }
    assert problems(toy(function, outputs)) == []


def test_outputs_that_depend_on_the_batch(toy, here):
    def function(text):
        numbers = lengths(text)
        return {
            "fixed": tf.constant([1.0, 2.0]),
            "mean": numbers - tf.reduce_mean(numbers),
            # The width is the batch size, which is not padding.
            "wide": tf.tile(numbers[:, None], [1, tf.size(text)]),
        }

    outputs = {"fixed": [1.0, 2.0], "mean": [-1.0, 0.0, 1.0], "wide": [[1.0] * 3, [2.0] * 3, [3.0] * 3]}
    found = {}
    for problem in problems(toy(function, outputs)):
        name, told = problem.removeprefix("serving_default: ").split(" ", 1)
        found.setdefault(name, told)  # The first problem of an output.
    assert found == {
        "fixed": "does not start with the batch dimension: 3 rows in, shape (2,) out",
        "mean": "alone differs by 1, 1 of its largest value, more than 1e-05",
        "wide": "alone has shape (1, 1), but there is more than padding in (1, 3)",
    }


@pytest.mark.parametrize(
    ("expected", "got", "message"),
    [
        (["A", "CB\0"], np.array(["A", "CC\0"], object), "is 'CC\\x00', expected 'CB\\x00', at [1]"),
        ([1, 7, 3], np.array([1, 2, 3]), "is 2, expected 7, at [1]"),
        ([1, 3.0001], np.array([1, 3.0]), "differs by 0.0001, 3.3e-05 of its largest value, more than 1e-05"),
        ([1.0, 2.0], np.array([1.0, np.inf]), "has values that are not finite"),
        ([1.0, -3e38], np.array([1.0, 3.0]), "has a value where there should be none, or none where"),
    ],
)
def test_a_wrong_output(expected, got, message):
    assert verification.compare(expected, got, 1e-5).problem.startswith(message)


def test_compare():
    expected = np.array([2.0, -4.0])
    got = np.array([2.0, -4.5])
    assert verification.compare(expected, got, 0.2) == verification.Difference(0.5, 0.125)
    message = "differs by 0.5, 0.12 of its largest value, more than 0.1"
    assert verification.compare(expected, got, 0.1).problem == message
    assert verification.compare(expected, got, 0.1, scale=10).problem is None
    # Values that mean "none" are excluded from the scale, and all zeros have scale 1.
    assert verification.compare([-3.4e38, 1.0], np.array([-3.4e38, 1.5]), 1.0).relative == 0.5
    assert verification.compare([0.0], np.array([0.25]), 1.0).relative == 0.25


def test_a_failing_process(exported, monkeypatch):
    monkeypatch.setattr(sys, "executable", "false")
    with pytest.raises(ValueError, match="^false ended with status 1: nothing on its standard error$"):
        verification.verify([exported("classification")])


def test_the_list_of_ops():
    names, made_from = verification.serving_ops()
    assert re.match(r"20\d\d-\d\d-\d\d, of TensorFlow 2\.\d+\.\d+ and TF-Text 2\.\d+\.\d+; unproven on ", made_from)
    assert {"MatMul", "FastBertNormalize", "FastWordpieceTokenizeWithOffsets", "TFText>Utf8Binarize"} <= names
    assert not names & {"PyFunc", "EagerPyFunc", "XlaLaunch", "NcclAllReduce"}


OPS = """
import importlib.util, json, pathlib, re
from tensorflow.core.framework import op_def_pb2
from tensorflow.python.client import pywrap_tf_session as session
from tensorflow.python.framework import kernels

def linked():
    ops = {op.name for op in op_def_pb2.OpList.FromString(session.TF_GetBuffer(session.TF_GetAllOpList())).op}
    found = kernels.get_all_registered_kernels().kernel
    return ops & {kernel.op for kernel in found if kernel.device_type in ("CPU", "DEFAULT")}

core = linked()
for path in pathlib.Path(importlib.util.find_spec("tensorflow_text").origin).parent.glob("python/ops/*.so"):
    session.TF_LoadLibrary(str(path))
left_out = re.compile("_|.*(Py|Xla|TPU|Tpu|DTensor|Nccl|Collective|Mkl|Rpc|Debug|Dataset|Iterator|Test)")
int8 = ["_MklLayerNorm", "_QuantizedMatMul"]
names = sorted(op for op in core if not left_out.match(op)), sorted(linked() - core), sorted(core.intersection(int8))
print(json.dumps(names))
"""


@pytest.mark.slow
def test_the_list_matches_the_installed_tensorflow():
    """The list contains the TensorFlow ops with a CPU kernel, except some families, TF-Text's, and oneDNN's of int8."""
    path = pathlib.Path(verification.__file__).with_name("serving_ops.txt")
    versions = [importlib.metadata.version(name) for name in ("tensorflow", "tensorflow-text")]
    if not re.search("of TensorFlow {} and TF-Text {};".format(*map(re.escape, versions)), path.read_text()):
        pytest.skip(f"{path.name} was made from other versions than {' and '.join(versions)}")
    done = subprocess.run([sys.executable, "-c", OPS], capture_output=True, text=True, check=True)
    paragraphs = path.read_text().split("\n\n")[1:]
    assert [paragraph.split() for paragraph in paragraphs] == json.loads(done.stdout)


@pytest.fixture
def tied(toy, here):
    """Writes a SavedModel whose answers differ a little from those stored, and whose label is another one."""

    def function(text):
        return {"label": tf.strings.upper(text), "score": lengths(text)}

    def write(precision):
        outputs = {"label": ["A", "XX", "CC\0"], "score": [1.0, 2.0, 3.1]}
        return toy(function, outputs, precision)

    return write


def test_near_ties_are_problems_in_32_bits(tied):
    directory = tied("float32")
    (report,) = verification.verify([directory])
    assert [problem.split()[1] for problem in report.problems] == ["label", "score"]
    assert "near ties" not in report.lines[0]
    assert [problem.split()[1] for problem in problems(directory, tolerance=0.1)] == ["label"]


def test_near_ties_are_noted_but_accepted_in_16_bits(tied):
    (report,) = verification.verify([tied("mixed_bfloat16")])
    assert report.problems == []
    assert report.lines[0].endswith("; near ties changed label")

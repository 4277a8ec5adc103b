"""What is wrong with a SavedModel is found and named in one line."""

import importlib.metadata
import json
import pathlib
import re
import shutil
import subprocess
import sys

import keras
import numpy as np
import pytest

import keras_bert

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

from keras_bert.exporting import assets, probe_runner, verification  # noqa: E402


@pytest.fixture
def here(monkeypatch):
    """Runs what would run in a fresh process in this one, to save its start."""
    monkeypatch.setattr(verification, "ask", lambda requests: [probe_runner.answer(**one) for one in requests])


@pytest.fixture(scope="module")
def good(tmp_path_factory, config, pieces):
    """A model of regression that is fit to ship."""
    keras.utils.set_random_seed(1)
    directory = tmp_path_factory.mktemp("good") / "1"
    model = keras_bert.build_classifier(keras_bert.build_encoder(config), 1)
    keras_bert.export(model, keras_bert.TextPreprocessor(pieces, 20), directory)
    return directory


@pytest.fixture
def copy(good, tmp_path):
    """A copy of it to damage."""
    return shutil.copytree(good, tmp_path / "copy")


@pytest.fixture
def toy(tmp_path):
    """Writes a SavedModel of a function of strings and the probe of it."""

    def write(function, outputs, texts=("a", "bb", "cc\0")):
        function = tf.function(function, input_signature=[tf.TensorSpec([None], tf.string, "text")], autograph=False)
        tf.saved_model.save(tf.Module(), str(tmp_path / "toy"), {"serving_default": function})
        probe = {"serving_default": {"inputs": {"text": list(texts)}, "outputs": outputs}}
        (tmp_path / "toy" / assets.FOLDER).mkdir()
        store(tmp_path / "toy", probe)
        (tmp_path / "toy" / assets.FOLDER / assets.FACTS).write_text('{"precision": "float32"}')
        return tmp_path / "toy"

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


def test_a_good_model(good):
    """In a process of its own, as it is meant."""
    (report,) = verification.verify([good])
    assert report.problems == []
    assert [line.split(":")[0] for line in report.lines] == ["serving_default", "regress", "tokens", "ops"]
    assert report.lines[0].startswith("serving_default: 4 rows, largest difference ")
    assert report.lines[-1].endswith("unproven on TensorFlow Serving 2.20)")


@pytest.mark.slow
def test_other_weights(good, copy, config, pieces, here):
    """The right graph around the weights of another model."""
    keras.utils.set_random_seed(2)
    model = keras_bert.build_classifier(keras_bert.build_encoder(config), 1)
    keras_bert.export(model, keras_bert.TextPreprocessor(pieces, 20), copy.with_name("other"))
    shutil.rmtree(copy / "variables")
    shutil.copytree(copy.with_name("other") / "variables", copy / "variables")
    found = problems(copy)
    assert [problem.split(" differs by ")[0] for problem in found] == [
        "serving_default: score",
        "regress: outputs",
        "tokens: logits",
    ]
    # Nor does it pass for the rounding of 16 bits.
    assert len(problems(copy, tolerance=verification.TOLERANCES["bfloat16"])) == 3


def test_signatures_that_are_missing_and_left_over(copy, here):
    probes = probes_of(copy)
    probes["next_sentence"] = probes.pop("regress")
    store(copy, probes)
    assert problems(copy) == ["next_sentence: no such signature", "regress: there is no probe for it"]


def test_outputs_and_inputs_of_other_names(copy, here):
    probes = probes_of(copy)
    probes["serving_default"]["outputs"]["rating"] = probes["serving_default"]["outputs"].pop("score")
    probes["regress"]["inputs"] = {"examples": probes["regress"]["inputs"]["inputs"]}
    store(copy, probes)
    assert problems(copy) == [
        "serving_default: output rating is missing",
        "serving_default: output score is not among those of the probe",
        "regress: takes inputs",
    ]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: shutil.rmtree(path / assets.FOLDER), "no assets.extra/probes.json, which `export` writes"),
        (lambda path: (path / assets.FOLDER / assets.FACTS).unlink(), "no assets.extra/keras_bert.json, which"),
        (lambda path: (path / assets.FOLDER / assets.PROBES).write_text('{"a": '), "assets.extra is damaged: JSON"),
        (lambda path: store(path, {"a": {"inputs": {}}}), "assets.extra is damaged: KeyError: 'outputs'"),
        (lambda path: store(path, ["a"]), "assets.extra is damaged: AttributeError"),
        (lambda path: store(path, {"a": {"inputs": {}, "outputs": {}}}), "assets.extra is damaged: StopIteration"),
        (lambda path: (path / "saved_model.pb").unlink(), "no SavedModel: it has no saved_model.pb"),
        (lambda path: shutil.rmtree(path), "no SavedModel: it has no saved_model.pb"),
        (lambda path: (path / "saved_model.pb").write_bytes(b"\xff" * 9), "does not load: "),
        (lambda path: shutil.rmtree(path / "variables"), "does not load: "),
    ],
)
def test_a_damaged_folder_is_one_line(copy, here, damage, message):
    damage(copy)
    (problem,) = problems(copy)
    assert problem.startswith(message)
    assert "\n" not in problem


def test_a_stored_answer_that_is_no_answer(copy, here):
    probes = probes_of(copy)
    probes["serving_default"]["outputs"]["score"] = [[1.0], []]
    probes["regress"]["outputs"]["outputs"] = [1.0]
    store(copy, probes)
    first, second = problems(copy)
    assert first == "serving_default: score has no such values stored"
    assert second == "regress: outputs has shape (4,) for (1,)"


def test_an_op_that_serving_lacks(good, monkeypatch):
    known, made_from = verification.serving_ops()
    monkeypatch.setattr(verification, "serving_ops", lambda: (known - {"FastBertNormalize"}, made_from))
    report = verification.Report(good)
    verification._check_ops(report)
    assert report.problems == ["TensorFlow Serving does not link the op FastBertNormalize"]


def test_python_in_the_graph(toy, here):
    """Runs here and never in TensorFlow Serving."""
    directory = toy(
        lambda text: {"length": tf.ensure_shape(tf.numpy_function(np.shape, [text], tf.int64), [1])}, {"length": [3]}
    )
    assert "TensorFlow Serving does not link the op PyFunc" in problems(directory)


def test_a_toy_that_is_good(toy, here):
    # A string, an integer and a float; the byte 0 at the end of a text is kept.
    directory = toy(
        lambda text: {"text": text, "count": tf.strings.length(text), "length": lengths(text)},
        {"text": ["a", "bb", "cc\0"], "count": [1, 2, 3], "length": [1.0, 2.0, 3.0]},
    )
    assert problems(directory) == []


@pytest.mark.parametrize(
    ("function", "stored", "message"),
    [
        (lambda text: {"a": tf.strings.upper(text)}, ["A", "BB", "CB\0"], "a is 'CC\\x00' for 'CB\\x00' at [2]"),
        (lambda text: {"a": tf.strings.length(text)}, [1, 7, 3], "a is 2 for 7 at [1]"),
        (lambda text: {"a": lengths(text)}, [1.0, 2.0, 3.0001], "a differs by 0.0001, 3.3e-05 of its largest value"),
        (lambda text: {"a": tf.constant([1.0, 2.0])}, [1.0, 2.0], "a does not begin with the batch: 3 rows in"),
        (lambda text: {"a": tf.reduce_sum(lengths(text))}, 6.0, "a does not begin with the batch: 3 rows in, shape ()"),
        (lambda text: {"a": lengths(text) / 0.0}, [1.0, 2.0, 3.0], "a has values that are not finite"),
        (lambda text: {"a": lengths(text)}, [1.0, 2.0, -3e38], "a has a value where there should be none"),
        # Depends on the rest of the batch: alone 0.
        (lambda text: {"a": lengths(text) - 1}, [0.0, 1.0, 2.0], None),
        (
            lambda text: {"a": lengths(text) - tf.reduce_mean(lengths(text))},
            [-1.0, 0.0, 1.0],
            "a alone differs by 1, 1 of its largest value",
        ),
        # As wide as the batch is long: not padding.
        (
            lambda text: {"a": tf.tile(lengths(text)[:, None], [1, tf.size(text)])},
            [[1.0] * 3, [2.0] * 3, [3.0] * 3],
            "a alone has shape (1, 1), but there is more than padding in (1, 3)",
        ),
        (lambda text: {"a": lengths(text)[:, None] * [1.0, 0.0]}, [[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]], None),
    ],
)
def test_a_wrong_output(toy, here, function, stored, message):
    found = problems(toy(function, {"a": stored}))
    if message is None:
        assert found == []
    else:
        assert found[0].startswith(f"serving_default: {message}")


def test_padding_may_differ(toy, here):
    def letters(text):
        return {"letters": tf.strings.bytes_split(text).to_tensor(), "none": tf.zeros([tf.size(text), 0, 2])}

    stored = {"letters": [["a", "", ""], ["b", "b", ""], ["c", "c", "\0"]], "none": [[], [], []]}
    assert problems(toy(letters, stored)) == []


def test_compare_by_hand():
    expected, got = np.array([2.0, -4.0]), np.array([2.0, -4.5])
    assert verification.compare(expected, got, 0.2) == verification.Difference(0.5, 0.125)
    assert verification.compare(expected, got, 0.1).problem == "differs by 0.5, 0.12 of its largest value"
    assert verification.compare(expected, got, 0.1, scale=10).problem is None
    # What stands for "none" is no scale, and all zeros have the scale 1.
    assert verification.compare([-3.4e38, 1.0], np.array([-3.4e38, 1.5]), 1.0).relative == 0.5
    assert verification.compare([0.0], np.array([0.25]), 1.0).relative == 0.25


def test_no_compiler(good, here, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(ValueError, match="^to run natively needs a C\\+\\+ compiler, but there is no \\$CXX, g\\+\\+"):
        verification.verify([good], native=True)


def test_a_process_that_breaks(tmp_path):
    command = [sys.executable, "-c", "import sys; print('first\\nlast', file=sys.stderr); sys.exit(3)"]
    with pytest.raises(ValueError, match=r"^python\S* ended with status 3: last$"):
        verification._run(command, b"")


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
print(json.dumps([sorted(op for op in core if not left_out.match(op)), sorted(linked() - core)]))
"""


@pytest.mark.slow
def test_the_list_is_that_of_the_installed_tensorflow():
    """How the list was made: ops with a CPU kernel, those of TensorFlow save some families, and those of TF-Text."""
    path = pathlib.Path(verification.__file__).with_name("serving_ops.txt")
    versions = [importlib.metadata.version(name) for name in ("tensorflow", "tensorflow-text")]
    if not re.search("of TensorFlow {} and TF-Text {};".format(*map(re.escape, versions)), path.read_text()):
        pytest.skip(f"{path.name} was made from other versions than {' and '.join(versions)}")
    done = subprocess.run([sys.executable, "-c", OPS], capture_output=True, text=True, check=True)
    paragraphs = path.read_text().split("\n\n")[1:]
    assert [paragraph.split() for paragraph in paragraphs] == json.loads(done.stdout)


@pytest.mark.slow
def test_natively(good, toy, tmp_path):
    """In a program without Python; compiled once."""
    program = verification.build_native_runner(tmp_path)
    changed = program.stat().st_mtime
    assert verification.build_native_runner(tmp_path) == program
    assert program.stat().st_mtime == changed
    needed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    assert "libtensorflow_cc.so.2" in needed
    assert "python3" not in re.sub(r"\S*site-packages\S*", "", needed)

    inputs, outputs = (probes_of(good)["serving_default"][side] for side in ("inputs", "outputs"))
    got = verification.run_natively(program, good, "serving_default", {"text": np.array(inputs["text"], object)})
    assert list(got) == ["score"]
    np.testing.assert_allclose(got["score"], outputs["score"], rtol=1e-5)

    ids = {name: np.array(value) for name, value in probes_of(good)["tokens"]["inputs"].items()}
    logits = verification.run_natively(program, good, "tokens", ids)["logits"]
    np.testing.assert_allclose(logits, probes_of(good)["tokens"]["outputs"]["logits"], rtol=1e-5)

    texts = ["", "a\nb\tc d\0", "".join(map(chr, range(256)))]
    echo = toy(lambda text: {"text": text, "length": tf.strings.length(text)}, {}, texts)
    got = verification.run_natively(program, echo, "serving_default", {"text": np.array(texts, object)})
    assert got["text"].tolist() == texts
    assert got["length"].tolist() == [0, 8, 256]
    for signature, inputs, message in [
        ("other", {}, "the SavedModel has no signature other"),
        ("serving_default", {"words": np.array(texts, object)}, "the signature has no input words"),
    ]:
        with pytest.raises(ValueError, match=f"ended with status 1: {message}$"):
            verification.run_natively(program, echo, signature, inputs)


def test_near_ties_are_told_but_not_judged_in_16_bits():
    named = [
        ("label", verification.compare(["a", "b"], np.array(["a", "c"], object), 0.1)),
        ("scores", verification.compare([[0.5], [0.5]], np.array([[0.5, 0.1]]), 0.1)),
        ("score", verification.compare([1.0], np.array([1.05]), 0.1)),
        ("score alone", verification.compare([1.0], np.array([1.5]), 0.1)),
    ]
    wrong, ties = verification._judge(named, exact=False)
    assert wrong == ["score alone differs by 0.5, 0.5 of its largest value"]
    assert ties == "; by near ties other label, scores"
    wrong, ties = verification._judge(named, exact=True)
    assert [problem.split()[0] for problem in wrong] == ["label", "scores", "score"]
    assert ties == ""

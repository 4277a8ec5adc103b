"""Models of every head, `export` and verification in TensorFlow's C++ runtime, without Python, as in Serving."""

import importlib.util
import os
import pathlib
import shutil
import subprocess

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from tensorflow.core.framework import node_def_pb2  # noqa: E402

import keras_bert  # noqa: E402
from keras_bert.exporting import assets, verification  # noqa: E402
from keras_bert.files import read_json  # noqa: E402
from tests.conftest import HEADS  # noqa: E402

COMPILER = shutil.which(os.environ.get("CXX") or "g++") or shutil.which("clang++")
pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.slow,
    pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler"),
]
TEXTS = ["serving_default", "tokens", "ops"]
CLASSES = ["serving_default", "classify", *TEXTS[1:]]
WORDS = ["serving_default", "words", *TEXTS[1:]]
SIGNATURES = {
    "classification": CLASSES,
    "multi_label": CLASSES,
    "sentence_classification": CLASSES,
    "regression": ["serving_default", "regress", "tokens", "ops"],
    "token_classification": WORDS,
    "question_answering": TEXTS,
    "multiple_choice": TEXTS,
    "replaced_token_detection": TEXTS,
    "pretraining": ["serving_default", "next_sentence", "tokens", "ops"],
    "encoder": ["serving_default", "embed", "tokens", "ops"],
    "projection": ["serving_default", "embed", "embed_query", "zero_shot", "tokens", "ops"],
    "translation": ["serving_default", "alignment", "tokens", "ops"],
}
# The signatures of these heads are those of others.
ALIKE = {"mlm", "untied", "next_sentence", "embedding"}
for head in HEADS:
    if head not in {*SIGNATURES, *ALIKE}:
        SIGNATURES[head] = TEXTS
# In other precisions, few heads suffice: the signatures have the same operations.
BFLOAT16 = {"dtype": "mixed_bfloat16"}
INT8 = {"precision": "int8"}
NARROW = [
    ("classification", BFLOAT16),
    ("translation", BFLOAT16),
    ("translation", INT8),
    ("pretraining", INT8),
    ("token_classification", INT8),
]
# All heads in float32, each with the options of `exported`.
EXPORTS = [(head, {}) for head in SIGNATURES]
RUN = [*EXPORTS, ("classification", BFLOAT16), ("token_classification", INT8)]
_ENCODE = np.vectorize(lambda text: text.encode("latin-1"), [object])
_DECODE = np.vectorize(lambda text: text.decode("latin-1"), [object])


def run(program, directory, signature, inputs):
    """Returns the outputs of a signature on strings, arrays by name. A character of a string represents a byte."""
    folder = pathlib.Path(importlib.util.find_spec("tensorflow_text").origin).parent
    command = [str(program), str(directory), signature, *map(str, sorted(folder.glob("python/ops/*.so")))]
    request = node_def_pb2.NodeDef()
    for name, values in inputs.items():
        request.attr[name].tensor.CopyFrom(tf.make_tensor_proto(_ENCODE(values)))
    done = subprocess.run(command, input=request.SerializeToString(), capture_output=True, check=False)
    if done.returncode:
        raise ValueError(done.stderr.decode().strip().splitlines()[-1])
    answer = node_def_pb2.NodeDef.FromString(done.stdout)
    arrays = {}
    for name, value in answer.attr.items():
        array = tf.make_ndarray(value.tensor)
        arrays[name] = _DECODE(array) if array.dtype == object else array
    return arrays


@pytest.fixture(scope="module")
def program(shared_folder):
    """Compiles `native_runner.cc` for the installed TensorFlow; takes 15 seconds."""
    source = pathlib.Path(__file__).with_name("native_runner.cc")
    flags = tf.sysconfig.get_compile_flags()
    # The wheel's flags only name the framework. Sessions and kernels are in the other library, which registers them
    # when it is loaded: nothing calls it by name, so the linker must be told to keep it.
    linked = ["-Wl,--no-as-needed", *tf.sysconfig.get_link_flags(), "-l:libtensorflow_cc.so.2"]
    linked.append(f"-Wl,-rpath,{tf.sysconfig.get_lib()}")

    def fill(folder):
        folder.mkdir()
        command = [COMPILER, "-O1", "-w", *flags, str(source), "-o", str(folder / "native_runner"), *linked]
        subprocess.run(command, check=True)

    return shared_folder("native", fill) / "native_runner"


def test_every_head_passes_verification(exported):
    """In a process without this package."""
    exports = EXPORTS + NARROW
    reports = verification.verify([exported(head, **options) for head, options in exports])
    for (head, options), report in zip(exports, reports, strict=True):
        assert (head, options, report.problems) == (head, options, [])
        assert [line.split(":")[0] for line in report.lines] == SIGNATURES[head]
        assert ", 0 not linked by TensorFlow Serving (20" in report.lines[-1]


@pytest.mark.parametrize(("head", "options"), RUN)
def test_answers_in_the_native_runtime(exported, program, head, options):
    directory = exported(head, **options)
    (dtype,) = options.values() or ["float32"]
    signature = "zero_shot" if head == "projection" else "serving_default"
    probe = read_json(directory / assets.FOLDER / assets.PROBES)[signature]
    inputs = {name: np.array(values, object) for name, values in probe["inputs"].items()}
    got = run(program, directory, signature, inputs)
    assert set(got) == set(probe["outputs"])
    for name, stored in probe["outputs"].items():
        found = verification.compare(stored, got[name], verification.TOLERANCES[dtype])
        # In 16 bits, strings and integers depend on near ties.
        is_tie = dtype != "float32" and found.discrete
        assert found.problem is None or is_tie, (name, found)


@pytest.mark.parametrize("case", ["unigram_bert", "normalizer_sequence", "xlm_roberta_sequence"])
def test_answers_with_other_tokenizers(golden, program, tmp_path, case):
    """Those of `predict`: SentencePiece's op is a resource, which the program creates from the SavedModel."""
    texts = ["Zwei junge Männer.", "ﬁne <mask> Ⅷ\x85x", ""]
    bert = keras_bert.load(golden / "hf_world" / case)
    bert.export(tmp_path / "1")
    inputs = {"text": np.array([text.encode().decode("latin-1") for text in texts], object)}
    got = run(program, tmp_path / "1", "serving_default", inputs)
    for row, answer in enumerate(bert.predict(texts)):
        if "embedding" in answer:
            np.testing.assert_allclose(got["embedding"][row], answer["embedding"], atol=1e-5)
        else:
            np.testing.assert_allclose(got["probabilities"][row], list(answer["scores"].values()), atol=1e-5)

"""Tests of the command-line program."""

import json

import numpy as np
import pytest

import keras_bert
from tests.pipelines.programs import call, mistake

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow
PROGRAM = "pipelines.export_saved_model"


@pytest.fixture
def export(build, pieces, tmp_path):
    """A function that saves a model, and runs the command with `call` or `mistake`."""

    def exported(how, head, *arguments, **facts):
        model = build(head)
        keras_bert.save(model, tmp_path / head, pieces, **facts)
        folders = [f"--model={tmp_path / head}", f"--output_dir={tmp_path}/served"]
        return model, how(PROGRAM, *folders, *arguments)

    return exported


@pytest.fixture
def given(monkeypatch):
    """What the command passes to functions that export, which tests/exporting covers."""
    given = {}

    def replaced(model, preprocessor, directory, **options):
        given.update(options)
        given["dtype"] = keras_bert.describe(model).dtype
        given["length"] = preprocessor.sequence_length
        given["long_texts"] = preprocessor.long_texts
        return f"wrote {directory}"

    for name in ("export", "export_litert"):
        monkeypatch.setitem(vars(keras_bert), name, replaced)
    return given


@pytest.mark.slow
def test_export_uses_the_settings_of_the_training(export, pieces, tmp_path):
    (tmp_path / "served" / "7").mkdir(parents=True)
    labels = ["no", "yes", "maybe"]
    output = tmp_path / "served" / "8"
    columns = {"text": "review", "pair": "title"}
    training = {"labels": labels, "pair": True, "sequence_length": 12, "columns": columns}
    model, printed = export(call, "classification", **training)
    assert f"wrote {output}\n" in printed
    facts = json.loads((output / "assets.extra" / "keras_bert.json").read_text())
    assert facts["labels"] == labels
    assert facts["pair"] is True
    assert facts["sequence_length"] == 12
    assert facts["columns"] == columns
    texts = ["a b c d e f g h"]
    pairs = ["c d e f g h a b"]
    served = tf.saved_model.load(output).signatures["serving_default"]
    answer = served(text=tf.constant(texts), pair=tf.constant(pairs))
    logits = model(keras_bert.TextPreprocessor(pieces, 12)((texts, pairs)))["logits"].numpy()
    expected = np.exp(logits) / np.exp(logits).sum()
    np.testing.assert_allclose(answer["probabilities"], expected, rtol=1e-5)


def test_encoder_options_in_bfloat16(export, given):
    export(call, "encoder", "--layers=0,-1", "--pooling=cls", "--normalize", "--precision=bfloat16")
    assert given == {
        "layers": [0, -1],
        "pooling": "cls",
        "normalize": True,
        "labels": None,
        "pair": False,
        "precision": None,
        "calibration": None,
        "columns": None,
        "task": None,
        "overwrite": False,
        "explain": False,
        "long_texts": None,
        "dtype": "bfloat16",
        "length": 40,
    }


def test_options_of_other_heads_raise(export):
    _, message = export(mistake, "encoder", "--n_best=3")
    assert message.startswith("--n_best is not an option for head='encoder'. Expected one of: --pooling,")


def test_formats_of_other_runtimes(export, tmp_path):
    pytest.importorskip("onnxruntime", reason="`make convert` installs onnxruntime")
    labels = ["no", "yes", "maybe"]
    given = ["--format=onnx", "--precision=int8"]
    export(call, "classification", *given, labels=labels, pair=True)
    config = json.loads((tmp_path / "served" / "config.json").read_text())
    assert config["id2label"] == {"0": "no", "1": "yes", "2": "maybe"}
    assert config["keras_bert"]["pair"] is True
    assert (tmp_path / "served" / "model.onnx").is_file()


def test_lengths(export, given):
    _, printed = export(call, "encoder", "--format=litert", "--lengths=4,8", "--precision=float16")
    assert printed.startswith("wrote ")
    assert given["lengths"] == [4, 8]
    assert given["precision"] == "float16"
    assert given["dtype"] == "float32"


def test_long_texts(export, given):
    export(call, "classification", "--long_texts=windows", "--overlap=1")
    assert given["long_texts"] == "windows"
    export(call, "classification", "--format=litert", "--long_texts=tail")
    assert given["long_texts"] == "tail"
    _, message = export(mistake, "question_answering", "--long_texts=tail")
    assert "is for models that read a part of a long text" in message


def test_prompts_and_zero_shot_of_a_sentence_encoder(export, given):
    facts = {"prompts": {"query": "q: "}, "default_prompt_name": "query"}
    export(call, "projection", "--hypothesis=a {}", **facts)
    assert {name: given[name] for name in facts} == facts
    assert given["zero_shot"] == keras_bert.ZeroShot(hypothesis="a {}")
    _, message = export(mistake, "projection", "--pooling=max")
    assert message.startswith("--pooling, --layers and --normalize are for sentence encoders without a projection")

"""The folder of `export_onnx`: what it contains, and what it and `export_litert` refuse."""

import json

import numpy as np
import pytest

import keras_bert
from tests.conftest import TRANSFORMER

runtime = pytest.importorskip("onnxruntime", reason="`make convert` installs onnxruntime")
pytest.importorskip("onnx", reason="`make convert` installs onnx")
pytest.importorskip("ai_edge_litert", reason="`make convert` installs ai-edge-litert")
pytestmark = [pytest.mark.tensorflow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def preprocessor(pieces):
    return keras_bert.TextPreprocessor(pieces, 12)


@pytest.fixture
def classifier(model_of):
    return model_of("classification")


def files(folder):
    return sorted(path.name for path in folder.rglob("*"))


def test_a_client_reads_everything_from_the_folder(classifier, preprocessor, tmp_path):
    """The file's answer, and its name in `config.json`, are those of the model."""
    labels = ["no", "yes", "maybe"]
    folder = tmp_path / "exported"
    folder.mkdir()
    for name in ("model.onnx", "README.md"):
        (folder / name).touch()  # Replaced.
    report = keras_bert.export_onnx(classifier, preprocessor, folder, labels=labels, pair=True)
    assert files(folder) == ["config.json", "model.onnx", "tokenizer.json", "tokenizer_config.json", "vocab.txt"]
    assert report.path == folder / "model.onnx"
    assert report.size == report.path.stat().st_size
    assert report.difference < 1e-5
    assert list(report.latencies) == [40]
    config = json.loads((folder / "config.json").read_text())
    assert config["keras_bert"]["sequence_length"] == 12
    assert config["keras_bert"]["pair"] is True
    inputs = {name: np.array(ids) for name, ids in preprocessor((["b a"], ["d"])).items()}
    session = runtime.InferenceSession(report.path)
    (logits,) = session.run(["logits"], inputs)
    expected = classifier(inputs)["logits"]
    np.testing.assert_allclose(logits, expected, atol=1e-5)
    assert config["id2label"][str(logits[0].argmax())] == labels[int(np.argmax(expected))]


def test_a_client_reads_long_texts_as_in_training(classifier, pieces, tmp_path):
    preprocessor = keras_bert.TextPreprocessor(pieces, 12, long_texts="windows", overlap=3)
    keras_bert.export_onnx(classifier, preprocessor, tmp_path / "new")
    config = json.loads((tmp_path / "new" / "config.json").read_text())
    facts = config["keras_bert"]
    assert facts["long_texts"] == "windows"
    assert facts["overlap"] == 3
    assert facts["sequence_length"] == 12


def test_positions_that_are_counted_and_a_unigram_vocabulary(golden, tmp_path):
    """The file counts the positions of XLM-RoBERTa from its padding; the folder has no vocab.txt."""
    bert = keras_bert.load(golden / "hf_world" / "xlm_roberta")
    preprocessor = bert.preprocessor(24)
    keras_bert.export_onnx(bert.encoder, preprocessor, tmp_path / "new")
    assert files(tmp_path / "new") == ["config.json", "model.onnx", "tokenizer.json", "tokenizer_config.json"]
    assert keras_bert.Vocabulary(tmp_path / "new" / "tokenizer.json").pieces == bert.vocabulary.pieces
    ids = preprocessor(["Zwei <pad> Männer", ""])
    inputs = {name: values.numpy() for name, values in ids.items()}
    session = runtime.InferenceSession(tmp_path / "new" / "model.onnx")
    (states,) = session.run(["sequence_output"], inputs)
    is_real = inputs["padding_mask"].astype(bool)
    expected = np.array(bert.encoder(inputs)["sequence_output"])[is_real]
    np.testing.assert_allclose(states[is_real], expected, atol=2e-5 * np.abs(expected).max())


@pytest.mark.slow
@pytest.mark.parametrize("head", ["pretraining", "multiple_choice"])
def test_int8(model_of, preprocessor, tmp_path, head):
    report = keras_bert.export_onnx(model_of(head), preprocessor, tmp_path / "new", precision="int8")
    assert 1e-5 < report.difference < 0.3


def test_other_answers_leave_the_old_folder(classifier, preprocessor, tmp_path, monkeypatch):
    folder = tmp_path / "new"
    folder.mkdir()
    (folder / "model.onnx").write_text("old")
    run = runtime.InferenceSession.run
    monkeypatch.setattr(runtime.InferenceSession, "run", lambda *args: [array + 0.01 for array in run(*args)])
    with pytest.raises(ValueError, match=r"^model.onnx was not written, .*logits differs by 0.01, .* at most 1e-05$"):
        keras_bert.export_onnx(classifier, preprocessor, folder)
    assert (folder / "model.onnx").read_text() == "old"
    assert files(tmp_path) == ["model.onnx", "new"]  # No temporary folder is left.


@pytest.mark.parametrize(
    ("export", "only"), [(keras_bert.export_onnx, "model.onnx"), (keras_bert.export, "saved_model.pb")]
)
def test_a_folder_with_other_files_is_not_replaced(classifier, preprocessor, tmp_path, export, only):
    names = ["model.onnx", "model.safetensors", "saved_model.pb"]
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(ValueError, match=f"expected a new folder, or one with only {only}"):
        export(classifier, preprocessor, tmp_path)
    assert files(tmp_path) == names


def test_quantized_models(build, preprocessor, tmp_path):
    """LiteRT has files in int8 of its own, from the model in float32."""
    model = build("classification")
    model.quantize("int8")
    report = keras_bert.export_onnx(model, preprocessor, tmp_path / "new")
    assert report.difference < 0.1
    with pytest.raises(ValueError, match="`model` must not be quantized"):
        keras_bert.export_litert(model, preprocessor, tmp_path / "lite")


@pytest.mark.parametrize("export", [keras_bert.export_onnx, keras_bert.export_litert])
def test_models_without_a_graph(build, model_of, preprocessor, tmp_path, export):
    stranger = keras_bert.translation.build_transformer(TRANSFORMER)
    with pytest.raises(ValueError, match=r"must be a BERT with one of the heads.*`keras_bert.export` or `format=saved"):
        export(stranger, preprocessor, tmp_path / "new")
    narrow = build("encoder", dtype="bfloat16")
    with pytest.raises(ValueError, match=r"`model` must be in float32.*load it with dtype='float32'"):
        export(narrow, preprocessor, tmp_path / "new")
    with pytest.raises(ValueError, match="`precision`.*precision='int4'"):
        export(model_of("encoder"), preprocessor, tmp_path / "new", precision="int4")
    assert not list(tmp_path.iterdir())

"""The folders of `export_onnx` and `export_litert`: what they contain, and what is refused."""

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
def classifier(models):
    return models("classification")


def files(folder):
    return sorted(path.name for path in folder.rglob("*"))


def test_a_client_reads_everything_from_the_folder(classifier, preprocessor, tmp_path):
    labels = ["no", "yes", "maybe"]
    folder = tmp_path / "exported"
    folder.mkdir()
    for name in ("model.onnx", "README.md"):
        (folder / name).touch()  # Replaced.
    report = keras_bert.export_onnx(classifier, preprocessor, folder, labels=labels, pair=True)
    assert files(folder) == ["config.json", "model.onnx", "tokenizer.json", "tokenizer_config.json", "vocab.txt"]
    assert (report.path, report.size) == (folder / "model.onnx", (folder / "model.onnx").stat().st_size)
    assert report.difference < 1e-5
    assert list(report.latencies) == [40]
    config = json.loads((folder / "config.json").read_text())
    facts = config["keras_bert"]
    assert (facts["sequence_length"], facts["pair"]) == (12, True)
    inputs = {name: np.array(ids) for name, ids in preprocessor((["b a"], ["d"])).items()}
    (logits,) = runtime.InferenceSession(folder / "model.onnx").run(["logits"], inputs)
    expected = classifier(inputs)["logits"]
    np.testing.assert_allclose(logits, expected, atol=1e-5)
    assert config["id2label"][str(logits[0].argmax())] == labels[int(np.argmax(expected))]


def test_a_client_reads_long_texts_as_in_training(classifier, pieces, tmp_path):
    preprocessor = keras_bert.TextPreprocessor(pieces, 12, long_texts="windows", overlap=3)
    keras_bert.export_onnx(classifier, preprocessor, tmp_path / "new")
    facts = json.loads((tmp_path / "new" / "config.json").read_text())["keras_bert"]
    assert (facts["long_texts"], facts["overlap"], facts["sequence_length"]) == ("windows", 3, 12)


def test_positions_that_are_counted_and_a_unigram_vocabulary(golden, tmp_path):
    """The file counts the positions of XLM-RoBERTa from its padding; the folder has no vocab.txt."""
    bert = keras_bert.load(golden / "hf_world" / "xlm_roberta")
    keras_bert.export_onnx(bert.encoder, bert.preprocessor(24), tmp_path / "new")
    assert files(tmp_path / "new") == ["config.json", "model.onnx", "tokenizer.json", "tokenizer_config.json"]
    assert keras_bert.Vocabulary(tmp_path / "new" / "tokenizer.json").pieces == bert.vocabulary.pieces
    inputs = {name: ids.numpy() for name, ids in bert.preprocessor(24)(["Zwei <pad> Männer", ""]).items()}
    (states,) = runtime.InferenceSession(tmp_path / "new" / "model.onnx").run(["sequence_output"], inputs)
    is_real = inputs["padding_mask"].astype(bool)
    expected = np.array(bert.encoder(inputs)["sequence_output"])[is_real]
    np.testing.assert_allclose(states[is_real], expected, atol=2e-5 * np.abs(expected).max())


@pytest.mark.slow
@pytest.mark.parametrize("head", ["pretraining", "multiple_choice"])
def test_int8(models, preprocessor, tmp_path, head):
    report = keras_bert.export_onnx(models(head), preprocessor, tmp_path / "new", precision="int8")
    assert 1e-5 < report.difference < 0.3


@pytest.mark.slow
@pytest.mark.parametrize(("precision", "lengths", "most"), [("float16", None, 2e-2), ("int8", [4, 8], 0.3)])
def test_litert(classifier, preprocessor, tmp_path, precision, lengths, most):
    folder = tmp_path / "new"
    folder.mkdir()
    (folder / "model.tflite").touch()  # Replaced.
    report = keras_bert.export_litert(classifier, preprocessor, folder, precision=precision, lengths=lengths)
    assert report.difference < most
    assert list(report.latencies) == (lengths or [40])
    assert f"{folder}/model.tflite: 0." in str(report)


def test_other_answers_leave_the_old_folder(classifier, preprocessor, tmp_path, monkeypatch):
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "model.onnx").write_text("old")
    run = runtime.InferenceSession.run
    monkeypatch.setattr(runtime.InferenceSession, "run", lambda *args: [array + 0.01 for array in run(*args)])
    with pytest.raises(ValueError, match=r"^model.onnx was not written, .*logits differs by 0.01, .* at most 1e-05$"):
        keras_bert.export_onnx(classifier, preprocessor, tmp_path / "new")
    assert (tmp_path / "new" / "model.onnx").read_text() == "old"
    assert files(tmp_path) == ["model.onnx", "new"]  # No temporary folder is left.


def test_a_folder_with_other_files_is_not_replaced(classifier, preprocessor, tmp_path):
    names = ["model.onnx", "model.safetensors", "saved_model.pb"]
    for name in names:
        (tmp_path / name).touch()
    for export, only in ((keras_bert.export_onnx, "model.onnx"), (keras_bert.export, "saved_model.pb")):
        with pytest.raises(
            ValueError, match=f"the output replaces its folder: expected a new folder, or one with only {only}"
        ):
            export(classifier, preprocessor, tmp_path)
    assert files(tmp_path) == names


def test_quantized_models(build, preprocessor, tmp_path):
    model = build("classification")
    model.quantize("int8")
    assert keras_bert.export_onnx(model, preprocessor, tmp_path / "new").difference < 0.1
    with pytest.raises(ValueError, match="`model` must not be quantized"):
        keras_bert.export_litert(model, preprocessor, tmp_path / "lite")


def test_models_without_a_graph(build, models, preprocessor, tmp_path):
    narrow = build("encoder", dtype="bfloat16")
    stranger = keras_bert.translation.build_transformer(TRANSFORMER)
    for export in (keras_bert.export_onnx, keras_bert.export_litert):
        message = r"must be a BERT with one of the heads.*`keras_bert.export` or `format=saved"
        with pytest.raises(ValueError, match=message):
            export(stranger, preprocessor, tmp_path / "new")
        with pytest.raises(ValueError, match=r"`model` must be in float32.*load it with dtype='float32'"):
            export(narrow, preprocessor, tmp_path / "new")
        with pytest.raises(ValueError, match=r"`precision` must be one of float32, .*Received: precision='int4'"):
            export(models("encoder"), preprocessor, tmp_path / "new", precision="int4")
    assert not list(tmp_path.iterdir())


def test_lengths_that_no_signature_can_have(models, preprocessor, tmp_path):
    for lengths in ([], [8, 8], [0], ["8"], [41]):
        with pytest.raises(ValueError, match="`lengths` must be a list of different lengths of at most 40 tokens"):
            keras_bert.export_litert(models("encoder"), preprocessor, tmp_path / "new", lengths=lengths)

"""Tests of the command-line program."""

import json

import numpy as np
import pytest

import keras_bert
from tests.pipelines.programs import call, mistake, run

pytestmark = pytest.mark.tensorflow
PROGRAM = "pipelines.export_saved_model"


@pytest.fixture
def export(build, pieces, tmp_path):
    def exported(how, head, *arguments, **facts):
        model = build(head)
        keras_bert.save(model, tmp_path / head, pieces, **facts)
        return model, how(PROGRAM, f"--model={tmp_path / head}", f"--output_dir={tmp_path}/served", *arguments)

    return exported


def facts_of(path):
    return json.loads((path / "assets.extra" / "keras_bert.json").read_text())


@pytest.mark.slow
def test_export_uses_the_settings_of_the_training(export, pieces, tmp_path):
    import tensorflow as tf
    import tensorflow_text  # noqa: F401 (The SavedModel uses its ops.)

    (tmp_path / "served" / "7").mkdir(parents=True)
    labels, output = ["no", "yes", "maybe"], tmp_path / "served" / "8"
    model, (printed, _) = export(run, "classification", labels=labels, pair=True, sequence_length=12)
    assert f"wrote {output}\n" in printed
    facts = facts_of(output)
    assert (facts["labels"], facts["pair"], facts["sequence_length"]) == (labels, True, 12)
    texts, pairs = ["a b c d e f g h"], ["c d e f g h a b"]
    served = tf.saved_model.load(output).signatures["serving_default"]
    answer = served(text=tf.constant(texts), pair=tf.constant(pairs))
    logits = model(keras_bert.TextPreprocessor(pieces, 12)((texts, pairs)))["logits"].numpy()
    np.testing.assert_allclose(answer["probabilities"], np.exp(logits) / np.exp(logits).sum(), rtol=1e-5)


@pytest.mark.slow
def test_encoder_options_in_bfloat16(export, tmp_path):
    export(call, "encoder", "--layers=0,-1", "--pooling=cls", "--normalize", "--precision=bfloat16")
    facts = facts_of(tmp_path / "served" / "1")
    assert facts["options"] == {"layers": [0, -1], "pooling": "cls", "normalize": True}
    assert facts["precision"] == "bfloat16"


def test_options_of_other_heads_raise(export):
    _, message = export(mistake, "encoder", "--n_best=3")
    assert message.startswith("--n_best is not an option for head='encoder'. Expected one of: --pooling,")


def test_flags_of_other_formats_raise(export):
    for arguments, message in (
        (["--format=onnx", "--precision=float16"], "--format=onnx has --precision=float32, int8. Received: float16"),
        (["--precision=float16"], "--format=saved_model has --precision=float32, mixed_bfloat16, bfloat16, int8."),
        (["--lengths=8"], "--lengths needs --format=litert. Received: --format=saved_model"),
        (["--format=litert", "--n_best=3"], "--n_best needs --format=saved_model. Received: --format=litert"),
    ):
        assert export(mistake, "question_answering", *arguments)[1].startswith(message)


def test_formats_of_other_runtimes(export, tmp_path):
    pytest.importorskip("onnxruntime", reason="`make convert` installs onnxruntime")
    export(call, "classification", "--format=onnx", "--precision=int8", labels=["no", "yes", "maybe"], pair=True)
    config = json.loads((tmp_path / "served" / "config.json").read_text())
    assert config["id2label"] == {"0": "no", "1": "yes", "2": "maybe"}
    assert config["keras_bert"]["pair"] is True
    assert (tmp_path / "served" / "model.onnx").is_file()


@pytest.mark.slow
def test_lengths(export, tmp_path):
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="`make convert` installs ai-edge-litert")
    export(call, "encoder", "--format=litert", "--lengths=4,8", "--precision=float16")
    interpreter = litert.Interpreter(str(tmp_path / "served" / "model.tflite"))
    assert sorted(interpreter.get_signature_list()) == ["tokens_4", "tokens_8"]


@pytest.mark.slow
def test_prompts_and_zero_shot_of_a_sentence_encoder(export, tmp_path):
    facts = {"prompts": {"query": "q: "}, "default_prompt_name": "query"}
    export(call, "projection", "--hypothesis=a {}", **facts)
    written = facts_of(tmp_path / "served" / "1")
    assert written["options"] == {
        **facts,
        "zero_shot": {"hypothesis": "a {}", "multi_label": False, "temperature": 0.05},
    }
    assert {"embed", "embed_query", "zero_shot"} < written["signatures"].keys()
    _, message = export(mistake, "projection", "--pooling=max")
    assert message.startswith("--pooling, --layers and --normalize are for sentence encoders without a projection")

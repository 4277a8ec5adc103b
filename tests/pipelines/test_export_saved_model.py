"""The command as a user runs it."""

import json

import numpy as np
import pytest

import keras_bert
from tests.pipelines.programs import run

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def export(build, pieces, tmp_path):
    def exported(head, *arguments, output="served", **facts):
        model = build(head)
        keras_bert.save(model, tmp_path / head, pieces, **facts)
        flags = [f"--model={tmp_path / head}", f"--output={tmp_path / output}", *arguments]
        return model, run("pipelines.export_saved_model", *flags), tmp_path / output

    return exported


@pytest.mark.slow
def test_a_model_knows_what_it_was_trained_for(export, pieces, tmp_path):
    import tensorflow as tf
    import tensorflow_text  # noqa: F401 (The SavedModel has its operations.)

    (tmp_path / "served" / "7").mkdir(parents=True)
    labels = ["no", "yes", "maybe"]
    model, done, output = export("classification", labels=labels, pair=True, sequence_length=12)
    assert done.returncode == 0, done.stderr[-2000:]
    assert f"wrote {output}/8\n" in done.stdout
    facts = json.loads((output / "8" / "assets.extra" / "keras_bert.json").read_text())
    assert (facts["labels"], facts["pair"], facts["sequence_length"]) == (labels, True, 12)
    texts, pairs = ["a b c d e f g h"], ["c d e f g h a b"]
    served = tf.saved_model.load(output / "8").signatures["serving_default"]
    answer = served(text=tf.constant(texts), pair=tf.constant(pairs))
    logits = model(keras_bert.TextPreprocessor(pieces, 12)((texts, pairs)))["logits"].numpy()
    np.testing.assert_allclose(answer["probabilities"], np.exp(logits) / np.exp(logits).sum(), rtol=1e-5)


@pytest.mark.slow
def test_options_of_an_encoder_in_bfloat16(export):
    _, done, output = export("encoder", "--layers=0,-1", "--pooling=cls", "--normalize", "--precision=bfloat16")
    assert done.returncode == 0, done.stderr[-2000:]
    facts = json.loads((output / "1" / "assets.extra" / "keras_bert.json").read_text())
    assert facts["options"] == {"layers": [0, -1], "pooling": "cls", "normalize": True}
    assert facts["precision"] == "bfloat16"


@pytest.mark.slow
def test_an_option_of_another_head(export):
    _, done, _ = export("encoder", "--top=3")
    assert done.returncode == 2, done.stderr[-2000:]
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert line.startswith("error: --top is no option of a model with head='encoder', which has: --pooling,")

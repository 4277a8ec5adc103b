"""Tests of the command-line program."""

import json

import numpy as np
import pytest

import keras_bert
from tests.pipelines.programs import call

pytestmark = pytest.mark.tensorflow
PROGRAM = "pipelines.convert_checkpoint"


def test_hugging_face_to_google(build, pieces, tmp_path):
    model = build("pretraining")
    keras_bert.save(model, tmp_path / "hf", pieces, lowercase=True)
    folders = [f"--model={tmp_path}/hf", f"--output_dir={tmp_path}/google"]
    printed = call(PROGRAM, *folders, "--format=google")
    files = "bert_config.json, bert_model.ckpt.data-00000-of-00001, bert_model.ckpt.index, vocab.txt"
    assert printed.splitlines() == [
        f"read {tmp_path}/hf: pretraining, L-1_H-32, {model.count_params():,} parameters",
        f"wrote {tmp_path}/google in the format google: {files}",
    ]
    copy = keras_bert.load(tmp_path / "google")
    assert copy.vocabulary.pieces == tuple(pieces)
    converted = copy.pretrainer().trainable_weights
    for left, right in zip(converted, model.trainable_weights, strict=True):
        np.testing.assert_array_equal(left.numpy(), right.numpy())


def test_unused_tensors_are_listed(build, pieces, tmp_path):
    keras_bert.save(build("pretraining"), tmp_path / "hf", pieces)
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    config |= {"architectures": ["BertModel"], "keras_bert": {}}
    (tmp_path / "hf" / "config.json").write_text(json.dumps(config))
    folders = [f"--model={tmp_path}/hf", f"--output_dir={tmp_path}/out"]
    printed = call(PROGRAM, *folders, "--format=keras", "--tokenizer=none")
    unused = "not converted, unused by a model with head='encoder': cls.predictions.bias, "
    assert unused in printed
    copy = keras_bert.load(tmp_path / "out")
    assert copy.head == "encoder"
    assert copy.vocabulary is None

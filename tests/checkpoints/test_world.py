"""Folders as the world keeps them: ids and outputs are those of transformers, which wrote them."""

import json

import numpy as np
import pytest

import keras_bert
from tests.conftest import relative, to_numpy

CASES = ["bin_zip", "bin_legacy", "bin_sharded", "bin_old_names_views", "h5", "no_architectures_pretraining", "gelu_fast"]
CASES += ["never_split_default", "padding_side_left", "extra_tensors_encoder", "cross_encoder"]
INPUTS = {"token_ids": "input_ids", "segment_ids": "token_type_ids", "padding_mask": "attention_mask"}
OUTPUTS = {"prediction_logits": "mlm_logits", "seq_relationship_logits": "nsp_logits", "logits": "logits"}
OUTPUTS |= {"last_hidden_state": "sequence_output"}


@pytest.mark.parametrize("case", CASES)
def test_the_answers_are_those_of_transformers(golden, case):
    folder = golden / "hf_world" / case
    settings, texts = (json.loads((folder / f"{name}.json").read_text()) for name in ("case", "texts"))
    expected = np.load(folder / "golden.npz")
    bert = keras_bert.load(folder, **settings.get("load", {}))

    inputs = {ours: expected[theirs].astype("int32") for ours, theirs in INPUTS.items() if theirs in expected}
    inputs.setdefault("segment_ids", np.zeros_like(inputs["token_ids"]))
    model = bert.model()
    if "mask_positions" in model.input:
        inputs["mask_positions"] = np.tile(np.arange(inputs["token_ids"].shape[1]), (len(inputs["token_ids"]), 1))
    outputs = model(inputs)
    for name in settings["outputs"]:
        real = inputs["padding_mask"].astype(bool) if expected[f"out_{name}"].ndim == 3 else slice(None)
        ours = to_numpy(outputs[OUTPUTS[name]]).reshape(expected[f"out_{name}"].shape)
        assert relative(ours[real], expected[f"out_{name}"][real]) < 2e-5

    preprocessor = bert.preprocessor(128, padding="longest")
    for text, ids in zip(texts["texts"], texts["ids"], strict=True):
        assert to_numpy(preprocessor([text])["token_ids"])[0].tolist() == ids

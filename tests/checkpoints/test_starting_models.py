"""MPNet and RoBERTa as transformers saves them: the outputs of each head, and what is saved again."""

import json

import numpy as np
import pytest
import safetensors.numpy

import keras_bert
from tests.conftest import relative, to_numpy

HEADS = ["model", "maskedlm", "sequenceclassification", "tokenclassification", "questionanswering"]
CASES = [f"mpnet_{head}" for head in HEADS]
CASES += [f"roberta_{head}" for head in HEADS]
# Names of outputs in transformers, where they differ.
OUTPUTS = {"last_hidden_state": "sequence_output", "pooler_output": "pooled_output"}


@pytest.fixture(scope="module")
def expected(golden):
    """Inputs and outputs of transformers, a dict for each folder."""
    found = {}
    for path, array in np.load(golden / "starting_models" / "golden.npz").items():
        name, _, key = path.partition("/")
        found.setdefault(name, {})[key] = array
    return found


@pytest.mark.parametrize("case", CASES)
def test_outputs_are_those_of_transformers(golden, expected, case):
    arrays = dict(expected[case])
    token_ids = arrays.pop("input_ids").astype("int32")
    mask = arrays.pop("attention_mask").astype("int32")
    inputs = {"token_ids": token_ids, "segment_ids": np.zeros_like(token_ids), "padding_mask": mask}
    model = keras_bert.load(golden / "starting_models" / case, tokenizer=None).model()
    if "mask_positions" in model.input:
        inputs["mask_positions"] = np.tile(np.arange(token_ids.shape[1], dtype="int32"), (len(token_ids), 1))
    outputs = model(inputs)
    assert arrays
    for name, value in arrays.items():
        output = OUTPUTS.get(name, name)
        if case.endswith("maskedlm"):
            output = "mlm_logits"
        ours = to_numpy(outputs[output]).reshape(value.shape)
        if value.shape[:2] == mask.shape:
            real = mask == 1
            ours = ours[real]
            value = value[real]
        assert relative(ours, value) < 2e-5, name


@pytest.mark.parametrize("case", [f"mpnet_{head}" for head in HEADS])
def test_folders_are_saved_in_their_own_layout(golden, tmp_path, case):
    """Every tensor has the name and the value that transformers wrote, every key of the config its value."""
    folder = golden / "starting_models" / case
    keras_bert.load(folder, tokenizer=None).save(tmp_path)
    old = safetensors.numpy.load_file(folder / "model.safetensors")
    new = safetensors.numpy.load_file(tmp_path / "model.safetensors")
    assert old.keys() == new.keys()
    for name, tensor in old.items():
        np.testing.assert_array_equal(tensor, new[name])
    old = json.loads((folder / "config.json").read_text())
    new = json.loads((tmp_path / "config.json").read_text())
    unused = {"bos_token_id", "eos_token_id", "transformers_version"}  # By the model.
    if not case.endswith("classification"):
        unused |= {"id2label", "label2id"}
    assert {name: new.get(name) for name in old.keys() - unused} == {
        name: value for name, value in old.items() if name not in unused
    }

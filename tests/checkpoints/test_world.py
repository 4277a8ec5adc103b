"""Folders as the world keeps them: ids and outputs are those of transformers, which wrote them."""

import json

import numpy as np
import pytest
import safetensors.numpy

import keras_bert
from tests.checkpoints.conftest import NAMES
from tests.conftest import relative, to_numpy

CASES = [
    "bin_zip",
    "bin_legacy",
    "bin_sharded",
    "bin_old_names_views",
    "h5",
    "no_architectures_pretraining",
    "gelu_fast",
]
CASES += ["never_split_default", "padding_side_left", "extra_tensors_encoder", "cross_encoder"]
CASES += ["normalizer_sequence", "whitespace_pre_tokenizer", "unigram_bert"]
RELATIVES = [f"distilbert{head}" for head in ("", "_masked", "_questions", "_sequence", "_tokens")]
RELATIVES += [f"electra{head}" for head in ("", "_questions", "_sequence", "_tokens", "_wide")]
RELATIVES += [f"xlm_roberta{head}" for head in ("", "_masked", "_sequence")]
OUTPUTS = {"prediction_logits": "mlm_logits", "seq_relationship_logits": "nsp_logits", "logits": "logits"}
OUTPUTS |= {"last_hidden_state": "sequence_output", "start_logits": "start_logits", "end_logits": "end_logits"}


@pytest.mark.parametrize("case", [*CASES, *RELATIVES])
def test_the_answers_are_those_of_transformers(golden, case):
    folder = golden / "hf_world" / case
    settings = json.loads((folder / "case.json").read_text())
    texts = json.loads((folder / "texts.json").read_text())
    expected = np.load(folder / "golden.npz")
    bert = keras_bert.load(folder, **settings.get("load", {}))

    inputs = {ours: expected[theirs].astype("int32") for ours, theirs in NAMES.items() if theirs in expected}
    inputs.setdefault("segment_ids", np.zeros_like(inputs["token_ids"]))
    model = bert.encoder if bert.head == "embedding" else bert.model()
    if "mask_positions" in model.input:
        inputs["mask_positions"] = np.tile(np.arange(inputs["token_ids"].shape[1]), (len(inputs["token_ids"]), 1))
    outputs = model(inputs)
    for name in settings["outputs"]:
        theirs = expected[f"out_{name}"]
        output = OUTPUTS[name]
        if output not in outputs:
            output = "mlm_logits"
        ours = to_numpy(outputs[output]).reshape(theirs.shape)
        if theirs.ndim == 3:
            real = inputs["padding_mask"].astype(bool)
            ours = ours[real]
            theirs = theirs[real]
        assert relative(ours, theirs) < 2e-5

    preprocessor = bert.preprocessor(128, padding="longest")
    for text, ids in zip(texts["texts"], texts["ids"], strict=True):
        assert to_numpy(preprocessor([text])["token_ids"])[0].tolist() == ids


@pytest.mark.parametrize("case", RELATIVES)
def test_relatives_are_saved_in_their_own_layout(golden, tmp_path, case):
    """Every tensor has the name and the value that transformers wrote, every key of the config its value."""
    folder = golden / "hf_world" / case
    keras_bert.load(folder).save(tmp_path)
    old = safetensors.numpy.load_file(folder / "model.safetensors")
    new = safetensors.numpy.load_file(tmp_path / "model.safetensors")
    assert old.keys() == new.keys()
    for name, tensor in old.items():
        np.testing.assert_array_equal(tensor, new[name])
    old = json.loads((folder / "config.json").read_text())
    new = json.loads((tmp_path / "config.json").read_text())
    default = {"add_cross_attention", "bos_token_id", "eos_token_id", "transformers_version", "use_cache", "is_decoder"}
    default |= {name for name in old if name.endswith("_dropout") and name not in new}  # Of other heads.
    assert {name: new.get(name) for name in old if name not in default} == {
        name: value for name, value in old.items() if name not in default
    }


@pytest.mark.parametrize(("case", "lacks"), [("distilbert", "type_vocab_size=0"), ("electra", "embedding_size=16")])
def test_formats_without_a_place_for_relatives(golden, tmp_path, case, lacks):
    bert = keras_bert.load(golden / "hf_world" / case)
    for options in ({"format": "google"}, {"model_type": "bert"}):
        with pytest.raises(ValueError, match=f"has no place for .*{lacks}"):
            bert.save(tmp_path, **options)
    with pytest.raises(ValueError, match=f"has no place for .*{lacks}"):
        keras_bert.to_keras_hub(bert.encoder)

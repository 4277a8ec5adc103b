"""Checkpoints and SavedModels of the TensorFlow Model Garden."""

import json

import numpy as np
import pytest

import keras_bert
from keras_bert.checkpoints import model_garden
from tests.checkpoints.conftest import NAMES
from tests.conftest import relative, to_numpy

GARDEN = {"legacy_ckpt": "legacy", "hub_encoder": "legacy", "pretrainer_ckpt": "pretrainer"}
GARDEN |= {"hub_pretrained": "hub_pretrained"}


@pytest.mark.parametrize("casing", ["uncased", "cased"])
@pytest.mark.parametrize("folder", GARDEN)
def test_the_model_garden(golden, tmp_path, casing, folder):
    """Checkpoints and SavedModels of the TensorFlow Model Garden."""
    root = golden / "model_garden" / casing
    expected = np.load(root / f"{GARDEN[folder]}_golden.npz")
    bert = keras_bert.load(root / folder)
    assert bert.config == keras_bert.BertConfig.from_json(root / "bert_config.json")
    lowercase = casing == "uncased"  # Which no file of a checkpoint tells, and this vocabulary does not.
    assert bert.lowercase == lowercase or folder.endswith("ckpt")
    inputs = {"token_ids": expected["ids"], "segment_ids": expected["seg"], "padding_mask": expected["mask"]}
    encoded = bert.encoder(inputs)
    real = expected["mask"].astype(bool)
    assert relative(to_numpy(encoded["sequence_output"])[real], expected["sequence"][real]) < 2e-5
    if "pooled" in expected:
        assert relative(encoded["pooled_output"], expected["pooled"]) < 2e-5
    if "mlm" in expected:
        logits = bert.pretrainer()(inputs | {"mask_positions": expected["positions"]})["mlm_logits"]
        assert relative(logits, expected["mlm"]) < 2e-5

    texts = json.loads((root / "preprocess_golden.json").read_text())
    preprocessor = bert.preprocessor(16, lowercase=lowercase)
    for name, inputs in (("one", texts["texts"]), ("two", (texts["texts"], texts["pairs"]))):
        found = preprocessor(inputs)
        for ours, theirs in zip(NAMES, ("input_word_ids", "input_type_ids", "input_mask"), strict=True):
            np.testing.assert_array_equal(to_numpy(found[ours]), texts[name][theirs])


ENDING = "/.ATTRIBUTES/VARIABLE_VALUE"


def named(*paths):
    """Returns our names of paths of layers, each with its path."""
    found = model_garden.stored_names([f"{path}{ENDING}" for path in paths])
    return {ours: name.removesuffix(ENDING) for ours, name in found.items()}


def test_names_are_paths_of_layers():
    """Three tables and a norm, then blocks; the last number is that of the pooler."""
    layer = "encoder/layer_with_weights-{}"
    expected = {
        "embeddings.word_embeddings.weight": f"{layer.format(0)}/embeddings",
        "embeddings.position_embeddings.weight": f"{layer.format(1)}/embeddings",
        "embeddings.token_type_embeddings.weight": f"{layer.format(2)}/embeddings",
        "embeddings.LayerNorm.bias": f"{layer.format(3)}/beta",
        "encoder.layer.0.attention.self.key.weight": f"{layer.format(4)}/_attention_layer/_key_dense/kernel",
        "encoder.layer.1.output.LayerNorm.weight": f"{layer.format(5)}/_output_layer_norm/gamma",
        "pooler.dense.weight": f"{layer.format(6)}/kernel",
    }
    assert named(*expected.values(), "save_counter") == expected


def test_checkpoints_of_others_have_none_of_these_names():
    assert named() == {}
    assert named("save_counter", "optimizer/iter") == {}
    assert model_garden.stored_names(["bert/embeddings/word_embeddings"]) == {}


def test_a_saved_model_numbers_its_variables():
    """Of one block of 16 variables, after five of the embeddings and before two of the pooler."""
    found = named(*[f"variables/{number}" for number in range(23)])
    assert len(found) == 23
    assert found["embeddings.word_embeddings.weight"] == "variables/0"
    assert found["embeddings.LayerNorm.bias"] == "variables/4"
    assert found["encoder.layer.0.attention.self.query.weight"] == "variables/5"
    assert found["encoder.layer.0.output.LayerNorm.bias"] == "variables/20"
    assert found["pooler.dense.bias"] == "variables/22"
    with pytest.raises(ValueError, match="a SavedModel of 22 variables is no encoder"):
        named(*[f"variables/{number}" for number in range(22)])


def test_kernels_lose_their_axis_of_heads():
    """Tensors are (out, in); a kernel of attention is stored as (in, heads, size of a head) or the other way round."""
    stored = {
        "query": np.arange(24).reshape(4, 3, 2),
        "query_bias": np.arange(6).reshape(3, 2),
        "output": np.arange(24).reshape(3, 2, 4),
    }
    names = {
        "encoder.layer.0.attention.self.query.weight": "query",
        "encoder.layer.0.attention.self.query.bias": "query_bias",
        "encoder.layer.0.attention.output.dense.weight": "output",
    }
    shapes = {name: array.shape for name, array in stored.items()}
    found = model_garden.read_tensors(names, shapes, stored.__getitem__)
    query, bias, output = [found[name] for name in names]
    assert [query.shape, bias.shape, output.shape] == [(6, 4), (6,), (4, 6)]
    np.testing.assert_array_equal(query.read()[5], stored["query"][:, 2, 1])
    np.testing.assert_array_equal(bias.read(), np.arange(6))
    np.testing.assert_array_equal(output.read()[:, 5], stored["output"][2, 1])

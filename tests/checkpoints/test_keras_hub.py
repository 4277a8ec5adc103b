"""KerasHub's model, converted in both directions."""

import dataclasses

import keras
import numpy as np
import pytest

import keras_bert
from keras_bert.checkpoints import huggingface, tokenizer_files
from keras_bert.checkpoints.folder import Folder
from tests.checkpoints.conftest import randomize
from tests.conftest import to_numpy

keras_hub = pytest.importorskip("keras_hub", reason="keras-hub is not installed")
preset_utils = pytest.importorskip("keras_hub.src.utils.preset_utils")


@pytest.fixture(scope="module")
def backbone():
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=50, num_layers=1, num_heads=4, hidden_dim=32, intermediate_dim=64, max_sequence_length=40
    )
    return randomize(backbone)


def test_from_keras_hub_and_back(backbone, batch):
    bert = keras_bert.load(backbone)
    assert bert.config.hidden_act == "gelu_new"
    assert bert.vocabulary is None
    expected = backbone(batch)
    got = bert.encoder(batch)
    for name in ("sequence_output", "pooled_output"):
        np.testing.assert_allclose(to_numpy(got[name]), to_numpy(expected[name]), atol=1e-5)
    again = keras_bert.to_keras_hub(keras_bert.build_classifier(bert.encoder, 3))
    for weight, twin in zip(again.weights, backbone.weights, strict=True):
        np.testing.assert_array_equal(to_numpy(weight), to_numpy(twin))


def test_a_preset_name_goes_to_keras_hub(monkeypatch):
    asked = []

    def check_file_exists(preset, path):
        asked.append(preset)
        raise OSError("no network\nand more lines")

    monkeypatch.setattr(preset_utils, "check_file_exists", check_file_exists)
    with pytest.raises(ValueError, match="bert_base_en_uncased: KerasHub cannot load this preset: no network$"):
        keras_bert.load("bert_base_en_uncased")
    assert asked == ["bert_base_en_uncased"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_act": "gelu"}, "only supports `hidden_act`='gelu_new'. Received: hidden_act='gelu'"),
        ({"attention_probs_dropout_prob": 0.2}, "only supports `attention_probs_dropout_prob`=0.1"),
        ({"layer_norm_eps": 1e-6}, "only supports `layer_norm_eps`=1e-12"),
    ],
)
def test_models_that_keras_hub_cannot_represent(config, models, changes, message):
    with pytest.raises(ValueError, match=message):
        keras_bert.to_keras_hub(keras_bert.build_encoder(dataclasses.replace(config, **changes)))
    with pytest.raises(ValueError, match="a token_classification model has none"):
        keras_bert.to_keras_hub(models("token_classification"))


@pytest.mark.tensorflow
def test_the_tokenizer_of_a_preset(eager, backbone, pieces, tmp_path):
    """Token ids of texts that both programs normalize equally. The head of its task is unknown here."""
    pieces = [*pieces[:-2], "é", "中国"]
    options = {"strip_accents": False, "special_tokens_in_strings": True}
    tokenizer = keras_hub.models.BertTokenizer(vocabulary=pieces, lowercase=True, **options)
    preprocessor = keras_hub.models.BertMaskedLMPreprocessor(tokenizer, sequence_length=12)
    keras_hub.models.BertMaskedLM(backbone, preprocessor).save_to_preset(tmp_path / "preset")
    with pytest.raises(ValueError, match="the head of the task BertMaskedLM cannot be read"):
        keras_bert.load(tmp_path / "preset")
    bert = keras_bert.load(tmp_path / "preset", head="encoder")
    texts = ["É a", "a[MASK]b [mask]", "中国 a中", "[CLS][SEP]"]
    expected = [list(ids) for ids in tokenizer(texts)]
    assert bert.preprocessor(16).tokenizer(texts).to_list() == expected
    assert bert.vocabulary.pieces == tuple(pieces)
    assert bert.lowercase
    keras_bert.save(bert.encoder, tmp_path / "ours", bert.vocabulary, lowercase=bert.lowercase)
    metadata = huggingface.read_config(Folder(tmp_path / "ours"))[1]
    assert tokenizer_files.read(Folder(tmp_path / "ours"), metadata, 200).vocabulary == bert.vocabulary


@pytest.mark.tensorflow
@pytest.mark.parametrize("activation", ["sigmoid", "softmax"])
def test_a_classifier_keeps_its_head(backbone, pieces, batch, tmp_path, activation):
    """One activation with an object, the other with a preset."""
    tokenizer = keras_hub.models.BertTokenizer(vocabulary=pieces, lowercase=False)
    preprocessor = keras_hub.models.BertTextClassifierPreprocessor(tokenizer, sequence_length=12)
    source = task = keras_hub.models.BertTextClassifier(
        backbone, num_classes=3, preprocessor=preprocessor, activation=activation, dropout=0.2
    )
    if activation == "softmax":
        source = tmp_path / "preset"
        task.save_to_preset(source)
    bert = keras_bert.load(source)
    is_sigmoid = activation == "sigmoid"
    assert (bert.head, bert.multi_label, bert.config.head_dropout) == ("classification", is_sigmoid, 0.2)
    assert (bert.vocabulary.pieces, bert.lowercase) == (tuple(pieces), False)
    found = getattr(keras.ops, activation)(bert.model()(batch)["logits"])
    np.testing.assert_allclose(to_numpy(found), to_numpy(task(batch)), atol=1e-5)

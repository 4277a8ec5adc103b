"""What a loaded checkpoint has beside its files: models, words, facts."""

import dataclasses
import operator

import keras
import numpy as np
import pytest

import keras_bert
from keras_bert.bert import LoadedBert
from keras_bert.checkpoints import loaded
from tests.checkpoints.conftest import rewrite, without
from tests.conftest import to_numpy


def test_new_weights_are_those_of_a_model_whose_encoder_was_drawn(folder, config):
    """Of a head, and of a pooler that the folder lacks; what the checkpoint fills is not drawn."""
    rewrite(folder, without("pooler"))
    drawn = []
    for open_encoder in (lambda: keras_bert.build_encoder(config), lambda: keras_bert.load(folder).encoder):
        keras.utils.set_random_seed(1)
        encoder = open_encoder()
        layers = encoder.get_layer("pooler").dense, keras_bert.build_classifier(encoder, 3).get_layer("classifier")
        drawn.append([to_numpy(layer.kernel) for layer in layers])
    for first, second in zip(*drawn, strict=True):
        assert np.any(first)
        np.testing.assert_array_equal(first, second)


@pytest.mark.tensorflow
def test_words_are_added_to_plain_models_only(folder, models, tmp_path):
    bert = keras_bert.load(folder)
    keras_bert.enable_lora(bert.model(), 2)
    with pytest.raises(ValueError, match=r"`bert.model\(\)` must not have LoRA adapters"):
        bert.add_words(["zoo"])
    keras_bert.merge_lora(bert.model())
    before = bert.model()
    assert bert.add_words(np.array(["zoo"])).config.vocab_size == 51
    for variable in before.trainable_variables:
        variable.assign(0 * variable)
    assert all(np.any(tensor.read()) for tensor in bert.checkpoint().tensors.values())
    assert all(np.any(variable) for variable in bert.pretrainer().trainable_variables)
    bert.encoder.get_layer("token_embedding").quantize("int8")
    with pytest.raises(ValueError, match="`add_words` needs floats"):
        bert.add_words(["cow"])
    models("question_answering").save(tmp_path / "mine.keras")
    mine = keras_bert.load(tmp_path / "mine.keras")
    with pytest.raises(ValueError, match="mine.keras has no vocabulary"):
        mine.add_words(["zoo"])
    with pytest.raises(ValueError, match=r"mine.keras has no vocabulary. .* load\(..., tokenizer=folder\)"):
        mine.preprocessor(8)


def test_out_of_memory(folder, monkeypatch):
    def full(*args, **kwargs):
        raise MemoryError

    monkeypatch.setattr(loaded, "build_encoder", full)
    with pytest.raises(MemoryError, match=r"out of memory while loading [\d,]+ parameters \(0.0 GB in float32\)"):
        keras_bert.load(folder)


def test_a_loaded_checkpoint_is_not_a_model(saved):
    bert = keras_bert.load(saved("classification"))
    for use in (
        lambda: keras_bert.build_classifier(bert, 2),
        lambda: keras_bert.build_multiple_choice(bert),
        lambda: keras_bert.describe(bert),
    ):
        with pytest.raises(ValueError, match=r"pass `bert.encoder` to builders and `bert.model\(\)` to .*LoadedBert"):
            use()
    with pytest.raises(ValueError, match=r"`bert.model\(\)`"):
        keras_bert.save(bert, "nowhere", None)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("compile", r"has no attribute 'compile'. Use `bert.encoder` .* or `bert.model\(\)`"),
        ("nothing", "LoadedBert has no attribute 'nothing'$"),
        ("predct", r"LoadedBert has no attribute 'predct'. Did you mean 'predict'\?$"),
        ("_predict", "LoadedBert has no attribute '_predict'$"),
        ("from_pretrained", r"no attribute 'from_pretrained': keras_bert.load\(path_or_name\) opens a checkpoint"),
        ("predict_proba", "`predict` returns probabilities: `score` and `scores` of each answer$"),
        ("model.fit", r"`bert.model` is a method, .* Use `bert.fit`, .* on texts, or bert.model\(\).fit on token ids"),
    ],
)
def test_attributes_of_others_name_what_to_use(saved, name, message):
    bert = keras_bert.load(saved("classification"))
    with pytest.raises(AttributeError, match=message):
        operator.attrgetter(name)(bert)


def test_one_model_and_its_arguments(saved):
    bert = keras_bert.load(saved("classification"))
    assert "same one in each call" in LoadedBert.model.__doc__
    assert bert.model() is bert.model()
    with pytest.raises(ValueError, match="`sequence_length` must be at most 40, the number of positions of "):
        bert.preprocessor(41)
    with pytest.raises(TypeError, match="unexpected keyword argument 'pair'"):
        bert.classifier(2, pair=False)  # Would change nothing.


def test_what_a_loaded_checkpoint_shows(saved, monkeypatch):
    """Its labels and its length; methods and the facts that people ask for."""
    bert = keras_bert.load(saved("classification"))
    start = f"LoadedBert({str(saved('classification'))!r}, L=1 H=32 A=4, head='classification'"
    assert (bert.labels, repr(bert)) == (None, f"{start})")
    monkeypatch.setattr(bert, "labels", ["a", "b"])
    monkeypatch.setattr(bert, "sequence_length", 128)
    assert repr(bert) == f"{start}, labels=['a', 'b'], sequence_length=128)"
    monkeypatch.setattr(bert, "labels", list("abcdefg"))
    assert repr(bert) == f"{start}, labels=['a', 'b', 'c', 'd', 'e', ... 7 in all], sequence_length=128)"
    shown = [name for name in dir(bert) if not name.startswith("_")]
    assert {"fit", "predict", "save", "labels", "results", "encoder"} <= set(shown)
    assert sum(not callable(getattr(bert, name)) for name in shown) <= 10
    assert all(hasattr(bert, field.name) for field in dataclasses.fields(bert.metadata))


@pytest.mark.tensorflow
def test_attention(eager, saved):
    bert = keras_bert.load(saved("encoder"), attention_scores=True)
    tokens, attention = bert.attention(("ab c", "d"))
    assert tokens == ["[CLS]", "a", "##b", "c", "[SEP]", "d", "[SEP]"]
    inputs = bert.preprocessor(7)((["ab c"], ["d"]))
    np.testing.assert_allclose(attention, np.concatenate(bert.encoder(inputs)["attention_scores"]), atol=1e-6)
    assert attention.shape == (1, 4, 7, 7)
    tokens, _ = keras_bert.load(saved("pretraining")).attention("a [MASK].")
    assert tokens == ["[CLS]", "a", "[MASK]", "[UNK]", "[SEP]"]
    with pytest.raises(ValueError, match=r"`text` must be a string or a tuple of two strings. Received: text=\['a'\]"):
        bert.attention(["a"])


def test_the_present_weights_include_a_pooler_that_the_head_does_not_read(saved):
    """A new one, if the folder has none; what is trained from them must start with the same one each time."""
    bert = keras_bert.load(saved("token_classification"))
    bert.model()
    start = LoadedBert(bert.checkpoint())
    again = LoadedBert(start.checkpoint())
    assert start.identity == again.identity
    np.testing.assert_array_equal(start.encoder.get_weights()[-1], again.encoder.get_weights()[-1])
    # A new pooler is no other model to resume from, as a new head is none.
    assert LoadedBert(keras_bert.load(saved("token_classification")).checkpoint()).identity == start.identity

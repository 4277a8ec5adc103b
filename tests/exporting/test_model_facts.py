"""What makes another model, and is therefore not replaced."""

import json

import numpy as np
import pytest

import keras_bert
from keras_bert.exporting.model_facts import AnsweringParts, check_same_export, model_facts

pytestmark = pytest.mark.tensorflow

CONFIG = {
    "vocab_size": 50,
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
    "max_position_embeddings": 40,
}


def facts_of(pieces, config=(), head="classification", options=(), text=(), labels=("a", "b"), **more):
    """The facts of an export of a small model; dicts have what differs from the first one."""
    encoder = keras_bert.build_encoder(keras_bert.BertConfig(**CONFIG | dict(config)))
    names = list(labels)
    if head == "classification":
        model = keras_bert.build_classifier(encoder, **{"num_classes": 2} | dict(options))
    else:
        names = None
        model = keras_bert.build_embedder(encoder, **dict(options))
    preprocessor = keras_bert.TextPreprocessor(pieces, **{"sequence_length": 20} | dict(text))
    pair = more.pop("pair", False)
    return model_facts(AnsweringParts(keras_bert.describe(model), preprocessor, names, pair, options=more))


SETTINGS = {"max_word_length": 20, "tokenize_chinese_chars": False, "truncation_side": "left", "pair_segments": False}

# No answer depends on these, or they are options of the export.
SAME = [
    {"config": {"hidden_dropout_prob": 0.3}},
    {"config": {"attention_probs_dropout_prob": 0.0}},
    {"options": {"dropout": 0.5}},
    {"config": {"initializer_range": 0.5}},
    {"text": {"sequence_length": 30}},
    {"text": {"padding": 8}},
    {"text": {"lowercase": True}},
    {"text": {"strip_accents": True}},  # As without it, in lower case.
    {"logits": True, "rows_together": np.int64(4)},
]

OTHER = {
    "lowercase": {"text": {"lowercase": False}},
    "tokenizer.strip_accents": {"text": {"strip_accents": False}},
    "tokenizer.keep_special_tokens": {"text": {"keep_special_tokens": ["[MASK]"]}},
    "tokenizer.truncation": {"text": {"truncation": "only_second"}},
    "config.hidden_act": {"config": {"hidden_act": "relu"}},
    "config.layer_norm_eps": {"config": {"layer_norm_eps": 0.1}},
    "config.num_attention_heads": {"config": {"num_attention_heads": 4}},
    "graph.pooler_activation": {"config": {"pooler_activation": "gelu"}},
    "labels.1": {"labels": ("a", "c")},
    "labels.0": {"labels": ("b", "a")},
    "labels": {"labels": ("a", "b", "c"), "options": {"num_classes": 3}},
    "multi_label": {"options": {"multi_label": True}},
    "pair": {"pair": True},
    "head": {"head": "embedding"},
}
for name, value in SETTINGS.items():
    OTHER[f"tokenizer.{name}"] = {"vocabulary": {name: value}}


def written(folder, facts):
    """A folder with a SavedModel of these facts, as far as the guard reads it."""
    (folder / "assets.extra").mkdir(parents=True)
    (folder / "saved_model.pb").touch()
    (folder / "assets.extra" / "keras_bert.json").write_text(json.dumps(facts, default=lambda value: value.tolist()))
    return folder


def test_what_makes_another_model(pieces, tmp_path):
    folder = written(tmp_path, facts_of(pieces))
    for change in SAME:
        check_same_export(folder, facts_of(pieces, **change))
    for name, change in OTHER.items():
        change = dict(change)
        vocabulary = keras_bert.Vocabulary(pieces, **change.pop("vocabulary", {}))
        with pytest.raises(ValueError, match=f"^the folder has the SavedModel of another model: `{name}`"):
            check_same_export(folder, facts_of(vocabulary, **change))
    with pytest.raises(ValueError, match="another model: `vocabulary.sha256`"):
        check_same_export(folder, facts_of([*pieces[:-1], "zz"]))


def test_what_makes_another_encoder(pieces, tmp_path):
    """The pooling does; the length of its training does not, and an export of an earlier version tells less."""
    facts = facts_of(pieces, head="embedding", options={"pooling": "mean"})
    folder = written(tmp_path / "new", facts)
    check_same_export(folder, facts_of(pieces, head="embedding", options={"sequence_length": 9}))
    other = facts_of(pieces, head="embedding", options={"pooling": "cls"})
    with pytest.raises(ValueError, match="another model: `graph.head.pooling` was 'mean', is 'cls'"):
        check_same_export(folder, other)
    earlier = {name: value for name, value in facts.items() if name not in ("graph", "tokenizer")}
    folder = written(tmp_path / "old", earlier)
    check_same_export(folder, other)
    with pytest.raises(ValueError, match="another model: `lowercase` was True, is False"):
        check_same_export(folder, facts_of(pieces, head="embedding", text={"lowercase": False}))

"""Small Unigram vocabularies with the special tokens of XLM-RoBERTa."""

import base64

import numpy as np

import keras_bert

SPECIAL = {"[CLS]": "<s>", "[PAD]": "<pad>", "[SEP]": "</s>", "[UNK]": "<unk>", "[MASK]": "<mask>"}
MASK = keras_bert.AddedToken("<mask>", False, True, True)
METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
NO_TABLE = {"type": "Precompiled", "precompiled_charsmap": ""}
PRE_TOKENIZER = {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, METASPACE]}
SCORES = {
    "▁": -3.0,
    "a": -4.5,
    "b": -5.0,
    "c": -6.0,
    "▁a": -4.0,
    "▁b": -6.0,
    "ab": -5.5,
    "▁cab": -7.0,
    "ca": -6.5,
    "(": -5.0,
    ")": -5.0,
}


def unigram(scores, **options):
    """Returns the vocabulary of pieces with scores, a dict, after the special tokens."""
    scores = dict.fromkeys(SPECIAL.values(), 0.0) | scores
    values = {
        "unigram": {"scores": list(scores.values())},
        "special_tokens": SPECIAL,
        "pair_separators": 2,
        "pair_segments": False,
        "added_tokens": [MASK],
        "normalizer": NO_TABLE,
        "pre_tokenizer": PRE_TOKENIZER,
    }
    return keras_bert.Vocabulary(list(scores), **(values | options))


def table(units):
    """Options with a table of characters of one block, which has one string, an empty one."""
    content = np.zeros(256, "<u4")
    for place, unit in units.items():
        content[place] = unit
    encoded = base64.b64encode(b"\0\4\0\0" + content.tobytes() + b"\0").decode()
    return {"normalizer": {"type": "Precompiled", "precompiled_charsmap": encoded}}

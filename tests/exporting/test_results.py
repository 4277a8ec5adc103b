"""`LoadedBert.predict` gives the answers of the exported SavedModel, as dicts."""

import functools
import math

import numpy as np
import pytest

import keras_bert

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

from keras_bert.exporting.results import results  # noqa: E402
from tests.exporting.conftest import LABELS, TAGS  # noqa: E402

TEXTS = ["a b", "c!", "", "d e f g", "Ünï cödé 今天 b. " * 10]
PAIRS = ["x", "y z", "a", "", "b c"]
CHOICES = [["a", "b c"], ["", "d"], ["e", "f"], ["g h", "i"], ["k", "l"]]
COLUMNS = {
    "token_classification": {"text": TEXTS},
    "question_answering": {"question": PAIRS, "context": TEXTS},
    "pretraining": {"text": ["a [MASK] b", "c", "[MASK] d [MASK]", "", "[MASK]"]},
    "next_sentence": {"text": TEXTS, "pair": PAIRS},
    "multiple_choice": {"text": TEXTS, "choices": CHOICES},
}
# As the fixture `exported` sets them.
OPTIONS = {"token_classification": {"stride": 7}, "question_answering": {"null_threshold": 0.5, "n_best": 2}}
NAMES = {"classification": LABELS, "token_classification": TAGS}


@pytest.fixture(scope="module")
def load(model_of, pieces, tmp_path_factory):
    """Loads the saved model of a head, once for each head and its settings."""

    @functools.cache
    def loaded(head, **settings):
        folder = tmp_path_factory.mktemp(head)
        keras_bert.save(model_of(head), folder, pieces, labels=NAMES.get(head), sequence_length=20, **settings)
        return keras_bert.load(folder)

    return loaded


def strings(values):
    return [value.decode() if isinstance(value, bytes) else value for value in np.array(values).tolist()]


def as_dict(head, output, row):
    """One row of a SavedModel's outputs as `predict` returns it; numbers that both state are equal."""
    output = {name: strings(values) if np.ndim(values) else values.item() if name not in ("label", "answer") else values.decode() for name, values in output.items()}
    match head:
        case "classification":
            scores = dict(zip(output["labels"], output["probabilities"], strict=True))
            return {"label": output["label"], "score": max(scores.values()), "scores": scores}
        case "multi_label":
            scores = dict(zip(output["labels"], output["probabilities"], strict=True))
            return {"labels": [name for name, score in scores.items() if score >= 0.5], "scores": scores}
        case "regression":
            return {"value": output["score"]}
        case "token_classification":
            columns = ("entities", "entity_types", "entity_starts", "entity_ends", "entity_scores")
            count, content = output["entity_count"], row["text"].encode()
            found = list(zip(*(output[name][:count] for name in columns), strict=True))
            return {"entities": [{"text": text, "label": label, "start": len(content[:start].decode()), "end": len(content[:end].decode()), "score": score} for text, label, start, end, score in found]}
    raise AssertionError(head)

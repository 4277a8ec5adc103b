"""Models of every head, exported once for all tests."""

import functools

import keras
import numpy as np
import pytest

import keras_bert
from tests.conftest import HEADS, TRANSFORMER

LABELS = ["3", "1", "2"]
THRESHOLDS = [0.2, np.float32(0.5), 0.7]
TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-ORG", "I-ORG", "B-MISC", "I-MISC"]
# Labels and options may be NumPy scalars.
OPTIONS = {
    "classification": {"labels": np.array([3, 1, 2])},
    "multi_label": {"thresholds": THRESHOLDS},
    "token_classification": {"labels": TAGS, "doc_stride": np.int64(7)},
    "question_answering": {"n_best": 2, "null_threshold": 0.5},
    "projection": {"prompts": {"query": "a b "}, "zero_shot": keras_bert.ZeroShot()},
    "translation": {"n_best": 2, "beam": keras_bert.translation.Beam(3)},
}
NO_MASK = ["a b c", ""]
CALIBRATIONS = {"pretraining": NO_MASK}  # In int8; other heads have none.


@pytest.fixture(scope="session")
def model_of(config):
    """Builds a model by its head, once. Head weights are large, so that a wrong one is noticed."""

    @functools.cache
    def build(head, **options):
        keras.utils.set_random_seed(1)
        if head == "translation":
            return keras_bert.translation.build_transformer(TRANSFORMER, **options)
        model = HEADS[head].build(keras_bert.build_encoder(config, **options))
        rng = np.random.default_rng(0)
        layers = {layer.name: layer for layer in model.layers}
        for name in ("classifier", "token_classifier", "span", "choice_scorer", "next_sentence", "discriminator"):
            if name in layers:
                weights = []
                for weight in layers[name].get_weights():
                    weights.append(rng.normal(scale=0.25, size=weight.shape))
                layers[name].set_weights(weights)
        return model

    return build


@pytest.fixture(scope="session")
def preprocessor(pieces):
    return keras_bert.TextPreprocessor(pieces, 20, padding="longest")


@pytest.fixture(scope="session")
def exported(model_of, preprocessor, reversible, shared_folder):
    """The SavedModel of a head, once for each head and precision: in place of an older one, and moved afterwards."""

    def export(head, precision=None, **options):
        tokenizer = preprocessor
        if head == "translation":
            tokenizer = reversible
        calibration = None
        if precision == "int8":
            calibration = CALIBRATIONS.get(head)

        def fill(folder):
            assets = folder / "1" / "assets.extra"
            assets.mkdir(parents=True)
            (assets / "old").touch()
            settings = OPTIONS.get(head, {})
            keras_bert.export(
                model_of(head, **options),
                tokenizer,
                folder / "1",
                precision=precision,
                calibration=calibration,
                **settings,
            )

        name = ["export", head, *map(str, options.values())]
        if precision is not None:
            name.append(precision)
        return shared_folder("-".join(name), fill) / "1"

    return export


@pytest.fixture(scope="session")
def loaded_classifier(exported):
    """The SavedModel of the classifier, loaded once; its `signatures` are functions."""
    tf = pytest.importorskip("tensorflow")
    return tf.saved_model.load(exported("classification"))

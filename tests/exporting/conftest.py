"""Models of every head, exported once for all tests."""

import functools

import keras
import numpy as np
import pytest

import keras_bert
from tests.conftest import HEADS, TRANSFORMER

LABELS = ["3", "1", "2"]
THRESHOLDS = [0.2, np.float32(0.5), 0.7]
TAGS = ["O", *(f"{prefix}-{kind}" for kind in ("PER", "LOC", "ORG", "MISC") for prefix in "BI")]
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
        for name in ("classifier", "token_classifier", "span", "choice_scorer", "next_sentence", "discriminator"):
            for layer in model.layers:
                if layer.name == name:
                    layer.set_weights([rng.normal(scale=0.25, size=weight.shape) for weight in layer.get_weights()])
        return model

    return build


@pytest.fixture(scope="session")
def preprocessor(pieces):
    return keras_bert.TextPreprocessor(pieces, 20, padding="longest")


@pytest.fixture(scope="session")
def exported(model_of, preprocessor, reversible, shared_folder):
    """The SavedModel of a head, once for each head and precision: in place of an older one, and moved afterwards."""

    def export(head, precision=None, **options):
        def fill(folder):
            (folder / "1" / "assets.extra").mkdir(parents=True)
            (folder / "1" / "assets.extra" / "old").touch()
            tokenizer = reversible if head == "translation" else preprocessor
            calibration = CALIBRATIONS.get(head) if precision == "int8" else None
            more = {"precision": precision, "calibration": calibration, **OPTIONS.get(head, {})}
            keras_bert.export(model_of(head, **options), tokenizer, folder / "1", **more)

        return (
            shared_folder("-".join(["export", head, *map(str, options.values()), *filter(None, [precision])]), fill)
            / "1"
        )

    return export

"""The command for feature-based tagging, on the sentences of letters of `test_run_tagging`."""

from functools import partial

import numpy as np
import pytest

pytest.importorskip("tensorflow")

import tensorflow as tf

import keras_bert
from keras_bert.tasks.tagging import data
from keras_bert.training.trainer import Trainer
from research.feature_tagging import task
from research.feature_tagging.cache import FeatureCache
from research.feature_tagging.task import BiLSTMSettings
from research.run_feature_tagging import FEATURES
from tests.pipelines.programs import call, cut_if, finetune, mistake, read_json
from tests.pipelines.test_run_tagging import arguments, entities_in_text, made, places  # noqa: F401

pytestmark = pytest.mark.tensorflow

PROGRAM = "research.run_feature_tagging"


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_feature_based(made):  # noqa: F811
    """Without the encoder; another seed shares the features, which are computed once."""
    options = {"features": "last", "feature_dtype": "float32", "max_train_examples": 16, "epochs": 1}

    def given(seed):
        return arguments(made, "features", predict_file=None, seed=seed, **options)

    fit = Trainer.fit
    write = FeatureCache._write
    computed = []
    signatures = {}

    def fit_without_encoder(self, *values, **options):
        assert not [weight for weight in self.model.weights if "block" in weight.path]
        return fit(self, *values, **options)

    def counted(self, *values):
        computed.append(self.path.name)
        write(self, *values)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "fit", fit_without_encoder)
        patch.setattr(FeatureCache, "_write", counted)
        patch.setattr(task, "BiLSTMSettings", partial(BiLSTMSettings, width=16))
        finetune(PROGRAM, *given("1"), signatures=signatures)
        with cut_if(lambda name, step: "seed=2" in name):
            call(PROGRAM, *given("1,2"))
    assert computed == ["train-last.npy", "dev-last.npy"]
    output = made / "features"
    assert "extraction of the features" in read_json(output / "results.json")["facts"]
    dev = data.read(output / "dev_predictions.txt")
    bert, start = keras_bert.load(output / "model"), keras_bert.load(made / "bert")
    texts = [" ".join(words) for words in dev.words]
    assert places(answers := bert.predict(texts)) == entities_in_text(dev.entities)
    counts = signatures["serving_default"](tf.constant(texts))["entity_count"].numpy()
    assert [len(answer["entities"]) for answer in answers] == counts.tolist()
    for ours, theirs in zip(bert.encoder.get_weights()[:-2], start.encoder.get_weights()[:-2], strict=True):
        np.testing.assert_array_equal(ours, theirs)  # All but the pooler.
    assert "AutoModel.from_pretrained" in (output / "model" / "README.md").read_text()


MISTAKES = [
    ({"features": "first"}, f"--features must be one or more of {', '.join(FEATURES)}. Received: first"),
    ({"features": "last,last"}, "--features contains duplicates. Received: last,last"),
    ({"freeze_layers": "1"}, "--freeze_layers is only for fine-tuning: here no layer of BERT is trained"),
]


def test_mistakes(made):  # noqa: F811
    for changes, message in MISTAKES:
        assert message in mistake(PROGRAM, *arguments(made, "bad", **changes))

"""The command for feature-based tagging, on the sentences of letters of `tagging_files`."""

from functools import partial

import numpy as np
import pytest

pytest.importorskip("tensorflow")

import tensorflow as tf

import keras_bert
from keras_bert.tasks.tagging import data
from keras_bert.training.trainer import Trainer
from research.feature_tagging import task
from research.feature_tagging.task import BiLSTMSettings
from research.run_feature_tagging import FEATURES
from tests.pipelines.programs import call, cut_if, finetune, mistake, read_json
from tests.pipelines.tagging_files import arguments, entities_in_text, places, write_files

pytestmark = pytest.mark.tensorflow

PROGRAM = "research.run_feature_tagging"


@pytest.fixture(scope="module")
def made(tmp_path_factory, config, pieces):
    """A folder with data files and a model to start from."""
    made = tmp_path_factory.mktemp("feature_tagging")
    write_files(made, config, pieces)
    return made


def given(made, seed):
    """Returns the flags of a run."""
    options = {
        "features": "last",
        "feature_dtype": "float32",
        "max_train_examples": 16,
        "epochs": 1,
        "predict_file": None,
    }
    return arguments(made, "features", seed=seed, **options)


@pytest.fixture
def small_and_without_encoder(monkeypatch):
    """Makes the BiLSTM small, and asserts that the trained model has no encoder."""
    fit = Trainer.fit

    def fit_without_encoder(self, *values, **options):
        assert not [weight for weight in self.model.weights if "block" in weight.path]
        return fit(self, *values, **options)

    monkeypatch.setattr(Trainer, "fit", fit_without_encoder)
    monkeypatch.setattr(task, "BiLSTMSettings", partial(BiLSTMSettings, width=16))


@pytest.mark.slow
@pytest.mark.usefixtures("eager", "small_and_without_encoder")
def test_feature_based(made, caplog):
    """Another seed shares the features, which are computed once."""
    caplog.set_level("INFO", "keras_bert")
    signatures = {}
    finetune(PROGRAM, *given(made, "1"), signatures=signatures)
    with cut_if(lambda name, step: "seed=2" in name):
        call(PROGRAM, *given(made, "1,2"))
    assert caplog.text.count("computing features of train") == 1
    assert caplog.text.count("computing features of dev") == 1
    output = made / "features"
    assert "extraction of the features" in read_json(output / "results.json")["facts"]
    # The saved model and its export find the entities of the predictions.
    dev = data.read(output / "dev_predictions.txt")
    texts = [" ".join(words) for words in dev.words]
    bert = keras_bert.load(output / "model")
    answers = bert.predict(texts)
    assert places(answers) == entities_in_text(dev.entities)
    served = signatures["serving_default"](tf.constant(texts))
    counts = [len(answer["entities"]) for answer in answers]
    assert served["entity_count"].numpy().tolist() == counts
    # The encoder is that of the start, except for its pooler.
    start = keras_bert.load(made / "bert").encoder.get_weights()[:-2]
    for ours, theirs in zip(bert.encoder.get_weights()[:-2], start, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert "AutoModel.from_pretrained" in (output / "model" / "README.md").read_text()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"features": "first"},
            f"--features must be one or more of {', '.join(FEATURES)}. Received: first",
        ),
        ({"features": "last,last"}, "--features contains duplicates. Received: last,last"),
        ({"freeze_layers": "1"}, "--freeze_layers is only for fine-tuning"),
    ],
)
def test_mistakes(made, changes, message):
    assert message in mistake(PROGRAM, *arguments(made, "bad", **changes))

"""Feature-based tagging (BERT, section 5.3): a BiLSTM on features that are computed once."""

import dataclasses
import functools
import logging
import pathlib

import keras_bert
from keras_bert.data import token_batches
from keras_bert.runs import weights_fingerprint
from keras_bert.tasks import TaggingReport, TaggingTask, TaggingTraining
from research.feature_tagging.cache import FeatureBatches, FeatureCache
from research.feature_tagging.head import build_bilstm_tagger, split_bilstm_tagger

_LOG = logging.getLogger("keras_bert")


@dataclasses.dataclass(frozen=True)
class BiLSTMSettings:
    """Settings of the tagger, see `build_bilstm_tagger`, and of its features."""

    feature_dtype: str = "float16"  # Of the stored features: "float16" or "float32".
    width: int = 768
    num_layers: int = 2
    dropout: float = 0.5


class FeatureTraining(TaggingTraining):
    """Trains a BiLSTM. The encoder computes the features of each file once for all runs, in float32."""

    can_pack = False
    learning_rates = (1e-3,)
    epochs = 20
    scales_rates = False

    def __init__(self, task):
        super().__init__(task)
        self.seconds = {}  # That computing features took, by their name.
        self.dev = None  # The batches of dev.
        self._features = None  # The name of the features that `_caches` have.
        self._caches = {}

    def stages(self, setting):
        """Returns the only stage, on features that are computed before."""
        (stage,) = super().stages(setting)
        self._compute(setting["features"])
        return [dataclasses.replace(stage, dev=self.dev)]

    def _compute(self, features):
        """Computes the features of all files, and makes the batches of those of dev."""
        if features == self._features:
            return
        self._features = features
        extractor, _ = split_bilstm_tagger(self._tagger(self.task.bert))
        self._caches = self._computed(extractor)
        self.seconds[features] = sum(cache.metadata()["seconds"] for cache in self._caches.values())
        self.dev = self.features_of("dev", self.task.windows["dev"].targets())

    def _computed(self, extractor):
        """Returns the features of all files; those of the same model and rows are not computed again."""
        states = self._features.removeprefix("concat_").removeprefix("sum_")  # These read the same states.
        description = keras_bert.describe(self.task.bert.encoder)
        key = weights_fingerprint(
            extractor,
            states=states,
            positions=description.positions,
            config=description.config.to_huggingface(),
            causal=description.causal,
        )
        width = extractor.output["features"].shape[-1]
        caches = {}
        for split, windows in self.task.windows.items():
            path = self.task.folder / f"{split}-{states}.npy"
            cache = FeatureCache(path, windows.inputs(), width, self.task.bilstm.feature_dtype, key)
            action = "computing" if cache.metadata() is None else "found"
            _LOG.info("  %s features of %s: %s", action, split, cache)
            cache.compute(extractor)
            caches[split] = cache
        return caches

    def features_of(self, split, targets=None):
        """Returns the batches of features of a file to predict."""
        return FeatureBatches(self._caches[split], targets, batch_size=64, shuffle=False)

    def batches(self, inputs, targets, batch_size, seed, grouped):
        """Returns the batches of features to train on; `inputs` are in the cache."""
        make = functools.partial(FeatureBatches, self._caches["train"], targets, seed=seed)
        return token_batches(make, batch_size, grouped=grouped)

    def _tagger(self, bert):
        """Returns a tagger with a new BiLSTM, and the encoder below it."""
        bilstm = self.task.bilstm
        return build_bilstm_tagger(
            bert.encoder,
            len(self.task.labels),
            self._features,
            width=bilstm.width,
            num_layers=bilstm.num_layers,
            dropout=bilstm.dropout,
        )

    def build(self, bert):
        """Returns the BiLSTM alone, which reads features."""
        _, bilstm = split_bilstm_tagger(self._tagger(bert))
        return bilstm

    def complete(self, model):
        """Returns the tagger with the encoder and a trained BiLSTM."""
        tagger = self._tagger(self.task.start.load(self.task.model))
        _, bilstm = split_bilstm_tagger(tagger)
        bilstm.set_weights(model.get_weights())
        return tagger


class FeatureReport(TaggingReport):
    """Reports how long the features took, too."""

    def dev_logits(self, predict):
        return {"words": self.task.windows["dev"].from_outputs(predict(self.task.training.dev))}

    def test_logits(self, predict):
        if "test" not in self.task.windows:
            return {}
        outputs = predict(self.task.training.features_of("test"))
        return {"words": self.task.windows["test"].from_outputs(outputs)}

    def make_card(self):
        card = super().make_card()
        return dataclasses.replace(card, purpose=f"{card.purpose} by a BiLSTM on features of BERT")

    def conclude(self, dev, test, output):
        findings = super().conclude(dev, test, output)
        times = [f"{name} {seconds:.1f} s" for name, seconds in self.task.training.seconds.items()]
        if not times:
            return findings
        facts = findings.facts | {"extraction of the features": ", ".join(times)}
        return dataclasses.replace(findings, facts=facts)


class FeatureTaggingTask(TaggingTask):
    """Tagging by a BiLSTM.

    The choices of the `Plan` must include `features`, see `build_bilstm_tagger`. `folder` is that of the features; the
    `Start` has the function that loads the checkpoint again. `bilstm` defaults to the paper's size.
    """

    auto_class = None  # transformers has no such head.
    Training = FeatureTraining
    Report = FeatureReport

    def __init__(self, data, start, settings, folder, bilstm=None):
        super().__init__(data, start, settings)
        self.folder = pathlib.Path(folder)
        self.bilstm = bilstm or BiLSTMSettings()
        self.options = self.options | {"bilstm": dataclasses.asdict(self.bilstm)}

"""Feature-based tagging (BERT, section 5.3): a BiLSTM on features that are computed once."""

import dataclasses
import functools
import logging
import pathlib

import keras_bert
from keras_bert.data.bucketing import token_batches
from keras_bert.tasks import TaggingTask
from keras_bert.training.evaluation import weights_fingerprint
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


class FeatureTaggingTask(TaggingTask):
    """Tagging by a BiLSTM. The encoder computes the features of each file once for all runs, in float32.

    The choices of `Finetuning` must include `features`, see `build_bilstm_tagger`. `folder` is that of the features;
    the `Start` has the function that loads the checkpoint again. `bilstm` defaults to the paper's size.
    """

    auto_class = None  # transformers has no such head.
    can_pack, learning_rates, epochs, scales_rates = False, (1e-3,), 20, False

    def __init__(self, data, start, settings, folder, bilstm=None):
        super().__init__(data, start, settings)
        self._folder, self._bilstm = pathlib.Path(folder), bilstm or BiLSTMSettings()
        self._features, self._caches, self._seconds = None, {}, {}
        self.card["purpose"] += " by a BiLSTM on features of BERT"
        self.options = {**self.options, "bilstm": dataclasses.asdict(self._bilstm)}

    def select(self, setting):
        if setting["features"] != self._features:
            self._features = setting["features"]
            extractor, _ = split_bilstm_tagger(self._tagger(self.bert))
            self._caches = self._computed(extractor)
            self._seconds[self._features] = sum(cache.metadata()["seconds"] for cache in self._caches.values())
            self.dev = self._batches("dev", self._windows["dev"].targets())
        return self.dev

    def _computed(self, extractor):
        """Returns the features of all files; those of the same model and rows are not computed again."""
        states = self._features.removeprefix("concat_").removeprefix("sum_")  # These read the same states.
        description = keras_bert.describe(self.bert.encoder)
        facts = {"config": description.config.to_huggingface(), "causal": description.causal}
        key = weights_fingerprint(extractor, states=states, positions=description.positions, **facts)
        width = extractor.output["features"].shape[-1]
        caches = {}
        for split, windows in self._windows.items():
            path = self._folder / f"{split}-{states}.npy"
            cache = caches[split] = FeatureCache(path, windows.inputs(), width, self._bilstm.feature_dtype, key)
            known = cache.metadata()
            _LOG.info("  %s features of %s: %s", "computing" if known is None else "found", split, cache)
            cache.compute(extractor)
        return caches

    def _batches(self, split, targets=None):
        return FeatureBatches(self._caches[split], targets, batch_size=64, shuffle=False)

    def batches(self, inputs, targets, batch_size, seed, grouped):
        targets = self._windows["train"].targets()
        make = functools.partial(FeatureBatches, self._caches["train"], targets, seed=seed)
        return token_batches(make, batch_size, grouped)

    def _tagger(self, bert):
        sizes = {name: value for name, value in vars(self._bilstm).items() if name != "feature_dtype"}
        return build_bilstm_tagger(bert.encoder, len(self.labels), self._features, **sizes)

    def build(self, bert):
        return split_bilstm_tagger(self._tagger(bert))[1]

    def complete(self, model):
        complete = self._tagger(self.start.load(self.model))
        split_bilstm_tagger(complete)[1].set_weights(model.get_weights())
        return complete

    def _logits(self, split, predict):
        return self._windows[split].from_outputs(predict(self._batches(split)))

    def conclude(self, dev, test, output):
        findings = super().conclude(dev, test, output)
        seconds = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in self._seconds.items())
        facts = {"extraction of the features": seconds} if seconds else {}
        return dataclasses.replace(findings, facts={**findings.facts, **facts})

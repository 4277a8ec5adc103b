"""Batches for `Trainer` and `model.fit`, imported on first use."""

from keras_bert.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "keras_bert.training.batch_source": "BatchSource",
        "keras_bert.training.bucketing": "Batches",
        "keras_bert.training.input_pipeline": "Phases Stream",
        "keras_bert.training.packed_batches": "PackedBatches",
        "keras_bert.training.pair_bucketing": "PairBatches",
        "keras_bert.training.tower_bucketing": "TowerBatches",
    },
)

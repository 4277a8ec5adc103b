"""Builders: functions that wire layers into plain functional `keras.Model`s. Those of heads are in `keras_bert`."""

from keras_bert.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "keras_bert.models.bi_encoder": "build_bi_encoder",
        "keras_bert.models.bilstm_encoder": "build_bilstm_encoder",
        "keras_bert.models.bilstm_tagger": "build_bilstm_tagger",
        "keras_bert.models.packed": "build_packed",
        "keras_bert.models.split_tagger": "split_bilstm_tagger",
        "keras_bert.models.student": "take_layers",
        "keras_bert.models.trimmed": "build_trimmed",
    },
)

"""The Transformer encoder-decoder: the model, its training on parallel texts, and Marian's checkpoints."""

from keras_bert.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "keras_bert.text.lossless": "LosslessTokenizer",
        "keras_bert.training.schedule": "InverseSquareRootSchedule",
        "keras_bert.translation.beams": "Beam beam_search",
        "keras_bert.translation.config": "TransformerConfig",
        "keras_bert.translation.decoding": "Decoder",
        "keras_bert.translation.loaded": "load",
        "keras_bert.translation.model": "build_transformer describe",
        "keras_bert.translation.sampling": "Sampling sample",
    },
)

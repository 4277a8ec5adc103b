"""The models that BERT was compared with: ELMo's language model, GLUE's BiLSTM, BiDAF."""

from keras_bert import register_models
from research.rivals.config import SIZES, is_name


def load(path_or_name, *, dtype=None, vocabulary=None, lowercase=None, language_model=None):
    """Loads a model that BERT is compared with, or creates a new one of a name, see `loaded.load`."""
    from research.rivals import loaded  # Needs Keras, unlike the names.

    return loaded.load(
        path_or_name,
        dtype=dtype,
        vocabulary=vocabulary,
        lowercase=lowercase,
        language_model=language_model,
    )


def describe(model):
    """Describes a model that BERT is compared with, see `models.describe`."""
    from research.rivals import models

    return models.describe(model)


register_models(
    "research.rivals",
    model_types=[f"keras_bert_{kind}" for kind in SIZES],
    names=["bilm", "bilstm_classifier", "bidaf"],
    is_new=is_name,
)

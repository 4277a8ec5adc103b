"""BERT for TensorFlow 2 and Keras 3. See README.md; all public names are listed here.

They are imported on first use (PEP 562), except for classes that `.keras` files may contain: Keras must know these.
"""

import importlib

try:
    import keras
except ModuleNotFoundError as error:
    if (error.name or "").split(".")[0] != "tensorflow":
        raise
    # TensorFlow is Keras' default backend, and its error says only that it is missing.
    raise ModuleNotFoundError(
        "Keras is set to the TensorFlow backend, and TensorFlow is not installed. Install it with "
        "`pip install keras-bert-whole[tensorflow]`, or set the environment variable KERAS_BACKEND=jax for the models "
        "alone, which run on JAX",
        name=error.name,
    ) from error

from keras_bert import layers
from keras_bert.version import __version__

if keras.config.backend() == "tensorflow":
    from keras_bert.text import preprocessor as _preprocessor  # noqa: F401
    from keras_bert.training import optimizer as _optimizer  # noqa: F401

_MODULES = {
    "keras_bert.config": "BERT_TINY BERT_MINI BERT_SMALL BERT_MEDIUM BERT_BASE BERT_LARGE BertConfig named_config",
    "keras_bert.models.encoder": "build_encoder",
    "keras_bert.models.pretrainer": "build_next_sentence build_pretrainer",
    "keras_bert.models.heads": (
        "build_classifier build_embedder build_multiple_choice build_span_labeler build_token_classifier"
    ),
    "keras_bert.models.description": "describe",
    "keras_bert.models.freezing": "freeze_layers",
    "keras_bert.checkpoints.load": "load",
    "keras_bert.checkpoints.save": "save",
    "keras_bert.checkpoints.keras_hub": "to_keras_hub",
    "keras_bert.text.tokenizer_json": "AddedToken",
    "keras_bert.text.vocabulary": "Vocabulary",
    "keras_bert.text.tokenizer": "BertTokenizer",
    "keras_bert.text.preprocessor": "TextPreprocessor",
    "keras_bert.corpus.word_counts": "count_words",
    "keras_bert.corpus.wordpiece_trainer": "learn_vocabulary",
    "keras_bert.memory": "explain_out_of_memory",
    "keras_bert.training.optimizer": "LAMB AdamW create_optimizer",
    "keras_bert.training.schedule": "LinearSchedule",
    "keras_bert.exporting.export": "build_text_model export",
    "keras_bert.training.trainer": "Trainer",
    "keras_bert.training.distribution": "create_strategy",
    "keras_bert.training.bucketing": "Batches",
    "keras_bert.training.input_pipeline": "Stream",
    "keras_bert.training.losses": "Loss classification_loss pretraining_losses regression_loss span_loss token_loss",
}
# Installed by the extra `tensorflow`.
_EXTRA = ("tensorflow", "tensorflow_text", "tensorflow_serving", "jinja2", "scipy", "sklearn", "tqdm")
_PUBLIC = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = ["__version__", "layers", *sorted(_PUBLIC)]


def __getattr__(name):
    if name not in _PUBLIC:
        raise AttributeError(f"module 'keras_bert' has no attribute {name!r}")
    try:
        value = getattr(importlib.import_module(_PUBLIC[name]), name)
    except ModuleNotFoundError as error:
        package = (error.name or "").split(".")[0]
        if package not in _EXTRA:
            raise
        raise ModuleNotFoundError(
            f"`keras_bert.{name}` needs {package}, which is not installed. Install it with "
            "`pip install keras-bert-whole[tensorflow]`",
            name=error.name,
        ) from error
    globals()[name] = value
    return value


def __dir__():
    return __all__

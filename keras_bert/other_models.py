"""Models other than BERT, and who opens them: a wing or a guest of the package says so when it is imported."""

import dataclasses
import sys
from collections.abc import Callable, Sequence

# What `keras_bert.load` opens, by `model_type` of config.json.
BERTS = ("bert", "distilbert", "electra", "roberta", "xlm-roberta", "camembert", "mpnet")
# Other types of which KerasHub has models.
_KERAS_HUB = ("albert", "bart", "deberta-v2", "fnet", "gemma", "gpt2", "llama", "mistral", "qwen2", "t5", "xlnet")
OTHER_MODELS = []


@dataclasses.dataclass(frozen=True)
class OtherModels:
    """Models other than BERT: a module has their `load`, and `describe` for those that Keras loaded."""

    module: str
    model_types: Sequence  # Of the `config.json` of their folders.
    names: Sequence  # Of the Keras models.
    is_new: Callable  # Whether a name is that of a model without weights, which `load` creates.
    answers: dict  # What converts outputs of signatures, by the name of one that they alone have.

    @property
    def load(self):
        """The `load` of the module."""
        return sys.modules[self.module].load


def register_models(
    module: str, *, model_types: Sequence, names: Sequence, is_new: Callable | None = None, answers: dict | None = None
):
    """Registers models other than BERT, so that `load`, `describe` and the commands name the module that opens them.

    Args:
        module: str, an imported module with a function `load`, and `describe` for those that Keras loaded.
        model_types: list of str, the `model_type`s of the `config.json` of their folders.
        names: list of str, the names of the Keras models.
        is_new: function of a string, whether it is the name of a model without weights, which `load` creates. Defaults
            to `None`: there are none.
        answers: dict of functions like `Head.answer`, by the name of an output that only their signatures have.
            Defaults to `None`: those of the heads.

    Example:
        register_models("my_package.models", model_types=["my_lstm"], names=["my_lstm_classifier"])
    """
    models = OtherModels(
        module,
        model_types=tuple(model_types),
        names=tuple(names),
        is_new=is_new or (lambda name: False),
        answers=answers or {},
    )
    OTHER_MODELS[:] = [others for others in OTHER_MODELS if others.module != module]
    OTHER_MODELS.append(models)


def named(name):
    """Returns the `OtherModels` with a Keras model of this name, or `None`."""
    return next((models for models in OTHER_MODELS if name in models.names), None)


def creating(name):
    """Returns the `OtherModels` that create a model of this name, or `None`."""
    return next((models for models in OTHER_MODELS if models.is_new(name)), None)


def answering(outputs):
    """Returns what converts the outputs of a server, by their names, or `None`."""
    for models in OTHER_MODELS:
        for name in outputs:
            if name in models.answers:
                return models.answers[name]
    return None


class UnknownModelError(ValueError):
    """Raised for a checkpoint that nothing in this package opens."""


class OtherModelError(ValueError):
    """Raised for a checkpoint that another `load` opens, that of `models`."""

    def __init__(self, name, models):
        super().__init__(f"{name} is not a BERT: {models.module}.load opens it")
        self.models = models


def fits(folder):
    """Returns whether a `checkpoints.folder.Folder` has another model than a BERT, or is the name of a new one."""
    return _opening(folder) is not None or _model_type(folder) not in BERTS


def read(folder, options=None):
    """Raises `OtherModelError` or `UnknownModelError`."""
    models = _opening(folder)
    if models is not None:
        raise OtherModelError(folder.transformer, models)
    others = "transformers or KerasHub" if _model_type(folder) in _KERAS_HUB else "transformers"
    raise UnknownModelError(
        f"{folder.transformer / 'config.json'}: `model_type` must be one of {', '.join(BERTS)}. "
        f"Received: model_type={_model_type(folder)!r:.100}, a model for {others}"
    )


def check_folder(folder):
    """Raises the errors of `read` for the folder of another model."""
    if fits(folder):
        read(folder)


def _opening(folder):
    """Returns the `OtherModels` that open a folder or a name, or `None`."""
    if not folder.path.exists():
        return creating(str(folder))
    model_type = _model_type(folder)
    return next((models for models in OTHER_MODELS if model_type in models.model_types), None)


def _model_type(folder):
    return folder.transformer.config.get("model_type") or "bert"

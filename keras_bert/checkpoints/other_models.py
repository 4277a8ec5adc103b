"""Checkpoints of other models than BERT. Their modules are named as text: this one works without them."""

from keras_bert.checkpoints.locations import CONFIG, read_object_if_exists

# What `keras_bert.load` opens, by `model_type` of config.json.
BERTS = ("bert", "distilbert", "electra", "roberta", "xlm-roberta", "camembert")
# The module whose `load` opens a folder, by `model_type` of its config.json.
MODULES = {"marian": "keras_bert.translation"}
# Other types of which KerasHub has models.
_KERAS_HUB = ("albert", "bart", "deberta-v2", "fnet", "gemma", "gpt2", "llama", "mistral", "qwen2", "t5", "xlnet")
MODULES |= dict.fromkeys(("keras_bert_bilm", "keras_bert_bilstm", "keras_bert_bidaf"), "keras_bert.baselines")


class UnknownModelError(ValueError):
    """Raised for a checkpoint that nothing in this package opens."""


class OtherModelError(ValueError):
    """Raised for a checkpoint that another `load` opens.

    Attributes:
        module: str, the module with that `load`.
    """

    def __init__(self, name, module):
        super().__init__(f"{name} is not a BERT: {module}.load opens it")
        self.module = module


def check_folder(path):
    """Raises `OtherModelError` or `UnknownModelError` for the folder of another model."""
    model_type = read_object_if_exists(path / CONFIG).get("model_type") or "bert"
    if isinstance(model_type, str) and model_type in MODULES:
        raise OtherModelError(path, MODULES[model_type])
    if model_type not in BERTS:
        others = "transformers or KerasHub" if model_type in _KERAS_HUB else "transformers"
        raise UnknownModelError(
            f"{path / CONFIG}: `model_type` must be one of {', '.join(BERTS)}. "
            f"Received: model_type={model_type!r:.100}, a model for {others}"
        )


def check_name(name):
    """Raises `OtherModelError` for the name of a new model, such as "bilstm_H-256"."""
    if module := MODULES.get(f"keras_bert_{name.split('_')[0]}"):
        raise OtherModelError(name, module)

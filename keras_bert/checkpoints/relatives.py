"""Models with BERT's blocks that transformers writes with other names: DistilBERT, ELECTRA, XLM-RoBERTa.

`config.json` is read as BERT's, and its tensors by BERT's names, so that the rest of the package knows nothing of these
models: what differs from BERT is a setting of `BertConfig`.
"""

import dataclasses

from keras_bert.checkpoints.layout import POSITIONS
from keras_bert.checks import check_choice

_POOLER, _CLASSIFIER, _TRANSFORM = "pooler.dense.", "classifier.", "cls.predictions.transform."
_DECODER, _BIAS = "cls.predictions.decoder.", "cls.predictions.bias"


@dataclasses.dataclass(frozen=True)
class Relative:
    """The layout of a model of transformers.

    Args:
        title: str, what its classes begin with.
        prefix: str, what the encoder's tensors begin with in models with a head.
        names: dict of parts of the names of tensors, BERT's to its own, in the order in which they are replaced.
        head_names: dict of more of them by the head, which come first.
        config_names: dict of keys of `config.json`, BERT's to its own.
        fixed: dict of its other keys of `config.json` with the values that are supported, the first one is written.
        implied: dict of settings of `BertConfig` that it always has.
        skipped: int, first rows of its position table, which no token has.
        pooled: tuple of the heads that have the pooler.
    """

    title: str
    prefix: str
    names: dict
    head_names: dict
    config_names: dict = dataclasses.field(default_factory=dict)
    fixed: dict = dataclasses.field(default_factory=dict)
    implied: dict = dataclasses.field(default_factory=dict)
    skipped: int = 0
    pooled: tuple = ("classification", "multiple_choice")

    def config(self, values):
        """Returns the content of a `config.json` with BERT's keys and classes."""
        for key, supported in self.fixed.items():
            if (value := values.get(key, supported[0])) not in supported:
                raise ValueError(f"`{key}` must be {supported[0]!r} for a {self.title}. Received: {key}={value!r}")
        values = {**values, **{ours: values[own] for ours, own in self.config_names.items() if own in values}}
        if "max_position_embeddings" in values:
            values["max_position_embeddings"] -= self.skipped
        if values.get("embedding_size") == values.get("hidden_size"):
            values["embedding_size"] = None
        architectures = values.get("architectures")
        if isinstance(architectures, list):
            values["architectures"] = [_renamed(name, {self.title: "Bert"}) for name in architectures]
        return {**values, **self.implied, "model_type": "bert"}

    def to_config(self, values, head):
        """Returns the content of a `config.json` of BERT with its own keys and classes."""
        for key, expected in self.implied.items():
            if key in values and values[key] != expected and (key != "pooler_activation" or head in self.pooled):
                raise ValueError(
                    f"a {self.title} has `{key}`={expected!r}. Received: {key}={values[key]!r}; save(..., "
                    "model_type='bert') writes a BERT"
                )
        architectures = [_renamed(name, {"Bert": self.title}) for name in values["architectures"]]
        values = {**values, "embedding_size": values["embedding_size"] or values["hidden_size"]}
        if values["classifier_dropout"] is None:
            del values["classifier_dropout"]
        values = {self.config_names.get(key, key): value for key, value in values.items() if key not in self.implied}
        values["max_position_embeddings"] += self.skipped
        return {
            **values,
            **{key: supported[0] for key, supported in self.fixed.items()},
            "architectures": architectures,
        }

    def tensors(self, tensors):
        """Returns tensors by BERT's names."""
        names = {own: ours for each in self.head_names.values() for ours, own in each.items()}
        names |= {own: ours for ours, own in self.names.items()}
        tensors = {_renamed(name.removeprefix(self.prefix), names): tensor for name, tensor in tensors.items()}
        if self.skipped and POSITIONS in tensors:
            tensors[POSITIONS] = _without_rows(tensors[POSITIONS], self.skipped)
        return tensors

    def to_name(self, name, head):
        """Returns its own name of a tensor of a model with a head, or `None` for one that it lacks."""
        if name.startswith(_POOLER) and head not in self.pooled:
            return None
        own = _renamed(name, {**self.head_names.get(head, {}), **self.names})
        is_encoder = name.startswith(("embeddings.", "encoder."))
        return self.prefix + own if is_encoder and head not in ("encoder", "embedding") else own


def _renamed(name, names):
    for part, other in names.items():
        name = name.replace(part, other)
    return name


def _without_rows(tensor, count):
    rows, width = tensor.shape
    return dataclasses.replace(tensor, shape=(rows - count, width), read=lambda: tensor.read()[count:])


RELATIVES = {
    "distilbert": Relative(
        "DistilBert",
        "distilbert.",
        {
            "encoder.layer.": "transformer.layer.",
            "attention.self.query.": "attention.q_lin.",
            "attention.self.key.": "attention.k_lin.",
            "attention.self.value.": "attention.v_lin.",
            "attention.output.dense.": "attention.out_lin.",
            "attention.output.LayerNorm.": "sa_layer_norm.",
            "intermediate.dense.": "ffn.lin1.",
            ".output.dense.": ".ffn.lin2.",
            ".output.LayerNorm.": ".output_layer_norm.",
            _POOLER: "pre_classifier.",
            f"{_TRANSFORM}dense.": "vocab_transform.",
            f"{_TRANSFORM}LayerNorm.": "vocab_layer_norm.",
            _DECODER: "vocab_projector.",
            _BIAS: "vocab_projector.bias",
        },
        {},
        {
            "hidden_size": "dim",
            "num_hidden_layers": "n_layers",
            "num_attention_heads": "n_heads",
            "intermediate_size": "hidden_dim",
            "hidden_act": "activation",
            "hidden_dropout_prob": "dropout",
            "attention_probs_dropout_prob": "attention_dropout",
            "classifier_dropout": "seq_classif_dropout",
        },
        # The table of sinusoids is among the weights, too.
        {"model_type": ("distilbert",), "sinusoidal_pos_embds": (False, True)},
        {"type_vocab_size": 0, "pooler_activation": "relu", "layer_norm_eps": 1e-12, "embedding_size": None},
    ),
    "electra": Relative(
        "Electra",
        "electra.",
        {
            "embeddings.projection.": "embeddings_project.",
            _TRANSFORM: "generator_predictions.",
            _DECODER: "generator_lm_head.",
            _BIAS: "generator_lm_head.bias",
        },
        {
            "classification": {_CLASSIFIER: "classifier.out_proj.", _POOLER: "classifier.dense."},
            "multiple_choice": {_POOLER: "sequence_summary.summary."},
        },
        fixed={
            "model_type": ("electra",),
            "summary_type": ("first",),
            "summary_use_proj": (True,),
            "summary_activation": ("gelu",),
        },
        implied={"pooler_activation": "gelu"},
    ),
}


def checked_model_type(config, model_type=None):
    """Returns whose layout a model is written in, by default that of the first one with its config; raises if it is not
    possible."""
    if model_type is None:
        is_electra = config.embedding_size or config.pooler_activation == "gelu"
        model_type = "distilbert" if not config.type_vocab_size else "electra" if is_electra else "bert"
    check_choice("model_type", model_type, ("bert", *RELATIVES))
    if model_type == "bert":
        config.check_plain("a BERT of transformers")
    return model_type

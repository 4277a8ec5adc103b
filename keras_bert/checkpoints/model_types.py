"""transformers' model types with BERT's blocks under other names: DistilBERT, ELECTRA, RoBERTa, MPNet.

`config.json` is read as BERT's, and its tensors by BERT's names, so that the rest of the package knows nothing of these
models: what differs from BERT is a setting of `BertConfig`.
"""

import dataclasses

from keras_bert.checks import check_choice, check_count
from keras_bert.heads.registry import HEADS, head_named
from keras_bert.layers.registry import positions_named, positions_of

_POOLER, _CLASSIFIER, _TRANSFORM = "pooler.dense.", "classifier.", "cls.predictions.transform."
_DECODER, _BIAS = "cls.predictions.decoder.", "cls.predictions.bias"
_CAUSAL = {"LMHeadModel": "ForCausalLM"}  # The class of a left-to-right model, BERT's and others'.
_OF_BERT = ("BertForPreTraining", "BertForNextSentencePrediction")  # Others have none like these.


@dataclasses.dataclass(frozen=True)
class ModelType:
    """The layout of a model of transformers; names are BERT's to its own."""

    title: str  # What its classes begin with.
    prefix: str  # What the encoder's tensors begin with in models with a head.
    names: dict  # Parts of the names of tensors, in the order in which they are replaced.
    head_names: dict  # More of them by transformers' class without its title, which come first.
    config_names: dict = dataclasses.field(default_factory=dict)  # Keys of `config.json`.
    fixed: dict = dataclasses.field(default_factory=dict)  # Its other keys: supported values, first the written one.
    implied: dict = dataclasses.field(default_factory=dict)  # Settings of `BertConfig` that it always has.
    padding: int | None = None  # The default id of padding, if positions are counted from it.
    pooled: bool = False  # Whether the encoder alone has the pooler, as models with a head on it have.
    gelu: bool = True  # Whether the masked-LM head has a GELU whatever `hidden_act` is.

    def config(self, values):
        """Returns the content of a `config.json` with BERT's keys and classes."""
        self._check_fixed(values)
        values = {**values, **{ours: values[own] for ours, own in self.config_names.items() if own in values}}
        if self.padding is not None:
            padding = self.implied.get("position_padding_id", values.get("pad_token_id", self.padding))
            values |= _counted(values.get("max_position_embeddings", 512), padding)
        if values.get("embedding_size") == values.get("hidden_size"):
            values["embedding_size"] = None
        architectures = values.get("architectures")
        if isinstance(architectures, list):
            values["architectures"] = [self._berts_class(name) for name in architectures]
        return {**values, **self.implied, "model_type": "bert"}

    def _berts_class(self, name):
        """Returns BERT's name of a class, unless it is one of the table of heads."""
        is_known = not isinstance(name, str) or any(name in head.architectures for head in HEADS)
        names = {self.title: "Bert", **{own: ours for ours, own in _CAUSAL.items()}}
        return name if is_known else _renamed(name, names)

    def check_head(self, head, hidden_act):
        """Raises if the config has another activation than that of a head which always has a GELU."""
        if self.gelu and head and "masked" in head_named(head).reads and hidden_act != "gelu":
            raise ValueError(
                f"`hidden_act` must be 'gelu' for {self.title} with head={head!r}, which has no other activation. "
                f"Received: hidden_act={hidden_act!r}; without this head, every activation is supported"
            )

    def _check_fixed(self, values):
        for key, supported in self.fixed.items():
            if (value := values.get(key, supported[0])) not in supported:
                raise ValueError(f"`{key}` must be {supported[0]!r} for {self.title}. Received: {key}={value!r}")

    def to_config(self, values, head):
        """Returns the content of a `config.json` of BERT with its own keys and classes."""
        self._check_fixed(values)
        self.check_head(head, values["hidden_act"])
        (architecture,), padding = values["architectures"], values["position_padding_id"]
        counted = self.padding is not None
        if counted and padding is None:
            raise ValueError(f"`position_padding_id` must be an integer for {self.title}. Received: None")
        implied = {
            "type_vocab_size": values["type_vocab_size"] or 1,
            "position_padding_id": padding if counted else None,
            **self.implied,
        }
        for key, expected in implied.items():
            if values[key] != expected and (key != "pooler_activation" or self._has_pooler(head_named(head))):
                other = "model_type='bert') writes a BERT"
                if positions_of(values["model_type"]):  # A BERT has other positions.
                    other = "format='keras') writes this model"
                raise ValueError(
                    f"`{key}` must be {expected!r} for {self.title}. Received: {key}={values[key]!r}; save(..., {other}"
                )
        if architecture in _OF_BERT or not architecture.startswith(("Bert", self.title)):
            raise ValueError(
                f"{self.title} has no class like {architecture} of transformers. Expected another `model_type` or "
                f"head, or a pre-trainer without next sentence prediction. Received: head={head!r}"
            )
        values = {**values, "embedding_size": values["embedding_size"] or values["hidden_size"]}
        values["architectures"] = [_renamed(architecture, {"Bert": self.title, **_CAUSAL})]
        left_out = {*self.implied, "position_padding_id"}
        left_out |= {"classifier_dropout"} if values["classifier_dropout"] is None else set()
        values = {self.config_names.get(key, key): value for key, value in values.items() if key not in left_out}
        if counted:  # Positions depend on this id, whatever the vocabulary's is.
            values["max_position_embeddings"] += padding + 1
            values["pad_token_id"] = padding
        return {**{key: supported[0] for key, supported in self.fixed.items()}, **values}

    def tensors(self, tensors):
        """Returns tensors by BERT's names."""
        return {self.our_name(name): tensor for name, tensor in tensors.items()}

    def our_name(self, name):
        """Returns BERT's name of a tensor."""
        names = {own: ours for each in (*self.head_names.values(), self.names) for ours, own in each.items()}
        return _renamed(name.removeprefix(self.prefix), names)

    def to_tensors(self, tensors, head):
        """Returns arrays by its own names, without those that a model with this head lacks."""
        row = head_named(head)
        held = [name for name in tensors if self._has_pooler(row) or not name.startswith(_POOLER)]
        return {self.own_name(name, row): tensors[name] for name in held}

    def _has_pooler(self, head):
        return self.pooled if head.is_encoder else "pooled" in head.reads and "masked" not in head.reads

    def own_name(self, name, head):
        """Returns its own name of a tensor in a model with a `Head`."""
        kind = head.architectures[0].removeprefix("Bert") if head.architectures else None
        own = _renamed(name, {**self.head_names.get(kind, {}), **self.names})
        is_encoder = name.startswith(("embeddings.", "encoder.")) or own.startswith(_POOLER)
        return self.prefix + own if is_encoder and not head.is_encoder else own


def _counted(rows, padding):
    """Returns the settings of `BertConfig` for a position table with so many rows."""
    check_count("pad_token_id", padding, least=0)
    check_count("max_position_embeddings", rows, least=padding + 2)
    return {"max_position_embeddings": rows - padding - 1, "position_padding_id": padding}


def _renamed(name, names):
    for part, other in names.items():
        name = name.replace(part, other)
    return name


_LM_HEAD = {
    f"{_TRANSFORM}dense.": "lm_head.dense.",
    f"{_TRANSFORM}LayerNorm.": "lm_head.layer_norm.",
    _DECODER: "lm_head.decoder.",
    _BIAS: "lm_head.bias",
}
_OWN_CLASSIFIER = {
    "ForSequenceClassification": {_CLASSIFIER: "classifier.out_proj.", _POOLER: "classifier.dense."},
}

BERT = ModelType("Bert", "bert.", {}, {})  # The layout of which the others are changes.

_ROBERTA = ModelType(
    "Roberta",
    "roberta.",
    _LM_HEAD,
    _OWN_CLASSIFIER,
    implied={"pooler_activation": "tanh", "embedding_size": None},
    padding=1,
    pooled=True,
)
# As people write them.
_FAMILIES = {
    "distilbert": "DistilBERT",
    "electra": "ELECTRA",
    "roberta": "RoBERTa",
    "xlm-roberta": "XLM-RoBERTa",
    "camembert": "CamemBERT",
    "mpnet": "MPNet",
}
_ROBERTAS = {"xlm-roberta": "XLMRoberta", "roberta": "Roberta", "camembert": "Camembert"}  # With the same layout.

MODEL_TYPES = {
    "distilbert": ModelType(
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
        {"is_decoder": (False,), "sinusoidal_pos_embds": (False, True)},
        {"type_vocab_size": 0, "pooler_activation": "relu", "layer_norm_eps": 1e-12, "embedding_size": None},
        gelu=False,
    ),
    "electra": ModelType(
        "Electra",
        "electra.",
        {
            "embeddings.projection.": "embeddings_project.",
            _TRANSFORM: "generator_predictions.",
            _DECODER: "generator_lm_head.",
            _BIAS: "generator_lm_head.bias",
        },
        {
            **_OWN_CLASSIFIER,
            "ForMultipleChoice": {_POOLER: "sequence_summary.summary."},
        },
        fixed={"summary_type": ("first",), "summary_use_proj": (True,), "summary_activation": ("gelu",)},
        implied={"pooler_activation": "gelu"},
    ),
    **{model_type: dataclasses.replace(_ROBERTA, title=title) for model_type, title in _ROBERTAS.items()},
    "mpnet": ModelType(
        "MPNet",
        "mpnet.",
        {
            "attention.self.query.": "attention.attn.q.",
            "attention.self.key.": "attention.attn.k.",
            "attention.self.value.": "attention.attn.v.",
            "attention.output.dense.": "attention.attn.o.",
            "attention.output.LayerNorm.": "attention.LayerNorm.",
            **_LM_HEAD,
        },
        _OWN_CLASSIFIER,
        # The number of buckets that transformers computes, whatever the config says.
        fixed={"relative_attention_num_buckets": (32,), "is_decoder": (False,)},
        # Positions are counted from 1, whatever the id of padding is.
        implied={
            "type_vocab_size": 0,
            "pooler_activation": "tanh",
            "embedding_size": None,
            "position_padding_id": 1,
        },
        padding=1,
        pooled=True,
    ),
}


def checked_model_type(config, head, model_type=None, positions="learned"):
    """Returns whose layout a model is written in, by default that of the first one with its config and head; raises if
    it is not possible."""
    is_berts = all(name.startswith("Bert") for name in head_named(head).architectures)
    if model_type is None:
        is_electra = config.embedding_size or config.pooler_activation == "gelu" or not is_berts
        is_roberta = config.position_padding_id is not None
        names = {"distilbert": not config.type_vocab_size, "xlm-roberta": is_roberta, "electra": is_electra}
        model_type = next((name for name, fits in names.items() if fits), "bert")
        model_type = positions_named(positions).model_type or model_type
    check_choice("model_type", model_type, ("bert", *MODEL_TYPES))
    needed = positions_named(positions).model_type or model_type
    if needed != model_type:
        raise ValueError(
            f"`model_type` must be {needed!r} for positions={positions!r}. Received: model_type={model_type!r}"
        )
    if positions_of(model_type) not in (None, positions):
        raise ValueError(
            f"`model_type` must be another one for positions={positions!r}. Received: model_type={model_type!r}"
        )
    if model_type == "bert" and not is_berts:
        raise ValueError(f"`model_type` must be 'electra' for head={head!r}. Received: model_type='bert'")
    if model_type == "bert":
        config.check_plain("a BERT of transformers")
    return model_type


def family_of(model_type):
    """Returns the name of a relative of BERT as people write it, `None` for BERT itself."""
    return _FAMILIES.get(model_type)

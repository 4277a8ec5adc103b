"""transformers' model types with BERT's blocks under other names: DistilBERT, ELECTRA, RoBERTa, MPNet.

`config.json` is read as BERT's, and its tensors by BERT's names, so that the rest of the package knows nothing of these
models: what differs from BERT is a setting of `BertConfig`.

A type declares its renames once, for both directions; the functions that refuse a model stand after them.
"""

import dataclasses

from keras_bert.checks import check_choice, check_count
from keras_bert.heads.registry import HEADS, head_named
from keras_bert.layers.registry import positions_named, positions_of

_POOLER = "pooler.dense."
_CLASSIFIER = "classifier."
_TRANSFORM = "cls.predictions.transform."
_DECODER = "cls.predictions.decoder."
_BIAS = "cls.predictions.bias"
_OF_BERT = ("BertForPreTraining", "BertForNextSentencePrediction")  # Others have none like these.


@dataclasses.dataclass(frozen=True)
class Renames:
    """Parts of names that are replaced one after the other, BERT's to those of another model, and back."""

    own_by_berts: dict

    def to_own(self, name):
        """Returns the other model's name of what BERT has under a name."""
        for berts, own in self.own_by_berts.items():
            name = name.replace(berts, own)
        return name

    def to_berts(self, name):
        """Returns BERT's name of what the other model has under a name."""
        for berts, own in self.own_by_berts.items():
            name = name.replace(own, berts)
        return name


@dataclasses.dataclass(frozen=True)
class ModelType:
    """The layout of a model of transformers, beside BERT's."""

    title: str  # What its classes begin with.
    prefix: str  # What the encoder's tensors begin with in models with a head.
    names: Renames  # Of tensors.
    head_names: dict  # More of them by transformers' class without its title, which come first.
    config_names: dict = dataclasses.field(default_factory=dict)  # Keys of `config.json`, BERT's to its own.
    fixed: dict = dataclasses.field(default_factory=dict)  # Its other keys: supported values, first the written one.
    implied: dict = dataclasses.field(default_factory=dict)  # Settings of `BertConfig` that it always has.
    padding: int | None = None  # The default id of padding, if positions are counted from it.
    pooled: bool = False  # Whether the encoder alone has the pooler, as models with a head on it have.
    gelu: bool = True  # Whether the masked-LM head has a GELU whatever `hidden_act` is.

    # Settings and classes

    def config(self, values):
        """Returns the content of a `config.json` with BERT's keys and classes."""
        self.check_fixed(values)
        config = dict(values)
        for berts, own in self.config_names.items():
            if own in values:
                config[berts] = values[own]
        if self.padding is not None:
            config.update(self._positions(config))
        if config.get("embedding_size") == config.get("hidden_size"):
            config["embedding_size"] = None
        architectures = config.get("architectures")
        if isinstance(architectures, list):
            config["architectures"] = [self._berts_class(name) for name in architectures]
        config.update(self.implied)
        config["model_type"] = "bert"
        return config

    def to_config(self, values, head_name):
        """Returns the content of a `config.json` of BERT with its own keys and classes."""
        self.check_writable(values, head_name)
        (architecture,) = values["architectures"]
        berts = dict(values)
        berts["embedding_size"] = values["embedding_size"] or values["hidden_size"]
        berts["architectures"] = [self._class_names.to_own(architecture)]

        left_out = {*self.implied, "position_padding_id"}
        if values["classifier_dropout"] is None:
            left_out.add("classifier_dropout")
        config = {key: supported[0] for key, supported in self.fixed.items()}
        for key, value in berts.items():
            if key not in left_out:
                config[self.config_names.get(key, key)] = value
        if self.padding is not None:  # Positions depend on this id, whatever the vocabulary's is.
            padding = values["position_padding_id"]  # An integer, see `check_writable`.
            config["max_position_embeddings"] += padding + 1
            config["pad_token_id"] = padding
        return config

    def _positions(self, values):
        """Returns the settings of `BertConfig` for positions that are counted from the id of padding."""
        padding = values.get("pad_token_id", self.padding)
        padding = self.implied.get("position_padding_id", padding)
        rows = values.get("max_position_embeddings", 512)
        check_count("pad_token_id", padding, least=0)
        check_count("max_position_embeddings", rows, least=padding + 2)
        return {"max_position_embeddings": rows - padding - 1, "position_padding_id": padding}

    @property
    def _class_names(self):
        # The second pair is the class of a left-to-right model.
        return Renames({"Bert": self.title, "LMHeadModel": "ForCausalLM"})

    def _berts_class(self, name):
        """Returns BERT's name of a class, unless it is one of the table of heads."""
        if not isinstance(name, str) or any(name in head.architectures for head in HEADS):
            return name
        return self._class_names.to_berts(name)

    # Tensors

    def tensors(self, tensors):
        """Returns tensors by BERT's names."""
        return {self.our_name(name): tensor for name, tensor in tensors.items()}

    def to_tensors(self, tensors, head_name):
        """Returns arrays by its own names, without those that a model with this head lacks."""
        head = head_named(head_name)
        has_pooler = self._has_pooler(head)
        own = {}
        for name, array in tensors.items():
            if has_pooler or not name.startswith(_POOLER):
                own[self.own_name(name, head)] = array
        return own

    def our_name(self, name):
        """Returns BERT's name of a tensor."""
        name = name.removeprefix(self.prefix)
        for renames in (*self.head_names.values(), self.names):
            name = renames.to_berts(name)
        return name

    def own_name(self, name, head):
        """Returns its own name of a tensor in a model with a `Head`."""
        own = name
        if head.architectures:
            head_class = head.architectures[0].removeprefix("Bert")
            if head_class in self.head_names:
                own = self.head_names[head_class].to_own(own)
        own = self.names.to_own(own)
        is_of_encoder = name.startswith(("embeddings.", "encoder.")) or own.startswith(_POOLER)
        if is_of_encoder and not head.is_encoder:
            own = self.prefix + own
        return own

    def _has_pooler(self, head):
        """Returns whether transformers' model with a `Head` has the pooler."""
        if head.is_encoder:
            return self.pooled
        return "pooled" in head.reads and "masked" not in head.reads

    # Refusals

    def check_fixed(self, values):
        """Raises if a config has an unsupported value of a key that BERT's lacks."""
        for key, supported in self.fixed.items():
            value = values.get(key, supported[0])
            if value not in supported:
                raise ValueError(f"`{key}` must be {supported[0]!r} for {self.title}. Received: {key}={value!r}")

    def check_head(self, head_name, hidden_act):
        """Raises if the config has another activation than that of a head which always has a GELU."""
        if not self.gelu or not head_name:
            return
        if "masked" in head_named(head_name).reads and hidden_act != "gelu":
            raise ValueError(
                f"`hidden_act` must be 'gelu' for {self.title} with head={head_name!r}, which has no other activation. "
                f"Received: hidden_act={hidden_act!r}; without this head, every activation is supported"
            )

    def check_writable(self, values, head_name):
        """Raises for a `config.json` of BERT that this type cannot express."""
        self.check_fixed(values)
        self.check_head(head_name, values["hidden_act"])
        if self.padding is not None and values["position_padding_id"] is None:
            raise ValueError(f"`position_padding_id` must be an integer for {self.title}. Received: None")
        self._check_implied(values, head_named(head_name))
        (architecture,) = values["architectures"]
        if architecture in _OF_BERT or not architecture.startswith(("Bert", self.title)):
            raise ValueError(
                f"{self.title} has no class like {architecture} of transformers. Expected another `model_type` or "
                f"head, or a pre-trainer without next sentence prediction. Received: head={head_name!r}"
            )

    def _check_implied(self, values, head):
        """Raises for settings that this type has no key for, if they are not what it always has."""
        implied = {"type_vocab_size": values["type_vocab_size"] or 1, "position_padding_id": None}
        if self.padding is not None:  # Positions can be counted from any id.
            implied["position_padding_id"] = values["position_padding_id"]
        implied.update(self.implied)
        for key, expected in implied.items():
            is_used = key != "pooler_activation" or self._has_pooler(head)
            if is_used and values[key] != expected:
                other = "model_type='bert') writes a BERT"
                if positions_of(values["model_type"]):  # A BERT has other positions.
                    other = "format='keras') writes this model"
                raise ValueError(
                    f"`{key}` must be {expected!r} for {self.title}. Received: {key}={values[key]!r}; save(..., {other}"
                )


_LM_HEAD = {
    f"{_TRANSFORM}dense.": "lm_head.dense.",
    f"{_TRANSFORM}LayerNorm.": "lm_head.layer_norm.",
    _DECODER: "lm_head.decoder.",
    _BIAS: "lm_head.bias",
}
_OWN_CLASSIFIER = {
    "ForSequenceClassification": Renames({_CLASSIFIER: "classifier.out_proj.", _POOLER: "classifier.dense."}),
}

# The layout of which the others are changes.
BERT = ModelType(title="Bert", prefix="bert.", names=Renames({}), head_names={})

_DISTILBERT = ModelType(
    title="DistilBert",
    prefix="distilbert.",
    names=Renames(
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
        }
    ),
    head_names={},
    config_names={
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
    fixed={"is_decoder": (False,), "sinusoidal_pos_embds": (False, True)},
    implied={
        "type_vocab_size": 0,
        "pooler_activation": "relu",
        "layer_norm_eps": 1e-12,
        "embedding_size": None,
    },
    gelu=False,
)

_ELECTRA = ModelType(
    title="Electra",
    prefix="electra.",
    names=Renames(
        {
            "embeddings.projection.": "embeddings_project.",
            _TRANSFORM: "generator_predictions.",
            _DECODER: "generator_lm_head.",
            _BIAS: "generator_lm_head.bias",
        }
    ),
    head_names=_OWN_CLASSIFIER | {"ForMultipleChoice": Renames({_POOLER: "sequence_summary.summary."})},
    fixed={
        "summary_type": ("first",),
        "summary_use_proj": (True,),
        "summary_activation": ("gelu",),
    },
    implied={"pooler_activation": "gelu"},
)

_ROBERTA = ModelType(
    title="Roberta",
    prefix="roberta.",
    names=Renames(_LM_HEAD),
    head_names=_OWN_CLASSIFIER,
    implied={"pooler_activation": "tanh", "embedding_size": None},
    padding=1,
    pooled=True,
)

_MPNET = ModelType(
    title="MPNet",
    prefix="mpnet.",
    names=Renames(
        {
            "attention.self.query.": "attention.attn.q.",
            "attention.self.key.": "attention.attn.k.",
            "attention.self.value.": "attention.attn.v.",
            "attention.output.dense.": "attention.attn.o.",
            "attention.output.LayerNorm.": "attention.LayerNorm.",
            **_LM_HEAD,
        }
    ),
    head_names=_OWN_CLASSIFIER,
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
)

MODEL_TYPES = {
    "distilbert": _DISTILBERT,
    "electra": _ELECTRA,
    "xlm-roberta": dataclasses.replace(_ROBERTA, title="XLMRoberta"),
    "roberta": _ROBERTA,
    "camembert": dataclasses.replace(_ROBERTA, title="Camembert"),
    "mpnet": _MPNET,
}
# As people write them.
_FAMILIES = {
    "distilbert": "DistilBERT",
    "electra": "ELECTRA",
    "roberta": "RoBERTa",
    "xlm-roberta": "XLM-RoBERTa",
    "camembert": "CamemBERT",
    "mpnet": "MPNet",
}


def checked_model_type(config, head, model_type=None, positions="learned"):
    """Returns whose layout a model is written in, by default that of the first one with its config and head; raises if
    it is not possible."""
    is_berts = all(name.startswith("Bert") for name in head_named(head).architectures)
    needed = positions_named(positions).model_type
    if model_type is None:
        model_type = needed or _default_model_type(config, is_berts)
    check_choice("model_type", model_type, ("bert", *MODEL_TYPES))
    if needed and needed != model_type:
        raise ValueError(
            f"`model_type` must be {needed!r} for positions={positions!r}. Received: model_type={model_type!r}"
        )
    if positions_of(model_type) not in (None, positions):
        raise ValueError(
            f"`model_type` must be another one for positions={positions!r}. Received: model_type={model_type!r}"
        )
    if model_type == "bert":
        if not is_berts:
            raise ValueError(f"`model_type` must be 'electra' for head={head!r}. Received: model_type='bert'")
        config.check_plain("a BERT of transformers")
    return model_type


def _default_model_type(config, has_berts_head):
    """Returns the model type that has what a config has, and a head."""
    if not config.type_vocab_size:
        return "distilbert"
    if config.position_padding_id is not None:
        return "xlm-roberta"
    if config.embedding_size or config.pooler_activation == "gelu" or not has_berts_head:
        return "electra"
    return "bert"


def family_of(model_type):
    """Returns the name of a relative of BERT as people write it, `None` for BERT itself."""
    return _FAMILIES.get(model_type)

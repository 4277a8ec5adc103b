"""What the package knows about a kind of head, in one class."""

import functools
import inspect
import operator
from typing import Any

import keras
import numpy as np

from keras_bert.checks import check_count, is_ours
from keras_bert.heads import answers
from keras_bert.heads.class_settings import placeholders
from keras_bert.heads.confidence import OF_ONE_ANSWER, OF_SEVERAL
from keras_bert.layers import Dense, Dropout
from keras_bert.metadata import Metadata
from keras_bert.models.encoder import describe_encoder
from keras_bert.text.long_texts import LONG_TEXTS

TEXT = ("text",)
PAIR = ("text", "pair")
# What the inputs of models are: those that signatures on texts compute from these.
TOKEN_INPUTS = ("token_ids", "segment_ids", "padding_mask", "mask_positions")
HEAD_DROPOUT = "head_dropout"  # The layer that several heads have.
# Values of transformers' `problem_type`.
MULTI_LABEL = "multi_label_classification"
SINGLE_LABEL = "single_label_classification"
_PROBLEMS = ("regression", SINGLE_LABEL, MULTI_LABEL)


class Head:
    """A kind of head. A subclass states what differs from the defaults; `register_head` adds one of your own.

    Attributes:
        name: str.
        layer: str, the layer that only models with this head have, and so none of the encoder or of another head; of
            several, the last one in `HEADS` counts.
        reads: tuple of what it reads of the encoder: "pooled", the "masked" positions, or the whole "sequence".
        build: function from the encoder and the options of the head, such as `num_classes` and `dropout`, to the model.
        run: function from the layers by name, the outputs of the encoder and the inputs of the model to its outputs,
            which only calls layers; `None` if it is more than a head on top of the encoder. Defaults to `None`.
        tensors: dict of the names of its tensors in a checkpoint by those of its layers, variables and parts of layers,
            such as "transform.dense" or "cutpoints.steps"; a dense layer has the tensors `.weight` and `.bias`.
        units: dict of the names of dense layers by the options of `build` that are their numbers of units, such as
            `{"num_classes": "classifier"}`: what `described` and `sizes` return by default.
        saved: tuple of the options of `build` that `config.json` stores. Others follow from `sizes`.
        architectures: tuple of transformers' classes, first the one that is written. Defaults to none: it opens the
            encoder.
        embeds: bool, whether its output is `embedding`, a vector of each text. Defaults to `False`.
        is_encoder: bool, whether transformers opens the model as an encoder. Defaults to `False`.
        packs: bool, whether its model can be trained on packed rows: `run` must not read `padding_mask`. Defaults to
            `False`.
        has_classes: bool, whether it has labels. Defaults to `False`.
        classes: str, the output of the model that holds the logits of the classes, or a number. Defaults to "logits".
        onnx: dict of functions that add the head's own layers to an ONNX graph, by the names of the layers: from the
            `keras_bert.exporting.Graph`, the layer and the names of its inputs to that of its output. Dense layers need
            none.
        settings: tuple of the arguments of `save` that only models with this head have.
        has_prefix: bool, whether the names of the encoder's tensors begin with `bert.` in transformers. Defaults to
            `True`.
        google: str, the tensor that tells this head in Google's format, "" for none; `None` if the format has no place
            for it. Defaults to `None`.
        peft: str, peft's task, "" for none; `None` if its adapters are not saved. Defaults to `None`.
        sentence_transformers: str, the class of sentence-transformers that opens the model. Defaults to `None`.
        text_options: tuple of the options of `export` and `predict`. With `confidence`, the model may have a
            temperature, see `confidence_fields`: without signatures of the head's own, `respond` gets logits of the
            classes that are divided by it.
        outputs: tuple of outputs that only the signatures of this head have, by which `predict --server` knows them.
        takes_pair: bool, whether the `pair` of `export` may be true. Defaults to `False`.
        requires_pair: bool, whether it must be true: the head answers pairs of texts alone. Defaults to `False`.
        takes_words: bool, whether there is the signature `words`. Defaults to `False`.
        pair_signature: str, the signature that answers pairs. Defaults to "serving_default".
        keeps: tuple of special tokens that stay intact in texts.
        long_texts: tuple of the `long_texts` that its signatures take, see `TextPreprocessor`; none if they read all of
            a long text. Defaults to all: its outputs are those of whole texts, and those of windows can be joined, see
            `deciding_output`.
        from_task: tuple of the options of `export` and `predict` that are settings of a task, too.
    """

    name: str
    layer: str
    reads: tuple
    build: Any = None
    run: Any = None
    tensors: dict = {}
    units: dict = {}
    saved: tuple = ()
    architectures: tuple = ()
    embeds = False
    is_encoder = False
    packs = False
    has_classes = False
    classes = "logits"
    onnx: dict = {}
    settings: tuple = ()
    has_prefix = True
    google: str | None = None
    peft: str | None = None
    sentence_transformers: str | None = None
    text_options: tuple = ()
    outputs: tuple = ()
    takes_pair = False
    requires_pair = False
    takes_words = False
    pair_signature = "serving_default"
    keeps: tuple = ()
    long_texts: tuple = LONG_TEXTS
    from_task: tuple = ()

    def __init_subclass__(cls):
        cls.takes_pair = cls.takes_pair or cls.requires_pair

    def layer_names(self) -> set:
        """Returns the names of the layers that its models have beside those of the encoder, as far as it tells them."""
        names = {self.layer}
        names.update(self.onnx)
        for path in self.tensors:
            layer, _, _ = path.partition(".")
            names.add(layer)
        return names

    def described(self, layers: dict) -> dict:
        """Returns the options of `build` that the layers of a model tell."""
        return {option: layers[name].units for option, name in self.units.items()}

    def sizes(self, tensors: dict) -> dict:
        """Returns the options of `build` that only the tensors of a checkpoint tell."""
        sizes = {}
        for option, name in self.units.items():
            weight = tensors[f"{self.tensors[name]}.weight"]
            sizes[option] = weight.shape[0]
        return sizes

    def options(self, values: dict) -> dict:
        """Returns those of some values that `build` takes; `None` stands for its default."""
        _, *names = inspect.signature(self.build).parameters  # The first one is the encoder.
        return {name: values[name] for name in names if values.get(name) is not None}

    def options_to_store(self, description) -> dict | None:
        """Returns the options of `build` that `config.json` stores, or `None`."""
        return {name: description.options[name] for name in self.saved} or None

    def parts(self, layers: dict) -> dict:
        """Returns layers, variables and parts of layers by the names of their tensors."""
        parts = {}
        for path, tensor in self.tensors.items():
            name, _, attributes = path.partition(".")
            if name not in layers:
                continue
            parts[tensor] = layers[name]
            if attributes:
                parts[tensor] = operator.attrgetter(attributes)(layers[name])
        return parts

    def architecture(self, description) -> str:
        """Returns transformers' class of a model."""
        return self.architectures[0] if self.architectures else "BertModel"

    def is_regression(self, description) -> bool:
        """Returns whether a model's only output is a number rather than a class."""
        return False

    def deciding_output(self, description) -> str | None:
        """Returns the output in which one window of a long document may decide, the logits of classes, or `None`.

        Of its values for the windows, the logarithm of the mean of the exponentials is that of the document; of all
        other outputs, the mean is.
        """
        if not self.has_classes or self.is_regression(description):
            return None
        return self.classes

    def read_config(self, config: dict, metadata):
        """Returns the `Metadata` of a checkpoint with what transformers' `config.json` tells of the head."""
        labels = _labels_of(config)
        problem = _problem_type(config)
        if not self.has_classes:
            labels = None
        return metadata.replace(labels=labels, multi_label=problem == MULTI_LABEL)

    def to_config(self, description, labels: list | None) -> dict:
        """Returns the keys of `config.json` about the head of a model, see `read_config`."""
        return _classes_to_config(description, labels)

    def encoder_inputs(self, layers: dict, inputs: dict) -> dict:
        """Returns the inputs of the encoder for those of the model."""
        return inputs

    def respond(self, outputs: dict, labels: list | None) -> dict:
        """Returns the outputs of `serving_default` for those of the model, tensors with a row for each text.

        `labels` are the names of the classes, if the head has classes. Further parameters of a subclass are options of
        `build`, by their names.
        """
        return outputs

    def signature_builder(self, description):
        """Returns the function that builds the signatures by name, by default `serving_default` with `respond`.

        Its arguments are some of `model`, `preprocessor`, `labels`, `pair` and `description`, in any order, and then
        the options of the signatures, with defaults. Needs TensorFlow.
        """
        from keras_bert.heads.default_signatures import calibrated_responder, responder

        respond = with_head_options(self.respond, description.options, count=2)
        deciding = self.deciding_output(description)
        if "confidence" in self.text_options:
            return calibrated_responder(respond, deciding, self.classes)
        return responder(respond, deciding)

    def signatures(self, model, description, preprocessor, labels, pair, **options) -> dict:
        """Returns the signatures on raw text by name; for the arguments see `export`."""
        check_inputs(self, model)
        build = self.signature_builder(description)
        available = {
            "model": model,
            "preprocessor": preprocessor,
            "labels": labels,
            "pair": pair,
            "description": description,
        }
        parameters = inspect.signature(build).parameters
        arguments = [available[name] for name in parameters if name in available]
        return with_options(build, description, options, *arguments)

    def answer(self, output: dict, row: dict, n_best: int | None) -> dict:
        """Returns the outputs of a signature for one text, a dict of arrays, as `predict` does.

        Further parameters of a subclass are options of `build`, by their names; the client of a server, which does not
        know them, needs their defaults.
        """
        return answers.plain(output, row, n_best)

    def class_logits(self, answers: dict):
        """Returns the logits of the classes, or a number, of each text, given the outputs of `serving_default`, arrays.

        They are the output `classes` of the model if the signature has it, or else what tells the same classes.
        """
        if self.classes in answers:
            if np.ndim(answers[self.classes]) < 2:
                raise ValueError(
                    f"`respond` of the head {self.name} must keep the shape of the output {self.classes!r} of the "
                    "model, (batch, classes), or give another name to what it makes of it, or have `class_logits`. "
                    f"Received: the shape {np.shape(answers[self.classes])}"
                )
            return answers[self.classes]
        if "probabilities" in answers:
            with np.errstate(divide="ignore"):
                return np.log(answers["probabilities"])
        if "value" in answers:
            return answers["value"][:, None]
        raise ValueError(
            f"the head {self.name} tells no classes in its answers, {', '.join(answers)}. Expected `respond` to have "
            f"the output {self.classes!r}, or `class_logits` of the head"
        )

    def model_outputs(self, answers: dict) -> dict:
        """Returns the outputs of the model by name as far as those of `serving_default`, arrays, tell them.

        They are what `verify_saved_model --labeled` gives to a `score` of your own: by default, those that have the
        same name, and the logits of the classes.
        """
        outputs = dict(answers)
        outputs[self.classes] = self.class_logits(answers)
        return outputs

    def inputs(self, bert) -> list:
        """Returns the inputs that `predict` takes, tuples of their names."""
        if self.requires_pair:
            return [PAIR]
        if not self.takes_pair:
            return [TEXT]
        if bert.pair is None:  # The checkpoint does not tell.
            return [TEXT, PAIR]
        return [PAIR] if bert.pair else [TEXT]

    def defaults(self, bert, n_best: int | None) -> dict:
        """Returns the options that `predict` sets: by default the confidence of the model, if it has any."""
        if "confidence" not in self.text_options or bert.confidence is None:
            return {}
        return {"confidence": bert.confidence}

    def confidence_fields(self, description) -> tuple:
        """Returns what the confidence of a model may have, see `LoadedBert.confidence`; nothing for none.

        By default, a head with the option `confidence` among its `text_options` has a temperature, and if it builds its
        own signatures, a threshold, too.
        """
        if "confidence" not in self.text_options or self.is_regression(description):
            return ()
        has_own = type(self).signature_builder is not Head.signature_builder
        if has_own and not description.multi_label:
            return OF_ONE_ANSWER
        return OF_SEVERAL

    def axes(self, name: str) -> tuple:
        """Returns the names of the free axes of an input or an output."""
        return "batch", "length"

    def stored(self, bert) -> dict:
        """Returns the options that the checkpoint of a `LoadedBert` has: those that are settings of `Metadata`."""
        options = {}
        for name in self.text_options:
            if name in Metadata.setting_names() and getattr(bert, name) is not None:
                options[name] = getattr(bert, name)
        options.update(self.task_options(bert))
        return options

    def task_options(self, bert) -> dict:
        """Returns the options that are settings of the task that the model was trained on."""
        settings = bert.task_settings or {}
        return {name: settings[name] for name in self.from_task if name in settings}


def is_same_option(one, other):
    """Whether two values of an option of `build` are the same; a tuple is a list, as which JSON stores it."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        if len(one) != len(other):
            return False
        return all(is_same_option(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict) and isinstance(other, dict):
        if one.keys() != other.keys():
            return False
        return all(is_same_option(value, other[name]) for name, value in one.items())
    return one == other


def check_inputs(head, model):
    """Raises for inputs of a model that the signatures of its head cannot get from texts."""
    own = [name for name in model.input if name not in TOKEN_INPUTS]
    builder = type(head).signature_builder
    if type(head).signatures is not Head.signatures:
        builder = type(head).signatures
    if own and is_ours(builder):
        raise ValueError(
            f"the head {head.name!r} can read the inputs {', '.join(TOKEN_INPUTS[:3])}: metadata become part of the "
            "text, by `convert` of the task, or the head needs a `signature_builder` that computes them. "
            f"Received: {', '.join(own)}"
        )


def with_head_options(function, options, count):
    """Returns a function with those options of a head that it names among its parameters after the first `count`."""
    names = list(inspect.signature(function).parameters)[count:]
    named = {name: options[name] for name in names if name in options}
    return functools.partial(function, **named)


def with_options(build, description, options, *arguments):
    """Returns the signatures that a function builds; raises an error for an option that it does not have."""
    known = list(inspect.signature(build).parameters)[len(arguments) :]
    for name, value in options.items():
        if name not in known:
            raise ValueError(
                f"a model with head={description.head!r} has no option {name!r} of its signatures. Expected one of: "
                f"{', '.join(known) or 'none'}. Received: {name}={value!r:.200}"
            )
    return build(*arguments, **options)


def dense_head(encoder, units, dropout, name, kind=Dense):
    """Returns the dropout layer, `HEAD_DROPOUT`, and the float32 dense layer of a head by name."""
    check_count("num_classes", units)
    encoding = describe_encoder(encoder)
    rate = encoding.config.hidden_dropout_prob if dropout is None else dropout
    initializer = keras.initializers.TruncatedNormal(stddev=encoding.config.initializer_range)
    return {
        HEAD_DROPOUT: Dropout(rate, dtype=encoding.dtype, name=HEAD_DROPOUT),
        name: kind(int(units), kernel_initializer=initializer, dtype="float32", name=name),
    }


def _classes_to_config(description, labels):
    """Returns the keys of `config.json` for a described model."""
    values = {}
    if description.multi_label:
        values["problem_type"] = MULTI_LABEL
    if description.num_classes is not None:
        names = labels or placeholders(description.num_classes)
        values["id2label"] = {str(index): name for index, name in enumerate(names)}
        values["label2id"] = {name: index for index, name in enumerate(names)}
    return values


def count_classes(config):
    """Returns the number of classes."""
    return len(config.get("id2label") or {}) or config.get("num_labels", 2)


def our_activation(name, value, known):
    """Returns our name of a class of PyTorch, one of the known ones; `name` is that of the setting."""
    ours_by_class = {}
    for ours, theirs in known.items():
        _, _, class_name = theirs.rpartition(".")
        ours_by_class[class_name] = ours
    package, _, class_name = str(value).rpartition(".")
    if class_name not in ours_by_class or not f"{package}.".startswith("torch."):
        raise ValueError(f"`{name}` must be one of {', '.join(known.values())}. Received: {name}={value!r:.200}")
    return ours_by_class[class_name]


def _problem_type(config):
    """Returns `problem_type`; raises if it does not match the number of labels."""
    problem = config.get("problem_type")
    classes = count_classes(config)
    if problem is not None and problem not in _PROBLEMS:
        raise ValueError(f"`problem_type` must be one of {', '.join(_PROBLEMS)}. Received: problem_type={problem!r}")
    is_other_number = problem == "regression" and classes != 1
    is_single_class = problem == SINGLE_LABEL and classes == 1
    if is_other_number or is_single_class:
        raise ValueError(
            "`problem_type` must match the number of labels: one for regression, at least two for classification. "
            f"Received: problem_type={problem!r} with {classes} label(s)"
        )
    return problem


def _labels_of(config):
    """Returns the labels of `id2label` in order, or None for transformers' placeholders; numbers may start at 1."""
    table = config.get("id2label")
    if not table:
        return None
    labels = _labels_by_number(table)
    names = [labels[number] for number in sorted(labels)]
    if not _are_consecutive(labels) or len(labels) != len(table) or len(set(names)) != len(table):
        raise ValueError(
            "`id2label` must map the numbers from 0 or 1 on to different names, one for each label. "
            f"Received: {table!r:.200}"
        )
    if names == placeholders(len(names)):
        return None
    return names


def _labels_by_number(table):
    """Returns the entries of `id2label` that map a number to a name."""
    labels = {}
    if isinstance(table, dict):
        for key, name in table.items():
            if key.isdecimal() and type(name) in (str, int, float):
                labels[int(key)] = str(name)
    return labels


def _are_consecutive(labels):
    """Whether labels by number have all numbers from 0 or 1 on."""
    if not labels or min(labels) > 1:
        return False
    return len(labels) == max(labels) - min(labels) + 1

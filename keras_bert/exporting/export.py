"""Models that take raw text: a Keras model, and a SavedModel whose graph contains the tokenizer."""

import functools
import numbers
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Unpack

import keras
import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from keras_bert.annotations import HeadOptions
from keras_bert.checks import is_finite
from keras_bert.exporting import assets
from keras_bert.exporting.fused_layers import ReadByGraphs, fused
from keras_bert.exporting.int8 import in_int8
from keras_bert.exporting.int8_ranges import calibrated, probed
from keras_bert.exporting.model_facts import AnsweringParts, check_same_export, model_facts
from keras_bert.exporting.probes import longest_probe, probes_of
from keras_bert.files import check_replaceable, replacing
from keras_bert.heads.class_settings import checked_labels
from keras_bert.heads.explain_signatures import explainer
from keras_bert.heads.head import with_options
from keras_bert.heads.registry import answering, describe, is_regression
from keras_bert.progress import quiet_tensorflow
from keras_bert.text.long_texts import REFUSE
from keras_bert.text.preprocessor import TextPreprocessor, as_strings
from keras_bert.text.signatures import TracedOnce, on_ids

_FILES = ("saved_model.pb", "fingerprint.pb", "variables", "assets", assets.FOLDER)
# Signatures with these names take `tf.Example`s and have their own TensorFlow Serving API; all others use Predict.
_METHODS = {"classify": "tensorflow/serving/classify", "regress": "tensorflow/serving/regress"}


def build_text_model(model: keras.Model, preprocessor: Any, *, pair: bool = False) -> keras.Model:
    """Prepends a preprocessor to a model, which then takes strings. For prediction, not for training.

    Args:
        model: a model from one of the builders.
        preprocessor: a `TextPreprocessor`.
        pair: bool, whether the model takes two texts. Defaults to `False`.

    Returns:
        A `keras.Model` whose inputs are a dict with `"text"` and, with `pair`, `"pair"`. Its `predict` also takes
        lists and arrays of strings.

    Example:
        build_text_model(model, preprocessor).predict(["A sentence."])
    """
    if getattr(preprocessor, "reads_windows", False):
        raise ValueError(
            "`preprocessor` must return one sequence of a text: a Keras model has a row for each text. `export` writes "
            "models that read windows. Received: long_texts='windows'"
        )

    # Layers
    names = ("text", "pair") if pair else ("text",)
    inputs = {name: keras.Input((), dtype="string", name=name) for name in names}

    # Wiring
    outputs = model(preprocessor(inputs))

    # Model
    text_model = keras.Model(inputs, outputs, name=f"text_{model.name}")
    # An attribute of this one model rather than a subclass: files of Keras name the class of a model.
    text_model.predict = _taking_texts(text_model.predict, names)
    return text_model


def _taking_texts(predict, names):
    """Returns the `predict` of a model with inputs of these names as one that takes lists of texts, too."""

    # Keras' own refuses lists and NumPy's arrays of strings, and fails in its graph for what is no text. A dataset
    # passes. It can go when Keras takes lists of strings.
    @functools.wraps(predict)
    def predict_texts(x, *arguments, **options):
        if isinstance(x, list | tuple) and len(x) == len(names) and all(map(_is_array, x)):
            x = dict(zip(names, x, strict=True))  # In the order of the inputs, as Keras takes them.
        if isinstance(x, str | dict | list | tuple | np.ndarray) or hasattr(x, "to_numpy"):
            x = as_strings(x)
            _check_texts(x, names)
        return predict(x, *arguments, **options)

    return predict_texts


def _is_array(value):
    """Returns whether a value is an array or a tensor, with axes."""
    return bool(getattr(value, "shape", ()))


def _check_texts(texts, names):
    """Raises an error unless there are texts, one-dimensional tensors, for each input of a text model."""
    are_lists = all(strings.shape.rank == 1 and len(strings) for strings in texts.values())
    if texts.keys() != set(names) or not are_lists:
        expected = "a tuple of two lists of texts" if len(names) == 2 else "a list of texts"
        received = f"{list(texts)}. The inputs of this model: {list(names)}"
        raise ValueError(f"`x` must be {expected}, at least one. Received: {received}")


@quiet_tensorflow()
def export(
    model: keras.Model,
    preprocessor: Any,
    directory: str | os.PathLike,
    *,
    labels: Sequence | None = None,
    pair: bool = False,
    example: Any = None,
    score_range: tuple[float, float] | None = None,
    columns: Mapping[str, str] | None = None,
    task: Mapping[str, Any] | None = None,
    precision: Literal["int8"] | None = None,
    calibration: Sequence | None = None,
    overwrite: bool = False,
    explain: bool = False,
    add_signatures: Callable | None = None,
    **options: Unpack[HeadOptions],
) -> None:
    """Exports a SavedModel that takes raw text, for TensorFlow Serving.

    Inputs are batches of strings; every output starts with the batch dimension. All signatures on texts, but `classify`
    and `regress`, have the outputs `tokens` and `tokens_read`: how many tokens each text has, and how many of them the
    model reads, see `LoadedBert.predict`; where `tokens` are strings, the former are `text_tokens`. `serving_default`
    of each head:

    - classification: `text`, with `pair` also `pair` -> `label`, `probabilities`, `labels`; regression -> `value`,
      after the model's `score_activation`, see `build_classifier`. `classify` and `regress` take `tf.Example`s. With
      `multi_label`, `predicted` replaces `label`: a bool for each of `labels`, true if its probability is at least its
      threshold. Options: `thresholds`, one for all labels (0.5) or one for each; `logits`, a bool that adds the output
      `logits`; `confidence`, a dict with the `temperature` of the probabilities of one label and its `threshold`, below
      which `label` is empty and the output `answered` false; with `multi_label`, and for tags, it has a temperature
      alone. The option `zero_shot`, a `ZeroShot`, adds the signature
      `zero_shot` to a classifier of pairs (NLI): `text`, `labels` -> `label`, or `predicted`, `probabilities`,
      `labels`. Rows with fewer labels are padded with `""`: an empty label has the probability 0.
    - token classification: `text` -> `tokens`, `tags`, `scores`, byte offsets `starts` and `ends`, `token_count`;
      `entities`, `entity_types`, `entity_scores`, `entity_starts`, `entity_ends`, `entity_count`; padded. The signature
      `words` takes texts whose words are separated by single spaces. Options: `doc_stride`, `confidence`.
    - question answering: `question`, `context` -> `answer`, its `probability` and `score` (a sum of logits), byte
      offsets `start` and `end`; with `null_threshold` also `null_score`, the score of no answer. Options: `doc_stride`,
      `max_question_length`, `max_answer_length`, `n_best`, `null_threshold`.
    - pre-training: `text` with [MASK] -> `tokens`, `probabilities`, `mask_count`; signature `next_sentence`: `text`,
      `pair` -> `probability`. Option: `n_best`.
    - multiple choice: `text`, `choices` -> `choice`, `probabilities`. Rows with fewer choices are padded with `""`: an
      empty choice has the probability 0. Option: `confidence`, as for one label; below its threshold `choice` is -1.
    - next sentence: `text`, `pair` -> `probability`.
    - translation: `text` -> `translation`, `translations`, `scores`, `truncated`; the signature `alignment` adds the
      cross-attention. `preprocessor` is a `LosslessTokenizer`. Options: `beam`, `n_best`, see `Translator`.
    - encoder: `text` -> `embedding`; the signature `embed` is the same. Options: `pooling`, `layers`, `normalize`. A
      model from `build_embedder` has its own settings instead; its options are `prompts` and `default_prompt_name`, see
      `save`, and `zero_shot`. The default prompt precedes all texts of `serving_default`, `embed` and `zero_shot`;
      `embed_query` has the prompt named `query`, and so on for each prompt.

    The signature `tokens` runs the model on token ids. Texts are padded to the longest of a request; classification,
    regression and embedding compute `rows_together` (8) of similar length at a time, for CPUs; `None` computes all.

    Args:
        model: a model from one of the builders.
        preprocessor: a `TextPreprocessor`.
        directory: output directory; TensorFlow Serving expects a number as its last component. An older SavedModel
            of the same model is replaced, also of other weights, of another dropout, or with other options, such as
            `sequence_length` of the preprocessor; other files are refused.
        labels: list or array of class or tag names, in the order of the logits; numbers are converted to strings.
        pair: bool, whether a classifier or a regression model takes two texts. Defaults to `False`.
        example: dict of the inputs of `serving_default` for one text, such as `{"text": "A text."}`, which the
            development server offers as an example. It is stored in the SavedModel. Defaults to `None`.
        score_range: tuple `(lowest, highest)` of the scores of a regression model, for display. Defaults to `None`.
        columns: dict of the columns that the model was trained on by input, such as `{"text": "review"}`, which
            `verify_saved_model --labeled` reads. It is stored in the SavedModel. Defaults to `None`.
        task: dict of the `name` and the stored `settings` of the task that the model was trained on, for the same
            command and `predict --server`; with `converts`, true, these need the task. Defaults to `None`.
        precision: `"int8"` writes the weights of a float32 model in int8 and multiplies them by activations in int8:
            a quarter of the size, for TensorFlow on x86 processors, fast on those with VNNI. Defaults to `None`, the
            precision of the model.
        calibration: list of texts, or of tuples of the inputs of `serving_default`, for `precision="int8"`. The ranges
            of the activations are those of these texts, otherwise those of each batch. Defaults to `None`.
        overwrite: bool, whether the SavedModel of another model, with another config, vocabulary, tokenizer, head or
            labels, is replaced, too. Defaults to `False`.
        explain: bool, whether to add the signature `explain`, with the inputs of `serving_default`: `words`, their byte
            offsets `starts` and `ends`, the `inputs` that they are in and their `scores`, by leaving out each word, see
            `LoadedBert.explain`; padded, of `word_count` words. `target` is what is predicted, `value` its logit,
            `baseline` that without words, `difference` and `delta` as there. Defaults to `False`.
        add_signatures: function that returns more signatures, a dict of `tf.function`s by name, given those of the
            head. Defaults to `None`.
        **options: options of the head, see above.

    Example:
        export(model, preprocessor, "saved_models/sst2/1", labels=["negative", "positive"])
    """
    _check_precision(precision, calibration)
    directory = pathlib.Path(directory).expanduser()
    check_replaceable(directory, _FILES)
    description = describe(model)
    parts = AnsweringParts(description, preprocessor, _labels(description, labels), pair, dict(options))
    score_range = _checked_range(description, score_range)
    _check_probes_fit(preprocessor, pair)
    facts = model_facts(parts, example=example, score_range=score_range, columns=columns, task=task)
    if not overwrite:
        check_same_export(directory, facts)
    signatures = _all_signatures(model, parts, add_signatures, explain)
    _check_example(signatures["serving_default"], example)
    if precision is not None:
        facts["precision"] = precision
        facts["calibrated"] = calibration is not None
    tables = getattr(getattr(preprocessor, "tokenizer", None), "tables", None)
    tracing = _tracing(model, description, precision, signatures["serving_default"], calibration)
    # A server that watches the folder never sees an incomplete model.
    with replacing(directory) as temporary:
        with tracing as weights:
            # In int8, there are only the graphs: traced here, they are not traced again to run them.
            graphs = {name: function.get_concrete_function() for name, function in signatures.items()}
            tf.saved_model.save(ReadByGraphs(weights, tables), str(temporary), graphs)
            _name_methods(temporary / "saved_model.pb")
            if precision is not None:
                assets.write(temporary, signatures, facts, graphs)
        if precision is None:
            assets.write(temporary, signatures, facts)


@quiet_tensorflow()
def rehearse_export(
    model, preprocessor, *, labels=None, pair=False, example=None, score_range=None, add_signatures=None, **options
):
    """Goes through what `export` does, on a model that is not written; for the arguments see there.

    Returns the signatures by name, traced.
    """
    description = describe(model)
    parts = AnsweringParts(description, preprocessor, _labels(description, labels), pair, dict(options))
    _checked_range(description, score_range)
    signatures = _all_signatures(model, parts, add_signatures)
    _check_example(signatures["serving_default"], example)
    for function in signatures.values():
        function.get_concrete_function()
    probes_of(signatures)
    return signatures


def _all_signatures(model, parts, add_signatures, explain=False):
    """Returns the signatures of an export by name: those of the head, `tokens`, and those that are added."""
    traced = TracedOnce(model)
    signatures = build_signatures(model, parts.preprocessor, parts.labels, parts.pair, traced, **parts.options)
    signatures["tokens"] = on_ids(traced)
    if explain:
        signatures["explain"] = _explain_signature(parts, traced)
    if add_signatures is not None:
        signatures.update(add_signatures(dict(signatures)))
    return signatures


def _check_probes_fit(preprocessor, pair):
    """Raises if a preprocessor refuses the texts on which a SavedModel is tried."""
    if getattr(preprocessor, "long_texts", None) != REFUSE:
        return
    any_length = TextPreprocessor.from_config(preprocessor.get_config() | {"long_texts": None})
    least = longest_probe(any_length, pair)
    if preprocessor.sequence_length < least:
        raise ValueError(
            f"`sequence_length` must be at least {least} for long_texts='refuse': the SavedModel is tried on texts of "
            f"so many tokens. Received: sequence_length={preprocessor.sequence_length}"
        )


def _check_precision(precision, calibration):
    """Raises an error for an unknown precision, or for calibration without int8."""
    if precision not in (None, "int8"):
        raise ValueError(
            '`precision` must be "int8" or `None`, the precision of the model, the `dtype` of `keras_bert.load`. '
            f"Received: precision={precision!r}"
        )
    if calibration is not None and precision is None:
        raise ValueError('`calibration` needs `precision="int8"`. Received: precision=None')


def _tracing(model, description, precision, signature, calibration):
    """Returns a context to trace signatures in; it yields the variables that they read."""
    if precision is None:
        return fused(model)
    is_dynamic = calibration is None
    if is_dynamic:
        limits = probed(model, signature)
    else:
        limits = calibrated(model, signature, calibration)
    # Signatures of their own, such as a decoder's, read the table themselves.
    reads_table = description.signatures is not None
    return in_int8(model, limits, dynamic=is_dynamic, tables=not reads_table)


def build_signatures(model, preprocessor, labels=None, pair=False, traced=None, **options):
    """Returns the signatures of a model by name, `tf.function`s on raw text; for the arguments see `export`.

    They call `traced`, a `TracedOnce`, if it is given, in place of the model.
    """
    description = describe(model)
    labels = _labels(description, labels)
    if description.signatures is not None:  # Those of the model's own, such as a decoder's.
        _check_pair(pair, [False], description)
        return with_options(description.signatures, description, options, model, preprocessor)
    head = answering(description.head)
    _check_pair(pair, [head.requires_pair, head.takes_pair], description)
    preprocessor = _for_serving(preprocessor, head.keeps)
    return head.signatures(traced or model, description, preprocessor, labels, pair, **options)


def _check_pair(pair, allowed, description):
    """Raises unless `pair` has one of the allowed values."""
    if bool(pair) not in allowed:
        raise ValueError(f"`pair` must be {not pair} for a model with head={description.head!r}. Received: pair={pair}")


def _explain_signature(parts, traced):
    """Returns the signature `explain` of a model, which calls `traced`, with the windows of its other signatures."""
    description = parts.description
    if description.signatures is not None:
        raise ValueError(f"`explain` must be False for a model with head={description.head!r}. Received: explain=True")
    head = answering(description.head)
    preprocessor = _for_serving(parts.preprocessor, head.keeps)
    doc_stride = parts.options.get("doc_stride")
    return explainer(traced, head, description, preprocessor, parts.labels, parts.pair, doc_stride=doc_stride)


def _labels(description, labels):
    """Returns the checked labels as a list of strings."""
    if labels is not None and (description.num_classes is None or is_regression(description)):
        model = "regression model" if description.num_classes else f"model with head={description.head!r}"
        raise ValueError(f"`labels` must be None for a {model}. Received: labels={labels!r:.200}")
    return checked_labels(labels, description.num_classes)


def _check_example(signature, example):
    """Raises unless an example has a value of the right type for each input of a signature."""
    if example is None:
        return
    types = {spec.name: _type_of_example(spec) for spec in signature.input_signature}
    is_right = set(example) == set(types)
    expected = []
    for name, expected_type in types.items():
        is_right = is_right and isinstance(example[name], expected_type)
        expected.append(f"`{name}` ({expected_type.__name__})")
    if not is_right:
        raise ValueError(f"`example` must be a dict of {', '.join(expected)}. Received: example={example}")


def _type_of_example(spec):
    """Returns the type of an example of an input."""
    if spec.shape.rank > 1:
        return list
    if spec.dtype == tf.string:
        return str
    return numbers.Number


def _checked_range(description, score_range):
    """Returns the range as a list of floats."""
    if score_range is None:
        return None
    has_score = is_regression(description)
    ends = list(score_range) if np.iterable(score_range) else []
    is_range = len(ends) == 2 and all(map(is_finite, ends)) and ends[0] <= ends[1]
    if not has_score or not is_range:
        expected = "(lowest, highest), finite numbers" if has_score else "None for a model without a score"
        raise ValueError(f"`score_range` must be {expected}. Received: score_range={score_range}")
    return [float(end) for end in ends]


def _for_serving(preprocessor, keeps):
    """Returns the preprocessor with padding to the longest text of a request, which keeps some special tokens."""
    config = preprocessor.get_config()
    if config["padding"] == "fixed":
        config["padding"] = "longest"
    kept = config["keep_special_tokens"]
    missing = [token for token in keeps if token not in kept]
    config["keep_special_tokens"] = [*kept, *missing]
    if config == preprocessor.get_config():
        return preprocessor
    return TextPreprocessor.from_config(config)


def _name_methods(path):
    """Names the API of TensorFlow Serving in the signatures of a SavedModel that have one of their own."""
    saved = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    for graph in saved.meta_graphs:
        for name, method in _METHODS.items():
            if name in graph.signature_def:
                graph.signature_def[name].method_name = method
    path.write_bytes(saved.SerializeToString(deterministic=True))

"""Answers of a loaded model, by the signatures that `export` writes."""

import dataclasses

import keras
import numpy as np
import tensorflow as tf

from keras_bert.answering.input_rows import WORDS, check_rows, read_rows
from keras_bert.answering.row_answers import answer_rows, outputs_of_rows, with_model_options
from keras_bert.checks import hint, is_count
from keras_bert.data import choices as multiple_choice
from keras_bert.data import in_memory
from keras_bert.data.in_memory import as_list
from keras_bert.exporting.export import build_signatures, export
from keras_bert.exporting.stored_options import labels_of, stored_options
from keras_bert.heads.answers import classes
from keras_bert.heads.embedding import build_embedder
from keras_bert.heads.long_texts import check_long_texts
from keras_bert.heads.prompts import chosen_prompt
from keras_bert.heads.registry import answering, describe
from keras_bert.heads.zero_shot import ZeroShot, nli_classes
from keras_bert.imports import quiet_integers
from keras_bert.metadata import answer_length
from keras_bert.processor import warn_of_emulation
from keras_bert.progress import quiet_tensorflow
from keras_bert.tasks import registry
from keras_bert.text.long_texts import HEAD, READING, REFUSE
from keras_bert.text.token_counts import CutTexts

_NOT_OF_PREDICT = ("zero_shot", "prompts", "default_prompt_name")  # Options of `export` with arguments of their own.
_CUT = "Texts are cut at `sequence_length`"
# Names that other programs use, and what there is in their place.
_HINTS = {
    "stride": _CUT,
    "doc_stride": _CUT,
    "top_k": "`n_best` is the number of answers, or of tokens for a [MASK]; `scores` has all labels of a classifier",
}
_SET_BY_CALLS = {"_called": True, "_parent_path": None}  # Attributes of layers that their first call sets.


class Answerer:
    """Answers texts with a loaded model, by the signatures that `export` writes.

    The signatures are traced once for each set of options, so keep the `Answerer`.

    Args:
        bert: a `LoadedBert`, or what loads models of your own, see `register_models`: an object with the methods
            `model()` and `preprocessor(sequence_length, **options)`, a `config` with `max_position_embeddings`, and
            the fields of a `keras_bert.checkpoints.Metadata` as attributes. `describe` must know the model.

    Example:
        answerer = Answerer(keras_bert.load("runs/reviews/model"))
        answerer.predict(["A charming film.", "A dull film."], batch_size=2)
    """

    def __init__(self, bert):
        quiet_integers()
        self._bert = bert
        self._head = answering(bert.head)
        self._signatures = {}

    @quiet_tensorflow()
    def predict(self, texts, *, batch_size=32, n_best=None, sequence_length=None, reading=None, **options):
        """See `LoadedBert.predict`; `reading` is a dict of the options of `TextPreprocessor` that are given."""
        head = self._head
        rows, is_single = read_rows(self._asked(texts), head.takes_words)
        self._check_options(n_best, options)
        names = self._input_names(rows)
        is_pair = "pair" in names
        if is_pair and head.pair_signature != "serving_default":
            _refuse("masks", "pairs of texts", n_best=n_best, **options)
        if "prompts" in head.text_options:
            rows = self._with_prompt(rows)
        signatures = self._build(
            sequence_length,
            is_pair and head.takes_pair,
            reading=reading,
            **self._signature_options(n_best, options),
        )
        signature, inputs = self._signature_for(signatures, names)
        answers = answer_rows(
            with_model_options(head, self._bert),
            signature,
            inputs,
            rows,
            batch_size,
            n_best=n_best,
            cut=self._cut(reading, names),
        )
        return answers[0] if is_single else answers

    def _input_names(self, rows):
        """Returns the names of the inputs of all rows; raises for others than the model takes."""
        allowed = list(self._head.inputs(self._bert))
        if self._head.takes_words:
            allowed.append(WORDS)
        return check_rows(rows, allowed, f"the model (head={self._bert.head!r})")

    def _signature_options(self, n_best, given):
        """Returns the options of the signatures: those of the task and of the model, unless others are given."""
        options = {}
        if "rows_together" in self._options:
            options.update(_grouping())
        options.update(self._head.task_options(self._bert))
        options.update(self._head.defaults(self._bert, n_best))
        options.update(given)
        return options

    def _signature_for(self, signatures, names):
        """Returns the signature that takes inputs of these names, and the names of what it is called with."""
        if names == WORDS:  # Its input is the text of the words.
            return signatures["words"], ("words",)
        name = self._head.pair_signature if "pair" in names else "serving_default"
        _check_inputs(self._head, name, signatures[name], names)
        return signatures[name], names

    @quiet_tensorflow()
    def zero_shot(self, texts, candidate_labels, *, batch_size=32, sequence_length=None, reading=None, **settings):
        """See `LoadedBert.predict`; `settings` are arguments of `ZeroShot`."""
        known = [field.name for field in dataclasses.fields(ZeroShot)]
        unknown = ", ".join(settings.keys() - set(known))
        if unknown:
            raise ValueError(f"zero-shot classification has the options {', '.join(known)}. Received: {unknown}")
        rows, is_single = read_rows(texts)
        check_rows(rows, [("text",)], "zero-shot classification")
        zero_shot = ZeroShot(**settings)
        options = self._zero_shot_options(zero_shot)
        labels = _candidates(candidate_labels, zero_shot.multi_label, self._head)
        rows_with_labels = [row | {"labels": labels} for row in rows]
        signatures = self._build(sequence_length, self._head.takes_pair, reading=reading, **options)
        answers = answer_rows(
            classes,
            signatures["zero_shot"],
            ("text", "labels"),
            rows_with_labels,
            batch_size,
            cut=self._cut(reading),
        )
        return answers[0] if is_single else answers

    def _zero_shot_options(self, zero_shot):
        """Returns the options of the signature; raises for a model that is neither of vectors nor of NLI."""
        bert = self._bert
        options = _grouping()
        options["zero_shot"] = zero_shot
        if "prompts" in self._head.text_options:
            options["prompts"] = bert.prompts
            options["default_prompt_name"] = bert.default_prompt_name
            return options
        takes_pairs = self._head.takes_pair and bert.pair is not False and not bert.multi_label
        nli_classes(bert.labels if takes_pairs else None, zero_shot.multi_label, _described(bert))
        return options

    @quiet_tensorflow()
    def encode(self, texts, *, batch_size=32, sequence_length=None, reading=None, prompt=None, prompt_name=None):
        """See `LoadedBert.encode`."""
        rows, is_single = read_rows(texts)
        check_rows(rows, [("text",)], "`encode`")
        prompted = self._with_prompt(rows, prompt, prompt_name)
        signatures = self._build(
            sequence_length,
            vectors=not self._head.embeds,
            reading=reading,
            **_grouping(),
        )
        signature = signatures["serving_default"]
        outputs = signature.get_concrete_function().structured_outputs
        vectors = np.zeros([len(rows), outputs["embedding"].shape[-1]], "float32")
        cut = self._cut(reading)
        for numbers, _, found in outputs_of_rows(signature, ("text",), prompted, batch_size, cut):
            vectors[numbers] = found["embedding"]
        return vectors[0] if is_single else vectors

    def export(self, directory, *, sequence_length=None, reading=None, **options):
        """See `LoadedBert.export`."""
        bert = self._bert
        preprocessor = self._preprocessor(answer_length(bert, sequence_length), reading)
        all_options = stored_options(bert) | options
        export(bert.model(), preprocessor, directory, **all_options)

    def _asked(self, texts):
        """Returns texts as the head takes them, of those that the task of the model takes, or of known columns."""
        task = registry.task_of(self._bert)
        if task is not None and task.rows.convert is not None:
            return self._converted(task, texts)
        if "choices" in self._head.inputs(self._bert)[0]:
            known = multiple_choice.with_columns(texts, self._bert.columns)
        else:
            known = in_memory.with_known_columns(texts, self._bert.columns)
        if task is not None and self._head.takes_words:
            known = in_memory.with_words(known, task.rows.columns)
        return known

    def _converted(self, task, texts):
        """Returns what a task that reads rows of its own makes of texts."""
        settings = registry.stored_settings(task, self._bert)
        if in_memory.is_frame(texts):
            texts = in_memory.frame_dicts(texts)
        if isinstance(texts, str | tuple | dict) or not hasattr(texts, "__iter__"):
            return task.rows.asked("texts", texts, settings)
        asked = []
        for number, text in enumerate(as_list(texts)):
            asked.append(task.rows.asked(f"texts[{number}]", text, settings))
        return asked

    def _with_prompt(self, rows, prompt=None, prompt_name=None):
        """Returns the rows with the prompt before each text."""
        bert = self._bert
        before = chosen_prompt(bert.prompts, bert.default_prompt_name, prompt, prompt_name)
        if not before:
            return rows
        return [{"text": before + row["text"]} for row in rows]

    def _cut(self, reading, names=()):
        """Returns the `CutTexts` of a call."""
        long_texts = (reading or {}).get("long_texts", self._bert.long_texts)
        unit = "questions" if "question" in names else "texts"
        positions = self._bert.config.max_position_embeddings
        return CutTexts(unit, positions, refuses=long_texts == REFUSE)

    @property
    def _options(self):
        """The options of the model's head."""
        unused = set(_NOT_OF_PREDICT)
        if not self._bert.multi_label:
            unused.add("thresholds")
        return [name for name in self._head.text_options if name not in unused]

    def _check_options(self, n_best, options):
        """Raises for options that the model does not have."""
        if n_best is not None and not is_count(n_best):
            raise ValueError(f"`n_best` must be a positive integer or `None`. Received: n_best={n_best!r}")
        head = self._bert.head
        if "n_best" not in self._options:
            _refuse("answers to questions and for masks", f"a model with head={head!r}", n_best=n_best)
        for name in options:
            if name not in self._options:
                known = [*self._options, "sequence_length", *READING, "batch_size"]
                more = hint(name, known, _HINTS)
                raise ValueError(
                    f"`predict` has no option {name!r} for head={head!r}. {more} Received: {name}={options[name]!r}"
                )

    def _preprocessor(self, length, reading=None, vectors=False):
        """Returns the preprocessor of texts of at most `length` tokens, which reads longer ones as `reading` tells."""
        options = reading or {}
        if not vectors:
            check_long_texts(options.get("long_texts"), self._head)
        return self._bert.preprocessor(length, padding="longest", **options)

    def _preprocessor_of_calls(self, length, reading=None, vectors=False):
        """Returns `_preprocessor`, but one that never refuses a long text: `CutTexts` do, and tell which it is."""
        preprocessor = self._preprocessor(length, reading, vectors)
        if preprocessor.long_texts != REFUSE:
            return preprocessor
        cutting = dict(reading or {}, long_texts=HEAD)
        return self._preprocessor(length, cutting, vectors)

    def _build(self, sequence_length, pair=False, vectors=False, reading=None, **options):
        """Returns the signatures of the model, or with `vectors` those of an embedder on its encoder.

        They are built on first use and after any change but that of weights.
        """
        bert = self._bert
        length = answer_length(bert, sequence_length)
        own = [getattr(bert, name) for name in ("labels", "lowercase", *READING)]
        key = repr((vectors, length, reading, pair, own, sorted(options.items())))
        model = bert.encoder if vectors else bert.model()
        state = [bert.vocabulary, *_traced_objects(model)]
        if key in self._signatures:
            state_before, signatures = self._signatures[key]
            if _are_same_objects(state_before, state):
                return signatures
        if vectors:
            model = build_embedder(model)
        warn_of_emulation(model._flatten_layers())
        preprocessor = self._preprocessor_of_calls(length, reading, vectors)
        labels = labels_of(bert, describe(model))
        signatures = build_signatures(model, preprocessor, labels, pair, **options)
        self._signatures[key] = state, signatures
        return signatures


def _traced_objects(model):
    """Returns what a graph of a model is traced from: its layers, and their attributes, such as variables and policies.

    A graph reads the values of variables when it runs; all else is what it was when it was traced.
    """
    objects = []
    for layer in model._flatten_layers():
        objects.append(layer)
        if not isinstance(layer, keras.Model):  # The attributes of a model are those of its training.
            attributes = vars(layer) | _SET_BY_CALLS
            objects.extend(attributes.values())
    return objects


def _are_same_objects(before, now):
    """Whether two lists have the same objects."""
    if len(before) != len(now):
        return False
    return all(one is other for one, other in zip(before, now, strict=True))


def _check_inputs(head, name, signature, names):
    """Raises if `inputs` of a head tell others than those of its signature."""
    taken = [spec.name for spec in signature.input_signature]
    if set(taken) != set(names):
        raise ValueError(
            f"`inputs` of the head {head.name!r} must be those of its signature {name}: {', '.join(taken)}. "
            f"Received: {', '.join(names)}"
        )


def _refuse(purpose, received, **options):
    """Raises if an option is given."""
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"`{name}` is for {purpose}. Received: {name}={value} for {received}")


def _described(bert):
    """Returns what a model is, for the message that it does not fit."""
    text = f"a model with head={bert.head!r}"
    if answering(bert.head).takes_pair:
        text += f", labels={bert.labels!s:.200}, pair={bert.pair}"
        if bert.multi_label:
            text += ", multi_label=True"
    return text


def _candidates(labels, multi_label, head):
    """Returns the labels of zero-shot classification as a list of different strings."""
    names = []
    if isinstance(labels, list | tuple):
        names = list(labels)
    are_names = all(isinstance(name, str) and name for name in names)
    if not names or not are_names or len(set(names)) < len(names):
        raise ValueError(
            "`candidate_labels` must be a list of different strings, at least one and none empty. "
            f"Received: candidate_labels={labels!r:.200}"
        )
    if len(names) == 1 and not multi_label:
        exception = " without `multi_label=True`" if head.takes_pair else ""
        raise ValueError(
            f"`candidate_labels` must be at least 2 labels: a single one always has the probability 1{exception}. "
            f"Received: candidate_labels={labels!r:.200}"
        )
    return names


def _grouping():
    """Returns the option that computes a batch at once on GPU; on CPU, groups of 8 are up to twice as fast."""
    if tf.config.list_physical_devices("GPU"):
        return {"rows_together": None}
    return {}

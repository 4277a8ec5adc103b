"""Answers of a loaded model, by the signatures that `export` writes."""

import dataclasses
import inspect
import itertools
import logging
import operator
import sys

import keras
import numpy as np
import tensorflow as tf

from keras_bert.checks import check_count, hint, is_count
from keras_bert.data import choices as multiple_choice
from keras_bert.data import in_memory
from keras_bert.data.in_memory import as_list
from keras_bert.exporting.export import build_signatures, export
from keras_bert.exporting.stored_options import labels_of, stored_options
from keras_bert.heads.answers import classes, each_text
from keras_bert.heads.embedding import build_embedder
from keras_bert.heads.head import with_head_options
from keras_bert.heads.long_texts import check_long_texts
from keras_bert.heads.prompts import chosen_prompt
from keras_bert.heads.registry import answering, describe
from keras_bert.heads.zero_shot import ZeroShot, nli_classes
from keras_bert.imports import quiet_integers
from keras_bert.metadata import answer_length
from keras_bert.processor import warn_of_emulation
from keras_bert.progress import is_live, quiet_tensorflow, track
from keras_bert.tasks import registry
from keras_bert.text.long_texts import HEAD, READING, REFUSE
from keras_bert.text.token_counts import CutTexts

_LOG = logging.getLogger("keras_bert")
_NOT_OF_PREDICT = ("zero_shot", "prompts", "default_prompt_name")  # Options of `export` with arguments of their own.
_CUT = "Texts are cut at `sequence_length`"
# Names that other programs use, and what there is in their place.
_HINTS = {
    "stride": _CUT,
    "doc_stride": _CUT,
    "top_k": "`n_best` is the number of answers, or of tokens for a [MASK]; `scores` has all labels of a classifier",
}
_SET_BY_CALLS = {"_called": True, "_parent_path": None}  # Attributes of layers that their first call sets.
_WORDS = ("words", "text")
_ANSWERED = 3  # Parameters of `Head.answer` besides options.
_DESCRIPTIONS = {
    _WORDS: "a list of words",
    ("text",): "a text",
    ("text", "pair"): "a pair of texts as a tuple",
    ("question", "context"): "a dict with `question` and `context`",
    ("text", "choices"): "a dict with `text` and `choices`, a list of at least 2",
}


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
        self._bert, self._signatures, self._head = bert, {}, answering(bert.head)

    @quiet_tensorflow()
    def predict(self, texts, *, batch_size=32, n_best=None, sequence_length=None, reading=None, **options):
        """See `LoadedBert.predict`; `reading` is a dict of the options of `TextPreprocessor` that are given."""
        bert, head = self._bert, self._head
        rows, is_single = read_rows(self._asked(texts), head.takes_words)
        self._check_options(n_best, options)
        allowed = [*head.inputs(bert), *([_WORDS] if head.takes_words else [])]
        names = check_rows(rows, allowed, f"the model (head={bert.head!r})")
        pair, name = "pair" in names, "serving_default"
        if names == _WORDS:
            name, names = "words", ("words",)
        elif pair and head.pair_signature != name:
            name = head.pair_signature
            _refuse("masks", "pairs of texts", n_best=n_best, **options)
        grouping = _grouping() if "rows_together" in self._options else {}
        options = {**grouping, **head.task_options(bert), **head.defaults(bert, n_best), **options}
        rows = self._with_prompt(rows) if "prompts" in head.text_options else rows
        signatures = self._build(sequence_length, pair and head.takes_pair, reading=reading, **options)
        if name != "words":  # Its input is the text of the words.
            _check_inputs(head, name, signatures[name], names)
        answer = with_model_options(head, bert)
        answers = answer_rows(answer, signatures[name], names, rows, batch_size, n_best, self._cut(reading, names))
        return answers[0] if is_single else answers

    @quiet_tensorflow()
    def zero_shot(self, texts, candidate_labels, *, batch_size=32, sequence_length=None, reading=None, **settings):
        """See `LoadedBert.predict`; `settings` are arguments of `ZeroShot`."""
        known = [field.name for field in dataclasses.fields(ZeroShot)]
        if unknown := ", ".join(settings.keys() - set(known)):
            raise ValueError(f"zero-shot classification has the options {', '.join(known)}. Received: {unknown}")
        rows, is_single = read_rows(texts)
        check_rows(rows, [("text",)], "zero-shot classification")
        bert, zero_shot = self._bert, ZeroShot(**settings)
        options = {**_grouping(), "zero_shot": zero_shot}
        if "prompts" in self._head.text_options:
            options |= {"prompts": bert.prompts, "default_prompt_name": bert.default_prompt_name}
        else:
            takes_pairs = self._head.takes_pair and bert.pair is not False and not bert.multi_label
            nli_classes(bert.labels if takes_pairs else None, zero_shot.multi_label, _described(bert))
        labels = _candidates(candidate_labels, zero_shot.multi_label, self._head)
        rows = [{**row, "labels": labels} for row in rows]
        signatures = self._build(sequence_length, self._head.takes_pair, reading=reading, **options)
        signature = signatures["zero_shot"]
        answers = answer_rows(classes, signature, ("text", "labels"), rows, batch_size, cut=self._cut(reading))
        return answers[0] if is_single else answers

    @quiet_tensorflow()
    def encode(self, texts, *, batch_size=32, sequence_length=None, reading=None, prompt=None, prompt_name=None):
        """See `LoadedBert.encode`."""
        rows, is_single = read_rows(texts)
        check_rows(rows, [("text",)], "`encode`")
        rows = self._with_prompt(rows, prompt, prompt_name)
        options = {"vectors": not self._head.embeds, "reading": reading, **_grouping()}
        signature = self._build(sequence_length, **options)["serving_default"]
        outputs = signature.get_concrete_function().structured_outputs
        vectors = np.zeros([len(rows), outputs["embedding"].shape[-1]], "float32")
        for numbers, _, found in _outputs(signature, ("text",), rows, batch_size, self._cut(reading)):
            vectors[numbers] = found["embedding"]
        return vectors[0] if is_single else vectors

    def export(self, directory, *, sequence_length=None, reading=None, **options):
        """See `LoadedBert.export`."""
        bert = self._bert
        preprocessor = self._preprocessor(answer_length(bert, sequence_length), reading)
        export(bert.model(), preprocessor, directory, **{**stored_options(bert), **options})

    def _asked(self, texts):
        """Returns texts as the head takes them, of those that the task of the model takes, or of known columns."""
        task = registry.task_of(self._bert)
        if task is None or task.rows.convert is None:
            has_choices = "choices" in self._head.inputs(self._bert)[0]
            reader = multiple_choice.with_columns if has_choices else in_memory.with_known_columns
            texts = reader(texts, self._bert.columns)
            return in_memory.with_words(texts, task.rows.columns) if task and self._head.takes_words else texts
        settings = registry.stored_settings(task, self._bert)
        if in_memory.is_frame(texts):
            texts = in_memory.frame_dicts(texts)
        if isinstance(texts, str | tuple | dict) or not hasattr(texts, "__iter__"):
            return task.rows.asked("texts", texts, settings)
        return [task.rows.asked(f"texts[{number}]", text, settings) for number, text in enumerate(as_list(texts))]

    def _with_prompt(self, rows, prompt=None, prompt_name=None):
        """Returns the rows with the prompt before each text."""
        before = chosen_prompt(self._bert.prompts, self._bert.default_prompt_name, prompt, prompt_name)
        return [{"text": before + row["text"]} for row in rows] if before else rows

    def _cut(self, reading, names=()):
        """Returns the `CutTexts` of a call."""
        long_texts = (reading or {}).get("long_texts", self._bert.long_texts)
        unit = "questions" if "question" in names else "texts"
        return CutTexts(unit, self._bert.config.max_position_embeddings, refuses=long_texts == REFUSE)

    @property
    def _options(self):
        """The options of the model's head."""
        unused = {*_NOT_OF_PREDICT, *(() if self._bert.multi_label else ("thresholds",))}
        return [name for name in self._head.text_options if name not in unused]

    def _check_options(self, n_best, options):
        if n_best is not None and not is_count(n_best):
            raise ValueError(f"`n_best` must be a positive integer or `None`. Received: n_best={n_best!r}")
        head = self._bert.head
        if "top" not in self._options:
            _refuse("answers to questions and for masks", f"a model with head={head!r}", n_best=n_best)
        for name in options:
            if name not in self._options:
                more = hint(name, [*self._options, "sequence_length", *READING, "batch_size"], _HINTS)
                raise ValueError(
                    f"`predict` has no option {name!r} for head={head!r}. {more} Received: {name}={options[name]!r}"
                )

    def _preprocessor(self, length, reading=None, vectors=False):
        """Returns the preprocessor of texts of at most `length` tokens, which reads longer ones as `reading` tells."""
        reading = reading or {}
        if not vectors:
            check_long_texts(reading.get("long_texts"), self._head)
        return self._bert.preprocessor(length, padding="longest", **reading)

    def _build(self, sequence_length, pair=False, vectors=False, reading=None, **options):
        """Returns the signatures of the model, or with `vectors` those of an embedder on its encoder.

        They are built on first use and after any change but that of weights.
        """
        bert = self._bert
        length = answer_length(bert, sequence_length)
        own = [getattr(bert, name) for name in ("labels", "lowercase", *READING)]
        key = repr((vectors, length, reading, pair, own, sorted(options.items())))
        model = bert.encoder if vectors else bert.model()
        state = [bert.vocabulary, *_parts(model)]
        before, signatures = self._signatures.get(key, ((), None))
        if len(before) != len(state) or not all(map(operator.is_, before, state)):
            model = build_embedder(model) if vectors else model
            warn_of_emulation(model._flatten_layers())
            preprocessor = self._preprocessor(length, reading, vectors)
            if preprocessor.long_texts == REFUSE:  # `CutTexts` tell which text is too long.
                preprocessor = self._preprocessor(length, {"long_texts": HEAD}, vectors)
            signatures = build_signatures(model, preprocessor, labels_of(bert, describe(model)), pair, **options)
            self._signatures[key] = state, signatures
        return signatures


def _parts(model):
    """Returns what a graph of a model is traced from: its layers, and their attributes, such as variables and policies.

    A graph reads the values of variables when it runs; all else is what it was when it was traced.
    """
    parts = []
    for layer in model._flatten_layers():  # Of a model, the attributes are those of its training.
        parts += [layer] if isinstance(layer, keras.Model) else [layer, *{**vars(layer), **_SET_BY_CALLS}.values()]
    return parts


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
    if name := next((name for name, value in options.items() if value is not None), None):
        raise ValueError(f"`{name}` is for {purpose}. Received: {name}={options[name]} for {received}")


def with_model_options(head, bert):
    """Returns the `answer` of a head with the options of the model that it names."""
    if len(inspect.signature(head.answer).parameters) <= _ANSWERED:
        return head.answer
    return with_head_options(head.answer, describe(bert.model()).options, _ANSWERED)


def _described(bert):
    """Returns what a model is, for the message that it does not fit."""
    several = ", multi_label=True" if bert.multi_label else ""
    labels = f", labels={bert.labels!s:.200}, pair={bert.pair}{several}" if answering(bert.head).takes_pair else ""
    return f"a model with head={bert.head!r}{labels}"


def _candidates(labels, multi_label, head):
    """Returns the labels of zero-shot classification as a list of different strings."""
    names = list(labels) if isinstance(labels, list | tuple) else []
    if not names or not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
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


def answer_rows(answer, signature, names, rows, batch_size, n_best=None, cut=None):
    """Returns the answers of a signature to rows, see `_outputs`; `answer` is that of a `Head`."""
    answers = [None] * len(rows)
    for numbers, part, outputs in _outputs(signature, names, rows, batch_size, cut):
        found = each_text(answer, outputs, part, n_best)
        for number, each in zip(numbers, found, strict=True):
            answers[number] = each
    return answers


def _outputs(signature, names, rows, batch_size, cut=None):
    """Yields the numbers and the rows of batches, and the outputs of a signature; tells at the end what was cut.

    `cut` are the `CutTexts` that count them.
    """
    if cut is None:
        cut = CutTexts()
    for numbers, part in _batches(rows, batch_size):
        outputs = _call(signature, names, part)
        cut.add(outputs, numbers)
        yield numbers, part, outputs
    cut.tell()


def read_rows(texts, words=False):
    """Reads texts, with `words` also lists of words: a list of dicts, and whether there was a single text."""
    is_single = isinstance(texts, str | tuple | dict)
    if isinstance(texts, bytes) or not (is_single or hasattr(texts, "__iter__")) or getattr(texts, "shape", 0) == ():
        raise ValueError(f"`texts` must be a text or a list of texts, pairs or dicts. Received: texts={texts!r}")
    if is_single:
        return _warned([_row("texts", _words(texts) if words else texts)]), True
    # Iterating gives names or tensors, or arrays in place of pairs.
    if in_memory.is_frame(texts) or hasattr(texts, "as_numpy_iterator") or getattr(texts, "ndim", 1) == 2:
        texts, targets = in_memory.read(texts)
        if targets is not None:
            raise ValueError(
                "`texts` is a dataset with targets. Expected texts alone, such as dataset.map(lambda x, y: x)"
            )
    texts = [text.decode() if isinstance(text, bytes) else text for text in as_list(texts)]
    texts = map(_words, texts) if words else texts
    return _warned([_row(f"texts[{index}]", text) for index, text in enumerate(texts)]), False


def _warned(rows):
    """Returns the rows; warns of empty texts."""

    def is_empty(row):
        return any(isinstance(text, str) and not text.strip() for text in row.values())

    if empty := [number for number, row in enumerate(rows) if is_empty(row)]:
        _LOG.warning("`texts`: %d of %d are empty, the first at index %d", len(empty), len(rows), empty[0])
    return rows


def _words(text):
    """Returns a list of words as the signature `words` takes them, a tab for a space within a word, and as a text."""
    found = text["text"] if isinstance(text, dict) and text.keys() == {"text"} else text
    if not isinstance(found, list) or not all(isinstance(word, str) for word in found):
        return text
    return {"words": " ".join(word.replace(" ", "\t") for word in found), "text": " ".join(found)}


def _row(place, value):
    """Returns a text, a pair or a dict as a dict of strings."""
    row = {"text": value} if isinstance(value, str) else value
    if isinstance(value, tuple) and len(value) == 2:
        row = {"text": value[0], "pair": value[1]}
    if isinstance(row, dict) and all(map(_is_text, row.items())):
        return row
    raise ValueError(
        f"`{place}` must be a string, a tuple of two strings, or a dict of strings whose `choices`, if any, are a "
        f"list of at least 2. Received: {value!r:.200}"
    )


def _is_text(item):
    name, value = item
    if name == "choices":
        return isinstance(value, list) and len(value) > 1 and all(isinstance(choice, str) for choice in value)
    return isinstance(value, str)


def check_rows(rows, allowed, taker):
    """Returns the names of the inputs, which must be allowed and the same for all rows."""
    names = next((names for names in allowed if rows and rows[0].keys() == set(names)), allowed[0])
    for number, row in enumerate(rows):
        if row.keys() != set(names):
            expected = " or ".join(_DESCRIPTIONS.get(names, f"a dict with {', '.join(names)}") for names in allowed)
            mixed = ", the same for all of `texts`" if tuple(row) in allowed else ""
            given = {**_DESCRIPTIONS, ("text",): "only a text"}
            found = given.get(tuple(row), f"a dict with {', '.join(map(repr, row)) or 'no keys'}")
            raise ValueError(f"`texts`: {taker} takes {expected}{mixed}. Received: {found} at index {number}")
    return names


def _batches(rows, batch_size):
    """Yields row numbers and rows of batches of similar length, longest first, with the same number of choices."""
    check_count("batch_size", batch_size)
    sizes = [(len(row.get("choices", ())), sum(map(len, row.values()))) for row in rows]
    order = sorted(range(len(rows)), key=sizes.__getitem__, reverse=True)
    batches = []
    for _, group in itertools.groupby(order, key=lambda number: sizes[number][0]):
        while numbers := list(itertools.islice(group, batch_size)):
            batches.append((numbers, [rows[number] for number in numbers]))
    yield from track(batches, "predicting, batches", show=len(batches) > 1 and is_live(sys.stderr))


def _grouping():
    """Returns the option that computes a batch at once on GPU; on CPU, groups of 8 are up to twice as fast."""
    return {"rows_together": None} if tf.config.list_physical_devices("GPU") else {}


def _call(signature, names, rows):
    """Returns the outputs of a signature as NumPy arrays."""
    inputs = [tf.constant(_encoded([row[name] for row in rows]), tf.string) for name in names]
    return {name: value.numpy() for name, value in signature(*inputs).items()}


def _encoded(value):
    """Encodes nested lists of strings, which may contain surrogates, as the preprocessor does."""
    return [_encoded(part) for part in value] if isinstance(value, list) else value.encode(errors="surrogatepass")

"""The signature `explain`: how much each word of a text contributes to a logit, by leaving it out.

Ids are replaced in the sequences that the model reads, never words in a text that would be split again; [CLS] and [SEP]
stay. All pieces of a word are replaced together.
"""

from typing import NamedTuple

import tensorflow as tf

from keras_bert.heads.class_settings import placeholders
from keras_bert.heads.head import TOKEN_INPUTS
from keras_bert.text import token_counts, words
from keras_bert.text.graph_checks import require
from keras_bert.text.joins import EvidenceOfLogits, MeanOfLogits
from keras_bert.text.long_texts import REFUSE
from keras_bert.text.signatures import in_groups, not_empty, readable, text_with_lists, texts
from keras_bert.text.viewed_texts import ViewedTexts
from keras_bert.text.views import SlidingWindows
from keras_bert.text.word_effects import LeaveOneOut, Subject, words_of_texts

MASK = "[MASK]"
PREDICTED = -1  # The number of the target that stands for what the model predicts.
TEXTS, TOKENS, CHOICES = "texts", "tokens", "choices"  # What the logits of a model are of.
_READ = TOKEN_INPUTS[:3]
_ROWS = 8  # Texts to compute at once for what is predicted.


class Target(NamedTuple):
    """What is explained, for each text. A number is `PREDICTED` where there is none."""

    number: tf.Tensor  # (texts,): of the class, or of the choice; 0 of a score.
    word: tf.Tensor  # (texts,): of the word that has the logit, for models with logits of tokens.


def form_of(model, head):
    """Returns what the logits of a model are of; raises for a model without logits that words can explain."""
    output = model.output.get(head.classes) if isinstance(model.output, dict) else None
    if output is None or isinstance(output, list):
        raise ValueError(
            "`explain` needs logits of classes, labels, tags or choices, or a number, for each text, as a model from "
            f"`fit` has: the output {head.classes!r}, see `classes` of keras_bert.Head. Received: a model with "
            f"head={head.name!r}, which has the outputs {', '.join(model.output)}"
        )
    if set(model.input) != set(_READ):
        raise ValueError(
            f"`explain` needs a model with the inputs {', '.join(_READ)}. Received: a model with head={head.name!r} "
            f"and the inputs {', '.join(model.input)}"
        )
    if len(model.input["token_ids"].shape) == 3:
        return CHOICES
    return TOKENS if output.shape[1] is None else TEXTS


def join_of(head, description, preprocessor):
    """Returns how the logits of the windows of a text are joined, see `text.joins`."""
    decides = preprocessor.reads_windows and head.deciding_output(description) == head.classes
    return EvidenceOfLogits() if decides else MeanOfLogits()


def explainer(model, head, description, preprocessor, labels, pair, replacement=MASK, stride=None):
    """Returns the signature `explain` by leaving out each word, for the inputs of `serving_default`.

    `stride` is that of the signatures of a head with logits of tokens.

    Its outputs: `words`, their byte offsets `starts` and `ends`, the `inputs` that they are in, "text", "pair" or
    "choice", and their `scores`, padded; `word_count`, the `target`, its logit `value`, the `baseline`, their
    `difference`, and `delta`, what the scores miss of it.
    """
    join = join_of(head, description, preprocessor)
    effects = LeaveOneOut(model, head.classes, replacement_id(preprocessor, replacement), join)
    explanation = WordScores(model, head, preprocessor, labels, effects, join, stride)

    def answer(inputs):
        predicted = tf.fill([tf.size(inputs["text"])], PREDICTED)
        return explanation.named(explanation(inputs, Target(predicted, predicted)))

    if explanation.form == CHOICES:

        def answer_choices(text, choices):
            return answer({"text": text, "choices": not_empty(choices, "choices")})

        return text_with_lists(answer_choices, "choices")
    return texts(answer, *(("text", "pair") if pair else ("text",)))


def replacement_id(preprocessor, replacement):
    """Returns the id of the token that replaces words."""
    if not isinstance(replacement, str) or replacement not in preprocessor.vocabulary:
        raise ValueError(
            "`replacement` must be a token of the vocabulary, such as '[MASK]' or '[PAD]'. "
            f"Received: replacement={replacement!r:.100}"
        )
    return preprocessor.vocabulary.id(replacement)


class WordScores:
    """Scores of words, for all kinds of logits, by any method.

    Args:
        model: a model from a builder.
        head: its `Head`.
        preprocessor: a `TextPreprocessor`, with padding to the longest sequence.
        labels: list of names, or `None`.
        effects: function from a `Subject` to its `Effects`.
        join: how the logits of windows are joined, see `text.joins`.
        stride: int, how far apart the windows of logits of tokens start. Defaults to half a window.

    Attributes:
        form: what the logits of the model are of: `TEXTS`, `TOKENS` or `CHOICES`.
        width: int, the number of logits, `None` for one of each choice or token.
        labels: list of the names of the logits, or `None`.
        has_targets: bool, whether there are several logits, or a name.
        tokenizer: the tokenizer of the preprocessor.

    Call arguments:
        inputs: dict of strings `(texts,)`: `text`, and `pair`; or `choices` `(texts, choices)`; or `words` in place of
            `text`, separated by single spaces.
        target: a `Target`.

    Returns:
        dict of tensors, see `explainer`; the `target` is a number, and `word` that of the word that has the logit,
        among the `words`.
    """

    def __init__(self, model, head, preprocessor, labels, effects, join, stride=None):
        self.form = form_of(model, head)
        self._windows = SlidingWindows(stride=stride)
        self._model, self._head, self._preprocessor, self._effects = model, head, preprocessor, effects
        self._join = join
        self.tokenizer = preprocessor.tokenizer
        output = model.output[head.classes]
        one_axis = 2 if self.form == TOKENS else 1
        self.width = output.shape[-1] if len(output.shape) > one_axis else None
        if labels is None and self.width is not None and self.width > 1:
            labels = placeholders(self.width)
        has_names = labels is not None and len(labels) == self.width  # A head's logits may be others than its classes.
        self.labels = list(labels) if has_names else None
        self.has_targets = self.form == CHOICES or has_names or (self.width or 1) > 1

    def __call__(self, inputs, target):
        read = {TEXTS: self._texts, TOKENS: self._tokens, CHOICES: self._choices}[self.form]
        subject, target, table, counts = read(inputs, target)
        outputs = _assembled(table, self._effects(subject), tf.size(target.number))
        if self.form == TOKENS:
            outputs["word"] = _place_among(table, outputs.pop("numbers"), target.word)
        else:
            outputs.pop("numbers")
        outputs = {name: table_to_dense(value) for name, value in outputs.items()}
        return token_counts.with_counts({**outputs, "target": target.number}, counts)

    def named(self, outputs):
        """Returns outputs with the name of the target, where it has one; a score has no target."""
        outputs = dict(outputs)
        number = outputs.pop("target")
        if self.labels is not None:
            names = tf.constant(self.labels)
            outputs["target"] = tf.where(number < 0, "", tf.gather(names, tf.maximum(number, 0)))
        elif self.has_targets:
            outputs["target"] = number
        return outputs

    def _run(self, inputs):
        return tf.cast(self._model(inputs, training=False)[self._head.classes], tf.float32)

    # What the logits are of: one method each.

    def _texts(self, inputs, target):
        """Reads texts or pairs, in one sequence or in windows, for logits of whole texts."""
        first = words.words_of(self._preprocessor.tokenizer, inputs["text"])
        second = None
        if "pair" in inputs:
            second = words.words_of(self._preprocessor.tokenizer, inputs["pair"])
        sequences, number, row, counts = self._sequences(inputs, first, second)
        logits = in_groups(self._run, sequences, [self.width], _ROWS)
        predicted = tf.argmax(self._join.joined(logits, row), -1, tf.int32)
        chosen = tf.where(target.number == PREDICTED, predicted, target.number)
        subject = Subject(sequences, number, row, tf.gather(chosen, row)[:, None])
        table = _table(inputs["text"], first, inputs.get("pair"), second, "pair")
        return subject, Target(chosen, target.word), table, counts

    def _sequences(self, inputs, first, second):
        """Returns model inputs, the numbers of their words, the text of each sequence, and the numbers of tokens."""
        preprocessor = self._preprocessor
        if preprocessor.reads_windows:
            viewed = preprocessor.windows(inputs)
            return viewed.packed(), words.of_views(preprocessor, viewed, first, second), viewed.views.row, _of(viewed)
        sequences, number = words.packed(preprocessor, first, second)
        counts = _counts(preprocessor, first, second)
        return sequences, number, tf.range(tf.size(inputs["text"])), counts

    def _choices(self, inputs, target):
        """Reads texts with choices, each with every choice in one sequence, or in windows of the text."""
        tokenizer = self._preprocessor.tokenizer
        text = words.words_of(tokenizer, inputs["text"])
        choices = words.words_of(tokenizer, tf.reshape(inputs["choices"], [-1]))
        read = self._choices_in_windows if self._preprocessor.reads_windows else self._whole_choices
        subject, chosen, counts = read(inputs, text, choices, target)
        choice = words.of_chosen(choices, chosen)
        string = tf.gather(inputs["choices"], chosen, batch_dims=1)
        return subject, Target(chosen, target.word), _table(inputs["text"], text, string, choice, "choice"), counts

    def _whole_choices(self, inputs, text, choices, target):
        """Returns the `Subject`, the number of the choice to explain, and the numbers of tokens."""
        first = tf.zeros([tf.size(inputs["text"])], tf.int32)
        sequences, _ = words.packed_choices(self._preprocessor, text, choices, first)
        predicted = tf.argmax(self._run(sequences), -1, tf.int32)
        chosen = tf.where(target.number == PREDICTED, predicted, target.number)
        sequences, number = words.packed_choices(self._preprocessor, text, choices, chosen)
        counts = _counts(self._preprocessor, text, words.of_chosen(choices, chosen))
        return Subject(sequences, number, tf.range(tf.size(chosen)), chosen[:, None]), chosen, counts

    def _choices_in_windows(self, inputs, text, choices, target):
        """Returns the same for texts in windows."""
        viewed = self._preprocessor.windows_with_choices(inputs["text"], inputs["choices"])
        row = viewed.views.row
        logits = tf.cast(viewed.outputs(self._model)[self._head.classes], tf.float32)
        predicted = tf.argmax(self._join.joined(logits, row), -1, tf.int32)
        chosen = tf.where(target.number == PREDICTED, predicted, target.number)
        number = words.of_choice_views(viewed, text, choices, chosen)
        return Subject(viewed.packed(), number, row, tf.gather(chosen, row)[:, None]), chosen, _of(viewed)

    def _tokens(self, inputs, target):
        """Reads texts of any length, for the logit of one of their words, in the window with most of its context."""
        tokenizer = self._preprocessor.tokenizer
        text = inputs["words"] if "words" in inputs else inputs["text"]
        found = words.given_words(tokenizer, text) if "words" in inputs else words.words_of(tokenizer, text)
        viewed = ViewedTexts(self._preprocessor, self._windows, found.tokens)
        logits = tf.cast(viewed.outputs(self._model)[self._head.classes], tf.float32)
        candidates = _candidates(viewed, found, logits)
        outside = self.labels.index("O") if self.labels and "O" in self.labels else -1
        best = _chosen_word(candidates, target, outside)
        chosen = candidates.chosen(best, [-1, -1, -1, 0, 0.0])
        first_view = tf.math.segment_min(tf.range(tf.size(viewed.views.row)), viewed.views.row)
        view = tf.where(best < 0, first_view, chosen.view)
        place = [chosen.position]
        number = tf.zeros_like(best)
        if self.width:
            number = tf.where(target.number == PREDICTED, tf.argmax(chosen.logits, -1, tf.int32), target.number)
            place.append(number)
        sequences = {name: tf.gather(ids, view) for name, ids in viewed.packed().items()}
        numbers = tf.gather(words.of_views(self._preprocessor, viewed, found), view)
        subject = Subject(sequences, numbers, tf.range(tf.size(view)), tf.stack(place, 1))
        counts = self._preprocessor.packing.token_counts(found.tokens)
        counts[token_counts.READ] = (
            subject.lengths()
        )  # Those of the window; what it does not have has no part in the logit.
        return subject, Target(tf.where(best < 0, -1, number), chosen.number), _table(text, found), counts


def _of(viewed):
    counts = viewed.token_counts()
    return {name: counts[name] for name in (token_counts.TOKENS, token_counts.READ, token_counts.COUNT)}


def _counts(preprocessor, first, second=None):
    """Returns the numbers of tokens; raises for a text that is too long for a model that does not cut texts."""
    counts = preprocessor.packing.token_counts(first.tokens, None if second is None else second.tokens)
    if preprocessor.long_texts == REFUSE:
        tokens, read = counts[token_counts.TOKENS], counts[token_counts.READ]
        counts[token_counts.READ] = require(tokens == read, token_counts.TOO_LONG, tokens=tokens)
    return counts


class _Candidates(NamedTuple):
    """The words that have tokens, and so logits, of all texts in order. All fields have a row for each word."""

    row: tf.Tensor  # The text.
    number: tf.Tensor
    view: tf.Tensor  # The window in which the first token of the word has most context, and its position there.
    position: tf.Tensor
    logits: tf.Tensor  # Of this token, `(words,)` or `(words, classes)`.

    def chosen(self, best, nothing):
        """Returns the candidates at some places, for each text; `nothing` has the values for the place -1."""
        parts = []
        for values, value in zip(self, nothing, strict=True):
            padded = tf.concat([values, tf.fill(tf.concat([[1], tf.shape(values)[1:]], 0), value)], 0)
            parts.append(tf.gather(padded, tf.where(best < 0, tf.size(self.row), best)))
        return _Candidates(*parts)


def _candidates(viewed, found, logits):
    """Returns the `_Candidates` of `Words`, given the logits of all tokens of `ViewedTexts`."""
    views, positions = tf.unstack(tf.shape(logits)[:2])
    grid = tf.reshape(tf.range(views * positions), [views, positions])
    row = tf.cast(found.tokens.value_rowids(), tf.int32)
    number = found.number.values
    is_new = (row[1:] != row[:-1]) | (number[1:] != number[:-1])
    is_first = tf.concat([tf.ones_like(row[:1], tf.bool), is_new], 0)
    places = tf.boolean_mask(viewed.of_tokens(grid), is_first)
    return _Candidates(
        row=tf.boolean_mask(row, is_first),
        number=tf.boolean_mask(number, is_first),
        view=places // positions,
        position=places % positions,
        logits=tf.boolean_mask(viewed.of_tokens(logits), is_first),
    )


def _chosen_word(candidates, target, outside):
    """Returns for each text the word to explain, a place among the candidates, -1 for none.

    Without a word as target, it is the first one whose class is not `outside`, or else the first one; of logits without
    classes, that with the highest one.
    """
    preference = candidates.logits
    if preference.shape.rank > 1:
        preference = tf.cast(tf.argmax(preference, -1, tf.int32) != outside, tf.float32)
    is_wanted = tf.gather(target.word, candidates.row) == candidates.number
    preference = tf.where(is_wanted, float("inf"), preference)
    rows, count = tf.size(target.word), tf.size(candidates.row)
    most = tf.math.unsorted_segment_max(preference, candidates.row, rows)
    index = tf.where(preference == tf.gather(most, candidates.row), tf.range(count), count)
    best = tf.math.unsorted_segment_min(index, candidates.row, rows)
    return tf.where(best < count, best, -1)  # Without a word, the minimum is the largest integer.


# From words and effects to outputs.


class _Table(NamedTuple):
    """All words of the texts of each row, ragged `(rows, words)`: their strings, byte offsets and inputs."""

    strings: tf.RaggedTensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor
    inputs: tf.RaggedTensor


def _table(text, first, other=None, second=None, name=""):
    starts, ends = first.starts, first.ends
    strings = _slices(text, first)
    inputs = starts.with_values(tf.fill([tf.size(starts.values)], "text"))
    if second is not None:
        starts, ends = tf.concat([starts, second.starts], 1), tf.concat([ends, second.ends], 1)
        strings = tf.concat([strings, _slices(other, second)], 1)
        inputs = tf.concat([inputs, second.starts.with_values(tf.fill([tf.size(second.starts.values)], name))], 1)
    return _Table(strings, starts, ends, inputs)


def _slices(text, found):
    starts, ends = found.starts, found.ends
    parts = tf.strings.substr(tf.gather(text, starts.value_rowids()), starts.values, ends.values - starts.values)
    return starts.with_values(readable(parts))


def _assembled(table, effects, rows):
    """Returns the outputs of `rows` texts, ragged where there are several of each, of the words that are read."""
    row, number, place = words_of_texts(effects.row, effects.number)
    scores = tf.math.unsorted_segment_sum(effects.score, place, tf.size(row))
    nrows = tf.cast(rows, tf.int64)

    def ragged(values):
        return tf.RaggedTensor.from_value_rowids(values, tf.cast(row, tf.int64), nrows)

    places = tf.cast(tf.gather(table.starts.row_starts(), row), tf.int32) + number
    value, baseline = effects.value, effects.baseline
    scores = ragged(scores)
    return {
        "words": ragged(tf.gather(table.strings.values, places)),
        "starts": ragged(tf.gather(table.starts.values, places)),
        "ends": ragged(tf.gather(table.ends.values, places)),
        "inputs": ragged(tf.gather(table.inputs.values, places)),
        "scores": scores,
        "word_count": tf.cast(scores.row_lengths(), tf.int32),
        "value": value,
        "baseline": baseline,
        "difference": value - baseline,
        "delta": value - baseline - tf.reduce_sum(scores, 1),
        "numbers": ragged(number),
    }


def table_to_dense(value):
    """Returns an output, padded: strings with "", offsets with -1, scores with 0."""
    if not isinstance(value, tf.RaggedTensor):
        return value
    padding = {tf.string: "", tf.int32: -1}.get(value.dtype, 0)
    return value.to_tensor(padding)


def _place_among(table, numbers, word):
    """Returns the place of a word among those that were read, `(texts,)`, -1 for none."""
    is_word = numbers.with_values(numbers.values == tf.gather(word, numbers.value_rowids()))
    places = tf.where(is_word.to_tensor(False), tf.range(tf.reduce_max(tf.pad(numbers.row_lengths(), [[0, 1]]))), -1)
    return tf.reduce_max(tf.pad(tf.cast(places, tf.int32), [[0, 0], [0, 1]], constant_values=-1), 1)

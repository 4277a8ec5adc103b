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
# What the logits of a model are of.
TEXTS = "texts"
TOKENS = "tokens"
CHOICES = "choices"
_READ = TOKEN_INPUTS[:3]
_ROWS = 8  # Texts to compute at once for what is predicted.


class Target(NamedTuple):
    """What is explained, for each text. A number is `PREDICTED` where there is none."""

    number: tf.Tensor  # (texts,): of the class, or of the choice; 0 of a score.
    word: tf.Tensor  # (texts,): of the word that has the logit, for models with logits of tokens.

    def number_or(self, predicted):
        """Returns the numbers, and those that are predicted where there is none."""
        return tf.where(self.number == PREDICTED, predicted, self.number)


class ReadTexts(NamedTuple):
    """Texts as the model reads them, and the words that may explain a logit."""

    subject: Subject
    target: Target  # Without `PREDICTED`.
    table: "WordTable"
    counts: dict  # The numbers of tokens.


def form_of(model, head):
    """Returns what the logits of a model are of; raises for a model without logits that words can explain."""
    output = None
    if isinstance(model.output, dict):
        output = model.output.get(head.classes)
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
    if preprocessor.reads_windows and head.deciding_output(description) == head.classes:
        return EvidenceOfLogits()
    return MeanOfLogits()


def explainer(model, head, description, preprocessor, labels, pair, replacement=MASK, doc_stride=None):
    """Returns the signature `explain` by leaving out each word, for the inputs of `serving_default`.

    `doc_stride` is that of the signatures of a head with logits of tokens.

    Its outputs: `words`, their byte offsets `starts` and `ends`, the `inputs` that they are in, "text", "pair" or
    "choice", and their `scores`, padded; `word_count`, the `target`, its logit `value`, the `baseline`, their
    `difference`, and `delta`, what the scores miss of it.
    """
    join = join_of(head, description, preprocessor)
    effects = LeaveOneOut(model, head.classes, replacement_id(preprocessor, replacement), join)
    explanation = WordScores(model, head, preprocessor, labels, effects, join, doc_stride)

    def answer(inputs):
        predicted = tf.fill([tf.size(inputs["text"])], PREDICTED)
        return explanation.named(explanation(inputs, Target(predicted, predicted)))

    if explanation.form == CHOICES:

        def answer_choices(text, choices):
            return answer({"text": text, "choices": not_empty(choices, "choices")})

        return text_with_lists(answer_choices, "choices")
    names = ("text", "pair") if pair else ("text",)
    return texts(answer, *names)


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
        doc_stride: int, how far apart the windows of logits of tokens start. Defaults to half a window.

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

    def __init__(self, model, head, preprocessor, labels, effects, join, doc_stride=None):
        self.form = form_of(model, head)
        self.tokenizer = preprocessor.tokenizer
        self._windows = SlidingWindows(doc_stride=doc_stride)
        self._model = model
        self._head = head
        self._preprocessor = preprocessor
        self._effects = effects
        self._join = join
        output = model.output[head.classes]
        axes_of_one_logit = 2 if self.form == TOKENS else 1
        self.width = None
        if len(output.shape) > axes_of_one_logit:
            self.width = output.shape[-1]
        has_several = self.width is not None and self.width > 1
        if labels is None and has_several:
            labels = placeholders(self.width)
        self.labels = None
        if labels is not None and len(labels) == self.width:  # A head's logits may be others than its classes.
            self.labels = list(labels)
        self.has_targets = self.form == CHOICES or self.labels is not None or has_several

    def __call__(self, inputs, target):
        reading = self._read(inputs, target)
        effects = self._effects(reading.subject)
        rows = tf.size(reading.target.number)
        outputs = _assembled(reading.table, effects, rows)
        numbers = outputs.pop("numbers")
        if self.form == TOKENS:
            outputs["word"] = _place_among(numbers, reading.target.word)
        padded = {name: table_to_dense(value) for name, value in outputs.items()}
        padded["target"] = reading.target.number
        return token_counts.with_counts(padded, reading.counts)

    def _read(self, inputs, target):
        """Returns the `ReadTexts` of texts."""
        if self.form == TOKENS:
            return self._read_tokens(inputs, target)
        if self.form == CHOICES:
            return self._read_choices(inputs, target)
        return self._read_texts(inputs, target)

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

    def _logits(self, inputs):
        """Returns the logits of sequences."""
        outputs = self._model(inputs, training=False)
        return tf.cast(outputs[self._head.classes], tf.float32)

    def _logits_of_windows(self, viewed):
        """Returns the logits of `ViewedTexts`."""
        outputs = viewed.outputs(self._model)
        return tf.cast(outputs[self._head.classes], tf.float32)

    # What the logits are of: one method each.

    def _read_texts(self, inputs, target):
        """Reads texts or pairs, in one sequence or in windows, for logits of whole texts."""
        first = words.words_of(self.tokenizer, inputs["text"])
        second = None
        if "pair" in inputs:
            second = words.words_of(self.tokenizer, inputs["pair"])
        sequences, number, row, counts = self._sequences(inputs, first, second)
        logits = in_groups(self._logits, sequences, [self.width], _ROWS)
        chosen = target.number_or(self._predicted(logits, row))
        subject = Subject(sequences, number, row, tf.gather(chosen, row)[:, None])
        table = WordTable.of(inputs["text"], first)
        if second is not None:
            table = table.joined(WordTable.of(inputs["pair"], second, name="pair"))
        return ReadTexts(subject, Target(chosen, target.word), table, counts)

    def _predicted(self, logits, row):
        """Returns the number of the highest logit of each text, given the logits of sequences and their texts."""
        return tf.argmax(self._join.joined(logits, row), -1, tf.int32)

    def _sequences(self, inputs, first, second):
        """Returns model inputs, the numbers of their words, the text of each sequence, and the numbers of tokens."""
        preprocessor = self._preprocessor
        if preprocessor.reads_windows:
            viewed = preprocessor.windows(inputs)
            number = words.of_views(preprocessor, viewed, first, second)
            return viewed.packed(), number, viewed.views.row, _counts_of_windows(viewed)
        sequences, number = words.packed(preprocessor, first, second)
        counts = _counts(preprocessor, first, second)
        return sequences, number, tf.range(tf.size(inputs["text"])), counts

    def _read_choices(self, inputs, target):
        """Reads texts with choices, each with every choice in one sequence, or in windows of the text."""
        text = words.words_of(self.tokenizer, inputs["text"])
        choices = words.words_of(self.tokenizer, tf.reshape(inputs["choices"], [-1]))
        if self._preprocessor.reads_windows:
            subject, chosen, counts = self._choices_in_windows(inputs, text, choices, target)
        else:
            subject, chosen, counts = self._whole_choices(inputs, text, choices, target)
        choice_strings = tf.gather(inputs["choices"], chosen, batch_dims=1)
        of_choice = WordTable.of(choice_strings, words.of_chosen(choices, chosen), name="choice")
        table = WordTable.of(inputs["text"], text).joined(of_choice)
        return ReadTexts(subject, Target(chosen, target.word), table, counts)

    def _whole_choices(self, inputs, text, choices, target):
        """Returns the `Subject`, the number of the choice to explain, and the numbers of tokens."""
        first = tf.zeros([tf.size(inputs["text"])], tf.int32)
        sequences, _ = words.packed_choices(self._preprocessor, text, choices, first)
        predicted = tf.argmax(self._logits(sequences), -1, tf.int32)
        chosen = target.number_or(predicted)
        sequences, number = words.packed_choices(self._preprocessor, text, choices, chosen)
        counts = _counts(self._preprocessor, text, words.of_chosen(choices, chosen))
        subject = Subject(sequences, number, tf.range(tf.size(chosen)), chosen[:, None])
        return subject, chosen, counts

    def _choices_in_windows(self, inputs, text, choices, target):
        """Returns the same for texts in windows."""
        viewed = self._preprocessor.windows_with_choices(inputs["text"], inputs["choices"])
        row = viewed.views.row
        chosen = target.number_or(self._predicted(self._logits_of_windows(viewed), row))
        number = words.of_choice_views(viewed, text, choices, chosen)
        subject = Subject(viewed.packed(), number, row, tf.gather(chosen, row)[:, None])
        return subject, chosen, _counts_of_windows(viewed)

    def _read_tokens(self, inputs, target):
        """Reads texts of any length, for the logit of one of their words, in the window with most of its context."""
        if "words" in inputs:
            text = inputs["words"]
            text_words = words.given_words(self.tokenizer, text)
        else:
            text = inputs["text"]
            text_words = words.words_of(self.tokenizer, text)
        viewed = ViewedTexts(self._preprocessor, self._windows, text_words.tokens)
        candidates = _candidates(viewed, text_words, self._logits_of_windows(viewed))
        best = _chosen_word(candidates, target, outside=self._outside())
        # A text without words has the first window, and no logit.
        nothing = _Candidates(row=-1, number=-1, view=-1, position=0, logits=0.0)
        chosen = candidates.at(best, nothing)
        first_view = tf.math.segment_min(tf.range(tf.size(viewed.views.row)), viewed.views.row)
        view = tf.where(best < 0, first_view, chosen.view)
        logit = [chosen.position]
        number = tf.zeros_like(best)
        if self.width:
            number = target.number_or(tf.argmax(chosen.logits, -1, tf.int32))
            logit.append(number)
        sequences = {name: tf.gather(ids, view) for name, ids in viewed.packed().items()}
        numbers = tf.gather(words.of_views(self._preprocessor, viewed, text_words), view)
        subject = Subject(sequences, numbers, tf.range(tf.size(view)), tf.stack(logit, 1))
        counts = self._preprocessor.packing.token_counts(text_words.tokens)
        # Those of the window; what it does not have has no part in the logit.
        counts[token_counts.READ] = subject.lengths()
        explained = Target(tf.where(best < 0, -1, number), chosen.number)
        return ReadTexts(subject, explained, WordTable.of(text, text_words), counts)

    def _outside(self):
        """Returns the number of the tag of words outside of entities, -1 without one."""
        if self.labels and "O" in self.labels:
            return self.labels.index("O")
        return -1


def _counts_of_windows(viewed):
    """Returns the numbers of tokens of `ViewedTexts`."""
    counts = viewed.token_counts()
    names = (token_counts.TOKENS, token_counts.READ, token_counts.COUNT)
    return {name: counts[name] for name in names}


def _counts(preprocessor, first, second=None):
    """Returns the numbers of tokens; raises for a text that is too long for a model that does not cut texts."""
    if second is None:
        counts = preprocessor.packing.token_counts(first.tokens)
    else:
        counts = preprocessor.packing.token_counts(first.tokens, second.tokens)
    if preprocessor.long_texts == REFUSE:
        tokens = counts[token_counts.TOKENS]
        read = counts[token_counts.READ]
        counts[token_counts.READ] = require(tokens == read, token_counts.TOO_LONG, tokens=tokens)
    return counts


class _Candidates(NamedTuple):
    """The words that have tokens, and so logits, of all texts in order. All fields have a row for each word."""

    row: tf.Tensor  # The text.
    number: tf.Tensor
    view: tf.Tensor  # The window in which the first token of the word has most context, and its position there.
    position: tf.Tensor
    logits: tf.Tensor  # Of this token, `(words,)` or `(words, classes)`.

    def at(self, places, nothing):
        """Returns the candidates at some places, for each text; `nothing` has the values for the place -1."""
        chosen = []
        for values, value in zip(self, nothing, strict=True):
            row_of_nothing = tf.fill(tf.concat([[1], tf.shape(values)[1:]], 0), value)
            padded = tf.concat([values, row_of_nothing], 0)
            chosen.append(tf.gather(padded, tf.where(places < 0, tf.size(self.row), places)))
        return _Candidates(*chosen)


def _candidates(viewed, text_words, logits):
    """Returns the `_Candidates` of `Words`, given the logits of all tokens of `ViewedTexts`."""
    views, positions = tf.unstack(tf.shape(logits)[:2])
    grid = tf.reshape(tf.range(views * positions), [views, positions])
    row = tf.cast(text_words.tokens.value_rowids(), tf.int32)
    number = text_words.number.values
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
    rows = tf.size(target.word)
    count = tf.size(candidates.row)
    most = tf.math.unsorted_segment_max(preference, candidates.row, rows)
    index = tf.where(preference == tf.gather(most, candidates.row), tf.range(count), count)
    best = tf.math.unsorted_segment_min(index, candidates.row, rows)
    return tf.where(best < count, best, -1)  # Without a word, the minimum is the largest integer.


# From words and effects to outputs.


class WordTable(NamedTuple):
    """All words of the texts of each row, ragged `(rows, words)`: their strings, byte offsets and inputs."""

    strings: tf.RaggedTensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor
    inputs: tf.RaggedTensor

    @classmethod
    def of(cls, text, text_words, name="text"):
        """Returns that of the `Words` of texts; `name` is that of their input."""
        starts = text_words.starts
        ends = text_words.ends
        substrings = tf.strings.substr(
            tf.gather(text, starts.value_rowids()), starts.values, ends.values - starts.values
        )
        names = tf.fill([tf.size(starts.values)], name)
        return cls(
            strings=starts.with_values(readable(substrings)),
            starts=starts,
            ends=ends,
            inputs=starts.with_values(names),
        )

    def joined(self, other):
        """Returns the table with the words of each row of another one after its own."""
        return WordTable(
            strings=tf.concat([self.strings, other.strings], 1),
            starts=tf.concat([self.starts, other.starts], 1),
            ends=tf.concat([self.ends, other.ends], 1),
            inputs=tf.concat([self.inputs, other.inputs], 1),
        )


def _assembled(table, effects, rows):
    """Returns the outputs of `rows` texts, ragged where there are several of each, of the words that are read."""
    row, number, place = words_of_texts(effects.row, effects.number)
    nrows = tf.cast(rows, tf.int64)

    def ragged(values):
        return tf.RaggedTensor.from_value_rowids(values, tf.cast(row, tf.int64), nrows)

    places = tf.cast(tf.gather(table.starts.row_starts(), row), tf.int32) + number
    scores = ragged(tf.math.unsorted_segment_sum(effects.score, place, tf.size(row)))
    difference = effects.value - effects.baseline
    return {
        "words": ragged(tf.gather(table.strings.values, places)),
        "starts": ragged(tf.gather(table.starts.values, places)),
        "ends": ragged(tf.gather(table.ends.values, places)),
        "inputs": ragged(tf.gather(table.inputs.values, places)),
        "scores": scores,
        "word_count": tf.cast(scores.row_lengths(), tf.int32),
        "value": effects.value,
        "baseline": effects.baseline,
        "difference": difference,
        "delta": difference - tf.reduce_sum(scores, 1),
        "numbers": ragged(number),
    }


def table_to_dense(value):
    """Returns an output, padded: strings with "", offsets with -1, scores with 0."""
    if not isinstance(value, tf.RaggedTensor):
        return value
    if value.dtype == tf.string:
        return value.to_tensor("")
    if value.dtype == tf.int32:
        return value.to_tensor(-1)
    return value.to_tensor(0)


def _place_among(numbers, word):
    """Returns the place of a word among those that were read, `(texts,)`, -1 for none."""
    is_word = numbers.with_values(numbers.values == tf.gather(word, numbers.value_rowids()))
    longest = tf.reduce_max(tf.pad(numbers.row_lengths(), [[0, 1]]))
    places = tf.where(is_word.to_tensor(False), tf.range(longest), -1)
    with_none = tf.pad(tf.cast(places, tf.int32), [[0, 0], [0, 1]], constant_values=-1)
    return tf.reduce_max(with_none, 1)

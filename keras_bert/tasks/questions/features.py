"""Converts questions and contexts to windows of tokens, answers to positions, and logits to answers."""

import itertools

import numpy as np
import tensorflow as tf

from keras_bert.data.token_rows import compact_parts, take
from keras_bert.text import packing
from keras_bert.text.preprocessor import unpadded
from keras_bert.text.spans import Windows, best_spans, max_context, sliding_windows, span_probabilities, window_slices

_TEXTS = 512  # Texts to tokenize at a time.
_WINDOWS = 2048  # Windows to pack, or to search for answers, at a time.


class QuestionWindows:
    """The windows of `data.Questions` for one model, whose starts are `stride` tokens apart.

    Each context is tokenized once. Answers are mapped by byte offsets to the smallest span of tokens that covers them.

    Attributes:
        windows: `Windows` of all questions, with questions as examples.
        offset: the position of the first token of the context, `(windows,)`.
        long_questions: ids of truncated questions.
        inexact: ids of questions whose answer starts or ends within a token.
        unmapped: ids of questions with answers, none of which maps to tokens. Questions in `Questions.contradicted`
            are trained on as questions without an answer.
    """

    def __init__(self, questions, preprocessor, stride: int = 128, max_question_length: int = 64):
        self.questions, self._preprocessor = questions, preprocessor
        tokenizer = preprocessor.tokenizer
        self._ids, starts, ends = _tokenized(tokenizer.with_offsets, questions.contexts)
        self._splits = self._ids.row_splits.numpy()
        self._first_byte, self._last_byte = starts.values.numpy(), ends.values.numpy()
        self._contexts = [text.encode() for text in questions.contexts]
        (asked,) = _tokenized(lambda texts: (tokenizer(texts),), questions.questions)
        # Not the rule for pairs: as in Google's program, only the question is truncated, the context is split.
        most = min(max_question_length, preprocessor.room(pair=True) // 2)
        self.long_questions = [questions.ids[row] for row in np.flatnonzero(asked.row_lengths().numpy() > most)]
        self._asked = packing.cut(asked, most)
        sizes = tf.cast(tf.gather(self._ids.row_lengths(), questions.context), tf.int32)
        asked = tf.cast(self._asked.row_lengths(), tf.int32)
        self.windows = sliding_windows(sizes, preprocessor.room(pair=True) - asked, stride)
        self.offset = tf.gather(asked + 1 + preprocessor.vocabulary.pair_separators, self.windows.example)
        self._map_answers()

    def _map_answers(self):
        """Finds first and last token of the first answer that maps to tokens, `(questions, 2)`; -1 for none."""
        self.inexact, self.unmapped = [], []
        self._answers = np.full((len(self.questions), 2), -1)
        for row, (name, context) in enumerate(zip(self.questions.ids, self.questions.context, strict=True)):
            if name in self.questions.contradicted:
                continue
            here = slice(self._splits[context], self._splits[context + 1])
            starts, ends = self._first_byte[here], self._last_byte[here]
            for begin, end in self.questions.spans[row]:
                first = int(np.searchsorted(ends, begin, "right"))
                last = int(np.searchsorted(starts, end)) - 1
                if first <= last:
                    self._answers[row] = first, last
                    if (starts[first], ends[last]) != (begin, end):
                        self.inexact.append(name)
                    break
            if self.questions.golds[row] and self._answers[row, 0] < 0:
                self.unmapped.append(name)

    @property
    def lengths(self):
        """The number of tokens of each sequence, `(windows,)`."""
        return self.offset + self.windows.length + 1

    def blocks(self):
        """Returns ranges of windows to process at a time, keeping the windows of a question together."""
        counts = np.bincount(self.windows.example, minlength=len(self.questions))
        ends = np.cumsum(counts)
        # A question belongs to the block of its first window.
        numbers = (ends - counts) // _WINDOWS
        last = np.flatnonzero(np.append(np.diff(numbers), 1))
        return list(itertools.pairwise([0, *ends[last].tolist()]))

    def inputs(self, first=0, last=None):
        """Returns the compact model inputs of a range of windows, for `Batches`."""
        return compact_parts(self._ragged_parts(_part(self.windows, first, last)))

    def _ragged_parts(self, part):
        for begin in range(0, len(part.start), _WINDOWS):
            some = _part(part, begin, begin + _WINDOWS)
            context = Windows(tf.gather(self.questions.context, some.example), some.start, some.length)
            asked = tf.gather(self._asked, some.example)
            yield unpadded(self._preprocessor.pack(asked, window_slices(self._ids, context)))

    def targets(self):
        """Returns the positions of the answers, int32 `start` and `end` `(windows,)`; 0, i.e. `[CLS]`, for none."""
        example, begin, length = (part.numpy() for part in self.windows)
        first, last = self._answers[example].T
        inside = (first >= begin) & (last < begin + length)
        shift = self.offset.numpy() - begin
        return {
            name: np.where(inside, piece + shift, 0).astype(np.int32)
            for name, piece in (("start", first), ("end", last))
        }

    def examples(self):
        """Returns inputs and targets for training, without the windows of `unmapped` questions."""
        unmapped = np.isin(self.questions.ids, self.unmapped)
        rows = np.flatnonzero(~unmapped[self.windows.example.numpy()])
        inputs = {name: take(values, rows) for name, values in self.inputs().items()}
        return inputs, {name: values[rows] for name, values in self.targets().items()}

    def logits(self, predict):
        """Returns the concatenated logits of all windows, without padding: dict of `start` and `end`, `(tokens,)` each.

        `predict` maps inputs to `start_logits` and `end_logits`.
        """
        parts = [self.flat(predict(self.inputs(first, last)), first, last) for first, last in self.blocks()]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def flat(self, outputs, first=0, last=None):
        """Returns the `logits` of a range of windows, given the outputs of the model."""
        lengths = self.lengths[first:last].numpy()[:, None]
        dense = {name: outputs[f"{name}_logits"] for name in ("start", "end")}
        return {name: logits[np.arange(logits.shape[1]) < lengths] for name, logits in dense.items()}

    def answers(self, logits, count: int = 20, max_answer_length: int = 30):
        """Returns the best answers to all questions, from the result of `logits`.

        A list of `(id, answers, null_score)`. The answers, `count` for each question, are dicts of `text`, `place` (as
        in `Questions.spans`), `start_logit`, `end_logit` and `probability`, best first.
        """
        ends, results = np.cumsum(np.append(0, self.lengths)), []
        for first, last in self.blocks():
            start, end = (
                tf.RaggedTensor.from_row_lengths(logits[name][ends[first] : ends[last]], self.lengths[first:last])
                for name in ("start", "end")
            )
            results += self._block_answers(first, last, start.to_tensor(), end.to_tensor(), count, max_answer_length)
        return results

    def _block_answers(self, first, last, start_logits, end_logits, count, max_answer_length):
        part, offset = _part(self.windows, first, last), self.offset[first:last]
        question = int(part.example[0])
        part = part._replace(example=part.example - question)
        spans = best_spans(start_logits, end_logits, part, offset, max_context(part), max_answer_length, count)
        probability = span_probabilities(spans.score).numpy()
        start, end, _, window, null_score = (value.numpy() for value in spans)
        shift = (offset - part.start).numpy()[window]
        sides = (start_logits, start), (end_logits, end)  # -1 for answers that a short context lacks.
        logits = (values.numpy()[window, np.maximum(places + shift, 0)] for values, places in sides)
        columns = [start, end, *logits, probability]
        return [
            (self.questions.ids[question + row], self._texts(question + row, *(c[row] for c in columns)), float(null))
            for row, null in enumerate(null_score)
        ]

    def _texts(self, question, start, end, start_logits, end_logits, probabilities):
        """Returns the answers to one question."""
        context = self.questions.context[question]
        low, text = int(self._splits[context]), self._contexts[context]
        answers = []
        for first, last, *numbers in zip(start, end, start_logits, end_logits, probabilities, strict=True):
            if first >= 0:
                begin, end = int(self._first_byte[low + first]), int(self._last_byte[low + last])
                answer = {"text": text[begin:end].decode("utf-8"), "place": (begin, end)}
                names = ("start_logit", "end_logit", "probability")
                answers.append(answer | dict(zip(names, map(float, numbers), strict=True)))
        return answers


def _tokenized(tokenize, texts):
    """Applies a tokenizer to all texts; returns a list of ragged tensors."""
    parts = [tokenize(tf.constant(texts[first : first + _TEXTS])) for first in range(0, len(texts), _TEXTS)]
    return [tf.concat(values, 0) for values in zip(*parts, strict=True)]


def _part(windows, first, last):
    return Windows(*(values[first:last] for values in windows))

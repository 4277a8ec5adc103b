"""Answers to questions as positions in windows of their contexts, and logits of positions as answers."""

from typing import NamedTuple

import numpy as np

from keras_bert.data.token_rows import compact_parts, take
from keras_bert.text import packing
from keras_bert.text.spans import span_probabilities
from keras_bert.text.tokenizer import tokenized
from keras_bert.text.viewed_texts import ViewedTexts
from keras_bert.text.views import SlidingWindows

_WINDOWS = 2048  # Windows to predict, or to search for answers, at a time.
_NO_TOKEN = -1
_NO_ANSWER = 0  # The position of `[CLS]`.


class BestAnswers(NamedTuple):
    """The best answers to a question.

    `answers` are dicts of `text`, `place` (as in `Questions.spans`), `start_logit`, `end_logit` and `probability`, best
    first; there may be none.
    """

    id: str
    answers: list
    null_score: float  # Of no answer.


class _TokenSpan(NamedTuple):
    """The smallest span of tokens that covers some bytes of a context."""

    first: int  # Token, counted from the start of the context.
    last: int
    is_exact: bool  # Whether it covers no other bytes.


class _Contexts:
    """The tokens of contexts, a list of strings, each of which is tokenized once.

    `ids` are ragged token ids `(contexts, tokens)`. Spans of bytes are the first one and the last + 1.
    """

    def __init__(self, texts, tokenizer):
        self.ids, starts, ends = tokenized(tokenizer.with_offsets, texts)
        self._bytes = [text.encode() for text in texts]
        self._splits = self.ids.row_splits.numpy()
        self._first_byte = starts.values.numpy()
        self._last_byte = ends.values.numpy()

    def tokens(self, context, begin, end):
        """Returns the `_TokenSpan` of bytes of a context, `None` if they have no token."""
        here = slice(self._splits[context], self._splits[context + 1])
        starts = self._first_byte[here]
        ends = self._last_byte[here]
        first = int(np.searchsorted(ends, begin, "right"))
        last = int(np.searchsorted(starts, end)) - 1
        if first > last:
            return None
        return _TokenSpan(first, last, is_exact=(starts[first], ends[last]) == (begin, end))

    def bytes(self, context, first, last):
        """Returns the bytes of a context that tokens from `first` to `last` cover."""
        before = int(self._splits[context])
        return int(self._first_byte[before + first]), int(self._last_byte[before + last])

    def text(self, context, begin, end):
        """Returns bytes of a context as a string."""
        return self._bytes[context][begin:end].decode("utf-8")


class QuestionWindows:
    """The windows of `data.Questions` for one model, whose starts are `doc_stride` tokens apart.

    Each context is tokenized once. Answers are mapped by byte offsets to the smallest span of tokens that covers them.

    Attributes:
        windows: `Views` of all questions, which are their rows.
        offset: the position of the first token of the context, `(windows,)`.
        question_room: int, the most tokens of a question that are read.
        long_questions: ids of truncated questions.
        inexact: ids of questions whose answer starts or ends within a token.
        unmapped: ids of questions with answers, none of which maps to tokens. Questions in `Questions.contradicted`
            are trained on as questions without an answer.
    """

    def __init__(self, questions, preprocessor, doc_stride: int = 128, max_question_length: int = 64):
        self.questions = questions
        tokenizer = preprocessor.tokenizer
        self._contexts = _Contexts(questions.contexts, tokenizer)
        (asked,) = tokenized(lambda texts: [tokenizer(texts)], questions.questions)
        # Not the rule for pairs: as in Google's program, only the question is truncated, the context is split.
        # SavedModels truncate it at the same place.
        self.question_room = preprocessor.packing.question_room(max_question_length)
        is_long = asked.row_lengths().numpy() > self.question_room
        self.long_questions = [questions.ids[row] for row in np.flatnonzero(is_long)]
        self._viewed = ViewedTexts(
            preprocessor,
            SlidingWindows(doc_stride=doc_stride),
            self._contexts.ids,
            before=packing.cut(asked, self.question_room),
            text=questions.context,
        )
        self.windows = self._viewed.views
        self.offset = self._viewed.offset
        self._answers = np.full((len(questions), 2), _NO_TOKEN)  # First and last token.
        self.inexact = []
        self.unmapped = []
        self._map_answers()

    def _map_answers(self):
        """Finds the tokens of the answer to each question."""
        for row, name in enumerate(self.questions.ids):
            if name in self.questions.contradicted:
                continue
            tokens = self._first_mapped(row)
            if tokens is not None:
                self._answers[row] = tokens.first, tokens.last
                if not tokens.is_exact:
                    self.inexact.append(name)
            elif self.questions.golds[row]:
                self.unmapped.append(name)

    def _first_mapped(self, row):
        """Returns the `_TokenSpan` of the first answer to a question that maps to tokens, or `None`."""
        context = self.questions.context[row]
        for begin, end in self.questions.spans[row]:
            tokens = self._contexts.tokens(context, begin, end)
            if tokens is not None:
                return tokens
        return None

    @property
    def lengths(self):
        """The number of tokens of each sequence, `(windows,)`."""
        return self._viewed.lengths

    def blocks(self):
        """Returns ranges of windows to process at a time, keeping the windows of a question together."""
        return self._viewed.blocks(_WINDOWS)

    def inputs(self, first=0, last=None):
        """Returns the compact model inputs of a range of windows, for `Batches`."""
        return compact_parts(self._viewed.ragged_parts(first, last))

    def targets(self):
        """Returns the positions of the answers, int32 `start` and `end` `(windows,)`; 0, i.e. `[CLS]`, for none."""
        begin = self.windows.start.numpy()
        limit = begin + self.windows.length.numpy()
        first, last = self._answers[self.windows.row.numpy()].T
        is_inside = (first >= begin) & (last < limit)
        shift = self.offset.numpy() - begin
        return {
            "start": np.where(is_inside, first + shift, _NO_ANSWER).astype(np.int32),
            "end": np.where(is_inside, last + shift, _NO_ANSWER).astype(np.int32),
        }

    def examples(self):
        """Returns inputs and targets for training, without the windows of `unmapped` questions."""
        is_unmapped = np.isin(self.questions.ids, self.unmapped)
        rows = np.flatnonzero(~is_unmapped[self.windows.row.numpy()])
        inputs = {name: take(values, rows) for name, values in self.inputs().items()}
        targets = {name: values[rows] for name, values in self.targets().items()}
        return inputs, targets

    def logits(self, predict):
        """Returns the concatenated logits of all windows, without padding: dict of `start` and `end`, `(tokens,)` each.

        `predict` maps inputs to `start_logits` and `end_logits`.
        """
        starts = []
        ends = []
        for first, last in self.blocks():
            outputs = predict(self.inputs(first, last))
            logits = self.flat(outputs, first, last)
            starts.append(logits["start"])
            ends.append(logits["end"])
        return {"start": np.concatenate(starts), "end": np.concatenate(ends)}

    def flat(self, outputs, first=0, last=None):
        """Returns the `logits` of a range of windows, given the outputs of the model."""
        return {
            "start": self._viewed.flat(outputs["start_logits"], first, last),
            "end": self._viewed.flat(outputs["end_logits"], first, last),
        }

    def answers(self, logits, count: int = 20, max_answer_length: int = 30):
        """Returns the `BestAnswers` to each question, at most `count`, from the result of `logits`."""
        answers = []
        for first, last in self.blocks():
            start_logits = self._viewed.padded(logits["start"], first, last)
            end_logits = self._viewed.padded(logits["end"], first, last)
            spans = self._viewed.best_spans(
                start_logits,
                end_logits,
                max_answer_length,
                count,
                first,
                last,
            )
            best = self._best_spans(spans, start_logits.numpy(), end_logits.numpy(), first, last)
            question = int(self.windows.row[first])
            for row, null_score in enumerate(spans.null_score.numpy()):
                of_question = BestAnswers(
                    id=self.questions.ids[question + row],
                    answers=self._texts(question + row, best, row),
                    null_score=float(null_score),
                )
                answers.append(of_question)
        return answers

    def _best_spans(self, spans, start_logits, end_logits, first, last):
        """Returns the `_BestSpans` of a block of windows."""
        start = spans.start.numpy()
        end = spans.end.numpy()
        window = spans.view.numpy()
        shift = (self.offset - self.windows.start)[first:last].numpy()[window]
        # Answers that a short context lacks have no position, but some logits.
        return _BestSpans(
            start=start,
            end=end,
            start_logit=start_logits[window, np.maximum(start + shift, 0)],
            end_logit=end_logits[window, np.maximum(end + shift, 0)],
            probability=span_probabilities(spans.score).numpy(),
        )

    def _texts(self, question, best, row):
        """Returns the answers to one question, which has this row in `_BestSpans`."""
        context = self.questions.context[question]
        answers = []
        for index in np.flatnonzero(best.start[row] != _NO_TOKEN):
            begin, end = self._contexts.bytes(context, best.start[row, index], best.end[row, index])
            answers.append(
                {
                    "text": self._contexts.text(context, begin, end),
                    "place": (begin, end),
                    "start_logit": float(best.start_logit[row, index]),
                    "end_logit": float(best.end_logit[row, index]),
                    "probability": float(best.probability[row, index]),
                }
            )
        return answers


class _BestSpans(NamedTuple):
    """The spans of the best answers to the questions of a block of windows, arrays `(questions, count)`."""

    start: np.ndarray  # First and last token, counted from the start of the context; -1 for none.
    end: np.ndarray
    start_logit: np.ndarray
    end_logit: np.ndarray
    probability: np.ndarray

"""How many tokens texts have, and how many of them a model reads: in outputs, in answers, and in a message.

Both count all that one sequence of the model would hold: the texts of a pair, a prompt, [CLS] and each [SEP]. So
`tokens` is the `sequence_length` at which nothing is cut. Without TensorFlow, so that a client can count, too.
"""

import contextlib
import contextvars
import logging

import numpy as np

from keras_bert.text.long_texts import REFUSE, WINDOWS

_LOG = logging.getLogger("keras_bert")
TOKENS = "tokens"
READ = "tokens_read"
_OTHER_NAME = "text_tokens"  # Of `tokens`, where that is an output of another meaning: words, pieces, fills of masks.
# In the outputs of models that read windows: how many a text has, and the byte offsets of the one that spoke most.
COUNT = "windows"
STRONGEST_START = "strongest_start"
STRONGEST_END = "strongest_end"
STRONGEST = "strongest"  # In answers: a dict of the offsets in characters, `start` and `end`.
_OF_WINDOWS = (COUNT, STRONGEST_START, STRONGEST_END, STRONGEST)
RESERVED = (READ, _OTHER_NAME, *_OF_WINDOWS)  # Names that no output and no field of an answer may have.
TOO_LONG = "a text has more tokens than a sequence of the model, and is not cut"
_COLLECTED = contextvars.ContextVar("collected", default=None)


def with_counts(values, counts):
    """Adds the counts, a dict with `tokens`, `tokens_read` and what there is of windows, to outputs or to an answer."""
    for name in RESERVED:
        if name in values:
            reserved = ", ".join(f"`{known}`" for known in RESERVED)
            raise ValueError(
                f"{reserved} tell about tokens and windows, which are added to "
                "answers. Expected other names of the outputs and of the fields of an answer. "
                f"Received: {name!r} among {', '.join(values)}"
            )
    counted = dict(values)
    name_of_tokens = _OTHER_NAME if TOKENS in values else TOKENS
    counted[name_of_tokens] = counts[TOKENS]
    counted[READ] = counts[READ]
    for name in _OF_WINDOWS:
        if name in counts:
            counted[name] = counts[name]
    return counted


def split_counts(outputs):
    """Returns the outputs of a signature without the counts, and the counts; of an older export, an empty dict."""
    if READ not in outputs:
        return outputs, {}
    name_of_tokens = _OTHER_NAME if _OTHER_NAME in outputs else TOKENS
    counts = {TOKENS: outputs[name_of_tokens], READ: outputs[READ]}
    for name in _OF_WINDOWS:
        if name in outputs:
            counts[name] = outputs[name]
    names_of_counts = (name_of_tokens, READ, *_OF_WINDOWS)
    others = {name: value for name, value in outputs.items() if name not in names_of_counts}
    return others, counts


def without_counts(answer):
    """Returns an answer without the counts."""
    others, _ = split_counts(answer)
    return others


def check_all_read(counts, long_texts, numbers=None):
    """Raises if a text has more tokens than a sequence of a model that does not cut texts.

    `counts` are arrays by name; `numbers` those that messages call the texts, by default their order.
    """
    tokens = np.asarray(counts[TOKENS])
    read = np.asarray(counts[READ])
    too_long = np.flatnonzero(tokens > read)
    if len(too_long):
        first = too_long[0]
        number = first if numbers is None else numbers[first]
        expected = "shorter texts, a larger `sequence_length` or another `long_texts`"
        if long_texts == WINDOWS:
            expected = "a call of `windows`, which returns several sequences of a text"
        raise ValueError(
            f"texts[{number}] has {tokens[first]:,} tokens, more than the {read[first]:,} that the model reads, and "
            f"`long_texts` is {long_texts!r}. Expected {expected}"
        )


class CutTexts:
    """Counts the texts of which a model does not read all, and tells about them in one line.

    `unit` is what the texts are called; `most` the longest `sequence_length` of the model, `None` if it is not known.
    With `refuses`, such a text is an error.
    """

    def __init__(self, unit="texts", most=None, refuses=False):
        self.unit = unit
        self.most = most
        self._refuses = refuses
        self.texts = 0
        self.cut = 0  # How many of them.
        self.longest = 0  # In tokens.
        self.limits = set()  # How many tokens were read of those that were cut.
        self._in_windows = False

    def add(self, outputs, numbers=None):
        """Adds the texts of a call of a signature, given its outputs, arrays; `numbers` are those of the texts."""
        _, counts = split_counts(outputs)
        if not counts:
            return
        if self._refuses:
            check_all_read(counts, REFUSE, numbers)
        tokens = np.asarray(counts[TOKENS])
        read = np.asarray(counts[READ])
        is_cut = tokens > read
        self.texts += len(tokens)
        self.cut += int(is_cut.sum())
        self.longest = max(self.longest, int(tokens.max(initial=0)))
        self.limits |= set(read[is_cut].tolist())
        self._in_windows |= COUNT in counts

    def tell(self):
        """Logs a line if texts were cut; within `told_once`, at the end of its block."""
        together = _COLLECTED.get()
        if together is not None:
            together.take(self)
        elif self.cut:
            _LOG.warning("%s", self)

    def take(self, other):
        """Adds the texts that another object has counted."""
        self.unit = other.unit
        self.most = other.most
        self.texts += other.texts
        self.cut += other.cut
        self.longest = max(self.longest, other.longest)
        self.limits |= other.limits
        self._in_windows |= other._in_windows

    def __str__(self):
        verb = "was" if self.cut == 1 else "were"
        which = f"{self.cut:,} of {self.texts:,} {self.unit} {verb}"
        if self.unit == "questions":
            return f"{which} longer than questions may be, see `max_question_length`; the rest of each was left out"
        # Several limits are those of several calls.
        limit = max(self.limits)
        line = f"{which} longer than the {limit:,} tokens that the model reads; the rest of each was left out"
        line += f". The longest has {self.longest:,}"
        if self._in_windows:
            return f"{line}; windows are limited by `max_windows`, and what stands beside them by half of a window"
        if self.most is not None and self.most > limit:
            line += f"; `sequence_length` may be up to {self.most:,}"
        return line


@contextlib.contextmanager
def told_once():
    """Tells about all texts that are cut in the block, or in the decorated function, in one line at its end."""
    if _COLLECTED.get() is not None:
        yield
        return
    together = CutTexts()
    before = _COLLECTED.set(together)
    try:
        yield
    finally:
        _COLLECTED.reset(before)
    together.tell()

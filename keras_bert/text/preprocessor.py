"""Tokenization and packing as one Keras layer: from strings to model inputs."""

from collections.abc import Sequence
from typing import Any, Literal

import keras
import numpy as np
import tensorflow as tf

from keras_bert.checks import check_choice, is_count, plain_number
from keras_bert.text.long_texts import HEAD, LONG_TEXTS, REFUSE, TAIL, WINDOWS
from keras_bert.text.packing import Packing, cut, unpadded
from keras_bert.text.token_counts import READ, TOKENS, TOO_LONG, check_all_read
from keras_bert.text.tokenizer import build_tokenizer
from keras_bert.text.viewed_choices import ViewedChoices
from keras_bert.text.viewed_texts import ViewedTexts
from keras_bert.text.views import reading
from keras_bert.text.vocabulary import Vocabulary

_CHUNK = 2**14  # Texts that `ragged` pads at a time.
_NOT_CUT = (REFUSE, WINDOWS)


@keras.saving.register_keras_serializable("keras_bert")
class TextPreprocessor(keras.layers.Layer):
    """Converts texts, or pairs of texts, to `token_ids`, `segment_ids` and `padding_mask`.

    The layer works eagerly, in `tf.data`, in functional models for inference (XLA does not support strings), in
    `.keras` files and in SavedModels. It includes the vocabulary.

    Args:
        vocabulary: a path, a list of pieces, a `Vocabulary`, or another `TextPreprocessor`.
        sequence_length: int, the maximum number of tokens of a sequence, including `[CLS]` and `[SEP]`.
        lowercase, strip_accents, keep_special_tokens: see `BertTokenizer`.
        truncation: `"longest_first"` truncates the longer text of a pair, as Google's program does; `"only_second"`
            only the second one, e.g. the passage after a question. Defaults to `"longest_first"`.
        padding: `"fixed"` pads to `sequence_length`, `"longest"` to the longest sequence of the batch, an integer to
            the next multiple of it. Defaults to `"fixed"`.
        long_texts: which tokens of a text are read that is too long: `"head"`, the first ones; `"tail"`, the last ones;
            `"head_tail"`, the first quarter of what fits and the last three quarters; `"windows"`, all, in several
            sequences, which `windows` returns. `"refuse"` raises an error. Defaults to `None`, the side of the
            vocabulary, which is nearly always the head.
        overlap: int, the number of tokens that a window shares with the one before. Defaults to an eighth of a window.
            For pairs, it must fit in windows behind the longest first text, half of the room.
        max_windows: int, the maximum number of windows of a text, the first ones. Defaults to `None`, no limit.

    Call arguments:
        inputs: strings of any shape, or lists of them. Pairs are a tuple of two, or a dict with `text` and `pair`.

    Returns:
        dict of int32 tensors with the shape of the input plus one axis. For a single string: `(length,)`.

    Example:
        preprocessor = TextPreprocessor("vocab.txt", sequence_length=128)
        preprocessor(["A sentence.", "Another one."])
        preprocessor((["A question?"], ["A passage."]))
    """

    def __init__(
        self,
        vocabulary: Any,
        sequence_length: int,
        *,
        lowercase: bool | None = None,
        strip_accents: bool | None = None,
        keep_special_tokens: Sequence[str] = (),
        truncation: Literal["longest_first", "only_second"] = "longest_first",
        padding: Literal["fixed", "longest"] | int = "fixed",
        long_texts: Literal["head", "tail", "head_tail", "windows", "refuse"] | None = None,
        overlap: int | None = None,
        max_windows: int | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.vocabulary = Vocabulary(vocabulary)
        self.sequence_length = plain_number(sequence_length)
        if lowercase is None:
            lowercase = getattr(vocabulary, "lowercase", self.vocabulary.lowercase)
        self.lowercase = lowercase
        self.strip_accents = strip_accents
        self.truncation = truncation
        self.padding = plain_number(padding)
        self.long_texts = long_texts
        self.overlap = plain_number(overlap)
        self.max_windows = plain_number(max_windows)
        self._check_settings()
        self.packing = Packing(
            self.vocabulary,
            self.sequence_length,
            reading=self._create_cut(),
            only_second=truncation == "only_second",
            padding=self.padding,
        )
        self._windows = self._create_windows()
        self.tokenizer = build_tokenizer(
            self.vocabulary,
            lowercase,
            strip_accents=strip_accents,
            keep_special_tokens=keep_special_tokens,
        )
        self.supports_jit = False
        self._convert_input_args = False  # Keras would move strings to the device of its backend.
        self._create_graphs()

    def _check_settings(self):
        """Raises for a setting that texts cannot be packed with."""
        least = 2 + self.vocabulary.pair_separators
        if not is_count(self.sequence_length, least):
            raise ValueError(
                f"`sequence_length` must be an integer of at least {least}: [CLS], a token, [SEP]. "
                f"Received: sequence_length={self.sequence_length!r}"
            )
        if self.truncation not in ("longest_first", "only_second"):
            raise ValueError(
                f"`truncation` must be 'longest_first' or 'only_second'. Received: truncation={self.truncation!r}"
            )
        if self.padding not in ("fixed", "longest") and not is_count(self.padding):
            raise ValueError(
                "`padding` must be 'fixed', 'longest' or an integer, the multiple to pad to. "
                f"Received: padding={self.padding!r}"
            )
        if self.long_texts is not None:
            check_choice("long_texts", self.long_texts, LONG_TEXTS)

    def _create_cut(self):
        """Returns the `Reading` of one sequence: which tokens are kept of a text that is too long."""
        if self.long_texts == WINDOWS:
            return reading(HEAD)
        name = self.long_texts
        if name is None:
            name = TAIL if self.vocabulary.truncation_side == "left" else HEAD
        return reading(name, overlap=self.overlap, max_windows=self.max_windows)

    def _create_windows(self):
        """Returns the `Reading` of several sequences, `None` for one."""
        if self.long_texts != WINDOWS:
            return None
        room = self.packing.room()
        overlap = self.overlap
        if overlap is None:
            overlap = room // 8
        elif is_count(overlap, room):
            raise ValueError(f"`overlap` must be less than the {room} tokens of a window. Received: overlap={overlap}")
        return reading(WINDOWS, overlap=overlap, max_windows=self.max_windows)

    def _create_graphs(self):
        texts = tf.TensorSpec([None], tf.string)
        graph_of_texts = tf.function(input_signature=[texts], autograph=False)
        graph_of_pairs = tf.function(input_signature=[texts, texts], autograph=False)
        self._single = graph_of_texts(self._pack_single)
        self._pair = graph_of_pairs(self._pack_pair)
        self._counted_single = graph_of_texts(self._count_single)
        self._counted_pair = graph_of_pairs(self._count_pair)

    @property
    def reads_windows(self):
        """Whether a text may have several sequences."""
        return self._windows is not None

    def __call__(self, inputs, **context):
        inputs = as_strings(inputs)
        # `Layer.__call__` is only for symbolic calls; its overhead exceeds the tokenization of a line of text.
        if any(isinstance(text, keras.KerasTensor) for text in inputs.values()):
            return super().__call__(inputs, **context)
        return self.call(inputs)

    def call(self, inputs):
        text = inputs["text"]
        flat = {name: tf.reshape(strings, [-1]) for name, strings in inputs.items()}
        packed = self._packed(flat)
        if text.shape.rank == 1:
            return packed
        if text.shape.rank == 0:
            return {name: tf.squeeze(ids, 0) for name, ids in packed.items()}
        return {name: _unflatten(ids, text) for name, ids in packed.items()}

    def _packed(self, inputs):
        """Returns the model inputs of strings `(texts,)`, or of pairs of them."""
        if self.long_texts in _NOT_CUT:
            packed, _ = self.counted(inputs)
            return packed
        if "pair" in inputs:
            return self._pair(inputs["text"], inputs["pair"])
        return self._single(inputs["text"])

    def _pack_single(self, texts):
        return self.packing.pack(self.tokenizer(texts))

    def _pack_pair(self, texts, pairs):
        first, second = self._tokens_of_pair(texts, pairs)
        return self.packing.pack(first, second)

    def _count_single(self, texts):
        tokens = self.tokenizer(texts)
        return self.packing.pack(tokens), self.packing.token_counts(tokens)

    def _count_pair(self, texts, pairs):
        first, second = self._tokens_of_pair(texts, pairs)
        return self.packing.pack(first, second), self.packing.token_counts(first, second)

    def _tokens_of_pair(self, texts, pairs):
        check = tf.debugging.assert_equal(tf.size(texts), tf.size(pairs), "`text` and `pair` must have the same shape")
        with tf.control_dependencies([check]):  # Otherwise an error of packing may come first.
            pairs = tf.identity(pairs)
        return self.tokenizer(texts), self.tokenizer(pairs)

    def counted(self, inputs):
        """Returns the model inputs of strings `(batch,)` or of pairs of them, and their `token_counts`."""
        inputs = as_strings(inputs)
        if "pair" in inputs:
            packed, counts = self._counted_pair(inputs["text"], inputs["pair"])
        else:
            packed, counts = self._counted_single(inputs["text"])
        return self._all_read(packed, counts)

    def _all_read(self, packed, counts):
        """Returns model inputs and the numbers of tokens; raises for texts that are too long and are not cut."""
        if self.long_texts not in _NOT_CUT:
            return packed, counts
        if tf.executing_eagerly():
            check_all_read(counts, self.long_texts)
            return packed, counts
        fits = tf.reduce_all(counts[TOKENS] == counts[READ])
        message = f"{TOO_LONG} (long_texts={self.long_texts}). Its number of tokens:"
        check = tf.debugging.Assert(fits, [message, tf.reduce_max(counts[TOKENS])])
        with tf.control_dependencies([check]):
            return tf.nest.map_structure(tf.identity, (packed, counts))

    def windows(self, inputs, offsets=False):
        """Returns the windows of strings `(texts,)`, or of pairs of them, as `ViewedTexts`.

        Of a pair, the windows are those of the second text, each behind the first one, of which at most half of the
        room is read, or more where the second one leaves it. With `offsets`, the places of windows in their texts are
        known, too.
        """
        self._check_reads_windows()
        inputs = as_strings(inputs)
        if "pair" not in inputs:
            tokens, places = self._with_places(inputs["text"], offsets)
            return ViewedTexts(self, self._windows, tokens, offsets=places)
        tokens, places = self._with_places(inputs["pair"], offsets)
        self._check_pair_windows()
        room = self.packing.room(pair=True)
        first = self.tokenizer(inputs["text"])
        most_of_first = tf.maximum(room // 2, room - tf.cast(tokens.row_lengths(), tf.int32))
        before = cut(first, most_of_first)
        left_out = tf.cast(first.row_lengths() - before.row_lengths(), tf.int32)
        return ViewedTexts(self, self._windows, tokens, before=before, offsets=places, left_out=left_out)

    def windows_with_choices(self, text, choices, offsets=False):
        """Same as `windows` for texts `(batch,)` with choices `(batch, choices)`, see `with_choices`."""
        self._check_reads_windows()
        self._check_pair_windows(least_taken=1)
        choices = _to_strings(choices, "choices")
        tokens, places = self._with_places(_to_strings(text, "text"), offsets)
        tokens_of_choices = self.tokenizer(tf.reshape(choices, [-1]))
        count = tf.shape(choices)[1]
        return ViewedChoices(self, self._windows, tokens, tokens_of_choices, count, offsets=places)

    def _with_places(self, texts, offsets):
        """Returns the tokens of strings, and with `offsets` where they start and end, or `None`."""
        if not offsets:
            return self.tokenizer(texts), None
        tokens, *places = self.tokenizer.with_offsets(texts)
        return tokens, places

    def _check_reads_windows(self):
        if not self.reads_windows:
            raise ValueError(f"`windows` needs long_texts='windows'. Received: long_texts={self.long_texts!r}")

    def _check_pair_windows(self, least_taken=0):
        """Raises if windows of pairs may not fit: half of the room is for the other text, or for a choice.

        `least_taken` is the number of tokens that this half must have.
        """
        room = self.packing.room(pair=True)
        taken = room // 2
        least = room - taken  # Of a window.
        if least <= 0 or taken < least_taken:
            expected = 3 + least_taken + self.vocabulary.pair_separators
            raise ValueError(
                f"`sequence_length` must be at least {expected} for windows of pairs. "
                f"Received: sequence_length={self.sequence_length}"
            )
        if self._windows.overlap >= least:
            raise ValueError(
                f"`overlap` must be less than {least}, the tokens that a window has beside a long first text. "
                f"Received: overlap={self._windows.overlap}"
            )

    def pack(self, first, second=None):
        """Packs ragged ids `(batch, tokens)`, with the layer's truncation and padding."""
        return self.packing.pack(first, second)

    def ragged(self, inputs):
        """Same as a call, but without padding, for `Batches`: a dict of ragged tensors `(texts, tokens)`."""
        inputs = as_strings(inputs)
        if inputs["text"].shape.rank == 0:
            packed = self.call(inputs)
            length = tf.reduce_sum(packed["padding_mask"])
            return {name: ids[:length] for name, ids in packed.items()}
        parts = list(self.ragged_parts(inputs))
        joined = {}
        for name in parts[0]:
            joined[name] = tf.concat([part[name] for part in parts], 0)
        return joined

    def ragged_parts(self, inputs):
        """Yields what `ragged` returns in parts of a few thousand texts."""
        inputs = as_strings(inputs)
        rows = int(tf.size(inputs["text"]))
        for start in range(0, max(rows, 1), _CHUNK):
            chunk = {name: value[start : start + _CHUNK] for name, value in inputs.items()}
            yield unpadded(self.call(chunk))

    def with_choices(self, text, choices):
        """Pairs each text with its choices, for multiple choice.

        Args:
            text: strings `(batch,)`.
            choices: strings `(batch, choices)`. A choice without tokens, such as `""`, is absent: its `padding_mask` is
                0 everywhere. Rows with fewer choices are padded with it.

        Returns:
            The model inputs, `(batch, choices, length)`.
        """
        packed, _ = self.counted_choices(text, choices)
        return packed

    def counted_choices(self, text, choices):
        """Same as `with_choices`; also returns the `token_counts` of each text with its longest choice."""
        choices = _to_strings(choices, "choices")
        repeated = tf.repeat(_to_strings(text, "text")[:, tf.newaxis], tf.shape(choices)[1], axis=1)
        inputs = as_strings({"text": repeated, "pair": choices})
        first = self.tokenizer(tf.reshape(inputs["text"], [-1]))
        second = self.tokenizer(tf.reshape(inputs["pair"], [-1]))
        packed = self.packing.pack(first, second)
        is_there = second.row_lengths() > 0
        packed["padding_mask"] = tf.where(is_there[:, tf.newaxis], packed["padding_mask"], 0)
        counts = {}
        for name, count in self.packing.token_counts(first, second).items():
            of_choices = tf.reshape(tf.where(is_there, count, 0), tf.shape(choices))
            counts[name] = tf.reduce_max(of_choices, axis=1)
        packed = {name: _unflatten(ids, choices) for name, ids in packed.items()}
        return self._all_read(packed, counts)

    def from_words(self, words):
        """Packs sentences of words, for tagging.

        Args:
            words: ragged strings `(batch, words)`, or a list of lists of words.

        Returns:
            The model inputs, and ragged int32 `(batch, words)`: the position of each word's first token, -1 if it has
            none or was truncated.
        """
        words = _to_words(words)
        pieces = words.with_values(self.tokenizer.of_words(words.values))
        sentences = pieces.merge_dims(1, 2)
        row = words.value_rowids()
        starts = pieces.values.row_starts() - tf.gather(sentences.row_starts(), row)
        views = self.packing.views(sentences.row_lengths())
        index = views.index_of(tf.cast(row, tf.int32), tf.cast(starts, tf.int32))
        is_seen = (pieces.values.row_lengths() > 0) & (index >= 0)
        positions = tf.where(is_seen, index + 1, -1)  # Behind [CLS].
        return self.packing.pack(sentences), words.with_values(positions)

    def decode(self, ids):
        """Converts ids to text without `[CLS]`, `[SEP]` and `[PAD]`: a string for one sequence, a list for a batch."""
        if isinstance(ids, list | tuple):
            ids = tf.ragged.constant(ids)  # Rows of any length.
        if isinstance(ids, tf.RaggedTensor):
            rows = ids.to_list()
        else:
            rows = keras.ops.convert_to_numpy(ids).tolist()
        if rows and isinstance(rows[0], list):
            return [self.decode(row) for row in rows]
        return self._text_of(rows)

    def _text_of(self, ids):
        """Returns the text of a list of ids."""
        for index in ids:
            if type(index) is not int or not 0 <= index < len(self.vocabulary):
                raise ValueError(
                    f"`ids` must be integers from 0 to {len(self.vocabulary) - 1}, the ids of the vocabulary. "
                    f"Received: {index!r} among them"
                )
        left_out = self.vocabulary.ids(["[PAD]", "[CLS]", "[SEP]"])
        pieces = [self.vocabulary.pieces[index] for index in ids if index not in left_out]
        return self.vocabulary.text(pieces)

    def compute_output_spec(self, inputs):
        length = self.sequence_length if self.padding == "fixed" else None
        shape = (*inputs["text"].shape, length)
        names = ("token_ids", "segment_ids", "padding_mask")
        return {name: keras.KerasTensor(shape, "int32", name=name) for name in names}

    def get_config(self):
        return {
            **super().get_config(),
            "vocabulary": self.vocabulary.get_config(),
            "sequence_length": self.sequence_length,
            "lowercase": self.lowercase,
            "strip_accents": self.strip_accents,
            "keep_special_tokens": list(self.tokenizer.keep_special_tokens),
            "truncation": self.truncation,
            "padding": self.padding,
            "long_texts": self.long_texts,
            "overlap": self.overlap,
            "max_windows": self.max_windows,
        }


def _unflatten(ids, text):
    """Reshapes `(strings, length)` to the shape of the strings plus one axis."""
    reshaped = tf.reshape(ids, tf.concat([tf.shape(text), tf.shape(ids)[1:]], 0))
    if text.shape.rank is None:
        return reshaped
    return tf.ensure_shape(reshaped, [*text.shape, ids.shape[-1]])


def as_strings(inputs):
    """Converts any supported inputs to a dict of string tensors."""
    if isinstance(inputs, tuple):
        if len(inputs) != 2:
            raise ValueError(
                f"a tuple must have two parts, the texts and their pairs. Received: a tuple of {len(inputs)}"
            )
        inputs = {"text": inputs[0], "pair": inputs[1]}
    if not isinstance(inputs, dict):
        inputs = {"text": inputs}
    if "text" not in inputs or not set(inputs) <= {"text", "pair"}:
        raise ValueError(f"a dict must have `text`, and `pair` for pairs. Received: keys {sorted(inputs)}")
    strings = {name: _to_strings(value, name) for name, value in inputs.items()}
    if "pair" in strings:
        shape = strings["text"].shape
        pair_shape = strings["pair"].shape
        if not tf.TensorShape(shape).is_compatible_with(pair_shape):
            raise ValueError(
                f"`text` and `pair` must have the same shape. Received: text.shape={shape}, pair.shape={pair_shape}"
            )
    return strings


def _to_strings(value, name):
    """Converts strings to a tensor."""
    if isinstance(value, keras.KerasTensor | tf.Tensor):
        if value.dtype not in ("string", tf.string):
            raise ValueError(f"`{name}` must be strings. Received: dtype={value.dtype}")
        return value
    if isinstance(value, tf.RaggedTensor):
        raise ValueError(f"`{name}` must not be ragged; use `from_words` for words. Received: {name}={value}")
    if isinstance(value, list) and any(isinstance(part, tuple) for part in value):
        raise ValueError(
            f"`{name}` is a list with tuples. Expected a tuple of two lists, the texts and their pairs. "
            f"Received: {value[0]!r} first"
        )
    array = np.asarray(value, dtype=object)
    encoded = []
    for part in array.flat:
        if isinstance(part, str):
            encoded.append(part.encode(errors="surrogatepass"))
        elif isinstance(part, bytes):
            encoded.append(part)
        else:
            raise ValueError(f"`{name}` must be strings, in lists of equal length. Received: {part!r} among them")
    return tf.reshape(tf.constant(encoded, tf.string), array.shape)


def _to_words(words):
    """Converts sentences of words, ragged strings or lists of lists, to a ragged tensor."""
    lists = list | tuple | np.ndarray
    if isinstance(words, lists) and all(isinstance(row, lists) for row in words):
        flat = []
        for row in words:
            flat.extend(row)
        lengths = np.array([len(row) for row in words], np.int64)
        words = tf.RaggedTensor.from_row_lengths(_to_strings(flat, "words"), lengths)
    if not isinstance(words, tf.RaggedTensor) or words.shape.rank != 2 or words.dtype != tf.string:
        raise ValueError(
            "`words` must be ragged strings `(batch, words)`, or lists of lists of them. "
            f"Received: words={words!r:.200}"
        )
    return words

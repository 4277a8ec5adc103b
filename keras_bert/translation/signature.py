"""The translation signatures: text in, the best translations with their scores out."""

import tensorflow as tf

from keras_bert.text.signatures import texts, traced_once
from keras_bert.text.token_counts import READ, TOKENS, with_counts
from keras_bert.translation.decoding import Beam, beam_search

MOST_EXTRA_TOKENS = (
    50  # A translation has at most this many tokens more than its source (Vaswani et al., 2017, section 6.1).
)


class Translator:
    """Translates texts with a `Decoder`.

    `beam` defaults to 4 beams with the paper's length penalty, of which the best `n_best` are returned: `translation`
    `(texts,)`, the best one; `translations` and `scores` `(texts, n_best)`; `truncated` `(texts,)`, whether the end of
    a text was cut off because it is longer than the model's positions; `tokens` and `tokens_read` `(texts,)`, how many
    tokens a text has, with `[END]`, and how many of them the model reads.

    Example:
        translator = Translator(Decoder(model), LosslessTokenizer("vocab.txt"))
        translator(["Ein Hund rennt."])["translation"]
    """

    def __init__(self, decoder, tokenizer, beam=None, n_best=1):
        self.decoder = decoder
        self.tokenizer = tokenizer
        self.beam = beam or Beam()
        self.n_best = n_best
        if not 1 <= n_best <= self.beam.size:
            raise ValueError(
                f"`n_best` must be at least 1 and at most the number of beams, {self.beam.size}. "
                f"Received: n_best={n_best}"
            )
        if decoder.config.vocab_size != len(tokenizer.vocabulary):
            raise ValueError(
                "the model and the vocabulary must have the same number of tokens. "
                f"Received: {decoder.config.vocab_size} and {len(tokenizer.vocabulary)}"
            )
        self._longest = decoder.config.max_position_embeddings
        self._forbidden = tokenizer.vocabulary.ids(["[PAD]", "[UNK]", "[START]"])
        self._searched = traced_once(self._search)

    def __call__(self, texts):
        _, _, counts, targets = self._searched(texts)
        best = targets["ids"][:, : self.n_best]
        translations = tf.ensure_shape(self.decode(best), [None, self.n_best])
        found = {
            "translation": translations[:, 0],
            "translations": translations,
            "scores": targets["scores"][:, : self.n_best],
            "truncated": counts[TOKENS] > counts[READ],
        }
        return with_counts(found, counts)

    def encode(self, texts):
        """Returns padded ids and mask of the sources, `(texts, length)`, and the numbers of tokens, with `[END]`."""
        ids = self.tokenizer(texts)
        tokens = tf.cast(ids.row_lengths() + 1, tf.int32)
        ids = ids[:, : self._longest - 1]
        ids = tf.concat([ids, tf.fill([ids.nrows(), 1], self.tokenizer.end_id)], axis=1)
        counts = {TOKENS: tokens, READ: tf.minimum(tokens, self._longest)}
        return ids.to_tensor(0), tf.ones_like(ids).to_tensor(0), counts

    def decode(self, ids):
        """Returns the texts of generated ids `(texts, n, length)`, -1 after the end."""
        rows, count, length = tf.unstack(tf.shape(ids))
        flat = tf.reshape(ids, [rows * count, length])
        ragged = tf.ragged.boolean_mask(flat, (flat >= 0) & (flat != self.tokenizer.end_id))
        return tf.reshape(self.tokenizer.detokenize(ragged), [rows, count])

    def _search(self, texts):
        """Returns what `encode` returns, and the translations: ids and scores."""
        ids, mask, counts = self.encode(texts)
        lengths = tf.reduce_sum(mask, axis=1)
        found = beam_search(
            self.decoder,
            ids,
            mask,
            max_length=lengths + MOST_EXTRA_TOKENS,
            start_id=self.tokenizer.start_id,
            end_id=self.tokenizer.end_id,
            beam=self.beam,
            forbidden=self._forbidden,
        )
        is_empty = lengths == 1  # An empty text has an empty translation.
        targets = {
            "ids": tf.where(is_empty[:, None, None], -1, found["ids"]),
            "scores": tf.where(is_empty[:, None], 0.0, found["scores"]),
        }
        return ids, mask, counts, targets

    def align(self, texts):
        """Translates texts and shows what each piece of a translation reads.

        Returns `translation`; `source_tokens` `(texts, source length)` and `target_tokens` `(texts, target length)`,
        texts of the pieces, padded with `""`; `attention` `(texts, target length, source length)`; `tokens` and
        `tokens_read`.
        """
        count = tf.shape(texts)[0]
        ids, mask, counts, targets = self._searched(tf.concat([texts, [""]], 0))  # So that there is at least one.
        best = targets["ids"][:, 0]
        written = tf.cast(best >= 0, tf.int32)
        longest = tf.maximum(tf.reduce_max(tf.reduce_sum(written, axis=1)), 1)
        best = tf.maximum(best, 0)[:, :longest]
        written = written[:, :longest]
        starts = tf.fill([tf.shape(best)[0], 1], self.tokenizer.start_id)
        shifted = tf.concat([starts, best[:, :-1]], axis=1)
        attention = self.decoder.cross_attention(ids, mask, shifted, written)
        attention *= tf.cast(written[:, :, None] * mask[:, None], attention.dtype)
        pieces = tf.constant(self.tokenizer.vocabulary.pieces)
        translations = self.decode(tf.where(written > 0, best, -1)[:, None])
        source_tokens = tf.where(mask > 0, tf.gather(pieces, ids), "")
        target_tokens = tf.where(written > 0, tf.gather(pieces, best), "")
        found = {
            "translation": translations[:count, 0],
            "source_tokens": source_tokens[:count],
            "target_tokens": target_tokens[:count],
            "attention": attention[:count],
        }
        return with_counts(found, {name: values[:count] for name, values in counts.items()})


def translator_signatures(decoder, tokenizer, beam=None, n_best=1):
    """Returns the signatures of a translation model by name; for the arguments see `Translator`."""
    translator = Translator(decoder, tokenizer, beam, n_best)

    return {
        "serving_default": texts(lambda inputs: translator(inputs["text"]), "text"),
        "alignment": texts(lambda inputs: translator.align(inputs["text"]), "text"),
    }

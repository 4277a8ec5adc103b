"""The signatures of tokens: words with their tags, entities, replaced pieces, masks; next sentence prediction."""

import tensorflow as tf

from keras_bert.checks import check_count
from keras_bert.heads.class_settings import placeholders
from keras_bert.heads.confidence import OF_SEVERAL, Confidence, checked_confidence
from keras_bert.text.entities import entities, entity_spans
from keras_bert.text.signatures import readable, texts, traced_once
from keras_bert.text.token_counts import READ, TOKENS, with_counts
from keras_bert.text.viewed_texts import ViewedTexts
from keras_bert.text.views import SlidingWindows


def tagger(model, preprocessor, labels, doc_stride=None, confidence=None):
    """Returns the token classification signatures, for texts of any length.

    `serving_default` finds words as BERT does: at white space and punctuation. The words of `words` are those that
    single spaces separate, as in CoNLL's files. A word gets the tag of its first piece. Its score is the probability of
    that tag; the score of an entity is the mean score of its words. Windows start `doc_stride` pieces apart, by default
    half a window. The temperature of `confidence` divides the logits.
    """
    sure = Confidence.of(checked_confidence(confidence, OF_SEVERAL))
    labels = labels or placeholders(model.output["logits"].shape[-1])
    windows = SlidingWindows(doc_stride=doc_stride)
    outside = labels.index("O") if "O" in labels else 0

    @traced_once
    def probabilities_of(pieces):
        logits = _logits_of_pieces(model, preprocessor, pieces, windows)
        return tf.nn.softmax(sure.scaled(logits))

    @traced_once
    def tagged(words):
        text, starts, ends, probabilities = words
        return _tagged(text, starts, ends, probabilities, labels)

    def answer(inputs):
        """Tags the words that BERT finds."""
        text = inputs["text"]
        ids, starts, ends = preprocessor.tokenizer.with_offsets(text)
        probabilities = probabilities_of(ids)
        is_first = preprocessor.tokenizer.word_starts(ids)
        word_starts, word_ends = preprocessor.tokenizer.word_places(ids, starts, ends)
        words = tagged((text, word_starts, word_ends, tf.boolean_mask(probabilities, is_first)))
        return with_counts(words, _all_read(preprocessor, ids))

    def answer_words(inputs):
        """Tags the words between spaces; those without pieces are outside of entities."""
        text = inputs["text"]
        words = tf.strings.split(text, " ")
        pieces = words.with_values(preprocessor.tokenizer.of_words(words.values))
        ids = pieces.merge_dims(1, 2)
        of_pieces = probabilities_of(ids)
        sizes = pieces.values.row_lengths()
        of_nothing = tf.one_hot([outside], len(labels))
        first = tf.where(sizes > 0, tf.cumsum(sizes, exclusive=True), tf.reduce_sum(sizes))
        of_words = tf.gather(tf.concat([of_pieces, of_nothing], 0), first)
        starts, ends = _places_between_spaces(words)
        return with_counts(tagged((text, starts, ends, of_words)), _all_read(preprocessor, ids))

    return {"serving_default": texts(answer, "text"), "words": texts(answer_words, "text")}


def _places_between_spaces(words):
    """Returns the byte offsets at which the words of texts start and end, given those between all single spaces."""
    lengths = words.with_values(tf.strings.length(words.values) + 1)  # Each with the space after it.
    texts_before = tf.cumsum(tf.reduce_sum(lengths, 1), exclusive=True)
    after_space = tf.cumsum(lengths.values) - tf.gather(texts_before, lengths.value_rowids())
    return words.with_values(after_space - lengths.values), words.with_values(after_space - 1)


def _tagged(text, starts, ends, probabilities, labels):
    """Returns the outputs of a signature, given the byte offsets of the words and the probabilities of their tags."""
    tags = starts.with_values(tf.argmax(probabilities, -1, tf.int32))
    scores = starts.with_values(tf.reduce_max(probabilities, -1))
    word_spans = entities(tags, labels)
    entity_starts, entity_ends = entity_spans(word_spans, starts, ends)
    return {
        "tokens": slices(text, starts, ends),
        "tags": tags.with_values(tf.gather(tf.constant(labels), tags.values)).to_tensor(""),
        "scores": scores.to_tensor(0.0),
        "starts": dense_offsets(starts),
        "ends": dense_offsets(ends),
        "token_count": tf.cast(starts.row_lengths(), tf.int32),
        "entities": slices(text, entity_starts, entity_ends),
        "entity_types": word_spans.type.to_tensor(""),
        "entity_starts": dense_offsets(entity_starts),
        "entity_ends": dense_offsets(entity_ends),
        "entity_scores": mean_scores(scores, word_spans).to_tensor(0.0),
        "entity_count": tf.cast(word_spans.start.row_lengths(), tf.int32),
    }


def _all_read(preprocessor, ids):
    """Returns the numbers of tokens of texts that are read as a whole, in windows; `ids` are those of their pieces."""
    tokens = preprocessor.packing.token_counts(ids)[TOKENS]
    return {TOKENS: tokens, READ: tokens}


def _logits_of_pieces(model, preprocessor, ids, windows):
    """Returns the logits of all pieces, `(pieces, ...)`, each from the window where it has the most context."""
    viewed = ViewedTexts(preprocessor, windows, ids)
    return viewed.of_tokens(viewed.outputs(model)["logits"])


def slices(text, starts, ends):
    """Returns the substrings of each text, padded."""
    of_each = tf.gather(text, starts.value_rowids())
    substrings = tf.strings.substr(of_each, starts.values, ends.values - starts.values)
    return starts.with_values(readable(substrings)).to_tensor("")


def dense_offsets(offsets):
    """Returns byte offsets, padded."""
    return tf.cast(offsets, tf.int32).to_tensor(-1)


def mean_scores(scores, word_spans):
    """Returns the mean score of the words of each entity."""
    # In double precision: the cumulative sum runs over all words of a request.
    sums = tf.cumsum(tf.pad(tf.cast(scores.values, tf.float64), [[1, 0]]))
    first_word = tf.cast(tf.gather(scores.row_starts(), word_spans.start.value_rowids()), tf.int32)
    start = first_word + word_spans.start.values
    end = first_word + word_spans.end.values
    means = (tf.gather(sums, end) - tf.gather(sums, start)) / tf.cast(end - start, tf.float64)
    return word_spans.start.with_values(tf.cast(means, tf.float32))


def replaced_token_detector(model, preprocessor, doc_stride=None):
    """Returns the replaced token detection signature: the pieces of texts of any length, with their probabilities.

    Windows start `doc_stride` pieces apart, by default half a window.
    """
    windows = SlidingWindows(doc_stride=doc_stride)

    def answer(inputs):
        text = inputs["text"]
        ids, starts, ends = preprocessor.tokenizer.with_offsets(text)
        logits = _logits_of_pieces(model, preprocessor, ids, windows)
        scores = ids.with_values(tf.sigmoid(logits)).to_tensor(0.0)
        pieces = {
            "tokens": slices(text, starts, ends),
            "replaced": scores > 0.5,
            "scores": scores,
            "starts": dense_offsets(starts),
            "ends": dense_offsets(ends),
            "token_count": tf.cast(ids.row_lengths(), tf.int32),
        }
        return with_counts(pieces, _all_read(preprocessor, ids))

    return {"serving_default": texts(answer, "text")}


def mask_filler(model, preprocessor, n_best=5):
    """Returns the signatures of a pre-trained model: `n_best` tokens for each [MASK], and next sentence prediction.

    The preprocessor must keep [MASK] intact.
    """
    check_count("n_best", n_best)
    n_best = min(n_best, len(preprocessor.vocabulary))
    pieces = tf.constant(preprocessor.vocabulary.shown_pieces)
    mask = preprocessor.vocabulary.id("[MASK]")

    def fill(texts_to_fill):
        inputs, counts = preprocessor.counted(texts_to_fill)
        masked = inputs["token_ids"] == mask
        count = tf.reduce_sum(tf.cast(masked, tf.int32), 1)
        width = tf.reduce_max(tf.pad(count, [[0, 1]]))
        order = tf.argsort(tf.cast(masked, tf.int32), direction="DESCENDING", stable=True)
        places = order[:, :width]  # The masks come first.
        inputs["mask_positions"] = places
        logits = model(inputs, training=False)["mlm_logits"]
        if logits.shape[-1] > len(pieces):  # A table with spare rows, which are no tokens.
            logits = logits[..., : len(pieces)]
        probabilities, ids = tf.math.top_k(tf.nn.softmax(logits), n_best)
        is_mask = tf.sequence_mask(count, width)[..., None]
        # `heads/answers.py` reads these: `fills` makes the answer, `BUILT_IN_OUTPUTS` has every name. What an answer
        # has more than before also stands in `heads/answer_forms.py`; a SavedModel of an earlier version lacks it.
        fills = {
            "tokens": tf.where(is_mask, tf.gather(pieces, ids), ""),
            "probabilities": tf.where(is_mask, probabilities, 0.0),
            "mask_count": count,
        }
        return with_counts(fills, counts)

    signatures = {"serving_default": texts(fill, "text")}
    if "nsp_logits" in model.output:
        signatures["next_sentence"] = follower(model, preprocessor)["serving_default"]
    return signatures


def follower(model, preprocessor):
    """Returns the next sentence prediction signature: `text`, `pair` -> `probability`."""

    def answer(pairs):
        inputs, counts = preprocessor.counted(pairs)
        if "mask_positions" in model.input:
            inputs["mask_positions"] = tf.zeros([tf.shape(inputs["token_ids"])[0], 0], tf.int32)
        follows = tf.nn.softmax(model(inputs, training=False)["nsp_logits"])[:, 0]
        return with_counts({"probability": follows}, counts)

    return {"serving_default": texts(answer, "text", "pair")}

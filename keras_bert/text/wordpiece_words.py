"""Words that are added to a WordPiece vocabulary: how the tokenizer writes them, and their pieces before."""

import tensorflow as tf

from keras_bert.text.graph_steps import PreTokenizer, sequence_normalizer
from keras_bert.text.normalization import replace_final_sigma
from keras_bert.text.pieces import CONTINUATION, is_special
from keras_bert.text.tokenizer import NewPieces


def new_pieces(vocabulary, words, lowercase):
    """Returns the `NewPieces` of words. They may also be pieces that continue a word, such as "##itis"."""
    new = {}
    for piece, word in _words_by_piece(words, vocabulary, lowercase).items():
        if piece not in vocabulary:
            new[piece] = word
    ids = {piece: index for index, piece in enumerate(vocabulary.wordpieces)}
    return NewPieces(
        before={piece: _ids_before(piece, ids) for piece in new},
        words={piece: word for piece, word in new.items() if not piece.startswith(CONTINUATION)},
        added_tokens=[],
    )


def _words_by_piece(words, vocabulary, lowercase):
    """Returns a dict of the words by the pieces that they become."""
    texts = [word.removeprefix(CONTINUATION) for word in words]
    pieces = {}
    for word, split in zip(words, _normalized_words(texts, vocabulary, lowercase), strict=True):
        piece = _piece(word, split, vocabulary)
        if piece in pieces:
            raise ValueError(f"`words` must differ. Received: {pieces[piece]!r} and {word!r}, both {piece!r} in texts")
        pieces[piece] = word
    return pieces


def _normalized_words(strings, vocabulary, lowercase):
    """Returns for each string the list of its normalized words."""
    texts = tf.constant(strings, tf.string)
    if lowercase and not vocabulary.has_steps:
        texts = replace_final_sigma(texts)
    splitter = PreTokenizer(vocabulary.pre_tokenizer or {"type": "BertPreTokenizer"})
    normalizer = vocabulary.algorithm.json_normalizer(vocabulary, lowercase)
    parts = splitter(sequence_normalizer(normalizer).normalize(texts))
    rows = tf.RaggedTensor.from_row_splits(parts.rest, parts.row_splits).to_list()
    normalized = []
    for row in rows:
        normalized.append([word.decode() for word in row])
    return normalized


def _piece(word, split, vocabulary):
    """Returns the piece that keeps a word whole; raises if there is none."""
    if is_special(word):
        raise ValueError(f"`words` must be words of texts, not special tokens. Received: {word!r}")
    if len(split) != 1:
        received = "no word"
        if split:
            received = f"the words {' '.join(map(repr, split))}; add these alone"
        raise ValueError(f"`words` must be single words, as the tokenizer splits texts. Received: {word!r}, {received}")
    normalized = split[0]
    if len(normalized) > vocabulary.max_word_length:
        raise ValueError(
            f"`words` must have at most {vocabulary.max_word_length} characters; longer ones are [UNK]. "
            f"Received: {word[:20]!r}... of {len(normalized)}"
        )
    if word.startswith(CONTINUATION):
        return CONTINUATION + normalized
    return normalized


def _ids_before(piece, ids):
    """Splits a piece into others as the tokenizer does, the longest match first; `ids` are those of all pieces."""
    prefix = CONTINUATION if piece.startswith(CONTINUATION) else ""
    rest = piece.removeprefix(CONTINUATION)
    split = []
    while rest:
        size = _longest_match(prefix, rest, ids)
        if size == 0:
            return [ids["[UNK]"]]
        split.append(ids[prefix + rest[:size]])
        rest = rest[size:]
        prefix = CONTINUATION  # All but the first one continue the word.
    return split


def _longest_match(prefix, string, ids):
    """Returns the number of characters at the start of a string that are a piece with a prefix, 0 for none."""
    for size in range(len(string), 0, -1):
        if prefix + string[:size] in ids:
            return size
    return 0

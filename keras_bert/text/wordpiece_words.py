"""Words that are added to a WordPiece vocabulary: how the tokenizer writes them, and their pieces before."""

import tensorflow as tf

from keras_bert.text.graph_steps import PreTokenizer, sequence_normalizer
from keras_bert.text.normalization import replace_final_sigma
from keras_bert.text.pieces import CONTINUATION, is_special
from keras_bert.text.tokenizer import NewPieces


def new_pieces(vocabulary, words, lowercase):
    """Returns the `NewPieces` of words. They may also be pieces that continue a word, such as "##itis"."""
    pieces = {piece: word for piece, word in _pieces(words, vocabulary, lowercase).items() if piece not in vocabulary}
    ids = {piece: index for index, piece in enumerate(vocabulary.wordpieces)}
    return NewPieces(
        before={piece: _ids_before(piece, ids) for piece in pieces},
        words={piece: word for piece, word in pieces.items() if not piece.startswith(CONTINUATION)},
        added_tokens=[],
    )


def _pieces(words, vocabulary, lowercase):
    """Returns a dict of the words by the pieces that they become."""
    splits, pieces = _split([word.removeprefix(CONTINUATION) for word in words], vocabulary, lowercase), {}
    for word, split in zip(words, splits, strict=True):
        piece = _piece(word, split, vocabulary)
        if piece in pieces:
            raise ValueError(f"`words` must differ. Received: {pieces[piece]!r} and {word!r}, both {piece!r} in texts")
        pieces[piece] = word
    return pieces


def _split(texts, vocabulary, lowercase):
    """Returns for each string the list of its normalized words."""
    texts = tf.constant(texts, tf.string)
    texts = replace_final_sigma(texts) if lowercase and not vocabulary.has_steps else texts
    splitter = PreTokenizer(vocabulary.pre_tokenizer or {"type": "BertPreTokenizer"})
    normalizer = vocabulary.algorithm.json_normalizer(vocabulary, lowercase)
    parts = splitter(sequence_normalizer(normalizer).normalize(texts))
    rows = tf.RaggedTensor.from_row_splits(parts.rest, parts.row_splits).to_list()
    return [[word.decode() for word in row] for row in rows]


def _piece(word, split, vocabulary):
    """Returns the piece that keeps a word whole; raises if there is none."""
    if is_special(word):
        raise ValueError(f"`words` must be words of texts, not special tokens. Received: {word!r}")
    if len(split) != 1:
        received = f"the words {' '.join(map(repr, split))}; add these alone" if split else "no word"
        raise ValueError(f"`words` must be single words, as the tokenizer splits texts. Received: {word!r}, {received}")
    if len(split[0]) > vocabulary.max_word_length:
        raise ValueError(
            f"`words` must have at most {vocabulary.max_word_length} characters; longer ones are [UNK]. "
            f"Received: {word[:20]!r}... of {len(split[0])}"
        )
    return CONTINUATION * word.startswith(CONTINUATION) + split[0]


def _ids_before(piece, ids):
    """Splits a piece into others as the tokenizer does, the longest match first; `ids` are those of all pieces."""
    prefix, rest, found = CONTINUATION * piece.startswith(CONTINUATION), piece.removeprefix(CONTINUATION), []
    while rest:
        end = next((end for end in range(len(rest), 0, -1) if prefix + rest[:end] in ids), None)
        if end is None:
            return [ids["[UNK]"]]
        found.append(ids[prefix + rest[:end]])
        prefix, rest = CONTINUATION, rest[end:]
    return found

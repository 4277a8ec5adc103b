"""WordPiece vocabularies with further pieces. Does not use TensorFlow."""

import re

from keras_bert.text.vocabulary import Vocabulary

_UNUSED = re.compile(r"\[unused\d+\]")


def check_extendable(vocabulary):
    """Raises unless pieces can be added."""
    if vocabulary.unigram is not None:
        raise ValueError(
            f"{vocabulary.source}: pieces are added to WordPiece vocabularies. Received: a Unigram model of "
            "SentencePiece"
        )


def unused_ids(vocabulary):
    """Returns the ids of the pieces `[unused1]`, ..., but for added tokens."""
    added = {token.content for token in vocabulary.added_tokens}
    return vocabulary.ids(piece for piece in vocabulary.pieces if _UNUSED.fullmatch(piece) and piece not in added)


def extend(vocabulary, pieces):
    """Returns a vocabulary with more pieces, in the place of unused ones first, then at the end."""
    settings, unused = vocabulary.get_config(), unused_ids(vocabulary)[: len(pieces)]
    replaced = dict(zip(unused, pieces, strict=False))
    kept = [replaced.get(index, piece) for index, piece in enumerate(vocabulary.pieces)]
    settings = settings if isinstance(settings, dict) else {}
    return Vocabulary({**settings, "pieces": [*kept, *pieces[len(unused) :]]})

"""Unigram's vocabularies: SentencePiece's `.model`, `tokenizer.json`, and transformers' classes that have them."""

from keras_bert.text import sentencepiece_model
from keras_bert.text.algorithm import Algorithm
from keras_bert.text.pieces import WORD_START, check_string
from keras_bert.text.tokenizer_json import (
    added_token,
    check_added_ids,
    check_ids,
    no_piece,
    read_template,
    refused_processor,
    template_values,
)
from keras_bert.text.tokenizer_steps import changes_case, unigram_steps

_TEMPLATES = (
    "the sequences [CLS] A [SEP] and [CLS] A [SEP] B [SEP], or [SEP] [SEP] between A and B, with the ids of the "
    "vocabulary"
)


class Unigram(Algorithm):
    """Unigram of SentencePiece: each piece has a probability, and the most probable pieces of a word are taken.

    `Vocabulary.unigram` has `scores`.
    """

    name = "Unigram"
    described = "a Unigram model of SentencePiece"
    json_type = "Unigram"
    option = "unigram"
    files = ("sentencepiece.bpe.model", "spiece.model")
    classes = frozenset({"XLMRoberta", "Camembert"})  # Without segments.
    class_of_model = (("xlm-roberta", "XLMRobertaTokenizer"), ("camembert", "CamembertTokenizer"))

    def read_json(self, path, content, bert_defaults):
        model = content["model"]
        own_pieces, scores = _scored_pieces(path, model.get("vocab"))
        if model.get("byte_fallback"):
            raise ValueError(f"{path}: expected model.byte_fallback=false. Received: model.byte_fallback=true")
        try:
            unigram_steps(content.get("normalizer"), content.get("pre_tokenizer"))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        unknown = model.get("unk_id")
        if type(unknown) is not int or not 0 <= unknown < len(own_pieces):
            raise ValueError(f"{path}: expected the id of a piece. Received: model.unk_id={unknown!r}")
        added = content.get("added_tokens") or []
        further = _further_pieces(path, own_pieces, added)
        pieces = own_pieces + further
        processor = content.get("post_processor")
        template = read_template(processor, {piece: index for index, piece in enumerate(pieces)})
        if template is None:
            raise refused_processor(path, _TEMPLATES, processor)
        known = set(own_pieces)
        values = {
            "pieces": pieces,
            "unigram": {"scores": scores + [0.0] * len(further)},
            "added_tokens": [added_token(token, known) for token in added],
            "normalizer": content["normalizer"],
            "pre_tokenizer": content["pre_tokenizer"],
            "lowercase": changes_case(content["normalizer"]),
        }
        values.update(template_values(template, pieces, unknown=pieces[unknown]))
        return values

    def read_file(self, path, class_name):
        content = sentencepiece_model.to_tokenizer_json(path, class_name)
        return self.read_json(path, content, bert_defaults=False)

    def complete(self, values, config):
        special = config.special_tokens(values)
        config.check(special)
        pieces, tokens = config.with_added_tokens(values["pieces"], values["added_tokens"])
        further = len(pieces) - len(values["pieces"])
        completed = dict(values)
        completed["pieces"] = pieces
        completed["added_tokens"] = tokens
        completed["special_tokens"] = special
        completed["unigram"] = {"scores": values["unigram"]["scores"] + [0.0] * further}
        # The file knows as well whether pairs have segments.
        has_segments = config.has_segments(config.class_name not in self.classes)
        completed["pair_segments"] = values["pair_segments"] and has_segments
        return completed

    def json_model(self, vocabulary, lowercase):
        scores = vocabulary.unigram["scores"]
        vocab = [list(pair) for pair in zip(vocabulary.pieces, scores, strict=True)]
        beside = self.tokens_beside_pieces(vocabulary)
        while vocab[-1][0] in beside:  # Those after the pieces.
            vocab.pop()
        return {
            "decoder": {"type": "Metaspace", "replacement": WORD_START, "prepend_scheme": "always", "split": True},
            "model": {"type": "Unigram", "unk_id": vocabulary.id("[UNK]"), "vocab": vocab, "byte_fallback": False},
        }

    def check_pieces(self, vocabulary):
        sentencepiece_model.check(vocabulary)
        for index, piece in enumerate(vocabulary.pieces):
            check_string(piece, index, vocabulary.source)

    def is_continuation(self, vocabulary):
        """Returns by id whether a piece has no "▁" at its start.

        An unknown character continues a word too, unless "▁" is no piece: it is then part of the unknown string.
        """
        whole = {token.content for token in vocabulary.added_tokens}
        whole.update(vocabulary.special_tokens.values())
        if WORD_START in vocabulary:
            whole.discard(vocabulary.special_tokens.get("[UNK]", "[UNK]"))
        pieces = vocabulary.pieces
        return [not piece.startswith(WORD_START) and piece not in whole for piece in pieces]

    def text(self, vocabulary, pieces):
        return "".join(pieces).replace(WORD_START, " ").strip()

    def tokenizer_class(self):
        from keras_bert.text.unigram_tokenizer import UnigramTokenizer

        return UnigramTokenizer


def _scored_pieces(path, entries):
    """Returns the pieces and their scores, two lists."""
    if not isinstance(entries, list) or not all(_is_scored_piece(entry) for entry in entries):
        raise ValueError(f"{path}: `model.vocab` of a Unigram must be a list of pairs: pieces and scores")
    pieces = [piece for piece, _ in entries]
    scores = [float(score) for _, score in entries]
    return pieces, scores


def _is_scored_piece(entry):
    """Returns whether an entry of `model.vocab` is a pair of a piece and its score."""
    if not isinstance(entry, list) or len(entry) != 2:
        return False
    piece, score = entry
    return isinstance(piece, str) and type(score) in (int, float)


def _further_pieces(path, pieces, added):
    """Returns the added tokens after the pieces, in the order of their ids, with placeholders between them."""
    tokens = {token["content"]: token["id"] for token in added}
    check_added_ids(path, {piece: index for index, piece in enumerate(pieces)}, tokens)
    places = {index: token for token, index in tokens.items()}
    check_ids(path, dict(enumerate(pieces)) | places)
    last = max(places, default=0)
    return [places.get(index, no_piece(index)) for index in range(len(pieces), last + 1)]

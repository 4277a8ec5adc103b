"""Hugging Face's `tokenizer.json` of a Unigram vocabulary: SentencePiece's. Does not use TensorFlow."""

import json

from keras_bert.text import added_tokens
from keras_bert.text.added_tokens import added_token, check_added_ids, check_ids, entry, no_piece
from keras_bert.text.tokenizer_steps import changes_case, unigram_steps

# Of tokens that no template has, as the files of transformers and of SentencePiece call them.
_NAMES = {"[PAD]": ("<pad>", "[PAD]"), "[MASK]": ("<mask>", "[MASK]")}


def read(path, content):
    """Returns the arguments of `Vocabulary` from the parsed content of the file."""
    model, added = content["model"], content.get("added_tokens") or []
    pieces, scores = _pieces(path, model.get("vocab"))
    if model.get("byte_fallback"):
        raise ValueError(f"{path}: expected model.byte_fallback=false. Received: model.byte_fallback=true")
    try:
        unigram_steps(content.get("normalizer"), content.get("pre_tokenizer"))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    unknown = model.get("unk_id")
    if type(unknown) is not int or not 0 <= unknown < len(pieces):
        raise ValueError(f"{path}: expected the id of a piece. Received: model.unk_id={unknown!r}")
    known = set(pieces)
    _append(path, pieces, scores, {token["content"]: token["id"] for token in added})
    start, end, separators, segments = _template(path, content.get("post_processor"), pieces)
    named = {"[UNK]": pieces[unknown], "[CLS]": start, "[SEP]": end}
    for role, names in _NAMES.items():
        named[role] = next((name for name in names if name in pieces), role)
    return {
        "pieces": pieces,
        "unigram": {
            "scores": scores,
            "special_tokens": {role: name for role, name in named.items() if role != name},
            "pair_separators": separators,
        },
        "added_tokens": [added_token(token, known) for token in added],
        "normalizer": content["normalizer"],
        "pre_tokenizer": content["pre_tokenizer"],
        "pair_segments": segments,
        "lowercase": changes_case(content["normalizer"]),
    }


def _pieces(path, entries):
    """Returns the pieces and their scores, two lists."""
    if not isinstance(entries, list) or not all(isinstance(each, list) and len(each) == 2 for each in entries):
        raise ValueError(f"{path}: `model.vocab` of a Unigram must be a list of pairs: pieces and scores")
    pieces, scores = ([each[place] for each in entries] for place in (0, 1))
    if not all(isinstance(piece, str) for piece in pieces) or not all(type(score) in (int, float) for score in scores):
        raise ValueError(f"{path}: `model.vocab` of a Unigram must be a list of pairs: pieces and scores")
    return pieces, list(map(float, scores))


def _append(path, pieces, scores, added):
    """Appends the added tokens that are not among the pieces."""
    check_added_ids(path, {piece: index for index, piece in enumerate(pieces)}, added)
    places = {index: content for content, index in added.items()}
    check_ids(path, dict(enumerate(pieces)) | places)
    for index in range(len(pieces), max(places, default=0) + 1):
        pieces.append(places.get(index, no_piece(index)))
        scores.append(0.0)


def _template(path, processor, pieces):
    """Returns the tokens at both ends, the number of those between two texts, and whether pairs have segments."""
    processor = processor or {}
    if processor.get("type") in ("RobertaProcessing", "BertProcessing"):
        is_roberta = processor["type"] == "RobertaProcessing"
        template = processor["cls"][0], processor["sep"][0], 1 + is_roberta, not is_roberta
        ids = dict(map(tuple, (processor["cls"], processor["sep"])))
    else:
        single, pair = (added_tokens.template_parts(processor.get(name) or []) for name in ("single", "pair"))
        names = [name for name, _ in single]
        variants = (
            [(names[0], names[-1], count, segments) for count in (1, 2) for segments in (False, True)] if names else []
        )
        template = next(
            (each for each in variants if (single, pair) == (_sequence(each, False), _sequence(each, True))), None
        )
        ids = {
            name: (values.get("ids") or [None])[0] for name, values in (processor.get("special_tokens") or {}).items()
        }
    ends = template[:2] if template else ()
    if not template or any(name not in pieces or ids.get(name) != pieces.index(name) for name in ends):
        raise ValueError(
            f"{path}: expected the sequences [CLS] A [SEP] and [CLS] A [SEP] B [SEP], or [SEP] [SEP] between A and B, "
            f"with the ids of the vocabulary. Received: post_processor={json.dumps(processor or None):.300}"
        )
    return template


def _sequence(template, is_pair):
    """Returns names and segment ids of the parts of a single text or of a pair."""
    start, end, separators, segments = template
    single = [(start, 0), ("A", 0), (end, 0)]
    between = [(end, int(segments))] * (separators - 1)
    return [*single, *between, ("B", int(segments)), (end, int(segments))] if is_pair else single


def to_json(vocabulary):
    """Returns the content of the file of a Unigram `Vocabulary`, a string."""
    start, end, unknown = (vocabulary.pieces[vocabulary.id(name)] for name in ("[CLS]", "[SEP]", "[UNK]"))
    template = start, end, vocabulary.pair_separators, vocabulary.pair_segments
    added = sorted((vocabulary.id(token.content), token) for token in vocabulary.added_tokens)
    values = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [entry(index, token) for index, token in added],
        "normalizer": vocabulary.normalizer,
        "pre_tokenizer": vocabulary.pre_tokenizer,
        "post_processor": {
            "type": "TemplateProcessing",
            **{name: added_tokens.template(_sequence(template, name == "pair")) for name in ("single", "pair")},
            "special_tokens": {
                name: {"id": name, "ids": [vocabulary.id(name)], "tokens": [name]} for name in (start, end)
            },
        },
        "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        "model": {
            "type": "Unigram",
            "unk_id": vocabulary.id(unknown),
            "vocab": _without_added(zip(vocabulary.pieces, vocabulary.unigram["scores"], strict=True), added),
            "byte_fallback": False,
        },
    }
    return json.dumps(values, indent=1, ensure_ascii=False) + "\n"


def _without_added(vocab, added):
    """Returns the pieces and their scores without the tokens after them, which are no parts of words."""
    vocab, hidden = list(map(list, vocab)), {token.content for _, token in added if not token.wordpiece}
    while vocab[-1][0] in hidden:
        vocab.pop()
    return vocab

"""Small vocabularies of byte-level BPE."""

from keras_bert import AddedToken, Vocabulary
from keras_bert.text.byte_characters import CHARACTERS

NAMES = {"[CLS]": "<s>", "[PAD]": "<pad>", "[SEP]": "</s>", "[UNK]": "<unk>", "[MASK]": "<mask>"}
MERGES = ["Ġ t", "h e", "Ġt he", "Ġ a", "i n", "in g", "Ġ Ġ", "o n", "Ġ w", "Ġw on", "Ã ©", "c a", "f Ã©", "Ġ ca"]
SPECIAL = [AddedToken(name, normalized=False, special=True) for name in ("<s>", "<pad>", "</s>", "<unk>")]
MASK = AddedToken("<mask>", normalized=False, special=True, lstrip=True)


def vocabulary(merges=MERGES, further=(), **settings):
    """Returns a vocabulary of bytes, merges and special tokens as RoBERTa has them."""
    made = [line.replace(" ", "") for line in merges]
    pieces = list(dict.fromkeys([*NAMES.values(), *CHARACTERS, *made, *further]))
    values = {
        "merges": list(merges),
        "special_tokens": NAMES,
        "pair_separators": 2,
        "pair_segments": False,
        "trim_offsets": True,
        "added_tokens": [*SPECIAL, MASK],
    }
    return Vocabulary(pieces, **(values | settings))


def pieces_of(tokenizer, ids):
    """Returns the pieces of the ids of a text."""
    return [tokenizer.vocabulary.pieces[index] for index in ids]


def pieces_of_texts(tokenizer, texts):
    """Returns the pieces of texts, a list for each."""
    return [pieces_of(tokenizer, ids) for ids in tokenizer(texts).to_list()]

"""The rules of Google's tokenization.py in plain Python, and a small vocabulary."""

import unicodedata

from keras_bert.text.wordpiece_tokenizer import WordSplitter

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = [*SPECIAL, "a", "##a", "b", "##b", "!", "[", "]", "mask", "σ", "##σ", "ς", "##ς", "한", "中", "##가"]
CHINESE = [
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
]
LONGEST_WORD = 200


def is_chinese(char):
    code = ord(char)
    return any(first <= code <= last for first, last in CHINESE)


def is_punctuation(char):
    return char in "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~" or unicodedata.category(char)[0] == "P"


def cleaned(string):
    """Returns a text with a space for each white space and around Chinese characters, without control characters."""
    clean = ""
    for char in string:
        category = unicodedata.category(char)
        if char in " \t\n\r" or category == "Zs":
            clean += " "
        elif char not in "\0\ufffd" and category not in ("Cc", "Cf"):
            clean += spaced(char, is_chinese)
    return clean


def spaced(char, is_word):
    """Returns a character, with spaces around it if it is a word of its own."""
    if is_word(char):
        return f" {char} "
    return char


def without_accents(word):
    kept = ""
    for char in unicodedata.normalize("NFD", word):
        if unicodedata.category(char) != "Mn":
            kept += char
    return kept


def words_of(string, lowercase):
    """Splits a text into words by the rules of Google's tokenization.py."""
    words = []
    for word in cleaned(string).split():
        if lowercase:
            word = without_accents(word.lower())
        parts = ""
        for char in word:
            parts += spaced(char, is_punctuation)
        words += parts.split()
    return words


def longest_piece(word, start, vocabulary):
    """Returns the longest piece of a word from a place on, and where it ends; `None` if there is none."""
    prefix = "##" if start else ""
    for end in range(len(word), start, -1):
        piece = prefix + word[start:end]
        if piece in vocabulary:
            return piece, end
    return None


def pieces_of(word, vocabulary):
    """Greedy longest-match-first WordPiece."""
    pieces = []
    start = 0
    while start < len(word) <= LONGEST_WORD:
        found = longest_piece(word, start, vocabulary)
        if found is None:
            return ["[UNK]"]
        piece, start = found
        pieces.append(piece)
    return pieces or ["[UNK]"]


def ids_of(string, vocabulary, lowercase):
    pieces = []
    for word in words_of(string, lowercase):
        pieces += pieces_of(word, vocabulary)
    return vocabulary.ids(pieces)


def names(ids, pieces=PIECES):
    """Returns the pieces of ragged ids, a list for each text."""
    found = []
    for row in ids.to_list():
        found.append([pieces[index] for index in row])
    return found


def split(strings, *settings):
    """Returns the words of a `WordSplitter` as strings."""
    found = []
    for row in WordSplitter(*settings)(strings).to_list():
        found.append([word.decode() for word in row])
    return found


def listed(tensors):
    """Returns tensors, such as ids, starts and ends, as lists."""
    return [tensor.numpy().tolist() for tensor in tensors]


def listed_rows(ragged):
    """Returns ragged tensors as lists of lists."""
    return [tensor.to_list() for tensor in ragged]


def surfaces_of(text, starts, ends):
    """Returns the parts of a text between byte offsets."""
    content = text.encode()
    return [content[start:end].decode() for start, end in zip(starts, ends, strict=True)]

"""Reads the file of a vocabulary, `vocab.txt` or `tokenizer.json`. Does not use TensorFlow."""

from keras_bert.text import tokenizer_json


def read(path):
    """Returns a dict of arguments of `Vocabulary`."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such vocabulary file")
    content = path.read_bytes()
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path}:{line}: a vocabulary must be UTF-8. Received: {error.object[error.start :][:8]!r}"
        ) from None
    if path.suffix == ".json":
        return tokenizer_json.read(path, text)
    # Not splitlines(): the multilingual vocabulary contains pieces such as U+2028.
    pieces = [line.strip(" \t\r") for line in text.removeprefix("\ufeff").split("\n")]
    while pieces and not pieces[-1]:  # A newline at the end, and blank lines after it.
        pieces.pop()
    if "" in pieces:
        raise ValueError(f"{path}:{pieces.index('') + 1}: the line is empty. Expected one piece per line")
    return {"pieces": pieces}

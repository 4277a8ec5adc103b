"""The list of subword algorithms, and which of them a vocabulary has. No TensorFlow."""

import json

from keras_bert.checks import explaining
from keras_bert.text.algorithm import Algorithm
from keras_bert.text.byte_level_bpe import ByteLevelBPE
from keras_bert.text.pieces import utf8_text
from keras_bert.text.tokenizer_config import SIDE
from keras_bert.text.tokenizer_json import FILE, truncation_side
from keras_bert.text.unigram import Unigram
from keras_bert.text.wordpiece import WordPiece, read_lines

# The first one is that of vocabularies which say nothing else.
ALGORITHMS: list[Algorithm] = [WordPiece(), Unigram(), ByteLevelBPE()]


def algorithm_of(values: dict) -> Algorithm:
    """Returns the algorithm of a vocabulary, given its settings by name."""
    for algorithm in ALGORITHMS:
        if algorithm.option is not None and values.get(algorithm.option) is not None:
            return algorithm
    return ALGORITHMS[0]


def read_folder(config) -> dict:
    """Returns the arguments of `Vocabulary`, and `lowercase`, of a folder: from the file that its `TokenizerConfig`
    names, completed with the settings there."""
    path = config.path
    if path.name == FILE:
        bert_defaults = config.class_name in ALGORITHMS[0].bert_classes
        values = read_json(path, path.read_text(encoding="utf-8"), bert_defaults)
    else:
        algorithm = next(each for each in ALGORITHMS if path.name in each.files)
        values = algorithm.read_file(path, config.class_name)
    if config.settings.get(SIDE):
        values[SIDE] = config.settings[SIDE]
    completed = algorithm_of(values).complete(values, config)
    completed["source"] = str(path)
    return completed


def read_file(path) -> dict:
    """Returns the arguments of `Vocabulary` of one file, without the settings of a folder.

    It is of an algorithm that writes files of this name, or else a `tokenizer.json` or a `vocab.txt` of any name.
    """
    for algorithm in ALGORITHMS[1:]:
        if path.name in algorithm.written:
            return algorithm.read_file(path, "")
    if path.suffix == ".json":
        return read_json(path, utf8_text(path))
    return {"pieces": read_lines(path)}


@explaining
def read_json(path, text: str, bert_defaults: bool = False):
    """Parses the content of a `tokenizer.json` into a dict of the arguments of `Vocabulary`, and `lowercase`.

    With `bert_defaults`, parts that are missing or null are BERT's, as for transformers' `BertTokenizer`. Otherwise
    they are refused: texts would not be normalized, split or given [CLS] and [SEP]. `path` is for errors.
    """
    try:
        content = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{path}: not a JSON file: {error}") from None
    values = _algorithm_of_json(content).read_json(path, content, bert_defaults)
    side = truncation_side(content)
    if side is not None:
        values[SIDE] = side
    return values


def _algorithm_of_json(content):
    """Returns the algorithm of the type of `model` in a `tokenizer.json`, or else the first one, which refuses it."""
    model = content.get("model") if isinstance(content, dict) else None
    if isinstance(model, dict):
        for algorithm in ALGORITHMS:
            if algorithm.json_type == model.get("type"):
                return algorithm
    return ALGORITHMS[0]

"""Report sections about a tagger of single words on dev, such as parts of speech."""

import numpy as np

from keras_bert.reports.sections import calibration_section, length_section
from keras_bert.tasks.classification.report import class_sections
from keras_bert.tasks.tagging.matches import CORRECT, Match, wrong
from keras_bert.tasks.tagging.schemes import Entity
from keras_bert.tasks.tagging.sentences_report import hardest_section

_NAMES = {"one": "tag", "many": "tags", "unit": "words"}


def word_report(rows, labels):
    """Returns HTML sections about a tagger of words, and the wrong tags as rows of `errors.tsv`.

    `rows` are as in `entity_report`, but `golds` and `predictions` are the tags of the words, `confidences` the
    probabilities of the predicted tags.
    """
    matches = [match for row in rows for match in _matches(row)]
    golds, predictions = ([match[part].type for match in matches] for part in (1, 2))
    labels = list(dict.fromkeys([*labels, *golds, *predictions]))
    place = {label: number for number, label in enumerate(labels)}
    correct = np.array([match.kind == CORRECT for match in matches], bool)
    lengths = [match.row["tokens"] for match in matches]
    sections = [
        class_sections(labels, *(np.array([place[tag] for tag in tags]) for tags in (golds, predictions)), **_NAMES),
        calibration_section([match.confidence for match in matches], correct),
        length_section(lengths, ~correct),
        hardest_section(rows, [match for match in matches if match.kind != CORRECT], "words"),
    ]
    columns = ["line", "word", "text", "true", "predicted", "probability", "sentence"]
    return sections, [columns, *map(_error_row, wrong(matches))]


def _error_row(match):
    gold, row = match.gold, match.row
    return [row["line"], gold.start + 1, match.text(gold), gold.type, match.prediction.type, match.sure, row["text"]]


def _matches(row):
    """Returns a `Match` for each word."""
    tags = zip(row["golds"], row["predictions"], row["confidences"], strict=True)
    return [
        Match(row, Entity(gold, word, word + 1), Entity(said, word, word + 1), float(sure))
        for word, (gold, said, sure) in enumerate(tags)
    ]

"""Report sections about a tagger on dev: scores by type, kinds of errors, and the hardest sentences."""

import collections
import math

import numpy as np

from keras_bert.reports import page
from keras_bert.reports.excerpts import excerpts
from keras_bert.reports.sections import calibration_section, length_rows, share_bar
from keras_bert.tasks.classification.report import CONFUSIONS, MANY_CLASSES, confusions, share
from keras_bert.tasks.tagging import matches as entity_matches
from keras_bert.tasks.tagging.matches import (
    BOTH_WRONG,
    CORRECT,
    KINDS,
    MISSED,
    SPURIOUS,
    WRONG_BORDER,
    WRONG_TYPE,
)
from keras_bert.tasks.tagging.sentences_report import hardest_section

_OTHER_BORDERS = "other borders"
_ENTITY_LENGTHS = {"1": 1, "2": 2, "3": 3, "4": 4, "5 or more": math.inf}
_EXAMPLES = 3  # Examples of each border that is off by one word.
_WORDS = 5  # The most frequent words at such borders.
_AROUND = 40  # Number of characters to show around these examples.


def entity_report(rows, scores):
    """Returns HTML sections about a tagger that finds entities, and the wrong entities as rows of `errors.tsv`.

    Args:
        rows: list of dicts, one for each sentence of dev: `line`, the number of its first line in the file; `text`;
            `words`, a list of `(first, end)` in characters of the text; `golds` and `predictions`, lists of
            `(type, first word, end word)`, type "" if the only type has no name; `confidences`, the probabilities of
            the predictions; `loss`, the mean loss of the words; `tokens`, the number of tokens.
        scores: list of `(type, precision, recall, f1, support, predicted)`, scores from 0 to 1, "all" last.
    """
    found = [match for row in rows for match in entity_matches.matches(row)]
    predicted = [match for match in found if match.prediction]
    types = dict.fromkeys(entity_matches.type_name(name) for name, *_ in scores[:-1])
    types |= dict.fromkeys(entity.type for match in found for entity in match.entities)
    sections = [
        page.render(
            "tasks/tagging/report.html",
            scores=[_score_row(*values) for values in scores],
            kinds=_kinds(found),
            **_confusions(list(types), found),
            **_borders(found),
            sentence_lengths=_sentence_lengths(rows, found),
            entity_lengths=_entity_lengths(found),
        ),
        calibration_section([match.confidence for match in predicted], [match.kind == CORRECT for match in predicted]),
        hardest_section(rows, found, "entities"),
    ]
    columns = ["line", "word", "error", "gold type", "gold", "predicted type", "predicted", "probability", "sentence"]
    return sections, [columns, *map(_error_row, entity_matches.wrong(found))]


def _error_row(match):
    cells = [match.row["line"], 1 + min(entity.start for entity in match.entities), match.kind]
    for entity in (match.gold, match.prediction):
        cells += [entity.type, match.text(entity)] if entity else ["", ""]
    return [*cells, match.sure, match.row["text"]]


def _score_row(name, precision, recall, f1, support, predicted):
    """Returns a table row; scores without entities are undefined."""
    return [
        entity_matches.type_name(name),
        page.percent(precision) if predicted else page.NOTHING,
        page.percent(recall) if support else page.NOTHING,
        share_bar(f1) if support or predicted else page.NOTHING,
        f"{support:,}",
        f"{predicted:,}",
    ]


def _kinds(found):
    """Returns table rows of the kinds of matches: gold and predicted entities, with their shares."""
    counts = collections.Counter(match.kind for match in found)
    golds, predicted = (len(found) - counts[kind] for kind in (SPURIOUS, MISSED))
    rows = []
    for kind in KINDS:
        count, none = counts[kind], [page.NOTHING] * 2
        gold = none if kind == SPURIOUS else [f"{count:,}", share(count, golds)]
        said = none if kind == MISSED else [f"{count:,}", share(count, predicted)]
        rows.append([kind, *gold, *said])
    return [*rows, ["all", f"{golds:,}", share(golds, golds), f"{predicted:,}", share(predicted, predicted)]]


def _confusions(types, matches):
    """Returns the confusion matrix of types, or the most frequent confusions of many types."""
    rows, columns = [*types, _OTHER_BORDERS, SPURIOUS], [*types, _OTHER_BORDERS, MISSED]
    counts = np.zeros((len(rows), len(columns)), int)
    place = {name: number for number, name in enumerate(types)}
    for match in matches:
        if match.kind in (CORRECT, WRONG_TYPE):
            counts[place[match.gold.type], place[match.prediction.type]] += 1
            continue
        last = -2 if match.kind in (WRONG_BORDER, BOTH_WRONG) else -1
        if match.gold:
            counts[place[match.gold.type], last] += 1
        if match.prediction:
            counts[last, place[match.prediction.type]] += 1
    cells = counts.tolist()
    for line in cells[-2:]:
        line[-2:] = None, None
    listed = confusions(rows, columns, counts) if len(types) > MANY_CLASSES else None
    return {
        "rows": rows,
        "columns": columns,
        "counts": cells,
        "confusions": listed and listed[:CONFUSIONS],
        "number": len(listed or ()),
    }


def _borders(matches):
    """Returns the borders that are off by one word: a dict for each of four kinds."""
    wrong = [match for match in matches if match.kind == WRONG_BORDER]
    groups = collections.defaultdict(list)
    for match in wrong:
        at_start, at_end = match.gold.start - match.prediction.start, match.prediction.end - match.gold.end
        if sorted((abs(at_start), abs(at_end))) == [0, 1]:
            groups[at_start, at_end].append(match)
    borders = [
        _border(name, groups[key])
        for name, key in (
            ("one word too long at the start", (1, 0)),
            ("one word too short at the start", (-1, 0)),
            ("one word too long at the end", (0, 1)),
            ("one word too short at the end", (0, -1)),
        )
    ]
    return {"borders": borders, "off_by_one": sum(map(len, groups.values())), "wrong_borders": len(wrong)}


def _border(name, some):
    words = collections.Counter(map(_word_between, some)).most_common(_WORDS)
    different = {}
    for match in some:
        different.setdefault((match.text(match.gold), match.text(match.prediction)), match)
    return {
        "name": name,
        "count": f"{len(some):,}",
        "words": [(word, f"{count:,}") for word, count in words],
        "examples": [(match.row["line"], _example(match)) for match in list(different.values())[:_EXAMPLES]],
    }


def _word_between(match):
    """Returns the word between the borders of gold and prediction."""
    gold, prediction = (set(range(entity.start, entity.end)) for entity in match.entities)
    (word,) = gold ^ prediction
    first, end = match.row["words"][word]
    return match.row["text"][first:end]


def _example(match):
    gold, said = (match.span(entity) for entity in (match.gold, match.prediction))
    labels = [(max(gold, said, key=lambda span: span[1]), "", match.gold.type)]
    return excerpts(match.row["text"], [gold, said], {"gold": [gold], "said": [said]}, labels, _AROUND)[0]


def _sentence_lengths(rows, matches):
    """Returns table rows with the F1 of sentences of similar length."""
    counts = collections.Counter()
    for match in matches:
        key = id(match.row)
        counts[key, "correct"] += match.kind == CORRECT
        counts[key, "gold"] += match.gold is not None
        counts[key, "predicted"] += match.prediction is not None
    values = [[counts[id(row), name] for name in ("correct", "gold", "predicted")] for row in rows]
    return length_rows([row["tokens"] for row in rows], values, lambda means: _f1(*means))


def _entity_lengths(matches):
    """Returns table rows with the F1 of entities of the same number of words."""
    correct = collections.Counter(_length(match.gold) for match in matches if match.kind == CORRECT)
    gold = collections.Counter(_length(match.gold) for match in matches if match.gold)
    predicted = collections.Counter(_length(match.prediction) for match in matches if match.prediction)
    return [
        [name, f"{gold[name]:,}", f"{predicted[name]:,}", _f1(correct[name], gold[name], predicted[name])]
        for name in _ENTITY_LENGTHS
        if gold[name] or predicted[name]
    ]


def _length(entity):
    """Returns the group of an entity in `_ENTITY_LENGTHS`."""
    return next(name for name, most in _ENTITY_LENGTHS.items() if entity.end - entity.start <= most)


def _f1(correct, gold, predicted):
    return share_bar(2 * correct / (gold + predicted)) if gold + predicted else page.NOTHING

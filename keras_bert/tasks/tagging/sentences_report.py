"""The hardest sentences of dev, with gold and predicted entities or tags marked in them."""

import collections
import math

from keras_bert.reports import page
from keras_bert.reports.excerpts import excerpts
from keras_bert.tasks.tagging.matches import CORRECT, KINDS

_HARDEST = 20
_LONG = 800  # Longer sentences, in characters, are cut to the surroundings of their first errors.
_ERRORS = 5  # Errors to show of a long sentence.
_TYPE = 40  # Maximum number of characters of a type to show.


def hardest_section(rows, found, unit):
    """Returns the HTML section about the sentences with errors.

    `rows` are as in `entity_report`, `found` the `Match`es to mark, in a `unit` of "entities" or "words".
    """
    matches = collections.defaultdict(list)
    for match in found:
        matches[id(match.row)].append(match)
    wrong = [row for row in rows if any(match.kind != CORRECT for match in matches[id(row)])]
    different = {}
    for row in sorted(wrong, key=_loss, reverse=True):
        different.setdefault(row["text"], row)
    hardest = list(different.values())[:_HARDEST]
    return page.render(
        "tasks/tagging/hardest_sentences.html",
        wrong=f"{len(wrong):,} of {len(rows):,}",
        hardest=[_described(row, matches[id(row)]) for row in hardest],
        unit=unit,
    )


def _loss(row):
    """Returns the loss, with NaN replaced by infinity."""
    return math.inf if math.isnan(row["loss"]) else row["loss"]


def _described(row, matches):
    """Returns the template's values for a sentence."""
    counts = collections.Counter(match.kind for match in matches)
    kinds = [kind for kind in (*KINDS[1:], CORRECT) if counts[kind]]
    errors = [match for match in matches if match.kind != CORRECT]
    marks = {
        "gold": [match.span(match.gold) for match in matches if match.gold],
        "said": [match.span(match.prediction) for match in matches if match.prediction],
    }
    labels = [label for match in matches for label in _labels(match)]
    if is_long := len(row["text"]) > _LONG:
        spans = [match.span(entity) for match in errors[:_ERRORS] for entity in match.entities]
        parts = excerpts(row["text"], spans, marks, labels)
    else:
        parts = excerpts(row["text"], [], marks, labels, around=_LONG)
    return {
        "line": row["line"],
        "kinds": ", ".join(f"{counts[kind]:,} {kind}" for kind in kinds),
        "words": f"{len(errors):,} of {len(row['words']):,}",
        "loss": f"{row['loss']:.3g}",
        "cut": is_long and len(errors) > _ERRORS and _ERRORS,
        "excerpts": parts,
    }


def _labels(match):
    """Returns the labels of a match for `excerpts`."""
    if match.kind == CORRECT:
        return [(match.span(match.gold), "", page.cut(match.gold.type, _TYPE))]
    labels = []
    if match.gold:
        labels.append((match.span(match.gold), "gold", f"gold {page.cut(match.gold.type, _TYPE)}"))
    if match.prediction:
        sure = f" {page.percent(match.confidence, 0)}" if math.isfinite(match.confidence) else ""
        name = f"predicted {page.cut(match.prediction.type, _TYPE)}{sure}"
        labels.append((match.span(match.prediction), "said", name))
    return labels

"""The section "Words of the hardest examples" of reports: which words made the kept model predict what it does.

Leaving out words takes a forward pass for each of them, so there are few examples, and the tokens to compute are
limited by those of the training data.
"""

import markupsafe
import numpy as np

from keras_bert.answering import explanation
from keras_bert.answering.explainer import Explainer, can_explain
from keras_bert.reports import page

EXAMPLES = 5
# Tokens to compute: this part of those of one pass over the training data, but at least and at most these.
_SHARE = 4
_FEWEST = 2_000
_MOST = 50_000


def section(bert, judged, train):
    """Returns the HTML section, "" if there is nothing to explain.

    Args:
        bert: the loaded model that is kept.
        judged: the `Judged` predictions for dev, or `None`.
        train: list of `Split`s, the training data, whose tokens limit those to compute.
    """
    if judged is None or not can_explain(bert):
        return ""
    by_row = judged.by_row
    tokens = sum(int(np.sum(split.lengths)) for split in train)
    most = min(max(tokens // _SHARE, _FEWEST), _MOST)
    rows, is_limited = _affordable(by_row, bert.sequence_length, most)
    if not rows:
        return ""
    texts = []
    targets = []
    for row in rows:
        text, target = by_row.asked(row)
        texts.append(text)
        targets.append(target)
    explanations = Explainer(bert).explain_few(texts, targets)
    examples = []
    for row, explained in zip(rows, explanations, strict=True):
        words = markupsafe.Markup(explanation.words_html(explained))
        examples.append((by_row.head(row), words, explanation.strongest_words(explained)))
    return page.render(
        "runs/hardest_words.html",
        style=markupsafe.Markup(explanation.STYLE),
        legend=markupsafe.Markup(explanation.legend_html(explanations[0])),
        examples=examples,
        limit=f"{most:,}" if is_limited else None,
    )


def _affordable(by_row, sequence_length, most):
    """Returns the numbers of the hardest rows to explain, and whether others are too long to be among them.

    `most` are the tokens to compute for all of them.
    """
    rows = []
    is_limited = False
    left = most
    for row in by_row.chosen():
        asked = by_row.asked(row)
        if asked is None:
            continue
        text, _ = asked
        cost = _cost(by_row, row, text, sequence_length)
        if cost > left:
            is_limited = True
            continue
        left -= cost
        rows.append(int(row))
        if len(rows) == EXAMPLES:
            break
    return rows, is_limited


def _cost(judged, row, text, sequence_length):
    """Returns an upper bound of the tokens to compute: a sequence for each word, with choices one for each choice."""
    limit = sequence_length or page.LONGEST
    tokens = limit if judged.length is None else int(np.max(judged.length[row]))
    choices = 1
    if isinstance(text, dict) and "choices" in text:
        choices = len(text["choices"])
    return tokens * min(tokens, limit) * choices

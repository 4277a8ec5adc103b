"""Report sections about translations of dev: BLEU, examples, and what each piece of a translation reads."""

import numpy as np

from keras_bert.reports import page
from keras_bert.translation import metrics

_EXAMPLES, _TYPICAL = 8, 3


def translation_sections(scores, dev, translations, align):
    """Returns HTML sections about the translations of dev.

    `scores` has BLEU, from 0 to 1, by what was translated. `align` maps a list of texts to dicts with `source` and
    `target`, lists of pieces, and `attention`, a row of probabilities for each target piece.
    """
    chrf = [metrics.chrf(text, target) for text, target in zip(translations, dev.targets, strict=True)]
    order = [index for index in np.argsort(chrf, kind="stable") if dev.sources[index].strip()]
    typical = order[_EXAMPLES :: max(1, len(order) // _EXAMPLES)]
    examples = [
        {
            "row": dev.lines[index],
            "source": dev.sources[index],
            "reference": dev.targets[index],
            "translation": translations[index],
            "score": chrf[index],
        }
        for index in [*order[:_EXAMPLES], *typical[:_EXAMPLES]]
    ]
    rows = [(name, f"{100 * score:.2f}") for name, score in scores.items()]
    alignments = align([dev.sources[index] for index in order[len(order) // 2 :][:_TYPICAL]])
    return [page.render("translation/report.html", scores=rows, examples=examples, alignments=alignments)]

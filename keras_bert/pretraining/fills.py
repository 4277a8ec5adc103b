"""Examples of what a masked language model fills in."""

import numpy as np
import scipy.special

from keras_bert.pretraining.inspection import join

_FILE_BLOCK = 16  # `Records` reads this many examples of each file in turn.


def sample_fills(predict, records, count=12, around=12, guesses=3):
    """Returns the predictions for one `[MASK]` in each of several examples, from different files if possible.

    Args:
        predict: function from a dict of model inputs, arrays of a batch, to the outputs.
        records: `Records` with masks, not shuffled.
        around: number of tokens of the text to return on each side.

    Returns:
        A list of dicts: the text `before` and `after`, the `truth`, and `guesses`, pairs of a piece and its
        probability.
    """
    inputs, targets = _examples(records, count)
    pieces = records.vocabulary.pieces
    masked = np.take_along_axis(inputs["token_ids"], inputs["mask_positions"], 1) == pieces.index("[MASK]")
    masked &= targets["mask_weights"] > 0
    rows = np.flatnonzero(masked.any(1))
    logits = predict(inputs)["mlm_logits"] if len(rows) else None
    fills = []
    for row in rows:
        place = masked[row].argmax()
        chances = scipy.special.softmax(logits[row, place].astype("float64"))
        best = np.argsort(-chances, kind="stable")[:guesses]
        before, after = _context(inputs, row, inputs["mask_positions"][row, place], around, pieces)
        fills.append(
            {
                "before": before,
                "after": after,
                "truth": pieces[targets["mask_labels"][row, place]],
                "guesses": [(pieces[piece], float(chances[piece])) for piece in best],
            }
        )
    return fills


def _examples(records, count):
    """Returns inputs and targets of `count` examples, at most one of every block of a file."""
    batches = records.dataset().take(-(-count * _FILE_BLOCK // records.batch_size))
    read = [(inputs, targets) for inputs, targets, _ in batches.as_numpy_iterator()]
    rows = min(sum(len(targets["mask_labels"]) for _, targets in read), records.num_examples)
    chosen = np.unique(np.linspace(0, rows - 1, count).astype(int))
    sides = zip(*read, strict=True)
    return [{name: np.concatenate([part[name] for part in side])[chosen] for name in side[0]} for side in sides]


def _context(inputs, row, place, around, pieces):
    """Returns the text before and after a token, up to [CLS] and [SEP]; `_` for other masks, `…` for omitted text."""
    ids = inputs["token_ids"][row]
    text = [pieces[piece].replace("[MASK]", "_") for piece in ids[: inputs["padding_mask"][row].sum()]]
    ends = [index for index, piece in enumerate(text) if piece in ("[CLS]", "[SEP]")]
    first = max((end for end in ends if end < place), default=-1) + 1
    last = min((end for end in ends if end > place), default=len(text))
    before, after = text[first:place], text[place + 1 : last]
    return (
        ("… " if len(before) > around else "") + join(before[-around:]),
        join(after[:around]) + (" …" if len(after) > around else ""),
    )

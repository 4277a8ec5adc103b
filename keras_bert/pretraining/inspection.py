"""Pre-training examples in readable form, and what a masked language model fills in."""

import numpy as np
import scipy.special

from keras_bert.pretraining.dataset import Records

_FILE_BLOCK = 16  # `Records` reads this many examples of each file in turn.


def describe(source, count, vocabulary=None):
    """Returns the first `count` examples of a source of records as text, see `Records`.

    Predicted tokens are in brackets: `[MASK for house]`, `[tree for house]`, `[house itself]`.
    """
    records = Records(source, vocabulary, batch_size=1, shuffle=False, limit=count)
    examples = [_describe(records.vocabulary.pieces, inputs, targets) for inputs, targets, _ in records.dataset()]
    return "\n\n".join(f"example {number}: {text}" for number, text in enumerate(examples, 1))


def _describe(pieces, inputs, targets):
    inputs, targets = ({name: value[0].numpy() for name, value in part.items()} for part in (inputs, targets))
    length, weights = inputs["padding_mask"].sum(), targets["mask_weights"] > 0
    labels = dict(zip(inputs["mask_positions"][weights].tolist(), targets["mask_labels"][weights], strict=True))
    shown = [
        _show(pieces[piece], pieces[labels[place]] if place in labels else None)
        for place, piece in enumerate(inputs["token_ids"][:length])
    ]
    first = int((inputs["segment_ids"][:length] == 0).sum())
    head = f"{length} of {len(inputs['token_ids'])} tokens, {weights.sum()} predicted"
    if first == length:
        return f"{head}\n  {join(shown)}"
    kind = "B is random" if targets["next_sentence_labels"] else "B follows A"
    return f"{head}, {kind}\n  A: {join(shown[:first])}\n  B: {join(shown[first:])}"


def _show(piece, label):
    if label is None:
        return piece
    return f"[{piece} itself]" if piece == label else f"[{piece.strip('[]')} for {label}]"


def join(shown):
    """Joins WordPieces to a text."""
    return "".join(piece[2:] if piece.startswith("##") else f" {piece}" for piece in shown).strip()


def sample_fills(predict, records, count=12, around=12, guesses=3):
    """Returns the predictions for one `[MASK]` in each of several examples, from different files if possible.

    `predict` maps a batch of model inputs to outputs; `records` have masks and are not shuffled. Each dict has the text
    `before` and `after`, `around` tokens, the `truth`, and `guesses`, pairs of a piece and its probability.
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

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
    examples = []
    for number, (inputs, targets, _) in enumerate(records.dataset(), 1):
        text = _describe(records.vocabulary.pieces, inputs, targets)
        examples.append(f"example {number}: {text}")
    return "\n\n".join(examples)


def _describe(pieces, inputs, targets):
    """Returns the example of a batch of one as text."""
    token_ids = inputs["token_ids"][0].numpy()
    segments = inputs["segment_ids"][0].numpy()
    length = inputs["padding_mask"][0].numpy().sum()
    is_predicted = targets["mask_weights"][0].numpy() > 0
    positions = inputs["mask_positions"][0].numpy()[is_predicted].tolist()
    labels = dict(zip(positions, targets["mask_labels"][0].numpy()[is_predicted], strict=True))
    shown = []
    for place, piece in enumerate(token_ids[:length]):
        label = pieces[labels[place]] if place in labels else None
        shown.append(_show(pieces[piece], label))
    first = int((segments[:length] == 0).sum())
    head = f"{length} of {len(token_ids)} tokens, {is_predicted.sum()} predicted"
    if first == length:
        return f"{head}\n  {join(shown)}"
    relation = "B is random" if targets["next_sentence_labels"][0].numpy() else "B follows A"
    return f"{head}, {relation}\n  A: {join(shown[:first])}\n  B: {join(shown[first:])}"


def _show(piece, label):
    """Returns a piece as text, in brackets if its label is predicted."""
    if label is None:
        return piece
    if piece == label:
        return f"[{piece} itself]"
    return f"[{piece.strip('[]')} for {label}]"


def join(shown):
    """Joins WordPieces to a text."""
    text = ""
    for piece in shown:
        if piece.startswith("##"):
            text += piece[2:]
        else:
            text += f" {piece}"
    return text.strip()


def sample_fills(predict, records, count=12, around=12, guesses=3):
    """Returns the predictions for one `[MASK]` in each of several examples, from different files if possible.

    `predict` maps a batch of model inputs to outputs; `records` have masks and are not shuffled. Each dict has the text
    `before` and `after`, `around` tokens, the `truth`, and `guesses`, pairs of a piece and its probability.
    """
    inputs, targets = _examples(records, count)
    pieces = records.vocabulary.pieces
    at_positions = np.take_along_axis(inputs["token_ids"], inputs["mask_positions"], 1)
    masked = (at_positions == pieces.index("[MASK]")) & (targets["mask_weights"] > 0)
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
    batch_count = -(-count * _FILE_BLOCK // records.batch_size)
    inputs = []
    targets = []
    for batch_inputs, batch_targets, _ in records.dataset().take(batch_count).as_numpy_iterator():
        inputs.append(batch_inputs)
        targets.append(batch_targets)
    read = sum(len(batch["mask_labels"]) for batch in targets)
    rows = min(read, records.num_examples)
    chosen = np.unique(np.linspace(0, rows - 1, count).astype(int))
    return _chosen_rows(inputs, chosen), _chosen_rows(targets, chosen)


def _chosen_rows(batches, rows):
    """Returns some rows of batches, dicts of arrays."""
    chosen = {}
    for name in batches[0]:
        chosen[name] = np.concatenate([batch[name] for batch in batches])[rows]
    return chosen


def _context(inputs, row, place, around, pieces):
    """Returns the text before and after a token, up to [CLS] and [SEP]; `_` for other masks, `…` for omitted text."""
    length = inputs["padding_mask"][row].sum()
    ids = inputs["token_ids"][row][:length]
    text = [pieces[piece].replace("[MASK]", "_") for piece in ids]
    ends = [index for index, piece in enumerate(text) if piece in ("[CLS]", "[SEP]")]
    first = max((end for end in ends if end < place), default=-1) + 1
    last = min((end for end in ends if end > place), default=len(text))
    before = text[first:place]
    after = text[place + 1 : last]
    text_before = join(before[-around:])
    if len(before) > around:
        text_before = f"… {text_before}"
    text_after = join(after[:around])
    if len(after) > around:
        text_after += " …"
    return text_before, text_after

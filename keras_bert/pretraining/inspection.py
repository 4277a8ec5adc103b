"""Displays pre-training examples as text."""

from keras_bert.pretraining.dataset import Records


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

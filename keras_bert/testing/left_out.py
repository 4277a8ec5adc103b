"""Scores of words by a plain loop, for one text and one word at a time: what `LoadedBert.explain` is compared with."""

import dataclasses

import numpy as np
import tensorflow as tf

from keras_bert.heads.explain_signatures import CHOICES, TOKENS

_CONTINUED = "##"  # What pieces of the tests' vocabularies begin with that continue a word.
_NO_WORDS = ("[CLS]", "[SEP]", "[PAD]")


@dataclasses.dataclass(frozen=True)
class LeftOut:
    """The logit of a text, and what it loses without each word.

    Args:
        value: float, the logit.
        baseline: float, the logit without any word.
        scores: list of floats, of the words in their order.
    """

    value: float
    baseline: float
    scores: list


def word_positions(pieces):
    """Returns the positions of the pieces of each word of a sequence, lists."""
    words = []
    is_open = False
    for position, piece in enumerate(pieces):
        if piece in _NO_WORDS:
            is_open = False
        elif is_open and piece.startswith(_CONTINUED):
            words[-1].append(position)
        else:
            words.append([position])
            is_open = True
    return words


def left_out(bert, output, form, inputs):
    """Computes the logit of what a model predicts for a text, without each word, and without all.

    Args:
        bert: a `LoadedBert`.
        output: str, the output with the logits.
        form: what they are of, see `form_of`. Of tokens, the logit is that of the first word.
        inputs: the model inputs of the text.

    Returns:
        A `LeftOut`.
    """
    ids = np.array(inputs["token_ids"])
    segments = np.asarray(inputs["segment_ids"])
    model = bert.model()

    def logits_of(token_ids):
        changed_inputs = dict(inputs)
        changed_inputs["token_ids"] = tf.constant(token_ids)
        outputs = model(changed_inputs, training=False)
        return np.asarray(outputs[output], "float64")[0]

    logits = logits_of(ids)
    choice = int(logits.argmax()) if form == CHOICES else None
    sequence = ids[0] if choice is None else ids[0, choice]
    words = word_positions([bert.vocabulary.pieces[identity] for identity in sequence])
    place = ()  # Of the logit in the output.
    if form == TOKENS:
        place = (words[0][0],)
    if logits[place].ndim:
        place += (int(logits[place].argmax()),)
    mask = bert.vocabulary.id("[MASK]")

    def logit_without(positions):
        changed = ids.copy()
        for position in positions:
            if choice is None:
                changed[0, position] = mask
            elif segments[0, choice, position] == 0:  # A word of the text, which stands beside each choice.
                changed[0, :, position] = mask
            else:
                changed[0, choice, position] = mask
        return float(logits_of(changed)[place])

    value = logit_without([])
    every = []
    for positions in words:
        every.extend(positions)
    return LeftOut(
        value=value,
        baseline=logit_without(every),
        scores=[value - logit_without(positions) for positions in words],
    )

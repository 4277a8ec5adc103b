"""What a logit loses without each word: positions of words, and a model whose logits are sums over the words."""

import types

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from keras_bert.heads.explain_signatures import CHOICES, TEXTS, TOKENS  # noqa: E402
from keras_bert.testing.left_out import left_out, word_positions  # noqa: E402
from keras_bert.text.vocabulary import Vocabulary  # noqa: E402

pytestmark = pytest.mark.tensorflow
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b", "c", "d"]
# What each piece adds to the logits of two classes.
WORTH = np.array([[0, 0], [0, 0], [0, 0], [0, 0], [0.5, 0], [1, 2], [0, 3], [0, 5], [0, 7]])


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        ("[CLS] a ##b c [SEP] [PAD]", [[1, 2], [3]]),
        ("[CLS] a ##b ##b [SEP] d [SEP]", [[1, 2, 3], [5]]),
        ("[CLS] ##b a [SEP]", [[1], [2]]),
        ("[CLS] [SEP]", []),
    ],
)
def test_positions_of_words(pieces, words):
    assert word_positions(pieces.split()) == words


def bert_of(outputs):
    """Returns a model whose outputs are a function of the worth of its tokens."""

    def model(inputs, training):
        assert not training
        worth = WORTH[np.array(inputs["token_ids"])]
        return {"logits": tf.constant(outputs(worth))}

    return types.SimpleNamespace(model=lambda: model, vocabulary=Vocabulary(PIECES))


def inputs_of(*rows):
    """Returns the inputs of token ids, whose second segment begins after the first [SEP]."""
    ids = np.array(rows)
    is_end = ids == PIECES.index("[SEP]")
    before = np.cumsum(is_end, -1) - is_end
    return {"token_ids": ids, "segment_ids": np.minimum(before, 1)}


def test_a_text():
    """The logit is that of the second class; a masked piece adds nothing to it."""
    bert = bert_of(lambda worth: worth.sum(1))
    found = left_out(bert, "logits", TEXTS, inputs_of([2, 5, 6, 7, 3, 0]))  # a##b c
    assert found.value == 2 + 3 + 5
    assert found.scores == [2 + 3, 5]
    assert found.baseline == 0


def test_the_first_word_of_tokens():
    """Each token has the logits of all tokens together, and its own once more."""
    bert = bert_of(lambda worth: worth + worth.sum(1, keepdims=True))
    found = left_out(bert, "logits", TOKENS, inputs_of([2, 7, 8, 3]))  # c d
    assert found.value == 2 * 5 + 7
    assert found.scores == [2 * 5, 7]


def test_the_text_beside_each_choice():
    """A word of the text is left out beside each choice, and a word of the choice in it alone."""
    bert = bert_of(lambda worth: worth[..., 1].sum(-1))
    inputs = inputs_of([[2, 5, 3, 7, 3], [2, 5, 3, 8, 3]])  # a with c, and a with d
    found = left_out(bert, "logits", CHOICES, inputs)
    assert found.value == 2 + 7  # Of the second choice.
    assert found.scores == [2, 7]
    assert found.baseline == 0

"""Windows of texts with choices: each window of a text is packed with every choice."""

import pytest

tf = pytest.importorskip("tensorflow")

import keras_bert  # noqa: E402
from keras_bert.text.viewed_choices import ViewedChoices  # noqa: E402
from keras_bert.text.views import SlidingWindows  # noqa: E402

pytestmark = pytest.mark.usefixtures("eager")
CLS = 2
SEP = 3
TEXTS = [[5, 6, 7, 8, 9, 10, 11], [12]]
CHOICES = [[20], [21, 22, 23, 24, 25], [], [26]]  # Two of each text.


def ragged(rows):
    return tf.ragged.constant(rows, tf.int32)


@pytest.fixture
def viewed(pieces):
    """Of 9 tokens, 6 are free beside [CLS] and two [SEP]: 3 of a choice, so that a window of a long text has 3."""
    preprocessor = keras_bert.TextPreprocessor(pieces, 9, padding="longest")
    return ViewedChoices(preprocessor, SlidingWindows(overlap=1), ragged(TEXTS), ragged(CHOICES), 2)


def test_each_window_has_all_choices(viewed):
    packed = viewed.packed()
    assert packed["token_ids"].numpy().tolist() == [
        [[CLS, 5, 6, 7, SEP, 20, SEP, 0, 0], [CLS, 5, 6, 7, SEP, 21, 22, 23, SEP]],
        [[CLS, 7, 8, 9, SEP, 20, SEP, 0, 0], [CLS, 7, 8, 9, SEP, 21, 22, 23, SEP]],
        [[CLS, 9, 10, 11, SEP, 20, SEP, 0, 0], [CLS, 9, 10, 11, SEP, 21, 22, 23, SEP]],
        [[CLS, 12, SEP, SEP, 0, 0, 0, 0, 0], [CLS, 12, SEP, 26, SEP, 0, 0, 0, 0]],
    ]
    # An empty choice is absent.
    assert packed["padding_mask"].numpy().sum(-1).tolist() == [[7, 9], [7, 9], [7, 9], [0, 5]]


def test_some_of_the_windows(viewed):
    whole = viewed.packed()["token_ids"].numpy()
    assert viewed.packed(1, 3)["token_ids"].numpy().tolist() == whole[1:3].tolist()
    rows = []
    for part in viewed.ragged_parts():
        rows += part["token_ids"].to_list()
    assert rows[0] == [CLS, 5, 6, 7, SEP, 20, SEP]
    assert len(rows) == 8


def test_other_numbers_in_the_places_of_tokens(viewed):
    numbers = viewed.packed_values(ragged([[-1, -2, -3, -4, -5, -6, -7], [-8]]), ragged([[100], [101] * 5, [], [102]]))
    assert numbers.numpy().tolist()[1] == [
        [CLS, -3, -4, -5, SEP, 100, SEP, 0, 0],
        [CLS, -3, -4, -5, SEP, 101, 101, 101, SEP],
    ]


def test_counts_are_those_of_the_longest_choice(viewed):
    """Of the first text 7 tokens, 3 of 5 of its longest choice, [CLS] and two [SEP]."""
    counts = viewed.token_counts()
    assert counts["tokens"].numpy().tolist() == [7 + 5 + 3, 1 + 1 + 3]
    assert counts["tokens_read"].numpy().tolist() == [7 + 3 + 3, 1 + 1 + 3]
    assert counts["windows"].numpy().tolist() == [3, 1]

"""Words of texts, and their numbers at the positions of sequences."""

import pytest

tf = pytest.importorskip("tensorflow")

import keras_bert  # noqa: E402
from keras_bert.text import words  # noqa: E402

LONG = "a b c d e f g h"


@pytest.fixture(scope="module")
def preprocessor(pieces):
    return lambda **options: keras_bert.TextPreprocessor(pieces, 8, padding="longest", **options)


def test_words_are_those_of_the_tokenizer(preprocessor):
    """Byte offsets: "é" has two bytes."""
    found = words.words_of(preprocessor().tokenizer, tf.constant(["ab é, c", "", "d"]))
    assert found.number.to_list() == [[0, 0, 1, 2, 3], [], [0]]
    assert found.starts.to_list() == [[0, 3, 5, 7], [], [0]]
    assert found.ends.to_list() == [[2, 5, 6, 8], [], [1]]
    assert found.count().numpy().tolist() == [4, 0, 1]


def test_given_words(preprocessor):
    """Those that single spaces separate; one without a piece has a number, and no token."""
    found = words.given_words(preprocessor().tokenizer, tf.constant(["a,b \x02 c", "d"]))
    assert found.number.to_list() == [[0, 0, 0, 2], [0]]
    assert found.starts.to_list() == [[0, 4, 6], [0]]
    assert found.ends.to_list() == [[3, 5, 7], [1]]


@pytest.mark.parametrize(
    ("long_texts", "single", "pair"),
    [
        ("head", [-1, 0, 1, 2, 3, 4, 5, -1], [-1, 0, 0, -1, 1, 2, 3, -1]),
        ("tail", [-1, 2, 3, 4, 5, 6, 7, -1], [-1, 0, 0, -1, 6, 7, 8, -1]),
        ("head_tail", [-1, 0, 3, 4, 5, 6, 7, -1], [-1, 0, 0, -1, 6, 7, 8, -1]),
    ],
)
def test_numbers_are_packed_as_tokens_are(preprocessor, long_texts, single, pair):
    layer = preprocessor(long_texts=long_texts)
    long = words.words_of(layer.tokenizer, tf.constant([LONG]))
    inputs, numbers = words.packed(layer, long)
    assert numbers.numpy().tolist() == [single]
    for name, expected in layer([LONG]).items():
        assert inputs[name].numpy().tolist() == expected.numpy().tolist()
    inputs, numbers = words.packed(layer, words.words_of(layer.tokenizer, tf.constant(["ab"])), long)
    assert numbers.numpy().tolist() == [pair]
    assert inputs["token_ids"].numpy().tolist() == layer((["ab"], [LONG]))["token_ids"].numpy().tolist()


def test_numbers_of_windows(preprocessor):
    layer = preprocessor(long_texts="windows", overlap=1)
    texts = tf.constant([LONG, "ab"])
    found = words.words_of(layer.tokenizer, texts)
    numbers = words.of_views(layer, layer.windows(texts), found)
    assert numbers.numpy().tolist() == [
        [-1, 0, 1, 2, 3, 4, 5, -1],
        [-1, 5, 6, 7, -1, -1, -1, -1],
        [-1, 0, 0, -1, -1, -1, -1, -1],
    ]
    viewed = layer.windows({"text": tf.constant(["ab", "c"]), "pair": tf.constant(["d", LONG])})
    first = words.words_of(layer.tokenizer, tf.constant(["ab", "c"]))
    second = words.words_of(layer.tokenizer, tf.constant(["d", LONG]))
    assert words.of_views(layer, viewed, first, second).numpy().tolist() == [
        [-1, 0, 0, -1, 1, -1, -1, -1],
        [-1, 0, -1, 1, 2, 3, 4, -1],
        [-1, 0, -1, 4, 5, 6, 7, -1],
        [-1, 0, -1, 7, 8, -1, -1, -1],
    ]


def test_numbers_of_a_choice(preprocessor):
    """Those of the text in all choices, those of the chosen one behind them; an empty choice is absent."""
    layer = preprocessor()
    text = words.words_of(layer.tokenizer, tf.constant(["a b", "c"]))
    choices = words.words_of(layer.tokenizer, tf.constant(["d", "e f", "g", ""]))
    inputs, numbers = words.packed_choices(layer, text, choices, tf.constant([1, 0]))
    assert numbers.numpy().tolist() == [
        [[-1, 0, 1, -1, -1, -1, -1], [-1, 0, 1, -1, 2, 3, -1]],
        [[-1, 0, -1, 1, -1, -1, -1], [-1, 0, -1, -1, -1, -1, -1]],
    ]
    expected = layer.with_choices(["a b", "c"], [["d", "e f"], ["g", ""]])
    for name, ids in expected.items():
        assert inputs[name].numpy().tolist() == ids.numpy().tolist()

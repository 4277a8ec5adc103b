"""What runs of translation add to others: the mean of the last weights, and a vocabulary that is learned."""

import keras
import numpy as np
import pytest

from keras_bert.translation import data
from keras_bert.translation.run import WeightAverage, open_vocabulary

pytestmark = pytest.mark.tensorflow


def test_mean_of_the_last(tmp_path):
    """Of four evaluations, the last three; integers keep their value; a new object reads what is there."""
    dense = keras.layers.Dense(1, use_bias=False)
    dropout = keras.layers.Dropout(0.5)
    model = keras.Sequential([keras.Input((2,)), dense, dropout])
    counter = dropout.seed_generator.state
    for step in range(1, 5):
        dense.kernel.assign([[step], [10.0**step]])
        WeightAverage(tmp_path, lambda: model, 3).on_evaluation(step, {})
    before = counter.numpy()
    assert WeightAverage(tmp_path, lambda: model, 3).assign() == [4, 3, 2]
    np.testing.assert_allclose(dense.kernel.numpy(), [[3.0], [3700.0]])
    np.testing.assert_array_equal(counter.numpy(), before)


def test_a_run_goes_on_with_its_weights_and_a_new_one_without(tmp_path):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    average = WeightAverage(tmp_path, lambda: model, 3)
    average.on_evaluation(4, {})
    average.on_train_begin({}, 4)
    assert average.assign() == [4]
    average.on_train_begin({}, 0)
    assert average.assign() == []


@pytest.fixture
def pairs(tmp_path):
    (tmp_path / "a").write_text("one two\nthree\n")
    (tmp_path / "b").write_text("two one\nthree three\n")
    return data.read(tmp_path / "a", tmp_path / "b")


def test_a_vocabulary_is_learned_once(tmp_path, pairs):
    """It is not learned anew if nothing has changed, and then by the new size."""
    folder = tmp_path / "run"
    vocabulary = open_vocabulary(None, pairs, 280, folder)
    learned = (folder / "vocab.txt").read_text()
    (folder / "vocab.txt").write_text(f"{learned}more\n")
    assert open_vocabulary(None, pairs, 280, folder).pieces == (*vocabulary.pieces, "more")
    assert open_vocabulary(None, pairs, 281, folder).pieces == vocabulary.pieces


def test_a_vocabulary_of_a_file(tmp_path, pairs):
    learned = open_vocabulary(None, pairs, 280, tmp_path / "run")
    opened = open_vocabulary(tmp_path / "run" / "vocab.txt", pairs, 1, tmp_path / "other")
    assert opened.pieces == learned.pieces
    assert not (tmp_path / "other").exists()


def test_a_run_that_has_begun_keeps_its_vocabulary(tmp_path, pairs):
    folder = tmp_path / "run"
    open_vocabulary(None, pairs, 281, folder)
    (folder / "runs").mkdir()
    message = "contains a run with another vocabulary: `vocab_size` was 281, is 282. Choose another `output_dir`"
    with pytest.raises(ValueError, match=message):
        open_vocabulary(None, pairs, 282, folder)

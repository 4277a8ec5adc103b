"""Translation as a task: features of pairs, BLEU, the paper's warm-up."""

import types

import pytest

from keras_bert.translation import data, task
from keras_bert.translation.config import TransformerConfig, TranslationSettings

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def pairs(tmp_path):
    """Two pairs, of which the second one has a long target."""
    (tmp_path / "a").write_text("a b\nc\n")
    (tmp_path / "b").write_text("x\nx y z x y z\n")
    return data.read(tmp_path / "a", tmp_path / "b")


def test_targets_are_labels_shifted_right(reversible, pairs):
    features = task.TranslationFeatures(pairs, reversible, max_length=128)
    for target, label in zip(features.targets.to_list(), features.labels.to_list(), strict=True):
        assert target == [reversible.start_id, *label[:-1]]
        assert label[-1] == reversible.end_id
    assert features.sources.row_lengths().numpy().tolist() == [5, 3]  # Start of a word, letter, end.


def test_long_pairs_are_left_out_and_named(reversible, pairs, caplog):
    features = task.TranslationFeatures(pairs, reversible, max_length=12)
    assert features.pairs.sources == ["a b"]
    assert features.sources.nrows() == features.labels.nrows() == features.targets.nrows() == 1
    assert "longer than 12 tokens, line(s) 2" in caplog.text


@pytest.mark.parametrize(("given", "steps", "warmup"), [(None, 80, 10), (None, 10**6, 4000), (None, 4, 1), (7, 80, 7)])
def test_warm_up(given, steps, warmup):
    """An eighth of the steps, at most those of the paper."""
    settings = TranslationSettings(warmup_steps=given)
    training = task.TranslationTraining(types.SimpleNamespace(settings=settings, config=TransformerConfig()))
    assert training.warmup_steps(steps) == warmup


def test_bleu_of_texts_without_spaces():
    """Of eight characters, the last one is wrong: 7, 6, 5 and 4 of 8, 7, 6 and 5 n-grams are right."""
    score, signature = task.bleu(["一二三四五六七九"], ["一二三四五六七八"], "zh")
    assert score == pytest.approx(100 * (7 / 8 * 6 / 7 * 5 / 6 * 4 / 5) ** 0.25)
    assert "tok:zh" in signature
    assert task.bleu(["一二三四五六七九"], ["一二三四五六七八"])[0] == 0


def test_translations_are_as_close_as_their_characters():
    assert task.chrf("one two", "one two") == pytest.approx(100)
    assert task.chrf("xyz", "one two") == 0
    assert task.chrf("one two", "one ten") < task.chrf("one two.", "one two")

"""What a task trains: batches of its rows, the grid of its runs, heads that are kept, and who can teach."""

import dataclasses
import types

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import keras_bert  # noqa: E402
from keras_bert.data.bucketing import Batches  # noqa: E402
from keras_bert.tasks import stages  # noqa: E402
from keras_bert.tasks.base import Start  # noqa: E402
from keras_bert.tasks.stages import Split, Training  # noqa: E402

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def split():
    """Three rows of 1, 3 and 2 tokens."""
    tokens = tf.ragged.constant([[1], [1, 1, 1], [1, 1]])
    targets = np.array([0, 1, 0])
    return Split("dev", ["a", "b", "c"], {"token_ids": tokens}, targets, batch_size=2)


def test_batches_to_evaluate_on_have_each_row_once(split):
    assert isinstance(split.batches, Batches)
    assert split.batches.steps == 2
    rows = np.concatenate(split.batches.row_indices(0))
    assert sorted(rows[rows >= 0].tolist()) == [0, 1, 2]
    assert np.array(split.lengths).tolist() == [1, 3, 2]


class Words(Training):
    """Trains nothing."""

    learning_rates = (5e-5, 2e-5)

    def make_loss(self):
        return "the loss"


def training(cls=Words, **task):
    """Returns what a task with these attributes trains."""
    return cls(types.SimpleNamespace(**task))


def test_a_stage_for_each_part_to_train_on(split):
    second = dataclasses.replace(split, name="second")
    report = types.SimpleNamespace(score="scores")
    splits = {"train": [split, second]}
    made = training(name="words", splits=splits, report=report, dev="the dev set").stages({})
    assert [stage.name for stage in made] == ["words", "words"]
    assert [stage.dev for stage in made] == [None, "the dev set"]
    assert [stage.loss for stage in made] == ["the loss", "the loss"]
    assert made[1].examples() == second.pair()


def test_one_loss_or_several():
    class Several(Words):
        def make_loss(self):
            return ("one", "other")

    assert training().losses == ["the loss"]
    assert training(Several).losses == ["one", "other"]


def grid_of(width, cls=Words, **load_options):
    """Returns the training of a model of a width, which was loaded with options."""
    config = dataclasses.replace(keras_bert.BERT_TINY, hidden_size=width)
    start = Start("start", None, load_options=load_options)
    return training(cls, config=config, start=start)


class AnyWidth(Words):
    """Rates that do not depend on the width."""

    scales_rates = False


@pytest.mark.parametrize(
    ("grid", "rates"),
    [
        (grid_of(1024), [5e-5, 2e-5]),
        (grid_of(768), [5e-5, 2e-5]),
        (grid_of(384), [1.5e-4, 6e-5]),
        (grid_of(256, num_layers=2), [5e-4, 2e-4]),
        (grid_of(256, vocabulary="vocab.txt"), [1e-3]),
        (grid_of(256, AnyWidth), [5e-5, 2e-5]),
    ],
)
def test_narrow_models_have_higher_rates(grid, rates):
    defaults = {"learning_rate": rates, "batch_size": [32], "epochs": [3], "seed": [1]}
    assert grid.choices() == defaults


def test_given_settings_take_the_place_of_the_defaults():
    given = {"learning_rate": [1e-5], "batch_size": [8], "epochs": [1, 2], "seed": [0, 4]}
    assert grid_of(256).choices(**given) == given


@pytest.mark.parametrize(
    ("stated", "described", "is_kept"),
    [
        ((0.1, 0.2), [0.1, 0.2], True),
        ({"a": [(1, "b"), None]}, {"a": [[1, "b"], None]}, True),
        ((0.1, 0.2), [0.1, 0.3], False),
        ((0.1,), [0.1, 0.2], False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({1: 2}, {"1": 2}, False),
    ],
)
def test_a_head_with_the_same_options_is_kept(monkeypatch, stated, described, is_kept):
    """JSON stores tuples as lists: what a task states in tuples is the same."""
    description = types.SimpleNamespace(options={"option": described})
    monkeypatch.setattr(stages, "describe", lambda model: description)
    start = Start("start", None)
    trained = training(head="mine", labels=["a"], start=start, head_options=lambda: {"option": stated})
    assert trained.keeps_head(loaded()) == is_kept


def loaded(head="mine", labels=("a",), **facts):
    """Returns what is asked of a loaded model."""
    return types.SimpleNamespace(head=head, labels=list(labels), has_pair_layers=False, model=lambda: None, **facts)


@pytest.mark.parametrize(
    ("bert", "new_head"),
    [
        (loaded(head="other"), False),
        (loaded(labels="b"), False),
        (loaded(), True),
    ],
)
def test_another_head_is_not_kept(bert, new_head):
    start = Start("start", None, new_head=new_head)
    assert not training(head="mine", labels=["a"], start=start).keeps_head(bert)


class Tokens(Words):
    """An output for each token."""

    answers_tokens = True


class Reader:
    """A model of 7 positions."""

    head = "mine"
    labels = ("O", "B-X")
    vocabulary = ("a", "b")
    lowercase = True
    strip_accents = None

    def preprocessor(self, sequence_length):
        if sequence_length > 7:
            raise ValueError("`sequence_length` must be at most 7")


def check_teacher(sequence_length=7, **changes):
    """Checks a model that differs in some attributes from the student."""
    task = types.SimpleNamespace(
        name="words",
        title="Words",
        head="mine",
        labels=("O", "B-X"),
        bert=Reader(),
        model="start",
        sequence_length=sequence_length,
    )
    teacher = type("Teacher", (Reader,), changes)()
    Tokens(task).check_teacher(teacher, "it")


def test_a_teacher_of_tokens():
    check_teacher()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"head": "classification"}, "a model with the head 'classification'. Expected a model of Words"),
        ({"labels": ("O",)}, "a model with the labels O. Expected a model of Words"),
        ({"lowercase": False}, "it differs in vocabulary or casing from start"),
        ({"vocabulary": ("a",)}, "it differs in vocabulary or casing from start"),
        ({"sequence_length": 8}, "it reads the tokens of the student. `sequence_length` must be at most 7"),
    ],
)
def test_wrong_teachers_of_tokens(changes, message):
    with pytest.raises(ValueError, match="`teacher=it`") as error:
        check_teacher(**changes)
    assert str(error.value).startswith(f"`teacher=it`: {message}")

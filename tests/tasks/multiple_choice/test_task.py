"""The multiple-choice task, without training."""

import json

import numpy as np
import pytest

import keras_bert
from keras_bert.tasks.base import Start
from keras_bert.tasks.multiple_choice import data as choices
from keras_bert.tasks.multiple_choice.data import ChoiceSettings
from keras_bert.tasks.multiple_choice.task import MultipleChoiceTask

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]


@pytest.fixture(scope="module")
def bert(tmp_path_factory, config, pieces):
    """A model with a multiple-choice head."""
    folder = tmp_path_factory.mktemp("choosing")
    encoder = keras_bert.build_encoder(config)
    keras_bert.save(keras_bert.build_multiple_choice(encoder), folder, pieces)
    return keras_bert.load(folder)


def read(tmp_path, *rows, **files):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return choices.read_all(path, path, **{name: path for name in files})


ROWS = [
    {"text": "a b", "choices": ["c", "d e f", "g", "h", "i"], "label": 4},
    {"text": "k", "choices": ["l", "m", "n"], "label": 0},
    {"text": "o", "choices": ["p q", "", "r", "s"], "label": 2},
]


def test_rows_of_three_to_five_choices(tmp_path, bert):
    task = MultipleChoiceTask(
        read(tmp_path, *ROWS, predict_file=True), Start("start", bert), ChoiceSettings(sequence_length=7)
    )
    inputs, labels = task.train[0]()
    assert labels.tolist() == [4, 0, 2]
    assert inputs["token_ids"].row_lengths(axis=2).to_list() == [
        [6, 7, 6, 6, 6],  # [CLS] a b [SEP] d e [SEP]: truncated.
        [5, 5, 5, 0, 0],
        [6, 0, 5, 5, 0],
    ]
    assert task.summary["truncated"] == {
        "rows": 1, "share": 1 / 3, "sequence_length": 7, "longest": 8, "enough": 32, "held": 1.0
    }  # fmt: skip
    assert task.run_settings["dev"] == ["a.jsonl", 3]
    assert task.export_options(bert)["example"] == {"text": "a b", "choices": ["c", "d e f", "g", "h", "i"]}
    # The logits are those of the choices alone.
    model = task.build(bert)
    trainer = keras_bert.Trainer(lambda: model, lambda model: keras_bert.create_optimizer(model, 1e-3, 1), task.loss)
    (logits,) = task.dev_logits(trainer.predict).values()
    answers = bert.predict([{"text": row["text"], "choices": row["choices"]} for row in ROWS], sequence_length=7)
    for row, answer in zip(logits, answers, strict=True):
        powers = np.exp(row[: len(answer["scores"])])
        np.testing.assert_allclose(powers / powers.sum(), answer["scores"], atol=1e-5)
    assert [logits[1, 3], logits[1, 4], logits[2, 1], logits[2, 4]] == [-1e9] * 4
    test = task.test_logits(trainer.predict)
    np.testing.assert_array_equal(test["test"], logits)
    accuracy = f"accuracy {np.mean(logits.argmax(-1) == labels):.2%}"
    assert task.conclude({"dev": logits}, test, tmp_path).facts == {"scores on test": accuracy}


def test_a_right_choice_without_tokens_is_refused(tmp_path, bert):
    row = {"text": "a", "choices": ["b", "\u200b"], "label": "B"}
    with pytest.raises(
        ValueError, match=r"a.jsonl:2: the right choice has no tokens. Expected text. Received: '\\u200b'"
    ):
        MultipleChoiceTask(
            read(tmp_path, {**row, "label": "A"}, row), Start("start", bert), ChoiceSettings(sequence_length=16)
        )

"""What a study will cost."""

import dataclasses
import types

import pytest

pytest.importorskip("tensorflow")

from research.studies import cost
from research.studies.definitions import Recipe, Row
from research.studies.scales import SCALES, FinetuningRecipe

pytestmark = pytest.mark.tensorflow

BERT = Row("bert", "BERT")
BILSTM = Row("bilstm", "BiLSTM", None, recurrent=True)
MRPC = types.SimpleNamespace(title="MRPC", words=1000)
SQUAD = types.SimpleNamespace(title="SQuAD", words=2000)


class Runner:
    """A runner of 50 steps of pre-training, with three runs of two epochs for each row and task."""

    scale = SCALES["demo"]

    def runs(self, row, column):
        return 3

    def finetuning_recipe(self, row, column):
        return FinetuningRecipe(epochs=2)


@pytest.mark.parametrize(
    ("recipes", "pairs", "text"),
    [
        ([], [], "nothing: all runs are finished"),
        ([Recipe()], [], "1 pre-training run of 50 steps"),
        ([], [(BERT, MRPC)], "3 fine-tuning runs on MRPC"),
        (
            [Recipe(), Recipe(causal=True)],
            [(BERT, MRPC), (BERT, SQUAD), (BILSTM, SQUAD)],
            "2 pre-training runs of 50 steps and 9 fine-tuning runs on MRPC, SQuAD",
        ),
    ],
)
def test_work(recipes, pairs, text):
    assert cost.work_text(Runner(), recipes, pairs) == text


def test_seconds_of_runs_and_tokens():
    assert cost.Cost(start=10, per_token=0.5).seconds(3, 100) == 3 * 10 + 100 * 0.5


class TimedRun:
    """A run that takes two seconds until its first step, then one second a step."""

    def __init__(self, clock, batch):
        self.clock = clock
        self.records = [types.SimpleNamespace(steps=100, sequence_length=32, batch=batch)]
        self.trainer = self
        self.has_started = False

    def fit(self, batches, steps):
        if not self.has_started:
            self.clock.seconds += 2
        self.has_started = True
        self.clock.seconds += steps


@pytest.fixture
def timed(monkeypatch):
    """A runner whose time is that of a clock."""
    clock = types.SimpleNamespace(seconds=0.0)
    runner = Runner()
    sizes = dataclasses.replace(Runner.scale, phases=({"length": 32, "steps": 50, "batch": 8},))
    models = types.SimpleNamespace(create_run=lambda recipe, folder, batch: TimedRun(clock, batch))
    monkeypatch.setattr(cost.time, "monotonic", lambda: clock.seconds)
    monkeypatch.setattr(cost, "Phases", list)
    monkeypatch.setattr(cost, "TIMED_STEPS", 4)
    vars(runner).update(scale=sizes, models=models)
    return runner


def test_an_estimate(timed):
    """A step of 8 rows of 32 tokens takes a second; fine-tuning has 1.3 tokens a word, and evaluations of 30%."""
    pretraining, finetuning = cost.estimate(timed, [Recipe()], [(BERT, MRPC)])
    first = 2 + 4  # Seconds of the first call, of four steps.
    assert pretraining == pytest.approx(first + 50)
    tokens = 1000 * 1.3 * 2 * 3
    assert finetuning == pytest.approx(1.3 * (3 * first + tokens / (8 * 32)))


def test_recurrent_models_are_left_out(timed):
    assert cost.estimate(timed, [], [(BILSTM, SQUAD)]) == (0, 0)

"""Runs without validation, with a trainer that only notes what it computes."""

import dataclasses
import types

from keras_bert.runs.without_validation import FinetuningOnAll


@dataclasses.dataclass(frozen=True)
class Stage:
    """A stage of a run, as far as it is evaluated."""

    dev: object


class NotingTrainer:
    """Answers 7, and notes the batches that it computes."""

    def __init__(self):
        self.computed = []

    def evaluate_with_outputs(self, batches):
        self.computed.append(batches)
        return {"f1": 0.5}, {"logits": 7}

    def predict(self, batches):
        self.computed.append(batches)
        return {"logits": 7}


def test_the_last_stage_is_scored_on_what_it_was_trained_on(monkeypatch, tmp_path):
    rows = ["rows"]
    report = types.SimpleNamespace(dev_logits=lambda predict: predict(rows))
    task = types.SimpleNamespace(dev=rows, report=report)
    finetuning = types.SimpleNamespace(task=task, hyperparameters=None)
    run = FinetuningOnAll.run_class(finetuning, {"seed": 1}, tmp_path)
    trainer = NotingTrainer()
    trained = []

    def train(stages):
        trained.extend(stages)
        return trainer, {"epoch": 2}

    monkeypatch.setattr(run, "stages", lambda: [Stage("first"), Stage(rows)])
    monkeypatch.setattr(run, "train", train)

    _, result, logits = run.finish()

    assert trained == [Stage("first"), Stage(None)]  # No epoch is chosen by the rows that are trained on.
    assert result == {"epoch": 2, "scores": {"f1": 0.5}}
    assert logits == {"dev": {"logits": 7}, "test": {}}
    assert trainer.computed == [rows]  # Once, for the scores and for the logits.

"""Runs without validation: all rows are trained on."""

import dataclasses

from keras_bert.runs.finetuning import Finetuning
from keras_bert.runs.run import Run


class _RunOnAllRows(Run):
    """Keeps the weights of the last epoch; the scores are those on the training data."""

    def finish(self):
        stages = self.stages()
        dev = stages[-1].dev
        stages[-1] = dataclasses.replace(stages[-1], dev=None)
        trainer, result = self.train(stages)
        result["scores"], outputs = trainer.evaluate_with_outputs(dev)
        computed = {id(dev): outputs, id(self.task.dev): outputs}

        def predict(batches):
            return computed.get(id(batches)) or trainer.predict(batches)

        return trainer, result, {"dev": self.task.report.dev_logits(predict), "test": {}}


class FinetuningOnAll(Finetuning):
    """Runs without validation: all rows are trained on."""

    run_class = _RunOnAllRows
    evaluated_on = "the training data"

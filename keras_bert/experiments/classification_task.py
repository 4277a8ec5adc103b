"""Fine-tuning for classification and regression: GLUE tasks and users' own tables."""

import pathlib

import numpy as np

from keras_bert.experiments.finetuning import Findings, FinetuningTask
from keras_bert.experiments.reports.labels import (
    classification_errors,
    classification_sections,
    regression_errors,
    regression_sections,
)
from keras_bert.files import write_text
from keras_bert.models.heads import build_classifier
from keras_bert.tasks import data_summary
from keras_bert.tasks.classification import predict, predictions_table, same_prediction, score
from keras_bert.tasks.glue import data as glue
from keras_bert.tasks.glue import published, submission
from keras_bert.training.bucketing import Batches
from keras_bert.training.losses import classification_loss, regression_loss


class ClassificationTask(FinetuningTask):
    """Classification or regression of texts or pairs.

    Args:
        data: a `tasks.classification.Data`, the task and its examples.
        model: directory or name of the checkpoint to start from.
        bert: the loaded checkpoint.
        sequence_length: int, maximum number of tokens of a sequence.
        submissions: folder for the submission files of the GLUE server.
    """

    def __init__(self, data, model, bert, sequence_length, submissions):
        task = data.task
        self.task, self.data, self.model, self.bert = task, data, str(model), bert
        self.sequence_length, self.submissions = sequence_length, pathlib.Path(submissions)
        self.title, self.metric = task.title, task.main_metric
        self.loss = classification_loss() if task.labels else regression_loss()
        self._preprocessor = bert.preprocessor(sequence_length)
        train = self._examples(data.train)
        lengths = train[0]["token_ids"].row_lengths().numpy()
        lengths = data_summary.token_counts(self._preprocessor.tokenizer, data.train, sequence_length, lengths)
        self.summary = data_summary.summarize(data, lengths, sequence_length, bert.config.max_position_embeddings)
        self.train = [lambda: train]
        dev, test = ({name: self._examples(part) for name, part in parts.items()} for parts in (data.dev, data.test))
        self._dev, self._test = (
            {name: Batches(*rows, 64, shuffle=False) for name, rows in parts.items()} for parts in (dev, test)
        )
        self._dev_lengths = dev[task.name][0]["token_ids"].row_lengths().numpy()
        self.dev = self._dev[task.name]
        self.settings = {
            "model": self.model,
            "task": task.name,
            "labels": list(task.labels),
            "sequence_length": sequence_length,
            "train": len(data.train),
            "dev": {name: len(part) for name, part in data.dev.items()},
            "test": {name: len(part) for name, part in data.test.items()},
        }
        self.facts = {
            "start": f"{model}, {bert.config.num_hidden_layers} layers, width {bert.config.hidden_size}",
            "training examples": f"{len(data.train):,}; {data.balance()}",
            "dev examples": ", ".join(f"{name}: {len(part):,}" for name, part in data.dev.items()),
            **data_summary.facts(self.summary),
        }

    def _examples(self, examples):
        """Returns model inputs and labels for `Batches`."""
        texts = examples.text if examples.pair is None else (examples.text, examples.pair)
        kind = "int32" if self.task.labels else "float32"
        labels = np.zeros(len(examples), kind) if examples.labels is None else np.array(examples.labels, kind)
        return self._preprocessor.ragged(texts), labels

    def build(self, bert):
        return build_classifier(bert.encoder, self.task.num_classes)

    def score(self, targets, outputs):
        return score(self.task, targets, outputs["logits"])

    def logits(self, predict, evaluated):
        return {
            split: {name: predict(batches)["logits"] for name, batches in parts.items()}
            for split, parts in (("dev", self._dev), ("test", self._test))
        }

    def save_options(self, logits):
        labels = list(self.task.labels) or None
        return {"labels": labels, "task": self.task.name, "pair": self.task.pair is not None}

    def export_options(self, bert):
        options, own = {"pair": bert.pair}, self.data.dev[self.task.name]
        options["example"] = {"text": own.text[0], **({"pair": own.pair[0]} if own.pair else {})}
        if self.task.labels:
            return {"labels": bert.labels, **options}
        ends = self.summary["range"]
        return {"score_range": (ends["lowest"], ends["highest"]), **options}

    def conclude(self, dev, test, output):
        task, data = self.task, self.data
        scores = {name: score(glue.TASKS.get(name, task), part.labels, dev[name]) for name, part in data.dev.items()}
        results, facts, tables = {"task": task.name, "scores": scores}, {}, []
        if task.name in glue.TASKS:
            for row, numbers in published.published(self.bert.config):
                known = {name: numbers[name] for name in scores if numbers[name] is not None}
                if known:
                    facts[f"{row}, test"] = ", ".join(f"{name}: {value}%" for name, value in known.items())
            tables.append(published.comparison_table(scores, self.bert.config))
        if data.categories:
            found = glue.score_diagnostics(data.dev["ax"].labels, dev["ax"], data.categories)
            results["diagnostics"] = found
            tables += ["| diagnostics | Matthews |", "|---|---|"]
            tables += [f"| {name} | {100 * value:.1f} |" for name, value in found.items()]
        sections, errors = self._report(dev[task.name])
        return Findings(
            results,
            "; ".join(f"{name}: {data_summary.listed(values)}" for name, values in scores.items()),
            facts,
            tables,
            sections,
            errors,
            self._write_predictions(test, output),
            scores[task.name],
            same_prediction(task, dev[task.name]),
        )

    def _report(self, logits):
        """Returns the sections of `report.html` and the rows of `errors.tsv`."""
        own, labels = self.data.dev[self.task.name], self.task.labels
        rows, lengths = (own.text, own.pair, own.labels, logits), self._dev_lengths
        if not labels:
            return regression_sections(*rows, lengths), regression_errors(*rows)
        return classification_sections(labels, *rows, lengths), classification_errors(labels, *rows)

    def _write_predictions(self, logits, output):
        """Writes the GLUE submission files, or `predictions.tsv` for a user's table. Returns lines to print."""
        messages = []
        for name, examples in self.data.test.items():
            if name in glue.TASKS:
                predictions = predict(self.task, logits[name])
                submission.write_submission(glue.TASKS[name], predictions, self.submissions, examples.ids)
                continue
            if examples.labels is not None:
                messages.append(f"test: {data_summary.listed(score(self.task, examples.labels, logits[name]))}")
            lines = predictions_table(logits[name], self.task.labels)
            write_text(output / "predictions.tsv", "\n".join(lines) + "\n")
        return messages

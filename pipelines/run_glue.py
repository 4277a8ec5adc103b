"""Fine-tunes on tasks of GLUE or on a table of your own, over a grid of settings and seeds, and keeps the best on dev.

    python -m pipelines.run_glue --task=mrpc --data_dir=glue_data --model=google-bert/bert-base-uncased \\
        --output_dir=runs/mrpc --learning_rate=2e-5,3e-5,5e-5 --seed=1,2,3
    python -m pipelines.run_glue --task=all --data_dir=glue_data --model=google-bert/bert-base-uncased \\
        --output_dir=runs/glue
    python -m pipelines.run_glue --task=classification --train_file=train.csv --dev_file=dev.csv --text_column=review \\
        --label_column=stars --model=google-bert/bert-base-uncased --output_dir=runs/reviews

`--data_dir` has the official files, in itself or in folders such as `MRPC`; without it they come from
tensorflow-datasets. Flags with lists make a grid; a run that is finished is not run again, and one that was cut goes on
where it was. In `--output_dir`: `flags.txt` (for `--flagfile`), `runs/` with a folder of `metrics.jsonl`, `dev.npz` and
`test.npz` for each run, `results.json`, `results.md` beside published scores, `report.html`, the best model in `model/`
and, with text in and labels out, in `saved_model/1/`. Several tasks have a folder each. `submission/` and
`submission.zip` are for GLUE's server; `predictions.tsv` are those of `--test_file`, a line a row; labels with tabs or
line breaks stand in quotes, as in the dialect `excel-tab` of Python's `csv`. MRPC, three epochs of a model of 6 layers,
width 384, takes two and a half minutes a run on two cores.
"""

import dataclasses
import functools
import json
import pathlib

import keras
import numpy as np
from absl import flags, logging

import keras_bert
from keras_bert.experiments import grid
from keras_bert.experiments.reports.labels import classification_sections, regression_sections
from keras_bert.experiments.reports.report import write_report
from keras_bert.experiments.study import Study
from keras_bert.tasks.classification import OWN, own_data, predict, predictions_table, score
from keras_bert.tasks.glue import data as glue
from keras_bert.tasks.glue import published as glue_published
from keras_bert.tasks.glue import submission
from keras_bert.tasks.glue.tasks import LEARNING_RATES
from keras_bert.training.distribution import is_chief
from pipelines import common_flags

_GLUE = [name for name in glue.TASKS if name not in ("ax", "mnli_mismatched")]  # Those two are tests of mnli.
_TASK = flags.DEFINE_list(
    "task", None, f"Tasks: {', '.join(_GLUE)}, all, or classification or regression.", required=True
)
_DATA = flags.DEFINE_string("data_dir", None, "The official files; by default they are downloaded.")
_SKIP = flags.DEFINE_integer("skip_bad_rows", 0, "How many rows that cannot be read are left out of a file.", 0)
_DIAGNOSTICS = flags.DEFINE_string("diagnostics", None, "diagnostic-full.tsv, to score the model of mnli by category.")
_INIT = flags.DEFINE_string("init_from", None, "Output of another run, or a task of this one, to start from its model.")
_TRAIN = flags.DEFINE_string("train_file", None, "Your own table: CSV, TSV or JSONL.")
_DEV = flags.DEFINE_string("dev_file", None, "The one to choose the best run by.")
_TEST = flags.DEFINE_string("test_file", None, "The one to predict.")
_TEXT = flags.DEFINE_string("text_column", "text", "Its column of the text.")
_PAIR = flags.DEFINE_string("pair_column", None, "Its column of the second text.")
_LABEL = flags.DEFINE_string("label_column", "label", "Its column of the label.")
_LENGTH = flags.DEFINE_integer("sequence_length", 128, "The most pieces of a sequence.", 3)
_OF = common_flags.finetuning([str(rate) for rate in LEARNING_RATES])


def main():
    strategy = keras_bert.create_strategy(_OF.strategy.value)
    output, names = pathlib.Path(_OF.output_dir.value), _names()
    everything = [_read(name) for name in names]  # All of it first: what is missing is told before hours of training.
    output.mkdir(parents=True, exist_ok=True)
    common_flags.write_given(output / "flags.txt")
    scores = {}
    for examples in everything:
        name = examples.task.name
        folder = output / name if len(names) > 1 else output
        finetuning = _Finetuning(examples, _start(name, output), folder, strategy)
        finetuning.run()
        if is_chief(strategy):
            scores.update(finetuning.finish(output / "submission"))
    if is_chief(strategy):
        if len(names) > 1:
            _write_together(output, scores, finetuning.bert.config)
        if names[0] in glue.TASKS:
            _zip(output)
        print(f"next: python -m pipelines.predict --model={folder / 'model'} {finetuning.sample()}")


def _write_together(output, scores, config):
    table = f"# GLUE\n\n{glue_published.comparison_table(scores, config)}\n{glue_published.averages(scores)}"
    (output / "results.md").write_text(table)
    (output / "results.json").write_text(json.dumps(scores, indent=1))
    print(table)


def _zip(output):
    """The archive for GLUE's server, if it would take the files that there are."""
    if any((output / "submission").glob("*.tsv")):
        try:
            submission.zip_submission(output / "submission", output / "submission.zip")
        except ValueError as error:
            logging.warning("no submission.zip: %s", error)


def _names():
    """The tasks in the order in which they run: that of `--init_from` first."""
    names = _GLUE if _TASK.value == ["all"] else _TASK.value
    for name in names:
        if name not in (*_GLUE, *OWN) or (name in OWN and len(names) > 1):
            known = f"of {', '.join(_GLUE)}, or all, or one of {', '.join(OWN)}"
            raise ValueError(f"--task must be {known}. Received: {_TASK.value}")
    if len(set(names)) < len(names):
        raise ValueError(f"--task has a task twice. Received: {_TASK.value}")
    return sorted(names, key=lambda name: name != _INIT.value)


def _read(name):
    files = {"train_file": _TRAIN.value, "dev_file": _DEV.value}
    if name in OWN:
        if None in files.values():
            raise ValueError(f"--task={name} needs --train_file and --dev_file. Received: {files}")
        examples = own_data(name, **files, test_file=_TEST.value, **_columns(), skip_bad_rows=_SKIP.value)
    elif given := [f"--{flag}" for flag, value in {**files, "test_file": _TEST.value}.items() if value]:
        raise ValueError(f"{', '.join(given)}: for --task=classification or regression. Received: --task={name}")
    else:
        examples = glue.read_all(glue.TASKS[name], _DATA.value, _SKIP.value, _DIAGNOSTICS.value)
    return dataclasses.replace(examples, train=examples.train.first(_OF.max_train_examples.value))


def _columns():
    return {"text": _TEXT.value, "pair": _PAIR.value, "label": _LABEL.value}


def _start(name, output):
    """The model that a task starts from."""
    if _INIT.value in (None, name):
        if not _OF.model.value:
            raise ValueError(
                f"--model is needed for {name}: a directory or a name such as google-bert/bert-base-uncased"
            )
        return _OF.model.value
    if _INIT.value in _GLUE:
        if _INIT.value not in _TASK.value and _TASK.value != ["all"]:
            raise ValueError(
                f"--init_from={_INIT.value} must be a task of this run or a folder. Received: {_TASK.value}"
            )
        return str(output / _INIT.value / "model")
    inner = pathlib.Path(_INIT.value) / "model"
    return str(inner) if inner.is_dir() else _INIT.value


@functools.cache
def _opened(start):
    """A checkpoint and its preprocessor, the same for all tasks that start from it."""
    bert = keras_bert.load(start)
    return bert, bert.preprocessor(_LENGTH.value)


class _Finetuning:
    """The runs of one task and what they leave in `output`."""

    def __init__(self, data, start, output, strategy):
        self.task, self.data, self.start = data.task, data, start
        self.output, self.strategy = output, strategy
        self.bert, self.preprocessor = _opened(start)
        self.train = self._rows(data.train)
        self.dev, self.test = (
            {name: keras_bert.Batches(*self._rows(part), 64, shuffle=False) for name, part in parts.items()}
            for parts in (data.dev, data.test)
        )
        self.study = Study(output, self.task.main_metric, _OF.ensemble.value, is_chief(strategy))

    def _rows(self, examples):
        """Model inputs and labels of examples, for `Batches`."""
        texts = examples.text if examples.pair is None else (examples.text, examples.pair)
        kind = "int32" if self.task.labels else "float32"
        labels = np.zeros(len(examples), kind) if examples.labels is None else np.array(examples.labels, kind)
        return self.preprocessor.ragged(texts), labels

    def run(self):
        """Runs what is not finished of the grid."""
        settings = grid.settings(**common_flags.choices(_OF, self.task.batch_size, self.task.epochs))
        sizes = f"{len(self.data.train):,} examples to train on, {len(self.data.dev[self.task.name]):,} of dev"
        logging.info("%s: %s, runs: %d", self.task.title, sizes, len(settings))
        logging.info("%s, training labels: %s", self.task.title, self.data.balance())
        common = {
            "model": str(self.start),
            "task": self.task.name,
            "labels": list(self.task.labels),
            "sequence_length": _LENGTH.value,
            "train": len(self.data.train),
            "dev": {name: len(part) for name, part in self.data.dev.items()},
            "test": {name: len(part) for name, part in self.data.test.items()},
            **common_flags.shared(_OF),
        }
        self.study.run(settings, common, self._run)

    def _run(self, setting, folder):
        """One run: scores, logits of dev and test, and how to save its model."""
        logging.info("%s: %s", self.task.title, grid.folder_name(setting))
        keras.backend.clear_session()
        keras.utils.set_random_seed(setting["seed"])
        train = keras_bert.Batches(
            *self.train, setting["batch_size"], seed=setting["seed"], grouped=_OF.group_by_length.value
        )
        trainer = common_flags.trainer(
            _OF,
            setting,
            train.steps,
            self._model,
            keras_bert.classification_loss() if self.task.labels else keras_bert.regression_loss(),
            metrics=lambda labels, outputs: score(self.task, labels, outputs["logits"]),
            directory=folder,
            strategy=self.strategy,
            settings={"model": str(self.start), "precision": _OF.precision.value},
        )
        scores = trainer.fit(train, epochs=setting["epochs"], evaluation=self.dev[self.task.name])
        logits = {
            split: {name: trainer.predict(batches)["logits"] for name, batches in parts.items()}
            for split, parts in (("dev", self.dev), ("test", self.test))
        }
        return scores, logits, lambda: self._save(trainer.model)

    def _model(self):
        encoder = keras_bert.load(self.start, dtype=_OF.precision.value).encoder
        return keras_bert.build_classifier(encoder, self.task.num_classes)

    def _save(self, model):
        keras_bert.save(
            model,
            self.output / "model",
            self.bert.vocabulary,
            lowercase=self.bert.lowercase,
            labels=list(self.task.labels) or None,
            task=self.task.name,
            strip_accents=self.bert.strip_accents,
            pair=self.task.pair is not None,
            sequence_length=_LENGTH.value,
        )

    def finish(self, server):
        """Writes what is made of all runs together; returns the scores on dev by name."""
        dev = self.study.logits("dev")
        scores = {
            name: score(glue.TASKS.get(name, self.task), part.labels, dev[name]) for name, part in self.data.dev.items()
        }
        report = {"task": self.task.name, "scores": scores, "facts": self._facts(scores), **self.study.summary()}
        if self.data.categories:
            report["diagnostics"] = glue.score_diagnostics(self.data.dev["ax"].labels, dev["ax"], self.data.categories)
        self._export()
        self._write_predictions(server)
        (self.output / "results.json").write_text(json.dumps(report, indent=1))
        (self.output / "results.md").write_text(self._markdown(report))
        self._write_report(report["facts"], dev[self.task.name])
        print(f"\n{self.task.title}, dev\n{grid.markdown(report['summary'], self.study.metric)}", end="")
        print(f"best: {report['facts']['best run']}: {report['facts']['scores on dev']}\n")
        return scores

    def _export(self):
        bert = keras_bert.load(self.output / "model")  # Anew: outside of any strategy, in float32.
        keras_bert.export(
            bert.model(),
            bert.preprocessor(_LENGTH.value, padding="longest"),
            self.output / "saved_model" / "1",
            labels=bert.labels if self.task.labels else None,
            pair=bert.pair,
        )

    def _write_predictions(self, server):
        """The files for GLUE's server; of a user's own table, a line a row as `pipelines.predict` prints it."""
        logits = self.study.logits("test")
        for name, examples in self.data.test.items():
            if name in glue.TASKS:
                predictions = predict(self.task, logits[name])
                submission.write_submission(glue.TASKS[name], predictions, server, examples.ids)
                continue
            if examples.labels is not None:
                print(f"test: {_words(score(self.task, examples.labels, logits[name]))}")
            lines = predictions_table(logits[name], self.task.labels)
            (self.output / "predictions.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def _facts(self, scores):
        """What stands at the head of a report."""
        config, best = self.bert.config, self.study.best()
        facts = {
            "start": f"{self.start}, {config.num_hidden_layers} layers, width {config.hidden_size}",
            "training examples": f"{len(self.data.train):,}; {self.data.balance()}",
            "dev examples": ", ".join(f"{name}: {len(part):,}" for name, part in self.data.dev.items()),
            "best run": grid.folder_name(best[0]["setting"]).replace(",", ", "),
            "scores on dev": "; ".join(f"{name}: {_words(values)}" for name, values in scores.items()),
        }
        if len(best) > 1:
            facts["scores on dev"] += f" (the {len(best)} best runs together)"
        if self.task.name in glue.TASKS:
            for row, numbers in glue_published.published(config):
                facts[f"{row}, test"] = ", ".join(f"{name}: {numbers[name]}" for name in scores if numbers[name])
        return facts

    def _markdown(self, report):
        parts = [f"# {self.task.title}, dev", "", *(f"- {name}: {text}" for name, text in report["facts"].items()), ""]
        parts += [grid.markdown(report["summary"], self.study.metric)]
        parts += [grid.runs_table(self.study.results, self.study.metric)]
        if self.task.name in glue.TASKS:
            parts.append(glue_published.comparison_table(report["scores"], self.bert.config))
        if categories := report.get("diagnostics"):
            parts += ["| diagnostics | Matthews |", "|---|---|"]
            parts += [f"| {name} | {100 * value:.1f} |" for name, value in categories.items()]
        return "\n".join(parts).rstrip() + "\n"

    def _write_report(self, facts, logits):
        dev, labels = self.data.dev[self.task.name], self.task.labels
        columns = dev.text, dev.pair, dev.labels, logits
        write_report(
            self.output / "report.html",
            self.task.title,
            list(facts.items()),
            self.study.metric,
            self.study.results,
            self.study.curves(),
            classification_sections(labels, *columns) if labels else regression_sections(*columns),
        )

    def sample(self):
        """The arguments of a first prediction."""
        return '"A text."' if self.task.pair is None else '"A text." "Its pair."'


def _words(scores):
    return ", ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in scores.items())


if __name__ == "__main__":
    common_flags.run(main)

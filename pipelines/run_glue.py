"""Fine-tunes on your own table or on GLUE, and keeps the best model on dev.

    python -m pipelines.run_glue --task=mrpc --data_dir=glue_data --model=google-bert/bert-base-uncased \\
        --output_dir=runs/mrpc --learning_rate=2e-5,3e-5,5e-5 --seed=1,2,3
    python -m pipelines.run_glue --task=all --data_dir=glue_data --model=google-bert/bert-base-uncased \\
        --output_dir=runs/glue
    python -m pipelines.run_glue --task=classification --train_file=train.csv --dev_file=dev.csv --text_column=review \\
        --label_column=stars --model=google-bert/bert-base-uncased --output_dir=runs/reviews
    python -m pipelines.run_glue --task=classification --train_file=train.csv --folds=5 \\
        --model=google-bert/bert-base-uncased --output_dir=runs/reviews
    python -m pipelines.run_glue --task=multi_label --train_file=train.csv --dev_file=dev.csv \\
        --label_column=toxic,threat,insult --threshold=per_label --model=google-bert/bert-base-uncased \\
        --output_dir=runs/comments
    python -m pipelines.run_glue --task=mrpc --data_dir=glue_data --teacher=runs/mrpc --student_layers=6 \\
        --output_dir=runs/mrpc_student

`--data_dir` contains the official files, directly or in folders such as `MRPC`; without it, tensorflow-datasets
provides them. Flags with several values form a grid; the same command resumes interrupted runs and keeps finished ones.
Each run keeps its best epoch on dev. With `--folds`, each run trains on all folds of the table but one for all its
epochs and predicts the remaining one; then the model to keep is trained on all rows with the best setting. With
`--task=multi_label`, any number of labels apply to a text; `--threshold` chooses their thresholds on dev by F1. With
`--teacher`, the model learns from the logits of another one, too, which are kept in `teacher/` of the output.
`--output_dir` contains `flags.txt` (for `--flagfile`), `runs/` with `metrics.jsonl`, `dev.npz` and `test.npz` for each
run, `results.json`, `results.md`, `report.html`, the best model in `model/` and its export, from
text to labels, in `saved_model/1/`. With several tasks, each has its own folder. `submission/` and `submission.zip` are
for the GLUE server; `predictions.tsv` has a line for each row of `--predict_file`; labels that contain tabs or line
breaks are quoted (dialect `excel-tab` of `csv`). Three epochs on MRPC with a model of 6 layers, width 384, take two and
a half minutes on two cores.
"""

import dataclasses
import functools
import logging
import pathlib
import typing

import keras_bert
from keras_bert import other_models
from keras_bert.data.formats import source
from keras_bert.files import write_json, write_text
from keras_bert.heads.class_settings import THRESHOLD
from keras_bert.reports.comparisons import compared
from keras_bert.tasks.classification import glue, leaderboard
from keras_bert.tasks.classification.data import (
    OWN,
    ClassificationSettings,
    MultiLabelSettings,
    own_data,
    parse_threshold,
    read_table,
)

from . import command
from .arguments import flag, nearest
from .common_flags import (
    NARROW,
    CrossValidationFlags,
    Distillation,
    FewExamplesFlags,
    FinetuningFlags,
    TableColumns,
    ValidationSplit,
    load_model,
    print_next,
)

_GLUE = [name for name in glue.TASKS if name not in ("ax", "mnli_mismatched")]  # The other two are test sets of mnli.
_DEV = ("dev_file", "validation_split", "folds")
_FILES = ("train_file", *_DEV, "predict_file")
_OWN = f"{', '.join(OWN[:-1])} or {OWN[-1]}"


class Arguments(
    MultiLabelSettings,
    ClassificationSettings,
    TableColumns,
    Distillation,
    FewExamplesFlags,
    CrossValidationFlags,
    ValidationSplit,
    FinetuningFlags,
):
    wording: typing.ClassVar = {
        "rates": f"3e-5, or 5e-5,4e-5,3e-5,2e-5 for GLUE{NARROW}",
        "batches": "32",
        "epochs": "3",
        "teacher": "such as the output of this command for the same task; the default of --model",
    }

    task: list[str] = flag(None, f"Task(s): {', '.join(_GLUE)}; all; or {_OWN}.", required=True, section="data")
    data_dir: str = flag(None, "Folder with the official files; default: downloaded.")
    skip_bad_rows: int = flag(0, "Maximum number of unreadable rows to skip in train and dev each.", least=0)
    diagnostics: str = flag(None, "diagnostic-full.tsv, to score the mnli model by category.")
    train_file: str = flag(None, "Your own training data: CSV, TSV or JSONL.")
    dev_file: str = flag(None, "File to select the best run on.")
    predict_file: str = flag(None, "File to predict.")
    model: str = flag(None, "Directory or name of the model to start from; default: the teacher.", section="model")
    init_from: str = flag(
        None, "Output of another run, or a task of this run, to start from; the former instead of --model."
    )
    unlabelled: str = flag(
        None, "File of texts without labels, which the teacher labels.", section="distillation", needs="teacher"
    )

    @functools.cached_property
    def tasks(self):
        """The tasks in the order of the runs, the one of `--init_from` first."""
        names = _GLUE if self.task == ["all"] else self.task
        if not names or any(name not in (*_GLUE, *OWN) or (name in OWN and len(names) > 1) for name in names):
            known = f"one or more of {', '.join(_GLUE)}; all; or one of {', '.join(OWN)}"
            fix = nearest(self.task, [*_GLUE, "all", *OWN])
            raise ValueError(f"--task must be {known}. Received: --task={','.join(self.task)}{fix}")
        if len(set(names)) < len(names):
            raise ValueError(f"--task contains duplicates. Received: --task={','.join(self.task)}")
        return sorted(names, key=lambda name: name != self.init_from)

    @functools.cached_property
    def data(self):
        """The data of all tasks, read at once: missing files are reported before hours of training."""
        return [self.divided(self._read(name)) for name in self.tasks]

    def _read(self, name):
        if name in _GLUE:
            options = {"skip_bad_rows": self.skip_bad_rows, "diagnostics": self.diagnostics}
            return glue.read_all(glue.TASKS[name], self.data_dir, **options)
        if self.train_file is None or sum(getattr(self, name) is not None for name in _DEV) != 1:
            received = " ".join(self.given[name] for name in _FILES if name in self.given) or "none of them"
            raise ValueError(
                f"--task={name} requires --train_file, and either --dev_file, --validation_split=0.1 or --folds=5 for "
                f"cross-validation. Received: {received}"
            )
        label = self.label_column.split(",") if name == "multi_label" else self.label_column
        columns = {"text": self.text_column, "pair": self.pair_column, "label": label}
        train = source(self.train_file)
        dev = self.dev_file if self.validation_split is None else train
        data = own_data(name, train, dev, self.predict_file, **columns, skip_bad_rows=self.skip_bad_rows)
        if self.validation_split is not None:
            data = data.split(self.validation_split, self.seed[0])
        return data

    @functools.cached_property
    def unlabelled_texts(self):
        """The texts without labels, `None` if there are none."""
        if not self.unlabelled:
            return None
        if len(self.tasks) > 1:
            raise ValueError(f"--unlabelled: only for one --task. Received: --task={','.join(self.tasks)}")
        (name,) = self.tasks
        if name in _GLUE and (glue.TASKS[name].pair is None) != (self.pair_column is None):
            wanted = "no --pair_column" if self.pair_column else "--pair_column, the column of the second text"
            raise ValueError(f"--unlabelled for --task={name}: expected {wanted}. Received: {self.pair_column}")
        return read_table(self.unlabelled, self.text_column or "text", self.pair_column)

    def folder(self, name):
        """Returns the folder of the results of a task."""
        return self.output / name if len(self.tasks) > 1 else self.output

    def known_settings(self):
        """Returns settings of the runs by the folder of their output, see `check_known_settings`."""
        found = {}
        for name in self.tasks:
            shared = self.settings_of_runs(self.start(name), self.sequence_length, **self.changes)
            found[self.folder(name)] = {"task": name, **shared}
        if self.is_read_early:
            for data in self.data:
                found[self.folder(data.task.name)] |= {"content": data.fingerprints(), "labels": list(data.task.labels)}
        return found

    @property
    def is_read_early(self):
        """Whether the data can be read without TensorFlow, which those of TensorFlow Datasets need."""
        return bool(self.data_dir) or self.tasks[0] in OWN

    @property
    def models(self):
        """The models to start from that exist before the first run."""
        return [self.start(self.tasks[0])]

    def start(self, name):
        """Returns the model that a task starts from."""
        if self.init_from in (None, name):
            if not (self.model or self.teacher):
                raise ValueError(
                    f"--model is required for {name}: a directory or a name such as google-bert/bert-base-uncased"
                )
            return self.model or self.teacher_of(name)
        if self.init_from not in _GLUE:
            inner = pathlib.Path(self.init_from) / "model"
            return str(inner) if inner.is_dir() else self.init_from
        if self.init_from not in self.tasks:
            raise ValueError(
                f"--init_from={self.init_from} must be a task of this run or a folder. "
                f"Received: --task={','.join(self.task)}"
            )
        return str(self.output / self.init_from / "model")

    def teacher_of(self, name):
        """Returns the teacher of a task: a model, or that of the output of this command for one or several tasks."""
        folder = pathlib.Path(self.teacher)
        inner = [folder / name / "model", folder / "model"]
        return next((str(path) for path in inner if path.is_dir()), self.teacher)


def check(arguments):
    own, starts = arguments.tasks[0] in OWN, [arguments.start(name) for name in arguments.tasks]
    arguments.only(own or arguments.unlabelled, "for your own table", "text_column", "pair_column")
    arguments.only(own, f"for --task={_OWN}", "label_column", *_FILES)
    arguments.only(not own, "for GLUE", "data_dir")
    arguments.only("mnli" in arguments.tasks, "for --task=mnli", "diagnostics")
    arguments.load_options(starts[:1])
    is_multi_label, language_model = arguments.tasks == ["multi_label"], arguments.language_model_weight
    arguments.only(
        is_multi_label or parse_threshold(arguments.threshold) == THRESHOLD, "for --task=multi_label", "threshold"
    )
    have_classes = not any(name in ("multi_label", "regression") for name in arguments.tasks)
    have_classes = have_classes and all(glue.TASKS[name].labels for name in arguments.tasks if name in glue.TASKS)
    arguments.only(have_classes or is_multi_label, "for tasks with classes", "calibrate")
    arguments.only(have_classes, "for tasks with one class for each text", "answer_at_precision")
    if language_model:
        arguments.only(not is_multi_label, "without --task=multi_label", "language_model_weight")
        arguments.only(not arguments.teacher, "without --teacher", "language_model_weight")
    if arguments.pack and (language_model or any(map(other_models.creating, starts))):
        raise ValueError("--pack: only for BERT, without --language_model_weight")
    _ = arguments.unlabelled_texts
    if arguments.teacher and len(arguments.tasks) > 1:
        for model in (pathlib.Path(arguments.teacher, name, "model") for name in arguments.tasks):
            if not model.is_dir():
                raise ValueError(f"--teacher must have a model for each of several tasks. Expected {model}")
    if arguments.is_read_early:
        _ = arguments.data
    else:
        for name in arguments.tasks:
            glue.check_available(glue.TASKS[name])


def main(arguments):
    from keras_bert.training.distribution import is_chief

    output, strategy = arguments.output, arguments.create_strategy()
    everything, several, writes = arguments.data, len(arguments.tasks) > 1, is_chief(strategy)
    if writes:
        write_text(output / "flags.txt", arguments.flagfile)
    load, scores = functools.cache(load_model), {}
    for data in everything:
        folder = arguments.folder(data.task.name)
        task = _create_task(arguments, data, load)
        teacher = _create_teacher(arguments, task, load, folder)
        runs = arguments.runs(task, folder, strategy, teacher=teacher)
        runs.run()
        if writes:
            print(runs.finish())
            scores.update(runs.results["scores"])
    if not writes:
        return
    if several:
        _write_together(output, scores, task)
    if data.task.name in glue.TASKS:
        _zip(output)
    texts = '"A text."' if data.task.pair is None else '"A text." "Its pair."'
    print_next(folder, texts, arguments.predict_file and "predictions.tsv")


def _create_task(arguments, data, load):
    """Returns the `Task`."""
    name = arguments.start(data.task.name)
    load_options = arguments.load_options([name]) if name == arguments.model else {}
    if arguments.student_layers:
        load_options["num_layers"] = arguments.student_layers
    kind = keras_bert.tasks.MultiLabelTask if data.task.multi_label else keras_bert.tasks.ClassificationTask
    start = keras_bert.tasks.Start(
        name,
        load(name, **load_options),
        load_model,
        load_options,
        new_head=bool(arguments.teacher),  # The student learns its head from the teacher's answers.
        head=arguments.head_of(kind),
    )
    data = dataclasses.replace(data, submissions=arguments.output / "submission")
    return kind(data, start, arguments.fill(kind.Settings))


def _create_teacher(arguments, task, load, folder):
    """Returns the `Teacher` of a task, `None` without one; `folder` is that of the results."""
    from keras_bert.tasks.teacher import Teacher

    if not arguments.teacher:
        return None
    name = arguments.teacher_of(task.spec.name)
    return Teacher(
        task,
        name,
        load(name),
        folder / "teacher",
        temperature=arguments.temperature,
        alpha=arguments.alpha,
        unlabelled=arguments.unlabelled_texts,
    )


def _write_together(output, scores, task):
    """Writes and prints the table of all tasks; `task` is the last one."""
    _, tables = compared(task, scores)
    table = "\n".join(["# GLUE\n", *(tables or [leaderboard.table(scores)]), leaderboard.averages(scores)])
    write_text(output / "results.md", table)
    write_json(output / "results.json", scores, measured=True)
    print(table)


def _zip(output):
    """Writes the archive for the GLUE server if all files exist."""
    if any((output / "submission").glob("*.tsv")):
        try:
            leaderboard.zip_submission(output / "submission", output / "submission.zip")
        except ValueError as error:
            logging.getLogger("keras_bert").warning("no submission.zip: %s", error)


if __name__ == "__main__":
    command.run(__doc__, Arguments, main, check, resumes=True)

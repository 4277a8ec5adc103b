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
from keras_bert.tasks.classification.data import OWN, Columns, own_data, read_table
from keras_bert.tasks.classification.settings import ClassificationSettings, MultiLabelSettings, parse_threshold

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
    unlabeled: str = flag(
        None, "File of texts without labels, which the teacher labels.", section="distillation", needs="teacher"
    )

    @functools.cached_property
    def tasks(self):
        """The tasks in the order of the runs, the one of `--init_from` first."""
        names = _GLUE if self.task == ["all"] else self.task
        are_glue = bool(names) and all(name in _GLUE for name in names)
        is_own = len(names) == 1 and names[0] in OWN
        if not are_glue and not is_own:
            known = f"one or more of {', '.join(_GLUE)}; all; or one of {', '.join(OWN)}"
            fix = nearest(self.task, [*_GLUE, "all", *OWN])
            raise ValueError(f"--task must be {known}. Received: --task={','.join(self.task)}{fix}")
        if len(set(names)) < len(names):
            raise ValueError(f"--task contains duplicates. Received: --task={','.join(self.task)}")
        return sorted(names, key=lambda name: name != self.init_from)

    @functools.cached_property
    def data(self):
        """The data of all tasks, read at once: missing files are reported before hours of training."""
        return [self.divided(self._read_task(name)) for name in self.tasks]

    def _read_task(self, name):
        """Returns the data of one task: GLUE's, or that of your own files."""
        if name in _GLUE:
            return glue.read_all(
                glue.TASKS[name],
                self.data_dir,
                skip_bad_rows=self.skip_bad_rows,
                diagnostics=self.diagnostics,
            )
        self._check_files(name)
        label = self.label_column.split(",") if name == "multi_label" else self.label_column
        columns = Columns(text=self.text_column, pair=self.pair_column, label=label)
        train = source(self.train_file)
        dev = self.dev_file if self.validation_split is None else train
        data = own_data(name, train, dev, self.predict_file, columns, skip_bad_rows=self.skip_bad_rows)
        if self.validation_split is not None:
            data = data.split(self.validation_split, self.seed[0])
        return data

    def _check_files(self, task):
        """Raises an error unless a task of your own has rows to train on and rows to select the best run on."""
        given_for_dev = [name for name in _DEV if getattr(self, name) is not None]
        if self.train_file is None or len(given_for_dev) != 1:
            received = " ".join(self.given[name] for name in _FILES if name in self.given)
            raise ValueError(
                f"--task={task} requires --train_file, and either --dev_file, --validation_split=0.1 or --folds=5 for "
                f"cross-validation. Received: {received or 'none of them'}"
            )

    @functools.cached_property
    def unlabeled_texts(self):
        """The texts without labels, `None` if there are none."""
        if not self.unlabeled:
            return None
        if len(self.tasks) > 1:
            raise ValueError(f"--unlabeled: only for one --task. Received: --task={','.join(self.tasks)}")
        (name,) = self.tasks
        if name in _GLUE:
            self._check_pair_column(name)
        return read_table(self.unlabeled, self.text_column or "text", self.pair_column)

    def _check_pair_column(self, name):
        """Raises an error unless texts without labels are pairs if those of a task of GLUE are."""
        takes_pairs = glue.TASKS[name].pair is not None
        has_pairs = self.pair_column is not None
        if takes_pairs != has_pairs:
            wanted = "no --pair_column" if self.pair_column else "--pair_column, the column of the second text"
            raise ValueError(f"--unlabeled for --task={name}: expected {wanted}. Received: {self.pair_column}")

    def folder(self, name):
        """Returns the folder of the results of a task."""
        return self.output / name if len(self.tasks) > 1 else self.output

    def known_settings(self):
        """Returns settings of the runs by the folder of their output, see `check_known_settings`."""
        known = {}
        for name in self.tasks:
            shared = self.settings_of_runs(self.start(name), self.sequence_length, **self.changes)
            known[self.folder(name)] = {"task": name} | shared
        if self.is_read_early:
            for data in self.data:
                settings = known[self.folder(data.task.name)]
                settings["content"] = data.fingerprints()
                settings["labels"] = list(data.task.labels)
        return known

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
        for model in (folder / name / "model", folder / "model"):
            if model.is_dir():
                return str(model)
        return self.teacher


def check(arguments):
    starts = [arguments.start(name) for name in arguments.tasks]
    _check_kind_of_data(arguments)
    arguments.load_options(starts[:1])
    _check_flags_of_answers(arguments)
    _check_pack(arguments, starts)
    _ = arguments.unlabeled_texts
    _check_teachers(arguments)
    if arguments.is_read_early:
        _ = arguments.data
    else:
        for name in arguments.tasks:
            glue.check_available(glue.TASKS[name])


def _check_kind_of_data(arguments):
    """Raises an error for flags of your own table with a task of GLUE, or the other way round."""
    is_own = arguments.tasks[0] in OWN  # Then it is the only one.
    arguments.only(is_own or arguments.unlabeled, "for your own table", "text_column", "pair_column")
    arguments.only(is_own, f"for --task={_OWN}", "label_column", *_FILES)
    arguments.only(not is_own, "for GLUE", "data_dir")
    arguments.only("mnli" in arguments.tasks, "for --task=mnli", "diagnostics")


def _check_flags_of_answers(arguments):
    """Raises an error for flags of classes, of several labels, or of a language model, with tasks that have none."""
    is_multi_label = arguments.tasks == ["multi_label"]
    has_default_threshold = parse_threshold(arguments.threshold) == THRESHOLD
    arguments.only(is_multi_label or has_default_threshold, "for --task=multi_label", "threshold")
    have_classes = all(_has_classes(name) for name in arguments.tasks)
    arguments.only(have_classes or is_multi_label, "for tasks with classes", "calibrate")
    arguments.only(have_classes, "for tasks with one class for each text", "answer_at_precision")
    if arguments.language_model_weight:
        arguments.only(not is_multi_label, "without --task=multi_label", "language_model_weight")
        arguments.only(not arguments.teacher, "without --teacher", "language_model_weight")


def _has_classes(name):
    """Returns whether a text of a task has one class."""
    if name in glue.TASKS:
        return bool(glue.TASKS[name].labels)
    return name not in ("multi_label", "regression")


def _check_pack(arguments, starts):
    """Raises an error for `--pack` where several texts cannot be in one row; `starts` are the models."""
    if not arguments.pack:
        return
    if arguments.language_model_weight or any(map(other_models.creating, starts)):
        raise ValueError("--pack: only for BERT, without --language_model_weight")


def _check_teachers(arguments):
    """Raises an error unless several tasks have a teacher each."""
    if not arguments.teacher or len(arguments.tasks) == 1:
        return
    for name in arguments.tasks:
        model = pathlib.Path(arguments.teacher, name, "model")
        if not model.is_dir():
            raise ValueError(f"--teacher must have a model for each of several tasks. Expected {model}")


def main(arguments):
    from keras_bert.training.distribution import is_chief

    output = arguments.output
    strategy = arguments.create_strategy()
    data_of_tasks = arguments.data
    writes = is_chief(strategy)
    if writes:
        write_text(output / "flags.txt", arguments.flagfile)
    load = functools.cache(load_model)
    scores = {}
    for data in data_of_tasks:
        folder = arguments.folder(data.task.name)
        task = _create_task(arguments, data, load)
        teacher = _create_teacher(arguments, task, load, folder)
        runs = arguments.runs(task, folder, strategy, teacher=teacher)
        runs.run()
        if writes:
            print(runs.finish())
            scores.update(runs.results["scores"])
    if writes:
        _finish(arguments, task, scores)


def _finish(arguments, last_task, scores):
    """Writes what all tasks have together, and prints what to run next, with the model of the last task."""
    spec = last_task.spec
    if len(arguments.tasks) > 1:
        _write_together(arguments.output, scores, last_task)
    if spec.name in glue.TASKS:
        _zip(arguments.output)
    texts = '"A text."' if spec.pair is None else '"A text." "Its pair."'
    print_next(arguments.folder(spec.name), texts, arguments.predict_file and "predictions.tsv")


def _create_task(arguments, data, load):
    """Returns the `Task` of the data of one task; `load` keeps the models that several tasks start from."""
    name = arguments.start(data.task.name)
    load_options = {}
    if name == arguments.model:
        load_options.update(arguments.load_options([name]))
    if arguments.student_layers:
        load_options["num_layers"] = arguments.student_layers
    task_class = keras_bert.tasks.ClassificationTask
    if data.task.multi_label:
        task_class = keras_bert.tasks.MultiLabelTask
    start = keras_bert.tasks.Start(
        name,
        load(name, **load_options),
        load_model,
        load_options,
        new_head=bool(arguments.teacher),  # The student learns its head from the teacher's answers.
        head=arguments.head_of(task_class),
    )
    data = dataclasses.replace(data, submissions=arguments.output / "submission")
    return task_class(data, start, arguments.fill(task_class.Settings))


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
        unlabeled=arguments.unlabeled_texts,
    )


def _write_together(output, scores, task):
    """Writes and prints the table of all tasks; `task` is the last one."""
    _, tables = compared(task, scores)
    if not tables:
        tables = [leaderboard.table(scores)]
    table = "\n".join(["# GLUE\n", *tables, leaderboard.averages(scores)])
    write_text(output / "results.md", table)
    write_json(output / "results.json", scores, measured=True)
    print(table)


def _zip(output):
    """Writes the archive for the GLUE server if all files exist."""
    submission = output / "submission"
    if not any(submission.glob("*.tsv")):
        return
    try:
        leaderboard.zip_submission(submission, output / "submission.zip")
    except ValueError as error:
        logging.getLogger("keras_bert").warning("no submission.zip: %s", error)


if __name__ == "__main__":
    command.run(__doc__, Arguments, main, check, resumes=True)

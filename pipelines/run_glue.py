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
run, `results.json`, `results.md` with published scores, `report.html`, the best model in `model/` and its export, from
text to labels, in `saved_model/1/`. With several tasks, each has its own folder. `submission/` and `submission.zip` are
for the GLUE server; `predictions.tsv` has a line for each row of `--predict_file`; labels that contain tabs or line
breaks are quoted (dialect `excel-tab` of `csv`). Three epochs on MRPC with a model of 6 layers, width 384, take two and
a half minutes on two cores.
"""

import functools
import logging
import pathlib

from absl import flags

from keras_bert.files import write_json, write_text
from keras_bert.tasks.classification import glue, published, submission
from keras_bert.tasks.classification.data import OWN, own_data
from keras_bert.tasks.classification.thresholds import parse_threshold
from keras_bert.tasks.examples import read_table
from keras_bert.text.thresholds import THRESHOLD

from . import command, common_flags, wings

_GLUE = [name for name in glue.TASKS if name not in ("ax", "mnli_mismatched")]  # The other two are test sets of mnli.
_OWN = f"{', '.join(OWN[:-1])} or {OWN[-1]}"
command.section("data")
_TASK = flags.DEFINE_list("task", None, f"Task(s): {', '.join(_GLUE)}; all; or {_OWN}.", required=True)
_DATA = flags.DEFINE_string("data_dir", None, "Folder with the official files; default: downloaded.")
_SKIP = flags.DEFINE_integer("skip_bad_rows", 0, "Maximum number of unreadable rows to skip in train and dev each.", 0)
_DIAGNOSTICS = flags.DEFINE_string("diagnostics", None, "diagnostic-full.tsv, to score the mnli model by category.")
_TRAIN = flags.DEFINE_string("train_file", None, "Your own training data: CSV, TSV or JSONL.")
_DEV = flags.DEFINE_string("dev_file", None, "File to select the best run on.")
_FOLDS = flags.DEFINE_integer("folds", None, "Folds of cross-validation, instead of --dev_file; such as 5.", 2)
_PREDICT = flags.DEFINE_string("predict_file", None, "File to predict.")
_TEXT = flags.DEFINE_string("text_column", "text", "Column with the text.")
_PAIR = flags.DEFINE_string("pair_column", None, "Column with the second text.")
_LABEL = flags.DEFINE_string(
    "label_column",
    "label",
    "Column with the label; for multi_label, with labels separated by |, or columns of 0 and 1.",
)
_LENGTH = flags.DEFINE_integer("sequence_length", 128, "Maximum number of tokens of a sequence.", 3)
command.section("model")
_INIT = flags.DEFINE_string(
    "init_from", None, "Output of another run, or a task of this run, to start from; the former instead of --model."
)
_BASELINES = common_flags.baselines()
_DISTILLATION = common_flags.distillation(
    "such as the output of this command for the same task; the default of --model"
)
_UNLABELLED = flags.DEFINE_string("unlabelled", None, "File of texts without labels, which the teacher labels.")
_FLAGS = common_flags.finetuning("3e-5, or 5e-5,4e-5,3e-5,2e-5 for GLUE; 1e-3 for new models")
command.section("training")
_WEIGHTS = flags.DEFINE_enum("class_weights", None, ["balanced"], "Weights the loss so that all classes count equally.")
_LANGUAGE_MODEL = flags.DEFINE_float(
    "language_model_weight", 0.0, "Weight of a language model loss on the texts, for left-to-right models; GPT: 0.5.", 0
)
_THRESHOLD = flags.DEFINE_string(
    "threshold", "0.5", "multi_label: probability from which labels are predicted; shared or per_label: chosen on dev."
)
command.renamed(test_file="predict_file")


def check():
    """Finds mistakes in flags and files."""
    common_flags.choices(_FLAGS, [], None, None)
    names = task_names()
    own = names[0] in OWN
    common_flags.only(own or _UNLABELLED.value, "for your own table", "text_column", "pair_column")
    common_flags.only(own, f"for --task={_OWN}", "label_column")
    common_flags.only("mnli" in names, "for --task=mnli", "diagnostics")
    starts = [_start(name, pathlib.Path(_FLAGS.output_dir.value)) for name in names]
    common_flags.load_options(_BASELINES, starts[:1], "bilstm")
    common_flags.check_paths(_FLAGS.model.value)
    common_flags.check_lora(_FLAGS, starts[:1])
    if _DISTILLATION.student_layers.value and _FLAGS.lora_rank.value:
        raise ValueError("--student_layers: not with --lora_rank, whose adapter needs the whole model. Received: both")
    if parse_threshold(_THRESHOLD.value) != THRESHOLD and _TASK.value != ["multi_label"]:
        raise ValueError(f"--threshold: only for --task=multi_label. Received: --task={','.join(_TASK.value)}")
    if _LANGUAGE_MODEL.value and _TASK.value == ["multi_label"]:
        raise ValueError("--language_model_weight: not for --task=multi_label. Received: both")
    if _FLAGS.pack.value and (_LANGUAGE_MODEL.value or any(map(wings.is_new, starts))):
        raise ValueError("--pack: only for BERT, without --language_model_weight")
    common_flags.check_pack(_FLAGS)
    _check_distillation()
    if _DATA.value or set(task_names()) & set(OWN):  # TensorFlow Datasets need TensorFlow.
        _everything()


def _check_distillation():
    common_flags.check_distillation(_DISTILLATION, unlabelled=_UNLABELLED.value)
    for name, value in {"folds": _FOLDS.value, "language_model_weight": _LANGUAGE_MODEL.value}.items():
        if value and _DISTILLATION.teacher.value:
            reason = ", which may have seen the rows of every fold" if name == "folds" else ""
            raise ValueError(f"--{name}: not with --teacher{reason}. Received: both")
    _unlabelled()
    if _DISTILLATION.teacher.value and len(task_names()) > 1:
        for model in (pathlib.Path(_DISTILLATION.teacher.value, name, "model") for name in task_names()):
            if not model.is_dir():
                raise ValueError(f"--teacher must have a model for each of several tasks. Expected {model}")


def main():
    from keras_bert.training.distribution import is_chief

    output, strategy = common_flags.begin(_FLAGS)
    names, everything = task_names(), _everything()
    if is_chief(strategy):
        write_text(output / "flags.txt", command.given_flags())
    load, scores = functools.cache(wings.load), {}
    for data in everything:
        folder = output / data.task.name if len(names) > 1 else output
        task = _create_task(data, load, output, folder)
        finetuning = _finetuning(task, folder, strategy)
        finetuning.run()
        if is_chief(strategy):
            print(finetuning.finish())
            scores.update(finetuning.report["scores"])
    if is_chief(strategy):
        if len(names) > 1:
            _write_together(output, scores, task.bert.config)
        if names[0] in glue.TASKS:
            _zip(output)
        texts = '"A text."' if data.task.pair is None else '"A text." "Its pair."'
        common_flags.print_next(finetuning.output, texts, _PREDICT.value and "predictions.tsv")


def _create_task(data, load, output, folder):
    """Returns the `FinetuningTask`; `folder` is that of its results."""
    from keras_bert.tasks.classification.distillation import DistillationTask
    from keras_bert.tasks.classification.multi_label_task import MultiLabelTask
    from keras_bert.tasks.classification.task import ClassificationTask

    start, options = _start(data.task.name, output), {"class_weights": _WEIGHTS.value}
    if data.task.multi_label:
        options["threshold"] = parse_threshold(_THRESHOLD.value)
    else:
        options["language_model_weight"] = _LANGUAGE_MODEL.value
    kind = MultiLabelTask if data.task.multi_label else ClassificationTask
    load_options = common_flags.load_options(_BASELINES, [start], "bilstm") if start == _FLAGS.model.value else {}
    if layers := _DISTILLATION.student_layers.value:
        load_options["num_layers"] = layers
    task = kind(data, start, load(start, **load_options), _LENGTH.value, output / "submission", **options)
    task.load, task.load_options = wings.load, load_options
    if not _DISTILLATION.teacher.value:
        return task
    softness = {name: getattr(_DISTILLATION, name).value for name in ("temperature", "alpha")}
    name = _teacher(data.task.name)
    return DistillationTask(task, name, load(name), folder / "teacher", **softness, unlabelled=_unlabelled())


def _finetuning(task, output, strategy):
    from keras_bert.experiments.cross_validation import CrossValidation
    from keras_bert.experiments.finetuning import Finetuning
    from keras_bert.experiments.hyperparameters import Hyperparameters

    defaults, rates = task.task, common_flags.new_model_rates(task)
    choices = common_flags.choices(_FLAGS, rates or defaults.learning_rates, defaults.batch_size, defaults.epochs)
    options = {"strategy": strategy, "log_every": _FLAGS.log_every.value, "report_to": _FLAGS.report_to.value}
    if not _FOLDS.value:
        hyperparameters = common_flags.instance(Hyperparameters)
        return Finetuning(task, choices, hyperparameters, output, _FLAGS.ensemble.value, **options)
    hyperparameters = common_flags.instance(Hyperparameters, best=False)  # No dev data to choose the epoch on.
    return CrossValidation(task, choices, hyperparameters, output, **options)


def _write_together(output, scores, config):
    table = f"# GLUE\n\n{published.comparison_table(scores, config)}\n{published.averages(scores)}"
    write_text(output / "results.md", table)
    write_json(output / "results.json", scores)
    print(table)


def _zip(output):
    """Writes the archive for the GLUE server if all files exist."""
    if any((output / "submission").glob("*.tsv")):
        try:
            submission.zip_submission(output / "submission", output / "submission.zip")
        except ValueError as error:
            logging.getLogger("keras_bert").warning("no submission.zip: %s", error)


def task_names():
    """Returns the tasks in the order of the runs, the one of `--init_from` first."""
    names = _GLUE if _TASK.value == ["all"] else _TASK.value
    for name in names:
        if name not in (*_GLUE, *OWN) or (name in OWN and len(names) > 1):
            known = f"one or more of {', '.join(_GLUE)}; all; or one of {', '.join(OWN)}"
            raise ValueError(f"--task must be {known}. Received: --task={','.join(_TASK.value)}")
    if len(set(names)) < len(names):
        raise ValueError(f"--task contains duplicates. Received: --task={','.join(_TASK.value)}")
    return sorted(names, key=lambda name: name != _INIT.value)


@functools.cache
def _everything():
    """Reads the data of all tasks: missing files are reported before hours of training."""
    return [_read(name) for name in task_names()]


def _read(name):
    folds = _FOLDS.value
    if name in OWN:
        if _TRAIN.value is None or (_DEV.value is None) == (folds is None):
            raise ValueError(
                f"--task={name} requires --train_file, and either --dev_file or --folds=5 for cross-validation. "
                f"Received: {_typed(_own_flags()) or 'none of them'}"
            )
        common_flags.only(False, "for GLUE", _DATA.name)
        if folds and _FLAGS.ensemble.value > 1:
            raise ValueError("--folds keeps one model. Expected no --ensemble. Received: both")
        label = flags.ListParser().parse(_LABEL.value) if name == "multi_label" else _LABEL.value
        columns = {"text": _TEXT.value, "pair": _PAIR.value, "label": label}
        data = own_data(
            name, _TRAIN.value, _DEV.value, _PREDICT.value, **columns, skip_bad_rows=_SKIP.value, folds=folds
        )
    elif given := [f"--{flag}" for flag, value in _own_flags().items() if value]:
        raise ValueError(f"{', '.join(given)}: only for --task={_OWN}. Received: --task={name}")
    else:
        data = glue.read_all(glue.TASKS[name], _DATA.value, _SKIP.value, _DIAGNOSTICS.value)
    return data.first(_FLAGS.max_train_examples.value)


@functools.cache
def _unlabelled():
    """Reads the texts without labels, `None` if there are none."""
    if not _UNLABELLED.value:
        return None
    names = task_names()
    if len(names) > 1:
        raise ValueError(f"--unlabelled: only for one --task. Received: --task={','.join(names)}")
    if names[0] in _GLUE and (glue.TASKS[names[0]].pair is None) != (_PAIR.value is None):
        wanted = "no --pair_column" if _PAIR.value else "--pair_column, the column of the second text"
        raise ValueError(f"--unlabelled for --task={names[0]}: expected {wanted}. Received: {_PAIR.value}")
    return read_table(_UNLABELLED.value, _TEXT.value, _PAIR.value)


def _own_flags():
    holders = {"train_file": _TRAIN, "dev_file": _DEV, "predict_file": _PREDICT, "folds": _FOLDS}
    return {name: holder.value for name, holder in holders.items()}


def _typed(values):
    """Returns flags as in a command."""
    return " ".join(f"--{name}={value}" for name, value in values.items() if value is not None)


def _start(name, output):
    """Returns the model that a task starts from."""
    if _INIT.value in (None, name):
        if not (_FLAGS.model.value or _DISTILLATION.teacher.value):
            raise ValueError(
                f"--model is required for {name}: a directory or a name such as google-bert/bert-base-uncased"
            )
        return _FLAGS.model.value or _teacher(name)
    if _INIT.value in _GLUE:
        if _INIT.value not in task_names():
            raise ValueError(
                f"--init_from={_INIT.value} must be a task of this run or a folder. "
                f"Received: --task={','.join(_TASK.value)}"
            )
        return str(output / _INIT.value / "model")
    inner = pathlib.Path(_INIT.value) / "model"
    return str(inner) if inner.is_dir() else _INIT.value


def _teacher(name):
    """Returns the teacher of a task: a model, or that of the output of this command for one or several tasks."""
    folder = pathlib.Path(_DISTILLATION.teacher.value)
    inner = [folder / name / "model", folder / "model"]
    return next((str(path) for path in inner if path.is_dir()), _DISTILLATION.teacher.value)


if __name__ == "__main__":
    command.run(main, check=check, resumes=True)

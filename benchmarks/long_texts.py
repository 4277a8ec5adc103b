"""Long texts: what windows are worth where one sentence decides, on books by chapter, and what a document costs.

    python -m benchmarks.long_texts --part=sentence --data_dir=data
    python -m benchmarks.long_texts --part=books --data_dir=data
    python -m benchmarks.long_texts --part=speed --data_dir=data --transformers_python=peers/bin/python

"sentence" makes documents of 1,500 to 3,000 tokens from running text of books, with one sentence at a random place
that tells the class, "sold" or "kept". Compared are the head of a document, its windows, and, as an upper limit, a
model that is trained and scored on the one window that has the sentence. "books" tells 20 books apart by their
chapters: the last chapters of each book are held out. "speed" is the time to answer a document in windows, beside a
plain loop of transformers over the same windows, batched as ours.

`--data_dir` has `corpus/books`: files of one sentence a line with a blank line between chapters, and `SOURCES.tsv`, the
title and the number of chapters of each book in the order of the files; by default `$KERAS_BERT_DATA`.
"""

import csv
import itertools
import json
import logging
import os
import pathlib
import random
import statistics
import subprocess
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from absl import app, flags

_PART = flags.DEFINE_enum("part", "sentence", ["sentence", "books", "speed"], "What to measure.")
_DATA = flags.DEFINE_string("data_dir", None, "Folder of the data sets; default: $KERAS_BERT_DATA.")
_MODEL = flags.DEFINE_string("model", "bert_tiny_books", "Directory or name of the model to start from.")
_LAYERS = flags.DEFINE_integer("num_layers", None, "Number of its layers; default: all.")
_DOCUMENTS = flags.DEFINE_integer("documents", 2000, "sentence: number of documents, a fifth of them held out.")
_LENGTH = flags.DEFINE_integer("sequence_length", 128, "Tokens of a sequence.")
_EPOCHS = flags.DEFINE_integer("epochs", 3, "Epochs.")
_RATE = flags.DEFINE_float("learning_rate", None, "Learning rate; default: that of `fit`.")
_SEEDS = flags.DEFINE_integer("seeds", 3, "Number of seeds.")
_WAYS = flags.DEFINE_list("ways", None, "What to compare; default: all of the part.")
_TRANSFORMERS = flags.DEFINE_string("transformers_python", None, "speed: Python of an environment with transformers.")
_ROUNDS = flags.DEFINE_integer("rounds", 5, "speed: rounds in turn.")

_LEAST = 1500  # Tokens of a document.
_MOST = 3000
_BOOKS = 20
_CHAPTERS = 24  # Of each book, of which the last quarter is held out.
_NAMES = ("Anne", "Mr. Brown", "the captain", "Clara", "old Peter", "the doctor", "Mary", "the farmer")
_THINGS = ("house", "horse", "ring", "boat", "land", "picture", "watch", "garden")

_SCRIPT = """
import json, math, sys, time
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer
torch.set_grad_enabled(False)
job = json.load(open(sys.argv[1]))
tokenizer = AutoTokenizer.from_pretrained(job["model"])
model = AutoModelForSequenceClassification.from_pretrained(job["model"]).eval()
def answer(text):
    windows = tokenizer(
        text, truncation=True, max_length=job["length"], stride=job["overlap"], return_overflowing_tokens=True,
        padding=True, return_tensors="pt",
    )
    windows.pop("overflow_to_sample_mapping")
    logits = []
    for first in range(0, len(windows["input_ids"]), job["rows"]):
        part = {name: values[first : first + job["rows"]] for name, values in windows.items()}
        logits.append(model(**part).logits)
    logits = torch.cat(logits)
    return (logits.logsumexp(0) - math.log(len(logits))).tolist()
answer(job["texts"][0])
for line in sys.stdin:
    start = time.monotonic()
    logits = [answer(text) for text in job["texts"]]
    print(json.dumps({"seconds": time.monotonic() - start, "logits": logits}), flush=True)
"""


def folder():
    return pathlib.Path(_DATA.value or os.environ["KERAS_BERT_DATA"]) / "corpus" / "books"


def chapters():
    """Returns the chapters of all books in order, lists of sentences."""
    found = []
    for path in sorted(folder().glob("*.txt")):
        parts = path.read_text(encoding="utf-8").split("\n\n")
        found += [lines for part in parts if (lines := part.splitlines())]
    return found


def documents(bert, count, rng):
    """Returns documents in which one sentence decides, their classes, and the window of each that has the sentence."""
    tokenizer = bert.preprocessor(_LENGTH.value).tokenizer
    sentences = list(itertools.chain.from_iterable(chapters()))
    room = _LENGTH.value - 2
    texts = []
    labels = []
    windows = []
    while len(texts) < count:
        begin = rng.randrange(len(sentences) - 400)
        chosen = sentences[begin : begin + 400]
        sizes = tokenizer(chosen).row_lengths().numpy().tolist()
        wanted = rng.randint(_LEAST, _MOST - 20)
        number = 0
        total = 0
        while number < len(chosen) and total + sizes[number] <= wanted:
            total += sizes[number]
            number += 1
        if total < _LEAST:
            continue
        label = ("sold", "kept")[len(texts) % 2]
        deciding = f"In the end {rng.choice(_NAMES)} {label} the {rng.choice(_THINGS)}."
        place = rng.randrange(number + 1)
        first, last = around(place, sizes[:number], room - 20)
        windows.append(" ".join([*chosen[first:place], deciding, *chosen[place:last]]))
        texts.append(" ".join([*chosen[:place], deciding, *chosen[place:number]]))
        labels.append(label)
    return texts, labels, windows


def around(place, sizes, room):
    """Returns the first and the last sentence around a place, so many as fit, in turn before and behind it."""
    first = last = place
    total = 0
    while True:
        added = []
        if first and total + sizes[first - 1] <= room:
            first -= 1
            added.append(sizes[first])
        total += sum(added)
        if last < len(sizes) and total + sizes[last] <= room:
            added.append(sizes[last])
            total += sizes[last]
            last += 1
        if not added:
            return first, last


def by_chapter(rng):
    """Returns the chapters of books and their books, those to train on and those that are held out."""
    train = ([], [])
    held_out = ([], [])
    books = []
    remaining = iter(chapters())
    with open(folder() / "SOURCES.tsv", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, dialect="excel-tab"):
            texts = [" ".join(lines) for lines in itertools.islice(remaining, int(row["documents"]))]
            texts = [text for text in texts if len(text) > 4000]
            if len(texts) >= _CHAPTERS:
                books.append((row["path"], texts[:_CHAPTERS]))
    for name, texts in rng.sample(books, _BOOKS):
        last = len(texts) * 3 // 4
        for part, some in ((train, texts[:last]), (held_out, texts[last:])):
            part[0].extend(some)
            part[1].extend([name] * len(some))
    return train, held_out


def accuracy(bert, train, held_out, seed, long_texts):
    """Returns the share of right answers, and the seconds of the training."""
    options = {"epochs": _EPOCHS.value, "seed": seed, "sequence_length": _LENGTH.value, "long_texts": long_texts}
    if _RATE.value:
        options["learning_rate"] = _RATE.value
    start = time.monotonic()
    trained = bert.fit(*train, batch_size=16, verbose=False, **options)
    seconds = time.monotonic() - start
    return trained.evaluate(*held_out, verbose=False)["accuracy"], seconds


def compare(bert):
    """Prints the accuracy of each way to read, for each seed."""
    found = {}
    for seed in range(1, _SEEDS.value + 1):
        for way, train, held_out, long_texts in ways_to_read(bert, random.Random(seed)):
            score, seconds = accuracy(bert, train, held_out, seed, long_texts)
            found.setdefault(way, []).append((score, seconds))
            print(f"seed {seed}, {way}: {score:.1%}, {seconds:.0f} s", flush=True)
    print("\n| way | accuracy | seeds | seconds |\n|---|---|---|---|")
    for way, results in found.items():
        scores = [score for score, _ in results]
        each = ", ".join(f"{score:.1%}" for score in scores)
        seconds = statistics.mean(seconds for _, seconds in results)
        print(f"| {way} | {statistics.mean(scores):.1%} | {each} | {seconds:.0f} |")


def ways_to_read(bert, rng):
    """Returns what to compare: a name, texts and targets to train on and to score on, and `long_texts`."""
    if _PART.value == "books":
        train, held_out = by_chapter(rng)
        ways = [(way, train, held_out, way) for way in ("head", "tail", "head_tail", "windows")]
    else:
        texts, labels, windows = documents(bert, _DOCUMENTS.value, rng)
        last = len(texts) * 4 // 5
        whole = (texts[:last], labels[:last]), (texts[last:], labels[last:])
        right = (windows[:last], labels[:last]), (windows[last:], labels[last:])
        ways = [("head", *whole, "head"), ("right window", *right, "head"), ("windows", *whole, "windows")]
    return [way for way in ways if _WAYS.value is None or way[0] in _WAYS.value]


def compare_speed(bert):
    """Prints the seconds per document of both programs, in turn."""
    texts, labels, _ = documents(bert, 40, random.Random(1))
    overlap = (_LENGTH.value - 2) // 8
    trained = bert.fit(texts[:16], labels[:16], epochs=1, sequence_length=_LENGTH.value, verbose=False)
    with tempfile.TemporaryDirectory() as temporary:
        trained.save(f"{temporary}/model")
        job = {"model": f"{temporary}/model", "texts": texts, "length": _LENGTH.value, "overlap": overlap, "rows": 8}
        pathlib.Path(temporary, "job.json").write_text(json.dumps(job))
        pathlib.Path(temporary, "run.py").write_text(_SCRIPT)
        command = [_TRANSFORMERS.value, f"{temporary}/run.py", f"{temporary}/job.json"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as peer:
            _round(trained, texts, overlap, peer)  # Warms up.
            rounds = [_round(trained, texts, overlap, peer) for _ in range(_ROUNDS.value)]
            peer.stdin.close()
    ours, theirs, differences = zip(*rounds, strict=True)
    print(f"ours {statistics.median(ours) / len(texts):.3f} s a document")
    print(f"transformers {statistics.median(theirs) / len(texts):.3f} s a document")
    print(f"ratio {statistics.median(b / a for a, b in zip(ours, theirs, strict=True)):.2f}")
    print(f"largest difference of a logit of a document {max(differences):.1e}")


def _round(trained, texts, overlap, peer):
    """Returns the seconds of ours and of transformers for all documents, and the largest difference of a logit."""
    start = time.monotonic()
    answers = trained.predict(texts, long_texts="windows", overlap=overlap, logits=True)
    ours = time.monotonic() - start
    peer.stdin.write("next\n")
    peer.stdin.flush()
    told = json.loads(peer.stdout.readline())
    differences = []
    for answer, logits in zip(answers, told["logits"], strict=True):
        differences += [abs(one - other) for one, other in zip(answer["logits"], logits, strict=True)]
    return ours, told["seconds"], max(differences)


def main(_):
    import keras_bert

    logging.disable(logging.WARNING)

    options = {} if _LAYERS.value is None else {"num_layers": _LAYERS.value}
    bert = keras_bert.load(_MODEL.value, **options)
    if _PART.value == "speed":
        compare_speed(bert)
    else:
        compare(bert)


if __name__ == "__main__":
    app.run(main)

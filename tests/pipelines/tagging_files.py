"""Sentences of letters whose entities are "z" (LOC) and runs of "y" (PER), and the flags of runs on them."""

import numpy as np

import keras_bert
from keras_bert.tasks.tagging.schemes import EntitySpan
from tests.conftest import SEED
from tests.pipelines.programs import flags_of, write_jsonl


def sentences(count, seed):
    """Returns lists of letters with one or two entities, some longer than the windows."""
    rng = np.random.default_rng(seed)
    lists = []
    for number in range(count):
        length = 20 if number % 8 == 0 else 6
        letters = rng.choice(list("abcdef"), length).tolist()
        letters[rng.integers(3)] = "z"
        if number % 2:
            letters[4:6] = "yy"
        lists.append(letters)
    return lists


def entities_of(letters):
    """Returns the entities of a sentence."""
    entities = []
    for place, letter in enumerate(letters):
        if letter == "z":
            entities.append(EntitySpan("LOC", place, place + 1))
    if "y" in letters:
        entities.append(EntitySpan("PER", 4, 6))
    return entities


def conll(letters):
    """Returns the lines of a sentence, of a letter and its tag."""
    tags = ["O"] * len(letters)
    for kind, start, end in entities_of(letters):
        tags[start:end] = [f"I-{kind}"] * (end - start)
    lines = [f"{letter} {tag}\n" for letter, tag in zip(letters, tags, strict=True)]
    return "".join(lines)


def spans_row(letters):
    """Returns a row with the text of a sentence and the spans of its entities, in characters."""
    spans = []
    for kind, start, end in entities_of(letters):
        spans.append([2 * start, 2 * end - 1, kind])
    return {"text": " ".join(letters), "label": spans}


def write_files(folder, config, pieces):
    """Writes the files of a split in both formats, and a model to start from."""
    for name, count, seed in (("train", 96, 0), ("dev", 12, 1), ("test", 9, 2)):
        lists = sentences(count, seed)
        (folder / f"{name}.txt").write_text("\n".join(map(conll, lists)))
        write_jsonl(folder / f"{name}.jsonl", map(spans_row, lists))
    keras_bert.save(keras_bert.build_encoder(config), folder / "bert", pieces)


def arguments(made, output, suffix="txt", **changes):
    """Returns the flags of a run."""
    values = {
        "train_file": f"{made}/train.{suffix}",
        "dev_file": f"{made}/dev.{suffix}",
        "predict_file": f"{made}/test.{suffix}",
        "model": f"{made}/bert",
        "output_dir": f"{made}/{output}",
        "sequence_length": 12,
        "seed": SEED,
        "epochs": 1,
        "batch_size": 8,
        "learning_rate": "5e-3",
    }
    return flags_of(values, **changes)


def entities_in_text(rows):
    """Returns entities of words with one letter and a space between them by their characters."""
    converted = []
    for row in rows:
        converted.append([(label, 2 * start, 2 * end - 1) for label, start, end in row])
    return converted


def places(answers):
    """Returns the labels and places of the entities of answers."""
    rows = []
    for answer in answers:
        entities = answer["entities"]
        rows.append([(entity["label"], entity["start"], entity["end"]) for entity in entities])
    return rows

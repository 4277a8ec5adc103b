"""Words of one's own: masked-LM loss after continued pre-training with and without them.

    nice python -m benchmarks.added_words --data=data

Replaces 200 words of the books by invented ones, as a text of a special field has words that the vocabulary lacks, and
trains bert_tiny_books on 9,600 sentences, 300 steps, with the old vocabulary and after `add_words`. Both see the same
sentences in the same order, with the same words masked whole. As the tokens differ, the loss on sentences of another
book is summed over the pieces of the masked words and divided by their characters; the number of [MASK]s tells how
many pieces a word has, which favors the old vocabulary. It took 45 minutes on two busy cores. Without the flag it reads
from `$KERAS_BERT_DATA`.
"""

import collections
import functools
import itertools
import os
import pathlib
import re
import statistics
from typing import NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from absl import app, flags

import keras_bert
from keras_bert.data.bucketing import Batches
from keras_bert.training import losses
from keras_bert.training.trainer import Trainer

_DATA = flags.DEFINE_string("data", None, "Folder that contains corpus/books/.")
_SEEDS = flags.DEFINE_integer("seeds", 3, "Number of runs.")
_STEPS = flags.DEFINE_integer("steps", 300, "Training steps.")

MODEL = "bert_tiny_books"
BATCH = 32
HELD_OUT = 2000  # Sentences of another book.
RATE = 5e-4
MASKED = 0.15  # Share of the words.
RANKS = slice(500, 700)  # Of the words that are replaced, by their frequency.


class MaskedWords(NamedTuple):
    """A sentence of which some words are to be masked."""

    pieces: list  # The ids of the pieces of each word.
    names: list  # Each word as a string.
    chosen: list  # The numbers of the words to mask, in order.


def sentences(path, count, seed=0):
    """Returns random sentences of 8 to 40 words, in lower case."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if 8 <= len(line.split()) <= 40:
            lines.append(line.lower())
    order = np.random.default_rng(seed).permutation(len(lines))
    return [lines[index] for index in order[:count]]


def invented(texts, vocabulary):
    """Returns a dict of invented words by those that they replace: frequent words of four letters or more."""
    counts = collections.Counter()
    for text in texts:
        counts.update(re.findall("[a-z]{4,}", text))
    known = [word for word, _ in counts.most_common() if word in vocabulary]
    frequent = known[RANKS]
    syllables = ["".join(letters) for letters in itertools.product("bdfgklmnprstvz", "aeiou", "lnrsx")]
    rng = np.random.default_rng(0)
    words = {}  # In the order in which they were drawn.
    while len(words) < len(frequent):
        word = "".join(rng.choice(syllables, rng.integers(2, 4)))
        if word not in vocabulary and word not in counts:
            words[word] = None
    return dict(zip(frequent, words, strict=True))


def masked(texts, preprocessor, seed):
    """Returns the `MaskedWords` of texts, of which `MASKED` of the words are drawn."""
    vocabulary = preprocessor.vocabulary
    rng = np.random.default_rng(seed)
    rows = []
    for ids in preprocessor.tokenizer(texts).to_list():
        words = pieces_of_words(ids, vocabulary.is_continuation)
        names = [name_of(word, vocabulary) for word in words]
        letters = [place for place, name in enumerate(names) if name.isalpha()]
        count = max(1, round(MASKED * len(letters)))
        chosen = rng.permutation(letters)[:count]
        rows.append(MaskedWords(words, names, sorted(chosen.tolist())))
    return rows


def pieces_of_words(ids, is_continuation):
    """Returns lists of the ids of each word."""
    words = []
    for index in ids:
        if is_continuation[index]:
            words[-1].append(index)
        else:
            words.append([index])
    return words


def name_of(word, vocabulary):
    """Returns a word as a string, given the ids of its pieces."""
    return "".join(vocabulary.pieces[index].removeprefix("##") for index in word)


def features(rows, vocabulary):
    """Returns the inputs and the targets of `MaskedWords`, and the names of the words of the masked pieces."""
    mask = vocabulary.id("[MASK]")
    tokens = []
    places = []
    labels = []
    names = []
    for row in rows:
        ids = [vocabulary.id("[CLS]")]
        row_places = []
        row_labels = []
        row_names = []
        for number, word in enumerate(row.pieces):
            if number not in row.chosen:
                ids += word
                continue
            row_places += range(len(ids), len(ids) + len(word))
            row_labels += word
            row_names += [row.names[number]] * len(word)
            ids += [mask] * len(word)
        tokens.append([*ids, vocabulary.id("[SEP]")])
        places.append(row_places)
        labels.append(row_labels)
        names.append(row_names)
    ids = tf.ragged.constant(tokens, dtype="int32")
    inputs = {
        "token_ids": ids,
        "segment_ids": tf.zeros_like(ids),
        "padding_mask": tf.ones_like(ids),
        "mask_positions": padded(places, "int32"),
    }
    ones = [[1.0] * len(row) for row in places]
    targets = {"mask_labels": padded(labels, "int32"), "mask_weights": padded(ones, "float32")}
    return inputs, targets, names


def padded(rows, dtype):
    """Returns lists as an array, with zeros behind the shorter ones."""
    array = np.zeros((len(rows), max(map(len, rows))), dtype)
    for place, row in enumerate(rows):
        array[place, : len(row)] = row
    return array


def loss_per_character(trainer, rows, vocabulary, counts):
    """Returns the masked-LM loss per character of the masked words that a function accepts."""
    inputs, targets, names = features(rows, vocabulary)
    weights = targets["mask_weights"].copy()
    for row, row_names in zip(weights, names, strict=True):
        row[: len(row_names)] = [counts(name) for name in row_names]
    targets["mask_weights"] = weights
    batches = Batches(inputs, targets, batch_size=64, shuffle=False)
    characters = 0
    for row in rows:
        for number in row.chosen:
            if counts(row.names[number]):
                characters += len(row.names[number])
    return trainer.evaluate(batches)["mlm_loss"] * weights.sum() / characters


def run(texts, held_out, words, seed, add):
    """Trains once; returns tokens per word, and the losses of all, invented and other words, before and after."""
    keras.utils.set_random_seed(seed)
    bert = keras_bert.load(MODEL)
    if add:
        bert.add_words(words)
    vocabulary = bert.vocabulary
    preprocessor = bert.preprocessor(128)
    rows = masked(texts, preprocessor, seed)
    test = masked(held_out, preprocessor, 0)
    inputs, targets, _ = features(rows, vocabulary)
    trainer = Trainer(
        lambda: bert.pretrainer(next_sentence=False),
        lambda model: keras_bert.create_optimizer(model, RATE, _STEPS.value, warmup_steps=_STEPS.value // 10),
        losses.pretraining_losses(next_sentence=False),
        seed=seed,
    )
    kinds = (lambda name: True, lambda name: name in words, lambda name: name not in words)
    measure = functools.partial(loss_per_character, trainer, test, vocabulary)
    before = [measure(kind) for kind in kinds]
    batches = Batches(inputs, targets, batch_size=BATCH, grouped=False, seed=seed)
    trainer.fit(batches, steps=_STEPS.value)
    after = [measure(kind) for kind in kinds]
    sizes = []
    for row in test:
        sizes.extend(map(len, row.pieces))
    return statistics.mean(sizes), *before, *after


def main(_):
    folder = pathlib.Path(_DATA.value or os.environ.get("KERAS_BERT_DATA", ".")) / "corpus" / "books"
    texts = sentences(folder / "books-00.txt", BATCH * _STEPS.value)
    held_out = sentences(folder / "books-06.txt", HELD_OUT)
    replaced = invented(texts, keras_bert.load(MODEL).vocabulary)
    pattern = re.compile(rf"\b({'|'.join(replaced)})\b")
    texts = [pattern.sub(lambda match: replaced[match[0]], text) for text in texts]
    held_out = [pattern.sub(lambda match: replaced[match[0]], text) for text in held_out]
    words = list(replaced.values())
    print("words      seed  tokens/word  before: all    invented       other  after: all    invented       other")
    for seed in range(1, _SEEDS.value + 1):
        for add in (False, True):
            pieces_per_word, *scores = run(texts, held_out, words, seed, add)
            kind = "added" if add else "split"
            cells = [f"{value:11.4f}" for value in scores]
            print(f"{kind:9} {seed:5} {pieces_per_word:12.3f}", *cells, flush=True)


if __name__ == "__main__":
    app.run(main)

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

MODEL, BATCH, HELD_OUT, RATE, MASKED = "bert_tiny_books", 32, 2000, 5e-4, 0.15
RANKS = slice(500, 700)  # Of the words that are replaced, by their frequency.


def sentences(path, count, seed=0):
    """Returns random sentences of 8 to 40 words, in lower case."""
    lines = [line.lower() for line in path.read_text(encoding="utf-8").splitlines() if 8 <= len(line.split()) <= 40]
    return [lines[index] for index in np.random.default_rng(seed).permutation(len(lines))[:count]]


def invented(texts, vocabulary):
    """Returns a dict of invented words by those that they replace: frequent words of four letters or more."""
    counts = collections.Counter(word for text in texts for word in re.findall("[a-z]{4,}", text))
    frequent = [word for word, _ in counts.most_common() if word in vocabulary][RANKS]
    syllables = ["".join(parts) for parts in itertools.product("bdfgklmnprstvz", "aeiou", "lnrsx")]
    rng, words = np.random.default_rng(0), {}
    while len(words) < len(frequent):
        word = "".join(rng.choice(syllables, rng.integers(2, 4)))
        if word not in vocabulary and word not in counts:
            words[word] = None
    return dict(zip(frequent, words, strict=True))


def masked(texts, preprocessor, seed):
    """Returns the tokens of texts with some words masked, the targets, and for each masked piece its word."""
    vocabulary, rng = preprocessor.vocabulary, np.random.default_rng(seed)
    continues, rows = vocabulary.is_continuation, []
    for ids in preprocessor.tokenizer(texts).to_list():
        words = []
        for index in ids:
            words.append([index]) if not continues[index] else words[-1].append(index)
        names = ["".join(vocabulary.pieces[index].removeprefix("##") for index in word) for word in words]
        known = [place for place, name in enumerate(names) if name.isalpha()]
        chosen = rng.permutation(known)[: max(1, round(MASKED * len(known)))]
        rows.append((words, names, sorted(chosen.tolist())))
    return rows


def features(rows, vocabulary):
    """Returns the inputs and the targets of masked rows, and the masked word of each piece."""
    mask, tokens, places, labels, names = vocabulary.id("[MASK]"), [], [], [], []
    for words, row_names, chosen in rows:
        ids, found = [vocabulary.id("[CLS]")], []
        for place, word in enumerate(words):
            if place in chosen:
                found += [(len(ids) + index, piece, row_names[place]) for index, piece in enumerate(word)]
            ids += [mask] * len(word) if place in chosen else word
        tokens.append([*ids, vocabulary.id("[SEP]")])
        for part, values in zip((places, labels, names), zip(*found, strict=True), strict=True):
            part.append(list(values))
    ids = tf.ragged.constant(tokens, dtype="int32")
    width = max(map(len, places))
    padded = [np.array([row + [0] * (width - len(row)) for row in part], "int32") for part in (places, labels)]
    weights = np.array([[1.0] * len(row) + [0.0] * (width - len(row)) for row in places], "float32")
    inputs = {"token_ids": ids, "segment_ids": tf.zeros_like(ids), "padding_mask": tf.ones_like(ids)}
    return {**inputs, "mask_positions": padded[0]}, {"mask_labels": padded[1], "mask_weights": weights}, names


def loss_per_character(trainer, rows, vocabulary, counts):
    """Returns the masked-LM loss per character of the masked words that a function accepts."""
    inputs, targets, names = features(rows, vocabulary)
    weights = targets["mask_weights"].copy()
    for row, row_names in zip(weights, names, strict=True):
        row[: len(row_names)] = list(map(counts, row_names))
    batches = Batches(inputs, {**targets, "mask_weights": weights}, batch_size=64, shuffle=False)
    masked_words = (row_names[place] for _, row_names, chosen in rows for place in chosen)
    characters = sum(map(len, filter(counts, masked_words)))
    return trainer.evaluate(batches)["mlm_loss"] * weights.sum() / characters


def run(texts, held_out, words, seed, add):
    """Trains once; returns tokens per word, and the losses of all, invented and other words, before and after."""
    keras.utils.set_random_seed(seed)
    bert = keras_bert.load(MODEL)
    if add:
        bert.add_words(words)
    vocabulary, preprocessor = bert.vocabulary, bert.preprocessor(128)
    rows, test = masked(texts, preprocessor, seed), masked(held_out, preprocessor, 0)
    inputs, targets, _ = features(rows, vocabulary)
    trainer = Trainer(
        lambda: bert.pretrainer(next_sentence=False),
        lambda model: keras_bert.create_optimizer(model, RATE, _STEPS.value, warmup_steps=_STEPS.value // 10),
        losses.pretraining_losses(next_sentence=False),
        seed=seed,
    )
    parts = lambda name: True, lambda name: name in words, lambda name: name not in words
    measure = functools.partial(loss_per_character, trainer, test, vocabulary)
    before = list(map(measure, parts))
    trainer.fit(Batches(inputs, targets, batch_size=BATCH, grouped=False, seed=seed), steps=_STEPS.value)
    pieces = [len(word) for row_words, _, _ in test for word in row_words]
    return statistics.mean(pieces), *before, *map(measure, parts)


def main(_):
    folder = pathlib.Path(_DATA.value or os.environ.get("KERAS_BERT_DATA", ".")) / "corpus" / "books"
    texts = sentences(folder / "books-00.txt", BATCH * _STEPS.value)
    words = invented(texts, keras_bert.load(MODEL).vocabulary)
    pattern = re.compile(rf"\b({'|'.join(words)})\b")
    texts, held_out = (
        [pattern.sub(lambda match: words[match[0]], text) for text in each]
        for each in (texts, sentences(folder / "books-06.txt", HELD_OUT))
    )
    words = list(words.values())
    print("words      seed  tokens/word  before: all    invented       other  after: all    invented       other")
    for seed, add in itertools.product(range(1, _SEEDS.value + 1), (False, True)):
        numbers = run(texts, held_out, words, seed, add)
        print(
            f"{'added' if add else 'split':9} {seed:5} {numbers[0]:12.3f}",
            *(f"{value:11.4f}" for value in numbers[1:]),
            flush=True,
        )


if __name__ == "__main__":
    app.run(main)

"""How faithful the scores of words are: comprehensiveness and sufficiency on SST-2, by method, with seconds.

    python -m benchmarks.explain --data_dir=glue --output_dir=runs/sst2_minilm

MiniLM with 6 layers is fine-tuned on `--train_sentences` of SST-2, unless `--output_dir` has the model of an earlier
call; then the predicted class of `--sentences` of dev, the first ones, is explained by each method. Without
`--data_dir` it reads from `$KERAS_BERT_DATA/glue`.

The measures are those of ERASER (DeYoung et al., 2020), with its area over the curve of 1, 5, 10, 20 and 50% of the
words, rounded up to whole words, the plain mean over these shares. Comprehensiveness is how much the probability of the
predicted class falls when the words with the highest scores are deleted (more is better), sufficiency how much it falls
when only these are left (less is better). Words are deleted, not replaced, so that no `replacement` has an advantage.
Behind each mean is its standard error over the sentences, and behind the methods the difference of comprehensiveness to
that of the first one, with the standard error of the differences of the sentences, which are smaller than those of the
means: all methods explain the same sentences.
The seconds are those of all cores for all sentences, after a call that traces the graphs: on a shared machine, the time
on a clock would be that of its other programs.
"""

import csv
import os
import pathlib
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from absl import app, flags

from benchmarks import contest

_DATA = flags.DEFINE_string("data_dir", None, "Folder with the official GLUE files.")
_OUTPUT = flags.DEFINE_string("output_dir", None, "Folder of the fine-tuned model, which is kept.", required=True)
_TRAIN = flags.DEFINE_integer("train_sentences", 4000, "Sentences to train on.", lower_bound=2)
_SENTENCES = flags.DEFINE_integer("sentences", 300, "Sentences to explain.", lower_bound=1)

SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)
_ROWS = 64  # Sequences to compute at once.


def read(path, most=None, seed=0):
    """Returns sentences and labels of a file of SST-2, all or some that are drawn at random."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    if most is not None:
        rows = [rows[index] for index in np.random.default_rng(seed).permutation(len(rows))[:most]]
    return [row["sentence"].strip() for row in rows], [int(row["label"]) for row in rows]


def fine_tuned(folder, data_dir, most):
    """Returns the model of an earlier call, or trains one."""
    import keras_bert

    if (folder / "config.json").is_file():
        return keras_bert.load(folder)
    sentences, labels = read(data_dir / "SST-2" / "train.tsv", most)
    bert = keras_bert.load(contest.minilm())
    trained = bert.fit(sentences, labels, epochs=2, batch_size=32, learning_rate=5e-5, sequence_length=64)
    trained.save(folder)
    return trained


class Judge:
    """Probabilities of a model on sequences of ids, and the measures of rankings of words.

    Args:
        bert: a `LoadedBert` with a classifier.
        sentences: list of strings.

    Attributes:
        ids: list of arrays of the ids of each sentence, without [CLS] and [SEP].
        words: list of arrays of the number of the word of each id.
        predicted: array of the predicted classes.
    """

    def __init__(self, bert, sentences):
        import tensorflow as tf

        from keras_bert.text.words import words_of

        self._model = bert.model()
        self._start, self._end = bert.vocabulary.ids(["[CLS]", "[SEP]"])
        found = words_of(bert.preprocessor(512).tokenizer, tf.constant(sentences))
        self.ids = [np.array(ids) for ids in found.tokens.to_list()]
        self.words = [np.array(numbers) for numbers in found.number.to_list()]
        probabilities = self.probabilities(self.ids)
        self.predicted = probabilities.argmax(-1)
        self._whole = probabilities[np.arange(len(sentences)), self.predicted]

    def inputs(self, rows):
        """Returns the inputs of the model for lists of ids."""
        longest = max(map(len, rows)) + 2
        ids = np.zeros([len(rows), longest], "int32")
        mask = np.zeros_like(ids)
        for row, tokens in enumerate(rows):
            sequence = [self._start, *tokens, self._end]
            ids[row, : len(sequence)] = sequence
            mask[row, : len(sequence)] = 1
        return {"token_ids": ids, "segment_ids": np.zeros_like(ids), "padding_mask": mask}

    def probabilities(self, rows):
        """Returns the probabilities of lists of ids, computed in order of their length."""
        order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
        found = [None] * len(rows)
        for first in range(0, len(order), _ROWS):
            numbers = order[first : first + _ROWS]
            logits = self._model.predict_on_batch(self.inputs([rows[number] for number in numbers]))["logits"]
            powers = np.exp(logits - logits.max(-1, keepdims=True))
            for number, row in zip(numbers, powers / powers.sum(-1, keepdims=True), strict=True):
                found[number] = row
        return np.array(found)

    def measures(self, scores):
        """Returns comprehensiveness and sufficiency of the scores of the words of each sentence, arrays."""
        without = []
        only = []
        for ids, words, each in zip(self.ids, self.words, scores, strict=True):
            order = np.argsort(-np.asarray(each), kind="stable")
            for share in SHARES:
                chosen = np.isin(words, order[: int(np.ceil(share * len(each)))])
                without.append(ids[~chosen])
                only.append(ids[chosen])
        return self._fall(without), self._fall(only)

    def _fall(self, rows):
        left = self.probabilities(rows)[np.arange(len(rows)), np.repeat(self.predicted, len(SHARES))]
        falls = np.repeat(self._whole, len(SHARES)) - left
        return falls.reshape(-1, len(SHARES)).mean(1)


def word_sums(values, words):
    """Returns the sums of values of tokens by word."""
    return np.bincount(words, values, minlength=words.max() + 1)


def by_explain(bert, judge, sentences, **options):
    """Returns the scores of `LoadedBert.explain`."""
    found = bert.explain(sentences, judge.predicted[: len(sentences)].tolist(), **options)
    scores = []
    for explained in found:
        scores.append([word["score"] for word in explained["words"]])
    return scores


def by_gradient(judge, function, count):
    """Returns the sums over words of the gradient of the logit, times the vectors of the token table."""
    scores = []
    for ids, words, target in zip(judge.ids[:count], judge.words[:count], judge.predicted[:count], strict=True):
        gradient, vectors = function(judge.inputs([ids]), target)
        scores.append(word_sums((gradient * vectors).numpy().sum(-1)[0, 1:-1], words))
    return scores


def gradient_function(bert):
    """Returns a function from inputs and a class to the gradient by the vectors of the tokens, and these vectors."""
    import tensorflow as tf

    from keras_bert.heads.registry import describe
    from keras_bert.rewirings.from_vectors import VECTORS, build_from_vectors

    model = build_from_vectors(bert.model())
    table = describe(bert.model()).layers["token_embedding"]

    @tf.function(autograph=False, reduce_retracing=True)
    def function(inputs, target):
        vectors = table(inputs["token_ids"])
        with tf.GradientTape() as tape:
            tape.watch(vectors)
            logit = model({**inputs, VECTORS: vectors}, training=False)["logits"][0, target]
        return tape.gradient(logit, vectors), vectors

    def call(inputs, target):
        return function({name: tf.constant(ids) for name, ids in inputs.items()}, tf.constant(target))

    return call


def by_attention(bert, judge, sentences):
    """Returns the sums over words of what [CLS] attends to in the last layer, the mean of its heads."""
    scores = []
    for sentence, words in zip(sentences, judge.words[: len(sentences)], strict=True):
        _, attention = bert.attention(sentence)
        scores.append(word_sums(attention[-1].mean(0)[0, 1:-1], words))
    return scores


def by_chance(judge, seeds=3):
    """Yields scores at random, several times."""
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        yield [rng.random(words.max() + 1) for words in judge.words]


def methods(bert, judge, sentences):
    """Returns functions of a number of sentences to their scores, by name."""
    function = gradient_function(bert)

    def explained(method, replacement):
        options = {"method": method, "replacement": replacement}
        return lambda count: by_explain(bert, judge, sentences[:count], **options)

    return {
        "leave_one_out, [MASK]": explained("leave_one_out", "[MASK]"),
        "leave_one_out, [PAD]": explained("leave_one_out", "[PAD]"),
        "gradient x input": lambda count: by_gradient(judge, function, count),
        "attention": lambda count: by_attention(bert, judge, sentences[:count]),
        "integrated_gradients, [MASK]": explained("integrated_gradients", "[MASK]"),
        "integrated_gradients, [PAD]": explained("integrated_gradients", "[PAD]"),
    }


def with_error(values):
    """Formats the mean of the values of sentences with its standard error."""
    return f"{np.mean(values):.3f} ± {np.std(values, ddof=1) / len(values) ** 0.5:.3f}"


def show(name, comprehensiveness, sufficiency, seconds, default):
    difference = "" if default is None else with_error(comprehensiveness - default)
    print(
        f"{name:32} {with_error(comprehensiveness):>18} {with_error(sufficiency):>18} {difference:>18} {seconds:8.1f}",
        flush=True,
    )


def main(_):
    data_dir = pathlib.Path(_DATA.value or os.path.join(os.environ["KERAS_BERT_DATA"], "glue"))
    bert = fine_tuned(pathlib.Path(_OUTPUT.value), data_dir, _TRAIN.value)
    dev = read(data_dir / "SST-2" / "dev.tsv")
    print(contest.machine())
    print(f"accuracy on dev: {bert.evaluate(*dev, verbose=False)['accuracy']:.4f}")
    sentences = dev[0][: _SENTENCES.value]
    judge = Judge(bert, sentences)
    print(f"{len(sentences)} sentences, {np.mean([words.max() + 1 for words in judge.words]):.1f} words each")
    print(f"{'method':32} {'comprehensiveness':>18} {'sufficiency':>18} {'difference':>18} {'seconds':>8}")
    comprehensiveness, sufficiency = zip(*map(judge.measures, by_chance(judge)), strict=True)
    show("random order", np.mean(comprehensiveness, 0), np.mean(sufficiency, 0), 0.0, None)
    default = None
    for name, scores_of in methods(bert, judge, sentences).items():
        scores_of(2)
        start = time.process_time()
        scores = scores_of(len(sentences))
        seconds = time.process_time() - start
        measured = judge.measures(scores)
        show(name, *measured, seconds, default)
        default = measured[0] if default is None else default


if __name__ == "__main__":
    app.run(main)

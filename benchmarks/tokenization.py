"""Tokenization on one thread: keras_bert, tf-text's two tokenizers and transformers' Rust tokenizer.

    python -m benchmarks.tokenization --vocabulary=bert-base-uncased-vocab.txt --text="books/*.txt"
    python -m benchmarks.tokenization --vocabulary=roberta-base/tokenizer.json

Prints MB/s and the speedup over each peer on English text from the files and on generated Chinese, accented, Korean
and mixed text; then the latency of one line through the whole preprocessor. tf-text's tokenizers are not exact: both
apply NFKC normalization. A `tokenizer.json` of another algorithm has the Rust tokenizer as its only peer. Takes two
minutes. Without the flags it reads from `$KERAS_BERT_DATA`. Peers: `make peers`.
"""

import functools
import glob
import importlib.util
import os
import random
import statistics
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["RAYON_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import keras
import tensorflow as tf
import tensorflow_text
from absl import app, flags, logging

import keras_bert
from benchmarks import contest
from keras_bert.text import tokenizer_json
from keras_bert.text.tokenizer import build_tokenizer

_VOCABULARY = flags.DEFINE_string("vocabulary", None, "vocab.txt of an uncased model, or a tokenizer.json.")
_TEXT = flags.DEFINE_string("text", None, "Glob pattern of English text files.")
_MEGABYTES = flags.DEFINE_float("megabytes", 2.0, "Megabytes of each kind of text.")
_ROUNDS = flags.DEFINE_integer("rounds", 7, "Rounds to time.")

# Of several scripts, with numbers and signs.
_WORDS = "the Москва αθήνα ไทย العربية हिन्दी 東京 한국어 naïve Straße 3.14 1984 100% me@example.com 👍🏽 don't … — ½ x²"
BATCH = 1024  # Lines per batch in tf.data.


def texts(english, vocabulary, size):
    """Yields the name and the lines of each kind of text, of about `size` bytes each."""
    chance = random.Random(1)
    yield "English", _cut(english, size)
    chinese = [piece for piece in vocabulary.pieces if len(piece) == 1 and "\u4e00" <= piece <= "\u9fff"]
    chinese = chinese or list(map(chr, range(0x4E00, 0x9FA6)))
    yield "Chinese", _cut(_chinese(chinese, chance), size)
    yield "accented", _cut(_accented(english, chance), size)
    yield "Korean", _cut(_korean(chance), size)
    yield "mixed", _cut(_mixed(chance), size)


def _chinese(characters, chance):
    """Yields lines without end."""
    while True:
        yield "".join(chance.choices(characters, k=chance.randint(8, 80))) + "，他说。"


def _accented(lines, chance):
    """Yields the lines with accents on some words."""
    accents = str.maketrans("aeiouncsyAEIOU", "àéîöúñçšýÀÉÎÖÚ")
    for line in lines:
        words = []
        for word in line.split():
            words.append(word.translate(accents) if chance.random() < 0.4 else word)
        yield " ".join(words)


def _korean(chance):
    """Yields lines without end."""
    hangul = [chr(code) for code in range(0xAC00, 0xD7A4, 13)]
    while True:
        words = []
        for _ in range(chance.randint(3, 20)):
            words.append("".join(chance.choices(hangul, k=chance.randint(1, 5))))
        yield " ".join(words) + "."


def _mixed(chance):
    """Yields lines without end."""
    words = _WORDS.split()
    while True:
        yield " ".join(chance.choices(words, k=chance.randint(3, 30)))


def _cut(lines, size):
    taken = []
    for line in lines:
        if line.strip():
            taken.append(line.strip())
            size -= len(line.encode())
        if size <= 0:
            break
    return taken


def contenders(vocabulary):
    """Returns `{name: prepare}`; `prepare(lines)` returns the function to time."""
    ours = build_tokenizer(vocabulary)
    signature = [tf.TensorSpec([None], tf.string)]

    def of_tensor(function):
        def prepare(lines):
            batch = tf.constant(lines)
            return lambda: function(batch)

        return prepare

    def in_tf_data(function):
        options = tf.data.Options()
        options.threading.private_threadpool_size = 1
        options.experimental_optimization.inject_prefetch = False  # Prefetching would run while others are timed.

        def prepare(lines):
            dataset = tf.data.Dataset.from_tensor_slices(lines).batch(BATCH).cache()
            steps = len(dataset)
            # Flattened, since datasets pack ragged tensors row by row, which takes as long as the tokenizer.
            dataset = dataset.map(lambda batch: tf.nest.flatten(function(batch), expand_composites=True))
            iterator = iter(dataset.repeat().with_options(options))
            return lambda: [next(iterator) for _ in range(steps)]

        return prepare

    found = {
        "keras_bert": of_tensor(ours),
        "keras_bert, offsets": of_tensor(ours.with_offsets),
        "keras_bert, tf.data": in_tf_data(ours),
        "keras_bert, tf.data, offsets": in_tf_data(ours.with_offsets),
    }
    if importlib.util.find_spec("tokenizers"):
        rust = _rust(vocabulary)
        found["tokenizers (Rust), offsets"] = lambda lines: lambda: rust.encode_batch(lines, add_special_tokens=False)
        found["tokenizers (Rust)"] = lambda lines: lambda: rust.encode_batch_fast(lines, add_special_tokens=False)
    else:
        print("tokenizers skipped: not installed (make peers)")
    if not vocabulary.is_berts:
        return found
    pieces = list(vocabulary.pieces)
    fast = tensorflow_text.FastBertTokenizer(pieces, token_out_type=tf.int32, lower_case_nfd_strip_accents=True)
    classic = tensorflow_text.BertTokenizer(_table(pieces), token_out_type=tf.int32, lower_case=True)
    return found | {
        "tf-text FastBertTokenizer": of_tensor(tf.function(fast.tokenize, input_signature=signature)),
        "tf-text FastBertTokenizer, offsets": of_tensor(
            tf.function(fast.tokenize_with_offsets, input_signature=signature)
        ),
        "tf-text BertTokenizer": of_tensor(tf.function(classic.tokenize, input_signature=signature)),
    }


def _rust(vocabulary):
    """Returns the tokenizer of the tokenizers library with a vocabulary."""
    import tokenizers

    return tokenizers.Tokenizer.from_str(tokenizer_json.to_json(vocabulary, vocabulary.lowercase))


def _table(pieces):
    ids = tf.lookup.KeyValueTensorInitializer(pieces, tf.range(len(pieces), dtype=tf.int64))
    return tf.lookup.StaticVocabularyTable(ids, num_oov_buckets=1)


def measure(functions, rounds):
    """Returns the median seconds by name, with interleaved rounds."""
    times = {name: [] for name in functions}
    for function in functions.values():
        function()
    for _ in range(rounds):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def latency(vocabulary):
    """Returns the seconds per line of text, by kind of call."""
    preprocessor = keras_bert.TextPreprocessor(vocabulary, 128)
    text = keras.Input((), dtype="string")
    with tempfile.TemporaryDirectory() as folder:
        keras.Model(text, preprocessor(text)).export(folder, verbose=False)
        served = tf.saved_model.load(folder).serve
    line = "The committee, which met on Thursday, wouldn't say when the report will be published."
    tensor = tf.constant([line])
    ways = {
        "TextPreprocessor, a list of one": lambda: preprocessor([line]),
        "TextPreprocessor, a tensor": lambda: preprocessor(tensor),
        "SavedModel": lambda: served(tensor),
    }
    repeated = {name: functools.partial(_repeat, way, 200) for name, way in ways.items()}
    return {name: seconds / 200 for name, seconds in measure(repeated, _ROUNDS.value).items()}


def _repeat(function, count):
    for _ in range(count):
        function()


def main(_):
    logging.set_verbosity(logging.WARNING)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    data = os.environ.get("KERAS_BERT_DATA", ".")
    vocabulary = keras_bert.Vocabulary(_VOCABULARY.value or f"{data}/vocab/bert-base-uncased-vocab.txt")
    paths = sorted(glob.glob(_TEXT.value or f"{data}/corpus/books/*.txt"))
    if not paths:
        raise SystemExit("no file matches --text")
    with open(paths[0], encoding="utf-8", errors="replace") as file:
        english = file.read().split("\n")
    print(f"one thread, {vocabulary}; {contest.machine()}")
    prepared = contenders(vocabulary)
    for name, lines in texts(english, vocabulary, _MEGABYTES.value * 1e6):
        size = sum(len(line.encode()) for line in lines)
        print(f"\n{name}: {len(lines)} lines, {size / 1e6:.1f} MB" + 22 * " " + "speedup of keras_bert; with offsets")
        seconds = measure({key: prepare(lines) for key, prepare in prepared.items()}, _ROUNDS.value)
        for key, value in seconds.items():
            ratios = [value / seconds[ours] for ours in ("keras_bert", "keras_bert, offsets")]
            print(f"  {key:36} {size / value / 1e6:7.1f} MB/s {ratios[0]:12.2f} {ratios[1]:12.2f}")
    print("\none line of text through the preprocessor")
    for key, value in latency(vocabulary).items():
        print(f"  {key:36} {value * 1e6:7.0f} us")


if __name__ == "__main__":
    app.run(main)

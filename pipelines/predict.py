"""Classifies or scores texts, or answers questions about a text, with a fine-tuned model or a server.

    python -m pipelines.predict --model=my_model "A text." "its pair, where the task has pairs"
    python -m pipelines.predict --model=my_model --input=texts.tsv
    cat texts.tsv | python -m pipelines.predict --model=my_model
    python -m pipelines.predict --model=my_squad_model --question="Who wrote it?" --context_file=article.txt
    python -m pipelines.predict --server=localhost:8501 --model=sst2 "A text."

`--model` is an argument for `keras_bert.load`, with a classification head. The input file (default: standard input) has
one text per line, or a pair separated by a tab. Prints a line for each text: the label and the probability of each
class, or the score, separated by tabs; labels and answers that contain tabs or line breaks are quoted (dialect
`excel-tab` of Python's `csv`). A question answering model takes one or more `--question` and a context of any length:
it prints each answer with its probability, and the context around it with the answer [[marked]]. Startup takes about
ten seconds. With `--server` (TensorFlow Serving or `pipelines.serve`), `--model` is the name of a served model with any
head; outputs other than classes and scores are printed as a line of JSON for each text.
"""

import json
import pathlib
import sys

import numpy as np
from absl import flags

import keras_bert
from keras_bert.serving import Client
from keras_bert.tasks.classification import multi_label_table, predictions_table, probabilities_table, quoted
from keras_bert.tasks.squad import predictions as squad_predictions
from keras_bert.tasks.squad.data import Questions
from keras_bert.tasks.squad.features import QuestionWindows

from . import command, common_flags

_MODEL = flags.DEFINE_string("model", None, "Directory or name of the model.", required=True)
_INPUT = flags.DEFINE_string("input", None, "File of texts, one per line.")
_QUESTION = flags.DEFINE_multi_string("question", None, "Question(s) to answer.")
_CONTEXT = flags.DEFINE_string("context_file", None, "File of the context; default: standard input.")
_LENGTH = flags.DEFINE_integer(
    "sequence_length", None, "Maximum number of tokens of a sequence; default: as in training."
)
_SERVER = flags.DEFINE_string("server", None, "Address of a server, host:port.")
_PROTOCOL = flags.DEFINE_enum("protocol", "rest", ["rest", "grpc"], "Protocol of the server.")
_BATCH = flags.DEFINE_integer("batch_size", 32, "Batch size.", 1)


_AROUND = 200  # Number of context characters to show on each side of an answer.


def main(arguments):
    asked = bool(_QUESTION.value)
    texts, pairs = _question(arguments) if asked else _texts(arguments)
    if _SERVER.value:
        _ask(texts, pairs)
        return
    bert = keras_bert.load(_MODEL.value)
    expected = "question_answering" if asked else "classification"
    if bert.head != expected:
        hint = ". Use --question and --context_file" if bert.head == "question_answering" else ""
        raise ValueError(f"{_MODEL.value}: expected a {expected} head. Received: head={bert.head!r}{hint}")
    _answer(bert, texts, pairs[0]) if asked else _classify(bert, texts, pairs)


def _classify(bert, texts, pairs):
    model = bert.model()
    if bert.pair is not None and bert.pair != (pairs is not None):
        raise ValueError(f"{_MODEL.value}: the model takes {('one text', 'a text and its pair')[bert.pair]}")
    length = _LENGTH.value or bert.sequence_length or bert.config.max_position_embeddings
    preprocessor = bert.preprocessor(length, padding="longest")
    classes = model.output["logits"].shape[-1]
    names = bert.labels or [str(index) for index in range(classes)]
    labels = [] if classes == 1 and not bert.multi_label else names
    for start in range(0, len(texts), _BATCH.value):
        part = slice(start, start + _BATCH.value)
        inputs = preprocessor(texts[part] if pairs is None else (texts[part], pairs[part]))
        logits = model.predict_on_batch(inputs)["logits"]
        header, *lines = multi_label_table(logits, labels) if bert.multi_label else predictions_table(logits, labels)
        print("\n".join(lines if start else [header, *lines]), flush=True)


def _answer(bert, asked, context):
    """Prints the answers to questions about one context."""
    count = len(asked)
    names = [str(number) for number in range(count)]
    questions = Questions([context], names, asked, np.zeros(count, int), [[]] * count, [[]] * count, True, [])
    length = _LENGTH.value or bert.sequence_length or min(384, bert.config.max_position_embeddings)
    windows = QuestionWindows(questions, bert.preprocessor(length, padding="longest"))
    model = bert.model()

    def predict(inputs):
        # Computes batches of windows, padded to the same length.
        dense = {name: values.to_tensor().numpy() for name, values in inputs.items()}
        return model.predict(dense, batch_size=_BATCH.value, verbose=0)

    answers = windows.answers(windows.logits(predict), count=20)
    texts = squad_predictions.predictions(answers, bert.null_threshold)
    for name, found, _ in answers:
        if not texts[name]:
            print("no answer")
            continue
        print(f"{quoted(texts[name])}\t{found[0]['probability']:.4f}\n{_marked(context, *found[0]['place'])}")


def _marked(context, first, last):
    """Returns the context around an answer on one line; `first` and `last` are byte offsets."""
    content = context.encode()
    before, answer, behind = (part.decode() for part in (content[:first], content[first:last], content[last:]))
    start = "..." if len(before) > _AROUND else ""
    end = "..." if len(behind) > _AROUND else ""
    return " ".join(f"{start}{before[-_AROUND:]}[[{answer}]]{behind[:_AROUND]}{end}".split())


def _ask(texts, pairs):
    """Prints predictions from a server."""
    client = Client(_SERVER.value, _PROTOCOL.value)
    names = list(client.metadata(_MODEL.value)["signatures"]["serving_default"]["inputs"])
    names.sort(key=lambda name: name in ("pair", "context", "choices"))  # The second input comes last.
    if len(names) != (1 if pairs is None else 2):
        raise ValueError(f"{_MODEL.value} takes {' and '.join(names)}. Received: {1 if pairs is None else 2} column(s)")
    for start in range(0, len(texts), _BATCH.value):
        columns = [column[start : start + _BATCH.value] for column in (texts, pairs) if column is not None]
        answers = client.predict(_MODEL.value, dict(zip(names, columns, strict=True)))
        if "predicted" in answers and "probabilities" in answers:
            logits = np.where(answers["predicted"], 1, -1)
            lines = multi_label_table(logits, list(answers["labels"][0]), answers["probabilities"])
        elif "probabilities" in answers and "labels" in answers:
            lines = probabilities_table(answers["probabilities"], list(answers["labels"][0]))
        elif list(answers) == ["score"]:
            lines = predictions_table(answers["score"][:, None], [])
        else:
            rows = ({name: values[row] for name, values in answers.items()} for row in range(len(columns[0])))
            lines = ["", *(json.dumps(row, ensure_ascii=False, default=lambda value: value.tolist()) for row in rows)]
        print("\n".join(lines[1:] if start or not lines[0] else lines), flush=True)


def _question(arguments):
    """Returns the questions, and the context for each of them."""
    if arguments or _INPUT.value:
        raise ValueError("--question takes its context from --context_file only. Remove the text arguments and --input")
    content = pathlib.Path(_CONTEXT.value).read_bytes() if _CONTEXT.value else sys.stdin.buffer.read()
    context = content.decode("utf-8", "replace")
    if not context.strip() or not all(question.strip() for question in _QUESTION.value):
        raise ValueError("--question and the text of --context_file must not be empty")
    return _QUESTION.value, [context] * len(_QUESTION.value)


def _texts(arguments):
    """Returns the texts, and their pairs or `None`."""
    if len(arguments) > 2 or (arguments and _INPUT.value):
        raise ValueError(f"expected one text, a pair of texts, or --input. Received: {' '.join(arguments)}")
    if arguments:
        rows = [arguments]
    else:
        content = pathlib.Path(_INPUT.value).read_bytes() if _INPUT.value else sys.stdin.buffer.read()
        rows = [line.split("\t") for line in common_flags.text_lines(content)]
        while len(rows) > 1 and len(rows[0]) == 2 and rows[-1] == [""]:
            rows.pop()  # Trailing blank lines are ignored for pairs; for single texts each line is a row.
    name = _INPUT.value or "standard input"
    for number, row in enumerate(rows, 1):
        if len(row) != len(rows[0]) or len(row) > 2:
            raise ValueError(f"{name}:{number}: expected {min(len(rows[0]), 2)} columns, got {len(row)}")
    if not rows:
        raise ValueError(f"{name}: there is no text")
    return [row[0] for row in rows], [row[1] for row in rows] if len(rows[0]) == 2 else None


if __name__ == "__main__":
    command.run(main, with_arguments=True)

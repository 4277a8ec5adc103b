"""Answers texts with a trained model or a server: classes, scores, entities, answers, translations, vectors.

    python -m pipelines.predict --model=my_model "A text." "its pair, where the task has pairs"
    python -m pipelines.predict --model=my_model --input=texts.csv --text_column=review --output=answers.jsonl
    cat texts.txt | python -m pipelines.predict --model=my_model
    python -m pipelines.predict --model=my_squad_model --question="Who wrote it?" --context_file=article.txt
    python -m pipelines.predict --model=my_swag_model "He opened the door." "He went in." "He ate it."
    python -m pipelines.predict --model=my_nli_model --candidate_labels=sport,politics "A text."
    python -m pipelines.predict --server=localhost:8501 --model=sst2 "A text."

`--model` is an argument for `keras_bert.load`, with any head. Texts are arguments, or the rows of a file: `.csv` or
`.tsv` with the columns `text` and `pair`, or `question` and `context`; `.jsonl` with these keys; for multiple choice
the formats of `run_multiple_choice`, labels are ignored; otherwise one text per line, with its pair separated by a tab.
The default is the standard input.

With `--output`, writes a line of JSON for each text: the text and the fields of `LoadedBert.predict`. Otherwise prints
a table of labels and probabilities, or of scores, separated by tabs (dialect `excel-tab` of Python's `csv`); for other
heads lines to read for arguments, and JSON for files. With `--server` (TensorFlow Serving or `pipelines.serve`),
`--model` is the name of a served model.
"""

import functools
import itertools
import os
import pathlib
import sys

from absl import flags

from keras_bert.files import replacing
from keras_bert.tasks.table_files import decoded

from . import command, common_flags, wings

command.section("data")
_INPUT = flags.DEFINE_string("input", None, "File of texts: .csv, .tsv, .jsonl, or one text per line.")
_TEXT = flags.DEFINE_string("text_column", None, "Column of the text or question; default: `text` or `question`.")
_PAIR = flags.DEFINE_string("pair_column", None, "Column of the second text or context; default: `pair` or `context`.")
_CHOICES = flags.DEFINE_list(
    "choice_columns", None, "Columns with the choices; default: `choices`, or names such as `A` and `choice1`."
)
_QUESTION = flags.DEFINE_multi_string("question", None, "Question(s) to answer.")
_CONTEXT = flags.DEFINE_string("context_file", None, "File of the context; default: standard input.")
command.section("model")
_MODEL = flags.DEFINE_string("model", None, "Directory or name of the model.", required=True)
_LENGTH = flags.DEFINE_integer(
    "sequence_length", None, "Maximum number of tokens of a sequence; default: as in training."
)
_CANDIDATES = flags.DEFINE_list(
    "candidate_labels", None, "Zero-shot classification with these labels: sentence encoders, entailment models."
)
_HYPOTHESIS = flags.DEFINE_string(
    "hypothesis", None, 'Hypothesis of a candidate label; default: "This text is about {}."'
)
_MULTI_LABEL = flags.DEFINE_bool(
    "multi_label", None, "Several candidate labels may apply to a text: entailment models."
)
_TEMPERATURE = flags.DEFINE_float(
    "temperature", None, "Divides the cosines of candidate labels: sentence encoders; default: 0.05."
)
_BATCH = flags.DEFINE_integer("batch_size", 32, "Batch size.", 1)
_BEAM = flags.DEFINE_integer("beam_size", None, "Beams of a translation; default: 4, or --n_best if it is larger.", 1)
_PENALTY = flags.DEFINE_float("length_penalty", None, "Alpha of the length penalty of translations; default: 0.6.", 0)
_SERVER = flags.DEFINE_string("server", None, "Address of a server, host:port.")
_PROTOCOL = flags.DEFINE_enum("protocol", "rest", ["rest", "grpc"], "Protocol of the server.")
command.section("output")
_OUTPUT = flags.DEFINE_string("output", None, "File to write, one line of JSON per text; default: prints the answers.")
_N_BEST = flags.DEFINE_integer(
    "n_best", None, "Number of answers to a question, of tokens for a [MASK], or of translations.", 1
)
_ZERO_SHOT = (_HYPOTHESIS, _MULTI_LABEL, _TEMPERATURE)
_CHUNK = 64  # Batches whose texts are sorted by length together.


def check(arguments):
    """Finds mistakes in files and texts."""
    output = _OUTPUT.value
    common_flags.only(_SERVER.value, "with --server", "protocol")
    common_flags.only(_QUESTION.value, "with --question", "context_file")
    tables = "for tables, --input with .csv, .tsv or .jsonl"
    common_flags.only(_is_table(), tables, "text_column", "pair_column", "choice_columns")
    if output and os.path.isdir(output):
        raise ValueError(f"--output must be a file. Received: the folder {output}")
    _check_zero_shot()
    if _SERVER.value and (given := _given(_LENGTH, _BEAM, _PENALTY, *_ZERO_SHOT)):
        raise ValueError(f"--{next(iter(given))} of a served model was chosen when it was exported. Received: --server")
    common_flags.check_paths(None if _SERVER.value else _MODEL.value, input=_INPUT.value, context_file=_CONTEXT.value)
    texts = _INPUT.value or _CONTEXT.value
    if output and texts and os.path.isfile(output) and os.path.samefile(output, texts):
        raise ValueError(f"--output must be another file than that of the texts. Received: {output}")
    if _QUESTION.value:
        _questions(arguments)
    elif not arguments and not _is_table():
        _text_lines()


def _check_zero_shot():
    labels = _CANDIDATES.value
    if labels is None:
        for name, value in _given(*_ZERO_SHOT).items():
            raise ValueError(f"--{name} needs --candidate_labels. Received: --{name}={value}")
        return
    if not labels or not all(labels) or len(set(labels)) < len(labels):
        received = ",".join(labels)
        raise ValueError(f"--candidate_labels must be different labels, none empty. Received: {received!r}")
    if len(labels) == 1 and not _MULTI_LABEL.value and not _SERVER.value:
        raise _single_label("--multi_label")
    if _N_BEST.value:
        raise ValueError(f"--n_best has no meaning with --candidate_labels. Received: --n_best={_N_BEST.value}")


def _single_label(exception):
    return ValueError(
        "--candidate_labels must be at least 2 labels: a single one always has the probability 1, except with "
        f"{exception}. Received: {_CANDIDATES.value[0]!r}"
    )


def _given(*holders):
    """Returns the given flags as a dict of values by name."""
    return {holder.name: holder.value for holder in holders if holder.value is not None}


def main(arguments):
    allowed, predict = _server() if _SERVER.value else _model()
    rows = _questions(arguments) if _QUESTION.value else _rows(arguments, allowed)
    if tuple(rows[0]) not in allowed:
        if _QUESTION.value:
            raise ValueError(
                f"{_MODEL.value} has no question-answering head. Expected a model from "
                f"`{command.spelling('run_squad')}`. Received: --question"
            )
        hint = ". Use --question and --context_file, or --input" if "question" in allowed[0] else ""
        expected = " or ".join(" and ".join(names) for names in allowed)
        raise ValueError(f"{_MODEL.value} takes {expected}. Received: {' and '.join(rows[0])}{hint}")
    lines = _lines(rows, predict, to_read=bool(arguments or _QUESTION.value))
    if not _OUTPUT.value:
        for line in lines:
            print(line, flush=True)
        return
    with replacing(_OUTPUT.value) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
    print(f"wrote {len(rows):,} answers to {_OUTPUT.value}")


def _needs_tensorflow():
    return not _SERVER.value or _PROTOCOL.value == "grpc"


def _lines(rows, predict, to_read):
    """Yields the lines of the output; `to_read` prefers lines to read over JSON."""
    from keras_bert.tasks import predict_outputs

    for start in range(0, len(rows), _BATCH.value * _CHUNK):
        part = rows[start : start + _BATCH.value * _CHUNK]
        answers = predict(part)
        table = None if _OUTPUT.value else predict_outputs.table(answers)
        if table and sys.stdout.isatty() and "\t" not in "".join(map(str, answers[0].get("scores", ()))):
            table = predict_outputs.with_texts(table, part)
        if table:
            yield from table[1:] if start else table
            continue
        for row, answer in zip(part, answers, strict=True):
            yield from (
                predict_outputs.readable(row, answer)
                if to_read and not _OUTPUT.value
                else [predict_outputs.json_line(row, answer)]
            )


def _model():
    """Returns the names of the inputs that the model takes, and its function from rows to answers."""
    from keras_bert.exporting.head_signatures import signatures_of

    bert = wings.load(_MODEL.value)
    given = _given(_N_BEST, _LENGTH, _BEAM, _PENALTY, _CANDIDATES, *_ZERO_SHOT)
    translates = bert.head == "translation"
    wrong = {"sequence_length", "candidate_labels"} if translates else {"beam_size", "length_penalty"}
    if name := next(iter(wrong & given.keys()), None):
        raise ValueError(f"--{name} has no meaning for {_MODEL.value}, whose head is {bert.head}")
    allowed = [("text",)] if _CANDIDATES.value or translates else signatures_of(bert.head).inputs(bert)
    return allowed, lambda rows: bert.predict(rows, _BATCH.value, **given)


def _server():
    """Same as `_model` for a served model."""
    from keras_bert.serving import Client

    client = Client(_SERVER.value, _PROTOCOL.value)
    signatures = client.metadata(_MODEL.value)["signatures"]
    if _CANDIDATES.value:
        return _served_zero_shot(client, signatures)
    signature = signatures["serving_default"]
    if _N_BEST.value and not {"answer", "mask_count", "translations"}.intersection(signature["outputs"]):
        raise ValueError(f"--n_best: the served {_MODEL.value} has one answer to each text. Expected no --n_best")
    if _N_BEST.value and "answer" in signature["outputs"] and "scores" not in signature["outputs"]:
        export = command.spelling("export_saved_model")
        raise ValueError(f"--n_best: the served {_MODEL.value} gives one answer. Export it with {export} --n_best=...")
    beams = signature["outputs"].get("translations", {}).get("shape", [None, None])[1]
    if _N_BEST.value and beams and beams < _N_BEST.value:
        raise ValueError(f"--n_best: the served {_MODEL.value} gives {beams} translations. Received: {_N_BEST.value}")
    names = list(signature["inputs"])
    names.sort(key=lambda name: name in ("pair", "context", "choices"))  # The second input comes last.
    return [tuple(names)], functools.partial(_ask, client, names)


def _served_zero_shot(client, signatures):
    """Same as `_server` for the signature `zero_shot`."""
    if "zero_shot" not in signatures:
        raise ValueError(
            f"--candidate_labels: the served {_MODEL.value} has no signature zero_shot. Export it with "
            f'{command.spelling("export_saved_model")} --hypothesis="This text is about {{}}."'
        )
    if len(_CANDIDATES.value) == 1 and "predicted" not in signatures["zero_shot"]["outputs"]:
        raise _single_label("a model that was exported with multi_label=True")

    def predict(rows):
        rows = [{**row, "labels": _CANDIDATES.value} for row in rows]
        return _ask(client, ("text", "labels"), rows, signature="zero_shot")

    return [("text",)], predict


def _ask(client, names, rows, signature=None):
    """Returns the answers of a server to rows with inputs of these names."""
    import numpy as np

    from keras_bert.exporting.results import results

    answers = []
    for part in _rectangles(rows):
        inputs = {name: [row[name] for row in part] for name in names}
        outputs = client.predict(_MODEL.value, inputs, signature=signature)
        answers += results({name: np.asarray(values) for name, values in outputs.items()}, part, _N_BEST.value)
    return answers


def _rectangles(rows):
    """Yields batches of rows with equally many choices, since the tensors of requests are not ragged."""
    for _, alike in itertools.groupby(rows, lambda row: len(row.get("choices", ()))):
        alike = list(alike)
        for start in range(0, len(alike), _BATCH.value):
            yield alike[start : start + _BATCH.value]


def _questions(arguments):
    """Returns a row for each question about one context."""
    if len(arguments) + bool(_CONTEXT.value) > 1 or _INPUT.value:
        raise ValueError("--question takes one context: an argument, --context_file or the standard input; no --input")
    name = _CONTEXT.value or "standard input"
    context = arguments[0] if arguments else decoded(_content(_CONTEXT.value), name)
    if not context.strip() or not all(question.strip() for question in _QUESTION.value):
        raise ValueError("--question and its context must not be empty")
    return [{"question": question, "context": context} for question in _QUESTION.value]


def _rows(arguments, allowed):
    """Returns the texts as dicts."""
    from keras_bert.tasks import predict_inputs

    if arguments and _INPUT.value:
        raise ValueError(f"expected either texts or --input. Received: both, {' '.join(arguments)}")
    if arguments and "question" in allowed[0]:
        raise ValueError(
            f"{_MODEL.value} answers questions. Use --question=... with --context_file=FILE or the context as argument"
        )
    if arguments:
        # Without pairs, each argument is a text; so is each with masks to fill.
        single = allowed == [("text",)] or (("text",) in allowed and "[MASK]" in " ".join(arguments))
        lines = [[text] for text in arguments] if single else [arguments]
        return [predict_inputs.from_parts("the arguments", line, allowed) for line in lines]
    if _is_table():
        return predict_inputs.read_texts(_INPUT.value, allowed, _TEXT.value, _PAIR.value, _CHOICES.value)
    return predict_inputs.from_lines(*_text_lines(), allowed)


def _is_table():
    return _INPUT.value and pathlib.Path(_INPUT.value).suffix.lower() in (".csv", ".tsv", ".jsonl")


def _text_lines():
    """Returns the name of the file of texts, and its lines."""
    name = _INPUT.value or "standard input"
    lines = common_flags.text_lines(_content(_INPUT.value), name)
    if not lines:
        raise ValueError(f"{name}: there is no text")
    return name, lines


@functools.cache
def _content(path):
    """Returns the bytes of a file, or of the standard input, which can be read once."""
    if path:
        return pathlib.Path(path).read_bytes()
    if sys.stdin.isatty():
        print(f"type {'the context' if _QUESTION.value else 'one text per line'}; Ctrl-D ends", file=sys.stderr)
    return sys.stdin.buffer.read()


if __name__ == "__main__":
    command.run(main, with_arguments=True, tensorflow=_needs_tensorflow, check=check)

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

With `--output`, writes a file in the format of its name: `.csv` and `.tsv` with all columns of `--input`, the fields of
`LoadedBert.predict` and the score of each class; otherwise a line of JSON for each text, with the same columns. A field
with the name of a column is called `predicted_...`. `tokens_read` is below `tokens` where the model did not read all of
a text; a message counts these texts. Without `--output`, prints a table of labels and probabilities, or
of scores, separated by tabs (dialect `excel-tab` of Python's `csv`); for other heads lines to read for arguments, and
JSON for files. With `--server` (TensorFlow Serving or `pipelines.serve`), `--model` is the name of a served model.
"""

import functools
import inspect
import itertools
import os
import pathlib
import sys

import numpy as np

from keras_bert import other_models
from keras_bert.data.sources import ROWS
from keras_bert.data.text_files import decoded, suffix
from keras_bert.files import replacing
from keras_bert.heads.answers import each_text, of_outputs
from keras_bert.serving import Client
from keras_bert.text.token_counts import CutTexts, told_once

from . import command, common_flags
from .arguments import CommandArguments, flag

_CHUNK = 64  # Batches whose texts are sorted by length together.
_EXPORTED = ("sequence_length", "beam_size", "length_penalty", "hypothesis", "multi_label", "temperature")


class Arguments(CommandArguments):
    input: str = flag(None, "File of texts: .csv, .tsv, .jsonl, or one text per line.", is_file=True, section="data")
    text_column: str = flag(None, "Column of the text or question; default: `text` or `question`.")
    pair_column: str = flag(None, "Column of the second text or context; default: `pair` or `context`.")
    choice_columns: list[str] = flag(
        None, "Columns with the choices; default: `choices`, or names such as `A` and `choice1`."
    )
    question: list[str] = flag(None, "Question(s) to answer.", repeatable=True)
    context_file: str = flag(None, "File of the context; default: standard input.", is_file=True, needs="question")
    model: str = flag(None, "Directory or name of the model.", required=True, section="model")
    sequence_length: int = flag(None, "Maximum number of tokens of a sequence; default: as in training.")
    candidate_labels: list[str] = flag(
        None, "Zero-shot classification with these labels: sentence encoders, entailment models."
    )
    hypothesis: str = flag(
        None, 'Hypothesis of a candidate label; default: "This text is about {}."', needs="candidate_labels"
    )
    multi_label: bool = flag(
        None, "Several candidate labels may apply to a text: entailment models.", needs="candidate_labels"
    )
    temperature: float = flag(
        None, "Divides the cosines of candidate labels: sentence encoders; default: 0.05.", needs="candidate_labels"
    )
    batch_size: int = flag(32, "Batch size.", least=1)
    beam_size: int = flag(None, "Beams of a translation; default: 4, or --n_best if it is larger.", least=1)
    length_penalty: float = flag(None, "Alpha of the length penalty of translations; default: 0.6.", least=0)
    server: str = flag(None, "Address of a server, host:port.")
    protocol: str = flag("rest", "Protocol of the server.", values=["rest", "grpc"], needs="server")
    output: str = flag(
        None, "File to write: .csv, .tsv, or one line of JSON per text; default: prints the answers.", section="output"
    )
    n_best: int = flag(
        None,
        "Number of answers to a question, of tokens for a [MASK], or of translations.",
        least=1,
        excludes=("candidate_labels",),
    )

    def needs_tensorflow(self):
        return not self.server or self.protocol == "grpc"

    @property
    def is_table(self):
        """Whether `--input` has rows with columns."""
        return bool(self.input) and suffix(pathlib.Path(self.input)) in ROWS

    @functools.cached_property
    def content(self):
        """The bytes of the file of the texts or of the context, or of the standard input, which can be read once."""
        if path := self.context_file if self.question else self.input:
            return pathlib.Path(path).read_bytes()
        if sys.stdin.isatty():
            print(f"type {'the context' if self.question else 'one text per line'}; Ctrl-D ends", file=sys.stderr)
        return sys.stdin.buffer.read()

    @property
    def lines(self):
        """The name of the file of texts, and its lines."""
        name = self.input or "standard input"
        lines = common_flags.text_lines(self.content, name)
        if not lines:
            raise ValueError(f"{name}: there is no text")
        return name, lines

    @property
    def questions(self):
        """A row for each question about one context."""
        if len(self.positional) + bool(self.context_file) > 1 or self.input:
            raise ValueError(
                "--question takes one context: an argument, --context_file or the standard input; no --input"
            )
        name = self.context_file or "standard input"
        context = self.positional[0] if self.positional else decoded(self.content, name)
        if not context.strip() or not all(question.strip() for question in self.question):
            raise ValueError("--question and its context must not be empty")
        return [{"question": question, "context": context} for question in self.question]


def check(arguments):
    output, texts = arguments.output, arguments.input or arguments.context_file
    tables = f"for rows with columns, --input with {', '.join(ROWS)}"
    arguments.only(arguments.is_table, tables, "text_column", "pair_column", "choice_columns")
    if output and pathlib.Path(output).suffix.lower() in (".xls", ".xlsx", ".ods", ".parquet"):
        raise ValueError(f"--output must end in .csv, .tsv or .jsonl. Received: {output}")
    arguments.only(not arguments.server, "without --server, whose models were exported with theirs", *_EXPORTED)
    if output and texts and os.path.isfile(output) and os.path.samefile(output, texts):
        raise ValueError(f"--output must be another file than that of the texts. Received: {output}")
    labels = arguments.candidate_labels
    if labels is not None and (not all(labels) or len(set(labels)) < max(len(labels), 1)):
        received = ",".join(labels)
        raise ValueError(f"--candidate_labels must be different labels, none empty. Received: {received!r}")
    if labels and len(labels) == 1 and not arguments.multi_label and not arguments.server:
        raise _single_label(labels[0], "--multi_label")
    if arguments.question:
        _ = arguments.questions
    elif not arguments.positional and not arguments.is_table:
        _ = arguments.lines


def _single_label(label, exception):
    return ValueError(
        "--candidate_labels must be at least 2 labels: a single one always has the probability 1, except with "
        f"{exception}. Received: {label!r}"
    )


def main(arguments):
    allowed, predict = (_served_model if arguments.server else _loaded_model)(arguments)
    rows = arguments.questions if arguments.question else _rows(arguments, allowed)
    if allowed is not None and tuple(rows[0]) not in allowed:
        raise _wrong_inputs(arguments, tuple(rows[0]), allowed)
    with told_once():
        _answer(arguments, rows, predict)


def _answer(arguments, rows, predict):
    """Prints or writes the answers to all rows."""
    from keras_bert.tasks import prediction_files

    size = arguments.batch_size * _CHUNK
    parts = [rows[start : start + size] for start in range(0, len(rows), size)]
    if not arguments.output:
        for part in parts:
            for line in _lines(arguments, part, predict(part), is_first=part is parts[0]):
                print(line, flush=True)
        return
    columns = list(rows[0]), arguments.text_column, arguments.pair_column
    records = prediction_files.read_records(arguments.input, *columns) if arguments.is_table else []
    if len(records) != len(rows):  # A table without names of columns.
        records = [None] * len(rows)
    answers = itertools.chain.from_iterable(map(predict, parts))
    delimiter = {".csv": ",", ".tsv": "\t"}.get(pathlib.Path(arguments.output).suffix.lower())
    with replacing(arguments.output) as temporary:
        prediction_files.write(temporary, zip(records, rows, answers, strict=True), delimiter)
    print(f"wrote {len(rows):,} answers to {arguments.output}")


def _wrong_inputs(arguments, names, allowed):
    if arguments.question:
        return ValueError(
            f"{arguments.model} has no question-answering head. Expected a model from "
            f"`{command.spelling('run_squad')}`. Received: --question"
        )
    hint = ". Use --question and --context_file, or --input" if "question" in allowed[0] else ""
    expected = " or ".join(" and ".join(inputs) for inputs in allowed)
    return ValueError(f"{arguments.model} takes {expected}. Received: {' and '.join(names)}{hint}")


def _lines(arguments, rows, answers, is_first):
    """Yields the lines to print; arguments have lines to read rather than JSON."""
    from keras_bert.tasks import prediction_files

    table = prediction_files.table(answers)
    if table and sys.stdout.isatty() and "\t" not in "".join(map(str, answers[0].get("scores", ()))):
        table = prediction_files.with_texts(table, rows)
    if table:
        yield from table if is_first else table[1:]
        return
    for row, answer in zip(rows, answers, strict=True):
        if arguments.positional or arguments.question:
            yield from prediction_files.readable(row, answer)
        else:
            yield prediction_files.json_line(row, answer)


def _loaded_model(arguments):
    """Returns the names of the inputs that the model takes, and its function from rows to answers.

    `None` stands for the names of a task whose rows are its own.
    """
    from keras_bert.heads.registry import answering
    from keras_bert.tasks.registry import task_of

    bert = common_flags.load_model(arguments.model)
    options = arguments.values("n_best", "candidate_labels", *_EXPORTED)
    translates = "beam_size" in inspect.signature(bert.predict).parameters
    wrong = {"sequence_length", "candidate_labels"} if translates else {"beam_size", "length_penalty"}
    if name := next(iter(wrong & options.keys()), None):
        raise ValueError(f"--{name} has no meaning for {arguments.model}, whose head is {bert.head}")
    is_plain = arguments.candidate_labels or translates
    task = None if is_plain else task_of(bert)
    allowed = [("text",)] if is_plain else None if task and task.asked else answering(bert.head).inputs(bert)
    return allowed, lambda rows: bert.predict(rows, batch_size=arguments.batch_size, **options)


def _served_model(arguments):
    """Same as `_loaded_model` for a served model."""
    client, model, n_best = Client(arguments.server, arguments.protocol), arguments.model, arguments.n_best
    signatures = client.metadata(model)["signatures"]
    if labels := arguments.candidate_labels:
        _check_served_labels(model, labels, signatures)
        ask = functools.partial(_ask, arguments, client, ("text", "labels"), signature="zero_shot")
        return [("text",)], lambda rows: ask([{**row, "labels": labels} for row in rows])
    inputs, outputs = signatures["serving_default"]["inputs"], signatures["serving_default"]["outputs"]
    if n_best and not {"answer", "mask_count", "translations"}.intersection(outputs):
        raise ValueError(f"--n_best: the served {model} has one answer to each text. Expected no --n_best")
    if n_best and "answer" in outputs and "scores" not in outputs:
        export = command.spelling("export_saved_model")
        raise ValueError(f"--n_best: the served {model} gives one answer. Export it with {export} --n_best=...")
    beams = outputs.get("translations", {}).get("shape", [None, None])[1] if n_best else None
    if beams and beams < n_best:
        raise ValueError(f"--n_best: the served {model} gives {beams} translations. Received: {n_best}")
    # The second input comes last.
    names = sorted(inputs, key=lambda name: name in ("pair", "context", "choices"))
    return [tuple(names)], functools.partial(_ask, arguments, client, names)


def _check_served_labels(model, labels, signatures):
    if "zero_shot" not in signatures:
        raise ValueError(
            f"--candidate_labels: the served {model} has no signature zero_shot. Export it with "
            f'{command.spelling("export_saved_model")} --hypothesis="This text is about {{}}."'
        )
    if len(labels) == 1 and "predicted" not in signatures["zero_shot"]["outputs"]:
        raise _single_label(labels[0], "a model that was exported with multi_label=True")


def _ask(arguments, client, names, rows, signature=None):
    """Returns the answers of a server to rows with inputs of these names."""
    answers, cut = [], CutTexts("questions" if "question" in names else "texts")
    for part in rectangles(rows, arguments.batch_size):
        inputs = {name: [row[name] for row in part] for name in names}
        outputs = client.predict(arguments.model, inputs, signature=signature)
        outputs = {name: np.asarray(values) for name, values in outputs.items()}
        convert = other_models.answering(outputs) or of_outputs(outputs)
        answers += each_text(convert, outputs, part, arguments.n_best)
        cut.add(outputs)
    cut.tell()
    return answers


def rectangles(rows, batch_size):
    """Yields batches of rows with equally many choices, since the tensors of requests are not ragged."""
    for _, alike in itertools.groupby(rows, lambda row: len(row.get("choices", ()))):
        alike = list(alike)
        for start in range(0, len(alike), batch_size):
            yield alike[start : start + batch_size]


def _rows(arguments, allowed):
    """Returns the texts as dicts."""
    from keras_bert.tasks import prediction_files

    if allowed is None:
        if not arguments.is_table:
            raise ValueError(f"{arguments.model} takes rows of its task. Expected --input with {', '.join(ROWS)}")
        arguments.only(False, "for models without rows of their own", "text_column", "pair_column", "choice_columns")
        return prediction_files.read_own(arguments.input)
    given = list(arguments.positional)
    if given and arguments.input:
        raise ValueError(f"expected either texts or --input. Received: both, {' '.join(given)}")
    if given and "question" in allowed[0]:
        usage = "--question=... with --context_file=FILE or the context as argument"
        raise ValueError(f"{arguments.model} answers questions. Use {usage}")
    if given:
        # Without pairs, each argument is a text; so is each with masks to fill.
        single = allowed == [("text",)] or (("text",) in allowed and "[MASK]" in " ".join(given))
        lines = [[text] for text in given] if single else [given]
        return [prediction_files.from_parts("the arguments", line, allowed) for line in lines]
    if arguments.is_table:
        columns = arguments.values("text_column", "pair_column", "choice_columns")
        return prediction_files.read_texts(arguments.input, allowed, **columns)
    return prediction_files.from_lines(*arguments.lines, allowed)


if __name__ == "__main__":
    command.run(__doc__, Arguments, main, check, positional=True, tensorflow=Arguments.needs_tensorflow)

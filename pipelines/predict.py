"""Answers texts with a trained model or a server: classes, scores, entities, answers, translations, vectors.

    python -m pipelines.predict --model=my_model "A text." "its pair, where the task has pairs"
    python -m pipelines.predict --model=my_model --input=texts.csv --text_column=review --output=answers.jsonl
    cat texts.txt | python -m pipelines.predict --model=my_model
    python -m pipelines.predict --model=my_squad_model --question="Who wrote it?" --context_file=article.txt
    python -m pipelines.predict --model=my_swag_model "He opened the door." "He went in." "He ate it."
    python -m pipelines.predict --model=my_nli_model --candidate_labels=sport,politics "A text."
    python -m pipelines.predict --server=localhost:8501 --model=sst2 "A text."

`--model` is an argument for `keras_bert.load`, with any head. Texts are arguments, or the rows of a file: `.csv` or
`.tsv` with the columns that the model was trained on, or `text` and `pair`, or `question` and `context`; `.jsonl` with
these keys; for multiple choice the formats of `run_multiple_choice`, labels are ignored; otherwise one text per line,
with its pair separated by a tab. The default is the standard input, `--input=-`. Files of any size are read in parts.

With `--output`, writes a file in the format of its name: `.csv` and `.tsv` with all columns of `--input`, the fields of
`LoadedBert.predict` and the score of each class; otherwise a line of JSON for each text, with the same columns. A field
with the name of a column is called `predicted_...`. `tokens_read` is below `tokens` where the model did not read all of
a text; a message counts these texts. Without `--output`, prints a table of labels and probabilities, or
of scores, separated by tabs (dialect `excel-tab` of Python's `csv`); for other heads lines to read for arguments, and
JSON for files. Answers are written as they come, and whole lines stay if the command is interrupted. With `--server`
(TensorFlow Serving or `pipelines.serve`), `--model` is the name of a served model.
"""

import functools
import inspect
import itertools
import os
import pathlib
import sys

import numpy as np

from keras_bert import other_models
from keras_bert.data import text_files
from keras_bert.data.sources import ROWS, source
from keras_bert.data.text_files import decoded, suffix
from keras_bert.heads.answers import each_text, of_outputs
from keras_bert.serving import Client
from keras_bert.tasks.classification.data import OWN
from keras_bert.tasks.classification.glue import TASKS
from keras_bert.tasks.rows import not_registered
from keras_bert.text.answer_settings import READING
from keras_bert.text.token_counts import CutTexts, told_once

from . import command, common_flags
from .arguments import flag
from .early_checks import check_files, local_config

_CHUNK = 64  # Batches whose texts are sorted by length together.
_HEAD = 1000  # Rows of a file to check before TensorFlow starts.
# The inputs of models by a part of the names of their architectures, as far as these tell them.
_INPUTS = {
    "ForSequenceClassification": [("text",), ("text", "pair")],
    "ForTokenClassification": [("text",)],
    "ForQuestionAnswering": [("question", "context")],
}
_KNOWN_TASKS = (None, *OWN, *TASKS, "tagging", "questions")
_EXPORTED = ("beam_size", "length_penalty", "hypothesis", "multi_label", "temperature")
_OF_TEXTS = ("sequence_length", *READING)


class Arguments(common_flags.LongTextFlags):
    input: str = flag(None, "File of texts: .csv, .tsv, .jsonl, or one text per line; - for the input.", section="data")
    text_column: str = flag(None, "Column of the text or question; default: that of training, `text` or `question`.")
    pair_column: str = flag(
        None, "Column of the second text or context; default: as in training, or `pair` or `context`."
    )
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

    @property
    def input_file(self):
        """The path of the file of texts, or `None` for the standard input."""
        return None if self.input == "-" else self.input

    @functools.cached_property
    def content(self):
        """The bytes of the file of the context, or of the standard input, which can be read once."""
        if self.context_file:
            return pathlib.Path(self.context_file).read_bytes()
        return _standard_input("the context").read()

    @functools.cached_property
    def lines(self):
        """The name of the file of texts, and an iterator over its lines, the first of which have been read."""
        name = self.input_file or "standard input"
        if self.input_file:
            texts = text_files.stream_text(pathlib.Path(self.input_file), blank_end=True)
        else:
            texts = text_files.text_of(_standard_input("one text per line"), name, blank_end=True)
        # Of the standard input, further lines may be written later.
        head = list(itertools.islice(texts, _HEAD if self.input_file else 1))
        if not head:
            raise ValueError(f"{name}: there is no text")
        return name, map(text_files.without_end, itertools.chain(head, texts))

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


def _standard_input(expected):
    if sys.stdin.isatty():
        print(f"type {expected}; Ctrl-D ends", file=sys.stderr)
    return sys.stdin.buffer


def check(arguments):
    check_files("input", arguments.input_file)
    output, texts = arguments.output, arguments.input_file or arguments.context_file
    tables = f"for rows with columns, --input with {', '.join(ROWS)}"
    arguments.only(arguments.is_table, tables, "text_column", "pair_column", "choice_columns")
    if output and pathlib.Path(output).suffix.lower() in (".xls", ".xlsx", ".ods", ".parquet"):
        raise ValueError(f"--output must end in .csv, .tsv or .jsonl. Received: {output}")
    arguments.only(
        not arguments.server, "without --server, whose models were exported with theirs", *_OF_TEXTS, *_EXPORTED
    )
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
    elif not arguments.positional:
        _check_table(arguments)


def _check_table(arguments):
    """Reads the head of a table, to find a missing column or another encoding before TensorFlow starts."""
    from keras_bert.answering import prediction_files

    origin = source(arguments.input)
    config = {} if arguments.server or arguments.plugins else local_config(arguments.model)
    facts = config.get("keras_bert")
    facts = facts if isinstance(facts, dict) else {}
    kind = next((kind for kind in _INPUTS if any(kind in name for name in config.get("architectures") or ())), None)
    if kind is None or facts.get("task") not in _KNOWN_TASKS:  # Others have rows of their own.
        rows = origin.stream()
    else:
        allowed = _INPUTS[kind]
        if arguments.candidate_labels or facts.get("pair") is False:
            allowed = allowed[:1]
        elif facts.get("pair"):
            allowed = allowed[-1:]
        columns = arguments.values("text_column", "pair_column", "choice_columns")
        words = kind == "ForTokenClassification"
        rows = prediction_files.stream_texts(origin, allowed, **columns, known=facts.get("columns"), words=words)
    for _ in itertools.islice(rows, _HEAD):
        pass


def _single_label(label, exception):
    return ValueError(
        "--candidate_labels must be at least 2 labels: a single one always has the probability 1, except with "
        f"{exception}. Received: {label!r}"
    )


def main(arguments):
    allowed, predict, reading = (_served_model if arguments.server else _loaded_model)(arguments)
    parts = _answered(arguments, _rows(arguments, allowed, reading), allowed, predict)
    with told_once():
        if arguments.output:
            _write(arguments, parts)
        else:
            _print(arguments, parts)


def _answered(arguments, rows, allowed, predict):
    """Yields parts of the rows with their answers: lists of the rows of the file, of the texts, and of the answers.

    The first part is a batch, so that there are answers soon; the later ones grow, and `predict` sorts the texts of a
    part by length.
    """
    size = arguments.batch_size
    while part := list(itertools.islice(rows, size)):
        records, texts = map(list, zip(*part, strict=True))
        if allowed is not None and tuple(texts[0]) not in allowed:
            raise _wrong_inputs(arguments, tuple(texts[0]), allowed)
        yield records, texts, predict(texts)
        size = min(2 * size, arguments.batch_size * _CHUNK)


def _print(arguments, parts):
    """Prints answers as they come: a table has its header once."""
    from keras_bert.answering import prediction_files

    header = None
    for _, texts, answers in parts:
        table = prediction_files.table(answers)
        lines = _lines(arguments, table, texts, answers)
        if table and table[0] == header:
            lines = itertools.islice(lines, 1, None)
        header = table[0] if table else None
        for line in lines:
            print(line, flush=True)


def _write(arguments, parts):
    from keras_bert.answering import prediction_files

    delimiter = {".csv": ",", ".tsv": "\t"}.get(pathlib.Path(arguments.output).suffix.lower())
    with prediction_files.AnswersFile(arguments.output, delimiter) as file:
        try:
            for records, texts, answers in parts:
                file.write(zip(records, texts, answers, strict=True))
        except BaseException:
            if file.count:
                print(f"wrote the first {file.count:,} answers to {arguments.output}", file=sys.stderr)
            raise
    print(f"wrote {file.count:,} answers to {arguments.output}")


def _wrong_inputs(arguments, names, allowed):
    if arguments.question:
        return ValueError(
            f"{arguments.model} has no question-answering head. Expected a model from "
            f"`{command.spelling('run_squad')}`. Received: --question"
        )
    hint = ". Use --question and --context_file, or --input" if "question" in allowed[0] else ""
    expected = " or ".join(" and ".join(inputs) for inputs in allowed)
    return ValueError(f"{arguments.model} takes {expected}. Received: {' and '.join(names)}{hint}")


def _lines(arguments, table, rows, answers):
    """Yields the lines to print, those of the table if there is one; arguments have lines to read rather than JSON."""
    from keras_bert.answering import prediction_files

    if table and sys.stdout.isatty() and "\t" not in "".join(map(str, answers[0].get("scores", ()))):
        table = prediction_files.with_texts(table, rows)
    if table:
        yield from table
        return
    for row, answer in zip(rows, answers, strict=True):
        if arguments.positional or arguments.question:
            yield from prediction_files.readable(row, answer)
        else:
            yield prediction_files.json_line(row, answer)


def _loaded_model(arguments):
    """Returns the names of the inputs that the model takes, its function from rows to answers, and how to read rows.

    `None` stands for the names of a task whose rows are its own. How to read rows are arguments of `stream_texts`, or
    for such a task of `stream_own`.
    """
    from keras_bert.heads.registry import answering
    from keras_bert.tasks.registry import stored_settings, task_of

    bert = common_flags.load_model(arguments.model)
    options = arguments.values("n_best", "candidate_labels", *_OF_TEXTS, *_EXPORTED)
    translates = "beam_size" in inspect.signature(bert.predict).parameters
    wrong = {"candidate_labels", *_OF_TEXTS} if translates else {"beam_size", "length_penalty"}
    if name := next(iter(wrong & options.keys()), None):
        raise ValueError(f"--{name} has no meaning for {arguments.model}, whose head is {bert.head}")
    is_plain = arguments.candidate_labels or translates
    task = None if is_plain else task_of(bert)

    def predict(rows):
        return bert.predict(rows, batch_size=arguments.batch_size, **options)

    if task and task.rows.convert:
        convert = functools.partial(task.rows.asked, settings=stored_settings(task, bert))
        return None, predict, {"convert": convert}
    allowed = [("text",)] if is_plain else answering(bert.head).inputs(bert)
    reading = {"known": getattr(bert, "columns", None), "words": not is_plain and answering(bert.head).takes_words}
    return allowed, predict, reading


def _served_model(arguments):
    """Same as `_loaded_model` for a served model."""
    client, model, n_best = Client(arguments.server, arguments.protocol), arguments.model, arguments.n_best
    signatures = client.metadata(model)["signatures"]
    if labels := arguments.candidate_labels:
        _check_served_labels(model, labels, signatures)
        ask = functools.partial(_ask, arguments, client, ("text", "labels"), signature="zero_shot")
        return [("text",)], lambda rows: ask([{**row, "labels": labels} for row in rows]), {}
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
    ask = functools.partial(_ask, arguments, client, names)
    if convert := _row_converter(arguments, client.about(model)):
        return None, lambda rows: ask([convert("the row", row) for row in rows]), {"convert": convert}
    return [tuple(names)], ask, {}


def _row_converter(arguments, about):
    """Returns a function from the place of a row of the task of a served model, and the row, to the model's inputs.

    Returns `None` for a model of no such task.

    The task is one of a plugin, which the server names; the settings are those of the model.
    """
    stored = about.get("task") or {}
    if not arguments.plugins:
        if stored.get("converts"):
            raise not_registered(stored["name"], arguments.model, stored["settings"])
        return None
    from keras_bert.tasks.registry import TASKS

    if "task" not in about and arguments.is_table:
        _check_unknown_task(arguments, [task for task in TASKS if task.rows.convert])
    task = next((task for task in TASKS if task.name == stored.get("name")), None)
    if task is None and stored.get("converts"):
        raise not_registered(stored["name"], arguments.model, stored["settings"])
    if task is None or task.rows.convert is None:
        return None
    settings = task.Settings(**stored["settings"])

    def convert(place, row):
        asked = task.rows.asked(place, row, settings)
        if isinstance(asked, dict):
            return asked
        return {"text": asked} if isinstance(asked, str) else dict(zip(("text", "pair"), asked, strict=True))

    return convert


def _check_unknown_task(arguments, tasks):
    """Raises for rows of a task with rows of its own, if the server does not tell the task of its model."""
    _, row = next(source(arguments.input).stream(), (None, None))
    names = row.keys() if isinstance(row, dict) else set()
    for task in tasks:
        if any(columns <= names for columns in task.rows.columns):
            raise ValueError(
                f"{arguments.input} has rows of the task {task.name}, whose texts depend on the settings of the model, "
                "which this server does not tell. Ask `keras-bert serve` over REST, or convert the rows to the inputs "
                f"of the model first, and leave out --plugins. Received: --server={arguments.server} "
                f"--protocol={arguments.protocol}"
            )


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


def _rows(arguments, allowed, reading):
    """Returns an iterator over the rows of the file, or `None` without any, and the texts as dicts."""
    from keras_bert.answering import prediction_files

    if arguments.question:
        return ((None, row) for row in arguments.questions)
    if allowed is None:
        if not arguments.is_table:
            raise ValueError(f"{arguments.model} takes rows of its task. Expected --input with {', '.join(ROWS)}")
        arguments.only(False, "for models without rows of their own", "text_column", "pair_column", "choice_columns")
        return prediction_files.stream_own(arguments.input, **reading)
    given = list(arguments.positional)
    if given and arguments.input:
        raise ValueError(f"expected either texts or --input. Received: both, {' '.join(given)}")
    if given and "question" in allowed[0]:
        usage = "--question=... with --context_file=FILE or the context as argument"
        raise ValueError(f"{arguments.model} answers questions. Use {usage}")
    if arguments.is_table:
        columns = arguments.values("text_column", "pair_column", "choice_columns")
        return prediction_files.stream_texts(arguments.input, allowed, **columns, **reading)
    if given:
        # Without pairs, each argument is a text; so is each with masks to fill.
        single = allowed == [("text",)] or (("text",) in allowed and "[MASK]" in " ".join(given))
        lines = [[text] for text in given] if single else [given]
        texts = [prediction_files.from_parts("the arguments", line, allowed) for line in lines]
    else:
        texts = prediction_files.from_lines(*arguments.lines, allowed)
    return ((None, row) for row in texts)


if __name__ == "__main__":
    command.run(__doc__, Arguments, main, check, positional=True, tensorflow=Arguments.needs_tensorflow)

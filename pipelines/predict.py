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
import itertools
import os
import pathlib
import sys

from keras_bert.data import text_files
from keras_bert.data.formats import ROWS, source
from keras_bert.data.text_files import decoded, suffix
from keras_bert.tasks.classification.data import OWN
from keras_bert.tasks.classification.glue import TASKS
from keras_bert.text.token_counts import told_once

from . import command, common_flags
from .answering_models import HEAD_FLAGS, READING_FLAGS, loaded_model, served_model, single_label_error
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
_COLUMN_FLAGS = ("text_column", "pair_column", "choice_columns")


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
        if self.input_file:
            name = self.input_file
            texts = text_files.stream_text(pathlib.Path(name), blank_end=True)
            head_size = _HEAD
        else:
            name = "standard input"
            texts = text_files.text_of(_standard_input("one text per line"), name, blank_end=True)
            head_size = 1  # Further lines may be written later.
        head = list(itertools.islice(texts, head_size))
        if not head:
            raise ValueError(f"{name}: there is no text")
        return name, map(text_files.without_end, itertools.chain(head, texts))

    @property
    def questions(self):
        """A row for each question about one context."""
        contexts = list(self.positional)
        if self.context_file:
            contexts.append(self.context_file)
        if len(contexts) > 1 or self.input:
            raise ValueError(
                "--question takes one context: an argument, --context_file or the standard input; no --input"
            )
        if self.positional:
            context = self.positional[0]
        else:
            context = decoded(self.content, self.context_file or "standard input")
        if not context.strip() or not all(question.strip() for question in self.question):
            raise ValueError("--question and its context must not be empty")
        return [{"question": question, "context": context} for question in self.question]


def _standard_input(expected):
    """Returns the standard input; says on a terminal what is expected."""
    if sys.stdin.isatty():
        print(f"type {expected}; Ctrl-D ends", file=sys.stderr)
    return sys.stdin.buffer


def check(arguments):
    check_files("input", arguments.input_file)
    tables = f"for rows with columns, --input with {', '.join(ROWS)}"
    arguments.only(arguments.is_table, tables, *_COLUMN_FLAGS)
    _check_output_format(arguments.output)
    arguments.only(
        not arguments.server,
        "without --server, whose models were exported with theirs",
        *READING_FLAGS,
        *HEAD_FLAGS,
    )
    _check_output_is_not(arguments.input_file or arguments.context_file, arguments.output)
    _check_candidate_labels(arguments)
    _check_texts(arguments)


def _check_output_format(output):
    """Raises an error for a file in a format of tables that is not written."""
    if output and pathlib.Path(output).suffix.lower() in (".xls", ".xlsx", ".ods", ".parquet"):
        raise ValueError(f"--output must end in .csv, .tsv or .jsonl. Received: {output}")


def _check_output_is_not(texts, output):
    """Raises an error if the answers would replace the file of the texts."""
    if output and texts and os.path.isfile(output) and os.path.samefile(output, texts):
        raise ValueError(f"--output must be another file than that of the texts. Received: {output}")


def _check_candidate_labels(arguments):
    """Raises an error for labels that are empty or equal, or a single one; `None` is none."""
    labels = arguments.candidate_labels
    if labels is None:
        return
    are_different = len(set(labels)) == len(labels)
    if not labels or not all(labels) or not are_different:
        received = ",".join(labels)
        raise ValueError(f"--candidate_labels must be different labels, none empty. Received: {received!r}")
    if len(labels) == 1 and not arguments.multi_label and not arguments.server:
        raise single_label_error(labels[0], "--multi_label")


def _check_texts(arguments):
    """Reads the texts or their first ones, which raises an error if they cannot be read."""
    if arguments.question:
        _ = arguments.questions
    elif arguments.positional:
        pass  # The texts are here.
    elif arguments.is_table:
        _check_table(arguments)
    else:
        _ = arguments.lines


def _check_table(arguments):
    """Reads the head of a table, to find a missing column or another encoding before TensorFlow starts."""
    from keras_bert.answering import prediction_files

    table = source(arguments.input)
    config = {}
    if not arguments.server and not arguments.plugins:
        config = local_config(arguments.model)
    facts = config.get("keras_bert")
    if not isinstance(facts, dict):
        facts = {}
    architecture = _known_architecture(config)
    if architecture is None or facts.get("task") not in _KNOWN_TASKS:  # Others have rows of their own.
        rows = table.stream()
    else:
        allowed = _INPUTS[architecture]
        if arguments.candidate_labels or facts.get("pair") is False:
            allowed = allowed[:1]
        elif facts.get("pair"):
            allowed = allowed[-1:]
        columns = arguments.values(*_COLUMN_FLAGS)
        takes_words = architecture == "ForTokenClassification"
        rows = prediction_files.stream_texts(table, allowed, **columns, known=facts.get("columns"), words=takes_words)
    for _ in itertools.islice(rows, _HEAD):
        pass


def _known_architecture(config):
    """Returns the key of `_INPUTS` for the config of a model, `None` if there is none."""
    names = config.get("architectures") or ()
    for architecture in _INPUTS:
        if any(architecture in name for name in names):
            return architecture
    return None


def main(arguments):
    model = served_model(arguments) if arguments.server else loaded_model(arguments)
    parts = _answered(arguments, model, _rows(arguments, model))
    with told_once():
        if arguments.output:
            _write(arguments, parts)
        else:
            _print(arguments, parts)


def _rows(arguments, model):
    """Returns an iterator over the `AskedRow`s of the file, of the arguments or of lines."""
    from keras_bert.answering import prediction_files

    if arguments.question:
        return _without_records(arguments.questions)
    if model.inputs is None:
        if not arguments.is_table:
            raise ValueError(f"{arguments.model} takes rows of its task. Expected --input with {', '.join(ROWS)}")
        arguments.only(False, "for models without rows of their own", *_COLUMN_FLAGS)
        return prediction_files.stream_own(arguments.input, **model.reading)
    _check_positional(arguments, model)
    if arguments.is_table:
        columns = arguments.values(*_COLUMN_FLAGS)
        return prediction_files.stream_texts(arguments.input, model.inputs, **columns, **model.reading)
    if arguments.positional:
        return _without_records(_texts_of_positional(list(arguments.positional), model.inputs))
    name, lines = arguments.lines
    return _without_records(prediction_files.from_lines(name, lines, model.inputs))


def _without_records(texts):
    """Returns an iterator over the `AskedRow`s of texts that are in no file of rows."""
    from keras_bert.data.sources import AskedRow

    return (AskedRow(None, text) for text in texts)


def _check_positional(arguments, model):
    """Raises an error for texts beside `--input`, or of a model that answers questions."""
    texts = arguments.positional
    if texts and arguments.input:
        raise ValueError(f"expected either texts or --input. Received: both, {' '.join(texts)}")
    if texts and "question" in model.inputs[0]:
        usage = "--question=... with --context_file=FILE or the context as argument"
        raise ValueError(f"{arguments.model} answers questions. Use {usage}")


def _texts_of_positional(texts, allowed):
    """Returns the texts of the command line as dicts of the inputs of the model."""
    from keras_bert.answering import prediction_files

    # Without pairs, each argument is a text; so is each with masks to fill.
    takes_pairs = allowed != [("text",)]
    fills_masks = ("text",) in allowed and "[MASK]" in " ".join(texts)
    rows = [texts] if takes_pairs and not fills_masks else [[text] for text in texts]
    return [prediction_files.from_parts("the arguments", row, allowed) for row in rows]


def _answered(arguments, model, rows):
    """Yields parts of the rows with their answers: lists of the rows of the file, of the texts, and of the answers.

    The first part is a batch, so that there are answers soon; the later ones grow, and `predict` sorts the texts of a
    part by length.
    """
    size = arguments.batch_size
    while True:
        part = list(itertools.islice(rows, size))
        if not part:
            return
        records = [row.record for row in part]
        texts = [row.texts for row in part]
        names = tuple(texts[0])
        if model.inputs is not None and names not in model.inputs:
            raise _wrong_inputs(arguments, names, model.inputs)
        yield records, texts, model.predict(texts)
        size = min(2 * size, arguments.batch_size * _CHUNK)


def _wrong_inputs(arguments, names, allowed):
    """Returns the error about texts with other inputs than those of the model."""
    if arguments.question:
        return ValueError(
            f"{arguments.model} has no question-answering head. Expected a model from "
            f"`{command.spelling('run_squad')}`. Received: --question"
        )
    hint = ". Use --question and --context_file, or --input" if "question" in allowed[0] else ""
    expected = " or ".join(" and ".join(inputs) for inputs in allowed)
    return ValueError(f"{arguments.model} takes {expected}. Received: {' and '.join(names)}{hint}")


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


def _lines(arguments, table, texts, answers):
    """Yields the lines to print, those of the table if there is one; arguments have lines to read rather than JSON."""
    from keras_bert.answering import prediction_files

    if table:
        # Texts are for people to read, in columns, which a label with a tab would shift.
        labels = "".join(map(str, answers[0].get("scores", ())))
        if sys.stdout.isatty() and "\t" not in labels:
            table = prediction_files.with_texts(table, texts)
        yield from table
        return
    for text, answer in zip(texts, answers, strict=True):
        if arguments.positional or arguments.question:
            yield from prediction_files.readable(text, answer)
        else:
            yield prediction_files.json_line(text, answer)


def _write(arguments, parts):
    """Writes answers as they come, and says how many there are, also if it is interrupted."""
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


if __name__ == "__main__":
    command.run(__doc__, Arguments, main, check, positional=True, tensorflow=Arguments.needs_tensorflow)

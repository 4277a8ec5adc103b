"""Tells which words raise or lower the logit of a model's answer: classes, scores, tags, choices.

    python -m pipelines.explain --model=my_model "A charming film."
    python -m pipelines.explain --model=my_model --target=negative "A charming film." --output=why.html
    python -m pipelines.explain --model=my_model --input=texts.csv --text_column=review --output=why.jsonl

`--model` is an argument for `keras_bert.load`, with a head that has logits of classes, labels, tags or choices, or a
number. Texts are arguments, or the rows of a file, as for `predict`. Without `--output`, prints a line for each text:
its words with signed numbers, what is explained, its logit, and the logit without words. `--output` is a web page,
`.html`, with coloured words, or else a line of JSON for each text, with the columns of `--input` and the fields of
`LoadedBert.explain`. `--target` is the same for all texts; by default it is what the model predicts.

Leaving out each word takes as many forward passes as a text has words, integrated gradients `--n_steps` passes with
gradients; the table in the guide "Why" tells which of them finds the words that matter.
"""

import functools
import itertools
import pathlib
import typing

from keras_bert.data import text_files
from keras_bert.data.formats import ROWS
from keras_bert.data.text_files import suffix
from keras_bert.text.token_counts import told_once

from . import command, common_flags
from .arguments import CommandArguments, flag
from .early_checks import check_files

_METHODS = ["leave_one_out", "integrated_gradients"]
_COLUMN_FLAGS = ("text_column", "pair_column", "choice_columns")
_PART = 64  # Texts whose explanations are written together.


class Arguments(CommandArguments):
    others: typing.ClassVar = {
        "server": "A served model has the signature explain if it was exported with --explain: ask it by "
        'keras_bert.serving.Client(address).predict(model, {"text": texts}, signature="explain")'
    }

    input: str = flag(None, "File of texts: .csv, .tsv, .jsonl, or one text per line.", section="data")
    text_column: str = flag(None, "Column of the text; default: that of training, or `text`.", needs="input")
    pair_column: str = flag(None, "Column of the second text; default: that of training, or `pair`.", needs="input")
    choice_columns: list[str] = flag(
        None, "Columns with the choices; default: `choices`, or usual names.", needs="input"
    )
    model: str = flag(None, "Directory or name of the model.", required=True, section="model")
    target: str = flag(None, "Class or choice, by name or number, or word with a tag; default: what is predicted.")
    method: str = flag(_METHODS[0], "How words get their scores.", values=_METHODS)
    replacement: str = flag("[MASK]", "Token in place of a word, such as [MASK] or [PAD].")
    n_steps: int = flag(None, "Number of points; default: 50.", least=1, needs="method=integrated_gradients")
    sequence_length: int = flag(None, "Maximum number of tokens of a sequence; default: as in training.")
    output: str = flag(
        None, "File to write: .html, or one line of JSON per text; default: prints the words.", section="output"
    )

    @property
    def is_table(self):
        """Whether `--input` has rows with columns."""
        return bool(self.input) and suffix(pathlib.Path(self.input)) in ROWS


def check(arguments):
    check_files("input", arguments.input)
    texts = arguments.positional
    if bool(texts) == bool(arguments.input):
        raise ValueError(f"expected either texts or --input. Received: {'both' if texts else 'neither'}")
    tables = f"for rows with columns, --input with {', '.join(ROWS)}"
    arguments.only(arguments.is_table, tables, *_COLUMN_FLAGS)


def main(arguments):
    from keras_bert.answering.explanation import Explanations

    bert = common_flags.load_model(arguments.model)
    parts = _explained(arguments, bert, iter(_rows(arguments, bert)))
    with told_once():
        if not arguments.output:
            for _, _, explanations in parts:
                print(Explanations(explanations), flush=True)
        elif arguments.output.endswith((".html", ".htm")):
            _write_page(arguments, parts)
        else:
            _write_lines(arguments, parts)


def _rows(arguments, bert):
    """Returns an iterator over the `AskedRow`s of the file, of the arguments or of lines."""
    from keras_bert.answering import prediction_files
    from keras_bert.data.sources import AskedRow
    from keras_bert.heads.registry import answering
    from keras_bert.tasks.registry import stored_settings, task_of

    head = answering(bert.head)
    task = task_of(bert)
    if task and task.rows.convert:
        if not arguments.is_table:
            raise ValueError(f"{arguments.model} takes rows of its task. Expected --input with {', '.join(ROWS)}")
        convert = functools.partial(task.rows.asked, settings=stored_settings(task, bert))
        return prediction_files.stream_own(arguments.input, convert)
    allowed = head.inputs(bert)
    if arguments.is_table:
        return prediction_files.stream_texts(
            arguments.input,
            allowed,
            **arguments.values(*_COLUMN_FLAGS),
            known=bert.columns,
            words=head.takes_words,
        )
    if arguments.input:
        lines = text_files.stream_text(pathlib.Path(arguments.input), blank_end=True)
        lines = map(text_files.without_end, lines)
        texts = prediction_files.from_lines(arguments.input, lines, allowed)
    else:
        texts = _texts_of_positional(list(arguments.positional), allowed)
    return (AskedRow(None, text) for text in texts)


def _texts_of_positional(texts, allowed):
    """Returns the texts of the command line as dicts; without pairs, each argument is a text."""
    from keras_bert.answering import prediction_files

    takes_pairs = allowed != [("text",)]
    rows = [texts] if takes_pairs else [[text] for text in texts]
    return [prediction_files.from_parts("the arguments", row, allowed) for row in rows]


def _explained(arguments, bert, rows):
    """Yields parts of the rows: lists of the rows of the file, of the texts, and of the explanations."""
    target = _target(arguments.target, bert.labels or ())
    while True:
        part = list(itertools.islice(rows, _PART))
        if not part:
            return
        records = [row.record for row in part]
        texts = [row.texts for row in part]
        explanations = bert.explain(
            texts,
            target,
            method=arguments.method,
            replacement=arguments.replacement,
            n_steps=arguments.n_steps,
            sequence_length=arguments.sequence_length,
        )
        yield records, texts, explanations


def _target(text, labels):
    """Returns what to explain: a label, or the number of a class if there is no label of this name."""
    if text is not None and text not in labels and text.isdecimal():
        return int(text)
    return text


def _write_page(arguments, parts):
    """Writes the explanations of all texts as a web page."""
    from keras_bert.answering.explanation import page
    from keras_bert.files import write_text

    all_explanations = []
    for _, _, explanations in parts:
        all_explanations.extend(explanations)
    title = f"Words of {pathlib.Path(arguments.model).name}"
    write_text(arguments.output, page(title, all_explanations))
    print(f"wrote {len(all_explanations):,} explanations to {arguments.output}")


def _write_lines(arguments, parts):
    """Writes explanations as they come, as lines of JSON."""
    from keras_bert.answering import prediction_files

    with prediction_files.AnswersFile(arguments.output) as file:
        for records, texts, explanations in parts:
            file.write(zip(records, texts, explanations, strict=True))
    print(f"wrote {file.count:,} explanations to {arguments.output}")


if __name__ == "__main__":
    command.run(__doc__, Arguments, main, check, positional=True)

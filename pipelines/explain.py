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
    given = arguments.positional
    if bool(given) == bool(arguments.input):
        raise ValueError(f"expected either texts or --input. Received: {'both' if given else 'neither'}")
    arguments.only(
        arguments.is_table,
        f"for rows with columns, --input with {', '.join(ROWS)}",
        "text_column",
        "pair_column",
        "choice_columns",
    )


def main(arguments):
    from keras_bert.answering.explanation import Explanations

    bert = common_flags.load_model(arguments.model)
    parts = _explained(arguments, bert, iter(_rows(arguments, bert)))
    with told_once():
        if not arguments.output:
            for _, _, found in parts:
                print(Explanations(found), flush=True)
        elif arguments.output.endswith((".html", ".htm")):
            _write_page(arguments, parts)
        else:
            _write_lines(arguments, parts)


def _rows(arguments, bert):
    """Returns the rows of the file, `None` for none, and their texts as dicts."""
    from keras_bert.answering import prediction_files
    from keras_bert.heads.registry import answering
    from keras_bert.tasks.registry import stored_settings, task_of

    head, task = answering(bert.head), task_of(bert)
    if task and task.rows.convert:
        if not arguments.is_table:
            raise ValueError(f"{arguments.model} takes rows of its task. Expected --input with {', '.join(ROWS)}")
        settings = stored_settings(task, bert)
        return prediction_files.stream_own(
            arguments.input, lambda place, row: task.rows.asked(place, row, settings=settings)
        )
    allowed = head.inputs(bert)
    if arguments.is_table:
        columns = arguments.values("text_column", "pair_column", "choice_columns")
        return prediction_files.stream_texts(
            arguments.input, allowed, **columns, known=bert.columns, words=head.takes_words
        )
    if arguments.input:
        lines = text_files.stream_text(pathlib.Path(arguments.input), blank_end=True)
        texts = prediction_files.from_lines(arguments.input, map(text_files.without_end, lines), allowed)
    else:
        given = list(arguments.positional)
        lines = [[text] for text in given] if allowed == [("text",)] else [given]
        texts = [prediction_files.from_parts("the arguments", line, allowed) for line in lines]
    return ((None, row) for row in texts)


def _explained(arguments, bert, rows):
    """Yields parts of the rows: lists of the rows of the file, of the texts, and of the explanations."""
    options = {name: getattr(arguments, name) for name in ("method", "replacement", "n_steps", "sequence_length")}
    target = arguments.target
    names = bert.labels or ()
    if target is not None and target not in names and target.isdecimal():
        target = int(target)
    while part := list(itertools.islice(rows, _PART)):
        records, texts = map(list, zip(*part, strict=True))
        yield records, texts, bert.explain(texts, target, **options)


def _write_page(arguments, parts):
    from keras_bert.answering.explanation import page
    from keras_bert.files import write_text

    found = list(itertools.chain.from_iterable(part for _, _, part in parts))
    write_text(arguments.output, page(f"Words of {pathlib.Path(arguments.model).name}", found))
    print(f"wrote {len(found):,} explanations to {arguments.output}")


def _write_lines(arguments, parts):
    from keras_bert.answering import prediction_files

    with prediction_files.AnswersFile(arguments.output) as file:
        for records, texts, found in parts:
            file.write(zip(records, texts, found, strict=True))
    print(f"wrote {file.count:,} explanations to {arguments.output}")


if __name__ == "__main__":
    command.run(__doc__, Arguments, main, check, positional=True)

"""Fine-tuning for multiple choice: SWAG, and users' own questions with choices."""

import collections
import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.data.document_batches import DocumentRows, choice_documents
from keras_bert.data.token_rows import compact_parts, sequence_lengths, uniform
from keras_bert.files import write_text
from keras_bert.heads.multiple_choice import MultipleChoice
from keras_bert.progress import announced
from keras_bert.reports import page
from keras_bert.reports.comparisons import compared
from keras_bert.reports.judged import COUNTED, LOOK, Judged
from keras_bert.reports.sections import share_bar
from keras_bert.tasks import summary as data_summary
from keras_bert.tasks.base import Task
from keras_bert.tasks.class_names import appearance
from keras_bert.tasks.classification.predictions import with_columns
from keras_bert.tasks.logits import finite, softmax
from keras_bert.tasks.multiple_choice.data import ChoiceRows, ChoiceSettings
from keras_bert.tasks.reporting import Card, Findings, Report, own_data_set
from keras_bert.tasks.stages import Split, Training
from keras_bert.tasks.summary import Summary
from keras_bert.text.packing import unpadded
from keras_bert.training.losses import classification_loss
from keras_bert.training.metrics import accuracy

_ROWS = 2048  # Rows to tokenize at a time.
_MANY = 12  # Maximum number of choices of a table of positions.


class ChoiceTraining(Training):
    """Trains a score of each choice."""

    learning_rates, batch_size = (2e-5,), 16  # As in the paper.

    def make_loss(self):
        return classification_loss()


class ChoiceReport(Report):
    """Reports the accuracy, and where the right choices stand."""

    metric = "accuracy"

    def score(self, targets, outputs):
        return score(targets, self.class_logits(outputs))

    def summarize(self):
        task = self.task
        lengths = _full_lengths(task.data.train, task.preprocessor, task.lengths["train"])
        return summarize(task.data, lengths, task.sequence_length, task.bert.config.max_position_embeddings)

    def data_warnings(self):
        alike = self.summary.more["alike"]
        return [f"in {alike:,} training rows, another choice looks like the right one"] if alike else []

    def data_facts(self):
        examples = {"training examples": "train", "dev examples": "dev"}
        parts = self.task.data.parts
        lines = {title: f"{self.task.files[name]}: {len(parts[name]):,}" for title, name in examples.items()}
        return {**lines, **summary_facts(self.summary)}

    def make_card(self):
        return _card(self.task.data)

    def conclude(self, dev, test, output):
        data = self.task.data
        scores = self._scores_of("dev", dev)
        self._write_predictions(test, dev, output)
        first, *others = set(predict(dev["dev"]).tolist())
        has_labels = data.test is not None and data.test.labels
        sections, errors = self.judge(dev).report()
        return Findings(
            measured=scores,
            sections=sections,
            errors=errors,
            tables=compared(self.task, scores)[1],
            same=None if others else f"choice {data.keys[first]}",
            test_scores=self._scores_of("test", test) if has_labels else None,
        )

    def _scores_of(self, name, kept):
        split = self.task.splits[name][0]
        return self.score(split.targets, self.outputs(split, kept))

    def judge(self, kept):
        lengths, temperature = self.task.lengths["dev"].max(1), self.temperature(kept)
        return judge_choices(self.task.data.keys, self.task.data.dev, kept["dev"], lengths, temperature)

    def _write_predictions(self, kept, dev, output):
        """Writes `predictions.tsv`; `dev` are the kept arrays of dev."""
        data = self.task.data
        if data.test is None:
            return
        logits = kept["test"] / self.temperature(dev)
        sure = self.confidence(dev)
        threshold = None if sure is None else sure.threshold
        lines = predictions_table(logits, data.test.choices, data.keys, threshold)
        answered = are_answered(softmax(logits), threshold)
        choices = []
        for row, best, is_answered in zip(data.test.choices, predict(logits), answered, strict=True):
            choices.append(row[best] if is_answered else "")
        lines = with_columns(lines, {"text": data.test.text, "choice": choices})
        write_text(output / "predictions.tsv", "\n".join(lines) + "\n")


class MultipleChoiceTask(Task):
    """Multiple choice: each choice is scored together with the text, and the likeliest one is the answer."""

    name, head, Settings = "multiple_choice", MultipleChoice.name, ChoiceSettings
    rows, Training, Report = ChoiceRows(), ChoiceTraining, ChoiceReport

    def __init__(self, data, start, settings):
        super().__init__(data, start, settings)
        self.files = data.names
        self.title = "SWAG" if data.train.swag else f"Multiple choice, {data.names['train']}"
        self.splits = {"test": [], **{name: [self._split(name, part)] for name, part in data.parts.items()}}
        self.lengths = {name: choice_lengths(self.splits[name][0].inputs) for name in ("train", "dev")}
        for name, lengths in self.lengths.items():
            _check_answers(data.names[name], data.parts[name], lengths)

    def _split(self, name, examples):
        with announced(f"tokenizing {len(examples):,} rows"):
            inputs = choice_inputs(examples, self.preprocessor)
        return Split(name, examples, inputs, np.array(examples.labels or [0] * len(examples), "int32"), batch_size=16)

    def save_options(self, kept):
        # Those that the user named; the others are found again by their names.
        columns = {"text": self.settings.text_column, "choices": self.settings.choice_columns}
        columns = {name: column for name, column in columns.items() if column}
        return {"task": "swag" if self.data.train.swag else self.name, "columns": columns or None}

    def export_options(self, bert):
        dev = self.data.dev
        return {"example": {"text": dev.text[0], "choices": [choice for choice in dev.choices[0] if choice]}}


def _card(data):
    """Returns the `Card` of a `Data`; only complete official data is called SWAG."""
    official = data.train.swag and data.dev.swag and (len(data.train), len(data.dev)) == (73546, 20006)
    dataset = own_data_set(data.names["dev"], data.typed)
    if official:
        dataset = {"type": "allenai/swag", "name": "SWAG", "config": "regular", "split": "validation"}
    return Card(
        pipeline_tag="multiple-choice",
        purpose="multiple choice",
        trained_on="SWAG" if official else data.names["train"],
        example='[{"text": "A text.", "choices": ["One choice.", "Another one."]}]',
        dataset=dataset,
        datasets=["allenai/swag"] if official else [],
        arguments='["A text.", "A text."], ["One choice.", "Another one."], padding=True',
    )


def summarize(data, lengths, sequence_length: int, limit: int):
    """Returns the `Summary` of a `Data`; `truncation` describes the other arguments.

    What only this task knows: `positions`, the training rows whose right choice is at each position; `choices`, those
    with each number of choices; `chance`, the expected accuracy on dev of guessing at random; and `alike`, the training
    rows where another choice looks like the right one.
    """
    train, dev = data.train, data.dev
    positions = collections.Counter(train.labels)
    answers = [data_summary.normal(row[label]) for row, label in zip(train.choices, train.labels, strict=True)]
    keys = {split: _keys(part) for split, part in data.parts.items()}
    return Summary(
        **data_summary.split_entries(keys, data.names, answers),
        truncated=data_summary.truncation(lengths, sequence_length, limit),
        **_baselines(data.keys, train.labels, dev.labels),
        more={
            "positions": {key: positions[index] for index, key in enumerate(data.keys)},
            "choices": {str(count): rows for count, rows in sorted(collections.Counter(train.counts()).items())},
            "alike": sum(map(_is_alike, train.choices, train.labels)),
            "chance": float(np.mean([1 / count for count in dev.counts()])),
        },
    )


def _baselines(keys, train_labels, labels):
    """Returns the entries about the majority baselines on dev: the most frequent position of train, and of dev."""
    common, own = (_most_frequent(part) for part in (train_labels, labels))
    entries = {"baseline": f"always {keys[common]}", "majority": {"accuracy": labels.count(common) / len(labels)}}
    if own != common:
        entries["dev_baseline"] = f"always {keys[own]}"
        entries["dev_majority"] = {"accuracy": labels.count(own) / len(labels)}
    return entries


def _most_frequent(labels):
    counts = collections.Counter(labels)
    return min(counts, key=lambda label: (-counts[label], label))


def _keys(examples):
    """Returns text and choices of each row without differences in case, white space and order of the choices."""
    return [
        (data_summary.normal(text), *sorted(data_summary.normal(*filter(None, choices))))
        for text, choices in zip(examples.text, examples.choices, strict=True)
    ]


def _is_alike(choices, label):
    """Whether another choice looks like the right one."""
    seen = [appearance(choice) for choice in choices if choice]
    return seen.count(appearance(choices[label])) > 1


def summary_facts(summary):
    """Returns the entries of the summary that other tasks lack, as lines of text by title."""
    more, total = summary.more, summary.train
    counts = ", ".join(f"{count}: {rows:,}" for count, rows in more["choices"].items())
    positions = ", ".join(f"{key}: {rows:,} ({rows / total:.1%})" for key, rows in more["positions"].items())
    return {
        "rows by number of choices": counts,
        "right choices": positions,
        "chance": f"accuracy {100 * more['chance']:.2f}% (a random choice, on dev)",
    }


def predict(logits):
    """Returns the index of the likeliest choice of each row."""
    return finite(logits).argmax(-1)


def score(labels, logits):
    """Returns the accuracy, from 0 to 1, as a dict."""
    return {"accuracy": accuracy(labels, predict(logits))}


def are_answered(probabilities, threshold):
    """Returns whether rows have a choice: their highest probability reaches the threshold, `None` for all."""
    return [threshold is None or shares.max() >= threshold for shares in probabilities]


def predictions_table(logits, choices, keys, threshold=None):
    """Returns tab-separated lines with a header: predicted label, and the probability of each choice.

    `logits` are `(rows, choices)`, `keys` the labels of the choices; the cell of an absent choice is empty, and so is
    the label where its probability is below the `threshold`.
    """
    keys = keys[: np.shape(logits)[1]]
    lines = ["\t".join(["label", *keys])]
    probabilities = softmax(logits)
    answered = are_answered(probabilities, threshold)
    for best, shares, is_answered, row in zip(predict(logits), probabilities, answered, choices, strict=True):
        present = [bool(choice) for choice in row] + [False] * (len(keys) - len(row))
        cells = [f"{share:.4f}" if real else "" for share, real in zip(shares, present, strict=True)]
        lines.append("\t".join([keys[best] if is_answered else "", *cells]))
    return lines


def choice_inputs(examples, preprocessor):
    """Returns the model inputs of `ChoiceExamples` for `Batches`, `(rows, choices, length)`, compact.

    All rows have as many choices as the longest; absent choices have the length 0. Long texts may be read in windows.
    """
    choices = _rectangle(examples.choices)
    if preprocessor.reads_windows:
        return choice_documents(preprocessor, examples.text, choices)
    flat = compact_parts(_ragged_parts(examples.text, choices, preprocessor))
    return {name: uniform(values, len(choices[0])) for name, values in flat.items()}


def _ragged_parts(texts, choices, preprocessor):
    """Yields the model inputs of all choices of some thousand rows, `(rows * choices, length)`, ragged."""
    for start in range(0, len(texts), _ROWS):
        packed = preprocessor.with_choices(texts[start : start + _ROWS], choices[start : start + _ROWS])
        yield unpadded({name: tf.reshape(ids, [-1, tf.shape(ids)[-1]]) for name, ids in packed.items()})


def choice_lengths(inputs):
    """Returns the number of tokens of each choice, `(rows, choices)`, in its longest window; 0 for absent ones."""
    ids = inputs["token_ids"]
    return ids.longest() if isinstance(ids, DocumentRows) else sequence_lengths(ids)


def _full_lengths(examples, preprocessor, lengths):
    """Returns the number of tokens of the longest choice of each row, with its text and without truncation."""
    choices = _rectangle(examples.choices)
    width = len(choices[0])
    text = [text for text in examples.text for _ in range(width)]
    columns = [text, [choice for row in choices for choice in row]]
    counts = data_summary.token_counts(preprocessor, columns, lengths.reshape(-1))
    return counts.reshape(-1, width).max(1)


def _check_answers(path, examples, lengths):
    """Raises an error if a right choice has no tokens, such as one of control characters only."""
    rows = np.flatnonzero(lengths[np.arange(len(examples)), examples.labels] == 0)
    if len(rows):
        row = rows[0]
        choice = examples.choices[row][examples.labels[row]]
        raise ValueError(
            f"{path}:{examples.lines[row]}: the right choice has no tokens. Expected text. Received: {choice!r:.80}"
        )


def _rectangle(choices):
    """Pads the lists of choices with empty ones."""
    width = max(map(len, choices))
    return [[*row, *[""] * (width - len(row))] for row in choices]


@dataclasses.dataclass(frozen=True, kw_only=True)
class JudgedChoices(Judged):
    """Judged `ChoiceExamples`; the `names` are the labels of the choices, `shares` their probabilities."""

    examples: Any
    shares: Any

    wrong_first = False
    how = "The {shown} with the highest loss (cross-entropy), the highest first, with the probabilities of their "
    how += "choices: " + LOOK.format("wrong labels") + COUNTED

    def overview(self):
        right, counts = self.is_right, np.array(self.examples.counts())
        return [
            page.render(
                "tasks/multiple_choice/report.html",
                accuracy=f"{right.sum():,} of {len(right):,} are correct, {page.percent(right.mean())}.",
                positions=self._positions() if self.shares.shape[1] <= _MANY else [],
                counts=[
                    [str(count), *self._accuracy(counts == count), page.percent(1 / count, 1)]
                    for count in np.unique(counts)
                ],
            )
        ]

    def _positions(self):
        """Returns table rows: how often each position is right, accuracy where it is, how often it is predicted."""
        golds, predicted = np.array(self.gold), np.array(self.predicted)
        names = self.names[: self.shares.shape[1]]
        return [[name, *self._accuracy(golds == name), f"{(predicted == name).sum():,}"] for name in names]

    def _accuracy(self, chosen):
        """Returns the number of chosen rows, and their accuracy as a bar."""
        return f"{chosen.sum():,}", share_bar(self.is_right[chosen].mean()) if chosen.any() else page.NOTHING

    def asked(self, row):
        choices = [choice for choice in self.examples.choices[row] if choice]
        return {"text": self.examples.text[row], "choices": choices}, None

    def paragraphs(self, row):
        places = [place for place, choice in enumerate(self.examples.choices[row]) if choice]
        places.sort(key=lambda place: -self.shares[row, place])
        choices = [
            (self.names[place], self.examples.choices[row][place], share_bar(self.shares[row, place]))
            for place in places
        ]
        options = page.render("tasks/multiple_choice/options.html", choices=choices, right=self.gold[row])
        return [("question", self.examples.text[row]), ("", options)]

    @property
    def contents(self):
        return [(text, *choices) for text, choices in zip(self.examples.text, self.examples.choices, strict=True)]

    def columns(self):
        place = {name: number for number, name in enumerate(self.names)}
        sides = {"right choice": self.gold, "predicted choice": self.predicted}
        choices = {
            title: [row[place[name]] for row, name in zip(self.examples.choices, names, strict=True)]
            for title, names in sides.items()
        }
        return {**super().columns(), "text": self.examples.text, **choices}


def judge_choices(keys, examples, logits, lengths, temperature=1.0):
    """Judges `ChoiceExamples`, given the labels of the choices, logits `(rows, choices)` and the tokens of each row.

    The temperature divides the logits of the probabilities, and not those of the loss.
    """
    shares = softmax(logits / temperature)
    fields = {"place": [row + 1 for row in examples.ids], "length": lengths, "examples": examples, "shares": shares}
    found = JudgedChoices.of_classes(keys, examples.labels, logits, **fields)
    return found if temperature == 1 else dataclasses.replace(found, confidence=shares.max(-1))

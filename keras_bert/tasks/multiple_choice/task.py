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
# Rows of the official data.
_SWAG_TRAIN = 73546
_SWAG_DEV = 20006


class ChoiceTraining(Training):
    """Trains a score of each choice."""

    # As in the paper.
    learning_rates = (2e-5,)
    batch_size = 16

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
        limit = task.bert.config.max_position_embeddings
        return summarize(task.data, lengths, task.sequence_length, limit)

    def data_warnings(self):
        alike = self.summary.more["alike"]
        if not alike:
            return []
        return [f"in {alike:,} training rows, another choice looks like the right one"]

    def data_facts(self):
        data = self.task.data
        facts = {
            "training examples": f"{data.names['train']}: {len(data.train):,}",
            "dev examples": f"{data.names['dev']}: {len(data.dev):,}",
        }
        facts.update(summary_facts(self.summary))
        return facts

    def make_card(self):
        return _card(self.task.data)

    def conclude(self, dev, test, output):
        data = self.task.data
        scores = self._scores_of("dev", dev)
        self._write_predictions(test, dev, output)
        same = None
        predicted = set(predict(dev["dev"]).tolist())
        if len(predicted) == 1:
            same = f"choice {data.keys[predicted.pop()]}"
        test_scores = None
        if data.test is not None and data.test.labels:
            test_scores = self._scores_of("test", test)
        sections, errors = self.judge(dev).report()
        _, tables = compared(self.task, scores)
        return Findings(
            measured=scores,
            sections=sections,
            errors=errors,
            tables=tables,
            same=same,
            test_scores=test_scores,
        )

    def _scores_of(self, name, kept):
        split = self.task.splits[name][0]
        return self.score(split.targets, self.outputs(split, kept))

    def judge(self, kept):
        data = self.task.data
        lengths = self.task.lengths["dev"].max(1)
        return judge_choices(data.keys, data.dev, kept["dev"], lengths, self.temperature(kept))

    def _write_predictions(self, kept, dev, output):
        """Writes `predictions.tsv`; `dev` are the kept arrays of dev."""
        data = self.task.data
        if data.test is None:
            return
        logits = kept["test"] / self.temperature(dev)
        fitted = self.confidence(dev)
        threshold = None if fitted is None else fitted.threshold
        lines = predictions_table(logits, data.test.choices, data.keys, threshold)
        answered = are_answered(softmax(logits), threshold)
        choices = []
        best_choices = predict(logits)
        for number, row in enumerate(data.test.choices):
            choices.append(row[best_choices[number]] if answered[number] else "")
        lines = with_columns(lines, {"text": data.test.text, "choice": choices})
        write_text(output / "predictions.tsv", "\n".join(lines) + "\n")


class MultipleChoiceTask(Task):
    """Multiple choice: each choice is scored together with the text, and the likeliest one is the answer."""

    name = "multiple_choice"
    head = MultipleChoice.name
    Settings = ChoiceSettings
    rows = ChoiceRows()
    Training = ChoiceTraining
    Report = ChoiceReport

    def __init__(self, data, start, settings):
        super().__init__(data, start, settings)
        self.files = data.names
        self.title = "SWAG" if data.train.swag else f"Multiple choice, {data.names['train']}"
        self.splits = {"test": []}
        for name, part in data.parts.items():
            self.splits[name] = [self._split(name, part)]
        self.lengths = {}
        for name in ("train", "dev"):
            lengths = choice_lengths(self.splits[name][0].inputs)
            self.lengths[name] = lengths
            _check_answers(data.names[name], data.parts[name], lengths)

    def _split(self, name, examples):
        with announced(f"tokenizing {len(examples):,} rows"):
            inputs = choice_inputs(examples, self.preprocessor)
        labels = examples.labels or [0] * len(examples)
        return Split(name, examples, inputs, np.array(labels, "int32"), batch_size=16)

    def save_options(self, kept):
        # Those that the user named; the others are found again by their names.
        columns = {}
        if self.settings.text_column:
            columns["text"] = self.settings.text_column
        if self.settings.choice_columns:
            columns["choices"] = self.settings.choice_columns
        return {"task": "swag" if self.data.train.swag else self.name, "columns": columns or None}

    def export_options(self, bert):
        dev = self.data.dev
        return {"example": {"text": dev.text[0], "choices": _present(dev.choices[0])}}


def _present(choices):
    """Returns the choices of a row without absent ones, which are empty."""
    return [choice for choice in choices if choice]


def _card(data):
    """Returns the `Card` of `ChoiceData`; only complete official data is called SWAG."""
    has_columns = data.train.swag and data.dev.swag
    is_official = has_columns and len(data.train) == _SWAG_TRAIN and len(data.dev) == _SWAG_DEV
    dataset = own_data_set(data.names["dev"], data.typed)
    if is_official:
        dataset = {"type": "allenai/swag", "name": "SWAG", "config": "regular", "split": "validation"}
    return Card(
        pipeline_tag="multiple-choice",
        purpose="multiple choice",
        trained_on="SWAG" if is_official else data.names["train"],
        example='[{"text": "A text.", "choices": ["One choice.", "Another one."]}]',
        dataset=dataset,
        datasets=["allenai/swag"] if is_official else [],
        arguments='["A text.", "A text."], ["One choice.", "Another one."], padding=True',
    )


def summarize(data, lengths, sequence_length: int, limit: int):
    """Returns the `Summary` of `ChoiceData`; `truncation` describes the other arguments.

    What only this task knows: `positions`, the training rows whose right choice is at each position; `choices`, those
    with each number of choices; `chance`, the expected accuracy on dev of guessing at random; and `alike`, the training
    rows where another choice looks like the right one.
    """
    train = data.train
    dev = data.dev
    keys = {split: _keys(part) for split, part in data.parts.items()}
    answers = []
    for choices, label in zip(train.choices, train.labels, strict=True):
        answers.append(data_summary.normal(choices[label]))
    positions = collections.Counter(train.labels)
    rows_by_count = collections.Counter(train.counts())
    return Summary(
        **data_summary.split_entries(keys, data.names, answers),
        truncated=data_summary.truncation(lengths, sequence_length, limit),
        **_baselines(data.keys, train.labels, dev.labels),
        more={
            "positions": {key: positions[index] for index, key in enumerate(data.keys)},
            "choices": {str(count): rows for count, rows in sorted(rows_by_count.items())},
            "alike": sum(map(_is_alike, train.choices, train.labels)),
            "chance": float(np.mean([1 / count for count in dev.counts()])),
        },
    )


def _baselines(keys, train_labels, dev_labels):
    """Returns the entries about the majority baselines on dev: the most frequent position of train, and of dev."""
    common = data_summary.most_frequent(collections.Counter(train_labels))
    own = data_summary.most_frequent(collections.Counter(dev_labels))
    entries = {
        "baseline": f"always {keys[common]}",
        "majority": {"accuracy": dev_labels.count(common) / len(dev_labels)},
    }
    if own != common:
        entries["dev_baseline"] = f"always {keys[own]}"
        entries["dev_majority"] = {"accuracy": dev_labels.count(own) / len(dev_labels)}
    return entries


def _keys(examples):
    """Returns text and choices of each row without differences in case, white space and order of the choices."""
    keys = []
    for text, choices in zip(examples.text, examples.choices, strict=True):
        normal_choices = data_summary.normal(*_present(choices))
        keys.append((data_summary.normal(text), *sorted(normal_choices)))
    return keys


def _is_alike(choices, label):
    """Whether another choice looks like the right one."""
    seen = list(map(appearance, _present(choices)))
    return seen.count(appearance(choices[label])) > 1


def summary_facts(summary):
    """Returns the entries of the summary that other tasks lack, as lines of text by title."""
    more = summary.more
    counts = [f"{count}: {rows:,}" for count, rows in more["choices"].items()]
    positions = []
    for key, rows in more["positions"].items():
        positions.append(f"{key}: {rows:,} ({rows / summary.train:.1%})")
    return {
        "rows by number of choices": ", ".join(counts),
        "right choices": ", ".join(positions),
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
    if threshold is None:
        return [True] * len(probabilities)
    return [shares.max() >= threshold for shares in probabilities]


def predictions_table(logits, choices, keys, threshold=None):
    """Returns tab-separated lines with a header: predicted label, and the probability of each choice.

    `logits` are `(rows, choices)`, `keys` the labels of the choices; the cell of an absent choice is empty, and so is
    the label where its probability is below the `threshold`.
    """
    used_keys = keys[: np.shape(logits)[1]]
    lines = ["\t".join(["label", *used_keys])]
    probabilities = softmax(logits)
    answered = are_answered(probabilities, threshold)
    best_choices = predict(logits)
    for number, row in enumerate(choices):
        cells = [used_keys[best_choices[number]] if answered[number] else ""]
        for place, share in enumerate(probabilities[number]):
            is_present = place < len(row) and bool(row[place])
            cells.append(f"{share:.4f}" if is_present else "")
        lines.append("\t".join(cells))
    return lines


def choice_inputs(examples, preprocessor):
    """Returns the model inputs of `ChoiceExamples` for `Batches`, `(rows, choices, length)`, compact.

    All rows have as many choices as the longest; absent choices have the length 0. Long texts may be read in windows.
    """
    choices = _rectangle(examples.choices)
    if preprocessor.reads_windows:
        return choice_documents(preprocessor, examples.text, choices)
    count = len(choices[0])
    flat = compact_parts(_ragged_parts(examples.text, choices, preprocessor))
    return {name: uniform(values, count) for name, values in flat.items()}


def _ragged_parts(texts, choices, preprocessor):
    """Yields the model inputs of all choices of some thousand rows, `(rows * choices, length)`, ragged."""
    for start in range(0, len(texts), _ROWS):
        end = start + _ROWS
        packed = preprocessor.with_choices(texts[start:end], choices[start:end])
        flat = {name: tf.reshape(ids, [-1, tf.shape(ids)[-1]]) for name, ids in packed.items()}
        yield unpadded(flat)


def choice_lengths(inputs):
    """Returns the number of tokens of each choice, `(rows, choices)`, in its longest window; 0 for absent ones."""
    ids = inputs["token_ids"]
    if isinstance(ids, DocumentRows):
        return ids.longest()
    return sequence_lengths(ids)


def _full_lengths(examples, preprocessor, lengths):
    """Returns the number of tokens of the longest choice of each row, with its text and without truncation."""
    choices = _rectangle(examples.choices)
    width = len(choices[0])
    texts = []
    flat_choices = []
    for text, row in zip(examples.text, choices, strict=True):
        texts.extend([text] * width)
        flat_choices.extend(row)
    counts = data_summary.token_counts(preprocessor, [texts, flat_choices], lengths.reshape(-1))
    return counts.reshape(-1, width).max(1)


def _check_answers(path, examples, lengths):
    """Raises an error if a right choice has no tokens, such as one of control characters only."""
    lengths_of_answers = lengths[np.arange(len(examples)), examples.labels]
    rows = np.flatnonzero(lengths_of_answers == 0)
    if len(rows):
        row = rows[0]
        choice = examples.choices[row][examples.labels[row]]
        raise ValueError(
            f"{path}:{examples.lines[row]}: the right choice has no tokens. Expected text. Received: {choice!r:.80}"
        )


def _rectangle(choices):
    """Pads the lists of choices with empty ones."""
    width = max(map(len, choices))
    padded = []
    for row in choices:
        missing = width - len(row)
        padded.append([*row, *[""] * missing])
    return padded


@dataclasses.dataclass(frozen=True, kw_only=True)
class JudgedChoices(Judged):
    """Judged `ChoiceExamples`; the `names` are the labels of the choices, `shares` their probabilities."""

    examples: Any
    shares: Any

    wrong_first = False
    how = "The {shown} with the highest loss (cross-entropy), the highest first, with the probabilities of their "
    how += "choices: " + LOOK.format("wrong labels") + COUNTED

    def overview(self):
        right = self.is_right
        positions = []
        if self.shares.shape[1] <= _MANY:
            positions = self._position_rows()
        section = page.render(
            "tasks/multiple_choice/report.html",
            accuracy=f"{right.sum():,} of {len(right):,} are correct, {page.percent(right.mean())}.",
            positions=positions,
            counts=self._count_rows(),
        )
        return [section]

    def _position_rows(self):
        """Returns table rows: how often each position is right, accuracy where it is, how often it is predicted."""
        golds = np.array(self.gold)
        predicted = np.array(self.predicted)
        rows = []
        for name in self.names[: self.shares.shape[1]]:
            number, accuracy_bar = self._number_and_accuracy(golds == name)
            rows.append([name, number, accuracy_bar, f"{(predicted == name).sum():,}"])
        return rows

    def _count_rows(self):
        """Returns table rows: how many rows have a number of choices, their accuracy, and that of a random choice."""
        counts = np.array(self.examples.counts())
        rows = []
        for count in np.unique(counts):
            number, accuracy_bar = self._number_and_accuracy(counts == count)
            rows.append([str(count), number, accuracy_bar, page.percent(1 / count, 1)])
        return rows

    def _number_and_accuracy(self, is_chosen):
        """Returns the number of chosen rows, and their accuracy as a bar."""
        number = is_chosen.sum()
        accuracy_bar = page.NOTHING
        if number:
            accuracy_bar = share_bar(self.is_right[is_chosen].mean())
        return f"{number:,}", accuracy_bar

    def asked(self, row):
        choices = _present(self.examples.choices[row])
        return {"text": self.examples.text[row], "choices": choices}, None

    def paragraphs(self, row):
        shares = self.shares[row]
        present = []
        for place, choice in enumerate(self.examples.choices[row]):
            if choice:
                present.append((self.names[place], choice, shares[place]))
        present.sort(key=lambda option: -option[2])
        choices = [(name, choice, share_bar(share)) for name, choice, share in present]
        right = self.gold[row]
        options = page.render("tasks/multiple_choice/options.html", choices=choices, right=right)
        return [("question", self.examples.text[row]), ("", options)]

    @property
    def contents(self):
        contents = []
        for text, choices in zip(self.examples.text, self.examples.choices, strict=True):
            contents.append((text, *choices))
        return contents

    def columns(self):
        columns = super().columns()
        columns["text"] = self.examples.text
        columns["right choice"] = self._choices_named(self.gold)
        columns["predicted choice"] = self._choices_named(self.predicted)
        return columns

    def _choices_named(self, names):
        """Returns the choice of each row that has a name."""
        place = {name: number for number, name in enumerate(self.names)}
        return [row[place[name]] for row, name in zip(self.examples.choices, names, strict=True)]


def judge_choices(keys, examples, logits, lengths, temperature=1.0):
    """Judges `ChoiceExamples`, given the labels of the choices, logits `(rows, choices)` and the tokens of each row.

    The temperature divides the logits of the probabilities, and not those of the loss.
    """
    shares = softmax(logits / temperature)
    judged = JudgedChoices.of_classes(
        keys,
        examples.labels,
        logits,
        place=[row + 1 for row in examples.ids],
        length=lengths,
        examples=examples,
        shares=shares,
    )
    if temperature == 1:
        return judged
    return dataclasses.replace(judged, confidence=shares.max(-1))

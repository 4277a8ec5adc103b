"""Fine-tuning for multiple choice: SWAG, and users' own questions with choices."""

import numpy as np

from keras_bert.comparisons import compared
from keras_bert.files import write_text
from keras_bert.heads.multiple_choice import build_multiple_choice
from keras_bert.tasks.base import Findings, Split, Task, own_data_set
from keras_bert.tasks.classification.data import with_columns
from keras_bert.tasks.multiple_choice import features, predictions
from keras_bert.tasks.multiple_choice import summary as choice_summary
from keras_bert.tasks.multiple_choice.data import ChoiceSettings, read_all
from keras_bert.tasks.multiple_choice.report import judge_choices
from keras_bert.training.losses import classification_loss
from keras_bert.training.progress import announced


class MultipleChoiceTask(Task):
    """Multiple choice: each choice is scored together with the text, and the likeliest one is the answer."""

    name, head, Settings = "multiple_choice", "multiple_choice", ChoiceSettings
    expects = "dicts with text and choices, with the index of the right choice"
    metric, columns = "accuracy", ({"choices"}, {"ending0", "ending1"})
    learning_rates, batch_size = (2e-5,), 16  # As in the paper.

    def __init__(self, data, start, settings):
        super().__init__(data, start, settings)
        self.files = data.names
        self.title = "SWAG" if data.train.swag else f"Multiple choice, {data.names['train']}"
        self.loss = classification_loss()
        self.splits = {"test": [], **{name: [self._split(name, part)] for name, part in data.parts.items()}}
        self._lengths = {name: features.choice_lengths(self.splits[name][0].inputs) for name in ("train", "dev")}
        for name, lengths in self._lengths.items():
            features.check_answers(data.names[name], data.parts[name], lengths)
        self.card = _card(data)

    @classmethod
    def recognizes(cls, text, targets):
        return isinstance(text, dict) and "choices" in text

    @classmethod
    def row(cls, place, text, target):
        if not isinstance(text, dict) or not {"text", "choices"} <= set(text):
            raise ValueError(f"{place} must be a dict with `text` and `choices`. Received: {text!r:.100}")
        if isinstance(target, str) and isinstance(text["choices"], list) and target in text["choices"]:
            target = text["choices"].index(target)
        return {"text": text["text"], "choices": text["choices"], "label": target}

    @classmethod
    def read(cls, train, dev, settings, labels=None):
        return read_all(train, dev, first_label=0)

    def _split(self, name, examples):
        with announced(f"tokenizing {len(examples):,} rows"):
            inputs = features.choice_inputs(examples, self.preprocessor)
        return Split(name, examples, inputs, np.array(examples.labels or [0] * len(examples), "int32"), batch_size=16)

    def summarize(self):
        lengths = features.full_lengths(self.data.train, self.preprocessor, self._lengths["train"])
        limit = self.bert.config.max_position_embeddings
        return choice_summary.summarize(self.data, lengths, self.sequence_length, limit)

    def data_facts(self):
        examples = {"training examples": "train", "dev examples": "dev"}
        lines = {title: f"{self.files[name]}: {len(self.data.parts[name]):,}" for title, name in examples.items()}
        return {**lines, **choice_summary.facts(self.summary)}

    def build(self, bert):
        return bert.model() if bert.head == self.head else build_multiple_choice(bert.encoder)

    def score(self, targets, outputs):
        return predictions.score(targets, outputs["logits"])

    def save_options(self, logits):
        return {"task": "swag" if self.data.train.swag else "multiple_choice"}

    def export_options(self, bert):
        dev = self.data.dev
        return {"example": {"text": dev.text[0], "choices": [choice for choice in dev.choices[0] if choice]}}

    def conclude(self, dev, test, output):
        scores = predictions.score(self.data.dev.labels, dev["dev"])
        self._write_predictions(test, output)
        return Findings(
            scores,
            *self.judge(dev).report(),
            tables=compared(self, scores)[1],
            same=self._same(dev["dev"]),
            test_scores=self._test_scores(test),
        )

    def judge(self, logits):
        return judge_choices(self.data.keys, self.data.dev, logits["dev"], self._lengths["dev"].max(1))

    def _same(self, logits):
        """Returns the label that is predicted for every row, or `None`."""
        first, *others = set(predictions.predict(logits).tolist())
        return None if others else f"choice {self.data.keys[first]}"

    def _write_predictions(self, logits, output):
        """Writes `predictions.tsv`."""
        if self.data.test is not None:
            test, chosen = self.data.test, predictions.predict(logits["test"])
            lines = predictions.table(logits["test"], test.choices, self.data.keys)
            choices = [row[best] for row, best in zip(test.choices, chosen, strict=True)]
            lines = with_columns(lines, {"text": test.text, "choice": choices})
            write_text(output / "predictions.tsv", "\n".join(lines) + "\n")

    def _test_scores(self, logits):
        """Returns the scores on test, or `None` without labels."""
        labels = self.data.test and self.data.test.labels
        return labels and predictions.score(labels, logits["test"])


def _card(data):
    """Returns the metadata for the model card; only complete official data is called SWAG."""
    official = data.train.swag and data.dev.swag and (len(data.train), len(data.dev)) == (73546, 20006)
    dataset = own_data_set(data.names["dev"])
    if official:
        dataset = {"type": "allenai/swag", "name": "SWAG", "config": "regular", "split": "validation"}
    return {
        "pipeline_tag": "multiple-choice",
        "auto_class": "AutoModelForMultipleChoice",
        "datasets": ["allenai/swag"] if official else [],
        "dataset": dataset,
        "purpose": "multiple choice",
        "trained_on": "SWAG" if official else data.names["train"],
        "example": '[{"text": "A text.", "choices": ["One choice.", "Another one."]}]',
        "arguments": '["A text.", "A text."], ["One choice.", "Another one."], padding=True',
    }

"""Fine-tuning for multiple choice: SWAG, and users' own questions with choices."""

import numpy as np

from keras_bert.files import write_text
from keras_bert.models.heads import build_multiple_choice
from keras_bert.tasks import summary as data_summary
from keras_bert.tasks.base import Findings, FinetuningTask, start_text
from keras_bert.tasks.multiple_choice import features, predictions, published
from keras_bert.tasks.multiple_choice import summary as choice_summary
from keras_bert.tasks.multiple_choice.report import choice_errors, choice_sections
from keras_bert.training.bucketing import Batches
from keras_bert.training.losses import classification_loss
from keras_bert.training.progress import announced


class MultipleChoiceTask(FinetuningTask):
    """Multiple choice: each choice is scored together with the text, and the likeliest one is the answer.

    Args:
        data: a `tasks.multiple_choice.data.Data`.
        model: directory or name of the checkpoint to start from. A multiple-choice model keeps its head.
        bert: the loaded checkpoint.
        sequence_length: int, maximum number of tokens of a text with one choice.
    """

    metric = "accuracy"

    def __init__(self, data, model, bert, sequence_length):
        self.data, self.model, self.bert, self.sequence_length = data, str(model), bert, sequence_length
        self.title = "SWAG" if data.train.swag else f"Multiple choice, {data.names['train']}"
        self.loss = classification_loss()
        self._preprocessor = bert.preprocessor(sequence_length, padding="longest")
        self._inputs = {split: self._tokenized(split) for split in data.names}
        self._lengths = {split: features.choice_lengths(inputs) for split, inputs in self._inputs.items()}
        for split in ("train", "dev"):
            features.check_answers(data.names[split], getattr(data, split), self._lengths[split])
        self.train = [lambda: (self._inputs["train"], np.array(data.train.labels, "int32"))]
        self.dev = Batches(self._inputs["dev"], np.array(data.dev.labels, "int32"), 16, shuffle=False)
        self.settings = {
            "model": self.model,
            "sequence_length": sequence_length,
            **{split: [data.names[split], len(getattr(data, split))] for split in data.names},
            "content": {split: getattr(data, split).fingerprint() for split in data.names},
        }
        self.summary, self.card = self._summary(), _card(data)
        self.facts = {
            "start": start_text(model, bert),
            "training examples": f"{data.names['train']}: {len(data.train):,}",
            "dev examples": f"{data.names['dev']}: {len(data.dev):,}",
            **choice_summary.facts(self.summary),
            **data_summary.facts(self.summary),
        }

    def _tokenized(self, split):
        examples = getattr(self.data, split)
        with announced(f"tokenizing {len(examples):,} rows"):
            return features.choice_inputs(examples, self._preprocessor)

    def _summary(self):
        """Summarizes the data, see `tasks.summary`."""
        lengths = features.full_lengths(self.data.train, self._preprocessor, self._lengths["train"])
        limit = self.bert.config.max_position_embeddings
        return choice_summary.summarize(self.data, lengths, self.sequence_length, limit)

    def build(self, bert):
        return bert.model() if bert.head == "multiple_choice" else build_multiple_choice(bert.encoder)

    def score(self, targets, outputs):
        return predictions.score(targets, outputs["logits"])

    def dev_logits(self, predict):
        return {"dev": predict(self.dev)["logits"]}

    def test_logits(self, predict):
        if self.data.test is None:
            return {}
        return {"test": predict(Batches(self._inputs["test"], batch_size=16, shuffle=False))["logits"]}

    def save_options(self, logits):
        return {"task": "swag" if self.data.train.swag else "multiple_choice"}

    def export_options(self, bert):
        dev = self.data.dev
        return {"example": {"text": dev.text[0], "choices": [choice for choice in dev.choices[0] if choice]}}

    def conclude(self, dev, test, output):
        scores = predictions.score(self.data.dev.labels, dev["dev"])
        results, facts, messages = {"scores": scores}, {}, []
        test_scores = self._test_scores(test)
        if test_scores:
            results["test_scores"] = test_scores
            facts["scores on test"] = data_summary.listed(test_scores)
            messages.append(f"test: {data_summary.listed(test_scores)}")
        self._write_predictions(test, output)
        rows = self.data.keys, self.data.dev, dev["dev"]
        return Findings(
            results,
            data_summary.listed(scores),
            facts,
            [published.comparison_table(scores["accuracy"])] if self.data.dev.swag else [],
            choice_sections(*rows, self._lengths["dev"].max(1)),
            choice_errors(*rows),
            messages,
            measured=scores,
            same=self._same(dev["dev"]),
        )

    def _same(self, logits):
        """Returns the label that is predicted for every row, or `None`."""
        first, *others = set(predictions.predict(logits).tolist())
        return None if others else f"choice {self.data.keys[first]}"

    def _write_predictions(self, logits, output):
        """Writes `predictions.tsv`."""
        if self.data.test is not None:
            lines = predictions.table(logits["test"], self.data.test.choices, self.data.keys)
            write_text(output / "predictions.tsv", "\n".join(lines) + "\n")

    def _test_scores(self, logits):
        """Returns the scores on test, or `None` without labels."""
        labels = self.data.test and self.data.test.labels
        return labels and predictions.score(labels, logits["test"])


def _card(data):
    """Returns the metadata for the model card; only complete official data is called SWAG."""
    official = data.train.swag and data.dev.swag and (len(data.train), len(data.dev)) == (73546, 20006)
    kind = "json" if data.names["dev"].endswith(".jsonl") else "csv"
    dataset = {"type": kind, "name": data.names["dev"]}
    if official:
        dataset = {"type": "allenai/swag", "name": "SWAG", "config": "regular", "split": "validation"}
    return {
        "pipeline_tag": "multiple-choice",
        "datasets": ["allenai/swag"] if official else [],
        "dataset": dataset,
        "purpose": "multiple choice",
        "trained_on": "SWAG" if official else data.names["train"],
        "example": '[{"text": "A text.", "choices": ["One choice.", "Another one."]}]',
        "arguments": '["A text.", "A text."], ["One choice.", "Another one."], padding=True',
    }

"""Fine-tuning for extractive question answering on SQuAD 1.1, 2.0 and files in their format."""

import dataclasses
import functools
import logging
import pathlib

import numpy as np

from keras_bert.data.bucketing import Batches
from keras_bert.heads.question_answering import QuestionAnswering
from keras_bert.reports.comparisons import compared
from keras_bert.tasks import summary as data_summary
from keras_bert.tasks.base import Findings, Split, Task, own_data_set
from keras_bert.tasks.logits import finite
from keras_bert.tasks.questions import metrics, predictions
from keras_bert.tasks.questions.data import QuestionSettings
from keras_bert.tasks.questions.features import QuestionWindows
from keras_bert.tasks.questions.report import judge_answers
from keras_bert.tasks.questions.rows import QuestionRows
from keras_bert.training.losses import span_loss
from keras_bert.training.progress import announced

_LOG = logging.getLogger("keras_bert")
_ALTERNATIVES = 3  # Answers of the exported model.


class QuestionAnsweringTask(Task):
    """Extractive question answering: the answer is a span of the context. Each training file of `data` is a stage."""

    name, head, Settings = "questions", QuestionAnswering.name, QuestionSettings
    rows = QuestionRows()
    metric, predictions_file = "f1", "test/predictions.json"

    def __init__(self, data, start, settings):
        version_2 = settings.version_2 or data.dev.version_2 or any(part.version_2 for part in data.train)
        super().__init__(data, start, dataclasses.replace(settings, version_2=version_2))
        self.title = f"SQuAD {'2.0' if version_2 else '1.1'}"
        self.batch_size, self.epochs = (48, 2) if version_2 else (32, 3)  # As in the paper.
        self.loss = span_loss()
        self._train = [self._windows(*part) for part in zip(data.files["train"], data.train, strict=True)]
        self._dev = self._windows(data.files["dev"], data.dev) if self.held_out else self._train[0]
        self._test = data.test and self._windows(data.files["test"], data.test)
        self._check_answers()
        dev = Split("dev", data.dev, self._dev.inputs(), self._dev.targets(), batch_size=32)
        self.splits = {"train": [], "dev": [dev], "test": []}  # Other windows are packed when they are needed.
        self.card = {**_card(data.files["dev"]), "purpose": "question answering", "trained_on": self.title}

    @property
    def held_out(self):
        return self.data.dev is not self.data.train[0]

    def summarize(self):
        return summarize(self._train, self._dev, self._test, self.data.files, self.settings)

    @functools.cached_property
    def run_settings(self):
        data, settings = self.data, dataclasses.asdict(self.settings)
        del settings["n_best"], settings["null_threshold"]
        return {
            "model": self.model if len(self.origins) == 1 else None,  # Several models are in the grid.
            "train": self._sizes(),
            "dev": [data.files["dev"], len(data.dev)],
            "test": [data.files["test"], len(data.test or ())],
            "content": [part.fingerprint() for part in (*data.train, data.dev, *([data.test] if data.test else []))],
            **settings,
        }

    def _sizes(self):
        return [[path, len(part)] for path, part in zip(self.data.files["train"], self.data.train, strict=True)]

    @functools.cached_property
    def facts(self):
        facts = super().facts
        return {title: facts[title] for title in facts if title != "start"}  # Several models may be in the grid.

    def data_facts(self):
        dev = pathlib.Path(self.data.files["dev"]).name
        return {
            "training questions": "; ".join(f"{pathlib.Path(path).name}: {count:,}" for path, count in self._sizes()),
            "dev questions": f"{dev}: {len(self.data.dev):,}",
            **summary_facts(self.summary),
        }

    def _windows(self, path, questions):
        """Returns the windows of the questions of a file and warns about problematic questions."""
        settings = self.settings
        with announced(f"tokenizing {len(questions.ids):,} questions"):
            windows = QuestionWindows(questions, self.preprocessor, settings.doc_stride, settings.max_question_length)
        problems = {
            "answer(s) are not at the given position": [name for name, _, _ in questions.wrong],
            "question(s) have answers but are marked is_impossible; they are scored against the answers, as in the "
            "official script, and trained on as unanswerable, as in Google's program": [
                name for name in questions.ids if name in questions.contradicted
            ],
            "question(s) have an answer that cannot be located; they are not trained on": windows.unmapped,
            "answer(s) start or end inside a token; the tokens that cover them are used": windows.inexact,
            f"question(s) have more than {settings.max_question_length} tokens and are truncated": (
                windows.long_questions
            ),
        }
        for problem, names in problems.items():
            if names:
                listed = ", ".join(names[:3] + ["..."] * (len(names) > 3))
                _LOG.warning("%s: %d %s: %s", path, len(names), problem, listed)
        _LOG.info("%s: %d questions, %d windows", path, len(questions), len(windows.lengths))
        return windows

    def _check_answers(self):
        files = self.data.files
        for path, part in zip(files["train"], self._train, strict=True):
            if set(part.unmapped) >= set(part.questions.ids):
                raise ValueError(f"{path}: no answer can be located in its context. Expected at least one to learn")
            unanswered = [name for name, gold in zip(part.questions.ids, part.questions.golds, strict=True) if not gold]
            if unanswered and not self.settings.version_2:
                raise ValueError(
                    f"{path}: {len(unanswered)} question(s) have no answer to train on, the first is {unanswered[0]}. "
                    "Expected `answers` for each, or `version_2`, which allows questions without one"
                )
        golds = self.data.dev.golds
        if not (any(golds) if self.settings.version_2 else all(golds)):
            raise ValueError(f"{files['dev']}: {golds.count([])} question(s) have no answer to evaluate on")

    @staticmethod
    def combine(logits):
        return np.mean(logits, axis=0)

    @property
    def train(self):
        return [windows.examples for windows in self._train]

    def build(self, bert):
        # A model that already has a question answering head keeps it.
        return bert.model() if bert.head == self.head else bert.span_labeler()

    def score(self, targets, outputs):
        for name in ("start", "end"):
            finite(outputs[f"{name}_logits"])
        _, _, official = self._scored(self._dev.flat(outputs))
        # From 0 to 1, like all scores of a study.
        return {name: value / 100 for name, value in official.items() if name.endswith(("exact", "match", "f1"))}

    def _scored(self, logits):
        """Returns the dev answers, the no-answer threshold and the official scores."""
        answers = self._answers(self._dev, logits)
        threshold = self.settings.null_threshold
        if threshold is None:
            threshold = predictions.choose_threshold(self._dev.questions, answers)
        return answers, threshold, predictions.score(self._dev.questions, answers, threshold)

    def _answers(self, windows, logits):
        for name in ("start", "end"):
            finite(logits[name])
        return windows.answers(logits, self.settings.n_best, self.settings.max_answer_length)

    def dev_logits(self, predict):
        return self._dev.flat(predict(self.dev))

    def test_logits(self, predict):
        return self._test.logits(lambda inputs: predict(Batches(inputs, shuffle=False))) if self._test else {}

    def save_options(self, logits):
        return {"task": "squad", "null_threshold": self._scored(logits)[1]}

    def export_options(self, bert):
        questions = self._dev.questions
        return {
            **{option: getattr(self.settings, name) for name, option in QuestionAnswering.from_task.items()},
            "null_threshold": bert.null_threshold,
            "top": min(self.settings.n_best, _ALTERNATIVES),
            "example": {"question": questions.questions[0], "context": questions.contexts[questions.context[0]]},
        }

    def conclude(self, dev, test, output):
        answers, threshold, scores = self._scored(dev)
        predictions.write(output / "dev", answers, threshold)
        if self._test is not None:
            predictions.write(output / "test", self._answers(self._test, test), threshold)
        rows = predictions.report_rows(self._dev.questions, answers, threshold)
        return Findings(
            {name: value / 100 for name, value in scores.items() if name in ("exact", "exact_match", "f1")},
            *judge_answers(rows, self.settings.version_2).report(),
            results={"scores": scores},
            scores=_listed(scores),
            facts={"threshold of no answer": f"{threshold:.3f}, chosen on dev"} if self.settings.version_2 else {},
            tables=compared(self, scores)[1],
        )

    def judge(self, logits):
        rows = predictions.report_rows(self._dev.questions, *self._scored(logits)[:2])
        return judge_answers(rows, self.settings.version_2)


def _card(dev_file):
    """Returns the metadata for the model card; only files with the official names are called SQuAD."""
    name = pathlib.Path(dev_file).name
    official = {"dev-v1.1.json": "rajpurkar/squad", "dev-v2.0.json": "rajpurkar/squad_v2"}.get(name)
    data_set = {"type": official, "name": "SQuAD", "split": "validation"}
    return {
        "pipeline_tag": "question-answering",
        "hub_metrics": {"exact": "exact_match"},
        "hub_percent": True,
        "datasets": [official] if official else [],
        "dataset": data_set if official else own_data_set(name, typed=True),
        "example": '[{"question": "A question?", "context": "The text with the answer."}]',
        "arguments": '"A question?", "The text with the answer."',
    }


def _listed(scores):
    """Formats the scores in one line: percentages, thresholds and numbers of questions."""
    texts = {
        name: f"{value:,}" if isinstance(value, int) else f"{value:.2f}{'' if name.endswith('thresh') else '%'}"
        for name, value in scores.items()
    }
    return ", ".join(f"{name.replace('_', ' ')} {text}" for name, text in texts.items())


def summarize(train, dev, test, files, settings):
    """Summarizes `QuestionWindows` as JSON values: of each training file, of dev and, unless it is `None`, of test.

    Besides the entries of every task, these are `answers`, the number of training questions with and without an answer
    (SQuAD 2.0); `windows`, the number of training windows; and `several_windows`, the share of the training questions
    whose context needs several. `majority` is empty for SQuAD 1.1.
    """
    keys = {"train": [key for part in train for key in _keys(part.questions)], "dev": _keys(dev.questions)}
    keys |= {} if test is None else {"test": _keys(test.questions)}
    names = {split: pathlib.Path(files[split]).name for split in keys if split != "train"}
    windows = [np.bincount(part.windows.example, minlength=len(part.questions)) for part in train]
    truncated, total = sum(len(part.long_questions) for part in train), len(keys["train"])
    golds, answers, never = [answers for part in train for answers in part.questions.golds], {}, {}
    if any(part.questions.version_2 for part in train):
        answers = {"answers": {"with an answer": sum(map(bool, golds)), "without an answer": golds.count([])}}
    if dev.questions.version_2:
        never = metrics.score(dev.questions, dict.fromkeys(dev.questions.ids, ""))
    return {
        "unit": "questions",
        **data_summary.split_entries(keys, names),
        **answers,
        "windows": int(sum(counts.sum() for counts in windows)),
        "several_windows": float(np.mean(np.concatenate(windows) > 1)),
        "truncated": {"rows": truncated, "share": truncated / total, "sequence_length": settings.max_question_length},
        "baseline": "always no answer",
        "majority": {name: never[name] / 100 for name in ("exact", "f1") if name in never},
    }


def _keys(questions):
    """Returns question and context of each question without differences in case and white space."""
    contexts, asked = data_summary.normal(*questions.contexts), data_summary.normal(*questions.questions)
    return [(text, contexts[number]) for text, number in zip(asked, questions.context, strict=True)]


def summary_facts(summary):
    """Returns what only question answering has as lines of text by title, for people."""
    lines = {"training windows": f"{summary['windows']:,}"}
    if summary["several_windows"]:
        lines["training windows"] += f"; {summary['several_windows']:.1%} of the contexts need more than one"
    if answers := summary.get("answers"):
        total = sum(answers.values())
        lines["answers"] = ", ".join(f"{name}: {count:,} ({count / total:.1%})" for name, count in answers.items())
    return lines

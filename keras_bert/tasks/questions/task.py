"""Fine-tuning for extractive question answering on SQuAD 1.1, 2.0 and files in their format."""

import dataclasses
import functools
import logging
import pathlib
from typing import Any

import numpy as np

from keras_bert.data.bucketing import Batches
from keras_bert.heads.question_answering import QuestionAnswering
from keras_bert.progress import announced
from keras_bert.reports.comparisons import compared
from keras_bert.tasks import summary as data_summary
from keras_bert.tasks.base import Task
from keras_bert.tasks.logits import finite
from keras_bert.tasks.questions import metrics, predictions
from keras_bert.tasks.questions.data import QuestionRows, QuestionSettings
from keras_bert.tasks.questions.features import QuestionWindows
from keras_bert.tasks.questions.report import judge_answers
from keras_bert.tasks.reporting import Card, Findings, Report, own_data_set
from keras_bert.tasks.stages import Split, Training
from keras_bert.tasks.summary import Summary
from keras_bert.training.losses import span_loss

_LOG = logging.getLogger("keras_bert")
_ALTERNATIVES = 3  # Answers of the exported model.


class QuestionTraining(Training):
    """Trains start and end of the answer. Each training file of the data is a stage."""

    answers_tokens = True

    def __init__(self, task):
        super().__init__(task)
        # As in the paper.
        self.batch_size, self.epochs = (48, 2) if task.settings.version_2 else (32, 3)

    def make_loss(self):
        return span_loss()

    def new_model(self, bert):
        return bert.span_labeler()


class QuestionReport(Report):
    """Reports SQuAD's scores; without an answer to each question, at a threshold that is chosen on dev."""

    metric, predictions_file = "f1", "test/predictions.json"

    def score(self, targets, outputs):
        for name in ("start", "end"):
            finite(outputs[f"{name}_logits"])
        _, _, official = self.scored(self.task.dev_windows.flat(outputs))
        # From 0 to 1, like all scores of a study.
        return {name: value / 100 for name, value in official.items() if name.endswith(("exact", "match", "f1"))}

    def scored(self, logits):
        """Returns the dev answers, the no-answer threshold and the official scores."""
        windows = self.task.dev_windows
        answers = self._answers(windows, logits)
        threshold = self.task.settings.null_threshold
        if threshold is None:
            threshold = predictions.choose_threshold(windows.questions, answers)
        return answers, threshold, predictions.score(windows.questions, answers, threshold)

    def _answers(self, windows, logits):
        for name in ("start", "end"):
            finite(logits[name])
        settings = self.task.settings
        return windows.answers(logits, settings.n_best, settings.max_answer_length)

    def entries(self):
        windows = self.task.dev_windows
        tokens = np.bincount(windows.windows.row, windows.lengths, minlength=len(windows.questions))
        return tokens.astype(int).tolist()

    def dev_logits(self, predict):
        return self.task.dev_windows.flat(predict(self.task.dev))

    def test_logits(self, predict):
        windows = self.task.test_windows
        if not windows:
            return {}
        return windows.logits(lambda inputs: predict(Batches(inputs, shuffle=False)))

    def combine(self, logits):
        return np.mean(logits, axis=0)

    def summarize(self):
        task = self.task
        return summarize(task.train_windows, task.dev_windows, task.test_windows, task.data.files, task.settings)

    def start_facts(self):
        return {}  # Several models may be in the grid.

    def data_facts(self):
        files, sizes = self.task.data.files, self.task.sizes()
        return {
            "training questions": "; ".join(f"{pathlib.Path(path).name}: {count:,}" for path, count in sizes),
            "dev questions": f"{pathlib.Path(files['dev']).name}: {len(self.task.data.dev):,}",
            **summary_facts(self.summary),
        }

    def make_card(self):
        return _card(self.task.data.files["dev"], self.task.title)

    def conclude(self, dev, test, output):
        answers, threshold, scores = self.scored(dev)
        predictions.write(output / "dev", answers, threshold)
        if self.task.test_windows is not None:
            predictions.write(output / "test", self._answers(self.task.test_windows, test), threshold)
        facts = {}
        if self.task.settings.version_2:
            facts["threshold of no answer"] = f"{threshold:.3f}, chosen on dev"
        sections, errors = self._judged(answers, threshold).report()
        return Findings(
            measured={name: value / 100 for name, value in scores.items() if name in ("exact", "exact_match", "f1")},
            sections=sections,
            errors=errors,
            results={"scores": scores},
            scores=_listed(scores),
            facts=facts,
            tables=compared(self.task, scores)[1],
        )

    def judge(self, kept):
        return self._judged(*self.scored(kept)[:2])

    def _judged(self, answers, threshold):
        rows = predictions.report_rows(self.task.dev_windows.questions, answers, threshold)
        return judge_answers(rows, self.task.settings.version_2)


class QuestionAnsweringTask(Task):
    """Extractive question answering: the answer is a span of the context."""

    name, head, Settings = "questions", QuestionAnswering.name, QuestionSettings
    rows, Training, Report = QuestionRows(), QuestionTraining, QuestionReport

    def __init__(self, data, start, settings):
        version_2 = settings.version_2 or data.dev.version_2 or any(part.version_2 for part in data.train)
        super().__init__(data, start, dataclasses.replace(settings, version_2=version_2))
        self.title = f"SQuAD {'2.0' if version_2 else '1.1'}"
        files = data.files
        self.train_windows = [self._windows(*part) for part in zip(files["train"], data.train, strict=True)]
        self.dev_windows = self._windows(files["dev"], data.dev) if self.held_out else self.train_windows[0]
        self.test_windows = data.test and self._windows(files["test"], data.test)
        self._check_answers()
        # Windows to train on are packed when they are needed.
        train = [
            QuestionSplit("train", windows.questions, None, None, windows=windows) for windows in self.train_windows
        ]
        dev = Split("dev", data.dev, self.dev_windows.inputs(), self.dev_windows.targets(), batch_size=32)
        self.splits = {"train": train, "dev": [dev], "test": []}

    @property
    def held_out(self):
        return self.data.dev is not self.data.train[0]

    @functools.cached_property
    def run_settings(self):
        data, settings = self.data, dataclasses.asdict(self.settings)
        del settings["n_best"], settings["null_threshold"]
        return {
            "model": self.model if len(self.origins) == 1 else None,  # Several models are in the grid.
            "train": self.sizes(),
            "dev": [data.files["dev"], len(data.dev)],
            "test": [data.files["test"], len(data.test or ())],
            "content": [part.fingerprint() for part in (*data.train, data.dev, *([data.test] if data.test else []))],
            **settings,
        }

    def sizes(self):
        """Returns the files to train on and the number of questions of each."""
        return [[path, len(part)] for path, part in zip(self.data.files["train"], self.data.train, strict=True)]

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
        for path, part in zip(files["train"], self.train_windows, strict=True):
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

    def save_options(self, kept):
        return {"task": "squad", "null_threshold": self.report.scored(kept)[1]}

    def export_options(self, bert):
        questions = self.dev_windows.questions
        return {
            **{option: getattr(self.settings, name) for name, option in QuestionAnswering.from_task.items()},
            "null_threshold": bert.null_threshold,
            "top": min(self.settings.n_best, _ALTERNATIVES),
            "example": {"question": questions.questions[0], "context": questions.contexts[questions.context[0]]},
        }


@dataclasses.dataclass(frozen=True)
class QuestionSplit(Split):
    """Questions to train on."""

    windows: Any = None  # Their `QuestionWindows`.

    def pair(self):
        return self.windows.examples()


def _card(dev_file, title):
    """Returns the `Card`; only files with the official names are called SQuAD."""
    name = pathlib.Path(dev_file).name
    official = {"dev-v1.1.json": "rajpurkar/squad", "dev-v2.0.json": "rajpurkar/squad_v2"}.get(name)
    data_set = {"type": official, "name": "SQuAD", "split": "validation"}
    return Card(
        pipeline_tag="question-answering",
        purpose="question answering",
        trained_on=title,
        example='[{"question": "A question?", "context": "The text with the answer."}]',
        dataset=data_set if official else own_data_set(name, typed=True),
        datasets=[official] if official else [],
        arguments='"A question?", "The text with the answer."',
        hub_metrics={"exact": "exact_match"},
        hub_percent=True,
    )


def _listed(scores):
    """Formats the scores in one line: percentages, thresholds and numbers of questions."""
    texts = {
        name: f"{value:,}" if isinstance(value, int) else f"{value:.2f}{'' if name.endswith('thresh') else '%'}"
        for name, value in scores.items()
    }
    return ", ".join(f"{name.replace('_', ' ')} {text}" for name, text in texts.items())


def summarize(train, dev, test, files, settings):
    """Returns the `Summary` of `QuestionWindows`: of each training file, of dev and, unless it is `None`, of test.

    What only this task knows: `answers`, the number of training questions with and without an answer (SQuAD 2.0);
    `windows`, the number of training windows; and `several_windows`, the share of the training questions whose context
    needs several. `majority` is empty for SQuAD 1.1.
    """
    keys = {"train": [key for part in train for key in _keys(part.questions)], "dev": _keys(dev.questions)}
    if test is not None:
        keys["test"] = _keys(test.questions)
    names = {split: pathlib.Path(files[split]).name for split in keys if split != "train"}
    windows = [np.bincount(part.windows.row, minlength=len(part.questions)) for part in train]
    more = {}
    if any(part.questions.version_2 for part in train):
        golds = [answers for part in train for answers in part.questions.golds]
        more["answers"] = {"with an answer": sum(map(bool, golds)), "without an answer": golds.count([])}
    more["windows"] = int(sum(counts.sum() for counts in windows))
    more["several_windows"] = float(np.mean(np.concatenate(windows) > 1))
    never = {}
    if dev.questions.version_2:
        never = metrics.score(dev.questions, dict.fromkeys(dev.questions.ids, ""))
    truncated = sum(len(part.long_questions) for part in train)
    return Summary(
        unit="questions",
        **data_summary.split_entries(keys, names),
        truncated={
            "rows": truncated,
            "share": truncated / len(keys["train"]),
            "sequence_length": settings.max_question_length,
        },
        baseline="always no answer",
        majority={name: never[name] / 100 for name in ("exact", "f1") if name in never},
        more=more,
    )


def _keys(questions):
    """Returns question and context of each question without differences in case and white space."""
    contexts, asked = data_summary.normal(*questions.contexts), data_summary.normal(*questions.questions)
    return [(text, contexts[number]) for text, number in zip(asked, questions.context, strict=True)]


def summary_facts(summary):
    """Returns what only question answering has as lines of text by title, for people."""
    more = summary.more
    windows = f"{more['windows']:,}"
    if more["several_windows"]:
        windows += f"; {more['several_windows']:.1%} of the contexts need more than one"
    lines = {"training windows": windows}
    answers = more.get("answers")
    if answers:
        total = sum(answers.values())
        lines["answers"] = ", ".join(f"{name}: {count:,} ({count / total:.1%})" for name, count in answers.items())
    return lines

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
from keras_bert.tasks.question_answering import metrics, predictions
from keras_bert.tasks.question_answering.data import QuestionRows, QuestionSettings
from keras_bert.tasks.question_answering.features import QuestionWindows
from keras_bert.tasks.question_answering.report import judge_answers
from keras_bert.tasks.reporting import Card, Findings, Report, own_data_set
from keras_bert.tasks.stages import Split, Training
from keras_bert.tasks.summary import Summary
from keras_bert.training.losses import span_loss

_LOG = logging.getLogger("keras_bert")
_ALTERNATIVES = 3  # Answers of the exported model.
_FEW = 3  # Questions to name.
_EVALUATED = 32  # Windows to evaluate at a time, of dev and of test alike.


class QuestionTraining(Training):
    """Trains start and end of the answer. Each training file of the data is a stage."""

    answers_tokens = True

    def __init__(self, task):
        super().__init__(task)
        # As in the paper.
        self.batch_size = 48 if task.settings.version_2 else 32
        self.epochs = 2 if task.settings.version_2 else 3

    def make_loss(self):
        return span_loss()

    def new_model(self, bert):
        return bert.span_labeler()


class QuestionReport(Report):
    """Reports SQuAD's scores; without an answer to each question, at a threshold that is chosen on dev."""

    metric = "f1"
    predictions_file = "test/predictions.json"

    def score(self, targets, outputs):
        for name in ("start", "end"):
            finite(outputs[f"{name}_logits"])
        _, _, official = self.scored(self.task.dev_windows.flat(outputs))
        scores = {}
        for name, value in official.items():
            if name.endswith(("exact", "match", "f1")):
                scores[name] = value / 100  # From 0 to 1, like all scores of a study.
        return scores

    def scored(self, logits):
        """Returns the dev answers, the no-answer threshold and the official scores."""
        questions = self.task.dev_windows.questions
        answers = self._answers(self.task.dev_windows, logits)
        threshold = self.task.settings.null_threshold
        if threshold is None:
            threshold = predictions.choose_threshold(questions, answers)
        scores = predictions.score(questions, answers, threshold)
        return answers, threshold, scores

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
        return windows.logits(lambda inputs: predict(Batches(inputs, batch_size=_EVALUATED, shuffle=False)))

    def combine(self, logits):
        return np.mean(logits, axis=0)

    def summarize(self):
        task = self.task
        return summarize(
            train=task.train_windows,
            dev=task.dev_windows,
            test=task.test_windows,
            files=task.data.files,
            settings=task.settings,
        )

    def start_facts(self):
        return {}  # Several models may be in the grid.

    def data_facts(self):
        data = self.task.data
        training = [f"{pathlib.Path(path).name}: {count:,}" for path, count in self.task.sizes()]
        facts = {
            "training questions": "; ".join(training),
            "dev questions": f"{pathlib.Path(data.files['dev']).name}: {len(data.dev):,}",
        }
        facts.update(summary_facts(self.summary))
        return facts

    def make_card(self):
        return _card(self.task.data.files["dev"], self.task.title)

    def conclude(self, dev, test, output):
        answers, threshold, scores = self.scored(dev)
        predictions.write(output / "dev", answers, threshold)
        if self.task.test_windows is not None:
            test_answers = self._answers(self.task.test_windows, test)
            predictions.write(output / "test", test_answers, threshold)
        facts = {}
        if self.task.settings.version_2:
            facts["threshold of no answer"] = f"{threshold:.3f}, chosen on dev"
        measured = {}
        for name in ("exact", "exact_match", "f1"):
            if name in scores:
                measured[name] = scores[name] / 100
        sections, errors = self._judged(answers, threshold).report()
        _, tables = compared(self.task, scores)
        return Findings(
            measured=measured,
            sections=sections,
            errors=errors,
            results={"scores": scores},
            scores=_scores_in_words(scores),
            facts=facts,
            tables=tables,
        )

    def judge(self, kept):
        answers, threshold, _ = self.scored(kept)
        return self._judged(answers, threshold)

    def _judged(self, answers, threshold):
        questions = self.task.dev_windows.questions
        answered = predictions.answered_questions(questions, answers, threshold)
        return judge_answers(answered, self.task.settings.version_2)


class QuestionAnsweringTask(Task):
    """Extractive question answering: the answer is a span of the context."""

    name = "questions"
    head = QuestionAnswering.name
    Settings = QuestionSettings
    rows = QuestionRows()
    Training = QuestionTraining
    Report = QuestionReport

    def __init__(self, data, start, settings):
        parts = [data.dev, *data.train]
        version_2 = settings.version_2 or any(part.version_2 for part in parts)
        super().__init__(data, start, dataclasses.replace(settings, version_2=version_2))
        self.title = "SQuAD 2.0" if version_2 else "SQuAD 1.1"
        self.train_windows = []
        for path, questions in zip(data.files["train"], data.train, strict=True):
            self.train_windows.append(self._windows(path, questions))
        self.dev_windows = self.train_windows[0]
        if self.held_out:
            self.dev_windows = self._windows(data.files["dev"], data.dev)
        self.test_windows = None
        if data.test is not None:
            self.test_windows = self._windows(data.files["test"], data.test)
        self._check_answers()
        self.splits = {"train": [], "dev": [], "test": []}  # Test is predicted by `test_logits`.
        for windows in self.train_windows:
            # Windows to train on are packed when they are needed.
            split = QuestionSplit("train", windows.questions, None, None, windows=windows)
            self.splits["train"].append(split)
        inputs = self.dev_windows.inputs()
        targets = self.dev_windows.targets()
        self.splits["dev"].append(Split("dev", data.dev, inputs, targets, batch_size=_EVALUATED))

    @property
    def held_out(self):
        return self.data.dev is not self.data.train[0]

    @functools.cached_property
    def run_settings(self):
        data = self.data
        parts = [*data.train, data.dev]
        if data.test is not None:
            parts.append(data.test)
        run_settings = {
            "model": self.model if len(self.origins) == 1 else None,  # Several models are in the grid.
            "train": self.sizes(),
            "dev": [data.files["dev"], len(data.dev)],
            "test": [data.files["test"], len(data.test or ())],
            "content": [part.fingerprint() for part in parts],
        }
        run_settings.update(dataclasses.asdict(self.settings))
        # These change no weights.
        del run_settings["n_best"]
        del run_settings["null_threshold"]
        return run_settings

    def sizes(self):
        """Returns the files to train on and the number of questions of each."""
        sizes = []
        for path, questions in zip(self.data.files["train"], self.data.train, strict=True):
            sizes.append([path, len(questions)])
        return sizes

    def _windows(self, path, questions):
        """Returns the windows of the questions of a file and warns about problematic questions."""
        settings = self.settings
        with announced(f"tokenizing {len(questions.ids):,} questions"):
            windows = QuestionWindows(
                questions,
                self.preprocessor,
                doc_stride=settings.doc_stride,
                max_question_length=settings.max_question_length,
            )
        for problem, names in _problems(questions, windows).items():
            if names:
                shown = names[:_FEW]
                if len(names) > _FEW:
                    shown = [*shown, "..."]
                _LOG.warning("%s: %d %s: %s", path, len(names), problem, ", ".join(shown))
        _LOG.info("%s: %d questions, %d windows", path, len(questions), len(windows.lengths))
        return windows

    def _check_answers(self):
        """Raises if a file has nothing to learn, or questions without an answer that need one."""
        files = self.data.files
        for path, windows in zip(files["train"], self.train_windows, strict=True):
            questions = windows.questions
            if set(windows.unmapped) >= set(questions.ids):
                raise ValueError(f"{path}: no answer can be located in its context. Expected at least one to learn")
            unanswered = questions.golds.count([])
            if unanswered and not self.settings.version_2:
                first = questions.ids[questions.golds.index([])]
                raise ValueError(
                    f"{path}: {unanswered} question(s) have no answer to train on, the first is {first}. "
                    "Expected `answers` for each, or `version_2`, which allows questions without one"
                )
        golds = self.data.dev.golds
        can_be_scored = any(golds) if self.settings.version_2 else all(golds)
        if not can_be_scored:
            raise ValueError(f"{files['dev']}: {golds.count([])} question(s) have no answer to evaluate on")

    def save_options(self, kept):
        _, threshold, _ = self.report.scored(kept)
        return {"task": "squad", "null_threshold": threshold}

    def export_options(self, bert):
        questions = self.dev_windows.questions
        options = {}
        for name in QuestionAnswering.from_task:
            options[name] = getattr(self.settings, name)
        options["null_threshold"] = bert.null_threshold
        options["n_best"] = min(self.settings.n_best, _ALTERNATIVES)
        context = questions.contexts[questions.context[0]]
        options["example"] = {"question": questions.questions[0], "context": context}
        return options


@dataclasses.dataclass(frozen=True)
class QuestionSplit(Split):
    """Questions to train on."""

    windows: Any = None  # Their `QuestionWindows`.

    def pair(self):
        return self.windows.examples()


def _problems(questions, windows):
    """Returns the ids of questions with a problem, by what is wrong with them."""
    return {
        "answer(s) are not at the given position": [name for name, _, _ in questions.wrong],
        "question(s) have answers but are marked is_impossible; they are scored against the answers, as in the "
        "official script, and trained on as unanswerable, as in Google's program": [
            name for name in questions.ids if name in questions.contradicted
        ],
        "question(s) have an answer that cannot be located; they are not trained on": windows.unmapped,
        "answer(s) start or end inside a token; the tokens that cover them are used": windows.inexact,
        f"question(s) have more than {windows.question_room} tokens and are truncated": windows.long_questions,
    }


def _card(dev_file, title):
    """Returns the `Card`; only files with the official names are called SQuAD."""
    name = pathlib.Path(dev_file).name
    official = {"dev-v1.1.json": "rajpurkar/squad", "dev-v2.0.json": "rajpurkar/squad_v2"}.get(name)
    if official:
        data_set = {"type": official, "name": "SQuAD", "split": "validation"}
    else:
        data_set = own_data_set(name, typed=True)
    return Card(
        pipeline_tag="question-answering",
        purpose="question answering",
        trained_on=title,
        example='[{"question": "A question?", "context": "The text with the answer."}]',
        dataset=data_set,
        datasets=[official] if official else [],
        arguments='"A question?", "The text with the answer."',
        hub_metrics={"exact": "exact_match"},
        hub_percent=True,
    )


def _scores_in_words(scores):
    """Formats the scores in one line: percentages, thresholds and numbers of questions."""
    parts = []
    for name, value in scores.items():
        if isinstance(value, int):
            text = f"{value:,}"
        elif name.endswith("thresh"):
            text = f"{value:.2f}"
        else:
            text = f"{value:.2f}%"
        parts.append(f"{name.replace('_', ' ')} {text}")
    return ", ".join(parts)


def summarize(train, dev, test, files, settings):
    """Returns the `Summary` of `QuestionWindows`: of each training file, of dev and, unless it is `None`, of test.

    What only this task knows: `answers`, the number of training questions with and without an answer (SQuAD 2.0);
    `windows`, the number of training windows; and `several_windows`, the share of the training questions whose context
    needs several. `majority` is empty for SQuAD 1.1.
    """
    training_keys = []
    golds = []
    windows = []
    truncated = 0
    for part in train:
        training_keys.extend(_keys(part.questions))
        golds.extend(part.questions.golds)
        windows.append(np.bincount(part.windows.row, minlength=len(part.questions)))
        truncated += len(part.long_questions)
    windows_of_question = np.concatenate(windows)
    keys = {"train": training_keys, "dev": _keys(dev.questions)}
    names = {"dev": pathlib.Path(files["dev"]).name}
    if test is not None:
        keys["test"] = _keys(test.questions)
        names["test"] = pathlib.Path(files["test"]).name
    more = {}
    if any(part.questions.version_2 for part in train):
        unanswerable = golds.count([])
        more["answers"] = {
            "with an answer": len(golds) - unanswerable,
            "without an answer": unanswerable,
        }
    more["windows"] = int(windows_of_question.sum())
    more["several_windows"] = float(np.mean(windows_of_question > 1))
    return Summary(
        unit="questions",
        **data_summary.split_entries(keys, names),
        truncated={
            "rows": truncated,
            "share": truncated / len(training_keys),
            "sequence_length": settings.max_question_length,
        },
        baseline="always no answer",
        majority=_no_answer_scores(dev.questions),
        more=more,
    )


def _no_answer_scores(questions):
    """Returns the scores of no answer to all questions; none for SQuAD 1.1."""
    if not questions.version_2:
        return {}
    scores = metrics.score(questions, dict.fromkeys(questions.ids, ""))
    return {"exact": scores["exact"] / 100, "f1": scores["f1"] / 100}


def _keys(questions):
    """Returns question and context of each question without differences in case and white space."""
    contexts = data_summary.normal(*questions.contexts)
    texts = data_summary.normal(*questions.questions)
    keys = []
    for text, number in zip(texts, questions.context, strict=True):
        keys.append((text, contexts[number]))
    return keys


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
        parts = [f"{name}: {count:,} ({count / total:.1%})" for name, count in answers.items()]
        lines["answers"] = ", ".join(parts)
    return lines

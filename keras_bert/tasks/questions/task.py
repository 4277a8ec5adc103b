"""Fine-tuning for extractive question answering on SQuAD 1.1, 2.0 and files in their format."""

import dataclasses
import logging
import pathlib

import numpy as np

from keras_bert.tasks import summary as data_summary
from keras_bert.tasks.base import Findings, FinetuningTask
from keras_bert.tasks.questions import data as squad
from keras_bert.tasks.questions import predictions, published
from keras_bert.tasks.questions import summary as question_summary
from keras_bert.tasks.questions.features import QuestionWindows
from keras_bert.tasks.questions.report import question_errors, question_sections
from keras_bert.training.bucketing import Batches
from keras_bert.training.losses import span_loss
from keras_bert.training.progress import announced

_LOG = logging.getLogger("keras_bert")
_ALTERNATIVES = 3  # Answers of the exported model.


@dataclasses.dataclass(frozen=True)
class QuestionSettings:
    """Settings for splitting contexts into windows and for decoding answers.

    Args:
        version_2: bool, whether questions may have no answer.
        sequence_length: int, maximum number of tokens of question and context.
        doc_stride: int, distance in tokens between the windows of a long context.
        max_question_length: int, maximum number of tokens of a question.
        max_answer_length: int, maximum number of tokens of an answer.
        n_best: int, number of answers to each question in `nbest_predictions.json`.
    """

    version_2: bool = False
    sequence_length: int = 384
    doc_stride: int = 128
    max_question_length: int = 64
    max_answer_length: int = 30
    n_best: int = 20


class QuestionAnsweringTask(FinetuningTask):
    """Extractive question answering: the answer is a span of the context.

    Args:
        origins: dict of the facts of the checkpoints to start from by directory or name, see `shared_origins`.
        bert: the first one, loaded.
        settings: `QuestionSettings`.
        train_files: files in SQuAD's format, one training stage each.
        dev_file: file to select the best run on.
        predict_file: file to predict; `None` for none.
        max_train_examples: int, number of training questions to use from each file; `None` for all.
        max_dev_examples: int, number of questions of `dev_file` to use; `None` for all.
        load_options: dict, options of `keras_bert.load`. Defaults to none.
    """

    metric = "f1"

    def __init__(
        self,
        origins,
        bert,
        settings,
        train_files,
        dev_file,
        predict_file=None,
        max_train_examples=None,
        max_dev_examples=None,
        load_options=None,
    ):
        self.load_options = load_options or {}
        read = [squad.read(path, settings.version_2) for path in (*train_files, dev_file)]
        test = squad.read(predict_file, settings.version_2) if predict_file else None
        self.bert, self.origins, self._settings = bert, origins, settings
        self.model = next(iter(origins))
        self.sequence_length = settings.sequence_length
        self.title = f"SQuAD {'2.0' if settings.version_2 else '1.1'}"
        self.loss = span_loss()
        self._preprocessor = self.bert.preprocessor(settings.sequence_length, padding="longest")
        train, dev = [part.first(max_train_examples) for part in read[:-1]], read[-1].first(max_dev_examples)
        self._train = [self._windows(path, part) for path, part in zip(train_files, train, strict=True)]
        self._dev = self._windows(dev_file, dev)
        self._test = self._windows(predict_file, test) if predict_file else None
        sizes = [[path, len(part.questions)] for path, part in zip(train_files, self._train, strict=True)]
        self._check_answers(train_files, dev_file)
        self.dev = Batches(self._dev.inputs(), self._dev.targets(), shuffle=False)
        of_windows = {name: value for name, value in dataclasses.asdict(settings).items() if name != "n_best"}
        self.settings = {
            "model": self.model if len(origins) == 1 else None,  # Several models are in the grid.
            "train": sizes,
            "dev": [dev_file, len(self._dev.questions)],
            "test": [predict_file, len(self._test.questions) if self._test else 0],
            "content": [part.fingerprint() for part in (*train, dev, *([test] if test else []))],
            **of_windows,
        }
        self.summary = self._summary(dev_file, predict_file)
        self.facts = {
            "training questions": "; ".join(f"{pathlib.Path(path).name}: {count:,}" for path, count in sizes),
            "dev questions": f"{pathlib.Path(dev_file).name}: {len(self._dev.questions):,}",
            **question_summary.facts(self.summary),
            **data_summary.facts(self.summary),
        }
        self.card = {**_card(dev_file), "purpose": "question answering", "trained_on": self.title}

    def _summary(self, dev_file, predict_file):
        """Summarizes the data, see `tasks.summary`."""
        names = {"dev": dev_file, "test": predict_file}
        return question_summary.summarize(self._train, self._dev, self._test, names, self._settings.max_question_length)

    def _windows(self, path, questions):
        """Returns the windows of the questions of a file and warns about problematic questions."""
        settings = self._settings
        with announced(f"tokenizing {len(questions.ids):,} questions"):
            windows = QuestionWindows(questions, self._preprocessor, settings.doc_stride, settings.max_question_length)
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

    def _check_answers(self, train_files, dev_file):
        for path, part in zip(train_files, self._train, strict=True):
            if set(part.unmapped) >= set(part.questions.ids):
                raise ValueError(f"{path}: no answer can be located in its context. Expected at least one to learn")
            unanswered = [name for name, gold in zip(part.questions.ids, part.questions.golds, strict=True) if not gold]
            if unanswered and not self._settings.version_2:
                raise ValueError(
                    f"{path}: {len(unanswered)} question(s) have no answer to train on, the first is {unanswered[0]}. "
                    "Expected `answers` for each, or --version_2, which allows questions without one"
                )
        golds = self._dev.questions.golds
        if not (any(golds) if self._settings.version_2 else all(golds)):
            raise ValueError(f"{dev_file}: {golds.count([])} question(s) have no answer to evaluate on")

    @staticmethod
    def combine(logits):
        return np.mean(logits, axis=0)

    @property
    def train(self):
        return [windows.examples for windows in self._train]

    def build(self, bert):
        # A model that already has a question answering head keeps it.
        return bert.model() if bert.head == "question_answering" else bert.span_labeler()

    def score(self, targets, outputs):
        if not all(np.isfinite(outputs[f"{name}_logits"]).all() for name in ("start", "end")):
            raise FloatingPointError("the logits are not finite: the training has diverged")
        _, _, official = self._scored(self._dev.flat(outputs))
        # From 0 to 1, like all scores of a study.
        return {name: value / 100 for name, value in official.items() if name.endswith(("exact", "match", "f1"))}

    def _scored(self, logits):
        """Returns the dev answers, the no-answer threshold and the official scores."""
        answers = self._answers(self._dev, logits)
        threshold = predictions.choose_threshold(self._dev.questions, answers)
        return answers, threshold, predictions.score(self._dev.questions, answers, threshold)

    def _answers(self, windows, logits):
        return windows.answers(logits, self._settings.n_best, self._settings.max_answer_length)

    def dev_logits(self, predict):
        return self._logits(self._dev, predict)

    def test_logits(self, predict):
        return self._logits(self._test, predict) if self._test else {}

    @staticmethod
    def _logits(windows, predict):
        return windows.logits(lambda inputs: predict(Batches(inputs, shuffle=False)))

    def save_options(self, logits):
        return {"task": "squad", "null_threshold": self._scored(logits)[1]}

    def export_options(self, bert):
        questions = self._dev.questions
        return {
            "stride": self._settings.doc_stride,
            "max_question_length": self._settings.max_question_length,
            "max_answer_length": self._settings.max_answer_length,
            "null_threshold": bert.null_threshold,
            "top": min(self._settings.n_best, _ALTERNATIVES),
            "example": {"question": questions.questions[0], "context": questions.contexts[questions.context[0]]},
        }

    def conclude(self, dev, test, output):
        answers, threshold, scores = self._scored(dev)
        questions, version_2 = self._dev.questions, self._settings.version_2
        predictions.write(output / "dev", answers, threshold)
        if self._test is not None:
            predictions.write(output / "test", self._answers(self._test, test), threshold)
        facts = {}
        if version_2:
            facts["threshold of no answer"] = f"{threshold:.3f}, chosen on dev"
        rows = predictions.report_rows(questions, answers, threshold)
        tables = [published.comparison_table(scores, version_2)]
        sections, errors = question_sections(rows, version_2), question_errors(rows)
        measured = {name: value / 100 for name, value in scores.items() if name in ("exact", "exact_match", "f1")}
        return Findings({"scores": scores}, _listed(scores), facts, tables, sections, errors, measured=measured)


def _card(dev_file):
    """Returns the metadata for the model card; only files with the official names are called SQuAD."""
    name = pathlib.Path(dev_file).name
    official = {"dev-v1.1.json": "rajpurkar/squad", "dev-v2.0.json": "rajpurkar/squad_v2"}.get(name)
    dataset = {"type": "json", "name": name} if official is None else {"type": official, "name": "SQuAD"}
    return {
        "pipeline_tag": "question-answering",
        "datasets": [official] if official else [],
        "dataset": dataset | ({"split": "validation"} if official else {}),
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

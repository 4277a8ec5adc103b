"""Fine-tunes on SQuAD 1.1 or 2.0, over a grid of settings and seeds, and keeps the best on dev.

    python -m pipelines.run_squad --train_file=train-v1.1.json --dev_file=dev-v1.1.json \\
        --model=google-bert/bert-base-uncased --output_dir=runs/squad
    python -m pipelines.run_squad --train_file=train-v2.0.json --dev_file=dev-v2.0.json --version_2 --epochs=2 \\
        --batch_size=48 --model=google-bert/bert-base-uncased --output_dir=runs/squad2

Several `--train_file` are learned from one after the other, such as TriviaQA before SQuAD. A `--model` that answers
questions already keeps its head. Flags with lists make a grid, several models of one vocabulary in `--model` too; a run
that is finished is not run again, and one that was cut goes on where it was. `--ensemble=7` averages the logits of the
seven best. With `--version_2` there may be no answer: the threshold is found on dev. A question that is marked
`is_impossible` and yet has answers is scored by the answers and learned as one without. In `--output_dir`: `flags.txt`,
`runs/`, `dev/` and, of `--predict_file`, `test/` with `predictions.json`, `nbest_predictions.json` and `null_odds.json`
as the official programs write them, `results.json`, `results.md` beside the paper's scores, `report.html`, the best
model in `model/` and, with question and context in and the answer out, in `saved_model/1/`.
"""

import json
import pathlib

import keras
import numpy as np
from absl import flags, logging

import keras_bert
from keras_bert.experiments import grid
from keras_bert.experiments.reports.questions import question_sections
from keras_bert.experiments.reports.report import write_report
from keras_bert.experiments.study import Study
from keras_bert.tasks.squad import data as squad
from keras_bert.tasks.squad import metrics as squad_metrics
from keras_bert.tasks.squad import predictions as squad_predictions
from keras_bert.tasks.squad import published as squad_published
from keras_bert.tasks.squad.features import QuestionWindows
from keras_bert.training.distribution import is_chief
from pipelines import common_flags

_TRAIN = flags.DEFINE_list(
    "train_file", None, "Files in the format of SQuAD, learned from in this order.", required=True
)
_DEV = flags.DEFINE_string("dev_file", None, "The one to choose the best run by.", required=True)
_PREDICT = flags.DEFINE_string("predict_file", None, "The one to answer.")
_VERSION_2 = flags.DEFINE_bool("version_2", False, "Whether questions may have no answer.")
_LENGTH = flags.DEFINE_integer("sequence_length", 384, "The most pieces of question and context.", 8)
_STRIDE = flags.DEFINE_integer("doc_stride", 128, "How far a window of a long context stands behind the one before.", 1)
_QUESTION = flags.DEFINE_integer("max_question_length", 64, "The most pieces of a question.", 1)
_ANSWER = flags.DEFINE_integer("max_answer_length", 30, "The most pieces of an answer.", 1)
_BEST = flags.DEFINE_integer("n_best", 20, "How many answers of each question are written.", 1)
_OF = common_flags.finetuning(["5e-5"])


def main():
    strategy = keras_bert.create_strategy(_OF.strategy.value)
    squads = _Squad(strategy)
    squads.output.mkdir(parents=True, exist_ok=True)
    common_flags.write_given(squads.output / "flags.txt")
    squads.run()
    if is_chief(strategy):
        squads.finish()
        print(f"next: python -m pipelines.predict --model={squads.output / 'model'} --question=... --context_file=...")


class _Squad:
    """The runs of a grid and what they leave."""

    def __init__(self, strategy):
        self.output, self.strategy = pathlib.Path(_OF.output_dir.value), strategy
        self.models = (_OF.model.value or "").split(",")
        if not all(self.models) or len(set(self.models)) < len(self.models):
            raise ValueError(
                f"--model must be a directory or a name such as google-bert/bert-base-uncased, or several, each once. "
                f"Received: {_OF.model.value}"
            )
        self.bert = self._first_model()
        self.preprocessor = self.bert.preprocessor(_LENGTH.value, padding="longest")
        self.train = [self._read(path, _OF.max_train_examples.value) for path in _TRAIN.value]
        self.dev = self._read(_DEV.value)
        self.test = self._read(_PREDICT.value) if _PREDICT.value else None
        for path, part in zip(_TRAIN.value, self.train, strict=True):
            _check_answered(path, part.questions)
        golds = self.dev.questions.golds
        if not (any(golds) if _VERSION_2.value else all(golds)):
            raise ValueError(f"{_DEV.value}: {golds.count([])} question(s) have no answer to choose a run by")
        self.study = Study(self.output, "f1", _OF.ensemble.value, is_chief(strategy), combine=_mean)

    def _first_model(self):
        """The first model; the others must cut texts into the same pieces, for one set of windows."""
        first, *others = (keras_bert.load(name) for name in self.models)
        for name, bert in zip(self.models[1:], others, strict=True):
            if (bert.vocabulary, bert.lowercase, bert.strip_accents) != (
                first.vocabulary,
                first.lowercase,
                first.strip_accents,
            ):
                raise ValueError(
                    f"--model: {name} has another vocabulary or casing than {self.models[0]}. Expected one"
                )
        return first

    def _read(self, path, most=None):
        """The windows of a file; what cannot be used as it stands is told by id."""
        questions = squad.read(path, _VERSION_2.value).first(most)
        windows = QuestionWindows(questions, self.preprocessor, _STRIDE.value, _QUESTION.value)
        for names, what in (
            ([name for name, _, _ in questions.wrong], "answer(s) do not stand where the file says"),
            (
                [name for name in questions.ids if name in questions.contradicted],
                "question(s) have answers but are marked is_impossible; the answers score them, as in the official "
                "script, and they are learned as questions without answer, as in Google's program",
            ),
            (windows.unmapped, "question(s) have an answer without any place; they are not learned from"),
            (windows.inexact, "answer(s) begin or end within a piece; the pieces that cover them are taken"),
            (windows.long_questions, f"question(s) have more than {_QUESTION.value} pieces and lose their end"),
        ):
            if names:
                listed = ", ".join(names[:3] + ["..."] * (len(names) > 3))
                logging.warning("%s: %d %s: %s", path, len(names), what, listed)
        logging.info("%s: %d questions, %d windows", path, len(questions), len(windows.lengths))
        return windows

    def run(self):
        """Runs what is not finished of the grid."""
        common = {
            "train": [[path, len(part.questions)] for path, part in zip(_TRAIN.value, self.train, strict=True)],
            "dev": [_DEV.value, len(self.dev.questions)],
            "test": [_PREDICT.value, len(self.test.questions) if self.test else 0],
            **{flag.name: flag.value for flag in (_VERSION_2, _LENGTH, _STRIDE, _QUESTION, _ANSWER)},
            **common_flags.shared(_OF),
        }
        epochs, batch_size = (2, 48) if _VERSION_2.value else (3, 32)  # The paper's.
        settings = grid.settings(model=self.models, **common_flags.choices(_OF, batch_size, epochs))
        self.study.run(settings, common, self._run)

    def _run(self, setting, folder):
        """One run: scores, logits of dev and test, and how to save its model."""
        logging.info("%s", grid.folder_name(setting))
        keras.backend.clear_session()
        keras.utils.set_random_seed(setting["seed"])
        found = {}

        def keep(dev):
            _, threshold, official = self._score(dev)
            found.update(dev=dev, threshold=threshold)
            return official

        def metrics(_, outputs):
            official = keep(self.dev.flat(outputs))
            # Without their percent, as all studies have their scores.
            return {name: value / 100 for name, value in official.items() if name.endswith(("exact", "match", "f1"))}

        trainer, batches = self._trainer(setting, self.train[-1], folder, self._before(setting, folder), metrics)
        dev = keras_bert.Batches(self.dev.inputs(), self.dev.targets(), shuffle=False)
        scores = trainer.fit(batches, epochs=setting["epochs"], evaluation=dev)

        def predict(inputs):
            return trainer.predict(keras_bert.Batches(inputs, shuffle=False))

        if not found:  # It was cut after it had been trained to the end.
            keep(self.dev.logits(predict))
        logits = {"dev": found["dev"], "test": self.test.logits(predict) if self.test else {}}
        return scores, logits, lambda: self._save(trainer.model, found["threshold"])

    def _before(self, setting, folder):
        """The weights after all files but the last, each learned with a schedule of its own; `None` for one file."""
        weights = None
        for number, windows in enumerate(self.train[:-1], 1):
            trainer, batches = self._trainer(setting, windows, folder / f"before_{number}", weights)
            trainer.fit(batches, epochs=setting["epochs"])
            weights = trainer.model.get_weights()
        return weights

    def _trainer(self, setting, windows, folder, weights, metrics=()):
        """The trainer of a file, and its batches."""
        batches = keras_bert.Batches(
            *windows.examples(), setting["batch_size"], seed=setting["seed"], grouped=_OF.group_by_length.value
        )
        trainer = common_flags.trainer(
            _OF,
            setting,
            batches.steps,
            lambda: self._model(setting["model"], weights),
            keras_bert.span_loss(),
            metrics=metrics,
            directory=folder,
            strategy=self.strategy,
            settings={"model": setting["model"], "precision": _OF.precision.value},
        )
        return trainer, batches

    def _model(self, name, weights):
        bert = keras_bert.load(name, dtype=_OF.precision.value)
        is_continuation = bert.head == "question_answering"  # Its head is kept.
        model = bert.model() if is_continuation else keras_bert.build_span_labeler(bert.encoder)
        if weights is not None:
            model.set_weights(weights)
        return model

    def _score(self, logits):
        """What is answered to dev, the threshold for no answer, and the official scores."""
        answers = self.dev.answers(logits, _BEST.value, _ANSWER.value)
        threshold = squad_predictions.choose_threshold(self.dev.questions, answers)
        return answers, threshold, squad_predictions.score(self.dev.questions, answers, threshold)

    def _save(self, model, threshold):
        keras_bert.save(
            model,
            self.output / "model",
            self.bert.vocabulary,
            lowercase=self.bert.lowercase,
            task="squad",
            strip_accents=self.bert.strip_accents,
            sequence_length=_LENGTH.value,
            null_threshold=threshold,
        )

    def finish(self):
        """Writes what is made of all runs together."""
        answers, threshold, scores = self._score(self.study.logits("dev"))
        squad_predictions.write(self.output / "dev", answers, threshold)
        if self.test is not None:
            found = self.test.answers(self.study.logits("test"), _BEST.value, _ANSWER.value)
            squad_predictions.write(self.output / "test", found, threshold)
        report = {"scores": scores, "facts": self._facts(scores, threshold), **self.study.summary()}
        self._export()
        (self.output / "results.json").write_text(json.dumps(report, indent=1))
        (self.output / "results.md").write_text(self._markdown(report))
        rows = squad_predictions.report_rows(self.dev.questions, answers, threshold)
        write_report(
            self.output / "report.html",
            _title(),
            list(report["facts"].items()),
            self.study.metric,
            self.study.results,
            self.study.curves(),
            question_sections(rows, _VERSION_2.value),
        )
        print(f"\n{_title()}, dev\n{grid.markdown(report['summary'], self.study.metric)}", end="")
        print(_listed(scores))

    def _export(self):
        bert = keras_bert.load(self.output / "model")  # Anew: outside of any strategy, in float32.
        keras_bert.export(
            bert.model(),
            bert.preprocessor(_LENGTH.value, padding="longest"),
            self.output / "saved_model" / "1",
            stride=_STRIDE.value,
            max_question_length=_QUESTION.value,
            max_answer_length=_ANSWER.value,
            null_threshold=bert.null_threshold,
        )

    def _facts(self, scores, threshold):
        """What stands at the head of a report."""
        best = self.study.best()
        facts = {
            "training questions": "; ".join(
                f"{path}: {len(part.questions):,}" for path, part in zip(_TRAIN.value, self.train, strict=True)
            ),
            "dev questions": f"{_DEV.value}: {len(self.dev.questions):,}",
            "best run": grid.folder_name(best[0]["setting"]).replace(",", ", "),
            "scores on dev": _listed(scores),
        }
        if len(best) > 1:
            facts["scores on dev"] += f" (the {len(best)} best runs together)"
        if _VERSION_2.value:
            empty = squad_metrics.score(self.dev.questions, dict.fromkeys(self.dev.questions.ids, ""))
            facts["always no answer"] = f"F1 {empty['f1']:.2f}"
            facts["threshold of no answer"] = f"{threshold:.3f}, chosen on dev"
        return facts

    def _markdown(self, report):
        parts = [f"# {_title()}, dev", "", *(f"- {name}: {text}" for name, text in report["facts"].items()), ""]
        parts += [grid.markdown(report["summary"], self.study.metric)]
        parts += [grid.runs_table(self.study.results, self.study.metric)]
        return "\n".join([*parts, squad_published.comparison_table(report["scores"], _VERSION_2.value)])


def _check_answered(path, questions):
    """Without --version_2 a question that has no answer has nothing to be learned."""
    unanswered = [name for name, texts in zip(questions.ids, questions.golds, strict=True) if not texts]
    if unanswered and not _VERSION_2.value:
        raise ValueError(
            f"{path}: {len(unanswered)} question(s) have no answer to learn, the first is {unanswered[0]}. Expected "
            "`answers` of each, or --version_2, with which questions may have none"
        )


def _title():
    return f"SQuAD {'2.0' if _VERSION_2.value else '1.1'}"


def _listed(scores):
    """The scores in one line; numbers of questions are integers."""
    texts = {name: f"{value:,}" if isinstance(value, int) else f"{value:.2f}" for name, value in scores.items()}
    return ", ".join(f"{name.replace('_', ' ')} {text}" for name, text in texts.items())


def _mean(arrays):
    return np.mean(arrays, axis=0)


if __name__ == "__main__":
    common_flags.run(main)

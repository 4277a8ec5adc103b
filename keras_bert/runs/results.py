"""What a finished grid of runs leaves: scores, report, model card and SavedModel of the best model."""

import dataclasses
import functools
import logging
import textwrap

from keras_bert.checkpoints.load import load_models
from keras_bert.checkpoints.model_types import family_of
from keras_bert.exporting.export import export
from keras_bert.exporting.stored_options import task_facts
from keras_bert.files import write_json, write_text
from keras_bert.progress import announced
from keras_bert.reports.page import ReportHead, short_name
from keras_bert.reports.provenance import environment
from keras_bert.runs import grid, hardest_words, model_card
from keras_bert.runs.report import write_report
from keras_bert.tasks import summary as data_summary
from keras_bert.tasks.classification.predictions import threshold_text

_LOG = logging.getLogger("keras_bert")
_WARNINGS = ("data warning", "training warning", "warning")  # Facts that the report shows as warnings.


class Results:
    """Writes `results.json`, `results.md`, `report.html`, the model cards, and the SavedModel of finished runs.

    The attribute `results` has the content of `results.json`, set by `write`.
    """

    def __init__(self, finetuning):
        self.finetuning, self.task = finetuning, finetuning.task
        self.grid_runs, self.output = finetuning.grid_runs, finetuning.output
        self.results, self._parameters, self._thresholds = None, None, {}

    def write(self):
        """Scores the ensemble, writes all files and exports the best model. Returns the text to print."""
        grid_runs, task, report = self.grid_runs, self.task, self.task.report
        findings = self.find()
        bert = self.export_model()
        measured = report.summary, report.metric, findings.measured
        is_no_better = data_summary.no_better(*measured, findings.same) is not None
        warning = data_summary.beside_guesses(*measured, self.finetuning.is_held_out, findings.same)
        best = self.best_facts(findings.scores_line)
        facts = {
            **best,
            **self._lora_facts(),
            **findings.all_facts,
            **self.finetuning.facts,
            **({"data warning": "; ".join(report.warnings)} if report.warnings else {}),
            **({"training warning": advice} if (advice := grid_runs.best()[0].get("advice")) else {}),
            **({"warning": warning} if warning else {}),
        }
        self.results = {
            **findings.entries,
            "facts": facts,
            "data": report.summary.to_json(),
            "no_better_than_majority": is_no_better,
            **grid_runs.to_json(),
        }
        write_json(self.output / "results.json", self.results, measured=True)
        title, (statistics, runs) = f"{task.title}, {self.finetuning.evaluated_on}", self._tables()
        listed = (f"- {model_card.escaped(f'{name}: {text}')}" for name, text in facts.items())
        lines = [f"# {model_card.escaped(title)}", "", *listed, ""]
        several_seeds = any(row["runs"] > 1 for row in self.results["summary"])
        lines += [*(statistics if several_seeds else []), *runs, *findings.tables]
        write_text(self.output / "results.md", "\n".join(lines).rstrip() + "\n")
        with announced("writing the report"):
            self._write_report(facts, self._with_words(findings, bert))
        for folder in self.finetuning.formats():
            write_text(self.output / folder / "README.md", self._model_card(findings))
        messages = [*findings.lines, *([indented(f"warning: {warning}").lstrip()] if warning else [])]
        shown = {**best, **{name: text for name, text in findings.facts.items() if name == "thresholds"}}
        shown = [indented(f"{name}: {text}") for name, text in shown.items() if name != "settings"]  # Already printed.
        return "\n".join([*messages, "", title, *statistics, *shown, ""])

    def find(self):
        """Returns the `Findings` of the ensemble."""
        grid_runs, teacher = self.grid_runs, self.finetuning.plan.teacher
        dev, report = grid_runs.logits("dev"), self.task.report
        findings = report.conclude(dev, grid_runs.logits("test"), self.output)
        findings = report.with_confidence(findings, dev)
        return findings if teacher is None else teacher.compared(findings)

    def _with_words(self, findings, bert):
        """Returns the findings with the section of the words of the hardest examples, where there are any."""
        if self.finetuning.plan.folds is not None:
            return findings  # The kept model has seen the rows, which others have predicted.
        task = self.task
        try:
            judged = task.report.judge(self.grid_runs.logits("dev"))
            section = hardest_words.section(bert, judged, task.splits["train"])
        except Exception as error:  # A user's own task: the results of the training count more than this section.
            _LOG.warning("the report has no words of the hardest examples: %s", error)
            return findings
        return dataclasses.replace(findings, sections=[*findings.sections, *filter(None, [section])])

    def _tables(self):
        """Returns lists of Markdown tables, of the settings and of the runs; both are empty for a single run."""
        results, metric = self.grid_runs.results, self.grid_runs.metric
        if len(results) == 1:
            return [], []
        return [grid.statistics_table(self.results["summary"], metric)], [grid.runs_table(results, metric)]

    def best_facts(self, scores):
        """Returns entries about the best runs for the head of the report."""
        best = self.grid_runs.best()
        setting, epoch = best[0]["setting"], best[0].get("epoch")
        before = {"scores before training": data_summary.listed(best[0]["before"])} if "before" in best[0] else {}
        together = f" (ensemble of the {len(best)} best runs)" if len(best) > 1 else ""
        which = "best epoch" if self.finetuning.hyperparameters.best else "epoch"
        chosen = f"; {which} {epoch} of {setting['epochs']}" if epoch else ""
        if len(self.grid_runs.results) == 1:
            return {"settings": grid.setting_text(setting), **before, "scores on dev": scores + chosen}
        return {"best run": grid.setting_text(setting) + chosen, **before, "scores on dev": scores + together}

    def measured(self, findings):
        """Returns the scores of the headline, a dict."""
        return findings.measured

    def _lora_facts(self):
        """Returns an entry about the number of trained weights."""
        trained, rank = self.grid_runs.best()[0].get("trained_weights"), self.finetuning.hyperparameters.lora_rank
        if not trained:
            return {}
        return {"trained weights": f"{trained:,} of {self._parameters:,}: the head and LoRA adapters of rank {rank}"}

    def _model_card(self, findings):
        best = self.results["best"]
        settings = {**best["setting"], **self.finetuning.hyperparameters.to_dict()}
        settings |= {name: self.task.run_settings.get(name) for name in ("sequence_length", "class_weight")}
        settings |= self._thresholds
        scores = {name: best["scores"][name] for name in findings.measured if name in best["scores"]}
        config = self.task.config
        name, evaluated_on = self.output.resolve().name, self.finetuning.evaluated_on
        return model_card.text(
            name,
            self.task,
            evaluated_on,
            settings,
            scores,
            title=config.title,
            family=family_of(getattr(self.task.start.bert, "model_type", None)),
            package=config.package,
            facts=self.finetuning.facts,
            note=findings.note,
        )

    def _write_report(self, facts, findings):
        finetuning, grid_runs = self.finetuning, self.grid_runs
        replicas = finetuning.strategy.num_replicas_in_sync if finetuning.strategy else 1
        model = grid_runs.best()[0]["setting"].get("model", self.task.model)
        chosen = {name: {run["setting"][name] for run in grid_runs.results} for name in finetuning.settings[0]}
        settings = {name: ", ".join(map(str, sorted(values))) for name, values in chosen.items()}
        warnings = [facts[name] for name in _WARNINGS if name in facts]
        facts = {**facts, **({"parameters": f"{self._parameters:,}"} if self._parameters else {})}
        head = ReportHead(
            f"{self.task.title} - {short_name(model)}",
            {name: text for name, text in facts.items() if name not in _WARNINGS},
            run=environment(grid_runs.seconds(), replicas),
            settings={**settings, **finetuning.common()},
            warnings=[f"Warning: {warning}." for warning in warnings],
            headline=data_summary.headline(self.task.report, self.measured(findings), finetuning.evaluated_on),
        )
        path, runs = self.output / "report.html", grid_runs.results
        write_report(path, head, grid_runs.metric, runs, grid_runs.curves(), findings.sections, findings.errors)

    def export_model(self):
        """Exports the best model. Returns it."""
        with announced("exporting the model", delay=0):
            # Reloaded outside of any strategy, in float32.
            bert = (self.task.start.load or load_models)(self.output / "model")
            model = bert.model()
            self._parameters = model.count_params()
            named = None if bert.thresholds is None else threshold_text(bert.thresholds, bert.labels)
            self._thresholds = {"null_threshold": bert.null_threshold, "thresholds": named}
            export(
                model,
                bert.preprocessor(self.task.sequence_length, padding="longest"),
                self.output / "saved_model" / "1",
                columns=getattr(bert, "columns", None),
                task=task_facts(bert),
                overwrite=True,
                **export_options(self.task, bert),
            )
        return bert


def export_options(task, bert):
    """Returns the arguments of `export` that a task decides, for its saved model."""
    add_signatures = functools.partial(task.signatures, settings=task.settings)
    options = {"add_signatures": add_signatures, **task.export_options(bert)}
    return {**options, "confidence": bert.confidence} if task.calibrates else options


def indented(text):
    return textwrap.fill(text, 100, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)

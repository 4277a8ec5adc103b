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


@dataclasses.dataclass(frozen=True)
class ExportedModel:
    """The exported model, as what is written about it needs.

    Attributes:
        bert: the `LoadedBert`, or what a task loads instead; `None` for a model without words to explain.
        parameters: int, the number of its parameters.
        thresholds: dict of its thresholds as settings of the model card, by name.
    """

    bert: object
    parameters: int
    thresholds: dict = dataclasses.field(default_factory=dict)


class ResultsWriter:
    """Writes `results.json`, `results.md`, `report.html`, the model cards, and the SavedModel of finished runs.

    The attribute `results` has the content of `results.json`, set by `write`.
    """

    def __init__(self, finetuning):
        self.finetuning = finetuning
        self.task = finetuning.task
        self.grid_runs = finetuning.grid_runs
        self.output = finetuning.output
        self.results = None

    def write(self):
        """Scores the ensemble, writes all files and exports the best model. Returns the text to print."""
        findings = self.find()
        exported = self.export_model()
        no_better = data_summary.no_better(
            summary=self.task.report.summary,
            metric=self.task.report.metric,
            scores=findings.measured,
            same=findings.same,
        )
        warning = data_summary.beside_guesses(
            summary=self.task.report.summary,
            metric=self.task.report.metric,
            scores=findings.measured,
            is_held_out=self.finetuning.is_held_out,
            same=findings.same,
        )
        best = self.best_facts(findings.scores_line)
        facts = self._facts(findings, best, warning, exported)
        self.results = {
            **findings.entries,
            "facts": facts,
            "data": self.task.report.summary.to_json(),
            "no_better_than_majority": no_better is not None,
            **self.grid_runs.to_json(),
        }
        write_json(self.output / "results.json", self.results, measured=True)
        self._write_markdown(findings, facts)
        with announced("writing the report"):
            self._write_report(facts, self._with_words(findings, exported.bert), exported)
        for folder in self.finetuning.formats():
            write_text(self.output / folder / "README.md", self._model_card(findings, exported))
        return self._printed_text(findings, best, warning)

    def find(self):
        """Returns the `Findings` of the ensemble."""
        report = self.task.report
        teacher = self.finetuning.plan.teacher
        dev = self.grid_runs.logits("dev")
        findings = report.conclude(dev, self.grid_runs.logits("test"), self.output)
        findings = report.with_confidence(findings, dev)
        if teacher is not None:
            findings = teacher.compared(findings)
        return findings

    def export_model(self):
        """Exports the best model. Returns the `ExportedModel`."""
        with announced("exporting the model", delay=0):
            # Reloaded outside of any strategy, in float32.
            load = self.task.start.load or load_models
            bert = load(self.output / "model")
            model = bert.model()
            thresholds = None
            if bert.thresholds is not None:
                thresholds = threshold_text(bert.thresholds, bert.labels)
            export(
                model,
                bert.preprocessor(self.task.sequence_length, padding="longest"),
                self.output / "saved_model" / "1",
                columns=getattr(bert, "columns", None),
                task=task_facts(bert),
                overwrite=True,
                **export_options(self.task, bert),
            )
        return ExportedModel(
            bert=bert,
            parameters=model.count_params(),
            thresholds={"null_threshold": bert.null_threshold, "thresholds": thresholds},
        )

    def _facts(self, findings, best, warning, exported):
        """Returns the entries of the head of the report: those about the best runs, findings, data and warnings."""
        facts = dict(best)
        facts.update(self._lora_facts(exported))
        facts.update(findings.all_facts)
        facts.update(self.finetuning.facts)
        if self.task.report.warnings:
            facts["data warning"] = "; ".join(self.task.report.warnings)
        advice = self.grid_runs.best()[0].get("advice")
        if advice:
            facts["training warning"] = advice
        if warning:
            facts["warning"] = warning
        return facts

    def best_facts(self, scores):
        """Returns entries about the best runs for the head of the report."""
        best = self.grid_runs.best()
        setting = grid.setting_text(best[0]["setting"])
        chosen_epoch = self._epoch_text(best[0])
        before = {}
        if "before" in best[0]:
            before["scores before training"] = data_summary.listed(best[0]["before"])
        if len(self.grid_runs.results) == 1:
            return {"settings": setting, **before, "scores on dev": scores + chosen_epoch}
        together = ""
        if len(best) > 1:
            together = f" (ensemble of the {len(best)} best runs)"
        return {"best run": setting + chosen_epoch, **before, "scores on dev": scores + together}

    def _epoch_text(self, result):
        """Returns which epoch the model of a run is from, to follow another text; empty for a run without epochs."""
        epoch = result.get("epoch")
        if not epoch:
            return ""
        which = "best epoch" if self.finetuning.hyperparameters.best else "epoch"
        return f"; {which} {epoch} of {result['setting']['epochs']}"

    def headline_scores(self, findings):
        """Returns the scores of the headline, a dict."""
        return findings.measured

    def _lora_facts(self, exported):
        """Returns an entry about the number of trained weights, none without LoRA."""
        trained = self.grid_runs.best()[0].get("trained_weights")
        if not trained:
            return {}
        rank = self.finetuning.hyperparameters.lora_rank
        return {"trained weights": f"{trained:,} of {exported.parameters:,}: the head and LoRA adapters of rank {rank}"}

    def _write_markdown(self, findings, facts):
        """Writes `results.md`: the facts, and tables of the settings, the runs and the findings."""
        lines = [f"# {model_card.escaped(self._title)}", ""]
        for name, text in facts.items():
            lines.append(f"- {model_card.escaped(f'{name}: {text}')}")
        lines.append("")
        if any(row["runs"] > 1 for row in self.results["summary"]):
            lines.extend(self._statistics_tables())
        if len(self.grid_runs.results) > 1:
            lines.append(grid.runs_table(self.grid_runs.results, self.grid_runs.metric))
        lines.extend(findings.tables)
        write_text(self.output / "results.md", "\n".join(lines).rstrip() + "\n")

    @property
    def _title(self):
        return f"{self.task.title}, {self.finetuning.evaluated_on}"

    def _statistics_tables(self):
        """Returns a list with the Markdown table of the settings; it is empty for a single run."""
        if len(self.grid_runs.results) == 1:
            return []
        return [grid.statistics_table(self.results["summary"], self.grid_runs.metric)]

    def _printed_text(self, findings, best, warning):
        """Returns the text to print: warnings, the table of the settings, and facts about the best runs."""
        lines = list(findings.lines)
        if warning:
            lines.append(indented(f"warning: {warning}").lstrip())
        lines.extend(["", self._title])
        lines.extend(self._statistics_tables())
        shown = dict(best)
        shown.pop("settings", None)  # Already printed.
        if "thresholds" in findings.facts:
            shown["thresholds"] = findings.facts["thresholds"]
        for name, text in shown.items():
            lines.append(indented(f"{name}: {text}"))
        lines.append("")
        return "\n".join(lines)

    def _with_words(self, findings, bert):
        """Returns the findings with the section of the words of the hardest examples, where there are any."""
        if self.finetuning.plan.folds is not None:
            return findings  # The kept model has seen the rows, which others have predicted.
        try:
            judged = self.task.report.judge(self.grid_runs.logits("dev"))
            section = hardest_words.section(bert, judged, self.task.splits["train"])
        except Exception as error:  # A user's own task: the results of the training count more than this section.
            _LOG.warning("the report has no words of the hardest examples: %s", error)
            return findings
        sections = list(findings.sections)
        if section:
            sections.append(section)
        return dataclasses.replace(findings, sections=sections)

    def _write_report(self, facts, findings, exported):
        """Writes `report.html` and the file of the errors."""
        finetuning = self.finetuning
        model = self.grid_runs.best()[0]["setting"].get("model", self.task.model)
        replicas = finetuning.strategy.num_replicas_in_sync if finetuning.strategy else 1
        shown = {name: text for name, text in facts.items() if name not in _WARNINGS}
        shown["parameters"] = f"{exported.parameters:,}"
        warnings = []
        for name in _WARNINGS:
            if name in facts:
                warnings.append(f"Warning: {facts[name]}.")
        head = ReportHead(
            f"{self.task.title} - {short_name(model)}",
            shown,
            run=environment(self.grid_runs.seconds(), replicas),
            settings=self._tried_settings() | finetuning.common(),
            warnings=warnings,
            headline=data_summary.headline(self.task.report, self.headline_scores(findings), finetuning.evaluated_on),
        )
        write_report(
            self.output / "report.html",
            head,
            metric=self.grid_runs.metric,
            results=self.grid_runs.results,
            run_curves=self.grid_runs.curves(),
            sections=findings.sections,
            errors=findings.errors,
        )

    def _tried_settings(self):
        """Returns the values of the settings that the runs have, as texts by name."""
        tried = {}
        for name in self.finetuning.settings[0]:
            values = {run["setting"][name] for run in self.grid_runs.results}
            tried[name] = ", ".join(map(str, sorted(values)))
        return tried

    def _model_card(self, findings, exported):
        """Returns the text of the model card."""
        best = self.results["best"]
        settings = best["setting"] | self.finetuning.hyperparameters.to_dict()
        for name in ("sequence_length", "class_weight"):
            settings[name] = self.task.run_settings.get(name)
        settings.update(exported.thresholds)
        scores = {}
        for name in findings.measured:
            if name in best["scores"]:
                scores[name] = best["scores"][name]
        config = self.task.config
        return model_card.text(
            self.output.resolve().name,
            self.task,
            self.finetuning.evaluated_on,
            settings,
            scores,
            title=config.title,
            family=family_of(getattr(self.task.start.bert, "model_type", None)),
            package=config.package,
            facts=self.finetuning.facts,
            note=findings.note,
        )


def export_options(task, bert):
    """Returns the arguments of `export` that a task decides, for its saved model."""
    add_signatures = functools.partial(task.signatures, settings=task.settings)
    options = {"add_signatures": add_signatures}
    options.update(task.export_options(bert))
    if task.calibrates:
        options["confidence"] = bert.confidence
    return options


def indented(text):
    """Returns a text in lines of 100 characters, indented as what belongs to a title."""
    return textwrap.fill(text, 100, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)

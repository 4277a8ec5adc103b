"""The results of a cross-validation: also the predictions of all rows, and the rows whose labels are doubtful."""

import dataclasses
import logging

from keras_bert.files import write_text
from keras_bert.reports import label_checks
from keras_bert.runs import grid, rows_to_check
from keras_bert.runs.report import tsv_line
from keras_bert.runs.results import ResultsWriter

_LOG = logging.getLogger("keras_bert")
OUT_OF_FOLD = "out_of_fold.tsv"


class FoldResultsWriter(ResultsWriter):
    """Writes the results of folds, `out_of_fold.tsv` and the file of the rows to check."""

    def find(self):
        findings = super().find()
        self._write_predictions()
        return self._with_label_checks(findings)

    def _write_predictions(self):
        """Writes what each row is predicted by the model that was not trained on it."""
        judged = self.task.report.judge(self.grid_runs.logits("dev"))
        folds = self.grid_runs.assigned(self.grid_runs.chosen()["seed"]).tolist()
        columns = {"row": range(1, len(folds) + 1), "fold": folds}
        if judged is not None:
            columns.update(judged.by_row.table())
        lines = [tsv_line(list(columns))]
        for row in zip(*columns.values(), strict=True):
            lines.append(tsv_line(row))
        write_text(self.output / OUT_OF_FOLD, "".join(lines))

    def _with_label_checks(self, findings):
        """Returns the findings with the section of the rows to check, whose file is written."""
        try:
            checks = self.finetuning.label_checks()
        except ValueError as error:
            return _with_fact(findings, f"none: {error}")
        examples = self.task.splits["dev"][0].examples
        file = self._write_rows_to_check(examples, checks)
        unit = getattr(getattr(examples, "origin", None), "unit", "row")
        section = label_checks.section(checks, unit, file)
        findings = dataclasses.replace(findings, sections=[*findings.sections, section])
        if file is None:
            return findings
        return _with_fact(findings, f"{file}, the worst first")

    def _write_rows_to_check(self, examples, checks):
        """Writes the file of the rows to check, and returns its name; `None` if there is no file."""
        source = self.finetuning.plan.source
        if source is None:
            return None
        try:
            return rows_to_check.write(self.output, source, examples, checks)
        except (ValueError, OSError) as error:  # The file of the rows has changed, or is gone.
            _LOG.warning("%s is not written: %s", rows_to_check.NAME, error)
            return None

    def best_facts(self, scores):
        kept = f"{grid.setting_text(self.grid_runs.chosen())}; the model is trained on all rows"
        return {
            "best setting": kept,
            f"scores of {self.finetuning.evaluated_on}": self.grid_runs.means(),
            "scores of all rows": scores,
        }

    def headline_scores(self, findings):
        return self.results["best"]["scores"]  # The means over the folds.


def _with_fact(findings, text):
    """Returns findings with the fact about the rows to check."""
    return dataclasses.replace(findings, facts=findings.facts | {"rows to check": text})

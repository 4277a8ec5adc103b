"""What a report shows about question answering: scores by kind of question, and marked contexts."""

import dataclasses
import math
import operator
import re
import statistics

from keras_bert.heads.answers import character_offsets
from keras_bert.reports import charts, page
from keras_bert.reports.excerpts import excerpts
from keras_bert.reports.judged import LOOK, Judged
from keras_bert.reports.sections import calibration_section, length_rows, share_bar

_KIND = re.compile(r"\b(how\s+many|how\s+much|how|whom|whose|who|what|when|where|which|why)\b")
_OTHER = "other"
_LENGTHS = {"1": 1, "2": 2, "3 to 4": 4, "5 to 8": 8, "9 or more": math.inf}
_NONE = "none"
# The columns of `errors.tsv`, of a row.
_COLUMNS = {
    "id": operator.itemgetter("id"),
    "question": operator.itemgetter("question"),
    "gold answers": lambda row: " | ".join(dict.fromkeys(row["golds"])),
    "prediction": operator.itemgetter("prediction"),
    "probability": lambda row: f"{row['probability']:.4f}" if _confidence(row) >= 0 else "",
    "exact match": lambda row: f"{row['exact']:.4f}",
    "F1": lambda row: f"{row['f1']:.4f}",
    "context": operator.itemgetter("context"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class JudgedAnswers(Judged):
    """Judged answers, see `judge_answers`."""

    rows: list
    version_2: bool

    title, none = "Hardest questions of dev", "No answer is wrong."
    marks, once, wrong_first = ("gold answer", "prediction"), "context", False

    @classmethod
    def of_rows(cls, rows, version_2):
        """Judges rows, see `judge_answers`, in their order."""
        return cls(
            gold=[row["golds"] for row in rows],
            predicted=[row["prediction"] for row in rows],
            loss=[1 - row["f1"] for row in rows],
            right=[row["f1"] >= 1 for row in rows],
            texts={"context": [row["context"] for row in rows]},
            rows=rows,
            version_2=version_2,
        )

    @property
    def by_row(self):
        return self.of_rows(sorted(self.rows, key=operator.itemgetter("number")), self.version_2)

    @property
    def contents(self):
        return [(row["question"], row["context"]) for row in self.rows]

    def label_checks(self):
        return Judged.label_checks(self.by_row)

    @property
    def how(self):
        return (
            "Wrong answers, those with an F1 below 100%: {wrong}. The {shown} with the lowest, at most one for each "
            f"context, the most confident first: {LOOK.format('wrong gold answers')}Probabilities are relative to the "
            f"likeliest answers to the same question{', if there is an answer at all' * self.version_2}."
        )

    def overview(self):
        kinds = _scores(self.rows, _kind, lambda name, count: (name == _OTHER, -count, name))
        lengths = _scores(self.rows, _length, lambda name, _: [*_LENGTHS, _NONE].index(name))
        decisions = _decisions(self.rows) if self.version_2 else None
        return [page.render("tasks/questions/report.html", decisions=decisions, kinds=kinds, lengths=lengths)]

    def calibration(self):
        # The model's confidence in an answer; it has none in "no answer".
        answered = [row for row in self.rows if row["prediction"] and _confidence(row) >= 0]
        return calibration_section([row["probability"] for row in answered], [row["exact"] == 1 for row in answered])

    def lengths(self):
        return page.render(
            "lengths.html",
            name="Scores by length of the context",
            how="F1 by the number of characters of the context. Contexts that are longer than the model's input are "
            "read in overlapping windows.",
            heads=["characters", "number", "F1"],
            rows=length_rows([len(row["context"]) for row in self.rows], [row["f1"] for row in self.rows], share_bar),
        )

    def head(self, row):
        row = self.rows[row]
        golds = list(map(page.bold, dict.fromkeys(row["golds"])))
        sure = [page.percent(row["probability"], 1)] if _confidence(row) >= 0 else []
        gold = page.words("gold", page.words(*golds[:3], *["…"] * (len(golds) > 3), between=", "))
        said = ["no answer, the best would have" if sure else "no answer"]
        if row["prediction"]:
            said = [page.bold(row["prediction"]), *["with"] * bool(sure)]
        head = [page.isolated(row["id"]), gold if golds else "unanswerable", page.words("predicted", *said, *sure)]
        return [*head, f"F1 {page.percent(row['f1'], 1)}"]

    def paragraphs(self, row):
        row = self.rows[row]
        return [("question", row["question"]), *(("second", excerpt) for excerpt in _excerpts(row))]

    def columns(self):
        return {title: list(map(show, self.rows)) for title, show in _COLUMNS.items()}


def judge_answers(rows, version_2=False):
    """Judges answers to questions, which may have none in version 2; those with an F1 below 1 are wrong.

    `rows` is a list of dicts, one for each question of dev: `id`; `question` and `context`, strings; `golds`, a list of
    strings, empty if there is no answer; `gold_spans`, the known positions of the golds, a list of `(first byte, end
    byte)` in the context's UTF-8; `prediction`, a string, "" for no answer; `place`, its span, or `None`; `probability`
    of the best answer, or `None`; `exact` and `f1`, from 0 to 1.
    """
    numbered = [{**row, "number": number} for number, row in enumerate(rows)]
    return JudgedAnswers.of_rows(sorted(numbered, key=_confidence, reverse=True), version_2)


def _decisions(rows):
    """Confusion matrix and scores of answerable and unanswerable questions (SQuAD 2.0)."""
    counts = [[0, 0], [0, 0]]
    for row in rows:
        counts[not row["golds"]][not row["prediction"]] += 1
    right = counts[0][0] + counts[1][1]
    groups = {"HasAns": [row for row in rows if row["golds"]], "NoAns": [row for row in rows if not row["golds"]]}
    return {
        "counts": counts,
        "accuracy": f"{right:,} of {len(rows):,} decisions are correct, {page.percent(right / len(rows))}.",
        "groups": _table({**groups, "all": rows}),
    }


def _scores(rows, group, order):
    """Table of the scores of each group, named by the function `group`, by the `order` of its name and size."""
    groups = {}
    for row in rows:
        groups.setdefault(group(row), []).append(row)
    names = sorted(groups, key=lambda name: order(name, len(groups[name])))
    return _table({**{name: groups[name] for name in names}, "all": rows})


def _table(groups):
    """Table rows: number of questions and scores of each group."""
    return [
        [name, f"{len(some):,}", _mean(some, "exact"), _mean(some, "f1", share_bar)] for name, some in groups.items()
    ]


def _mean(rows, name, show=lambda mean: page.percent(mean, 1)):
    return show(statistics.fmean(row[name] for row in rows)) if rows else page.NOTHING


def _kind(row):
    match = _KIND.search(row["question"].lower())
    return " ".join(match[0].split()) if match else _OTHER


def _length(row):
    if not row["golds"]:
        return _NONE
    count = len(row["golds"][0].split())
    return next(name for name, most in _LENGTHS.items() if count <= most)


def _confidence(row):
    return row["probability"] if charts.drawable(row["probability"]) else -1.0


def _excerpts(row):
    """Excerpts of the context with gold answers and prediction marked: one, or two if these are far apart."""
    text = row["context"]
    golds = _places(text, row["gold_spans"])
    said = _places(text, [row["place"]] if row["place"] and row["prediction"] else [])
    # Show the gold answer nearest to the prediction.
    nearest = sorted(golds, key=lambda gold: max([0, *(max(gold[0] - last, first - gold[1]) for first, last in said)]))
    return excerpts(text, nearest[:1] + said, {"gold": golds, "said": said})


def _places(text, spans):
    """Converts byte spans to character spans; partially covered characters are included."""
    offsets, places = character_offsets(text), []
    for first, last in spans:
        first, last = max(0, first), min(last, len(offsets) - 1)
        if first < last:
            places.append((int(offsets[first + 1]) - 1, int(offsets[last])))
    return places

"""What a report shows about question answering: scores by kind of question, and marked contexts."""

import dataclasses
import math
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
_MOST_GOLDS = 3  # Gold answers to show above a context.
# The columns of `errors.tsv`, see `_error_cells`.
_COLUMNS = (
    "id",
    "question",
    "gold answers",
    "prediction",
    "probability",
    "exact match",
    "F1",
    "context",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class JudgedAnswers(Judged):
    """Judged answers, see `judge_answers`."""

    rows: list  # Those of `AnsweredQuestion`.
    numbers: list  # The place of each of them in dev.
    version_2: bool

    title = "Hardest questions of dev"
    none = "No answer is wrong."
    marks = ("gold answer", "prediction")
    once = "context"
    wrong_first = False

    @classmethod
    def of_questions(cls, questions, numbers, version_2):
        """Judges `AnsweredQuestion`s, see `judge_answers`, in the order of their numbers."""
        rows = []
        golds = []
        predicted = []
        f1 = []
        contexts = []
        for number in numbers:
            row = questions[number]
            rows.append(row)
            golds.append(row.golds)
            predicted.append(row.prediction)
            f1.append(row.f1)
            contexts.append(row.context)
        return cls(
            gold=golds,
            predicted=predicted,
            loss=[1 - score for score in f1],
            right=[score >= 1 for score in f1],
            texts={"context": contexts},
            rows=rows,
            numbers=list(numbers),
            version_2=version_2,
        )

    @property
    def by_row(self):
        row_of = dict(zip(self.numbers, self.rows, strict=True))
        return self.of_questions(row_of, range(len(row_of)), self.version_2)

    @property
    def contents(self):
        return [(row.question, row.context) for row in self.rows]

    def label_checks(self):
        return Judged.label_checks(self.by_row)

    @property
    def how(self):
        condition = ", if there is an answer at all" if self.version_2 else ""
        return (
            "Wrong answers, those with an F1 below 100%: {wrong}. The {shown} with the lowest, at most one for each "
            f"context, the most confident first: {LOOK.format('wrong gold answers')}Probabilities are relative to the "
            f"likeliest answers to the same question{condition}."
        )

    def overview(self):
        decisions = None
        if self.version_2:
            decisions = _decisions(self.rows)
        section = page.render(
            "tasks/question_answering/report.html",
            decisions=decisions,
            kinds=_scores_by_kind(self.rows),
            lengths=_scores_by_length(self.rows),
        )
        return [section]

    def calibration(self):
        # The model's confidence in an answer; it has none in "no answer".
        probabilities = []
        is_exact = []
        for row in self.rows:
            if row.prediction and _has_probability(row):
                probabilities.append(row.probability)
                is_exact.append(row.exact == 1)
        return calibration_section(probabilities, is_exact)

    def lengths(self):
        lengths = []
        scores = []
        for row in self.rows:
            lengths.append(len(row.context))
            scores.append(row.f1)
        return page.render(
            "lengths.html",
            name="Scores by length of the context",
            how="F1 by the number of characters of the context. Contexts that are longer than the model's input are "
            "read in overlapping windows.",
            heads=["characters", "number", "F1"],
            rows=length_rows(lengths, scores, share_bar),
        )

    def head(self, row):
        question = self.rows[row]
        return [
            page.isolated(question.id),
            _described_golds(question),
            _described_prediction(question),
            f"F1 {page.percent(question.f1, 1)}",
        ]

    def paragraphs(self, row):
        shown = [("question", self.rows[row].question)]
        for excerpt in _context_excerpts(self.rows[row]):
            shown.append(("second", excerpt))
        return shown

    def columns(self):
        columns = {title: [] for title in _COLUMNS}
        for row in self.rows:
            for title, cell in zip(_COLUMNS, _error_cells(row), strict=True):
                columns[title].append(cell)
        return columns


def judge_answers(questions, version_2=False):
    """Judges answers to questions, which may have none in version 2; those with an F1 below 1 are wrong.

    `questions` are the `AnsweredQuestion`s of dev; the most confident answers come first.
    """

    def confidence(number):
        return _confidence(questions[number])

    numbers = sorted(range(len(questions)), key=confidence, reverse=True)
    return JudgedAnswers.of_questions(questions, numbers, version_2)


def _error_cells(row):
    """Returns the cells of a question in `errors.tsv`."""
    return [
        row.id,
        row.question,
        " | ".join(dict.fromkeys(row.golds)),
        row.prediction,
        f"{row.probability:.4f}" if _has_probability(row) else "",
        f"{row.exact:.4f}",
        f"{row.f1:.4f}",
        row.context,
    ]


def _described_golds(row):
    """Returns the first gold answers for the line above a context."""
    if not row.golds:
        return "unanswerable"
    golds = list(map(page.bold, dict.fromkeys(row.golds)))
    shown = golds[:_MOST_GOLDS]
    if len(golds) > _MOST_GOLDS:
        shown.append("…")
    return page.words("gold", page.words(*shown, between=", "))


def _described_prediction(row):
    """Returns the answer with its probability for the line above a context."""
    probability = ""
    if _has_probability(row):
        probability = page.percent(row.probability, 1)
    if row.prediction and probability:
        return page.words("predicted", page.bold(row.prediction), "with", probability)
    if row.prediction:
        return page.words("predicted", page.bold(row.prediction))
    if probability:
        return page.words("predicted", "no answer, the best would have", probability)
    return page.words("predicted", "no answer")


def _decisions(rows):
    """Confusion matrix and scores of answerable and unanswerable questions (SQuAD 2.0)."""
    counts = [[0, 0], [0, 0]]
    with_answer = []
    without_answer = []
    for row in rows:
        counts[not row.golds][not row.prediction] += 1
        if row.golds:
            with_answer.append(row)
        else:
            without_answer.append(row)
    right = counts[0][0] + counts[1][1]
    return {
        "counts": counts,
        "accuracy": f"{right:,} of {len(rows):,} decisions are correct, {page.percent(right / len(rows))}.",
        "groups": [
            _score_row("HasAns", with_answer),
            _score_row("NoAns", without_answer),
            _score_row("all", rows),
        ],
    }


def _scores_by_kind(rows):
    """Table of the scores of each kind of question, the most frequent first, others last."""
    groups = _grouped(rows, _kind_of_question)

    def order(kind):
        return kind == _OTHER, -len(groups[kind]), kind

    table = [_score_row(kind, groups[kind]) for kind in sorted(groups, key=order)]
    return [*table, _score_row("all", rows)]


def _scores_by_length(rows):
    """Table of the scores of questions whose first gold answers have a similar length, "none" without an answer."""
    groups = _grouped(rows, _length_of_answer)
    table = [_score_row(name, groups[name]) for name in (*_LENGTHS, _NONE) if name in groups]
    return [*table, _score_row("all", rows)]


def _grouped(rows, name_of):
    """Returns the rows of each group by the name that a function tells of a row."""
    groups = {}
    for row in rows:
        groups.setdefault(name_of(row), []).append(row)
    return groups


def _score_row(name, rows):
    """Table row of a group: number of questions and scores."""
    exact = page.NOTHING
    f1 = page.NOTHING
    if rows:
        exact = page.percent(statistics.fmean(row.exact for row in rows), 1)
        f1 = share_bar(statistics.fmean(row.f1 for row in rows))
    return [name, f"{len(rows):,}", exact, f1]


def _kind_of_question(row):
    match = _KIND.search(row.question.lower())
    if not match:
        return _OTHER
    return " ".join(match[0].split())


def _length_of_answer(row):
    """Returns the name of the group of the first gold answer, by its number of words."""
    if not row.golds:
        return _NONE
    count = len(row.golds[0].split())
    for name, most in _LENGTHS.items():
        if count <= most:
            return name
    raise AssertionError("the last group has no limit")


def _has_probability(row):
    return charts.drawable(row.probability)


def _confidence(row):
    """Returns the probability of the best answer, or -1 without one."""
    return row.probability if _has_probability(row) else -1.0


def _context_excerpts(row):
    """Excerpts of the context with gold answers and prediction marked: one, or two if these are far apart."""
    golds = _character_spans(row.context, row.gold_spans)
    predicted = []
    if row.place and row.prediction:
        predicted = _character_spans(row.context, [row.place])
    shown = list(predicted)
    if golds:
        nearest = min(golds, key=lambda gold: _distance(gold, predicted))
        shown.insert(0, nearest)
    return excerpts(row.context, shown, {"gold": golds, "said": predicted})


def _distance(gold, predicted):
    """Returns the number of characters between a gold answer and the prediction, a list of no or one span."""
    distance = 0
    for first, end in predicted:
        distance = max(distance, gold[0] - end, first - gold[1])
    return distance


def _character_spans(text, byte_spans):
    """Converts byte spans to character spans; partially covered characters are included."""
    offsets = character_offsets(text)
    spans = []
    for first_byte, end_byte in byte_spans:
        first = max(0, first_byte)
        last = min(end_byte, len(offsets) - 1)
        if first < last:
            spans.append((int(offsets[first + 1]) - 1, int(offsets[last])))
    return spans

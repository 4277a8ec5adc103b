"""Report sections about question answering on dev: scores by kind of question, and the hardest questions."""

import math
import re
import statistics

from keras_bert.reports import charts, page
from keras_bert.reports.excerpts import excerpts
from keras_bert.reports.sections import calibration_section, length_rows, share_bar

_HARDEST = 20
_KIND = re.compile(r"\b(how\s+many|how\s+much|how|whom|whose|who|what|when|where|which|why)\b")
_OTHER = "other"
_LENGTHS = {"1": 1, "2": 2, "3 to 4": 4, "5 to 8": 8, "9 or more": math.inf}
_NONE = "none"


def question_report(rows, version_2=False):
    """Returns HTML sections about a question answering model, and the answers with an F1 below 1 for `errors.tsv`.

    Args:
        rows: list of dicts, one for each question of dev: `id`; `question` and `context`, strings; `golds`, a list of
            strings, empty if there is no answer; `gold_spans`, the known positions of the golds, a list of
            `(first byte, end byte)` in the context's UTF-8; `prediction`, a string, "" for no answer; `place`, its
            span, or `None`; `probability` of the best answer, or `None`; `exact` and `f1`, from 0 to 1.
        version_2: whether questions may have no answer.
    """
    wrong = _wrong(rows)
    hardest = _of_different_contexts(wrong)[:_HARDEST]
    # The model's confidence in an answer; it has none in "no answer".
    answered = [row for row in rows if row["prediction"] and _confidence(row) >= 0]
    tables = {"decisions": _decisions(rows) if version_2 else None, "kinds": _kinds(rows), "lengths": _lengths(rows)}
    sections = [
        page.render("tasks/questions/report.html", **tables),
        calibration_section([row["probability"] for row in answered], [row["exact"] == 1 for row in answered]),
        page.render(
            "lengths.html",
            name="Scores by length of the context",
            how="F1 by the number of characters of the context. Contexts that are longer than the model's input are "
            "read in overlapping windows.",
            heads=["characters", "number", "F1"],
            rows=length_rows([len(row["context"]) for row in rows], [row["f1"] for row in rows], share_bar),
        ),
        page.render(
            "tasks/questions/hardest_questions.html",
            version_2=version_2,
            wrong=f"{len(wrong):,} of {len(rows):,}",
            hardest=list(map(_described, hardest)),
        ),
    ]
    columns = ["id", "question", "gold answers", "prediction", "probability", "exact match", "F1", "context"]
    return sections, [columns, *map(_error, wrong)]


def _error(row):
    sure = f"{row['probability']:.4f}" if _confidence(row) >= 0 else ""
    golds = " | ".join(dict.fromkeys(row["golds"]))
    scores = [f"{row[name]:.4f}" for name in ("exact", "f1")]
    return [row["id"], row["question"], golds, row["prediction"], sure, *scores, row["context"]]


def _wrong(rows):
    """Returns the questions with an F1 below 1: the lowest F1 first, then the most confident."""
    return sorted((row for row in rows if row["f1"] < 1), key=lambda row: (row["f1"], -_confidence(row)))


def _of_different_contexts(rows):
    """Keeps the first question of each context."""
    first = {}
    for row in rows:
        first.setdefault(row["context"], row)
    return list(first.values())


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
        "groups": _scores(groups, rows),
    }


def _kinds(rows):
    """Scores by question word, the most frequent first, `other` last."""
    kinds = _grouped(rows, _kind)
    names = sorted(kinds, key=lambda name: (name == _OTHER, -len(kinds[name]), name))
    return _scores({name: kinds[name] for name in names}, rows)


def _lengths(rows):
    lengths = _grouped(rows, _length)
    return _scores({name: lengths[name] for name in (*_LENGTHS, _NONE) if name in lengths}, rows)


def _grouped(rows, name):
    groups = {}
    for row in rows:
        groups.setdefault(name(row), []).append(row)
    return groups


def _kind(row):
    match = _KIND.search(row["question"].lower())
    return " ".join(match[0].split()) if match else _OTHER


def _length(row):
    if not row["golds"]:
        return _NONE
    count = len(row["golds"][0].split())
    return next(name for name, most in _LENGTHS.items() if count <= most)


def _scores(groups, rows):
    """Table rows: number of questions and scores of each group, then of all questions."""
    return [
        [name, f"{len(some):,}", _mean(some, "exact"), _mean(some, "f1", share_bar)]
        for name, some in {**groups, "all": rows}.items()
    ]


def _mean(rows, name, show=lambda mean: page.percent(mean, 1)):
    return show(statistics.fmean(row[name] for row in rows)) if rows else page.NOTHING


def _confidence(row):
    return row["probability"] if charts.drawable(row["probability"]) else -1.0


def _described(row):
    """Returns the template's values for a question."""
    return {
        "id": row["id"],
        "question": row["question"],
        "golds": list(dict.fromkeys(row["golds"])),
        "prediction": row["prediction"],
        "sure": page.percent(row["probability"], 1) if _confidence(row) >= 0 else "",
        "f1": page.percent(row["f1"], 1),
        "excerpts": _excerpts(row),
    }


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
    data, places = text.encode("utf-8", "replace"), []
    for first, last in spans:
        first, last = max(0, first), min(last, len(data))
        if first < last:
            while last < len(data) and data[last] & 0xC0 == 0x80:  # A UTF-8 continuation byte.
                last += 1
            places.append(tuple(len(data[:byte].decode("utf-8", "ignore")) for byte in (first, last)))
    return places

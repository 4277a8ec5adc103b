"""What a model answers to questions on dev, for the report: kinds of questions, and the hardest with their contexts."""

import itertools
import math
import re
import statistics

from keras_bert.experiments.reports import charts, page

_HARDEST = 20
_QUESTION = 600  # Characters of a question that are shown.
_GOLDS = 3  # Answers of a question that are listed.
_AROUND = 130  # Characters of the context that are shown before and behind an answer.
_ANSWER = 300  # Characters of a long answer that are shown.
_GAP = 40  # Two excerpts are one where no more characters lie between them.
_WORD = 20  # Characters by which an excerpt is shortened at most, to begin and end with a whole word.
_KIND = re.compile(r"\b(how\s+many|how\s+much|how|whom|whose|who|what|when|where|which|why)\b")
_OTHER = "other"
_LENGTHS = {"1": 1, "2": 2, "3 to 4": 4, "5 to 8": 8, "9 and more": math.inf}
_NONE = "none"
_ROW = ("id", "question", "context", "golds", "gold_spans", "prediction", "place", "probability", "exact", "f1")


def question_sections(rows, version_2=False):
    """Sections about a model that answers questions from contexts.

    Args:
        rows: list of dicts, one for each question of dev: `id`; `question` and `context`, texts; `golds`, a list of
            texts, none where there is no answer; `gold_spans`, where they stand, a list of
            `(first byte, byte behind the last)` in the UTF-8 of the context, which may lack some; `prediction`, a text,
            "" for no answer; `place`, where it stands, or `None`; `probability` of the best answer, or `None`; `exact`
            and `f1`, from 0 to 1.
        version_2: whether questions may have no answer.
    """
    _check(rows)
    sections = [_kinds(rows), _hardest(rows, version_2)]
    return [_decisions(rows), *sections] if version_2 else sections


def _check(rows):
    if not rows:
        raise ValueError(f"`rows` must have a question at least. Received: rows={rows}")
    for number, row in enumerate(rows):
        if lacking := [name for name in _ROW if name not in row]:
            raise ValueError(f"`rows[{number}]` lacks {', '.join(lacking)}. Received: {', '.join(row)}")
        for name in ("exact", "f1"):
            if not 0 <= row[name] <= 1:
                raise ValueError(
                    f"`rows[{number}]` must have a score from 0 to 1, not percent. Received: {name}={row[name]}"
                )


# Kinds


def _decisions(rows):
    """Version 2: whether there is an answer."""
    counts = [[0, 0], [0, 0]]
    for row in rows:
        counts[not row["golds"]][not row["prediction"]] += 1
    right = counts[0][0] + counts[1][1]
    how = (
        "A row for what is true, a column for what is predicted: how many questions, and their share of the row, which "
        "shades the cell. On the diagonal the decision is right, though the answer that is given may be wrong. "
        "HasAns are the questions with an answer, NoAns those without."
    )
    groups = {
        "HasAns": [row for row in rows if row["golds"]],
        "NoAns": [row for row in rows if not row["golds"]],
    }
    return page.section(
        "Answer or no answer",
        how,
        page.box(charts.heat(counts, ["answer", "no answer"])),
        page.note(f"{right:,} of {len(rows):,} decisions are right, {right / len(rows):.2%}."),
        _table("questions", groups, rows),
    )


def _kinds(rows):
    how = (
        "Exact match and F1, times 100, first by the question word that stands first in a question, in English, then "
        "by the length of the first gold answer, in words that spaces separate."
    )
    kinds = _grouped(rows, _kind)
    # The most frequent first, the others last.
    names = sorted(kinds, key=lambda name: (name == _OTHER, -len(kinds[name]), name))
    lengths = _grouped(rows, _length)
    tables = (
        _table("kind", {name: kinds[name] for name in names}, rows),
        _table("words", {name: lengths[name] for name in (*_LENGTHS, _NONE) if name in lengths}, rows),
    )
    return page.section("Kinds of questions", how, f'<div class="pair">{"".join(tables)}</div>')


def _grouped(rows, name):
    groups = {}
    for row in rows:
        groups.setdefault(name(row), []).append(row)
    return groups


def _kind(row):
    found = _KIND.search(row["question"].lower())
    return " ".join(found[0].split()) if found else _OTHER


def _length(row):
    if not row["golds"]:
        return _NONE
    count = len(row["golds"][0].split())
    return next(name for name, most in _LENGTHS.items() if count <= most)


def _table(head, groups, rows):
    """How many questions each group has, and their scores; all of them last."""
    lines = [
        [name, f"{len(some):,}", _mean(some, "exact"), _bar(some)] for name, some in {**groups, "all": rows}.items()
    ]
    return page.table([head, "number", "exact", "F1"], lines, 1, len(lines) - 1)


def _mean(rows, name):
    return f"{100 * statistics.fmean(row[name] for row in rows):.1f}" if rows else page.NOTHING


def _bar(rows):
    share = statistics.fmean(row["f1"] for row in rows) if rows else 0.0
    return f'<span class="bar" style="--share:{share:.3f}">{_mean(rows, "f1")}</span>'


# The hardest


def _hardest(rows, version_2):
    name = "Hardest questions of dev"
    wrong = [row for row in rows if row["f1"] < 1]
    if not wrong:
        return page.section(name, "The questions whose answers are wrong.", page.note("No answer is wrong."))
    hardest = sorted(wrong, key=lambda row: (row["f1"], -_sureness(row)))[:_HARDEST]
    how = (
        f"Wrong answers, those with an F1 below 100: {len(wrong):,} of {len(rows):,}. The {len(hardest)} with the "
        "lowest, the surest first: look here for wrong gold answers and for what the model does not understand. "
        "Probabilities are those of an answer among the likeliest ones of its question"
    )
    how += ", if there is an answer at all." if version_2 else "."
    marks = (("gold", "gold answer"), ("said", "prediction"), ("gold said", "both"))
    key = "".join(f'<li><mark class="{style}">{text}</mark></li>' for style, text in marks)
    items = "".join(map(_item, hardest))
    return page.section(name, how, f'<ul class="key">{key}</ul>', f'<ol class="hard">{items}</ol>')


def _sureness(row):
    return row["probability"] if charts.drawable(row["probability"]) else -1.0


def _item(row):
    golds = list(dict.fromkeys(row["golds"]))
    texts = [page.bold(gold) for gold in golds[:_GOLDS]] + ["…"] * (len(golds) > _GOLDS)
    parts = [
        f"<bdi>{page.escape(row['id'])}</bdi>",
        f"gold {', '.join(texts)}" if golds else "unanswerable",
        _predicted(row),
        f"F1 {100 * row['f1']:.1f}",
    ]
    excerpts = (f'<p dir="auto" class="second">{excerpt}</p>' for excerpt in _excerpts(row))
    question = f'<p dir="auto" class="question">{page.escape(page.cut(row["question"], _QUESTION))}</p>'
    return f'<li><p class="head">{" · ".join(parts)}</p>{question}{"".join(excerpts)}</li>'


def _predicted(row):
    sure = f"{row['probability']:.1%}" if _sureness(row) >= 0 else ""
    if row["prediction"]:
        return f"predicted {page.bold(row['prediction'])}" + (f" with {sure}" if sure else "")
    return "predicted no answer" + (f", the best would have {sure}" if sure else "")


# Excerpts


def _excerpts(row):
    """The context around gold answers and prediction, both marked: one part of it, or two that are far apart."""
    text = row["context"]
    golds = _places(text, row["gold_spans"])
    said = _places(text, [row["place"]] if row["place"] and row["prediction"] else [])
    # Of several gold answers, around the nearest.
    nearest = sorted(golds, key=lambda gold: max([0, *(max(gold[0] - last, first - gold[1]) for first, last in said)]))
    marks = {"gold": golds, "said": said}
    return [_marked(text, begin, end, marks) for begin, end in _windows(text, nearest[:1] + said)]


def _places(text, spans):
    """Spans of bytes as spans of characters; a character that is cut belongs to its span."""
    data, found = text.encode("utf-8", "replace"), []
    for first, last in spans:
        first, last = max(0, first), min(last, len(data))
        if first < last:
            while last < len(data) and data[last] & 0xC0 == 0x80:  # No first byte of a character.
                last += 1
            found.append(tuple(len(data[:byte].decode("utf-8", "ignore")) for byte in (first, last)))
    return found


def _windows(text, places):
    """Where excerpts begin and end: around the places, as one if they meet; the beginning of the text for none."""
    windows = []
    for first, last in sorted(places) or [(0, _AROUND)]:
        begin, end = max(0, first - _AROUND), min(len(text), min(last, first + _ANSWER) + _AROUND)
        if windows and begin <= windows[-1][1] + _GAP:
            windows[-1] = windows[-1][0], max(windows[-1][1], end)
        else:
            windows.append((begin, end))
    return [_whole_words(text, begin, end) for begin, end in windows]


def _whole_words(text, begin, end):
    if begin:
        begin = max(begin, text.find(" ", begin, begin + _WORD) + 1)
    space = text.rfind(" ", end - _WORD, end) if end < len(text) else -1
    return begin, end if space < 0 else space


def _marked(text, begin, end, marks):
    """A part of a text as HTML with an ellipsis for what it lacks; `marks` are spans of characters by style."""

    def style(place):
        return " ".join(name for name, spans in marks.items() if any(first <= place < last for first, last in spans))

    parts = ["… "] if begin else []
    for name, places in itertools.groupby(range(begin, end), style):
        places = list(places)
        piece = page.escape(text[places[0] : places[-1] + 1])
        parts.append(f'<mark class="{name}">{piece}</mark>' if name else piece)
    return "".join(parts + [" …"] * (end < len(text)))

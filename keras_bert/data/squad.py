"""Reads questions about contexts, and the positions of their answers: SQuAD 1.1 and 2.0, and one question in each row.

A row has `question`, `context` and `answers`: a dict of lists, `text` and `answer_start`, as on the hub; a list of
dicts or of strings; one string; or nothing for a question without an answer. A column `answer_start` has the positions
of strings; an answer without a position is at its first occurrence.
"""

import dataclasses
import math
import re

import numpy as np

from keras_bert.data.formats import source
from keras_bert.data.task_data import Rows
from keras_bert.data.text_files import valid_text
from keras_bert.files import fingerprint

ANSWERS = ("answers", "answer", "answer_text")  # Columns of rows, of which the first one counts.
_WORDS = {"": None, "true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}
START = "answer_start"  # Also the column of the position of an answer that is a string.


@dataclasses.dataclass(frozen=True)
class Questions(Rows):
    """Questions about contexts, and their answers.

    Args:
        spans: the lists of the answers' positions: `(first byte, last byte + 1)` in the UTF-8 encoded context.
        wrong: `(id, text, place)` of answers that are not at their `answer_start`. They are missing from `spans`.
        contradicted: ids of questions with answers that are marked as impossible. Scores use the answers, as in the
            official script of version 2.0; training uses the mark, as in Google's program.
    """

    contexts: list  # The paragraphs.
    ids: list
    questions: list
    context: np.ndarray  # The index of the context of each question, `(questions,)`.
    golds: list  # The answers of each question.
    spans: list
    version_2: bool  # Whether questions may have no answer.
    wrong: list
    contradicted: frozenset = frozenset()

    content = ("ids", "questions", "context", "golds", "spans")
    group = "contexts"

    def groups(self):
        return [self.contexts[number] for number in self.context]

    def at(self, numbers):
        """Returns the questions of these numbers, with what is told of them."""
        chosen = super().at(numbers)
        ids = set(chosen.ids)
        wrong = [answer for answer in self.wrong if answer[0] in ids]
        return dataclasses.replace(chosen, wrong=wrong, contradicted=self.contradicted & ids)

    def with_notes(self, document, notes):
        """Returns a document in SQuAD's format with notes on its questions, or `None` for one of another format.

        Articles, and their paragraphs and questions, are in the order of the notes that come first in them; those
        without notes come last. What is not noted stays as it is.

        Args:
            document: the JSON object of the file that the questions were read from, or `None`.
            notes: dict of dicts by the number of the question, those that come first before others. A name that a
                question of the file has itself gets an underscore.
        """
        if document is None or not _is_nested(document):
            return None
        by_id = {self.ids[row]: note for row, note in notes.items()}
        places = {name: place for place, name in enumerate(by_id)}
        articles = []
        for article in document["data"]:
            paragraphs = []
            for paragraph in article["paragraphs"]:
                questions = sorted(paragraph["qas"], key=lambda entry: places.get(str(entry["id"]), math.inf))
                noted = [_with_note(entry, by_id.get(str(entry["id"]), {})) for entry in questions]
                paragraphs.append({**paragraph, "qas": noted})
            paragraphs.sort(key=lambda paragraph: _first_place(paragraph, places))
            articles.append({**article, "paragraphs": paragraphs})
        articles.sort(key=lambda article: _first_place(article["paragraphs"][0], places))
        return {**document, "data": articles}

    def fingerprint(self):
        """Returns a hash of the questions, contexts and answers, to recognize changed data."""
        context = self.context.tolist()
        return fingerprint([self.contexts, self.ids, self.questions, context, self.golds, self.spans])


def read(path, version_2=None):
    """Reads `Questions` from a source, or the file of a path.

    `version_2`, whether questions may have no answer, defaults to the version of the file. `False` ignores
    `is_impossible`, which version 1.1 does not have. All errors other than those in `wrong` raise a ValueError that
    names the question or paragraph.
    """
    origin = source(path)
    paragraphs, says_2 = _paragraphs(origin)
    contexts, ids, questions, context, golds, spans = [], [], [], [], [], []
    seen, wrong, contradicted = {}, [], set()
    for place, paragraph, is_row in paragraphs:
        text = valid_text(field(place, paragraph, "context", str))
        if not text.strip():
            raise ValueError(f"{place}: the context is empty. Expected a string")
        bytes_before = _bytes_before(text)
        for number, entry in enumerate(field(place, paragraph, "qas", list)):
            name = _question_id(place, number, entry)
            if name in seen and is_row:
                raise ValueError(f"{place}: the id {name} is also that of {seen[name]}. Expected unique ids")
            if name in seen:
                raise ValueError(f"{origin}: two questions have the id {name}. Expected unique ids")
            seen[name] = place
            says_2 |= "is_impossible" in entry
            own = place if is_row else f"{origin}: {name}"
            answers = _answers(own, entry, text)
            if answers and entry.get("is_impossible"):
                contradicted.add(name)
            found = [_locate(text, bytes_before, *answer) for answer in answers]
            wrong += [(name, *answer) for answer, span in zip(answers, found, strict=True) if span is None]
            ids.append(name)
            questions.append(valid_text(field(own, entry, "question", str)))
            context.append(len(contexts))
            golds.append([answer for answer, _ in answers])
            spans.append([span for span in found if span is not None])
        contexts.append(text)
    if not ids:
        raise ValueError(f"{origin}: the file contains no questions")
    version_2 = says_2 if version_2 is None else version_2
    unanswered = [name for name, gold in zip(ids, golds, strict=True) if not gold]
    if not version_2 and says_2 and unanswered:
        first = unanswered[0]
        raise ValueError(
            f"{seen[first] if is_row else origin}: {len(unanswered)} question(s) have no answer, the first is {first}: "
            "this is SQuAD 2.0. Expected `version_2=True`. Received: version_2=False"
        )
    context, contradicted = np.array(context, np.int64), frozenset(contradicted if version_2 else ())
    return Questions(contexts, ids, questions, context, golds, spans, version_2, wrong, contradicted)


def _paragraphs(origin):
    """Returns place, paragraph and whether it is a row of each paragraph, and whether they are SQuAD 2."""
    articles = (origin.document or {}).get("data")
    nested = origin.document is not None and _is_nested(origin.document)
    if nested or (origin.document is not None and not isinstance(articles, list)):
        content = checked_object(origin, origin.document, "SQuAD", "data")
        return _nested(origin, articles), str(content.get("version", "")).lstrip("v").startswith("2")
    rows = [_row(origin, number, row) for number, row in origin.rows(("question", "context"))]
    return rows, not all(row["qas"][0]["answers"] for _, row, _ in rows)


def _is_nested(document):
    """Whether a JSON object has articles with paragraphs, as SQuAD's files, rather than rows."""
    articles = document.get("data")
    return isinstance(articles, list) and not any(isinstance(one, dict) and "context" in one for one in articles[:1])


def _first_place(paragraph, places):
    """Returns the place of the question of a paragraph that comes first, given places by id."""
    return min((places.get(str(entry["id"]), math.inf) for entry in paragraph["qas"]), default=math.inf)


def _with_note(entry, note):
    """Returns a question with the values of a note; names that it has itself get an underscore."""
    found = dict(entry)
    for name, value in note.items():
        while name in entry:
            name = f"{name}_"
        found[name] = value
    return found


def _row(origin, number, row):
    """Returns the place of a row, the paragraph with its question, and that it is a row."""
    if isinstance(row, ValueError):
        raise row
    place = origin.place(number)
    if "id" in row and row["id"] in (None, ""):
        raise ValueError(f"{place}: `id` is missing. Expected one of its own in each row, or no column `id`")
    answers = next((row[name] for name in ANSWERS if name in row), None)
    entry = {
        "question": row["question"],
        "answers": _listed(place, answers, row.get(START)),
        "id": str(row.get("id", number)),
    }
    is_impossible = _flag(place, row.get("is_impossible"))
    if is_impossible is not None:
        entry["is_impossible"] = is_impossible
    return place, {"context": row["context"], "qas": [entry]}, True


def _flag(place, value):
    """Returns the value of `is_impossible`, a word in tables; `None` for an absent one."""
    if not isinstance(value, str):
        return value
    word = value.strip().lower()
    if word not in _WORDS:
        raise ValueError(f"{place}: `is_impossible` must be true or false. Received: {value!r:.80}")
    return _WORDS[word]


def _listed(place, answers, starts):
    """Returns the answers of a row as a list of dicts with `text` and `answer_start`.

    `starts` is the column of positions: one, or as many as there are answers, or `None`.
    """
    if isinstance(answers, dict):  # As on the hub.
        starts = answers.get(START)
        answers = answers.get("text")
    if not isinstance(answers, list):
        answers = [] if answers in (None, "") else [answers]
        starts = starts if isinstance(starts, list) or not answers else [starts]
    if starts in (None, ""):
        starts = [None] * len(answers)
    starts = starts if isinstance(starts, list) else [starts]
    if len(starts) != len(answers) and answers:
        raise ValueError(
            f"{place}: expected one `{START}` for each answer. Received: {len(answers)} answer(s) and {len(starts)} "
            f"`{START}`"
        )
    listed = []
    for answer, start in zip(answers, starts, strict=False):
        if isinstance(answer, dict):
            listed.append(answer)
        elif answer not in (None, ""):
            listed.append({"text": answer, START: _position(start)})
    return listed


def _position(value):
    """Returns a position as an integer: a word in tables, and a float beside missing values of data frames."""
    if isinstance(value, str):
        word = value.strip().removesuffix(".0")
        if not word:
            return None
        return int(word) if re.fullmatch("-?[0-9]{1,12}", word) else value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _question_id(place, number, entry):
    name = entry.get("id") if isinstance(entry, dict) else None
    if name in (None, ""):
        raise ValueError(f"{place}: question {number} has no `id`")
    return str(name)


def checked_object(place, content, name, key):
    """Returns a JSON object with a list under `key`, in the format of the data set `name`."""
    if not isinstance(content, dict) or not isinstance(content.get(key), list):
        raise ValueError(f"{place}: expected {name}'s format, an object with a list `{key}`")
    return content


def _nested(origin, articles):
    for number, article in enumerate(articles):
        title = article.get("title", "") if isinstance(article, dict) else ""
        place = f"{origin}: article {number}" + (f" ({title})" if title else "")
        paragraphs = field(place, article, "paragraphs", list)
        if not paragraphs:
            raise ValueError(f"{place} has no paragraphs")
        for index, paragraph in enumerate(paragraphs):
            yield f"{place}, paragraph {index}", paragraph, False


def field(place, entry, name, kind, default=None):
    """Returns a value of a JSON object, or raises an error with its place in the file if the type is wrong."""
    value = entry.get(name, default) if isinstance(entry, dict) else None
    if not isinstance(value, kind):
        expected = {str: "a string", list: "a list", dict: "an object", int: "an integer"}[kind]
        raise ValueError(f"{place}: `{name}` must be {expected}. Received: {value!r:.80}")
    return value


def _answers(place, entry, context):
    """Returns `(text, first character)` of each answer; answers are optional."""
    if "answers" not in entry:
        return []
    return [_answer(place, answer, context) for answer in field(place, entry, "answers", list)]


def _answer(place, answer, context):
    text = valid_text(field(place, answer, "text", str))
    if "answer_start" in answer and answer["answer_start"] is None:
        if text not in context:
            raise ValueError(f"{place}: the answer {text!r:.100} is not in the context of its question")
        return text, context.index(text)
    return text, field(place, answer, "answer_start", int)


def _bytes_before(text):
    """Returns the number of UTF-8 bytes before each character, and the total."""
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    sizes = 1 + (codes > 0x7F) + (codes > 0x7FF) + (codes > 0xFFFF)
    return np.concatenate([[0], np.cumsum(sizes)])


def _locate(text, bytes_before, answer, start):
    """Returns the byte range of an answer, stripped of white space; `None` if the answer is not at `start`."""
    if start < 0 or not answer.strip() or text[start : start + len(answer)] != answer:
        return None
    first = start + len(answer) - len(answer.lstrip())
    return int(bytes_before[first]), int(bytes_before[first + len(answer.strip())])

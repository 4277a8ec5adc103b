"""Reads questions about contexts, and the positions of their answers: SQuAD 1.1 and 2.0, and one question in each row.

A row has `question`, `context` and `answers`: a dict of lists, `text` and `answer_start`, as on the hub; a list of
dicts or of strings; one string; or nothing for a question without an answer. A column `answer_start` has the positions
of strings; an answer without a position is at its first occurrence.
"""

import dataclasses
import math
import re
from collections.abc import Iterable
from typing import Any

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
        notes_by_id = {self.ids[row]: note for row, note in notes.items()}
        places = {name: place for place, name in enumerate(notes_by_id)}
        articles = []
        for article in document["data"]:
            paragraphs = []
            for paragraph in article["paragraphs"]:
                paragraphs.append(_noted_paragraph(paragraph, notes_by_id, places))
            paragraphs.sort(key=lambda paragraph: _first_place(paragraph, places))
            articles.append(article | {"paragraphs": paragraphs})
        articles.sort(key=lambda article: _first_place(article["paragraphs"][0], places))
        return document | {"data": articles}

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
    document = _read_document(origin)
    contexts = []
    questions = []
    places = {}  # Of each question by its id.
    for paragraph in document.paragraphs:
        context = _Context(_paragraph_text(paragraph), index=len(contexts))
        for number, entry in enumerate(field(paragraph.place, paragraph.content, "qas", list)):
            name = _question_id(paragraph.place, number, entry)
            if name in places:
                raise _repeated_id(origin, document, paragraph, name, places[name])
            places[name] = paragraph.place
            place = paragraph.place if document.has_rows else f"{origin}: {name}"
            questions.append(_read_question(place, name, entry, context))
        contexts.append(context.text)
    if not questions:
        raise ValueError(f"{origin}: the file contains no questions")
    says_2 = document.says_2 or any(question.has_flag for question in questions)
    if version_2 is None:
        version_2 = says_2
    unanswered = [question.id for question in questions if not question.answers]
    if says_2 and unanswered and not version_2:
        first = unanswered[0]
        place = places[first] if document.has_rows else origin
        raise ValueError(
            f"{place}: {len(unanswered)} question(s) have no answer, the first is {first}: this is SQuAD 2.0. Expected "
            "`version_2=True`. Received: version_2=False"
        )
    return _as_columns(contexts, questions, version_2)


@dataclasses.dataclass(frozen=True)
class _Document:
    """A file of questions."""

    paragraphs: Iterable  # Of `_Paragraph`.
    has_rows: bool  # Whether each paragraph is a row, with one question.
    says_2: bool  # Whether the file says, before its questions are read, that some have no answer.


@dataclasses.dataclass(frozen=True)
class _Paragraph:
    """A paragraph as it is in the file."""

    place: str  # How messages call it.
    content: Any  # The JSON object with `context` and `qas`.


class _Context:
    """The text of a paragraph, and where it is in the UTF-8 encoded text."""

    def __init__(self, text, index):
        self.text = text
        self.index = index  # Among all contexts.
        self._bytes_before = _bytes_before(text)

    def locate(self, answer, start):
        """Returns the byte range of an answer, stripped of white space; `None` if the answer is not at `start`."""
        content = answer.strip()
        if start < 0 or not content or self.text[start : start + len(answer)] != answer:
            return None
        first = start + len(answer) - len(answer.lstrip())
        return int(self._bytes_before[first]), int(self._bytes_before[first + len(content)])


@dataclasses.dataclass(frozen=True)
class _Question:
    """A question that has been read."""

    id: str
    text: str
    context: int  # The index of its context.
    answers: list  # `(text, first character)` of each.
    spans: list  # The byte range of each answer, or `None`.
    has_flag: bool  # Whether it says if it is impossible, which version 1.1 does not.
    is_impossible: bool

    @property
    def wrong(self):
        """The answers that are not at their place, `(id, text, first character)`."""
        wrong = []
        for (text, start), span in zip(self.answers, self.spans, strict=True):
            if span is None:
                wrong.append((self.id, text, start))
        return wrong


def _read_question(place, name, entry, context):
    """Returns the `_Question` of a JSON object; `place` is what messages call it."""
    answers = _answers(place, entry, context.text)
    spans = [context.locate(text, start) for text, start in answers]
    return _Question(
        id=name,
        text=valid_text(field(place, entry, "question", str)),
        context=context.index,
        answers=answers,
        spans=spans,
        has_flag="is_impossible" in entry,
        is_impossible=bool(entry.get("is_impossible")),
    )


def _as_columns(contexts, questions, version_2):
    """Returns the `Questions` of a list of `_Question`."""
    ids = []
    texts = []
    context = []
    golds = []
    spans = []
    wrong = []
    contradicted = set()
    for question in questions:
        ids.append(question.id)
        texts.append(question.text)
        context.append(question.context)
        golds.append([text for text, _ in question.answers])
        spans.append([span for span in question.spans if span is not None])
        wrong.extend(question.wrong)
        if version_2 and question.answers and question.is_impossible:
            contradicted.add(question.id)
    return Questions(
        contexts=contexts,
        ids=ids,
        questions=texts,
        context=np.array(context, np.int64),
        golds=golds,
        spans=spans,
        version_2=version_2,
        wrong=wrong,
        contradicted=frozenset(contradicted),
    )


def _paragraph_text(paragraph):
    """Returns the context of a paragraph, which must not be empty."""
    text = valid_text(field(paragraph.place, paragraph.content, "context", str))
    if not text.strip():
        raise ValueError(f"{paragraph.place}: the context is empty. Expected a string")
    return text


def _repeated_id(origin, document, paragraph, name, other):
    """Returns the error for a question with the id of another one, at the place `other`."""
    if document.has_rows:
        return ValueError(f"{paragraph.place}: the id {name} is also that of {other}. Expected unique ids")
    return ValueError(f"{origin}: two questions have the id {name}. Expected unique ids")


def _read_document(origin):
    """Returns the `_Document` of a source: SQuAD's object with articles, or rows with a question each."""
    content = origin.document
    if content is not None and (_is_nested(content) or not isinstance(content.get("data"), list)):
        checked_object(origin, content, "SQuAD", "data")
        says_2 = str(content.get("version", "")).lstrip("v").startswith("2")
        paragraphs = _article_paragraphs(origin, content["data"])
        return _Document(paragraphs, has_rows=False, says_2=says_2)
    paragraphs = []
    has_unanswered = False
    for number, row in origin.rows(("question", "context")):
        entry = _row_question(origin, number, row)
        has_unanswered = has_unanswered or not entry["answers"]
        content = {"context": row["context"], "qas": [entry]}
        paragraphs.append(_Paragraph(origin.place(number), content))
    return _Document(paragraphs, has_rows=True, says_2=has_unanswered)


def _is_nested(document):
    """Whether a JSON object has articles with paragraphs, as SQuAD's files, rather than rows."""
    articles = document.get("data")
    if not isinstance(articles, list):
        return False
    is_row = bool(articles) and isinstance(articles[0], dict) and "context" in articles[0]
    return not is_row


def _noted_paragraph(paragraph, notes_by_id, places):
    """Returns a paragraph whose questions have their notes, in the order of the places of these."""
    questions = sorted(paragraph["qas"], key=lambda entry: places.get(str(entry["id"]), math.inf))
    noted = [_with_note(entry, notes_by_id.get(str(entry["id"]), {})) for entry in questions]
    return paragraph | {"qas": noted}


def _first_place(paragraph, places):
    """Returns the place of the question of a paragraph that comes first, given places by id."""
    own = [places.get(str(entry["id"]), math.inf) for entry in paragraph["qas"]]
    return min(own, default=math.inf)


def _with_note(entry, note):
    """Returns a question with the values of a note; names that it has itself get an underscore."""
    noted = dict(entry)
    for name, value in note.items():
        free = name
        while free in entry:
            free += "_"
        noted[free] = value
    return noted


def _row_question(origin, number, row):
    """Returns the question of a row as SQuAD has it in `qas`."""
    if isinstance(row, ValueError):
        raise row
    place = origin.place(number)
    if "id" in row and row["id"] in (None, ""):
        raise ValueError(f"{place}: `id` is missing. Expected one of its own in each row, or no column `id`")
    answers = next((row[name] for name in ANSWERS if name in row), None)
    entry = {
        "question": row["question"],
        "answers": _row_answers(place, answers, row.get(START)),
        "id": str(row.get("id", number)),
    }
    is_impossible = _flag(place, row.get("is_impossible"))
    if is_impossible is not None:
        entry["is_impossible"] = is_impossible
    return entry


def _flag(place, value):
    """Returns the value of `is_impossible`, a word in tables; `None` for an absent one."""
    if not isinstance(value, str):
        return value
    word = value.strip().lower()
    if word not in _WORDS:
        raise ValueError(f"{place}: `is_impossible` must be true or false. Received: {value!r:.80}")
    return _WORDS[word]


def _row_answers(place, answers, starts):
    """Returns the answers of a row as a list of dicts with `text` and `answer_start`.

    `starts` is the column of positions: one, or as many as there are answers, or `None`.
    """
    if isinstance(answers, dict):  # As on the hub.
        return _with_positions(place, _as_answers(answers.get("text")), answers.get(START))
    return _with_positions(place, _as_answers(answers), starts)


def _as_answers(answers):
    """Returns a list of answers, of none or one, too."""
    if isinstance(answers, list):
        return answers
    return [] if answers in (None, "") else [answers]


def _with_positions(place, answers, starts):
    """Returns a list of answers as dicts with `text` and `answer_start`, see `_row_answers`."""
    if isinstance(starts, list):
        positions = starts
    elif starts in (None, ""):
        positions = [None] * len(answers)
    else:
        positions = [starts]
    if len(positions) != len(answers) and answers:
        raise ValueError(
            f"{place}: expected one `{START}` for each answer. Received: {len(answers)} answer(s) and "
            f"{len(positions)} `{START}`"
        )
    listed = []
    for answer, start in zip(answers, positions, strict=False):  # Positions without any answer do not count.
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
    """Returns the id of a question, number `number` of its paragraph."""
    name = entry.get("id") if isinstance(entry, dict) else None
    if name in (None, ""):
        raise ValueError(f"{place}: question {number} has no `id`")
    return str(name)


def checked_object(place, content, name, key):
    """Returns a JSON object with a list under `key`, in the format of the data set `name`."""
    if not isinstance(content, dict) or not isinstance(content.get(key), list):
        raise ValueError(f"{place}: expected {name}'s format, an object with a list `{key}`")
    return content


def _article_paragraphs(origin, articles):
    """Yields the `_Paragraph`s of SQuAD's articles."""
    for number, article in enumerate(articles):
        title = article.get("title", "") if isinstance(article, dict) else ""
        place = f"{origin}: article {number}"
        if title:
            place += f" ({title})"
        paragraphs = field(place, article, "paragraphs", list)
        if not paragraphs:
            raise ValueError(f"{place} has no paragraphs")
        for index, paragraph in enumerate(paragraphs):
            yield _Paragraph(f"{place}, paragraph {index}", paragraph)


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
    """Returns `(text, first character)` of an answer; without a position, that of its first occurrence."""
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

"""Reads SQuAD 1.1 and 2.0, and files in their format: questions about contexts, and positions of answers."""

import dataclasses
import json
import pathlib

import numpy as np

from keras_bert.files import fingerprint
from keras_bert.tasks.examples import Rows
from keras_bert.tasks.table_files import valid_text


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

    def first(self, count):
        """Returns the first `count` questions, or all for `None`."""
        first = super().first(count)
        wrong = [answer for answer in self.wrong if answer[0] in first.ids]
        return dataclasses.replace(first, wrong=wrong, contradicted=self.contradicted & set(first.ids))

    def fingerprint(self):
        """Returns a hash of the questions, contexts and answers, to recognize changed data."""
        context = self.context.tolist()
        return fingerprint([self.contexts, self.ids, self.questions, context, self.golds, self.spans])


@dataclasses.dataclass(frozen=True)
class Data:
    """The `Questions` of a task."""

    train: list  # One of each file.
    dev: Questions  # Selects the best run.
    test: Questions | None  # To predict.
    files: dict  # Paths: "train", a list, "dev" and "test".


def read_all(train_files, dev_file, predict_file=None, version_2=None, max_train_examples=None, max_dev_examples=None):
    """Reads `Data`, of each training file and of the dev file the first examples, by default all; see `read`."""
    train = [read(path, version_2).first(max_train_examples) for path in train_files]
    dev = read(dev_file, version_2).first(max_dev_examples)
    test = read(predict_file, version_2) if predict_file else None
    return Data(train, dev, test, {"train": list(train_files), "dev": dev_file, "test": predict_file})


def read(path, version_2=None):
    """Reads `Questions` from a file in SQuAD format.

    `version_2`, whether questions may have no answer, defaults to the version of the file. `False` ignores
    `is_impossible`, which version 1.1 does not have. All errors other than those in `wrong` raise a ValueError that
    names the question or paragraph.
    """
    content = read_object(pathlib.Path(path), "SQuAD", "data")
    says_2 = str(content.get("version", "")).lstrip("v").startswith("2")
    contexts, ids, questions, context, golds, spans = [], [], [], [], [], []
    seen, wrong, contradicted = set(), [], set()
    for place, paragraph in _paragraphs(path, content["data"]):
        text = valid_text(field(path, place, paragraph, "context", str))
        if not text.strip():
            raise ValueError(f"{path}: {place}: the context is empty. Expected a string")
        bytes_before = _bytes_before(text)
        for number, entry in enumerate(field(path, place, paragraph, "qas", list)):
            name = _question_id(path, place, number, entry, seen)
            says_2 |= "is_impossible" in entry
            answers = _answers(path, name, entry)
            if answers and entry.get("is_impossible"):
                contradicted.add(name)
            found = [_locate(text, bytes_before, *answer) for answer in answers]
            wrong += [(name, *answer) for answer, span in zip(answers, found, strict=True) if span is None]
            ids.append(name)
            questions.append(valid_text(field(path, name, entry, "question", str)))
            context.append(len(contexts))
            golds.append([answer for answer, _ in answers])
            spans.append([span for span in found if span is not None])
        contexts.append(text)
    if not ids:
        raise ValueError(f"{path}: the file contains no questions")
    version_2 = says_2 if version_2 is None else version_2
    if not version_2 and says_2 and (unanswered := [name for name, gold in zip(ids, golds, strict=True) if not gold]):
        raise ValueError(
            f"{path}: {len(unanswered)} question(s) have no answer, the first is {unanswered[0]}: this is SQuAD 2.0. "
            "Received: version_2=False"
        )
    context, contradicted = np.array(context, np.int64), frozenset(contradicted if version_2 else ())
    return Questions(contexts, ids, questions, context, golds, spans, version_2, wrong, contradicted)


def _question_id(path, place, number, entry, seen):
    name = entry.get("id") if isinstance(entry, dict) else None
    if name in (None, ""):
        raise ValueError(f"{path}: {place}: question {number} has no `id`")
    if str(name) in seen:
        raise ValueError(f"{path}: two questions have the id {name}. Expected unique ids")
    seen.add(str(name))
    return str(name)


def read_object(path, name, key):
    """Reads a JSON object with a list under `key`, in the format of the data set `name`."""
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))  # Removes a byte order mark.
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not a JSON file in UTF-8: {error}") from None
    if not isinstance(content, dict) or not isinstance(content.get(key), list):
        raise ValueError(f"{path}: expected {name}'s format, an object with a list `{key}`")
    return content


def _paragraphs(path, articles):
    for number, article in enumerate(articles):
        title = article.get("title", "") if isinstance(article, dict) else ""
        place = f"article {number}" + (f" ({title})" if title else "")
        paragraphs = field(path, place, article, "paragraphs", list)
        if not paragraphs:
            raise ValueError(f"{path}: {place} has no paragraphs")
        for index, paragraph in enumerate(paragraphs):
            yield f"{place}, paragraph {index}", paragraph


def field(path, place, entry, name, kind, default=None):
    """Returns a value of a JSON object, or raises an error with its place in the file if the type is wrong."""
    value = entry.get(name, default) if isinstance(entry, dict) else None
    if not isinstance(value, kind):
        expected = {str: "a string", list: "a list", dict: "an object", int: "an integer"}[kind]
        raise ValueError(f"{path}: {place}: `{name}` must be {expected}. Received: {value!r:.80}")
    return value


def _answers(path, name, entry):
    """Returns `(text, first character)` of each answer; answers are optional."""
    if "answers" not in entry:
        return []
    return [
        (valid_text(field(path, name, answer, "text", str)), field(path, name, answer, "answer_start", int))
        for answer in field(path, name, entry, "answers", list)
    ]


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

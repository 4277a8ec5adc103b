"""Reads passages, queries and relevance judgments: rows of any `Source`, or lines of text.

Passages and queries have a text and optionally an id; passages may have a title. Without ids, the row numbers from 0
are the ids. BEIR's files (`_id`, `query-id`, `corpus-id`, `score`) and TREC's qrels are read as they are. Passages are
never in memory as a whole, except those of a `.json` file, which is one value.
"""

import dataclasses
import functools
import json
import pathlib
from typing import NamedTuple

from keras_bert.data import squad
from keras_bert.data.cells import finite_number
from keras_bert.data.formats import ROWS, source, stream_rows
from keras_bert.data.text_files import check_file, first_bytes, stream_lines, suffix, valid_text

_IDS = ("id", "_id")
# The columns of relevance judgments; the first name is ours, the second is BEIR's.
_QUERY = ("query_id", "query-id")
_PASSAGE = ("passage_id", "corpus-id")
_GRADE = ("grade", "score")


class Passage(NamedTuple):
    """A passage to find."""

    id: str  # Unique among the passages.
    text: str  # May be empty.
    title: str = ""  # Of the document.

    @property
    def content(self):
        """The title and the text in one line, which is what is embedded."""
        if not self.title:
            return self.text
        return f"{self.title} {self.text}".strip()


class Query(NamedTuple):
    """A query."""

    id: str  # Unique among the queries.
    text: str


@dataclasses.dataclass(frozen=True)
class RetrievalData:
    """Passages, and queries with their relevant passages."""

    passages: list
    queries: list
    relevance: dict  # By query id, the grades of passages by passage id.


def read_passages(path, text_column="text", *, first_id=0):
    """Yields the passages of a file.

    Args:
        path: `.jsonl`, `.ndjson`, `.json`, `.csv`, `.tsv` or `.parquet` with a text and optionally `id` (or `_id`) and
            `title`; or any other file, with one passage per line. Each may be compressed (`.csv.gz`). Only `.json` is
            in memory as a whole.
        text_column: str, the column of the text. Defaults to "text".
        first_id: int, the id of the first row, if rows have none. Defaults to 0.
    """
    is_empty = True
    for place, name, text, record in _texts(path, text_column, first_id):
        is_empty = False
        title = record.get("title")
        if title is None:
            title = ""
        yield Passage(name, text, _string(place, "title", title))
    if is_empty:
        raise ValueError(f"{path}: there is no passage")


def read_queries(path, text_column="text"):
    """Returns the list of `Query` of a file, with the same formats as `read_passages`. Queries must not be empty."""
    queries = {}
    for place, name, text, _ in _texts(path, text_column):
        if not text.strip():
            raise ValueError(f"{place}: the query is empty")
        if name in queries:
            raise ValueError(f"{place}: another query has the id {name!r}. Expected unique ids")
        queries[name] = Query(name, text)
    if not queries:
        raise ValueError(f"{path}: there is no query")
    return list(queries.values())


def read_relevance(path):
    """Reads which passages are relevant to which queries.

    Args:
        path: a file of rows, see `read_passages`, with `query_id`, `passage_id` and optionally `grade`, 1 by default;
            or TREC's format, lines of query id, an unused column, passage id and grade.

    Returns:
        Dict by query id of dicts of grades by passage id. A passage with a grade of 0 or below is not relevant.
    """
    path = pathlib.Path(path)
    relevance = {}
    rows = _judgments(path) if _has_columns(path) else _trec_judgments(path)
    for place, query, passage, grade in rows:
        grades = relevance.setdefault(query, {})
        if passage in grades:
            raise ValueError(f"{place}: query {query!r} and passage {passage!r} appear twice")
        grades[passage] = grade
    if not relevance:
        raise ValueError(f"{path}: there is no relevance judgment")
    return relevance


def passage_reader(passages, text_column="text", first_id=0):
    """Returns a function that yields the passages, of a file or of data in Python, from the first one."""
    if isinstance(passages, str | pathlib.Path):
        return functools.partial(read_passages, passages, text_column, first_id=first_id)
    rows = [_passage(number, passage, first_id) for number, passage in enumerate(passages)]
    if not rows:
        raise ValueError("`passages` must not be empty")
    return lambda: iter(rows)


def _passage(number, value, first_id):
    place = f"`passages[{number}]`"
    row = value
    if isinstance(value, Passage):
        row = value._asdict()
    if isinstance(value, str):
        row = {"text": value}
    if not isinstance(row, dict) or not isinstance(row.get("text"), str):
        raise ValueError(f"{place} must be a string, a `Passage` or a dict with `text`. Received: {value!r:.200}")
    name = checked_id(place, "id", row.get("id", row.get("_id", first_id + number)))
    title = row.get("title")
    if not isinstance(title, str | None):
        raise ValueError(f"{place}: `title` must be a string. Received: {title!r:.80}")
    return Passage(name, row["text"], title or "")


def _texts(path, text_column, first_id=0):
    """Yields the place, the id and the text of each row, and the row, a dict by column; ids are row numbers without."""
    path = pathlib.Path(path)
    if has_rows(path):
        rows = stream_rows(path, {text_column: "text_column"})
    else:
        rows = ((line, {text_column: text}) for line, text in stream_lines(path))
    for number, (line, row) in enumerate(rows, first_id):
        place = f"{path}:{line}"
        column = _known(_IDS, row)
        name = str(number) if column is None else checked_id(place, column, row[column])
        yield place, name, _string(place, text_column, row[text_column]), row


def has_rows(path):
    """Whether a file has rows with columns, by its name, or if that says nothing, by its content; others have lines."""
    check_file(path)
    ending = suffix(path)
    if ending in ROWS:
        return True
    return ending != ".txt" and (first_bytes(path).startswith(b"PAR1") or _starts_with_object(path))


def _starts_with_object(path):
    """Whether the first line of a file is an object of JSON."""
    _, line = next(stream_lines(path), (0, ""))
    if not line.lstrip().startswith("{"):
        return False
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _string(place, column, value):
    if not isinstance(value, str):
        raise ValueError(f"{place}: column `{column}` must be a string. Received: {value!r:.100}")
    return valid_text(value)


def checked_id(place, column, value):
    """Returns an id, which may be an integer, as a string."""
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise ValueError(f"{place}: column `{column}` must be a string or an integer. Received: {value!r:.100}")
    if valid_text(str(value)) != str(value):  # Such ids would become equal in files.
        raise ValueError(f"{place}: column `{column}` has a lone surrogate. Expected UTF-8. Received: {value!r:.100}")
    return str(value)


def _has_columns(path):
    """Returns whether a file of judgments names its columns; TREC's files do not, some of them are called `.tsv`."""
    if not has_rows(path):
        return False
    if suffix(path) != ".tsv":
        return True
    names = source(path).names()
    return len(names) != 4 or bool(set(names) & {*_QUERY, *_PASSAGE, *_GRADE})


def _judgments(path):
    # The column of queries tells how the columns of CSV are separated.
    names = source(path).names(_QUERY[:1] if suffix(path) == ".csv" else ())
    query = _known(_QUERY, names) or _QUERY[0]
    passage = _known(_PASSAGE, names) or _PASSAGE[0]
    grade = _known(_GRADE, names)
    wanted = [query, passage]
    if grade:
        wanted.append(grade)
    for line, record in stream_rows(path, wanted):
        place = f"{path}:{line}"
        value = finite_number(place, grade, record[grade]) if grade else 1.0
        yield place, checked_id(place, query, record[query]), checked_id(place, passage, record[passage]), value


def _known(names, columns):
    """Returns the first of some names that is a column, or `None`."""
    return next((name for name in names if name in columns), None)


def _trec_judgments(path):
    for line, text in stream_lines(path):
        fields = text.split()
        if not fields:
            continue
        if len(fields) != 4:
            raise ValueError(
                f"{path}:{line}: expected query id, an unused column, passage id and grade. Received: {text[:80]!r}"
            )
        yield f"{path}:{line}", fields[0], fields[2], finite_number(f"{path}:{line}", "grade", fields[3])


def read_squad(path):
    """Reads a file in SQuAD's format as `RetrievalData`; dev-v1.1.json has 10,570 questions and 2,067 paragraphs.

    Repeated paragraphs are one passage; the ids of passages are their numbers. The only relevant passage of a question
    is its own paragraph, also for questions of SQuAD 2.0 without an answer.
    """
    read = squad.read(path)
    numbers = {text: number for number, text in enumerate(dict.fromkeys(read.contexts))}
    passages = [Passage(str(number), text) for text, number in numbers.items()]
    queries = []
    relevance = {}
    for name, question, context in zip(read.ids, read.questions, read.context, strict=True):
        paragraph = read.contexts[context]
        queries.append(Query(name, question))
        relevance[name] = {str(numbers[paragraph]): 1.0}
    return RetrievalData(passages, queries, relevance)

"""Converts TriviaQA to the format of SQuAD 1.1, to train on before SQuAD.

    python -m research.convert_triviaqa --qa=triviaqa-rc/qa/wikipedia-train.json --evidence=triviaqa-rc/evidence \\
        --output=triviaqa.json
    python -m pipelines.run_squad --train_file=triviaqa.json,train-v1.1.json --dev_file=dev-v1.1.json \\
        --model=google-bert/bert-large-uncased --output_dir=runs/squad

A context is the first 400 words of a document, with the questions that it answers; the answer is the first occurrence
of any accepted answer. Prints how many question-document pairs were kept, and why the others were dropped. 2,000 pairs
take about a second.
"""

import collections
import dataclasses
import functools
import itertools
import os
import pathlib
import re
import unicodedata

from keras_bert.files import json_text, read_object, replacing
from pipelines import command
from pipelines.arguments import CommandArguments, flag

# Folders of the evidence, and the field of a question that lists its documents there.
_PAGES = {"wikipedia": "EntityPages", "web": "SearchResults"}
_SOURCES = {"Wikipedia": ("wikipedia",), "Web": ("wikipedia", "web")}
# Combining marks belong to the word, and so do decimal points and commas within numbers.
_MARKS = "".join(char for char in map(chr, range(0x300, 0x10000)) if unicodedata.category(char)[0] == "M")
_LETTERS = f"[^\\W_]+(?:[{_MARKS}]+[^\\W_]*)*"
_WORD = re.compile(f"{_LETTERS}(?:(?<=\\d)[.,](?=\\d){_LETTERS})*")
_ARTICLES = {"a", "an", "the"}
# An article, not a letter as in A-ha or hepatitis A: before a space, or at the end of "Beatles, The".
_ARTICLE = re.compile(r"^\W*(?:the|an?)\s+|,\s*(?:the|an?)\W*$", re.IGNORECASE)
_REASONS = {
    "no_answer": "without an answer in the first {} words",
    "missing": "with a missing document, the first is {}",
    "empty": "with an empty document",
    "repeated": "duplicates",
    "unnamed": "with a document without a file name",
    "unverified": "with an unverified question or document",
}


class Arguments(CommandArguments):
    qa: list[str] = flag(None, "TriviaQA's question file(s), of train or dev.", required=True, section="data")
    evidence: str = flag(None, "TriviaQA's directory with wikipedia/ and web/.", required=True)
    max_words: int = flag(400, "Number of words of a document to use as context.", least=1)
    sources: list[str] = flag(None, "Source(s): wikipedia, web; default: as given in each question file.")
    output: str = flag(None, "Output file.", required=True, section="output")


def main(arguments):
    counts = convert(arguments.qa, arguments.evidence, arguments.output, arguments.max_words, arguments.sources)
    print(f"{counts.questions:,} questions, {counts.pairs:,} question-document pairs:")
    for reason, text in _REASONS.items():
        if counts.dropped[reason]:
            detail = counts.first_missing if reason == "missing" else arguments.max_words
            print(f"{counts.dropped[reason]:,} {text.format(detail)}")
    kept = f"{counts.kept:,} kept, of {counts.answered:,} questions, in {counts.paragraphs:,} contexts"
    print(f"{kept}: {arguments.output}")


@dataclasses.dataclass
class Counts:
    """Statistics of a conversion."""

    questions: int = 0
    pairs: int = 0  # Question-document pairs that were read.
    kept: int = 0  # Pairs that were written.
    answered: int = 0  # Questions of the pairs that were written.
    paragraphs: int = 0  # Documents of the pairs that were written.
    dropped: collections.Counter = dataclasses.field(default_factory=collections.Counter)  # Pairs by `_REASONS`.
    first_missing: str | None = None  # Document.

    def add(self, questions=0, pairs=0):
        """Counts questions and pairs that were read."""
        self.questions += questions
        self.pairs += pairs

    def drop_missing(self, document, pairs):
        """Counts the pairs of a document that is not there."""
        if self.first_missing is None:
            self.first_missing = str(document)
        self.dropped["missing"] += pairs

    def keep_paragraph(self, pairs, new_questions):
        """Counts the pairs of a document that are written, and the questions that had no pair before."""
        self.paragraphs += 1
        self.kept += pairs
        self.answered += new_questions


@dataclasses.dataclass(frozen=True)
class Question:
    """A question of TriviaQA, with all accepted answers."""

    name: str
    text: str
    aliases: list


@dataclasses.dataclass(frozen=True)
class Document:
    """A document of the evidence, with the questions that are asked about it, by the id of the pair."""

    title: str
    questions: dict = dataclasses.field(default_factory=dict)


def convert(qa, evidence, output, max_words=400, sources=None):
    """Converts TriviaQA questions to a file in SQuAD 1.1 format, and returns `Counts`.

    Each document becomes a paragraph with all its questions. Question ids are `QuestionId--Filename`. The arguments are
    those of the command.
    """
    qa = [pathlib.Path(path) for path in qa]
    evidence = pathlib.Path(evidence)
    output = pathlib.Path(output)
    _check_arguments(qa, evidence, output, max_words, sources)
    counts = Counts()
    documents = {}
    for path in qa:
        _collect(path, sources, documents, counts)
    with replacing(output) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.write('{"version": "1.1", "data": [')
        separator = "\n"
        for article in _articles(documents, evidence, max_words, counts):
            file.write(separator + json_text(article, ensure_ascii=True))
            separator = ",\n"
        file.write("\n]}\n")
        _check_kept(evidence, counts, max_words)
    return counts


def first_words(text, count):
    """Returns the text from its first word to the end of word number `count`."""
    words = list(itertools.islice(re.finditer(r"\S+", text), count))
    if not words:
        return ""
    return text[words[0].start() : words[-1].end()]


def find_answer(context, aliases):
    """Finds the first match of an alias, the longest at that position, as `(first character, last + 1)`, or `None`.

    Ignores case, characters between words, and an article at the start of an alias, or at its end after a comma.
    """
    aliases_by_word = _aliases_by_first_word(aliases)
    words_in_context = _words(context)
    folded = [word for word, _, _ in words_in_context]
    for index, (word, start, _) in enumerate(words_in_context):
        for alias in aliases_by_word.get(word, ()):
            if alias == folded[index : index + len(alias)]:
                _, _, end = words_in_context[index + len(alias) - 1]
                return start, end
    return None


def _aliases_by_first_word(aliases):
    """Returns the words of aliases, the longest ones first, by their first word; none that are articles alone."""
    all_words = []
    for alias in aliases:
        words = [word for word, _, _ in _words(_ARTICLE.sub("", alias))]
        if not _ARTICLES.issuperset(words):
            all_words.append(words)
    by_first_word = collections.defaultdict(list)
    for words in sorted(all_words, key=len, reverse=True):
        by_first_word[words[0]].append(words)
    return by_first_word


def _words(text):
    """Returns `(normalized word, first character, last character + 1)` of each word."""
    return [(_fold(word.group()), *word.span()) for word in _WORD.finditer(text)]


def _fold(text):
    """Normalizes case and the encoding of accents."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", text).casefold())


def _check_arguments(qa, evidence, output, max_words, sources):
    """Raises an error for arguments of `convert` that are wrong."""
    if not qa:
        raise ValueError("`qa` names no file. Expected files such as qa/wikipedia-train.json")
    if sources is not None and (not sources or not set(sources) <= set(_PAGES)):
        raise ValueError(f"`sources` must be among {', '.join(_PAGES)}. Received: sources={list(sources)}")
    if max_words < 1:
        raise ValueError(f"`max_words` must be positive. Received: max_words={max_words}")
    if not evidence.is_dir():
        raise ValueError(f"{evidence}: no such directory. Expected TriviaQA's evidence, with wikipedia/ and web/")
    if output.is_dir():
        raise ValueError(f"{output}: is a directory. Expected the name of the file to write")
    if output.resolve() in [path.resolve() for path in qa]:
        raise ValueError(f"{output}: is one of the question files. Expected another file to write")


def _collect(path, sources, documents, counts):
    """Adds the questions of a file to `documents`, a dict of `Document`s by their path in the evidence."""
    content = read_object(path)
    if not isinstance(content.get("Data"), list):
        raise ValueError(f"{path}: expected TriviaQA's format, an object with a list `Data`")
    sources = sources or _sources_of_domain(path, content)
    for number, entry in enumerate(content["Data"]):
        name = _field(f"{path}: question {number}", entry, "QuestionId", str)
        place = f"{path}: {name}"
        question = Question(name, _field(place, entry, "Question", str), _aliases(place, entry))
        counts.add(questions=1)
        for source, page in _pages(place, entry, sources):
            counts.add(pairs=1)
            is_verified = entry.get("QuestionPartOfVerifiedEval", True) and page.get("DocPartOfVerifiedEval", True)
            if content.get("VerifiedEval") and not is_verified:
                counts.dropped["unverified"] += 1
            elif "Filename" not in page:
                counts.dropped["unnamed"] += 1
            else:
                filename = _filename(place, page)
                title = _encodable(str(page.get("Title") or filename))
                document = documents.setdefault(f"{source}/{filename}", Document(title))
                pair = f"{name}--{filename}"
                if pair in document.questions:
                    counts.dropped["repeated"] += 1
                else:
                    document.questions[pair] = question


def _sources_of_domain(path, content):
    """Returns the folders of the evidence that a file of questions is about."""
    domain = content.get("Domain")
    if domain not in list(_SOURCES):
        raise ValueError(
            f"{path}: `Domain` must be {' or '.join(_SOURCES)}, unless `sources` are given. Received: {domain!r:.80}"
        )
    return _SOURCES[domain]


def _field(place, entry, name, value_type, default=None):
    """Returns a value of a JSON object, or raises an error with its place in the file if the type is wrong."""
    value = entry.get(name, default) if isinstance(entry, dict) else None
    if not isinstance(value, value_type):
        expected = {str: "a string", list: "a list", dict: "an object"}[value_type]
        raise ValueError(f"{place}: `{name}` must be {expected}. Received: {value!r:.80}")
    return _encodable(value) if value_type is str else value


def _encodable(text):
    """Replaces characters that UTF-8 cannot encode, such as lone surrogates."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _aliases(place, entry):
    """Returns all unique answers; not TriviaQA's normalized ones, which lack significant articles."""
    if "Answer" not in entry:
        raise ValueError(f"{place} has no `Answer`. Expected the questions of train or dev, not of test")
    answer = _field(place, entry, "Answer", dict)
    aliases = [_field(place, answer, "Value", str)]
    aliases += _field(place, answer, "Aliases", list)
    aliases += _field(place, answer, "HumanAnswers", list, [])
    for alias in aliases:
        if not isinstance(alias, str):
            raise ValueError(f"{place}: the answers must be strings. Received: {alias!r:.80}")
    return list(dict.fromkeys(aliases))


def _pages(place, entry, sources):
    """Yields the documents of a question with the folder of each, one of `sources`."""
    for source, field in _PAGES.items():
        if source not in sources:
            continue
        for page in _field(place, entry, field, list, []):
            if not isinstance(page, dict):
                raise ValueError(f"{place}: `{field}` must contain objects. Received: {page!r:.80}")
            yield source, page


def _filename(place, page):
    """Returns the name of a document's file, which is in the evidence."""
    filename = _field(place, page, "Filename", str)
    if not filename or filename.startswith("/") or ".." in filename.split("/"):
        raise ValueError(f"{place}: `Filename` must be a file of the evidence. Received: {filename!r:.80}")
    return filename


def _articles(documents, evidence, max_words, counts):
    """Yields an article of one paragraph for each document that contains an answer."""
    answered = set()
    file_names = functools.lru_cache(maxsize=4)(_file_names)
    for name, document in documents.items():
        path = _find(evidence / name, file_names)
        if path is None:
            counts.drop_missing(evidence / name, len(document.questions))
            continue
        context = first_words(path.read_bytes().decode("utf-8", "replace"), max_words)
        entries = []
        newly_answered = set()
        for pair, question in document.questions.items():
            place = find_answer(context, question.aliases)
            if place is not None:
                entries.append(_entry(context, pair, question, place))
                newly_answered.add(question.name)
        unanswered = len(document.questions) - len(entries)
        if unanswered:
            counts.dropped["no_answer" if context else "empty"] += unanswered
        if entries:
            counts.keep_paragraph(len(entries), len(newly_answered - answered))
            answered |= newly_answered
            yield {"title": document.title, "paragraphs": [{"context": context, "qas": entries}]}


def _find(path, file_names):
    """Returns the file, or else the only one whose name differs just in case or encoding of accents, or `None`."""
    if os.path.isfile(path):  # Unlike `Path.is_file`, returns False for invalid names.
        return path
    alike = file_names(path.parent).get(_fold(path.name), [])
    return path.parent / alike[0] if len(alike) == 1 else None


def _file_names(folder):
    """Returns the file names of a folder, by normalized name."""
    names = collections.defaultdict(list)
    if os.path.isdir(folder):
        for file in os.scandir(folder):
            if file.is_file():
                names[_fold(file.name)].append(file.name)
    return names


def _entry(context, pair, question, place):
    """Returns a question with its answer in the context, as SQuAD has it."""
    start, end = place
    answer = {"text": context[start:end], "answer_start": start}
    return {"id": pair, "question": question.text, "answers": [answer]}


def _check_kept(evidence, counts, max_words):
    """Raises an error if no pair was kept."""
    left_out = sum(counts.dropped[reason] for reason in ("repeated", "unnamed", "unverified"))
    considered = counts.pairs - left_out
    if considered and counts.dropped["missing"] == considered:
        raise ValueError(
            f"{evidence}: all documents are missing, the first is {counts.first_missing}. Expected TriviaQA's "
            "evidence, with wikipedia/ and web/"
        )
    if not counts.kept:
        raise ValueError(
            f"none of {counts.pairs} pairs of question and document has an answer in the first {max_words} words"
        )


if __name__ == "__main__":
    command.run(__doc__, Arguments, main, tensorflow=False)

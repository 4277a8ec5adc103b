"""TriviaQA in the format of SQuAD 1.1: the answers are looked for in the evidence (distant supervision).

As BERT's authors did (section 4.2), a context is the first 400 words of a document, kept if a possible answer is in it.
"""

import collections
import dataclasses
import functools
import itertools
import json
import os
import pathlib
import re
import unicodedata

from keras_bert.files import replacing
from keras_bert.tasks.squad.data import field, read_object

# Folders of the evidence, and where a question names its documents there.
_PAGES = {"wikipedia": "EntityPages", "web": "SearchResults"}
_SOURCES = {"Wikipedia": ("wikipedia",), "Web": ("wikipedia", "web")}
# Accents that are characters of their own belong to the word, and so do the points of a number.
_MARKS = "".join(char for char in map(chr, range(0x300, 0x10000)) if unicodedata.category(char)[0] == "M")
_LETTERS = f"[^\\W_]+(?:[{_MARKS}]+[^\\W_]*)*"
_WORD = re.compile(f"{_LETTERS}(?:(?<=\\d)[.,](?=\\d){_LETTERS})*")
_ARTICLES = {"a", "an", "the"}
# Where it is an article and no letter, as in A-ha, hepatitis A: before a space, or at the end of "Beatles, The".
_ARTICLE = re.compile(r"^\W*(?:the|an?)\s+|,\s*(?:the|an?)\W*$", re.IGNORECASE)


@dataclasses.dataclass
class Counts:
    """Statistics of a conversion.

    Args:
        questions, pairs: the numbers of questions and of pairs of question and document that were read.
        kept, answered, paragraphs: the numbers of pairs that were written, of their questions and documents.
        dropped: the number of other pairs by reason: `no_answer` in the first words, `missing` evidence, `empty`
            evidence, `repeated` pair, `unnamed` file, `unverified` question or page in a verified file.
        first_missing: the first missing document.
    """

    questions: int = 0
    pairs: int = 0
    kept: int = 0
    answered: int = 0
    paragraphs: int = 0
    dropped: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    first_missing: str | None = None


def convert(qa, evidence, output, max_words=400, sources=None):
    """Writes questions of TriviaQA as a file in the format of SQuAD 1.1.

    Each document becomes a paragraph with all its questions, whose ids are `QuestionId--Filename`.

    Args:
        qa: files of questions, such as `qa/wikipedia-train.json`.
        evidence: the directory that has `wikipedia` and `web`.
        output: the file to write.
        max_words: int, the number of words of a document that are its context.
        sources: the documents to use, of "wikipedia" and "web". Default to those of each file's `Domain`.

    Returns:
        `Counts`.
    """
    qa, evidence, output = [pathlib.Path(path) for path in qa], pathlib.Path(evidence), pathlib.Path(output)
    _check(qa, evidence, output, max_words, sources)
    counts, documents = Counts(), {}
    for path in qa:
        _collect(path, sources, documents, counts)
    with replacing(output) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.write('{"version": "1.1", "data": [')
        for number, article in enumerate(_articles(documents, evidence, max_words, counts)):
            file.write(("," if number else "") + "\n" + json.dumps(article))
        file.write("\n]}\n")
        _check_kept(evidence, counts, max_words)
    return counts


def first_words(text, count):
    """The text from its first word to the end of the last of so many."""
    places = [word.span() for word in itertools.islice(re.finditer(r"\S+", text), count)]
    return text[places[0][0] : places[-1][1]] if places else ""


def find_answer(context, aliases):
    """The first place of an alias in a context, as `(first character, last + 1)`, or `None`; the longest one there.

    Case and whatever is between words do not matter, nor does an article at the beginning of an alias, or after a comma
    at its end.
    """
    starting = collections.defaultdict(list)
    for alias in aliases:
        words = [word for word, _, _ in _words(_ARTICLE.sub("", alias))]
        if not _ARTICLES.issuperset(words):
            starting[words[0]].append(words)
    for longest_first in starting.values():
        longest_first.sort(key=len, reverse=True)
    places = _words(context)
    for index, (word, first, _) in enumerate(places):
        for words in starting.get(word, ()):
            if words == [word for word, _, _ in places[index : index + len(words)]]:
                return first, places[index + len(words) - 1][2]
    return None


def _words(text):
    """`(what is compared, first character, character behind the last)` of each word."""
    return [(_fold(word.group()), *word.span()) for word in _WORD.finditer(text)]


def _fold(text):
    """What texts have in common that differ in case, or in how an accent is written."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", text).casefold())


def _check(qa, evidence, output, max_words, sources):
    if not qa:
        raise ValueError("`qa` names no file. Expected files such as qa/wikipedia-train.json")
    if sources is not None and (not sources or not set(sources) <= set(_PAGES)):
        raise ValueError(f"`sources` must be of {', '.join(_PAGES)}. Received: sources={list(sources)}")
    if max_words < 1:
        raise ValueError(f"`max_words` must be positive. Received: max_words={max_words}")
    if not evidence.is_dir():
        raise ValueError(f"{evidence}: no such directory. Expected TriviaQA's evidence, with wikipedia/ and web/")
    if output.is_dir():
        raise ValueError(f"{output}: is a directory. Expected the name of the file to write")
    if output.resolve() in [path.resolve() for path in qa]:
        raise ValueError(f"{output}: is read as questions. Expected another file to write")


def _collect(path, sources, documents, counts):
    """Adds the questions of a file: of each document its title, and the `(id, question, aliases)` about it, by id."""
    content = read_object(path, "TriviaQA", "Data")
    domain = content.get("Domain")
    if sources is None and domain not in list(_SOURCES):
        raise ValueError(
            f"{path}: `Domain` must be {' or '.join(_SOURCES)}, unless `sources` are given. Received: {domain!r:.80}"
        )
    sources = sources or _SOURCES[domain]
    for number, entry in enumerate(content["Data"]):
        name = field(path, f"question {number}", entry, "QuestionId", str)
        question = name, field(path, name, entry, "Question", str), _aliases(path, name, entry)
        counts.questions += 1
        for source, page in _pages(path, name, entry, sources):
            counts.pairs += 1
            verified = entry.get("QuestionPartOfVerifiedEval", True) and page.get("DocPartOfVerifiedEval", True)
            if content.get("VerifiedEval") and not verified:
                counts.dropped["unverified"] += 1
            elif "Filename" not in page:
                counts.dropped["unnamed"] += 1
            else:
                filename = _filename(path, name, page)
                title = str(page.get("Title") or filename)
                _, questions = documents.setdefault(f"{source}/{filename}", (title, {}))
                if f"{name}--{filename}" in questions:
                    counts.dropped["repeated"] += 1
                else:
                    questions[f"{name}--{filename}"] = question


def _aliases(path, name, entry):
    """All texts that count as an answer, each once; the normalized ones have lost articles that matter."""
    if "Answer" not in entry:
        raise ValueError(f"{path}: {name} has no `Answer`. Expected the questions of train or dev, not of test")
    answer = field(path, name, entry, "Answer", dict)
    aliases = [field(path, name, answer, "Value", str)]
    aliases += field(path, name, answer, "Aliases", list) + field(path, name, answer, "HumanAnswers", list, [])
    wrong = [alias for alias in aliases if not isinstance(alias, str)]
    if wrong:
        raise ValueError(f"{path}: {name}: the answers must be texts. Received: {wrong[0]!r:.80}")
    return list(dict.fromkeys(aliases))


def _pages(path, name, entry, sources):
    for source in [source for source in _PAGES if source in sources]:
        for page in field(path, name, entry, _PAGES[source], list, []):
            if not isinstance(page, dict):
                raise ValueError(f"{path}: {name}: `{_PAGES[source]}` must have objects. Received: {page!r:.80}")
            yield source, page


def _filename(path, name, page):
    filename = field(path, name, page, "Filename", str)
    if not filename or filename.startswith("/") or ".." in filename.split("/"):
        raise ValueError(f"{path}: {name}: `Filename` must be a file of the evidence. Received: {filename!r:.80}")
    return filename


def _articles(documents, evidence, max_words, counts):
    """An article of one paragraph for each document with an answer."""
    answered, names = set(), functools.lru_cache(maxsize=4)(_names)
    for document, (title, questions) in documents.items():
        path = _find(evidence / document, names)
        if path is None:
            counts.first_missing = counts.first_missing or str(evidence / document)
            counts.dropped["missing"] += len(questions)
            continue
        context = first_words(path.read_bytes().decode("utf-8", "replace"), max_words)
        entries = [_entry(context, name, *question[1:]) for name, question in questions.items()]
        kept = [entry for entry in entries if entry]
        if len(kept) < len(entries):
            counts.dropped["no_answer" if context else "empty"] += len(entries) - len(kept)
        if kept:
            counts.kept += len(kept)
            counts.paragraphs += 1
            answered |= {question[0] for question, entry in zip(questions.values(), entries, strict=True) if entry}
            yield {"title": title, "paragraphs": [{"context": context, "qas": kept}]}
    counts.answered = len(answered)


def _find(path, names):
    """The file; if there is none, the one whose name differs in case or in how accents are written, as some do."""
    if os.path.isfile(path):  # Unlike that of `Path`, `False` for whatever cannot be a name.
        return path
    alike = names(path.parent).get(_fold(path.name), [])
    return path.parent / alike[0] if len(alike) == 1 else None


def _names(folder):
    """The files of a folder, by folded name."""
    names = collections.defaultdict(list)
    if os.path.isdir(folder):
        for file in os.scandir(folder):
            if file.is_file():
                names[_fold(file.name)].append(file.name)
    return names


def _entry(context, name, question, aliases):
    place = find_answer(context, aliases)
    if place is None:
        return None
    answer = {"text": context[slice(*place)], "answer_start": place[0]}
    return {"id": name, "question": question, "answers": [answer]}


def _check_kept(evidence, counts, max_words):
    considered = counts.pairs - sum(counts.dropped[reason] for reason in ("repeated", "unnamed", "unverified"))
    if considered and counts.dropped["missing"] == considered:
        raise ValueError(
            f"{evidence}: none of the documents is there, the first is {counts.first_missing}. Expected TriviaQA's "
            "evidence, with wikipedia/ and web/"
        )
    if not counts.kept:
        raise ValueError(
            f"none of {counts.pairs} pairs of question and document has an answer in the first {max_words} words"
        )

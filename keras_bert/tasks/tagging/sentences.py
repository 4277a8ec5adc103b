"""The sentences of a file, with their entities or tags; the readers of each kind of file return them."""

import dataclasses
from typing import ClassVar

from keras_bert.data.sources import Source
from keras_bert.data.task_data import Rows
from keras_bert.files import fingerprint
from keras_bert.tasks.tagging import schemes
from keras_bert.tasks.tagging.schemes import PLAIN


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sentences(Rows):
    """The sentences of a file: lists of words, or texts. A subclass has what is needed to write the file.

    `entities` are lists of `EntitySpan`, with indices of words, in texts of characters; `None` if there are none or the
    tags are plain. Readers return `tags` as the file has them.
    """

    origin: Source
    words: list | None = None  # Of each sentence; `None` for texts.
    texts: list | None = None  # `None` for words.
    entities: list | None = None
    tags: list | None = None  # Plain tags; `None` for entities.
    scheme: str = "iob2"  # Of the tags in the file, one of `schemes.SCHEMES`.
    lines: list  # Where each sentence starts.
    documents: list  # The document of each sentence.

    content = ("words", "texts", "entities", "tags")
    places: ClassVar[tuple[str, ...]] = ("lines", "documents")
    group = "documents"

    def groups(self):
        return self.documents

    def __len__(self):
        return len(self.lines)

    @property
    def is_labeled(self):
        """Whether the file has entities or tags."""
        return self.entities is not None or self.tags is not None

    def fingerprint(self):
        """Returns a hash of the content, to recognize changed data."""
        content = self.texts if self.words is None else self.words
        return fingerprint([content, self.entities, self.tags, self.documents])

    def types(self):
        """Returns the types of the entities, or the plain tags, of each sentence: a list of lists."""
        if self.tags is not None:
            return self.tags
        types = []
        for entities in self.entities:
            types.append([entity.type for entity in entities])
        return types

    def line(self, row, word):
        """Returns the line of a word."""
        return self.lines[row]

    def write(self, path, predicted):
        """Writes predictions in the form of the file: lists of `EntitySpan`, or of plain tags."""
        answers = list(predicted)
        if self.words is not None and self.scheme != PLAIN:
            answers = []
            for entities, words in zip(predicted, self.words, strict=True):
                answers.append(schemes.to_tags(entities, len(words), self.scheme))
        self.write_tags(path, answers)

    def write_tags(self, path, predicted):
        """Writes the file with predicted tags, or spans of texts, a list for each sentence of the whole file."""
        raise NotImplementedError

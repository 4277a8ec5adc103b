"""The text of a study: its vocabulary and the pre-training data."""

import dataclasses
import glob
import pathlib

from keras_bert.pretraining import Settings, count_words, generate, learn_vocabulary
from keras_bert.runs import messages


@dataclasses.dataclass(frozen=True)
class Corpus:
    """The text to pre-train on."""

    text: str  # Glob pattern of files; one sentence per line, with a blank line between documents.
    held_out: str | None = None  # Glob pattern of other files to evaluate on; `None` holds out the last file of `text`.
    vocabulary: str | None = None  # Path; `None` learns one from `text`.
    lowercase: bool = True

    def files(self):
        """Returns the paths to train on, and those to evaluate on."""
        paths = _files(self.text)
        if self.held_out:
            return paths, _files(self.held_out)
        if len(paths) < 2:
            raise ValueError(
                f"--data={self.text}: a single file. Expected several files, of which the last one is held out, or "
                "--eval_data with other text"
            )
        return paths[:-1], paths[-1:]


def _files(pattern):
    """Returns the paths that match a pattern."""
    matches = [pathlib.Path(name) for name in sorted(glob.glob(pattern, recursive=True))]
    paths = [path for path in matches if path.is_file()]
    if not paths:
        raise FileNotFoundError(f"{pattern}: no file matches")
    return paths


class StudyData:
    """The vocabulary and the records of a study, written once."""

    def __init__(self, corpus, scale, folder):
        self.corpus = corpus
        self._scale = scale
        self._folder = folder

    def prepare(self, recipes):
        """Writes what the recipes need."""
        train, held_out = self.corpus.files()
        with messages() as show:
            if not self.corpus.vocabulary and not self.vocabulary.exists():
                self._learn_vocabulary(train, show)
            # Records with special tokens first.
            for special_tokens in sorted({recipe.special_tokens for recipe in recipes}, reverse=True):
                self._write_records(train, held_out, special_tokens, show)

    def _learn_vocabulary(self, train, show):
        """Writes the vocabulary of the text to train on."""
        counts, _ = count_words(train, lowercase=self.corpus.lowercase, progress=show)
        vocabulary = learn_vocabulary(counts, self._scale.vocab_size, unused=0, progress=show)
        vocabulary.save(self.vocabulary)

    def _write_records(self, train, held_out, special_tokens, show):
        """Writes the records of each length, and those that are held out, of the length of the first phase."""
        lengths = [phase["length"] for phase in self._scale.phases]
        wanted = [(train, length, length) for length in sorted(set(lengths))]
        wanted.append((held_out, "held_out", lengths[0]))
        for files, name, length in wanted:
            settings = Settings(
                sequence_length=length,
                lowercase=self.corpus.lowercase,
                special_tokens=special_tokens,
                next_sentence=special_tokens,  # All rows with special tokens have the same examples.
            )
            generate(files, self.records(name, special_tokens), self.vocabulary, settings, progress=show)

    @property
    def vocabulary(self):
        """The path of the vocabulary."""
        return self.corpus.vocabulary or self._folder / "vocab.txt"

    def records(self, name, special_tokens=True):
        """Returns the folder of the records of a length, or of those that are held out."""
        return self._folder / "data" / (str(name) if special_tokens else f"{name}_plain")

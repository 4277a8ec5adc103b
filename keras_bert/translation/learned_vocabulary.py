"""The vocabulary of a run: learned from both sides of its training pairs, or that of a file."""

from keras_bert.corpus.word_counts import count_words
from keras_bert.corpus.wordpiece_trainer import learn_vocabulary
from keras_bert.files import difference, read_json, write_json
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.training.progress import messages


def open_vocabulary(path, pairs, size, folder):
    """Returns the `Vocabulary` of a file, or without a path learns one from both sides of the training pairs.

    A learned vocabulary, of `size` tokens, is written to the folder of the run, and read there when the run resumes.
    """
    if path is not None:
        return Vocabulary(path)
    output, facts = folder / "vocab.txt", folder / "vocab.json"
    about = {"vocab_size": size, "train": pairs.fingerprint()}
    before = read_json(facts) if facts.is_file() and output.is_file() else None
    if before != about:
        if before and (folder / "runs").is_dir():
            raise ValueError(
                f"{folder} contains a run with another vocabulary: {difference(before, about)}. "
                "Choose another --output_dir, or the settings of that run"
            )
        with messages() as show:
            files = [pairs.source_path, pairs.target_path]
            counts, _ = count_words(files, lowercase=False, reversible=True, progress=show)
            learned = learn_vocabulary(counts, size, reversible=True, progress=show)
        folder.mkdir(parents=True, exist_ok=True)
        learned.save(output)
        write_json(facts, about)
    return Vocabulary(output)

"""Learns a WordPiece vocabulary from text files.

    python -m pipelines.train_vocab --input="corpus/*.txt" --output=vocab.txt --vocab_size=30522 --lowercase

`--input` is a glob pattern of UTF-8 text files, optionally `.gz`. Finally reports how well the vocabulary covers
held-out text: every 100th line, or the files of `--held_out`. 42 MB of English books take 20 seconds and 0.9 GB, most
of it TensorFlow; the held-out lines have 1.018 tokens per word (1.110 with `--vocab_size=8000`).
"""

import pathlib
import shlex

from absl import flags

from keras_bert.corpus import lines

from . import command, common_flags

command.section("data")
_INPUT = flags.DEFINE_string("input", None, "Glob pattern of the text files to learn from.", required=True)
_HELD_OUT = flags.DEFINE_string("held_out", None, "Glob pattern of text files to hold out instead of lines.")
_HELD_OUT_EVERY = flags.DEFINE_integer("held_out_every", 100, "Holds out every n-th line; 0 for none.")
_PROCESSES = flags.DEFINE_integer("processes", None, "Number of processes that count words; default: by size.")
command.section("vocabulary")
_VOCAB_SIZE = flags.DEFINE_integer("vocab_size", 30522, "Maximum number of tokens, including special ones.")
_LOWERCASE = flags.DEFINE_bool("lowercase", True, "Whether to lowercase words.")
_STRIP_ACCENTS = flags.DEFINE_bool("strip_accents", None, "Whether to strip accents; default: as --lowercase.")
_REVERSIBLE = flags.DEFINE_bool("reversible", False, "For run_translation: keeps case and spaces, no [UNK].")
_UNUSED = flags.DEFINE_integer("unused", 99, "Number of [unused] tokens after [PAD]; 99 gives Google's ids.")
_MIN_COUNT = flags.DEFINE_integer("min_count", 2, "Minimum number of occurrences of a word.")
_ALPHABET_LIMIT = flags.DEFINE_integer("alphabet_limit", 1000, "Maximum number of characters to cover.")
command.section("output")
_OUTPUT = flags.DEFINE_string("output", None, "Output file, a vocab.txt.", required=True)


def check():
    """Finds mistakes in paths."""
    if pathlib.Path(_OUTPUT.value).is_dir():
        raise ValueError(f"{_OUTPUT.value}: is a directory. Expected the name of the vocab.txt to write")
    if _REVERSIBLE.value and ((flags.FLAGS["lowercase"].present and _LOWERCASE.value) or _STRIP_ACCENTS.value):
        raise ValueError("--reversible keeps case and accents. Remove --lowercase and --strip_accents")
    common_flags.only(not _HELD_OUT.value, "without --held_out", _HELD_OUT_EVERY.name)
    common_flags.only(not _REVERSIBLE.value, "without --reversible", _UNUSED.name)
    for pattern in filter(None, (_INPUT.value, _HELD_OUT.value)):
        lines.find(pattern)


def main():
    from keras_bert.corpus import wordpiece_trainer
    from keras_bert.training.progress import messages

    output = pathlib.Path(_OUTPUT.value)
    with messages() as show:
        counts, held_out = _count_all(show)
        output.parent.mkdir(parents=True, exist_ok=True)
        vocabulary = wordpiece_trainer.learn_vocabulary(
            counts,
            _VOCAB_SIZE.value,
            unused=_UNUSED.value,
            min_count=_MIN_COUNT.value,
            alphabet_limit=_ALPHABET_LIMIT.value,
            reversible=_REVERSIBLE.value,
            progress=show,
        )
    vocabulary.save(output)
    print(f"{output}: {len(vocabulary):,} tokens")
    print(f"learned from: {wordpiece_trainer.report(counts, vocabulary)}")
    if held_out:
        print(f"held out: {wordpiece_trainer.report(held_out, vocabulary)}")
    command.print_next(_next())


def _next():
    """Returns the command that uses the vocabulary."""
    if _REVERSIBLE.value:
        files = "--train_source=train.de --train_target=train.en --dev_source=val.de --dev_target=val.en"
        start = f"{command.spelling('run_translation')} {files}"
        return f"{start} --vocab={shlex.quote(_OUTPUT.value)} --output_dir=runs/translation"
    start = f"{command.spelling('create_pretraining_data')} --input={shlex.quote(_INPUT.value)}"
    casing = "" if _LOWERCASE.value else " --nolowercase"
    if _STRIP_ACCENTS.value is not None:
        casing += f" --strip_accents={str(_STRIP_ACCENTS.value).lower()}"
    return f"{start} --vocab={shlex.quote(_OUTPUT.value)}{casing} --output_dir=data/128"


def _count_all(show):
    """Returns the word counts of the text to learn from and of the held-out text."""
    from keras_bert.corpus import word_counts

    def count(files, held_out_every=None):
        return word_counts.count_words(
            files,
            _LOWERCASE.value and not _REVERSIBLE.value,
            _STRIP_ACCENTS.value,
            held_out_every,
            _PROCESSES.value,
            _REVERSIBLE.value,
            progress=show,
        )

    if not _HELD_OUT.value:
        return count(_INPUT.value, held_out_every=_HELD_OUT_EVERY.value or None)
    return count(_INPUT.value)[0], count(_HELD_OUT.value)[0]


if __name__ == "__main__":
    command.run(main, check=check)

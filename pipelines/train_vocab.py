"""Learns a WordPiece vocabulary from text files.

    python -m pipelines.train_vocab --input="corpus/*.txt" --output=vocab.txt --vocab_size=30522 --lowercase

`--input` is a glob pattern of UTF-8 text files, optionally `.gz`. Finally reports how well the vocabulary covers
held-out text: every 100th line, or the files of `--held_out`. 42 MB of English books take 20 seconds and 0.9 GB, most
of it TensorFlow; the held-out lines have 1.018 tokens per word (1.110 with `--vocab_size=8000`). `--extend` keeps the
pieces of a vocabulary and their ids, and adds those that save the most tokens, in the place of `[unused]` ones first.
"""

import functools
import pathlib
import shlex

from keras_bert.corpus import lines, vocabulary_report, wordpiece_trainer
from keras_bert.progress import messages
from keras_bert.text.vocabulary import Vocabulary, check_extendable

from . import command
from .arguments import CommandArguments, flag


class Arguments(CommandArguments):
    input: str = flag(None, "Glob pattern of the text files to learn from.", required=True, section="data")
    held_out: str = flag(None, "Glob pattern of text files to hold out instead of lines.")
    held_out_every: int = flag(100, "Holds out every n-th line; 0 for none.", excludes=("held_out",))
    processes: int = flag(None, "Number of processes that count words; default: by size.")
    extend: str = flag(
        None, "Vocabulary file to extend, a vocab.txt.", is_file=True, excludes=("reversible",), section="vocabulary"
    )
    vocab_size: int = flag(
        None, "Maximum number of tokens, including special ones; default: 30522, or the size of --extend."
    )
    lowercase: bool = flag(True, "Whether to lowercase words.")
    strip_accents: bool = flag(None, "Whether to strip accents; default: as --lowercase.")
    reversible: bool = flag(False, "For run_translation: keeps case and spaces, no [UNK].")
    unused: int = flag(
        99, "Number of [unused] tokens after [PAD]; 99 gives Google's ids.", excludes=("reversible", "extend")
    )
    min_count: int = flag(2, "Minimum number of occurrences of a word.")
    alphabet_limit: int = flag(1000, "Maximum number of characters to cover.", excludes=("extend",))
    output: str = flag(None, "Output file, a vocab.txt.", required=True, section="output")


def _check_extended(path, lowercase):
    """Raises for a vocabulary that cannot have more pieces, or of the other casing."""
    vocabulary = Vocabulary(path)
    check_extendable(vocabulary)
    if vocabulary.cased and lowercase:
        raise ValueError(f"--extend: {path} is cased. Expected --nolowercase")
    if not vocabulary.cased and not lowercase:
        raise ValueError(f"--extend: {path} is uncased. Expected --lowercase")


def check(arguments):
    lowercases = "lowercase" in arguments.given and arguments.lowercase
    if arguments.reversible and (lowercases or arguments.strip_accents):
        raise ValueError("--reversible keeps case and accents. Remove --lowercase and --strip_accents")
    if arguments.extend:
        _check_extended(arguments.extend, arguments.lowercase)
    for pattern in (arguments.input, arguments.held_out):
        if pattern:
            lines.find(pattern)


def main(arguments):
    output = pathlib.Path(arguments.output)
    with messages() as show:
        counts, held_out = _count_all(arguments, show)
        output.parent.mkdir(parents=True, exist_ok=True)
        vocabulary = _learn(arguments, counts, show)
    new = ""
    if arguments.extend:  # It may be the output.
        added = set(vocabulary.pieces) - set(Vocabulary(arguments.extend).pieces)
        new = f", {len(added):,} of them new"
    vocabulary.save(output)
    print(f"{output}: {len(vocabulary):,} tokens{new}")
    print(f"learned from: {vocabulary_report.report(counts, vocabulary)}")
    if held_out:
        print(f"held out: {vocabulary_report.report(held_out, vocabulary)}")
    command.print_next(_next_step(arguments))


def _learn(arguments, counts, show):
    """Returns the vocabulary that is learned from counts of words, or extended by them."""
    if arguments.extend:
        return wordpiece_trainer.extend_vocabulary(
            counts,
            arguments.extend,
            vocab_size=arguments.vocab_size,
            min_count=arguments.min_count,
            progress=show,
        )
    return wordpiece_trainer.learn_vocabulary(
        counts,
        arguments.vocab_size or 30522,
        min_count=arguments.min_count,
        unused=arguments.unused,
        alphabet_limit=arguments.alphabet_limit,
        reversible=arguments.reversible,
        progress=show,
    )


def _next_step(arguments):
    """Returns the command that uses the vocabulary."""
    vocabulary = f"--vocabulary={shlex.quote(arguments.output)}"
    if arguments.reversible:
        files = "--train_source=train.de --train_target=train.en --dev_source=val.de --dev_target=val.en"
        return f"{command.spelling('run_translation')} {files} {vocabulary} --output_dir=runs/translation"
    start = f"{command.spelling('create_pretraining_data')} --input={shlex.quote(arguments.input)}"
    casing = "" if arguments.lowercase else " --nolowercase"
    if arguments.strip_accents is not None:
        casing += f" --strip_accents={str(arguments.strip_accents).lower()}"
    return f"{start} {vocabulary}{casing} --output_dir=data/128"


def _count_all(arguments, show):
    """Returns the word counts of the text to learn from and of the held-out text."""
    from keras_bert.corpus.word_counts import count_words

    count = functools.partial(
        count_words,
        lowercase=arguments.lowercase and not arguments.reversible,
        strip_accents=arguments.strip_accents,
        reversible=arguments.reversible,
        processes=arguments.processes,
        progress=show,
    )
    if not arguments.held_out:
        return count(arguments.input, held_out_every=arguments.held_out_every or None)
    counts, _ = count(arguments.input)
    held_out, _ = count(arguments.held_out)
    return counts, held_out


if __name__ == "__main__":
    command.run(__doc__, Arguments, main, check)

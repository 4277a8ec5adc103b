"""Creates pre-training data from text: TFRecords with Google's features.

    python -m pipelines.create_pretraining_data --input="corpus/*.txt" --vocabulary=vocab.txt --output_dir=data/128
    python -m pipelines.create_pretraining_data --inspect=3 --output_dir=data/128
    python -m pipelines.create_pretraining_data --input="/mnt/corpus/*" --vocabulary=vocab.txt \\
        --runner=DataflowRunner --output_dir=gs://bucket/128 --beam_options=--project=me,--region=europe-west4

`--input` is a glob pattern of UTF-8 text files, optionally `.gz`: one sentence per line and a blank line between
documents (`--format=sentences`), one paragraph per line and a blank line between documents (`paragraphs`), or one JSON
object per line with a document in the field `text` (`jsonl`). Masks are drawn when the data is read, differently in
each epoch; `--static` draws them now, 10 times, as Google's run_pretraining.py expects. Writes `examples-*.tfrecord`,
`vocab.txt` and `manifest.json` with statistics to `--output_dir`. The same command resumes an interrupted run. 42 MB of
English books take 5 seconds on one core after startup, and 1 GB of memory. With `--runner`, Apache Beam creates the
same examples on its workers, which need this package and the input at the same path; interrupted runs do not resume.
"""

import pathlib
import shlex

from keras_bert.corpus import lines
from keras_bert.pretraining.masking import Masking
from keras_bert.pretraining.record_files import MANIFEST
from keras_bert.progress import messages
from keras_bert.text.vocabulary import Vocabulary

from . import command, common_flags
from .arguments import CommandArguments, flag
from .early_checks import check_files


class Arguments(CommandArguments):
    input: str = flag(None, "Glob pattern of the text files.", section="data")
    vocabulary: str = flag(None, "Vocabulary file, a vocab.txt.")
    add_words: str = flag(None, "File of words to add to the vocabulary, one per line, as in run_pretraining.")
    format: str = flag("sentences", "Format of the input, see above.", values=["sentences", "paragraphs", "jsonl"])
    field: str = flag("text", "Field with the text in jsonl.", needs="format=jsonl")
    lowercase: bool = flag(True, "Whether the vocabulary is uncased.")
    strip_accents: bool = flag(None, "Whether to strip accents; default: as --lowercase.")
    sequence_length: int = flag(128, "Number of tokens of an example.", section="examples")
    next_sentence: bool = flag(True, "Creates sentence pairs; otherwise full-length rows of text.")
    special_tokens: bool = flag(True, "Adds [CLS] and [SEP] to rows; --nospecial_tokens as in GPT.")
    short_seq_prob: float = flag(0.1, "Probability of a shorter pair.", needs="next_sentence")
    duplicates: int = flag(None, "Passes over the text; default: 1, with --static 10.")
    seed: int = flag(1, "Random seed.")
    static: bool = flag(False, "Draws the masks now, fixed for all epochs.", section="masks")
    masked_lm_prob: float = flag(0.15, "Fraction of the tokens to predict.")
    max_predictions: int = flag(None, "Maximum predictions per example; default: that fraction of it.")
    whole_word: bool = flag(False, "Masks all tokens of a word together.")
    max_ngram: int = flag(1, "Maximum number of adjacent words to mask together.")
    mask_share: float = flag(0.8, "Fraction of the predicted tokens replaced by [MASK].")
    random_share: float = flag(0.1, "Fraction replaced by a random token; the rest are unchanged.")
    output_dir: str = flag(None, "Output folder.", required=True, section="output")
    inspect: int = flag(0, "Only prints this many examples of --output_dir.")
    shards: int = flag(None, "Number of files; default: one per 64 MB, at least 16.", least=1)
    processes: int = flag(
        None, "Number of processes; default: one per core, or one for small inputs.", least=1, excludes=("runner",)
    )
    compress: bool = flag(False, "Compresses the files to .gz.")
    runner: str = flag(None, "Apache Beam runner, such as DirectRunner; default: no Beam.", section="Apache Beam")
    beam_options: list[str] = flag((), "Pipeline option(s) of the runner.", needs="runner")


def check(arguments):
    if arguments.inspect:
        return
    for name in ("input", "vocabulary"):
        if not getattr(arguments, name):
            raise ValueError(f"--{name} is required. Received: none")
    if not arguments.runner:
        lines.find(arguments.input)
        for name in ("vocabulary", "add_words"):
            check_files(name, getattr(arguments, name))


def main(arguments):
    from keras_bert.pretraining.beam import generate_with_beam
    from keras_bert.pretraining.example_builder import Settings
    from keras_bert.pretraining.generation import generate
    from keras_bert.pretraining.inspection import describe

    if arguments.inspect:
        print(describe(arguments.output_dir, arguments.inspect, arguments.vocabulary))
        return
    passes = 10 if arguments.static else 1
    settings = arguments.fill(
        Settings,
        masking=arguments.fill(Masking),
        duplicates=arguments.duplicates or passes,
        format=arguments.format,
    )
    records = {
        "files": arguments.input,
        "output": arguments.output_dir,
        "vocabulary": _vocabulary(arguments),
        "settings": settings,
        "shards": arguments.shards,
        "compress": arguments.compress,
    }
    if arguments.runner:
        manifest = generate_with_beam(**records, runner=arguments.runner, pipeline_options=arguments.beam_options)
    else:
        with messages() as show:
            manifest = generate(**records, workers=arguments.processes, progress=show)
    output = arguments.output_dir.rstrip("/")
    print(f"data:         {output}: {_summary(manifest)}")
    print(f"statistics:   {output}/{MANIFEST}")
    command.print_next(_next_step(arguments, output))


def _vocabulary(arguments):
    """Returns the vocabulary, with the words of --add_words."""
    from keras_bert.text.new_words import add_words, without_known

    vocabulary = Vocabulary(arguments.vocabulary, strip_accents=arguments.strip_accents)
    if not arguments.add_words:
        return vocabulary
    words = without_known(common_flags.words(arguments.add_words), vocabulary)
    extended, *_ = add_words(vocabulary, words, arguments.lowercase)
    return extended


def _summary(manifest):
    """Returns the statistics in a line."""
    examples = f"{manifest['examples']:,} examples of {manifest['corpus']['documents']:,} documents"
    tokens = f"{manifest['tokens']:,} tokens, {manifest['unknown_share']:.2%} of them unknown"
    return f"{examples}, {tokens}; {manifest['padding_share']:.2%} padding"


def _next_step(arguments, output):
    """Returns the command that trains on the data."""
    train = f"{command.spelling('run_pretraining')} --data={shlex.quote(output)}"
    phase = f"--phases=length:{arguments.sequence_length},steps:10000,batch:32"
    objective = ""
    if not arguments.next_sentence:
        objective += " --next_sentence=false"
    if not arguments.special_tokens:
        objective += " --causal"
    if arguments.add_words:
        start = f"--model={_model_to_extend(arguments)} --add_words={shlex.quote(arguments.add_words)}"
        return f"{train} {start} {phase}{objective} --output_dir=runs/words"
    return f"{train} --config=tiny {phase}{objective} --output_dir=runs/tiny"


def _model_to_extend(arguments):
    """Returns the model whose vocabulary gets more words: the one beside it, or else that of Google."""
    folder = pathlib.Path(arguments.vocabulary).parent
    for name in ("config.json", "bert_config.json"):
        if (folder / name).is_file():
            return shlex.quote(str(folder))
    return "google-bert/bert-base-uncased"


if __name__ == "__main__":
    command.run(__doc__, Arguments, main, check)

"""Creates pre-training data from text: TFRecords with Google's features.

    python -m pipelines.create_pretraining_data --input="corpus/*.txt" --vocab=vocab.txt --output_dir=data/128
    python -m pipelines.create_pretraining_data --inspect=3 --output_dir=data/128
    python -m pipelines.create_pretraining_data --input="/mnt/corpus/*" --vocab=vocab.txt --runner=DataflowRunner \\
        --output_dir=gs://bucket/128 --beam_options=--project=me,--region=europe-west4

`--input` is a glob pattern of UTF-8 text files, optionally `.gz`: one sentence per line and a blank line between
documents (`--format=sentences`), one paragraph per line and a blank line between documents (`paragraphs`), or one JSON
object per line with a document in the field `text` (`jsonl`). Masks are drawn when the data is read, differently in
each epoch; `--static` draws them now, 10 times, as Google's run_pretraining.py expects. Writes `examples-*.tfrecord`,
`vocab.txt` and `manifest.json` with statistics to `--output_dir`. The same command resumes an interrupted run. 42 MB of
English books take 5 seconds on one core after startup, and 1 GB of memory. With `--runner`, Apache Beam creates the
same examples on its workers, which need this package and the input at the same path; interrupted runs do not resume.
"""

import shlex

from absl import flags

from keras_bert.corpus import lines
from keras_bert.pretraining.record_files import MANIFEST

from . import command, common_flags

command.section("data")
_INPUT = flags.DEFINE_string("input", None, "Glob pattern of the text files.")
_VOCAB = flags.DEFINE_string("vocab", None, "Vocabulary file, a vocab.txt.")
_FORMAT = flags.DEFINE_enum(
    "format",
    "sentences",
    ["sentences", "paragraphs", "jsonl"],
    "Format of the input, see above.",
)
flags.DEFINE_string("field", "text", "Field with the text in jsonl.")
flags.DEFINE_bool("lowercase", True, "Whether the vocabulary is uncased.")
flags.DEFINE_bool("strip_accents", None, "Whether to strip accents; default: as --lowercase.")
command.section("examples")
flags.DEFINE_integer("sequence_length", 128, "Number of tokens of an example.")
flags.DEFINE_bool("next_sentence", True, "Creates sentence pairs; otherwise full-length rows of text.")
flags.DEFINE_bool("special_tokens", True, "Adds [CLS] and [SEP] to rows; --nospecial_tokens as in GPT.")
flags.DEFINE_float("short_seq_prob", 0.1, "Probability of a shorter pair.")
flags.DEFINE_integer("duplicates", None, "Passes over the text; default: 1, with --static 10.")
flags.DEFINE_integer("seed", 1, "Random seed.")
command.section("masks")
_STATIC = flags.DEFINE_bool("static", False, "Draws the masks now, fixed for all epochs.")
flags.DEFINE_float("masked_lm_prob", 0.15, "Fraction of the tokens to predict.")
flags.DEFINE_integer("max_predictions", None, "Maximum predictions per example; default: that fraction of it.")
flags.DEFINE_bool("whole_word", False, "Masks all tokens of a word together.")
flags.DEFINE_integer("max_ngram", 1, "Maximum number of adjacent words to mask together.")
flags.DEFINE_float("mask_share", 0.8, "Fraction of the predicted tokens replaced by [MASK].")
flags.DEFINE_float("random_share", 0.1, "Fraction replaced by a random token; the rest are unchanged.")
command.section("output")
_OUTPUT = flags.DEFINE_string("output_dir", None, "Output folder.", required=True)
_INSPECT = flags.DEFINE_integer("inspect", 0, "Only prints this many examples of --output_dir.")
_SHARDS = flags.DEFINE_integer("shards", None, "Number of files; default: one per 64 MB, at least 16.", 1)
_PROCESSES = flags.DEFINE_integer(
    "processes", None, "Number of processes; default: one per core, or one for small inputs.", 1
)
_COMPRESS = flags.DEFINE_bool("compress", False, "Compresses the files to .gz.")
command.section("Apache Beam")
_RUNNER = flags.DEFINE_string("runner", None, "Apache Beam runner, such as DirectRunner; default: no Beam.")
_BEAM_OPTIONS = flags.DEFINE_list("beam_options", [], "Pipeline option(s) of the runner.")
command.renamed(output="output_dir")


def check():
    """Finds mistakes in flags and paths."""
    if _INSPECT.value:
        return
    for holder in (_INPUT, _VOCAB):
        if holder.value is None:
            raise ValueError(f"--{holder.name} is required. Received: none")
    common_flags.only(_FORMAT.value == "jsonl", "with --format=jsonl", "field")
    common_flags.only(flags.FLAGS.next_sentence, "with --next_sentence", "short_seq_prob")
    if _BEAM_OPTIONS.value and not _RUNNER.value:
        raise ValueError(f"--beam_options requires --runner. Received: {','.join(_BEAM_OPTIONS.value)}")
    if _PROCESSES.value and _RUNNER.value:
        raise ValueError(f"--processes cannot be used with --runner. Received: {_PROCESSES.value}")
    if not _RUNNER.value:
        lines.find(_INPUT.value)
        common_flags.check_paths(vocab=_VOCAB.value)


def main():
    from keras_bert.pretraining.beam import generate_with_beam
    from keras_bert.pretraining.generate import generate
    from keras_bert.pretraining.inspection import describe
    from keras_bert.pretraining.masking import Masking
    from keras_bert.pretraining.settings import Settings
    from keras_bert.training.progress import messages

    if _INSPECT.value:
        print(describe(_OUTPUT.value, _INSPECT.value, _VOCAB.value))
        return
    duplicates = flags.FLAGS.duplicates or (10 if _STATIC.value else 1)
    settings = common_flags.instance(
        Settings, masking=common_flags.instance(Masking), duplicates=duplicates, form=_FORMAT.value
    )
    what = _INPUT.value, _OUTPUT.value, _VOCAB.value, settings
    how = {"shards": _SHARDS.value, "compress": _COMPRESS.value}
    if _RUNNER.value:
        manifest = generate_with_beam(*what, _RUNNER.value, _BEAM_OPTIONS.value, **how)
    else:
        with messages() as show:
            manifest = generate(*what, workers=_PROCESSES.value, progress=show, **how)
    output = _OUTPUT.value.rstrip("/")
    print(f"data:         {output}: {_summary(manifest)}")
    print(f"statistics:   {output}/{MANIFEST}")
    command.print_next(_next(output))


def _summary(manifest):
    examples, documents, tokens = manifest["examples"], manifest["corpus"]["documents"], manifest["tokens"]
    shares = f"{manifest['unknown_share']:.2%} of them unknown; {manifest['padding_share']:.2%} padding"
    return f"{examples:,} examples of {documents:,} documents, {tokens:,} tokens, {shares}"


def _next(output):
    """Returns the command that trains on the data."""
    objective = "" if flags.FLAGS.next_sentence else " --next_sentence=false"
    objective += "" if flags.FLAGS.special_tokens else " --causal"
    phase = f"length:{flags.FLAGS.sequence_length},steps:10000,batch:32"
    train = f"{command.spelling('run_pretraining')} --data={shlex.quote(output)} --config=tiny --phase={phase}"
    return f"{train}{objective} --output_dir=runs/tiny"


if __name__ == "__main__":
    command.run(main, check=check)

"""Trains a sentence encoder on pairs with scores, pairs, triplets, NLI or SQuAD, and keeps the best model on dev.

    python -m pipelines.run_embedding --train_file=glue/STS-B/train.tsv --dev_file=glue/STS-B/dev.tsv \\
        --model=google-bert/bert-base-uncased --output_dir=runs/sts
    python -m pipelines.run_embedding --train_file=questions.jsonl --dev_file=dev.jsonl --model=... \\
        --output_dir=runs/search --batch_size=256 --gradient_accumulation=8 --learning_rate=2e-5,5e-5

The columns of CSV, TSV and JSONL files tell what they are: two texts (`query` and `passage`, `question` and `context`,
`sentence1` and `sentence2`, ...) with `score` are trained by cosine regression and evaluated by correlation; two texts
alone, by in-batch negatives, and evaluated by the rank of the right passage among all of the dev file; with `negative`
columns or a list `negatives`, as triplets; with `label` as NLI (`premise`, `hypothesis`), whose contradictions are
negatives. A `.json` file is SQuAD. In-batch negatives are those of the whole batch, also with `--gradient_accumulation`
and several replicas: large batches need time, not memory.

A `--model` that is a sentence encoder keeps its pooling. Flags with several values form a grid; the same command
resumes interrupted runs and keeps finished ones. `--output_dir` contains `flags.txt` (for `--flagfile`), `runs/`,
`results.json`, `results.md`, `report.html`, `errors.tsv`, the best model in `model/`, which sentence-transformers opens
too, and its export, from text to vector, in `saved_model/1/`.
"""

import functools
import pathlib
import shlex

from absl import flags

import keras_bert
from keras_bert.tasks.embedding import data

from . import command, common_flags

command.section("data")
_TRAIN = flags.DEFINE_string("train_file", None, "Training data: CSV, TSV, JSONL or SQuAD's JSON.", required=True)
_DEV = flags.DEFINE_string("dev_file", None, "File to select the best run on; like --train_file.", required=True)
_SKIP = flags.DEFINE_integer("skip_bad_rows", 0, "Maximum number of unreadable rows to skip in train and dev each.", 0)
_TEXT = flags.DEFINE_string("text_column", None, "Column with the query; default: `query`, `question`, `sentence1`...")
_PAIR = flags.DEFINE_string("pair_column", None, "Column with the passage; default: `passage`, `positive`, ...")
_SCORE = flags.DEFINE_string("score_column", None, "Column with the similarity; default: `score`.")
_RANGE = flags.DEFINE_list("score_range", None, "Lowest and highest score; default: 0,1 or 0,5, as the scores show.")
_LENGTH = flags.DEFINE_integer(
    "sequence_length", None, "Maximum number of tokens of a text; default: that of a sentence encoder, or else 128.", 3
)
command.section("model")
_POOLING = flags.DEFINE_enum("pooling", None, ["mean", "cls", "max"], "Pooling; default: the model's, or else mean.")
_NORMALIZE = flags.DEFINE_bool("normalize", None, "Scales vectors to length 1; default: as the model.")
_PROJECTION = flags.DEFINE_integer("projection", None, "Units of a new dense layer after pooling.", 1)
_QUERY = flags.DEFINE_string("query_prompt", None, "Text before each query; default: as the model.")
_PASSAGE = flags.DEFINE_string("passage_prompt", None, "Text before each passage; default: as the model.")
command.section("training")
_LOSS = flags.DEFINE_enum("loss", None, ["cosine", "in_batch", "triplet"], "Loss; default: as the data shows.")
_TEMPERATURE = flags.DEFINE_float("temperature", 0.05, "Divisor of similarities, of in-batch negatives.", 1e-6)
_MARGIN = flags.DEFINE_float("margin", 1.0, "Margin of the triplet loss.", 1e-6)
_DISTANCE = flags.DEFINE_enum("distance", "euclidean", ["euclidean", "cosine"], "Distance of the triplet loss.")
_FLAGS = common_flags.finetuning("2e-5", "32")


def check():
    """Finds mistakes in flags and files."""
    common_flags.choices(_FLAGS, [], None, None)
    common_flags.check_model(_FLAGS.model.value)
    for name in ("lora_rank", "lora_alpha"):
        if getattr(_FLAGS, name).value is not None:
            raise ValueError(f"--{name}: sentence encoders are trained whole. Expected no --{name}")
    if _FLAGS.ensemble.value > 1:
        raise ValueError(f"--ensemble: sentence encoders have none. Received: --ensemble={_FLAGS.ensemble.value}")
    train, dev = _data()
    loss = data.loss_name(train.kind, _LOSS.value)
    common_flags.only(loss == "in_batch", f"for the loss in_batch, not for {loss}", _TEMPERATURE.name)
    common_flags.only(loss == "triplet", f"for the loss triplet, not for {loss}", _MARGIN.name, _DISTANCE.name)
    common_flags.only(train.kind == "scored", "for pairs with a score", _RANGE.name)
    if train.kind == "pairs" and len(train) < 2:
        raise ValueError(f"{_TRAIN.value}: expected at least 2 pairs: the negatives of a pair are those of others")
    if train.kind == "pairs" and 1 in (common_flags.numbers(_FLAGS.batch_size, int) or ()):
        raise ValueError(
            "--batch_size must be at least 2: the negatives of a pair are the others of its batch. Received: 1"
        )
    if train.kind != dev.kind:
        raise ValueError(f"--dev_file must be like --train_file, {train.kind}. Received: {_DEV.value}, {dev.kind}")


def main():
    from keras_bert.tasks.embedding.task import EmbeddingTask
    from keras_bert.training.distribution import is_chief

    _, strategy = common_flags.begin(_FLAGS)
    (train, dev), model = _data(), _FLAGS.model.value
    names = {"train": pathlib.Path(_TRAIN.value).name, "dev": pathlib.Path(_DEV.value).name}
    bert = keras_bert.load(model)
    length = _LENGTH.value or bert.sequence_length or min(128, bert.config.max_position_embeddings)
    task = EmbeddingTask(train, dev, names, model, bert, length, _settings())
    choices = common_flags.choices(_FLAGS, [2e-5], 32, 3)
    common_flags.finetune(_FLAGS, task, choices, strategy, '"A text."')
    if is_chief(strategy):
        found = shlex.quote(str(pathlib.Path(_FLAGS.output_dir.value) / "model"))
        print(f"              {command.spelling('search')} --model={found} --index=my_index --input=passages.jsonl")


def _settings():
    from keras_bert.tasks.embedding.task import EmbeddingSettings

    holders = (_LOSS, _POOLING, _NORMALIZE, _PROJECTION, _TEMPERATURE, _MARGIN, _DISTANCE)
    prompts = {"query": _QUERY.value, "passage": _PASSAGE.value}
    prompts = {name: text for name, text in prompts.items() if text is not None}
    return EmbeddingSettings(**{holder.name: holder.value for holder in holders}, prompts=prompts)


@functools.cache
def _data():
    score_range = _RANGE.value and tuple(common_flags.numbers(_RANGE, float))
    if score_range and (len(score_range) != 2 or score_range[0] >= score_range[1]):
        raise ValueError(f"--score_range must be LOWEST,HIGHEST. Received: --score_range={','.join(_RANGE.value)}")
    columns, skip = (_TEXT.value, _PAIR.value, _SCORE.value), _SKIP.value
    train, dev = (data.read(path, *columns, score_range, skip) for path in (_TRAIN.value, _DEV.value))
    if train.score_range and dev.score_range and train.score_range != dev.score_range:  # Of both files.
        score_range = max(train.score_range, dev.score_range)
        train, dev = (data.read(path, *columns, score_range, skip) for path in (_TRAIN.value, _DEV.value))
    return train.first(_FLAGS.max_train_examples.value), dev


if __name__ == "__main__":
    command.run(main, check=check, resumes=True)

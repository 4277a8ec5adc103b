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

import dataclasses
import functools
import shlex
import typing

import keras_bert
from keras_bert.tasks.embedding import data

from . import command, common_flags
from .arguments import flag


@dataclasses.dataclass(frozen=True)
class Arguments(data.EmbeddingSettings, common_flags.FinetuningFlags):
    wording: typing.ClassVar = {"rates": "2e-5", "batches": "32", "epochs": "3"}

    train_file: str = flag(None, "Training data: CSV, TSV, JSONL or SQuAD's JSON.", required=True, section="data")
    dev_file: str = flag(None, "File to select the best run on; like --train_file.", required=True)
    skip_bad_rows: int = flag(0, "Maximum number of unreadable rows to skip in train and dev each.", least=0)

    @functools.cached_property
    def data(self):
        """The training data and dev, with the same range of scores."""
        score_range = self.score_range and tuple(self.score_range)
        if score_range and (len(score_range) != 2 or score_range[0] >= score_range[1]):
            raise ValueError(f"--score_range must be LOWEST,HIGHEST. Received: {self.given['score_range']}")
        columns = self.text_column, self.pair_column, self.score_column
        read = data.read_all(self.train_file, self.dev_file, *columns, score_range, self.skip_bad_rows)
        return read.first(self.max_train_examples)


def check(arguments):
    """Finds mistakes in flags and files."""
    for name in ("lora_rank", "lora_alpha"):
        if getattr(arguments, name) is not None:
            raise ValueError(f"--{name}: sentence encoders are trained whole. Expected no --{name}")
    arguments.check_model()
    if arguments.ensemble > 1:
        raise ValueError(f"--ensemble: sentence encoders have none. Received: --ensemble={arguments.ensemble}")
    train, dev = arguments.data.train, arguments.data.dev
    loss = data.loss_name(train.kind, arguments.loss)
    arguments.only(loss == "in_batch", f"for the loss in_batch, not for {loss}", "temperature")
    arguments.only(loss == "triplet", f"for the loss triplet, not for {loss}", "margin", "distance")
    arguments.only(train.kind == "scored", "for pairs with a score", "score_range")
    if train.kind == "pairs" and len(train) < 2:
        raise ValueError(
            f"{arguments.train_file}: expected at least 2 pairs: the negatives of a pair are those of others"
        )
    if train.kind == "pairs" and 1 in (arguments.batch_size or ()):
        raise ValueError(
            "--batch_size must be at least 2: the negatives of a pair are the others of its batch. Received: 1"
        )
    if train.kind != dev.kind:
        raise ValueError(
            f"--dev_file must be like --train_file, {train.kind}. Received: {arguments.dev_file}, {dev.kind}"
        )


def main(arguments):
    from keras_bert.tasks.base import Start
    from keras_bert.tasks.embedding.task import EmbeddingTask
    from keras_bert.training.distribution import is_chief

    strategy, model = arguments.create_strategy(), arguments.model
    task = EmbeddingTask(arguments.data, Start(model, keras_bert.load(model)), arguments.fill(data.EmbeddingSettings))
    common_flags.finetune(arguments, task, arguments.choices(task), strategy, '"A text."')
    if is_chief(strategy):
        folder = shlex.quote(str(arguments.output / "model"))
        print(f"              {command.spelling('search')} --model={folder} --index=my_index --input=passages.jsonl")


if __name__ == "__main__":
    command.run(__doc__, Arguments, main, check, resumes=True)

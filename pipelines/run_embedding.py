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

import shlex

from keras_bert.tasks.embedding.data import EmbeddingSettings, loss_name

from . import command
from .common_flags import BadRows, Files, TaskFlags
from .common_flags import finetune as main


class Arguments(Files, BadRows, EmbeddingSettings, TaskFlags):
    task = "embedding"
    Settings = EmbeddingSettings
    texts = '"A text."'
    wording = TaskFlags.wording | {
        "train": ": CSV, TSV, JSONL or SQuAD's JSON",
        "dev": "; like --train_file",
        "rates": "2e-5",
    }

    def check_conditions(self):
        """Same as for other commands; raises an error, too, for adapters."""
        for name in ("lora_rank", "lora_alpha"):
            if getattr(self, name) is not None:
                raise ValueError(f"--{name}: sentence encoders are trained whole. Expected no --{name}")
        super().check_conditions()

    def more(self):
        """Returns the command that searches with the model."""
        model = shlex.quote(str(self.output / "model"))
        return [f"{command.spelling('search')} --model={model} --index=my_index --input=passages.jsonl"]


def check(arguments):
    if arguments.ensemble > 1:
        raise ValueError(f"--ensemble: sentence encoders have none. Received: --ensemble={arguments.ensemble}")
    train = arguments.data.train
    dev = arguments.data.dev
    loss = loss_name(train.kind, arguments.loss)
    arguments.only(loss == "in_batch", f"for the loss in_batch, not for {loss}", "temperature")
    arguments.only(loss == "triplet", f"for the loss triplet, not for {loss}", "margin", "distance")
    arguments.only(train.kind == "scored", "for pairs with a score", "score_range")
    if train.kind == "pairs":
        _check_negatives(arguments, train)
    if train.kind != dev.kind:
        raise ValueError(
            f"--dev_file must be like --train_file, {train.kind}. Received: {arguments.dev_file}, {dev.kind}"
        )


def _check_negatives(arguments, train):
    """Raises an error for pairs without others, in the file or in a batch, whose passages are their negatives."""
    if len(train) < 2:
        raise ValueError(
            f"{arguments.train_file}: expected at least 2 pairs: the negatives of a pair are those of others"
        )
    if 1 in (arguments.batch_size or ()):
        raise ValueError(
            "--batch_size must be at least 2: the negatives of a pair are the others of its batch. Received: 1"
        )


if __name__ == "__main__":
    command.run(__doc__, Arguments, main, check, resumes=True)

"""Trains a Transformer to translate, from two text files to a SavedModel that translates text.

    python -m pipelines.run_translation --train_source=train.de --train_target=train.en \\
        --dev_source=val.de --dev_target=val.en --test_source=test.de --test_target=test.en --output_dir=runs/de_en

The files have one sentence per line; equal line numbers belong together. A file without one of translations has rows
such as `{"translation": {"de": ..., "en": ...}}`, JSON or Parquet; `--languages=en,de` turns the direction round. A
joint vocabulary is learned from the training files (or see `train_vocab --reversible`). After each epoch, BLEU of
greedy translations of dev is computed; a run keeps the weights of its best epoch, or the average of the last ones if it
is better. Several values of `--learning_rate`, `--tokens_per_batch`, `--epochs` or `--seed` train a run for each; the
best one on dev is kept. The same command resumes interrupted runs. `--output_dir` contains `report.html`,
`results.json` and `results.md`, `flags.txt` (for `--flagfile`), `vocab.txt`, `runs/`, `dev.txt` and `test.txt` with the
translations, `model/` with its card, which transformers opens too, and its export in `saved_model/1/`.
"""

import dataclasses
import functools

from keras_bert.translation import data
from keras_bert.translation.config import TranslationSettings, open_config

from . import command, common_flags
from .arguments import flag

_PARTS = ("train", "dev", "test")


class Arguments(TranslationSettings, common_flags.Training):
    train_source: str = flag(None, "Sentences to train on.", is_file=True, required=True, section="data")
    train_target: str = flag(None, "Their translations; none for rows, which have both.", is_file=True)
    dev_source: str = flag(None, "Sentences to select the best epoch on.", is_file=True, required=True)
    dev_target: str = flag(None, "Their translations; none for rows.", is_file=True)
    test_source: str = flag(None, "Sentences to translate at the end.", is_file=True)
    test_target: str = flag(None, "Their translations, to score the result.", is_file=True, needs="test_source")
    languages: list[str] = flag(None, "Source and target of rows; default: in the order of the first row.")
    vocabulary: str = flag(None, "vocab.txt of `train_vocab --reversible`; default: learned.", is_file=True)
    vocab_size: int = flag(8000, "Number of tokens of a learned vocabulary.", least=300, excludes=("vocabulary",))
    config: str = flag("mini", "Size: tiny, mini, small, base, big; or a JSON file.", section="model")
    dropout: float = flag(None, "Dropout rate; default: that of --config.", least=0, most=1)
    tokens_per_batch: list[int] = flag(
        (4096,), "Maximum number(s) of source tokens, and of target tokens.", least=1, section="training"
    )
    epochs: list[int] = flag((30,), "Maximum number(s) of epochs.", least=1)
    learning_rate: list[float] = flag(
        None, "Peak learning rate(s); default: the paper's, (width x max(warmup_steps, 1000)) ^ -0.5.", least=0
    )
    seed: list[int] = flag((1,), "Random seed(s).", least=0)

    @functools.cached_property
    def pairs(self):
        """The sentences and their translations by part: "train", "dev" and, if there are any to translate, "test"."""
        pairs = {}
        for part in _PARTS:
            source = getattr(self, f"{part}_source")
            target = getattr(self, f"{part}_target")
            if source:
                pairs[part] = data.read(source, target, self.languages)
        return pairs


def check(arguments):
    open_config(arguments.config).check_huggingface()
    for part in ("train", "dev"):
        if arguments.pairs[part].targets is None:
            raise ValueError(f"--{part}_target is required: the translations of --{part}_source. See --help")


def main(arguments):
    from keras_bert.runs.finetuning import Plan
    from keras_bert.translation.run import TranslationRuns, open_vocabulary
    from keras_bert.translation.task import TranslationTask

    strategy = arguments.create_strategy()
    settings = arguments.fill(TranslationSettings)
    train = arguments.pairs["train"]
    test = arguments.pairs.get("test")
    vocabulary = open_vocabulary(arguments.vocabulary, train, arguments.vocab_size, arguments.output)
    config = _config(arguments, vocabulary)
    task = TranslationTask(train, arguments.pairs["dev"], test, vocabulary, config, settings, arguments.config)
    plan = Plan(
        task,
        _choices(arguments, task),
        settings,
        arguments.output,
        strategy=strategy,
        log_every=50,
        report_to=arguments.report_to,
    )
    translations = "test.txt" if test else "dev.txt"
    common_flags.run_and_print(arguments, TranslationRuns(plan), '"A text."', translations)


def _config(arguments, vocabulary):
    """Returns the config of the model, with the size of the vocabulary and the dropout rate that a flag sets."""
    config = open_config(arguments.config)
    dropout = config.dropout if arguments.dropout is None else arguments.dropout
    return dataclasses.replace(config, vocab_size=len(vocabulary), dropout=dropout)


def _choices(arguments, task):
    """Returns the grid of the runs; the default learning rate is that of the run with the most steps."""
    learning_rates = arguments.learning_rate
    if not learning_rates:
        default = task.training.learning_rate(min(arguments.tokens_per_batch), max(arguments.epochs))
        learning_rates = [default]
    return {
        "learning_rate": learning_rates,
        "tokens_per_batch": arguments.tokens_per_batch,
        "epochs": arguments.epochs,
        "seed": arguments.seed,
    }


if __name__ == "__main__":
    command.run(__doc__, Arguments, main, check, resumes=True)

"""Trains a Transformer to translate, from two text files to a SavedModel that translates text.

    python -m pipelines.run_translation --train_source=train.de --train_target=train.en \\
        --dev_source=val.de --dev_target=val.en --test_source=test.de --test_target=test.en --output_dir=runs/de_en

The files have one sentence per line; equal line numbers belong together. A joint vocabulary is learned from the
training files (or see `train_vocab --reversible`). After each epoch, BLEU of greedy translations of dev is
computed; the weights of the best epoch, or the average of the last ones if it is better, are kept. The same command
resumes an interrupted run. `--output_dir` contains `report.html`, `flags.txt` (for `--flagfile`), `vocab.txt`,
`metrics.jsonl`, `results.json`, `dev.txt` and `test.txt` with the translations, `model/`, which transformers opens
too, and its export in `saved_model/1/`.
"""

import dataclasses
import shlex

import keras_bert
from keras_bert.files import write_text
from keras_bert.translation import data
from keras_bert.translation.config import open_config

from . import command, common_flags
from .arguments import flag


@dataclasses.dataclass(frozen=True)
class Arguments(common_flags.Training):
    train_source: str = flag(None, "Sentences to train on.", required=True, section="data")
    train_target: str = flag(None, "Their translations.", required=True)
    dev_source: str = flag(None, "Sentences to select the best epoch on.", required=True)
    dev_target: str = flag(None, "Their translations.", required=True)
    test_source: str = flag(None, "Sentences to translate at the end.")
    test_target: str = flag(None, "Their translations, to score the result.")
    vocab: str = flag(None, "vocab.txt of `train_vocab --reversible`; default: learned.")
    vocab_size: int = flag(8000, "Number of tokens of a learned vocabulary.", least=300)
    config: str = flag("mini", "Size: tiny, mini, small, base, big; or a JSON file.", section="model")
    dropout: float = flag(None, "Dropout rate; default: that of --config.", least=0, most=1)
    tokens_per_batch: int = flag(
        4096, "Maximum number of source tokens, and of target tokens.", least=1, section="training"
    )
    epochs: int = flag(30, "Maximum number of epochs.", least=1)
    learning_rate: float = flag(
        None, "Peak learning rate; default: the paper's, (width x max(warmup_steps, 1000)) ^ -0.5.", least=0
    )
    warmup_steps: int = flag(
        None, "Steps until the peak, before the rate falls; default: 4000, or an eighth of all steps.", least=1
    )
    label_smoothing: float = flag(0.1, "Share of the probability that is spread over all tokens.", least=0, most=1)
    max_length: int = flag(128, "Maximum number of tokens of a sentence; longer pairs are left out.", least=2)
    average: int = flag(5, "Number of the last epochs whose weights are averaged.", least=1)
    patience: int = flag(None, "Epochs without a better BLEU, or loss at the same BLEU, before stopping.", least=1)
    seed: int = flag(1, "Random seed.", least=0)
    beam_size: int = flag(4, "Number of beams.", least=1, section="translation")
    length_penalty: float = flag(0.6, "Alpha of the length penalty; 0 for none.", least=0)
    bleu_tokenizer: str = flag(
        "13a", "sacreBLEU's tokenizer; char or zh if words have no spaces.", values=["13a", "intl", "char", "zh"]
    )


def check(arguments):
    """Finds mistakes in flags and files."""
    sides = [(f"{part}_source", f"{part}_target") for part in ("train", "dev", "test")]
    names = [name for pair in sides for name in pair]
    common_flags.check_paths(**{name: getattr(arguments, name) for name in (*names, "vocab")})
    arguments.only(not arguments.vocab, "without --vocab", "vocab_size")
    if arguments.test_target and not arguments.test_source:
        raise ValueError("--test_target needs --test_source, the sentences to translate")
    open_config(arguments.config).check_huggingface()
    for source, target in sides:
        if getattr(arguments, source):  # Finds mistakes in the files before TensorFlow is loaded.
            data.read(getattr(arguments, source), getattr(arguments, target))


def main(arguments):
    from keras_bert.training.averaging import WeightAverage
    from keras_bert.training.callbacks import create_callbacks
    from keras_bert.training.distribution import is_chief
    from keras_bert.translation import run as translation
    from keras_bert.translation.results import conclude

    strategy, output = arguments.create_strategy(), arguments.output
    settings = arguments.fill(translation.Settings)
    train = data.read(arguments.train_source, arguments.train_target)
    dev = data.read(arguments.dev_source, arguments.dev_target)
    test = data.read(arguments.test_source, arguments.test_target) if arguments.test_source else None
    vocabulary = translation.open_vocabulary(arguments.vocab, train, arguments.vocab_size, output)
    rates = {} if arguments.dropout is None else {"dropout": arguments.dropout}
    config = dataclasses.replace(open_config(arguments.config), vocab_size=len(vocabulary), **rates)
    task = translation.TranslationTask(train, dev, vocabulary, config, settings)
    average = WeightAverage(output / "averaged", lambda: trainer.model, settings.average)
    trainer = keras_bert.Trainer(
        lambda: task.build(arguments.precision),
        task.optimizer,
        task.loss,
        task.metrics,
        directory=output,
        strategy=strategy,
        micro_batches=arguments.gradient_accumulation,
        seed=settings.seed,
        settings={**task.run_settings, "precision": arguments.precision},
        callbacks=[average, *create_callbacks(arguments.report_to, output, output.name)],
    )
    if is_chief(strategy):
        write_text(output / "flags.txt", arguments.flagfile)
    results = trainer.fit(
        task.train, epochs=settings.epochs, evaluation=task.evaluation, best="bleu", patience=settings.patience
    )
    if is_chief(strategy):
        print(conclude(task, trainer, results, average, test, output))
        folder = shlex.quote(str(output))
        command.print_next(f'{command.spelling("predict")} --model={folder}/model "A text."')
        command.print_next(f"{command.spelling('serve')} --saved_models={folder}")


if __name__ == "__main__":
    command.run(__doc__, Arguments, main, check, resumes=True)

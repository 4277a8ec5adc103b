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
import pathlib
import shlex

from absl import flags

import keras_bert
from keras_bert.files import write_text
from keras_bert.translation import data
from keras_bert.translation.config import open_config

from . import command, common_flags

command.section("data")
_TRAIN = flags.DEFINE_string("train_source", None, "Sentences to train on.", required=True)
_TRAIN_TARGET = flags.DEFINE_string("train_target", None, "Their translations.", required=True)
_DEV = flags.DEFINE_string("dev_source", None, "Sentences to select the best epoch on.", required=True)
_DEV_TARGET = flags.DEFINE_string("dev_target", None, "Their translations.", required=True)
_TEST = flags.DEFINE_string("test_source", None, "Sentences to translate at the end.")
_TEST_TARGET = flags.DEFINE_string("test_target", None, "Their translations, to score the result.")
_VOCAB = flags.DEFINE_string("vocab", None, "vocab.txt of `train_vocab --reversible`; default: learned.")
_VOCAB_SIZE = flags.DEFINE_integer("vocab_size", 8000, "Number of tokens of a learned vocabulary.", 300)
command.section("model")
_CONFIG = flags.DEFINE_string("config", "mini", "Size: tiny, mini, small, base, big; or a JSON file.")
_DROPOUT = flags.DEFINE_float("dropout", None, "Dropout rate; default: that of --config.", 0, 1)
command.section("training")
flags.DEFINE_integer("tokens_per_batch", 4096, "Maximum number of source tokens, and of target tokens.", 1)
flags.DEFINE_integer("epochs", 30, "Maximum number of epochs.", 1)
flags.DEFINE_float(
    "learning_rate", None, "Peak learning rate; default: the paper's, (width x max(warmup_steps, 1000)) ^ -0.5.", 0
)
flags.DEFINE_integer(
    "warmup_steps", None, "Steps until the peak, before the rate falls; default: 4000, or an eighth of all steps.", 1
)
flags.DEFINE_float("label_smoothing", 0.1, "Share of the probability that is spread over all tokens.", 0, 1)
flags.DEFINE_integer("max_length", 128, "Maximum number of tokens of a sentence; longer pairs are left out.", 2)
flags.DEFINE_integer("average", 5, "Number of the last epochs whose weights are averaged.", 1)
flags.DEFINE_integer("patience", None, "Epochs without a better BLEU, or loss at the same BLEU, before stopping.", 1)
flags.DEFINE_integer("seed", 1, "Random seed.", 0)
command.section("translation")
flags.DEFINE_integer("beam_size", 4, "Number of beams.", 1)
flags.DEFINE_float("length_penalty", 0.6, "Alpha of the length penalty; 0 for none.", 0)
flags.DEFINE_enum(
    "bleu_tokenizer", "13a", ["13a", "intl", "char", "zh"], "sacreBLEU's tokenizer; char or zh if words have no spaces."
)
_FLAGS = common_flags.training()


def check():
    """Finds mistakes in flags and files."""
    paths = (_TRAIN, _TRAIN_TARGET, _DEV, _DEV_TARGET, _TEST, _TEST_TARGET, _VOCAB)
    common_flags.check_paths(**{holder.name: holder.value for holder in paths})
    common_flags.only(not _VOCAB.value, "without --vocab", _VOCAB_SIZE.name)
    if _TEST_TARGET.value and not _TEST.value:
        raise ValueError("--test_target needs --test_source, the sentences to translate")
    open_config(_CONFIG.value).check_huggingface()
    for source, target in ((_TRAIN, _TRAIN_TARGET), (_DEV, _DEV_TARGET), (_TEST, _TEST_TARGET)):
        if source.value:
            data.read(source.value, target.value)  # Finds mistakes in the files before TensorFlow is loaded.


def main():
    from keras_bert.training.averaging import WeightAverage
    from keras_bert.training.callbacks import create_callbacks
    from keras_bert.training.distribution import is_chief
    from keras_bert.translation import run as translation
    from keras_bert.translation.results import conclude

    output, strategy = common_flags.begin(_FLAGS)
    settings = common_flags.instance(translation.Settings)
    train, dev = data.read(_TRAIN.value, _TRAIN_TARGET.value), data.read(_DEV.value, _DEV_TARGET.value)
    test = data.read(_TEST.value, _TEST_TARGET.value) if _TEST.value else None
    vocabulary = translation.open_vocabulary(_VOCAB.value, train, _VOCAB_SIZE.value, output)
    rates = {} if _DROPOUT.value is None else {"dropout": _DROPOUT.value}
    config = dataclasses.replace(open_config(_CONFIG.value), vocab_size=len(vocabulary), **rates)
    task = translation.TranslationTask(train, dev, vocabulary, config, settings)
    average = WeightAverage(output / "averaged", lambda: trainer.model, settings.average)
    trainer = keras_bert.Trainer(
        lambda: task.build(_FLAGS.precision.value),
        task.optimizer,
        task.loss,
        task.metrics,
        directory=output,
        strategy=strategy,
        micro_batches=_FLAGS.gradient_accumulation.value,
        seed=settings.seed,
        settings={**task.run_settings, "precision": _FLAGS.precision.value},
        callbacks=[average, *create_callbacks(_FLAGS.report_to.value, output, output.name)],
    )
    if is_chief(strategy):
        write_text(output / "flags.txt", command.given_flags())
    results = trainer.fit(
        task.train,
        epochs=settings.epochs,
        evaluation=task.evaluation,
        best="bleu",
        patience=settings.patience,
    )
    if is_chief(strategy):
        print(conclude(task, trainer, results, average, test, output))
        for line in _next():
            command.print_next(line)


def _next():
    """Returns the next commands."""
    folder = shlex.quote(str(pathlib.Path(_FLAGS.output_dir.value)))
    return [
        f'{command.spelling("predict")} --model={folder}/model "A text."',
        f"{command.spelling('serve')} --saved_models={folder}",
    ]


if __name__ == "__main__":
    command.run(main, check=check, resumes=True)

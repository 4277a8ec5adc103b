"""Training runs of translation models over a grid, and what they leave."""

import dataclasses
import functools
import logging

import numpy as np
import tensorflow as tf

from keras_bert.checkpoints.save import save
from keras_bert.corpus.word_counts import count_words
from keras_bert.corpus.wordpiece_trainer import learn_vocabulary
from keras_bert.exporting.export import export
from keras_bert.files import difference, read_json, write_json
from keras_bert.progress import announced, messages, track
from keras_bert.runs.finetuning import Finetuning
from keras_bert.runs.results import ExportedModel, ResultsWriter
from keras_bert.runs.run import Run
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.training.adamw import AdamW
from keras_bert.training.callbacks import Callback
from keras_bert.training.losses import Score, token_loss
from keras_bert.training.schedule import InverseSquareRootSchedule
from keras_bert.training.snapshots import Snapshots
from keras_bert.training.trainer import Trainer
from keras_bert.translation.data import listed_lines
from keras_bert.translation.decoding import Beam
from keras_bert.translation.model import Decoder
from keras_bert.translation.signature import Translator

_LOG = logging.getLogger("keras_bert")
_ROWS = 64  # Texts that are translated together.


class _Results(ResultsWriter):
    """Writes the results of translation models."""

    def export_model(self):
        with announced("exporting the model", delay=0):
            model = self.task.start.load(self.output / "model").model()  # In float32, outside of any strategy.
            options = self.task.export_options(None)
            export(model, self.task.tokenizer, self.output / "saved_model" / "1", overwrite=True, **options)
        return ExportedModel(bert=None, parameters=model.count_params())


class TranslationRun(Run):
    """Trains a new Transformer.

    It keeps the best epoch by BLEU of greedy translations of dev, or the average of its last epochs if beam search
    translates dev better with it.
    """

    def finish(self):
        trainer, result = self.train(self.stages())
        translate = translation(Translator(Decoder(trainer.model), self.task.tokenizer, self.task.beam))
        dev = self._better(trainer.model, translate)
        greedy = result["scores"]
        best = max(dev["scores"])
        result["scores"] = {"bleu": best, "greedy_bleu": greedy["bleu"], "loss": greedy["loss"]}
        if best > dev["scores"][0]:
            del result["epoch"]  # The average of several.
        return trainer, result, {"dev": dev, "test": self.task.report.test_logits(translate)}

    def _better(self, model, translate):
        """Sets the model to the better one of its weights and the average; returns its translations of dev.

        Returns a dict: `dev`, the translations; `names` of both weights; `scores`, BLEU of both.
        """
        best = [tf.identity(weight.value) for weight in model.weights]
        translated = {"best epoch": self.task.report.dev_logits(translate)["dev"]}
        steps = self._average.assign()
        if len(steps) > 1:
            translated[f"average of {len(steps)} epochs"] = self.task.report.dev_logits(translate)["dev"]
        scores = [self.task.report.dev_score(translations) for translations in translated.values()]
        chosen = int(np.argmax(scores))
        if chosen == 0:
            for weight, value in zip(model.weights, best, strict=True):
                weight.assign(value)
        return {"dev": list(translated.values())[chosen], "names": list(translated), "scores": scores}

    def create_trainer(self, stage, folder, weights, metrics=()):
        setting = self.setting
        shared = self.hyperparameters
        task = self.task
        batches = task.training.batches_of("train", tokens_per_batch=setting["tokens_per_batch"], seed=setting["seed"])
        warmup = self._warmup_steps(setting["epochs"] * batches.steps)

        def optimizer(model):
            """Returns the optimizer of Vaswani et al., 2017, section 5.3."""
            schedule = InverseSquareRootSchedule(setting["learning_rate"], warmup)
            return AdamW(schedule, weight_decay=0.0, beta_1=0.9, beta_2=0.98, epsilon=1e-9)

        @functools.cache
        def greedy():
            return translation(Translator(Decoder(trainer.model), task.tokenizer, Beam(1, 0.0)), show=False)

        perplexity = dataclasses.replace(token_loss(), name="perplexity", finish=np.exp)
        bleu = Score(lambda: {"bleu": task.report.dev_score(task.report.dev_logits(greedy())["dev"])})
        self._average = WeightAverage(folder / "averaged", lambda: trainer.model, shared.average)
        options = self.options(folder)
        options["callbacks"] = [self._average, *options["callbacks"]]
        trainer = Trainer(
            lambda: stage.build(shared.precision),
            optimizer,
            stage.loss,
            metrics=[perplexity, bleu],
            settings={"precision": shared.precision},
            **options,
        )
        return trainer, batches

    def _warmup_steps(self, steps):
        """Returns the number of warm-up steps of a training of `steps`, and warns if it ends before."""
        warmup = self.task.training.warmup_steps(steps)
        if warmup > steps:
            _LOG.warning(
                "`warmup_steps=%s`: the training ends after %s steps, before the learning rate has reached its peak",
                f"{warmup:,}",
                f"{steps:,}",
            )
        return warmup


class TranslationRuns(Finetuning):
    """Trains new Transformers over a grid of `learning_rate`, `tokens_per_batch`, `epochs` and `seed`."""

    run_class = TranslationRun
    results_class = _Results

    def save(self, model, logits, setting):
        save(model, self.output / "model", overwrite=True, **self.task.save_options(logits))


def translation(translator, show=True):
    """Returns a function that translates a list of texts; `name` is what messages call them."""
    graph = tf.function(translator, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)

    def translate(texts, name):
        by_length = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        batches = [by_length[first : first + _ROWS] for first in range(0, len(texts), _ROWS)]
        translations = [""] * len(texts)
        cut_lines = []
        for batch in track(batches, f"translating {name}, batches", total=len(batches), show=show):
            outputs = graph(tf.constant([texts[index] for index in batch]))
            translated = outputs["translation"].numpy()
            truncated = outputs["truncated"].numpy()
            for index, text, is_cut in zip(batch, translated, truncated, strict=True):
                translations[index] = text.decode()
                if is_cut:
                    cut_lines.append(index + 1)
        if cut_lines and show:
            lines = listed_lines(sorted(cut_lines))
            count = f"{len(cut_lines):,}"
            _LOG.warning("%s: the ends of %s text(s) were cut off, line(s) %s", name, count, lines)
        return translations

    return translate


def open_vocabulary(path, pairs, size, folder):
    """Returns the `Vocabulary` of a file, or without a path learns one from both sides of the training pairs.

    A learned vocabulary, of `size` tokens, is written to the folder of the run, and read there when the run resumes.
    """
    if path is not None:
        return Vocabulary(path)
    output = folder / "vocab.txt"
    facts = folder / "vocab.json"
    wanted = {"vocab_size": size, "train": pairs.fingerprint()}
    learned = read_json(facts) if facts.is_file() and output.is_file() else None
    if learned != wanted:
        if learned and (folder / "runs").is_dir():
            raise ValueError(
                f"{folder} contains a run with another vocabulary: {difference(learned, wanted)}. "
                "Choose another `output_dir`, or the settings of that run"
            )
        vocabulary = _learn_vocabulary(pairs, size)
        folder.mkdir(parents=True, exist_ok=True)
        vocabulary.save(output)
        write_json(facts, wanted)
    return Vocabulary(output)


def _learn_vocabulary(pairs, size):
    with messages() as show, pairs.files() as files:
        counts, _ = count_words(files, lowercase=False, reversible=True, progress=show)
        return learn_vocabulary(counts, size, reversible=True, progress=show)


class WeightAverage(Callback):
    """A callback that keeps the weights of the last `count` evaluations; `model` is a function that returns the model.

    Example:
        average = WeightAverage("run/averaged", lambda: trainer.model, count=5)
        trainer = Trainer(..., callbacks=[average])
        trainer.fit(batches, epochs=30, evaluation=dev)
        average.assign()
    """

    def __init__(self, directory, model, count):
        self._snapshots = Snapshots(directory, keep=count)
        self._model = model

    def on_train_begin(self, settings, step):
        if step == 0:
            self._snapshots.keep_only()

    def on_evaluation(self, step, results):
        self._snapshots.save(step, self._weights(), {})

    def assign(self):
        """Sets the weights of the model to the mean of those that were kept; returns their steps."""
        steps = self._snapshots.steps()
        weights = self._weights()
        sums = {}
        for step in steps:
            self._snapshots.restore(weights, step=step)
            for name, variable in weights.items():
                value = tf.convert_to_tensor(variable)
                sums[name] = sums[name] + value if name in sums else value
        for name, total in sums.items():
            if weights[name].dtype.is_floating:
                weights[name].assign(total / len(steps))
        return steps

    def _weights(self):
        return {f"weight/{index}": weight.value for index, weight in enumerate(self._model().weights)}

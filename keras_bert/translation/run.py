"""Training of a Transformer on parallel texts: vocabulary, settings, data, model, metrics and selection."""

import dataclasses
import functools
import logging

import keras
import numpy as np
import tensorflow as tf

from keras_bert.corpus.word_counts import count_words
from keras_bert.corpus.wordpiece_trainer import learn_vocabulary
from keras_bert.files import difference, read_json, write_json
from keras_bert.text.lossless import LosslessTokenizer
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.training.adamw import AdamW
from keras_bert.training.losses import Score, token_loss
from keras_bert.training.pair_bucketing import PairBatches
from keras_bert.training.progress import announced, messages, track
from keras_bert.training.schedule import InverseSquareRootSchedule
from keras_bert.translation import data, metrics
from keras_bert.translation.beam_search import Beam
from keras_bert.translation.features import TranslationFeatures
from keras_bert.translation.model import build_transformer
from keras_bert.translation.signature import Translator

_LOG = logging.getLogger("keras_bert")
_ROWS = 64  # Texts that are translated together.
_ALIGNED = ("source_tokens", "target_tokens", "attention")


def open_vocabulary(path, pairs, size, folder):
    """Returns the `Vocabulary` of a file, or learns one from both sides of the training pairs.

    Args:
        path: path of a `vocab.txt`; `None` learns one.
        pairs: `Pairs` to learn from.
        size: int, number of tokens to learn.
        folder: path of the run, where a learned vocabulary is written, and read when the run resumes.
    """
    if path is not None:
        return Vocabulary(path)
    output, facts = folder / "vocab.txt", folder / "vocab.json"
    about = {"vocab_size": size, "train": pairs.fingerprint()}
    before = read_json(facts) if facts.is_file() and output.is_file() else None
    if before != about:
        if before and (folder / "snapshots").is_dir():
            raise ValueError(
                f"{folder} contains a run with another vocabulary: {difference(before, about)}. "
                "Choose another --output_dir, or the settings of that run"
            )
        with messages() as show:
            files = [pairs.source_path, pairs.target_path]
            counts, _ = count_words(files, lowercase=False, reversible=True, progress=show)
            learned = learn_vocabulary(counts, size, reversible=True, progress=show)
        folder.mkdir(parents=True, exist_ok=True)
        learned.save(output)
        write_json(facts, about)
    return Vocabulary(output)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of a training.

    Args:
        tokens_per_batch: int, maximum number of source tokens, and of target tokens, of a batch.
        epochs: int, maximum number of epochs.
        learning_rate: float, peak learning rate. `None` is the paper's, `(hidden_size * warmup_steps) ** -0.5`, with
            at least 1,000 steps.
        warmup_steps: int, steps until the peak. `None` is the paper's 4,000, or an eighth of all steps if they are few.
        label_smoothing: float, see `token_loss`.
        max_length: int, maximum number of tokens of a sentence; longer pairs are left out of the training.
        average: int, number of the last epochs whose weights are averaged.
        patience: int, epochs without a better BLEU, or loss at the same BLEU, before stopping; `None` for none.
        beam_size: int, beams of the final translations.
        length_penalty: float, see `Beam`.
        bleu_tokenizer: str, see `metrics.bleu`.
        seed: int.
    """

    tokens_per_batch: int = 4096
    epochs: int = 30
    learning_rate: float | None = None
    warmup_steps: int | None = None
    label_smoothing: float = 0.1
    max_length: int = 128
    average: int = 5
    patience: int | None = None
    beam_size: int = 4
    length_penalty: float = 0.6
    bleu_tokenizer: str = "13a"
    seed: int = 1


class TranslationTask:
    """What a `Trainer` needs to learn to translate, and the translations of the result.

    Args:
        train, dev: `Pairs`.
        vocabulary: a reversible `Vocabulary`.
        config: a `TransformerConfig`.
        settings: `Settings`.
    """

    def __init__(self, train, dev, vocabulary, config, settings):
        self.dev, self.config, self.settings = dev, config, settings
        self.beam = Beam(settings.beam_size, settings.length_penalty)  # Of the final translations.
        self.tokenizer = LosslessTokenizer(vocabulary)
        longest = min(settings.max_length, config.max_position_embeddings)
        with announced(f"tokenizing {len(train) + len(dev):,} pairs"):
            parts = [TranslationFeatures(data.without_blank(pairs), self.tokenizer, longest) for pairs in (train, dev)]
        sides = [(part.sources, part.targets, part.labels, settings.tokens_per_batch) for part in parts]
        self.train = PairBatches(*sides[0], seed=settings.seed)
        self.evaluation = PairBatches(*sides[1], shuffle=False)
        self.loss = token_loss(settings.label_smoothing)
        self.warmup_steps, self.learning_rate = self._rates()
        after = ("beam_size", "length_penalty")  # A finished training can be decoded with others.
        self.run_settings = {
            "config": dataclasses.asdict(config),
            "vocabulary": vocabulary.sha256[:16],
            "content": {"train": train.fingerprint(), "dev": dev.fingerprint()},
            **{name: value for name, value in dataclasses.asdict(settings).items() if name not in after},
            "warmup_steps": self.warmup_steps,
            "learning_rate": self.learning_rate,
        }

    def _rates(self):
        """Returns the number of warm-up steps and the peak learning rate."""
        steps = self.settings.epochs * self.train.steps
        warmup = self.settings.warmup_steps or min(4000, max(1, steps // 8))
        if warmup > steps:
            _LOG.warning(
                "--warmup_steps=%s: the training ends after %s steps, before the learning rate has reached its peak",
                f"{warmup:,}",
                f"{steps:,}",
            )
        rate = (self.config.hidden_size * max(warmup, 1000)) ** -0.5
        return warmup, rate if self.settings.learning_rate is None else self.settings.learning_rate

    def build(self, dtype=None):
        """Returns a model with new weights, which the metrics will use."""
        keras.utils.set_random_seed(self.settings.seed)
        self._model = build_transformer(self.config, dtype=dtype)
        return self._model

    def optimizer(self, model):
        """Returns the optimizer of Vaswani et al., 2017, section 5.3."""
        schedule = InverseSquareRootSchedule(self.learning_rate, self.warmup_steps)
        return AdamW(schedule, weight_decay=0.0, beta_1=0.9, beta_2=0.98, epsilon=1e-9)

    @property
    def metrics(self):
        """The metrics on dev: perplexity, and BLEU of greedy translations."""
        perplexity = token_loss()._replace(name="perplexity", finish=np.exp)
        return [perplexity, Score(lambda: {"bleu": self.bleu(self._greedy(self.dev.sources))[0]})]

    @functools.cached_property
    def _greedy(self):
        return translation(Translator(self._model, self.tokenizer, Beam(1, 0.0)))

    @functools.cached_property
    def translate(self):
        """Function that translates lists of texts with the model and the beams of the settings, see `translation`."""
        return translation(Translator(self._model, self.tokenizer, self.beam))

    @property
    def example(self):
        """A sentence of dev, which the development server offers."""
        return next(text for text in self.dev.sources if text.strip())

    def alignments(self, texts):
        """Returns the pieces of texts and of their translations, and the attention between them."""
        found = Translator(self._model, self.tokenizer, self.beam).align(tf.constant(texts))
        found = {name: value.numpy() for name, value in found.items()}
        return [_alignment(*(found[name][row] for name in _ALIGNED)) for row in range(len(texts))]

    def bleu(self, translations):
        """Returns BLEU on dev, and the signature of its settings."""
        return metrics.bleu(translations, self.dev.targets, self.settings.bleu_tokenizer)

    def select(self, average):
        """Sets the model to the better one of its weights and the average; returns the translations of dev and facts.

        Args:
            average: a `WeightAverage` of the model.
        """
        best = [tf.identity(weight.value) for weight in self._model.weights]
        found = {"best epoch": self.translate(self.dev.sources, "dev with the best epoch")}
        steps = average.assign()
        if len(steps) > 1:
            name = f"average of {len(steps)} epochs"
            found[name] = self.translate(self.dev.sources, f"dev with the {name}")
        scores = {name: self.bleu(translations)[0] for name, translations in found.items()}
        name = max(scores, key=scores.get)
        if name == "best epoch":
            for weight, value in zip(self._model.weights, best, strict=True):
                weight.assign(value)
        return found[name], {"weights": name, "scores": scores, "signature": self.bleu(found[name])[1]}


def translation(translator):
    """Returns a function that translates a list of texts; `what`, if given, names them in a line of progress.

    Args:
        translator: a `Translator`.
    """
    graph = tf.function(translator, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)

    def translate(texts, what=None):
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        parts = [order[first : first + _ROWS] for first in range(0, len(order), _ROWS)]
        translations, cut = [""] * len(texts), []
        for part in track(parts, f"translating {what}, batches", len(parts), show=what is not None):
            found = graph(tf.constant([texts[index] for index in part]))
            cut += [index for index, truncated in zip(part, found["truncated"].numpy(), strict=True) if truncated]
            for index, text in zip(part, found["translation"].numpy(), strict=True):
                translations[index] = text.decode()
        if cut and what:
            named = ", ".join(str(index + 1) for index in sorted(cut)[:3]) + (", ..." if len(cut) > 3 else "")
            _LOG.warning("%s: the ends of %s text(s) were cut off, line(s) %s", what, f"{len(cut):,}", named)
        return translations

    return translate


def _alignment(source, target, attention):
    """Returns the pieces without padding."""
    sides = [[piece.decode() for piece in pieces if piece] for pieces in (source, target)]
    return {"source": sides[0], "target": sides[1], "attention": attention[: len(sides[1]), : len(sides[0])].tolist()}

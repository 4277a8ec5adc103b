"""Translation as a task: parallel texts, batches, loss, scores and what the report shows."""

import dataclasses
import functools
import types

import numpy as np
import sacrebleu
import tensorflow as tf

from keras_bert.data.pair_bucketing import PairBatches
from keras_bert.files import write_text
from keras_bert.progress import announced
from keras_bert.reports import page
from keras_bert.tasks.base import Start, Task
from keras_bert.tasks.reporting import Card, Findings, Report
from keras_bert.tasks.stages import Split, Stage, Training
from keras_bert.tasks.summary import Summary
from keras_bert.text.lossless import LosslessTokenizer
from keras_bert.training.losses import token_loss
from keras_bert.translation import data
from keras_bert.translation.decoding import Beam
from keras_bert.translation.loaded import load
from keras_bert.translation.model import Decoder, build_transformer
from keras_bert.translation.signature import Translator

_EXAMPLES = 8
_TYPICAL = 3


class TranslationTraining(Training):
    """Trains a new Transformer."""

    can_teach = False

    def make_loss(self):
        return token_loss(self.task.settings.label_smoothing)

    def build(self, precision):
        """Returns a model with new weights; `precision` is the name of a dtype policy."""
        return build_transformer(self.task.config, dtype=precision)

    def batches_of(self, name, **options):
        """Returns the batches of a split, grouped by length."""
        features = self.task.splits[name][0].inputs
        return PairBatches(features.sources, features.targets, features.labels, **options)

    def stages(self, setting):
        dev = self.batches_of("dev", tokens_per_batch=setting["tokens_per_batch"], shuffle=False)
        return [Stage("translation", self.build, self.loss, None, self.task.report.score, dev=dev)]

    def warmup_steps(self, steps):
        """Returns the number of warm-up steps of a run of `steps`."""
        if self.task.settings.warmup_steps:
            return self.task.settings.warmup_steps
        return min(4000, max(1, steps // 8))

    def learning_rate(self, tokens_per_batch, epochs):
        """Returns the paper's peak learning rate, with at least 1,000 steps of warm-up."""
        steps = epochs * self.batches_of("train", tokens_per_batch=tokens_per_batch).steps
        return (self.task.config.hidden_size * max(self.warmup_steps(steps), 1000)) ** -0.5


class TranslationReport(Report):
    """Reports BLEU of translations."""

    metric = "bleu"

    def score(self, targets, outputs):
        """Returns BLEU of translations, from 0 to 1, like all scores of a study."""
        percent, _ = bleu(outputs, targets, self.task.settings.bleu_tokenizer)
        return {"bleu": percent / 100}

    def dev_score(self, translations):
        """Returns BLEU on dev, from 0 to 1."""
        return self.score(self._dev.targets, translations)["bleu"]

    @property
    def _dev(self):
        return self.task.splits["dev"][0].examples

    def dev_logits(self, predict):
        """Returns the translations of dev; `predict` is a function of texts and what they are called."""
        return {split.name: predict(split.examples.sources, split.name) for split in self.task.splits["dev"]}

    def test_logits(self, predict):
        return {split.name: predict(split.examples.sources, split.name) for split in self.task.splits["test"]}

    def combine(self, translations):
        """Returns the translations of the best run: those of several have no mean."""
        return translations[0]

    def summarize(self):
        splits = self.task.splits
        train = len(splits["train"][0].examples)
        dev = len(splits["dev"][0].examples)
        return Summary(unit="pairs", train=train, dev={"dev": dev})

    @functools.cached_property
    def facts(self):
        """Entries about the data for the head of the report: text by title."""
        task = self.task
        lines = []
        for name, splits in task.splits.items():
            if splits:
                lines.append(f"{task.files[name]} {len(splits[0].examples):,}")
        used = len(task.splits["train"][0].inputs.pairs)
        return {
            "start": f"new weights, {task.config.size}",
            "lines": ", ".join(lines),
            "pairs to train on": f"{used:,}, a vocabulary of {task.config.vocab_size:,} tokens",
        }

    def make_card(self):
        return _card(self.task.splits["train"][0].examples, self._dev)

    def conclude(self, dev, test, output):
        translations = dev["dev"].tolist()
        names = dev["names"].tolist()
        _write_lines(output / "dev.txt", translations)
        scores = {}
        for name, score in zip(names, dev["scores"].tolist(), strict=True):
            scores[f"dev, {name}"] = score
        for split in self.task.splits["test"]:
            translated = test[split.name].tolist()
            _write_lines(output / "test.txt", translated)
            if split.examples.targets is not None:
                scores["test"] = self.score(split.examples.targets, translated)["bleu"]
        best, signature = bleu(translations, self._dev.targets, self.task.settings.bleu_tokenizer)
        weights = names[int(np.argmax(dev["scores"]))]
        translator = Translator(Decoder(load(output / "model").model()), self.task.tokenizer, self.task.beam)
        align = functools.partial(_alignments, translator)
        listed = [f"{name}: BLEU {100 * score:.2f}" for name, score in scores.items()]
        measured = {"bleu": best / 100}
        same = None  # The one translation, if all texts have the same.
        if len(translations) > 1 and len(set(translations)) == 1:
            same = repr(translations[0])
        sections = translation_sections(scores, self._dev, translations, align)
        return Findings(
            measured,
            sections,
            errors=[],
            results={"scores": measured, "bleu": scores, "weights": weights, "signature": signature},
            scores=f"BLEU {best:.2f}, {weights}",
            facts={"weights": weights, "signature of BLEU": signature},
            messages=[*listed, f"signature: {signature}"],
            same=same,
        )


class TranslationTask(Task):
    """Translation with a new Transformer; `model` names its config. `test` are `Pairs` to translate, or `None`."""

    title = "Translation"
    auto_class = None
    origins = types.MappingProxyType({})  # Models are new.
    Training = TranslationTraining
    Report = TranslationReport

    def __init__(self, train, dev, test, vocabulary, config, settings, model="Transformer"):
        self.config = config
        self.settings = settings
        self.model = model
        self.start = Start(model, None, load)
        self.beam = Beam(settings.beam_size, settings.length_penalty)
        self.tokenizer = LosslessTokenizer(vocabulary)
        self.sequence_length = min(settings.max_length, config.max_position_embeddings)
        self.options = {"config": dataclasses.asdict(config), "vocabulary": vocabulary.sha256[:16]}
        _ = self.training.loss  # Raises for settings without a meaning.
        with announced(f"tokenizing {len(train) + len(dev):,} pairs"):
            train_split = self._tokenized_split("train", train)
            dev_split = self._tokenized_split("dev", dev)
        self.splits = {"train": [train_split], "dev": [dev_split], "test": []}
        if test:
            self.splits["test"] = [Split("test", test, None, None)]
        self.files = {}
        for name, splits in self.splits.items():
            if splits:
                self.files[name] = splits[0].examples.source_path.name

    def _tokenized_split(self, name, pairs):
        features = TranslationFeatures(data.without_blank(pairs), self.tokenizer, self.sequence_length)
        return Split(name, pairs, features, features.labels)

    def save_options(self, kept):
        return {"vocabulary": self.tokenizer.vocabulary}

    def export_options(self, bert):
        example = next(text for text in self.splits["dev"][0].examples.sources if text.strip())
        return {"beam": self.beam, "n_best": self.beam.size, "example": {"text": example}}


class TranslationFeatures:
    """Ids of pairs. Pairs with a side of more than `max_length` tokens, with `[END]`, are left out, with a warning.

    No side of `pairs` is blank.

    Attributes:
        pairs: the `Pairs` that are used.
        sources, labels: `tf.RaggedTensor`s of ids, each row ending with `[END]`.
        targets: the labels shifted right, as the decoder reads them: `[START]` and all but the last label.
    """

    def __init__(self, pairs, tokenizer, max_length: int):
        sources = tokenizer.with_end(pairs.sources)
        labels = tokenizer.with_end(pairs.targets)
        lengths = np.maximum(sources.row_lengths().numpy(), labels.row_lengths().numpy())
        is_long = lengths > max_length
        self.pairs = data.drop(pairs, is_long.tolist(), f"longer than {max_length} tokens")
        self.sources = tf.ragged.boolean_mask(sources, ~is_long)
        self.labels = tf.ragged.boolean_mask(labels, ~is_long)
        starts = tf.fill([self.labels.nrows(), 1], tokenizer.start_id)
        self.targets = tf.concat([starts, self.labels[:, :-1]], axis=1)


def _alignments(translator, texts):
    """Returns the pieces of texts and of their translations, without padding, and the attention between them."""
    aligned = translator.align(tf.constant(texts))
    alignments = []
    for source_tokens, target_tokens, attention in zip(
        aligned["source_tokens"].numpy(),
        aligned["target_tokens"].numpy(),
        aligned["attention"].numpy(),
        strict=True,
    ):
        source = [piece.decode() for piece in source_tokens if piece]
        target = [piece.decode() for piece in target_tokens if piece]
        between = attention[: len(target), : len(source)].tolist()
        alignments.append({"source": source, "target": target, "attention": between})
    return alignments


def _write_lines(path, texts):
    write_text(path, "".join(f"{text}\n" for text in texts))


def _card(train, dev):
    return Card(
        pipeline_tag="translation",
        purpose="translation",
        trained_on=train.name,
        example='["A text.", "Another one."]',
        dataset={"type": "text", "name": dev.source_path.name},
    )


def bleu(translations: list[str], references: list[str], tokenizer: str = "13a"):
    """Returns sacreBLEU's BLEU of a corpus, and the signature that names its settings.

    `tokenizer` is one of sacreBLEU's, "char" or "zh" if words have no spaces.
    """
    metric = sacrebleu.BLEU(tokenize=tokenizer)
    score = metric.corpus_score(translations, [references]).score
    return score, str(metric.get_signature())


def chrf(translation, reference):
    """Returns sacreBLEU's chrF of one translation."""
    return sacrebleu.CHRF().sentence_score(translation, [reference]).score


def translation_sections(scores, dev, translations, align):
    """Returns HTML sections about the translations of dev.

    `scores` has BLEU, from 0 to 1, by what was translated. `align` maps a list of texts to dicts with `source` and
    `target`, lists of pieces, and `attention`, a row of probabilities for each target piece.
    """
    closeness = [chrf(text, target) for text, target in zip(translations, dev.targets, strict=True)]
    order = [index for index in np.argsort(closeness, kind="stable") if dev.sources[index].strip()]
    worst = order[:_EXAMPLES]
    others = order[_EXAMPLES :: max(1, len(order) // _EXAMPLES)][:_EXAMPLES]
    examples = []
    for index in worst + others:
        example = {
            "row": dev.lines[index],
            "source": dev.sources[index],
            "reference": dev.targets[index],
            "translation": translations[index],
            "score": closeness[index],
        }
        examples.append(example)
    score_rows = [(name, f"{100 * score:.2f}") for name, score in scores.items()]
    middle = len(order) // 2
    typical = order[middle : middle + _TYPICAL]
    alignments = align([dev.sources[index] for index in typical])
    section = page.render("translation/report.html", scores=score_rows, examples=examples, alignments=alignments)
    return [section]

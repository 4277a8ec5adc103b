"""Fine-tuning for tagging: named entities, chunks, parts of speech."""

import collections
import functools
import itertools
import pathlib

import numpy as np
import scipy.special

from keras_bert.data import text_files
from keras_bert.data.bucketing import Batches, token_batches
from keras_bert.heads.tokens import TokenClassification
from keras_bert.progress import announced
from keras_bert.reports.comparisons import compared
from keras_bert.tasks import confidence
from keras_bert.tasks import summary as data_summary
from keras_bert.tasks.base import Task
from keras_bert.tasks.class_names import some
from keras_bert.tasks.logits import finite, softmax
from keras_bert.tasks.reporting import Card, Findings, Report, own_data_set
from keras_bert.tasks.stages import Split, Training
from keras_bert.tasks.summary import Summary
from keras_bert.tasks.tagging import features, metrics, schemes
from keras_bert.tasks.tagging.data import TaggingRows, TaggingSettings
from keras_bert.tasks.tagging.features import TaggingWindows
from keras_bert.tasks.tagging.report import judge_entities, judge_tags
from keras_bert.tasks.tagging.schemes import PLAIN
from keras_bert.training.losses import token_loss

_FEW = 5  # Types to list.
_FLAGS = {"train": "train_file", "dev": "dev_file", "test": "predict_file"}


class TaggingTraining(Training):
    """Trains a tag of each token."""

    can_pack = True
    answers_tokens = True

    def make_loss(self):
        return token_loss()

    # Differs from BERT: batches have equal numbers of tokens instead of sentences.
    def batches(self, inputs, targets, batch_size, seed, grouped):
        make_batches = functools.partial(Batches, inputs, targets, seed=seed)
        return token_batches(make_batches, batch_size, grouped=grouped)


class TaggingReport(Report):
    """Reports scores of entities or of words, whose logits are those of their first tokens."""

    @functools.cached_property
    def metric(self):
        """The score that selects the best run, unless a subclass names another one."""
        return "accuracy" if self.task.plain else "f1"

    @property
    def predictions_file(self):
        origin = self.task.windows["test"].sentences.origin
        return predictions_name(origin.name, "test", origin.typed)

    def score(self, targets, outputs):
        return self._scores("dev", self.task.windows["dev"].from_outputs(outputs))

    def _scores(self, split, logits):
        windows = self.task.windows[split]
        logits = finite(logits)
        if self.task.plain:
            return metrics.word_scores(windows.sentences.tags, windows.tags(logits))
        return metrics.entity_scores(windows.sentences.entities, windows.entities(logits))

    def entries(self):
        return self.task.windows["dev"].counts.tolist()

    def dev_logits(self, predict):
        return {"words": self.task.windows["dev"].from_outputs(predict(self.task.dev))}

    def test_logits(self, predict):
        if "test" not in self.task.windows:
            return {}
        windows = self.task.windows["test"]

        def predict_inputs(inputs):
            return predict(Batches(inputs, batch_size=64, shuffle=False))

        return {"words": windows.logits(predict_inputs)}

    def summarize(self):
        return summarize(self.task.windows, self.task.settings)

    def data_warnings(self):
        return summary_warnings(self.summary)

    def data_facts(self):
        return summary_facts(self.summary)

    def problems(self):
        return _problems(self.task.windows)

    def make_card(self):
        return _card(self.task.data.train, self.task.data.dev)

    def conclude(self, dev, test, output):
        windows = self.task.windows["dev"]
        scores = self._scores("dev", dev["words"])
        test_scores = self._test_scores(test)
        self._write_predictions("dev", dev, output)
        if test:
            self._write_predictions("test", test, output)
        sections, errors = self.judge(dev).report()
        _, tables = compared(self.task, scores, test_scores)
        return Findings(
            measured=scores,
            sections=sections,
            errors=errors,
            tables=tables,
            same=_only_tag(windows.tags(dev["words"])),
            test_scores=test_scores,
        )

    def _write_predictions(self, split, kept, output):
        """Writes predictions in the form of the file."""
        windows = self.task.windows[split]
        if self.task.plain:
            answers = windows.tags(kept["words"])
        else:
            answers = windows.entities(kept["words"])
        origin = windows.sentences.origin
        name = predictions_name(origin.name, split, origin.typed)
        windows.sentences.write(output / name, answers)

    def _test_scores(self, test):
        """Returns the scores of the data to predict, `None` without entities, as in files whose tags are not public."""
        if not test:
            return None
        sentences = self.task.windows["test"].sentences
        if not sentences.is_labeled or not any(sentences.types()):
            return None
        return self._scores("test", test["words"])

    def judge(self, kept):
        logits = kept["words"]
        windows = self.task.windows["dev"]
        sentences = self._predicted_sentences(logits, self.temperature(kept))
        if self.task.plain:
            return judge_tags(sentences, self.task.labels)
        scores = metrics.score_types(windows.sentences.entities, windows.entities(logits))
        return judge_entities(sentences, scores)

    def _predicted_sentences(self, logits, temperature):
        """Returns the dev sentences with their entities or tags, a list of `PredictedSentence`s."""
        windows = self.task.windows["dev"]
        gold_tags = windows.gold_tags
        predicted_tags = windows.tags(logits)
        golds = gold_tags
        predictions = predicted_tags
        if not self.task.plain:
            golds = list(map(schemes.entities, gold_tags))
            predictions = windows.word_entities(logits)
        word_losses, word_confidences = self._losses_and_confidences(logits, temperature)
        ends = np.cumsum(windows.counts)[:-1]
        losses = np.split(word_losses, ends)
        confidences = np.split(word_confidences, ends)
        sentences = []
        for row, tags in enumerate(predicted_tags):
            sentence_confidences = confidences[row]
            if not self.task.plain:
                sentence_confidences = _entity_confidences(predictions[row], confidences[row])
            given_words = None
            if windows.sentences.texts is None:
                given_words = windows.sentences.words[row]
            sentence = metrics.PredictedSentence(
                line=windows.sentences.lines[row],
                text=windows.text(row),
                words=windows.word_spans(row),
                golds=golds[row],
                predictions=predictions[row],
                confidences=list(map(float, sentence_confidences)),
                loss=_mean_of_known(losses[row]),
                tokens=int(windows.tokens[row]),
                tags=list(zip(gold_tags[row], tags, losses[row].tolist(), strict=True)),
                lines=[windows.sentences.line(row, word) for word in range(len(tags))],
                given_words=given_words,
            )
            sentences.append(sentence)
        return sentences

    def _losses_and_confidences(self, logits, temperature):
        """Returns the cross-entropy of each word, NaN without tokens or a known tag, and the probability of its tag."""
        logits = logits.astype("float64")
        log_probabilities = scipy.special.log_softmax(logits, -1)
        golds, is_known = self._gold_numbers()
        # Words with an unknown tag get any number here, and NaN below.
        log_of_golds = log_probabilities[np.arange(len(golds)), np.maximum(golds, 0)]
        losses = np.where(is_known, -log_of_golds, np.nan)
        return losses, softmax(logits / temperature).max(-1)

    def _gold_numbers(self):
        """Returns the number of the tag of each word of dev, -1 for unknown ones, and whether words count."""
        windows = self.task.windows["dev"]
        tags = itertools.chain.from_iterable(windows.gold_tags)
        golds = np.array([windows.ids.get(tag, -1) for tag in tags])
        return golds, (golds >= 0) & windows.has_tokens

    def decisions(self, kept):
        """Returns those of the words that have tokens and a known tag."""
        golds, is_known = self._gold_numbers()
        counts = self.task.windows["dev"].counts
        rows = np.repeat(np.arange(len(counts)), counts)
        return confidence.Decisions(
            logits=kept["words"][is_known],
            targets=golds[is_known],
            rows=rows[is_known],
            unit="words",
        )


def _only_tag(sentences):
    """Returns the tag that all words have, or `None`, given lists of tags."""
    tags = set(itertools.chain.from_iterable(sentences))
    return tags.pop() if len(tags) == 1 else None


def _entity_confidences(entities, word_confidences):
    """Returns the mean confidence in the words of each entity."""
    return [word_confidences[entity.start : entity.end].mean() for entity in entities]


def _mean_of_known(losses):
    """Returns the mean of the losses that are not NaN; 0 without any."""
    known = losses[~np.isnan(losses)]
    return float(known.mean()) if len(known) else 0.0


class TaggingTask(Task):
    """Tagging of words. Entities are learned as IOB2 tags and predicted in the form of each file."""

    name = "tagging"
    head = TokenClassification.name
    Settings = TaggingSettings
    rows = TaggingRows()
    Training = TaggingTraining
    Report = TaggingReport

    def __init__(self, data, start, settings):
        super().__init__(data, start, settings)
        train = data.train
        self.plain = train.scheme == PLAIN
        self.title = f"Tagging of {train.origin.name}"
        self.labels = data.labels or features.labels(train)
        parts = data.parts()
        self.files = {name: str(part.origin) for name, part in parts.items()}
        self.windows = self._tokenized(parts)
        _check_words(self.windows["dev"])
        self.splits = {"train": [], "dev": [], "test": []}
        for name, part in parts.items():
            inputs = None
            targets = None
            if name != "test":  # The data to predict is read in parts, see `TaggingWindows.logits`.
                inputs, targets = self.windows[name].examples()
            self.splits[name].append(Split(name, part, inputs, targets))
        self.options = {"labels": self.labels}
        self.options.update(settings.windows)

    def _tokenized(self, parts):
        """Returns the `TaggingWindows` of the `Sentences` of each split."""
        options = self.settings.windows
        windows = {}
        with announced(f"tokenizing {sum(map(len, parts.values())):,} sentences"):
            for name, part in parts.items():
                windows[name] = TaggingWindows(part, self.preprocessor, self.labels, **options)
        return windows

    def data_settings(self):
        settings = {}
        for name, value in super().data_settings().items():
            settings[_FLAGS.get(name, name)] = value
        return settings

    def save_options(self, kept):
        options = {"labels": self.labels, "task": self.name}
        if self.settings.word_column and self.data.train.texts is not None:
            options["columns"] = {"text": self.settings.word_column}
        return options

    def export_options(self, bert):
        return {"labels": bert.labels, "example": {"text": self.windows["dev"].text(0)}}


def predictions_name(name, split, typed=False):
    """Returns the name of the predictions for a file, which has rows of JSON if `typed`."""
    suffix = text_files.suffix(pathlib.Path(name))
    if not suffix:
        suffix = ".jsonl" if typed else ".txt"
    elif suffix == ".parquet":
        suffix = ".jsonl"
    prefix = "dev_" if split == "dev" else ""
    return f"{prefix}predictions{suffix}"


def _check_words(windows):
    """Raises if the tokenizer leaves no word: there is nothing to compute a loss and scores of."""
    if windows.has_tokens.any():
        return
    sentences = windows.sentences
    unit = _unit(sentences)
    raise ValueError(
        f"{sentences.origin.name}: no word is left of {len(sentences):,} {unit}, since the tokenizer removes white "
        f"space and control characters. Received: {windows.text(0)!r:.100} first"
    )


def _unit(sentences):
    """Returns what the rows of a file are."""
    return "texts" if sentences.words is None else "sentences"


def _problems(windows):
    """Returns lines about words and entities that the model cannot represent."""
    lines = {}
    for split, part in windows.items():
        sentences = part.sentences
        if part.without_tokens:
            row, word = part.without_tokens[0]
            place = f"{sentences.origin.unit} {sentences.lines[row]}"
            first = f"{sentences.words[row][word]!r} in the sentence of {place}"
            lines[f"{split} words without tokens"] = (
                f"{len(part.without_tokens):,}, tagged {part.outside}; the first is {first}"
            )
        if part.inexact:
            place = f"{sentences.origin.unit} {sentences.lines[part.inexact[0]]}"
            lines[f"{split} inexact"] = (
                f"{len(part.inexact):,} entities start or end inside a word, the first in {place}; "
                "they are trained with the whole word, which the scores count as wrong"
            )
    return lines


def _card(train, dev):
    return Card(
        pipeline_tag="token-classification",
        purpose="tagging of words" if train.scheme == PLAIN else "named entity recognition",
        trained_on=train.origin.name,
        example='["A text with names."]',
        dataset=own_data_set(dev.origin.name, dev.origin.typed, "text"),
        arguments='"A text with names."',
    )


def summarize(windows, settings):
    """Returns the `Summary` of `TaggingWindows` by split.

    What only this task knows: `words`, the training words; `entities`, the training entities of each type, or `tags`,
    the words of each tag; `unknown`, the dev entities of types that train lacks; `windows`; and `long`, the training
    sentences with several windows.
    """
    train = windows["train"]
    dev = windows["dev"]
    sentences = train.sentences
    counts = collections.Counter(itertools.chain.from_iterable(sentences.types()))
    more = {"words": int(train.counts.sum())}
    name = "tags" if sentences.scheme == PLAIN else "entities"
    more[name] = dict(counts.most_common())
    more["unknown"] = _unknown_types(dev.sentences, counts)
    more["windows"] = len(train.windows.length)
    more["long"] = 0
    if not settings.document_context:
        more["long"] = int(np.sum(train.tokens > settings.sequence_length - 2))
    return Summary(
        unit=_unit(sentences),
        predicted="word",
        **_split_entries(windows),
        baseline="each word's most frequent training tag",
        majority=_baseline(train, dev),
        **dev_baseline(dev),
        more=more,
    )


def _unknown_types(sentences, counts):
    """Returns the numbers of types, or tags, that are not among those that were counted, the most frequent first."""
    unknown = collections.Counter()
    for types in sentences.types():
        unknown.update(type_ for type_ in types if type_ not in counts)
    return dict(unknown.most_common())


def _split_entries(windows):
    """Returns the fields of a `Summary` that tell how many rows there are, and which of them splits share."""
    keys = {}
    names = {}
    for split, part in windows.items():
        texts = map(part.text, range(len(part.sentences)))
        keys[split] = list(map(data_summary.normal, texts))
        names[split] = part.sentences.origin.name
    return data_summary.split_entries(keys, names)


def summary_warnings(summary):
    """Returns sentences about types or tags that are probably mistakes."""
    unknown = summary.more.get("unknown", {})
    name, counts = _counted(summary)
    what = "types" if name == "entities" else "tags"
    warnings = data_summary.look_alikes(what, counts | dict.fromkeys(unknown, 0))
    if name == "entities" and not counts:
        warnings.append(f"no training {summary.unit} have entities: the model can only learn to find none")
    if unknown:
        listing = some([f"{type_} ({count:,})" for type_, count in unknown.items()])
        warnings.append(f"train lacks types or tags of dev, which count as missed: {listing}")
    return warnings


def _counted(summary):
    """Returns what a summary has counted, "entities" or "tags", and the numbers of each."""
    name = "entities" if "entities" in summary.more else "tags"
    return name, summary.more[name]


def _baseline(train, dev):
    """Returns the dev scores of tagging each word with its most frequent tag in train, unknown words with "O"."""
    counts = collections.defaultdict(collections.Counter)
    for words, tags in zip(_words(train), train.gold_tags, strict=True):
        for word, tag in zip(words, tags, strict=True):
            counts[word][tag] += 1
    best = {word: data_summary.most_frequent(tags) for word, tags in counts.items()}
    unknown = schemes.OUTSIDE
    if train.sentences.scheme == PLAIN:
        totals = sum(counts.values(), collections.Counter())
        unknown = totals.most_common(1)[0][0]
    predicted_tags = []
    for words in _words(dev):
        predicted_tags.append([best.get(word, unknown) for word in words])
    if train.sentences.scheme == PLAIN:
        return metrics.word_scores(dev.gold_tags, predicted_tags)
    predicted = []
    for row, tags in enumerate(predicted_tags):
        predicted.append(dev.in_text(row, schemes.entities(tags)))
    return metrics.entity_scores(dev.sentences.entities, predicted)


def dev_baseline(dev):
    """Returns the fields about tagging all words of dev with their most frequent tag; none for entities."""
    counts = collections.Counter(itertools.chain.from_iterable(dev.gold_tags))
    if dev.sentences.scheme != PLAIN or not counts:
        return {}
    common = data_summary.most_frequent(counts)
    predicted_tags = [[common] * len(tags) for tags in dev.gold_tags]
    return {
        "dev_baseline": f"always {common}",
        "dev_majority": metrics.word_scores(dev.gold_tags, predicted_tags),
    }


def _words(windows):
    """Returns the words of each sentence; those of texts are BERT's."""
    sentences = []
    for row in range(len(windows.sentences)):
        text = windows.text(row)
        sentences.append([text[start:end] for start, end in windows.word_spans(row)])
    return sentences


def summary_facts(summary):
    """Returns the entries of the summary that other tasks lack, as lines of text by title."""
    unit = summary.unit
    name, counts = _counted(summary)
    lines = {f"training {unit}": f"{summary.train:,}, {summary.more['words']:,} words"}
    lines[f"training {name}"] = _described_counts(counts)
    if summary.more["long"]:
        lines["long"] = f"{summary.more['long']:,} training {unit} are read in several windows"
    for split, files in (("dev", summary.dev), ("test", summary.test)):
        for file, count in files.items():
            lines[f"{split} {unit}"] = f"{file}: {count:,}"
    return lines


def _described_counts(counts):
    """Returns the total of counts, and the first ones by name, as text."""
    total = sum(counts.values())
    if not total:
        return "none"
    parts = [f"{name or 'entity'}: {count:,}" for name, count in list(counts.items())[:_FEW]]
    if len(counts) > _FEW:
        parts.append(f"and {len(counts) - _FEW} more")
    return f"{total:,}; {', '.join(parts)}"

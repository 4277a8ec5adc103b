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

    can_pack = answers_tokens = True

    def make_loss(self):
        return token_loss()

    # Differs from BERT: batches have equal numbers of tokens instead of sentences.
    def batches(self, inputs, targets, batch_size, seed, grouped):
        return token_batches(functools.partial(Batches, inputs, targets, seed=seed), batch_size, grouped=grouped)


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
        return {"words": windows.logits(lambda inputs: predict(Batches(inputs, batch_size=64, shuffle=False)))}

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
        scores, test_scores = self._scores("dev", dev["words"]), self._test_scores(test)
        self._write_predictions("dev", dev, output)
        if test:
            self._write_predictions("test", test, output)
        tags = {tag for tags in windows.tags(dev["words"]) for tag in tags}
        sections, errors = self.judge(dev).report()
        return Findings(
            measured=scores,
            sections=sections,
            errors=errors,
            tables=compared(self.task, scores, test_scores)[1],
            same=tags.pop() if len(tags) == 1 else None,
            test_scores=test_scores,
        )

    def _write_predictions(self, split, kept, output):
        """Writes predictions in the form of the file."""
        windows = self.task.windows[split]
        origin = windows.sentences.origin
        found = windows.tags(kept["words"]) if self.task.plain else windows.entities(kept["words"])
        windows.sentences.write(output / predictions_name(origin.name, split, origin.typed), found)

    def _test_scores(self, test):
        """Returns the scores of the data to predict, `None` without entities, as in files whose tags are not public."""
        sentences = self.task.windows["test"].sentences if test else None
        if sentences is None or not sentences.is_labeled or not any(sentences.types()):
            return None
        return self._scores("test", test["words"])

    def judge(self, kept):
        logits, windows = kept["words"], self.task.windows["dev"]
        rows = self._rows(logits, self.temperature(kept))
        if self.task.plain:
            return judge_tags(rows, self.task.labels)
        return judge_entities(rows, metrics.table(windows.sentences.entities, windows.entities(logits)))

    def _rows(self, logits, temperature):
        """Returns the dev sentences with their entities or tags, see `judge_entities` and `judge_tags`."""
        windows, rows = self.task.windows["dev"], []
        golds, said = windows.gold_tags, windows.tags(logits)
        predictions = said
        if not self.task.plain:
            golds, predictions = list(map(schemes.entities, golds)), windows.word_entities(logits)
        ends = np.cumsum(windows.counts)[:-1]
        losses, confidences = (np.split(values, ends) for values in self._judged(logits, temperature))
        for row, sure in enumerate(confidences):
            if not self.task.plain:
                sure = [sure[entity.start : entity.end].mean() for entity in predictions[row]]
            known = losses[row][~np.isnan(losses[row])]
            rows.append(
                {
                    "line": windows.sentences.lines[row],
                    "text": windows.text(row),
                    "words": windows.word_spans(row),
                    "given": windows.sentences.words[row] if windows.sentences.texts is None else None,
                    "golds": golds[row],
                    "predictions": predictions[row],
                    "confidences": list(map(float, sure)),
                    "loss": float(known.mean()) if len(known) else 0.0,
                    "tokens": int(windows.tokens[row]),
                    "tags": list(zip(windows.gold_tags[row], said[row], losses[row].tolist(), strict=True)),
                    "lines": [windows.sentences.line(row, word) for word in range(len(said[row]))],
                }
            )
        return rows

    def _judged(self, logits, temperature):
        """Returns the cross-entropy of each word, NaN without tokens or a known tag, and the probability of its tag."""
        logits = logits.astype("float64")
        log = scipy.special.log_softmax(logits, -1)
        golds, known = self._golds()
        losses = np.where(known, -log[np.arange(len(golds)), np.maximum(golds, 0)], np.nan)
        return losses, softmax(logits / temperature).max(-1)

    def _golds(self):
        """Returns the number of the tag of each word of dev, -1 for unknown ones, and whether words count."""
        windows = self.task.windows["dev"]
        golds = np.array([windows.ids.get(tag, -1) for tags in windows.gold_tags for tag in tags])
        return golds, (golds >= 0) & windows.has_tokens

    def decisions(self, kept):
        """Returns those of the words that have tokens and a known tag."""
        golds, known = self._golds()
        counts = self.task.windows["dev"].counts
        return confidence.Decisions(
            logits=kept["words"][known],
            targets=golds[known],
            rows=np.repeat(np.arange(len(counts)), counts)[known],
            unit="words",
        )


class TaggingTask(Task):
    """Tagging of words. Entities are learned as IOB2 tags and predicted in the form of each file."""

    name, head, Settings = "tagging", TokenClassification.name, TaggingSettings
    rows, Training, Report = TaggingRows(), TaggingTraining, TaggingReport

    def __init__(self, data, start, settings):
        super().__init__(data, start, settings)
        train = data.train
        self.plain = train.scheme == PLAIN
        self.title = f"Tagging of {train.origin.name}"
        self.labels = data.labels or features.labels(train)
        parts = data.parts()
        self.files = {name: str(part.origin) for name, part in parts.items()}
        options = settings.windows
        with announced(f"tokenizing {sum(map(len, parts.values())):,} sentences"):
            self.windows = {
                name: TaggingWindows(part, self.preprocessor, self.labels, **options) for name, part in parts.items()
            }
        _check_words(self.windows["dev"])
        # The data to predict is read in parts, see `TaggingWindows.logits`.
        examples = {name: (None, None) if name == "test" else self.windows[name].examples() for name in parts}
        self.splits = {"train": [], "dev": [], "test": []}
        self.splits |= {name: [Split(name, part, *examples[name])] for name, part in parts.items()}
        self.options = {"labels": self.labels, **options}

    def data_settings(self):
        return {_FLAGS.get(name, name): value for name, value in super().data_settings().items()}

    def save_options(self, kept):
        options = {"labels": self.labels, "task": self.name}
        if self.settings.word_column and self.data.train.texts is not None:
            options["columns"] = {"text": self.settings.word_column}
        return options

    def export_options(self, bert):
        return {"labels": bert.labels, "example": {"text": self.windows["dev"].text(0)}}


def predictions_name(name, split, typed=False):
    """Returns the name of the predictions for a file, which has rows of JSON if `typed`."""
    suffix = text_files.suffix(pathlib.Path(name)) or (".jsonl" if typed else ".txt")
    return f"{'dev_' if split == 'dev' else ''}predictions{'.jsonl' if suffix == '.parquet' else suffix}"


def _check_words(windows):
    """Raises if the tokenizer leaves no word: there is nothing to compute a loss and scores of."""
    if windows.has_tokens.any():
        return
    sentences = windows.sentences
    count, unit = len(sentences), "texts" if sentences.words is None else "sentences"
    raise ValueError(
        f"{sentences.origin.name}: no word is left of {count:,} {unit}, since the tokenizer removes white space and "
        f"control characters. Received: {windows.text(0)!r:.100} first"
    )


def _problems(windows):
    """Returns lines about words and entities that the model cannot represent."""
    lines = {}
    for split, part in windows.items():
        if part.without_tokens:
            row, word = part.without_tokens[0]
            place = f"{part.sentences.origin.unit} {part.sentences.lines[row]}"
            first = f"{part.sentences.words[row][word]!r} in the sentence of {place}"
            lines[f"{split} words without tokens"] = (
                f"{len(part.without_tokens):,}, tagged {part.outside}; the first is {first}"
            )
        if part.inexact:
            place = f"{part.sentences.origin.unit} {part.sentences.lines[part.inexact[0]]}"
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
    train, dev = windows["train"], windows["dev"]
    sentences = train.sentences
    counts = collections.Counter(itertools.chain.from_iterable(sentences.types()))
    unknown = collections.Counter(kind for kinds in dev.sentences.types() for kind in kinds if kind not in counts)
    keys = {
        split: [data_summary.normal(part.text(row)) for row in range(len(part.sentences))]
        for split, part in windows.items()
    }
    names = {split: part.sentences.origin.name for split, part in windows.items()}
    is_long = train.tokens > settings.sequence_length - 2
    return Summary(
        unit="texts" if sentences.words is None else "sentences",
        predicted="word",
        **data_summary.split_entries(keys, names),
        baseline="each word's most frequent training tag",
        majority=_baseline(train, dev),
        **_dev_baseline(dev),
        more={
            "words": int(train.counts.sum()),
            "tags" if sentences.scheme == PLAIN else "entities": dict(counts.most_common()),
            "unknown": dict(unknown.most_common()),
            "windows": len(train.windows.length),
            "long": 0 if settings.document_context else int(np.sum(is_long)),
        },
    )


def summary_warnings(summary):
    """Returns sentences about types or tags that are probably mistakes."""
    more = summary.more
    unknown, what = more.get("unknown", {}), "types" if "entities" in more else "tags"
    counts = more["entities" if what == "types" else "tags"]
    found = data_summary.look_alikes(what, counts | dict.fromkeys(unknown, 0))
    if what == "types" and not counts:
        found.append(f"no training {summary.unit} have entities: the model can only learn to find none")
    if unknown:
        listing = some([f"{kind} ({count:,})" for kind, count in unknown.items()])
        found.append(f"train lacks types or tags of dev, which count as missed: {listing}")
    return found


def _baseline(train, dev):
    """Returns the dev scores of tagging each word with its most frequent tag in train, unknown words with "O"."""
    counts = collections.defaultdict(collections.Counter)
    for words, tags in zip(_words(train), train.gold_tags, strict=True):
        for word, tag in zip(words, tags, strict=True):
            counts[word][tag] += 1
    every = sum(counts.values(), collections.Counter())
    other = every.most_common(1)[0][0] if train.sentences.scheme == PLAIN else schemes.OUTSIDE
    best = {word: min(tags, key=lambda tag: (-tags[tag], tag)) for word, tags in counts.items()}
    said = [[best.get(word, other) for word in words] for words in _words(dev)]
    if train.sentences.scheme == PLAIN:
        return metrics.word_scores(dev.gold_tags, said)
    found = [dev.in_text(row, schemes.entities(tags)) for row, tags in enumerate(said)]
    return metrics.entity_scores(dev.sentences.entities, found)


def _dev_baseline(dev):
    """Returns the fields about tagging all words of dev with their most frequent tag; none for entities."""
    counts = collections.Counter(itertools.chain.from_iterable(dev.gold_tags))
    if dev.sentences.scheme != PLAIN or not counts:
        return {}
    common = min(counts, key=lambda tag: (-counts[tag], tag))
    said = [[common] * len(tags) for tags in dev.gold_tags]
    return {"dev_baseline": f"always {common}", "dev_majority": metrics.word_scores(dev.gold_tags, said)}


def _words(windows):
    """Returns the words of each sentence; those of texts are BERT's."""
    rows = range(len(windows.sentences))
    return [[windows.text(row)[start:end] for start, end in windows.word_spans(row)] for row in rows]


def summary_facts(summary):
    """Returns the entries of the summary that other tasks lack, as lines of text by title."""
    more, unit = summary.more, summary.unit
    name = "entities" if "entities" in more else "tags"
    counts = more[name]
    total = sum(counts.values())
    kinds = ", ".join(f"{kind or 'entity'}: {count:,}" for kind, count in list(counts.items())[:_FEW])
    if len(counts) > _FEW:
        kinds += f", and {len(counts) - _FEW} more"
    lines = {f"training {unit}": f"{summary.train:,}, {more['words']:,} words"}
    lines[f"training {name}"] = f"{total:,}; {kinds}" if total else "none"
    if more["long"]:
        lines["long"] = f"{more['long']:,} training {unit} are read in several windows"
    for split, files in (("dev", summary.dev), ("test", summary.test)):
        for file, count in files.items():
            lines[f"{split} {unit}"] = f"{file}: {count:,}"
    return lines

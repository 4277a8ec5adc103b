"""Fine-tuning for tagging: named entities, chunks, parts of speech."""

import collections
import functools
import itertools
import pathlib

import numpy as np
import scipy.special

from keras_bert.data import text_files
from keras_bert.data.bucketing import Batches, token_batches
from keras_bert.heads.tokens import TokenClassification, build_token_classifier
from keras_bert.reports.comparisons import compared
from keras_bert.tasks import summary as data_summary
from keras_bert.tasks.base import Findings, Split, Task, own_data_set
from keras_bert.tasks.class_names import some
from keras_bert.tasks.logits import finite
from keras_bert.tasks.tagging import features, metrics, schemes
from keras_bert.tasks.tagging.data import TaggingSettings
from keras_bert.tasks.tagging.features import TaggingWindows
from keras_bert.tasks.tagging.report import judge_entities, judge_tags
from keras_bert.tasks.tagging.rows import TaggingRows
from keras_bert.tasks.tagging.schemes import PLAIN
from keras_bert.training.losses import token_loss
from keras_bert.training.progress import announced

_FEW = 5  # Types to list.
_FLAGS = {"train": "train_file", "dev": "dev_file", "test": "predict_file"}


class TaggingTask(Task):
    """Tagging of words. Entities are learned as IOB2 tags and predicted in the form of each file."""

    name, head, Settings = "tagging", TokenClassification.name, TaggingSettings
    rows, can_pack = TaggingRows(), True

    def __init__(self, data, start, settings):
        super().__init__(data, start, settings)
        train = data.train
        self.plain = train.scheme == PLAIN
        self.title, self.metric = f"Tagging of {train.origin.name}", "accuracy" if self.plain else "f1"
        self.loss, self.labels = token_loss(), data.labels or features.labels(train)
        parts = data.parts()
        self.files = {name: str(part.origin) for name, part in parts.items()}
        with announced(f"tokenizing {sum(map(len, parts.values())):,} sentences"):
            options = settings.windows
            self._windows = {
                name: TaggingWindows(part, self.preprocessor, self.labels, **options) for name, part in parts.items()
            }
        _check_words(self._windows["dev"])
        # The data to predict is read in parts, see `TaggingWindows.logits`.
        examples = {name: (None, None) if name == "test" else self._windows[name].examples() for name in parts}
        self.splits = {name: [Split(name, part, *examples[name])] for name, part in parts.items()}
        self.options = {"labels": self.labels, **options}
        self.card = _card(train, data.dev)

    @property
    def predictions_file(self):
        origin = self._windows["test"].sentences.origin
        return predictions_name(origin.name, "test", origin.typed)

    def summarize(self):
        return summarize(self._windows, self.settings)

    def data_settings(self):
        return {_FLAGS.get(name, name): value for name, value in super().data_settings().items()}

    def data_warnings(self):
        return summary_warnings(self.summary)

    def data_facts(self):
        return summary_facts(self.summary)

    def problems(self):
        return _problems(self._windows)

    def build(self, bert):
        # A tagger with the same labels keeps its head.
        if bert.head == self.head and bert.labels == self.labels:
            return bert.model()
        return build_token_classifier(bert.encoder, len(self.labels))

    # Differs from BERT: batches have equal numbers of tokens instead of sentences.
    def batches(self, inputs, targets, batch_size, seed, grouped):
        return token_batches(functools.partial(Batches, inputs, targets, seed=seed), batch_size, grouped)

    def score(self, targets, outputs):
        return self._scores("dev", self._windows["dev"].from_outputs(outputs))

    def _scores(self, split, logits):
        windows = self._windows[split]
        logits = finite(logits)
        if self.plain:
            return metrics.word_scores(windows.sentences.tags, windows.tags(logits))
        return metrics.entity_scores(windows.sentences.entities, windows.entities(logits))

    def dev_logits(self, predict):
        return {"words": self._windows["dev"].from_outputs(predict(self.dev))}

    def test_logits(self, predict):
        if "test" not in self._windows:
            return {}
        windows = self._windows["test"]
        return {"words": windows.logits(lambda inputs: predict(Batches(inputs, batch_size=64, shuffle=False)))}

    def save_options(self, logits):
        options = {"labels": self.labels, "task": self.name}
        if self.settings.word_column and self.data.train.texts is not None:
            options["columns"] = {"text": self.settings.word_column}
        return options

    def export_options(self, bert):
        return {"labels": bert.labels, "example": {"text": self._windows["dev"].text(0)}}

    def conclude(self, dev, test, output):
        scores, test_scores = self._scores("dev", dev["words"]), self._test_scores(test)
        for split, logits in (("dev", dev), ("test", test)):
            if logits:  # Predictions are written in the form of the file.
                windows, logits = self._windows[split], logits["words"]
                origin, found = windows.sentences.origin, (windows.tags if self.plain else windows.entities)(logits)
                windows.sentences.write(output / predictions_name(origin.name, split, origin.typed), found)
        tables = compared(self, scores, test_scores)[1]
        tags = {tag for tags in self._windows["dev"].tags(dev["words"]) for tag in tags}
        same = tags.pop() if len(tags) == 1 else None
        return Findings(scores, *self.judge(dev).report(), tables=tables, same=same, test_scores=test_scores)

    def _test_scores(self, test):
        """Returns the scores of the data to predict, `None` without entities, as in files whose tags are not public."""
        sentences = self._windows["test"].sentences if test else None
        if sentences is None or not sentences.is_labeled or not any(sentences.types()):
            return None
        return self._scores("test", test["words"])

    def judge(self, logits):
        rows, windows = self._rows(logits["words"]), self._windows["dev"]
        if self.plain:
            return judge_tags(rows, self.labels)
        return judge_entities(rows, metrics.table(windows.sentences.entities, windows.entities(logits["words"])))

    def _rows(self, logits):
        """Returns the dev sentences with their entities or tags, see `judge_entities` and `judge_tags`."""
        windows, rows = self._windows["dev"], []
        golds, predictions = windows.gold_tags, windows.tags(logits)
        if not self.plain:
            golds, predictions = list(map(schemes.entities, golds)), windows.word_entities(logits)
        ends = np.cumsum(windows.counts)[:-1]
        losses, confidences = (np.split(values, ends) for values in self._judged(logits))
        for row, sure in enumerate(confidences):
            if not self.plain:
                sure = [sure[entity.start : entity.end].mean() for entity in predictions[row]]
            known = losses[row][~np.isnan(losses[row])]
            rows.append(
                {
                    "line": windows.sentences.lines[row],
                    "text": windows.text(row),
                    "words": windows.word_spans(row),
                    "golds": golds[row],
                    "predictions": predictions[row],
                    "confidences": list(map(float, sure)),
                    "loss": float(known.mean()) if len(known) else 0.0,
                    "tokens": int(windows.tokens[row]),
                }
            )
        return rows

    def _judged(self, logits):
        """Returns the cross-entropy of each word, NaN without tokens or a known tag, and the probability of its tag."""
        windows = self._windows["dev"]
        log = scipy.special.log_softmax(logits.astype("float64"), -1)
        golds = np.array([windows.ids.get(tag, -1) for tags in windows.gold_tags for tag in tags])
        known = (golds >= 0) & windows.has_tokens
        losses = np.where(known, -log[np.arange(len(golds)), np.maximum(golds, 0)], np.nan)
        return losses, np.exp(log.max(-1))


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
    return {
        "pipeline_tag": "token-classification",
        "datasets": [],
        "dataset": own_data_set(dev.origin.name, dev.origin.typed, "text"),
        "purpose": "tagging of words" if train.scheme == PLAIN else "named entity recognition",
        "trained_on": train.origin.name,
        "example": '["A text with names."]',
        "arguments": '"A text with names."',
    }


def summarize(windows, settings):
    """Summarizes `TaggingWindows` by split as JSON values.

    Besides the entries of every task, these are `words`, the training words; `entities`, the training entities of each
    type, or `tags`, the words of each tag; `unknown`, the dev entities of types that train lacks; `windows`; and
    `long`, the training sentences with several windows.
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
    return {
        "unit": "texts" if sentences.words is None else "sentences",
        "predicted": "word",
        **data_summary.split_entries(keys, names),
        "words": int(train.counts.sum()),
        "tags" if sentences.scheme == PLAIN else "entities": dict(counts.most_common()),
        "unknown": dict(unknown.most_common()),
        "windows": len(train.windows.length),
        "long": 0 if settings.document_context else int(np.sum(train.tokens > settings.sequence_length - 2)),
        "baseline": "each word's most frequent training tag",
        "majority": _baseline(train, dev),
        **_dev_baseline(dev),
    }


def summary_warnings(summary):
    """Returns sentences about types or tags that are probably mistakes."""
    unknown, what = summary.get("unknown", {}), "types" if "entities" in summary else "tags"
    counts = summary["entities" if what == "types" else "tags"]
    found = data_summary.look_alikes(what, counts | dict.fromkeys(unknown, 0))
    if what == "types" and not counts:
        found.append(f"no training {summary['unit']} have entities: the model can only learn to find none")
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
    """Returns the entries about tagging all words of dev with their most frequent tag; none for entities."""
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
    name = "entities" if "entities" in summary else "tags"
    total = sum(summary[name].values())
    kinds = ", ".join(f"{kind or 'entity'}: {count:,}" for kind, count in list(summary[name].items())[:_FEW])
    more = f", and {len(summary[name]) - _FEW} more" if len(summary[name]) > _FEW else ""
    lines = {f"training {summary['unit']}": f"{summary['train']:,}, {summary['words']:,} words"}
    lines[f"training {name}"] = f"{total:,}; {kinds}{more}" if total else "none"
    if summary["long"]:
        lines["long"] = f"{summary['long']:,} training {summary['unit']} are read in several windows"
    for split in ("dev", "test"):
        for name, count in summary[split].items():
            lines[f"{split} {summary['unit']}"] = f"{name}: {count:,}"
    return lines

"""What to know about sentences to tag before training: words, entities, repeated sentences, the baseline."""

import collections
import itertools

import numpy as np

from keras_bert.tasks.class_names import some
from keras_bert.tasks.summary import look_alikes, normal, split_entries
from keras_bert.tasks.tagging import metrics, schemes
from keras_bert.tasks.tagging.schemes import PLAIN

_FEW = 5  # Types to list.
_BASELINE = "each word's most frequent training tag"


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
    keys = {split: list(map(_key, part.sentences.sources)) for split, part in windows.items()}
    names = {split: part.sentences.origin.name for split, part in windows.items()}
    return {
        "unit": "texts" if sentences.words is None else "sentences",
        "predicted": "word",
        **split_entries(keys, names),
        "words": int(train.counts.sum()),
        "tags" if sentences.scheme == PLAIN else "entities": dict(counts.most_common()),
        "unknown": dict(unknown.most_common()),
        "windows": len(train.windows.length),
        "long": 0 if settings.document_context else int(np.sum(train.tokens > settings.sequence_length - 2)),
        "baseline": _BASELINE,
        "majority": _baseline(train, dev),
    }


def warnings(summary):
    """Returns sentences about types or tags that are probably mistakes."""
    unknown, what = summary.get("unknown", {}), "types" if "entities" in summary else "tags"
    counts = summary["entities" if what == "types" else "tags"]
    found = look_alikes(what, counts | dict.fromkeys(unknown, 0))
    if what == "types" and not counts:
        found.append(f"no training {summary['unit']} have entities: the model can only learn to find none")
    if unknown:
        listing = some([f"{kind} ({count:,})" for kind, count in unknown.items()])
        found.append(f"train lacks types or tags of dev, which count as missed: {listing}")
    return found


def _key(source):
    """Returns a sentence without differences in case and white space."""
    return normal(source if isinstance(source, str) else " ".join(source))


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


def _words(windows):
    """Returns the words of each sentence; those of texts are BERT's."""
    rows = range(len(windows.sentences))
    return [[windows.text(row)[start:end] for start, end in windows.word_spans(row)] for row in rows]


def facts(summary):
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

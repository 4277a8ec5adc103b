"""What a report shows about taggers: scores by type, kinds of errors, borders, and marked sentences."""

import collections
import dataclasses
import itertools
import math

import numpy as np

from keras_bert.reports import page
from keras_bert.reports.excerpts import excerpts
from keras_bert.reports.judged import LOOK, Judged
from keras_bert.reports.label_checks import JudgedLabel, ranked
from keras_bert.reports.sections import confusions, length_rows, share, share_bar
from keras_bert.tasks.tagging.metrics import (
    BOTH_WRONG,
    CORRECT,
    KINDS,
    MISSED,
    SPURIOUS,
    WRONG_BORDER,
    WRONG_TYPE,
    Match,
    matches,
    type_name,
)
from keras_bert.tasks.tagging.schemes import EntitySpan

_OTHER_BORDERS = "other borders"
_ENTITY_LENGTHS = {"1": 1, "2": 2, "3": 3, "4": 4, "5 or more": math.inf}
# How many words too long a prediction is at its start and at its end.
_BORDERS = {
    "long at the start": (1, 0),
    "short at the start": (-1, 0),
    "long at the end": (0, 1),
    "short at the end": (0, -1),
}
_EXAMPLES = 3  # Examples of each border that is off by one word.
_WORDS = 5  # The most frequent words at such borders.
_AROUND = 40  # Number of characters to show around these examples.
_LONG = 800  # Longer sentences, in characters, are cut to the surroundings of their first errors.
_ERRORS = 5  # Errors to show of a long sentence.
# The columns of `errors.tsv`, see `_error_cells`.
_COLUMNS = (
    "line",
    "word",
    "error",
    "gold type",
    "gold",
    "predicted type",
    "predicted",
    "probability",
    "sentence",
)
_TYPE = 40  # Maximum number of characters of a type to show.


@dataclasses.dataclass(frozen=True, kw_only=True)
class _JudgedMatches(Judged):
    """Judged `Match`es of gold and predicted entities or tags, a row for each; the hardest rows are sentences."""

    matches: list
    sentences: Judged

    @property
    def by_row(self):
        return self.sentences

    def hardest(self):
        return self.sentences.hardest()

    def label_checks(self):
        """Returns the tags of all words that have one as `JudgedLabel`s, the most doubtful first."""
        labels = []
        contents = []
        for row, sentence in enumerate(self.sentences.rows):
            for word, (tag, predicted, loss) in enumerate(sentence.tags):
                if math.isnan(loss):
                    continue  # The tokenizer leaves nothing of the word.
                label = JudgedLabel(
                    row=row,
                    label=tag,
                    predicted=predicted,
                    loss=loss,
                    place=sentence.lines[word],
                    text=sentence.text,
                    word=word,
                    span=sentence.words[word],
                )
                labels.append(label)
                contents.append(sentence.text)
        return ranked(labels, contents)

    def columns(self):
        columns = {name: [] for name in _COLUMNS}
        for match in self.matches:
            for name, cell in zip(_COLUMNS, _error_cells(match), strict=True):
                columns[name].append(cell)
        return columns


@dataclasses.dataclass(frozen=True, kw_only=True)
class JudgedEntities(_JudgedMatches):
    """Judged entities, with the table of their scores."""

    scores: list

    def overview(self):
        section = page.render(
            "tasks/tagging/report.html",
            scores=[_score_row(*values) for values in self.scores],
            kinds=_kind_rows(self.matches),
            **_type_confusions(self._types(), self.matches),
            **_borders(self.matches),
            sentence_lengths=_sentence_lengths(self.sentences.rows, self.sentences.marked),
            entity_lengths=_entity_lengths(self.matches),
        )
        return [section]

    def _types(self):
        """Returns the types of the scores, and others that occur in matches."""
        *scores_of_types, _ = self.scores  # The last row is that of all types.
        types = [type_name(name) for name, *_ in scores_of_types]
        for match in self.matches:
            types.extend(entity.type for entity in match.entities)
        return list(dict.fromkeys(types))


class JudgedTags(_JudgedMatches):
    """Judged tags of words."""

    words = ("tag", "tags", "words")

    def columns(self):
        columns = super().columns()
        return {
            "line": columns["line"],
            "word": columns["word"],
            "text": columns["gold"],
            "true": columns["gold type"],
            "predicted": columns["predicted type"],
            "probability": columns["probability"],
            "sentence": columns["sentence"],
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class JudgedSentences(Judged):
    """Judged sentences, the `rows`, with the matches to mark in each."""

    rows: list  # Those of `PredictedSentence`.
    marked: list
    unit: str  # What is marked: "entities" or "words".

    title = "Hardest sentences of dev"
    none = "No sentence has an error."
    once = "text"
    wrong_first = False

    @property
    def marks(self):
        return ("gold entity", "predicted entity") if self.unit == "entities" else ()

    @property
    def how(self):
        end = "tag with its probability; correct ones are not marked."
        if self.unit == "entities":
            end = "type with its probability, correct ones by their type."
        return (
            "Sentences with errors: {wrong}. The {shown} with the highest loss, each text once: "
            f"{LOOK.format('wrong gold tags')}Wrong {self.unit} are followed by the gold and by the predicted {end}"
        )

    def columns(self):
        columns = {"line": [], "true": [], "predicted": [], "loss": self.loss}
        for sentence in self.rows:
            columns["line"].append(sentence.line)
            columns["true"].append(self._listed_answers(sentence, sentence.golds))
            columns["predicted"].append(self._listed_answers(sentence, sentence.predictions))
        columns.update(self.texts)
        return columns

    def _listed_answers(self, sentence, answers):
        """Returns the gold or predicted tags of a sentence, or its entities, such as `PER: Ada; LOC: Rome`."""
        if self.unit == "words":
            return " ".join(answers)
        entities = []
        for type_, first_word, end_word in answers:
            start, _ = sentence.words[first_word]
            _, end = sentence.words[end_word - 1]
            entities.append(f"{type_name(type_)}: {sentence.text[start:end]}")
        return "; ".join(entities)

    def head(self, row):
        sentence = self.rows[row]
        errors = self._errors(row)
        if self.unit == "entities":
            wrong = _counted_kinds(self.marked[row])
        else:
            wrong = f"{len(errors):,} of {len(sentence.words):,} words wrong"
        parts = [f"line {sentence.line:,}", wrong, f"loss {self.loss[row]:.3g}"]
        if len(sentence.text) > _LONG and len(errors) > _ERRORS:
            parts.append(f"the first {_ERRORS} errors are shown")
        return parts

    def paragraphs(self, row):
        text = self.rows[row].text
        marks = {"gold": [], "said": []}
        labels = []
        for match in self.marked[row]:
            if match.gold:
                marks["gold"].append(match.span(match.gold))
            if match.prediction:
                marks["said"].append(match.span(match.prediction))
            labels.extend(_excerpt_labels(match))
        if len(text) > _LONG:
            shown = excerpts(text, self._spans_of_errors(row), marks, labels)
        else:
            shown = excerpts(text, [], marks, labels, around=_LONG)
        return [("sentence", excerpt) for excerpt in shown]

    def _spans_of_errors(self, row):
        """Returns the characters of the entities of the first errors of a sentence."""
        spans = []
        for match in self._errors(row)[:_ERRORS]:
            spans.extend(match.span(entity) for entity in match.entities)
        return spans

    def asked(self, row):
        """Returns the words of the sentence, or its text, and the first word with a wrong tag."""
        sentence = self.rows[row]
        for word, (tag, predicted, loss) in enumerate(sentence.tags):
            if tag != predicted and not math.isnan(loss):
                return sentence.given_words or sentence.text, word
        return None

    def _errors(self, row):
        return [match for match in self.marked[row] if match.kind != CORRECT]


def _counted_kinds(matches):
    """Returns how many matches of each kind there are, such as `1 wrong type, 2 correct`."""
    counts = collections.Counter(match.kind for match in matches)
    counted = []
    for kind in (*KINDS[1:], CORRECT):
        if counts[kind]:
            counted.append(f"{counts[kind]:,} {kind}")
    return ", ".join(counted)


def judge_entities(sentences, scores):
    """Judges the entities of sentences.

    `sentences` are those of dev, a list of `PredictedSentence`s. `scores` is a list of `(type, precision, recall, f1,
    support, predicted)`, scores from 0 to 1, "all" last.
    """
    matches_of = list(map(matches, sentences))
    fields = _judged_fields(sentences, matches_of, marked=matches_of, unit="entities")
    return JudgedEntities(**fields, scores=scores)


def judge_tags(sentences, names):
    """Judges the tags of words, which are the `golds` and `predictions` of `sentences`, see `judge_entities`."""
    matches_of = list(map(_word_matches, sentences))
    wrong = []
    lengths = []
    for sentence, word_matches in zip(sentences, matches_of, strict=True):
        wrong.append([match for match in word_matches if match.kind != CORRECT])
        lengths.extend([sentence.tokens] * len(word_matches))
    fields = _judged_fields(sentences, matches_of, marked=wrong, unit="words")
    return JudgedTags(**fields, length=lengths, names=names)


def _judged_fields(sentences, matches_of, marked, unit):
    """Returns the fields of judged matches, lists of `Match` for each sentence; `marked` are those to mark in it."""
    judged_sentences = JudgedSentences(
        gold=[sentence.golds for sentence in sentences],
        predicted=[sentence.predictions for sentence in sentences],
        right=list(map(_are_correct, matches_of)),
        loss=[sentence.loss for sentence in sentences],
        texts={"text": [sentence.text for sentence in sentences]},
        length=[sentence.tokens for sentence in sentences],
        rows=sentences,
        marked=marked,
        unit=unit,
    )
    gold = []
    predicted = []
    right = []
    confidence = []
    every = list(itertools.chain.from_iterable(matches_of))
    for match in every:
        gold.append(match.gold.type if match.gold else None)
        predicted.append(match.prediction.type if match.prediction else None)
        right.append(match.kind == CORRECT)
        confidence.append(match.confidence)
    return {
        "gold": gold,
        "predicted": predicted,
        "right": right,
        "loss": np.zeros(len(every)),
        "confidence": np.array(confidence, float),
        "matches": every,
        "sentences": judged_sentences,
    }


def _are_correct(matches):
    return all(match.kind == CORRECT for match in matches)


def _word_matches(sentence):
    """Returns a `Match` for each word of a sentence with tags."""
    judged = zip(sentence.golds, sentence.predictions, sentence.confidences, strict=True)
    word_matches = []
    for word, (gold_tag, predicted_tag, confidence) in enumerate(judged):
        gold = EntitySpan(gold_tag, word, word + 1)
        prediction = EntitySpan(predicted_tag, word, word + 1)
        word_matches.append(Match(sentence, gold, prediction, float(confidence)))
    return word_matches


def _error_cells(match):
    """Returns the cells of a match in `errors.tsv`."""
    first_word = min(entity.start for entity in match.entities)
    cells = [match.sentence.line, 1 + first_word, match.kind]
    for entity in (match.gold, match.prediction):
        if entity:
            cells.extend([entity.type, match.text(entity)])
        else:
            cells.extend(["", ""])
    probability = f"{match.confidence:.4f}" if math.isfinite(match.confidence) else ""
    return [*cells, probability, match.sentence.text]


def _excerpt_labels(match):
    """Returns the labels of a match for `excerpts`."""
    if match.kind == CORRECT:
        return [(match.span(match.gold), "", page.cut(match.gold.type, _TYPE))]
    labels = []
    if match.gold:
        labels.append((match.span(match.gold), "gold", f"gold {page.cut(match.gold.type, _TYPE)}"))
    if match.prediction:
        text = f"predicted {page.cut(match.prediction.type, _TYPE)}"
        if math.isfinite(match.confidence):
            text += f" {page.percent(match.confidence, 0)}"
        labels.append((match.span(match.prediction), "said", text))
    return labels


def _score_row(name, precision, recall, f1, support, predicted):
    """Returns a table row; scores without entities are undefined."""
    return [
        type_name(name),
        page.percent(precision) if predicted else page.NOTHING,
        page.percent(recall) if support else page.NOTHING,
        share_bar(f1) if support or predicted else page.NOTHING,
        f"{support:,}",
        f"{predicted:,}",
    ]


def _kind_rows(matches):
    """Returns table rows of the kinds of matches: gold and predicted entities, with their shares."""
    counts = collections.Counter(match.kind for match in matches)
    golds = len(matches) - counts[SPURIOUS]
    predictions = len(matches) - counts[MISSED]
    rows = []
    for kind in KINDS:
        count = counts[kind]
        row = [kind, f"{count:,}", share(count, golds), f"{count:,}", share(count, predictions)]
        if kind == SPURIOUS:
            row[1:3] = [page.NOTHING, page.NOTHING]
        if kind == MISSED:
            row[3:5] = [page.NOTHING, page.NOTHING]
        rows.append(row)
    total = [f"{golds:,}", share(golds, golds), f"{predictions:,}", share(predictions, predictions)]
    return [*rows, ["all", *total]]


def _type_confusions(types, matches):
    """Returns the confusion matrix of types, or the most frequent confusions of many types."""
    rows = [*types, _OTHER_BORDERS, SPURIOUS]
    columns = [*types, _OTHER_BORDERS, MISSED]
    counts = np.zeros((len(rows), len(columns)), int)
    place = {name: number for number, name in enumerate(types)}
    for match in matches:
        if match.kind in (CORRECT, WRONG_TYPE):
            counts[place[match.gold.type], place[match.prediction.type]] += 1
            continue
        other_borders = match.kind in (WRONG_BORDER, BOTH_WRONG)
        last = -2 if other_borders else -1
        if match.gold:
            counts[place[match.gold.type], last] += 1
        if match.prediction:
            counts[last, place[match.prediction.type]] += 1
    cells = counts.tolist()
    for row in cells[-2:]:
        row[-2:] = [None, None]
    return {
        "rows": rows,
        "columns": columns,
        "counts": cells,
        "confusions": confusions(rows, columns, counts, others=2),
    }


def _borders(matches):
    """Returns the borders that are off by one word: a dict for each of four kinds."""
    wrong = [match for match in matches if match.kind == WRONG_BORDER]
    groups = collections.defaultdict(list)
    for match in wrong:
        at_start = match.gold.start - match.prediction.start
        at_end = match.prediction.end - match.gold.end
        if abs(at_start) + abs(at_end) == 1:
            groups[at_start, at_end].append(match)
    borders = [_border(f"one word too {name}", groups[key]) for name, key in _BORDERS.items()]
    off_by_one = sum(map(len, groups.values()))
    return {"borders": borders, "off_by_one": off_by_one, "wrong_borders": len(wrong)}


def _border(name, matches):
    """Returns the words at borders of one kind, and some examples."""
    words = collections.Counter()
    different = {}
    for match in matches:
        gold = range(match.gold.start, match.gold.end)
        prediction = range(match.prediction.start, match.prediction.end)
        (between,) = set(gold).symmetric_difference(prediction)  # They differ by one word.
        words[match.text(EntitySpan("", between, between + 1))] += 1
        different.setdefault((match.text(match.gold), match.text(match.prediction)), match)
    examples = list(different.values())[:_EXAMPLES]
    return {
        "name": name,
        "count": f"{len(matches):,}",
        "words": [(word, f"{count:,}") for word, count in words.most_common(_WORDS)],
        "examples": [(match.sentence.line, _border_excerpt(match)) for match in examples],
    }


def _border_excerpt(match):
    """Returns an excerpt with a gold entity and a prediction of the same type, which follows the longer one."""
    gold = match.span(match.gold)
    said = match.span(match.prediction)
    label_place = gold
    if said[1] > gold[1]:
        label_place = said
    shown = excerpts(
        match.sentence.text,
        spans=[gold, said],
        marks={"gold": [gold], "said": [said]},
        labels=[(label_place, "", match.gold.type)],
        around=_AROUND,
    )
    return shown[0]  # Both spans, unless the word between them is very long.


def _sentence_lengths(sentences, matches_of):
    """Returns table rows with the F1 of sentences of similar length, given the matches of each."""
    lengths = []
    counts = []
    for sentence, sentence_matches in zip(sentences, matches_of, strict=True):
        correct, golds, predictions = _counts_by_length(sentence_matches)
        lengths.append(sentence.tokens)
        counts.append([correct.total(), golds.total(), predictions.total()])
    return length_rows(lengths, counts, lambda means: _f1_bar(*means))


def _counts_by_length(matches):
    """Counts correct, gold and predicted entities by the group of their length."""
    correct = collections.Counter()
    golds = collections.Counter()
    predictions = collections.Counter()
    for match in matches:
        if match.kind == CORRECT:
            correct[_length_group(match.gold)] += 1
        if match.gold:
            golds[_length_group(match.gold)] += 1
        if match.prediction:
            predictions[_length_group(match.prediction)] += 1
    return correct, golds, predictions


def _entity_lengths(matches):
    """Returns table rows with the F1 of entities of the same number of words."""
    correct, golds, predictions = _counts_by_length(matches)
    rows = []
    for name in _ENTITY_LENGTHS:
        if golds[name] or predictions[name]:
            f1 = _f1_bar(correct[name], golds[name], predictions[name])
            rows.append([name, f"{golds[name]:,}", f"{predictions[name]:,}", f1])
    return rows


def _length_group(entity):
    """Returns the name of the group of entities of similar length."""
    length = entity.end - entity.start
    for name, most in _ENTITY_LENGTHS.items():
        if length <= most:
            return name
    raise AssertionError("the last group has no limit")


def _f1_bar(correct, golds, predictions):
    if not golds + predictions:
        return page.NOTHING
    return share_bar(2 * correct / (golds + predictions))

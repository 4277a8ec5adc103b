"""What a report shows about taggers: scores by type, kinds of errors, borders, and marked sentences."""

import collections
import dataclasses
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
from keras_bert.tasks.tagging.schemes import Entity

_OTHER_BORDERS = "other borders"
_ENTITY_LENGTHS = {"1": 1, "2": 2, "3": 3, "4": 4, "5 or more": math.inf}
_BORDERS = {"long at the start": (1, 0), "short at the start": (-1, 0), "long at the end": (0, 1)}
_BORDERS |= {"short at the end": (0, -1)}
_EXAMPLES = 3  # Examples of each border that is off by one word.
_WORDS = 5  # The most frequent words at such borders.
_AROUND = 40  # Number of characters to show around these examples.
_LONG = 800  # Longer sentences, in characters, are cut to the surroundings of their first errors.
_ERRORS = 5  # Errors to show of a long sentence.
_COLUMNS = "line", "word", "error", "gold type", "gold", "predicted type", "predicted", "probability", "sentence"
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
        checks = []
        for row, sentence in enumerate(self.sentences.rows):
            for word, (tag, predicted, loss) in enumerate(sentence["tags"]):
                if math.isnan(loss):
                    continue  # The tokenizer leaves nothing of the word.
                check = JudgedLabel(
                    row=row,
                    label=tag,
                    predicted=predicted,
                    loss=loss,
                    place=sentence["lines"][word],
                    text=sentence["text"],
                    word=word,
                    span=sentence["words"][word],
                )
                checks.append(check)
        return ranked(checks, [check.text for check in checks])

    def columns(self):
        cells = list(map(_error, self.matches))
        return {name: [row[number] for row in cells] for number, name in enumerate(_COLUMNS)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class JudgedEntities(_JudgedMatches):
    """Judged entities, with the table of their scores."""

    scores: list

    def overview(self):
        found = self.matches
        types = dict.fromkeys(type_name(name) for name, *_ in self.scores[:-1])
        types |= dict.fromkeys(entity.type for match in found for entity in match.entities)
        section = page.render(
            "tasks/tagging/report.html",
            scores=[_score_row(*values) for values in self.scores],
            kinds=_kinds(found),
            **_confusions(list(types), found),
            **_borders(found),
            sentence_lengths=_sentence_lengths(self.sentences.rows, self.sentences.marked),
            entity_lengths=_entity_lengths(found),
        )
        return [section]


class JudgedTags(_JudgedMatches):
    """Judged tags of words."""

    words = "tag", "tags", "words"

    def columns(self):
        names = {"line": "line", "word": "word", "text": "gold", "true": "gold type", "predicted": "predicted type"}
        columns = super().columns()
        names |= {name: name for name in ("probability", "sentence")}
        return {title: columns[name] for title, name in names.items()}


@dataclasses.dataclass(frozen=True, kw_only=True)
class JudgedSentences(Judged):
    """Judged sentences, the `rows`, with the matches to mark in each."""

    rows: list
    marked: list
    unit: str  # What is marked: "entities" or "words".

    title, none = "Hardest sentences of dev", "No sentence has an error."
    once, wrong_first = "text", False

    @property
    def marks(self):
        return ("gold entity", "predicted entity") if self.unit == "entities" else ()

    @property
    def how(self):
        end = "tag with its probability; correct ones are not marked."
        end = "type with its probability, correct ones by their type." if self.unit == "entities" else end
        return (
            "Sentences with errors: {wrong}. The {shown} with the highest loss, each text once: "
            f"{LOOK.format('wrong gold tags')}Wrong {self.unit} are followed by the gold and by the predicted {end}"
        )

    def columns(self):
        return {
            "line": [sentence["line"] for sentence in self.rows],
            "true": [self._side(sentence, "golds") for sentence in self.rows],
            "predicted": [self._side(sentence, "predictions") for sentence in self.rows],
            "loss": self.loss,
            **self.texts,
        }

    def _side(self, sentence, name):
        """Returns the gold or predicted tags of a sentence, or its entities, such as `PER: Ada; LOC: Rome`."""
        if self.unit == "words":
            return " ".join(sentence[name])
        entities = []
        for entity in sentence[name]:
            first, last = sentence["words"][entity[1]], sentence["words"][entity[2] - 1]
            entities.append(f"{type_name(entity[0])}: {sentence['text'][first[0] : last[1]]}")
        return "; ".join(entities)

    def head(self, row):
        sentence, errors = self.rows[row], self._errors(row)
        counts = collections.Counter(match.kind for match in self.marked[row])
        kinds = ", ".join(f"{counts[kind]:,} {kind}" for kind in (*KINDS[1:], CORRECT) if counts[kind])
        wrong = kinds if self.unit == "entities" else f"{len(errors):,} of {len(sentence['words']):,} words wrong"
        cut = len(sentence["text"]) > _LONG and len(errors) > _ERRORS
        parts = [f"line {sentence['line']:,}", wrong, f"loss {self.loss[row]:.3g}"]
        return parts + [f"the first {_ERRORS} errors are shown"] * cut

    def paragraphs(self, row):
        text, matches = self.rows[row]["text"], self.marked[row]
        marks = {
            "gold": [match.span(match.gold) for match in matches if match.gold],
            "said": [match.span(match.prediction) for match in matches if match.prediction],
        }
        labels = [label for match in matches for label in _labels(match)]
        spans = [match.span(entity) for match in self._errors(row)[:_ERRORS] for entity in match.entities]
        shown = (spans, marks, labels) if len(text) > _LONG else ([], marks, labels, _LONG)
        return [("sentence", part) for part in excerpts(text, *shown)]

    def asked(self, row):
        """Returns the words of the sentence, or its text, and the first word with a wrong tag."""
        sentence = self.rows[row]
        wrong = [
            number
            for number, (tag, predicted, loss) in enumerate(sentence["tags"])
            if tag != predicted and not math.isnan(loss)
        ]
        if not wrong:
            return None
        return sentence.get("given") or sentence["text"], wrong[0]

    def _errors(self, row):
        return [match for match in self.marked[row] if match.kind != CORRECT]


def judge_entities(rows, scores):
    """Judges the entities of sentences.

    `rows` is a list of dicts, one for each sentence of dev: `line`, the number of its first line in the file; `text`;
    `words`, a list of `(first, end)` in characters of the text; `golds` and `predictions`, lists of `(type, first word,
    end word)`, type "" if the only type has no name; `confidences`, the probabilities of the predictions; `loss`, the
    mean loss of the words; `tokens`, the number of tokens; for `label_checks` also `tags`, a list of `(gold tag,
    predicted tag, loss)` of the words, and `lines`, their lines in the file; for `asked` also `given`, the words if the
    file has lists of words, or `None`. `scores` is a list of `(type, precision,
    recall, f1, support, predicted)`, scores from 0 to 1, "all" last.
    """
    marked = list(map(matches, rows))
    return JudgedEntities(**_judged(rows, marked, marked, "entities"), scores=scores)


def judge_tags(rows, names):
    """Judges the tags of words, which are the `golds` and `predictions` of `rows`, see `judge_entities`."""
    found = list(map(_word_matches, rows))
    wrong = [[match for match in matches if match.kind != CORRECT] for matches in found]
    fields = _judged(rows, found, wrong, "words")
    lengths = [row["tokens"] for row, matches in zip(rows, found, strict=True) for _ in matches]
    return JudgedTags(**fields, length=lengths, names=names)


def _judged(rows, found, marked, unit):
    """Returns the fields of judged matches, lists of `Match` for each row, of which some are `marked` in sentences."""
    matches = [match for row in found for match in row]
    sentences = JudgedSentences(
        gold=[row["golds"] for row in rows],
        predicted=[row["predictions"] for row in rows],
        right=[all(match.kind == CORRECT for match in row) for row in found],
        loss=[row["loss"] for row in rows],
        texts={"text": [row["text"] for row in rows]},
        length=[row["tokens"] for row in rows],
        rows=rows,
        marked=marked,
        unit=unit,
    )
    return {
        "gold": [match.gold and match.gold.type for match in matches],
        "predicted": [match.prediction and match.prediction.type for match in matches],
        "right": [match.kind == CORRECT for match in matches],
        "loss": np.zeros(len(matches)),
        "confidence": np.array([match.confidence for match in matches], float),
        "matches": matches,
        "sentences": sentences,
    }


def _word_matches(row):
    """Returns a `Match` for each word of a row with tags."""
    tags = zip(row["golds"], row["predictions"], row["confidences"], strict=True)
    return [
        Match(row, Entity(gold, word, word + 1), Entity(said, word, word + 1), float(sure))
        for word, (gold, said, sure) in enumerate(tags)
    ]


def _error(match):
    """Returns the cells of a match in `errors.tsv`."""
    cells = [match.row["line"], 1 + min(entity.start for entity in match.entities), match.kind]
    for entity in (match.gold, match.prediction):
        cells += [entity.type, match.text(entity)] if entity else ["", ""]
    return [*cells, f"{match.confidence:.4f}" if math.isfinite(match.confidence) else "", match.row["text"]]


def _labels(match):
    """Returns the labels of a match for `excerpts`."""
    if match.kind == CORRECT:
        return [(match.span(match.gold), "", page.cut(match.gold.type, _TYPE))]
    sure = f" {page.percent(match.confidence, 0)}" if math.isfinite(match.confidence) else ""
    sides = ("gold", "gold", match.gold, ""), ("said", "predicted", match.prediction, sure)
    return [
        (match.span(entity), style, f"{name} {page.cut(entity.type, _TYPE)}{end}")
        for style, name, entity, end in sides
        if entity
    ]


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


def _kinds(found):
    """Returns table rows of the kinds of matches: gold and predicted entities, with their shares."""
    counts = collections.Counter(match.kind for match in found)
    golds, predicted = (len(found) - counts[kind] for kind in (SPURIOUS, MISSED))
    rows = []
    for kind in KINDS:
        count, none = counts[kind], [page.NOTHING] * 2
        gold = none if kind == SPURIOUS else [f"{count:,}", share(count, golds)]
        said = none if kind == MISSED else [f"{count:,}", share(count, predicted)]
        rows.append([kind, *gold, *said])
    return [*rows, ["all", f"{golds:,}", share(golds, golds), f"{predicted:,}", share(predicted, predicted)]]


def _confusions(types, matches):
    """Returns the confusion matrix of types, or the most frequent confusions of many types."""
    rows, columns = [*types, _OTHER_BORDERS, SPURIOUS], [*types, _OTHER_BORDERS, MISSED]
    counts = np.zeros((len(rows), len(columns)), int)
    place = {name: number for number, name in enumerate(types)}
    for match in matches:
        if match.kind in (CORRECT, WRONG_TYPE):
            counts[place[match.gold.type], place[match.prediction.type]] += 1
            continue
        last = -2 if match.kind in (WRONG_BORDER, BOTH_WRONG) else -1
        if match.gold:
            counts[place[match.gold.type], last] += 1
        if match.prediction:
            counts[last, place[match.prediction.type]] += 1
    cells = counts.tolist()
    for line in cells[-2:]:
        line[-2:] = None, None
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
        at_start, at_end = match.gold.start - match.prediction.start, match.prediction.end - match.gold.end
        if sorted((abs(at_start), abs(at_end))) == [0, 1]:
            groups[at_start, at_end].append(match)
    borders = [_border(f"one word too {name}", groups[key]) for name, key in _BORDERS.items()]
    return {"borders": borders, "off_by_one": sum(map(len, groups.values())), "wrong_borders": len(wrong)}


def _border(name, some):
    words, different = collections.Counter(), {}
    for match in some:
        gold, prediction = (set(range(entity.start, entity.end)) for entity in match.entities)
        (between,) = gold ^ prediction  # The word between the borders of both.
        words[match.text(Entity("", between, between + 1))] += 1
        different.setdefault((match.text(match.gold), match.text(match.prediction)), match)
    return {
        "name": name,
        "count": f"{len(some):,}",
        "words": [(word, f"{count:,}") for word, count in words.most_common(_WORDS)],
        "examples": [(match.row["line"], _example(match)) for match in list(different.values())[:_EXAMPLES]],
    }


def _example(match):
    gold, said = (match.span(entity) for entity in (match.gold, match.prediction))
    labels = [(max(gold, said, key=lambda span: span[1]), "", match.gold.type)]
    return excerpts(match.row["text"], [gold, said], {"gold": [gold], "said": [said]}, labels, _AROUND)[0]


def _sentence_lengths(rows, matches):
    """Returns table rows with the F1 of sentences of similar length, given their `matches`, lists."""
    counts = [
        [sum(match.kind == CORRECT for match in found)]
        + [sum(match[side] is not None for match in found) for side in (1, 2)]  # Gold and prediction.
        for found in matches
    ]
    return length_rows([row["tokens"] for row in rows], counts, lambda means: _f1(*means))


def _entity_lengths(matches):
    """Returns table rows with the F1 of entities of the same number of words."""
    gold, predicted = ([match[side] for match in matches if match[side]] for side in (1, 2))
    correct = [match.gold for match in matches if match.kind == CORRECT]
    counts = [
        collections.Counter(
            next(name for name, most in _ENTITY_LENGTHS.items() if end - start <= most) for _, start, end in entities
        )
        for entities in (correct, gold, predicted)
    ]
    rows = [(name, *(count[name] for count in counts)) for name in _ENTITY_LENGTHS]
    return [[name, f"{gold:,}", f"{said:,}", _f1(hits, gold, said)] for name, hits, gold, said in rows if gold or said]


def _f1(correct, gold, predicted):
    return share_bar(2 * correct / (gold + predicted)) if gold + predicted else page.NOTHING

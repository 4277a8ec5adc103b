"""Why a loaded model answers what it does: scores of words."""

import dataclasses

import tensorflow as tf

from keras_bert.answering.answerer import Answerer
from keras_bert.answering.explanation import Explanations, PrintedExplanation
from keras_bert.answering.gradients import IntegratedGradients
from keras_bert.answering.input_rows import WORDS, read_rows
from keras_bert.answering.row_answers import answer_rows
from keras_bert.checks import check_choice, check_count, is_count, similar
from keras_bert.exporting.stored_options import labels_of
from keras_bert.heads.answers import character_offsets, strings
from keras_bert.heads.explain_signatures import (
    CHOICES,
    MASK,
    PREDICTED,
    TOKENS,
    Target,
    WordScores,
    form_of,
    join_of,
    replacement_id,
)
from keras_bert.heads.registry import answering, describe
from keras_bert.metadata import answer_length
from keras_bert.progress import quiet_tensorflow
from keras_bert.rewirings.from_vectors import build_from_vectors
from keras_bert.text import words
from keras_bert.text.word_effects import LeaveOneOut

LEAVE_ONE_OUT = "leave_one_out"
INTEGRATED_GRADIENTS = "integrated_gradients"
METHODS = (LEAVE_ONE_OUT, INTEGRATED_GRADIENTS)
_POINTS = 50  # Of the path of integrated gradients.
_INPUTS = [("text",), ("text", "pair"), ("text", "choices")]


def can_explain(bert):
    """Whether the words of texts explain the answers of a loaded model, by the defaults of `LoadedBert.explain`."""
    try:
        head = answering(bert.head)
        form_of(bert.model(), head)
    except ValueError:
        return False
    return MASK in bert.vocabulary and all(names in _INPUTS for names in head.inputs(bert))


@dataclasses.dataclass(frozen=True)
class _ScoringSettings:
    """How words are scored, see `LoadedBert.explain`."""

    method: str = LEAVE_ONE_OUT
    replacement: str = MASK
    n_steps: int | None = None
    doc_stride: int | None = None


class Explainer(Answerer):
    """An `Answerer` that also explains its answers, see `LoadedBert.explain`."""

    def __init__(self, bert):
        super().__init__(bert)
        self._graphs = {}

    @quiet_tensorflow()
    def explain(
        self,
        texts,
        target=None,
        *,
        method=LEAVE_ONE_OUT,
        replacement=MASK,
        n_steps=None,
        batch_size=32,
        sequence_length=None,
        reading=None,
        doc_stride=None,
    ):
        """See `LoadedBert.explain`; `reading` is a dict of the options of `TextPreprocessor` that are given."""
        check_choice("method", method, METHODS)
        settings = _ScoringSettings(method, replacement, n_steps=_points(method, n_steps), doc_stride=doc_stride)
        form_of(self._bert.model(), self._head)
        self._check_stride(doc_stride)
        rows, is_single = read_rows(self._asked(texts), self._head.takes_words)
        names = self._names(rows)
        scores, graph = self._graph(names, sequence_length, reading, settings)
        targets = Targets(scores, self._head).of(target, rows, is_single)
        explanations = _explanations(
            scores,
            graph,
            names,
            _with_targets(rows, targets),
            settings,
            batch_size=batch_size,
            cut=self._cut(reading, names),
        )
        return explanations[0] if is_single else explanations

    @quiet_tensorflow()
    def explain_few(self, texts, targets):
        """Explains a few texts as the head reads them, by leave-one-out, without the time that tracing takes.

        Unlike those of `explain`, they are not the rows of a task, from which it makes texts. `targets` has one for
        each text, `None` for what is predicted.
        """
        settings = _ScoringSettings()
        rows, _ = read_rows(texts, self._head.takes_words)
        names = self._names(rows)
        scores = self._word_scores(None, None, settings)
        function = _answer_function(scores, _asked_names(names))
        read_targets = Targets(scores, self._head).of(list(targets), rows, is_single=False)
        return _explanations(scores, function, names, _with_targets(rows, read_targets), settings)

    def _check_stride(self, doc_stride):
        """Raises for a distance of windows that is none, or of a model without an answer for each token."""
        if doc_stride is None:
            return
        check_count("doc_stride", doc_stride)
        if "doc_stride" not in self._head.text_options:
            raise ValueError(
                "`doc_stride` is for models with an answer for each token. "
                f"Received: doc_stride={doc_stride!r} for a model with head={self._bert.head!r}"
            )

    def _names(self, rows):
        """Returns the names of the inputs of all rows."""
        own = self._head.inputs(self._bert)
        if any(names not in _INPUTS for names in own):
            raise ValueError(
                "`explain` is for models of texts, pairs, or texts with choices. "
                f"Received: a model with head={self._bert.head!r}, which takes {' and '.join(own[0])}"
            )
        return self._input_names(rows)

    def _graph(self, names, sequence_length, reading, settings):
        """Returns the `WordScores` of some inputs, and the graph that computes them.

        They are made on first use and after any change of the model but that of weights.
        """
        is_pair = "pair" in names and self._head.takes_pair
        built = self._build(sequence_length, is_pair, reading=reading)  # The same object until the model changes.
        key = repr((names, sequence_length, reading, settings))
        if key in self._graphs:
            built_before, scores, graph = self._graphs[key]
            if built_before is built:
                return scores, graph
        scores = self._word_scores(sequence_length, reading, settings)
        graph = _graph_of(scores, _asked_names(names))
        self._graphs[key] = built, scores, graph
        return scores, graph

    def _word_scores(self, sequence_length, reading, settings):
        """Returns the `WordScores` of the model."""
        head = self._head
        model = self._bert.model()
        preprocessor = self._preprocessor_of_head(sequence_length, reading)
        identity = replacement_id(preprocessor, settings.replacement)
        description = describe(model)
        join = join_of(head, description, preprocessor)
        if settings.method == LEAVE_ONE_OUT:
            effects = LeaveOneOut(model, head.classes, identity, join)
        else:
            effects = IntegratedGradients(
                build_from_vectors(model),
                table=description.layers["token_embedding"],
                output=head.classes,
                replacement=identity,
                join=join,
                n_steps=settings.n_steps,
            )
        labels = labels_of(self._bert, description)
        return WordScores(model, head, preprocessor, labels, effects, join, settings.doc_stride)

    def _preprocessor_of_head(self, sequence_length, reading):
        """Returns the preprocessor, which keeps the special tokens that the head keeps."""
        options = dict(reading or {})
        if self._head.keeps:
            options["keep_special_tokens"] = list(self._head.keeps)
        return self._preprocessor_of_calls(answer_length(self._bert, sequence_length), options)


def _points(method, n_steps):
    """Returns the number of points of the path of integrated gradients; other methods have none."""
    if n_steps is None:
        return _POINTS
    check_count("n_steps", n_steps)
    if method != INTEGRATED_GRADIENTS:
        raise ValueError(
            f"`n_steps` is for method={INTEGRATED_GRADIENTS!r}. Received: n_steps={n_steps} for method={method!r}"
        )
    return n_steps


def _asked_names(names):
    """Returns the names of the inputs of a graph: words are in place of their text."""
    return ("words",) if names == WORDS else names


def _graph_of(scores, names):
    """Returns the graph of `_answer_function`."""
    specs = []
    for name in names:
        shape = [None, None] if name == "choices" else [None]
        specs.append(tf.TensorSpec(shape, tf.string, name))
    for name in ("number", "word"):
        specs.append(tf.TensorSpec([None], tf.string, name))
    return tf.function(_answer_function(scores, names), input_signature=specs, autograph=False)


def _answer_function(scores, names):
    """Returns a function of strings: the inputs of texts, and the numbers of their targets, as decimal numbers."""

    def answer(*values):
        *inputs, number, word = values
        target = Target(
            tf.strings.to_number(number, tf.int32),
            tf.strings.to_number(word, tf.int32),
        )
        return scores(dict(zip(names, inputs, strict=True)), target)

    return answer


def _with_targets(rows, targets):
    """Returns rows with the numbers of their targets."""
    return [row | target for row, target in zip(rows, targets, strict=True)]


def _explanations(scores, function, names, rows, settings, batch_size=32, cut=None):
    """Returns the `Explanations` of rows with their targets, given the function of strings that scores their words."""

    def answer(output, row, n_best):
        return _explanation(output, row, scores, settings)

    inputs = (*_asked_names(names), "number", "word")
    answers = answer_rows(answer, function, inputs, rows, batch_size, cut=cut)
    return Explanations(map(PrintedExplanation, answers))


def _explanation(output, row, scores, settings):
    """Returns the explanation of a text as a dict, given the outputs of a graph for it."""
    target = int(output["target"])
    explanation = {
        "words": _scored_words(output, _scored_texts(row, target)),
        "target": _named_target(target, scores),
    }
    if "word" in output:
        explanation["word"] = _number_or_none(int(output["word"]))
    for name in ("value", "baseline", "difference", "delta"):
        explanation[name] = float(output[name])
    explanation["method"] = settings.method
    explanation["replacement"] = settings.replacement
    return explanation


def _named_target(target, scores):
    """Returns the class whose score is explained, its label if it has one; `None` for a model without classes."""
    number = _number_or_none(target)
    if number is None or not scores.has_targets:
        return None
    return number if scores.labels is None else scores.labels[number]


def _number_or_none(number):
    """Returns a number, and `None` for -1, which stands for none in outputs of signatures."""
    return number if number >= 0 else None


def _scored_texts(row, target):
    """Returns the texts whose words have scores, by input; of choices that of the target."""
    texts = {name: row[name] for name in ("text", "pair") if name in row}
    if "choices" in row:
        texts["choice"] = row["choices"][target]
    return texts


def _scored_words(output, texts):
    """Returns the words of texts with their places and their scores, dicts."""
    count = int(output["word_count"])
    inputs = strings(output["inputs"][:count])
    starts = output["starts"][:count].tolist()
    ends = output["ends"][:count].tolist()
    scores = output["scores"][:count].tolist()
    offsets = {name: character_offsets(text) for name, text in texts.items()}
    scored = []
    for name, first, last, score in zip(inputs, starts, ends, scores, strict=True):
        start, end = offsets[name][[first, last]].tolist()
        text = texts[name][start:end]
        scored.append({"text": text, "start": start, "end": end, "score": score, "input": name})
    return scored


class Targets:
    """Reads the `target` of `LoadedBert.explain`: of each text, the number of a class or of a choice, and of a word.

    Args:
        scores: the `WordScores` of the model.
        head: its `Head`.
    """

    def __init__(self, scores, head):
        self._scores = scores
        self._head = head

    def of(self, target, rows, is_single):
        """Returns dicts of `number` and `word`, decimal numbers as strings, for each row."""
        targets = [target] * len(rows)
        if isinstance(target, list) and not is_single:
            if len(target) != len(rows):
                raise ValueError(
                    f"`target` must be one target for all texts, or a list with one for each of {len(rows)}. "
                    f"Received: a list of {len(target)}"
                )
            targets = target
        numbers = []
        for target_of_row, row in zip(targets, rows, strict=True):
            number, word = self._numbers(target_of_row, row)
            numbers.append({"number": str(number), "word": str(word)})
        return numbers

    def _numbers(self, target, row):
        """Returns the number of the class or of the choice of a target, and that of its word."""
        if target is None:
            return PREDICTED, PREDICTED
        if self._scores.form == TOKENS:
            if isinstance(target, tuple) and len(target) == 2:
                word, name = target
                return self._class(name), self._word(word, row)
            return PREDICTED, self._word(target, row)
        if self._scores.form == CHOICES:
            return self._choice(target, row["choices"]), PREDICTED
        return self._class(target), PREDICTED

    def _class(self, target):
        """Returns the number of a class, given its name or its number."""
        if target is None:
            return PREDICTED
        labels = self._scores.labels
        width = self._scores.width or 1
        if isinstance(target, str) and labels is not None and target in labels:
            return labels.index(target)
        if is_count(target, 0) and target < width:
            return int(target)
        expected = f"a number below {width}"
        question = ""
        if labels:
            expected = f"one of {', '.join(labels)}, or {expected}"
            meant = similar(target, labels) if isinstance(target, str) else None
            if meant:
                question = f" Did you mean {meant!r}?"
        raise ValueError(f"`target` must be {expected}, or `None`. Received: target={target!r:.100}.{question}")

    def _choice(self, target, choices):
        """Returns the number of a choice, given its text or its number."""
        if target in choices:
            return choices.index(target)
        if is_count(target, 0) and target < len(choices):
            return int(target)
        raise ValueError(
            f"`target` must be one of the {len(choices)} choices, or its number. Received: target={target!r:.100}"
        )

    def _word(self, target, row):
        """Returns the number of a word that has tokens, given its text or its number."""
        texts, numbers = self._numbered_words(row)
        if isinstance(target, str):
            for number in numbers:
                if texts[number] == target:
                    return number
        elif is_count(target, 0) and target in numbers:
            return int(target)
        raise ValueError(
            "`target` must be a word of the text, or its number, or a tuple of it and a tag, for a model with "
            f"head={self._head.name!r}. Received: target={target!r:.100}; the words: {texts!r:.200}"
        )

    def _numbered_words(self, row):
        """Returns the words of a row, and the numbers of those that have tokens in ascending order."""
        tokenizer = self._scores.tokenizer
        if "words" in row:
            text = row["words"].encode(errors="surrogatepass")
            found = words.given_words(tokenizer, tf.constant([text]))
        else:
            text = row["text"].encode(errors="surrogatepass")
            found = words.words_of(tokenizer, tf.constant([text]))
        starts = found.starts.values.numpy().tolist()
        ends = found.ends.values.numpy().tolist()
        texts = []
        for start, end in zip(starts, ends, strict=True):
            texts.append(text[start:end].decode(errors="ignore").replace("\t", " "))
        return texts, sorted(set(found.number.values.numpy().tolist()))

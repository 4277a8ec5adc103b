"""Why a loaded model answers what it does: scores of words."""

import tensorflow as tf

from keras_bert.answering.answerer import Answerer, answer_rows, check_rows, read_rows
from keras_bert.answering.explanation import Explanation, Explanations
from keras_bert.answering.gradients import IntegratedGradients
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
from keras_bert.text.long_texts import HEAD, REFUSE
from keras_bert.text.word_effects import LeaveOneOut

METHODS = ("leave_one_out", "integrated_gradients")
_POINTS = 50  # Of the path of integrated gradients.
_INPUTS = [("text",), ("text", "pair"), ("text", "choices")]
_WORDS = ("words", "text")


def _points(method, n_steps):
    """Returns the number of points of the path of integrated gradients; other methods have none."""
    if n_steps is None:
        return _POINTS
    check_count("n_steps", n_steps)
    if method != METHODS[1]:
        raise ValueError(f"`n_steps` is for method={METHODS[1]!r}. Received: n_steps={n_steps} for method={method!r}")
    return n_steps


def can_explain(bert):
    """Whether the words of texts explain the answers of a loaded model, by the defaults of `LoadedBert.explain`."""
    try:
        head = answering(bert.head)
        form_of(bert.model(), head)
    except ValueError:
        return False
    return MASK in bert.vocabulary and all(names in _INPUTS for names in head.inputs(bert))


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
        method=METHODS[0],
        replacement=MASK,
        n_steps=None,
        batch_size=32,
        sequence_length=None,
        reading=None,
        stride=None,
    ):
        """See `LoadedBert.explain`; `reading` is a dict of the options of `TextPreprocessor` that are given."""
        check_choice("method", method, METHODS)
        n_steps = _points(method, n_steps)
        form_of(self._bert.model(), self._head)
        self._check_stride(stride)
        rows, is_single = read_rows(self._asked(texts), self._head.takes_words)
        names = self._names(rows)
        scores, graph = self._graph(names, sequence_length, reading, method, replacement, n_steps, stride)
        targets = Targets(scores, self._head).of(target, rows, is_single)
        about = {"method": method, "replacement": replacement}
        cut = self._cut(reading, names)
        explanations = _explanations(scores, graph, names, rows, targets, about, batch_size, cut)
        return explanations[0] if is_single else explanations

    @quiet_tensorflow()
    def explain_few(self, texts, targets):
        """Explains a few texts as the head reads them, by leave-one-out, without the time that tracing takes.

        Unlike those of `explain`, they are not the rows of a task, from which it makes texts. `targets` has one for
        each text, `None` for what is predicted.
        """
        rows, _ = read_rows(texts, self._head.takes_words)
        names = self._names(rows)
        scores = self._word_scores(None, None, METHODS[0], MASK)
        graph = _answer_function(scores, _asked_names(names))
        targets = Targets(scores, self._head).of(list(targets), rows, is_single=False)
        about = {"method": METHODS[0], "replacement": MASK}
        return _explanations(scores, graph, names, rows, targets, about)

    def _check_stride(self, stride):
        if stride is None:
            return
        check_count("stride", stride)
        if "stride" not in self._head.text_options:
            raise ValueError(
                "`stride` is for models with an answer for each token. "
                f"Received: stride={stride!r} for a model with head={self._bert.head!r}"
            )

    def _names(self, rows):
        """Returns the names of the inputs of all rows."""
        own = self._head.inputs(self._bert)
        if any(names not in _INPUTS for names in own):
            raise ValueError(
                "`explain` is for models of texts, pairs, or texts with choices. "
                f"Received: a model with head={self._bert.head!r}, which takes {' and '.join(own[0])}"
            )
        allowed = [*own, *([_WORDS] if self._head.takes_words else [])]
        return check_rows(rows, allowed, f"the model (head={self._bert.head!r})")

    def _graph(self, names, sequence_length, reading, *settings):
        """Returns the `WordScores` of some inputs, and the graph that computes them.

        They are made on first use and after any change of the model but that of weights.
        """
        pair = "pair" in names and self._head.takes_pair
        built = self._build(sequence_length, pair, reading=reading)  # The same object until the model changes.
        key = repr((names, sequence_length, reading, settings))
        before, *graph = self._graphs.get(key, (None,))
        if before is not built:
            scores = self._word_scores(sequence_length, reading, *settings)
            graph = scores, _graph_of(scores, _asked_names(names))
            self._graphs[key] = built, *graph
        return graph

    def _word_scores(self, sequence_length, reading, method, replacement, n_steps=None, stride=None):
        bert, head = self._bert, self._head
        model = bert.model()
        preprocessor = self._kept(sequence_length, reading)
        if preprocessor.long_texts == REFUSE:  # `CutTexts` tell which text is too long.
            preprocessor = self._kept(sequence_length, {"long_texts": HEAD})
        identity = replacement_id(preprocessor, replacement)
        description = describe(model)
        join = join_of(head, description, preprocessor)
        if method == METHODS[0]:
            effects = LeaveOneOut(model, head.classes, identity, join)
        else:
            table = description.layers["token_embedding"]
            effects = IntegratedGradients(build_from_vectors(model), table, head.classes, identity, join, n_steps)
        return WordScores(model, head, preprocessor, labels_of(bert, description), effects, join, stride)

    def _kept(self, sequence_length, reading):
        """Returns the preprocessor, which keeps the special tokens that the head keeps."""
        options = dict(reading or {})
        if self._head.keeps:
            options["keep_special_tokens"] = list(self._head.keeps)
        return self._preprocessor(answer_length(self._bert, sequence_length), options)


def _asked_names(names):
    """Returns the names of the inputs of a graph: words are in place of their text."""
    return ("words",) if names == _WORDS else names


def _graph_of(scores, names):
    """Returns the graph of `_answer_function`."""
    specs = []
    for name in names:
        specs.append(tf.TensorSpec([None, None] if name == "choices" else [None], tf.string, name))
    specs += [tf.TensorSpec([None], tf.string, name) for name in ("number", "word")]
    return tf.function(_answer_function(scores, names), input_signature=specs, autograph=False)


def _answer_function(scores, names):
    """Returns a function of strings: the inputs of texts, and the numbers of their targets, as decimal numbers."""

    def answer(*values):
        *inputs, number, word = values
        target = Target(tf.strings.to_number(number, tf.int32), tf.strings.to_number(word, tf.int32))
        return scores(dict(zip(names, inputs, strict=True)), target)

    return answer


def _explanations(scores, graph, names, rows, targets, about, batch_size=32, cut=None):
    """Returns the `Explanations` of rows, given the targets of each and what all have: method and replacement."""
    rows = [{**row, **each} for row, each in zip(rows, targets, strict=True)]

    def answer(output, row, n_best):
        found = _answer(output, row)
        if not scores.has_targets:
            found["target"] = None
        elif scores.labels is not None and found["target"] is not None:
            found["target"] = scores.labels[found["target"]]
        return {**found, **about}

    inputs = (*_asked_names(names), "number", "word")
    return Explanations(map(Explanation, answer_rows(answer, graph, inputs, rows, batch_size, cut=cut)))


def _answer(output, row):
    """Returns the explanation of a text as a dict, given the outputs of a graph for it."""
    count = int(output["word_count"])
    target = int(output["target"])
    texts = {name: row[name] for name in ("text", "pair") if name in row}
    if "choices" in row:
        texts["choice"] = row["choices"][target]
    offsets = {name: character_offsets(text) for name, text in texts.items()}
    columns = (output[name][:count].tolist() for name in ("starts", "ends", "scores"))
    found = []
    for name, first, last, score in zip(strings(output["inputs"][:count]), *columns, strict=True):
        start, end = offsets[name][[first, last]].tolist()
        text = texts[name][start:end]
        found.append({"text": text, "start": start, "end": end, "score": score, "input": name})
    explanation = {"words": found, "target": target if target >= 0 else None}
    if "word" in output:
        explanation["word"] = int(output["word"]) if output["word"] >= 0 else None
    return explanation | {name: float(output[name]) for name in ("value", "baseline", "difference", "delta")}


class Targets:
    """Reads the `target` of `LoadedBert.explain`: of each text, the number of a class or of a choice, and of a word.

    Args:
        scores: the `WordScores` of the model.
        head: its `Head`.
    """

    def __init__(self, scores, head):
        self._scores, self._head = scores, head

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
        found = []
        for each, row in zip(targets, rows, strict=True):
            number, word = self._read(each, row)
            found.append({"number": str(number), "word": str(word)})
        return found

    def _read(self, target, row):
        if target is None:
            return PREDICTED, PREDICTED
        if self._scores.form == TOKENS:
            word, name = target if isinstance(target, tuple) and len(target) == 2 else (target, None)
            return self._class(name), self._word(word, row)
        if self._scores.form == CHOICES:
            return self._choice(target, row["choices"]), PREDICTED
        return self._class(target), PREDICTED

    def _class(self, target):
        """Returns the number of a class, given its name or its number."""
        if target is None:
            return PREDICTED
        labels, width = self._scores.labels, self._scores.width or 1
        if isinstance(target, str) and labels is not None and target in labels:
            return labels.index(target)
        if is_count(target, 0) and target < width:
            return int(target)
        expected = f"one of {', '.join(labels)}, or a number below {width}" if labels else f"a number below {width}"
        meant = similar(target, labels) if labels and isinstance(target, str) else None
        question = f" Did you mean {meant!r}?" if meant else ""
        raise ValueError(f"`target` must be {expected}, or `None`. Received: target={target!r:.100}.{question}")

    def _choice(self, target, choices):
        if target in choices:
            return choices.index(target)
        if is_count(target, 0) and target < len(choices):
            return int(target)
        raise ValueError(
            f"`target` must be one of the {len(choices)} choices, or its number. Received: target={target!r:.100}"
        )

    def _word(self, target, row):
        """Returns the number of a word that has tokens, given its text or its number."""
        tokenizer = self._scores.tokenizer
        is_given = "words" in row
        text = row["words" if is_given else "text"].encode(errors="surrogatepass")
        found = (words.given_words if is_given else words.words_of)(tokenizer, tf.constant([text]))
        numbers = sorted(set(found.number.values.numpy().tolist()))
        spans = zip(found.starts.values.numpy().tolist(), found.ends.values.numpy().tolist(), strict=True)
        texts = [text[start:end].decode(errors="ignore").replace("\t", " ") for start, end in spans]
        if isinstance(target, str):
            number = next((number for number in numbers if texts[number] == target), None)
        else:
            number = int(target) if is_count(target, 0) and target in numbers else None
        if number is None:
            raise ValueError(
                "`target` must be a word of the text, or its number, or a tuple of it and a tag, for a model with "
                f"head={self._head.name!r}. Received: target={target!r:.100}; the words: {texts!r:.200}"
            )
        return number

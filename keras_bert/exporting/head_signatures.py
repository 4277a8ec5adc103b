"""The table of heads on raw text: what each one's signatures take, their options, and how they are built."""

import dataclasses
from collections.abc import Callable

from keras_bert.exporting import fill_mask
from keras_bert.tasks.classification import signature as classify
from keras_bert.tasks.embedding import signature as embed
from keras_bert.tasks.questions import signature as answer
from keras_bert.tasks.tagging import signature as tag

_CANDIDATES = 20  # Spans that share the probability of the answers to a question, as in Google's n-best list.
_TEXT, _PAIR = ("text",), ("text", "pair")


@dataclasses.dataclass(frozen=True)
class HeadSignatures:
    """A head on raw text.

    Attributes:
        name: str, as in `models.head_table`.
        build: function with the arguments of `export`, from a model, its `Description`, a preprocessor, labels, `pair`
            and options, to the signatures by name.
        inputs: function from a `LoadedBert` to the inputs that `predict` takes, tuples of their names.
        options: tuple of the options of `export`.
        defaults: function from a `LoadedBert` and `n_best` to the options that `predict` sets.
    """

    name: str
    build: Callable
    inputs: Callable = lambda bert: [_TEXT]
    options: tuple = ()
    defaults: Callable = lambda bert, n_best: {}


def is_regression(description):
    """Returns whether a model's only output is a number rather than a class."""
    return description.head == "classification" and description.num_classes == 1 and not description.multi_label


def _classifier(model, description, preprocessor, labels, pair, **options):
    if is_regression(description):
        return classify.regressor(model, preprocessor, pair, description.score_activation, **options)
    build = classify.multi_label_classifier if description.multi_label else classify.classifier
    return build(model, preprocessor, labels, pair, **options)


def _tagger(model, description, preprocessor, labels, pair, **options):
    return tag.tagger(model, preprocessor, labels, **options)


def _without_labels(build):
    return lambda model, description, preprocessor, labels, pair, **options: build(model, preprocessor, **options)


def _inputs_of_classifier(bert):
    return [_TEXT, _PAIR] if bert.pair is None else [_PAIR if bert.pair else _TEXT]


def _inputs_of_pretrainer(bert):
    return [_TEXT, _PAIR] if "nsp_logits" in bert.model().output else [_TEXT]


HEAD_SIGNATURES = (
    HeadSignatures(
        "classification",
        _classifier,
        _inputs_of_classifier,
        ("rows_together", "logits", "thresholds", "zero_shot"),
        lambda bert, n_best: {"thresholds": bert.thresholds} if bert.multi_label else {},
    ),
    HeadSignatures("token_classification", _tagger, options=("stride",)),
    HeadSignatures("bilstm_tagging", _tagger, options=("stride",)),
    HeadSignatures(
        "question_answering",
        _without_labels(answer.answerer),
        lambda bert: [("question", "context")],
        ("stride", "max_question_length", "max_answer_length", "top", "null_threshold"),
        lambda bert, n_best: {"top": max(n_best or 1, _CANDIDATES), "null_threshold": bert.null_threshold},
    ),
    HeadSignatures(
        "pretraining",
        _without_labels(fill_mask.filler),
        _inputs_of_pretrainer,
        ("top",),
        lambda bert, n_best: {"top": n_best or 5},
    ),
    HeadSignatures("multiple_choice", _without_labels(classify.chooser), lambda bert: [("text", "choices")]),
    HeadSignatures("next_sentence", _without_labels(fill_mask.follower), lambda bert: [_PAIR]),
    HeadSignatures(
        "encoder", _without_labels(embed.embedder), options=("pooling", "layers", "normalize", "rows_together")
    ),
    HeadSignatures(
        "embedding",
        _without_labels(embed.sentence_embedder),
        options=("rows_together", "zero_shot", "prompts", "default_prompt_name"),
    ),
)


def signatures_of(head):
    """Returns the row of a head."""
    row = next((row for row in HEAD_SIGNATURES if row.name == head), None)
    if row is None:  # A language model of `build_bilm`.
        raise ValueError(f"a model with head={head!r} answers no texts: export the model that reads its hidden states")
    return row

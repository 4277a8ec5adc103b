"""The table of heads on raw text: what each one's signatures take, their options, and how they are built."""

import dataclasses
import inspect
from collections.abc import Callable

from keras_bert.exporting import fill_mask
from keras_bert.tasks.classification import signature as classify
from keras_bert.tasks.embedding import signature as embed
from keras_bert.tasks.multiple_choice import signature as choose
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
        takes_pair: bool, whether `pair` may be true.
        takes_words: bool, whether there is the signature `words`.
        pair_signature: str, the signature that answers pairs. Defaults to "serving_default".
        keeps: tuple of special tokens that stay intact in texts.
        axes: function from the name of an input or an output to the names of its free axes.
    """

    name: str
    build: Callable
    inputs: Callable = lambda bert: [_TEXT]
    options: tuple = ()
    defaults: Callable = lambda bert, n_best: {}
    takes_pair: bool = False
    takes_words: bool = False
    pair_signature: str = "serving_default"
    keeps: tuple = ()
    axes: Callable = lambda name: ("batch", "length")


def is_regression(description):
    """Returns whether a model's only output is a number rather than a class."""
    return description.head == "classification" and description.num_classes == 1 and not description.multi_label


def stored_options(row, bert):
    """Returns the options of a row of the table that the checkpoint of a `LoadedBert` has."""
    names = ["null_threshold", "prompts", "default_prompt_name", *(["thresholds"] if bert.multi_label else [])]
    return {name: getattr(bert, name) for name in names if name in row.options}


def with_options(build, description, options, *arguments):
    """Returns the signatures that a function builds; raises an error for an option that it does not have."""
    known = list(inspect.signature(build).parameters)[len(arguments) :]
    for name, value in options.items():
        if name not in known:
            raise ValueError(
                f"a model with head={description.head!r} has no option {name!r} of its signatures. Expected one of: "
                f"{', '.join(known) or 'none'}. Received: {name}={value!r:.200}"
            )
    return build(*arguments, **options)


def _classifier(model, description, preprocessor, labels, pair, **options):
    if is_regression(description):
        arguments = model, preprocessor, pair, description.score_activation
        return with_options(classify.regressor, description, options, *arguments)
    build = classify.multi_label_classifier if description.multi_label else classify.classifier
    return with_options(build, description, options, model, preprocessor, labels, pair)


def _tagger(model, description, preprocessor, labels, pair, **options):
    return with_options(tag.tagger, description, options, model, preprocessor, labels)


def _without_labels(build):
    return lambda model, description, preprocessor, labels, pair, **options: with_options(
        build, description, options, model, preprocessor
    )


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
        takes_pair=True,
    ),
    HeadSignatures("token_classification", _tagger, options=("stride",), takes_words=True),
    HeadSignatures("bilstm_tagging", _tagger, options=("stride",), takes_words=True),
    HeadSignatures(
        "question_answering",
        _without_labels(answer.answerer),
        lambda bert: [("question", "context")],
        ("stride", "max_question_length", "max_answer_length", "top", "null_threshold"),
        lambda bert, n_best: {"top": max(n_best or 1, _CANDIDATES), "null_threshold": bert.null_threshold},
    ),
    HeadSignatures(
        "pretraining",
        _without_labels(fill_mask.mask_filler),
        _inputs_of_pretrainer,
        ("top",),
        lambda bert, n_best: {"top": n_best or 5},
        pair_signature="next_sentence",
        keeps=("[MASK]",),
        axes=lambda name: ("batch", "predictions" if name in ("mask_positions", "mlm_logits") else "length"),
    ),
    HeadSignatures(
        "multiple_choice",
        _without_labels(choose.chooser),
        lambda bert: [("text", "choices")],
        axes=lambda name: ("batch", "choices", "length"),
    ),
    HeadSignatures("replaced_token_detection", _without_labels(fill_mask.replaced_token_detector), options=("stride",)),
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

"""The table of heads: what the rest of the package knows about each of them."""

import dataclasses
import re
from collections.abc import Callable

from keras_bert.models.bilstm_tagger import build_bilstm_tagger
from keras_bert.models.heads import (
    build_classifier,
    build_embedder,
    build_multiple_choice,
    build_replaced_token_detector,
    build_span_labeler,
    build_token_classifier,
    classify,
    classify_tokens,
    detect_replaced_tokens,
    embed,
    label_spans,
    score_choices,
)
from keras_bert.models.pretrainer import build_next_sentence, build_pretrainer, follow, pretrain


@dataclasses.dataclass(frozen=True)
class Head:
    """A head.

    Attributes:
        name: str.
        layer: str, the layer that only models with this head have; of several, the last row counts.
        build: function from an encoder and an object with its options, such as `num_classes`, `dropout`
            and the fields of `Metadata`, to the model.
        run: function from the layers by name, the outputs of the encoder and the inputs of the model to its outputs;
            `None` if it is more than a head on top of the encoder.
        reads: tuple of what it reads of the encoder: "pooled", the "masked" positions, or the whole "sequence".
        architectures: tuple of transformers' classes, first the one that is written.
        tensors: dict of the names of its dense layers, also "layer.part", and of their tensors in a checkpoint.
        packs: bool, whether its model can be trained on packed rows. Defaults to `False`.
        has_classes: bool, whether it has labels. Defaults to `False`.
        sizes: function from the tensors of a checkpoint to those options that only the tensors tell.
        settings: tuple of the arguments of `save` that only models with this head have.
        has_prefix: bool, whether the names of the encoder's tensors begin with `bert.` in transformers. Defaults to
            `True`.
        google: str, the tensor that tells this head in Google's format, "" for none; `None` if the format has no place
            for it. Defaults to `None`.
        peft: str, peft's task, "" for none; `None` if its adapters are not saved. Defaults to `None`.
        sentence_transformers: str, the class of sentence-transformers that opens the model. Defaults to `None`.
    """

    name: str
    layer: str
    build: Callable
    run: Callable | None
    reads: tuple
    architectures: tuple = ()
    tensors: dict = dataclasses.field(default_factory=dict)
    packs: bool = False
    has_classes: bool = False
    sizes: Callable = lambda tensors: {}
    settings: tuple = ()
    has_prefix: bool = True
    google: str | None = None
    peft: str | None = None
    sentence_transformers: str | None = None


def _embedder(encoder, options):
    names = ("normalize", "sequence_length", "projection", "projection_activation")
    return build_embedder(encoder, options.pooling or "mean", **{name: getattr(options, name) for name in names})


def _classifier(encoder, options):
    return build_classifier(
        encoder,
        options.num_classes,
        dropout=options.dropout,
        multi_label=options.multi_label,
        score_activation=options.score_activation,
    )


def _bilstm_tagger(encoder, options):
    names = ("features", "width", "num_layers", "dropout")
    return build_bilstm_tagger(encoder, options.num_classes, **{name: getattr(options, name) for name in names})


def _classes(tensors):
    return {"num_classes": tensors["classifier.weight"].shape[0]}


def _bilstm_sizes(tensors):
    depth = sum(re.fullmatch(r"bilstm\.weight_hh_l\d+", name) is not None for name in tensors)
    return {**_classes(tensors), "width": 2 * tensors["bilstm.weight_hh_l0"].shape[1], "num_layers": depth}


HEADS = (
    Head(
        "encoder",
        "embeddings",
        lambda encoder, options: encoder,
        lambda layers, encoded, inputs: encoded,
        ("pooled", "sequence"),
        ("BertModel",),
        packs=True,
        has_prefix=False,
        google="",
        peft="FEATURE_EXTRACTION",
    ),
    Head(
        "embedding",
        "sentence_pooling",
        _embedder,
        embed,
        ("sequence",),
        tensors={"sentence_projection": "sentence_projection"},
        settings=("prompts", "default_prompt_name", "similarity_function"),
        sentence_transformers="SentenceTransformer",
    ),
    Head(
        "next_sentence",
        "next_sentence",
        lambda encoder, options: build_next_sentence(encoder),
        follow,
        ("pooled",),
        ("BertForNextSentencePrediction",),
        {"next_sentence": "cls.seq_relationship"},
        packs=True,
        google="cls.seq_relationship.weight",
        peft="",
    ),
    Head(
        "pretraining",
        "mlm_bias",
        lambda encoder, options: build_pretrainer(encoder, options.next_sentence, tied=options.tied),
        pretrain,
        ("pooled", "masked"),
        ("BertForPreTraining", "BertForMaskedLM", "BertLMHeadModel"),
        {"next_sentence": "cls.seq_relationship"},
        packs=True,
        google="cls.predictions.bias",
    ),
    Head(
        "classification",
        "classifier",
        _classifier,
        classify,
        ("pooled",),
        ("BertForSequenceClassification",),
        {"classifier": "classifier"},
        packs=True,
        has_classes=True,
        sizes=_classes,
        google="classifier.weight",
        peft="SEQ_CLS",
        sentence_transformers="CrossEncoder",
    ),
    Head(
        "token_classification",
        "token_classifier",
        lambda encoder, options: build_token_classifier(encoder, options.num_classes, dropout=options.dropout),
        classify_tokens,
        ("sequence",),
        ("BertForTokenClassification",),
        {"token_classifier": "classifier"},
        packs=True,
        has_classes=True,
        sizes=_classes,
        peft="TOKEN_CLS",
    ),
    Head(
        "bilstm_tagging",
        "features",
        _bilstm_tagger,
        None,
        ("sequence",),
        tensors={"token_classifier": "classifier"},
        has_classes=True,
        sizes=_bilstm_sizes,
        has_prefix=False,
    ),
    Head(
        "question_answering",
        "span",
        lambda encoder, options: build_span_labeler(encoder),
        label_spans,
        ("sequence",),
        ("BertForQuestionAnswering",),
        {"span": "qa_outputs"},
        settings=("null_threshold",),
        google="qa_outputs.weight",
        peft="QUESTION_ANS",
    ),
    Head(
        "replaced_token_detection",
        "discriminator",
        lambda encoder, options: build_replaced_token_detector(encoder),
        detect_replaced_tokens,
        ("sequence",),
        ("ElectraForPreTraining",),
        {
            "discriminator.dense": "discriminator_predictions.dense",
            "discriminator.output_dense": "discriminator_predictions.dense_prediction",
        },
        packs=True,
    ),
    Head(
        "multiple_choice",
        "choice_scorer",
        lambda encoder, options: build_multiple_choice(encoder, options.dropout),
        score_choices,
        ("pooled",),
        ("BertForMultipleChoice",),
        {"choice_scorer": "classifier"},
        peft="",
    ),
)


def head_named(name):
    """Returns the row of a head."""
    row = next((head for head in HEADS if head.name == name), None)
    if row is None:
        known = ", ".join(head.name for head in HEADS)
        raise ValueError(f"`head` must be one of {known}. Received: head={name!r}")
    return row

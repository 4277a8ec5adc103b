"""Spans of a context that answer a question (BERT, section 4.2)."""

import keras

from keras_bert.heads import answers
from keras_bert.heads.head import Head, dense_head
from keras_bert.models.description import built


def build_span_labeler(encoder: keras.Model) -> keras.Model:
    """Scores each token as the start and as the end of an answer.

    Args:
        encoder: a model from `build_encoder`.

    Returns:
        A `keras.Model` with the outputs `start_logits` and `end_logits`, float32 `(batch, length)`.

    Example:
        model = build_span_labeler(build_encoder(named_config("tiny")))
    """
    # Layers
    layers = dense_head(encoder, 2, 0, "span")

    # Wiring
    outputs = label_spans(layers, encoder.output, encoder.input)

    # Model
    return built(keras.Model(encoder.input, outputs, name="bert_span_labeler"))


def label_spans(layers, encoded, inputs):
    """Runs the layers of a span labeler, see `Head.run`."""
    logits = layers["span"](encoded["sequence_output"])
    return {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}


def _write_span(graph, layer, hidden):
    """Writes the columns of the dense layer by their index: names of tensors cannot be sliced."""
    logits = graph.dense(hidden, layer, layer.name)
    start = graph.add("Gather", logits, 0, axis=2)
    end = graph.add("Gather", logits, 1, axis=2)
    return {(..., 0): start, (..., 1): end}


class QuestionAnswering(Head):
    """Each token as the start and as the end of an answer."""

    name = "question_answering"
    layer = "span"
    reads = ("sequence",)
    architectures = ("BertForQuestionAnswering",)
    tensors = {"span": "qa_outputs"}
    settings = ("null_threshold",)
    google = "qa_outputs.weight"
    peft = "QUESTION_ANS"
    text_options = ("doc_stride", "max_question_length", "max_answer_length", "n_best", "null_threshold")
    onnx = {"span": _write_span}
    long_texts = ()
    from_task = ("doc_stride", "max_question_length", "max_answer_length")
    build = staticmethod(build_span_labeler)
    run = staticmethod(label_spans)
    answer = staticmethod(answers.span)

    def signature_builder(self, description):
        from keras_bert.heads.question_answering_signatures import answerer

        return answerer

    def inputs(self, bert):
        return [("question", "context")]

    def defaults(self, bert, n_best):
        return {"n_best": max(n_best or 1, answers.CANDIDATES), "null_threshold": bert.null_threshold}

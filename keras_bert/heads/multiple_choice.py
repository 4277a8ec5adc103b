"""Multiple choice (BERT, section 4.4)."""

import keras

from keras_bert.heads import answers
from keras_bert.heads.confidence import Confidence
from keras_bert.heads.head import Head, dense_head
from keras_bert.layers import FoldChoices, UnfoldChoices
from keras_bert.layers.masks import FORBIDDEN
from keras_bert.models.description import built
from keras_bert.text.token_counts import with_counts


def build_multiple_choice(encoder: keras.Model, dropout: float | None = None) -> keras.Model:
    """Scores each choice from its pooled [CLS] vector.

    Only this head calls the encoder as a layer, since its inputs have a different rank.

    Args:
        encoder: a model from `build_encoder`.
        dropout: float, dropout rate before the head. Defaults to the encoder's `hidden_dropout_prob`.

    Returns:
        A `keras.Model`. Inputs: the encoder's, `(batch, choices, length)`. Output: `logits`, float32
        `(batch, choices)`. A choice whose `padding_mask` is 0 everywhere is absent and has the probability 0: pad rows
        with fewer choices with it.

    Example:
        model = build_multiple_choice(build_encoder(named_config("tiny")))
    """
    # Layers
    layers = dense_head(encoder, 1, dropout, "choice_scorer")
    layers["fold_choices"] = FoldChoices(name="fold_choices")
    layers["unfold_choices"] = UnfoldChoices(dtype="float32", name="unfold_choices")

    # Wiring
    inputs = {name: keras.Input((None, None), dtype="int32", name=name) for name in encoder.input}
    outputs = score_choices(layers, encoder(fold_choices(layers, inputs)), inputs)

    # Model
    return built(keras.Model(inputs, outputs, name="bert_multiple_choice"))


def fold_choices(layers, inputs):
    """Returns the inputs of the encoder of a multiple choice model."""
    return {name: layers["fold_choices"](tensor) for name, tensor in inputs.items()}


def score_choices(layers, encoded, inputs):
    """Runs the layers of a multiple choice model, see `Head.run`."""
    scores = layers["choice_scorer"](layers["head_dropout"](encoded["pooled_output"]))
    return {"logits": layers["unfold_choices"](scores, inputs["padding_mask"])}


def _write_fold(graph, layer, ids):
    length = graph.add("Shape", ids, start=2)
    return graph.add("Reshape", ids, graph.add("Concat", [-1], length, axis=0))


def _write_unfold(graph, layer, scores, mask):
    logits = graph.add("Reshape", scores, graph.add("Shape", mask, end=2))
    present = graph.cast(graph.add("ReduceMax", mask, axes=[2], keepdims=0), "bool")
    return graph.add("Where", present, logits, FORBIDDEN)


class MultipleChoice(Head):
    """The right one of several choices."""

    name = "multiple_choice"
    layer = "choice_scorer"
    reads = ("pooled",)
    architectures = ("BertForMultipleChoice",)
    tensors = {"choice_scorer": "classifier"}
    peft = ""
    text_options = ("confidence",)
    onnx = {"fold_choices": _write_fold, "unfold_choices": _write_unfold}
    build = staticmethod(build_multiple_choice)
    run = staticmethod(score_choices)
    encoder_inputs = staticmethod(fold_choices)
    answer = staticmethod(answers.choice)

    def signature_builder(self, description):
        import tensorflow as tf

        from keras_bert.text.signatures import not_empty, outputs_of_choices, text_with_lists

        def chooser(model, preprocessor, confidence=None):
            confidence = Confidence.of(confidence)

            def answer(text, choices):
                choices = not_empty(choices, "choices")
                outputs, counts = outputs_of_choices(
                    model,
                    preprocessor,
                    text,
                    choices,
                    self.classes,
                )
                logits = confidence.scaled(outputs["logits"])
                choice = tf.argmax(logits, -1, tf.int32)
                probabilities = tf.nn.softmax(logits)
                if confidence.threshold is None:
                    return with_counts({"choice": choice, "probabilities": probabilities}, counts)
                answered = tf.reduce_max(probabilities, -1) >= confidence.threshold
                chosen = tf.where(answered, choice, -1)
                answers = {"choice": chosen, "probabilities": probabilities, "answered": answered}
                return with_counts(answers, counts)

            return {"serving_default": text_with_lists(answer, "choices")}

        return chooser

    def deciding_output(self, description):
        return self.classes

    def inputs(self, bert):
        return [("text", "choices")]

    def axes(self, name):
        return "batch", "choices", "length"

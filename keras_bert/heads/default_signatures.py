"""The signature of heads without signatures of their own: what their `respond` makes of the outputs of the model."""

from keras_bert.heads.class_settings import placeholders
from keras_bert.heads.confidence import OF_SEVERAL, Confidence, checked_confidence
from keras_bert.text.signatures import outputs_of_texts, speaks_for_class, texts
from keras_bert.text.token_counts import with_counts
from keras_bert.text.viewed_texts import outputs_in_parts


def responder(respond, deciding):
    """Returns the function that builds `serving_default`, see `Head.signature_builder`: what `respond` answers.

    `deciding` is the name of the output with the logits of classes, `None` for a head without.
    """

    def build(model, preprocessor, labels, pair, description):
        if description.num_classes is not None:
            labels = labels or placeholders(description.num_classes)

        def run(inputs):
            """Returns the outputs for `respond`, without lists, such as hidden states.

            The default, `Head.respond`, answers with all of them, so that each must be a tensor with a row for each
            text. Those of windows are joined by `joined_outputs`, as means.
            """
            if preprocessor.reads_windows:  # Of long documents, there are many.
                return outputs_in_parts(model, inputs)  # Without lists as well: it joins tensors alone.
            outputs = model(inputs, training=False)
            return {name: value for name, value in outputs.items() if not isinstance(value, list)}

        def answer(inputs):
            outputs, counts = outputs_of_texts(run, preprocessor, inputs, deciding, speaks_for_class)
            return with_counts(respond(outputs, labels), counts)

        names = ("text", "pair") if pair else ("text",)
        return {"serving_default": texts(answer, *names)}

    return build


def calibrated_responder(respond, deciding, classes):
    """Same as `responder`, with the option `confidence`: its temperature divides the logits that `respond` gets.

    `classes` is the name of the output with the logits.
    """

    def build(model, preprocessor, labels, pair, description, confidence: dict | None = None):
        sure = Confidence.of(checked_confidence(confidence, OF_SEVERAL))

        def respond_to_scaled(outputs, labels):
            scaled = dict(outputs)
            scaled[classes] = sure.scaled(outputs[classes])
            return respond(scaled, labels)

        build_uncalibrated = responder(respond_to_scaled, deciding)
        return build_uncalibrated(model, preprocessor, labels, pair, description)

    return build

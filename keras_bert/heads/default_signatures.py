"""The signature of a head that has none of its own."""

from keras_bert.text.labels import placeholders
from keras_bert.text.signatures import texts


def responder(respond, model, preprocessor, labels, pair, description):
    """Returns `serving_default`: texts, or pairs of texts, to what `respond` makes of the model's outputs."""
    if description.num_classes is not None:
        labels = labels or placeholders(description.num_classes)

    def answer(inputs):
        outputs = model(preprocessor(inputs), training=False)
        return respond({name: value for name, value in outputs.items() if not isinstance(value, list)}, labels)

    return {"serving_default": texts(answer, *(("text", "pair") if pair else ("text",)))}

"""Raw text in, answers out: as a Keras model, and as a SavedModel whose graph holds the tokenizer."""

import pathlib
import shutil

import keras
import tensorflow as tf

from keras_bert.models.description import describe

HEADS = ("classification",)  # With one class it is regression.


def build_text_model(model, preprocessor, pair=False):
    """Puts a preprocessor before a model: strings in, the model's outputs out. For prediction, not for training.

    Args:
        model: a model of one of the builders.
        preprocessor: a `TextPreprocessor`.
        pair: whether the model takes two texts.

    Returns:
        A `keras.Model` of `{"text": strings}`, and `"pair"` with `pair`.

    Example:
        build_text_model(model, preprocessor).predict({"text": np.array(["A sentence."], dtype=object)})
    """
    # Layers
    names = ("text", "pair") if pair else ("text",)
    inputs = {name: keras.Input((), dtype="string", name=name) for name in names}

    # Wiring
    outputs = model(preprocessor(inputs))

    # Model
    return keras.Model(inputs, outputs, name=f"text_{model.name}")


def export(model, preprocessor, directory, labels=None, pair=False):
    """Writes a SavedModel that takes text and gives answers, for TensorFlow Serving.

    Its signature `serving_default` takes `text`, and `pair` with `pair`, strings `(batch,)`. A classifier gives
    `probabilities` `(batch, classes)` and, with labels, `label`; regression gives `score`.

    Args:
        model: a classifier, or a regression model.
        preprocessor: a `TextPreprocessor`. With `padding="longest"` short texts are answered faster.
        directory: where to write; TensorFlow Serving expects a number as its last part. What is there is replaced.
        labels: names of the classes, in the order of the logits.
        pair: whether the model takes two texts.

    Example:
        export(model, preprocessor, "saved_models/sst2/1", labels=["negative", "positive"])
    """
    description = describe(model)
    if description.head not in HEADS:
        raise ValueError(f"`model` must have one of the heads {', '.join(HEADS)}. Received: head={description.head!r}")
    classes = description.num_classes
    if labels is not None and (len(labels) != classes or classes == 1):
        raise ValueError(f"`labels` must be names of the {classes} classes. Received: labels={labels}")

    def answer(inputs):
        logits = tf.cast(model(preprocessor(inputs))["logits"], tf.float32)
        if classes == 1:
            return {"score": logits[:, 0]}
        answers = {"probabilities": tf.nn.softmax(logits)}
        if labels is not None:
            answers["label"] = tf.gather(tf.constant(labels), tf.argmax(logits, -1))
        return answers

    specs = [tf.TensorSpec([None], tf.string, name) for name in (("text", "pair") if pair else ("text",))]
    function = (
        (lambda text, pair: answer({"text": text, "pair": pair})) if pair else (lambda text: answer({"text": text}))
    )
    _write(model, function, specs, pathlib.Path(directory))


def _write(model, function, specs, directory):
    """Writes beside and renames: a server that watches the folder never sees half a model."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    beside = directory.with_name(f"writing-{directory.name}")
    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint("serving_default", function, specs)
    archive.write_out(str(beside), verbose=False)
    shutil.rmtree(directory, ignore_errors=True)
    beside.rename(directory)

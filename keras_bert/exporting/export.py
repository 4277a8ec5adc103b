"""Raw text in, answers out: as a Keras model, and as a SavedModel whose graph holds the tokenizer."""

import keras
import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from keras_bert.exporting import answer, assets, classify, embed, fill_mask, tag
from keras_bert.files import replacing
from keras_bert.models.description import describe
from keras_bert.text.preprocessor import TextPreprocessor

# A signature of this name takes `tf.Example`s and has its own API in TensorFlow Serving; all others "predict".
_METHODS = {name: f"tensorflow/serving/{name}" for name in ("classify", "regress")}


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


def export(model, preprocessor, directory, labels=None, pair=False, **options):
    """Writes a SavedModel that takes text and gives answers, for TensorFlow Serving.

    All signatures take a batch of strings; every output begins with the batch. `serving_default` of each head:

    - classification: `text`, with `pair` also `pair` -> `label`, `probabilities`, `labels`; regression -> `score`.
      `classify` and `regress` take `tf.Example`s. With several labels at a time (`multi_label`) `predicted`, a bool for
      each of `labels` whether its probability is 0.5 at least, stands for `label`.
    - token classification: `text` -> `tokens`, `tags`, `scores`, their bytes `starts` and `ends`, `token_count`;
      `entities`, `entity_types`, `entity_scores`, `entity_starts`, `entity_ends`, `entity_count`; padded.
      Option: `stride`.
    - question answering: `question`, `context` -> `answer`, `score`, its bytes `start` and `end`, `null_score`.
      Options: `stride`, `max_question_length`, `max_answer_length`, `top`, `null_threshold`.
    - pre-training: `text` with [MASK] -> `tokens`, `probabilities`, `mask_count`; signature `next_sentence`: `text`,
      `pair` -> `probability`. Option: `top`.
    - multiple choice: `text`, `choices` -> `choice`, `probabilities`.
    - next sentence: `text`, `pair` -> `probability`.
    - encoder: `text` -> `embedding`. Options: `pooling`, `layers`, `normalize`; those of
      `build_embedder` are the model's own.

    `tokens` is the model alone, on ids. Texts are padded to the longest of a request; classification, regression and
    vectors compute `rows_together` (8) of like length at a time, which suits a CPU; `None` computes all at once.

    Args:
        model: a model of one of the builders.
        preprocessor: a `TextPreprocessor`.
        directory: where to write; TensorFlow Serving expects a number as its last part. What is there is replaced.
        labels: names of the classes or tags, in the order of the logits, a list or an array; numbers become strings.
        pair: whether a classifier or a regression model takes two texts.
        **options: of the head, see above.

    Example:
        export(model, preprocessor, "saved_models/sst2/1", labels=["negative", "positive"])
    """
    description = describe(model)
    labels = _checked_labels(description, labels)
    preprocessor = _for_serving(preprocessor, description.head)
    signatures = {**_signatures(description, model, preprocessor, labels, pair, options), "tokens": _on_ids(model)}
    module = tf.Module()
    module.weights = [weight.value for weight in model.weights]
    with replacing(directory) as temporary:  # A server that watches the folder never sees half a model.
        tf.saved_model.save(module, str(temporary), signatures)
        _name_methods(temporary / "saved_model.pb")
        assets.write(temporary, signatures, assets.facts(description, preprocessor, labels, pair, options))


def _signatures(description, model, preprocessor, labels, pair, options):
    match description.head:
        case "classification" if description.num_classes == 1 and not description.multi_label:
            return classify.regressor(model, preprocessor, pair, **options)
        case "classification":
            return classify.classifier(model, preprocessor, labels, pair, description.multi_label, **options)
        case "token_classification":
            return tag.tagger(model, preprocessor, labels, **options)
        case "question_answering":
            return answer.answerer(model, preprocessor, **options)
        case "pretraining":
            return fill_mask.filler(model, preprocessor, **options)
        case "multiple_choice":
            return classify.chooser(model, preprocessor, **options)
        case "next_sentence":
            return fill_mask.follower(model, preprocessor, **options)
        case "embedding":
            return embed.sentence_embedder(model, preprocessor, **options)
        case _:
            return embed.embedder(model, preprocessor, **options)


def _checked_labels(description, labels):
    """The names as a list of strings; they may be given as numbers and as an array."""
    if labels is None:
        return None
    classes = description.num_classes
    regression = classes == 1 and not description.multi_label
    if classes is None or regression or np.ndim(labels) != 1 or len(labels) != classes:
        expected = f"names of the {classes} classes" if classes else f"None for a model with head={description.head!r}"
        raise ValueError(f"`labels` must be {expected}. Received: labels={labels}")
    return [label.decode() if isinstance(label, bytes) else str(label) for label in labels]


def _for_serving(preprocessor, head):
    """The preprocessor, padding to the longest text of a request; for filling masks, [MASK] stays whole."""
    config = preprocessor.get_config()
    if config["padding"] == "fixed":
        config["padding"] = "longest"
    if head == "pretraining" and "[MASK]" not in config["keep_special_tokens"]:
        config["keep_special_tokens"] = [*config["keep_special_tokens"], "[MASK]"]
    return preprocessor if config == preprocessor.get_config() else TextPreprocessor.from_config(config)


def _on_ids(model):
    """The model itself, for clients that tokenize and for servers without TF-Text."""
    names = list(model.input)
    specs = [tf.TensorSpec(model.input[name].shape, tf.int32, name) for name in names]

    def run(*ids):
        outputs = model(dict(zip(names, ids, strict=True)), training=False)
        return {name: value for name, value in outputs.items() if not isinstance(value, list)}

    return tf.function(run, input_signature=specs, autograph=False)


def _name_methods(path):
    saved = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    for graph in saved.meta_graphs:
        for name, method in _METHODS.items():
            if name in graph.signature_def:
                graph.signature_def[name].method_name = method
    path.write_bytes(saved.SerializeToString(deterministic=True))

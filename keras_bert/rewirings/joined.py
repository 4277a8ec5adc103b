"""Models joined for a loss: students and teachers, a language model beside a classifier, one encoder for two texts."""

import dataclasses
from collections.abc import Sequence

import keras

from keras_bert.checks import is_count
from keras_bert.heads.pretraining import predict_tokens
from keras_bert.heads.registry import describe, head_named
from keras_bert.layers import FoldChoices, UnfoldPassages, UnitLength
from keras_bert.models.encoder import build_encoder, describe_encoder
from keras_bert.models.tuning import check_no_lora
from keras_bert.rewirings.windowed import build_windowed

_TEACHER = "teacher_"  # Prefix of the teacher's outputs.


def take_layers(encoder: keras.Model, layers: int | Sequence[int], **encoder_options) -> keras.Model:
    """Builds an encoder from some of the layers of another one, with copies of their weights.

    Args:
        encoder: a model from `build_encoder`.
        layers: int, number of evenly spaced layers, such as 3 for the layers 2, 4 and 6 of six; or a list of increasing
            layer numbers, the lowest layer is 1. Embeddings and pooler are always taken.
        **encoder_options: more arguments of `build_encoder`, such as `remat`.

    Returns:
        A model like that of `build_encoder`, whose config has this number of layers.

    Example:
        student = keras_bert.models.take_layers(keras_bert.load("runs/mrpc/model").encoder, 3)
        model = keras_bert.build_classifier(student, num_classes=2)
    """
    source = describe_encoder(encoder)
    check_no_lora(encoder, "encoder")
    taken = _layer_numbers(source.config.num_hidden_layers, layers)
    config = dataclasses.replace(source.config, num_hidden_layers=len(taken))
    options = {"causal": source.causal, "positions": source.positions, "dtype": source.dtype}
    options.update(encoder_options)
    student = build_encoder(config, **options)

    origins = {}
    for index, number in enumerate(taken):
        origins[f"block_{index}"] = f"block_{number - 1}"
    for name, layer in describe(student).layers.items():
        origin = source.layers[origins.get(name, name)]
        layer.set_weights(origin.get_weights())
    return student


def add_teacher(student: keras.Model, teacher: keras.Model) -> keras.Model:
    """Adds the outputs of a teacher to those of a student. The teacher's weights are not weights of the model.

    Args:
        student: a model from `build_pretrainer`.
        teacher: a trained model from `build_pretrainer` for the same vocabulary.

    Returns:
        A `keras.Model` with the inputs, outputs and weights of `student`, and the outputs of `teacher` without dropout
        and gradients: `teacher_mlm_logits` and, if the teacher has it, `teacher_nsp_logits`. It cannot be saved, see
        `without_teacher`.

    Example:
        model = add_teacher(build_pretrainer(build_encoder(named_config("mini"))), load("runs/base/model").pretrainer())
    """
    # Layers
    _check_pretrainer(student, "student")
    _check_pretrainer(teacher, "teacher")
    shapes = {f"{_TEACHER}{name}": output.shape for name, output in teacher.output.items()}

    def run_teacher(inputs):  # Keras does not see the weights of a function.
        outputs = {}
        for name, output in teacher(inputs, training=False).items():
            outputs[f"{_TEACHER}{name}"] = keras.ops.stop_gradient(output)
        return outputs

    frozen_teacher = keras.layers.Lambda(run_teacher, lambda _: shapes, name="teacher")

    # Wiring
    outputs = student.output | frozen_teacher(dict(student.input))

    # Model
    return keras.Model(student.input, outputs, name="bert_student")


def without_teacher(model: keras.Model) -> keras.Model:
    """Returns the student of a model from `add_teacher`; other models are returned unchanged."""
    outputs = {name: output for name, output in model.output.items() if not name.startswith(_TEACHER)}
    if len(outputs) == len(model.output):
        return model
    return keras.Model(model.input, outputs, name="bert_pretrainer")


def _check_pretrainer(model, name):
    """Raises if a model, the argument `name`, predicts no masked tokens."""
    head = describe(model).head
    if "masked" not in head_named(head).reads:
        raise ValueError(f"`{name}` must be a model from build_pretrainer. Received: a model with head {head!r}")


def _layer_numbers(total, layers):
    """Returns the numbers of the layers to take, from 1 to `total`."""
    if not is_count(layers, 0):
        taken = list(layers)
    elif 1 <= layers <= total:  # The highest layer is always one of them.
        taken = [round(number * total / layers) for number in range(1, layers + 1)]
    else:
        taken = []
    if not taken or taken != sorted(set(taken)) or not 1 <= taken[0] <= taken[-1] <= total:
        raise ValueError(
            f"`layers` must be a number of layers, from 1 to {total}, or increasing layer numbers in this range. "
            f"Received: layers={layers}"
        )
    return taken


def add_language_model_loss(classifier, pretrainer):
    """Adds the loss of a left-to-right language model to the outputs of a classifier.

    Both models are built on the same left-to-right encoder; the masked-LM head of the pretrainer predicts the next
    token. The output `language_model_loss`, float32 `(batch,)`, is the mean cross-entropy of the tokens of each row but
    the first.

    Example:
        model = add_language_model_loss(build_classifier(encoder, 2), build_pretrainer(encoder, next_sentence=False))
    """
    # Layers
    layers = describe(pretrainer).layers
    description = describe(classifier)
    if not description.causal or layers["block_0"] is not description.layers["block_0"]:
        raise ValueError("`classifier` and `pretrainer` must be built on the same encoder with `causal=True`")
    transform = layers["mlm_transform"]

    # Wiring
    inputs = classifier.input
    labels = inputs["token_ids"][:, 1:]
    real = keras.ops.cast(keras.ops.not_equal(inputs["padding_mask"][:, 1:], 0), "float32")
    positions = keras.ops.cumsum(keras.ops.ones_like(labels), axis=1) - 1
    hidden = transform._inbound_nodes[0].arguments.args[0]  # The sequence output of the encoder.
    logits = predict_tokens(layers, transform(hidden, positions))
    losses = keras.ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)
    count = keras.ops.maximum(keras.ops.sum(real, axis=1), 1.0)
    loss = keras.ops.sum(losses * real, axis=1) / count

    # Model
    outputs = {"logits": classifier.output["logits"], "language_model_loss": loss}
    return keras.Model(inputs, outputs, name="bert_classifier_with_language_model")


def without_language_model_loss(model):
    """Returns the classifier of a model from `add_language_model_loss`."""
    return keras.Model(model.input, {"logits": model.output["logits"]}, name="bert_classifier")


def build_bi_encoder(embedder: keras.Model, *, windows: bool = False) -> keras.Model:
    """Embeds queries and their passages with the same embedder, for training; save the embedder, not this model.

    Args:
        embedder: a model from `build_embedder`.
        windows: bool, whether texts are read in windows, as by `build_windowed`. Defaults to `False`.

    Returns:
        A `keras.Model`. Inputs: those of the embedder for queries, such as `query_token_ids`, `(batch, length)`, and
        for passages, such as `passage_token_ids`, `(batch, passages, length)`; with windows, the axis of the windows
        of a text stands before that of the tokens. Outputs: `query_embedding`, `(batch, width)`, and
        `passage_embedding`, `(batch, passages, width)`, float32.

    Example:
        model = build_bi_encoder(build_embedder(build_encoder(named_config("tiny"))))
    """
    description = describe(embedder)
    if not description.embedding:
        raise ValueError(f"`embedder` must be a model from build_embedder. Received: {embedder.name!r}")

    # Layers
    tower = embedder
    scale = None
    if windows:
        tower = build_windowed(embedder)
        if description.options["normalize"]:  # The mean of the windows' vectors of length 1 is shorter.
            scale = UnitLength(dtype="float32", name="unit_length")
    fold = FoldChoices(name="fold_passages")
    unfold = UnfoldPassages(dtype="float32", name="unfold_passages")

    # Wiring
    queries = {}
    passages = {}
    for name, tensor in tower.input.items():
        text_shape = tensor.shape[1:]  # (length,) or (windows, length)
        queries[name] = keras.Input(text_shape, dtype="int32", name=f"query_{name}")
        passages[name] = keras.Input((None, *text_shape), dtype="int32", name=f"passage_{name}")
    folded = {name: fold(tensor) for name, tensor in passages.items()}
    query_vectors = tower(queries)["embedding"]
    passage_vectors = tower(folded)["embedding"]
    if scale is not None:
        query_vectors = scale(query_vectors)
        passage_vectors = scale(passage_vectors)
    outputs = {
        "query_embedding": query_vectors,
        "passage_embedding": unfold(passage_vectors, passages["padding_mask"]),
    }

    # Model
    inputs = {tensor.name: tensor for tensor in (*queries.values(), *passages.values())}
    return keras.Model(inputs, outputs, name="bert_bi_encoder")

"""Students of a distillation: an encoder with some of the layers of another one, and a teacher beside a pre-trainer."""

import dataclasses
from collections.abc import Sequence

import keras

from keras_bert.checks import is_count
from keras_bert.heads.describe import describe
from keras_bert.heads.registry import head_named
from keras_bert.models.encoder import build_encoder, describe_encoder
from keras_bert.models.lora import check_no_lora

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
    options = {"causal": source.causal, "positions": source.positions, "dtype": source.dtype, **encoder_options}
    student = build_encoder(dataclasses.replace(source.config, num_hidden_layers=len(taken)), **options)
    origins = {f"block_{index}": f"block_{number - 1}" for index, number in enumerate(taken)}
    for name, layer in describe(student).layers.items():
        layer.set_weights(source.layers[origins.get(name, name)].get_weights())
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
    for name, model in (("student", student), ("teacher", teacher)):
        if "masked" not in head_named(head := describe(model).head).reads:
            raise ValueError(f"`{name}` must be a model from build_pretrainer. Received: a model with head {head!r}")
    # Keras does not see the weights of a function.
    shapes = {f"{_TEACHER}{name}": output.shape for name, output in teacher.output.items()}
    teach = keras.layers.Lambda(lambda inputs: _frozen_outputs(teacher, inputs), lambda _: shapes, name="teacher")

    # Wiring
    outputs = {**student.output, **teach(dict(student.input))}

    # Model
    return keras.Model(student.input, outputs, name="bert_student")


def without_teacher(model: keras.Model) -> keras.Model:
    """Returns the student of a model from `add_teacher`; other models are returned unchanged."""
    outputs = {name: output for name, output in model.output.items() if not name.startswith(_TEACHER)}
    return model if len(outputs) == len(model.output) else keras.Model(model.input, outputs, name="bert_pretrainer")


def _frozen_outputs(teacher, inputs):
    outputs = teacher(inputs, training=False)
    return {f"{_TEACHER}{name}": keras.ops.stop_gradient(output) for name, output in outputs.items()}


def _layer_numbers(total, layers):
    """Returns the numbers of the layers to take, from 1 to `total`."""
    if is_count(layers, 0):
        # The highest layer is always one of them.
        taken = [round(number * total / layers) for number in range(1, layers + 1)] if 1 <= layers <= total else []
    else:
        taken = list(layers)
    if not taken or taken != sorted(set(taken)) or not 1 <= taken[0] <= taken[-1] <= total:
        raise ValueError(
            f"`layers` must be a number of layers, from 1 to {total}, or increasing layer numbers in this range. "
            f"Received: layers={layers}"
        )
    return taken

"""Ordinal regression: texts with grades that have an order, such as "poor", "fair", "good" (McCullagh, 1980).

One score of the text is compared with the cutpoints between neighbouring grades, which are learned too.
"""

import dataclasses

import keras
import numpy as np
import tensorflow as tf

import keras_bert
from keras_bert.tasks import ClassificationReport, ClassificationTask, ClassificationTraining, setting


@keras.saving.register_keras_serializable("ordinal")
class Cutpoints(keras.layers.Layer):
    """Subtracts increasing cutpoints from a score: the logits of "above this grade", `(batch, count)`."""

    def __init__(self, count, spread=1.0, **kwargs):
        super().__init__(**kwargs)
        self.count = count
        self.spread = spread

    def build(self, shape):
        # The first cutpoint, and the steps to the others before `softplus`, which makes them positive.
        first = -self.spread * (self.count - 1) / 2
        step = float(keras.ops.log(keras.ops.expm1(self.spread)))
        start = [first] + [step] * (self.count - 1)
        self.steps = self.add_weight(
            shape=(self.count,),
            initializer=lambda *_, **__: start,
            name="steps",
        )

    def places(self):
        """Returns the cutpoints."""
        steps = keras.ops.concatenate([self.steps[:1], keras.ops.softplus(self.steps[1:])])
        return keras.ops.cumsum(steps)

    def call(self, score):
        return score - self.places()

    def get_config(self):
        config = super().get_config()
        config.update(count=self.count, spread=self.spread)
        return config


def write_cutpoints(graph, layer, score):
    """Adds the layer to an ONNX graph."""
    return graph.add("Sub", score, graph.weight(layer.places(), layer.name))


@keras_bert.register_head
class Ordinal(keras_bert.Head):
    """Grades with an order."""

    name = "ordinal"
    layer = "cutpoints"
    reads = ("pooled",)
    tensors = {"score": "ordinal.score", "cutpoints.steps": "ordinal.cutpoints"}
    onnx = {"cutpoints": write_cutpoints}
    has_classes = True
    takes_pair = True
    classes = "above"
    saved = ("spread",)
    outputs = ("grade", "above")

    def build(self, encoder, num_classes, dropout=0.1, spread=1.0):
        """Returns a model with the output `above`, the logits that a text is above each grade but the last."""
        # Layers
        layers = {
            "head_dropout": keras_bert.layers.Dropout(dropout, name="head_dropout"),
            "score": keras_bert.layers.Dense(1, use_bias=False, dtype="float32", name="score"),
            "cutpoints": Cutpoints(num_classes - 1, spread, dtype="float32", name="cutpoints"),
        }

        # Wiring
        outputs = self.run(layers, encoder.output, encoder.input)

        # Model
        return keras.Model(encoder.input, outputs, name="ordinal_classifier")

    def run(self, layers, encoded, inputs):
        score = layers["score"](layers["head_dropout"](encoded["pooled_output"]))
        return {"above": layers["cutpoints"](score)}

    def described(self, layers):
        cutpoints = layers["cutpoints"]
        return {"num_classes": cutpoints.count + 1, "spread": cutpoints.spread}

    def sizes(self, tensors):
        return {"num_classes": tensors["ordinal.cutpoints"].shape[0] + 1}

    def respond(self, outputs, labels):
        above = tf.sigmoid(outputs["above"])
        # The grade is the number of cutpoints that the text is above of, the median.
        grade = tf.reduce_sum(tf.cast(above > 0.5, tf.int32), 1)
        return {"grade": tf.gather(tf.constant(labels), grade), "rank": grade, "above": above}

    def answer(self, output, row, n_best):
        answer = super().answer(output, row, n_best)
        return {
            "grade": answer["grade"],
            "rank": answer["rank"],
            "at_least": [1.0, *answer["above"]],
        }

    def model_outputs(self, answers):
        above = answers["above"].astype("float64")
        return {"above": np.log(above) - np.log1p(-above)}


def ordinal_loss(grades, above):
    """The cross-entropies of "above this grade", summed, `(batch,)`; grades are numbers from 0 on."""
    numbers = keras.ops.cast(keras.ops.arange(above.shape[-1]), grades.dtype)
    is_above = keras.ops.cast(keras.ops.reshape(grades, (-1, 1)) > numbers, "float32")
    return keras.ops.sum(keras.ops.softplus(above) - is_above * above, -1)


@dataclasses.dataclass(frozen=True)
class GradingSettings:
    labels: list[str] = setting(None, "Grades, the lowest one first; default: sorted.", section="data")
    sequence_length: int = setting(128, "Maximum number of tokens of a text.", least=3)


class GradeTraining(ClassificationTraining):
    """Trains the cutpoints."""

    def head_loss(self, class_weights):
        return keras_bert.losses.Loss("ordinal_loss", lambda grades, outputs: ordinal_loss(grades, outputs["above"]))


class GradeReport(ClassificationReport):
    """Reports scores of grades as those of classes."""

    def class_logits(self, outputs):
        """Returns logits: of being above the grades below, and not above the grade. That of the median is positive."""
        above = outputs["above"]
        ends = np.full((len(above), 1), 30.0)
        is_above_lower = np.concatenate([ends, above], 1)
        is_not_above = np.concatenate([-above, ends], 1)
        return np.minimum(is_above_lower, is_not_above)


@keras_bert.register_task
class Grading(ClassificationTask):
    """Grades of texts."""

    name = "grading"
    head = "ordinal"
    Settings = GradingSettings
    Training = GradeTraining
    Report = GradeReport

"""A category and a subcategory of each text, from one vector: the mean of its tokens, weighted by attention."""

import dataclasses

import keras
import tensorflow as tf

import keras_bert
from keras_bert.tasks import ClassificationTask, setting

_MASKED = -1e9


@keras.saving.register_keras_serializable("two_outputs")
class AttentionPooling(keras.layers.Layer):
    """The mean of the vectors of a sequence `(batch, length, width)`, weighted by their similarity to a learned one."""

    def build(self, sequence_shape, padding_mask_shape):
        self.query = self.add_weight(shape=(sequence_shape[-1], 1), initializer="glorot_uniform", name="query")

    def call(self, sequence, padding_mask):
        """Returns vectors `(batch, width)`; `padding_mask` `(batch, length)` has 1 for real tokens."""
        scores = keras.ops.matmul(sequence, self.query)[:, :, 0]
        scores += _MASKED * (1.0 - keras.ops.cast(padding_mask, scores.dtype))
        weights = keras.ops.exp(scores - keras.ops.logsumexp(scores, -1, keepdims=True))
        return keras.ops.sum(weights[:, :, None] * sequence, 1)


def write_attention_pooling(graph, layer, sequence, mask):
    """Adds the layer to an ONNX graph."""
    scores = graph.add("MatMul", sequence, graph.weight(layer.query, layer.name))
    padding = graph.add("Sub", 1.0, graph.cast(graph.add("Unsqueeze", mask, [2]), "float32"))
    scores = graph.add("Add", scores, graph.add("Mul", padding, _MASKED))
    weights = graph.add("Softmax", scores, axis=1)
    return graph.add("ReduceSum", graph.add("Mul", weights, sequence), [1], keepdims=0)


@keras_bert.register_head
class Topics(keras_bert.Head):
    """Categories, which have names, and subcategories, which are numbers."""

    name, layer, reads = "topics", "attention_pooling", ("sequence",)
    tensors = {
        "attention_pooling.query": "topics.query",
        "category": "topics.category",
        "subcategory": "topics.subcategory",
    }
    onnx = {"attention_pooling": write_attention_pooling}
    has_classes = True
    classes = "category"
    outputs = ("category", "subcategory")

    def build(self, encoder, num_classes, num_subcategories, dropout=0.1):
        """Returns a model with the outputs `category` and `subcategory`, logits."""
        # Layers
        layers = {
            "attention_pooling": AttentionPooling(dtype="float32", name="attention_pooling"),
            "head_dropout": keras_bert.layers.Dropout(dropout, name="head_dropout"),
            "category": keras_bert.layers.Dense(num_classes, dtype="float32", name="category"),
            "subcategory": keras_bert.layers.Dense(num_subcategories, dtype="float32", name="subcategory"),
        }

        # Wiring
        outputs = self.run(layers, encoder.output, encoder.input)

        # Model
        return keras.Model(encoder.input, outputs, name="topic_classifier")

    def run(self, layers, encoded, inputs):
        pooled = layers["attention_pooling"](encoded["sequence_output"], inputs["padding_mask"])
        pooled = layers["head_dropout"](pooled)
        return {name: layers[name](pooled) for name in ("category", "subcategory")}

    def described(self, layers):
        return {"num_classes": layers["category"].units, "num_subcategories": layers["subcategory"].units}

    def sizes(self, tensors):
        return {
            "num_classes": tensors["topics.category.weight"].shape[0],
            "num_subcategories": tensors["topics.subcategory.weight"].shape[0],
        }

    def respond(self, outputs, labels):
        return {
            "category": tf.gather(tf.constant(labels), tf.argmax(outputs["category"], 1)),
            "subcategory": tf.argmax(outputs["subcategory"], 1, tf.int32),
            "category_scores": tf.nn.softmax(outputs["category"]),
            "subcategory_scores": tf.nn.softmax(outputs["subcategory"]),
        }

    def answer(self, output, row, n_best):
        answer = super().answer(output, row, n_best)
        scores = {name: answer.pop(f"{name}_scores") for name in ("category", "subcategory")}
        return {**answer, "scores": scores}


def hierarchy(categories, outputs):
    """The cross-entropies of both outputs, `(batch,)`, given the categories alone.

    The subcategories of a category are those whose numbers have its remainder: which of them a text has is learned.
    """
    logits, details = outputs["category"], outputs["subcategory"]
    count = logits.shape[-1]
    own = keras.ops.arange(details.shape[-1]) % count == keras.ops.cast(categories, "int32")[:, None]
    inside = keras.ops.logsumexp(keras.ops.where(own, details, _MASKED), -1)
    detail_loss = keras.ops.logsumexp(details, -1) - inside
    return detail_loss + keras.losses.sparse_categorical_crossentropy(categories, logits, from_logits=True)


class TopicTraining(ClassificationTask.Training):
    """Trains both outputs."""

    def head_loss(self, class_weights):
        return keras_bert.losses.Loss("hierarchy", hierarchy)


@dataclasses.dataclass(frozen=True)
class TopicSettings:
    num_subcategories: int = setting(None, "Number of subcategories.", section="data", least=2)
    sequence_length: int = setting(128, "Maximum number of tokens of a text.", least=3)


@keras_bert.register_task
class TopicTask(ClassificationTask):
    """Categories of texts, with subcategories that are not labelled."""

    name, head, Settings, Training = "topics", "topics", TopicSettings, TopicTraining

    def head_options(self):
        return {**super().head_options(), "num_subcategories": self.settings.num_subcategories}

"""Topics of texts, such as "sport/tennis", and their categories, such as "sport": a head with two outputs."""

import keras
import numpy as np
import tensorflow as tf

import keras_bert
from keras_bert.tasks import ClassificationReport, ClassificationTask, ClassificationTraining


@keras.saving.register_keras_serializable("topics")
class AttentionPooling(keras.layers.Layer):
    """The mean of the vectors of a text, weighted by how well they match a learned one (Yang et al., 2016)."""

    def build(self, sequence_shape, padding_mask_shape):
        self.query = self.add_weight(shape=(sequence_shape[-1], 1), initializer="glorot_uniform", name="query")

    def call(self, sequence, padding_mask):
        """Returns `(batch, width)` for `(batch, length, width)` and `(batch, length)`, 1 for tokens, 0 for padding."""
        padding = 1.0 - keras.ops.cast(keras.ops.expand_dims(padding_mask, -1), sequence.dtype)
        scores = keras.ops.matmul(sequence, self.query) - 1e9 * padding
        return keras.ops.sum(keras.ops.softmax(scores, axis=1) * sequence, axis=1)


def write_attention_pooling(graph, layer, sequence, mask):
    """Adds the layer to an ONNX graph."""
    padding = graph.add("Sub", 1.0, graph.cast(graph.add("Unsqueeze", mask, [2]), "float32"))
    scores = graph.add("MatMul", sequence, graph.weight(layer.query, layer.name))
    scores = graph.add("Sub", scores, graph.add("Mul", padding, 1e9))
    weighted = graph.add("Mul", graph.add("Softmax", scores, axis=1), sequence)
    return graph.add("ReduceSum", weighted, [1], keepdims=0)


def categories_of(topics):
    """Returns the categories of topics, sorted, and the number of the category of each topic, arrays."""
    return np.unique([topic.partition("/")[0] for topic in topics], return_inverse=True)


@keras_bert.register_head
class Topics(keras_bert.Head):
    """A topic of each text, and its category."""

    name = "topics"
    layer = "attention_pooling"
    reads = ("sequence",)
    tensors = {
        "attention_pooling.query": "topics.query",
        "topic": "topics.topic",
        "category": "topics.category",
    }
    units = {"num_classes": "topic", "num_categories": "category"}
    onnx = {"attention_pooling": write_attention_pooling}
    has_classes = True
    outputs = ("topic", "category")

    def build(self, encoder, num_classes, num_categories, dropout=0.1):
        """Returns a model with the outputs `logits`, of the topics, and `category_logits`."""
        # Layers
        layers = {
            "attention_pooling": AttentionPooling(dtype="float32", name="attention_pooling"),
            "head_dropout": keras_bert.layers.Dropout(dropout, name="head_dropout"),
            "topic": keras_bert.layers.Dense(num_classes, dtype="float32", name="topic"),
            "category": keras_bert.layers.Dense(num_categories, dtype="float32", name="category"),
        }

        # Wiring
        outputs = self.run(layers, encoder.output, encoder.input)

        # Model
        return keras.Model(encoder.input, outputs, name="topic_classifier")

    def run(self, layers, encoded, inputs):
        pooled = layers["attention_pooling"](encoded["sequence_output"], inputs["padding_mask"])
        pooled = layers["head_dropout"](pooled)
        return {"logits": layers["topic"](pooled), "category_logits": layers["category"](pooled)}

    def respond(self, outputs, labels):
        categories, _ = categories_of(labels)
        return {
            "logits": outputs["logits"],
            "category_logits": outputs["category_logits"],
            "topic": tf.gather(labels, tf.argmax(outputs["logits"], 1)),
            "category": tf.gather(categories, tf.argmax(outputs["category_logits"], 1)),
            "score": tf.reduce_max(tf.nn.softmax(outputs["logits"]), 1),
        }

    def answer(self, output, row, n_best):
        answer = super().answer(output, row, n_best)
        return {name: answer[name] for name in ("topic", "category", "score")}


class TopicTraining(ClassificationTraining):
    """Trains both outputs."""

    def head_loss(self, class_weights):
        """Returns the sum of the cross-entropies of the topic and of its category."""
        topic_loss = super().head_loss(class_weights)
        _, parents = categories_of(self.task.labels)

        def values(topics, outputs):
            category_loss = keras.losses.sparse_categorical_crossentropy(
                tf.gather(parents, topics), outputs["category_logits"], from_logits=True
            )
            return topic_loss.values(topics, outputs) + category_loss

        return keras_bert.losses.Loss("hierarchy", values, topic_loss.weights)


class TopicReport(ClassificationReport):
    """Reports the scores of the topics, and how many texts have the right topic and the right category."""

    metric = "joint_accuracy"

    def score(self, targets, outputs):
        _, parents = categories_of(self.task.labels)
        is_topic = outputs["logits"].argmax(-1) == targets
        is_category = outputs["category_logits"].argmax(-1) == parents[targets]
        scores = {"joint_accuracy": float(np.mean(is_topic & is_category))}
        scores.update(super().score(targets, outputs))
        return scores


@keras_bert.register_task
class TopicTask(ClassificationTask):
    """Topics of texts."""

    name = "topics"
    head = "topics"
    Training = TopicTraining
    Report = TopicReport

    def head_options(self):
        categories, _ = categories_of(self.labels)
        options = super().head_options()
        options["num_categories"] = len(categories)
        return options

"""The same BERT BASE classifier with two classes in keras_bert, KerasHub and transformers, and unpadded inputs."""

import numpy as np

CLASSES = 2
# With the usual initializer, all probabilities would be about 0.5; this head returns 0.1 to 0.9.
_HEAD_DEVIATION = 0.5


def batch(batch_size, length):
    rng = np.random.default_rng(0)
    return {
        "token_ids": rng.integers(1000, 30000, (batch_size, length)).astype("int32"),
        "segment_ids": np.zeros((batch_size, length), "int32"),
        "padding_mask": np.ones((batch_size, length), "int32"),
    }, rng.integers(0, CLASSES, batch_size)


def ours(precision, hidden_act):
    import dataclasses

    import keras_bert

    config = dataclasses.replace(keras_bert.BERT_BASE, hidden_act=hidden_act)
    return keras_bert.build_classifier(keras_bert.build_encoder(config, dtype=precision), CLASSES)


def keras_hub(precision):
    import keras
    import keras_hub

    keras.config.set_dtype_policy(precision)
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=30522, num_layers=12, num_heads=12, hidden_dim=768, intermediate_dim=3072
    )
    return keras_hub.models.BertTextClassifier(backbone, num_classes=CLASSES, preprocessor=None)


def transformers(hidden_act):
    import transformers

    return transformers.BertForSequenceClassification(
        transformers.BertConfig(hidden_act=hidden_act, num_labels=CLASSES)
    )


def torch_batch(batch_size, length):
    import torch

    inputs, labels = batch(batch_size, length)
    names = {"token_ids": "input_ids", "segment_ids": "token_type_ids", "padding_mask": "attention_mask"}
    return {names[name]: torch.tensor(value).long() for name, value in inputs.items()}, torch.tensor(labels)


def with_random_head(encoder):
    """Returns a classifier of an encoder whose probabilities differ from text to text."""
    import keras_bert

    model = keras_bert.build_classifier(encoder, CLASSES)
    kernel = next(weight for weight in model.weights if weight.path == "classifier/kernel")
    kernel.assign(np.random.default_rng(0).normal(0.0, _HEAD_DEVIATION, kernel.shape))
    return model


def softmax(logits):
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)

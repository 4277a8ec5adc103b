"""Models with a BiLSTM between encoder and head, trained with it (BERT, section 5.1, last row of table 5)."""

import keras

import keras_bert
from keras_bert.layers import Dense, Dropout, Pooler
from keras_bert.tasks import ClassificationTask, ClassificationTraining, QuestionAnsweringTask, QuestionTraining
from research.recurrent import BiLSTM


def build_on_bilstm(encoder, num_classes=None):
    """Builds a classifier on a randomly initialized BiLSTM, by which each token also sees its right context.

    Without `num_classes`, the model scores each token as the start and as the end of an answer. The states are pooled
    as in the encoder, by a new pooler.

    Example:
        encoder = keras_bert.build_encoder(keras_bert.named_config("tiny"), causal=True)
        model = build_on_bilstm(encoder, num_classes=2)
    """
    # Layers
    description = keras_bert.describe(encoder)
    config = description.config
    dtype = description.dtype
    if config.hidden_size % 2:
        raise ValueError(f"a BiLSTM needs an even `hidden_size`. Received: hidden_size={config.hidden_size}")
    bilstm = BiLSTM(config.hidden_size // 2, dtype=dtype, name="encoder_bilstm")
    pooler = Pooler(
        config.hidden_size,
        config.initializer_range,
        description.causal,
        config.pooler_activation,
        dtype=dtype,
        name="pooler",
    )
    initializer = keras.initializers.TruncatedNormal(stddev=config.initializer_range)
    dropout = Dropout(config.hidden_dropout_prob, dtype=dtype, name="head_dropout")
    head = Dense(num_classes or 2, kernel_initializer=initializer, dtype="float32", name="head")

    # Wiring
    mask = encoder.input["padding_mask"]
    states = bilstm(encoder.output["sequence_output"], mask)
    if num_classes is None:
        logits = head(states)
        outputs = {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}
    else:
        pooled = pooler(states, mask) if description.causal else pooler(states)
        outputs = {"logits": head(dropout(pooled))}

    # Model
    return keras.Model(encoder.input, outputs, name="bert_on_bilstm")


class ClassificationOnBiLSTMTraining(ClassificationTraining):
    """Trains a model with a BiLSTM, which is new in each run."""

    def build(self, bert):
        return build_on_bilstm(bert.encoder, self.task.spec.num_classes)


class ClassificationOnBiLSTM(ClassificationTask):
    """Classification by a model with a BiLSTM."""

    Training = ClassificationOnBiLSTMTraining


class QuestionsOnBiLSTMTraining(QuestionTraining):
    """Trains a model with a BiLSTM, which is new in each run."""

    def build(self, bert):
        return build_on_bilstm(bert.encoder)


class QuestionsOnBiLSTM(QuestionAnsweringTask):
    """Question answering by a model with a BiLSTM."""

    Training = QuestionsOnBiLSTMTraining

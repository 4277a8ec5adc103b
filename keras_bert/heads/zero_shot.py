"""Zero-shot classification: the signature `zero_shot`, whose requests contain the labels (Yin et al., 2019)."""

import dataclasses

import tensorflow as tf

from keras_bert.checks import is_finite
from keras_bert.heads.class_settings import THRESHOLD
from keras_bert.layers.masks import FORBIDDEN
from keras_bert.text.signatures import not_empty, text_with_lists
from keras_bert.text.token_counts import with_counts

_ENCODER = "sentence-transformers/all-MiniLM-L6-v2"


@dataclasses.dataclass(frozen=True)
class ZeroShot:
    """Settings of zero-shot classification, with labels that a model was not trained on.

    A classifier of pairs (NLI) decides whether each text entails the hypothesis of each label: the softmax of the
    entailment logits. A sentence encoder compares their vectors: the softmax of the cosines, divided by `temperature`.

    Args:
        hypothesis: str, a sentence with `{}` in place of the label. Defaults to "This text is about {}.".
        multi_label: bool, whether several labels may apply to one text: the probability of each is that of entailment
            against contradiction. Only for NLI. Defaults to `False`.
        temperature: float, only for sentence encoders: the lower, the nearer the highest probability is to 1. Defaults
            to 0.05.

    Example:
        keras_bert.export(model, preprocessor, "served/nli/1", labels=labels, pair=True, zero_shot=ZeroShot())
    """

    hypothesis: str = "This text is about {}."
    multi_label: bool = False
    _: dataclasses.KW_ONLY
    temperature: float = 0.05

    def __post_init__(self):
        if not isinstance(self.hypothesis, str) or self.hypothesis.count("{}") != 1:
            expected = "a string with one {}, the place of the label"
            raise ValueError(f"`hypothesis` must be {expected}. Received: hypothesis={self.hypothesis!r}")
        if not is_finite(self.temperature) or self.temperature <= 0:
            expected = "a finite number above 0"
            raise ValueError(f"`temperature` must be {expected}. Received: temperature={self.temperature!r}")

    def of(self, labels):
        """Returns the hypotheses of a string tensor of labels."""
        before, after = self.hypothesis.split("{}")
        return tf.strings.join([before, labels, after])


def with_nli(settings, logits, names):
    """Returns the signature of a classifier of pairs.

    `logits` maps texts and hypotheses `(rows,)` to logits `(rows, classes)` and the numbers of tokens; `names` are
    those of the classes, or `None`.
    """
    check_settings(settings)
    if settings.temperature != ZeroShot.temperature:
        raise ValueError(
            f"`temperature` is for sentence encoders. Received: temperature={settings.temperature} for a classifier of "
            "pairs"
        )
    entailment, contradiction = nli_classes(names, settings.multi_label)

    def decide(text, labels):
        shape = tf.shape(labels)
        rows, counts = logits(tf.repeat(text, shape[1]), tf.reshape(settings.of(labels), [-1]))
        scores = tf.reshape(rows[:, entailment], shape)
        longest = {}  # The numbers of tokens of the text with its longest hypothesis.
        for name, count in counts.items():
            of_labels = tf.where(labels == "", 0, tf.reshape(count, shape))
            longest[name] = tf.reduce_max(of_labels, axis=1)
        if settings.multi_label:
            return tf.sigmoid(scores - tf.reshape(rows[:, contradiction], shape)), longest
        return _softmax(scores, labels), longest

    return _signature(settings, decide)


def with_vectors(settings, embed):
    """Returns the signature of a sentence encoder.

    `embed` is a function from strings to vectors `(rows, width)` and the numbers of tokens.
    """
    check_settings(settings)
    if settings.multi_label:
        raise ValueError(
            "`multi_label` needs a classifier of pairs with the labels entailment and contradiction. Received: "
            "multi_label=True for a sentence encoder"
        )

    def decide(text, labels):
        each, places = tf.unique(tf.reshape(labels, [-1]))  # Rows mostly have the same labels.
        texts, counts = embed(text)
        hypotheses, _ = embed(settings.of(each))
        text_units = tf.math.l2_normalize(texts, -1)
        hypothesis_units = tf.math.l2_normalize(hypotheses, -1)
        cosines = tf.matmul(text_units, hypothesis_units, transpose_b=True)
        scores = tf.gather(cosines, tf.reshape(places, tf.shape(labels)), batch_dims=1)
        return _softmax(scores / settings.temperature, labels), counts

    return _signature(settings, decide)


def nli_classes(names, multi_label, model=None):
    """Returns the indices of entailment and, with `multi_label`, contradiction, which are places by their names.

    `names` are those of the classes, `None` for a model that is not a classifier of pairs; `model` is what it is, for
    the error message, by default `labels=...`.
    """
    lower = [name.lower() for name in names or ()]
    entailments = [index for index, name in enumerate(lower) if name.startswith("entail")]
    contradictions = [index for index, name in enumerate(lower) if name.startswith("contradi")]
    if len(lower) == 2 and len(entailments) == 1:
        contradictions = [1 - entailments[0]]  # The other class, whatever its name is.
    if len(entailments) != 1 or (multi_label and len(contradictions) != 1):
        expected = "labels entailment and contradiction" if multi_label else "label entailment"
        raise ValueError(
            f"zero-shot classification needs a sentence encoder, such as {_ENCODER}, or a classifier of pairs with the "
            f"{expected}, such as one fine-tuned on MNLI. Received: {model or f'labels={names}'}"
        )
    if not multi_label:
        return entailments[0], None
    return entailments[0], contradictions[0]


def check_settings(settings):
    """Raises for anything but a `ZeroShot`."""
    if not isinstance(settings, ZeroShot):
        raise ValueError(f"`zero_shot` must be a keras_bert.ZeroShot or `None`. Received: zero_shot={settings!r}")


def _softmax(scores, labels):
    return tf.nn.softmax(tf.where(labels == "", tf.constant(FORBIDDEN), scores))


def _signature(settings, decide):
    """Returns the signature: `text` `(batch,)`, `labels` `(batch, labels)`, `""` for none."""

    def answer(text, labels):
        labels = not_empty(labels, "labels")
        probabilities, counts = decide(text, labels)
        probabilities = tf.where(labels == "", 0.0, probabilities)
        if settings.multi_label:
            answers = {"predicted": probabilities >= THRESHOLD}
        else:
            answers = {"label": tf.gather(labels, tf.argmax(probabilities, -1), batch_dims=1)}
        answers["probabilities"] = probabilities
        answers["labels"] = labels
        return with_counts(answers, counts)

    return text_with_lists(answer, "labels")

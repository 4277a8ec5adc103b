"""Texts with choices in windows: each window of the text with every choice, beside a plain loop."""

import numpy as np
import pytest
from scipy import special

tf = pytest.importorskip("tensorflow")

import keras_bert  # noqa: E402
from keras_bert.data.choices import ChoiceExamples  # noqa: E402
from keras_bert.tasks.base import Start  # noqa: E402
from keras_bert.tasks.multiple_choice.data import ChoiceData, ChoiceSettings  # noqa: E402
from keras_bert.tasks.multiple_choice.task import MultipleChoiceTask  # noqa: E402

LENGTH = 12
OVERLAP = 2
ROOM = LENGTH - 3  # Beside [CLS] and two [SEP].
TEXTS = ["a b c d e f g h i j k l m n", "a b", "a b c d e f g h", "k"]
CHOICES = [["p q r", "s"], ["t", "", "u v"], ["a b c d e f g h i", "x"], ["b c d e f g h i", "z"]]
ROWS = [{"text": text, "choices": choices} for text, choices in zip(TEXTS, CHOICES, strict=True)]


@pytest.fixture(scope="module")
def bert(tmp_path_factory, config, pieces):
    folder = tmp_path_factory.mktemp("choosing")
    model = keras_bert.build_multiple_choice(keras_bert.build_encoder(config))
    model.get_layer("choice_scorer").kernel.assign(10 * model.get_layer("choice_scorer").kernel)
    options = {"sequence_length": LENGTH, "long_texts": "windows", "overlap": OVERLAP}
    keras_bert.save(model, folder, pieces, **options)
    return keras_bert.load(folder)


def windows_of(text, longest):
    """Returns where the windows of a text start, and how many tokens they have at most."""
    room = ROOM - min(longest, max(ROOM // 2, ROOM - len(text)))
    starts = [0]
    while starts[-1] + room < len(text):
        starts.append(starts[-1] + room - OVERLAP)
    return starts, room


def by_hand(bert):
    """Returns the logits of the choices of each row, the number of windows, and where the strongest one is."""
    preprocessor = bert.preprocessor(LENGTH)
    tokenize = preprocessor.tokenizer
    start, end = preprocessor.vocabulary.ids(["[CLS]", "[SEP]"])
    found = []
    for text, choices in zip(TEXTS, CHOICES, strict=True):
        text = tokenize([text]).to_list()[0]
        choices = tokenize(choices).to_list()
        starts, room = windows_of(text, max(map(len, choices)))
        most = max(ROOM // 2, ROOM - len(text))
        logits = np.full([len(starts), len(choices)], -1e9)
        for number, first in enumerate(starts):
            for place, choice in enumerate(choices):
                if not choice:
                    continue
                part = text[first : first + room]
                choice = choice[:most]
                ids = np.array([[[start, *part, end, *choice, end]]])
                segments = np.array([[[0] * (len(part) + 2) + [1] * (len(choice) + 1)]])
                inputs = {"token_ids": ids, "segment_ids": segments, "padding_mask": np.ones_like(ids)}
                logits[number, place] = bert.model()(inputs, training=False)["logits"][0, 0]
        joined = special.logsumexp(logits, 0) - np.log(len(starts))
        strongest = special.log_softmax(logits, 1)[:, joined.argmax()].argmax()
        first = starts[strongest]  # All tokens are letters with a space between them.
        last = min(first + room, len(text)) - 1
        found.append((joined, len(starts), {"start": 2 * first, "end": 2 * last + 1}))
    return found


def test_answers_are_those_of_a_loop(bert, tmp_path):
    expected = by_hand(bert)
    answers = bert.predict(ROWS)
    assert [answer["windows"] for answer in answers] == [count for _, count, _ in expected] == [3, 1, 2, 1]
    for answer, (logits, _, strongest), text, choices in zip(answers, expected, TEXTS, CHOICES, strict=True):
        np.testing.assert_allclose(answer["scores"], special.softmax(logits)[: len(answer["scores"])], atol=1e-5)
        assert answer["strongest"] == strongest
        assert answer["tokens"] == 3 + len(text.split()) + max(len(choice.split()) for choice in choices)
    assert [answer["tokens_read"] for answer in answers] == [20, 7, 15, 12]  # Of the third, a choice is cut.
    bert.export(tmp_path / "1")
    served = tf.saved_model.load(str(tmp_path / "1")).signatures["serving_default"]
    width = max(map(len, CHOICES))
    filled = tf.constant([[*choices, *[""] * (width - len(choices))] for choices in CHOICES])
    outputs = served(text=tf.constant(TEXTS), choices=filled)
    for row, (logits, _, _) in enumerate(expected):
        np.testing.assert_allclose(outputs["probabilities"][row, : len(logits)], special.softmax(logits), atol=1e-5)


def test_training_reads_the_same(bert):
    examples = ChoiceExamples(TEXTS, CHOICES, labels=[0, 2, 1, 0], lines=[1, 2, 3, 4], ids=None)
    data = ChoiceData(examples, examples, None, {"train": "a", "dev": "a"})
    settings = ChoiceSettings(sequence_length=LENGTH, long_texts="windows", overlap=OVERLAP)
    task = MultipleChoiceTask(data, Start("start", bert), settings)
    assert task.lengths["train"].shape == (4, 3)
    assert task.report.summary.truncated["rows"] == 2
    model = task.training.build(bert)
    trainer = keras_bert.Trainer(
        lambda: model, lambda model: keras_bert.create_optimizer(model, 1e-3, 1), task.training.loss
    )
    (logits,) = task.report.dev_logits(trainer.predict).values()
    for found, (expected, _, _) in zip(logits, by_hand(bert), strict=True):
        np.testing.assert_allclose(found[: len(expected)], expected, rtol=1e-5)
    assert (logits[[0, 2, 3], 2] == -1e9).all()


def test_a_pair_that_fits_is_read_whole(config, pieces, tmp_path):
    """However the tokens are divided between its texts; of a first text that is cut, answers tell it."""
    keras_bert.save(keras_bert.build_classifier(keras_bert.build_encoder(config), 2), tmp_path / "model", pieces)
    bert = keras_bert.load(tmp_path / "model")
    pairs = [("a b c d e f g", "h i"), ("a", "b c d e f g h i"), ("a b c d e f g h i", "j k l m n")]
    whole = bert.predict(pairs[:2], sequence_length=LENGTH, logits=True)
    *found, cut = bert.predict(pairs, sequence_length=LENGTH, long_texts="windows", overlap=OVERLAP, logits=True)
    for answer, expected in zip(found, whole, strict=True):
        np.testing.assert_allclose(answer["logits"], expected["logits"], atol=1e-6)
    assert (cut["tokens"], cut["tokens_read"]) == (17, 12)

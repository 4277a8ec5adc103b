"""SavedModels answer what the Keras model and plain Python over it answer, for every head.

The expectations use the Keras models and NumPy; words, pieces, windows, spans and entities are written a second time.
"""

import dataclasses
import functools
import hashlib
import importlib.metadata
import json
import math
import re
import string
import unicodedata

import keras
import numpy as np
import pytest

import keras_bert

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

from tensorflow.core.protobuf import saved_model_pb2  # noqa: E402
from tensorflow_serving.apis import prediction_log_pb2  # noqa: E402

from keras_bert.exporting import answer, classify, embed, fill_mask, tag, verification  # noqa: E402
from keras_bert.exporting.signatures import in_groups  # noqa: E402
from tests.conftest import HEADS  # noqa: E402
from tests.exporting.conftest import LABELS, TAGS  # noqa: E402

TEXTS = ["a b", "c!", "", "d e f g"]
PAIRS = ["x", "y z", "a", ""]
FUNCTIONS = {
    "classification": functools.partial(classify.classifier, labels=LABELS, pair=False),
    "regression": functools.partial(classify.regressor, pair=False),
    "token_classification": functools.partial(tag.tagger, labels=TAGS, stride=7),
    "question_answering": answer.answerer,
    "pretraining": fill_mask.filler,
    "multiple_choice": classify.chooser,
    "encoder": embed.embedder,
    "next_sentence": fill_mask.follower,
    "embedding": embed.sentence_embedder,
}
# What a client may send: nothing, white space, no UTF-8, more than a window, other scripts, a sigma, zeros.
STRANGE = [b"", b" \n", b"\xff\xfea b\xc3", "Ünïcödé ΣΑΣ 今天".encode(), b"a " * 60, b"a\0b", b"[MASK]"]


@dataclasses.dataclass
class Served:
    """A model and its signatures by name: functions before, or concrete ones after they were exported."""

    model: keras.Model
    preprocessor: keras_bert.TextPreprocessor
    signatures: dict
    directory: object = None
    loaded: object = None  # Holds the weights.

    def __call__(self, signature="serving_default", **inputs):
        function = self.signatures[signature]
        tensors = {name: tf.constant(value) for name, value in inputs.items()}
        if self.loaded is None:
            answers = function(*(tensors[spec.name] for spec in function.input_signature))
        else:
            answers = function(**tensors)
        return {name: value.numpy() for name, value in answers.items()}


@pytest.fixture(scope="module")
def served(model_of, preprocessor):
    """The functions of a head's signatures, each traced once."""

    @functools.cache
    def make(head):
        kept = ["[MASK]"] if head == "pretraining" else []
        mine = type(preprocessor).from_config({**preprocessor.get_config(), "keep_special_tokens": kept})
        return Served(model_of(head), mine, FUNCTIONS[head](model_of(head), mine))

    return make


@pytest.fixture(scope="module")
def classifier(exported, model_of, preprocessor):
    """An exported classifier."""
    directory = exported("classification")
    loaded = tf.saved_model.load(directory)
    return Served(model_of("classification"), preprocessor, loaded.signatures, directory, loaded)


def softmax(logits):
    exponentials = np.exp(logits - logits.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def strings(values):
    """The same nested lists, of `str`."""
    return [strings(value) for value in values] if isinstance(values, list) else values.decode()


def close(value, expected, most=1e-5):
    """Nearly equal, in units of the largest expected value."""
    assert np.shape(value) == np.shape(expected)
    assert np.abs(value - expected).max() <= most * np.abs(expected).max()


# ---- Plain Python beside the tokenizer, the windows, the spans and the entities


def words_of(text):
    """(word, first byte, byte after the last one) of each: white space ends words, punctuation is words of its own."""
    found = []
    alone = rf"{re.escape(string.punctuation)}\u4e00-\u9fff。"
    for match in re.finditer(rf"[{alone}]|[^\s{alone}]+", text):
        start = len(text[: match.start()].encode())
        found.append((match[0], start, start + len(match[0].encode())))
    return found


def pieces_of(word, vocabulary):
    """Greedy WordPiece: ids and how many characters each has."""
    word = "".join(c for c in unicodedata.normalize("NFD", word.lower()) if not 0x300 <= ord(c) < 0x370)
    found, start = [], 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = ("##" if start else "") + word[start:end]
            if piece in vocabulary:
                found.append((vocabulary.index(piece), end - start))
                start = end
                break
        else:
            return [(vocabulary.index("[UNK]"), len(word))]
    return found


def windows_of(count, room, stride):
    """(start, length) of each window: the loop of run_squad.py."""
    found, start = [], 0
    while True:
        length = min(count - start, room)
        found.append((start, length))
        if start + length == count:
            return found
        start += min(length, stride)


def best_window(piece, windows):
    """The window where a piece has the most context; the first of several."""

    def context(window):
        start, length = windows[window]
        return min(piece - start, start + length - 1 - piece) + 0.01 * length

    inside = [index for index, (start, length) in enumerate(windows) if start <= piece < start + length]
    return max(inside, key=context)


def run_one(model, ids, first_segment):
    """The outputs of a model for one sequence without padding."""
    ids = np.array([ids], "int32")
    segments = (np.arange(ids.shape[1]) >= first_segment).astype("int32")[None]
    outputs = model({"token_ids": ids, "segment_ids": segments, "padding_mask": np.ones_like(ids)})
    return {name: value[0].numpy() for name, value in outputs.items()}


def slow_entities(tags):
    """[(type, first word, word after the last one)]: B- begins one, I- goes on or, after another, begins one."""
    found = []
    for word, name in enumerate(tags):
        if name == "O":
            continue
        prefix, kind = name.split("-")
        if prefix == "I" and found and found[-1][0] == kind and found[-1][2] == word:
            found[-1][2] = word + 1
        else:
            found.append([kind, word, word + 1])
    return [tuple(entity) for entity in found]


def slow_tags(model, vocabulary, text, length, stride):
    """[(word, start, end, tag, score)] of a text of any length."""
    words = words_of(text)
    ids, first = [], []
    for word, _, _ in words:
        first.append(len(ids))
        ids += [index for index, _ in pieces_of(word, vocabulary)]
    windows = windows_of(len(ids), length - 2, stride)
    cls, sep = vocabulary.index("[CLS]"), vocabulary.index("[SEP]")
    logits = [run_one(model, [cls, *ids[a : a + n], sep], n + 2)["logits"] for a, n in windows]
    found = []
    for (word, start, end), piece in zip(words, first, strict=True):
        window = best_window(piece, windows)
        probabilities = softmax(logits[window][1 + piece - windows[window][0]])
        found.append((word, start, end, TAGS[probabilities.argmax()], probabilities.max()))
    return found


def slow_answers(model, vocabulary, question, context, length, stride, longest):
    """[(score, start, end)] of all spans in bytes, best first, and the score of none."""
    asked = [index for word, _, _ in words_of(question) for index, _ in pieces_of(word, vocabulary)]
    ids, bytes_ = [], []
    for word, start, _ in words_of(context):
        place = 0
        for index, size in pieces_of(word, vocabulary):
            ids.append(index)
            bytes_.append([start + len(word[:cut].encode()) for cut in (place, place + size)])
            place += size
    room = length - len(asked) - 3
    windows = windows_of(len(ids), room, stride)
    cls, sep = vocabulary.index("[CLS]"), vocabulary.index("[SEP]")
    spans, null = [], math.inf
    for number, (first, size) in enumerate(windows):
        tokens = [cls, *asked, sep, *ids[first : first + size], sep]
        outputs = run_one(model, tokens, len(asked) + 2)
        starts, ends = outputs["start_logits"], outputs["end_logits"]
        null = min(null, starts[0] + ends[0])
        for start in range(size):
            if best_window(first + start, windows) == number:
                for end in range(start, min(size, start + longest)):
                    score = starts[len(asked) + 2 + start] + ends[len(asked) + 2 + end]
                    spans.append((score, bytes_[first + start][0], bytes_[first + end][1]))
    return sorted(spans, key=lambda span: -span[0]), null


# ---- Strings in, a Keras model


def test_text_model(model_of, preprocessor):
    model = model_of("classification")
    inputs = {"text": np.array(TEXTS, object), "pair": np.array(PAIRS, object)}
    expected = model(preprocessor((TEXTS, PAIRS)))["logits"]
    text_model = keras_bert.build_text_model(model, preprocessor, pair=True)
    np.testing.assert_allclose(text_model(inputs)["logits"], expected, atol=1e-5)


# ---- Every head


@pytest.mark.parametrize("head", list(FUNCTIONS)[:7])
def test_outputs_begin_with_the_batch_and_are_finite(served, head):
    """For a batch of nothing, for empty texts and for bytes that are no text."""
    model = served(head)
    names = {"question_answering": ["question", "context"], "multiple_choice": ["text", "choices"]}
    for texts in ([], [b""], STRANGE):
        inputs = {name: tf.constant(texts, tf.string) for name in names.get(head, ["text"])}
        if "choices" in inputs:
            inputs["choices"] = tf.repeat(inputs["choices"][:, None], 3, 1)
        for name, value in model(**inputs).items():
            assert value.shape[0] == len(texts), name
            if value.dtype.kind == "f":
                assert np.isfinite(value).all(), name
            elif value.dtype == object:
                strings(value.tolist())  # UTF-8


def test_facts_and_warmup(classifier, pieces):
    assert [path.name for path in classifier.directory.parent.iterdir()] == ["1"]
    folder = classifier.directory / "assets.extra"
    facts = json.loads((folder / "keras_bert.json").read_text())
    assert (facts["head"], facts["labels"], facts["pair"]) == ("classification", LABELS, False)
    assert (facts["sequence_length"], facts["precision"], facts["lowercase"]) == (20, "float32", True)
    sha256 = hashlib.sha256("\n".join(pieces).encode()).hexdigest()
    assert facts["vocabulary"] == {"pieces": 50, "sha256": sha256}
    assert facts["ops"] == sorted(set(facts["ops"]))
    assert {"FastBertNormalize", "FastWordpieceTokenizeWithOffsets", "ParseExampleV2"} <= set(facts["ops"])
    assert not any(name.startswith("__") for name in facts["ops"])  # Functions are not ops.
    assert set(facts["signatures"]) == {"serving_default", "classify", "tokens"}
    assert facts["signatures"]["serving_default"] == {
        "inputs": {"text": ["string", 1]},
        "outputs": {"label": ["string", 1], "probabilities": ["float32", 2], "labels": ["string", 2]},
    }
    for package in ("keras", "tensorflow", "tensorflow-text"):
        assert facts["versions"][package] == importlib.metadata.version(package)
    assert facts["versions"]["keras_bert"] == keras_bert.__version__
    assert facts["config"]["hidden_size"] == 32

    records = tf.data.TFRecordDataset(str(folder / "tf_serving_warmup_requests"))
    logs = [prediction_log_pb2.PredictionLog.FromString(record) for record in records.as_numpy_iterator()]
    requests = {log.predict_log.request.model_spec.signature_name: log.predict_log.request for log in logs}
    assert set(requests) == {"serving_default", "tokens"}
    for name, request in requests.items():
        assert classifier(name, **{key: tf.make_ndarray(value) for key, value in request.inputs.items()})


# ---- Classification and regression


def test_a_classifier(classifier):
    answers = classifier(text=TEXTS)
    inputs = {name: value.numpy() for name, value in classifier.preprocessor(TEXTS).items()}
    logits = classifier.model(inputs)["logits"].numpy()
    close(answers["probabilities"], softmax(logits))
    assert strings(answers["label"].tolist()) == [LABELS[index] for index in logits.argmax(-1)]
    assert strings(answers["labels"].tolist()) == [LABELS] * 4
    close(classifier("tokens", **inputs)["logits"], logits)
    # tf.Examples, in their own API.
    classified = classifier("classify", inputs=examples({"text": TEXTS}))
    close(classified["scores"], softmax(logits))
    assert strings(classified["classes"].tolist()) == [LABELS] * 4
    saved = saved_model_pb2.SavedModel.FromString((classifier.directory / "saved_model.pb").read_bytes())
    methods = {name: signature.method_name for name, signature in saved.meta_graphs[0].signature_def.items()}
    assert methods["classify"] == "tensorflow/serving/classify"
    assert methods["serving_default"] == "tensorflow/serving/predict"


def examples(inputs):
    """A serialized `tf.Example` for each text."""

    def feature(text):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()]))

    rows = [dict(zip(inputs, row, strict=True)) for row in zip(*inputs.values(), strict=True)]
    features = [{name: feature(text) for name, text in row.items()} for row in rows]
    return [tf.train.Example(features=tf.train.Features(feature=one)).SerializeToString() for one in features]


def test_regression(served):
    model = served("regression")
    expected = model.model(model.preprocessor(TEXTS))["logits"].numpy()[:, 0]
    answers = model(text=TEXTS)
    assert list(answers) == ["score"]
    close(answers["score"], expected)
    close(model("regress", inputs=examples({"text": TEXTS}))["outputs"], expected)


def test_several_labels_without_names_in_place_of_an_older_export(model_of, preprocessor, tmp_path):
    """Beside it is what a killed export left."""
    for name in ("1", "writing-1"):
        (tmp_path / name / "assets.extra").mkdir(parents=True)
        (tmp_path / name / "old").touch()
    model = model_of("multi_label")
    keras_bert.export(model, preprocessor, tmp_path / "1", pair=True)
    assert [path.name for path in tmp_path.iterdir()] == ["1"]
    assert not (tmp_path / "1" / "old").exists()
    loaded = tf.saved_model.load(tmp_path / "1")
    answers = Served(model, preprocessor, loaded.signatures, loaded=loaded)(text=TEXTS, pair=PAIRS)
    logits = model(preprocessor((TEXTS, PAIRS)))["logits"].numpy()
    assert set(answers) == {"labels", "probabilities", "predicted"}
    close(answers["probabilities"], 1 / (1 + np.exp(-logits)))
    np.testing.assert_array_equal(answers["predicted"], logits >= 0)
    assert strings(answers["labels"].tolist()) == [["LABEL_0", "LABEL_1", "LABEL_2"]] * 4


def test_multiple_choice(served):
    model = served("multiple_choice")
    choices = [["a b", "c", "d"], ["e", "", "f!"], ["g", "h", "i j k"], ["l", "m", "n"]]
    answers = model(text=TEXTS, choices=choices)
    # One choice of one text at a time.
    logits = np.array(
        [
            [
                float(
                    model.model({key: value[None] for key, value in model.preprocessor(([text], [choice])).items()})[
                        "logits"
                    ][0, 0]
                )
                for choice in row
            ]
            for text, row in zip(TEXTS, choices, strict=True)
        ]
    )
    close(answers["probabilities"], softmax(logits))
    assert answers["choice"].tolist() == logits.argmax(-1).tolist()


# ---- Token classification

TAGGED = [
    "ab cd, efg.",
    "",
    "Ünï cödé  a-b",
    "今天 ab 天气。",
    " ".join(["abcdefghij", "klm", "nop!"] * 17),
]


def test_words_tags_and_offsets(served, pieces):
    """Also in more windows than a model call has, in accents and in Chinese; entities by a slow loop."""
    model = served("token_classification")
    answers = model(text=TAGGED)
    for row, text in enumerate(TAGGED):
        expected = slow_tags(model.model, pieces, text, 20, 7)
        count = answers["token_count"][row]
        assert count == len(expected)
        columns = [answers[name][row] for name in ("tokens", "starts", "ends", "tags")]
        found = list(zip(*(column[:count].tolist() for column in columns), strict=True))
        assert [(word.decode(), start, end, tag.decode()) for word, start, end, tag in found] == [
            one[:4] for one in expected
        ]
        np.testing.assert_allclose(answers["scores"][row, :count], [one[4] for one in expected], atol=1e-5)
        assert all(text.encode()[start:end] == word for word, start, end, _ in found)
        for column, padding in zip(columns, (b"", -1, -1, b""), strict=True):
            assert set(column[count:].tolist()) <= {padding}

        entities = slow_entities([one[3] for one in expected])
        count = answers["entity_count"][row]
        names = ("entity_types", "entities", "entity_starts", "entity_ends", "entity_scores")
        found = list(zip(*(answers[name][row, :count].tolist() for name in names), strict=True))
        spans = [(expected[first][1], expected[last - 1][2]) for _, first, last in entities]
        assert [(kind.decode(), part.decode()) for kind, part, *_ in found] == [
            (kind, text.encode()[start:end].decode())
            for (kind, _, _), (start, end) in zip(entities, spans, strict=True)
        ]
        assert [(start, end) for _, _, start, end, _ in found] == spans
        means = [np.mean([one[4] for one in expected[first:last]]) for _, first, last in entities]
        np.testing.assert_allclose([one[4] for one in found], means, atol=1e-5)


def test_scores_of_entities_do_not_drown_in_a_long_request():
    """The mean of three words after a million others."""
    count = 1_000_003
    scores = tf.RaggedTensor.from_row_lengths(tf.fill([count], 0.7), [count])
    found = keras_bert.text.entities.Entities(
        tf.ragged.constant([["PER"]]), tf.ragged.constant([[count - 3]]), tf.ragged.constant([[count]])
    )
    np.testing.assert_allclose(tag.mean_scores(scores, found).to_list(), [[0.7]], rtol=1e-6)


# ---- Question answering

QUESTIONS = ["ab cd?", "a", "é", "x y z"]
CONTEXTS = ["abc de fg. hi", "今天 b 天气 c d", "Ünï cödé a", "a b"]


def test_answers_in_short_contexts(served, pieces):
    model = served("question_answering")
    answers = model(question=QUESTIONS, context=CONTEXTS)
    for row, (question, context) in enumerate(zip(QUESTIONS, CONTEXTS, strict=True)):
        spans, null = slow_answers(model.model, pieces, question, context, 20, 128, 30)
        score, start, end = spans[0]
        assert (answers["start"][row], answers["end"][row]) == (start, end)
        assert answers["answer"][row] == context.encode()[start:end]
        np.testing.assert_allclose([answers["score"][row], answers["null_score"][row]], [score, null], rtol=1e-5)


def test_the_best_few_answers_over_windows_and_none_below_a_threshold(model_of, preprocessor, pieces):
    model = model_of("question_answering")
    # The question is cut to 4 pieces; the second request has one window.
    questions, contexts = ["k l m n o p", "ab"], [" ".join(["abc", "d", "ef", "ghi", "j"] * 6), "cd e f"]
    expected = [
        slow_answers(model, pieces, question, context, 20, 5, 3)
        for question, context in zip(["k l m n", "ab"], contexts, strict=True)
    ]
    margins = [float(null - spans[0][0]) for spans, null in expected]
    options = {"stride": 5, "max_question_length": 4, "max_answer_length": 3, "top": 3}
    function = answer.answerer(model, preprocessor, **options, null_threshold=sum(margins) / 2)["serving_default"]
    answers = {key: value.numpy() for key, value in function(tf.constant(questions), tf.constant(contexts)).items()}
    for row, (spans, null) in enumerate(expected):
        scores = np.array([span[0] for span in spans[:3]])
        np.testing.assert_allclose(answers["scores"][row], scores, rtol=1e-5)
        np.testing.assert_allclose(answers["null_score"][row], null, rtol=1e-5)
        np.testing.assert_allclose(answers["probabilities"][row], softmax(scores), rtol=1e-4)
        found = list(zip(answers["starts"][row], answers["ends"][row], answers["answers"][row], strict=True))
        if margins[row] < max(margins):
            assert found == [(start, end, contexts[row][start:end].encode()) for _, start, end in spans[:3]]
        else:
            assert found == [(-1, -1, b"")] * 3
        assert answers["answer"][row] == answers["answers"][row, 0]


# ---- Masks

MASKED = ["a [MASK] b", "c", "[MASK] d [MASK]", "[MASK]"]


def test_filled_masks(served, pieces):
    """None, one and several in one batch."""
    model = served("pretraining")
    answers = model(text=MASKED)
    assert answers["mask_count"].tolist() == [1, 0, 2, 1]
    assert answers["tokens"].shape == answers["probabilities"].shape == (4, 2, 5)
    for row, text in enumerate(MASKED):
        words = ["[CLS]", *text.split(), "[SEP]"]
        places = [index for index, word in enumerate(words) if word == "[MASK]"]
        ids = np.array([[pieces.index(word) for word in words]], "int32")
        inputs = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": 1 + 0 * ids}
        logits = model.model({**inputs, "mask_positions": np.array([places or [0]], "int32")})["mlm_logits"].numpy()[0]
        probabilities = softmax(logits)[: len(places)]
        best = np.argsort(-probabilities, -1, kind="stable")[:, :5]
        assert strings(answers["tokens"][row, : len(places)].tolist()) == [[pieces[i] for i in line] for line in best]
        expected = np.take_along_axis(probabilities, best, -1)
        np.testing.assert_allclose(answers["probabilities"][row, : len(places)], expected, atol=1e-6)
        assert set(answers["tokens"][row, len(places) :].ravel()) <= {b""}
        assert not answers["probabilities"][row, len(places) :].any()


def test_next_sentence(served):
    model = served("pretraining")
    inputs = model.preprocessor((TEXTS, PAIRS))
    logits = model.model({**inputs, "mask_positions": tf.zeros((4, 1), tf.int32)})["nsp_logits"].numpy()
    close(model("next_sentence", text=TEXTS, pair=PAIRS)["probability"], softmax(logits)[:, 0])


def test_without_a_head_for_it_there_is_no_next_sentence(model_of, preprocessor):
    assert list(fill_mask.filler(model_of("mlm"), preprocessor)) == ["serving_default"]


@pytest.mark.slow
def test_next_sentence_alone(served):
    model = served("next_sentence")
    logits = model.model(model.preprocessor((TEXTS, PAIRS)))["nsp_logits"].numpy()
    close(model(text=TEXTS, pair=PAIRS)["probability"], softmax(logits)[:, 0])


# ---- Vectors


@pytest.mark.slow
def test_an_embedder(served):
    model = served("embedding")
    answers = model(text=TEXTS)
    close(answers["embedding"], model.model(model.preprocessor(TEXTS))["embedding"].numpy())
    close(np.linalg.norm(answers["embedding"], axis=-1), np.ones(len(TEXTS)))


def numpy_pool(outputs, inputs, pooling, layers, normalize):
    if pooling == "pooled":
        vectors = np.asarray(outputs["pooled_output"])
    else:
        states = outputs.get("hidden_states") or [outputs["sequence_output"]]
        states = np.concatenate([np.asarray(states[layer]) for layer in layers], -1)
        rows = zip(states, np.asarray(inputs["padding_mask"]).astype(bool), strict=True)
        vectors = np.stack([state[mask].mean(0) if pooling == "mean" else state[0] for state, mask in rows])
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True) if normalize else vectors


@pytest.mark.parametrize(
    ("pooling", "layers", "normalize"),
    [("mean", [-1], False), ("mean", [-1, -2], True), ("cls", [0, 1], False), ("pooled", [-1], True)],
)
def test_ways_to_pool(model_of, preprocessor, pooling, layers, normalize):
    model = model_of("encoder", hidden_states=True)
    inputs = preprocessor(TEXTS)
    found = embed.pool(model(inputs), inputs["padding_mask"], pooling, layers, normalize)
    close(found.numpy(), numpy_pool(model(inputs), inputs, pooling, layers, normalize))


def test_vectors_of_an_encoder(model_of, served):
    model = served("encoder")
    inputs = model.preprocessor(TEXTS)
    close(model(text=TEXTS)["embedding"], numpy_pool(model.model(inputs), inputs, "mean", [-1], False))


# ---- What cannot be exported


@pytest.mark.parametrize(
    ("head", "options", "message"),
    [
        (
            "classification",
            {"labels": ["a", "b"]},
            r"`labels` must be names of the 3 classes. Received: labels=\['a', 'b'\]",
        ),
        ("classification", {"labels": "abc"}, "`labels` must be names of the 3 classes. Received: labels=abc"),
        ("classification", {"labels": {0: "a", 1: "b", 2: "c"}}, "`labels` must be names of the 3 classes"),
        ("regression", {"labels": ["a"]}, "`labels` must be names of the 1 classes"),
        ("encoder", {"labels": ["a"]}, "`labels` must be None for a model with head='encoder'"),
        ("token_classification", {}, "`labels` must be the names of the tags. Received: labels=None"),
        ("encoder", {"pooling": "sum"}, "`pooling` must be one of mean, max, cls, pooled. Received: pooling='sum'"),
        ("encoder", {"layers": (0,)}, "`layers` other than the last need an encoder with `hidden_states=True`"),
    ],
)
def test_what_cannot_be_exported(model_of, preprocessor, tmp_path, head, options, message):
    with pytest.raises(ValueError, match=message):
        keras_bert.export(model_of(head), preprocessor, tmp_path / "1", **options)
    assert not list(tmp_path.iterdir())


def test_layers_that_are_not_there(model_of, preprocessor):
    with pytest.raises(ValueError, match=r"`layers` must be from -2 to 1. Received: \[3\]"):
        embed.embedder(model_of("encoder", hidden_states=True), preprocessor, layers=(0, 3))


# ---- Real texts, in a process without this package

MOST = 1e-5  # Of the largest value.


@pytest.fixture(scope="module")
def uncased(data):
    return data / "vocab" / "bert-base-uncased-vocab.txt"


@pytest.fixture
def real(config, uncased):
    """Builds a small model with a whole vocabulary, and its preprocessor."""

    def make(head, length=128, **options):
        mine = dataclasses.replace(config, vocab_size=30522, max_position_embeddings=400)
        kept = ["[MASK]"] if head == "pretraining" else []
        preprocessor = keras_bert.TextPreprocessor(uncased, length, keep_special_tokens=kept, padding="longest")
        return HEADS[head].build(keras_bert.build_encoder(mine, **options)), preprocessor

    return make


@pytest.fixture
def ask(tmp_path):
    """Exports models, moves them, and asks each in one fresh process."""

    def run(jobs):
        requests = []
        for number, (model, preprocessor, options, calls) in enumerate(jobs):
            keras_bert.export(model, preprocessor, tmp_path / "here" / str(number) / "1", **options)
            (tmp_path / "there").mkdir(exist_ok=True)
            (tmp_path / "here" / str(number)).rename(tmp_path / "there" / str(number))
            calls = [[name, {key: as_request(value) for key, value in inputs.items()}] for name, inputs in calls]
            requests.append({"directory": str(tmp_path / "there" / str(number) / "1"), "calls": calls})
        served = verification.ask(requests)
        assert not [one for job in served for one in (job, *job.get("answers", [])) if "error" in one]
        return [
            [{key: verification.array(one) for key, one in got.items()} for got in job["answers"]] for job in served
        ]

    return run


def as_request(values):
    values = np.asarray(values) if not isinstance(values, list) else np.array(values, object)
    flat = [value.encode().decode("latin-1") if isinstance(value, str) else value for value in values.ravel().tolist()]
    return {"shape": list(values.shape), "values": flat}


def sentences(data, count=200):
    lines = (data / "glue" / "SST-2" / "dev.tsv").read_text().splitlines()[1:]
    return [line.split("\t")[0] for line in lines][:count]


def sentence_pairs(data, count=200):
    lines = (data / "glue" / "MRPC" / "dev.tsv").read_text("utf-8-sig").splitlines()[1:]
    return tuple(list(column) for column in zip(*(line.split("\t")[3:5] for line in lines[:count]), strict=True))


def conll(data, count=200):
    text = (data / "ner" / "conll2003_iob2" / "valid.txt").read_text()
    found = [[line.split()[0] for line in part.splitlines()] for part in text.split("\n\n") if part.strip()]
    return [" ".join(words) for words in found if words[0] != "-DOCSTART-"][:count]


def squad(data, count=200):
    """Questions, contexts."""
    articles = json.loads((data / "squad" / "dev-v1.1.json").read_text())["data"]
    pairs = [
        (paragraph["qas"][0]["question"], paragraph["context"])
        for article in articles
        for paragraph in article["paragraphs"]
    ]
    return tuple(list(column) for column in zip(*pairs[:count], strict=True))


REAL = {
    "classification": {"labels": LABELS, "pair": True},
    "regression": {},
    "token_classification": {"labels": TAGS},
    "question_answering": {},
    "pretraining": {},
    "multiple_choice": {},
    "encoder": {"pooling": "cls", "layers": [-1, -2], "normalize": True},
}


@pytest.mark.slow
def test_two_hundred_real_texts_through_every_head(real, ask, data):
    """Logits of the eager model against the logarithms of the probabilities in a fresh process."""
    single, (first, second), words = sentences(data), sentence_pairs(data), conll(data)
    masked, pairs = [f"{text} [MASK]" for text in single], {"text": first, "pair": second}
    contexts = [context for _, context in zip(*squad(data, 300), strict=True) if len(context) < 1000][:200]
    asked = {
        "classification": (pairs, (first, second)),
        "regression": ({"text": single}, single),
        "token_classification": ({"text": words}, words),
        "question_answering": ({"question": first, "context": contexts}, (first, contexts)),
        "pretraining": ({"text": masked}, masked),
        "multiple_choice": (
            {"text": first, "choices": list(map(list, zip(second, single, strict=True)))},
            ([[text] * 2 for text in first], list(map(list, zip(second, single, strict=True)))),
        ),
        "encoder": ({"text": single}, single),
    }
    jobs, eager = [], {}
    for head, options in REAL.items():
        length = 384 if head == "question_answering" else 128
        model, preprocessor = real(head, length, hidden_states=head == "encoder")
        inputs, texts = asked[head]
        ids = {name: value.numpy() for name, value in preprocessor(texts).items()}
        calls = [("serving_default", inputs), ("tokens", {name: value[:20] for name, value in ids.items()})]
        if head == "pretraining":
            # The mask of each text; what follows is asked without one.
            ids["mask_positions"] = (ids["token_ids"] == 103).argmax(-1).astype("int32")[:, None]
            calls = [("serving_default", inputs), ("next_sentence", pairs)]
            follows = {**preprocessor((first, second)), "mask_positions": tf.zeros((200, 1), tf.int32)}
            eager["next_sentence"] = run_in_parts(model, follows)
        eager[head] = run_in_parts(model, ids), ids
        jobs.append((model, preprocessor, options, calls))
    answers = dict(zip(REAL, ask(jobs), strict=True))

    def same(head, expected, got):
        assert got.shape == expected.shape, head
        assert np.abs(got - expected).max() <= MOST * np.abs(expected).max(), head

    for head in REAL:
        for name, value in answers[head][1].items() if head != "pretraining" else ():
            same(f"{head}: {name}", eager[head][0][name][:20], value)
    got = answers["classification"][0]
    logits = eager["classification"][0]["logits"]
    assert [LABELS.index(label) for label in got["label"]] == logits.argmax(-1).tolist()
    same("classification", log_softmax(logits), np.log(got["probabilities"]))
    same("regression", eager["regression"][0]["logits"][:, 0], answers["regression"][0]["score"])
    logits = eager["multiple_choice"][0]["logits"]
    assert answers["multiple_choice"][0]["choice"].tolist() == logits.argmax(-1).tolist()
    same("choice", log_softmax(logits), np.log(answers["multiple_choice"][0]["probabilities"]))
    best = -np.sort(-log_softmax(eager["pretraining"][0]["mlm_logits"][:, 0]), -1)[:, :5]
    same("masks", best, np.log(answers["pretraining"][0]["probabilities"][:, 0]))
    follows = log_softmax(eager["next_sentence"]["nsp_logits"])[:, 0]
    same("next sentence", follows, np.log(answers["pretraining"][1]["probability"]))
    outputs, ids = eager["encoder"]
    same("vectors", numpy_pool(outputs, ids, "cls", [-1, -2], True), answers["encoder"][0]["embedding"])
    same("tags", *tag_scores(*eager["token_classification"], answers["token_classification"][0], jobs[2][1]))
    same("answers", *best_scores(*eager["question_answering"], answers["question_answering"][0], contexts))


def tag_scores(outputs, ids, answers, preprocessor):
    """Expected and found log-probabilities of all words."""
    is_continuation = np.array([piece.startswith("##") for piece in preprocessor.vocabulary.pieces])
    expected, got = [], []
    for row, end in enumerate(ids["padding_mask"].sum(1) - 1):
        logits = outputs["logits"][row, 1 + np.flatnonzero(~is_continuation[ids["token_ids"][row, 1:end]])]
        count = int(answers["token_count"][row])
        assert [TAGS.index(tag) for tag in answers["tags"][row][:count]] == logits.argmax(-1).tolist()
        got.append(np.log(answers["scores"][row][:count]))
        expected.append(log_softmax(logits).max(-1))
    return np.concatenate(expected), np.concatenate(got)


def best_scores(outputs, ids, answers, contexts):
    """Expected and found scores of the best spans."""
    expected = []
    for row, count in enumerate(ids["padding_mask"].sum(1)):
        begin = int(np.flatnonzero(ids["segment_ids"][row])[0])
        start, end = (outputs[name][row, begin : count - 1] for name in ("start_logits", "end_logits"))
        length = np.arange(len(end)) - np.arange(len(start))[:, None]
        expected.append(np.where((length >= 0) & (length < 30), start[:, None] + end, -np.inf).max())
        part = contexts[row].encode()[answers["start"][row] : answers["end"][row]]
        assert part == answers["answer"][row].encode("latin-1")
    return np.array(expected), answers["score"]


def log_softmax(logits):
    logits = logits - logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def run_in_parts(model, inputs):
    """The outputs of a model called eagerly on 50 rows at a time, as arrays; hidden states as a list of them."""
    parts = [
        model({name: value[start : start + 50] for name, value in inputs.items()})
        for start in range(0, len(inputs["token_ids"]), 50)
    ]
    return keras.tree.map_structure(lambda *values: np.concatenate([np.asarray(one) for one in values]), *parts)


@pytest.mark.slow
def test_published_similarities_out_of_a_saved_model(golden, minilm, ask):
    published = json.loads((golden / "minilm_published_values.json").read_text())["cases"]
    bert = keras_bert.load(minilm)
    calls = [("serving_default", {"text": case["sentences"]}) for case in published]
    job = (bert.encoder, bert.preprocessor(128), {"pooling": "mean", "normalize": True}, calls)
    ((several, hello),) = ask([job])
    similarity = several["embedding"] @ several["embedding"].T
    np.testing.assert_allclose(similarity, published[0]["cosine_similarity"], atol=published[0]["tolerance"])
    np.testing.assert_allclose(hello["embedding"][0, :5], published[1]["first_values"], atol=published[1]["tolerance"])
    np.testing.assert_allclose(np.linalg.norm(several["embedding"], axis=-1), 1, atol=1e-6)


def test_rows_of_like_length_are_computed_together():
    """Each row comes back in its place, with all that it has and no more padding than its group needs."""
    lengths = np.array([5, 2, 9, 2, 7, 3, 2])
    mask = np.arange(9) < lengths[:, None]
    ids = np.where(mask, np.arange(7)[:, None] + 1, 0)
    inputs = {"token_ids": tf.constant(ids, tf.int32), "padding_mask": tf.cast(mask, tf.int32)}
    seen = []

    def run(part):
        seen.append(part["token_ids"].shape.as_list())
        return tf.cast(
            tf.stack([tf.reduce_max(part["token_ids"], 1), tf.reduce_sum(part["padding_mask"], 1)], 1), "float32"
        )

    found = in_groups(run, inputs, [2], 3)
    assert found.numpy().tolist() == [[row + 1, length] for row, length in enumerate(lengths)]
    assert seen == [[3, 2], [3, 7], [1, 9]]
    np.testing.assert_array_equal(in_groups(run, inputs, [2], None), found)
    none = {name: value[:0] for name, value in inputs.items()}
    assert in_groups(run, none, [2], 3).shape == (0, 2)

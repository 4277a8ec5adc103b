"""SavedModels answer what the Keras model and plain Python over it answer, for every head.

The expectations use the Keras models and NumPy; words, pieces, windows, spans and entities are written a second time.
"""

import csv
import dataclasses
import functools
import hashlib
import importlib.metadata
import json
import logging
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
from keras_bert.text.spans import best_spans, max_context, sliding_windows, window_slices  # noqa: E402

TEXTS = ["a b", "c!", "", "d e f g"]
PAIRS = ["x", "y z", "a", ""]
LABELS = ["no", "yes", "maybe"]
TAGS = ["O", *(f"{prefix}-{kind}" for kind in ("PER", "LOC", "ORG", "MISC") for prefix in "BI")]
OPTIONS = {
    "classification": {"labels": LABELS},
    "token_classification": {"labels": TAGS, "stride": np.int64(7)},
}
FUNCTIONS = {
    "classification": functools.partial(classify.classifier, pair=False),
    "regression": functools.partial(classify.regressor, pair=False),
    "token_classification": tag.tagger,
    "question_answering": answer.answerer,
    "pretraining": fill_mask.filler,
    "multiple_choice": classify.chooser,
    "encoder": embed.embedder,
}
# What a client may send: nothing, white space, no UTF-8, more than a window, other scripts, a sigma, zeros.
STRANGE = [b"", b" \n", b"\xff\xfea b\xc3", "Ünïcödé ΣΑΣ 今天".encode(), b"a " * 60, b"a\0b", b"[MASK]"]


@dataclasses.dataclass
class Served:
    """A model, and its signatures by name."""

    model: keras.Model
    preprocessor: keras_bert.TextPreprocessor
    signatures: dict
    directory: object = None
    loaded: object = None  # Holds the weights.

    def __call__(self, signature="serving_default", **inputs):
        function = self.signatures[signature]
        tensors = {name: tf.constant(value) for name, value in inputs.items()}
        if self.loaded is None:  # A function of ours takes them by place.
            answers = function(*(tensors[spec.name] for spec in function.input_signature))
        else:
            answers = function(**tensors)
        return {name: value.numpy() for name, value in answers.items()}


@pytest.fixture(scope="module")
def shelf():
    return {}


@pytest.fixture
def exported(build, preprocessor, shelf, tmp_path_factory):
    """Makes a model by its head and loads its SavedModel from another folder than it was written to; once each."""

    def make(head, pair=False):
        if (head, pair) not in shelf:
            model, folder = draw(build(head)), tmp_path_factory.mktemp("served")
            keras_bert.export(model, preprocessor, folder / "here" / "1", pair=pair, **OPTIONS.get(head, {}))
            (folder / "here").rename(folder / "there")
            loaded = tf.saved_model.load(folder / "there" / "1")
            shelf[head, pair] = Served(model, preprocessor, loaded.signatures, folder / "there" / "1", loaded)
        return shelf[head, pair]

    return make


@pytest.fixture(params=["functions", pytest.param("saved_model", marks=pytest.mark.slow)])
def served(request, build, preprocessor, shelf, exported):
    """The same; in the quick run the functions that would be exported."""

    def make(head):
        if head not in shelf:
            model, kept = draw(build(head)), ["[MASK]"] if head == "pretraining" else []
            mine = type(preprocessor).from_config({**preprocessor.get_config(), "keep_special_tokens": kept})
            shelf[head] = Served(model, mine, FUNCTIONS[head](model, mine, **OPTIONS.get(head, {})))
        return shelf[head]

    return make if request.param == "functions" else exported


@pytest.fixture(scope="module")
def preprocessor(pieces):
    return keras_bert.TextPreprocessor(pieces, 20, padding="longest")


def draw(model):
    """Heads with weights so large that a wrong one shows."""
    rng = np.random.default_rng(0)
    for name in ("classifier", "token_classifier", "span", "choice_scorer", "next_sentence"):
        for layer in model.layers:
            if layer.name == name:
                layer.set_weights([rng.normal(scale=0.25, size=weight.shape) for weight in layer.get_weights()])
    return model


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


@pytest.mark.parametrize("pair", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_text_model(build, preprocessor, pair):
    model = build("classification")
    inputs = {"text": np.array(TEXTS, object), **({"pair": np.array(PAIRS, object)} if pair else {})}
    expected = model(preprocessor((TEXTS, PAIRS) if pair else TEXTS))["logits"]
    text_model = keras_bert.build_text_model(model, preprocessor, pair=pair)
    np.testing.assert_allclose(text_model.predict(inputs, verbose=0)["logits"], expected, atol=1e-5)


# ---- Every head


# The two with windows; the others in the slow run.
QUICK = ("token_classification", "question_answering")


@pytest.mark.parametrize(
    "head", [pytest.param(head, marks=[] if head in QUICK else [pytest.mark.slow]) for head in FUNCTIONS]
)
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


@pytest.mark.parametrize("head", ["classification", pytest.param("encoder", marks=pytest.mark.slow)])
def test_the_model_alone_on_ids(exported, head):
    model = exported(head)
    inputs = {name: value.numpy() for name, value in model.preprocessor(TEXTS).items()}
    expected = model.model(inputs)
    for name, value in model("tokens", **inputs).items():
        close(value, expected[name].numpy())


def test_facts_and_warmup(exported, pieces):
    folder = exported("classification").directory / "assets.extra"
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
        inputs = {key: tf.make_ndarray(value) for key, value in request.inputs.items()}
        assert exported("classification")(name, **inputs)


def test_nothing_is_left_beside_an_export(exported):
    folder = exported("classification").directory
    assert [path.name for path in folder.parent.iterdir()] == ["1"]
    assert {path.name for path in folder.iterdir()} >= {"saved_model.pb", "variables", "assets.extra"}


# ---- Classification and regression


@pytest.mark.parametrize("pair", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_classifier(exported, pair):
    model = exported("classification", pair)
    inputs = {"text": TEXTS, **({"pair": PAIRS} if pair else {})}
    answers = model(**inputs)
    expected = softmax(model.model(model.preprocessor((TEXTS, PAIRS) if pair else TEXTS))["logits"].numpy())
    close(answers["probabilities"], expected)
    assert strings(answers["label"].tolist()) == [LABELS[index] for index in expected.argmax(-1)]
    assert strings(answers["labels"].tolist()) == [LABELS] * 4
    # tf.Examples, in their own API.
    classified = model("classify", inputs=examples(inputs))
    close(classified["scores"], expected)
    assert strings(classified["classes"].tolist()) == [LABELS] * 4
    assert method_names(model.directory)["classify"] == "tensorflow/serving/classify"
    assert method_names(model.directory)["serving_default"] == "tensorflow/serving/predict"


def examples(inputs):
    """A serialized `tf.Example` for each text."""

    def feature(text):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()]))

    rows = [dict(zip(inputs, row, strict=True)) for row in zip(*inputs.values(), strict=True)]
    features = [{name: feature(text) for name, text in row.items()} for row in rows]
    return [tf.train.Example(features=tf.train.Features(feature=one)).SerializeToString() for one in features]


def method_names(directory):
    saved = saved_model_pb2.SavedModel.FromString((directory / "saved_model.pb").read_bytes())
    (graph,) = saved.meta_graphs
    return {name: signature.method_name for name, signature in graph.signature_def.items()}


def test_regression(served):
    model = served("regression")
    expected = model.model(model.preprocessor(TEXTS))["logits"].numpy()[:, 0]
    answers = model(text=TEXTS)
    assert list(answers) == ["score"]
    close(answers["score"], expected)
    close(model("regress", inputs=examples({"text": TEXTS}))["outputs"], expected)
    if model.directory:
        assert method_names(model.directory)["regress"] == "tensorflow/serving/regress"


def test_an_export_after_one_that_was_killed(build, preprocessor, tmp_path):
    """The killed one got as far as the folder beside the graph."""
    (tmp_path / "writing-1" / "assets.extra").mkdir(parents=True)
    (tmp_path / "writing-1" / "half").touch()
    keras_bert.export(build("regression"), preprocessor, tmp_path / "1")
    assert [path.name for path in tmp_path.iterdir()] == ["1"]
    assert not (tmp_path / "1" / "half").exists()


def test_an_export_replaces_what_was_there_and_needs_no_labels(build, preprocessor, tmp_path):
    (tmp_path / "1" / "assets.extra").mkdir(parents=True)
    (tmp_path / "1" / "old").write_text("old")
    model = build("classification")
    # Twice: without names, and with numbers of NumPy in their place.
    for labels, names in ((None, ["LABEL_0", "LABEL_1", "LABEL_2"]), (np.array([3, 1, 2]), ["3", "1", "2"])):
        keras_bert.export(model, preprocessor, tmp_path / "1", labels=labels)
        assert not (tmp_path / "1" / "old").exists()
        probes = json.loads((tmp_path / "1" / "assets.extra" / "probes.json").read_text())
        assert probes["serving_default"]["outputs"]["labels"] == [names] * 4
    facts = json.loads((tmp_path / "1" / "assets.extra" / "keras_bert.json").read_text())
    assert facts["labels"] == ["3", "1", "2"]


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
    " ".join(["abcdefghij", "klm", "nop!"] * 9),
]


def test_words_tags_and_offsets(served, pieces):
    """Also far beyond the window of 18 pieces, in accents and in Chinese; entities by a slow loop."""
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
    np.testing.assert_allclose(tag._means(scores, found).to_list(), [[0.7]], rtol=1e-6)


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


def test_answers_over_windows_the_best_few_and_none(build, preprocessor, pieces):
    model = draw(build("question_answering"))
    options = {"stride": 5, "max_question_length": 4, "max_answer_length": 3, "top": 3}
    function = answer.answerer(model, preprocessor, **options)["serving_default"]
    context = " ".join(["abc", "d", "ef", "ghi", "j"] * 6)
    answers = function(tf.constant(["k l m n o p"]), tf.constant([context]))
    spans, _ = slow_answers(model, pieces, "k l m n", context, 20, 5, 3)
    assert list(zip(answers["starts"][0].numpy(), answers["ends"][0].numpy(), strict=True)) == [
        span[1:] for span in spans[:3]
    ]
    assert [part.decode() for part in answers["answers"][0].numpy()] == [context[a:b] for _, a, b in spans[:3]]
    scores = np.array([span[0] for span in spans[:3]])
    np.testing.assert_allclose(answers["scores"][0], scores, rtol=1e-5)
    np.testing.assert_allclose(answers["probabilities"][0], softmax(scores), rtol=1e-4)
    assert answers["answer"][0] == answers["answers"][0, 0]


@pytest.mark.parametrize(("shift", "answered"), [(0.01, True), pytest.param(-0.01, False, marks=pytest.mark.slow)])
def test_no_answer_below_a_threshold(build, preprocessor, pieces, shift, answered):
    model = draw(build("question_answering"))
    spans, null = slow_answers(model, pieces, "ab", "cd e f", 20, 128, 30)
    threshold = float(null - spans[0][0]) + shift
    function = answer.answerer(model, preprocessor, null_threshold=threshold)["serving_default"]
    answers = function(tf.constant(["ab"]), tf.constant(["cd e f"]))
    assert (int(answers["start"][0]) >= 0, bytes(answers["answer"][0].numpy()) != b"") == (answered, answered)
    np.testing.assert_allclose(answers["null_score"][0], null, rtol=1e-5)


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


def test_without_a_head_for_it_there_is_no_next_sentence(build, preprocessor):
    assert list(fill_mask.filler(build("mlm"), preprocessor)) == ["serving_default"]


# ---- Vectors


def test_an_embedding(served):
    model = served("encoder")
    inputs = model.preprocessor(TEXTS)
    close(model(text=TEXTS)["embedding"], numpy_pool(model.model(inputs), inputs, "mean", [-1], False))


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
    [
        ("mean", [-1, -2], True),
        pytest.param("cls", [0, 2], False, marks=pytest.mark.slow),
        pytest.param("cls", [-1], True, marks=pytest.mark.slow),
        pytest.param("pooled", [-1], True, marks=pytest.mark.slow),
    ],
)
def test_ways_to_pool(build, preprocessor, pooling, layers, normalize):
    model = build("encoder", hidden_states=True)
    function = embed.embedder(model, preprocessor, pooling, layers, normalize)["serving_default"]
    inputs = preprocessor(TEXTS)
    expected = numpy_pool(model(inputs), inputs, pooling, layers, normalize)
    close(function(tf.constant(TEXTS))["embedding"].numpy(), expected)


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
def test_what_cannot_be_exported(build, preprocessor, tmp_path, head, options, message):
    with pytest.raises(ValueError, match=message):
        keras_bert.export(build(head), preprocessor, tmp_path / "1", **options)
    assert not list(tmp_path.iterdir())


def test_layers_that_are_not_there(build, preprocessor):
    with pytest.raises(ValueError, match=r"`layers` must be from -3 to 2. Received: \[3\]"):
        embed.embedder(build("encoder", hidden_states=True), preprocessor, layers=(0, 3))


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
        encoder = keras_bert.build_encoder(mine, **options)
        builders = {
            "encoder": lambda encoder: encoder,
            "classification": lambda encoder: keras_bert.build_classifier(encoder, 3),
            "regression": lambda encoder: keras_bert.build_classifier(encoder, 1),
            "token_classification": lambda encoder: keras_bert.build_token_classifier(encoder, 9),
            "question_answering": keras_bert.build_span_labeler,
            "pretraining": keras_bert.build_pretrainer,
            "multiple_choice": keras_bert.build_multiple_choice,
        }
        kept = ["[MASK]"] if head == "pretraining" else []
        preprocessor = keras_bert.TextPreprocessor(uncased, length, keep_special_tokens=kept, padding="longest")
        return draw(builders[head](encoder)), preprocessor

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


def choices(data, count=200):
    found = []
    for path in sorted((data / "swag" / "stand_in_arc").glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            found += [row[:5] for row in csv.reader(file) if len(row) == 6 and row[0] != "question"]
    return [row[0] for row in found[:count]], [row[1:] for row in found[:count]]


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


def log_softmax(logits):
    logits = logits - logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


@dataclasses.dataclass
class Case:
    """What a signature is asked; `check` makes what it should give and what it gave of answers, ids and outputs."""

    head: str
    inputs: dict
    ids: object  # What the model gets, of its preprocessor.
    check: object
    options: dict = dataclasses.field(default_factory=dict)
    signature: str = "serving_default"
    length: int = 128
    hidden_states: bool = False


def cases(data):
    single, pair, (stems, endings), words = sentences(data), sentence_pairs(data), choices(data), conll(data)
    masked = [f"{text} [MASK]" for text in single]
    # Contexts that fit into one window.
    asked, contexts = zip(*(row for row in zip(*squad(data, 300), strict=True) if len(row[1]) < 1000), strict=True)
    text, texts = {"text": single}, {"text": pair[0], "pair": pair[1]}

    def vectors(pooling, layers, normalize):
        check = functools.partial(check_vectors, pooling, layers, normalize)
        options = {"pooling": pooling, "layers": layers, "normalize": normalize}
        return Case("encoder", text, lambda run: run(single), check, options, hidden_states=len(layers) > 1)

    return {
        "classification": Case("classification", text, lambda run: run(single), check_label, {"labels": LABELS}),
        "pairs": Case("classification", texts, lambda run: run(pair), check_label, {"labels": LABELS, "pair": True}),
        "regression": Case("regression", text, lambda run: run(single), check_score),
        "tags": Case("token_classification", {"text": words}, lambda run: run(words), check_tags, {"labels": TAGS}),
        "answers": Case(
            "question_answering",
            {"question": list(asked), "context": list(contexts)},
            lambda run: run((list(asked), list(contexts))),
            functools.partial(check_spans, contexts),
            length=384,
        ),
        "masks": Case("pretraining", {"text": masked}, lambda run: with_masks(run(masked)), check_fillers),
        "next sentence": Case("pretraining", texts, lambda run: with_masks(run(pair)), check_next, {}, "next_sentence"),
        "choices": Case(
            "multiple_choice",
            {"text": stems, "choices": endings},
            lambda run: run(([[stem] * 4 for stem in stems], endings)),
            check_choice,
        ),
        "mean": vectors("mean", [-1], False),
        "cls": vectors("cls", [-1, -2], True),
        "pooled": vectors("pooled", [-1], False),
    }


def with_masks(inputs):
    """Asks for the first [MASK], or for [CLS]."""
    return {**inputs, "mask_positions": tf.argmax(inputs["token_ids"] == 103, -1, tf.int32)[:, None]}


def check_label(answers, _, outputs):
    assert [LABELS.index(label) for label in answers["label"]] == outputs["logits"].argmax(-1).tolist()
    return log_softmax(outputs["logits"]), np.log(answers["probabilities"])


def check_score(answers, _, outputs):
    return outputs["logits"][:, 0], answers["score"]


def check_choice(answers, _, outputs):
    assert answers["choice"].tolist() == outputs["logits"].argmax(-1).tolist()
    return log_softmax(outputs["logits"]), np.log(answers["probabilities"])


def check_next(answers, _, outputs):
    return log_softmax(outputs["nsp_logits"])[:, 0], np.log(answers["probability"])


def check_fillers(answers, _, outputs):
    best = -np.sort(-log_softmax(outputs["mlm_logits"][:, 0]), -1)[:, :5]
    return best, np.log(answers["probabilities"][:, 0])


def check_tags(answers, ids, outputs):
    is_continuation = np.array([piece.startswith("##") for piece in ids["pieces"]])
    got, expected = [], []
    for row, end in enumerate(ids["padding_mask"].sum(1) - 1):
        logits = outputs["logits"][row, 1 + np.flatnonzero(~is_continuation[ids["token_ids"][row, 1:end]])]
        count = int(answers["token_count"][row])
        assert [TAGS.index(tag) for tag in answers["tags"][row][:count]] == logits.argmax(-1).tolist()
        got.append(np.log(answers["scores"][row][:count]))
        expected.append(log_softmax(logits).max(-1))
    return np.concatenate(expected), np.concatenate(got)


def check_spans(contexts, answers, ids, outputs):
    expected = []
    for row, count in enumerate(ids["padding_mask"].sum(1)):
        begin = int(np.flatnonzero(ids["segment_ids"][row])[0])
        start, end = (outputs[name][row, begin : count - 1] for name in ("start_logits", "end_logits"))
        length = np.arange(len(end)) - np.arange(len(start))[:, None]
        expected.append(np.where((length >= 0) & (length < 30), start[:, None] + end, -np.inf).max())
        part = contexts[row].encode()[answers["start"][row] : answers["end"][row]]
        assert part == answers["answer"][row].encode("latin-1")
    return np.array(expected), answers["score"]


def check_vectors(pooling, layers, normalize, answers, ids, outputs):
    return numpy_pool(outputs, ids, pooling, layers, normalize), answers["embedding"]


def run_in_parts(model, inputs):
    """The outputs of a model called eagerly on 50 rows at a time, as arrays; hidden states as a list of them."""
    parts = [
        model({name: value[start : start + 50] for name, value in inputs.items()})
        for start in range(0, len(inputs["token_ids"]), 50)
    ]
    return keras.tree.map_structure(lambda *values: np.concatenate([np.asarray(one) for one in values]), *parts)


@pytest.mark.slow
def test_two_hundred_real_texts_through_every_head(real, ask, data):
    jobs, eager = [], []
    for case in cases(data).values():
        options = {"hidden_states": True} if case.hidden_states else {}
        model, preprocessor = real(case.head, case.length, **options)
        ids = {name: value.numpy() for name, value in case.ids(preprocessor).items()}
        assert len(ids["token_ids"]) >= 200
        some = {name: value[:20] for name, value in ids.items()}
        jobs.append((model, preprocessor, case.options, [(case.signature, case.inputs), ("tokens", some)]))
        eager.append((run_in_parts(model, ids), {**ids, "pieces": preprocessor.vocabulary.pieces}))
    differences = {}
    for (name, case), (outputs, ids), (answers, alone) in zip(cases(data).items(), eager, ask(jobs), strict=True):
        pairs = {name: case.check(answers, ids, outputs)}
        pairs |= {f"{name}: {key}": (outputs[key][:20], value) for key, value in alone.items()}
        for key, (expected, got) in pairs.items():
            assert got.shape == expected.shape
            differences[key] = float(np.abs(got - expected).max() / np.abs(expected).max())
    logging.getLogger(__name__).info("differences: %s", differences)
    assert {name: value for name, value in differences.items() if not value <= MOST} == {}


@pytest.mark.slow
def test_an_answer_in_five_thousand_words(real, ask, data):
    """As the functions of `text/spans.py` find it, run eagerly over all windows at once."""
    model, preprocessor = real("question_answering", 128)
    words = " ".join(squad(data, 100)[1]).split()[:5000]
    question, context = "Where did the Broncos play — in Zürich?", " ".join(words)
    ids, starts, ends = preprocessor.tokenizer.with_offsets([context])
    asked = preprocessor.tokenizer([question])
    offset = int(asked.row_lengths()[0]) + 2
    windows = sliding_windows(ids.row_lengths(), 128 - 1 - offset, 64)
    assert len(windows.start) > 80
    inputs = preprocessor.pack(tf.gather(asked, windows.example), window_slices(ids, windows))
    outputs = model(inputs)
    logits = outputs["start_logits"], outputs["end_logits"]
    spans = best_spans(*logits, windows, tf.fill(tf.shape(windows.start), offset), max_context(windows), 30, 1)
    first, last = int(spans.start[0, 0]), int(spans.end[0, 0])
    call = ("serving_default", {"question": [question], "context": [context]})
    ((answers,),) = ask([(model, preprocessor, {"stride": 64}, [call])])
    assert (answers["start"][0], answers["end"][0]) == (int(starts[0, first]), int(ends[0, last]))
    assert answers["answer"][0].encode("latin-1") == context.encode()[answers["start"][0] : answers["end"][0]]
    np.testing.assert_allclose(answers["score"], spans.score[:, 0], rtol=MOST)
    np.testing.assert_allclose(answers["null_score"], spans.null_score, rtol=MOST)


@pytest.mark.slow
def test_a_long_text_is_tagged_to_its_end(real, ask, data):
    """As plain Python tags it, window by window."""
    model, preprocessor = real("token_classification", 64)
    text = " ".join(conll(data, 60))
    ((answers,),) = ask(
        [(model, preprocessor, {"labels": TAGS, "stride": 30}, [("serving_default", {"text": [text]})])]
    )
    expected = slow_tags(model, list(preprocessor.vocabulary.pieces), text, 64, 30)
    assert len(expected) > 500
    assert expected[-1][2] == len(text.encode())
    columns = (answers[name][0].tolist() for name in ("tokens", "starts", "ends", "tags"))
    found = list(zip(*columns, strict=True))
    assert found == [one[:4] for one in expected]
    np.testing.assert_allclose(answers["scores"][0], [one[4] for one in expected], rtol=1e-4)


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


RARER = {
    "multi_label": lambda encoder: keras_bert.build_classifier(encoder, 3, multi_label=True),
    "next_sentence": keras_bert.build_next_sentence,
    "embedding": lambda encoder: keras_bert.build_embedder(encoder, normalize=True),
}


@pytest.mark.parametrize("head", ["multi_label", *(pytest.param(h, marks=pytest.mark.slow) for h in list(RARER)[1:])])
def test_the_rarer_heads(build, preprocessor, tmp_path, head):
    model = draw(RARER[head](build("encoder")))
    labels = LABELS if head == "multi_label" else None
    keras_bert.export(model, preprocessor, tmp_path / "1", labels=labels)
    loaded = tf.saved_model.load(tmp_path / "1")
    served = Served(model, preprocessor, loaded.signatures, loaded=loaded)
    inputs = {"text": TEXTS, "pair": PAIRS} if head == "next_sentence" else {"text": TEXTS}
    answers = served(**inputs)
    outputs = model(preprocessor(inputs), training=False)
    if head == "multi_label":
        logits = outputs["logits"].numpy()
        assert set(answers) == {"labels", "probabilities", "predicted"}
        close(answers["probabilities"], 1 / (1 + np.exp(-logits)))
        np.testing.assert_array_equal(answers["predicted"], logits >= 0)
        assert strings(answers["labels"].tolist()) == [LABELS] * len(TEXTS)
    elif head == "next_sentence":
        close(answers["probability"], softmax(outputs["nsp_logits"].numpy())[:, 0])
    else:
        close(answers["embedding"], outputs["embedding"].numpy())
        close(np.linalg.norm(answers["embedding"], axis=-1), np.ones(len(TEXTS)))

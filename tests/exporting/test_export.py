"""SavedModels of every head give the same answers as the Keras model with NumPy.

Pieces and their offsets, windows and entities have tests of their own in tests/text; their plain loops are used here.
"""

import dataclasses
import functools
import math
import shutil
from unittest import mock

import keras
import numpy as np
import pytest
from scipy.special import expit, softmax

import keras_bert

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

from tensorflow.core.protobuf import saved_model_pb2  # noqa: E402

from keras_bert.answering import answerer  # noqa: E402
from keras_bert.exporting import export  # noqa: E402
from keras_bert.exporting.export import build_signatures  # noqa: E402
from keras_bert.heads import embedding_signatures as embed  # noqa: E402
from keras_bert.heads import token_signatures as tag  # noqa: E402
from keras_bert.text.signatures import on_ids  # noqa: E402
from tests.exporting.conftest import LABELS, TAGS, THRESHOLDS  # noqa: E402
from tests.text.test_entities import slow_entities  # noqa: E402
from tests.text.test_views import slow_max_context, slow_windows  # noqa: E402

TEXTS = ["a b", "c!", "", "d e f g"]
PAIRS = ["x", "y z", "a", ""]
NULL_THRESHOLD = 0.0
OPTIONS = {
    "multi_label": {"pair": True, "thresholds": THRESHOLDS},
    "token_classification": {"labels": TAGS, "doc_stride": 7},
    "question_answering": {
        "doc_stride": 5,
        "max_question_length": 4,
        "max_answer_length": 3,
        "n_best": 3,
        "null_threshold": NULL_THRESHOLD,
    },
    "replaced_token_detection": {"doc_stride": 7},
}
HEADS_OF_TEXTS = ["token_classification", "question_answering", "pretraining", "multiple_choice", "encoder"]
# Unusual requests: empty, white space, invalid UTF-8, more than a window, other scripts, a sigma, zeros.
STRANGE = [b"", b" \n", b"\xff\xfea b\xc3", "Ünïcödé ΣΑΣ 今天".encode(), b"a " * 60, b"a\0b", b"[MASK]"]


@dataclasses.dataclass
class Served:
    """A model and its signatures by name: Python functions before export, or concrete functions after it."""

    model: keras.Model
    preprocessor: keras_bert.TextPreprocessor
    signatures: dict
    directory: object = None
    is_loaded: bool = False  # Then graphs answer.

    def __call__(self, signature="serving_default", **inputs):
        tensors = {name: tf.constant(value) for name, value in inputs.items()}
        function = self.signatures[signature]
        if self.is_loaded:
            answers = function(**tensors)
        else:
            answers = function.python_function(*tensors.values())
        return {name: value.numpy() for name, value in answers.items()}

    def outputs(self, texts):
        """Returns the outputs of the Keras model for texts or pairs, arrays by name, and the mask of the texts."""
        inputs = self.preprocessor(texts)
        outputs = {name: value.numpy() for name, value in self.model(inputs).items()}
        return outputs, inputs["padding_mask"].numpy()


@pytest.fixture(scope="module")
def served(model_of, preprocessor, exported, loaded_classifier):
    """The functions of a head's signatures, run eagerly; the classifier comes from its SavedModel."""
    masking = type(preprocessor).from_config(preprocessor.get_config() | {"keep_special_tokens": ["[MASK]"]})

    @functools.cache
    def make(head):
        model = model_of(head)
        if head == "classification":
            return Served(model, preprocessor, loaded_classifier.signatures, exported(head), is_loaded=True)
        tokenizer = masking if head == "pretraining" else preprocessor
        return Served(model, tokenizer, build_signatures(model, tokenizer, **OPTIONS.get(head, {})))

    return make


def strings(values):
    """Decodes nested lists to `str`."""
    if isinstance(values, list):
        return [strings(value) for value in values]
    return values.decode()


def close(value, expected, most=1e-5):
    """Compares arrays, relative to the largest expected value."""
    assert np.shape(value) == np.shape(expected)
    assert np.abs(value - expected).max() <= most * np.abs(expected).max()


# ---- Plain loops over one text at a time


def run_one(model, ids, first_segment):
    """The outputs of a model for one sequence without padding."""
    ids = np.array([ids], "int32")
    segments = (np.arange(ids.shape[1]) >= first_segment).astype("int32")[None]
    outputs = model({"token_ids": ids, "segment_ids": segments, "padding_mask": np.ones_like(ids)})
    return {name: value[0].numpy() for name, value in outputs.items()}


def slow_tags(model, preprocessor, words, doc_stride):
    """(tags, scores) of the words of a text of any length."""
    first_pieces = []
    ids = []
    for pieces in preprocessor.tokenizer(tf.constant(words, tf.string)).to_list():
        first_pieces.append(len(ids))
        ids += pieces
    logits = slow_logits(model, preprocessor, ids, doc_stride)
    probabilities = softmax(logits, axis=-1)[np.array(first_pieces, int)]
    return [TAGS[index] for index in probabilities.argmax(-1)], probabilities.max(-1)


def slow_logits(model, preprocessor, ids, doc_stride):
    """The logits of the pieces of a text of any length."""
    windows = slow_windows([len(ids)], [preprocessor.sequence_length - 2], doc_stride)
    logits = []
    for (_, start, size), best in zip(windows, slow_max_context(windows), strict=True):
        of_window = run_one(model, [2, *ids[start : start + size], 3], size + 2)["logits"]
        logits.append(of_window[1:-1][np.array(best, bool)])
    return np.concatenate(logits)


def slow_answers(model, preprocessor, question, context, doc_stride, longest):
    """[(score, start, end)] of all spans in bytes, best first, and the score of none."""
    (asked,) = preprocessor.tokenizer([question]).to_list()
    (ids,), (starts,), (ends,) = (values.to_list() for values in preprocessor.tokenizer.with_offsets([context]))
    begin = len(asked) + 2
    windows = slow_windows([len(ids)], [preprocessor.sequence_length - begin - 1], doc_stride)
    spans = []
    nulls = []
    for (_, first, size), best in zip(windows, slow_max_context(windows), strict=True):
        outputs = run_one(model, [2, *asked, 3, *ids[first : first + size], 3], begin)
        start_logits = outputs["start_logits"]
        end_logits = outputs["end_logits"]
        nulls.append(start_logits[0] + end_logits[0])
        for start in np.flatnonzero(best):
            for end in range(start, min(size, start + longest)):
                score = start_logits[begin + start] + end_logits[begin + end]
                spans.append((score, starts[first + start], ends[first + end]))
    return sorted(spans, key=lambda span: -span[0]), min(nulls)


# ---- A Keras model of texts


def test_text_model(model_of, preprocessor):
    """It takes a dict of arrays, and `predict` lists of texts and arrays, too."""
    model = model_of("classification")
    expected = model(preprocessor((TEXTS, PAIRS)))["logits"]
    text_model = keras_bert.build_text_model(model, preprocessor, pair=True)
    texts = np.array(TEXTS, object)
    pairs = np.array(PAIRS, object)
    np.testing.assert_allclose(text_model({"text": texts, "pair": pairs})["logits"], expected, atol=1e-5)
    for columns in ((TEXTS, PAIRS), [texts, pairs]):
        found = text_model.predict(columns, verbose=0)
        np.testing.assert_allclose(found["logits"], expected, atol=1e-5)
    for wrong, message in (
        ("a", "`x` must be a tuple of two lists of texts, at least one"),
        (["a"], r"`x` must be .*Received: \['text'\]"),
        (([], []), "`x` must be"),
        ([{"text": "a"}], "`text` must be strings.*Received: {'text': 'a'}"),
    ):
        with pytest.raises(ValueError, match=message):
            text_model.predict(wrong)


def test_a_text_model_of_one_text(model_of, preprocessor):
    text_model = keras_bert.build_text_model(model_of("classification"), preprocessor)
    with pytest.raises(ValueError, match="`x` must be a list of texts, at least one. Received: .'text', 'pair'"):
        text_model.predict((TEXTS, PAIRS))


def test_a_text_model_has_a_row_for_each_text(model_of, preprocessor):
    windows = keras_bert.TextPreprocessor(preprocessor, 8, long_texts="windows")
    with pytest.raises(ValueError, match="`preprocessor` must return one sequence .* long_texts='windows'"):
        keras_bert.build_text_model(model_of("classification"), windows)


# ---- Answers to whole texts


@pytest.mark.parametrize("head", ["classification", *HEADS_OF_TEXTS])
def test_outputs_start_with_the_batch_dimension_and_are_finite(served, head):
    """For an empty batch, empty texts and invalid UTF-8."""
    model = served(head)
    if head == "multiple_choice":  # Eagerly, an empty batch of choices raises.
        model = dataclasses.replace(model, is_loaded=True)
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


def test_a_classifier(served):
    classifier = served("classification")
    outputs, _ = classifier.outputs(TEXTS)
    logits = outputs["logits"]
    answers = classifier(text=TEXTS)
    close(answers["probabilities"], softmax(logits, axis=-1))
    assert strings(answers["label"].tolist()) == [LABELS[index] for index in logits.argmax(-1)]
    assert strings(answers["labels"].tolist()) == [LABELS] * 4


def test_a_classifier_of_ids(served):
    classifier = served("classification")
    outputs, _ = classifier.outputs(TEXTS)
    ids = {name: value.numpy() for name, value in classifier.preprocessor(TEXTS).items()}
    close(classifier("tokens", **ids)["logits"], outputs["logits"])


def test_the_classify_api(served):
    """It takes `tf.train.Example`s, and has a method of its own."""
    classifier = served("classification")
    outputs, _ = classifier.outputs(TEXTS)
    classified = classifier("classify", inputs=examples(TEXTS))
    close(classified["scores"], softmax(outputs["logits"], axis=-1))
    assert strings(classified["classes"].tolist()) == [LABELS] * 4
    saved = saved_model_pb2.SavedModel.FromString((classifier.directory / "saved_model.pb").read_bytes())
    signatures = saved.meta_graphs[0].signature_def
    assert signatures["classify"].method_name == "tensorflow/serving/classify"
    assert signatures["serving_default"].method_name == "tensorflow/serving/predict"


def examples(texts):
    """A serialized `tf.train.Example` for each text."""
    rows = []
    for text in texts:
        example = tf.train.Example()
        example.features.feature["text"].bytes_list.value.append(text.encode())
        rows.append(example.SerializeToString())
    return rows


LABELS_3 = [["LABEL_0", "LABEL_1", "LABEL_2"]] * 4


def regression_answer(outputs, mask):
    return {"value": outputs["logits"][:, 0]}


def multi_label_answer(outputs, mask):
    return {"probabilities": expit(outputs["logits"])}


def next_sentence_answer(outputs, mask):
    return {"probability": softmax(outputs["nsp_logits"], axis=-1)[:, 0]}


def embedding_answer(outputs, mask):
    return {"embedding": outputs["embedding"]}


def encoder_answer(outputs, mask):
    return {"embedding": numpy_pool(outputs, mask, "mean", [-1], normalize=False)}


@pytest.mark.parametrize(
    ("head", "formula"),
    [
        ("regression", regression_answer),
        ("multi_label", multi_label_answer),
        ("next_sentence", next_sentence_answer),
        ("embedding", embedding_answer),
        ("encoder", encoder_answer),
    ],
)
def test_answers_are_formulas_of_the_outputs(served, head, formula):
    model = served(head)
    if head in ("multi_label", "next_sentence"):
        answers = model(text=TEXTS, pair=PAIRS)
        expected = formula(*model.outputs((TEXTS, PAIRS)))
    else:
        answers = model(text=TEXTS)
        expected = formula(*model.outputs(TEXTS))
    assert expected.keys() == answers.keys() - {"labels", "predicted", "tokens", "tokens_read"}
    for name, value in expected.items():
        close(answers[name], value)
    if head == "regression":
        close(model("regress", inputs=examples(TEXTS))["outputs"], answers["value"])
    if head == "multi_label":
        np.testing.assert_array_equal(answers["predicted"], answers["probabilities"] >= THRESHOLDS)
        assert strings(answers["labels"].tolist()) == LABELS_3


# ---- Token ids

NAMES = ("token_ids", "segment_ids", "padding_mask")


def ids_of(*shape):
    return {name: np.ones(shape, "int32") for name in NAMES}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"padding_mask": np.ones((2, 1), "int32")}, "`padding_mask` must have the shape of"),
        ({"segment_ids": np.ones((1, 4), "int32")}, "`segment_ids` must have the shape of"),
        (ids_of(2, 0), "`token_ids` must have at least one token in each row"),
    ],
)
def test_ids_of_unequal_shapes_are_refused_by_a_graph(served, changed, message):
    """They would be broadcast. It says so whatever part of the model comes first."""
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        served("classification")("tokens", **ids_of(2, 4) | changed)


@pytest.mark.parametrize(
    ("head", "inputs", "message"),
    [
        ("pretraining", ids_of(2, 4) | {"mask_positions": np.ones((1, 2), "int32")}, "`mask_positions` .* rows"),
        ("multiple_choice", ids_of(1, 2, 4) | {"padding_mask": np.ones((1, 1, 4), "int32")}, "`padding_mask`"),
    ],
)
def test_ids_of_unequal_shapes_are_refused_by_other_heads(model_of, head, inputs, message):
    function = on_ids(model_of(head)).python_function
    with pytest.raises(ValueError, match=message):
        function(*map(tf.constant, inputs.values()))


def test_no_positions_of_masks(model_of):
    function = on_ids(model_of("pretraining")).python_function
    outputs = function(*ids_of(2, 4).values(), np.ones((2, 0), "int32"))
    assert outputs["mlm_logits"].shape == (2, 0, 50)


# ---- Heads of tokens and choices


def test_replaced_tokens(served):
    """Of texts of any length, by pieces: "abc" has three."""
    model = served("replaced_token_detection")
    texts = ["abc d!", "", "abcdefg " * 6]
    answers = model(text=texts)
    assert strings(answers["tokens"][0, :5].tolist()) == ["a", "b", "c", "d", "!"]
    assert answers["token_count"].tolist() == [5, 0, 42]
    for row, text in enumerate(texts):
        (ids,) = model.preprocessor.tokenizer([text]).to_list()
        expected = np.zeros(0)
        if ids:
            expected = expit(slow_logits(model.model, model.preprocessor, ids, 7))
        np.testing.assert_allclose(answers["scores"][row, : len(ids)], expected, atol=1e-5)
        np.testing.assert_array_equal(answers["replaced"][row, : len(ids)], expected > 0.5)
    assert answers["replaced"].any(1).tolist() == [False, False, True]


def test_multiple_choice(served):
    """An empty choice is absent."""
    model = served("multiple_choice")
    choices = [["a b", "c", "d"], ["e", "", "f!"], ["g", "h", "i j k"], ["l", "m", "n"]]
    logits = np.full((4, 3), -np.inf)
    for row, text in enumerate(TEXTS):
        for place, choice in enumerate(choices[row]):
            if choice:
                inputs = {name: ids[None] for name, ids in model.preprocessor(([text], [choice])).items()}
                logits[row, place] = model.model(inputs)["logits"][0, 0]
    answers = model(text=TEXTS, choices=choices)
    close(answers["probabilities"], softmax(logits, axis=-1))
    assert answers["choice"].tolist() == logits.argmax(-1).tolist()
    assert answers["probabilities"][1, 1] == 0
    with pytest.raises(tf.errors.InvalidArgumentError, match="`choices` must not be empty lists"):
        model(text=["a"], choices=tf.zeros([1, 0], tf.string))


# ---- Token classification

TAGGED = {
    "ab cd, efg.": "ab cd , efg .",
    "": "",
    "Ünï cödé  a-b": "Ünï cödé a - b",
    "今天 ab 天气。": "今 天 ab 天 气 。",
    " ".join(["abcdefghij", "klm", "nop!"] * 17): " ".join(["abcdefghij", "klm", "nop", "!"] * 17),
}


def places_of(words, raw):
    """The starts and the ends of words in the bytes of a text."""
    starts = []
    ends = []
    end = 0
    for word in words:
        start = raw.index(word, end)
        end = start + len(word)
        starts.append(start)
        ends.append(end)
    return starts, ends


def check_padded(found, values, padding):
    """Checks a row of a batch, whose end is padding."""
    assert found.tolist() == values + [padding] * (len(found) - len(values))


def test_words_tags_and_offsets(served):
    """Also with more windows than fit a model call, accents and Chinese; entities from conlleval's loop."""
    model = served("token_classification")
    answers = model(text=list(TAGGED))
    for row, (text, words_of_text) in enumerate(TAGGED.items()):
        words = words_of_text.split()
        raw = text.encode()
        raw_words = [word.encode() for word in words]
        starts, ends = places_of(raw_words, raw)
        tags, scores = slow_tags(model.model, model.preprocessor, words, 7)
        assert answers["token_count"][row] == len(words)
        check_padded(answers["tokens"][row], raw_words, b"")
        check_padded(answers["starts"][row], starts, -1)
        check_padded(answers["ends"][row], ends, -1)
        check_padded(answers["tags"][row], [name.encode() for name in tags], b"")
        np.testing.assert_allclose(answers["scores"][row, : len(words)], scores, atol=1e-5)

        entities = slow_entities(tags)
        assert answers["entity_count"][row] == len(entities)
        for place, (kind, first, last) in enumerate(entities):
            assert answers["entity_types"][row, place] == kind.encode()
            assert answers["entity_starts"][row, place] == starts[first]
            assert answers["entity_ends"][row, place] == ends[last - 1]
            assert answers["entities"][row, place] == raw[starts[first] : ends[last - 1]]
            mean = np.mean(scores[first:last])
            assert answers["entity_scores"][row, place] == pytest.approx(mean, abs=1e-5)


def test_entity_scores_are_exact_in_a_long_request():
    """The mean of three words after a million others."""
    count = 1_000_003
    scores = tf.RaggedTensor.from_row_lengths(tf.fill([count], 0.7), [count])
    types = tf.ragged.constant([["PER"]])
    starts = tf.ragged.constant([[count - 3]])
    ends = tf.ragged.constant([[count]])
    found = keras_bert.text.entities.Entities(types, starts, ends)
    np.testing.assert_allclose(tag.mean_scores(scores, found).to_list(), [[0.7]], rtol=1e-6)


# ---- Question answering

# The first question is truncated to 4 tokens, its context has several windows.
ASKED = [
    ("k l m n o p", " ".join(["abc", "d", "ef", "ghi", "j"] * 6)),
    ("ab cd", "abc de fg. hi"),
    ("a", "今天 b 天气 c d"),
    ("é", "Ünï cödé a"),
]


def test_top_answers_over_windows_and_null_threshold(served):
    model = served("question_answering")
    questions, contexts = zip(*ASKED, strict=True)
    answers = model(question=questions, context=contexts)
    empty = 0
    for row, (question, context) in enumerate(ASKED):
        asked = question.removesuffix(" o p")
        spans, null = slow_answers(model.model, model.preprocessor, asked, context, 5, 3)
        scores = np.array([span[0] for span in spans[:3]])
        np.testing.assert_allclose(answers["scores"][row], scores, rtol=1e-5)
        np.testing.assert_allclose(answers["null_score"][row], null, rtol=1e-5)
        np.testing.assert_allclose(answers["probabilities"][row], softmax(scores, axis=-1), rtol=1e-4)
        expected = [(start, end, context.encode()[start:end]) for _, start, end in spans[:3]]
        if null - scores[0] > NULL_THRESHOLD:
            expected = [(-1, -1, b"")] * 3
            empty += 1
        found = zip(answers["starts"][row], answers["ends"][row], answers["answers"][row], strict=True)
        assert list(found) == expected
        for name in ("answer", "score", "start", "end"):
            assert answers[name][row] == answers[f"{name}s"][row, 0]
    assert 0 < empty < len(ASKED)


# ---- Masks

MASKED = ["a [MASK] b", "c", "[MASK] d [MASK]", "[MASK]"]


def test_rows_beyond_the_vocabulary_never_fill_a_mask(eager, config, pieces):
    """The bias of the spare rows makes them the most probable ones."""
    spare = dataclasses.replace(config, vocab_size=len(pieces) + 30)
    model = keras_bert.build_pretrainer(keras_bert.build_encoder(spare))
    bias = next(weight for weight in model.weights if weight.shape == (spare.vocab_size,))
    bias.assign(10 * np.arange(spare.vocab_size))
    preprocessor = keras_bert.TextPreprocessor(pieces, 16, keep_special_tokens=("[MASK]",))
    fill = tag.mask_filler(model, preprocessor, n_best=2)["serving_default"]
    answers = fill(tf.constant(["a [MASK] b"]))
    assert strings(answers["tokens"].numpy()[0, 0].tolist()) == [pieces[-1], pieces[-2]]


def test_fill_mask(served, pieces):
    """No, one and several masks in one batch."""
    model = served("pretraining")
    answers = model(text=MASKED)
    assert answers["mask_count"].tolist() == [1, 0, 2, 1]
    assert answers["tokens"].shape == answers["probabilities"].shape == (4, 2, 5)
    for row, text in enumerate(MASKED):
        words = ["[CLS]", *text.split(), "[SEP]"]
        places = [index for index, word in enumerate(words) if word == "[MASK]"]
        count = len(places)
        ids = np.array([[pieces.index(word) for word in words]], "int32")
        inputs = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": 1 + 0 * ids}
        inputs["mask_positions"] = np.array([places or [0]], "int32")
        logits = model.model(inputs)["mlm_logits"].numpy()[0, :count]
        probabilities = softmax(logits, axis=-1)
        best = np.argsort(-probabilities, -1, kind="stable")[:, :5]
        assert strings(answers["tokens"][row, :count].tolist()) == np.array(pieces)[best].tolist()
        expected = np.take_along_axis(probabilities, best, -1)
        np.testing.assert_allclose(answers["probabilities"][row, :count], expected, atol=1e-6)
        assert set(answers["tokens"][row, count:].ravel()) <= {b""}
        assert not answers["probabilities"][row, count:].any()


def test_next_sentence_of_a_pretrainer(served):
    model = served("pretraining")
    inputs = model.preprocessor((TEXTS, PAIRS)) | {"mask_positions": tf.zeros((4, 1), tf.int32)}
    expected = softmax(model.model(inputs)["nsp_logits"].numpy(), axis=-1)[:, 0]
    close(model("next_sentence", text=TEXTS, pair=PAIRS)["probability"], expected)


# ---- Embeddings


def numpy_pool(outputs, mask, pooling, layers, normalize):
    """The vectors of texts: the pooled output, or the mean or the first of the states of layers side by side."""
    if pooling == "pooled":
        vectors = np.asarray(outputs["pooled_output"])
    else:
        states_of_layers = outputs.get("hidden_states") or [outputs["sequence_output"]]
        states = np.concatenate([np.asarray(states_of_layers[layer]) for layer in layers], -1)
        rows = []
        for state, real in zip(states, np.asarray(mask).astype(bool), strict=True):
            rows.append(state[real].mean(0) if pooling == "mean" else state[0])
        vectors = np.stack(rows)
    if normalize:
        return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors


@pytest.mark.parametrize(
    ("pooling", "layers", "normalize"),
    [("mean", [-1], False), ("mean", [-1, -2], True), ("cls", [0, 1], False), ("pooled", [-1], True)],
)
def test_pooling(model_of, preprocessor, pooling, layers, normalize):
    inputs = preprocessor(TEXTS)
    outputs = model_of("encoder", hidden_states=True)(inputs)
    mask = inputs["padding_mask"]
    found = embed.pool(outputs, mask, pooling, layers, normalize)
    close(found.numpy(), numpy_pool(outputs, mask, pooling, layers, normalize))


def test_layers_that_the_encoder_does_not_have(model_of, preprocessor):
    with pytest.raises(ValueError, match=r"`layers` must be from -2 to 1. Received: \[3\]"):
        embed.embedder(model_of("encoder", hidden_states=True), preprocessor, layers=(0, 3))


# ---- Arguments


@pytest.mark.parametrize(
    ("head", "options", "message"),
    [
        (
            "classification",
            {"labels": ["a", "b"]},
            r"`labels` must be 3 different names, in the order of the logits. Received: labels=\['a', 'b'\]",
        ),
        ("classification", {"labels": [1, "1", 2]}, "`labels`"),
        ("classification", {"labels": "abc"}, "`labels`"),
        ("classification", {"labels": [["a"], ["b"], ["c"]]}, "`labels`"),
        ("regression", {"labels": ["a"]}, "`labels` must be None for a regression model"),
        ("classification", {"example": {"text": 1}}, r"`example` must be a dict of `text` \(str\). Received: example="),
        ("multiple_choice", {"example": {"text": "a", "choices": "b"}}, r"`example`.* `choices` \(list"),
        ("classification", {"score_range": (0, 1)}, "`score_range` must be None for a model without a score"),
        ("regression", {"score_range": (5, 0)}, r"`score_range` must be \(lowest, highest\), .*: score_range=\(5, 0\)"),
        ("regression", {"rows_together": 0}, "`rows_together` must be a positive integer. Received: rows_together=0"),
        ("token_classification", {"doc_stride": 1.5}, "`doc_stride`"),
        ("question_answering", {"null_threshold": math.nan}, "`null_threshold` must be a finite number .*=nan"),
        ("encoder", {"layers": []}, r"`layers` must be a list of one integer or more. Received: layers=\[\]"),
        ("encoder", {"pair": True}, "`pair` must be False for a model with head='encoder'. Received: pair=True"),
        ("encoder", {"pooling": "pooled", "layers": (0,)}, r"`layers` has no meaning for pooling='pooled'. .*\(0,\)"),
        ("encoder", {"pooling": "sum"}, "`pooling` must be one of cls, max, .*. Received: pooling='sum'"),
        (
            "multiple_choice",
            {"n_best": 2},
            "head='multiple_choice' has no option 'n_best' .* one of: confidence. Received: n_best=2$",
        ),
        ("encoder", {"layers": (0,)}, "`layers` other than the last need an encoder with `hidden_states=True`"),
    ],
)
def test_bad_arguments_of_export(model_of, preprocessor, tmp_path, head, options, message):
    with pytest.raises(ValueError, match=message):
        keras_bert.export(model_of(head), preprocessor, tmp_path / "1", **options)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def folder(exported, tmp_path, monkeypatch):
    """A copy of the SavedModel of the classifier; an export that would replace it is interrupted."""
    monkeypatch.setattr(export, "build_signatures", mock.Mock(side_effect=InterruptedError))
    return shutil.copytree(exported("classification"), tmp_path / "1")


@pytest.mark.parametrize(
    ("head", "options"), [("classification", {"labels": LABELS}), ("regression", {"overwrite": True})]
)
def test_the_same_model_is_replaced(model_of, preprocessor, folder, head, options):
    """Another one with `overwrite`."""
    with pytest.raises(InterruptedError):
        keras_bert.export(model_of(head), preprocessor, folder, **options)


@pytest.mark.parametrize(
    ("head", "options", "message"),
    [
        (
            "classification",
            {"labels": ["a", "1", "2"]},
            "^the folder has the .* another model: `labels.0` was '3', is 'a'. .*`overwrite=True`. Re",
        ),
        ("classification", {"labels": LABELS, "pair": True}, "`pair` was False, is True"),
        ("encoder", {}, "`head` was 'classification', is 'encoder'"),
    ],
)
def test_another_model_is_not_replaced(model_of, preprocessor, folder, head, options, message):
    with pytest.raises(ValueError, match=message):
        keras_bert.export(model_of(head), preprocessor, folder, **options)


def test_a_saved_model_of_others_is_not_replaced(model_of, preprocessor, folder):
    (folder / "assets.extra" / "keras_bert.json").unlink()
    with pytest.raises(ValueError, match="another model: not one of `export`"):
        keras_bert.export(model_of("classification"), preprocessor, folder)


def test_columns_of_training_are_exported(model_of, pieces, tmp_path, monkeypatch):
    given = {}
    monkeypatch.setattr(answerer, "export", lambda model, preprocessor, directory, **options: given.update(options))
    for columns in ({"text": "review"}, None):
        keras_bert.save(model_of("regression"), tmp_path / "model", pieces, columns=columns, overwrite=True)
        keras_bert.load(tmp_path / "model").export(tmp_path / "1")
        assert given["columns"] == columns

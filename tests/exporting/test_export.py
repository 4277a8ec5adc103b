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
from scipy.special import softmax

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
    loaded: object = None  # Keeps the weights alive; not `None` if graphs answer.

    def __call__(self, signature="serving_default", **inputs):
        tensors = {name: tf.constant(value) for name, value in inputs.items()}
        function = self.signatures[signature]
        answers = function.python_function(*tensors.values()) if self.loaded is None else function(**tensors)
        return {name: value.numpy() for name, value in answers.items()}


@pytest.fixture(scope="module")
def served(model_of, preprocessor, exported):
    """The functions of a head's signatures, run eagerly; the classifier comes from its SavedModel."""

    masking = type(preprocessor).from_config({**preprocessor.get_config(), "keep_special_tokens": ["[MASK]"]})

    @functools.cache
    def make(head):
        if head == "classification":
            loaded = tf.saved_model.load(exported(head))
            return Served(model_of(head), preprocessor, loaded.signatures, exported(head), loaded)
        mine = masking if head == "pretraining" else preprocessor
        return Served(model_of(head), mine, build_signatures(model_of(head), mine, **OPTIONS.get(head, {})))

    return make


def strings(values):
    """Decodes nested lists to `str`."""
    return [strings(value) for value in values] if isinstance(values, list) else values.decode()


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
    pieces = preprocessor.tokenizer(tf.constant(words, tf.string)).to_list()
    first = np.cumsum([0, *map(len, pieces)])[:-1].astype(int)
    logits = slow_logits(model, preprocessor, [index for word in pieces for index in word], doc_stride)
    probabilities = softmax(logits, axis=-1)[first]
    return [TAGS[index] for index in probabilities.argmax(-1)], probabilities.max(-1)


def slow_logits(model, preprocessor, ids, doc_stride):
    """The logits of the pieces of a text of any length."""
    windows = slow_windows([len(ids)], [preprocessor.sequence_length - 2], doc_stride)
    logits = [run_one(model, [2, *ids[start : start + size], 3], size + 2)["logits"] for _, start, size in windows]
    parts = zip(logits, slow_max_context(windows), strict=True)
    return np.concatenate([part[1:-1][np.array(best, bool)] for part, best in parts])


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
        start_logits, end_logits = outputs["start_logits"], outputs["end_logits"]
        nulls.append(start_logits[0] + end_logits[0])
        spans += [
            (start_logits[begin + start] + end_logits[begin + end], starts[first + start], ends[first + end])
            for start in np.flatnonzero(best)
            for end in range(start, min(size, start + longest))
        ]
    return sorted(spans, key=lambda span: -span[0]), min(nulls)


def test_text_model(model_of, preprocessor):
    model = model_of("classification")
    inputs = {"text": np.array(TEXTS, object), "pair": np.array(PAIRS, object)}
    expected = model(preprocessor((TEXTS, PAIRS)))["logits"]
    text_model = keras_bert.build_text_model(model, preprocessor, pair=True)
    np.testing.assert_allclose(text_model(inputs)["logits"], expected, atol=1e-5)
    np.testing.assert_allclose(text_model.predict((TEXTS, PAIRS), verbose=0)["logits"], expected, atol=1e-5)
    np.testing.assert_allclose(text_model.predict(list(inputs.values()), verbose=0)["logits"], expected, atol=1e-5)
    for texts, message in (
        ("a", "`x` must be a tuple of two lists of texts, at least one"),
        (["a"], r"`x` must be a tuple of two lists of texts, at least one. Received: \['text'\]"),
        (([], []), "`x` must be a tuple of two lists of texts, at least one"),
        ([{"text": "a"}], "`text` must be strings, in lists of equal length. Received: {'text': 'a'}"),
    ):
        with pytest.raises(ValueError, match=message):
            text_model.predict(texts)
    with pytest.raises(ValueError, match="`x` must be a list of texts, at least one. Received: .'text', 'pair'"):
        keras_bert.build_text_model(model, preprocessor).predict((TEXTS, PAIRS))
    windows = keras_bert.TextPreprocessor(preprocessor, 8, long_texts="windows")
    with pytest.raises(ValueError, match="`preprocessor` must return one sequence .* long_texts='windows'"):
        keras_bert.build_text_model(model, windows)


@pytest.mark.parametrize("head", ["classification", *HEADS_OF_TEXTS])
def test_outputs_start_with_the_batch_dimension_and_are_finite(served, head):
    """For an empty batch, empty texts and invalid UTF-8."""
    model = served(head)
    if head == "multiple_choice":  # Eagerly, an empty batch of choices raises.
        model = dataclasses.replace(model, loaded=True)
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
    answers = classifier(text=TEXTS)
    inputs = {name: value.numpy() for name, value in classifier.preprocessor(TEXTS).items()}
    logits = classifier.model(inputs)["logits"].numpy()
    close(answers["probabilities"], softmax(logits, axis=-1))
    assert strings(answers["label"].tolist()) == [LABELS[index] for index in logits.argmax(-1)]
    assert strings(answers["labels"].tolist()) == [LABELS] * 4
    close(classifier("tokens", **inputs)["logits"], logits)
    # The Classify API takes tf.Examples.
    classified = classifier("classify", inputs=examples({"text": TEXTS}))
    close(classified["scores"], softmax(logits, axis=-1))
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


TWO = {"text": TEXTS, "pair": PAIRS}
LABELS_3 = [["LABEL_0", "LABEL_1", "LABEL_2"]] * 4
# The answer for the outputs of the model and the masks of the texts.
FORMULAS = {
    "regression": ({"text": TEXTS}, lambda outputs, mask: {"value": outputs["logits"][:, 0]}),
    "multi_label": (TWO, lambda outputs, mask: {"probabilities": 1 / (1 + np.exp(-outputs["logits"]))}),
    "next_sentence": (TWO, lambda outputs, mask: {"probability": softmax(outputs["nsp_logits"], axis=-1)[:, 0]}),
    "embedding": ({"text": TEXTS}, lambda outputs, mask: {"embedding": outputs["embedding"]}),
    "encoder": ({"text": TEXTS}, lambda outputs, mask: {"embedding": numpy_pool(outputs, mask, "mean", [-1], False)}),
}


@pytest.mark.parametrize("head", FORMULAS)
def test_answers_are_formulas_of_the_outputs(served, head):
    columns, formula = FORMULAS[head]
    model = served(head)
    inputs = model.preprocessor(tuple(columns.values()) if "pair" in columns else TEXTS)
    outputs = {name: value.numpy() for name, value in model.model(inputs).items()}
    answers = model(**columns)
    expected = formula(outputs, inputs["padding_mask"].numpy())
    assert expected.keys() == answers.keys() - {"labels", "predicted", "tokens", "tokens_read"}
    for name, value in expected.items():
        close(answers[name], value)
    if head == "regression":
        close(model("regress", inputs=examples({"text": TEXTS}))["outputs"], answers["value"])
    if head == "multi_label":
        np.testing.assert_array_equal(answers["predicted"], answers["probabilities"] >= THRESHOLDS)
        assert strings(answers["labels"].tolist()) == LABELS_3


def test_ids_of_unequal_shapes_are_refused(served, model_of):
    """They would be broadcast. A graph says so as well, whatever part of the model comes first."""
    ids = {name: np.ones((2, 4), "int32") for name in ("token_ids", "segment_ids", "padding_mask")}
    positions = {**ids, "mask_positions": np.ones((1, 2), "int32")}
    choices = {name: np.ones((1, 2, 4), "int32") for name in ids}
    empty = {name: np.ones((2, 0), "int32") for name in ids}
    for head, inputs, message in (
        ("classification", {**ids, "padding_mask": ids["token_ids"][:, :1]}, "`padding_mask` must have the shape of"),
        ("classification", {**ids, "segment_ids": ids["token_ids"][:1]}, "`segment_ids` must have the shape of"),
        ("classification", empty, "`token_ids` must have at least one token in each row"),
        ("pretraining", positions, "`mask_positions` must have as many rows as `token_ids`"),
        ("multiple_choice", {**choices, "padding_mask": choices["token_ids"][:, :1]}, "`padding_mask` must have the"),
    ):
        graph = head == "classification"
        run = served(head) if graph else on_ids(model_of(head)).python_function
        with pytest.raises(tf.errors.InvalidArgumentError if graph else ValueError, match=message):
            run("tokens", **inputs) if graph else run(*map(tf.constant, inputs.values()))
    none = on_ids(model_of("pretraining")).python_function(*ids.values(), np.ones((2, 0), "int32"))
    assert none["mlm_logits"].shape == (2, 0, 50)


def test_replaced_tokens(served):
    """Of texts of any length, by pieces: "abc" has three."""
    model = served("replaced_token_detection")
    texts = ["abc d!", "", "abcdefg " * 6]
    answers = model(text=texts)
    assert strings(answers["tokens"][0, :5].tolist()) == ["a", "b", "c", "d", "!"]
    assert answers["token_count"].tolist() == [5, 0, 42]
    for row, text in enumerate(texts):
        (ids,) = model.preprocessor.tokenizer([text]).to_list()
        expected = 1 / (1 + np.exp(-slow_logits(model.model, model.preprocessor, ids, 7))) if ids else np.zeros(0)
        np.testing.assert_allclose(answers["scores"][row, : len(ids)], expected, atol=1e-5)
        np.testing.assert_array_equal(answers["replaced"][row, : len(ids)], expected > 0.5)
    assert answers["replaced"].any(1).tolist() == [False, False, True]


def test_multiple_choice(served):
    model = served("multiple_choice")
    choices = [["a b", "c", "d"], ["e", "", "f!"], ["g", "h", "i j k"], ["l", "m", "n"]]
    answers = model(text=TEXTS, choices=choices)

    def alone(text, choice):
        if not choice:
            return -np.inf  # Absent.
        inputs = {name: ids[None] for name, ids in model.preprocessor(([text], [choice])).items()}
        return float(model.model(inputs)["logits"][0, 0])

    logits = np.array([[alone(text, choice) for choice in row] for text, row in zip(TEXTS, choices, strict=True)])
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


def test_words_tags_and_offsets(served):
    """Also with more windows than fit a model call, accents and Chinese; entities from conlleval's loop."""
    model = served("token_classification")
    answers = model(text=list(TAGGED))
    for row, (text, words) in enumerate(TAGGED.items()):
        raw, words = text.encode(), words.split()
        starts = []
        ends = [0]
        for word in words:
            starts.append(raw.index(word.encode(), ends[-1]))
            ends.append(starts[-1] + len(word.encode()))
        tags, scores = slow_tags(model.model, model.preprocessor, words, 7)
        assert answers["token_count"][row] == len(words)
        for name, values, padding in (
            ("tokens", [word.encode() for word in words], b""),
            ("starts", starts, -1),
            ("ends", ends[1:], -1),
            ("tags", [name.encode() for name in tags], b""),
        ):
            found = answers[name][row].tolist()
            assert found == values + [padding] * (len(found) - len(words)), name
        np.testing.assert_allclose(answers["scores"][row, : len(words)], scores, atol=1e-5)

        entities = slow_entities(tags)
        count = answers["entity_count"][row]
        names = ("entity_types", "entity_starts", "entity_ends", "entities")
        found = zip(*(answers[name][row, :count].tolist() for name in names), strict=True)
        spans = [(kind, starts[first], ends[last]) for kind, first, last in entities]
        assert list(found) == [(kind.encode(), start, end, raw[start:end]) for kind, start, end in spans]
        means = [np.mean(scores[first:last]) for _, first, last in entities]
        np.testing.assert_allclose(answers["entity_scores"][row, :count], means, atol=1e-5)


def test_entity_scores_are_exact_in_a_long_request():
    """The mean of three words after a million others."""
    count = 1_000_003
    scores = tf.RaggedTensor.from_row_lengths(tf.fill([count], 0.7), [count])
    found = keras_bert.text.entities.Entities(
        tf.ragged.constant([["PER"]]), tf.ragged.constant([[count - 3]]), tf.ragged.constant([[count]])
    )
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
        found = list(zip(answers["starts"][row], answers["ends"][row], answers["answers"][row], strict=True))
        expected = [(start, end, context.encode()[start:end]) for _, start, end in spans[:3]]
        if null - scores[0] > NULL_THRESHOLD:
            expected = [(-1, -1, b"")] * 3
            empty += 1
        assert found == expected
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
    answers = tag.mask_filler(model, preprocessor, n_best=2)["serving_default"](tf.constant(["a [MASK] b"]))
    assert [piece.decode() for piece in answers["tokens"].numpy()[0, 0]] == [pieces[-1], pieces[-2]]


def test_fill_mask(served, pieces):
    """No, one and several masks in one batch."""
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
        probabilities = softmax(logits, axis=-1)[: len(places)]
        best = np.argsort(-probabilities, -1, kind="stable")[:, :5]
        assert strings(answers["tokens"][row, : len(places)].tolist()) == [[pieces[i] for i in line] for line in best]
        expected = np.take_along_axis(probabilities, best, -1)
        np.testing.assert_allclose(answers["probabilities"][row, : len(places)], expected, atol=1e-6)
        assert set(answers["tokens"][row, len(places) :].ravel()) <= {b""}
        assert not answers["probabilities"][row, len(places) :].any()


def test_next_sentence_of_a_pretrainer(served):
    model = served("pretraining")
    inputs = model.preprocessor((TEXTS, PAIRS))
    logits = model.model({**inputs, "mask_positions": tf.zeros((4, 1), tf.int32)})["nsp_logits"].numpy()
    close(model("next_sentence", text=TEXTS, pair=PAIRS)["probability"], softmax(logits, axis=-1)[:, 0])


def numpy_pool(outputs, mask, pooling, layers, normalize):
    if pooling == "pooled":
        vectors = np.asarray(outputs["pooled_output"])
    else:
        states = outputs.get("hidden_states") or [outputs["sequence_output"]]
        states = np.concatenate([np.asarray(states[layer]) for layer in layers], -1)
        rows = zip(states, np.asarray(mask).astype(bool), strict=True)
        vectors = np.stack([state[real].mean(0) if pooling == "mean" else state[0] for state, real in rows])
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True) if normalize else vectors


@pytest.mark.parametrize(
    ("pooling", "layers", "normalize"),
    [("mean", [-1], False), ("mean", [-1, -2], True), ("cls", [0, 1], False), ("pooled", [-1], True)],
)
def test_pooling(model_of, preprocessor, pooling, layers, normalize):
    model = model_of("encoder", hidden_states=True)
    inputs = preprocessor(TEXTS)
    found = embed.pool(model(inputs), inputs["padding_mask"], pooling, layers, normalize)
    close(found.numpy(), numpy_pool(model(inputs), inputs["padding_mask"], pooling, layers, normalize))


@pytest.mark.parametrize(
    ("head", "options", "message"),
    [
        ("classification", {"labels": ["a", "b"]}, r"`labels` must be 3 different names, .*: labels=\['a', 'b'\]"),
        *(
            ("classification", {"labels": labels}, "`labels` must be 3 different names, in the order of the logits")
            for labels in ([1, "1", 2], "abc", [["a"], ["b"], ["c"]])
        ),
        ("regression", {"labels": ["a"]}, "`labels` must be None for a regression model"),
        ("classification", {"example": {"text": 1}}, r"`example` must be a dict of `text` \(str\). Received: example="),
        ("multiple_choice", {"example": {"text": "a", "choices": "b"}}, r"a dict of `text` \(str\), `choices` \(list"),
        ("classification", {"score_range": (0, 1)}, "`score_range` must be None for a model without a score"),
        ("regression", {"score_range": (5, 0)}, r"`score_range` must be \(lowest, highest\), .*: score_range=\(5, 0\)"),
        ("regression", {"rows_together": 0}, "`rows_together` must be a positive integer. Received: rows_together=0"),
        ("token_classification", {"doc_stride": 1.5}, "`doc_stride` must be a positive integer. Received: .*=1.5"),
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


def test_only_a_saved_model_of_the_same_model_is_replaced(model_of, preprocessor, exported, monkeypatch, tmp_path):
    folder = shutil.copytree(exported("classification"), tmp_path / "1")
    monkeypatch.setattr(export, "build_signatures", mock.Mock(side_effect=InterruptedError))
    for head, options in (("classification", {"labels": LABELS}), ("regression", {"overwrite": True})):
        with pytest.raises(InterruptedError):
            keras_bert.export(model_of(head), preprocessor, folder, **options)
    for head, options, found in (
        ("classification", {"labels": ["a", "1", "2"]}, "`labels.0` was '3', is 'a'"),
        ("classification", {"labels": LABELS, "pair": True}, "`pair` was False, is True"),
        ("encoder", {}, "`head` was 'classification', is 'encoder'"),
    ):
        with pytest.raises(ValueError, match=f"^the folder has the .* another model: {found}. .*`overwrite=True`. Re"):
            keras_bert.export(model_of(head), preprocessor, folder, **options)
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


def test_layers_that_the_encoder_does_not_have(model_of, preprocessor):
    with pytest.raises(ValueError, match=r"`layers` must be from -2 to 1. Received: \[3\]"):
        embed.embedder(model_of("encoder", hidden_states=True), preprocessor, layers=(0, 3))

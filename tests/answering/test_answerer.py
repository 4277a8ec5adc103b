"""`LoadedBert.predict` gives the answers of the signatures that `export` writes, as dicts."""

import copy
import functools
import io
import pickle
import shutil
import sys
from unittest import mock

import numpy as np
import pytest

import keras_bert

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

from keras_bert.exporting.export import build_signatures  # noqa: E402
from keras_bert.heads.answers import each_text, of_outputs  # noqa: E402
from keras_bert.heads.registry import head_named  # noqa: E402
from keras_bert.progress import track  # noqa: E402
from keras_bert.text.token_counts import told_once  # noqa: E402
from tests.conftest import HEADS  # noqa: E402
from tests.exporting.conftest import LABELS, TAGS, THRESHOLDS  # noqa: E402

TEXTS = ["a b", "c!", "", "d e f g", "Ünï cödé 今天 b. " * 10]
PAIRS = ["x", "y z", "a", "", "b c"]
CHOICES = [["a", "b c"], ["", "d"], ["e", "f"], ["g h", "i"], ["k", "l"]]
MASKED = ["a [MASK] b", "c", "[MASK] d [MASK]", "", "[MASK]"]
COLUMNS = {
    "question_answering": {"question": PAIRS, "context": TEXTS},
    "pretraining": {"text": MASKED},
    "mlm": {"text": MASKED},
    "next_sentence": {"text": TEXTS, "pair": PAIRS},
    "multiple_choice": {"text": TEXTS, "choices": CHOICES},
}
OPTIONS = {
    "token_classification": {"doc_stride": 7},
    "replaced_token_detection": {"doc_stride": 7},
    "question_answering": {"null_threshold": 0.5, "n_best": 2},
}
OPTIONS["multi_label"] = {"thresholds": THRESHOLDS}
NAMES = {"classification": LABELS, "token_classification": TAGS}


@pytest.fixture(scope="module")
def load(model_of, pieces, tmp_path_factory):
    """Saves and loads the model of a head, once for each head and settings."""

    @functools.cache
    def loaded(head, **settings):
        folder = tmp_path_factory.mktemp(head)
        keras_bert.save(model_of(head), folder, pieces, labels=NAMES.get(head), sequence_length=20, **settings)
        return keras_bert.load(folder)

    return loaded


DEFAULT = ("classification", "question_answering", "token_classification")


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    "head",
    [pytest.param(head, marks=() if head in DEFAULT else pytest.mark.slow) for head in HEADS if head != "untied"],
)
def test_predict_equals_the_signature(load, model_of, preprocessor, head):
    columns = COLUMNS.get(head, {"text": TEXTS})
    options = dict(OPTIONS.get(head, {}))
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    answers = load(head).predict(rows, batch_size=2, **options)
    n_best = options.pop("n_best", None)
    options["labels"] = NAMES.get(head)
    if n_best is not None:
        options["n_best"] = 20  # Candidates of `predict`.
    signature = build_signatures(model_of(head), preprocessor, **options)["serving_default"]
    inputs = [tf.constant(column) for column in columns.values()]
    outputs = {name: value.numpy() for name, value in signature(*inputs).items()}
    assert_same(answers, each_text(head_named(load(head).head).answer, outputs, rows, n_best))
    assert_same(answers, results(outputs, rows, n_best))


def results(outputs, rows, n_best=None):
    """Returns the answers of a server, which only tells the names of outputs."""
    return each_text(of_outputs(outputs), outputs, rows, n_best)


def assert_same(value, expected):
    """Compares nested lists and dicts with numbers that differ by rounding."""
    assert type(value) is type(expected)
    if isinstance(value, dict):
        assert list(value) == list(expected)
        value = list(value.values())
        expected = list(expected.values())
    if isinstance(value, list):
        for part, other in zip(value, expected, strict=True):
            assert_same(part, other)
    elif isinstance(value, str):
        assert value == expected
    else:
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-6)


LENGTHS = {
    # Of the table: the outputs of the head, `sequence_length`, the texts, and their tokens counted by hand.
    "classification": (6, ["a b", "a b c d e", ""], [4, 7, 2], [4, 6, 2]),
    "regression": (7, [("a", "b"), ("a b c", "d e f")], [5, 9], [5, 7]),
    "multi_label": (6, ["a b c d"], [6], [6]),
    "encoder": (5, ["a b c d", "a"], [6, 3], [5, 3]),
    "next_sentence": (6, [("a b", "c d")], [7], [6]),
    "pretraining": (5, ["a [MASK] b c", "[MASK]"], [6, 3], [5, 3]),
    # All of a context, and at most half of the room for a question.
    "question_answering": (
        9,
        [{"question": "a b c d e", "context": "f " * 30}, {"question": "a", "context": ""}],
        [38, 4],
        [36, 4],
    ),
    "token_classification": (6, ["a " * 30, ""], [32, 2], [32, 2]),
    "replaced_token_detection": (6, ["a " * 30, "b"], [32, 3], [32, 3]),
    # The longest choice of each row; absent ones do not count.
    "multiple_choice": (
        8,
        [{"text": "a b c", "choices": ["d", "e f g h"]}, {"text": "a b c d e f", "choices": ["g", ""]}],
        [10, 10],
        [8, 8],
    ),
}


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("head", LENGTHS)
def test_the_tokens_of_an_answer(load, head, caplog):
    """How many a text has, and how many of them the model read; a message counts the texts that were cut."""
    length, texts, tokens, read = LENGTHS[head]
    answers = load(head).predict(texts, sequence_length=length)
    name = "text_tokens" if head == "replaced_token_detection" else "tokens"
    assert [(answer[name], answer["tokens_read"]) for answer in answers] == list(zip(tokens, read, strict=True))
    cut = [number for number in range(len(texts)) if tokens[number] > read[number]]
    told = [record.message for record in caplog.records if "longer than" in record.message]
    if not cut:
        assert told == []
    elif head == "question_answering":
        (line,) = told
        assert line.startswith("1 of 2 questions was longer than questions may be, see `max_question_length`; ")
    else:
        were = "was" if len(cut) == 1 else "were"
        assert told == [
            f"{len(cut)} of {len(texts)} texts {were} longer than the {length} tokens that the model reads; "
            f"the rest of each was left out. The longest has {max(tokens)}; `sequence_length` may be up to 40"
        ]


def test_the_tokens_of_a_prompt_and_of_candidate_labels(eager, load, caplog, tmp_path):
    """A prompt counts, as the model reads it; `encode` tells what it cuts; a block tells once."""
    load("embedding").save(tmp_path, prompts={"query": "a b "}, default_prompt_name="query")
    bert = keras_bert.load(tmp_path)
    assert [answer["tokens"] for answer in bert.predict(["c", "c d"])] == [5, 6]
    answer = bert.predict("c", candidate_labels=["a", "b"], sequence_length=4)
    assert (answer["tokens"], answer["tokens_read"]) == (5, 4)
    caplog.clear()
    with told_once():
        bert.encode(["c", "c d e"], sequence_length=6)
        bert.encode(["c d e f"], sequence_length=6)
    assert [record.message.partition(";")[0] for record in caplog.records] == [
        "2 of 3 texts were longer than the 6 tokens that the model reads"
    ]


@pytest.mark.filterwarnings("error")
def test_a_question_about_nothing(eager, load):
    """No NaN and no warning of NumPy: the probability is 0, as in the SavedModel."""
    bert = load("question_answering")
    answer = bert.predict({"question": "a b", "context": ""}, n_best=2)
    assert (answer["answer"], answer["score"], answer["start"], answer["end"]) == ("", 0.0, -1, -1)
    assert answer["answers"] == []
    signature = build_signatures(bert.model(), bert.preprocessor(20, padding="longest"))["serving_default"]
    assert signature(tf.constant(["a b"]), tf.constant([""]))["probability"].numpy().tolist() == [0.0]
    assert bert.predict({"question": "a", "context": " \u200b"})["score"] == 0.0
    assert bert.predict({"question": "a", "context": ""}, null_threshold=0.0)["null_score"] == 1.0


def test_probabilities_of_answers():
    """Over the spans and no answer, if there is a score for it; spans that do not exist have none."""
    scores = np.log(np.array([[3.0, 1.0, 0.0]], "float32") + 1e-45)
    scores[0, 2] = np.finfo("float32").min
    spans = {"starts": [[3, 0, -1]], "ends": [[4, 2, -1]], "scores": scores}
    best = {"answer": [b"b"], "start": [3], "end": [4], "probability": [0.75]}
    outputs = {name: np.array(value) for name, value in (spans | best).items()}
    rows = [{"context": "ü b"}]
    second = {"answer": "ü", "score": pytest.approx(0.25), "start": 0, "end": 1}
    first = {"answer": "b", "score": pytest.approx(0.75), "start": 2, "end": 3}
    assert results(outputs, rows, n_best=3) == [first | {"answers": [first, second]}]
    assert results(outputs, rows) == [first]
    # No answer, which has the same score as the best one.
    outputs |= {"null_score": np.log(np.array([4.0])), "start": np.array([-1]), "end": np.array([-1])}
    outputs["probability"] = np.array([0.5])
    none = {"answer": "", "score": pytest.approx(0.5), "start": -1, "end": -1, "null_score": pytest.approx(0.5)}
    assert results(outputs, rows) == [none]


TEXT = "ü Ada [b]"
FILLS = {"tokens": [[[b"a", "ü".encode()], [b"", b""]]], "probabilities": [[[0.5, 0.25], [0, 0]]], "mask_count": [1]}
LABELED = {"labels": [[b"a", "ü".encode()]], "probabilities": [[0.25, 0.5]]}
SCORES = {"a": 0.25, "ü": 0.5}
TAGGED = {"entities": [[b"Ada", b""]], "entity_types": [[b"PER", b""]], "entity_scores": [[0.5, 0]]}
TAGGED |= {"entity_starts": [[3, -1]], "entity_ends": [[6, -1]], "entity_count": [1]}
DETECTED = {
    "replaced": [[True, False]],
    "scores": [[0.75, 0]],
    "starts": [[3, -1]],
    "ends": [[6, -1]],
    "token_count": [1],
}


@pytest.mark.parametrize(
    ("outputs", "n_best", "expected"),
    [
        (FILLS, None, {"fills": [[{"token": "a", "score": 0.5}, {"token": "ü", "score": 0.25}]]}),
        (FILLS, 1, {"fills": [[{"token": "a", "score": 0.5}]]}),
        ({"tokens": [[]], "probabilities": [[]], "mask_count": [0]}, None, {"fills": []}),  # As over REST.
        ({"choice": [1], "probabilities": [[0.25, 0.75]]}, None, {"choice": 1, "scores": [0.25, 0.75]}),
        ({"value": [1.5]}, None, {"value": 1.5}),
        ({"probability": [0.5]}, None, {"probability": 0.5}),
        (LABELED, None, {"label": "ü", "score": 0.5, "scores": SCORES}),
        (LABELED | {"logits": [[-1, 2]]}, None, {"label": "ü", "score": 0.5, "scores": SCORES, "logits": [-1, 2]}),
        (LABELED | {"predicted": [[True, False]]}, None, {"labels": ["a"], "scores": SCORES}),
        (DETECTED, None, {"tokens": [{"text": "Ada", "replaced": True, "start": 2, "end": 5, "score": 0.75}]}),
        (TAGGED, None, {"entities": [{"text": "Ada", "label": "PER", "start": 2, "end": 5, "score": 0.5}]}),
    ],
)
def test_results_of_other_heads(outputs, n_best, expected):
    """The padding of a batch is removed; positions count characters."""
    outputs = {name: np.array(value, object if name == "tokens" else None) for name, value in outputs.items()}
    assert results(outputs, [{"text": TEXT}], n_best) == [expected]


def test_tags_without_names(eager, model_of, pieces, tmp_path):
    """Each word is an entity with the placeholder of its best logit, as the classes of a classifier."""
    keras_bert.save(model_of("token_classification"), tmp_path, pieces)
    bert = keras_bert.load(tmp_path)
    logits = bert.model()(bert.preprocessor(8, padding="longest")(["a b!"]))["logits"].numpy()[0, 1:4]
    found = bert.predict("a b!")["entities"]
    assert [(entity["text"], entity["label"]) for entity in found] == [
        (text, f"LABEL_{best}") for text, best in zip("ab!", logits.argmax(-1), strict=True)
    ]


def test_inputs_of_predict(eager, load):
    bert = load("classification")
    both = bert.predict(["a b", "c"])
    assert bert.predict("a b")["scores"] == pytest.approx(both[0]["scores"])
    assert bert.predict(np.array(["a b", "c"]))[1]["label"] == both[1]["label"]
    assert bert.predict([]) == []
    pair = bert.predict(("a b", "c"))
    assert pair["scores"] != both[0]["scores"]
    assert bert.predict([{"text": "a b", "pair": "c"}])[0]["scores"] == pytest.approx(pair["scores"])
    assert bert.encode([]).shape == (0, 32)


def test_lists_of_words(eager, load):
    """Words stay as they are, as in `evaluate`; in texts, punctuation is a word."""
    bert = load("token_classification")
    words = bert.predict([["a-b", "c d", "e!"]])[0]["entities"]
    for entity in words:
        assert {entity["start"], entity["end"]} <= {0, 3, 4, 7, 8, 10}
        assert entity["text"] == "a-b c d e!"[entity["start"] : entity["end"]]
    with pytest.raises(ValueError, match="takes a text or a list of words, the same for all .* a list of words at ind"):
        bert.predict(["a", ["b"]])
    with pytest.raises(ValueError, match=r"`texts\[0\]` must be a string"):
        load("classification").predict([["b"]])


def test_rows_of_taggers(eager, load):
    """A frame and dicts may have other columns beside the words, such as tags."""
    bert = load("token_classification")
    words = [["a-b", "c d"], ["e!"]]
    tables = [{"id": number, "tokens": row, "pos_tags": ["N"] * len(row)} for number, row in enumerate(words)]
    expected = bert.predict(words)
    assert bert.predict(tables) == expected
    assert bert.predict(tables[0])["entities"] == bert.predict(words[:1])[0]["entities"]
    assert bert.predict([{"text": "a b", "spans": []}]) == bert.predict(["a b"])
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(tables)
    for names in (["id", "tokens", "pos_tags"], ["tokens", "pos_tags"], ["tokens"]):
        assert bert.predict(frame[names]) == expected


def columns(answer):
    """The fields of an answer in a table, with one for each class."""
    first = {name: answer[name] for name in ("label", "score")}
    last = {name: answer[name] for name in ("tokens", "tokens_read")}
    scores = {f"score_{name}": score for name, score in answer["scores"].items()}
    return first | scores | last


def test_answers_as_a_frame(eager, load, monkeypatch):
    pandas = pytest.importorskip("pandas")
    bert = load("classification")
    texts = pandas.Series(["a b", "c"], [7, 3])
    frame = bert.predict(texts, as_frame=True)
    answers = bert.predict(list(texts))
    assert (frame.index.tolist(), frame.to_dict("records")) == ([7, 3], list(map(columns, answers)))
    for given, inputs in (
        (["a b", "c"], [{"text": "a b"}, {"text": "c"}]),
        ("a b", [{"text": "a b"}]),
        ([("a", "b")], [{"text": "a", "pair": "b"}]),
    ):
        answers = bert.predict(given)
        if given == "a b":
            answers = [answers]
        expected = [texts | columns(answer) for texts, answer in zip(inputs, answers, strict=True)]
        assert bert.predict(given, as_frame=True).to_dict("records") == expected
    classes = ["score_3", "score_1", "score_2"]
    found = bert.predict("a b", as_frame=True).columns.tolist()
    assert found == ["text", "label", "score", *classes, "tokens", "tokens_read"]
    several = load("multi_label").predict(["a b", "c"], as_frame=True)
    assert several.columns.tolist()[:3] == ["text", "labels", "score_LABEL_0"]
    assert load("multiple_choice").predict({"text": "a", "choices": ["b", "c"]}, as_frame=True)["scores"][0][0] >= 0
    assert bert.predict([], as_frame=True).empty
    found = load("token_classification").predict(["a b"], as_frame=True)["entities"][0]
    assert found == load("token_classification").predict("a b")["entities"]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ModuleNotFoundError, match="`as_frame` needs pandas, which is not installed. Install it with"):
        bert.predict("a", as_frame=True)


def test_progress_on_a_terminal_only(eager, load, monkeypatch):
    """Of several batches, and for one number of items at a time."""
    monkeypatch.setattr("keras_bert.progress._DELAY", 0.0)
    for is_terminal, batch_size, expected in ((True, 1, True), (True, 2, False), (False, 1, False)):
        stream = io.StringIO()
        monkeypatch.setattr(stream, "isatty", lambda is_terminal=is_terminal: is_terminal, raising=False)
        monkeypatch.setattr("sys.stderr", stream)
        load("classification").predict(["a b", "c"], batch_size=batch_size)
        load("classification").encode(["a b", "c"], batch_size=batch_size)
        assert ("predicting" in stream.getvalue()) == expected
        for _ in track([1], "outer"):
            stream.truncate(0)
            load("classification").predict(["a b", "c"], batch_size=batch_size)
            assert "predicting" not in stream.getvalue()


@pytest.mark.parametrize(
    ("head", "texts", "message"),
    [
        ("classification", b"a", "`texts` must be a text or a list of texts, pairs or dicts. Received: texts=b'a'"),
        ("classification", ["a", None], r"`texts\[1\]` must be a string, a tuple of two strings, or a dict of strings"),
        ("classification", ["a", ("b", "c")], "takes a text or a pair .*, the same for all .*: a pair .* at index 1"),
        ("regression", ["a"], "takes a pair of texts as a tuple. Received: only a text at index 0"),
        ("multi_label", [("a", "b")], "takes a text. Received: a pair of texts"),
        ("question_answering", ["a"], "takes a dict with `question` and `context`. Received: only a text at index 0"),
        ("multiple_choice", [{"text": "a", "choices": ["b"]}], r"`texts\[0\]` must be .* `choices`, .* of at least 2"),
    ],
)
def test_errors_of_predict(load, head, texts, message):
    settings = {"regression": {"pair": True}, "multi_label": {"pair": False}}.get(head, {})
    with pytest.raises(ValueError, match=message):
        load(head, **settings).predict(texts)


def test_thresholds_of_predict(eager, load):
    """Those that `save` stored, unless others are given; 0.5 without any."""
    scores = load("multi_label").predict("a b")["scores"]
    stored = [value + shift for value, shift in zip(scores.values(), (-0.01, 0.01, -0.01), strict=True)]
    bert = load("multi_label", thresholds=tuple(stored))
    assert bert.predict("a b")["labels"] == ["LABEL_0", "LABEL_2"]
    assert bert.predict("a b", thresholds=1e-6)["labels"] == list(scores)
    assert load("multi_label").predict("a b")["labels"] == [name for name, score in scores.items() if score >= 0.5]
    with pytest.raises(ValueError, match="`thresholds` must be a number between 0 and 1, or a list of 3, one for each"):
        bert.predict("a", thresholds=[0.5])
    with pytest.raises(ValueError, match="`predict` has no option 'thresholds' for head='classification'"):
        load("classification").predict("a", thresholds=0.5)


def test_wrong_options_of_predict(load):
    for head, texts, options, message in (
        ("mlm", "a", {"n_best": 0}, "`n_best` must be a positive integer or `None`. Received: n_best=0"),
        ("mlm", "a", {"doc_stride": 8}, "`predict` has no option 'doc_stride' .*. Texts are cut at `sequ.*=8"),
        ("mlm", "a", {"top_k": 3}, "`predict` has no option 'top_k' .* `n_best` is the number of .* Received: top_k=3"),
        ("classification", "a", {"max_length": 9}, ".*'max_length' .* Did you mean 'sequence_length'.*=9"),
        ("pretraining", ("a", "b"), {"n_best": 2}, "`n_best` is for masks. Received: n_best=2 for pairs of texts"),
        ("pretraining", ("a", "b"), {"n_best": 2}, "`n_best` is for masks. Received: n_best=2 for pairs.*"),
        ("classification", "a", {"n_best": 2}, "`n_best` is for answers .*: n_best=2 for a model with head='classif.*"),
        ("encoder", "a", {"pooling": "pooled", "layers": [0]}, "`layers` has no meaning for pooling='pooled'. Rec.*"),
    ):
        with pytest.raises(ValueError, match=f"^{message}$"):
            load(head).predict(texts, **options)


def adapt(bert):
    keras_bert.enable_lora(bert.model(), 2)
    for weight in bert.encoder.trainable_weights:
        weight.assign(np.random.default_rng(0).normal(size=weight.shape))


@pytest.mark.filterwarnings("ignore:Layer InputLayer does not have a")
def test_answers_follow_changes_of_layers(load, tmp_path, monkeypatch):
    """They are those of the model without a graph, after each change in its place; weights are read by the same one."""
    load("regression", pair=False).save(tmp_path)
    bert = keras_bert.load(tmp_path)
    inputs = bert.preprocessor(9, padding="longest")(["a b c"])
    before = bert.predict("a b c")["value"]
    vector = bert.encode("a b c")
    bias = bert.model().get_layer("classifier").bias
    bias.assign(bias + 1.0)
    with mock.patch("keras_bert.answering.answerer.build_signatures", side_effect=AssertionError):
        assert bert.predict("a b c")["value"] == pytest.approx(before + 1.0, rel=1e-5)
    bias.assign(bias - 1.0)
    for change in (adapt, lambda bert: bert.model().quantize("int8")):
        change(bert)
        expected = bert.model()(inputs)["logits"].numpy()[0, 0]
        assert abs(expected - before) > 1e-3
        before = bert.predict("a b c")["value"]
        assert before == pytest.approx(expected, abs=1e-5)
        if change is adapt:
            states = bert.encoder(inputs)["sequence_output"].numpy()[0]
            np.testing.assert_allclose(bert.encode("a b c"), states.mean(0), atol=1e-4)
            assert not np.allclose(vector, states.mean(0), atol=1e-2)
    monkeypatch.setattr(bert.encoder.get_layer("embeddings").norm, "epsilon", 9.0)
    with pytest.raises(ValueError, match="'embeddings' has norm.epsilon=9.0, where 1e-12 is expected"):
        bert.predict("a b c")


@pytest.mark.filterwarnings("ignore:Layer InputLayer does not have a")
@pytest.mark.usefixtures("eager")
def test_pickles_and_copies(load, tmp_path, monkeypatch):
    """They answer equally after the files are gone, and have weights of their own."""
    load("multi_label", thresholds=(0.4, 0.5, 0.6)).save(tmp_path / "model")
    bert = keras_bert.load(tmp_path / "model", dtype="mixed_bfloat16")
    monkeypatch.setattr(bert, "results", {"scores": {"f1": 0.5}})
    expected = bert.predict(TEXTS)
    keras_bert.enable_lora(bert.model(), 2)
    shutil.rmtree(tmp_path / "model")
    for copied in (pickle.loads(pickle.dumps(bert)), copy.deepcopy(bert)):
        assert copied.predict(TEXTS) == expected
        names = ("labels", "thresholds", "results", "vocabulary", "config", "name", "task", "has_pooler", "metadata")
        for name in names:
            assert getattr(copied, name) == getattr(bert, name), name
        assert copied.encoder.get_layer("block_0").dtype_policy.name == "mixed_bfloat16"
        copied.model().weights[-1].assign([9.0, 9.0, 9.0])
        assert bert.predict(TEXTS) == expected
    assert copy.copy(bert).model() is bert.model()
    keras_bert.merge_lora(bert.model())
    bert.model().quantize("int8")
    with pytest.raises(TypeError, match="a quantized model cannot be pickled or copied. .* `save` writes it"):
        pickle.dumps(bert)


def test_answers_follow_changes_of_labels(eager, load, tmp_path, monkeypatch):
    bert = load("classification")
    label = bert.predict("a b")["label"]
    monkeypatch.setattr(bert, "labels", [f"new {each}" for each in bert.labels])
    assert bert.predict("a b")["label"] == f"new {label}"
    bert.save(tmp_path)
    assert keras_bert.load(tmp_path).predict("a b")["label"] == f"new {label}"


def test_labels_may_be_numbers(load, monkeypatch):
    bert = load("classification")
    monkeypatch.setattr(bert, "labels", np.arange(3))
    assert bert.labels == bert.metadata.labels == ["0", "1", "2"]


def test_what_a_model_was_built_with_is_not_changed(load, monkeypatch):
    bert = load("classification")
    with pytest.raises(AttributeError, match="`pooling` is what a model was built with: build another one on"):
        monkeypatch.setattr(bert, "pooling", "cls")

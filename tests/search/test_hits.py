"""Cross-encoders that reorder hits, against `predict` on each pair."""

import keras
import numpy as np
import pytest

import keras_bert
from keras_bert.search.data import Query
from keras_bert.search.hits import ask
from tests.search.conftest import TEXTS

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager_module")]
SOME_HITS = [{"id": str(number), "score": 0.5, "text": text, "title": "t"} for number, text in enumerate(TEXTS[:4])]
HITS = [SOME_HITS, []]


@pytest.fixture(scope="module")
def regression(saved):
    return keras_bert.load(saved("regression", pair=True))


@pytest.fixture(scope="module")
def classifier(saved):
    return keras_bert.load(saved("classification", labels=["no", "maybe", "yes"]))


def test_regression(regression):
    found = keras_bert.search.rerank(regression, ["a c", "x"], HITS)
    expected = {}
    for hit in SOME_HITS:
        answer = regression.predict(("a c", f"t {hit['text']}".strip()))
        expected[hit["id"]] = answer["value"]
    assert {hit["id"]: hit["score"] for hit in found[0]} == pytest.approx(expected, abs=1e-5)
    assert [hit["id"] for hit in found[0]] == sorted(expected, key=expected.get, reverse=True)
    assert {hit["similarity"] for hit in found[0]} == {0.5}
    assert found[1] == []
    assert keras_bert.search.rerank(regression, "a c", HITS[0]) == found[0]


def test_probability_of_a_label(classifier):
    (found,) = keras_bert.search.rerank(classifier, ["a c"], HITS[:1], label="maybe")
    best = classifier.predict(("a c", f"t {found[0]['text']}".strip()))["scores"]["maybe"]
    assert found[0]["score"] == pytest.approx(best, abs=1e-5)
    assert found[0]["score"] == max(hit["score"] for hit in found)


@pytest.mark.parametrize(
    "options",
    [{"num_classes": 1, "score_activation": "sigmoid"}, {"num_classes": 2}, {"num_classes": 3, "multi_label": True}],
)
def test_the_order_is_that_of_the_logits(config, pieces, tmp_path, options):
    """Also where scores are rounded; the same text has the same score, and keeps its place."""
    model = keras_bert.build_classifier(keras_bert.build_encoder(config), **options)
    kernel, biases = model.get_layer("classifier").get_weights()
    biases[-1] = 30.0  # The score is 1.0 in float32.
    model.get_layer("classifier").set_weights([kernel, biases])
    keras_bert.save(model, tmp_path, pieces)
    cross_encoder = keras_bert.load(tmp_path)
    texts = ["a", "b c", "d", "a", "e f g", "h i", "b c", "j k l m"]
    hits = [{"id": str(number), "score": 0.5, "text": text} for number, text in enumerate(texts)]
    inputs = cross_encoder.preprocessor(12)((["x y"] * len(texts), texts))
    logits = keras.ops.convert_to_numpy(cross_encoder.model()(inputs)["logits"]).astype("float64")
    order = logits[:, -1]
    if options["num_classes"] == 2:
        order = order - logits[:, 0]
    first_of_text = [texts.index(text) for text in texts]
    expected = np.argsort(-order[first_of_text], kind="stable").tolist()
    label = "LABEL_2" if "multi_label" in options else None
    found = keras_bert.search.rerank(cross_encoder, "x y", hits, label=label)
    assert [int(hit["id"]) for hit in found] == expected
    assert {hit["score"] for hit in found} == {1.0}


@pytest.mark.parametrize(
    ("label", "message"),
    [(None, "one of no, maybe, yes. Received: label=None"), ("often", "label")],
)
def test_labels_of_a_classifier(classifier, label, message):
    with pytest.raises(ValueError, match=message):
        keras_bert.search.rerank(classifier, ["a"], HITS[:1], label=label)


def test_models_that_do_not_rerank(bert, regression):
    with pytest.raises(ValueError, match="must be a classifier or a regression model of pairs. Received: head="):
        keras_bert.search.rerank(bert, ["a"], HITS[:1])
    with pytest.raises(ValueError, match="is a regression model, without labels. Received: 'yes'"):
        keras_bert.search.rerank(regression, ["a"], HITS[:1], label="yes")


def test_each_query_has_a_list_of_hits(regression):
    with pytest.raises(ValueError, match="`hits` must have 2 lists, one per query. Received: 1"):
        keras_bert.search.rerank(regression, ["a", "b"], HITS[:1])


def test_asking_in_parts(bert, regression, tmp_path, monkeypatch):
    monkeypatch.setattr("keras_bert.search.hits._ASKED", 2)
    index = keras_bert.search.build_index(bert, TEXTS, tmp_path / "index")
    queries = [Query(str(number), text) for number, text in enumerate(["a", "b c", "x"])]
    found = list(ask(index, queries, n_best=3, cross_encoder=regression))
    assert [query for query, _ in found] == queries
    for query, hits in found:
        expected = keras_bert.search.rerank(regression, [query.text], [index.search(query.text, n_best=3)])[0]
        assert [hit["id"] for hit in hits] == [hit["id"] for hit in expected]

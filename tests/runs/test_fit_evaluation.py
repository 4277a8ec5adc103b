"""`LoadedBert.evaluate`: the scores of models on texts with targets."""

import dataclasses
import random
from unittest import mock

import keras
import numpy as np
import pytest
from scipy import special, stats

import keras_bert
from keras_bert.progress import announced
from keras_bert.runs.run import Run
from tests.runs.fit_rows import PAIRS, TAGS, TEXTS, WORDS, rows

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]


@pytest.mark.parametrize("name", ["classifier", "token_classifier"])
def test_evaluate_classes_without_names(start, tmp_path, name):
    """They have the names that `predict` gives."""
    model = getattr(keras_bert, f"build_{name}")(keras_bert.load(start).encoder, 12)
    keras_bert.save(model, tmp_path, keras_bert.load(start).vocabulary)
    bert = keras_bert.load(tmp_path)
    texts = TEXTS if name == "classifier" else WORDS
    answers = []
    for answer in bert.predict(texts):
        answers.append(answer.get("label") or [word["label"] for word in answer["entities"]])
    assert bert.evaluate(texts, answers, verbose=False)["accuracy"] == 1
    with pytest.raises(ValueError, match="`evaluate` needs `targets`, one for each text, .* targets=None$"):
        bert.evaluate(texts)
    bert.labels = range(12)
    answers = keras.tree.map_structure(lambda label: label.removeprefix("LABEL_"), answers)
    assert bert.evaluate(texts, answers, verbose=False)["accuracy"] == 1


def test_evaluate_of_words_that_the_tokenizer_removes(start, tmp_path):
    """Without a single one left there is no loss; it was NaN. One is enough."""
    tags = ["O", "B-X", "I-X"]
    model = keras_bert.build_token_classifier(keras_bert.load(start).encoder, 3)
    keras_bert.save(model, tmp_path, keras_bert.load(start).vocabulary, labels=tags)
    bert = keras_bert.load(tmp_path)
    for texts, targets, unit in (
        ([["\x7f"], ["\u200b"]], [["O"], ["B-X"]], "2 sentences"),
        (["\x7f"], [[]], "1 texts"),
    ):
        with pytest.raises(ValueError, match=f"texts: no word is left of {unit}, since the tokenizer removes white sp"):
            bert.evaluate(texts, targets, verbose=False)
    scores = bert.evaluate([["\x7f"], ["\u200b"], ["a"]], [["O"], ["O"], ["O"]], verbose=False)
    assert np.isfinite(list(scores.values())).all()


@pytest.mark.parametrize(
    ("labels", "tags"),
    [(["O", "P", "S"], "P S O"), (["B-K", "M-K", "E-K", "S-K", "O"], "B-K M-K E-K"), (["U-K ", "O", "L-K"], "U-K O O")],
)
def test_taggers_of_any_scheme(start, tmp_path, labels, tags):
    """The loss is that of the given tags, and the model's own entities are right."""
    model = keras_bert.build_token_classifier(keras_bert.load(start).encoder, len(labels))
    keras_bert.save(model, tmp_path, keras_bert.load(start).vocabulary, labels=labels)
    bert = keras_bert.load(tmp_path)
    tags = tags.split()
    logits = bert.model()(bert.preprocessor(5)(["a b c"]))["logits"].numpy()[0, 1:4]
    names = [label.strip() for label in labels]
    targets = [names.index(tag) for tag in tags]
    expected = -special.log_softmax(logits, -1)[range(3), targets].mean()
    assert bert.evaluate([["a", "b", "c"]], [tags], verbose=False)["loss"] == pytest.approx(expected)
    spans = []
    for answer in bert.predict(TEXTS):
        spans.append([(entity["start"], entity["end"], entity["label"]) for entity in answer["entities"]])
    assert bert.evaluate(TEXTS, spans, verbose=False)["f1"] == any(spans)


def test_evaluate_reads_the_named_targets(start, tmp_path):
    """Not those that the layout of the task would choose, which no class of the model is."""
    model = keras_bert.build_token_classifier(keras_bert.load(start).encoder, 2)
    keras_bert.save(model, tmp_path, keras_bert.load(start).vocabulary, labels=["N", "V"])
    bert = keras_bert.load(tmp_path)
    kinds = [["N", "V"][: len(words)] + ["N"] * (len(words) - 2) for words in WORDS]
    table = rows(tokens=WORDS, ner_tags=TAGS, word_classes=kinds)
    expected = bert.evaluate(WORDS, kinds, verbose=False)
    for given, targets in ((table, "word_classes"), (iter(table), "word_classes"), (table, kinds)):
        assert bert.evaluate(given, targets, verbose=False) == pytest.approx(expected)


def long_text(number):
    """A text of 300 words."""
    return " ".join(random.Random(number).choices("bcdefghijklmnop", k=300))


LONG = [long_text(number) for number in range(8)]


LONG_PAIRS = list(zip(LONG, LONG[::-1], strict=True))


LONG_CHOICES = [{"text": "a", "choices": [*pair, "c"]} for pair in LONG_PAIRS]


LONG_CONTEXTS = [{"question": "a b", "context": text} for text in LONG]


# Builders of a head with their options; texts, the target that an answer is, and a score.
OWN_ANSWERS = {
    "values": ("classifier", {"num_classes": 1}, LONG, lambda answer: answer["value"], "pearson"),
    "tags": (
        "token_classifier",
        {"num_classes": 5},
        [[*text.split(), "a-b", "c d", "e!"] for text in LONG],
        lambda answer: [word["label"] for word in answer["entities"]],
        "accuracy",
    ),
    "classes": ("classifier", {"num_classes": 2}, LONG_PAIRS, lambda answer: answer["label"], "accuracy"),
    "labels": (
        "classifier",
        {"num_classes": 3, "multi_label": True},
        LONG,
        lambda answer: answer["labels"],
        "micro_f1",
    ),
    "answers": ("span_labeler", {}, LONG_CONTEXTS, lambda answer: answer["answer"], "f1"),
    "choices": ("multiple_choice", {}, LONG_CHOICES, lambda answer: answer["choice"], "accuracy"),
}


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in [*OWN_ANSWERS][2:]]


@pytest.fixture(scope="module")
def long_encoder(config):
    """An encoder of 512 positions."""
    keras.utils.set_random_seed(1)
    return keras_bert.build_encoder(dataclasses.replace(config, max_position_embeddings=512))


@pytest.mark.parametrize("name", [*OWN_ANSWERS][:2] + SLOW)
def test_evaluate_reads_as_many_tokens_as_predict(long_encoder, pieces, tmp_path, name):
    """The targets are the answers of a model that stores no length to texts of 300 words."""
    head, options, texts, target, score = OWN_ANSWERS[name]
    keras_bert.save(getattr(keras_bert, f"build_{head}")(long_encoder, **options), tmp_path, pieces)
    bert = keras_bert.load(tmp_path)
    targets = list(map(target, bert.predict(texts)))
    with mock.patch("keras_bert.tasks.classification.task.announced", wraps=announced) as called:
        assert bert.evaluate(texts, targets, verbose=False)[score] == pytest.approx(1)
    shown = [call.args[0] for call in called.call_args_list if call.kwargs.get("show", True)]
    expected = ["tokenizing 8 rows"] if name in ("values", "classes", "labels") else []
    assert shown == expected


def test_scores_are_those_of_the_answers(start, tmp_path, caplog):
    """A sigmoid makes the logits of a regression model its answers. The head is kept in training."""
    bert = keras_bert.load(start)
    model = keras_bert.build_classifier(bert.encoder, 1, score_activation="sigmoid")
    model.weights[-2].assign(4 * model.weights[-2])
    keras_bert.save(model, tmp_path, bert.vocabulary)
    bert = keras_bert.load(tmp_path)
    targets = np.random.default_rng(0).random(8)
    values = np.array([answer["value"] for answer in bert.predict(PAIRS)])
    expected = {"pearson": stats.pearsonr(values, targets)[0], "loss": np.mean((values - targets) ** 2)}
    still = {"learning_rate": 0.0, "batch_size": 8, "epochs": 1, "validation": (PAIRS, targets)}
    trained = bert.fit(PAIRS, targets, verbose=False, **still).results
    for found in (bert.evaluate(PAIRS, targets, verbose=False), trained["scores"]):
        assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-5)
    with pytest.raises(SystemExit), mock.patch.object(Run, "train", side_effect=SystemExit):
        bert.fit(PAIRS, 5 * targets, verbose=False, **still)
    assert "the sigmoid of the model answers from 0 to 1, the labels are from" in caplog.text


@pytest.mark.parametrize(
    "function", ["euclidean", *(pytest.param(name, marks=pytest.mark.slow) for name in ("dot", "manhattan"))]
)
def test_similarity_of_a_sentence_encoder(start, tmp_path, function):
    """Its own one scores pairs with scores, pairs and triplets, as sentence-transformers does."""
    bert = keras_bert.load(start)
    keras_bert.save(keras_bert.build_embedder(bert.encoder), tmp_path, bert.vocabulary, similarity_function=function)
    bert = keras_bert.load(tmp_path)
    scores = np.random.default_rng(0).random(8)
    first = bert.encode(TEXTS)
    second = bert.encode(TEXTS[::-1])
    differences = (first[:, None] - second).astype("float64")
    compared = {
        "dot": first.astype("float64") @ second.T,
        "euclidean": -np.sqrt((differences**2).sum(-1)),
        "manhattan": -np.abs(differences).sum(-1),
    }[function]
    found = bert.evaluate(PAIRS, scores, verbose=False)
    assert found["spearman"] == pytest.approx(stats.spearmanr(np.diag(compared), scores)[0], abs=1e-6)
    ranks = (compared >= np.diag(compared)[:, None]).sum(1)
    assert bert.evaluate(PAIRS, verbose=False)["MRR@10"] == pytest.approx(np.mean(1 / ranks), abs=1e-6)
    triplets = [(text, second, TEXTS[0]) for text, second in PAIRS]
    right = np.diag(compared) > compared[:, 7]
    assert bert.evaluate(triplets, verbose=False)["accuracy"] == pytest.approx(np.mean(right), abs=1e-6)


def test_a_sentence_encoder_of_nan_has_no_scores(start, tmp_path):
    """NaN compares as false: the right passage was the first one of all."""
    bert = keras_bert.load(start)
    model = keras_bert.build_embedder(bert.encoder)
    model.weights[0].assign(np.full(model.weights[0].shape, np.nan, "float32"))
    keras_bert.save(model, tmp_path, bert.vocabulary)
    bert = keras_bert.load(tmp_path)
    triplets = [(first, second, TEXTS[0]) for first, second in PAIRS]
    for given, scores in ((PAIRS, None), (PAIRS, [0.5] * len(PAIRS)), (triplets, None)):
        with pytest.raises(FloatingPointError, match="must be finite. Received: NaN or infinity"):
            bert.evaluate(given, scores, verbose=False)


def test_evaluate_finds_the_columns_of_training(start, tmp_path):
    pandas = pytest.importorskip("pandas")
    model = keras_bert.build_classifier(keras_bert.load(start).encoder, 2)
    vocabulary = keras_bert.load(start).vocabulary
    keras_bert.save(model, tmp_path, vocabulary, labels=["x", "y"], columns={"text": "review"})
    bert = keras_bert.load(tmp_path)
    classes = ["x", "y"] * (len(TEXTS) // 2)
    frame = pandas.DataFrame({"id": range(len(TEXTS)), "review": TEXTS, "place": "a", "stars": classes})
    expected = bert.evaluate(TEXTS, classes, verbose=False)
    assert bert.evaluate(frame, "stars", verbose=False) == expected
    assert bert.evaluate(frame.to_dict("records"), "stars", verbose=False) == expected
    with pytest.raises(ValueError, match="Received: 'star' for a data frame .* Did you mean 'stars'?"):
        bert.evaluate(frame, "star")


def test_questions_without_a_threshold(start, tmp_path):
    """`predict` answers them all, also those without an answer."""
    bert = keras_bert.load(start)
    keras_bert.save(bert.span_labeler(), tmp_path, bert.vocabulary)
    bert = keras_bert.load(tmp_path)
    rows = [{"question": "a b", "context": text} for text in TEXTS]
    found = bert.evaluate(rows, [bert.predict(rows[0])["answer"], *[None] * 7], verbose=False)
    assert found["exact"] == 1 / 8
    assert found["best_exact"] >= 7 / 8


def test_a_given_threshold_overrides_that_of_the_model(config, pieces, tmp_path):
    metrics = pytest.importorskip("sklearn.metrics")
    model = keras_bert.build_classifier(keras_bert.build_encoder(config), 2, multi_label=True)
    kernel = model.get_layer("classifier").kernel
    kernel.assign(np.random.default_rng(0).normal(0, 2, kernel.shape))
    keras_bert.save(model, tmp_path, pieces, labels=["x", "y"], thresholds=[0.1, 0.1])
    bert = keras_bert.load(tmp_path)
    texts = ["a b", "c d", "a", "d d b"]
    sets = [["x"], ["y"], ["x", "y"], ["x"]]
    scores = np.array([list(answer["scores"].values()) for answer in bert.predict(texts)])
    gold = [["x" in labels, "y" in labels] for labels in sets]
    for options, threshold in (({}, 0.1), ({"threshold": 0.95}, 0.95)):
        expected = metrics.f1_score(gold, scores >= threshold, average="micro", zero_division=0)
        assert bert.evaluate(texts, sets, verbose=False, **options)["micro_f1"] == pytest.approx(expected)

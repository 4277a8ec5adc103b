"""Scores of words, compared with a loop over the words that replaces ids by hand."""

import copy

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import keras_bert  # noqa: E402

MASK = 4
PAD = 0
LONG = "a b c d e f g h i j"


pytestmark = pytest.mark.usefixtures("eager")  # Tracing takes longer than a few short texts.


@pytest.fixture(scope="module")
def loaded(config, pieces, tmp_path_factory):
    """Loads a model with a new head."""

    def load(build, *arguments, save=None, **options):
        folder = tmp_path_factory.mktemp("model")
        model = build(keras_bert.build_encoder(config), *arguments, **options)
        keras_bert.save(model, folder, pieces, **(save or {}))
        return keras_bert.load(folder)

    return load


@pytest.fixture(scope="module")
def classifier(loaded):
    return loaded(keras_bert.build_classifier, 3, save={"labels": ["bad", "so", "good"]})


def logits_of(bert, inputs):
    return bert.model()({name: tf.constant(ids) for name, ids in inputs.items()})["logits"].numpy()


def by_hand(bert, inputs, places, target=None, replacement=MASK):
    """Returns logit, baseline and scores, given the positions of the tokens of each word of one sequence."""

    def logits(ids):
        return logits_of(bert, {**inputs, "token_ids": ids})[0]

    ids = np.array(inputs["token_ids"])
    whole = logits(ids)
    target = whole.argmax() if target is None else target
    scores = []
    without_all = ids.copy()
    for positions in places:
        without = ids.copy()
        for position in positions:
            without[0, position] = replacement
            without_all[0, position] = replacement
        scores.append(whole[target] - logits(without)[target])
    return whole[target], logits(without_all)[target], scores


def scores_of(explanation):
    return [word["score"] for word in explanation["words"]]


def assert_equal(explanation, value, baseline, scores):
    np.testing.assert_allclose(explanation["value"], value, atol=1e-6)
    np.testing.assert_allclose(explanation["baseline"], baseline, atol=1e-6)
    np.testing.assert_allclose(scores_of(explanation), scores, atol=1e-6)
    np.testing.assert_allclose(explanation["difference"], value - baseline, atol=1e-6)
    np.testing.assert_allclose(explanation["delta"], value - baseline - sum(scores), atol=1e-5)


@pytest.mark.parametrize(("replacement", "identity"), [("[MASK]", MASK), ("[PAD]", PAD)])
def test_leave_one_out(classifier, replacement, identity):
    """All pieces of a word together, [CLS] and [SEP] stay; positions in the Python string."""
    found = classifier.explain(["abc é, d", "", "b"], replacement=replacement)
    preprocessor = classifier.preprocessor(40, padding="longest")
    for explanation, text, places in zip(
        found, ["abc é, d", "", "b"], [[[1, 2, 3], [4], [5], [6]], [], [[1]]], strict=True
    ):
        assert_equal(explanation, *by_hand(classifier, preprocessor([text]), places, replacement=identity))
    spans = [(word["text"], word["start"], word["end"], word["input"]) for word in found[0]["words"]]
    assert spans == [("abc", 0, 3, "text"), ("é", 4, 5, "text"), (",", 5, 6, "text"), ("d", 7, 8, "text")]
    assert found[0]["target"] == classifier.predict("abc é, d")["label"]
    assert (found[0]["method"], found[0]["replacement"]) == ("leave_one_out", replacement)
    assert (found[0]["tokens"], found[0]["tokens_read"]) == (8, 8)
    assert found[1]["words"] == []


def test_targets(classifier):
    """By name, by number, and one for each text."""
    text = "ab c"
    inputs = classifier.preprocessor(40, padding="longest")([text])
    for target, number in (("good", 2), (0, 0), (np.int64(1), 1)):
        explanation = classifier.explain(text, target)
        assert_equal(explanation, *by_hand(classifier, inputs, [[1, 2], [3]], number))
        assert explanation["target"] == ["bad", "so", "good"][number]
    first, _ = classifier.explain([text, "b"], ["so", None])
    assert first["target"] == "so"


def test_pairs(classifier):
    explanation = classifier.explain(("ab c", "d e"), "bad")
    inputs = classifier.preprocessor(40, padding="longest")((["ab c"], ["d e"]))
    assert_equal(explanation, *by_hand(classifier, inputs, [[1, 2], [3], [5], [6]], 0))
    assert [word["input"] for word in explanation["words"]] == ["text", "text", "pair", "pair"]
    assert [word["start"] for word in explanation["words"]] == [0, 3, 0, 2]


def test_a_cut_text(classifier, caplog):
    """The words that were read."""
    explanation = classifier.explain(LONG, sequence_length=6, long_texts="tail")
    assert [word["text"] for word in explanation["words"]] == list("ghij")
    assert (explanation["tokens"], explanation["tokens_read"]) == (12, 6)
    assert "longer than the 6 tokens" in caplog.text
    with pytest.raises(ValueError, match=r"texts\[1\] has 12 tokens, more than the 6"):
        classifier.explain(["a", LONG], sequence_length=6, long_texts="refuse")


def test_windows(classifier):
    """The logit is the log of the mean of the windows' exponentials; a word of two windows is replaced in both."""
    options = {"sequence_length": 8, "long_texts": "windows", "overlap": 2}
    explanation, short = classifier.explain([LONG, "b"], "so", **options)
    inputs = classifier.preprocessor(8, padding="longest")([LONG[:11], LONG[8:]])
    first_window = {name: ids[:1] for name, ids in inputs.items()}
    second_window = {name: ids[1:2] for name, ids in inputs.items()}
    places = [[place] for place in range(1, 7)]
    first = by_hand(classifier, first_window, places, 1)
    second = by_hand(classifier, second_window, places, 1)

    def join(one, other):
        return np.log((np.exp(one) + np.exp(other)) / 2)

    without_first = np.full(10, first[0])
    without_second = np.full(10, second[0])
    without_first[:6] -= first[2]
    without_second[4:] -= second[2]
    value = join(first[0], second[0])
    scores = value - join(without_first, without_second)
    assert_equal(explanation, value, join(first[1], second[1]), scores)
    gradients = classifier.explain(LONG, "so", method="integrated_gradients", **options)
    assert_equal(gradients, value, join(first[1], second[1]), scores_of(gradients))  # They sum to the difference.
    assert (explanation["windows"], short["windows"]) == (2, 1)


def test_tags(loaded):
    """The logit of a word's tag, of the first word that has one other than "O"."""
    bert = loaded(keras_bert.build_token_classifier, 3, save={"labels": ["O", "B-X", "I-X"]})
    text = "ab c d"
    inputs = bert.preprocessor(40, padding="longest")([text])
    logits = logits_of(bert, inputs)[0]
    places = [[1, 2], [3], [4]]
    tags = [logits[positions[0]].argmax() for positions in places]
    word = next((number for number, tag in enumerate(tags) if tag), 0)
    for target, number, tag in ((None, word, tags[word]), ("d", 2, tags[2]), (1, 1, tags[1]), (("c", "B-X"), 1, 1)):
        explanation = bert.explain(text, target)
        assert (explanation["word"], explanation["target"]) == (number, ["O", "B-X", "I-X"][tag])
        position = places[number][0]
        expected = []
        for positions in places:
            ids = np.array(inputs["token_ids"])
            ids[0, positions] = MASK
            without = logits_of(bert, {**inputs, "token_ids": ids})[0]
            expected.append(logits[position, tag] - without[position, tag])
        np.testing.assert_allclose(scores_of(explanation), expected, atol=1e-6)
    assert bert.explain("")["target"] is bert.explain("")["word"] is None
    (given,) = bert.explain([["a b", "c"]], "a b")
    assert [word["text"] for word in given["words"]] == ["a b", "c"]
    assert given["words"][1]["start"] == 4
    for target in ("z", 3, ("c", "Q"), -1):
        with pytest.raises(ValueError, match="`target` must be "):
            bert.explain(text, target)


@pytest.mark.slow
def test_tags_of_a_long_text(loaded):
    """The window with most of the context of the word has the logit, and its words."""
    bert = loaded(keras_bert.build_token_classifier, 3)
    explanation = bert.explain(LONG, "i", sequence_length=8)
    inputs = bert.preprocessor(8, padding="longest")([LONG[8:]])  # Windows start three tokens apart.
    tagged = bert.explain(LONG[8:], "i", sequence_length=8)
    read = "".join(word["text"] for word in explanation["words"])
    assert read in ("defghi", "efghij", "ghij")
    assert explanation["words"][explanation["word"]]["text"] == "i"
    assert explanation["tokens"] == 12
    assert explanation["tokens_read"] == len(read) + 2
    assert tagged["tokens"] == inputs["token_ids"].shape[1]
    # Windows that share nothing, as `predict` reads with this `doc_stride`: the last one is that of "ghij".
    apart = bert.explain(LONG, ("i", 2), sequence_length=8, doc_stride=6)
    assert "".join(word["text"] for word in apart["words"]) == "ghij"
    inputs = bert.preprocessor(8, padding="longest")(["g h i j"])
    np.testing.assert_allclose(apart["value"], logits_of(bert, inputs)[0, 3, 2], atol=1e-6)


def test_choices(loaded):
    """The words of the text, which are replaced beside each choice, and of the choice."""
    bert = loaded(keras_bert.build_multiple_choice)
    row = {"text": "ab c", "choices": ["d", "e f"]}
    explanation, other = bert.explain([row, {"text": "a", "choices": ["b", "c"]}], [1, None])
    inputs = bert.preprocessor(40, padding="longest")((["ab c"], ["e f"]))
    inputs = {name: ids[:, None] for name, ids in inputs.items()}

    def logit(ids):
        return logits_of(bert, {**inputs, "token_ids": ids})[0, 0]

    expected = []
    ids = np.array(inputs["token_ids"])
    for positions in ([1, 2], [3], [5], [6]):
        without = ids.copy()
        without[0, 0, positions] = MASK
        expected.append(logit(ids) - logit(without))
    np.testing.assert_allclose(scores_of(explanation), expected, atol=1e-6)
    assert [word["input"] for word in explanation["words"]] == ["text"] * 2 + ["choice"] * 2
    assert (explanation["target"], other["target"]) == (1, bert.predict({"text": "a", "choices": ["b", "c"]})["choice"])
    assert bert.explain(row, "e f")["target"] == 1
    with pytest.raises(ValueError, match="one of the 2 choices, or its number"):
        bert.explain(row, 2)


def test_choices_in_windows(loaded):
    """Each window of the text has every choice; a word that is in two windows is replaced in both."""
    bert = loaded(keras_bert.build_multiple_choice)
    rows = [{"text": LONG, "choices": ["b", "c d"]}, {"text": "ab", "choices": ["c", ""]}]
    options = {"sequence_length": 10, "long_texts": "windows", "overlap": 2}
    explanation, short = bert.explain(rows, [1, 0], **options)
    # Ten tokens of the text, five in a window beside the longest choice: from 0, 3 and 6 on.
    letters = LONG.replace(" ", "")
    parts = [letters[first : first + 5] for first in (0, 3, 6)]
    encode = bert.preprocessor(10, padding="longest")
    ids = [encode(([" ".join(part)], ["c d"]))["token_ids"].numpy()[0] for part in parts]

    def joined(without=(), without_choice=()):
        """Returns the logit of the text without the letters and the words of the choice at some places."""
        logits = []
        for first, row in zip((0, 3, 6), ids, strict=True):
            size = min(5, len(letters) - first)
            row = row.copy()
            row[[1 + place - first for place in without if first <= place < first + size]] = MASK
            row[[2 + size + place for place in without_choice]] = MASK
            inputs = encode(([" ".join(letters[first : first + size])], ["c d"]))
            inputs = {name: value[:, None] for name, value in inputs.items()}
            logits.append(logits_of(bert, {**inputs, "token_ids": row[None, None]})[0, 0])
        return np.log(np.mean(np.exp(logits)))

    value = joined()
    expected = [value - joined(without=places) for places in word_places(LONG)]
    expected += [value - joined(without_choice=[place]) for place in (0, 1)]
    np.testing.assert_allclose(explanation["value"], value, atol=1e-6)
    np.testing.assert_allclose(scores_of(explanation), expected, atol=1e-6)
    np.testing.assert_allclose(explanation["baseline"], joined(range(10), range(2)), atol=1e-6)
    assert (explanation["windows"], short["windows"]) == (3, 1)
    assert explanation["tokens_read"] == explanation["tokens"] == 15
    assert [word["input"] for word in short["words"]] == ["text", "choice"]
    chosen = bert.explain(rows[0], **options)
    assert chosen["target"] == bert.predict(rows[0], **options)["choice"]


def word_places(text):
    """Returns the places of the letters of each word."""
    places = []
    start = 0
    for word in text.split():
        places.append(range(start, start + len(word)))
        start += len(word)
    return places


@pytest.mark.parametrize("head", ["classes", "pairs", "windows", "labels", "value", "tags", "choices"])
@pytest.mark.slow
def test_integrated_gradients_are_complete(loaded, classifier, head):
    """The sum of the scores is the difference of the logits; both are those of leaving out."""
    text = "ab c d e"
    options = {}
    bert = classifier
    if head == "labels":
        bert = loaded(keras_bert.build_classifier, 2, multi_label=True, save={"labels": ["x", "y"]})
        options = {"target": "y"}
    elif head == "value":
        bert = loaded(keras_bert.build_classifier, 1, score_activation="sigmoid")
    elif head == "tags":
        bert = loaded(keras_bert.build_token_classifier, 3)
    elif head == "choices":
        bert = loaded(keras_bert.build_multiple_choice)
        text = {"text": "ab c", "choices": ["d e", "f"]}
    elif head == "pairs":
        text = ("ab c", "d e")
    elif head == "windows":
        text = LONG
        options = {"sequence_length": 8, "long_texts": "windows"}
    found = bert.explain(text, method="integrated_gradients", **options)
    left_out = bert.explain(text, **options)
    for name in ("value", "baseline", "target"):
        assert found[name] == pytest.approx(left_out[name], abs=2e-6)
    assert abs(found["delta"]) <= 0.01 * abs(found["difference"])
    np.testing.assert_allclose(sum(scores_of(found)), found["difference"] - found["delta"], atol=1e-5)
    assert [word["text"] for word in found["words"]] == [word["text"] for word in left_out["words"]]
    if head == "value":
        assert found["target"] is None


@pytest.mark.slow
def test_training_changes_explanations(classifier):
    """Graphs read weights when they run."""
    bert = copy.deepcopy(classifier)
    before = bert.explain("ab c", 0)
    kernel = bert.model().get_layer("classifier").kernel
    kernel.assign(2 * kernel)
    after = bert.explain("ab c", 0)
    np.testing.assert_allclose(scores_of(after), 2 * np.array(scores_of(before)), rtol=1e-4)


def test_a_million_characters(classifier):
    explanation = classifier.explain("a" * 10**6)
    assert [len(word["text"]) for word in explanation["words"]] == [10**6]
    assert explanation["tokens"] == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"target": "q"},
            "`target` must be one of bad, so, good, or a number below 3, .*Received: target='q'",
        ),
        ({"target": 3}, "`target` must be one of bad"),
        ({"target": True}, "`target` must be one of bad"),
        ({"method": "shap"}, "`method` must be one of leave_one_out, integrated_gradients. Received: method='shap'"),
        ({"replacement": "[X]"}, r"`replacement` must be a token of the vocabulary, such as '\[MASK\]'"),
        ({"n_steps": 0}, "`n_steps` must be a positive integer"),
        ({"n_steps": 5}, "`n_steps` is for method='integrated_gradients'"),
        ({"doc_stride": 5}, "`doc_stride` is for models with an answer for each token. Received: doc_stride=5"),
    ],
)
def test_wrong_options(classifier, options, message):
    with pytest.raises(ValueError, match=message):
        classifier.explain("a b", **options)


def test_one_target_for_each_text(classifier):
    with pytest.raises(ValueError, match="a list with one for each of 2. Received: a list of 1"):
        classifier.explain(["a", "b"], ["so"])


@pytest.mark.parametrize(
    "build",
    [keras_bert.build_span_labeler, keras_bert.build_embedder, keras_bert.build_pretrainer, lambda encoder: encoder],
)
def test_models_without_logits_of_classes(loaded, build):
    with pytest.raises(ValueError, match="`explain` needs logits of classes, labels, tags or choices, or a number"):
        loaded(build).explain("a")

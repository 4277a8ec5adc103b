"""Zero-shot classification of loaded models and of SavedModels equals formulas in NumPy on logits and vectors."""

import re

import numpy as np
import pytest
from scipy.special import softmax

import keras_bert

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

from keras_bert.exporting.export import build_signatures  # noqa: E402

NLI = ["Contradiction", "neutral", "ENTAILMENT"]
TEXTS = ["a b c", "", "d e"]
LABELS = ["x y", "b", "k"]
HYPOTHESIS = "a {} b."


@pytest.fixture(scope="module")
def load(config, pieces, tmp_path_factory):
    """Loads a new model with large weights."""

    def loaded(build, **facts):
        model = build(keras_bert.build_encoder(config))
        rng = np.random.default_rng(0)
        for variable in model.trainable_variables:
            variable.assign(rng.normal(scale=0.2, size=variable.shape).astype("float32"))
        folder = tmp_path_factory.mktemp("zero_shot") / "bert"
        keras_bert.save(model, folder, pieces, **facts)
        return keras_bert.load(folder)

    return loaded


@pytest.fixture(scope="module")
def nli(load):
    return load(lambda encoder: keras_bert.build_classifier(encoder, 3), labels=NLI, pair=True)


@pytest.fixture(scope="module")
def sentences(load):
    def build(encoder):
        return keras_bert.build_embedder(encoder, projection=8)

    return load(build, prompts={"query": "q: ", "other": ""}, default_prompt_name="query")


def pair_logits(nli):
    """Logarithms of the probabilities of pairs `(texts, labels, classes)`, which are logits up to a constant."""
    scores = []
    for answer in nli.predict(pairs_with_hypotheses()):
        scores.append([answer["scores"][name] for name in NLI])
    return np.log(scores).reshape(len(TEXTS), len(LABELS), 3)


def pairs_with_hypotheses():
    """All texts with all hypotheses."""
    pairs = []
    for text in TEXTS:
        for label in LABELS:
            pairs.append((text, HYPOTHESIS.replace("{}", label)))
    return pairs


def assert_scores(answer, expected):
    np.testing.assert_allclose(list(answer["scores"].values()), expected, atol=1e-5)


@pytest.mark.usefixtures("eager")
def test_an_nli_classifier(nli):
    texts = []
    hypotheses = []
    for text, hypothesis in pairs_with_hypotheses():
        texts.append(text)
        hypotheses.append(hypothesis)
    inputs = nli.preprocessor(40)((texts, hypotheses))
    entailment = nli.model()(inputs)["logits"].numpy()[:, 2]
    expected = softmax(entailment.reshape(3, 3), axis=-1)
    answers = nli.predict(TEXTS, candidate_labels=LABELS, hypothesis=HYPOTHESIS, batch_size=2)
    for answer, row in zip(answers, expected, strict=True):
        assert answer["label"] == LABELS[row.argmax()]
        assert_scores(answer, row)
        assert answer["score"] == max(answer["scores"].values())
    alone = nli.predict(TEXTS[0], candidate_labels=LABELS, hypothesis=HYPOTHESIS)
    assert alone.keys() == answers[0].keys()


@pytest.mark.usefixtures("eager")
def test_several_labels_per_text(nli):
    logits = pair_logits(nli)
    entailment_or_not = logits[..., [0, 2]]
    expected = softmax(entailment_or_not, axis=-1)[..., 1]
    answers = nli.predict(TEXTS, candidate_labels=LABELS, hypothesis=HYPOTHESIS, multi_label=True)
    for answer, row in zip(answers, expected, strict=True):
        assert_scores(answer, row)
        probable = [label for label, score in zip(LABELS, row, strict=True) if score >= 0.5]
        assert answer["labels"] == probable


@pytest.mark.slow  # The import of PyTorch; the formulas above are in NumPy.
def test_the_pipeline_of_transformers(nli, tmp_path):
    pytest.importorskip("torch", reason="a peer, see `make peers`")
    transformers = pytest.importorskip("transformers", reason="a peer, see `make peers`")
    keras_bert.save(nli.model(), tmp_path / "bert", nli.vocabulary.pieces, labels=NLI, pair=True)
    peer = transformers.pipeline("zero-shot-classification", model=str(tmp_path / "bert"), device="cpu")
    texts = [text for text in TEXTS if text]  # Theirs refuses an empty one.
    options = {"candidate_labels": LABELS, "multi_label": True}
    ours = nli.predict(texts, hypothesis=HYPOTHESIS, **options)
    theirs = peer(texts, hypothesis_template=HYPOTHESIS, **options)
    for answer, expected in zip(ours, theirs, strict=True):
        for label, score in zip(expected["labels"], expected["scores"], strict=True):
            assert abs(answer["scores"][label] - score) < 1e-5


@pytest.mark.usefixtures("eager")
def test_a_sentence_encoder(sentences):
    hypotheses = [f"This text is about {label}." for label in LABELS]
    label_vectors = sentences.encode(hypotheses, normalize=True)
    similarities = sentences.encode(TEXTS, normalize=True) @ label_vectors.T
    expected = softmax(similarities / 0.1, axis=-1)
    answers = sentences.predict(TEXTS, candidate_labels=LABELS, temperature=0.1)
    for answer, row in zip(answers, expected, strict=True):
        assert answer["label"] == LABELS[row.argmax()]
        assert_scores(answer, row)


@pytest.mark.usefixtures("eager")
def test_prompts_of_a_sentence_encoder(sentences):
    with_default = sentences.encode("a")
    np.testing.assert_allclose(sentences.predict("a")["embedding"], sentences.encode("a", prompt="q: "), atol=1e-6)
    assert np.abs(with_default - sentences.encode("a", prompt_name="other")).max() > 1e-3
    with pytest.raises(ValueError, match="`prompt_name`"):
        sentences.encode("a", prompt_name="document")
    with pytest.raises(ValueError, match="`prompt`, a text, or `prompt_name`"):
        sentences.encode("a", prompt="", prompt_name="query")


# Rows may have fewer labels.
LABELS_OF_TEXTS = [[*LABELS], ["x y", "b", ""], ["", "k", ""]]


def check_zero_shot(bert, signature):
    """Compares the signature with `predict`, which refuses a single label: its probability is 1."""
    outputs = signature(text=tf.constant(TEXTS), labels=tf.constant(LABELS_OF_TEXTS))
    for row, (text, labels) in enumerate(zip(TEXTS, LABELS_OF_TEXTS, strict=True)):
        given = [label for label in labels if label]
        expected = {"label": "k", "scores": {"k": 1.0}}
        if given != ["k"]:
            expected = bert.predict(text, candidate_labels=given, hypothesis=HYPOTHESIS)
        assert outputs["label"][row].numpy().decode() == expected["label"]
        scores = [expected["scores"].get(label, 0.0) for label in labels]
        np.testing.assert_allclose(outputs["probabilities"][row], scores, atol=1e-5)


def signatures_of(bert, **options):
    """Builds the signatures of a model as functions of named inputs."""
    functions = build_signatures(
        bert.model(), bert.preprocessor(20), zero_shot=keras_bert.ZeroShot(HYPOTHESIS), **options
    )
    signatures = {}
    for name, function in functions.items():
        signatures[name] = lambda function=function, **inputs: function(*inputs.values())
    return signatures


@pytest.mark.usefixtures("eager")
def test_signatures_of_a_classifier(nli):
    signatures = signatures_of(nli, labels=NLI, pair=True)
    assert set(signatures) - {"tokens"} == {"serving_default", "classify", "zero_shot"}
    check_zero_shot(nli, signatures["zero_shot"])


@pytest.mark.usefixtures("eager")
def test_signatures_of_a_sentence_encoder(sentences):
    """Each prompt has one."""
    signatures = signatures_of(sentences, prompts=sentences.prompts, default_prompt_name="query")
    prompts = {"serving_default": "q: ", "embed": "q: ", "embed_query": "q: ", "embed_other": ""}
    assert set(signatures) - {"tokens"} == {*prompts, "zero_shot"}
    check_zero_shot(sentences, signatures["zero_shot"])
    for name, prompt in prompts.items():
        vectors = signatures[name](text=tf.constant(TEXTS))["embedding"]
        np.testing.assert_allclose(vectors, sentences.encode(TEXTS, prompt=prompt), atol=1e-5)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("nli", {"candidate_labels": "sport"}, "`candidate_labels` must be a list of different strings, .*'sport'"),
        ("nli", {"candidate_labels": ["a"]}, "at least 2 labels: a single one .* 1 without `multi_label=True`. Rec"),
        ("sentences", {"candidate_labels": ["a"]}, "at least 2 labels: a single one always has the probability 1. R"),
        ("nli", {"candidate_labels": ["a", "b"], "temperature": 1}, "`temperature` is for sentence encoders"),
        ("nli", {"candidate_labels": ["a"], "temperature": 0}, "`temperature` must be a finite number above 0"),
        ("nli", {"candidate_labels": ["a"], "hypothesis": "a"}, "`hypothesis` must be a string with one {}"),
        ("nli", {"candidate_labels": ["a"], "n_best": 1}, "has the options hypothesis, multi_label, .*Received: n_b"),
        ("sentences", {"candidate_labels": ["a"], "multi_label": True}, "`multi_label` needs a classifier of pairs"),
    ],
)
def test_wrong_options_of_predict(request, kind, options, message):
    bert = request.getfixturevalue(kind)
    with pytest.raises(ValueError, match=message):
        bert.predict(["a"], **options)


def test_a_pair_has_no_room_for_a_hypothesis(nli):
    with pytest.raises(ValueError, match="takes a text. Received: a pair of texts"):
        nli.predict([("a", "b")], candidate_labels=["a"])


def test_a_classifier_of_other_classes(load):
    topics = load(lambda encoder: keras_bert.build_classifier(encoder, 2), labels=["a", "b"], pair=True)
    received = re.escape("a model with head='classification', labels=['a', 'b'], pair=True")
    with pytest.raises(ValueError, match=f"zero-shot .*{received}"):
        topics.predict(["a"], candidate_labels=["a", "b"])


@pytest.mark.usefixtures("eager")
def test_no_texts_and_one_label(nli, sentences):
    assert nli.predict([], candidate_labels=["a", "b"]) == []
    assert nli.predict("a", candidate_labels=["a"], multi_label=True)["scores"].keys() == {"a"}
    assert sentences.similarity([], ["a"]).shape == (0, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pair": True, "zero_shot": True}, "`zero_shot` must be a keras_bert.ZeroShot or `None`"),
        ({"zero_shot": keras_bert.ZeroShot()}, "needs a classifier of pairs. Received: pair=False"),
    ],
)
def test_wrong_options_of_export(nli, options, message):
    with pytest.raises(ValueError, match=message):
        keras_bert.export(nli.model(), nli.preprocessor(20), "never", labels=NLI, **options)

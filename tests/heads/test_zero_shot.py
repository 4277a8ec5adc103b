"""Zero-shot classification of loaded models and of SavedModels equals formulas in NumPy on logits and vectors."""

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
        pairs.extend((text, HYPOTHESIS.replace("{}", label)) for label in LABELS)
    return pairs


@pytest.mark.usefixtures("eager")
def test_an_nli_classifier(nli):
    texts, hypotheses = zip(*pairs_with_hypotheses(), strict=True)
    inputs = nli.preprocessor(40)((list(texts), list(hypotheses)))
    expected = softmax(nli.model()(inputs)["logits"].numpy()[:, 2].reshape(3, 3), axis=-1)
    answers = nli.predict(TEXTS, candidate_labels=LABELS, hypothesis=HYPOTHESIS, batch_size=2)
    for answer, row in zip(answers, expected, strict=True):
        assert answer["label"] == LABELS[row.argmax()]
        np.testing.assert_allclose(list(answer["scores"].values()), row, atol=1e-5)
        assert answer["score"] == max(answer["scores"].values())
    assert nli.predict(TEXTS[0], candidate_labels=LABELS, hypothesis=HYPOTHESIS).keys() == answers[0].keys()


@pytest.mark.usefixtures("eager")
def test_several_labels_per_text(nli):
    logits = pair_logits(nli)
    expected = softmax(logits[..., [0, 2]], axis=-1)[..., 1]
    answers = nli.predict(TEXTS, candidate_labels=LABELS, hypothesis=HYPOTHESIS, multi_label=True)
    for answer, row in zip(answers, expected, strict=True):
        np.testing.assert_allclose(list(answer["scores"].values()), row, atol=1e-5)
        assert answer["labels"] == [label for label, score in zip(LABELS, row, strict=True) if score >= 0.5]


@pytest.mark.slow  # The import of PyTorch; the formulas above are in NumPy.
def test_the_pipeline_of_transformers(nli):
    pytest.importorskip("torch", reason="a peer, see `make peers`")
    transformers = pytest.importorskip("transformers", reason="a peer, see `make peers`")
    folder = nli._checkpoint.name
    peer = transformers.pipeline("zero-shot-classification", model=folder, device="cpu")
    texts = [text for text in TEXTS if text]  # Theirs refuses an empty one.
    options = {"candidate_labels": LABELS, "multi_label": True}
    theirs = peer(texts, hypothesis_template=HYPOTHESIS, **options)
    for answer, expected in zip(nli.predict(texts, hypothesis=HYPOTHESIS, **options), theirs, strict=True):
        for label, score in zip(expected["labels"], expected["scores"], strict=True):
            assert abs(answer["scores"][label] - score) < 1e-5


@pytest.mark.usefixtures("eager")
def test_a_sentence_encoder(sentences):
    hypotheses = sentences.encode([f"This text is about {label}." for label in LABELS], normalize=True)
    expected = softmax(sentences.encode(TEXTS, normalize=True) @ hypotheses.T / 0.1, axis=-1)
    answers = sentences.predict(TEXTS, candidate_labels=LABELS, temperature=0.1)
    for answer, row in zip(answers, expected, strict=True):
        assert answer["label"] == LABELS[row.argmax()]
        np.testing.assert_allclose(list(answer["scores"].values()), row, atol=1e-5)
    np.testing.assert_allclose(sentences.predict("a")["embedding"], sentences.encode("a", prompt="q: "), atol=1e-6)
    assert np.abs(sentences.encode("a") - sentences.encode("a", prompt_name="other")).max() > 1e-3


def options_of(bert):
    """Returns the options of `export`."""
    settings = keras_bert.ZeroShot(HYPOTHESIS)
    if bert.head == "classification":
        return {"labels": NLI, "pair": True, "zero_shot": settings}
    return {"prompts": bert.prompts, "default_prompt_name": "query", "zero_shot": settings}


def check(bert, signatures):
    """Compares signatures with `predict` and `encode`; rows may have fewer labels."""
    labels = [[*LABELS], ["x y", "b", ""], ["", "k", ""]]
    found = signatures["zero_shot"](text=tf.constant(TEXTS), labels=tf.constant(labels))
    for row, text in enumerate(TEXTS):
        given = [label for label in labels[row] if label]
        expected = {"label": "k", "scores": {"k": 1.0}}  # A single label, which `predict` refuses.
        if given != ["k"]:
            expected = bert.predict(text, candidate_labels=given, hypothesis=HYPOTHESIS)
        assert found["label"][row].numpy().decode() == expected["label"]
        scores = [expected["scores"].get(label, 0.0) for label in labels[row]]
        np.testing.assert_allclose(found["probabilities"][row], scores, atol=1e-5)
    if bert.head == "classification":
        assert set(signatures) - {"tokens"} == {"serving_default", "classify", "zero_shot"}
        return
    prompts = {"serving_default": "q: ", "embed": "q: ", "embed_query": "q: ", "embed_other": ""}
    assert set(signatures) - {"tokens"} == {*prompts, "zero_shot"}
    for name, prompt in prompts.items():
        vectors = signatures[name](text=tf.constant(TEXTS))["embedding"]
        np.testing.assert_allclose(vectors, bert.encode(TEXTS, prompt=prompt), atol=1e-5)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("kind", ["nli", "sentences"])
def test_signatures(request, kind):
    bert = request.getfixturevalue(kind)
    functions = build_signatures(bert.model(), bert.preprocessor(20), **options_of(bert))
    check(bert, {name: lambda call=call, **inputs: call(*inputs.values()) for name, call in functions.items()})


@pytest.mark.usefixtures("eager")
def test_mistakes(nli, sentences, load):
    for bert, options, message in (
        (nli, {"candidate_labels": "sport"}, "`candidate_labels` must be a list of different strings, .*'sport'"),
        (nli, {"candidate_labels": ["a"]}, "at least 2 labels: a single one .* 1 without `multi_label=True`. Received"),
        (sentences, {"candidate_labels": ["a"]}, "at least 2 labels: a single one always has the probability 1. Rec"),
        (nli, {"candidate_labels": ["a", "b"], "temperature": 1}, "`temperature` is for sentence encoders. Received"),
        (nli, {"candidate_labels": ["a"], "hypothesis": "a"}, "`hypothesis` must be a string with one {}"),
        (nli, {"candidate_labels": ["a"], "temperature": 0}, "`temperature` must be a finite number above 0"),
        (nli, {"candidate_labels": ["a"], "n_best": 1}, "has the options hypothesis, multi_label, .*Received: n_best"),
        (sentences, {"candidate_labels": ["a"], "multi_label": True}, "`multi_label` needs a classifier of pairs"),
    ):
        with pytest.raises(ValueError, match=message):
            bert.predict(["a"], **options)
    with pytest.raises(ValueError, match="takes a text. Received: a pair of texts"):
        nli.predict([("a", "b")], candidate_labels=["a"])
    topics = load(lambda encoder: keras_bert.build_classifier(encoder, 2), labels=["a", "b"], pair=True)
    with pytest.raises(
        ValueError,
        match="zero-shot .* such as sentence-.*: a model with head='classification', labels=.'a', 'b'., pair=True",
    ):
        topics.predict(["a"], candidate_labels=["a", "b"])
    assert nli.predict([], candidate_labels=["a", "b"]) == []
    assert nli.predict("a", candidate_labels=["a"], multi_label=True)["scores"].keys() == {"a"}
    assert sentences.similarity([], ["a"]).shape == (0, 1)
    with pytest.raises(ValueError, match="`prompt_name` must be the name of a prompt: query, other. Rec.*'document'"):
        sentences.encode("a", prompt_name="document")
    with pytest.raises(ValueError, match="pass `prompt`, a text, or `prompt_name`, not both"):
        sentences.encode("a", prompt="", prompt_name="query")
    preprocessor = nli.preprocessor(20)
    for options, message in (
        ({"pair": True, "zero_shot": True}, "`zero_shot` must be a keras_bert.ZeroShot or `None`. Received"),
        ({"zero_shot": keras_bert.ZeroShot()}, "zero-shot .* needs a classifier of pairs. Received: pair=False"),
    ):
        with pytest.raises(ValueError, match=message):
            keras_bert.export(nli.model(), preprocessor, "never", labels=NLI, **options)

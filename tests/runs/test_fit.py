"""`LoadedBert.fit` and `evaluate`: the same weights and scores as the commands, for every task; data of all forms."""

import concurrent.futures
import dataclasses
import functools
import inspect
import json
import os
import random
import re
import signal
import sys
from importlib.util import find_spec
from unittest import mock

import keras
import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file
from scipy import special, stats

import keras_bert
from keras_bert.files import one_writer, read_json
from keras_bert.progress import announced
from keras_bert.runs import fit, fit_data
from keras_bert.runs.finetuning import Finetuning
from keras_bert.runs.run import Run
from tests.pipelines.programs import call

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]

TEXTS = ["a b c", "d e", "f g h i", "j a", "b b", "c d e f", "g", "h i j"]
PAIRS = list(zip(TEXTS, TEXTS[::-1], strict=True))
CLASSES = ["x", "y"] * 4
WORDS = [text.split() for text in TEXTS]
TAGS = [["B-K" if word in "aeg" else "O" for word in words] for words in WORDS]
CONTEXT = "c d e f g h i j k l m"
QUESTIONS = [{"question": "a b", "context": CONTEXT}, {"question": "b", "context": CONTEXT}]
CHOICES = [{"text": text, "choices": ["k", "l m", "n"]} for text in TEXTS[:4]]
SQUAD = [("e", 4), ("k", 16)]


def squad(answers):
    asked = [
        {"id": str(n), "question": row["question"], "answers": [{"text": a[0], "answer_start": a[1]}] if a else []}
        for n, (row, a) in enumerate(zip(QUESTIONS, answers, strict=True))
    ]
    return {
        "version": "v2.0" if None in answers else "1.1",
        "data": [{"paragraphs": [{"context": CONTEXT, "qas": asked}]}],
    }


def rows(**named):
    return [dict(zip(named, values, strict=True)) for values in zip(*named.values(), strict=True)]


# The program and its flags, the rows of its files, the arguments of `fit`, and options of `fit`.
CASES = {
    "classes": ("run_glue --task=classification", rows(text=TEXTS, label=CLASSES), (TEXTS, CLASSES), {}),
    "pairs": (
        "run_glue --task=regression --pair_column=second --nobest",
        rows(text=TEXTS, second=TEXTS[::-1], label=[n / 3 for n in range(8)]),
        (PAIRS, np.arange(8) / 3),
        {},
    ),
    "labels": (
        "run_glue --task=multi_label --threshold=per_label --class_weight=balanced",
        rows(text=TEXTS, label=[["x", "y"], [], ["y"], ["x"]] * 2),
        (TEXTS, [["x", "y"], [], ["y"], ["x"]] * 2),
        {"threshold": "per_label", "class_weight": "balanced"},
    ),
    "tags": ("run_tagging", rows(tokens=WORDS, tags=TAGS), (WORDS, TAGS), {}),
    "spans": (
        "run_tagging --lora_rank=2",
        rows(text=TEXTS, spans=[[[0, 1, "K"]]] * 8),
        (TEXTS, [[(0, 1, "K")]] * 8),
        {"lora_rank": 2},
    ),
    "answers": ("run_squad --doc_stride=2", squad(SQUAD), (QUESTIONS, ["e", "k"]), {"doc_stride": 2}),
    "unanswered": ("run_squad --version_2", squad([SQUAD[0], None]), (QUESTIONS, ["e", None]), {}),
    "choices": (
        "run_multiple_choice --first_label=0",
        [row | {"label": n % 3} for n, row in enumerate(CHOICES)],
        (CHOICES, [n % 3 for n in range(4)]),
        {},
    ),
    "vectors": (
        "run_embedding",
        rows(query=TEXTS, passage=TEXTS[::-1]),
        (PAIRS,),
        {},
    ),
}
CASES = {name: case for name, case in CASES.items() if find_spec(f"pipelines.{case[0].split()[0]}")}
SETTINGS = {"epochs": 2, "batch_size": 4, "learning_rate": 1e-2, "seed": 3, "sequence_length": 14}


@pytest.fixture(scope="module")
def start(tmp_path_factory, config, pieces):
    """A folder with the model to start from."""
    folder = tmp_path_factory.mktemp("start")
    keras_bert.save(keras_bert.build_encoder(config), folder, pieces)
    return folder


@pytest.fixture(scope="module")
def loaded(start):
    """The model to start from, of tests that do not change it."""
    return keras_bert.load(start)


@pytest.mark.parametrize("name", ["classes", *(pytest.param(name, marks=pytest.mark.slow) for name in [*CASES][1:])])
def test_weights_and_scores_are_those_of_the_command(start, tmp_path, name):
    command, content, arguments, options = CASES[name]
    path = tmp_path / ("rows.json" if isinstance(content, dict) else "rows.jsonl")
    path.write_text(json.dumps(content) if isinstance(content, dict) else "\n".join(map(json.dumps, content)))
    program, *flags = command.split()
    flags += [f"--{flag}={value}" for flag, value in SETTINGS.items()]
    files = [f"--train_file={path}", f"--dev_file={path}", f"--model={start}", f"--output_dir={tmp_path / 'out'}"]
    with mock.patch("keras_bert.runs.results.export"):
        call(f"pipelines.{program}", *files, *flags)
    bert = keras_bert.load(start)
    before = [weight.numpy() for weight in bert.encoder.weights]
    options = {**SETTINGS, **options, **({} if "--nobest" in flags else {"validation": arguments})}
    trained = bert.fit(*arguments, verbose=False, **options)
    trained.save(tmp_path / "ours")
    ours, theirs = (load_file(tmp_path / folder / "model.safetensors") for folder in ("ours", "out/model"))
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[tensor], theirs[tensor]) for tensor in theirs)
    assert all(map(np.array_equal, before, (weight.numpy() for weight in bert.encoder.weights)))
    best = json.loads((tmp_path / "out" / "results.json").read_text())["best"]["scores"]
    assert trained.results["evaluated_on"] == ("validation" if "validation" in options else "training data")
    assert trained.results["scores"] == pytest.approx(best, abs=1e-6)
    assert name != "tags" or trained.predict(WORDS) == trained.predict(TEXTS)
    length = {"sequence_length": 14, "doc_stride": 2} if name == "answers" else {}
    scores = trained.evaluate(*arguments, verbose=False, **length)
    assert {metric: scores[metric] for metric in best} == pytest.approx(best, abs=1e-6)


def test_an_interrupted_run_resumes(start, tmp_path):
    """The same call with the same folder continues; the results are those of a run that was not interrupted."""

    class Interrupt(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs):
            os.kill(os.getpid(), signal.SIGTERM)

    bert = keras_bert.load(start)
    arguments = {"validation_split": 0.25, "verbose": False, **SETTINGS}
    whole = bert.fit(TEXTS, CLASSES, **arguments)
    with mock.patch.object(Finetuning, "finish", return_value=""):
        with pytest.raises(SystemExit, match="143"):
            bert.fit(TEXTS, CLASSES, output_dir=tmp_path, callbacks=[Interrupt()], **arguments)
        resumed = bert.fit(TEXTS, CLASSES, output_dir=tmp_path, **arguments)
        with pytest.raises(ValueError, match="other settings: the content of `texts` has changed"):
            bert.fit(TEXTS, CLASSES[::-1], output_dir=tmp_path, **arguments)
    assert all(map(np.array_equal, whole.model().weights, resumed.model().weights))
    assert resumed.results == whole.results
    first, second = whole.results["history"]
    assert (first["epoch"], second["epoch"], len(whole.results["runs"])) == (1, 2, 1)
    assert whole.results["evaluated_on"] == "validation"
    assert {"loss", "val_loss", "val_accuracy"} <= first.keys()


def test_other_numbers_in_the_same_folder(start, tmp_path, caplog):
    """The run that was asked for is returned, also if an earlier one was as good."""
    fit = functools.partial(keras_bert.load(start).fit, TEXTS, CLASSES, output_dir=tmp_path, verbose=False)
    with mock.patch.object(Finetuning, "finish", return_value=""), caplog.at_level("INFO", "keras_bert"):
        for epochs in (1, 2):
            trained = fit(epochs=epochs, learning_rate=0.0, batch_size=8)
            assert trained.results["setting"]["epochs"] == len(trained.results["history"]) == epochs
    assert "do not count: learning_rate=0.0,batch_size=8,epochs=1,seed=1" in caplog.text
    with one_writer(tmp_path), pytest.raises(ValueError, match=f"another run writes to {tmp_path}: process"):
        fit(epochs=3)


def test_fit_starts_from_the_present_weights(start):
    """A head with the same classes is kept, with what the model has learned since it was loaded."""
    model = keras_bert.build_classifier(keras_bert.load(start).encoder, 2)
    bert = keras_bert.load(start)
    keras_bert.save(model, start / "classifier", bert.vocabulary, labels=["x", "y"])
    bert = keras_bert.load(start / "classifier")
    bert.model().weights[-1].assign([3.0, -1.0])
    still = {"verbose": False, **SETTINGS, "epochs": 1, "batch_size": 8, "learning_rate": 0.0}
    for classes, same in ((CLASSES, True), (["z", "y"] * 4, False)):
        trained = bert.fit(TEXTS, classes, **still)
        assert same == all(map(np.array_equal, bert.model().weights, trained.model().weights))
        assert same == (trained.predict("a b") == bert.predict("a b"))


def test_equal_settings(loaded):
    """Classes of weights may be numbers, as labels; settings may be of NumPy, and `None` is the default."""

    def settings(**options):
        with mock.patch.object(Run, "train", autospec=True, side_effect=SystemExit) as train, pytest.raises(SystemExit):
            loaded.fit(TEXTS, [3, 4] * (len(TEXTS) // 2), verbose=False, batch_size=4, **options)
        run = train.call_args.args[0]
        return json.dumps(run.setting), run.finetuning.common()["class_weight"]

    same = settings(class_weight={3: 2.0}, epochs=np.int64(1), learning_rate=np.float32(0.5), seed=None, callbacks=None)
    assert same == settings(class_weight={"3": 2.0}, epochs=1, learning_rate=0.5)


def test_settings_of_numpy(loaded):
    """The settings that all runs share are those of Python, which JSON can hold."""

    def common(number, whole):
        options = {"warmup": number(0.25), "sequence_length": whole(8), "freeze_layers": whole(1)}
        with mock.patch.object(Run, "train", autospec=True, side_effect=SystemExit) as train, pytest.raises(SystemExit):
            loaded.fit(TEXTS, [[label] for label in CLASSES], task="multi_label", threshold=number(0.5), **options)
        return json.dumps(train.call_args.args[0].finetuning.common())

    assert common(np.float32, np.int64) == common(float, int)


def test_default_learning_rate_and_advice(loaded, caplog):
    fit = functools.partial(loaded.fit, TEXTS, CLASSES, verbose=False, batch_size=8)
    with caplog.at_level("INFO", "keras_bert"):
        with mock.patch.object(Run, "train", side_effect=SystemExit), pytest.raises(SystemExit):
            fit(epochs=1)
        assert "  learning rate: 0.0003, the default for a width of 32; `learning_rate` sets others" in caplog.messages
        lines = [{"kind": "train", "loss": 0.7}] * 20
        with mock.patch("keras_bert.runs.run.read_lines", return_value=lines):
            trained = fit(epochs=1, learning_rate=1e-9)
    assert trained.results["advice"].endswith("try a learning_rate of 0.0003, or more epochs")
    assert caplog.text.count("the loss did not fall, from 0.7 to 0.7") == 1


def test_messages_name_arguments_of_python(loaded, caplog):
    broken = [["S-K" if word in "aeg" else "I-K" for word in words] for words in WORDS]
    fit = functools.partial(loaded.fit, WORDS, epochs=1, batch_size=8, verbose=False)
    with mock.patch.object(Run, "train", side_effect=SystemExit), pytest.raises(SystemExit):
        fit(broken)
    (message,) = [text for text in caplog.messages if "break the scheme" in text]
    assert re.match(
        r"texts: \d+ tag\(s\) break the scheme IOBES .*: I-K in row 0, I-K in row 0, I-K in row 1,", message
    )
    assert fit(broken, scheme="words").labels == ["I-K", "S-K"]


def test_state_of_the_program(start):
    """The program keeps its random numbers, names and dtype policy; the model trains in the precision it has."""

    def draw():
        return random.random(), np.random.rand(), float(keras.random.uniform([])), float(tf.random.uniform([]))

    keras.utils.set_random_seed(7)
    keras.random.uniform([])
    tf.random.uniform([])
    expected = draw()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        bert = keras_bert.load(start)
        inputs = keras.Input([3])
        hidden = keras.layers.Dense(3)(inputs)
        keras.utils.set_random_seed(7)
        keras.random.uniform([])  # The generators of Keras and TensorFlow are some that have drawn.
        tf.random.uniform([])
        stop = keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs: setattr(stop.model, "stop_training", True)
        )
        trained = bert.fit(TEXTS, CLASSES, verbose=False, batch_size=8, epochs=2, callbacks=stop)
        assert keras.config.dtype_policy().name == "mixed_bfloat16"
        assert draw() == expected
        keras.Model(inputs, keras.layers.Dense(3)(hidden))  # Layers have different names.
    finally:
        keras.config.set_dtype_policy("float32")
    assert trained.encoder.get_layer("block_0").dtype_policy.name == "mixed_bfloat16"
    assert trained.results["setting"]["learning_rate"] == 3e-4  # The default for a width of 32.
    assert trained.results["epoch"] == 1  # The callback has stopped the run.


def test_threads(start):
    """Training in two threads, beside answers in a third one, gives what one call after the other gives."""
    bert = keras_bert.load(start)
    policy = keras.config.dtype_policy()

    def fit(seed):
        return bert.fit(TEXTS, CLASSES, verbose=seed == 1, **{**SETTINGS, "epochs": 1, "batch_size": 8, "seed": seed})

    def answer(first):
        return [bert.predict("a b", sequence_length=n)["embedding"].tolist() for n in range(first, first + 3)]

    expected, streams, errors = [fit(1), fit(2), answer(5)], sys.stdout, sys.stderr
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        calls = [pool.submit(*call) for call in ((fit, 1), (fit, 2), (answer, 8))]
        found = [call.result() for call in calls]
    for first, second in zip(expected[:2], found[:2], strict=True):
        assert all(map(np.array_equal, first.model().weights, second.model().weights))
    np.testing.assert_allclose(found[2], expected[2], atol=1e-6)
    assert (sys.stdout, sys.stderr, keras.config.dtype_policy()) == (streams, errors, policy)


@pytest.mark.slow
def test_two_replicas(config, pieces, tmp_path, mirrored):
    tf.config.run_functions_eagerly(False)  # Replicas only run as graphs.
    plain = dataclasses.replace(config, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    keras_bert.save(keras_bert.build_encoder(plain), tmp_path, pieces)
    fit = functools.partial(keras_bert.load(tmp_path).fit, TEXTS, CLASSES, verbose=False, **SETTINGS)
    one, two = (fit(strategy=strategy).model().weights for strategy in (None, mirrored))
    for first, second in zip(one, two, strict=True):
        kept = np.ones(first.shape, bool)
        if first.path.endswith("query_key_value/bias"):  # Keys have no gradient but rounding, which Adam enlarges.
            kept.reshape(3, -1)[1] = False
        np.testing.assert_allclose(np.array(first)[kept], np.array(second)[kept], atol=1e-4)


@pytest.mark.parametrize(
    ("targets", "options", "message"),
    [
        ([None, "x"], {}, r"targets\[0\] is missing. Expected a target for each text"),
        ([None, "x"], {"task": "classification"}, r"^texts\[0\]: `label` must be a string or a number. .*: None"),
        (["x", "x"], {}, "^texts: `label` must have at least two classes"),
        (["x", "y"], {"task": "ner"}, "`task` must be one of 'questions'"),
        (["x", "y"], {"patience": 1}, "`patience` needs `validation`"),
        (["x", "y"], {"validation": (["a"], ["z"])}, r"validation\[0\]: unknown label 'z'"),
        (["x", "y"], {"validation_split": 0.1}, "at least one of the rows and not all. Received: 0.1 of 2 rows"),
        (["x", "y"], {"validation_split": 25}, "must be a fraction below 1, such as 0.25, .*: 25 of 2 rows"),
        (["x", "y"], {"task": "taging"}, "'embedding'; .*'classification'. Rec.*'taging'. Did you mean 'tagging'?"),
        (["x", "y"], {"task": "token-classification"}, "Did you mean 'tagging'?"),
        (["x", "y"], {"class_weight": "most"}, "`class_weight` must be None, 'balanced'"),
        (["x", "y"], {"class_weight": {"z": 1}}, "`class_weight` has no class 'z'. Expected one of: 'x', 'y'"),
        (["x", "y"], {"validation_data": (["a"], ["z"])}, r"validation\[0\]: unknown label 'z'"),
        (
            ["x", "y"],
            {"validation_data": (["a"], ["x"]), "validation": (["a"], ["x"])},
            "same argument. Rec.*: both",
        ),
        (["x", "y"], {"stride": 8}, "no option 'stride' .*`overlap` is what windows share; for questions"),
        (["x", "y"], {"num_labels": 2}, "no option 'num_labels' .*The classes are those of the targets"),
        (["x", "y"], {"class_weight": {"x": -1}}, "`class_weight` must be a number of at least 0"),
        (["x", "y"], {"remat": True}, r"no option 'remat' .* keras_bert.load\(name, remat=True\)"),
        (["x", "y"], {"lr": 1}, "no option 'lr' .* Did you mean 'learning_rate'?"),
        (
            ["x", "y"],
            {"shuffle": 1},
            "no option 'shuffle' .* Expected one of: targets, validation, .* freeze_layers",
        ),
        (["x", "y"], {"metrics": ["accuracy"]}, "no option 'metrics' .* `bert.encoder` builds models"),
        (["x", "y"], {"validation": [["a"], ["x"]]}, "`validation` must be a tuple of .* only texts, as list"),
        (["x", "y"], {"epochs": 0}, "`epochs` must be a positive integer"),
        (["x", "y"], {"learning_rate": -1.0}, "`learning_rate` must be a number of at least 0"),
        (["x", "y"], {"learning_rate": abs}, "`learning_rate` must be numbers; schedules are for `create_optimizer`"),
        ([["B-X"], ["O"]], {"task": "tagging"}, "expected .* spans|span"),
        (
            [["B-X"], ["O"]],
            {"task": "tagging", "scheme": "iob"},
            "`scheme` must be one of iob1, .* scheme='iob'",
        ),
        (np.array([[1, 0], [0, 1]]), {}, "lists of one label, as one-hot vectors are. Expected the class of each text"),
        ([[1, 0], [1, 1]], {"task": "multi_label"}, r"lists of 0 and 1. .* np.array\(targets\). Received: .* \[1, 0\]"),
        (["x", "\ud800"], {}, r"targets\[1\] has a lone surrogate. Expected Unicode. Received: '\\ud800'"),
        (
            ["x", "y"],
            {"validation": ((["a"], ["b"]), ["x"])},
            "`validation` is a tuple of two lists",
        ),
    ],
)
def test_mistakes(loaded, targets, options, message):
    with pytest.raises(ValueError, match=message):
        loaded.fit(["a b", "c"], targets, verbose=False, **options)


def test_mistakes_that_are_found_before_data_are_read(loaded, monkeypatch):
    monkeypatch.setattr(fit, "make_task", None)
    for options, message in (
        ({"gradient_accumulation": 0}, "`gradient_accumulation` must be a positive integer"),
        ({"weight_decay": -1}, "`weight_decay` must be a number of at least 0"),
        ({"precision": "float31"}, "`precision` must be the name of a dtype policy of Keras, .* precision='float31'"),
        ({"callbacks": object()}, "`callbacks` must be a list of Keras callbacks. Received: <object"),
        ({"callbacks": ["stop"]}, "`callbacks` must be a list of Keras callbacks. Received: 'stop'"),
        ({"callbacks": [keras.callbacks.ReduceLROnPlateau()]}, "must not set the learning rate"),
        ({"sequence_length": 99}, "`sequence_length` must be at most 40"),
        ({"freeze_layers": 9}, "`freeze_layers`: expected from 0 to 1, .* Received: 9"),
        ({"strategy": "mirored"}, "`strategy` must be one of auto, .* strategy='mirored'"),
        ({"output_dir": __file__}, "`output_dir` must be a folder .* Received: .*File exists"),
        ({"teacher": 5}, "`teacher` must be a trained model, .* or its directory or name. Received: teacher=5"),
        ({"teacher": loaded, "temperature": "2"}, "`temperature` must be a number from .* Received: temperature='2'"),
        ({"teacher": "none", "alpha": 2}, "`alpha` must be a number from 0 to 1. Received: alpha=2"),
        ({"intermediate": 3}, "`intermediate` must be a tuple of texts and targets, or a list .* Received: int"),
    ):
        with pytest.raises(ValueError, match=message):
            loaded.fit(["a b", "c"], ["x", "y"], verbose=False, **options)
    with pytest.raises(ValueError, match="was fine-tuned, see `fit`. Received: head='encoder'"):
        loaded.evaluate(TEXTS, CLASSES)


def test_frozen_layers_of_the_loaded_model(start):
    bert = keras_bert.load(start)
    bert.encoder.trainable = False
    with pytest.raises(ValueError, match="does not know of `trainable`. Expected freeze_layers"):
        bert.fit(TEXTS, CLASSES)


def test_every_parameter_has_a_type(loaded):
    bert = loaded
    for method in (bert.fit, bert.evaluate, bert.predict, bert.encode, bert.save, bert.export):
        parameters = inspect.signature(method).parameters.items()
        assert [name for name, each in parameters if each.annotation is each.empty] == [], method.__name__


@pytest.mark.parametrize("name", ["classifier", "token_classifier"])
def test_evaluate_classes_without_names(start, tmp_path, name):
    """They have the names that `predict` gives."""
    model = getattr(keras_bert, f"build_{name}")(keras_bert.load(start).encoder, 12)
    keras_bert.save(model, tmp_path, keras_bert.load(start).vocabulary)
    bert = keras_bert.load(tmp_path)
    texts = TEXTS if name == "classifier" else WORDS
    answers = [answer.get("label") or [word["label"] for word in answer["entities"]] for answer in bert.predict(texts)]
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
    bert, tags = keras_bert.load(tmp_path), tags.split()
    logits = bert.model()(bert.preprocessor(5)(["a b c"]))["logits"].numpy()[0, 1:4]
    targets = [[label.strip() for label in labels].index(tag) for tag in tags]
    expected = -special.log_softmax(logits, -1)[range(3), targets].mean()
    assert bert.evaluate([["a", "b", "c"]], [tags], verbose=False)["loss"] == pytest.approx(expected)
    spans = [[(e["start"], e["end"], e["label"]) for e in answer["entities"]] for answer in bert.predict(TEXTS)]
    assert bert.evaluate(TEXTS, spans, verbose=False)["f1"] == any(spans)


def test_evaluate_reads_the_named_targets(start, tmp_path):
    """Not those that the layout of the task would choose, which no class of the model is."""
    model = keras_bert.build_token_classifier(keras_bert.load(start).encoder, 2)
    keras_bert.save(model, tmp_path, keras_bert.load(start).vocabulary, labels=["N", "V"])
    bert, kinds = keras_bert.load(tmp_path), [["N", "V"][: len(words)] + ["N"] * (len(words) - 2) for words in WORDS]
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
    assert shown == ["tokenizing 8 rows"] * (name in ("values", "classes", "labels"))


def test_scores_are_those_of_the_answers(start, tmp_path, caplog):
    """A sigmoid makes the logits of a regression model its answers. The head is kept in training."""
    bert = keras_bert.load(start)
    model = keras_bert.build_classifier(bert.encoder, 1, score_activation="sigmoid")
    model.weights[-2].assign(4 * model.weights[-2])
    keras_bert.save(model, tmp_path, bert.vocabulary)
    bert, targets = keras_bert.load(tmp_path), np.random.default_rng(0).random(8)
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
    bert, scores = keras_bert.load(tmp_path), np.random.default_rng(0).random(8)
    first, second = bert.encode(TEXTS), bert.encode(TEXTS[::-1])
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
    for rows, scores in ((PAIRS, None), (PAIRS, [0.5] * len(PAIRS)), (triplets, None)):
        with pytest.raises(FloatingPointError, match="must be finite. Received: NaN or infinity"):
            bert.evaluate(rows, scores, verbose=False)


def test_columns_of_frames(start, caplog):
    """Columns that are read as pairs are named."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": ["b c", "d"], "b": ["e", "f g"], "class_name": ["x", "y"]})
    other = frame[["class_name", "b", "a"]]
    data = fit_data.read_data(frame, "class_name", None, other, None, 1)
    assert data.columns == {"columns": {"text": "a", "pair": "b"}}
    assert fit_data.read_data(["a", "b"], ["x", "y"], None, None, None, 1).columns == {"columns": None}
    rows = [{"text": "b c", "pair": "e", "label": "x"}, {"text": "d", "pair": "f g", "label": "y"}]
    assert [row for _, row in data.train.values] == [row for _, row in data.dev.values] == rows
    with pytest.raises(ValueError, match=r"`validation` must have the columns of `texts`, 'a', 'b', .*: 'c', 'b'"):
        fit_data.read_data(frame, "class_name", None, other.rename(columns={"class_name": "c"}), None, 1)
    with pytest.raises(ValueError, match=r"two columns without targets. .* fit\(frame, 'class_name'\), or task="):
        fit_data.read_data(frame[["a", "class_name"]], None, None, None, None, 1)
    with pytest.raises(ValueError, match="the column 'class_name' of `texts` has the targets. Expected texts, or fit"):
        fit_data.read_data(frame[["a", "class_name"]], ["x", "y"], None, None, None, 1)
    assert fit_data.read_data(frame[["a", "b"]], None, "embedding", None, None, 1).task.name == "embedding"
    bert = keras_bert.load(start)
    caplog.set_level("INFO", "keras_bert")
    with mock.patch.object(Run, "train", side_effect=SystemExit), pytest.raises(SystemExit):
        bert.fit(frame, "class_name", verbose=False)
    assert "  texts: pairs of the columns 'a' and 'b'" in caplog.messages


def test_evaluate_finds_the_columns_of_training(start, tmp_path):
    pandas = pytest.importorskip("pandas")
    model = keras_bert.build_classifier(keras_bert.load(start).encoder, 2)
    vocabulary = keras_bert.load(start).vocabulary
    keras_bert.save(model, tmp_path, vocabulary, labels=["x", "y"], columns={"text": "review"})
    bert, classes = keras_bert.load(tmp_path), ["x", "y"] * (len(TEXTS) // 2)
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
    bert, rows = keras_bert.load(tmp_path), [{"question": "a b", "context": text} for text in TEXTS]
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
    texts, sets = ["a b", "c d", "a", "d d b"], [["x"], ["y"], ["x", "y"], ["x"]]
    scores = np.array([list(answer["scores"].values()) for answer in bert.predict(texts)])
    gold = [[label in labels for label in "xy"] for labels in sets]
    for options, threshold in (({}, 0.1), ({"threshold": 0.95}, 0.95)):
        expected = metrics.f1_score(gold, scores >= threshold, average="micro", zero_division=0)
        assert bert.evaluate(texts, sets, verbose=False, **options)["micro_f1"] == pytest.approx(expected)


def test_a_teacher_and_an_intermediate_task(loaded, tmp_path):
    """The encoder of the intermediate task is where the student starts; the teacher is in the report and the card."""
    options = {"verbose": False, "epochs": 1, "batch_size": 8, "learning_rate": 1e-3}
    teacher = loaded.fit(TEXTS, CLASSES, **options)
    started, weights = [], Run._build

    def build(self, stage, name, carried):
        model = weights(self, stage, name, carried)
        started.append((stage.name, carried and carried.encoder["block_0"], model.get_layer("block_0").get_weights()))
        return model

    with mock.patch.object(Run, "_build", build):
        student = loaded.fit(
            TEXTS,
            CLASSES,
            validation=(TEXTS, CLASSES),
            teacher=teacher,
            temperature=3.0,
            alpha=0.25,
            intermediate=(WORDS, TAGS),
            output_dir=tmp_path / "run",
            **options,
        )
    (first, nothing, _), (second, carried, found) = started
    assert (first, nothing, second) == ("tagging", None, "classification")
    assert all(np.array_equal(*pair) for pair in zip(carried, found, strict=True))
    facts = read_json(tmp_path / "run" / "results.json")["facts"]
    assert facts["trained before on"] == f"Tagging of texts, {len(TEXTS)} sentences"
    assert facts["teacher"].endswith("temperature 3, alpha 0.25")
    assert "The teacher, " in (tmp_path / "run" / "model" / "README.md").read_text()
    assert (tmp_path / "run" / "teacher" / "train.npz").is_file()
    assert student.task == "classification"
    assert fit_data.read_intermediate(None) == fit_data.read_intermediate(()) == []
    with pytest.raises(ValueError, match="`fit` has no option 'alpha'"):
        loaded.fit(TEXTS, CLASSES, alpha=0.5, **options)
    with pytest.raises(ValueError, match=r"`intermediate\[0\]` must be a tuple of texts and targets. Received: list"):
        loaded.fit(TEXTS, CLASSES, intermediate=[TEXTS], **options)

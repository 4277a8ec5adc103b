"""`LoadedBert.fit`: the same weights and scores as the commands, for every task; interruptions, threads, mistakes."""

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

import keras_bert
from keras_bert.runs import fit
from keras_bert.runs.finetuning import Finetuning
from keras_bert.runs.run import Run
from tests.pipelines.programs import call
from tests.runs.fit_rows import CHOICES, CLASSES, PAIRS, QUESTIONS, SETTINGS, SQUAD, TAGS, TEXTS, WORDS, rows, squad

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]

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


def test_messages_name_arguments_of_python(loaded, caplog):
    broken = []
    for words in WORDS:
        broken.append(["S-K" if word in "aeg" else "I-K" for word in words])
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

    expected = [fit(1), fit(2), answer(5)]
    streams = sys.stdout
    errors = sys.stderr
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

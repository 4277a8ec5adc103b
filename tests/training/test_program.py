"""One program for several runs: to the byte what a run with a program of its own computes."""

import dataclasses
import json
from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.data.bucketing import Batches
from keras_bert.data.packed_batches import PackedBatches
from keras_bert.rewirings.trimmed import build_packed, build_trimmed
from keras_bert.training import program
from keras_bert.training.distillation import distillation_loss
from keras_bert.training.losses import (
    Loss,
    classification_loss,
    multi_label_loss,
    regression_loss,
    span_loss,
    token_loss,
)
from keras_bert.training.program import GraphKey, ProgramParts, Programs, value_key
from keras_bert.training.schedule import LinearSchedule
from keras_bert.training.step import StepOptions
from keras_bert.training.trainer import Trainer

LOSS = classification_loss()


@dataclasses.dataclass(frozen=True)
class Setting:
    """What differs between the runs of a grid."""

    seed: int
    learning_rate: float
    epochs: int
    batch_size: int = 4


A = Setting(seed=1, learning_rate=0.003, epochs=1)
B = Setting(seed=7, learning_rate=0.01, epochs=3)


def rows(count, seed):
    """Rows of 3 to 11 tokens, and their classes."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, 12, count)
    ids = tf.RaggedTensor.from_row_lengths(rng.integers(5, 50, lengths.sum()).astype("int32"), lengths)
    inputs = {"token_ids": ids, "segment_ids": tf.zeros_like(ids), "padding_mask": tf.ones_like(ids)}
    return inputs, rng.integers(0, 3, count).astype("int32")


@pytest.fixture(scope="module")
def dev():
    return Batches(*rows(9, 2), batch_size=4, shuffle=False)


def build(config, dtype=None, lora=None, frozen=None, classes=3):
    model = keras_bert.build_classifier(keras_bert.build_encoder(config, dtype=dtype), classes)
    if lora is not None:
        keras_bert.enable_lora(model, 2, alpha=lora)
    if frozen is not None:
        keras_bert.freeze_layers(model, frozen)
    return model


def accuracy(targets, outputs):
    return {"accuracy": np.mean(outputs["logits"].argmax(1) == targets)}


class Result(NamedTuple):
    """All that a run leaves, to the byte."""

    result: dict
    lines: list
    weights: list
    logits: bytes
    state_of_the_optimizer: list
    settings: dict


@dataclasses.dataclass(frozen=True)
class Kind:
    """What both runs have: of the model, of the optimizer and of the trainer."""

    model: dict = dataclasses.field(default_factory=dict)
    optimizer: dict = dataclasses.field(default_factory=dict)
    trainer: dict = dataclasses.field(default_factory=dict)
    has_replicas: bool = False
    is_packed: bool = False
    batch_size: int = 4  # Of the second run.


@pytest.fixture
def train(config, dev, mirrored, tmp_path):
    """Returns a function that runs a setting in a folder, and returns its `Result`."""

    def run(name, setting, kind, programs):
        trainer = make_trainer(config, setting, kind, tmp_path / name, programs, mirrored)
        batches = batches_of(setting, kind)
        result = trainer.fit(batches, setting.epochs, evaluation=dev, best="accuracy", log_every=1)
        return collect(trainer, result, dev, tmp_path / name)

    return run


def batches_of(setting, kind):
    make = PackedBatches if kind.is_packed else Batches
    return make(*rows(12, 1), batch_size=setting.batch_size, seed=setting.seed)


def make_trainer(config, setting, kind, folder, programs, mirrored):
    keras.utils.set_random_seed(setting.seed)
    steps = setting.epochs * batches_of(setting, kind).steps
    options = dict(kind.trainer)
    if kind.has_replicas:
        options["strategy"] = mirrored

    def create(model):
        return keras_bert.create_optimizer(model, setting.learning_rate, steps, warmup_steps=2, **kind.optimizer)

    return Trainer(
        lambda: build(config, **kind.model),
        create,
        LOSS,
        metrics=accuracy,
        directory=folder,
        seed=setting.seed,
        rewire=build_packed if kind.is_packed else build_trimmed,
        programs=programs,
        **options,
    )


def collect(trainer, result, dev, folder):
    lines = []
    for text in (folder / "metrics.jsonl").read_text().splitlines():
        lines.append(json.loads(text) | {"time": None})
    logits = trainer.fitted_outputs(dev)["logits"].tobytes()
    assert trainer.predict(dev)["logits"].tobytes() == logits
    snapshot = next((folder / "snapshots").iterdir())
    return Result(
        result=result,
        lines=lines,
        weights=bytes_of(trainer.model.variables),
        logits=logits,
        state_of_the_optimizer=bytes_of(trainer.optimizer.variables),
        settings=json.loads((snapshot / "state.json").read_text())["settings"],
    )


def bytes_of(variables):
    return [variable.numpy().tobytes() for variable in variables]


@pytest.fixture
def made(monkeypatch):
    """The programs that were made."""
    made = []
    first = program.Program.__init__

    def init(self, parts):
        made.append(self)
        first(self, parts)

    monkeypatch.setattr(program.Program, "__init__", init)
    return made


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(Kind(), id="plain"),
        pytest.param(
            Kind(model={"dtype": "mixed_float16"}, trainer={"micro_batches": 2}, has_replicas=True),
            id="replicas, accumulation, float16",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            Kind(model={"dtype": "bfloat16"}, optimizer={"kind": "lamb"}, is_packed=True, batch_size=6),
            id="packed, other batches, bfloat16, LAMB",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            Kind(
                model={"dtype": "mixed_bfloat16", "lora": 4.0},
                optimizer={"layer_decay": 0.8, "weight_decay": 0.1},
            ),
            id="LoRA, layer decay, mixed bfloat16",
            marks=pytest.mark.slow,
        ),
        pytest.param(Kind(trainer={"jit_compile": True}), id="XLA", marks=pytest.mark.slow),
    ],
)
def test_a_run_in_the_program_of_another_one_is_equal_to_the_byte(train, made, kind):
    second = dataclasses.replace(B, batch_size=kind.batch_size)
    programs = Programs()
    train("first", A, kind, programs)
    found = train("second", second, kind, programs)
    assert len(made) == 1
    expected = train("alone", second, kind, None)
    assert len(made) == 2
    for name, value in expected._asdict().items():
        assert getattr(found, name) == value, name


@pytest.fixture(scope="module")
def key_of(config):
    """Returns the key of the graph of a run, given what differs from a plain one."""

    def key(config=config, model=(), optimizer=(), schedule=None, loss=LOSS, means=(), **options):
        made = build(config, **dict(model))
        rate = schedule or LinearSchedule(1e-3, 10)
        made_optimizer = keras_bert.create_optimizer(made, rate, **dict(optimizer))
        strategy = tf.distribute.get_strategy()
        step = StepOptions(**options)
        found = GraphKey.of(ProgramParts(made, made_optimizer, [loss], list(means), strategy, step))
        assert found is not None
        return found

    return key


@pytest.fixture(scope="module")
def plain_key(key_of):
    return key_of()


def test_runs_that_differ_in_seed_rate_and_steps_share_a_graph(key_of, plain_key):
    schedule = LinearSchedule(0.1, 77, warmup_steps=5)
    assert key_of(schedule=schedule, seed=9) == plain_key


@pytest.mark.parametrize(
    "changes",
    [
        {"intermediate_size": 96},
        {"hidden_dropout_prob": 0.2},
        {"hidden_act": "relu"},
    ],
)
def test_other_configs_have_another_key(config, key_of, plain_key, changes):
    assert key_of(config=dataclasses.replace(config, **changes)) != plain_key


@pytest.mark.parametrize(
    "difference",
    [
        {"model": {"dtype": "mixed_bfloat16"}},
        {"model": {"classes": 4}},
        {"model": {"frozen": 0}},
        {"model": {"lora": 2.0}},
        {"optimizer": {"kind": "lamb"}},
        {"optimizer": {"weight_decay": 0.0}},
        {"optimizer": {"layer_decay": 0.9}},
        {"optimizer": {"bias_correction": False}},
        {"loss": classification_loss([1.0, 2.0, 1.0])},
        {"means": [LOSS]},
        {"micro_batches": 2},
        {"jit_compile": True},
        {"rewire": build_trimmed},
    ],
    ids=lambda difference: "-".join(difference),
)
def test_what_else_differs_makes_another_key(key_of, plain_key, difference):
    assert key_of(**difference) != plain_key


def test_the_scale_of_adapters_makes_another_key(key_of):
    assert key_of(model={"lora": 2.0}) == key_of(model={"lora": 2.0})
    assert key_of(model={"lora": 2.0}) != key_of(model={"lora": 4.0})


WAYS = [
    classification_loss,
    lambda: classification_loss([1.0, 2.0, 1.0]),
    lambda: classification_loss([1.0, 2.0, 3.0]),
    regression_loss,
    lambda: regression_loss("sigmoid"),
    token_loss,
    lambda: token_loss(0.1),
    span_loss,
    multi_label_loss,
    lambda: distillation_loss(classification_loss()),
    lambda: distillation_loss(classification_loss(), alpha=0.9),
    lambda: distillation_loss(classification_loss([1.0, 2.0, 1.0])),
    lambda: [classification_loss(), regression_loss()],
]


def test_the_key_of_losses():
    """Losses that were made in the same way from equal values have equal keys: those of a fold, of a student."""
    for number, make in enumerate(WAYS):
        for other, make_other in enumerate(WAYS):
            is_same = value_key(make()) == value_key(make_other())
            assert is_same == (number == other), (number, other)


def test_an_array_is_only_the_same_one():
    """It may change."""
    weights = np.ones([3, 2])
    assert value_key(multi_label_loss(weights)) == value_key(multi_label_loss(weights))
    assert value_key(multi_label_loss(weights)) != value_key(multi_label_loss(weights.copy()))


def recursive_loss(scale, power=1):
    """A loss of a user, with a function that uses itself."""

    def powered(logits, left):
        if left:
            return powered(logits, left - 1) * logits
        return scale

    def values(targets, outputs, *, shift=0.5):
        return powered(outputs["logits"][:, 0], power) + shift

    return Loss("mine", values)


def test_a_function_that_uses_itself_is_only_the_same_one():
    mine = recursive_loss(2.0)
    assert value_key(mine) == value_key(mine)
    assert value_key(mine) != value_key(recursive_loss(2.0))


class Mine(keras.layers.Dense):
    """A layer of a user, whose graph may depend on anything."""


def test_graphs_that_a_key_does_not_describe_are_not_shared():
    inputs = keras.Input([3])
    strategy = tf.distribute.get_strategy()

    def key(layer, rate=None):
        if rate is None:
            rate = LinearSchedule(0.1, 3)
        model = keras.Model(inputs, layer(inputs))
        optimizer = keras_bert.AdamW(rate)
        return GraphKey.of(ProgramParts(model, optimizer, [LOSS], [], strategy, StepOptions()))

    known = key(keras.layers.Dense(2))
    assert known is not None
    assert key(keras.layers.Dense(2)) == known  # Keras has counted their names.
    assert key(Mine(2)) is None
    assert key(keras.layers.Lambda(lambda x: x)) is None
    assert key(keras.layers.Dense(2, activation=lambda x: x + 1)) is None
    assert key(keras.layers.Dense(2), 0.1) is None
    assert key(keras.layers.Dense(2), keras.optimizers.schedules.CosineDecay(0.1, 3)) is None


@pytest.mark.usefixtures("eager")
def test_outputs_of_the_best_evaluation_are_kept(tmp_path):
    """Those of other epochs are dropped, and so are those of weights that training has changed since."""
    x = tf.RaggedTensor.from_row_lengths(np.arange(6, dtype="float32"), [2, 2, 2])
    held_out = Batches({"x": x}, np.zeros(3, "float32"), batch_size=2, shuffle=False)
    scores = [0.2, 0.9, 0.4]
    evaluated = []

    def metric(targets, outputs):
        evaluated.append(outputs["logits"])
        return {"score": scores[len(evaluated) - 1]}

    def model():
        inputs = keras.Input([2], name="x")
        return keras.Model({"x": inputs}, {"logits": keras.layers.Dense(1)(inputs)})

    trainer = Trainer(
        model,
        lambda model: keras_bert.AdamW(0.1),
        keras_bert.losses.regression_loss(),
        metrics=metric,
        directory=tmp_path,
    )
    trainer.fit(held_out, epochs=3, evaluation=held_out, best="score")
    assert len(evaluated) == 3
    assert trainer.fitted_outputs(held_out)["logits"] is evaluated[1]
    assert evaluated[1].tobytes() == trainer.predict(held_out)["logits"].tobytes()
    same_rows = Batches({"x": x}, batch_size=2, shuffle=False)
    again = trainer.fitted_outputs(same_rows)["logits"]
    np.testing.assert_array_equal(again, evaluated[1])
    assert again is not evaluated[1]


def test_evaluation_and_prediction_trace_the_model_once():
    """Whatever the lengths of the batches that come first."""
    calls = []

    class Counted(keras.layers.Layer):
        def call(self, x):
            calls.append(x.shape)
            return x

    def model():
        inputs = keras.Input([None, 2], name="x")
        pooled = keras.ops.mean(Counted()(inputs), axis=1)
        return keras.Model({"x": inputs}, {"logits": keras.layers.Dense(1)(pooled)})

    def batches(lengths):
        values = np.ones([sum(lengths), 2], "float32")
        inputs = {"x": tf.RaggedTensor.from_row_lengths(values, lengths)}
        return Batches(inputs, np.zeros(len(lengths), "float32"), batch_size=2, boundaries=[1, 3, 5], shuffle=False)

    trainer = Trainer(
        model,
        lambda model: keras_bert.AdamW(0.1),
        keras_bert.losses.regression_loss(),
        metrics=lambda targets, outputs: {},
    )
    calls.clear()
    for lengths in ([1, 1, 3, 3, 5], [5, 5, 5, 5], [3, 3, 1]):
        trainer.evaluate(batches(lengths))
        trainer.predict(batches(lengths))
    assert calls == [(2, None, 2)]

"""Pre-training as a user runs it, in a language whose topics share no word."""

import functools
import gzip
import json
import shutil
import signal

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file

tf = pytest.importorskip("tensorflow")

import keras_bert  # noqa: E402
from keras_bert.pretraining.dataset import Records  # noqa: E402
from keras_bert.pretraining.generate import generate  # noqa: E402
from keras_bert.pretraining.settings import Settings  # noqa: E402
from keras_bert.training import losses  # noqa: E402
from keras_bert.training.input_pipeline import Phases  # noqa: E402
from keras_bert.training.trainer import TERMINATED, Trainer  # noqa: E402
from tests.conftest import to_numpy  # noqa: E402
from tests.pipelines.programs import finish, start  # noqa: E402

pytestmark = pytest.mark.tensorflow

TOPICS = [[first + last for last in "aeioubdg"] for first in "bdfgklmnprst"]
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(word for words in TOPICS for word in words)]
SHARES = 1 / np.arange(1, 9) / np.sum(1 / np.arange(1, 9))  # Of the words of a topic.
CONFIG = {
    "vocab_size": len(PIECES),
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "hidden_act": "gelu",
    "max_position_embeddings": 32,
    "initializer_range": 0.05,
}


def write_text(path, documents, seed):
    """Documents of 12 sentences, each of one topic."""
    rng = np.random.default_rng(seed)
    texts = [
        "\n".join(" ".join(rng.choice(TOPICS[number % len(TOPICS)], rng.integers(4, 9), p=SHARES)) for _ in range(12))
        for number in range(documents)
    ]
    path.write_text("\n\n".join(texts) + "\n")
    return str(path)


def write_config(path, **changes):
    path.write_text(json.dumps({**CONFIG, **changes}))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Data of several kinds, and models to start from."""
    made = tmp_path_factory.mktemp("made")
    text, held_out = write_text(made / "train.txt", 120, 0), write_text(made / "held_out.txt", 36, 1)
    recipes = {
        "16": Settings(16, strip_accents=False),
        "32": Settings(32, strip_accents=False),
        "rows": Settings(16, next_sentence=False, lowercase=False),
        "static": Settings(16, static=True),
    }
    for name, recipe in recipes.items():
        generate(text, made / name, PIECES, recipe, shards=2, workers=1)
    generate(held_out, made / "held_out", PIECES, Settings(32), shards=2, workers=1)
    generate(held_out, made / "other", [*PIECES, "other"], Settings(16), shards=2, workers=1)
    for name in ("cut", "damaged"):
        shutil.copytree(made / "16", made / name)
        path = shard(made / name)
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content if name == "damaged" else content[:-5])
    packed = gzip.compress(shard(made / "16").read_bytes())
    (made / "cut.tfrecord.gz").write_bytes(packed[: len(packed) // 2])
    shutil.copytree(made / "static", made / "googles_records", ignore=shutil.ignore_patterns("manifest.json"))
    (made / "googles_records" / "empty.tfrecord").touch()
    write_config(made / "config.json")
    write_config(made / "one_layer.json", num_hidden_layers=1)
    dropout = dict.fromkeys(["hidden_dropout_prob", "attention_probs_dropout_prob"], 0.0)
    large = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "initializer_range": 0.2,
    }  # Weights, so that rounding is small.
    write_config(made / "no_dropout.json", num_hidden_layers=1, **dropout, **large)
    write_config(made / "short.json", max_position_embeddings=16)
    small = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    for name, changes, pieces in (
        ("encoder", {}, PIECES),
        ("positions", {"max_position_embeddings": 15}, None),
        ("few", {"vocab_size": 100}, None),
        ("reverse", {}, [*PIECES[:5], *PIECES[:4:-1]]),
    ):
        config = keras_bert.BertConfig(**{**CONFIG, **small, **changes})
        keras_bert.save(keras_bert.build_encoder(config), made / "models" / name, pieces)
    keras_bert.save(keras_bert.build_encoder(config, causal=True), made / "models" / "causal", PIECES)
    return made


def shard(folder):
    return folder / "examples-00001-of-00002.tfrecord"


def flags(made, output, **changes):
    """The flags of a run of two steps with changes; `None` leaves one out."""
    values = {
        "data": "{made}/16",
        "config": "{made}/one_layer.json",
        "phase": "length:16,steps:2,batch:4",
        "output_dir": str(made / output),
        **changes,
    }
    return [
        f"--{name}={value}".format(made=made)
        for name, given in values.items()
        for value in (given if isinstance(given, list) else [given])
        if value is not None
    ]


PROGRAM = "pipelines.run_pretraining"


def metrics(folder, kind=None):
    """metrics.jsonl without what depends on the speed."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [
        {name: value for name, value in line.items() if name != "time"}
        for line in lines
        if kind in (None, line["kind"])
    ]


def tensors(folder):
    return load_file(folder / "model.safetensors")


def snapshot(folder, step):
    """All that a snapshot holds."""
    reader = tf.train.load_checkpoint(str(folder / "snapshots" / f"step-{step:09}" / "variables"))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def assert_equal(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def assert_close(found, expected):
    """To 1e-5; Adam blows up the key biases, whose gradient is rounding alone."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        bound = 1e-2 if "key.bias" in name else 1e-5 * max(np.abs(value).max(), 1e-2)
        np.testing.assert_allclose(found[name], value, rtol=0, atol=bound, err_msg=name)


BOTH = "{made}/16,{made}/32"
PHASES = ["length:16,steps:40,batch:32", "length:32,steps:25,batch:24"]
MODELS = "{made}/models/"


def of_model(name, **more):
    return {"config": None, "model": MODELS + name, **more}


# Names of what is wrong; the flags; the beginning of the line.
MISTAKES = {
    "no phase": (
        {"phase": "128x1000"},
        "--phase must look like length:128,steps:90000,batch:256. Received: '128x1000'",
    ),
    "no steps": (
        {"phase": "length:16,steps:0,batch:4"},
        "--phase must look like length:128,steps:90000,batch:256. Rec",
    ),
    "length": (
        {"phase": "length:64,steps:2,batch:4", "data": BOTH},
        "--data: expected one source for each length of a --phase, [64]. Received: {made}/16 of length 16, {made}/32",
    ),
    "two of a length": (
        {"data": "{made}/16,{made}/16"},
        "--data: expected one source for each length of a --phase, [16]. Received: {made}/16 of length 16, {made}/16",
    ),
    "causal pairs": (
        {"causal": "true"},
        "--causal: [CLS] sees nothing on its right, so B cannot be judged. Add --next_sentence=false",
    ),
    "config and model": (
        {"model": MODELS + "encoder"},
        "expected either --config or --model: a size to begin with, or weights to go on from",
    ),
    "neither": (
        {"config": None},
        "expected either --config or --model: a size to begin with, or weights to go on from",
    ),
    "no such size": ({"config": "huge"}, "unknown size name 'huge'. Expected one of tiny, mini, small"),
    "no such data": (
        {"data": "{made}/models"},
        "{made}/models: has no manifest.json. Expected a folder that create_pre",
    ),
    "vocabularies": (
        {"data": "{made}/other,{made}/32", "phase": PHASES},
        "--data: the sources have different vocabularies. Expected the same one",
    ),
    "eval_data": (
        {"eval_data": "{made}/other"},
        "--eval_data: has another vocabulary than --data. Expected the same one",
    ),
    "vocabulary of the model": (
        of_model("reverse"),
        "--model: {made}/models/reverse has another vocabulary than --data. Make the data with its own",
    ),
    "pieces of the model": (
        of_model("few"),
        "--model: expected at least 101 pieces and 16 positions. Received: vocab_size=100, max_position_embeddings=32",
    ),
    "positions of the model": (
        of_model("positions"),
        "--model: expected at least 101 pieces and 16 positions. Received: vocab_size=101, max_position_embeddings=15",
    ),
    "positions of a phase": (
        {"data": BOTH, "phase": PHASES, "config": "{made}/short.json"},
        "--config: expected at least 101 pieces and 32 positions. Received: vocab_size=101, max_position_embeddings=16",
    ),
    "positions of eval_data": (
        {"eval_data": "{made}/held_out", "config": "{made}/short.json"},
        "--config: expected at least 101 pieces and 32 positions. Received: vocab_size=101, max_position_embeddings=16",
    ),
    "a model of both sides": (
        of_model("encoder", causal="true", next_sentence="false"),
        "--model: {made}/models/encoder sees both sides. Received: --causal=true",
    ),
    "a left-to-right model": (
        of_model("causal"),
        "--model: {made}/models/causal is a left-to-right model. Received: --causal=false",
    ),
    "an encoder alone": (
        of_model("encoder"),
        "{made}/models/encoder: the checkpoint lacks 7 tensor(s): cls.predictions.transform.dense.weight",
    ),
    "masks from left to right": (
        {"data": "{made}/static", "causal": "true", "next_sentence": "false"},
        "{made}/static: a left-to-right model needs records without masks. Received: causal=True",
    ),
    "no pairs": (
        {"data": "{made}/rows"},
        "{made}/rows: was made without sentence pairs. Train it by --next_sentence=false",
    ),
    "no vocabulary": (
        {"data": "{made}/static/*.tfrecord"},
        "{made}/static/*.tfrecord: the vocabulary of the records is unknown: pass `vocabulary`",
    ),
    "cut": (
        {"data": "{made}/cut"},
        "{made}/cut/examples-00001-of-00002.tfrecord: has ",
    ),
    "cut, without a manifest": (
        {"data": "{made}/cut/*.tfrecord", "vocab": "{made}/16/vocab.txt"},
        "{made}/cut/examples-00001-of-00002.tfrecord: the record after ",
    ),
    "cut, packed": (
        {"data": "{made}/*.gz", "vocab": "{made}/16/vocab.txt"},
        "{made}/cut.tfrecord.gz: not a whole .gz file: ",
    ),
    "two kinds": (
        {"data": "{made}/[1-9]*/examples-00000*", "vocab": "{made}/16/vocab.txt"},
        "{made}/32/examples-00000-of-00002.tfrecord: the records are of another kind or length than those of {made}/16",
    ),
    "warmup": ({"warmup": 1.5}, "flag --warmup=1.5: 1.5 is not a number in the range [0, 1]"),
    "no output_dir": (
        {"output_dir": None},
        "flag --output_dir=None: Flag --output_dir must have a value other than None",
    ),
}
TWO_PHASES = {
    "data": BOTH,
    "config": "{made}/config.json",
    "phase": PHASES,
    "eval_data": "{made}/held_out",
    "eval_examples": 50,
    "learning_rate": 3e-3,
    "warmup": 0.8,
    "gradient_accumulation": 2,
    "save_every": 30,
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_users_mistake_is_one_line_and_status_2(made, name):
    changes, message = MISTAKES[name]
    _, errors = finish(start(PROGRAM, *flags(made, name.replace(" ", "_"), **changes)), 2)
    (line,) = [line for line in errors.splitlines() if line.startswith("error:")]
    assert line.startswith(f"error: {message}".format(made=made))


@pytest.fixture(scope="module")
def said(made):
    """What the run of two phases says."""
    return finish(start(PROGRAM, *flags(made, "two_phases", **TWO_PHASES)))[0]


@pytest.fixture(scope="module")
def two_phases(said, made):
    assert said.endswith(f"the model is in {made}/two_phases/model\n")
    return made / "two_phases"


def held_out_numbers(model, records):
    """Losses and shares over the records, from the logits, in NumPy: filler rows left out."""
    parts = []
    for inputs, targets, rows in records.dataset().as_numpy_iterator():
        outputs = {name: to_numpy(value) for name, value in model(inputs, training=False).items()}
        real = rows > 0
        logits, labels = outputs["mlm_logits"][real], targets["mask_labels"][real]
        weights = targets["mask_weights"][real]
        nsp, is_random = outputs["nsp_logits"][real], targets["next_sentence_labels"][real]
        log_sums = np.log(np.exp(logits.astype(float)).sum(-1))
        losses = log_sums - np.take_along_axis(logits, labels[..., None], -1)[..., 0]
        chances = np.exp(nsp) / np.exp(nsp).sum(-1, keepdims=True)
        nsp_losses = -np.log(chances[np.arange(len(nsp)), is_random])
        rights = (logits.argmax(-1) == labels) * weights
        parts.append(
            [(losses * weights).sum(), rights.sum(), weights.sum()]
            + [nsp_losses.sum(), (nsp.argmax(-1) == is_random).sum(), real.sum()]
        )
    loss, right, count, nsp_loss, nsp_right, rows = np.sum(parts, 0)
    return {
        "mlm_loss": loss / count,
        "nsp_loss": nsp_loss / rows,
        "mlm_accuracy": right / count,
        "mlm_perplexity": np.exp(loss / count),
        "nsp_accuracy": nsp_right / rows,
    }, rows


def test_evaluation_equals_numpy(said, two_phases, made):
    records = Records(made / "held_out", batch_size=32, shuffle=False, limit=50)
    expected, rows = held_out_numbers(keras_bert.load(two_phases / "model").pretrainer(), records)
    assert rows == 50  # And 14 rows that fill up.
    lines = metrics(two_phases, "evaluation")
    assert [line["step"] for line in lines] == [30, 60, 65]
    for name, value in expected.items():
        assert lines[-1][name] == pytest.approx(value, rel=1e-5), name
        assert f"{name} {lines[-1][name]:.4f}" in said
    assert expected["mlm_accuracy"] > 0.03


def test_the_model_directory(two_phases):
    bert = keras_bert.load(two_phases / "model")
    assert (bert.vocabulary.pieces, bert.lowercase, bert.strip_accents) == (tuple(PIECES), True, False)
    model = bert.pretrainer()
    stored = snapshot(two_phases, 65)
    for weight in model.trainable_variables:
        (name,) = [name for name in stored if name.endswith(f"/{weight.path}") and name.startswith("model/")]
        np.testing.assert_array_equal(to_numpy(weight), stored[name], err_msg=name)


def test_learning_rates_over_both_phases(two_phases):
    """Google's schedule: up over 52 of the 65 steps, then along the line to 0. A line has that of its last step."""
    for line in metrics(two_phases, "train"):
        step = line["step"] - 1
        rate = 3e-3 * (step / 52 if step < 52 else 1 - step / 65)
        assert line["learning_rate"] == pytest.approx(rate, rel=1e-5)
    assert [line["step"] for line in metrics(two_phases, "train")] == [50, 65]


def test_googles_training(golden, tmp_path):
    """Twelve steps of Google's program, from records under its names, in two phases: all losses, the weights."""
    folder = golden / "google_tf1_training"
    data = dict(np.load(folder / "golden.npz"))
    for name, steps in (("first", slice(0, 5)), ("second", slice(5, 12))):
        write_googles_records(
            tmp_path / f"{name}.tfrecord", {key: value[steps] for key, value in per_step(data).items()}
        )
    pieces = PIECES[:61]
    sources = [
        Records(tmp_path / f"{name}.tfrecord", pieces, batch_size=4, shuffle=False) for name in ("first", "second")
    ]
    assert [(source.steps, source.static, source.sequence_length) for source in sources] == [
        (5, True, 16),
        (7, True, 16),
    ]
    schedule = [data[name].item() for name in ("learning_rate", "total_steps", "warmup_steps")]
    trainer = Trainer(
        lambda: keras_bert.load(folder).pretrainer(),
        lambda model: keras_bert.create_optimizer(model, *schedule, bias_correction=False),
        losses.pretraining_losses(),
        directory=tmp_path / "run",
    )
    trainer.fit(Phases([(sources[0], 5), (sources[1], 7)]), log_every=1)
    lines = metrics(tmp_path / "run")
    for name in ("mlm_loss", "nsp_loss"):
        np.testing.assert_allclose([line[name] for line in lines], data[name], atol=1e-4)
    np.testing.assert_allclose([line["mlm_loss"] + line["nsp_loss"] for line in lines], data["loss"], atol=1e-4)
    rate, total, warmup = schedule
    rates = [rate * (step / warmup if step < warmup else 1 - step / total) for step in range(12)]
    np.testing.assert_allclose([line["learning_rate"] for line in lines], rates, rtol=1e-6)
    for path in [folder / "bert_config.json", *(folder / "after").iterdir()]:
        shutil.copy(path, tmp_path)
    after = {weight.path: to_numpy(weight) for weight in keras_bert.load(tmp_path).pretrainer().weights}
    for weight in trainer.model.trainable_variables:
        np.testing.assert_allclose(to_numpy(weight), after[weight.path], atol=1e-4, err_msg=weight.path)


def per_step(data):
    return {name: value for name, value in data.items() if value.ndim > 1}


def write_googles_records(path, batches):
    names = {
        "input_ids": "token_ids",
        "input_mask": "padding_mask",
        "segment_ids": "segment_ids",
        "masked_lm_positions": "mask_positions",
        "masked_lm_ids": "mask_labels",
        "masked_lm_weights": "mask_weights",
        "next_sentence_labels": "next_sentence_labels",
    }
    rows = {theirs: np.concatenate(batches[ours]) for theirs, ours in names.items()}
    with tf.io.TFRecordWriter(str(path)) as writer:
        for index in range(len(rows["input_ids"])):
            example = tf.train.Example()
            for name, values in rows.items():
                feature, row = example.features.feature[name], np.atleast_1d(values[index])
                (feature.float_list if row.dtype == np.float32 else feature.int64_list).value.extend(row)
            writer.write(example.SerializeToString())


def trainer_of(made, strategy=None, next_sentence=True, kind="adamw", directory=None, **options):
    """A trainer without dropout."""
    keras.utils.set_random_seed(3)
    config = keras_bert.BertConfig.from_json(made / "no_dropout.json")
    return Trainer(
        lambda: keras_bert.build_pretrainer(keras_bert.build_encoder(config), next_sentence),
        lambda model: keras_bert.create_optimizer(model, 1e-2, 30, 3, bias_correction=False, kind=kind),
        losses.pretraining_losses(next_sentence),
        losses.pretraining_metrics(next_sentence),
        strategy=strategy,
        directory=directory,
        **options,
    )


@pytest.mark.slow
def test_each_phase_has_static_shapes(made):
    """An epoch of the first phase ends in it, after a batch that is filled up; the second ends in its first."""
    run = trainer_of(made)
    gradients, shapes = run._step._gradients, []

    def spy(inputs, targets, weights, totals, seeds):
        shapes.append([value.shape.as_list() for value in (inputs["token_ids"], inputs["mask_positions"], weights)])
        return gradients(inputs, targets, weights, totals, seeds)

    run._step._gradients = spy
    first, second = Records(made / "16", batch_size=500), Records(made / "32", batch_size=7)
    assert first.steps == 2
    assert first.examples % 500
    run.fit(Phases([(first, 3), (second, 2)]))
    assert shapes == [[[500, 16], [500, 3], [500]], [[7, 32], [7, 5], [7]]]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["adamw", "lamb"])
@pytest.mark.parametrize("next_sentence", [True, False])
def test_two_replicas_change_nothing(made, mirrored, tmp_path, kind, next_sentence):
    """Two epochs of batches that cannot be divided by 4, the last one filled up; in two parts on two replicas."""
    found = []
    for name, options in (("alone", {}), ("two", {"strategy": mirrored, "micro_batches": 2})):
        run = trainer_of(made, next_sentence=next_sentence, kind=kind, **options)
        numbers, steps = [], run._run

        def record(*arguments, steps=steps, numbers=numbers):
            lines, stop = steps(*arguments)
            numbers.extend([list(line.values()) for line in lines])
            return lines, stop

        run._run = record
        held_out = Records(made / "held_out", batch_size=31, shuffle=False)
        results = run.fit(Phases([(Records(made / "16", batch_size=301), 6)]), evaluation=held_out)
        keras_bert.save(run.model, tmp_path / name, PIECES)
        found.append((numbers, results))
    (expected, expected_results), (numbers, results) = found
    np.testing.assert_allclose(numbers, expected, rtol=1e-4)
    assert results == pytest.approx(expected_results, rel=1e-3)
    assert_close(tensors(tmp_path / "two"), tensors(tmp_path / "alone"))


@pytest.mark.slow
def test_two_devices_and_two_workers_change_nothing(made, two_addresses):
    """As command lines, in two phases, with accumulation and with an evaluation."""
    phases = ["length:16,steps:5,batch:30", "length:32,steps:4,batch:23"]
    settings = {**TWO_PHASES, "config": "{made}/no_dropout.json", "phase": phases}
    workers = [
        start(
            PROGRAM,
            *flags(made, "workers", **settings),
            TF_CONFIG=json.dumps({"cluster": {"worker": two_addresses}, "task": {"type": "worker", "index": index}}),
        )
        for index in range(2)
    ]
    said = [finish(worker) for worker in workers]
    alone = start(PROGRAM, *flags(made, "alone", **settings))
    mirrored = start(PROGRAM, *flags(made, "mirrored", **settings, strategy="mirrored"), devices=2)
    for process in (alone, mirrored):
        finish(process)
    assert ["the model is in" in out for out, _ in said] == [True, False]
    for name in ("mirrored", "workers"):
        for found, line in zip(metrics(made / name), metrics(made / "alone"), strict=True):
            assert found.pop("kind") == line.pop("kind")
            assert found == pytest.approx(line, rel=1e-4), name
        assert_close(tensors(made / name / "model"), tensors(made / "alone" / "model"))


KILL = """
import os, signal
from keras_bert.training.trainer import Trainer
run = Trainer._run
def killed(self, iterator, step, count):
    if step > 50:
        os.kill(os.getpid(), signal.{signal})
    return run(self, iterator, step, count)
Trainer._run = killed
"""


@pytest.mark.slow
def test_a_killed_run_ends_as_if_it_had_not_been(made):
    """In the second phase, behind an epoch's end, with steps behind the last snapshot; dropout on, masks drawn."""
    phases = [PHASES[0], "length:32,steps:25,batch:100"]
    settings = {**TWO_PHASES, "config": "{made}/one_layer.json", "save_every": 8, "phase": phases}
    names = ("whole", "SIGKILL", "SIGTERM")
    before = ["", *(KILL.format(signal=name) for name in names[1:])]
    first = [
        start(PROGRAM, *flags(made, name, **settings), before=text) for name, text in zip(names, before, strict=True)
    ]
    for process, status in zip(first, (0, -signal.SIGKILL, TERMINATED), strict=True):
        finish(process, status)
    whole = made / "whole"
    # The model is that of the last snapshot.
    assert steps_of(made / "SIGKILL") == [40, 48]
    assert steps_of(made / "SIGTERM")[-1] > 51
    model = keras_bert.load(made / "SIGKILL" / "model").pretrainer()
    stored = snapshot(made / "SIGKILL", 48)
    assert len(metrics(made / "SIGKILL")) < len(metrics(whole))
    for weight in model.trainable_variables:
        (name,) = [name for name in stored if name.endswith(f"/{weight.path}") and name.startswith("model/")]
        np.testing.assert_array_equal(to_numpy(weight), stored[name], err_msg=name)
    for process in [start(PROGRAM, f"--flagfile={made}/{name}/flags.txt") for name in names[1:]]:
        finish(process)
    for name in names[1:]:
        assert metrics(made / name) == metrics(whole)
        assert_equal(snapshot(made / name, 65), snapshot(whole, 65))
        files = {path.name: path.read_bytes() for path in (whole / "model").iterdir()}
        assert {path.name: path.read_bytes() for path in (made / name / "model").iterdir()} == files
        assert {path.name for path in (made / name).iterdir()} == {path.name for path in whole.iterdir()}


def steps_of(folder):
    return sorted(int(path.name.removeprefix("step-")) for path in (folder / "snapshots").iterdir())


ONE_PHASE = {"phase": "length:16,steps:12,batch:32", "learning_rate": 3e-3, "warmup": 0.2, "save_every": 12}
ROWS = {"data": "{made}/rows", "next_sentence": "false"}
CAUSAL = {**ROWS, "causal": "true"}
AGAIN = {"phase": "length:16,steps:1,batch:4", "warmup": 1, "config": None}  # A step of rate 0.
VARIATIONS = {
    "plain": {**ONE_PHASE, "config": "{made}/no_dropout.json"},
    "remat": {**ONE_PHASE, "config": "{made}/no_dropout.json", "remat": "true"},
    "bfloat16": {**ONE_PHASE, "config": "{made}/no_dropout.json", "precision": "mixed_bfloat16"},
    "lamb": {**ONE_PHASE, "optimizer": "lamb", "bias_correction": "true", "learning_rate": 0.02},
    "rows": {**ONE_PHASE, **ROWS},
    "pairs": {**ONE_PHASE, "next_sentence": "false", "eval_data": "{made}/held_out"},
    "left_to_right": {**ONE_PHASE, **CAUSAL, "eval_data": "{made}/rows", "phase": "length:16,steps:40,batch:32"},
    "googles": {
        **ONE_PHASE,
        "data": "{made}/googles_records/*.tfrecord",
        "vocab": "{made}/16/vocab.txt",
        "lowercase": "false",
    },
    "warm": {**AGAIN, "model": "plain"},
    "warm_left_to_right": {**AGAIN, **CAUSAL, "model": "left_to_right"},
    "learns": {
        **ONE_PHASE,
        "data": "{made}/32",
        "config": "{made}/config.json",
        "phase": "length:32,steps:300,batch:32",
        "eval_data": "{made}/held_out",
        "save_every": 300,
    },
}


@pytest.fixture(scope="module")
def trained(made):
    """A function from the name of a variation to its folder; each is run when it is first asked for."""

    @functools.cache
    def folder(name):
        changes = dict(VARIATIONS[name])
        if "model" in changes:
            changes["model"] = folder(changes["model"]) / "model"
        finish(start(PROGRAM, *flags(made, name, **changes)))
        return made / name

    return folder


@pytest.mark.slow
def test_it_learns(trained, made):
    """300 steps: it finds a word's topic in its neighbours, and that texts of two topics do not follow each other."""
    folder = trained("learns")
    (line,) = metrics(folder, "evaluation")
    words = [word for words in (made / "train.txt").read_text().split("\n") for word in words.split()]
    unigram = max(np.unique(words, return_counts=True)[1]) / len(words)
    assert unigram < 0.04
    assert line["mlm_accuracy"] > 7 * unigram
    counts = np.unique(words, return_counts=True)[1]
    entropy = -np.sum(counts / len(words) * np.log(counts / len(words)))
    assert line["mlm_loss"] < entropy - 2
    assert line["nsp_accuracy"] > 0.8
    for line in metrics(folder, "train"):
        step = line["step"] - 1
        assert line["learning_rate"] == pytest.approx(3e-3 * (step / 60 if step < 60 else 1 - step / 300), rel=1e-5)


@pytest.mark.slow
def test_remat_changes_nothing(trained):
    assert_close(tensors(trained("remat") / "model"), tensors(trained("plain") / "model"))


@pytest.mark.slow
def test_bfloat16_is_near(trained):
    (found,), (expected,) = metrics(trained("bfloat16")), metrics(trained("plain"))
    for name in ("mlm_loss", "nsp_loss"):
        assert found[name] == pytest.approx(expected[name], rel=0.05)
        assert found[name] != expected[name]
    assert {value.dtype.name for value in tensors(trained("bfloat16") / "model").values()} == {"float32"}


@pytest.mark.slow
def test_lamb(trained):
    """Each weight moves by the rate in units of its own norm: far above what AdamW moves at this size."""
    line = metrics(trained("lamb"))[-1]
    assert line["mlm_loss"] < np.log(len(PIECES)) + 0.3
    optimizer = json.loads((trained("lamb") / "snapshots" / "step-000000012" / "state.json").read_text())["settings"]
    assert "fused" in optimizer["optimizer"]
    assert optimizer["optimizer"]["bias_correction"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rows", "pairs"])
def test_without_next_sentence_prediction(trained, name):
    folder = trained(name)
    assert not [tensor for tensor in tensors(folder / "model") if "seq_relationship" in tensor]
    assert not [line for line in metrics(folder) if "nsp_loss" in line or "nsp_accuracy" in line]
    bert = keras_bert.load(folder / "model")
    assert set(bert.pretrainer().output) == {"mlm_logits"}
    assert (bert.lowercase, bert.strip_accents) == ((False, None) if name == "rows" else (True, False))


@pytest.mark.slow
def test_left_to_right(trained, made):
    """A prediction does not depend on what is on its right, also in a model that was saved and trained on."""
    for name in ("left_to_right", "warm_left_to_right"):
        bert = keras_bert.load(trained(name) / "model")
        assert keras_bert.describe(bert.encoder).causal
    assert_equal(tensors(made / "warm_left_to_right" / "model"), tensors(made / "left_to_right" / "model"))
    model = bert.pretrainer()
    (inputs, targets, _), *_ = Records(made / "rows", batch_size=4, causal=True, shuffle=False).dataset()
    inputs = {name: value.numpy() for name, value in inputs.items()}
    np.testing.assert_array_equal(targets["mask_labels"], inputs["token_ids"][:, 1:])
    np.testing.assert_array_equal(inputs["mask_positions"], np.tile(np.arange(15), (4, 1)))
    before = to_numpy(model(inputs)["mlm_logits"])
    inputs["token_ids"][:, 9] = 7
    after = to_numpy(model(inputs)["mlm_logits"])
    np.testing.assert_array_equal(after[:, :9], before[:, :9])
    assert (after[:, 9:] != before[:, 9:]).any(-1).all()
    # It knows a row's topic from the words on the left; without, the loss is 4.35.
    (line,) = [line for line in metrics(trained("left_to_right"), "evaluation") if line["step"] == 40]
    assert line["mlm_loss"] < 3


@pytest.mark.slow
def test_records_of_googles_kind(trained):
    bert = keras_bert.load(trained("googles") / "model")
    assert bert.vocabulary.pieces == tuple(PIECES)
    assert not bert.lowercase


@pytest.mark.slow
def test_a_warm_start_goes_on_from_the_weights(trained):
    assert_equal(tensors(trained("warm") / "model"), tensors(trained("plain") / "model"))


@pytest.mark.slow
def test_a_head_that_the_start_lacks(trained, made):
    model = trained("pairs") / "model"
    _, errors = finish(start(PROGRAM, *flags(made, "new_head", **AGAIN, model=model)), 2)
    assert f"error: {model}: the checkpoint lacks 2 tensor(s): cls.seq_relationship.weight" in errors


@pytest.mark.slow
@pytest.mark.parametrize("name", ["data", "eval_data"])
def test_a_damaged_record_is_named(made, name):
    _, errors = finish(start(PROGRAM, *flags(made, f"damaged_{name}", **{name: made / "damaged"})), 2)
    (line,) = [line for line in errors.splitlines() if line.startswith("error:")]
    begin, end = f"error: {shard(made / 'damaged')}: the record after ", ". Copy the file again, or make the data anew"
    assert line.startswith(begin)
    assert line.endswith(end)
    size = json.loads((made / "16" / "manifest.json").read_text())["files"][1]["examples"]
    assert 0.4 < int(line.removeprefix(begin).split()[0]) / size < 0.6


@pytest.mark.slow
def test_transformers_opens_the_model(trained, made):
    torch = pytest.importorskip("torch", reason="a peer, see `make peers`")
    transformers = pytest.importorskip("transformers", reason="a peer, see `make peers`")
    folder = trained("learns") / "model"
    twin, info = transformers.AutoModelForPreTraining.from_pretrained(folder, output_loading_info=True)
    assert not any(info[name] for name in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    (inputs, _, _), *_ = Records(made / "held_out", batch_size=8, shuffle=False).dataset()
    inputs = {name: value.numpy() for name, value in inputs.items()}
    with torch.inference_mode():
        names = {"input_ids": "token_ids", "token_type_ids": "segment_ids", "attention_mask": "padding_mask"}
        expected = twin.eval()(**{theirs: torch.tensor(inputs[ours]).long() for theirs, ours in names.items()})
    outputs = keras_bert.load(folder).pretrainer()(inputs)
    logits = np.take_along_axis(expected.prediction_logits.numpy(), inputs["mask_positions"][..., None], 1)
    np.testing.assert_allclose(to_numpy(outputs["mlm_logits"]), logits, atol=1e-4)
    np.testing.assert_allclose(to_numpy(outputs["nsp_logits"]), expected.seq_relationship_logits.numpy(), atol=1e-4)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    assert tokenizer.tokenize(" ".join(TOPICS[0])) == TOPICS[0]

"""A file for another runtime is compared with the model that it was made from, on random ids."""

import dataclasses
import itertools

import pytest

import keras_bert
from keras_bert.exporting import runtimes
from keras_bert.exporting.runtimes import Runner, RuntimeReport, check_runtime, probes
from tests.conftest import to_numpy

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def path(tmp_path):
    """A file of 1,500,000 bytes."""
    (tmp_path / "model.bin").write_bytes(bytes(1_500_000))
    return tmp_path / "model.bin"


def runner_of(model, length=None, error=0.0):
    """Computes what the model does, with an error that is added to every number."""

    def run(inputs):
        return {name: to_numpy(value) + error for name, value in model(inputs).items()}

    return Runner(run, length)


def test_a_report_of_the_largest_difference(model_of, path):
    model = model_of("classification")
    report = check_runtime(model, keras_bert.describe(model), path, [runner_of(model, error=1e-7)], "float32")
    assert report.size == 1_500_000
    assert 0 < report.difference < 1e-5
    assert list(report.latencies) == [40]  # The longest probe has 64 tokens, the model 40 positions.


def test_other_outputs_are_refused(model_of, path):
    model = model_of("classification")
    description = keras_bert.describe(model)
    message = r"model.bin was not written.* shape \(1, 1\), logits differs by 0.1.* at most 1e-05"
    with pytest.raises(ValueError, match=message):
        check_runtime(model, description, path, [runner_of(model, error=0.1)], "float32")
    report = check_runtime(model, description, path, [runner_of(model, error=1e-4)], "dynamic_int8")
    assert report.difference > 1e-5


def test_a_latency_for_each_length(model_of, path):
    model = model_of("classification")
    runners = [runner_of(model, length=length) for length in (4, 8)]
    report = check_runtime(model, keras_bert.describe(model), path, runners, "float32")
    assert list(report.latencies) == [4, 8]


@pytest.mark.parametrize(("head", "axes"), [("classification", ()), ("multiple_choice", (2,))])
def test_probes_have_padding_and_ids_of_the_vocabulary(model_of, config, head, axes):
    model = model_of(head)
    for batch in probes(model, keras_bert.describe(model)):
        mask = batch["padding_mask"]
        assert mask.shape[1:-1] == axes
        assert mask[0].all()
        assert mask.any(-1).all()  # Each row has a token.
        assert batch["token_ids"].max() < config.vocab_size
        assert {values.dtype.name for values in batch.values()} == {"int32"}


def test_probes_of_one_length_and_of_a_short_model(config):
    short = dataclasses.replace(config, max_position_embeddings=5)
    model = keras_bert.build_encoder(short)
    shapes = [batch["token_ids"].shape for batch in probes(model, keras_bert.describe(model))]
    assert shapes == [(1, 1), (3, 5), (2, 5)]
    shapes = [batch["token_ids"].shape for batch in probes(model, keras_bert.describe(model), length=3)]
    assert shapes == [(1, 3), (3, 3)]


def test_a_report_is_one_line():
    report = RuntimeReport("model.onnx", size=1_234_567, difference=2.345e-6, latencies={8: 0.0012, 64: 0.0105})
    assert str(report) == (
        "model.onnx: 1.2 MB, largest difference 2e-06 of the largest output; one text takes 1.2 ms for 8 tokens, "
        "10.5 ms for 64 tokens"
    )


def test_the_median_of_the_calls(model_of, path, monkeypatch):
    """One slow call of five does not count."""
    model = model_of("classification")
    clock = itertools.accumulate([0.0, 1, 0, 1, 0, 100, 0, 1, 0, 1])
    monkeypatch.setattr(runtimes.time, "perf_counter", lambda: next(clock))
    report = check_runtime(model, keras_bert.describe(model), path, [runner_of(model, length=4)], "float32")
    assert report.latencies == {4: 1.0}

"""What REST and gRPC share: settings, limits, metrics and the log of requests."""

import asyncio

import pytest
from prometheus_client.parser import text_string_to_metric_families

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

from keras_bert.serving.errors import RequestError  # noqa: E402
from keras_bert.serving.server.service import Call, Counters, ServerSettings, Service  # noqa: E402


@pytest.fixture
def service(tmp_path):
    """A service of a folder without models."""
    service = Service(tmp_path, ServerSettings(max_request_rows=10))
    yield service
    service.batcher.close()


def samples(text):
    """Returns the values of Prometheus' text format by name and labels."""
    values = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            values[sample.name, *sorted(sample.labels.items())] = sample.value
    return values


@pytest.mark.parametrize(
    "setting", ["max_batch_size", "max_queue", "max_body_bytes", "max_request_rows", "poll_seconds"]
)
@pytest.mark.parametrize("value", [0, -1])
def test_limits_are_positive(setting, value):
    with pytest.raises(ValueError, match=f"`{setting}` must be greater than 0. Received: {setting}={value}"):
        ServerSettings(**{setting: value})


def test_the_window_of_a_batch():
    assert ServerSettings(batch_window_ms=0).batch_window_ms == 0
    with pytest.raises(ValueError, match="`batch_window_ms` must not be negative. Received: -0.5"):
        ServerSettings(batch_window_ms=-0.5)


def test_the_most_rows(service):
    service.check_rows(10)
    with pytest.raises(RequestError, match="has 11 rows. Expected at most 10 .--max_request_rows") as error:
        service.check_rows(11)
    assert error.value.status == 413


def test_a_request_is_counted_and_logged(service, caplog):
    with caplog.at_level("INFO", "keras_bert.serving"), service.observed("rest:predict") as call:
        call.is_for("text", 2)
        call.has_rows(3)
    values = samples(service.counters.text())
    labels = [("api", "rest:predict"), ("code", "OK"), ("model", "text"), ("version", "2")]
    assert values["keras_bert_requests_total", *labels] == 1
    assert values["keras_bert_request_seconds_count", ("api", "rest:predict"), ("model", "text")] == 1
    (line,) = caplog.messages
    assert line.startswith("rest:predict text/2 rows=3 OK ")
    assert line.endswith("ms")


@pytest.mark.parametrize(
    ("error", "raised", "code", "logged"),
    [
        (RequestError("NOT_FOUND", "no\nmodel"), RequestError, "NOT_FOUND", "no model"),
        (asyncio.CancelledError(), asyncio.CancelledError, "CANCELLED", "the client disconnected"),
        (ZeroDivisionError("secret"), RequestError, "INTERNAL", "secret"),
    ],
)
def test_a_failing_request_is_counted_and_logged(service, caplog, error, raised, code, logged):
    """Of an unexpected error, the client is told only the type."""
    with (
        caplog.at_level("INFO", "keras_bert.serving"),
        pytest.raises(raised) as found,
        service.observed("grpc:predict"),
    ):
        raise error
    assert "secret" not in str(found.value)
    assert caplog.messages[-1].startswith(f"grpc:predict -/- rows=0 {code} ")
    assert caplog.messages[-1].endswith(f"ms {logged}")
    labels = [("api", "grpc:predict"), ("code", code), ("model", ""), ("version", "")]
    assert samples(service.counters.text())["keras_bert_requests_total", *labels] == 1


def test_an_unexpected_error_has_a_traceback_in_the_log(service, caplog):
    message = "^internal server error: ZeroDivisionError$"
    with pytest.raises(RequestError, match=message), service.observed("rest:other"):
        raise ZeroDivisionError
    assert [record.levelname for record in caplog.records if record.exc_info] == ["ERROR"]


def test_a_service_without_models_is_not_ready(service):
    values = samples(service.counters.text())
    assert values["keras_bert_ready",] == 0
    assert values["keras_bert_waiting_requests",] == 0


def test_servers_have_metrics_of_their_own():
    first = Counters()
    second = Counters()
    first.batch_rows.labels("text").observe(3)
    assert samples(first.text())["keras_bert_batch_rows_sum", ("model", "text")] == 3
    assert ("keras_bert_batch_rows_sum", ("model", "text")) not in samples(second.text())


def test_the_model_of_an_answer():
    call = Call("rest:predict")
    call.is_for("text", 2)
    spec = call.model_spec("ids")
    assert spec.name == "text"
    assert spec.version.value == 2
    assert spec.signature_name == "ids"


def test_metrics_of_a_server(server):
    server.predict("text", {"inputs": ["a"]})
    server.predict("text", {"inputs": [3]})
    status, text = server.send("GET", "/metrics")
    assert status == 200
    values = samples(text)
    api = ("api", "rest:predict")
    model = ("model", "text")
    for code in ("OK", "INVALID_ARGUMENT"):
        assert values["keras_bert_requests_total", api, ("code", code), model, ("version", "2")] >= 1
    assert values["keras_bert_request_seconds_count", api, model] >= 2
    assert values["keras_bert_batch_rows_sum", model] >= 1
    assert values["keras_bert_waiting_requests",] == 0
    assert values["keras_bert_ready",] == 1

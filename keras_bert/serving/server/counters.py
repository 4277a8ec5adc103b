"""The server's counters, for Prometheus."""

import prometheus_client

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Counters:
    """What a server counts, in a registry of its own."""

    content_type = "text/plain; version=0.0.4"

    def __init__(self):
        self._registry = prometheus_client.CollectorRegistry()
        new = {"namespace": "keras_bert", "registry": self._registry}
        self.requests = prometheus_client.Counter(
            "requests", "Requests by answer.", ("api", "model", "version", "code"), **new
        )
        self.seconds = prometheus_client.Histogram(
            "request_seconds", "Time to the answer.", ("api", "model"), buckets=_SECONDS, **new
        )
        self.batch_rows = prometheus_client.Histogram(
            "batch_rows", "Rows of each batch that ran.", ("model",), buckets=_ROWS, **new
        )
        self.waiting = prometheus_client.Gauge("waiting_requests", "Requests that wait for a batch to run.", **new)
        self.ready = prometheus_client.Gauge("ready", "Whether a model is served.", **new)

    def text(self):
        """All of it, in the text format of Prometheus."""
        return prometheus_client.generate_latest(self._registry).decode()

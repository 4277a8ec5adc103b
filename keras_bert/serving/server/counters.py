"""Counters, gauges and histograms in the text format of Prometheus."""

import bisect
import threading

_LATENCY = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_BATCH = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_PREFIX = "keras_bert_"


class Counter:
    """A number for each combination of labels that only grows.

    Args:
        name: its name, without the package's prefix.
        text: what it counts.
        labels: names of the labels.
    """

    kind = "counter"

    def __init__(self, name, text, labels):
        self.name, self.text, self.labels = _PREFIX + name, text, labels
        self._values = {}
        self._lock = threading.Lock()

    def add(self, *values, amount=1):
        """Adds an amount; `values` are those of the labels."""
        with self._lock:
            self._values[values] = self._values.get(values, 0) + amount

    def lines(self):
        with self._lock:
            return [f"{self.name}{_braces(self.labels, values)} {count}" for values, count in self._values.items()]


class Histogram:
    """Counts of observations up to each of some bounds.

    Args:
        name, text, labels: as a `Counter`'s.
        bounds: upper bounds, ascending.
    """

    kind = "histogram"

    def __init__(self, name, text, labels, bounds):
        self.name, self.text, self.labels, self._bounds = _PREFIX + name, text, labels, bounds
        self._values = {}
        self._lock = threading.Lock()

    def observe(self, amount, *values):
        with self._lock:
            counts, total = self._values.get(values) or ([0] * (len(self._bounds) + 1), 0)
            counts[bisect.bisect_left(self._bounds, amount)] += 1
            self._values[values] = counts, total + amount

    def lines(self):
        with self._lock:
            return [
                line for values, (counts, total) in self._values.items() for line in self._of(values, counts, total)
            ]

    def _of(self, values, counts, total):
        count = 0
        for bound, here in zip([*self._bounds, "+Inf"], counts, strict=True):
            count += here
            yield f"{self.name}_bucket{_braces((*self.labels, 'le'), (*values, bound))} {count}"
        yield f"{self.name}_sum{_braces(self.labels, values)} {total:.6f}"
        yield f"{self.name}_count{_braces(self.labels, values)} {count}"


class Gauge:
    """A number that is asked for when it is shown.

    Args:
        name, text: as a `Counter`'s.
        value: a function that returns it.
    """

    kind = "gauge"

    def __init__(self, name, text, value):
        self.name, self.text, self._value = _PREFIX + name, text, value

    def lines(self):
        return [f"{self.name} {self._value()}"]


def _braces(labels, values):
    pairs = ",".join(f'{label}="{_escape(value)}"' for label, value in zip(labels, values, strict=True))
    return f"{{{pairs}}}" if pairs else ""


def _escape(value):
    return str(value).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


class Counters:
    """What a server counts."""

    def __init__(self):
        self.requests = Counter("requests_total", "Requests by answer.", ("api", "model", "version", "code"))
        self.latency = Histogram("request_seconds", "Time to the answer.", ("api", "model"), _LATENCY)
        self.batch_rows = Histogram("batch_rows", "Rows that ran together.", ("model",), _BATCH)
        self._all = [self.requests, self.latency, self.batch_rows]

    def watch(self, name, text, value):
        """Shows what a function returns as a gauge."""
        self._all.append(Gauge(name, text, value))

    def text(self):
        """Everything, in the format of Prometheus."""
        lines = []
        for each in self._all:
            lines += [f"# HELP {each.name} {each.text}", f"# TYPE {each.name} {each.kind}", *each.lines()]
        return "\n".join(lines) + "\n"

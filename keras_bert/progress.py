"""Progress of long jobs: one updated line on a terminal, a line every 10 seconds in a file or a pipe. Log messages."""

import contextlib
import copy
import logging
import re
import shutil
import sys
import textwrap
import threading
import time

import tqdm

_DELAY = 2.0  # Seconds before a job other than training is shown.
_HIDDEN = []  # Not empty while nothing is shown, in all threads.
_TRACKED = []  # Not empty while a number of items is shown, to which those within add nothing.

# Abbreviations, so that a line fits into a terminal.
_SHARES = re.compile("accuracy|precision|recall|MRR|nDCG|f1|exact|correlation|pearson|spearman|bleu")
_SHORT = {"learning_rate": "lr", "gradient_norm": "norm", "examples": "ex", "tokens": "tok"}

# Every export has characters that names of tensors cannot have, and is written to a temporary folder; every call of
# `fit`, every grid and every set of options of `predict` has graphs of its own, of which TensorFlow warns when there
# are five; numbers that are not those of a step are summed over replicas outside of a graph.
_HARMLESS = re.compile(
    "unsupported characters|Assets written to|triggered tf.function retracing|Strategy eagerly has significant overhead"
)
_PLAIN = logging.Formatter()  # `logging.basicConfig` would replace that of the handler.


@contextlib.contextmanager
def _within(blocks):
    """Adds a block to a list while it runs."""
    blocks.append(True)
    try:
        yield
    finally:
        blocks.pop()


def hidden():
    """Shows no progress while the block runs."""
    return _within(_HIDDEN)


def is_live(stream):
    """Whether a line can be written again: on a terminal, and in the cells of a notebook."""
    is_terminal = hasattr(stream, "isatty") and stream.isatty()
    return is_terminal or type(stream).__module__.startswith("ipykernel.")


class Progress:
    """The progress of a training run, possibly the `run`-th of several, written to `stream`, by default stderr.

    `rest` is the time of all later runs in multiples of the time of this one; `resumed` tells that the earlier runs
    were finished before this process started.

    Example:
        trainer.fit(batches, progress=Progress(run=2, runs=4, rest=2.0))
    """

    def __init__(self, run=1, runs=1, rest=0.0, resumed=False, stream=None):
        self._run = run
        self._runs = runs
        self._rest = rest
        self._resumed = resumed and run > 1
        self._stream = stream or sys.stderr
        self._total = None
        self._per_epoch = None
        self._line = None  # The line starts after the first steps, so that its rate excludes tracing.
        self._numbers = {}
        self._rates = {}

    def begin(self, step, total, finished=False, per_epoch=None, extended=False):
        """Starts a run of `total` steps, `per_epoch` in each epoch; reports where an earlier run continues."""
        self._total = total
        self._per_epoch = per_epoch
        self._line = None
        if finished:
            place = f"has finished training at step {step:,}"
        elif extended:
            place = f"is extended from step {step:,} to {total:,}"
        elif step:
            place = f"resumes at step {step:,} of {total:,}"
        else:
            place = "starts"
        if self._resumed:
            self.say(f"{self._run - 1} of {self._runs} runs are finished; run {self._run} {place}")
        elif step:
            name = f"run {self._run}" if self._runs > 1 else "the run"
            self.say(f"{name} {place}")
        self._resumed = False  # Said once, also if the run has several stages.

    def show(self, step, numbers, rates):
        """Updates the line, if it is due, with a dict of numbers and a dict of rates per second."""
        self._numbers = numbers
        self._rates = rates
        if self._line is None:
            self._line = _Line(
                self._compose,
                self._stream,
                total=self._total,
                initial=step,
                smoothing=0.1,
            )
        self._line.update(step - self._line.n)

    def say(self, line):
        """Writes a permanent line."""
        if _HIDDEN or self._stream is None:
            return
        if is_live(self._stream):
            line = textwrap.fill(line, _width(), subsequent_indent="  ")
        tqdm.tqdm.write(line, self._stream)

    def evaluated(self, step, results):
        """Writes a permanent line with the results of an evaluation."""
        numbers = []
        for name, value in results.items():
            numbers.append(f"{_spaced(name)} {_formatted_result(name, value)}")
        place = f"step {step:,} of {self._total:,}"
        if self._per_epoch and step % self._per_epoch == 0:
            epochs = -(-self._total // self._per_epoch)
            place = f"epoch {step // self._per_epoch} of {epochs}"
        self.say(f"{self._which()}{place}: evaluation {', '.join(numbers)}")

    def close(self):
        """Writes the final progress line and ends it."""
        if self._line is not None:
            self._line.close()
            self._line = None

    def _which(self):
        """Returns which of several runs this is, for the beginning of a line."""
        if self._runs == 1:
            return ""
        return f"run {self._run} of {self._runs}, "

    def _compose(self, fields):
        """Returns the parts of the line, the most important first."""
        parts = [f"{self._which()}step {fields['n']:,}/{self._total:,}"]
        parts.extend(self._times(fields))
        numbers = {}
        for name, value in self._numbers.items():
            numbers[_SHORT.get(name, _spaced(name))] = _short_number(value)
        last = []
        for name in ("lr", "norm"):
            if name in numbers:
                last.append(f"{name} {numbers.pop(name)}")
        parts.extend(f"{name} {value}" for name, value in numbers.items())
        parts.extend(_speeds(self._rates))
        return parts + last

    def _times(self, fields):
        """Returns the time that the run took, or those that it and all later ones will take, if they are known."""
        if fields["n"] >= self._total:
            return [f"in {tqdm.tqdm.format_interval(fields['elapsed'])}"]
        rate = _rate(fields)
        if not rate:
            return []
        left = (self._total - fields["n"]) / rate
        times = [f"{tqdm.tqdm.format_interval(left)} left"]
        if self._rest:
            left_in_all = left + self._rest * self._total / rate
            times.append(f"{tqdm.tqdm.format_interval(left_in_all)} for all runs")
        return times


def track(items, what: str, *, total: int | None = None, show: bool = True):
    """Yields items and shows how many of them are done, after two seconds: on a terminal in one line.

    Args:
        items: iterable.
        what: str, what is done, such as "tokenizing".
        total: int, the number of items. Defaults to their length, if they have one.
        show: bool, whether to show anything. Defaults to `True`.

    Example:
        for text in track(texts, "tokenizing"):
            tokenizer(text)
    """
    if not show or _TRACKED:
        yield from items
        return
    if total is None and hasattr(items, "__len__"):
        total = len(items)

    def compose(fields):
        rate = _rate(fields)
        if not total:
            return [f"{what}: {fields['n']:,}"]
        count = f"{what}: {fields['n']:,}/{total:,}"
        if not rate:
            return [count]
        left = max(total - fields["n"], 0) / rate
        return [count, f"{tqdm.tqdm.format_interval(left)} left"]

    tracked = _Line(compose, sys.stderr, total=total, leave=False, delay=_DELAY)
    with (
        contextlib.closing(tracked) as line,
        _within(_TRACKED),
        contextlib.ExitStack() as first,
    ):
        first.enter_context(announced(what.split(",")[0]))  # It may take long, for example to trace a graph.
        for item in items:
            yield item
            first.close()
            line.update()


@contextlib.contextmanager
def messages():
    """Yields a function that shows a message in place of the last one, if the block takes more than two seconds.

    Example:
        with messages() as show:
            keras_bert.pretraining.generate("corpus/*.txt", "data", "vocab.txt", settings, progress=show)
    """
    last = []
    with contextlib.closing(_Line(lambda _: last, sys.stderr, leave=False, delay=_DELAY)) as line:

        def show(message):
            last[:] = [message]
            line.update()

        yield show


@contextlib.contextmanager
def announced(what, show=True, delay=_DELAY):
    """Shows what is being done while the block runs, if it takes more than `delay` seconds."""
    done = threading.Event()
    began = time.monotonic()

    def compose(fields):
        seconds = int(time.monotonic() - began)
        if seconds and is_live(sys.stderr):
            return [f"{what} ... {seconds} s"]
        return [f"{what} ..."]

    def follow():
        if not done.wait(delay):
            with contextlib.closing(_Line(compose, sys.stderr, leave=False)) as line:
                while not done.wait(1.0):
                    line.refresh()

    thread = threading.Thread(target=follow, daemon=True)
    if show:
        thread.start()
    try:
        yield
    finally:
        done.set()
        if show:
            thread.join()


class _Line(tqdm.tqdm):
    """A line that is updated in place, as the last one of a terminal, and repeated every 10 seconds elsewhere.

    `compose` maps tqdm's `format_dict` to the parts of the line, of which as many are shown as fit.
    """

    def __init__(self, compose, stream, **options):
        self._compose = compose
        self._is_live = is_live(stream)
        if self._is_live:
            file = stream
            seconds_between = 0.1
        else:
            file = _Lines(stream)
            seconds_between = 10.0
        super().__init__(
            file=file,
            mininterval=seconds_between,
            miniters=1,
            position=0,
            disable=bool(_HIDDEN) or stream is None,
            **options,
        )

    def __str__(self):
        parts = self._compose(self.format_dict)
        if not self._is_live:
            return ", ".join(parts)
        width = _width()
        while len(parts) > 1 and len(", ".join(parts)) > width:
            parts.pop()
        return ", ".join(parts)[:width].ljust(width)  # Hides what another line has left.


class _Lines:
    """A stream that writes each state of a progress line on a separate line."""

    def __init__(self, stream):
        self._stream = stream
        self._last = None

    def write(self, text):
        if text.strip() not in ("", self._last):
            self._last = text.strip()
            self._stream.write(self._last + "\n")

    def flush(self):
        self._stream.flush()


def _width():
    return shutil.get_terminal_size().columns - 1


def _rate(fields):
    """Returns items per second, or `None` at the start."""
    if fields["rate"]:
        return fields["rate"]
    done = fields["n"] - fields["initial"]
    if not done or not fields["elapsed"]:
        return None
    return done / fields["elapsed"]


def _speeds(rates):
    """Returns the speed in examples and tokens per second, or else in steps."""
    speeds = []
    for name in ("examples", "tokens"):
        if name in rates:
            speeds.append(f"{_short_rate(rates[name])} {_SHORT[name]}/s")
    if speeds or not rates.get("steps"):
        return speeds
    steps = rates["steps"]
    if steps >= 1:
        return [f"{_short_rate(steps)} steps/s"]
    return [f"{_short_number(1 / steps)} s/step"]


def _spaced(name):
    return name.replace("_", " ")


def _short_number(value):
    if value and abs(value) < 1e-3:
        return f"{value:.1e}"
    return f"{value:.4g}"


def is_share(name):
    """Returns whether a score is from 0 to 1 (a correlation from -1), and so is shown in percent; losses are not."""
    return bool(_SHARES.search(name))


def _formatted_result(name, value):
    """Formats a result of an evaluation: scores in percent, losses and other numbers as they are."""
    if is_share(name):
        return f"{100 * value:.2f}%"
    return _short_number(value)


def _short_rate(value):
    if value >= 10:
        return f"{value:,.0f}"
    return f"{value:.2g}"


class LogHandler(logging.StreamHandler):
    """Writes messages above the progress line, with their level only if it is a warning or worse."""

    def emit(self, record):
        level = ""
        if record.levelno > logging.INFO:
            level = f"{record.levelname.lower()}: "
        tqdm.tqdm.write(level + _PLAIN.format(record), self.stream)


def is_harmless(record):
    """Returns whether a message of another package is of no interest."""
    return bool(_HARMLESS.search(record.getMessage()))


@contextlib.contextmanager
def quiet_tensorflow():
    """Suppresses TensorFlow's harmless warnings in a block, or in a function as its decorator."""
    logger = logging.getLogger("tensorflow")
    root = logging.getLogger()
    # Without a handler, TensorFlow's first message would configure `logging` for the whole program.
    handler = logging.NullHandler() if root.handlers else copy.copy(logging.lastResort)
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))

    def is_other(record):
        return not is_harmless(record)

    logger.addFilter(is_other)
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        logger.removeFilter(is_other)

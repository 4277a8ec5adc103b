"""Answers of another process and of a server, as a user of the command line and of the client gets them."""

import asyncio
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

from keras_bert.checks import is_ours
from keras_bert.files import json_text
from keras_bert.heads.answers import each_text, of_outputs, without_bytes
from keras_bert.serving.client import Client
from keras_bert.testing.promises import DifferenceError, SkippedError, expect, expect_equal

_PACKAGE = pathlib.Path(__file__).parents[1]
_SECONDS = 120  # Until a server has loaded a model.
_FEWEST_LINES = 3
_COUNTS = ("tokens", "tokens_read", "text_tokens")


def plugins_of(*classes):
    """Returns the modules of classes that are not of the package, names and folders to import them from.

    Raises `SkippedError` for a class that no other process can import.
    """
    plugins = {}
    for cls in classes:
        if is_ours(cls):
            continue
        file = getattr(sys.modules.get(cls.__module__), "__file__", None)
        if cls.__module__ == "__main__" or file is None or not os.path.exists(file):
            raise SkippedError(f"{cls.__qualname__} is in no file that another process could import")
        if "<locals>" in cls.__qualname__:
            raise SkippedError(f"{cls.__qualname__} is made by a function, so that no other process can import it")
        levels = cls.__module__.count(".")
        if pathlib.Path(file).name.startswith("__init__."):
            levels += 1
        plugins[cls.__module__] = pathlib.Path(file).resolve().parents[levels]
    return plugins


def predicted_by_a_server(folder, rows, plugins):
    """Returns the answers of `keras-bert predict --server` to rows; `folder` has the versions of an exported model."""
    with _running(folder.parent) as server:
        return predicted_at_the_shell(folder.name, rows, plugins, f"--server=127.0.0.1:{server.port}")


def predicted_at_the_shell(model, rows, plugins, *flags):
    """Returns the answers of `keras-bert predict` to rows, dicts, in another process.

    `plugins` are the folders of modules to import, by name, see `plugins_of`; `flags` are more flags.
    """
    with tempfile.TemporaryDirectory() as folder:
        texts = pathlib.Path(folder, "texts.jsonl")
        answers = pathlib.Path(folder, "answers.jsonl")
        texts.write_text("".join(f"{json_text(row)}\n" for row in rows), encoding="utf-8")
        command = [sys.executable, "-m", "keras_bert.pipelines", "predict", f"--model={model}"]
        command += [f"--input={texts}", f"--output={answers}", *flags]
        if plugins:
            command.append(f"--plugins={','.join(plugins)}")
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env=_environment(plugins),
            cwd=folder,
            check=False,
        )
        if done.returncode or not answers.exists():
            last = done.stderr.strip().splitlines()[-_FEWEST_LINES:]
            raise DifferenceError("`keras-bert predict` to end well", f"status {done.returncode}: {' '.join(last)}")
        lines = answers.read_text(encoding="utf-8").splitlines()
    expect(len(lines) == len(rows), f"{len(rows)} lines", len(lines))
    predicted = []
    for line, row in zip(lines, rows, strict=True):
        predicted.append(_answer_of_line(json.loads(line), row))
    return predicted


def _environment(plugins):
    """Returns the environment of a process that imports this package and plugins."""
    folders = {str(_PACKAGE.parent): None}  # In order.
    for folder in plugins.values():
        folders[str(folder)] = None
    for folder in sys.path:
        if folder:
            folders[folder] = None
    return os.environ | {"PYTHONPATH": os.pathsep.join(folders)}


def _answer_of_line(line, row):
    """Returns the fields of an answer among the columns of a row; those of the name of a column have another one."""
    answer = {}
    for name, value in line.items():
        own_name = name.removeprefix("predicted_")
        if own_name != name and own_name in row:
            answer[own_name] = value
        elif name not in row:
            answer[name] = value
    return answer


def expect_answers(received, expected, what):
    """Raises an error unless answers are equal, in the form of JSON."""
    plain = [_as_json(dict(answer)) for answer in expected]
    expect_equal(received, plain, what)


def expect_served(folder, signature, names, rows, answers, outputs):
    """Raises an error unless a server and its client answer rows as a model does.

    Args:
        folder: the folder of a model, with its versions.
        signature: the `serving_default` of the exported model.
        names: tuple of the inputs of the signature that rows have.
        rows: list of dicts of texts.
        answers: what `predict` returns for them.
        outputs: `outputs` of the head, by which the client knows it, if it has any.
    """
    inputs = {}
    for name in names:
        inputs[name] = [row[name] for row in rows]
    with _running(folder.parent) as server, Client(f"127.0.0.1:{server.port}") as client:
        received = client.predict(folder.name, inputs)
    expected = {name: value.numpy() for name, value in signature(inputs).items()}
    for name, value in expected.items():
        expect(name in received, f"the output {name} from the server", ", ".join(received))
        received_texts = without_bytes(received[name].tolist())
        expect_equal(received_texts, without_bytes(value.tolist()), f"the output {name} of the server")
    if outputs:
        found = each_text(of_outputs(received), received, rows)
        expect_answers([_as_json(answer) for answer in found], answers, "the answers of the client")


def _as_json(answer):
    """Returns an answer in the form of JSON."""
    return json.loads(json_text(answer, default=lambda value: value.tolist()))


@contextlib.contextmanager
def _running(folder):
    """Starts a server for a folder in a thread."""
    try:
        from keras_bert.serving.server.server import Server, ServerSettings
    except ModuleNotFoundError as error:
        raise SkippedError(f"{error.name} is not installed") from None
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    settings = ServerSettings(port=0, grpc_port=None, poll_seconds=0.1, shutdown_seconds=5.0)
    server = Server(folder, settings)
    asyncio.run_coroutine_threadsafe(server.start(), loop).result(_SECONDS)
    try:
        end = time.monotonic() + _SECONDS
        while not server.shelf.ready:
            if time.monotonic() > end:
                raise DifferenceError("a server that loads the model", f"none after {_SECONDS} s")
            time.sleep(0.05)
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()

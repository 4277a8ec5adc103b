"""Serves SavedModels for development, with TensorFlow Serving's APIs.

    python -m pipelines.serve --saved_models=saved_models --port=8501 --grpc_port=8500
    curl -d '{"instances": ["A charming film."]}' localhost:8501/v1/models/sst2:predict

`--saved_models` is a folder of `<model>/<version number>/saved_model.pb`, as written by `keras_bert.export`, or of the
outputs of training commands, such as `runs`; checkpoints in it are skipped. The latest version that loads is served; a
version added later replaces it without downtime. Concurrent requests are batched. The server starts in about five
seconds and then loads the models. On SIGTERM it finishes running requests and exits with status 0. Use TensorFlow
Serving in production.
"""

import asyncio
import contextlib
import gc
import logging
import os
import pathlib
import shlex
import signal
import socket
import sys

from . import command
from .arguments import CommandArguments, flag

_MODELS = ("*/*", "*/saved_model/*")  # Models, and outputs of commands.
_CHECKPOINT = "a checkpoint"
_CHECKPOINTS = "a folder of checkpoints"
_VERSION = "one version of a model"
_LAYOUT = "<model>/<version number>/saved_model.pb"
_SHOWN = 5  # Files and folders that messages name.
_OTHER_KINDS = {  # What a folder without models is, by a file in it.
    "saved_model.pb": _VERSION,
    "[0-9]*/saved_model.pb": "one model",
    "index.json": "a search index",
    "config.json": _CHECKPOINT,
    "model.safetensors": _CHECKPOINT,
    "*/config.json": _CHECKPOINTS,
}


class Arguments(CommandArguments):
    saved_models: str = flag("saved_models", "Folder of models.", section="models")
    poll_seconds: float = flag(1.0, "Seconds between scans of the folder.")
    host: str = flag("127.0.0.1", "Address to listen on; 0.0.0.0 for all interfaces.", section="server")
    port: int = flag(8501, "REST port; 0 selects a free port.", least=0, most=65535)
    grpc_port: int = flag(8500, "gRPC port; 0 selects a free port, -1 disables gRPC.", least=-1, most=65535)
    batch_window_ms: float = flag(2.0, "Milliseconds that a batch waits for more requests.")
    max_batch_size: int = flag(32, "Maximum number of rows of a batch.")
    max_queue: int = flag(1000, "Maximum number of waiting requests; others are rejected.")
    max_body_bytes: int = flag(8 << 20, "Maximum size of a request.")
    max_request_rows: int = flag(1000, "Maximum number of rows of a request.")
    allowed_hosts: list[str] = flag(
        (), "Names under which clients reach the server, beside localhost and IP addresses; * allows all."
    )


def check(arguments):
    if not pathlib.Path(arguments.saved_models).is_dir():
        raise ValueError(f"--saved_models={arguments.saved_models}: no such folder")
    _check_folder(pathlib.Path(arguments.saved_models))
    for name in ("port", "grpc_port"):
        port = getattr(arguments, name)
        if port > 0:
            _check_port(arguments.host, port, name)


def _check_port(host, port, name):
    """Raises an error if the server could not listen at a port; `name` is that of its flag."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        reason = str(error.strerror or error).partition(" (while attempting")[0]  # Of create_server.
        raise OSError(f"cannot listen at {host}:{port}: {reason}. Change --host or --{name}") from error


def _check_folder(folder):
    """Raises an error for a folder without models, unless it is empty or that of a training: these may get some."""
    if _has_models(folder) or (folder / "flags.txt").is_file():
        return
    other = _other_content(folder)
    what = f"--saved_models={folder} is {other or 'no folder of models'}"
    nearby = _nearby_models(folder, other)
    if nearby is not None:
        raise ValueError(f"{what}. Did you mean --saved_models={shlex.quote(str(nearby))}?")
    if other in (_CHECKPOINT, _CHECKPOINTS):
        model = folder if other == _CHECKPOINT else next(folder.glob("*/config.json")).parent
        path = shlex.quote(str(model))
        export = f"{command.spelling('export_saved_model')} --model={path} --output_dir=saved_models/NAME"
        raise ValueError(f"{what}. Export it with `{export}`, and use --saved_models=saved_models")
    unnumbered = _unnumbered_model(folder)
    if unnumbered is not None:
        version = unnumbered.parent
        raise ValueError(
            f"{what}: it has {unnumbered}, and {version.name} is no version number. Expected {_LAYOUT}, such as "
            f"{version.with_name('1') / unnumbered.name}"
        )
    if other:
        raise ValueError(f"{what}. Expected a folder of {_LAYOUT}")


def _other_content(folder):
    """Returns what a folder without models is, one of `_OTHER_KINDS`, or `None`."""
    for pattern, kind in _OTHER_KINDS.items():
        if any(folder.glob(pattern)):
            return kind
    return None


def _nearby_models(folder, other):
    """Returns a folder above or below that has models, or `None`; `other` is what the folder is instead."""
    paths = list(folder.iterdir())
    folders = sorted(path for path in paths if path.is_dir())
    places = list(folders)
    if other or (paths and not folders):
        levels = "../.." if other == _VERSION else ".."
        places.insert(0, pathlib.Path(os.path.normpath(folder / levels)))
    for place in places:
        if _has_models(place):
            return place
    return None


def _unnumbered_model(folder):
    """Returns the file of a model whose folder is not a version number, or `None`."""
    for path in sorted(folder.glob("*/*/saved_model.pb")):
        if not path.parent.name.isdecimal():
            return path
    return None


def _content_in_words(folder):
    """Returns the content of a folder, such as `notes.txt, old/ and 3 more`; folders end with a slash."""
    names = []
    for path in folder.iterdir():
        names.append(f"{path.name}/" if path.is_dir() else path.name)
    if not names:
        return "nothing"
    names.sort()
    text = ", ".join(names[:_SHOWN])
    left_out = len(names) - _SHOWN
    return f"{text} and {left_out} more" if left_out > 0 else text


def no_models(folder):
    """Returns a line about a folder that has no model yet: what it has, and what was expected."""
    return f"There is no model yet: {folder} has {_content_in_words(folder)}. Expected {folder}/{_LAYOUT}"


def _has_models(folder):
    """Returns whether a folder has models with a version number."""
    for pattern in _MODELS:
        for path in folder.glob(f"{pattern}/saved_model.pb"):
            if path.parent.name.isdecimal():
                return True
    return False


def main(arguments):
    from keras_bert.serving.server.server import Server, ServerSettings

    _raise_descriptor_limit()
    grpc_port = arguments.grpc_port if arguments.grpc_port >= 0 else None
    settings = arguments.fill(ServerSettings, grpc_port=grpc_port)
    _log_lines()
    # Garbage collection blocks all requests; freezing library objects keeps it short.
    gc.freeze()
    if not asyncio.run(_serve(Server(arguments.saved_models, settings), arguments)):
        # A thread that is still running would keep the interpreter from exiting.
        sys.stdout.flush()
        os._exit(0)


async def _serve(server, arguments):
    """Runs the server until a signal ends it; returns what `Server.stop` does, whether all threads have ended."""
    ended = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, ended.set)
    await server.start()
    _print_addresses(server, arguments)
    folder = pathlib.Path(arguments.saved_models)
    if not _has_models(folder):
        print(no_models(folder), flush=True)
    await ended.wait()
    print("Stopping.", flush=True)
    return await server.stop()


def _print_addresses(server, arguments):
    """Prints where the server listens, and how to try it."""
    host = arguments.host
    addresses = f"REST at http://{host}:{server.port}"
    if server.grpc_port is not None:
        addresses += f", gRPC at {host}:{server.grpc_port}"
    print("This is a development server. In production, serve the same folder with TensorFlow Serving.")
    print(f"Serving {arguments.saved_models}: {addresses}")
    # A browser opens no address that stands for all interfaces.
    local = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)
    page = f"http://{local}:{server.port}"
    print(f"To try the models once they are loaded, open {page} in a browser.", end=" ")
    print("Ctrl-C stops the server.", flush=True)


def _raise_descriptor_limit():
    """Raises the limit of open files and connections, often 1024, as far as the system allows."""
    with contextlib.suppress(ImportError, OSError, ValueError):  # Windows has no such module.
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _log_lines():
    """Logs one line for each request and each change of a model to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logger = logging.getLogger("keras_bert.serving")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    # TensorFlow logs every restored file and the deprecation of sessions.
    logging.getLogger("tensorflow").setLevel(logging.ERROR)


if __name__ == "__main__":
    command.run(__doc__, Arguments, main, check)

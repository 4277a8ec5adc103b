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
_CHECKPOINT, _CHECKPOINTS, _VERSION = "a checkpoint", "a folder of checkpoints", "one version of a model"
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
    family = socket.AF_INET6 if ":" in arguments.host else socket.AF_INET
    for name in ("port", "grpc_port"):
        if (port := getattr(arguments, name)) > 0:
            try:
                socket.create_server((arguments.host, port), family=family).close()
            except OSError as error:
                reason = str(error.strerror or error).partition(" (while attempting")[0]  # Of create_server.
                raise OSError(
                    f"cannot listen at {arguments.host}:{port}: {reason}. Change --host or --{name}"
                ) from error


def _check_folder(folder):
    """Raises an error for a folder without models, unless it is empty or that of a training: these may get some."""
    if _has_models(folder) or (folder / "flags.txt").is_file():
        return
    kind = next((kind for pattern, kind in _OTHER_KINDS.items() if any(folder.glob(pattern))), None)
    paths = list(folder.iterdir())
    folders = sorted(path for path in paths if path.is_dir())
    places = [*folders]
    if kind or (paths and not folders):
        above = os.path.normpath(folder / ("../.." if kind == _VERSION else ".."))
        places.insert(0, pathlib.Path(above))
    what = f"--saved_models={folder} is {kind or 'no folder of models'}"
    if found := next(filter(_has_models, places), None):
        raise ValueError(f"{what}. Did you mean --saved_models={shlex.quote(str(found))}?")
    if kind in (_CHECKPOINT, _CHECKPOINTS):
        model = folder if kind == _CHECKPOINT else next(folder.glob("*/config.json")).parent
        path = shlex.quote(str(model))
        export = f"{command.spelling('export_saved_model')} --model={path} --output_dir=saved_models/NAME"
        raise ValueError(f"{what}. Export it with `{export}`, and use --saved_models=saved_models")
    if unnumbered := _unnumbered_model(folder):
        version = unnumbered.parent
        raise ValueError(
            f"{what}: it has {unnumbered}, and {version.name} is no version number. Expected {_LAYOUT}, such as "
            f"{version.with_name('1') / unnumbered.name}"
        )
    if kind:
        raise ValueError(f"{what}. Expected a folder of {_LAYOUT}")


def _unnumbered_model(folder):
    """Returns the file of a model whose folder is not a version number, or `None`."""
    paths = sorted(folder.glob("*/*/saved_model.pb"))
    return next((path for path in paths if not path.parent.name.isdecimal()), None)


def _listed(folder):
    """Returns the content of a folder in words, such as `notes.txt, old/ and 3 more`; folders end with a slash."""
    names = sorted(f"{path.name}/" if path.is_dir() else path.name for path in folder.iterdir())
    if not names:
        return "nothing"
    text = ", ".join(names[:_SHOWN])
    left_out = len(names) - _SHOWN
    return f"{text} and {left_out} more" if left_out > 0 else text


def no_models(folder):
    """Returns a line about a folder that has no model yet: what it has, and what was expected."""
    return f"There is no model yet: {folder} has {_listed(folder)}. Expected {folder}/{_LAYOUT}"


def _has_models(folder):
    found = (path for pattern in _MODELS for path in folder.glob(f"{pattern}/saved_model.pb"))
    return any(path.parent.name.isdecimal() for path in found)


def main(arguments):
    from keras_bert.serving.server.server import Server, Settings

    _raise_descriptor_limit()
    settings = arguments.fill(Settings, grpc_port=None if arguments.grpc_port < 0 else arguments.grpc_port)
    _log_lines()
    # Garbage collection blocks all requests; freezing library objects keeps it short.
    gc.freeze()
    if not asyncio.run(_serve(Server(arguments.saved_models, settings), arguments)):
        # A thread that is still running would keep the interpreter from exiting.
        sys.stdout.flush()
        os._exit(0)


async def _serve(server, arguments):
    ended = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, ended.set)
    await server.start()
    host, folder = arguments.host, arguments.saved_models
    print("This is a development server. In production, serve the same folder with TensorFlow Serving.")
    grpc = "" if server.grpc_port is None else f", gRPC at {host}:{server.grpc_port}"
    print(f"Serving {folder}: REST at http://{host}:{server.port}{grpc}")
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)
    print(f"To try the models once they are loaded, open http://{shown}:{server.port} in a browser.", end=" ")
    print("Ctrl-C stops the server.", flush=True)
    if not _has_models(pathlib.Path(folder)):
        print(no_models(pathlib.Path(folder)), flush=True)
    await ended.wait()
    print("Stopping.", flush=True)
    return await server.stop()


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

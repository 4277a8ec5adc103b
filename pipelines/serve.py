"""Serves SavedModels for development, with TensorFlow Serving's APIs.

    python -m pipelines.serve --saved_models=saved_models --port=8501 --grpc_port=8500
    curl -d '{"instances": ["A charming film."]}' localhost:8501/v1/models/sst2:predict

`--saved_models` is a folder of `<model>/<version number>/saved_model.pb`, as written by `keras_bert.export`;
checkpoints in it are skipped. The latest version that loads is served; a version added later replaces it without
downtime. Concurrent requests are batched. The server starts in about five seconds and then loads the models. On SIGTERM
it finishes running requests and exits with status 0. Use TensorFlow Serving in production.
"""

import asyncio
import gc
import logging
import os
import pathlib
import signal
import socket
import sys

from absl import flags

from . import command

command.section("models")
_MODELS = flags.DEFINE_string("saved_models", "saved_models", "Folder of models.")
_POLL = flags.DEFINE_float("poll_seconds", 1.0, "Seconds between scans of the folder.")
command.section("server")
_HOST = flags.DEFINE_string("host", "127.0.0.1", "Address to listen on; 0.0.0.0 for all interfaces.")
_PORT = flags.DEFINE_integer("port", 8501, "REST port; 0 selects a free port.", 0, 65535)
_GRPC_PORT = flags.DEFINE_integer("grpc_port", 8500, "gRPC port; 0 selects a free port, -1 disables gRPC.", -1, 65535)
_WINDOW = flags.DEFINE_float("batch_window_ms", 2.0, "Milliseconds that a batch waits for more requests.")
_BATCH = flags.DEFINE_integer("max_batch_size", 32, "Maximum number of rows of a batch.")
_QUEUE = flags.DEFINE_integer("max_queue", 1000, "Maximum number of waiting requests; others are rejected.")
_BODY = flags.DEFINE_integer("max_body_bytes", 8 << 20, "Maximum size of a request.")
_CHECKPOINT, _VERSION = "a checkpoint", "one version of a model"
_OTHER_KINDS = {  # What a folder without models is, by a file in it.
    "saved_model.pb": _VERSION,
    "[0-9]*/saved_model.pb": "one model",
    "index.json": "a search index",
    "config.json": _CHECKPOINT,
    "model.safetensors": _CHECKPOINT,
}


def check():
    """Raises an error if the folder is a wrong one or a port is taken, before TensorFlow starts."""
    if not pathlib.Path(_MODELS.value).is_dir():
        raise ValueError(f"--saved_models={_MODELS.value}: no such folder")
    _check_folder()
    family = socket.AF_INET6 if ":" in _HOST.value else socket.AF_INET
    for holder in (_PORT, _GRPC_PORT):
        if holder.value > 0:
            try:
                socket.create_server((_HOST.value, holder.value), family=family).close()
            except OSError as error:
                reason = str(error.strerror or error).partition(" (while attempting")[0]  # Of create_server.
                raise OSError(
                    f"cannot listen at {_HOST.value}:{holder.value}: {reason}. Change --host or --{holder.name}"
                ) from error


def _check_folder():
    """Raises an error for a folder that has something else than models. An empty folder may get models later."""
    folder = pathlib.Path(_MODELS.value)
    if _has_models(folder):
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
        raise ValueError(f"{what}. Did you mean --saved_models={found}?")
    if kind == _CHECKPOINT:
        export = f"{command.spelling('export_saved_model')} --model={folder} --output_dir=saved_models/NAME"
        raise ValueError(f"{what}. Export it with `{export}`, and use --saved_models=saved_models")
    if kind:
        raise ValueError(f"{what}. Expected a folder of <model>/<version number>/saved_model.pb")


def _has_models(folder):
    return any(path.parent.name.isdecimal() for path in folder.glob("*/*/saved_model.pb"))


def main():
    from keras_bert.serving.server.server import Server, Settings

    settings = Settings(
        host=_HOST.value,
        port=_PORT.value,
        grpc_port=None if _GRPC_PORT.value < 0 else _GRPC_PORT.value,
        batch_window_ms=_WINDOW.value,
        max_batch_size=_BATCH.value,
        max_queue=_QUEUE.value,
        max_body_bytes=_BODY.value,
        poll_seconds=_POLL.value,
    )
    _log_lines()
    # Garbage collection after a model is unloaded blocks all requests; freezing library objects keeps it short.
    gc.freeze()
    server = Server(_MODELS.value, settings)
    if not asyncio.run(_serve(server)):
        # A thread that is still running would keep the interpreter from exiting.
        sys.stdout.flush()
        os._exit(0)


async def _serve(server):
    ended = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, ended.set)
    await server.start()
    print("This is a development server. In production, serve the same folder with TensorFlow Serving.")
    grpc = "" if server.grpc_port is None else f", gRPC at {_HOST.value}:{server.grpc_port}"
    print(f"Serving {_MODELS.value}: REST at http://{_HOST.value}:{server.port}{grpc}")
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(_HOST.value, _HOST.value)
    print(f"To try the models, open http://{shown}:{server.port} in a browser. Ctrl-C stops the server.", flush=True)
    if not _has_models(pathlib.Path(_MODELS.value)):
        print(f"There is no model yet: expected {_MODELS.value}/<model>/<version number>/saved_model.pb", flush=True)
    await ended.wait()
    print("Stopping.", flush=True)
    return await server.stop()


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
    command.run(main, check=check)

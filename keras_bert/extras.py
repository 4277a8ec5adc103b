"""Optional packages, the extra that installs each, and the message where one is missing."""

import contextlib
import sys

_EXTRAS = {
    "tensorflow": "tensorflow tensorflow_text tensorflow_serving flatbuffers jinja2 sacrebleu sklearn scipy",
    "search": "faiss",
    "serving": "aiohttp grpc prometheus_client",
    "hub": "huggingface_hub keras_hub",
    "datasets": "tensorflow_datasets importlib_resources",
    "beam": "apache_beam google_crc32c",
    "convert": "onnx onnxruntime ai_edge_litert",
    "jax": "jax jaxlib",
}
EXTRA_OF = {package: extra for extra, packages in _EXTRAS.items() for package in packages.split()}


@contextlib.contextmanager
def naming_extras(what, advice=""):
    """Names the extra that installs a package that is missing in the block, which `what` needs.

    `advice` is added to the message about TensorFlow.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRA_OF:
            raise
        message = f"{what} needs {package}, which is not installed. Install it with "
        message += f"`pip install '.[{EXTRA_OF[package]}]'` in a checkout of keras_bert"
        message += advice if package == "tensorflow" else ""
        if package == "tensorflow_text" and sys.platform == "win32":
            message += ". There is none for Windows: use WSL 2"
        raise ModuleNotFoundError(message, name=error.name) from None

"""Imports: public names on first use (PEP 562), missing optional packages, TensorFlow's start without its lines."""

import contextlib
import functools
import gc
import importlib
import os
import pathlib
import re
import sys
import tempfile

from keras_bert.checks import similar

# Modules of classes that `.keras` files may contain.
_SAVED = ("keras_bert.layers", "keras_bert.training.optimizer")
_SAVED_WITH_TENSORFLOW = ("keras_bert.text.preprocessor",)
_TRANSFORMERS = re.compile("from_pretrained|pipeline|load_model|get_model|Auto(Model|Tokenizer)|(TF)?Bert(Model|For)")
# What else helps where TensorFlow is missing.
_ADVICE = ", or set the environment variable KERAS_BACKEND=jax for the models alone, which run on JAX"
if os.environ.get("KERAS_BACKEND") == "jax":
    _ADVICE = ""
# The packages that each extra of the package installs.
_EXTRAS = {
    "tensorflow": "tensorflow tensorflow_text tensorflow_serving flatbuffers jinja2 sacrebleu sklearn scipy",
    "search": "faiss",
    "serving": "aiohttp grpc prometheus_client",
    "hub": "huggingface_hub keras_hub",
    "datasets": "tensorflow_datasets importlib_resources",
    "parquet": "pyarrow",
    "beam": "apache_beam google_crc32c",
    "convert": "onnx onnxruntime ai_edge_litert",
    "jax": "jax jaxlib",
}
EXTRA_OF = {}
for _extra, _packages in _EXTRAS.items():
    EXTRA_OF |= dict.fromkeys(_packages.split(), _extra)
_NOISE = [
    "All log messages before absl",
    "cudart_stub",
    "cpu_feature_guard",
    "^To enable the following instructions",
    "oneDNN custom operations are on",
    "oneDNN supports DT_INT64 only on",
]
if not os.path.exists("/dev/nvidiactl"):
    _NOISE.append("cuInit")  # That a machine without an NVIDIA device has no driver is of no interest.


def lazy_names(package, file):
    """Returns `__getattr__`, `__dir__` and `__all__` of a module.

    The names and their places are those of the stub beside it, `*.pyi`, which editors and type checkers read: lines
    `from module import name as name`, where the name may be that of a module. `package` is the name of the module,
    `file` its path.
    """
    stub = pathlib.Path(file).with_suffix(".pyi").read_text(encoding="utf-8")
    module_of = {name: module for module, name in re.findall(r"^from (\S+) import (\w+)", stub, re.MULTILINE)}
    names = sorted(module_of)

    def __getattr__(name):
        if name not in module_of:
            message = f"module {package!r} has no attribute {name!r}{_hint(name, names)}"
            raise AttributeError(message, name=name, obj=None)
        module = module_of[name]
        with naming_extras(f"`{package}.{name}`", _ADVICE), quiet_start():
            value = _member_or_module(module, name, package)
            register_classes()
        setattr(sys.modules[package], name, value)
        return value

    return __getattr__, lambda: names, names


def _hint(name, names):
    """Returns a sentence about an attribute that a module does not have, or nothing."""
    if _TRANSFORMERS.match(name):
        return ". keras_bert.load(path_or_name) opens a checkpoint"
    meant = None if name.startswith("_") else similar(name, names)
    return f". Did you mean {meant!r}?" if meant else ""


def _member_or_module(module, name, package):
    """Returns what a line of a stub imports, `from module import name`, for the module `package` of the stub."""
    if module != package:  # Else it is being imported, and has modules only.
        parent = importlib.import_module(module)
        if hasattr(parent, name):
            return getattr(parent, name)
    return importlib.import_module(f"{module}.{name}")


def register_classes():
    """Tells Keras about the classes in `.keras` files. It is called with the first name that is used, not by a hook in
    the import of Keras, which takes seconds: most commands would wait for it in vain."""
    if "keras" not in sys.modules:
        return
    modules = _SAVED
    if sys.modules["keras"].config.backend() == "tensorflow":
        modules += _SAVED_WITH_TENSORFLOW
    for module in modules:
        importlib.import_module(module)


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
        imported = sys.modules.get(package)
        if imported is not None and not hasattr(imported, "__path__"):
            file = imported.__file__  # A file with the name of the package.
            message = f"{what} needs the package {package}, but Python finds {file} first. Rename this file"
            raise ModuleNotFoundError(message, name=error.name) from None
        message = f"{what} needs {package}, which is not installed. Install it with "
        message += f"`pip install '.[{EXTRA_OF[package]}]'` in a checkout of keras_bert"
        if package == "tensorflow":
            message += advice
        if package == "tensorflow_text" and sys.platform == "win32":
            message += ". There is none for Windows: use WSL 2"
        raise ModuleNotFoundError(message, name=error.name) from None


@contextlib.contextmanager
def quiet_start():
    """Hides what TensorFlow prints at its start, if the block imports it."""
    if "tensorflow" in sys.modules:
        yield
        return
    with _filtered_stderr(), without_collections():
        yield
        if "tensorflow" in sys.modules:
            sys.modules["tensorflow"].config.list_physical_devices()  # Looks for GPUs.


@contextlib.contextmanager
def without_collections():
    """Imports TensorFlow in three quarters of the time."""
    # The imports make a million objects, none of them garbage, and Python's collector searches them again and again
    # while they grow. It is stopped for the block; then they count as old ones, which it searches seldom. It can go
    # when TensorFlow's start no longer takes seconds.
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        if not gc.get_freeze_count():  # Those that a program froze stay so.
            gc.freeze()
            gc.unfreeze()


@functools.cache
def quiet_integers():
    """Has oneDNN warn of 64-bit integers, which it does once, and hides the line. Uses a device: call late."""
    import tensorflow as tf

    with _filtered_stderr(), tf.device("CPU:0"):
        tf.transpose(tf.zeros([2, 2], tf.int64))


@contextlib.contextmanager
def _filtered_stderr():
    """Takes known lines out of standard error; all others appear when the block ends, also after an error."""
    # TensorFlow's C++ code writes to file descriptor 2 itself, some lines before any log level applies, so that
    # replacing `sys.stderr` would not catch them, and those of the level of errors remain at any useful log level. A
    # copy of the descriptor is kept, a temporary file takes its place while the block runs, and then the copy comes
    # back. Without this, every program would begin with up to ten lines about the processor. It can go when TensorFlow
    # starts silently.
    try:
        terminal = os.dup(2)
    except OSError:  # A program without standard error.
        yield
        return
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)
            file.seek(0)
            noise = re.compile("|".join(_NOISE).encode())
            os.write(2, b"".join(line for line in file if not noise.search(line)))

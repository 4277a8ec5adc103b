"""What precision costs: dev scores of a fine-tuned model in the engines of `benchmarks.engines`.

    python -m benchmarks.engine_scores --model=runs/mrpc/model --task=mrpc --data_dir=glue
    python -m benchmarks.engine_scores --model=runs/squad/model --task=squad --train_file=train-v1.1.json \\
        --dev_file=dev-v1.1.json

The same token ids go to SavedModels in float32, bfloat16, int8 and int8 calibrated, and to ONNX Runtime in float32 and
int8 (`export_onnx`, fused by its BERT optimizer, then `quantize_dynamic` with a scale for each channel). Texts for the
calibration come from the training data. Prints the scores, and the change of the logits: its root mean square relative
to their deviation. Takes one to ten minutes on two cores. Peers: `make peers`.
"""

import contextlib
import os
import pathlib
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
from absl import app, flags

import keras_bert
from benchmarks import contest
from benchmarks.onnx_file import fused, quantized
from keras_bert.tasks.classification import glue
from keras_bert.tasks.classification.predictions import score
from keras_bert.tasks.question_answering import data as squad
from keras_bert.tasks.question_answering import predictions
from keras_bert.tasks.question_answering.features import QuestionWindows

_MODEL = flags.DEFINE_string("model", None, "Directory of a fine-tuned model.", required=True)
_TASK = flags.DEFINE_string("task", None, "A GLUE task, or squad.", required=True)
_DATA = flags.DEFINE_string("data_dir", None, "Folder with the official GLUE files.")
_TRAIN = flags.DEFINE_string("train_file", None, "squad: training data.")
_DEV = flags.DEFINE_string("dev_file", None, "squad: dev data.")
_CALIBRATION = flags.DEFINE_integer("calibration", 512, "Number of texts for calibration.", 1)
_TOGETHER = flags.DEFINE_integer("batch_size", 32, "Rows of similar length in a batch.", 1)


def glue_data(bert, data_dir):
    """Returns ids as ragged tensors, texts for calibration and a function from logits to scores in percent."""
    task = glue.TASKS[_TASK.value]
    train, dev = (glue.read(task, data_dir, split) for split in ("train", "dev"))
    preprocessor = bert.preprocessor(128, padding="longest")
    texts = list(zip(train.text, train.pair, strict=True)) if train.pair else train.text
    inputs = preprocessor.ragged((dev.text, dev.pair) if dev.pair else dev.text)

    def scores(outputs):
        return {name: 100 * value for name, value in score(task, dev.labels, outputs["logits"]).items()}

    return inputs, preprocessor, texts[: _CALIBRATION.value], scores


def squad_data(bert):
    train = squad.read(_TRAIN.value)
    dev = squad.read(_DEV.value)
    preprocessor = bert.preprocessor(bert.sequence_length, padding="longest")
    windows = QuestionWindows(dev, preprocessor)
    texts = [(text, train.contexts[place]) for text, place in zip(train.questions, train.context, strict=True)]

    def scores(outputs):
        answers = windows.answers(windows.flat(outputs))
        return predictions.score(dev, answers, predictions.choose_threshold(dev, answers))

    return windows.inputs(), preprocessor, texts[:: max(1, len(texts) // _CALIBRATION.value)], scores


def answers(run, inputs):
    """Returns the outputs for all rows in order, padded to the same length."""
    lengths = inputs["token_ids"].row_lengths().numpy()
    order = np.argsort(lengths, kind="stable")
    found = {}
    longest = int(lengths.max())
    for start in range(0, len(order), _TOGETHER.value):
        rows = order[start : start + _TOGETHER.value]
        batch = {name: tf.gather(values, rows).to_tensor().numpy() for name, values in inputs.items()}
        batch["padding_mask"] = (np.arange(batch["token_ids"].shape[1]) < lengths[rows, None]).astype("int32")
        for name, values in run(batch).items():
            values = np.asarray(values, "float32")
            shape = (longest,) if name.endswith("_logits") else values.shape[1:]
            whole = found.setdefault(name, np.zeros((len(order), *shape), "float32"))
            whole[rows, : values.shape[1]] = values
    return found


def ours(bert, preprocessor, texts, precision, folder):
    dtype = precision if precision == "bfloat16" else "float32"
    model = keras_bert.load(_MODEL.value, dtype=dtype).model()
    options = {"pair": bert.head == "classification" and bool(bert.pair)}
    if precision.startswith("int8"):
        options["precision"] = "int8"
    if precision == "int8 calibrated":
        options["calibration"] = texts
    keras_bert.export(model, preprocessor, folder, **options)
    loaded = tf.saved_model.load(str(folder))

    def run(batch):
        tensors = {name: tf.constant(ids) for name, ids in batch.items()}
        answers = loaded.signatures["tokens"](**tensors)
        return {name: value.numpy() for name, value in answers.items()}

    return run


def onnx(path):
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    kinds = {value.name: np.int64 if "int64" in value.type else np.int32 for value in session.get_inputs()}
    return lambda batch: dict(
        zip(names, session.run(None, {name: batch[name].astype(kind) for name, kind in kinds.items()}), strict=True)
    )


def engines(bert, preprocessor, texts, folder):
    """Yields the name of each engine and a function from a batch of ids to outputs."""
    for precision in ("float32", "bfloat16", "int8", "int8 calibrated"):
        yield f"keras_bert, {precision}", ours(bert, preprocessor, texts, precision, folder / precision / "1")
    if contest.missing(["onnx", "onnxruntime"]):
        return
    model = keras_bert.load(_MODEL.value).model()
    keras_bert.export_onnx(model, preprocessor, folder / "onnx")
    config = bert.config
    fused(folder / "onnx" / "model.onnx", folder / "fused.onnx", config.num_attention_heads, config.hidden_size)
    quantized(folder / "fused.onnx", folder / "int8.onnx")
    yield "ONNX Runtime, float32", onnx(folder / "fused.onnx")
    yield "ONNX Runtime, int8", onnx(folder / "int8.onnx")


def main(_):
    bert = keras_bert.load(_MODEL.value)
    data_dir = _DATA.value or os.path.join(os.environ.get("KERAS_BERT_DATA", "."), "glue")
    found = squad_data(bert) if _TASK.value == "squad" else glue_data(bert, data_dir)
    inputs, preprocessor, texts, scores = found
    lengths = inputs["token_ids"].row_lengths().numpy()
    expected = None
    print(f"{contest.machine()}\n{_TASK.value}: {len(lengths):,} rows")
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for name, run in engines(bert, preprocessor, texts, folder):
            outputs = answers(run, inputs)
            logits = np.concatenate([outputs[key].ravel() for key in sorted(outputs) if key.endswith("logits")])
            expected = logits if expected is None else expected
            change = np.sqrt(np.mean((logits - expected) ** 2)) / expected.std()
            listed = ", ".join(f"{key} {value:.2f}" for key, value in scores(outputs).items() if "total" not in key)
            print(f"{name:30} {listed}; logits change by {change:.3f}", flush=True)


if __name__ == "__main__":
    app.run(main)

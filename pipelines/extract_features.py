"""Writes a vector for each text of a file, pooled from chosen layers of an encoder.

    python -m pipelines.extract_features --model=google-bert/bert-base-uncased --input=texts.txt --output=vectors.npz \\
        --layers=-4,-3,-2,-1 --pooling=mean

The input has one text per line. `.npz` output contains an array `vectors` of shape `(texts, width)`, `.jsonl` output a
line for each text with the text and its vector. Texts longer than `--sequence_length` tokens are truncated; a warning
counts them. Embeds a thousand GLUE sentences per second with the 6-layer MiniLM on two cores.
"""

import functools
import json
import logging
import pathlib

from absl import flags

import keras_bert
from keras_bert.files import replacing

from . import command, common_flags

command.section("data")
_INPUT = flags.DEFINE_string("input", None, "File of texts, one per line.", required=True)
command.section("model")
_MODEL = flags.DEFINE_string("model", None, "Directory or name of the model.", required=True)
_LAYERS = flags.DEFINE_list("layers", ["-1"], "Layer(s) to concatenate; 0 is the embeddings, -1 the last.")
_POOLING = flags.DEFINE_enum(
    "pooling",
    None,
    ["mean", "max", "cls", "pooled"],
    "Pooling; default: the checkpoint's, or mean.",
)
_NORMALIZE = flags.DEFINE_bool("normalize", None, "Scales vectors to length 1; default: as in the checkpoint.")
_PROMPT = flags.DEFINE_string("prompt", None, "Put before each text; default: the checkpoint's default prompt.")
_PROMPT_NAME = flags.DEFINE_string("prompt_name", None, "One of the checkpoint's prompts, in place of --prompt.")
_LENGTH = flags.DEFINE_integer(
    "sequence_length", None, "Maximum number of tokens of a text; default: the checkpoint's, or the model's maximum."
)
_BATCH = flags.DEFINE_integer("batch_size", 32, "Batch size.", 1)
_PRECISION = flags.DEFINE_enum("precision", "float32", ["float32", "mixed_bfloat16"], "Computation precision.")
command.section("output")
_OUTPUT = flags.DEFINE_string("output", None, "Output file, .npz or .jsonl.", required=True)
_CHUNK = 4096  # Number of texts to process, sorted by length, at a time.


def check():
    """Finds mistakes in paths and texts."""
    common_flags.check_paths(_MODEL.value, input=_INPUT.value)
    if pathlib.Path(_OUTPUT.value).suffix not in (".npz", ".jsonl"):
        raise ValueError(f"--output must end in .npz or .jsonl. Received: {_OUTPUT.value}")
    _read(pathlib.Path(_INPUT.value))


def main():
    import numpy as np
    import tensorflow as tf

    from keras_bert.tasks.embedding.signature import check_pooling, pool
    from keras_bert.text.prompts import chosen_prompt

    output = pathlib.Path(_OUTPUT.value)
    texts = _read(pathlib.Path(_INPUT.value))
    layers = common_flags.numbers(_LAYERS, int)
    bert = keras_bert.load(_MODEL.value, dtype=_PRECISION.value, hidden_states=True)
    pooling = _POOLING.value or bert.pooling or "mean"
    normalize = bert.normalize if _NORMALIZE.value is None else _NORMALIZE.value
    check_pooling(bert.encoder, pooling, layers)
    _check_projection(bert, layers)
    prompt = chosen_prompt(bert.prompts, bert.default_prompt_name, _PROMPT.value, _PROMPT_NAME.value)
    length = _LENGTH.value or bert.sequence_length or bert.config.max_position_embeddings
    model, preprocessor = bert.model(), bert.preprocessor(length, padding="longest")

    specs = {name: tf.TensorSpec([None, None], tf.int32) for name in bert.encoder.input}

    @tf.function(input_signature=[specs], autograph=False)
    def run(inputs):
        if bert.projection:
            return model(inputs, training=False)["embedding"]
        outputs = bert.encoder(inputs, training=False)
        return pool(outputs, inputs["padding_mask"], pooling, layers, normalize)

    parts, cut = [], 0
    for start in range(0, len(texts), _CHUNK):
        pieces = preprocessor.tokenizer([prompt + text for text in texts[start : start + _CHUNK]])
        cut += int(np.sum(pieces.row_lengths().numpy() > length - 2))
        parts.append(_vectors(run, preprocessor, pieces))
    if cut:
        logging.getLogger("keras_bert").warning(
            "texts of more than %d tokens, truncated: %d of %d", length, cut, len(texts)
        )
    _write(output, texts, np.concatenate(parts))
    print(f"wrote {len(texts):,} vectors of {parts[0].shape[1]} numbers to {output}")


def _check_projection(bert, layers):
    if bert.projection and (layers != [-1] or _POOLING.value or _NORMALIZE.value is not None):
        raise ValueError(
            "--layers, --pooling and --normalize are for models without a projection after pooling. "
            f"Received: {_MODEL.value} with one of {bert.projection} units"
        )


@functools.cache
def _read(path):
    lines = common_flags.text_lines(path.read_bytes(), path)
    if lines in ([], [""]):
        raise ValueError(f"{path}: there is no text")
    return lines


def _vectors(run, preprocessor, pieces):
    """Computes the vectors of some texts, in batches of similar length."""
    import numpy as np
    import tensorflow as tf

    order = np.argsort(pieces.row_lengths().numpy(), kind="stable")
    vectors = [
        run(preprocessor.pack(tf.gather(pieces, order[start : start + _BATCH.value]))).numpy()
        for start in range(0, len(order), _BATCH.value)
    ]
    return np.concatenate(vectors)[np.argsort(order, kind="stable")]


def _write(path, texts, vectors):
    import numpy as np

    with replacing(path) as temporary:
        if path.suffix == ".npz":
            np.savez(temporary, vectors=vectors)
            return
        with open(temporary, "w", encoding="utf-8") as file:
            for text, vector in zip(texts, vectors, strict=True):
                numbers = [round(float(value), 7) for value in vector]
                file.write(json.dumps({"text": text, "vector": numbers}, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    command.run(main, check=check)

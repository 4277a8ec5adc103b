"""Writes a vector for each text of a file, pooled from chosen layers of an encoder.

    python -m pipelines.extract_features --model=google-bert/bert-base-uncased --input=texts.txt --output=vectors.npz \\
        --layers=-4,-3,-2,-1 --pooling=mean

The input has one text per line. `.npz` output contains an array `vectors` of shape `(texts, width)`, `.jsonl` output a
line for each text with the text and its vector. Texts longer than `--sequence_length` tokens are truncated; a warning
counts them. Embeds a thousand GLUE sentences per second with the 6-layer MiniLM on two cores.
"""

import dataclasses
import functools
import json
import logging
import pathlib

import keras_bert
from keras_bert.files import replacing
from keras_bert.metadata import answer_length

from . import command, common_flags
from .arguments import CommandArguments, flag

_CHUNK = 4096  # Number of texts to process, sorted by length, at a time.


@dataclasses.dataclass(frozen=True)
class Arguments(CommandArguments):
    input: str = flag(None, "File of texts, one per line.", required=True, section="data")
    model: str = flag(None, "Directory or name of the model.", required=True, section="model")
    layers: list[int] = flag((-1,), "Layer(s) to concatenate; 0 is the embeddings, -1 the last.")
    pooling: str = flag(None, "Pooling; default: the checkpoint's, or mean.", values=["mean", "max", "cls", "pooled"])
    normalize: bool = flag(None, "Scales vectors to length 1; default: as in the checkpoint.")
    prompt: str = flag(None, "Put before each text; default: the checkpoint's default prompt.")
    prompt_name: str = flag(None, "One of the checkpoint's prompts, in place of --prompt.")
    sequence_length: int = flag(
        None, "Maximum number of tokens of a text; default: the checkpoint's, or the model's maximum."
    )
    batch_size: int = flag(32, "Batch size.", least=1)
    precision: str = flag("float32", "Computation precision.", values=["float32", "mixed_bfloat16"])
    output: str = flag(None, "Output file, .npz or .jsonl.", required=True, section="output")

    @functools.cached_property
    def texts(self):
        """The texts of the input."""
        lines = common_flags.text_lines(pathlib.Path(self.input).read_bytes(), self.input)
        if lines in ([], [""]):
            raise ValueError(f"{self.input}: there is no text")
        return lines


def check(arguments):
    """Finds mistakes in paths and texts."""
    common_flags.check_paths(arguments.model, input=arguments.input)
    if pathlib.Path(arguments.output).suffix not in (".npz", ".jsonl"):
        raise ValueError(f"--output must end in .npz or .jsonl. Received: {arguments.output}")
    _ = arguments.texts


def main(arguments):
    import numpy as np

    from keras_bert.heads.embedding_signatures import check_pooling
    from keras_bert.text.answer_settings import chosen_prompt

    texts, layers = arguments.texts, arguments.layers
    bert = keras_bert.load(arguments.model, dtype=arguments.precision, hidden_states=True)
    pooling = arguments.pooling or bert.pooling or "mean"
    normalize = bert.normalize if arguments.normalize is None else arguments.normalize
    check_pooling(bert.encoder, pooling, layers)
    if bert.projection and (layers != [-1] or arguments.pooling or arguments.normalize is not None):
        raise ValueError(
            "--layers, --pooling and --normalize are for models without a projection after pooling. "
            f"Received: {arguments.model} with one of {bert.projection} units"
        )
    prompt = chosen_prompt(bert.prompts, bert.default_prompt_name, arguments.prompt, arguments.prompt_name)
    length = answer_length(bert, arguments.sequence_length)
    preprocessor, run = bert.preprocessor(length, padding="longest"), _vector_function(bert, pooling, layers, normalize)
    parts, cut = [], 0
    for start in range(0, len(texts), _CHUNK):
        pieces = preprocessor.tokenizer([prompt + text for text in texts[start : start + _CHUNK]])
        cut += int(np.sum(pieces.row_lengths().numpy() > length - 2))
        parts.append(_vectors(run, preprocessor, pieces, arguments.batch_size))
    if cut:
        logging.getLogger("keras_bert").warning(
            "texts of more than %d tokens, truncated: %d of %d", length, cut, len(texts)
        )
    _write(pathlib.Path(arguments.output), texts, np.concatenate(parts))
    print(f"wrote {len(texts):,} vectors of {parts[0].shape[1]} numbers to {arguments.output}")


def _vector_function(bert, pooling, layers, normalize):
    """Returns a TensorFlow function from inputs to vectors."""
    import tensorflow as tf

    from keras_bert.heads.embedding_signatures import pool

    model, specs = bert.model(), {name: tf.TensorSpec([None, None], tf.int32) for name in bert.encoder.input}

    @tf.function(input_signature=[specs], autograph=False)
    def run(inputs):
        if bert.projection:
            return model(inputs, training=False)["embedding"]
        outputs = bert.encoder(inputs, training=False)
        return pool(outputs, inputs["padding_mask"], pooling, layers, normalize)

    return run


def _vectors(run, preprocessor, pieces, batch_size):
    """Computes the vectors of some texts, in batches of similar length."""
    import numpy as np
    import tensorflow as tf

    order = np.argsort(pieces.row_lengths().numpy(), kind="stable")
    vectors = [
        run(preprocessor.pack(tf.gather(pieces, order[start : start + batch_size]))).numpy()
        for start in range(0, len(order), batch_size)
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
                file.write(json.dumps({"text": text, "embedding": numbers}, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    command.run(__doc__, Arguments, main, check)

"""Converts checkpoints between Google's, Hugging Face's and Keras' formats.

    python -m pipelines.convert_checkpoint --model=uncased_L-12_H-768_A-12 --output_dir=bert_hf --format=huggingface

`--model` is what `keras_bert.load` takes: a directory in any of these formats, a KerasHub preset or a name on the
Hugging Face hub. Tensors are converted exactly (unless `--weights_dtype` is narrower); tensors that the model does not
use are listed. BERT BASE takes about ten seconds.
"""

import pathlib
import time

from absl import flags

import keras_bert

from . import command, common_flags

command.section("model")
_MODEL = flags.DEFINE_string("model", None, "Directory or name of the checkpoint.", required=True)
_REVISION = flags.DEFINE_string("revision", None, "Branch, tag or commit on the Hugging Face hub.")
command.section("output")
_OUTPUT = flags.DEFINE_string("output_dir", None, "Output directory.", required=True)
_FORMAT = flags.DEFINE_enum("format", "huggingface", ["huggingface", "google", "keras"], "Output format.")
_DTYPE = flags.DEFINE_enum(
    "weights_dtype",
    "float32",
    ["float32", "float16", "bfloat16"],
    "Data type of the weights in the file.",
)
command.renamed(input="model", output="output_dir")


def main():
    began = time.time()
    bert = keras_bert.load(_MODEL.value, revision=_REVISION.value)
    model = bert.model()
    keras_bert.save(
        model,
        _OUTPUT.value,
        bert.vocabulary,
        lowercase=bert.lowercase,
        labels=bert.labels,
        task=bert.task,
        format=_FORMAT.value,
        pair=bert.pair,
        sequence_length=bert.sequence_length,
        null_threshold=bert.null_threshold,
        weights_dtype=_DTYPE.value,
        thresholds=bert.thresholds,
        prompts=bert.prompts,
        default_prompt_name=bert.default_prompt_name,
        similarity_function=bert.similarity_function,
    )
    size = f"L-{bert.config.num_hidden_layers}_H-{bert.config.hidden_size}"
    print(f"read {_MODEL.value}: {bert.head}, {size}, {model.count_params():,} parameters")
    output = pathlib.Path(_OUTPUT.value).expanduser()
    files = sorted(path.name for path in output.iterdir() if path.stat().st_mtime >= began)
    print(f"wrote {output} in the format {_FORMAT.value}: {', '.join(files)}")
    if left_out := bert.left_out(model):
        print(f"not converted, unused by a model with head={bert.head!r}: {', '.join(left_out)}")


if __name__ == "__main__":
    command.run(main, check=lambda: common_flags.check_paths(_MODEL.value))

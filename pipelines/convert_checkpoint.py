"""Converts checkpoints between Google's, Hugging Face's and Keras' formats.

    python -m pipelines.convert_checkpoint --model=uncased_L-12_H-768_A-12 --output_dir=bert_hf --format=huggingface

`--model` is what `keras_bert.load` takes: a directory in any of these formats, a KerasHub preset or a name on the
Hugging Face hub. Tensors are converted exactly (unless `--weights_dtype` is narrower); tensors that the model does not
use are listed. BERT BASE takes about ten seconds.
"""

import pathlib
import time

import keras_bert

from . import command
from .arguments import CommandArguments, flag


class Arguments(CommandArguments):
    model: str = flag(None, "Directory or name of the checkpoint.", required=True, section="model")
    revision: str = flag(None, "Branch, tag or commit on the Hugging Face hub.")
    tokenizer: str = flag(
        "auto",
        "auto: the checkpoint's own; none; words: for texts that are split into words, for BertJapaneseTokenizer; or "
        "another folder with a tokenizer.",
    )
    output_dir: str = flag(None, "Output directory.", required=True, section="output")
    format: str = flag("huggingface", "Output format.", values=["huggingface", "google", "keras"])
    weights_dtype: str = flag(
        "float32", "Data type of the weights in the file.", values=["float32", "float16", "bfloat16"]
    )
    overwrite: bool = flag(False, "Whether another model is replaced, and a folder of other things may get the files.")


def main(arguments):
    began = time.time()
    tokenizer = None if arguments.tokenizer == "none" else arguments.tokenizer
    bert = keras_bert.load(arguments.model, revision=arguments.revision, tokenizer=tokenizer)
    model = bert.model()
    keras_bert.save(
        model,
        arguments.output_dir,
        bert.vocabulary,
        format=arguments.format,
        weights_dtype=arguments.weights_dtype,
        overwrite=arguments.overwrite,
        **bert.metadata.settings,
    )
    size = f"L-{bert.config.num_hidden_layers}_H-{bert.config.hidden_size}"
    print(f"read {arguments.model}: {bert.head}, {size}, {model.count_params():,} parameters")
    output = pathlib.Path(arguments.output_dir).expanduser()
    written = [path.name for path in output.iterdir() if path.stat().st_mtime >= began]
    print(f"wrote {output} in the format {arguments.format}: {', '.join(sorted(written))}")
    left_out = bert.left_out(model)
    if left_out:
        print(f"not converted, unused by a model with head={bert.head!r}: {', '.join(left_out)}")


if __name__ == "__main__":
    command.run(__doc__, Arguments, main)

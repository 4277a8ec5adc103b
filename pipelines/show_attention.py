"""Draws the attention of a model to a text, for every layer and head, as an HTML page.

    python -m pipelines.show_attention --model=google-bert/bert-base-uncased "The bank of the river." \\
        --output=attention.html
    python -m pipelines.show_attention --model=my_model "A text." "Its pair." --output=attention.html

`--model` is an argument for `keras_bert.load`, with any head. The page needs no network; layer, head and token are
chosen on it. A text may have up to 256 tokens. Takes about ten seconds.
"""

import pathlib

from absl import flags

import keras_bert
from keras_bert.files import write_text

from . import command, common_flags

command.section("model")
_MODEL = flags.DEFINE_string("model", None, "Directory or name of the model.", required=True)
command.section("output")
_OUTPUT = flags.DEFINE_string("output", "attention.html", "HTML file to write.")


def check(texts):
    """Finds mistakes in texts and paths."""
    if not 1 <= len(texts) <= 2:
        raise ValueError(f"expected a text, or a text and its pair, as arguments. Received: {len(texts)} arguments")
    common_flags.check_paths(_MODEL.value)


def main(texts):
    from keras_bert.reports.attention import attention_page

    bert = keras_bert.load(_MODEL.value)
    tokens, attention = bert.attention(tuple(texts) if len(texts) == 2 else texts[0])
    title = f"Attention of {pathlib.Path(_MODEL.value).name}"
    write_text(_OUTPUT.value, attention_page(title, tokens, attention))
    print(f"wrote {_OUTPUT.value}: {attention.shape[0]} layers, {attention.shape[1]} heads, {len(tokens)} tokens")


if __name__ == "__main__":
    command.run(main, with_arguments=True, check=check)

"""Draws the attention of a model to a text, for every layer and head, as an HTML page.

    python -m pipelines.show_attention --model=google-bert/bert-base-uncased "The bank of the river." \\
        --output=attention.html
    python -m pipelines.show_attention --model=my_model "A text." "Its pair." --output=attention.html

`--model` is an argument for `keras_bert.load`, with any head. The page needs no network; layer, head and token are
chosen on it. A text may have up to 256 tokens. Takes about ten seconds.
"""

import pathlib

import keras_bert
from keras_bert.files import write_text

from . import command
from .arguments import CommandArguments, flag


class Arguments(CommandArguments):
    model: str = flag(None, "Directory or name of the model.", required=True, section="model")
    output: str = flag("attention.html", "HTML file to write.", section="output")


def check(arguments):
    count = len(arguments.positional)
    if count not in (1, 2):
        raise ValueError(f"expected a text, or a text and its pair, as arguments. Received: {count} arguments")


def main(arguments):
    from keras_bert.reports.page import attention_page

    bert = keras_bert.load(arguments.model)
    texts = arguments.positional
    is_pair = len(texts) == 2
    tokens, attention = bert.attention(texts if is_pair else texts[0])
    title = f"Attention of {pathlib.Path(arguments.model).name}"
    write_text(arguments.output, attention_page(title, tokens, attention))
    layers, heads = attention.shape[:2]
    print(f"wrote {arguments.output}: {layers} layers, {heads} heads, {len(tokens)} tokens")


if __name__ == "__main__":
    command.run(__doc__, Arguments, main, check, positional=True)

"""A page that shows the attention of a model to one text."""

import base64

import numpy as np

from keras_bert.reports.page import render

LONGEST = 256  # Tokens; a page of 12 layers and 12 heads then has 13 MB.


def attention_page(title: str, tokens: list[str], attention):
    """Renders the attention of a text as one HTML file without references to others.

    `attention` are probabilities `(layers, heads, tokens, tokens)`, shown in steps of 0.4%.
    """
    if len(tokens) > LONGEST:
        raise ValueError(f"the page shows texts of at most {LONGEST} tokens. Received: {len(tokens)} tokens")
    layers, heads = attention.shape[:2]
    steps = np.round(np.asarray(attention, "float64") * 255).astype(np.uint8)
    data = {
        "layers": layers,
        "heads": heads,
        "tokens": tokens,
        "values": base64.b64encode(steps.tobytes()).decode(),
    }
    facts = f"{layers} layers with {heads} heads each, {len(tokens)} tokens"
    return render("attention.html", title=title, facts=facts, data=data)

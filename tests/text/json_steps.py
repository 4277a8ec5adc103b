"""Steps of normalizers and pre-tokenizers as `tokenizer.json` has them."""


def steps(*values):
    """Returns a sequence, whose steps may be given by their types."""
    parts = []
    for value in values:
        if isinstance(value, str):
            parts.append({"type": value})
        else:
            parts.append(value)
    return {"type": "Sequence", "normalizers": parts, "pretokenizers": parts}


def replace(pattern, content):
    return {"type": "Replace", "pattern": {"String": pattern}, "content": content}

"""The forward pass of the encoder, shared by all models."""

import itertools


def blocks_of(layers):
    """Returns the blocks among layers by name, in order."""
    names = itertools.takewhile(layers.__contains__, map("block_{}".format, itertools.count()))
    return [layers[name] for name in names]


def run_encoder(layers, inputs, mask=None, last=None, inference=False, return_attention_scores=False):
    """Runs the embeddings and the blocks of an encoder; `inference` does so without dropout, also in training.

    `layers` are those of a `Description`, by name; `inputs` may have `position_ids`, if they are not 0, 1, ...; the
    attention mask is by default that of `padding_mask`; `last` has arguments of the last block alone, such as
    `positions`. Returns two lists: the outputs of the embeddings and of all blocks; the attention scores.
    """
    options = {"inference": True} if inference else {}
    positions = {"position_ids": inputs["position_ids"]} if "position_ids" in inputs else {}
    if "positions" in layers:
        positions = {"position_ids": layers["positions"](inputs["token_ids"], **positions)}
    tokens = layers["token_embedding"](inputs["token_ids"])
    states = [layers["embeddings"](tokens, inputs["segment_ids"], **positions, **options)]
    options |= {"attention_mask": layers["attention_mask"](inputs["padding_mask"]) if mask is None else mask}
    options |= {"return_attention_scores": True} if return_attention_scores else {}
    scores, blocks = [], blocks_of(layers)
    for block in blocks:
        output = block(states[-1], **options, **(last or {} if block is blocks[-1] else {}))
        output, *score = output if return_attention_scores else (output,)
        states.append(output)
        scores.extend(score)
    return states, scores


def run_pooler(layers, hidden, padding_mask):
    """Pools the hidden states, see `Pooler`."""
    pooler = layers["pooler"]
    return pooler(hidden, padding_mask) if pooler.last else pooler(hidden)

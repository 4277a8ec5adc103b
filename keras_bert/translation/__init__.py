"""The Transformer encoder-decoder: the model, its training on parallel texts, and Marian's checkpoints."""

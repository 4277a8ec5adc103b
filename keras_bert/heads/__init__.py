"""Heads of models on top of the encoder, one file each."""

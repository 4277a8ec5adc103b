"""Tagging of words: named entities, chunks, parts of speech."""

"""Semantic search: an index of passages on disk, and the search in it."""

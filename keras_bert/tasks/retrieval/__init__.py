"""Retrieval: passages that answer queries."""

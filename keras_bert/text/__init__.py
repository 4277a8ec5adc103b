"""Text: what turns strings into ids, and lives inside a SavedModel."""

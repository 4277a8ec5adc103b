"""SavedModels that take raw text."""

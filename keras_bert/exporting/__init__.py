"""SavedModels: text in, answers out."""

"""Text preprocessing: from strings to token ids, inside the graph and the SavedModel."""

"""Models made of the layers of others, for training."""

"""Pre-training data: generating records from text files, and reading them as batches."""

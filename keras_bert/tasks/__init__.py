"""Tasks: data files, labels, targets, official metrics and prediction files."""

"""Tasks: their files, labels, targets, official scores and prediction files."""

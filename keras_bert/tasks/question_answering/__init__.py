"""SQuAD and data sets in its format."""

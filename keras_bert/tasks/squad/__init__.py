"""SQuAD and files like it."""

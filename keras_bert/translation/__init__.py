"""Translation: text files with a sentence per line, in two languages."""

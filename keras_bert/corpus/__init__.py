"""Text corpora: reading documents, counting words and learning a WordPiece vocabulary."""

"""Text files and what is learned from them: documents, word counts, a WordPiece vocabulary."""

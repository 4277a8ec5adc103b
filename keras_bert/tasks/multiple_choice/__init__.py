"""Multiple choice: SWAG, and tables and JSONL files of questions with choices."""

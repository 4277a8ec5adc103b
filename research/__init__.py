"""What the BERT paper compares BERT with, and its studies: a guest of keras_bert, which is not installed with it."""

from research import published as published
from research import rivals as rivals

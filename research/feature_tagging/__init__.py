"""Feature-based tagging (BERT, section 5.3). Importing it registers the head: `keras_bert.load` opens its models."""

from research.feature_tagging import head as head

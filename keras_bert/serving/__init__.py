"""Models that take raw text: for prediction, for TensorFlow Serving."""

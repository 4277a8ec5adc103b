"""A development server that implements TensorFlow Serving's protocols. Use TensorFlow Serving in production."""

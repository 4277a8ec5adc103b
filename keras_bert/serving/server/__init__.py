"""A server for development that speaks TensorFlow Serving's protocols; production is TensorFlow Serving itself."""

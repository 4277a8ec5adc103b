"""The configuration of `logging` is that of the program, whatever TensorFlow logs."""

import logging

from absl import logging as absl_logging

from keras_bert.training.progress import quiet_tensorflow


def test_logging_of_the_program(monkeypatch, capsys):
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    with quiet_tensorflow():
        absl_logging.info("absl configures `logging` with its first message")
        logging.getLogger("tensorflow").warning("5 out of the last 5 calls triggered tf.function retracing")
        logging.getLogger("tensorflow").warning("Assets written to: .writing-1/assets")
        logging.getLogger("tensorflow").warning("Using MirroredStrategy eagerly has significant overhead currently")
        logging.getLogger("keras_bert").warning("shown")
    assert logging.getLogger().handlers == []
    assert capsys.readouterr().err == "keras_bert: shown\n"

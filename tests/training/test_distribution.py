"""Strategies, and errors for unavailable ones."""

import json

import pytest
import tensorflow as tf

from keras_bert import create_strategy


def test_auto_is_one_device_here():
    assert create_strategy() is create_strategy("one") is tf.distribute.get_strategy()


def cluster(kind, index):
    return json.dumps({"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": kind, "index": index}})


@pytest.mark.parametrize(
    ("kinds", "config", "message"),
    [
        (["horovod"], "", "`kind` must be one of auto, one, mirrored, multi_worker, tpu. Received: kind="),
        (["tpu"], "", "no TPU was found. Expected a TPU VM, or `tpu` to name one. Received: tpu=None"),
        (["multi_worker"], "", "TF_CONFIG is not set. Expected it to name all workers"),
        (["auto", "multi_worker"], "{", "TF_CONFIG is malformed. Expected JSON such as .* Received: '{'"),
        (["auto"], "[]", "TF_CONFIG is malformed"),
        (["auto"], '{"cluster": {"worker": ["a:1"]}}', r"TF_CONFIG is malformed.*\(KeyError: 'task'\)"),
        (["auto"], cluster("worker", 2), "TF_CONFIG: this task, worker 2, is not in the cluster"),
        (["auto"], cluster("ps", 0), "TF_CONFIG: this task, ps 0, is not in the cluster"),
    ],
)
def test_unavailable_strategies(monkeypatch, kinds, config, message):
    monkeypatch.setenv("TF_CONFIG", config)
    for kind in kinds:
        with pytest.raises(ValueError, match=message):
            create_strategy(kind)


def test_a_worker_that_does_not_respond(two_addresses, monkeypatch):
    cluster = {"cluster": {"worker": two_addresses}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))
    message = rf"the worker {two_addresses[1]} of TF_CONFIG did not answer for 0.5 s \(.*Start the same command on each"
    with pytest.raises(ValueError, match=message):
        create_strategy("multi_worker", timeout_s=0.5)

"""What one test registers does not reach the next one."""

import pytest

import keras_bert
from tests.conftest import forgetting_registrations


@pytest.mark.tensorflow
def test_registrations_are_forgotten():
    from keras_bert.tasks import ClassificationTask
    from keras_bert.tasks.registry import task_named

    with forgetting_registrations():
        keras_bert.register_task(type("Guest", (ClassificationTask,), {"name": "guest"}))
        assert task_named("guest").name == "guest"
    with pytest.raises(ValueError, match="`task` must be one of .*'classification': .*Received"):
        task_named("guest")

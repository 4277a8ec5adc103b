"""Which signatures can share a run."""

import pytest

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow


def test_what_may_be_joined(toys):
    from keras_bert.serving.server.saved_model import SavedModel

    model = SavedModel(toys / "many" / "1")
    joinable = {name for name, signature in model.signatures.items() if signature.joinable}
    assert set(model.signatures) - joinable == {"whole"}
    methods = {name: signature.method for name, signature in model.signatures.items()}
    assert methods["ids"] == "tensorflow/serving/predict"
    assert methods["classify"] == "tensorflow/serving/classify"
    assert "__saved_model_init_op" not in methods
    model.close()

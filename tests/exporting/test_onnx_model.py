"""ONNX models of every head: computed by ONNX Runtime, and fused by its transformer optimizer."""

import dataclasses

import keras
import numpy as np
import pytest

import keras_bert
from tests.conftest import HEADS, to_numpy
from tests.exporting.token_ids import batch_of

onnx = pytest.importorskip("onnx", reason="`make convert` installs onnx")
onnxruntime = pytest.importorskip("onnxruntime", reason="`make convert` installs onnxruntime")
optimizer = pytest.importorskip("onnxruntime.transformers.optimizer", reason="`make convert` installs onnxruntime")
from keras_bert.exporting.onnx_model import build_onnx  # noqa: E402

pytestmark = pytest.mark.tensorflow
SHAPES = [(1, 1), (3, 17)]
FUSED = ("EmbedLayerNormalization", "Attention", "SkipLayerNormalization", "BiasGelu")
# The layers of these heads are those of others; `multiple_choice` is below.
ALIKE = {"mlm", "untied", "regression", "multi_label", "embedding", "multiple_choice"}
CASES = [
    ("question_answering", "gelu", {}),
    ("projection", "gelu", {}),
    ("classification", "relu", {"causal": True}),
    ("encoder", "silu", {"positions": "sinusoid"}),
    ("next_sentence", "tanh", {"positions": "none"}),
    ("pretraining", "linear", {"causal": True, "positions": "sinusoid"}),
    ("replaced_token_detection", "gelu", {}),
    ("token_classification", "gelu_new", {"settings": {"type_vocab_size": 1, "position_padding_id": 1}}),
    ("mlm", "gelu", {"positions": "relative", "settings": {"type_vocab_size": 0, "position_padding_id": 1}}),
]
ALIKE |= {head for head, *_ in CASES}
CASES += [(head, "gelu", {}) for head in HEADS if HEADS[head].runtimes and head not in ALIKE]


@pytest.fixture
def build(config):
    """Builds a model and its ONNX model."""

    def built(head, hidden_act="gelu", layers=1, settings=(), **options):
        changed = dataclasses.replace(config, hidden_act=hidden_act, num_hidden_layers=layers, **dict(settings))
        model = HEADS[head].build(keras_bert.build_encoder(changed, **options))
        return model, build_onnx(model, keras_bert.describe(model))

    return built


def session(proto):
    return onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])


def check(model, proto, head):
    """Compares ONNX Runtime's outputs with those of the Keras model, for several sizes."""
    runtime = session(proto)
    names = [output.name for output in runtime.get_outputs()]
    for shape in SHAPES:
        batch = batch_of(head, *shape)
        inputs = {value.name: value.type for value in runtime.get_inputs()}
        assert inputs == dict.fromkeys(batch, "tensor(int32)")
        outputs = dict(zip(names, runtime.run(None, batch), strict=True))
        expected = model(batch)
        assert outputs.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_allclose(outputs[name], to_numpy(value), 1e-6, 1e-5, err_msg=f"{name} {shape}")


def optimized(proto, tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(proto, path)
    return optimizer.optimize_model(str(path), model_type="bert", opt_level=0)


@pytest.mark.parametrize(("head", "hidden_act", "options"), CASES)
def test_every_head(build, head, hidden_act, options):
    model, proto = build(head, hidden_act, **options)
    assert {node.domain for node in proto.graph.node} == {""}
    check(model, proto, head)
    if head == "encoder":  # Texts without real tokens stay finite.
        batch = batch_of("encoder", 2, 5) | {"padding_mask": np.zeros((2, 5), "int32")}
        for values in session(proto).run(None, batch):
            assert np.isfinite(values).all()


@pytest.mark.parametrize("head", ["classification", "multiple_choice"])
def test_the_optimizer_fuses_every_layer(build, tmp_path, head):
    model, proto = build(head, layers=2)
    fused = optimized(proto, tmp_path)
    counts = fused.get_fused_operator_statistics()
    assert [counts[name] for name in FUSED] == [1, 2, 4, 2]
    assert not {"Softmax", "Erf", "LayerNormalization"} & {node.op_type for node in fused.nodes()}
    check(model, fused.model, head)


def test_the_optimizer_fuses_the_tanh_form_of_gelu_and_no_left_to_right_attention(build, tmp_path):
    _, proto = build("encoder", "gelu_new", 2, causal=True)
    counts = optimized(proto, tmp_path).get_fused_operator_statistics()
    assert [counts[name] for name in ("FastGelu", "SkipLayerNormalization", "Attention")] == [2, 4, 0]


def test_axes_have_names(build):
    _, proto = build("pretraining")
    graph = proto.graph
    axes = {}
    for value in (*graph.input, *graph.output):
        shape = value.type.tensor_type.shape
        axes[value.name] = [axis.dim_param or axis.dim_value for axis in shape.dim]
    assert axes == {
        "token_ids": ["batch", "length"],
        "segment_ids": ["batch", "length"],
        "padding_mask": ["batch", "length"],
        "mask_positions": ["batch", "predictions"],
        "mlm_logits": ["batch", "predictions", 50],
        "nsp_logits": ["batch", 2],
    }


def test_kernels_adapted_by_lora(config):
    model = HEADS["classification"].build(keras_bert.build_encoder(config))
    layer = keras_bert.describe(model).layers["block_0"].feed_forward.output_dense
    layer.enable_lora(2)
    layer.lora_kernel_b.assign(keras.random.normal(layer.lora_kernel_b.shape))
    check(model, build_onnx(model, keras_bert.describe(model)), "classification")

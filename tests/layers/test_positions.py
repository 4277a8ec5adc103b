"""The ways to know positions, and one that the package does not have: learned ones and a relative bias.

The bias is shared by all blocks, as in MPNet: a number for each head and distance.
"""

import dataclasses
import json
import warnings

import keras
import numpy as np
import pytest
from keras import ops

import keras_bert
from keras_bert import layers as bert_layers
from keras_bert import other_models
from keras_bert.checkpoints import model_types
from keras_bert.layers import registry
from keras_bert.layers.positions import LearnedPositions, NoPositions, PositionBias, SinusoidPositions
from keras_bert.models.tuning import freeze_layers
from tests.conftest import HEADS, relative, to_numpy
from tests.rewirings.packed_rows import LENGTHS, PLACES, TEXTS, pack

MOST = 3  # The largest distance that has a number of its own.
ROUNDING = 2**-8  # Of bfloat16, relative.


def test_sinusoid_positions_follow_the_paper():
    expected = np.zeros((50, 6))
    for position in range(50):
        for pair in range(3):
            angle = position / 10000 ** (2 * pair / 6)
            expected[position, 2 * pair] = np.sin(angle)
            expected[position, 2 * pair + 1] = np.cos(angle)
    bert = bert_layers.BertEmbeddings(hidden_size=6, max_length=50, positions="sinusoid")
    scaled = bert_layers.ScaledEmbeddings(6, 50)
    np.testing.assert_allclose(to_numpy(bert.fixed_positions()), expected, atol=1e-5)
    np.testing.assert_allclose(to_numpy(scaled.table()), expected, atol=1e-5)
    row = SinusoidPositions().row(bert, ops.convert_to_tensor(7))
    np.testing.assert_allclose(to_numpy(row)[0], expected[7], atol=1e-5)


def test_only_models_without_positions_read_texts_of_any_length(config):
    assert LearnedPositions().limit(config) == 40
    assert SinusoidPositions().limit(config) == 40
    assert NoPositions().limit(config) is None


@keras.saving.register_keras_serializable(package="tests")
class RelativeBias(PositionBias):
    def __init__(self, num_heads, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = num_heads

    def build(self, token_ids_shape, position_ids_shape=None):
        initializer = keras.initializers.RandomNormal(stddev=2.0, seed=3)
        self.table = self.add_weight(shape=(2 * MOST + 1, self.num_heads), initializer=initializer, name="table")

    def call(self, token_ids, position_ids=None):
        if position_ids is None:
            position_ids = ops.arange(ops.shape(token_ids)[1])[None]
        distances = ops.cast(position_ids[:, None, :] - position_ids[:, :, None], "int32")
        rows = ops.take(self.table, ops.clip(distances, -MOST, MOST) + MOST, axis=0)
        return ops.transpose(rows, (0, 3, 1, 2))

    def compute_output_spec(self, token_ids, position_ids=None):
        if position_ids is None:
            batch = 1
            length = token_ids.shape[1]
        else:
            batch, length = position_ids.shape
        return keras.KerasTensor((batch, self.num_heads, length, length), self.compute_dtype)


def onnx_bias(graph, layer, token_ids):
    places = graph.positions(token_ids)
    distances = graph.add("Sub", places, graph.add("Unsqueeze", places, [1]))
    rows = graph.add("Add", graph.add("Clip", distances, -MOST, MOST), MOST)
    values = graph.add("Gather", graph.weight(layer.table, "position_bias/table"), rows)
    return graph.add("Unsqueeze", graph.add("Transpose", values, perm=[2, 0, 1]), [0])


class LearnedAndRelative(LearnedPositions):
    name = "learned_and_relative"
    is_plain = False
    onnx = {"position_bias": onnx_bias}  # noqa: RUF012

    def bias_layer(self, config, **options):
        return RelativeBias(config.num_attention_heads, **options)

    def tensors(self, layers):
        tensors = super().tensors(layers)
        tensors["encoder.relative_attention_bias.weight"] = layers["position_bias"].table
        return tensors


@pytest.fixture
def build(config, monkeypatch):
    """Builds a model of two blocks by the name of its head."""
    monkeypatch.setattr(registry, "POSITIONS", [*registry.POSITIONS, LearnedAndRelative()])
    config = dataclasses.replace(config, num_hidden_layers=2)

    def built(head, padding_id=None, **options):
        own = dataclasses.replace(config, position_padding_id=padding_id)
        encoder = keras_bert.build_encoder(own, positions=LearnedAndRelative.name, **options)
        return HEADS[head].build(encoder)

    return built


def bias_of(length, table):
    """The bias by its definition, `(heads, length, length)`."""
    bias = np.zeros((table.shape[1], length, length), "float32")
    for query in range(length):
        for key in range(length):
            distance = min(max(key - query, -MOST), MOST)
            bias[:, query, key] = table[distance + MOST]
    return bias


@pytest.mark.parametrize("padding_id", [None, 9])
def test_all_blocks_have_the_bias(build, batch, padding_id):
    """Distances do not depend on the id from which positions may be counted, which is in a text here."""
    model = build("encoder", padding_id, attention_scores=True, hidden_states=True)
    layers = keras_bert.describe(model).layers
    token_ids = np.where(np.arange(12) == 2, 9, batch["token_ids"])
    outputs = model(batch | {"token_ids": token_ids})
    bias = bias_of(12, to_numpy(layers["position_bias"].table))
    is_padding = 1 - batch["padding_mask"][:, None, None]
    for number, found in enumerate(outputs["attention_scores"]):
        attention = layers[f"block_{number}"].attention
        query, key, _ = attention.project(outputs["hidden_states"][number])
        products = to_numpy(ops.matmul(query, key))
        scores = products / np.sqrt(8) + bias - 1e9 * is_padding
        np.testing.assert_allclose(to_numpy(found), to_numpy(ops.softmax(scores)), atol=1e-5)


def test_packed_encoders_have_it(build, batch):
    model = build("encoder")
    expected = to_numpy(model(batch)["sequence_output"])
    packed = keras_bert.models.build_packed(model)
    together = to_numpy(packed(packed_inputs(packed, batch))["sequence_output"])
    for text, length in enumerate(LENGTHS):
        row, start = PLACES[text]
        np.testing.assert_allclose(together[row, start : start + length], expected[text, :length], atol=2e-6)


def test_trimmed_and_packed_classifiers_have_it(build, batch):
    """Of the last block, these compute some positions alone."""
    classifier = build("classification")
    expected = to_numpy(classifier(batch)["logits"])
    trimmed = keras_bert.models.build_trimmed(classifier)
    np.testing.assert_allclose(to_numpy(trimmed(batch)["logits"]), expected, atol=2e-6)
    packed = keras_bert.models.build_packed(classifier)
    logits = to_numpy(packed(packed_inputs(packed, batch))["logits"])
    np.testing.assert_allclose(logits[TEXTS], expected, atol=2e-6)


def packed_inputs(packed, batch):
    inputs = pack(batch)
    return {name: inputs[name] for name in packed.input}


def test_it_learns_as_well_when_activations_are_recomputed(build, batch):
    gradients = []
    for remat in (False, True):
        keras.utils.set_random_seed(1)
        model = build("classification", remat=remat)
        bias = keras_bert.describe(model).layers["position_bias"].table
        before = to_numpy(bias)
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
        model.fit(batch, {"logits": np.array([0, 1, 0])}, epochs=1, verbose=0, shuffle=False)
        gradients.append(to_numpy(bias) - before)
    assert np.abs(gradients[0]).max() > 1e-6
    np.testing.assert_allclose(*gradients, atol=1e-6)


@pytest.fixture
def model_type(build, monkeypatch):
    """A model type of transformers whose models have these positions, as MPNet."""
    own = dataclasses.replace(model_types.MODEL_TYPES["roberta"], title="Relative", padding=None, implied={})
    monkeypatch.setitem(model_types.MODEL_TYPES, "relative", own)
    monkeypatch.setattr(other_models, "BERTS", (*other_models.BERTS, "relative"))
    monkeypatch.setattr(LearnedAndRelative, "model_type", "relative")
    return "relative"


def test_a_model_type_of_transformers_has_it(build, model_type, batch, tmp_path):
    """Such models are only written, and read, with it."""
    model = build("encoder")
    keras_bert.save(model, tmp_path / "bert", None)
    path = tmp_path / "bert" / "config.json"
    config = json.loads(path.read_text())
    assert config["model_type"] == model_type
    assert config["architectures"] == ["RelativeModel"]
    path.write_text(json.dumps(config | {"keras_bert": None}))  # As another program would have written it.
    loaded = keras_bert.load(tmp_path / "bert")
    assert loaded.positions == LearnedAndRelative.name
    expected = to_numpy(model(batch)["sequence_output"])
    np.testing.assert_allclose(to_numpy(loaded.encoder(batch)["sequence_output"]), expected, atol=1e-6)
    with pytest.raises(ValueError, match="`model_type` must be 'relative' for positions='learned_and_relative'"):
        keras_bert.save(model, tmp_path / "other", None, model_type="bert")


def test_other_positions_do_not_have_the_model_type(model_type, tmp_path):
    learned = keras_bert.build_encoder(keras_bert.BertConfig(20, 8, 1, 2, 8))
    with pytest.raises(ValueError, match="must be another one for positions='learned'. Received: .*'relative'"):
        keras_bert.save(learned, tmp_path / "other", None, model_type=model_type)


def test_files_and_frozen_layers(build, batch, tmp_path):
    model = build("classification")
    expected = to_numpy(model(batch)["logits"])
    keras_bert.save(model, tmp_path / "bert", None)
    loaded = keras_bert.load(tmp_path / "bert")
    assert loaded.positions == LearnedAndRelative.name
    np.testing.assert_allclose(to_numpy(loaded.model()(batch)["logits"]), expected, atol=1e-6)
    model.save(tmp_path / "model.keras")
    reopened = keras.saving.load_model(tmp_path / "model.keras")
    assert keras_bert.describe(reopened).positions == LearnedAndRelative.name
    np.testing.assert_allclose(to_numpy(reopened(batch)["logits"]), expected, atol=1e-6)
    with pytest.raises(ValueError, match="learned positions. Received: .*'learned_and_relative'"):
        keras_bert.save(model, tmp_path / "google", None, format="google")
    freeze_layers(model, 0)
    assert not keras_bert.describe(model).layers["position_bias"].trainable
    with warnings.catch_warnings():  # Keras warns about inputs, and about each layer that it cannot quantize.
        warnings.filterwarnings("ignore", "Layer InputLayer does not")
        model.quantize("int8")
    assert relative(model(batch)["logits"], expected) < 0.2


def fused_logits(model, batch):
    """The logits of the graph of an export, in which some layers are one operation."""
    import tensorflow as tf

    from keras_bert.exporting.fused_layers import fused

    with fused(model):
        graph = tf.function(lambda: model(batch)["logits"], autograph=False)
        return to_numpy(graph())


@pytest.mark.tensorflow
def test_onnx_and_fused_graphs(build, batch):
    model = build("classification")
    expected = to_numpy(model(batch)["logits"])
    np.testing.assert_allclose(fused_logits(model, batch), expected, atol=1e-5)
    pytest.importorskip("onnx", reason="`make convert` installs onnx")
    onnxruntime = pytest.importorskip("onnxruntime", reason="`make convert` installs onnxruntime")
    from keras_bert.exporting.onnx_model import build_onnx

    proto = build_onnx(model, keras_bert.describe(model)).SerializeToString()
    session = onnxruntime.InferenceSession(proto, providers=["CPUExecutionProvider"])
    inputs = {name: batch[name] for name in ("token_ids", "segment_ids", "padding_mask")}
    (logits,) = session.run(["logits"], inputs)
    np.testing.assert_allclose(logits, expected, atol=1e-5)


@pytest.mark.tensorflow
def test_both_graphs_in_bfloat16_are_as_near_to_float32(build, batch):
    """The kernels of processors round in other places: each result is within a few roundings of that in float32."""
    model = build("classification", dtype="bfloat16")
    in_float32 = build("classification")
    for weight, rounded in zip(in_float32.weights, model.weights, strict=True):
        weight.assign(ops.cast(rounded, weight.dtype))
    expected = to_numpy(in_float32(batch)["logits"])
    assert 0 < relative(model(batch)["logits"], expected) < 8 * ROUNDING
    assert 0 < relative(fused_logits(model, batch), expected) < 8 * ROUNDING

"""LoRA adapters in peft's layout: ours, theirs, and in peft itself."""

import json
import re
import shutil

import numpy as np
import pytest
import safetensors.numpy

import keras_bert
from keras_bert.checkpoints.peft import AdapterSettings
from keras_bert.layers.registry import positions_of
from tests.checkpoints.conftest import edit, randomize
from tests.conftest import HEADS, relative, to_numpy


@pytest.fixture(scope="module")
def base(saved):
    """The folder of the model that is adapted."""
    return saved("encoder")


@pytest.fixture(scope="module")
def adapted(base):
    """Returns a function that adapts the base model with a new head, with random weights."""

    def make(head, **options):
        model = HEADS[head].build(keras_bert.load(base).encoder)
        keras_bert.enable_lora(model, 2, **options)
        return randomize(model)

    return make


def logits(outputs):
    """The first output, which all heads have."""
    return to_numpy(next(iter(outputs.values())))


@pytest.fixture(scope="module")
def adapter(adapted, base, pieces, tmp_path_factory):
    """The folder of an adapter for classification, and the model. Tests must not change them."""
    folder = tmp_path_factory.mktemp("adapter") / "adapter"
    model = adapted("classification")
    keras_bert.save(model, folder, pieces, format="peft", base=base, labels=["no", "maybe", "yes"], task="mine")
    return folder, model


@pytest.fixture
def changed(adapter, tmp_path):
    """Returns a function that copies the adapter with other tensors and settings."""

    def change(tensors=None, own=False, **settings):
        folder = tmp_path / "changed"
        folder.mkdir(exist_ok=True)
        names = ["adapter_config.json"]
        if own:
            names.append("config.json")
        for name in names:
            (folder / name).write_text((adapter[0] / name).read_text())
        edit(folder / "adapter_config.json", **settings)
        found = safetensors.numpy.load_file(adapter[0] / "adapter_model.safetensors")
        if tensors:
            found = tensors(found)
        safetensors.numpy.save_file(found, folder / "adapter_model.safetensors")
        return folder

    return change


@pytest.mark.parametrize(
    "head",
    ["multi_label", "token_classification", "question_answering", "multiple_choice", "next_sentence", "encoder"],
)
def test_a_saved_adapter_gives_the_same_outputs(adapted, base, task, pieces, tmp_path, head):
    model = adapted(head)
    inputs = task(head)[0]
    keras_bert.save(model, tmp_path / "adapter", pieces, format="peft", base=base)
    bert = keras_bert.load(tmp_path / "adapter")
    expected = model(inputs)
    for name, value in bert.model()(inputs).items():
        assert relative(value, to_numpy(expected[name])) < 1e-5
    assert bert.head == ("classification" if head == "multi_label" else head)
    assert bert.multi_label == (head == "multi_label")


RELATIVES = {
    "distilbert": ["base_model.model.distilbert.transformer.layer.0.attention.q_lin", "pre_classifier"],
    "electra": ["base_model.model.electra.encoder.layer.0.attention.self.query", "classifier.dense"],
    "roberta": ["base_model.model.roberta.encoder.layer.0.attention.self.query", "classifier.dense"],
    "mpnet": ["base_model.model.mpnet.encoder.layer.0.attention.attn.q", "classifier.dense"],
}


@pytest.mark.parametrize("name", RELATIVES)
def test_adapters_of_relatives_have_their_names(relatives, batch, tmp_path, name):
    base = relatives(name)
    model = HEADS["classification"].build(keras_bert.load(base, tokenizer=None).encoder)
    keras_bert.enable_lora(model, 2)
    randomize(model)
    folder = tmp_path / "adapter"
    keras_bert.save(model, folder, None, format="peft", base=base, model_type=name)
    query, pooler = RELATIVES[name]
    tensors = safetensors.numpy.load_file(folder / "adapter_model.safetensors")
    expected = {f"{query}.lora_A.weight", f"{query}.lora_B.weight", f"base_model.model.{pooler}.weight"}
    assert expected <= tensors.keys()
    bert = keras_bert.load(folder, tokenizer=None)
    assert (bert.head, bert.model_type, bert.positions) == ("classification", name, positions_of(name) or "learned")
    assert relative(logits(bert.model()(batch)), logits(model(batch))) < 1e-5
    # Without the config of this package, as peft writes it.
    (folder / "config.json").unlink()
    bert = keras_bert.load(folder, tokenizer=None)
    assert (bert.head, bert.model_type) == ("classification", name)
    assert relative(logits(bert.model()(batch)), logits(model(batch))) < 1e-5
    del tensors[f"{query}.lora_A.weight"], tensors[f"{query}.lora_B.weight"], tensors[f"base_model.model.{pooler}.bias"]
    safetensors.numpy.save_file(tensors, folder / "adapter_model.safetensors")
    missing = [f"{query.removeprefix('base_model.model.')}.lora_A.weight", f"{pooler}.bias"]
    with pytest.raises(ValueError, match=r"lacks 2 tensor.s. .*: " + ", ".join(map(re.escape, missing))):
        keras_bert.load(folder, tokenizer=None)


def test_a_loaded_adapter_is_a_whole_model(adapter, base, batch, tmp_path, monkeypatch):
    folder, model = adapter
    bert = keras_bert.load(folder)
    expected = logits(model(batch))
    assert (bert.labels, bert.task, bert.vocabulary.pieces[5]) == (["no", "maybe", "yes"], "mine", "a")
    assert not any(layer.lora_enabled for layer in bert.model()._flatten_layers() if hasattr(layer, "lora_enabled"))
    keras_bert.save(bert.model(), tmp_path / "whole", bert.vocabulary)
    assert relative(logits(keras_bert.load(tmp_path / "whole").model()(batch)), expected) < 1e-5
    # The base model may be named relative to the adapter, or be given.
    moved = shutil.copytree(folder, tmp_path / "moved")
    (tmp_path / "bert").symlink_to(base)
    edit(moved / "adapter_config.json", base_model_name_or_path="../bert")
    assert relative(logits(keras_bert.load(moved).model()(batch)), expected) < 1e-5
    edit(moved / "adapter_config.json", base_model_name_or_path="gone")
    assert relative(logits(keras_bert.load(moved, base=base).model()(batch)), expected) < 1e-5
    assert keras_bert.load(moved, base=base, head="encoder").head == "encoder"


def test_ranks_scales_and_targets(changed, base):
    """Settings as peft writes them; the sums are computed in NumPy."""
    rng = np.random.default_rng(1)
    prefix = "base_model.model.bert.encoder.layer.0.attention.self"
    shapes = {"query.lora_A.weight": (3, 32), "query.lora_B.weight": (32, 3), "query.base_layer.bias": (32,)}
    shapes |= {"value.lora_A.weight": (2, 32), "value.lora_B.weight": (32, 2)}
    tensors = {f"{prefix}.{name}": rng.normal(size=shape).astype("float32") for name, shape in shapes.items()}
    query_a, query_b, bias, value_a, value_b = tensors.values()
    settings = {"task_type": "FEATURE_EXTRACTION", "target_modules": ["query", "value"], "modules_to_save": None}
    settings |= {"rank_pattern": {"layer.0.attention.self.query": 3}, "alpha_pattern": {r".*\.value": 7}}
    plain = keras_bert.describe(keras_bert.load(base).encoder).layers["block_0"].attention.query_key_value
    for rslora, power in ((False, 1), (True, 0.5)):
        bert = keras_bert.load(changed(lambda _: tensors, use_rslora=rslora, bias="lora_only", **settings))
        adapted = keras_bert.describe(bert.encoder).layers["block_0"].attention.query_key_value
        expected = to_numpy(plain.kernel).copy()
        expected[:, :32] += (4 / 3**power) * (query_b @ query_a).T
        expected[:, 64:] += (7 / 2**power) * (value_b @ value_a).T
        np.testing.assert_allclose(to_numpy(adapted.kernel), expected, atol=1e-5)
        np.testing.assert_array_equal(to_numpy(adapted.bias)[:32], bias)


def test_settings_of_a_module():
    settings = AdapterSettings(
        {
            "r": 4,
            "lora_alpha": 8,
            "rank_pattern": {r"layer\.1\.attention\.self\.query": 2},
            "target_modules": ["query", "value"],
            "exclude_modules": r".*layer\.0\..*value",
            "layers_to_transform": [0, 1],
            "modules_to_save": ["pooler"],
        }
    )
    queries = [f"bert.encoder.layer.{number}.attention.self.query" for number in range(3)]
    assert [settings.rank(module) for module in queries] == [4, 2, 4]
    assert [settings.scale(module) for module in queries] == [2, 4, 2]
    assert [settings.adapts(module) for module in queries] == [True, True, False]
    values = [name.replace("query", "value") for name in queries]
    assert [settings.adapts(module) for module in values] == [False, True, False]
    assert settings.saves("bert.pooler.dense.weight")
    assert not settings.saves("bert.poolers.weight")
    assert AdapterSettings({"use_rslora": True}).scale("any") == pytest.approx(8**0.5)


def renamed(name, to):
    return lambda found: {key.replace(name, to): value for key, value in found.items()}


def without(name):
    return lambda found: {key: value for key, value in found.items() if name not in key}


def narrow(found):
    return {name: value[:, :9] if "lora_A" in name else value for name, value in found.items()}


OTHER = {"base_model.model.qa_outputs.bias": np.zeros(2, "float32")}


@pytest.mark.parametrize(
    ("tensors", "settings", "message"),
    [
        (None, {"peft_type": "IA3"}, "adapter_config.json: `peft_type` must be 'LORA'. Received: peft_type='IA3'"),
        (None, {"use_dora": True}, "`use_dora` is not supported. Expected none. Received: use_dora=True"),
        (None, {"init_lora_weights": "pissa"}, "`init_lora_weights`='pissa' changes the weights of the base model"),
        (None, {"r": 3}, "gives bert.encoder.layer.0.attention.* the rank 3, but its lora_A has 2 rows"),
        (None, {"base_model_name_or_path": None}, "does not name a base model. Pass it: load.*base="),
        (None, {"base_model_name_or_path": "./gone"}, "its base model cannot be opened; load.*base=.*gone: no such ch"),
        (renamed("base_model.model.", ""), {}, "the names of peft's tensors begin with base_model.model."),
        (renamed("layer.0", "layer.9"), {}, "adapts bert.encoder.layer.9.*, which the base model does not have"),
        (renamed("output.dense.lora_B", "output.dense.lora_magnitude"), {}, "expected lora_A and lora_B. Received: "),
        (narrow, {}, "must fit a kernel .32, 32"),
        (without("lora_B"), {}, "must fit a kernel"),
        (renamed("classifier", "other"), {"modules_to_save": None}, "2 tensor.s. do not fit a BERT of this config: ba"),
        (without(""), {}, r"lacks 8 tensor.s. .*: bert.encoder.layer.0.attention.self.query.lora_A.weight, .* and 3 m"),
        (without("key"), {}, r"lacks 1 tensor.*head='classification': bert.*.self.key.lora_A.weight. Expected a comp"),
        (without("key"), {"target_modules": r".*\.(key|value)", "exclude_modules": ["value"]}, "lacks 1 tensor"),
        (without("classifier"), {}, "lacks 2 tensor.s. that .* specify .*: classifier.bias, classifier.weight. Exp"),
        (
            without("pooler"),
            {},
            "lacks 2 tensor.s. that .* specify .*: bert.pooler.dense.bias, bert.pooler.*. Exp",
        ),
        (lambda found: found | OTHER, {}, "with head='classification' does not have: qa_outputs.bias. Pass the"),
        (None, {"task_type": None}, "has 2 tensor.s. that a model with head='encoder' does not have: classifier.bias"),
        (None, {"base_model_name_or_path": "."}, "its base model cannot be opened; .* . is the adapter itself"),
        (None, {"base_model_name_or_path": 5}, "adapter_config.json: `base_model_name_or_path` must be a path or nam"),
        (None, {"lora_alpha": "16"}, "adapter_config.json: `lora_alpha` must be a number. Received: lora_alpha='16'"),
        (None, {"rank_pattern": {"(": 3}}, "`rank_pattern` must be an object of regular expressions and positive int"),
        (None, {"target_modules": "("}, "`target_modules` must be a regular expression or a list of names"),
    ],
)
def test_adapters_that_are_refused(changed, tensors, settings, message):
    with pytest.raises(ValueError, match=message) as error:
        keras_bert.load(changed(tensors, **settings))
    assert "\n" not in str(error.value)


def test_an_adapter_of_another_base_model(changed):
    folder = changed(own=True)
    edit(folder / "config.json", num_hidden_layers=2, vocab_size=400)
    message = "config.json has vocab_size=400, num_hidden_layers=2, but the base model .* has vocab_size=50, num_hidd"
    with pytest.raises(ValueError, match=message):
        keras_bert.load(folder)


def test_files_of_peft_that_are_opened(changed, adapter, batch):
    """Layers that are left out, a head that is passed, and the biases that bias="all" writes twice."""
    bias = safetensors.numpy.load_file(adapter[0] / "adapter_model.safetensors")[
        "base_model.model.bert.pooler.dense.bias"
    ]
    copy = {"base_model.model.bert.pooler.modules_to_save.default.dense.bias": bias}
    copy |= {"base_model.model.bert.pooler.original_module.dense.bias": 0 * bias}
    for tensors, settings, head in (
        (lambda found: found | copy, {"bias": "all"}, None),
        (None, {"task_type": None, "modules_to_save": ["score", "classifier"]}, "classification"),
        (None, {"target_modules": "all-linear", "exclude_modules": r".*(output|intermediate)\.dense"}, None),
        (None, {"layers_to_transform": [0], "layers_pattern": "layer"}, None),
    ):
        bert = keras_bert.load(changed(tensors, **settings), head=head)
        assert relative(logits(bert.model()(batch)), logits(adapter[1](batch))) < 1e-5
    bert = keras_bert.load(changed(without("lora"), target_modules=["query"], layers_to_transform=1))
    assert bert.head == "classification"


def test_a_trained_token_table_or_decoder_is_not_tied(saved, tmp_path):
    """In peft, the modules that are trained whole are copies."""
    base = saved("pretraining")
    rng = np.random.default_rng(0)
    table = to_numpy(keras_bert.load(base).encoder.get_layer("token_embedding").embeddings)
    new = rng.normal(size=table.shape).astype("float32")
    bias = rng.normal(size=len(table)).astype("float32")
    settings = {"peft_type": "LORA", "base_model_name_or_path": str(base), "target_modules": []}
    for module, tensors, expected in (
        ("word_embeddings", {"bert.embeddings.word_embeddings.weight": new}, (new, table)),
        ("decoder", {"cls.predictions.decoder.weight": new, "cls.predictions.decoder.bias": bias}, (table, new)),
    ):
        tensors = {f"base_model.model.{name}": value for name, value in tensors.items()}
        safetensors.numpy.save_file(tensors, tmp_path / "adapter_model.safetensors")
        (tmp_path / "adapter_config.json").write_text(json.dumps(settings | {"modules_to_save": [module]}))
        layers = keras_bert.describe(keras_bert.load(tmp_path).model()).layers
        np.testing.assert_array_equal(to_numpy(layers["token_embedding"].embeddings), expected[0])
        np.testing.assert_array_equal(to_numpy(layers["mlm_decoder"].kernel), expected[1].T)
    np.testing.assert_array_equal(to_numpy(layers["mlm_bias"].bias), bias)


def test_missing_files(changed, base):
    folder = changed()
    (folder / "adapter_model.safetensors").rename(folder / "adapter_model.bin")
    with pytest.raises(ValueError, match="adapter_model.bin: not a readable file of PyTorch"):
        keras_bert.load(folder)
    (folder / "adapter_model.bin").unlink()
    with pytest.raises(FileNotFoundError, match="expected weights, adapter_model.safetensors or adapter_model.bin"):
        keras_bert.load(folder)
    with pytest.raises(ValueError, match="`base` is only for adapters, folders with adapter_config.json. Received: "):
        keras_bert.load(base, base=base)


def test_models_that_are_no_adapters(adapted, adapter, models, base, tmp_path):
    model, unfrozen = adapted("token_classification"), adapted("token_classification")
    keras_bert.describe(unfrozen).layers["embeddings"].trainable = True
    more = adapted("token_classification")
    keras_bert.describe(more).layers["block_0"].feed_forward.output_dense.enable_lora(2)
    for wrong, options, message in (
        (model, {}, "format='peft' needs `base`, the path or name of the adapted model. Received: base=None"),
        (model, {"base": "./gone"}, "gone: no such checkpoint"),
        (model, {"base": adapter[0]}, "`base` must be a whole model. Received: .*, an adapter; write the sum"),
        (model, {"base": base, "format": "huggingface"}, "`base` is only for format='peft'. Received: base="),
        (models("classification"), {"base": base}, "that enable_lora adapted. Received: a model without adapters"),
        (more, {"base": base}, "that enable_lora adapted. Received: another choice of adapted layers"),
        (unfrozen, {"base": base}, "a model with 4 other weights to train, such as '.*embeddings.*'; freeze them"),
        (models("pretraining"), {"base": base}, "format='peft' is for the heads .* Received: a model with head='pretr"),
    ):
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            keras_bert.save(wrong, tmp_path / "adapter", None, **{"format": "peft", **options})
    assert not (tmp_path / "adapter").exists()
    keras_bert.save(model, tmp_path / "adapter", None, format="peft", base=base)
    with pytest.raises(ValueError, match="has adapter_config.json of another format, which would be loaded instead"):
        keras_bert.save(model, tmp_path / "adapter", None)

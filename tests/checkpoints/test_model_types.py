"""DistilBERT, ELECTRA, RoBERTa and MPNet: transformers opens what we save, and we open what it saves."""

import dataclasses
import itertools

import keras
import numpy as np
import pytest
import safetensors.numpy

import keras_bert
from keras_bert.checkpoints.model_types import MODEL_TYPES
from keras_bert.heads.registry import head_named
from keras_bert.layers.registry import positions_of
from keras_bert.tasks.classification import glue
from tests.checkpoints.conftest import NAMES, edit, randomize
from tests.conftest import HEADS, to_numpy

OUTPUTS = {"sequence_output": "last_hidden_state", "pooled_output": "pooler_output", "mlm_logits": "logits"}
SETTINGS = {
    "distilbert": {"type_vocab_size": 0, "pooler_activation": "relu"},
    "electra": {"embedding_size": 12, "pooler_activation": "gelu", "hidden_act": "silu"},
    "xlm-roberta": {"type_vocab_size": 1, "position_padding_id": 1},
    "mpnet": {"type_vocab_size": 0, "position_padding_id": 1},
}
CASES = [
    *itertools.product(SETTINGS, ("classification", "multiple_choice")),
    ("distilbert", "encoder"),
    ("distilbert", "untied"),
    ("electra", "question_answering"),
    ("electra", "replaced_token_detection"),
    ("xlm-roberta", "encoder"),
    ("xlm-roberta", "untied"),
    ("roberta", "mlm"),
    ("xlm-roberta", "token_classification"),
    ("camembert", "regression"),
    ("mpnet", "encoder"),
    ("mpnet", "mlm"),
    ("mpnet", "token_classification"),
    ("mpnet", "question_answering"),
]


@pytest.fixture
def build(config):
    """Builds a model by the name of a relative and of its head, with random weights."""

    def built(name, head, **changes):
        settings = {"hidden_act": "gelu", **SETTINGS.get(name, SETTINGS["xlm-roberta"]), **changes}
        own = dataclasses.replace(config, **settings)
        return randomize(HEADS[head].build(keras_bert.build_encoder(own, positions=positions_of(name) or "learned")))

    return built


@pytest.mark.parametrize("head", ["encoder", "pretraining", "classification", "multiple_choice"])
@pytest.mark.parametrize("name", MODEL_TYPES)
def test_a_renamed_tensor_gets_its_name_back(name, head):
    layout = MODEL_TYPES[name]
    names = ["embeddings.word_embeddings.weight", "pooler.dense.bias", "classifier.weight"]
    for part in ("attention.self.query", "attention.output.dense", "attention.output.LayerNorm", "output.dense"):
        names.append(f"encoder.layer.3.{part}.weight")
    own = [layout.own_name(each, head_named(head)) for each in names]
    assert len(set(own)) == len(names)
    assert [layout.our_name(each) for each in own] == names


def test_own_names_of_tensors():
    layout = MODEL_TYPES["distilbert"]
    dense = "encoder.layer.3.attention.output.dense.weight"
    assert layout.own_name(dense, head_named("encoder")) == "transformer.layer.3.attention.out_lin.weight"
    own = layout.own_name(dense, head_named("classification"))
    assert own == "distilbert.transformer.layer.3.attention.out_lin.weight"
    own = MODEL_TYPES["electra"].own_name("pooler.dense.bias", head_named("classification"))
    assert own == "classifier.dense.bias"  # A part of the head there.


@pytest.mark.parametrize(("name", "head"), CASES)
def test_transformers_opens_every_head(build, task, tmp_path, name, head):
    torch = pytest.importorskip("torch", reason="a peer, see `make peers`")
    transformers = pytest.importorskip("transformers", reason="a peer, see `make peers`")
    model = build(name, head)
    inputs = task(head)[0]
    inputs["token_ids"][..., 2] = 1  # RoBERTa's padding, also in texts.
    inputs["segment_ids"] *= name == "electra"
    keras_bert.save(model, tmp_path / "ours", None, model_type=name)
    kind = getattr(transformers, HEADS[head].architecture.replace("Bert", MODEL_TYPES[name].title))
    theirs, info = kind.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(info.values())
    tensors = {NAMES[each]: torch.tensor(inputs[each]).long() for each in NAMES}
    if name in ("distilbert", "mpnet"):
        del tensors["token_type_ids"]
    with torch.inference_mode():
        expected = {key: value.numpy() for key, value in theirs.eval()(**tensors).items()}

    theirs.save_pretrained(tmp_path / "theirs")
    old = safetensors.numpy.load_file(tmp_path / "ours" / "model.safetensors")
    new = safetensors.numpy.load_file(tmp_path / "theirs" / "model.safetensors")
    assert old.keys() == new.keys()
    for outputs in (model(inputs), keras_bert.load(tmp_path / "theirs").model()(inputs)):
        for key in outputs.keys() & {*HEADS[head].outputs} - ({"pooled_output"} - expected.keys()):
            check(to_numpy(outputs[key]), expected[OUTPUTS.get(key, key)], inputs)


def check(value, expected, inputs):
    if "mask_positions" in inputs:
        expected = np.take_along_axis(expected, inputs["mask_positions"][..., None], 1)
    elif value.shape[:2] == inputs["padding_mask"].shape:
        value = value[inputs["padding_mask"].astype(bool)]
        expected = expected[inputs["padding_mask"].astype(bool)]
    np.testing.assert_allclose(value, expected, atol=2e-5 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("name", "head", "changes", "message"),
    [
        ("distilbert", "pretraining", {}, "DistilBert has no class like BertForPreTraining of transformers"),
        ("electra", "next_sentence", {}, "Electra has no class like BertForNextSentencePrediction"),
        ("bert", "replaced_token_detection", {}, "`model_type` must be 'electra' for head='replaced_token_detection'"),
        ("roberta", "replaced_token_detection", {}, "Roberta has no class like ElectraForPreTraining"),
        ("electra", "mlm", {"hidden_act": "relu"}, "`hidden_act` must be 'gelu' for Electra with head='pretraining'"),
        ("electra", "encoder", {"type_vocab_size": 0}, "`type_vocab_size` must be 1 for Electra. Received: .*=0"),
        ("roberta", "encoder", {"position_padding_id": None}, "must be an integer for Roberta. Received: None"),
        ("distilbert", "encoder", {"position_padding_id": 1}, "`position_padding_id` must be None for DistilBert. Rec"),
        ("camembert", "encoder", {"embedding_size": 8}, "`embedding_size` must be None for Camembert. Received: "),
        ("mpnet", "pretraining", {}, "MPNet has no class like BertForPreTraining of transformers"),
        ("mpnet", "encoder", {"position_padding_id": 0}, "must be 1 for MPNet. Received: .*=0; save.*format='keras'"),
        ("mpnet", "encoder", {"position_padding_id": None}, "must be an integer for MPNet. Received: None"),
    ],
)
def test_what_a_relative_lacks(build, tmp_path, name, head, changes, message):
    with pytest.raises(ValueError, match=message):
        keras_bert.save(build(name, head, **changes), tmp_path / "bert", None, model_type=name)
    assert list(tmp_path.iterdir()) == []


def test_the_width_of_embeddings_is_that_of_the_table(build, tmp_path):
    keras_bert.save(build("electra", "encoder"), tmp_path, None)
    edit(tmp_path / "config.json", embedding_size=10**9)
    with pytest.raises(ValueError, match="`embedding_size` of its config must be 12, as in embeddings.word_embeddings"):
        keras_bert.load(tmp_path)


def test_positions_do_not_depend_on_the_vocabulary(build, pieces, tmp_path):
    keras_bert.save(build("xlm-roberta", "encoder"), tmp_path, pieces)  # [PAD] is their first piece.
    assert keras_bert.load(tmp_path).config.position_padding_id == 1


def test_settings_of_mpnet(build, tmp_path):
    """transformers computes 32 buckets and counts positions from 1, whatever a config says."""
    keras_bert.save(build("mpnet", "encoder"), tmp_path, None)
    edit(tmp_path / "config.json", pad_token_id=0)
    config = keras_bert.load(tmp_path).config
    assert (config.position_padding_id, config.max_position_embeddings) == (1, 40)
    edit(tmp_path / "config.json", relative_attention_num_buckets=64)
    with pytest.raises(ValueError, match="`relative_attention_num_buckets` must be 32 for MPNet. Received: .*=64"):
        keras_bert.load(tmp_path)


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("electra", "replaced_token_detection"),
        ("xlm-roberta", "token_classification"),
        ("xlm-roberta", "classification"),
        ("distilbert", "classification"),
        ("mpnet", "classification"),
    ],
)
def test_a_head_is_told_by_its_tensors(build, tmp_path, name, head):
    keras_bert.save(build(name, head), tmp_path, None)
    edit(tmp_path / "config.json", architectures=None, keras_bert=None)
    assert keras_bert.load(tmp_path).head == head


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize("case", ["distilbert", "electra", "xlm_roberta"])
def test_fine_tuning_beside_transformers(golden, data, tmp_path, case):
    """The losses of 30 steps on MRPC, with a new head and without dropout."""
    torch = pytest.importorskip("torch", reason="a peer, see `make peers`")
    transformers = pytest.importorskip("transformers", reason="a peer, see `make peers`")
    steps = 30
    batch = 8
    rate = 5e-5
    folder = golden / "hf_world" / case
    train = glue.read(glue.TASKS["mrpc"], data / "glue", "train")
    own = MODEL_TYPES[case.replace("_", "-")].config_names
    dropout = ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout")
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(
        folder, num_labels=2, **{own.get(name, name): 0.0 for name in dropout}
    )
    theirs.save_pretrained(tmp_path)
    transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path)
    bert = keras_bert.load(tmp_path)
    rows = range(steps * batch)
    inputs = bert.preprocessor(128)(([train.text[row] for row in rows], [train.pair[row] for row in rows]))
    inputs = {name: ids.numpy() for name, ids in inputs.items()}
    labels = np.array([*map(int, train.labels)])

    groups = [
        {"params": [each for each in theirs.parameters() if each.ndim > 1], "weight_decay": 0.01},
        {"params": [each for each in theirs.parameters() if each.ndim < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=rate, eps=1e-6)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    model = bert.model()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras_bert.create_optimizer(model, rate, steps), loss, jit_compile=False)
    losses = []
    for start in range(0, steps * batch, batch):
        part = {name: ids[start:][:batch] for name, ids in inputs.items()}
        targets = labels[start:][:batch]
        tensors = {NAMES[name]: torch.tensor(ids).long() for name, ids in part.items()}
        if case == "distilbert":
            del tensors["token_type_ids"]
        expected = theirs(**tensors, labels=torch.tensor(targets)).loss
        optimizer.zero_grad()
        expected.backward()
        torch.nn.utils.clip_grad_norm_(theirs.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append((model.train_on_batch(part, targets), expected.item()))
        model.reset_metrics()
    ours, theirs = np.array(losses, "float64").T
    np.testing.assert_allclose(ours, theirs, atol=1e-4)
    assert len({*theirs.round(3)}) > 20

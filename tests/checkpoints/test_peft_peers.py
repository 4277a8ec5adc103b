"""peft opens our adapters, and we open its adapters, with the same logits."""

import inspect

import numpy as np
import pytest

import keras_bert
from keras_bert.checkpoints.model_types import MODEL_TYPES
from tests.checkpoints.conftest import NAMES, randomize
from tests.conftest import HEADS, to_numpy

torch = pytest.importorskip("torch", reason="a peer, see `make peers`")
transformers = pytest.importorskip("transformers", reason="a peer, see `make peers`")
peft = pytest.importorskip("peft", reason="a peer, see `make peers`")

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture(scope="module")
def base(saved):
    return saved("encoder")


def theirs(model, inputs):
    """The logits of a model of transformers or peft."""
    names = inspect.signature(model.get_base_model().forward).parameters
    inputs = {name: ids for name, ids in inputs.items() if NAMES[name] in names}
    with torch.inference_mode():
        outputs = model.eval()(**{NAMES[name]: torch.tensor(ids).long() for name, ids in inputs.items()})
    return outputs.logits.numpy()


def assert_same(value, expected, mask):
    value = to_numpy(value)
    if value.ndim == 3:
        value, expected = value[mask.astype(bool)], expected[mask.astype(bool)]
    np.testing.assert_allclose(value, expected, atol=1e-5 * max(1, np.abs(expected).max()))


def twin(base, head, classes, title="Bert"):
    """A model of transformers on the base model, with a new head."""
    kind = getattr(transformers, HEADS[head].architecture.replace("Bert", title))
    if head == "multiple_choice":
        return kind.from_pretrained(base)
    return kind.from_pretrained(base, num_labels=classes)


@pytest.mark.parametrize("head", ["token_classification", "multiple_choice"])
def test_peft_opens_our_adapter(base, pieces, task, tmp_path, head):
    model = HEADS[head].build(keras_bert.load(base).encoder)
    inputs = task(head)[0]
    keras_bert.enable_lora(model, 2)
    randomize(model)
    keras_bert.save(model, tmp_path / "ours", pieces, format="peft", base=base)
    opened = peft.PeftModel.from_pretrained(twin(base, head, model.output["logits"].shape[-1]), tmp_path / "ours")
    assert_same(model(inputs)["logits"], theirs(opened, inputs), inputs["padding_mask"])
    tensors = peft.load_peft_weights(str(tmp_path / "ours"))
    assert set(peft.get_peft_model_state_dict(opened)) == set(tensors)  # None is missing or ignored.
    opened.save_pretrained(tmp_path / "theirs")
    again = keras_bert.load(tmp_path / "theirs", head=head)
    assert_same(model(inputs)["logits"], to_numpy(again.model()(inputs)["logits"]), inputs["padding_mask"])


TRAINED = {"bias": "all", "modules_to_save": ["classifier", "pooler"]}


@pytest.mark.parametrize(
    ("head", "task_type", "options"),
    [
        ("token_classification", "TOKEN_CLS", {"target_modules": ["query", "key"], "r": 4, "bias": "lora_only"}),
        ("classification", "SEQ_CLS", {"target_modules": "all-linear", "use_rslora": True, "bias": "all"}),
        ("classification", "SEQ_CLS", {"target_modules": r".*\.(query|key)", "init_lora_weights": "gaussian"}),
        ("classification", "SEQ_CLS", {"target_modules": ["query", "dense"], **TRAINED}),
    ],
)
def test_we_open_an_adapter_of_peft(base, task, tmp_path, head, task_type, options):
    """All weights to train are random, and so are the biases that the settings name."""
    torch.manual_seed(0)
    inputs = task(head)[0]
    classes = HEADS[head].outputs["logits"][-1]
    config = peft.LoraConfig(task_type=task_type, **{"r": 2, "lora_alpha": 6, **options})
    model = peft.get_peft_model(twin(base, head, classes), config)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.requires_grad:
                weight.copy_(0.2 * torch.randn(weight.shape))
    model.save_pretrained(tmp_path / "theirs")
    bert = keras_bert.load(tmp_path / "theirs")
    assert bert.head == head
    assert_same(bert.model()(inputs)["logits"], theirs(model, inputs), inputs["padding_mask"])


@pytest.mark.parametrize(
    ("name", "target_modules"),
    [
        ("mpnet", ["attention.attn.q", "attention.attn.o"]),
        ("mpnet", "all-linear"),
        ("roberta", ["query", "value"]),
        ("distilbert", ["q_lin", "ffn.lin1"]),
        ("electra", r".*\.(key|dense)"),
    ],
)
def test_adapters_of_relatives(relatives, task, tmp_path, name, target_modules):
    """Those of peft, and the same model as an adapter of ours in peft."""
    torch.manual_seed(0)
    base = relatives(name)
    (inputs, _, _) = task("classification")
    inputs = inputs | {"segment_ids": inputs["segment_ids"] * (name == "electra")}
    title = MODEL_TYPES[name].title
    config = peft.LoraConfig(
        task_type="SEQ_CLS",
        r=2,
        lora_alpha=6,
        target_modules=target_modules,
        modules_to_save=["classifier", "pre_classifier"],
    )
    model = peft.get_peft_model(twin(base, "classification", 3, title), config)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.requires_grad:
                weight.copy_(0.2 * torch.randn(weight.shape))
    model.save_pretrained(tmp_path / "theirs")
    bert = keras_bert.load(tmp_path / "theirs", tokenizer=None)
    assert (bert.head, bert.model_type) == ("classification", name)
    assert_same(bert.model()(inputs)["logits"], theirs(model, inputs), inputs["padding_mask"])

    adapted = HEADS["classification"].build(keras_bert.load(base, tokenizer=None).encoder)
    keras_bert.enable_lora(adapted, 2)
    randomize(adapted)
    keras_bert.save(adapted, tmp_path / "ours", None, format="peft", base=base, model_type=name)
    opened = peft.PeftModel.from_pretrained(twin(base, "classification", 3, title), tmp_path / "ours")
    assert set(peft.get_peft_model_state_dict(opened)) == set(peft.load_peft_weights(str(tmp_path / "ours")))
    assert_same(adapted(inputs)["logits"], theirs(opened, inputs), inputs["padding_mask"])

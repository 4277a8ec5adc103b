import pytest

from keras_bert.text.tokenizer_json import Template, read_template, roberta_template, template_processor
from keras_bert.text.vocabulary import Vocabulary

IDS = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "<s>": 4, "</s>": 5}
TEMPLATES = [
    Template("[CLS]", "[SEP]"),
    Template("[CLS]", "[SEP]", segments=False),
    Template("<s>", "</s>", separators=2),
    roberta_template(),
]


def written(template):
    return template_processor(Vocabulary(list(IDS)), template)


@pytest.mark.parametrize("template", TEMPLATES)
def test_written_templates_are_read_back(template):
    assert read_template(written(template), IDS) == template


def test_templates_of_classes():
    tokens = {"cls": ["<s>", 4], "sep": ["</s>", 5]}
    assert read_template({"type": "RobertaProcessing", **tokens}, IDS) == roberta_template()
    assert read_template({"type": "BertProcessing", **tokens}, IDS) == Template("<s>", "</s>")
    assert read_template({"type": "BertProcessing", **tokens, "sep": ["</s>", 3]}, IDS) is None
    assert read_template({"type": "BertProcessing", "cls": ["<s>", 4]}, IDS) is None


def three_separators(processor):
    processor["pair"][2:2] = 2 * [processor["pair"][2]]


def no_start(processor):
    del processor["pair"][0]


def segment_of_the_first_text(processor):
    processor["pair"][1]["Sequence"]["type_id"] = 1


def no_single(processor):
    processor["single"] = []


def another_id(processor):
    processor["special_tokens"]["[SEP]"]["ids"] = [2]


CHANGES = [three_separators, no_start, segment_of_the_first_text, no_single, another_id]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_other_sequences_are_no_template(change):
    processor = written(TEMPLATES[0])
    change(processor)
    assert read_template(processor, IDS) is None


def test_no_processor_is_no_template():
    assert read_template(None, IDS) is None

"""Methods of few examples, and the arguments that they do not go together with."""

import pytest

from keras_bert.tasks.methods import METHODS, check_method


@pytest.mark.parametrize("method", METHODS)
def test_methods_without_other_arguments(method):
    check_method(method, [])


def test_an_unknown_method():
    with pytest.raises(ValueError, match="`method` must be one of"):
        check_method("setfit", [])


@pytest.mark.parametrize("argument", ["teacher", "intermediate", "patience", "pack", "lora_rank"])
def test_arguments_of_a_training_of_the_whole_model(argument):
    check_method("full", [argument])
    for method in ("probe", "contrastive", "auto"):
        with pytest.raises(ValueError, match=f"`{argument}`: only with method='full'"):
            check_method(method, ["seed", argument])


@pytest.mark.parametrize("argument", ["learning_rate", "batch_size", "epochs"])
def test_a_head_alone_has_no_steps(argument):
    for method in ("full", "contrastive", "auto"):
        check_method(method, [argument])
    with pytest.raises(ValueError, match=f"`{argument}`: the encoder is not trained"):
        check_method("probe", ["seed", argument])

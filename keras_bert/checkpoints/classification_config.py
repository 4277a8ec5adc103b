"""The classes of a model in `config.json`: names, transformers' `problem_type`, the activation of a cross-encoder."""

from keras_bert.heads.registry import NO_HEAD, head_named, opened_by
from keras_bert.text.answer_settings import placeholders

_CROSS_ENCODER = "CrossEncoder"
_MULTI_LABEL, _SINGLE_LABEL = "multi_label_classification", "single_label_classification"
_PROBLEMS = ("regression", _SINGLE_LABEL, _MULTI_LABEL)
# What sentence-transformers applies to the logits of a cross-encoder.
_ACTIVATIONS = {
    "linear": "torch.nn.modules.linear.Identity",
    "sigmoid": "torch.nn.modules.activation.Sigmoid",
}
_ACTIVATION, _OLD_ACTIVATION = "activation_fn", "sbert_ce_default_activation_function"


def read(config, head):
    """Returns `labels`, `multi_label` and `score_activation`, see `Metadata`, for a model with a head of this name."""
    row = head_named(head or NO_HEAD)
    labels, problem = _labels(config.get("id2label")), _problem_type(config)
    values = {"labels": labels if row.has_classes else None, "multi_label": problem == _MULTI_LABEL}
    name, value = stored_activation(config)
    if row.sentence_transformers != _CROSS_ENCODER or value is None:
        return values
    activation = _activation(name, value)
    if activation == "sigmoid" and problem == _SINGLE_LABEL:
        raise ValueError(
            f"`{name}` must be the identity for the problem_type {_SINGLE_LABEL!r}. Received: {name}={value!r}"
        )
    if count(config) == 1 and not values["multi_label"]:
        return {**values, "score_activation": activation}
    # Several sigmoids are those of independent labels.
    return {**values, "multi_label": values["multi_label"] or activation == "sigmoid"}


def of_cross_encoder(config, activation):
    """Returns the same of a whole cross-encoder, whose activation may be stored outside of `config.json`."""
    default = _ACTIVATIONS["sigmoid" if count(config) == 1 else "linear"]
    activation = activation or stored_activation(config)[1] or default
    return read({**config, "sentence_transformers": {_ACTIVATION: activation}}, opened_by(_CROSS_ENCODER))


def config_entries(description, labels):
    """Returns the keys of `config.json` for a described model."""
    values = {}
    if description.multi_label:
        values["problem_type"] = _MULTI_LABEL
    if description.num_classes is not None:
        names = labels or placeholders(description.num_classes)
        values["id2label"] = {str(index): name for index, name in enumerate(names)}
        values["label2id"] = {name: index for index, name in enumerate(names)}
    is_scored = description.multi_label or description.num_classes == 1
    if is_scored and head_named(description.head).sentence_transformers == _CROSS_ENCODER:
        # sentence-transformers' default for one logit is the sigmoid, for several the identity.
        activation = "sigmoid" if description.multi_label else description.score_activation
        values["sentence_transformers"] = {_ACTIVATION: _ACTIVATIONS[activation]}
    return values


def count(config):
    """Returns the number of classes."""
    return len(config.get("id2label") or {}) or config.get("num_labels", 2)


def our_activation(name, value, known):
    """Returns our name of a class of PyTorch, one of the known ones; `name` is that of the setting."""
    package, _, kind = str(value).rpartition(".")
    names = {theirs.rpartition(".")[2]: ours for ours, theirs in known.items()}
    if kind not in names or not f"{package}.".startswith("torch."):
        raise ValueError(f"`{name}` must be one of {', '.join(known.values())}. Received: {name}={value!r:.200}")
    return names[kind]


def stored_activation(config):
    """Returns the key and the value of the activation; the newer key comes first."""
    newer = config.get("sentence_transformers")
    if isinstance(newer, dict) and _ACTIVATION in newer:
        return _ACTIVATION, newer[_ACTIVATION]
    return _OLD_ACTIVATION, config.get(_OLD_ACTIVATION)


def _activation(name, value):
    try:
        return our_activation(name, value, _ACTIVATIONS)
    except ValueError as error:
        raise ValueError(f"{error}; load(..., head='encoder') loads the encoder without a head") from None


def _problem_type(config):
    """Returns `problem_type`; raises if it does not match the number of labels."""
    problem, classes = config.get("problem_type"), count(config)
    if problem not in (None, *_PROBLEMS):
        raise ValueError(f"`problem_type` must be one of {', '.join(_PROBLEMS)}. Received: problem_type={problem!r}")
    if (problem == "regression" and classes != 1) or (problem == _SINGLE_LABEL and classes == 1):
        raise ValueError(
            "`problem_type` must match the number of labels: one for regression, at least two for classification. "
            f"Received: problem_type={problem!r} with {classes} label(s)"
        )
    return problem


def _labels(table):
    """Returns the labels of `id2label` in order, or None for transformers' placeholders; numbers may start at 1."""
    if not table:
        return None
    entries = table.items() if isinstance(table, dict) else ()
    found = {int(key): str(name) for key, name in entries if key.isdecimal() and type(name) in (str, int, float)}
    names = [found[number] for number in sorted(found)]
    if min(found, default=2) > 1 or not len(found) == len(set(names)) == len(table) == max(found) - min(found) + 1:
        raise ValueError(
            "`id2label` must map the numbers from 0 or 1 on to different names, one for each label. "
            f"Received: {table!r:.200}"
        )
    return None if names == placeholders(len(names)) else names

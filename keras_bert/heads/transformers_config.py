"""The classes of a model in transformers' `config.json`: their names and `problem_type`."""

from keras_bert.text.answer_settings import placeholders

MULTI_LABEL, SINGLE_LABEL = "multi_label_classification", "single_label_classification"
_PROBLEMS = ("regression", SINGLE_LABEL, MULTI_LABEL)


def classes_to_config(description, labels):
    """Returns the keys of `config.json` for a described model."""
    values = {"problem_type": MULTI_LABEL} if description.multi_label else {}
    if description.num_classes is not None:
        names = labels or placeholders(description.num_classes)
        values["id2label"] = {str(index): name for index, name in enumerate(names)}
        values["label2id"] = {name: index for index, name in enumerate(names)}
    return values


def count_classes(config):
    """Returns the number of classes."""
    return len(config.get("id2label") or {}) or config.get("num_labels", 2)


def our_activation(name, value, known):
    """Returns our name of a class of PyTorch, one of the known ones; `name` is that of the setting."""
    package, _, kind = str(value).rpartition(".")
    names = {theirs.rpartition(".")[2]: ours for ours, theirs in known.items()}
    if kind not in names or not f"{package}.".startswith("torch."):
        raise ValueError(f"`{name}` must be one of {', '.join(known.values())}. Received: {name}={value!r:.200}")
    return names[kind]


def problem_type(config):
    """Returns `problem_type`; raises if it does not match the number of labels."""
    problem, classes = config.get("problem_type"), count_classes(config)
    if problem not in (None, *_PROBLEMS):
        raise ValueError(f"`problem_type` must be one of {', '.join(_PROBLEMS)}. Received: problem_type={problem!r}")
    if (problem == "regression" and classes != 1) or (problem == SINGLE_LABEL and classes == 1):
        raise ValueError(
            "`problem_type` must match the number of labels: one for regression, at least two for classification. "
            f"Received: problem_type={problem!r} with {classes} label(s)"
        )
    return problem


def labels_of(config):
    """Returns the labels of `id2label` in order, or None for transformers' placeholders; numbers may start at 1."""
    table = config.get("id2label")
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

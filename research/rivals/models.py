"""The models that BERT is compared with: built from a config, and described."""

from research.rivals import bidaf, bilm, bilstm_classifier

_FAMILIES = {"bilm": bilm.FAMILY, "bilstm_classifier": bilstm_classifier.FAMILY, "bidaf": bidaf.FAMILY}


def build_rival(config, num_classes=None, pair=True, language_model=None, dtype=None):
    """Builds the model of a config.

    Args:
        config: a `RivalConfig`.
        num_classes: int, number of classes of a classifier, 1 for regression.
        pair: bool, whether a classifier reads pairs of texts. Defaults to `True`.
        language_model: the model of `config.language_model`, if it has one.
        dtype: dtype policy. Defaults to Keras' global dtype policy.
    """
    if config.kind == "bilm":
        return bilm.build_bilm(
            config.vocab_size, width=config.width, num_layers=config.num_layers, dropout=config.dropout, dtype=dtype
        )
    sizes = {"embedding_size": config.embedding_size, "width": config.width, "dropout": config.dropout}
    options = {**sizes, "language_model": language_model, "dtype": dtype}
    if config.kind == "bidaf":
        return bidaf.build_bidaf(config.vocab_size, **options)
    options["num_layers"] = config.num_layers
    return bilstm_classifier.build_bilstm_classifier(config.vocab_size, num_classes, pair=pair, **options)


def describe(model):
    """Describes a model that BERT is compared with, also after it was saved and loaded by Keras.

    Returns:
        A `RivalDescription`.

    Raises:
        ValueError: if no builder makes this graph.
    """
    return _FAMILIES.get(getattr(model, "name", None), bilm.FAMILY).describe(model)

"""The records that a pre-training reads: those of each phase, and those to evaluate on."""

from keras_bert.pretraining.dataset import PackedRecords, Records, find_damage, sequence_length


def open_phases(phases, data, objective, *, vocabulary=None, seed=1, pack=False):
    """Opens the records of each phase, from the source with the phase's sequence length.

    Args:
        phases: list of dicts with `length`, `steps` and `batch`.
        data: list of folders of `generate` or glob patterns of records, one for each sequence length.
        objective: the `Objective`.
        vocabulary: path of the `vocab.txt` for records without one. Defaults to `None`.
        seed: int, shuffle seed; a source used by several phases gets a different one in each. Defaults to 1.
        pack: bool, whether each row of a batch contains several examples. Defaults to `False`.

    Returns:
        A list of `Records`, one for each phase.
    """
    folder_of_length = _folders_by_length(phases, data)
    kind = PackedRecords if pack else Records
    records = []
    lengths = []
    for phase in phases:
        length = phase["length"]
        opened = open_source(
            folder_of_length[length],
            objective,
            vocabulary,
            kind,
            batch_size=phase["batch"],
            seed=seed + lengths.count(length),
        )
        records.append(opened)
        lengths.append(length)
    if any(source.vocabulary != records[0].vocabulary for source in records):
        raise ValueError("`data`: the folders have different vocabularies. Expected the same vocabulary")
    return records


def _folders_by_length(phases, data):
    """Returns the source of each sequence length; raises unless there is one for each length of a phase."""
    wanted = sorted({phase["length"] for phase in phases})
    lengths = [sequence_length(source) for source in data]
    if sorted(lengths) != wanted:
        received = [f"{source} of length {length}" for source, length in zip(data, lengths, strict=True)]
        raise ValueError(
            f"`data`: expected one folder for each length of a phase, {wanted}. Received: {', '.join(received)}"
        )
    return dict(zip(lengths, data, strict=True))


def open_eval_data(source, records, objective, *, vocabulary=None, examples=2000):
    """Opens the records to evaluate on, with the batch size and the vocabulary of the records to train on.

    Args:
        source: folder of `generate` or glob pattern of records.
        records: `Records`, those of the first phase.
        objective: the `Objective`.
        vocabulary: path of the `vocab.txt` for records without one. Defaults to `None`.
        examples: int, the most examples to evaluate on. Defaults to 2,000.
    """
    eval_data = open_source(
        source,
        objective,
        vocabulary,
        batch_size=records.batch_size,
        shuffle=False,
        limit=examples,
    )
    if eval_data.vocabulary != records.vocabulary:
        raise ValueError("`eval_data`: the vocabulary differs from that of `data`. Expected the same vocabulary")
    return eval_data


def open_source(source, objective, vocabulary=None, kind=Records, **options):
    """Opens records; raises unless they have sentence pairs, if the objective needs them.

    `kind` is the class of the records, unless the objective has its own.
    """
    cls = objective.records or kind
    records = cls(source, vocabulary, masking=objective.masking, causal=objective.causal, **options)
    if objective.next_sentence and not records.settings.get("next_sentence", True):
        raise ValueError(f"{source}: the records have no sentence pairs. Add `next_sentence=False`")
    return records


def located(error, data):
    """Returns a `ValueError` that names the damaged record of one of the data, for TensorFlow's error."""
    damage = error.message
    for source in data:
        found = find_damage(source)
        if found:
            damage = found
            break
    return ValueError(f"{damage}. Copy the file again or recreate the data")


def data_facts(records):
    """Returns facts about the records of each phase."""
    facts = {}
    for source in records:
        facts_of_source = {"content": source.content, "vocabulary": source.vocabulary.sha256}
        facts_of_source.update(source.settings)
        facts[f"the data of length {source.sequence_length}"] = facts_of_source
    return facts

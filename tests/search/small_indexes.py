"""Indexes of a few passages whose vectors follow from their texts, without a model: built, changed and compared."""

import numpy as np

from keras_bert.search import changes, index_files
from keras_bert.search.data import Passage
from keras_bert.search.index_files import IndexFacts
from keras_bert.search.nearest import StoredVectors

WIDTH = 8


def passages_of(numbers):
    return [Passage(f"p{number}", f"text {number}") for number in numbers]


def vectors_of(passages, width=WIDTH):
    """Returns vectors that follow from the texts."""
    seeds = [int(passage.text.split()[1]) % 37 for passage in passages]
    return np.array([np.random.default_rng(seed).standard_normal(width) for seed in seeds], "float32")


def keys_of(passages):
    return np.array([index_files.passage_keys(passage) for passage in passages], "uint64")


def facts_of(passages, width=WIDTH, **options):
    values = {
        "model": {},
        "name": None,
        "source": index_files.fingerprint(keys_of(passages)),
        "passages": len(passages),
        "width": width,
        "block": 16384,
        "similarity": "dot",
        "dtype": "float16",
        "approximate": False,
        "query_prompt": "",
        "passage_prompt": "",
        "next_id": len(passages),
        "blocks": (),
    }
    return IndexFacts(**(values | options))


def build(directory, passages, vectors=None, embed=vectors_of, **options):
    """Builds an index of passages, whose vectors are given or follow from the texts; returns its facts."""
    if vectors is not None:
        rows = {passage.id: vector for passage, vector in zip(passages, vectors, strict=True)}
        options["width"] = vectors.shape[1]

        def embed(part):
            return np.stack([rows[passage.id] for passage in part])

    with changes.writing(directory):
        changes.carry_out(directory, changes.plan_build(facts_of(passages, **options)), passages, embed)
    return index_files.find_facts(directory)


def add(directory, passages, embed=vectors_of):
    with changes.writing(directory):
        facts = index_files.find_facts(directory)
        keys = np.concatenate([index_files.read_keys(directory, facts), keys_of(passages)])
        count = len(passages)
        plan = changes.plan_addition(facts, count, index_files.fingerprint(keys), facts.next_id + count)
        changes.carry_out(directory, plan, passages, embed)
    return index_files.find_facts(directory)


def remove(directory, names):
    with changes.writing(directory):
        facts = index_files.find_facts(directory)
        removed = np.array([name in names for name in ids(directory)])
        source = index_files.fingerprint(index_files.read_keys(directory, facts)[~removed])
        changes.carry_out(directory, changes.plan_removal(facts, removed, source))
    return index_files.find_facts(directory)


def ids(directory):
    facts = index_files.find_facts(directory)
    names = []
    for block in facts.blocks:
        lines = index_files.Lines(directory, block)
        names += [lines.passage(row)["id"] for row in range(len(lines))]
    return names


def answers(directory, count):
    """Returns the numbers and scores of all passages for some queries, and the ids of all."""
    facts = index_files.find_facts(directory)
    queries = np.random.default_rng(5).standard_normal((count, facts.width)).astype("float32")
    numbers, scores = StoredVectors(directory, facts).nearest(queries, facts.passages)
    return numbers.tolist(), scores.tolist(), ids(directory), facts.source


def content(folder):
    """Returns the files; a process that is killed as it makes its folder leaves that for an hour, empty."""
    files = {}
    for path in folder.iterdir():
        if path.is_file():
            files[path.name] = path.read_bytes()
        else:
            assert {file.name for file in path.iterdir()} <= {"lock"}
    return files


def files_of(facts):
    """Returns the names of the files that belong to an index, by hand."""
    names = {".lock", "index.json"}
    for block in facts.blocks:
        number = f"{block.number:05}"
        names |= {f"passages-{number}.jsonl", f"offsets-{number}.npy", f"keys-{number}.npy", f"vectors-{number}.faiss"}
    if facts.graph is not None:
        names.add(f"graph-{facts.graph:05}.faiss")
    return names


class Killed(BaseException):
    """Stands for a kill, which no code catches."""

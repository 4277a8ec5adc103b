"""Builds an index: embeds passages block by block, and continues an interrupted build."""

import array
import dataclasses
import functools
import hashlib
import itertools
import os
import pathlib
from typing import Any

import numpy as np

from keras_bert.bert import LoadedBert
from keras_bert.checks import check_choice, check_count
from keras_bert.runs.unchanged_inputs import differences
from keras_bert.search import vector_files
from keras_bert.search.data import Passage, checked_id, read_passages
from keras_bert.search.index import SIMILARITIES, SearchIndex, embed, model_facts, model_similarity
from keras_bert.search.index_files import (
    IndexFacts,
    check_folder,
    passage_line,
    read_facts,
    write_facts,
    write_passages,
)
from keras_bert.text.answer_settings import PASSAGE, QUERY, prompt_for
from keras_bert.training.progress import announced, track

_PART = 512  # Passages between two updates of the progress.
EXACT = 250_000  # Passages up to which the search is exact by default.


def build_index(
    bert: LoadedBert,
    passages: Any,
    directory: str | os.PathLike,
    *,
    dtype: str = "float16",
    similarity: str | None = None,
    approximate: bool | None = None,
    block: int = 16384,
    batch_size: int = 32,
    query_prompt: str | None = None,
    passage_prompt: str | None = None,
    text_column: str = "text",
    name: str | None = None,
) -> SearchIndex:
    """Embeds passages and writes an index to search in.

    Memory is bounded by a block of passages and the vectors of all, 0.8 GB for a million of width 384. An interrupted
    build continues with the first missing block when it is repeated with the same arguments; it refuses to continue
    with others. An index that is complete is opened. Faiss (https://faiss.ai) stores and searches the vectors.

    Args:
        bert: a `LoadedBert`, preferably a sentence encoder.
        passages: the path of a file, see `keras_bert.search.data.read_passages`, or a list of strings, dicts
            (`text` and optionally `id` and `title`) or `Passage`s. Ids must be unique. The title is embedded before the
            text. Passages may be empty.
        directory: folder of the index.
        dtype: str, type of the stored vectors, "float16" or "int8", which takes half of the space. Defaults to
            "float16".
        similarity: str, "cosine", for which vectors are scaled to length 1, or "dot". Defaults to `None`, the
            similarity function of the model, which is the cosine if its directory does not name one.
        approximate: bool, whether to search a graph of the vectors (HNSW) instead of all of them: in milliseconds,
            whatever their number, but without some of the nearest. Defaults to `None`, for more than 250,000
            passages.
        block: int, number of passages that are embedded and written together. Defaults to 16384.
        batch_size: int, see `LoadedBert.encode`. Defaults to 32.
        query_prompt, passage_prompt: str, put before each query and each passage, as some models require. Default to
            `None`, the prompts `query` and `passage` or `document` of the model, or else its default prompt.
        text_column: str, the column of the text in a file. Defaults to "text".
        name: path or name of the model, which `open_index` loads. Defaults to `None`, the model is passed to it.

    Returns:
        A `SearchIndex`.

    Example:
        index = keras_bert.search.build_index(bert, ["A cat sleeps.", "It rains."], "my_index")
        index.search("weather", top=1)
    """
    directory, read, model = pathlib.Path(directory), _reader(passages, text_column), model_facts(bert)
    similarity = model_similarity(bert) if similarity is None else similarity
    _check(dtype, similarity, block)
    width = embed(bert, [""], batch_size, "", similarity).shape[-1]
    with announced("reading the passages"):
        count, source = _survey(read)
    prompts: dict[str, Any] = {
        "query_prompt": prompt_for(bert, *QUERY) if query_prompt is None else query_prompt,
        "passage_prompt": prompt_for(bert, *PASSAGE) if passage_prompt is None else passage_prompt,
    }
    approximate = count > EXACT if approximate is None else bool(approximate)
    facts = IndexFacts(model, name, source, count, width, block, similarity, dtype, approximate, **prompts)
    facts = _begin(directory, facts)
    if not vector_files.vectors_path(directory).is_file():
        sizes = [facts.rows(n) for n in range(facts.blocks) if not vector_files.block_path(directory, n).is_file()]
        work = _write_blocks(bert, read, directory, facts, batch_size)
        for _ in track(work, f"embedding, parts of {_PART}", sum(-(-size // _PART) for size in sizes)):
            pass
        with announced("joining the vectors"):
            vector_files.join_blocks(directory, facts)
    for number in range(facts.blocks):
        vector_files.block_path(directory, number).unlink(missing_ok=True)
    write_facts(directory, dataclasses.replace(facts, complete=True))
    return SearchIndex(directory, bert)


def _check(dtype, similarity, block):
    if dtype not in ("float16", "int8"):
        raise ValueError(f"`dtype` must be float16 or int8. Received: dtype={dtype!r}")
    check_choice("similarity", similarity, SIMILARITIES)
    check_count("block", block)


def _reader(passages, text_column):
    """Returns a function that yields the passages from the first one."""
    if isinstance(passages, str | pathlib.Path):
        return functools.partial(read_passages, passages, text_column)
    rows = [_passage(number, passage) for number, passage in enumerate(passages)]
    if not rows:
        raise ValueError("`passages` must not be empty")
    return lambda: iter(rows)


def _passage(number, value):
    row, place = value._asdict() if isinstance(value, Passage) else value, f"`passages[{number}]`"
    row = {"text": value} if isinstance(value, str) else row
    if not isinstance(row, dict) or not isinstance(row.get("text"), str):
        raise ValueError(f"{place} must be a string, a `Passage` or a dict with `text`. Received: {value!r:.200}")
    name, title = checked_id(place, "id", row.get("id", row.get("_id", number))), row.get("title")
    if not isinstance(title, str | None):
        raise ValueError(f"{place}: `title` must be a string. Received: {title!r:.80}")
    return Passage(name, row["text"], title or "")


def _survey(read):
    """Reads the passages once. Returns their number and fingerprint; raises an error if two have the same id."""
    digest, ids = hashlib.sha256(), array.array("q")  # Hashes of the ids, which take less memory.
    for passage in read():
        digest.update(passage_line(passage))
        ids.append(hash(passage.id))
    hashes, counts = np.unique(np.asarray(ids), return_counts=True)
    if repeated := set(hashes[counts > 1].tolist()):
        seen = {}
        for number, passage in enumerate(read(), 1):
            if hash(passage.id) in repeated and seen.setdefault(passage.id, number) != number:
                raise ValueError(
                    f"passages {seen[passage.id]:,} and {number:,} have the id {passage.id!r}. Expected unique ids"
                )
    return len(ids), digest.hexdigest()[:16]


def _begin(directory, facts):
    """Writes the facts of a new index, or compares them with those of an interrupted build; returns them.

    A build without the name of the model keeps the one that the index has.
    """
    check_folder(directory)
    before = read_facts(directory)
    if before is None:
        write_facts(directory, facts)
        return facts
    ignored = {"name": None, "complete": False}
    first, second = (_flat(dataclasses.replace(each, **ignored)) for each in (before, facts))
    if different := differences(first, second):
        raise ValueError(
            f"{directory} is an index of other passages, of another model or with other options, which this build "
            f"cannot continue. Different: {'; '.join(different)}. Choose another folder, or remove this one"
        )
    return dataclasses.replace(facts, name=facts.name or before.name)


def _flat(facts):
    values = dataclasses.asdict(facts)
    return {**values.pop("model"), **values}


def _write_blocks(bert, read, directory, facts, batch_size):
    """Embeds and writes the missing blocks; yields after each part of one, for the progress."""
    passages = iter(read())
    for number in range(facts.blocks):
        block = list(itertools.islice(passages, facts.rows(number)))
        if vector_files.block_path(directory, number).is_file():
            continue
        texts, vectors = [passage.content for passage in block], np.zeros([len(block), facts.width], "float32")
        order = sorted(range(len(block)), key=lambda row, texts=texts: len(texts[row]), reverse=True)
        for start in range(0, len(block), _PART):
            rows = order[start : start + _PART]
            vectors[rows] = embed(
                bert, [texts[row] for row in rows], batch_size, facts.passage_prompt, facts.similarity
            )
            _check_vectors(vectors[rows], [block[row] for row in rows])
            yield
        write_passages(directory, number, block)
        vector_files.write_block(directory, number, vectors)


def _check_vectors(vectors, block):
    wrong = np.flatnonzero(~np.isfinite(vectors).all(-1))
    if len(wrong):
        raise FloatingPointError(f"the model gives NaN or infinity for the passage with the id {block[wrong[0]].id!r}")

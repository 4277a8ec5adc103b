"""An index of passages, built block by block and searched for those whose vectors are nearest to that of a query."""

import array
import dataclasses
import functools
import json
import logging
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_bert.bert import LoadedBert, load
from keras_bert.checkpoints.loaded import model_identity
from keras_bert.checks import check_choice, check_count
from keras_bert.heads.prompts import PASSAGE, QUERY, prompt_for
from keras_bert.heads.registry import head_named
from keras_bert.progress import announced
from keras_bert.runs.unchanged_inputs import differences
from keras_bert.search import changes, index_files
from keras_bert.search.data import checked_id, passage_reader
from keras_bert.search.index_files import PENDING, IndexFacts, Lines
from keras_bert.search.nearest import StoredVectors
from keras_bert.similarity import unit
from keras_bert.text.token_counts import told_once

_LOG = logging.getLogger("keras_bert")
SIMILARITIES = ("cosine", "dot")
MANY = 1_000_000  # Passages above which a message says that a graph would be searched faster.
# Metadata that has no influence on vectors.
_WITHOUT_INFLUENCE = {
    "head",
    "labels",
    "multi_label",
    "score_activation",
    "task",
    "pair",
    "null_threshold",
    "thresholds",
    "confidence",
    "features",
    "tied",
    "similarity_function",
}


def open_index(directory: str | os.PathLike, bert: LoadedBert | None = None) -> "SearchIndex":
    """Opens an index that `build_index` has written.

    Args:
        directory: folder of the index.
        bert: the `LoadedBert` that the index was built with, or its path or name. Another one is refused. Defaults to
            the path or name that was stored, which is loaded when the first query is asked.

    Returns:
        A `SearchIndex`.

    Example:
        keras_bert.search.open_index("my_index").search("weather", n_best=3)
    """
    return SearchIndex(directory, bert)


class SearchIndex:
    """An index on disk. Its vectors and passages are memory-mapped, so that it may be larger than the memory.

    It answers from what the index contained when it was opened, also while another process changes it.

    Attributes:
        directory: the folder.
        facts: the `IndexFacts`.
    """

    def __init__(self, directory: str | os.PathLike, bert: LoadedBert | None = None):
        self.directory = pathlib.Path(directory)
        self._open()
        self._name = self.facts.name if bert is None else bert
        if bert is not None and not isinstance(bert, str | pathlib.Path):
            self._check_model(bert)
            self.bert = bert

    def _open(self):
        facts = index_files.find_facts(self.directory)
        while True:
            try:
                lines = [Lines(self.directory, block) for block in facts.blocks]
                vectors = StoredVectors(self.directory, facts)
                break
            except (ValueError, FileNotFoundError):
                newer = index_files.find_facts(self.directory)
                if newer == facts:
                    raise
                facts = newer  # Another process has just changed the index.
        self.facts = facts
        self._lines = lines
        self._vectors = vectors
        self._starts = np.cumsum([0, *map(len, lines)])

    def __len__(self):
        """The number of passages."""
        return self.facts.passages

    def __repr__(self):
        return f"SearchIndex({str(self.directory)!r}, {len(self):,} passages, {self.facts.dtype})"

    def search(self, queries: str | Sequence[str], n_best: int = 10, *, batch_size: int = 32) -> Any:
        """Finds the passages that are most similar to queries.

        Args:
            queries: a list of strings, or one string.
            n_best: int, number of passages per query. Defaults to 10; all if the index has fewer.
            batch_size: int, see `LoadedBert.encode`. Defaults to 32.

        Returns:
            A list of lists of dicts, best first, with `id`, `score`, `text` and, if it has one, `title`; for one string
            alone, its list of dicts. Hits with equal scores are in the order of the file.

        Example:
            index.search(["weather", "pets"], n_best=1)
        """
        is_single = isinstance(queries, str)
        texts = [queries] if is_single else queries
        if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"`queries` must be a string or a list of strings. Received: queries={queries!r:.200}")
        vectors = np.zeros([0, self.facts.width], "float32")
        if texts:
            vectors = embed(self.bert, list(texts), batch_size, self.facts.query_prompt, self.facts.similarity)
        numbers, scores = self.nearest(vectors, n_best)
        hits = []
        for query_numbers, query_scores in zip(numbers.tolist(), scores.tolist(), strict=True):
            hits.append(list(map(self._hit, query_numbers, query_scores)))
        return hits[0] if is_single else hits

    def nearest(self, vectors, n_best=10):
        """Finds the passages that are nearest to vectors.

        Args:
            vectors: array `(queries, width)`, of length 1 if the similarity is the cosine.
            n_best: int, number of passages per vector. Defaults to 10; all if the index has fewer.

        Returns:
            Integer array of the numbers of passages and float32 array of scores, `(queries, n_best)`, best first.
        """
        check_count("n_best", n_best)
        vectors = np.asarray(vectors, "float32")
        if vectors.ndim != 2 or vectors.shape[1] != self.facts.width:
            raise ValueError(f"`vectors` must have shape (queries, {self.facts.width}). Received: {vectors.shape}")
        if not np.isfinite(vectors).all():
            raise ValueError("`vectors` must be finite. Received: NaN or infinity")
        return self._vectors.nearest(vectors, min(n_best, len(self)))

    def passage(self, number):
        """Returns a passage by its number, a dict with `id`, `title` and `text`, without reading the whole file."""
        if not 0 <= number < len(self):
            raise ValueError(f"`number` must be that of a passage, 0 to {len(self) - 1}. Received: number={number}")
        block = int(np.searchsorted(self._starts, number, side="right")) - 1
        return self._lines[block].passage(number - int(self._starts[block]))

    def ids(self):
        """Yields the ids of all passages in order."""
        for number in range(len(self)):
            yield self.passage(number)["id"]

    @told_once()
    def add(self, passages: Any, *, text_column: str = "text", batch_size: int = 32) -> None:
        """Adds passages to the end of the index, which then answers as one that is built of all of them.

        An addition that is interrupted leaves the index as it was, and continues when it is repeated. int8 keeps the
        ranges of the coordinates that the first passages gave.

        Args:
            passages: see `build_index`. Their ids must be new; rows without an id are counted on from those of the
                index.
            text_column: str, the column of the text in a file. Defaults to "text".
            batch_size: int, see `LoadedBert.encode`. Defaults to 32.

        Example:
            index.add(["It snows.", {"id": "sun", "text": "The sun shines."}])
        """
        embed_passages = passage_embedder(self.bert, self.facts, batch_size)
        with changes.writing(self.directory):
            self._open()
            facts = self.facts
            read = passage_reader(passages, text_column, facts.next_id)
            with announced("reading the passages"):
                keys = survey(read)
            before = index_files.read_keys(self.directory, facts)
            self._check_new(read, keys, before)
            source = index_files.fingerprint(np.concatenate([before, keys]))
            plan = changes.plan_addition(facts, len(keys), source, facts.next_id + len(keys))
            changes.carry_out(self.directory, plan, read(), embed_passages)
        self._open()

    def _check_new(self, read, keys, before):
        """Raises an error if a passage of the index has the id of a new one."""
        repeated = set(np.flatnonzero(np.isin(keys[:, 0], before[:, 0])).tolist())
        if not repeated:
            return
        for number, passage in enumerate(read()):
            if number not in repeated:
                continue
            numbers = np.flatnonzero(before[:, 0] == keys[number, 0]).tolist()
            if any(self.passage(other)["id"] == passage.id for other in numbers):
                raise ValueError(
                    f"`passages`: the index already has a passage with the id {passage.id!r}. Remove it first, or give "
                    "the new one another id"
                )

    def remove(self, ids: Any) -> None:
        """Removes passages from the index, which then answers as one that is built of the others.

        A removal that is interrupted leaves the index as it was, and continues when it is repeated.

        Args:
            ids: a list of the ids of passages, or one of them. Each must be in the index.

        Example:
            index.remove(["sun"])
        """
        if isinstance(ids, str | int):
            ids = [ids]
        wanted = {checked_id("`ids`", "id", name) for name in ids}
        with changes.writing(self.directory):
            self._open()
            keys = index_files.read_keys(self.directory, self.facts)
            removed = self._are_wanted(wanted, keys)
            if removed.all():
                raise ValueError(f"`ids` must leave a passage in the index. Received: all of its {len(self):,}")
            if removed.any():
                source = index_files.fingerprint(keys[~removed])
                changes.carry_out(self.directory, changes.plan_removal(self.facts, removed, source))
        self._open()

    def _are_wanted(self, ids, keys):
        """Returns which passages have some ids, a boolean array; raises an error if the index lacks one of them."""
        hashes = np.array([index_files.id_key(name) for name in ids], "uint64")
        is_one = np.isin(keys[:, 0], hashes)
        missing = set(ids)
        for number in np.flatnonzero(is_one).tolist():
            name = self.passage(number)["id"]
            is_one[number] = name in ids
            missing.discard(name)
        if missing:
            message = f"the index has no passage with the id {min(missing)!r}"
            if len(missing) > 1:
                message += f", and {len(missing) - 1:,} others"
            raise ValueError(message)
        return is_one

    @functools.cached_property
    def bert(self):
        """The model, loaded when it is first needed unless it was given."""
        if self._name is None:
            raise ValueError(
                f"{self.directory} does not name its model. Expected the model, or its name, with which it was built"
            )
        bert = load(self._name)
        self._check_model(bert)
        return bert

    def _check_model(self, bert):
        different = differences(model_facts(bert), self.facts.model)
        if different:
            raise ValueError(
                f"{self.directory} was built with another model, whose vectors cannot be compared. Different: "
                f"{'; '.join(different)}. Expected the model {self.facts.name or 'that it was built with'}; for "
                "another one, build another index"
            )

    def _hit(self, number, score):
        """Returns what `search` says of a passage."""
        passage = self.passage(number)
        hit = {"id": passage["id"], "score": score, "text": passage["text"]}
        if passage["title"]:
            hit["title"] = passage["title"]
        return hit


def model_similarity(bert):
    """Returns the similarity function of a model, or raises an error if an index cannot search by it."""
    if bert.similarity_function not in SIMILARITIES:
        raise ValueError(
            f"the model compares vectors by {bert.similarity_function} distance, which an index does not. Expected "
            f"similarity={' or similarity='.join(SIMILARITIES)}"
        )
    return bert.similarity_function


def embed(bert, texts, batch_size: int, prompt: str, similarity: str):
    """Returns the vectors of texts, float32 `(texts, width)`; for the similarity "cosine" of length 1, or zeros.

    The prompt is put before each text; the other similarity is "dot".
    """
    vectors = bert.encode(texts, batch_size=batch_size, prompt=prompt)
    if similarity == "cosine":
        return unit(vectors)
    return vectors


def model_facts(bert):
    """Returns a dict of what the vectors of `bert.encode` depend on, to be stored as JSON, without defaults."""
    if not isinstance(bert, LoadedBert):
        raise ValueError(f"an index needs a BERT that `keras_bert.load` returns. Received: {bert!r:.100}")
    model = _embedding_model(bert)
    facts = model_identity(bert.metadata, bert.config, _arrays(model, bert.has_pooler))
    return {name: value for name, value in facts.items() if name not in _WITHOUT_INFLUENCE}


def _arrays(model, has_pooler):
    """Yields the weights as float32, without those of a pooler that the checkpoint lacks, which are random."""
    for weight in model.weights:
        if has_pooler or "pooler/" not in weight.path:
            yield keras.ops.convert_to_numpy(keras.ops.cast(weight.value, "float32"))


def _embedding_model(bert):
    return bert.model() if head_named(bert.head).embeds else bert.encoder


def width_of(bert):
    """Returns the width of the vectors of `bert.encode`."""
    outputs = _embedding_model(bert).output
    vectors = outputs["embedding"] if "embedding" in outputs else outputs["sequence_output"]
    return vectors.shape[-1]


def passage_embedder(bert, facts, batch_size):
    """Returns a function that embeds a list of passages for an index."""

    def embed_passages(passages):
        texts = [passage.content for passage in passages]
        vectors = embed(bert, texts, batch_size, facts.passage_prompt, facts.similarity)
        _check_vectors(vectors, passages)
        return vectors

    return embed_passages


@told_once()
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

    Memory is bounded by a block of passages; a graph is in memory as a whole, 1.1 GB for a million of width 384. An
    interrupted build continues with the first missing block when it is repeated with the same arguments; it refuses
    to continue with others. An index that is complete is opened. One process at a time writes to an index. Faiss
    (https://faiss.ai) stores and searches the vectors.

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
            whatever their number, but without some of the nearest. Defaults to `None`, all of them; above a million
            passages, a message says what that costs.
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
        index.search("weather", n_best=1)
    """
    directory = pathlib.Path(directory)
    read = passage_reader(passages, text_column)
    model = model_facts(bert)
    if similarity is None:
        similarity = model_similarity(bert)
    _check_options(dtype, similarity, block)
    if query_prompt is None:
        query_prompt = prompt_for(bert, *QUERY)
    if passage_prompt is None:
        passage_prompt = prompt_for(bert, *PASSAGE)
    with announced("reading the passages"):
        keys = survey(read)
    if approximate is None and len(keys) > MANY:
        _tell_of_graphs(len(keys))
    facts = IndexFacts(
        model=json.loads(json.dumps(model, allow_nan=False)),
        name=name,
        source=index_files.fingerprint(keys),
        passages=len(keys),
        width=width_of(bert),
        block=block,
        similarity=similarity,
        dtype=dtype,
        approximate=bool(approximate),
        query_prompt=query_prompt,
        passage_prompt=passage_prompt,
        next_id=len(keys),
        blocks=(),
    )
    index_files.check_folder(directory)
    if not _is_built(directory, facts) or changes.has_leftovers(directory):
        with changes.writing(directory):
            if not _is_built(directory, facts):  # Another process may have built it.
                facts = _continued(directory, facts)
                embed_passages = passage_embedder(bert, facts, batch_size)
                changes.carry_out(directory, changes.plan_build(facts), read(), embed_passages)
    return SearchIndex(directory, bert)


def _check_options(dtype, similarity, block):
    if dtype not in ("float16", "int8"):
        raise ValueError(f"`dtype` must be float16 or int8. Received: dtype={dtype!r}")
    check_choice("similarity", similarity, SIMILARITIES)
    check_count("block", block)


def _tell_of_graphs(count):
    _LOG.info(
        "%s passages: each query is compared with all of them, in about %.1f seconds of one core. approximate=True "
        "searches a graph instead, which takes about %d minutes of one core to build",
        f"{count:,}",
        count / 1e7,
        count / 1e5,
    )


def survey(read):
    """Reads the passages once. Returns their keys, see `index_files`; raises an error if two have the same id."""
    keys = array.array("Q")
    for passage in read():
        keys.extend(index_files.passage_keys(passage))
    keys = np.array(keys, "uint64").reshape(-1, 2)
    hashes, counts = np.unique(keys[:, 0], return_counts=True)
    repeated = hashes[counts > 1]
    if len(repeated):
        _check_unique(read, np.isin(keys[:, 0], repeated))
    return keys


def _check_unique(read, is_suspect):
    """Raises an error if two of the suspect passages, those whose ids have the same hash, have the same id."""
    seen = {}
    for number, passage in enumerate(read(), 1):
        if is_suspect[number - 1] and seen.setdefault(passage.id, number) != number:
            raise ValueError(
                f"passages {seen[passage.id]:,} and {number:,} have the id {passage.id!r}. Expected unique ids"
            )


def _is_built(directory, facts):
    """Whether a folder has the index of these facts; raises an error if it has another one.

    The name of the model is updated, unless it is `None`.
    """
    built = index_files.read_facts(directory)
    if built is None:
        return False
    _check_same(directory, built, facts)
    if facts.name not in (None, built.name):
        with changes.writing(directory):
            index_files.write_facts(directory, dataclasses.replace(built, name=facts.name))
    return True


def _continued(directory, facts):
    """Returns the facts to build, with the name of the model that an interrupted build had if they have none."""
    pending = index_files.read_facts(directory, PENDING)
    if pending is None:
        return facts
    _check_same(directory, pending, facts)
    return dataclasses.replace(facts, name=facts.name or pending.name)


def _check_same(directory, before, facts):
    different = differences(_flat(before), _flat(facts))
    if different:
        raise ValueError(
            f"{directory} is an index of other passages, of another model or with other options, which this build "
            f"cannot continue. Different: {'; '.join(different)}. Choose another folder, or remove this one"
        )


def _flat(facts):
    """Returns the facts that two builds of the same index have in common."""
    values = dataclasses.asdict(facts)
    for name in ("name", "next_id", "blocks", "graph", "longest"):
        del values[name]
    model = values.pop("model")
    return model | values


def _check_vectors(vectors, passages):
    wrong = np.flatnonzero(~np.isfinite(vectors).all(-1))
    if len(wrong):
        name = passages[wrong[0]].id
        raise FloatingPointError(f"the model gives NaN or infinity for the passage with the id {name!r}")

"""An index of passages, built block by block and searched for those whose vectors are nearest to that of a query."""

import array
import dataclasses
import functools
import hashlib
import itertools
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_bert.bert import LoadedBert, load
from keras_bert.checkpoints.loaded import model_identity
from keras_bert.checks import check_choice, check_count
from keras_bert.heads.registry import head_named
from keras_bert.runs.unchanged_inputs import differences
from keras_bert.search import index_files, vector_files
from keras_bert.search.data import Passage, checked_id, read_passages
from keras_bert.search.index_files import IndexFacts
from keras_bert.similarity import unit
from keras_bert.text.answer_settings import PASSAGE, QUERY, prompt_for
from keras_bert.text.token_counts import told_once
from keras_bert.training.progress import announced, track

SIMILARITIES = ("cosine", "dot")
_PART = 512  # Passages between two updates of the progress.
EXACT = 250_000  # Passages up to which the search is exact by default.
# Metadata that has no influence on vectors.
_WITHOUT_INFLUENCE = {"head", "labels", "multi_label", "score_activation", "task", "pair", "null_threshold"}
_WITHOUT_INFLUENCE |= {"thresholds", "features", "tied", "similarity_function"}


def open_index(directory: str | os.PathLike, bert: LoadedBert | None = None) -> "SearchIndex":
    """Opens an index that `build_index` has written.

    Args:
        directory: folder of the index.
        bert: the `LoadedBert` that the index was built with, or its path or name. Another one is refused. Defaults to
            the path or name that was stored, which is loaded when the first query is asked.

    Returns:
        A `SearchIndex`.

    Example:
        keras_bert.search.open_index("my_index").search("weather", top=3)
    """
    return SearchIndex(directory, bert)


class SearchIndex:
    """An index on disk. Its vectors and passages are memory-mapped, so that it may be larger than the memory.

    Attributes:
        directory: the folder.
        facts: the `IndexFacts`.
    """

    def __init__(self, directory: str | os.PathLike, bert: LoadedBert | None = None):
        self.directory, self.facts = pathlib.Path(directory), index_files.find_facts(directory)
        self._offsets = [index_files.open_offsets(directory, number, self.facts) for number in range(self.facts.blocks)]
        self._vectors = vector_files.open_vectors(directory, self.facts)
        self._name = self.facts.name if bert is None else bert
        if bert is not None and not isinstance(bert, str | pathlib.Path):
            self._check_model(bert)
            self.bert = bert

    def __len__(self):
        """The number of passages."""
        return self.facts.passages

    def __repr__(self):
        return f"SearchIndex({str(self.directory)!r}, {len(self):,} passages, {self.facts.dtype})"

    def search(self, queries: str | Sequence[str], top: int = 10, *, batch_size: int = 32) -> Any:
        """Finds the passages that are most similar to queries.

        Args:
            queries: a list of strings, or one string.
            top: int, number of passages per query. Defaults to 10; all if the index has fewer.
            batch_size: int, see `LoadedBert.encode`. Defaults to 32.

        Returns:
            A list of lists of dicts, best first, with `id`, `score`, `text` and, if it has one, `title`; for one string
            alone, its list of dicts. Hits with equal scores are in the order of the file.

        Example:
            index.search(["weather", "pets"], top=1)
        """
        is_single = isinstance(queries, str)
        texts = [queries] if is_single else queries
        if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"`queries` must be a string or a list of strings. Received: queries={queries!r:.200}")
        vectors = np.zeros([0, self.facts.width], "float32")
        if texts:
            vectors = embed(self.bert, list(texts), batch_size, self.facts.query_prompt, self.facts.similarity)
        numbers, scores = self.nearest(vectors, top)
        hits = [list(map(self._hit, *row)) for row in zip(numbers.tolist(), scores.tolist(), strict=True)]
        return hits[0] if is_single else hits

    def nearest(self, vectors, top=10):
        """Finds the passages that are nearest to vectors.

        Args:
            vectors: array `(queries, width)`, of length 1 if the similarity is the cosine.
            top: int, number of passages per vector. Defaults to 10; all if the index has fewer.

        Returns:
            Integer array of the numbers of passages and float32 array of scores, `(queries, top)`, best first.
        """
        check_count("top", top)
        vectors = np.asarray(vectors, "float32")
        if vectors.ndim != 2 or vectors.shape[1] != self.facts.width:
            raise ValueError(f"`vectors` must have shape (queries, {self.facts.width}). Received: {vectors.shape}")
        if not np.isfinite(vectors).all():
            raise ValueError("`vectors` must be finite. Received: NaN or infinity")
        return vector_files.nearest(self._vectors, vectors, min(top, len(self)))

    def passage(self, number):
        """Returns a passage by its number, a dict with `id`, `title` and `text`, without reading the whole file."""
        if not 0 <= number < len(self):
            raise ValueError(f"`number` must be that of a passage, 0 to {len(self) - 1}. Received: number={number}")
        block, row = divmod(number, self.facts.block)
        start, end = self._offsets[block][row : row + 2].tolist()
        path = index_files.passages_path(self.directory, block)
        with open(path, "rb") as file:
            file.seek(start)
            return index_files.read_passage(path, row + 1, file.read(end - start))

    def ids(self):
        """Yields the ids of all passages in order."""
        for block in range(self.facts.blocks):
            path = index_files.passages_path(self.directory, block)
            with open(path, "rb") as file:
                for line, content in enumerate(file, 1):
                    yield index_files.read_passage(path, line, content)["id"]

    @functools.cached_property
    def bert(self):
        """The model, loaded when it is first needed unless it was given."""
        if self._name is None:
            raise ValueError(f"{self.directory} does not name its model. Pass it as `bert`")
        bert = load(self._name)
        self._check_model(bert)
        return bert

    def _check_model(self, bert):
        if different := differences(model_facts(bert), self.facts.model):
            raise ValueError(
                f"{self.directory} was built with another model, whose vectors cannot be compared. Different: "
                f"{'; '.join(different)}. Expected the model {self.facts.name or 'that it was built with'}; for "
                "another one, build another index"
            )

    def _hit(self, number, score):
        passage = self.passage(number)
        title = {"title": passage["title"]} if passage["title"] else {}
        return {"id": passage["id"], "score": score, "text": passage["text"], **title}


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
    return unit(vectors) if similarity == "cosine" else vectors


def model_facts(bert):
    """Returns a dict of what the vectors of `bert.encode` depend on, to be stored as JSON, without defaults."""
    if not isinstance(bert, LoadedBert):
        raise ValueError(f"an index needs a BERT that `keras_bert.load` returns. Received: {bert!r:.100}")
    model = bert.model() if head_named(bert.head).embeds else bert.encoder
    # A pooler that the checkpoint lacks is random.
    weights = [weight for weight in model.weights if bert.has_pooler or "pooler/" not in weight.path]
    arrays = (keras.ops.convert_to_numpy(keras.ops.cast(weight.value, "float32")) for weight in weights)
    facts = model_identity(bert.metadata, bert.config, arrays)
    return {name: value for name, value in facts.items() if name not in _WITHOUT_INFLUENCE}


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
    index_files.write_facts(directory, dataclasses.replace(facts, complete=True))
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
        digest.update(index_files.passage_line(passage))
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
    index_files.check_folder(directory)
    before = index_files.read_facts(directory)
    if before is None:
        index_files.write_facts(directory, facts)
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
        index_files.write_passages(directory, number, block)
        vector_files.write_block(directory, number, vectors)


def _check_vectors(vectors, block):
    wrong = np.flatnonzero(~np.isfinite(vectors).all(-1))
    if len(wrong):
        raise FloatingPointError(f"the model gives NaN or infinity for the passage with the id {block[wrong[0]].id!r}")

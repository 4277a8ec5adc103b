"""An index of passages that is searched for those whose vectors are nearest to that of a query."""

import functools
import os
import pathlib

import keras
import numpy as np

from keras_bert.bert import LoadedBert, load
from keras_bert.checkpoints.loaded import model_identity
from keras_bert.checks import check_count
from keras_bert.heads.registry import head_named
from keras_bert.runs.unchanged_inputs import differences
from keras_bert.search import vector_files
from keras_bert.search.index_files import find_facts, open_offsets, passages_path, read_passage
from keras_bert.similarity import unit

SIMILARITIES = ("cosine", "dot")
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
        self.directory, self.facts = pathlib.Path(directory), find_facts(directory)
        self._offsets = [open_offsets(directory, number, self.facts) for number in range(self.facts.blocks)]
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

    def search(self, queries, top=10, *, batch_size=32):
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
        path = passages_path(self.directory, block)
        with open(path, "rb") as file:
            file.seek(start)
            return read_passage(path, row + 1, file.read(end - start))

    def ids(self):
        """Yields the ids of all passages in order."""
        for block in range(self.facts.blocks):
            path = passages_path(self.directory, block)
            with open(path, "rb") as file:
                for line, content in enumerate(file, 1):
                    yield read_passage(path, line, content)["id"]

    @functools.cached_property
    def bert(self):
        """The model, loaded when it is first needed unless it was given."""
        if self._name is None:
            raise ValueError(f"{self.directory} does not name its model. Pass it as `bert`, or with --model")
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

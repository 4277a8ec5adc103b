"""Semantic search: builds an index of passages, and finds those that are most similar to queries.

    python -m pipelines.search --model=sentence-transformers/all-MiniLM-L6-v2 --index=my_index --input=passages.jsonl
    python -m pipelines.search --index=my_index --query="How do I reset my password?"
    python -m pipelines.search --index=my_index --add=more.jsonl
    python -m pipelines.search --index=my_index --remove=returns --remove=hours
    python -m pipelines.search --index=my_index --queries=queries.txt --output=results.jsonl
    python -m pipelines.search --index=my_index --queries=queries.jsonl --relevance=qrels.tsv --rerank=my_cross_encoder
    python -m pipelines.search --model=sentence-transformers/all-MiniLM-L6-v2 --index=squad --squad=dev-v1.1.json

Passages and queries are rows of JSON lines, JSON, CSV, TSV or Parquet with `text` and optionally `id` and `title`, or
one text per line; each may be compressed by gzip. An interrupted build or change continues when the command is
repeated. The index stores where its model is, so that queries do not need `--model`.

Prints a line for each hit: score, id and text, separated by tabs; with `--output`, writes a line of JSON per query.
With `--relevance`, prints recall@1, recall@10, MRR@10 and nDCG@10. `--squad` builds an index of the paragraphs of a
file in SQuAD's format and scores the search with its questions.
"""

import contextlib
import functools
import os
import pathlib
import shlex

import keras_bert
from keras_bert.data.text_files import stream_lines, valid_text
from keras_bert.files import replacing
from keras_bert.progress import announced
from keras_bert.search import data, metrics
from keras_bert.search.hits import ask, json_line, readable, warn_of_unknown
from keras_bert.search.index_files import check_folder, find_facts

from . import command
from .arguments import CommandArguments, flag

_BUILD = ("dtype", "approximate", "similarity", "query_prompt", "passage_prompt", "block")
_ASKED = "query or queries or squad"
_DEPTH = 10  # Of the metrics.


class Arguments(CommandArguments):
    input: str = flag(None, "File of passages, to build an index.", is_file=True, section="data")
    add: str = flag(None, "File of passages to add to the index.", is_file=True, excludes=("input", "squad"))
    remove: list[str] = flag(
        None,
        "Id or ids of passages to remove from the index.",
        repeatable=True,
        excludes=("input", "squad", "add"),
    )
    remove_file: str = flag(
        None,
        "File of such ids, one per line.",
        is_file=True,
        excludes=("input", "squad", "add", "remove"),
    )
    text_column: str = flag("text", "Column of the text of passages and queries.", excludes=("squad",))
    query: list[str] = flag(None, "Query or queries to answer.", repeatable=True)
    queries: str = flag(None, "File of queries to answer.", is_file=True, excludes=("query",))
    relevance: str = flag(
        None,
        "File of relevant passages: query_id, passage_id and optionally grade, or TREC's qrels.",
        is_file=True,
        needs="queries",
    )
    squad: str = flag(
        None,
        "File in SQuAD's format: paragraphs and their questions.",
        is_file=True,
        excludes=("input", "query", "queries", "relevance"),
    )
    index: str = flag(None, "Folder of the index.", required=True, section="index")
    model: str = flag(None, "Directory or name of the model; default: the one that built the index.")
    dtype: str = flag("float16", "Type of the stored vectors.", values=["float16", "int8"])
    approximate: bool = flag(None, "Searches a graph of the vectors (HNSW) instead of all of them.")
    similarity: str = flag(
        None, "Similarity of vectors; default: the similarity function of the model.", values=["cosine", "dot"]
    )
    query_prompt: str = flag(None, "Text to put before each query, if the model requires one.")
    passage_prompt: str = flag(None, "Text to put before each passage.")
    block: int = flag(16384, "Passages that are embedded and written together.", least=1)
    batch_size: int = flag(32, "Batch size.", least=1)
    n_best: int = flag(10, "Number of passages per query.", least=1, needs=_ASKED, section="search")
    rerank: str = flag(None, "Model of pairs that reorders the best passages.", needs=_ASKED)
    rerank_top: int = flag(50, "Number of passages to reorder.", least=1, needs="rerank")
    rerank_label: str = flag(None, "Its label of relevant pairs; default: the last one of two.", needs="rerank")
    output: str = flag(
        None, "File to write, one line of JSON per query; default: prints the hits.", needs=_ASKED, section="output"
    )

    @functools.cached_property
    def sources(self):
        """The passages or their file, the queries, and which passages are relevant; `None` or empty without."""
        if self.squad:
            data_set = data.read_squad(self.squad)
            return data_set.passages, data_set.queries, data_set.relevance
        if self.queries:
            queries = data.read_queries(self.queries, self.text_column)
        else:
            queries = self._queries_of_flags()
        relevance = None
        if self.relevance:
            relevance = data.read_relevance(self.relevance)
        return self.input, queries, relevance

    def _queries_of_flags(self):
        """Returns the queries that are given as flags, whose ids are their numbers."""
        queries = []
        for number, text in enumerate(self.query or ()):
            query = data.Query(str(number), valid_text(text))
            if not query.text.strip():
                raise ValueError("--query must not be empty")
            queries.append(query)
        return queries

    @functools.cached_property
    def removed(self):
        """The ids of passages to remove."""
        if not self.remove_file:
            return list(self.remove or ())
        lines = stream_lines(pathlib.Path(self.remove_file))
        return [line for _, line in lines if line.strip()]

    @property
    def changes(self):
        """Whether passages are added or removed."""
        return bool(self.add or self.remove or self.remove_file)

    @property
    def depth(self):
        """The number of passages that are needed of each query."""
        _, _, relevance = self.sources
        return max(self.n_best, _DEPTH) if relevance else self.n_best


def check(arguments):
    if arguments.rerank and arguments.rerank_top < arguments.depth:
        received = f"--rerank_top={arguments.rerank_top}"
        raise ValueError(f"--rerank_top must be at least {arguments.depth} here. Received: {received}")
    # The passages to index, or the index to search.
    passages, queries, _ = arguments.sources
    if not passages and not queries and not arguments.changes:
        raise ValueError(
            "expected --input=FILE to build the index, --query or --queries to search it, or --add or --remove to "
            "change it"
        )
    arguments.only(passages, "for building an index, with --input or --squad", *_BUILD)
    if not passages:
        find_facts(arguments.index)
        _check_changes(arguments)
        return
    if not arguments.model:
        raise ValueError("--model is required to build an index: a directory or a name of a sentence encoder")
    check_folder(arguments.index)
    if isinstance(passages, str):  # A mistake in its columns is found before the model is loaded.
        next(data.read_passages(passages, arguments.text_column))


def _check_changes(arguments):
    """Raises an error for passages that cannot be read, before the model is loaded."""
    if arguments.add:
        next(data.read_passages(arguments.add, arguments.text_column))
    if arguments.remove_file and not arguments.removed:
        raise ValueError(f"{arguments.remove_file}: there is no id")


def main(arguments):
    passages, queries, relevance = arguments.sources
    if passages is None:
        index = keras_bert.search.open_index(arguments.index, arguments.model)
        _change_index(arguments, index)
    else:
        index = _build_index(arguments, passages)
    if queries:
        _search(arguments, index, queries, relevance)
    elif not arguments.changes:
        search = command.spelling("search")
        command.print_next(f'{search} --index={shlex.quote(arguments.index)} --query="..."')


def _search(arguments, index, queries, relevance):
    """Writes or prints the hits of queries, and the scores if it is known which passages are relevant."""
    if relevance:
        warn_of_unknown(index, queries, relevance)
    depth = arguments.depth
    options = {}
    if arguments.rerank:
        depth = arguments.rerank_top
        options["cross_encoder"] = keras_bert.load(arguments.rerank)
        options["label"] = arguments.rerank_label
    rankings = {}
    rankings_before = {}  # Without reranking, by similarity.
    with _writer(arguments, len(queries) > 1, relevance) as write:
        for query, hits in ask(index, queries, depth, arguments.batch_size, **options):
            write(query, hits[: arguments.n_best])
            rankings[query.id] = _ids(hits)
            if arguments.rerank:
                by_similarity = sorted(hits, key=lambda hit: -hit["similarity"])
                rankings_before[query.id] = _ids(by_similarity)
    if arguments.output:
        print(f"wrote the passages of {len(queries):,} queries to {arguments.output}")
    if relevance:
        label = ""
        if rankings_before:
            print(f"before reranking: {metrics.evaluate(rankings_before, relevance, k=_DEPTH)}")
            label = "after reranking:  "
        print(f"{label}{metrics.evaluate(rankings, relevance, k=_DEPTH)}")


def _ids(hits):
    """Returns the ids of the hits that scores depend on."""
    return [hit["id"] for hit in hits[:_DEPTH]]


def _change_index(arguments, index):
    """Adds or removes passages, if that is wanted."""
    before = len(index)
    if arguments.add:
        with announced("loading the model"):
            _ = index.bert
        index.add(arguments.add, text_column=arguments.text_column, batch_size=arguments.batch_size)
        print(f"index:        {arguments.index}, {len(index) - before:,} added, {len(index):,} passages now")
    if arguments.removed:
        index.remove(arguments.removed)
        print(f"index:        {arguments.index}, {before - len(index):,} removed, {len(index):,} passages now")


def _build_index(arguments, passages):
    """Returns the index of passages, built with a model of which it stores the absolute path or the name."""
    with announced(f"loading {arguments.model}"):
        bert = keras_bert.load(arguments.model)
    name = arguments.model
    if os.path.exists(name):
        name = os.path.abspath(name)
    options = {option: getattr(arguments, option) for option in _BUILD}
    index = keras_bert.search.build_index(
        bert,
        passages,
        arguments.index,
        name=name,
        text_column=arguments.text_column,
        batch_size=arguments.batch_size,
        **options,
    )
    print(f"index:        {arguments.index}, {len(index):,} passages")
    return index


@contextlib.contextmanager
def _writer(arguments, several, relevance):
    """Yields a function that writes a query and its hits: to the file, or to read; nothing for scores alone."""
    if arguments.output:
        with (
            replacing(arguments.output) as temporary,
            open(temporary, "w", encoding="utf-8", errors="replace") as file,
        ):
            yield lambda query, hits: print(json_line(query, hits), file=file)
    elif relevance:
        yield lambda query, hits: None
    else:
        yield functools.partial(_print_hits, several)


def _print_hits(several, query, hits):
    """Prints the hits of a query, below its text if there are several queries."""
    lines = [readable(hit) for hit in hits]
    if several:
        lines.insert(0, query.text)
    print(*lines, sep="\n", flush=True)


if __name__ == "__main__":
    command.run(__doc__, Arguments, main, check, resumes=True)
